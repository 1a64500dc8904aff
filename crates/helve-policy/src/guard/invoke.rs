//! Which programs a command starts, as far as its text says.
//!
//! In comes a command, out goes an [`Event`] for each program with its arguments, for each redirection, and for each
//! text that a shell will read. Programs that only start another (`sudo`, `env`, `timeout`, `xargs`, …) are seen
//! through; the texts given to `sh -c`, `eval` or a shell's input are read as commands of their own.
//!
//! One walk has a budget, because text inside text can be read in more ways than it has bytes. What is left unread is
//! said, never passed over in silence.
//!
//! Not here: what any program does. Names and texts that the shell makes up at run time stay unseen.

use std::cell::Cell;

use helve_shell::{Command, Joint, OpaqueReason, Position, Redirect, Span, Word};

/// How often text inside text is read: `sh -c "sh -c '…'"` is two.
const MAX_DEPTH: usize = 4;

/// What one walk may spend: a byte read costs one, a program one and one a word. The longest command costs no more than
/// its length, and twice that again for each text of that length inside it.
const BUDGET: usize = 5 * helve_shell::MAX_LENGTH;

/// Something that a shell would run and the walk did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen {
    /// Text inside text, too deep or too much of it.
    TooComplex,
    /// Text inside text, or the command itself, which cannot be read to its end.
    Opaque(OpaqueReason),
}

/// Something that a command does.
pub(super) enum Event<'a> {
    /// It starts a program.
    Run(Program<'a>),
    /// It redirects to or from a file.
    Redirect(Redirect, &'a Word),
    /// A shell reads this, the command itself included.
    Read(&'a Command),
}

/// A program with its arguments.
pub(super) struct Program<'a> {
    /// The last part of its path, in lower case.
    pub(super) name: String,
    /// Whether it is found through PATH or named by its absolute path, and so is not a file of the project.
    pub(super) installed: bool,
    pub(super) args: &'a [&'a Word],
}

impl<'a> Program<'a> {
    /// The arguments before `--` that start with a dash.
    pub(super) fn options(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.texts().take_while(|text| *text != "--").filter(|text| text.len() > 1 && text.starts_with('-'))
    }

    /// All arguments.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.args.iter().map(|word| word.text.as_str())
    }

    /// Whether a short option with this letter is given, alone or in a cluster such as `-vrf`.
    pub(super) fn short(&self, letter: char) -> bool {
        self.options().any(|option| !option.starts_with("--") && option.contains(letter))
    }

    /// Whether a long option is given, in full, shortened to no less than `shortest`, or with a value.
    pub(super) fn long(&self, full: &str, shortest: &str) -> bool {
        self.options().any(|option| {
            let name = option.split('=').next().unwrap_or_default();
            name.starts_with(shortest) && full.starts_with(name)
        })
    }
}

/// Reports everything that the command does, with the bytes of the outermost text it stands in. Gives the first thing
/// that was left unseen.
pub(super) fn each(command: &Command, report: &mut dyn FnMut(Event<'_>, Span)) -> Option<(Unseen, Span)> {
    let mut walk = Walk { report, span: None, depth: 0, left: BUDGET, unseen: None };
    walk.command(command);
    walk.unseen
}

/// Whether a shell may still run what could not be read. It refuses what is never closed.
pub(super) fn may_run(reason: OpaqueReason) -> bool {
    match reason {
        OpaqueReason::TooDeep
        | OpaqueReason::TooLong
        | OpaqueReason::Nul
        | OpaqueReason::AmbiguousHereDocument => true,
        OpaqueReason::UnterminatedQuote
        | OpaqueReason::UnterminatedSubstitution
        | OpaqueReason::UnterminatedParenthesis
        // Its body was read: a shell takes it up to the end of the text.
        | OpaqueReason::UnterminatedHereDocument => false,
    }
}

struct Walk<'r> {
    report: &'r mut dyn FnMut(Event<'_>, Span),
    /// Inside text of another command: where that text stands.
    span: Option<Span>,
    depth: usize,
    /// What is left of the budget.
    left: usize,
    unseen: Option<(Unseen, Span)>,
}

/// A segment and what may feed its input.
struct Place<'a> {
    command: &'a Command,
    index: usize,
    span: Span,
    /// Whether its input has been read: `find -exec sh \;` may start any number of shells on the same one.
    input_read: Cell<bool>,
}

impl Walk<'_> {
    fn command(&mut self, command: &Command) {
        let whole = Span { start: 0, end: command.text.len() };
        if let Some(opaque) = command.opaque.filter(|opaque| may_run(opaque.reason)) {
            self.miss(Unseen::Opaque(opaque.reason), opaque.span);
        }
        (self.report)(Event::Read(command), self.span.unwrap_or(whole));
        for (index, segment) in command.segments.iter().enumerate() {
            let span = self.span.unwrap_or(segment.span);
            for word in &segment.words {
                if let Position::Redirect(operator) = word.position {
                    (self.report)(Event::Redirect(operator, word), span);
                }
            }
            let is_command = |word: &&Word| matches!(word.position, Position::Name | Position::Argument);
            let words: Vec<&Word> = segment.words.iter().filter(is_command).collect();
            if words.first().is_some_and(|word| word.position == Position::Name) {
                self.start(&words, &Place { command, index, span, input_read: Cell::new(false) }, false);
            }
        }
    }

    /// Text that another shell will read.
    fn text(&mut self, text: &str, span: Span) {
        if text.trim().is_empty() {
            return;
        }
        if self.depth >= MAX_DEPTH {
            return self.miss(Unseen::TooComplex, span);
        }
        if !self.spend(text.len(), span) {
            return;
        }
        let outer = self.span;
        self.span = Some(outer.unwrap_or(span));
        self.depth += 1;
        self.command(&helve_shell::read(text));
        self.depth -= 1;
        self.span = outer;
    }

    /// Takes from the budget; false if it is used up.
    fn spend(&mut self, cost: usize, span: Span) -> bool {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.left = 0;
                self.miss(Unseen::TooComplex, span);
                false
            }
        }
    }

    fn miss(&mut self, what: Unseen, span: Span) {
        let span = self.span.unwrap_or(span);
        self.unseen.get_or_insert((what, span));
    }

    /// A name and its arguments. `searched` inside the commands of a `find`, whose own search for them goes on.
    fn start(&mut self, mut words: &[&Word], place: &Place<'_>, searched: bool) {
        if !self.spend(1 + words.len(), place.span) {
            return;
        }
        while let Some((name, args)) = words.split_first() {
            if !name.known || name.glob {
                return;
            }
            let base = name.text.rsplit('/').next().unwrap_or_default().to_lowercase();
            if let Some(starter) = STARTERS.iter().find(|starter| starter.name == base) {
                words = match starter.next(args) {
                    Next::Words(words) => words,
                    Next::Text(text, span) => return self.text(&text, span),
                };
                continue;
            }
            match base.as_str() {
                "sh" | "bash" | "dash" | "zsh" | "ksh" | "mksh" | "ash" | "rbash" | "fish" => {
                    return self.shell(args, place);
                }
                "eval" | "watch" => return self.text(&joined(args), place.span),
                "su" | "runuser" | "script" => return self.option_text(args),
                "trap" => {
                    if let Some(word) = args.first() {
                        self.text(&word.text, word.span);
                    }
                }
                "find" if !searched => self.found(args, place),
                _ => {}
            }
            let installed = !name.text.contains('/') || name.text.starts_with('/');
            (self.report)(Event::Run(Program { name: base, installed, args }), place.span);
            return;
        }
    }

    /// `sh [options] [-c text | file]`, or a shell that reads its input.
    fn shell(&mut self, args: &[&Word], place: &Place<'_>) {
        let mut takes_text = false;
        let mut args = args.iter();
        while let Some(word) = args.next() {
            match word.text.as_str() {
                "--rcfile" | "--init-file" => {
                    args.next();
                }
                "-" | "--" => {}
                long if long.starts_with("--") => {}
                short if short.starts_with(['-', '+']) => {
                    takes_text |= short.starts_with('-') && short.contains('c');
                    if short.ends_with(['o', 'O']) {
                        args.next();
                    }
                }
                text if takes_text => return self.text(text, word.span),
                _ => return,
            }
        }
        self.input(place);
    }

    /// What a shell reads from here-documents, here-strings and a printed text in front of its pipe.
    fn input(&mut self, place: &Place<'_>) {
        if place.input_read.replace(true) {
            return;
        }
        let Some(segment) = place.command.segments.get(place.index) else { return };
        for document in &segment.here_documents {
            self.text(&document.body, document.span);
        }
        for word in &segment.words {
            if word.position == Position::Redirect(Redirect::HereString) {
                self.text(&word.text, word.span);
            }
        }
        let before = place.index.checked_sub(1).and_then(|index| place.command.segments.get(index));
        let Some(before) = before.filter(|_| segment.joint == Joint::Pipe) else { return };
        if before.name().is_some_and(|name| matches!(name.text.as_str(), "echo" | "printf")) {
            let printed: Vec<&Word> = before.arguments().filter(|word| !word.text.starts_with('-')).collect();
            self.text(&joined(&printed).replace("\\n", "\n"), before.span);
        }
    }

    /// The text after `-c`.
    fn option_text(&mut self, args: &[&Word]) {
        let option = args.iter().position(|word| matches!(word.text.as_str(), "-c" | "--command"));
        if let Some(word) = option.and_then(|at| args.get(at + 1)) {
            self.text(&word.text, word.span);
        }
    }

    /// The commands of `find -exec … ;`.
    fn found(&mut self, args: &[&Word], place: &Place<'_>) {
        let starts = |word: &&Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
        for command in args.split(starts).skip(1) {
            let ends = |word: &&Word| matches!(word.text.as_str(), ";" | "+");
            if let Some(words) = command.split(ends).next() {
                self.start(words, place, true);
            }
        }
    }
}

fn joined(words: &[&Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A program that starts the one named in its arguments.
struct Starter {
    name: &'static str,
    /// Options whose value is the next argument.
    valued: &'static [&'static str],
    /// Arguments that stand between the options and the program.
    operands: usize,
    /// Options with which it starts nothing.
    stops: &'static [&'static str],
}

const fn starter(name: &'static str, valued: &'static [&'static str], operands: usize) -> Starter {
    Starter { name, valued, operands, stops: &[] }
}

const STARTERS: &[Starter] = &[
    starter(
        "sudo",
        &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R", "--user", "--group"],
        0,
    ),
    starter("doas", &["-u", "-C"], 0),
    starter("env", &["-u", "-C", "--unset", "--chdir"], 0),
    Starter { stops: &["-v", "-V"], ..starter("command", &[], 0) },
    starter("builtin", &[], 0),
    starter("exec", &["-a"], 0),
    starter("nohup", &[], 0),
    starter("setsid", &[], 0),
    starter("nice", &["-n", "--adjustment"], 0),
    starter("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    starter("chrt", &[], 1),
    starter("taskset", &[], 1),
    starter("time", &["-f", "-o", "--format", "--output"], 0),
    starter("timeout", &["-s", "-k", "--signal", "--kill-after"], 1),
    starter("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    starter("flock", &["-w", "-E", "--timeout"], 1),
    starter("chroot", &[], 1),
    starter("unshare", &[], 0),
    starter("strace", &["-e", "-o", "-p", "-s", "-u", "-E"], 0),
    starter("busybox", &[], 0),
    starter("toybox", &[], 0),
    starter("parallel", &["-j", "--jobs", "-n", "-N"], 0),
    starter(
        "xargs",
        &[
            "-a",
            "-d",
            "-E",
            "-I",
            "-L",
            "-n",
            "-P",
            "-s",
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-procs",
        ],
        0,
    ),
];

/// What a starter starts.
enum Next<'w, 'a> {
    /// The words from the program on; none if it starts nothing.
    Words(&'w [&'a Word]),
    /// A command line, and the word in which it stands.
    Text(String, Span),
}

impl Starter {
    fn next<'w, 'a>(&self, args: &'w [&'a Word]) -> Next<'w, 'a> {
        let mut at = 0;
        while let Some(word) = args.get(at) {
            let text = word.text.as_str();
            if self.stops.contains(&text) {
                return Next::Words(&[]);
            }
            at += 1;
            if let Some(attached) = split_string(text).filter(|_| self.name == "env") {
                let rest = joined(args.get(at..).unwrap_or_default());
                return Next::Text(format!("{attached} {rest}"), word.span);
            }
            match text {
                "--" => break,
                text if self.valued.contains(&text) => at += 1,
                // An option, or `NAME=value` as `env` and `sudo` take it.
                text if text.len() > 1 && text.starts_with('-') => {}
                text if text.contains('=') && word.position == Position::Argument => {}
                _ => {
                    at -= 1;
                    break;
                }
            }
        }
        Next::Words(args.get(at + self.operands..).unwrap_or_default())
    }
}

/// What is attached to the option of `env -S 'command line'`, which splits a text into words.
fn split_string(option: &str) -> Option<&str> {
    if let Some(rest) = option.strip_prefix("--split-string") {
        return Some(rest.strip_prefix('=').unwrap_or(rest));
    }
    option.strip_prefix('-')?.trim_start_matches(['i', 'v', '0']).strip_prefix('S')
}
