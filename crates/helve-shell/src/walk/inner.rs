//! Commands inside commands: an argv behind a wrapper, a text for a shell, code for an interpreter.

use std::path::Path;

use crate::Span;
use crate::analysis::{Arg, ArgPart, EffectKind, Input, More, OpaqueReason, RunKind, Target};
use crate::expand::Text;
use crate::programs::{Inner, Meaning, code};
use crate::tree::{Dialect, Script};

use super::directory::Directory;
use super::environment::{Parameters, Value, Variable};
use super::runs::Start;
use super::spans::Origin;
use super::{Feed, Flow, MAX_INNER, Walker, downloads, names, variables};

/// What stands for text that is not known, a variable that never is, when a text with such parts is read.
pub(super) const HOLE: &str = "${_}";

impl Walker<'_> {
    /// Follows what a program starts in turn; gives what the last one prints.
    pub(super) fn inner_commands(
        &mut self,
        meaning: Meaning,
        start: &Start,
        base: &str,
        run: Option<usize>,
    ) -> Option<Flow> {
        if meaning.inner.is_empty() {
            return None;
        }
        if self.inner >= MAX_INNER {
            self.opaque(OpaqueReason::TooComplex);
            return None;
        }
        self.inner += 1;
        self.via.push(base.to_owned());
        let mut last = None;
        for inner in meaning.inner {
            if !self.step(1) {
                break;
            }
            last = match inner {
                Inner::Argv { argv, more, environment, keeps_input, directory, elsewhere } => {
                    let mut feed = if keeps_input { start.feed.clone() } else { Feed::inherited() };
                    if more != More::Nothing {
                        feed.flow.paths &= names::divides_at_nul(base, &start.argv[1..]);
                    }
                    let fed = downloads::repeats(base) && start.feed.flow.download;
                    if let Some(name) = argv.first().filter(|name| fed && name.text().is_none()) {
                        // What is read takes the place of a word that is written out.
                        let written = |arg: &Arg| arg.span == name.span && arg.text().is_some();
                        if start.argv.iter().any(written) {
                            self.tainted.push(name.span);
                        }
                    }
                    let drops = elsewhere || names::drops_variables(base, &start.argv[1..]);
                    let mut all = start.environment.clone();
                    let lost = if drops { all.len() } else { start.lost };
                    all.extend(environment);
                    let inner = Start {
                        argv,
                        environment: all,
                        lost,
                        feed,
                        more,
                        effects: Vec::new(),
                        departures: Vec::new(),
                        taint: start.taint || fed,
                        wild: start.wild,
                        captures: start.captures,
                        shell: false,
                        functions: false,
                    };
                    Some(self.inner_argv(inner, directory.as_ref(), elsewhere, drops))
                }
                Inner::Shell { text, shell, parameters, elsewhere } => {
                    self.downloaded_text(&text, start.taint, run);
                    let drops = elsewhere || names::drops_variables(base, &start.argv[1..]);
                    let mark = self.environment.mark();
                    if drops {
                        self.leaves_variables(true);
                    }
                    self.given_variables(start, if drops { start.environment.len() } else { start.lost });
                    let flow = self.shell_script(&text, &shell, &parameters, elsewhere, &start.feed);
                    self.environment.take_back(mark);
                    Some(flow)
                }
                Inner::Code { language, text } => {
                    self.downloaded_text(&text, start.taint, run);
                    self.code(language, &text, run);
                    None
                }
            };
        }
        self.via.pop();
        self.inner -= 1;
        last
    }

    /// The variables in front of a program that is a shell are variables of what it reads. What they do to it was noticed
    /// before; a shell sets its own by itself. So many of them, from the first, may not reach it.
    fn given_variables(&mut self, start: &Start, lost: usize) {
        for (index, (name, value)) in start.environment.iter().enumerate() {
            // One that the script exported is there already.
            let own = name == "IFS" || variables::is_shells_own(name) || value.span == self.current;
            if !own && crate::expand::is_name(name) {
                let text = Text::of(value);
                let wild = start.wild && text.whole().is_none();
                let mut variable = Variable { exported: true, wild, ..Variable::new(Value::Text(text)) };
                if index < lost {
                    variable.values.push(Value::Unset);
                }
                self.environment.set(name, variable);
            }
        }
    }

    /// Another process is started, which gets none of the variables that are not exported, unless the shell was started
    /// with them; perhaps none of all.
    fn leaves_variables(&mut self, all: bool) {
        if self.step(self.environment.size() / 16) {
            let names = self.environment.left_behind(all);
            if self.step(names.len() / 2) {
                names.iter().for_each(|name| self.environment.leave(name));
            }
        }
    }

    fn inner_argv(&mut self, start: Start, directory: Option<&Arg>, elsewhere: bool, drops: bool) -> Flow {
        if start.argv.is_empty() {
            // Only what is added names the program.
            let mut named = start;
            if named.more == More::Nothing {
                return Flow::default();
            }
            if named.feed.flow.download {
                self.runs_download(None);
            }
            named.argv.push(Arg::unknown(self.current));
            return self.program(named, RunKind::Program);
        }
        let outer = self.elsewhere;
        self.elsewhere |= elsewhere;
        let mark = self.environment.mark();
        if drops {
            self.leaves_variables(true);
        }
        if let Some(directory) = directory {
            let changed = match directory.text() {
                Some(text) => self.environment.directory().changed_physically(Path::new(text), true),
                None => Directory::unknown(),
            };
            self.environment.change_directory(changed);
        }
        let flow = self.start(start);
        self.environment.take_back(mark);
        self.elsewhere = outer;
        flow
    }

    /// Says so if a text that a shell runs comes from a network: all of it, not a word somewhere in it.
    pub(super) fn downloaded_text(&mut self, text: &Arg, taint: bool, run: Option<usize>) {
        if taint && matches!(text.parts.first(), Some(ArgPart::Unknown)) {
            self.runs_download(run);
        }
    }

    /// Follows a text that another shell reads.
    pub(super) fn shell_script(
        &mut self,
        text: &Arg,
        shell: &str,
        parameters: &[Arg],
        elsewhere: bool,
        feed: &Feed,
    ) -> Flow {
        if self.inner >= MAX_INNER {
            self.opaque_at(OpaqueReason::TooComplex, text.span);
            return Flow::default();
        }
        let Some((written, origin)) = self.readable(text) else { return Flow::default() };
        if matches!(shell, "fish" | "csh" | "tcsh") {
            self.opaque_at(OpaqueReason::UnknownText, text.span);
        }
        let mut scripts: Vec<(Dialect, Script)> = Vec::new();
        for dialect in names::dialects(shell) {
            let script = crate::parse(&written, *dialect);
            // A shell that cannot read the text runs none of it, and where both read the same one is enough.
            if script.fault.is_some() && !scripts.is_empty() {
                continue;
            }
            if scripts.iter().all(|(_, other)| *other != script) || written.contains('{') {
                scripts.push((*dialect, script));
            }
        }
        self.repeated |= scripts.len() > 1;
        let zero = match parameters.first() {
            Some(zero) => Text::of(zero),
            None => Text::known(shell),
        };
        let rest = super::simple::parameters(parameters.get(1..).unwrap_or_default());
        let wild = self.wild;
        let outer_elsewhere = self.elsewhere;
        self.elsewhere |= elsewhere;
        let pushed = self.via.last().is_none_or(|via| via != shell);
        if pushed {
            self.via.push(shell.to_owned());
        }
        self.inner += 1;
        let feed = match &feed.input {
            // What the shell itself was fed with is used up.
            Input::Text(fed) if fed == text => Feed::inherited(),
            _ => feed.clone(),
        };
        let mut flow = Flow::default();
        for (dialect, script) in scripts {
            let other = self.in_subshell(|walker| {
                let names = walker.environment.take_names();
                let mark = walker.environment.mark();
                let directory = walker.environment.directory().inherited();
                walker.environment.change_directory(directory);
                walker.leaves_variables(false);
                walker.errors_end = false;
                walker.environment.set_parameters(Parameters {
                    zero: zero.clone(),
                    rest: rest.clone(),
                    wild,
                });
                let outer = (walker.origin, walker.dialect);
                walker.origin = origin;
                walker.dialect = dialect;
                // A function that the new shell inherits may call itself through it.
                let inherits = walker.environment.exports_functions();
                let calls = if inherits { Vec::new() } else { std::mem::take(&mut walker.calls) };
                let flow = walker.script(&script, &feed, true);
                if !inherits {
                    walker.calls = calls;
                }
                (walker.origin, walker.dialect) = outer;
                walker.environment.take_back(mark);
                walker.environment.put_names(names);
                flow
            });
            flow.download |= other.download;
            flow.early |= other.early;
            flow.text = other.text;
        }
        self.inner -= 1;
        if pushed {
            self.via.pop();
        }
        self.elsewhere = outer_elsewhere;
        flow
    }

    /// Follows a text that the current shell reads: `eval`, traps, sourced text.
    pub(super) fn shell_text(&mut self, text: &Arg) -> Flow {
        if self.inner >= MAX_INNER {
            self.opaque_at(OpaqueReason::TooComplex, text.span);
            return Flow::default();
        }
        let Some((written, origin)) = self.readable(text) else { return Flow::default() };
        let script = crate::parse(&written, self.dialect);
        let outer = std::mem::replace(&mut self.origin, origin);
        let current = self.current;
        let choices = std::mem::take(&mut self.choices);
        self.inner += 1;
        let flow = self.script(&script, &Feed::inherited(), true);
        self.inner -= 1;
        self.choices = choices;
        self.current = current;
        self.origin = outer;
        flow
    }

    /// The text of an argument, with something in place of what is not known, and where it stands.
    fn readable(&mut self, text: &Arg) -> Option<(String, Origin)> {
        if !self.step(1 + Text::of(text).len() / 8) {
            return None;
        }
        if let Some(written) = text.text() {
            return Some((written.to_owned(), Origin::of(written, text, self.source)));
        }
        self.opaque_at(OpaqueReason::UnknownText, text.span);
        let mut written = String::new();
        for part in &text.parts {
            match part {
                ArgPart::Known(known) | ArgPart::Glob(known) => written.push_str(known),
                ArgPart::Unknown => written.push_str(HOLE),
            }
        }
        (written.trim() != HOLE).then_some((written, Origin::Whole(text.span)))
    }

    /// Text that stands as if between double quotes, such as a subscript that a builtin evaluates.
    pub(crate) fn double_quoted(&mut self, text: &str) {
        if self.inner >= MAX_INNER || !self.step(1 + text.len() / 8) {
            self.opaque(OpaqueReason::TooComplex);
            return;
        }
        // The body of a here-document is read exactly like that.
        let delimiter = "END_OF_DOUBLE_QUOTED_TEXT";
        if text.contains(delimiter) {
            self.opaque(OpaqueReason::Arithmetic);
            return;
        }
        let document = format!(": <<{delimiter}\n{text}\n{delimiter}\n");
        let arg = Arg::known(document, self.current);
        let before = self.runs.len();
        self.shell_text(&arg);
        // The `:` that carries the document is not part of the command.
        if let Some(at) = self.runs[before..].iter().rposition(|run| run.program.as_deref() == Some(":")) {
            let at = before + at;
            if at + 1 == self.runs.len() {
                self.runs.pop();
            }
        }
    }

    /// Code in another language: opaque, with what it plainly says.
    fn code(&mut self, language: &str, text: &Arg, run: Option<usize>) {
        let within = |span: Span| self.current.start <= span.start && span.end <= self.current.end;
        let said = self.opaque.iter().rev().take(8);
        if !said.into_iter().any(|opaque| opaque.reason == OpaqueReason::Code && within(opaque.span)) {
            self.opaque_at(OpaqueReason::Code, text.span);
        }
        let Some(written) = text.text().map(str::to_owned) else { return };
        if !self.step(1 + written.len() / 16) {
            return;
        }
        let origin = Origin::of(&written, text, self.source);
        let place = |range: &std::ops::Range<usize>| origin.map(Span { start: range.start, end: range.end });
        for deed in code::deeds(language, &written) {
            let span = place(&deed.range);
            match (deed.kind, deed.on) {
                (EffectKind::Connect, Some(host)) => {
                    self.effect(EffectKind::Connect, Target::Host(host), span, run)
                }
                (
                    kind @ (EffectKind::Power
                    | EffectKind::ForkBomb
                    | EffectKind::RunsDownload
                    | EffectKind::Device),
                    None,
                ) => {
                    self.effect(kind, Target::Machine, span, run);
                }
                (kind, Some(path)) => {
                    for target in self.written_targets(&path, None, kind != EffectKind::Read) {
                        self.placed_effect(kind, target, span, run);
                    }
                }
                (kind, None) => self.effect(kind, Target::Unknown, span, run),
            }
        }
        for line in code::shell_texts(language, &written) {
            let arg = Arg::known(line.text, place(&line.range));
            let shell = if language == "cmd" || language == "powershell" { "bash" } else { "sh" };
            self.shell_script(&arg, shell, &[], false, &Feed::inherited());
        }
    }
}
