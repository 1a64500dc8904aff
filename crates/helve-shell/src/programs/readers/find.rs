//! `find`: starting points, then an expression of tests and actions.

mod narrowing;

use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::{brings_option, may_hide_option};
use crate::programs::{Invocation, Meaning, On};
use narrowing::Tests;

/// Options and tests without an argument, operators included.
const ALONE: &[&str] = &[
    "(",
    ")",
    "!",
    ",",
    "-a",
    "-and",
    "-o",
    "-or",
    "-not",
    "-daystart",
    "-depth",
    "-d",
    "-follow",
    "-help",
    "--help",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
    "-mount",
    "-xdev",
    "-x",
    "-nowarn",
    "-warn",
    "-noleaf",
    "-version",
    "--version",
    "-empty",
    "-executable",
    "-readable",
    "-writable",
    "-nogroup",
    "-nouser",
    "-false",
    "-true",
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
];

/// Options and tests with one argument.
const WITH_ARGUMENT: &[&str] = &[
    "-maxdepth",
    "-mindepth",
    "-regextype",
    "-amin",
    "-anewer",
    "-atime",
    "-cmin",
    "-cnewer",
    "-context",
    "-ctime",
    "-fstype",
    "-gid",
    "-group",
    "-ilname",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-iwholename",
    "-links",
    "-lname",
    "-mmin",
    "-mtime",
    "-name",
    "-newer",
    "-path",
    "-perm",
    "-regex",
    "-samefile",
    "-size",
    "-type",
    "-uid",
    "-used",
    "-user",
    "-wholename",
    "-xtype",
    "-printf",
    "-Bmin",
    "-Btime",
    "-flags",
];

/// What `find` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let mut at = leading_options(invocation, &mut meaning);
    let first = at;
    while at < args.len() && !starts_expression(invocation, at) {
        if may_hide_option(&args[at]) {
            meaning.departs(DepartureKind::PossibleOption, at);
        }
        meaning.reads(On::Arg(at));
        at += 1;
    }
    let starts = &args[first..at];
    if starts.is_empty() && invocation.more == More::Nothing {
        meaning.reads(On::Path(".".to_owned(), None));
    }
    let mut expression = Expression {
        invocation,
        meaning,
        starts,
        first,
        tests: Tests::default(),
        shallow: false,
        choices: false,
        name: None,
        deletes: None,
        deletes_all: false,
        commands: 0,
    };
    expression.read(at);
    expression.finish()
}

/// `-H`, `-L`, `-P`, `-O3`, `-D tree`, BSD's `-E`, `-X`, `-s`; gives the index of the first argument behind them.
fn leading_options(invocation: &Invocation<'_>, meaning: &mut Meaning) -> usize {
    let mut at = 0;
    while let Some(text) = invocation.text(at) {
        match text {
            "-H" | "-L" | "-P" | "-E" | "-X" | "-s" | "-x" | "-d" | "--" => at += 1,
            "-D" => {
                note_value(invocation, meaning, at + 1);
                at += 2;
            }
            "-f" if at + 1 < invocation.args.len() => {
                meaning.reads(On::Arg(at + 1));
                note_value(invocation, meaning, at + 1);
                at += 2;
            }
            _ if text.starts_with("-O") || text.starts_with("-D") => at += 1,
            _ => break,
        }
    }
    at.min(invocation.args.len())
}

/// A value that may bring parts of the expression along.
fn note_value(invocation: &Invocation<'_>, meaning: &mut Meaning, at: usize) {
    if invocation.args.get(at).is_some_and(brings_option) {
        meaning.departs(DepartureKind::PossibleOption, at);
    }
}

fn starts_expression(invocation: &Invocation<'_>, at: usize) -> bool {
    let prefix = invocation.args[at].prefix();
    (prefix.starts_with('-') && prefix != "-") || matches!(invocation.text(at), Some("(" | ")" | "!" | ","))
}

struct Expression<'a> {
    invocation: &'a Invocation<'a>,
    meaning: Meaning,
    starts: &'a [Arg],
    /// The index of the first starting point.
    first: usize,
    /// What the tests before an action say about what it is done to.
    tests: Tests,
    /// Whether it looks at one level only.
    shallow: bool,
    /// Whether there are alternatives or negations, so that a name does not hold for all that is found.
    choices: bool,
    /// The pattern of the first `-name`.
    name: Option<String>,
    /// Where it deletes, and whether nothing narrows down what.
    deletes: Option<usize>,
    deletes_all: bool,
    /// How many commands were followed.
    commands: usize,
}

/// How many commands of one expression are followed; a person types a few.
const MAX_COMMANDS: usize = 32;

/// How many starting points, and how long, are worth a list of paths below them.
const MAX_STARTS: usize = 16;
const MAX_START_LENGTH: usize = 512;

/// How often `{}` in one command stands for that list.
const MAX_MARKS: usize = 4;

impl Expression<'_> {
    fn read(&mut self, mut at: usize) {
        let args = self.invocation.args;
        // Names come first, so that a command behind them knows what it gets.
        self.look_for_names(at);
        while at < args.len() {
            let Some(text) = self.invocation.text(at) else {
                self.meaning.departs(DepartureKind::PossibleOption, at);
                at += 1;
                continue;
            };
            self.tests.note(text, self.invocation.text(at + 1), at + 1 < args.len());
            at += match text {
                "-exec" | "-execdir" | "-ok" | "-okdir" => self.command(at),
                "-delete" => {
                    self.meaning.departs(DepartureKind::Change, at);
                    self.deletes = Some(at);
                    self.deletes_all |= self.finds_all();
                    1
                }
                "-fprint" | "-fprint0" | "-fls" => self.output(at, 2),
                "-fprintf" => self.output(at, 3),
                "-files0-from" => {
                    if at + 1 < args.len() && self.invocation.text(at + 1) != Some("-") {
                        self.meaning.reads(On::Arg(at + 1));
                    }
                    note_value(self.invocation, &mut self.meaning, at + 1);
                    2
                }
                // On BSD, a depth may be given.
                "-depth" | "-d" if self.invocation.text(at + 1).is_some_and(is_number) => 2,
                _ if ALONE.contains(&text) => 1,
                _ if WITH_ARGUMENT.contains(&text) || is_newer_than(text) => {
                    note_value(self.invocation, &mut self.meaning, at + 1);
                    2
                }
                _ => {
                    self.meaning.departs(DepartureKind::UnknownOption, at);
                    1
                }
            };
        }
        if self.invocation.more == More::Anything {
            self.meaning.departs(DepartureKind::PossibleOption, args.len());
        }
    }

    /// What tests say about all that is found.
    fn look_for_names(&mut self, at: usize) {
        let mut texts = (at..self.invocation.args.len()).map(|index| (index, self.invocation.text(index)));
        while let Some((_, text)) = texts.next() {
            match text {
                Some("-exec" | "-execdir" | "-ok" | "-okdir") => {
                    texts.find(|(_, text)| matches!(text, Some(";" | "+")));
                }
                Some("-o" | "-or" | "-not" | "!" | ",") => self.choices = true,
                Some("-maxdepth") => {
                    let depth = texts.next().and_then(|(_, value)| value);
                    self.shallow = depth == Some("1");
                    self.tests.everywhere |= depth == Some("0");
                }
                Some("-name" | "-iname") if self.name.is_none() => {
                    self.name = texts.next().and_then(|(_, value)| value).map(str::to_owned);
                }
                _ => {}
            }
        }
    }

    /// Whether nothing narrows down what the action here is done to; the files of one level are no tree.
    fn finds_all(&self) -> bool {
        !(self.tests.narrows() || self.shallow && self.tests.is_flat())
    }

    fn output(&mut self, at: usize, length: usize) -> usize {
        let file = at + 1;
        if !self.invocation.text(file).is_some_and(super::is_stream) {
            self.meaning.departs(DepartureKind::Output, at);
            let missing = file >= self.invocation.args.len();
            self.meaning.writes(if missing { On::Unknown(Some(at)) } else { On::Arg(file) });
        }
        length
    }

    /// `-exec COMMAND ;` or `-exec COMMAND {} +`; gives how many arguments it takes.
    fn command(&mut self, at: usize) -> usize {
        let args = self.invocation.from(at + 1);
        let ends = |index: &usize| match args[*index].text() {
            Some(";") => true,
            Some("+") => *index > 0 && args[*index - 1].text() == Some("{}"),
            _ => false,
        };
        let length = (0..args.len()).find(ends).unwrap_or(args.len());
        self.commands += 1;
        if self.commands > MAX_COMMANDS {
            self.meaning.hides(OpaqueReason::TooComplex, Some(at));
            return length + 2;
        }
        let here = matches!(self.invocation.text(at), Some("-execdir" | "-okdir"));
        let found = self.found(here);
        let (command, named) = with_paths(&args[..length], &found);
        if named && self.finds_all() && removes(&args[..length]) {
            self.deletes_all = true;
            self.deletes = self.deletes.or(Some(at));
        }
        let more = if length == args.len() { self.invocation.more } else { More::Nothing };
        let asks = matches!(self.invocation.text(at), Some("-ok" | "-okdir"));
        if asks && (!command.is_empty() || more != More::Nothing) {
            // Its standard input is for the answers.
            self.meaning.runs_detached(command, more);
        } else {
            self.meaning.runs(&command, more);
        }
        length + 2
    }

    /// What `{}` stands for: paths below each starting point.
    fn found(&self, in_directory: bool) -> Vec<Arg> {
        let pattern = match (&self.name, self.choices) {
            (Some(name), false) if name.len() <= MAX_START_LENGTH => format!("**/{name}"),
            _ => "**".to_owned(),
        };
        let span = self.invocation.args.first().map_or(crate::Span { start: 0, end: 0 }, |arg| arg.span);
        let below = |start: &Arg| {
            let mut parts = start.parts.clone();
            if !start.text().is_some_and(|text| text.ends_with('/')) {
                parts.push(ArgPart::Known("/".to_owned()));
            }
            parts.push(ArgPart::Glob(pattern.clone()));
            Arg { parts: merged(parts), span: start.span, splits: true }
        };
        let long = |start: &Arg| start.parts.len() > 8 || start.prefix().len() > MAX_START_LENGTH;
        if in_directory || self.starts.len() > MAX_STARTS || self.starts.iter().any(long) {
            let parts = vec![ArgPart::Known("./".to_owned()), ArgPart::Unknown];
            return vec![Arg { parts, span, splits: false }];
        }
        match self.starts {
            [] => vec![below(&Arg::known(".", span))],
            starts => starts.iter().map(below).collect(),
        }
    }

    fn finish(mut self) -> Meaning {
        let Some(at) = self.deletes else { return self.meaning };
        let kind = if self.deletes_all { EffectKind::DeleteTree } else { EffectKind::Delete };
        if self.starts.is_empty() {
            self.meaning.does(kind, On::Path(".".to_owned(), Some(at)));
        }
        for index in 0..self.starts.len() {
            self.meaning.does(kind, On::Arg(self.first + index));
        }
        self.meaning
    }
}

/// Whether a command deletes what it is given.
fn removes(command: &[Arg]) -> bool {
    let names = command.iter().map(|word| word.text().and_then(|text| text.rsplit('/').next()));
    let wraps =
        |name: &Option<&str>| matches!(name, Some("sudo" | "doas" | "env" | "nice" | "command" | "busybox"));
    let name = names.take(4).find(|name| !wraps(name)).flatten();
    matches!(name, Some("rm" | "unlink" | "shred" | "srm" | "wipe" | "grm"))
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// `-newerXY`.
fn is_newer_than(text: &str) -> bool {
    text.strip_prefix("-newer")
        .is_some_and(|rest| rest.len() == 2 && rest.bytes().all(|byte| b"aBcmt".contains(&byte)))
}

/// A command with what `{}` stands for in its place, and whether it held any. An argument that is `{}` becomes all of
/// them; inside a longer argument what stands there is not known. Without paths, nothing is known of them but that they
/// are paths.
pub(super) fn with_paths(command: &[Arg], paths: &[Arg]) -> (Vec<Arg>, bool) {
    let mut named = false;
    let mut marks = 0;
    let mut argv = Vec::with_capacity(command.len());
    for arg in command {
        if arg.text() == Some("{}") && !paths.is_empty() && marks < MAX_MARKS {
            named = true;
            marks += 1;
            argv.extend(paths.iter().cloned());
            continue;
        }
        let mut parts = Vec::new();
        for part in &arg.parts {
            match part {
                ArgPart::Known(text) if text.contains("{}") => {
                    named = true;
                    for (index, known) in text.split("{}").enumerate() {
                        if index > 0 {
                            parts.push(ArgPart::Unknown);
                        }
                        if !known.is_empty() {
                            parts.push(ArgPart::Known(known.to_owned()));
                        }
                    }
                }
                _ => parts.push(part.clone()),
            }
        }
        argv.push(Arg { parts, span: arg.span, splits: arg.splits });
    }
    (argv, named)
}

/// Neighbouring known parts joined to one.
fn merged(parts: Vec<ArgPart>) -> Vec<ArgPart> {
    let mut result: Vec<ArgPart> = Vec::with_capacity(parts.len());
    for part in parts {
        match (result.last_mut(), part) {
            (Some(ArgPart::Known(last)), ArgPart::Known(text)) => last.push_str(&text),
            (_, part) => result.push(part),
        }
    }
    result
}
