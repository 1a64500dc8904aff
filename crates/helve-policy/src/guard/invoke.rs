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

use std::borrow::Cow;
use std::cell::Cell;

use helve_shell::{Command, Joint, OpaqueReason, PartKind, Position, Redirect, Segment, Span, Word};

use super::expand::Variables;
use super::starters::{Next, SSH, STARTERS};

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
    let mut walk =
        Walk { report, span: None, depth: 0, left: BUDGET, unseen: None, variables: Variables::default() };
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
    /// What the commands have set so far. One map for all shells: more is seen through than a shell would.
    variables: Variables,
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
            let words = self.words(segment, &command.text, span);
            let words: Vec<&Word> = words.iter().map(Cow::as_ref).collect();
            if words.first().is_some_and(|word| word.position == Position::Name) {
                self.start(&words, &Place { command, index, span, input_read: Cell::new(false) }, false);
            }
            self.assign(segment, &command.text, span);
        }
    }

    /// The name and the arguments as the shell makes them; `source` is the text in which they stand.
    fn words<'w>(&mut self, segment: &'w Segment, source: &str, span: Span) -> Vec<Cow<'w, Word>> {
        let is_command = |word: &&Word| matches!(word.position, Position::Name | Position::Argument);
        let mut words: Vec<Cow<'w, Word>> = Vec::new();
        let mut named = false;
        for word in segment.words.iter().filter(is_command) {
            named |= word.position == Position::Name;
            match self.variables.words(word, source, &mut self.left) {
                Ok(made) => words.extend(made),
                Err(_) => {
                    self.left = 0;
                    self.miss(Unseen::TooComplex, span);
                    return words;
                }
            }
        }
        // A name that expands to nothing leaves its place to the next word.
        if let Some(first) = words.first_mut().filter(|first| named && first.position != Position::Name) {
            first.to_mut().position = Position::Name;
        }
        words
    }

    /// What the segment sets for those behind it.
    fn assign(&mut self, segment: &Segment, source: &str, span: Span) {
        const DECLARES: [&str; 5] = ["export", "declare", "typeset", "local", "readonly"];
        let declares = segment.name().is_some_and(|name| DECLARES.contains(&name.text.as_str()));
        let sets = |word: &&Word| match word.position {
            Position::Assignment => true,
            Position::Argument => declares,
            _ => false,
        };
        for word in segment.words.iter().filter(sets) {
            if self.variables.assign(word, source, &mut self.left).is_err() {
                self.left = 0;
                return self.miss(Unseen::TooComplex, span);
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
            if !name.known {
                return;
            }
            let last = name.text.rsplit('/').next().unwrap_or_default();
            let base = match name.glob {
                false => last.to_lowercase(),
                true => match GLOBBED.iter().find(|program| could_name(last, program)) {
                    Some(program) => (*program).to_owned(),
                    None => return,
                },
            };
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
                // The words of both are joined and read by a shell, the second one's on another machine.
                "ssh" => return self.text(&joined(SSH.remote(args)), place.span),
                "su" | "runuser" | "script" => return self.option_text(args),
                "trap" => {
                    if let Some(word) = args.first() {
                        self.text(&word.text, word.span);
                    }
                }
                "alias" => {
                    for word in args {
                        if let Some((_, body)) = word.text.split_once('=') {
                            self.text(body, word.span);
                        }
                    }
                }
                "." | "source" => {
                    if let Some(word) = args.first() {
                        self.printed_file(word);
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
                _ => return self.printed_file(word),
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
            match word.position {
                Position::Redirect(Redirect::HereString) => self.text(&word.text, word.span),
                Position::Redirect(Redirect::Read) => self.printed_file(word),
                _ => {}
            }
        }
        let before = place.index.checked_sub(1).and_then(|index| place.command.segments.get(index));
        if let Some(before) = before.filter(|_| segment.joint == Joint::Pipe) {
            self.printed(before, before.span);
        }
    }

    /// A file that a shell reads, where it is `<(echo …)`.
    fn printed_file(&mut self, word: &Word) {
        let substitution = match word.parts.as_slice() {
            [part] if part.kind == PartKind::Expansion => word.text.strip_prefix("<("),
            _ => None,
        };
        let Some(inner) = substitution.and_then(|text| text.strip_suffix(')')) else { return };
        if self.spend(inner.len(), word.span) {
            for segment in &helve_shell::read(inner).segments {
                self.printed(segment, word.span);
            }
        }
    }

    /// Reads what `echo` or `printf` prints.
    fn printed(&mut self, segment: &Segment, span: Span) {
        if segment.name().is_some_and(|name| matches!(name.text.as_str(), "echo" | "printf")) {
            let printed: Vec<&Word> = segment.arguments().filter(|word| is_printed(word)).collect();
            self.text(&joined(&printed).replace("\\n", "\n"), span);
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

/// Programs that a name with `*`, `?` or `[…]` is taken for where it could match them: what they do shows only with
/// certain arguments, so that a harmless use of such a name stays one.
const GLOBBED: &[&str] = &["rm", "dd", "sh", "bash"];

/// Whether a pattern could match a name; a `[…]` counts as any one character.
fn could_name(pattern: &str, name: &str) -> bool {
    let mut signs = Vec::new();
    let mut rest = pattern.chars();
    let mut closes = true;
    while let Some(sign) = rest.next() {
        let mut behind = rest.clone();
        // A `]` right behind the `[` stands for itself.
        behind.next();
        let class = if sign == '[' && closes { behind.as_str().split_once(']') } else { None };
        closes &= sign != '[' || class.is_some();
        if let Some((_, after)) = class {
            rest = after.chars();
        }
        signs.push(if class.is_some() { '?' } else { sign });
    }
    // Which beginnings of the pattern match what has been seen of the name.
    let stars = |reached: &mut Vec<bool>| {
        for (at, sign) in signs.iter().enumerate() {
            if *sign == '*'
                && reached.get(at) == Some(&true)
                && let Some(next) = reached.get_mut(at + 1)
            {
                *next = true;
            }
        }
    };
    let mut reached = vec![false; signs.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    stars(&mut reached);
    for letter in name.chars() {
        let mut next = vec![false; signs.len() + 1];
        for (at, sign) in signs.iter().enumerate().filter(|(at, _)| reached.get(*at) == Some(&true)) {
            let to = if *sign == '*' { at } else { at + 1 };
            let fits = matches!(sign, '*' | '?') || sign.eq_ignore_ascii_case(&letter);
            if let Some(to) = next.get_mut(to).filter(|_| fits) {
                *to = true;
            }
        }
        stars(&mut next);
        reached = next;
    }
    reached.last() == Some(&true)
}

/// Whether `echo` prints a word: not its options.
fn is_printed(word: &Word) -> bool {
    !word.text.strip_prefix('-').is_some_and(|letters| letters.bytes().all(|b| b"neE".contains(&b)))
}

pub(super) fn joined(words: &[&Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
