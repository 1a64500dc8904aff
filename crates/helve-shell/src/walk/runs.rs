//! Programs: each is listed with what a table knows of it, and what it starts in turn is followed.

use std::path::Path;

use crate::analysis::{
    Arg, ArgPart, Departure, DepartureKind, EffectKind, Input, More, OpaqueReason, Run, RunKind, Target,
};
use crate::expand::Text;
use crate::programs::{self, Deed, Invocation, Meaning, On};
use crate::tree::Dialect;

use super::directory::lies_in;
use super::downloads::{self, reads_code};
use super::redirect::Pending;
use super::simple::base_name;
use super::spans::Origin;
use super::targets::cost;
use super::variables::{self, Weight};
use super::{Feed, Flow, MAX_INNER, MAX_RUNS, Walker, names, numbers, places, pure};

/// A departure is compared with so many before it.
const MAX_COMPARED: usize = 256;

/// A command that is about to be started.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// Name and arguments; the name is there.
    pub(super) argv: Vec<Arg>,
    /// The variables in front of it.
    pub(super) environment: Vec<(String, Arg)>,
    /// How many of them, from the first, may not reach it.
    pub(super) lost: usize,
    pub(super) feed: Feed,
    pub(super) more: More,
    /// Effects of its redirections.
    pub(super) effects: Vec<Pending>,
    pub(super) departures: Vec<Departure>,
    /// Whether an argument came from a network.
    pub(super) taint: bool,
    /// Whether what is not known of an argument may be anything.
    pub(super) wild: bool,
    /// Whether its output is of interest.
    pub(super) captures: bool,
    /// Whether the shell's own commands count, and its functions.
    pub(super) shell: bool,
    pub(super) functions: bool,
}

impl Walker<'_> {
    /// Lists a run; none if there are too many.
    pub(super) fn list(&mut self, start: &Start, kind: RunKind, program: Option<String>) -> Option<usize> {
        let run = self.reserve(start, kind, program)?;
        self.fill(Some(run), start.clone());
        Some(run)
    }

    /// Takes the place of a run whose arguments are still needed; [`Self::fill`] follows.
    fn reserve(&mut self, start: &Start, kind: RunKind, program: Option<String>) -> Option<usize> {
        if self.runs.len() >= MAX_RUNS {
            self.opaque(OpaqueReason::TooComplex);
            return None;
        }
        if !self.step(2) {
            return None;
        }
        let directory = match self.elsewhere {
            true => None,
            false => self.environment.directory().single().map(Path::to_path_buf),
        };
        self.runs.push(Run {
            program,
            argv: Vec::new(),
            kind,
            span: self.current,
            via: self.via.clone(),
            environment: Vec::new(),
            input: Input::Inherited,
            departures: start.departures.clone(),
            more: start.more,
            directory,
            understood: kind != RunKind::Program,
        });
        Some(self.runs.len() - 1)
    }

    /// Gives a run what it is started with.
    fn fill(&mut self, run: Option<usize>, start: Start) {
        if let Some(run) = run.and_then(|run| self.runs.get_mut(run)) {
            run.argv = start.argv;
            run.environment = start.environment;
            run.input = start.feed.input;
            run.more = start.more;
        }
    }

    /// Starts a program, or a builtin that needs nothing of the shell's own state.
    pub(super) fn program(&mut self, mut start: Start, kind: RunKind) -> Flow {
        if kind == RunKind::Program {
            self.exported_variables(&mut start);
        }
        let Some(name) = start.argv.first() else { return Flow::default() };
        let base = base_name(name);
        if name.text().is_none() {
            self.opaque(OpaqueReason::UnknownProgram);
            self.without_holes(&start);
        }
        let Some(base) = base else {
            let run = self.list(&start, kind, None);
            self.named_by_download(name, run);
            if kind == RunKind::Program {
                let invocation = self.invocation("", &start);
                self.may_read(programs::unsaid(&invocation, None), invocation.args, run);
            }
            self.redirect_effects(std::mem::take(&mut start.effects), run);
            return Flow { download: start.feed.flow.download || start.taint, run, ..Flow::default() };
        };
        let run = self.reserve(&start, kind, Some(base.clone()));
        let effects = std::mem::take(&mut start.effects);
        self.redirect_effects(effects, run);
        self.executed_file(&start.argv, run);
        self.checked_environment(&base, &start, run);
        self.known_more(&mut start);
        let invocation = self.invocation(&base, &start);
        let meaning = programs::understand(&invocation);
        if let (Some(run), true) = (run, meaning.is_some()) {
            self.runs[run].understood = true;
        }
        if kind == RunKind::Program {
            let unsaid = programs::unsaid(&invocation, meaning.as_ref());
            self.may_read(unsaid, &start.argv[1..], run);
        }
        let meaning = meaning.unwrap_or_default();
        self.meant(&meaning, &start, &base, run);
        self.fed_code(&base, &start, run);
        self.downloaded_code(&base, &start, run);
        let inside = self.inner_commands(meaning, &start, &base, run);
        if kind == RunKind::Program {
            self.in_order(&start, &base, run);
        }
        self.renamed(&base, &start.argv[1..]);
        let flow = self.output(&base, &start, run, inside);
        self.fill(run, start);
        flow
    }

    /// Variables that the script exports reach every program.
    fn exported_variables(&mut self, start: &mut Start) {
        let mut exported: Vec<(String, Arg)> = Vec::new();
        for name in self.environment.exported() {
            if let Some(variable) = self.environment.variable(name) {
                // Where it is not set, it does nothing.
                let mut values = variable.values.iter().filter(|value| **value != super::Value::Unset);
                let text = match (values.next(), values.next()) {
                    (Some(super::Value::Text(text)), None) => text.clone(),
                    _ => Text::unknown(),
                };
                exported.push((name.clone(), text.into_arg(self.current)));
            }
        }
        if self.environment.exports_more() {
            self.opaque(OpaqueReason::Environment);
        }
        if !exported.is_empty() && self.step(exported.len()) {
            start.lost += if start.lost > 0 { exported.len() } else { 0 };
            exported.append(&mut start.environment);
            start.environment = exported;
        }
    }

    /// A name with a hole may come out without anything in the hole: `r${nothing}m`.
    fn without_holes(&mut self, start: &Start) {
        let Some(name) = start.argv.first() else { return };
        let mut whole = String::new();
        for part in &name.parts {
            match part {
                ArgPart::Known(text) => whole.push_str(text),
                ArgPart::Unknown => {}
                ArgPart::Glob(_) => return,
            }
        }
        if whole.is_empty() || base_name(name).is_some() {
            return;
        }
        let mut filled = Start { effects: Vec::new(), captures: false, ..start.clone() };
        filled.argv[0] = Arg::known(whole, name.span);
        self.start(filled);
    }

    /// A program that is named by its path: one of the system, or a file that nobody has read.
    fn executed_file(&mut self, argv: &[Arg], run: Option<usize>) {
        let Some(name) = argv.first() else { return };
        match name.text() {
            Some(text) if text.contains('/') => {}
            Some(_) => return,
            None => return self.named_by_download(name, run),
        }
        for target in self.targets(name, 0, true) {
            if let Target::Path { path, inside, .. } = &target
                && !inside
                && places::is_system_program(&path.to_string_lossy())
            {
                continue;
            }
            self.opaque(OpaqueReason::Script);
            if self.is_downloaded(&target, name.span) || self.is_unpacked(&target) {
                self.runs_download(run);
            }
            self.follow_file(&target, "", argv);
            self.effect(EffectKind::Execute, target, name.span, run);
        }
    }

    fn checked_environment(&mut self, base: &str, start: &Start, run: Option<usize>) {
        for (name, value) in &start.environment {
            let text = Text::of(value);
            let mut weight = variables::weight(name, text.whole());
            if matches!(base, "make" | "gmake") && text.whole().is_none_or(|text| text.contains('$')) {
                // It expands what it finds there, commands and all.
                weight = Weight::Code;
            }
            if weight == Weight::Code && variables::is_command(name) && text.whole().is_some() {
                self.environment_command(name, value);
            }
            if matches!(name.as_str(), "BASH_ENV" | "ENV") && names::is_shell(base) {
                self.read_at_start(value, base, run);
            }
            // One that the script exported was noticed where it was set.
            let here = value.span != self.current;
            if name == "PATH" && here {
                self.opaque_at(OpaqueReason::Redefinition, value.span);
            } else if weight == Weight::Code && here {
                self.opaque_at(OpaqueReason::Environment, value.span);
            }
            if weight != Weight::Harmless {
                self.departs(run, DepartureKind::Environment, value.span);
            }
        }
    }

    /// A command that a program finds in its environment and may run.
    fn environment_command(&mut self, name: &str, command: &Arg) {
        // What such a command starts finds the variable, too.
        let inside = self.via.iter().any(|via| via == name);
        if inside || self.inner >= MAX_INNER || !self.step(4) {
            return;
        }
        self.inner += 1;
        self.via.push(name.to_owned());
        self.repeated = true;
        self.shell_script(command, "sh", &[], false, &Feed::inherited());
        self.via.pop();
        self.inner -= 1;
    }

    fn departs(&mut self, run: Option<usize>, kind: DepartureKind, span: crate::Span) {
        if let Some(run) = run.and_then(|run| self.runs.get_mut(run)) {
            let departure = Departure { kind, span };
            // They come in the order of the arguments, mostly.
            let is_known = |known: &Departure| *known == departure;
            if !run.departures.iter().rev().take(MAX_COMPARED).any(is_known) {
                run.departures.push(departure);
            }
        }
    }

    /// Whether the directory may be one that is not the workspace's.
    pub(super) fn is_outside(&self) -> bool {
        let directory = self.environment.directory();
        directory.is_unknown() || directory.possible().any(|path| !lies_in(path, self.setting.workspace))
    }

    /// Arguments that are read from standard input may be known to be paths.
    fn known_more(&mut self, start: &mut Start) {
        if start.feed.flow.paths && start.more == More::Anything {
            start.more = More::Paths;
        }
    }

    /// Writes down what a table says.
    pub(super) fn meant(&mut self, meaning: &Meaning, start: &Start, base: &str, run: Option<usize>) {
        let args = &start.argv[1..];
        let span_of = |at: Option<usize>| at.and_then(|at| args.get(at)).map(|arg| arg.span);
        for (kind, at) in &meaning.departures {
            self.departs(run, *kind, span_of(Some(*at)).unwrap_or(self.current));
        }
        for (reason, at) in &meaning.opaque {
            let arg = at.and_then(|at| args.get(at));
            if *reason == OpaqueReason::Script && arg.is_some_and(|arg| self.process_of(arg).is_some()) {
                // What the process substitution gives is looked at by itself.
                continue;
            }
            self.opaque_at(*reason, span_of(*at).unwrap_or(self.current));
        }
        let copied = downloads::copies(base)
            && (start.feed.flow.download || meaning.deeds.iter().any(|deed| self.reads_download(deed, args)));
        let fetched = downloads::fetches(base, args) || copied;
        for deed in &meaning.deeds {
            self.deed(deed, start, base, run, fetched);
        }
        if meaning.deeds.iter().any(|deed| deed.kind == EffectKind::Connect) {
            self.proxies(start, run);
        }
    }

    /// What connects does so through the proxies that variables name.
    fn proxies(&mut self, start: &Start, run: Option<usize>) {
        for (_, value) in start.environment.iter().filter(|(name, _)| variables::is_proxy(name)) {
            let target = match value.text() {
                Some("") => continue,
                text => text.and_then(programs::hosts::of_proxy).map_or(Target::Unknown, Target::Host),
            };
            self.effect(EffectKind::Connect, target, value.span, run);
        }
    }

    fn reads_download(&self, deed: &Deed, args: &[Arg]) -> bool {
        match &deed.on {
            On::Arg(at) if matches!(deed.kind, EffectKind::Read | EffectKind::Delete) => {
                args.get(*at).is_some_and(|arg| self.names_download(arg))
            }
            _ => false,
        }
    }

    fn deed(&mut self, deed: &Deed, start: &Start, base: &str, run: Option<usize>, fetched: bool) {
        let args = &start.argv[1..];
        let changes = deed.kind != EffectKind::Read;
        let current = self.current;
        let span_of = |at: &Option<usize>| at.and_then(|at| args.get(at)).map_or(current, |arg| arg.span);
        let (targets, span) = match &deed.on {
            On::Arg(at) | On::Tail(at, _) => {
                let Some(arg) = args.get(*at) else { return };
                let skip = if let On::Tail(_, skip) = &deed.on { *skip } else { 0 };
                if skip == 0 && self.process_of(arg).is_some() {
                    return;
                }
                self.tail_effects(deed.kind, arg, run);
                (self.targets(arg, skip, changes), arg.span)
            }
            On::Path(path, at) => (self.written_targets(path, None, changes), span_of(at)),
            On::Matching(before, pattern, at) => {
                (self.written_targets(before, Some(pattern), changes), span_of(at))
            }
            On::Host(host, at) => {
                self.effect(deed.kind, Target::Host(host.clone()), span_of(at), run);
                return;
            }
            On::Unknown(at) => {
                self.effect(deed.kind, Target::Unknown, span_of(at), run);
                return;
            }
            On::Machine => {
                self.effect(deed.kind, Target::Machine, current, run);
                return;
            }
        };
        for target in targets {
            if !self.step(cost(&target)) {
                return;
            }
            match &target {
                Target::Path { path, .. } if base == "mkfifo" => self.makes_pipe(path),
                _ if deed.kind != EffectKind::Write || !fetched => {}
                Target::Path { path, .. } => self.fetched_to(base, args, path),
                Target::Unknown => self.downloaded_to_unknown(span),
                _ => {}
            }
            if deed.kind == EffectKind::Execute {
                self.runs_from(&target);
                if self.is_downloaded(&target, span) || names::is_shell(base) && self.is_unpacked(&target) {
                    self.runs_download(run);
                }
                if let (On::Arg(at), true) = (&deed.on, names::is_shell(base)) {
                    self.follow_file(&target, base, args.get(*at..).unwrap_or_default());
                }
            }
            if let (EffectKind::Write, "tee", Target::Path { path, .. }) = (deed.kind, base, &target) {
                let appends = args.iter().any(|arg| arg.prefix().starts_with("-"));
                let (path, text) = (path.clone(), start.feed.flow.text.clone());
                self.wrote(&path, text.as_ref(), appends);
            }
            self.placed_effect(deed.kind, target, span, run);
        }
    }

    /// An interpreter that takes its program from standard input or from a process substitution.
    fn fed_code(&mut self, base: &str, start: &Start, run: Option<usize>) {
        let args = &start.argv[1..];
        let shell = names::is_shell(base);
        if let Some(flow) = args.iter().find_map(|arg| self.process_of(arg)) {
            if shell || reads_code(base, &[]) {
                if flow.download {
                    self.runs_download(run);
                }
                match (flow.text, shell) {
                    (Some(text), true) => {
                        let arg = text.into_arg(self.current);
                        self.shell_script(&arg, base, &[], false, &start.feed);
                    }
                    (None, true) => self.opaque(OpaqueReason::UnknownText),
                    (_, false) => self.opaque(OpaqueReason::Code),
                }
            }
            return;
        }
        if !reads_code(base, args) {
            return;
        }
        if start.feed.flow.download {
            self.runs_download(run);
        }
        match &start.feed.input {
            Input::Inherited => {}
            Input::Text(arg) if shell => {
                let mut arg = arg.clone();
                if let (Some(text), Some(_)) = (arg.text(), start.feed.flow.run) {
                    // Text that a pipe made out of something else belongs to the shell that runs it.
                    if matches!(Origin::of(text, &arg, self.source), Origin::Whole(_)) {
                        arg.span = self.current;
                    }
                }
                self.shell_script(&arg, base, &[], false, &Feed::inherited());
            }
            Input::File(arg) if shell => {
                self.opaque(OpaqueReason::Script);
                if arg.text().and_then(places::network).is_none() {
                    for target in self.targets(arg, 0, true) {
                        self.runs_from(&target);
                        self.follow_file(&target, base, &[]);
                        self.effect(EffectKind::Execute, target, arg.span, run);
                    }
                }
            }
            Input::Pipe(_) if shell => self.opaque(OpaqueReason::UnknownText),
            Input::Text(_) | Input::File(_) | Input::Pipe(_) => self.opaque(OpaqueReason::Code),
        }
    }

    /// What a program prints, as far as that can be told.
    fn output(&mut self, base: &str, start: &Start, run: Option<usize>, inside: Option<Flow>) -> Flow {
        let feed = &start.feed.flow;
        let mut flow = Flow {
            text: None,
            early: feed.early,
            download: downloads::fetches(base, &start.argv[1..]) || feed.download || start.taint,
            paths: names::prints_paths(base, &start.argv[1..], feed.paths),
            number: start.captures && numbers::prints(base, &start.argv[1..], feed.is_number(), start.wild),
            run,
        };
        if let Some(inside) = inside {
            flow.number = inside.number;
            flow.text = inside.text;
            flow.early |= inside.early;
            flow.download |= inside.download;
            return flow;
        }
        let size = feed.text.as_ref().map_or(0, Text::len);
        if start.captures && start.more == More::Nothing && self.step(size / 16) {
            let directory = self.environment.directory().certain();
            // Some shells' own `echo` decodes escapes, others' does not.
            let differs = base == "echo"
                && (self.dialect == Dialect::Posix
                    || self.via.iter().any(|via| matches!(via.as_str(), "sh" | "dash" | "ash")))
                && start.argv.iter().any(|arg| {
                    arg.parts.iter().any(|part| matches!(part, ArgPart::Known(text) if text.contains('\\')))
                });
            flow.text = if differs {
                None
            } else {
                pure::output(base, &start.argv[1..], feed.text.as_ref(), directory)
            };
            flow.number |= flow.text.is_some() && !start.wild;
        }
        flow.download |= start.argv[1..].iter().any(|arg| self.names_download(arg));
        flow
    }
}

impl<'a> Walker<'a> {
    /// What the tables are asked about a start.
    pub(super) fn invocation<'b>(&self, program: &'b str, start: &'b Start) -> Invocation<'b>
    where
        'a: 'b,
    {
        let workspace = self.setting.workspace;
        let below = self.environment.directory().single().and_then(|path| path.strip_prefix(workspace).ok());
        Invocation {
            program,
            args: start.argv.get(1..).unwrap_or_default(),
            input: &start.feed.input,
            more: start.more,
            outside: self.is_outside(),
            depth: below.map(|below| below.components().count()),
            workspace,
        }
    }
}
