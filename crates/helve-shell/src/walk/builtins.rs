//! What the shell does itself: commands that change its own state, and those that run other commands.

use crate::analysis::{Arg, ArgPart, EffectKind, OpaqueReason, RunKind};
use crate::expand::Text;

use super::environment::{Parameters, Value, Variable};
use super::runs::Start;
use super::{Flow, MAX_INNER, MAX_TRAPS, Walker, names};

impl Walker<'_> {
    /// Follows a builtin.
    pub(super) fn builtin(&mut self, name: &str, start: Start) -> Flow {
        match name {
            "command" | "builtin" | "exec" => return self.passes_on(name, start),
            "eval" | "." | "source" | "trap" => return self.runs_text(name, start),
            "printf" | "echo" | "pwd" | "test" | "[" | "kill" | ":" | "true" | "false" | "type" | "wait"
            | "jobs" | "ulimit" | "umask" | "times" | "fg" | "bg" | "history" | "help" => {
                self.subscripts(name, &start.argv[1..]);
                return self.program(start, RunKind::Builtin);
            }
            _ => {}
        }
        let run = self.list(&start, RunKind::Builtin, Some(name.to_owned()));
        self.redirect_effects(start.effects.clone(), run);
        let args = &start.argv[1..];
        match name {
            "cd" | "chdir" | "pushd" => self.changes_directory(name, &start, run),
            "popd" | "dirs" => self.changes_stack(name, args),
            "shopt" => self.sets_shell_options(args),
            "export" | "declare" | "typeset" | "local" | "readonly" => self.declare(name, args),
            "unset" => self.unset(args),
            "read" => self.reads(args, &start),
            "mapfile" | "readarray" => self.reads_lines(args, &start),
            "getopts" => self.gets_options(args),
            "let" => {
                for arg in args {
                    let text = Text::literally(arg);
                    self.evaluate(&text);
                }
            }
            "set" => self.sets(args),
            "shift" => self.shifts(args),
            "alias" => self.aliases(args),
            "unalias" => {
                for arg in args.iter().filter_map(Arg::text) {
                    self.environment.define_alias(arg, None);
                }
            }
            "compgen" | "complete" => self.completes(args),
            "bind" => self.binds(args),
            "enable" | "hash" => {
                if name == "hash" {
                    self.hashes(args);
                }
                let harmless = args.is_empty() || args.iter().all(|arg| matches!(arg.text(), Some("-r" | "-a" | "-p") if name == "enable" || arg.text() == Some("-r")));
                let plain = name == "hash"
                    && args.iter().all(|arg| arg.text().is_some_and(|text| !text.starts_with('-')));
                if !harmless && !plain {
                    self.opaque(OpaqueReason::Redefinition);
                }
            }
            "fc" => {
                // It can be given a command to run; otherwise it only shows something.
                let given = |text: &str| text.starts_with('-') && text[1..].contains(['e', 's']);
                if args.iter().any(|arg| arg.text().is_none_or(given)) {
                    self.opaque(OpaqueReason::UnknownText);
                }
            }
            "break" | "continue" => {
                for index in 0..self.rounds.len() {
                    let mark = self.rounds[index].mark;
                    if self.step(self.environment.changes_since(mark)) {
                        let outcome = self.environment.look_back(mark);
                        self.rounds[index].exits.push(outcome);
                    }
                }
            }
            "exit" => self.ends_early(),
            "return" => {
                self.ends_early();
                if let Some(mark) = self.calls.last().map(|call| call.mark)
                    && self.step(self.environment.changes_since(mark))
                {
                    let outcome = self.environment.look_back(mark);
                    if let Some(call) = self.calls.last_mut() {
                        call.returns.push(outcome);
                    }
                }
            }
            _ => {}
        }
        Flow { text: start.captures.then(Text::default), run, ..Flow::default() }
    }

    /// A function that ends behind a test does not go on for ever.
    fn ends_early(&mut self) {
        let guarded = self.guarded;
        if let Some(call) = self.calls.last_mut() {
            call.ends |= guarded > call.guarded;
        }
    }

    /// `command`, `builtin`, `exec`: the same command without functions.
    fn passes_on(&mut self, name: &str, start: Start) -> Flow {
        let run = self.list(&start, RunKind::Builtin, Some(name.to_owned()));
        self.redirect_effects(start.effects.clone(), run);
        let mut at = 1;
        while let Some(arg) = start.argv.get(at) {
            let Some(option) = arg.text().filter(|text| text.len() > 1 && text.starts_with('-')) else {
                break;
            };
            at += 1;
            if option == "--" {
                break;
            }
            match name {
                "command" if option.contains(['v', 'V']) => return Flow { run, ..Flow::default() },
                "exec" if option.ends_with('a') => at += 1,
                _ => {}
            }
        }
        if at >= start.argv.len() {
            return Flow { run, ..Flow::default() };
        }
        if self.inner >= MAX_INNER {
            self.opaque(OpaqueReason::TooComplex);
            return Flow { run, ..Flow::default() };
        }
        let inner = Start {
            argv: start.argv[at..].to_vec(),
            effects: Vec::new(),
            departures: start.departures.clone(),
            shell: name != "exec",
            functions: false,
            ..start
        };
        self.inner += 1;
        self.via.push(name.to_owned());
        let flow = self.start(inner);
        self.via.pop();
        self.inner -= 1;
        flow
    }

    /// `eval`, `.`, `source`, `trap`: text that the shell itself runs.
    fn runs_text(&mut self, name: &str, start: Start) -> Flow {
        let run = self.list(&start, RunKind::Builtin, Some(name.to_owned()));
        self.redirect_effects(start.effects.clone(), run);
        let args = match start.argv.get(1).and_then(Arg::text) {
            Some("--") => &start.argv[2..],
            _ => &start.argv[1..],
        };
        let Some(first) = args.first() else { return Flow { run, ..Flow::default() } };
        let mut flow = Flow::default();
        let mut before = Vec::with_capacity(start.environment.len());
        for (variable, value) in &start.environment {
            before.push((variable, self.environment.own_variable(variable).cloned()));
            self.assign_at(variable, Variable::new(Value::Text(Text::of(value))), value.span);
        }
        match name {
            "eval" => {
                let text = joined(args);
                self.downloaded_text(&text, start.taint, run);
                self.via.push("eval".to_owned());
                flow = self.shell_text(&text);
                self.via.pop();
            }
            "trap" => {
                let plain = first.text().is_some_and(|text| {
                    text.is_empty() || text.starts_with('-') || text.bytes().all(|byte| byte.is_ascii_digit())
                });
                if !plain && args.len() > 1 {
                    if self.traps.len() < MAX_TRAPS {
                        self.traps.push((first.clone(), self.origin));
                    }
                    let mark = self.environment.mark();
                    self.shell_text(first);
                    self.environment.blur_since(mark);
                }
            }
            _ => match self.process_of(first) {
                Some(process) => {
                    if process.download {
                        self.runs_download(run);
                    }
                    match process.text {
                        Some(text) => flow = self.shell_text(&text.into_arg(first.span)),
                        None => self.opaque(OpaqueReason::UnknownText),
                    }
                }
                None if matches!(first.text(), Some("/dev/stdin" | "/dev/fd/0")) => {
                    if start.feed.flow.download {
                        self.runs_download(run);
                    }
                    match start.feed.flow.text.clone() {
                        Some(text) => flow = self.shell_text(&text.into_arg(first.span)),
                        None => self.opaque(OpaqueReason::UnknownText),
                    }
                }
                None => {
                    let reason =
                        if first.text().is_some() { OpaqueReason::Script } else { OpaqueReason::UnknownText };
                    self.opaque(reason);
                    for target in self.targets(first, 0, true) {
                        if self.is_downloaded(&target, first.span) {
                            self.runs_download(run);
                        }
                        if let Some(text) = self.written_text(&target) {
                            flow = self.shell_text(&text);
                        }
                        self.effect(EffectKind::Execute, target, first.span, run);
                    }
                }
            },
        }
        for (variable, value) in before {
            self.environment.restore(variable, value);
        }
        flow.run = run;
        flow
    }

    /// `set`: options, or new parameters.
    fn sets(&mut self, args: &[Arg]) {
        let mut at = 0;
        let mut certain = true;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.text() {
                Some("--") => return self.replaces_parameters(&args[at..], certain),
                Some("-") if at == args.len() => return,
                Some("-") => return self.replaces_parameters(&args[at..], certain),
                Some(group) if group.starts_with(['-', '+']) => {
                    let on = group.starts_with('-');
                    for letter in group[1..].chars() {
                        if letter != 'o' {
                            certain &= self.sets_option(names::option_of(letter), on);
                            continue;
                        }
                        // Without a name it lists them all.
                        let name = args.get(at).filter(|name| !name.prefix().starts_with(['-', '+']));
                        if let Some(name) = name {
                            at += 1;
                            certain &= self.sets_option(name.text(), on);
                        }
                    }
                }
                Some(_) => return self.replaces_parameters(&args[at - 1..], certain),
                None => return self.replaces_parameters(&args[at - 1..], certain && !arg.may_be_option()),
            }
        }
    }

    /// Sets an option of this name; says whether there certainly is one.
    fn sets_option(&mut self, name: Option<&str>, on: bool) -> bool {
        match name {
            // Behind a condition it may not be set at all.
            Some("errexit") => self.errors_end = on && (self.errors_end || self.conditional == 0),
            Some("physical") => self.follows_links |= on,
            Some("nounset") => self.unset_ends |= on,
            None => {
                self.errors_end &= on;
                self.unset_ends |= on;
            }
            Some(_) => {}
        }
        name.is_some_and(names::is_option)
    }

    /// `set` with new parameters; where an option is not certain, it may fail and leave those that there are.
    fn replaces_parameters(&mut self, args: &[Arg], certain: bool) {
        let before = self.environment.parameters().clone();
        self.set_parameters(args);
        if !certain {
            let now = self.environment.parameters();
            let wild = !(now.is_tame() && before.is_tame());
            self.environment.set_parameters(Parameters { zero: before.zero.clone(), rest: None, wild });
        }
    }

    fn set_parameters(&mut self, args: &[Arg]) {
        let rest = super::simple::parameters(args);
        let zero = self.environment.parameters().zero.clone();
        let wild = self.wild || args.iter().any(super::statements::holds_pattern);
        self.environment.set_parameters(Parameters { zero, rest, wild });
    }

    fn shifts(&mut self, args: &[Arg]) {
        let count = match args.first() {
            None => Some(1),
            Some(arg) => arg.text().and_then(|text| text.parse::<usize>().ok()),
        };
        let parameters = std::rc::Rc::clone(self.environment.parameters());
        let rest = match (&parameters.rest, count) {
            (Some(rest), Some(count)) => {
                if !self.step(rest.len() / 16) {
                    return;
                }
                Some(if count <= rest.len() { rest[count..].to_vec() } else { rest.clone() })
            }
            _ => None,
        };
        let (zero, wild) = (parameters.zero.clone(), parameters.wild);
        self.environment.set_parameters(Parameters { zero, rest, wild });
    }

    fn aliases(&mut self, args: &[Arg]) {
        for arg in args {
            let text = Text::literally(arg);
            match text.parts().first() {
                Some(ArgPart::Known(known)) if known.contains('=') => {
                    let (name, value) = known.split_once('=').unwrap_or((known, ""));
                    let value = if text.whole().is_some() { Text::known(value) } else { Text::unknown() };
                    let name = name.to_owned();
                    self.opaque(OpaqueReason::Redefinition);
                    self.environment.define_alias(&name, Some(value));
                }
                Some(ArgPart::Unknown) => self.opaque(OpaqueReason::Redefinition),
                _ => {}
            }
        }
    }
}

/// Arguments joined by spaces, as `eval` does.
fn joined(args: &[Arg]) -> Arg {
    if let [only] = args {
        return only.clone();
    }
    let mut text = Text::default();
    let mut span = args.first().map_or(crate::Span { start: 0, end: 0 }, |arg| arg.span);
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            text.push(" ");
        }
        text.append(&Text::of(arg));
        span = span.to(arg.span);
    }
    text.into_arg(span)
}
