//! Which programs a command starts, as far as its text says.
//!
//! In comes a command, out goes an [`Event`] for each program with its arguments, for each redirection, and for each
//! text that a shell will read. Programs that only start another (`sudo`, `env`, `timeout`, `xargs`, …) are seen
//! through; the texts given to `sh -c`, `eval` or a shell's input are read as commands of their own.
//!
//! Not here: what any program does. Names and texts that the shell makes up at run time stay unseen.

use helve_shell::{Command, Joint, Position, Redirect, Span, Word};

/// How often text inside text is read: `sh -c "sh -c '…'"` is two.
const MAX_DEPTH: usize = 4;

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

/// Reports everything that the command does, with the bytes of the outermost text it stands in.
pub(super) fn each(command: &Command, report: &mut dyn FnMut(Event<'_>, Span)) {
    Walk { report, span: None, depth: 0 }.command(command);
}

struct Walk<'r> {
    report: &'r mut dyn FnMut(Event<'_>, Span),
    /// Inside text of another command: where that text stands.
    span: Option<Span>,
    depth: usize,
}

/// A segment and what may feed its input.
struct Place<'a> {
    command: &'a Command,
    index: usize,
    span: Span,
}

impl Walk<'_> {
    fn command(&mut self, command: &Command) {
        let whole = Span { start: 0, end: command.text.len() };
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
                self.start(&words, &Place { command, index, span }, false);
            }
        }
    }

    fn text(&mut self, text: &str, span: Span) {
        if self.depth >= MAX_DEPTH {
            return;
        }
        let mut inner =
            Walk { report: &mut *self.report, span: Some(self.span.unwrap_or(span)), depth: self.depth + 1 };
        inner.command(&helve_shell::read(text));
    }

    /// A name and its arguments. `searched` inside the commands of a `find`, whose own search for them goes on.
    fn start(&mut self, mut words: &[&Word], place: &Place<'_>, searched: bool) {
        while let Some((name, args)) = words.split_first() {
            if !name.known || name.glob {
                return;
            }
            let base = name.text.rsplit('/').next().unwrap_or_default().to_lowercase();
            if let Some(starter) = STARTERS.iter().find(|starter| starter.name == base) {
                if let Some((text, span)) = starter.split_text(args) {
                    return self.text(&text, span);
                }
                words = starter.rest(args);
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
    /// Options with which it starts nothing, or starts a text.
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
    Starter { stops: &["-S", "--split-string"], ..starter("env", &["-u", "-C", "--unset", "--chdir"], 0) },
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

impl Starter {
    /// The words from the started program on; none if it starts nothing.
    fn rest<'w, 'a>(&self, args: &'w [&'a Word]) -> &'w [&'a Word] {
        let mut at = 0;
        while let Some(word) = args.get(at) {
            let text = word.text.as_str();
            if self.stops.contains(&text) {
                return &[];
            }
            match text {
                "--" => {
                    at += 1;
                    break;
                }
                text if self.valued.contains(&text) => at += 2,
                // An option, or `NAME=value` as `env` and `sudo` take it.
                text if text.len() > 1 && text.starts_with('-') => at += 1,
                text if text.contains('=') && word.position == Position::Argument => at += 1,
                _ => break,
            }
        }
        args.get(at + self.operands..).unwrap_or_default()
    }

    /// The command line in `env -S 'command line'`, with what follows it.
    fn split_text(&self, args: &[&Word]) -> Option<(String, Span)> {
        if self.name != "env" {
            return None;
        }
        let at = args
            .iter()
            .position(|word| word.text.starts_with("-S") || word.text.starts_with("--split-string"))?;
        let word = args.get(at)?;
        let attached = word.text.strip_prefix("--split-string=").or_else(|| word.text.strip_prefix("-S"));
        let attached = attached.filter(|text| !text.is_empty() && word.text != "--split-string");
        let rest = joined(args.get(at + 1..).unwrap_or_default());
        Some((format!("{} {rest}", attached.unwrap_or_default()), word.span))
    }
}
