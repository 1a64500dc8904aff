//! How tables write down what they found.

use std::path::Path;

use super::options::{Item, Place};
use super::{Deed, Inner, Invocation, Meaning, On};
use crate::Span;
use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind, More, OpaqueReason};

/// How many lines of one text are followed; a person types a few.
const MAX_LINES: usize = 32;

impl Meaning {
    /// Notes an effect.
    pub(super) fn does(&mut self, kind: EffectKind, on: On) {
        let deed = Deed { kind, on };
        if self.deeds.last() != Some(&deed) {
            self.deeds.push(deed);
        }
    }

    /// Notes that a path is read.
    pub(super) fn reads(&mut self, on: On) {
        self.does(EffectKind::Read, on);
    }

    /// Notes that a path is written.
    pub(super) fn writes(&mut self, on: On) {
        self.does(EffectKind::Write, on);
    }

    /// Says that the table knows what every argument is.
    pub(super) fn whole(self) -> Self {
        Meaning { whole: true, ..self }
    }

    /// Notes a departure, once for each argument.
    pub(super) fn departs(&mut self, kind: DepartureKind, at: usize) {
        if self.departures.last() != Some(&(kind, at)) {
            self.departures.push((kind, at));
        }
    }

    /// Notes that an argument hides what happens.
    pub(super) fn hides(&mut self, reason: OpaqueReason, at: Option<usize>) {
        if self.opaque.last() != Some(&(reason, at)) {
            self.opaque.push((reason, at));
        }
    }

    /// Notes a file that is run as a script.
    pub(super) fn runs_script(&mut self, on: On, at: usize) {
        self.does(EffectKind::Execute, on);
        self.hides(OpaqueReason::Script, Some(at));
    }

    /// Notes a command that runs here, with the outer standard input.
    pub(super) fn runs(&mut self, argv: &[Arg], more: More) {
        if argv.is_empty() && more == More::Nothing {
            return;
        }
        self.inner.push(Inner::Argv {
            argv: argv.to_vec(),
            more,
            environment: Vec::new(),
            keeps_input: true,
            directory: None,
            elsewhere: false,
        });
    }

    /// Notes a command that runs here without the outer standard input.
    pub(super) fn runs_detached(&mut self, argv: Vec<Arg>, more: More) {
        self.inner.push(Inner::Argv {
            argv,
            more,
            environment: Vec::new(),
            keeps_input: false,
            directory: None,
            elsewhere: false,
        });
    }

    /// Notes a command that runs on another host, in a container or under another root.
    pub(super) fn runs_elsewhere(&mut self, argv: &[Arg]) {
        if argv.is_empty() {
            return;
        }
        self.inner.push(Inner::Argv {
            argv: argv.to_vec(),
            more: More::Nothing,
            environment: Vec::new(),
            keeps_input: true,
            directory: None,
            elsewhere: true,
        });
    }

    /// Notes text that a shell reads.
    pub(super) fn runs_text(&mut self, text: Arg, shell: &str) {
        self.inner.push(Inner::Shell {
            text,
            shell: shell.to_owned(),
            parameters: Vec::new(),
            elsewhere: false,
        });
    }

    /// Notes the lines of a text that a program hands to a shell: the function gives what of a line that is.
    pub(super) fn runs_lines(&mut self, text: &Arg, command: impl Fn(&str) -> Option<&str>) {
        let known = text.parts.iter().filter_map(|part| match part {
            ArgPart::Known(known) => Some(known.lines()),
            ArgPart::Glob(_) | ArgPart::Unknown => None,
        });
        let commands = known.flatten().filter_map(|line| command(line.trim_end())).map(str::trim);
        for command in commands.filter(|command| !command.is_empty()).take(MAX_LINES) {
            self.runs_text(Arg::known(command, text.span), "sh");
        }
    }

    /// Notes an option that names a program: a single word or a text with arguments.
    pub(super) fn runs_program(&mut self, args: &[Arg], place: Place) {
        self.departs(DepartureKind::Program, place.option);
        match place.value(args) {
            Some(program) => self.runs_detached(vec![program], More::Anything),
            None => self.hides(OpaqueReason::UnknownProgram, Some(place.option)),
        }
    }

    /// Notes an option that holds text for a shell.
    pub(super) fn runs_option_text(&mut self, args: &[Arg], place: Place) {
        self.departs(DepartureKind::Program, place.option);
        match place.value(args) {
            Some(text) => self.runs_text(text, "sh"),
            None => self.hides(OpaqueReason::UnknownText, Some(place.option)),
        }
    }

    /// Notes an option that names a file to write.
    pub(super) fn writes_option(&mut self, args: &[Arg], place: Place) {
        if place.text(args).is_some_and(is_stream) {
            return;
        }
        self.departs(DepartureKind::Output, place.option);
        self.writes(place.on(args));
    }

    /// Notes what the items of a program with dangerous options leave open: unknown options, and arguments that may
    /// turn out to be options.
    pub(super) fn notes_doubts(&mut self, items: &[Item], invocation: &Invocation<'_>) {
        self.notes_unknown(items);
        for item in items {
            match item {
                Item::Maybe(at) | Item::Open(at) => self.departs(DepartureKind::PossibleOption, *at),
                // Versions of a program differ on which options take the next argument.
                Item::Value(name, place)
                    if !matches!(*name, "e" | "regexp")
                        && place.arg != place.option
                        && invocation.args.get(place.arg).is_some_and(looks_like_option) =>
                {
                    self.departs(DepartureKind::PossibleOption, place.arg);
                }
                _ => {}
            }
        }
        let ended = items.iter().any(|item| matches!(item, Item::End(_)));
        if invocation.more == More::Anything && !ended {
            self.departs(DepartureKind::PossibleOption, invocation.args.len());
        }
    }

    /// Notes options that a table does not have, and values that may bring the name of a program along.
    pub(super) fn notes_unknown(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Unknown(at) => self.departs(DepartureKind::UnknownOption, *at),
                Item::Stray(at) => self.departs(DepartureKind::Program, *at),
                _ => {}
            }
        }
    }
}

impl Invocation<'_> {
    /// The text of an argument, if it is there and certain.
    pub(super) fn text(&self, at: usize) -> Option<&str> {
        self.args.get(at)?.text()
    }

    /// Whether a directory that an option names lies outside the workspace, or may do so.
    pub(super) fn leads_outside(&self, directory: Option<&str>) -> bool {
        let Some(directory) = directory else { return true };
        if directory.starts_with('/') {
            return !crate::walk::normal(Path::new(directory)).starts_with(self.workspace);
        }
        self.outside || directory.starts_with('~') || directory.split('/').any(|part| part == "..")
    }

    /// The arguments from one on.
    pub(super) fn from(&self, at: usize) -> &[Arg] {
        self.args.get(at..).unwrap_or_default()
    }
}

/// Whether an argument is written like an option: a dash or two, and a letter.
fn looks_like_option(arg: &Arg) -> bool {
    let known = arg.prefix();
    let name = known.strip_prefix("--").or_else(|| known.strip_prefix('-'));
    name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
}

/// Whether a path is a stream that the process has anyway, or nothing.
pub(super) fn is_stream(path: &str) -> bool {
    matches!(path, "-" | "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty")
        || path
            .strip_prefix("/dev/fd/")
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Arguments joined by blanks, as programs do that hand them to a shell.
pub(super) fn joined(args: &[Arg]) -> Option<Arg> {
    let span = args.iter().map(|arg| arg.span).reduce(Span::to)?;
    let mut parts: Vec<ArgPart> = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            push_text(&mut parts, " ");
        }
        for part in &arg.parts {
            match part {
                ArgPart::Known(text) => push_text(&mut parts, text),
                // What a pattern matches is not known.
                ArgPart::Glob(_) | ArgPart::Unknown => parts.push(ArgPart::Unknown),
            }
        }
    }
    Some(Arg { parts, span, splits: false })
}

fn push_text(parts: &mut Vec<ArgPart>, text: &str) {
    match parts.last_mut() {
        Some(ArgPart::Known(last)) => last.push_str(text),
        _ => parts.push(ArgPart::Known(text.to_owned())),
    }
}
