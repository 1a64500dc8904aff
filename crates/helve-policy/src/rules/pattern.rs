//! Command patterns: `git push *`, `npm run {test,build}`, `head -n <number> <path>`.
//!
//! In comes the text of a pattern, read by the quoting rules of a shell; out goes a [`CommandPattern`] that is held
//! against the argv of one run. Two readings of the same pattern exist, because a mistake costs different things:
//! [`CommandPattern::vouches_for`] is for rules that allow and takes only what is certain, [`CommandPattern::finds`] is
//! for rules that ask or deny and finds options wherever they stand.
//!
//! Not here: what the program does, and which rule a pattern belongs to.

mod find;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use helve_shell::Span;
use helve_shell::analysis::{
    Analysis, Arg, ArgPart, Departure, DepartureKind, Effect, EffectKind, More, Opaque, OpaqueReason, Run,
    RunKind, Target,
};

use crate::guard;

/// The longest pattern, in bytes.
pub(super) const MAX_LENGTH: usize = 4096;

/// Where a program is the one that its name says.
const SYSTEM_DIRECTORIES: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// A pattern for one command, made of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPattern {
    source: String,
    /// The first is the program; never empty.
    words: Vec<WordPattern>,
    /// Whether any number of further arguments may follow.
    rest: bool,
}

/// A pattern for one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordPattern {
    /// One of these.
    OneOf(Vec<Stretch>),
    /// This text, then a slot.
    Slot { before: String, slot: Slot },
}

/// Text in which `*` stands for anything: the pieces between the stars. One piece is plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch(pub(super) Vec<String>);

/// A typed place in a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A path inside the workspace, by its text and where links lead.
    Path,
    /// Digits.
    Number,
    /// Letters, digits, `.`, `_` and `-`.
    Name,
    /// One known word that is no option.
    Word,
    /// One argument, whatever it is.
    Any,
}

impl Slot {
    /// Every slot by its name.
    pub(super) const ALL: [(&'static str, Slot); 5] = [
        ("path", Slot::Path),
        ("number", Slot::Number),
        ("name", Slot::Name),
        ("word", Slot::Word),
        ("any", Slot::Any),
    ];
}

/// What a pattern needs to know about a run besides its argv before it vouches for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near<'a> {
    pub(super) workspace: &'a Path,
    /// What the run does.
    pub(super) effects: &'a [&'a Effect],
    /// Its own opaque parts.
    pub(super) opaque: &'a [&'a Opaque],
    /// Whether something opaque lies around it.
    pub(super) hidden: bool,
    /// Whether options before the subcommand that change nothing about it are passed over.
    pub(super) skips: bool,
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl CommandPattern {
    /// Reads a pattern. The error says what to change.
    pub fn parse(text: &str) -> Result<Self, String> {
        read::read(text)
    }

    /// Whether a rule that allows this pattern would allow one run of a command; the error says why not.
    pub fn covers(&self, analysis: &Analysis, run: usize, workspace: &Path) -> Result<(), String> {
        self.holds(analysis, run, workspace, true)
    }

    /// The same for a pattern that stands for what a person was shown: no option is passed over, for `git -C dir` works
    /// elsewhere.
    pub fn covers_as_shown(&self, analysis: &Analysis, run: usize, workspace: &Path) -> Result<(), String> {
        self.holds(analysis, run, workspace, false)
    }

    fn holds(&self, analysis: &Analysis, run: usize, workspace: &Path, skips: bool) -> Result<(), String> {
        let Some(found) = analysis.runs.get(run) else { return Err("there is no such part".to_owned()) };
        let effects = analysis.effects.iter().filter(|effect| effect.run == Some(run));
        let effects: Vec<&Effect> = effects.collect();
        let touches = |span: Span| span.start <= found.span.end && found.span.start <= span.end;
        let within = |span: Span| found.span.start <= span.start && span.end <= found.span.end;
        let touching = analysis.opaque.iter().filter(|part| touches(part.span));
        let (own, around): (Vec<&Opaque>, Vec<&Opaque>) = touching.partition(|part| within(part.span));
        let near = Near { workspace, effects: &effects, opaque: &own, hidden: !around.is_empty(), skips };
        match around.first().or(own.first()) {
            _ if self.vouches_for(found, &near) => Ok(()),
            Some(part) => Err(format!("no pattern can vouch for it: {}", part.reason)),
            None => Err(match found.departures.first() {
                Some(departure) => format!("the pattern does not vouch for this use: {}", departure.kind),
                None => "the pattern does not match the command".to_owned(),
            }),
        }
    }

    /// Why it finds less than whoever asks or denies by it may mean, with what to write; none if nothing speaks for that.
    pub(crate) fn finds_little(&self, others: &[CommandPattern]) -> Option<String> {
        if let Some(WordPattern::OneOf(choices)) = self.words.first()
            && choices.iter().any(|choice| choice.0.first().is_some_and(|text| text.starts_with('/')))
        {
            return Some(format!("\"{self}\" finds the program only under this path; write its name alone"));
        }
        let plain = |word: &WordPattern| match word {
            WordPattern::OneOf(choices) => choices.iter().all(|choice| choice.0.len() == 1),
            WordPattern::Slot { .. } => false,
        };
        let wider = |other: &CommandPattern| other.rest && self.words.starts_with(&other.words);
        let alone = !self.rest && self.words.iter().all(plain) && !others.iter().any(wider);
        alone.then(|| {
            format!(
                "\"{self}\" finds the command without further arguments alone; write \"{self} *\" for any"
            )
        })
    }

    /// Whether it names the programs that it is about.
    pub(super) fn names_programs(&self) -> bool {
        let plain = |stretch: &Stretch| stretch.0.len() == 1;
        matches!(self.words.first(), Some(WordPattern::OneOf(choices)) if choices.iter().all(plain))
    }

    /// Whether it spells out every word.
    fn is_exact(&self) -> bool {
        let plain = |stretch: &Stretch| stretch.0.len() == 1;
        let exact =
            |word: &WordPattern| matches!(word, WordPattern::OneOf(choices) if choices.iter().all(plain));
        !self.rest && self.words.iter().all(exact)
    }

    /// Whether a rule that allows this pattern allows the run: everything it takes is certain, and the run stays within
    /// the ordinary behaviour of its program or does what the pattern spells out.
    pub(super) fn vouches_for(&self, run: &Run, near: &Near<'_>) -> bool {
        let Some((name, args)) = run.argv.split_first() else { return false };
        let Some((first, words)) = self.words.split_first() else { return false };
        let skipped = match words.first() {
            Some(word) if near.skips && word.is_plain() && !word.is_option() => {
                harmless_before(run, args, near)
            }
            _ => 0,
        };
        let args = args.get(skipped..).unwrap_or_default();
        !near.hidden
            && run.kind != RunKind::Function
            && self.is_program(first, run, name, true)
            && (run.more == More::Nothing || self.rest)
            && (args.len() == words.len() || (self.rest && args.len() > words.len()))
            && words.iter().zip(args).all(|(word, arg)| word.takes_surely(arg, run, near))
            && run.departures.iter().all(|departure| self.spells_out(departure, name, args))
            && near.opaque.iter().all(|part| self.names_script(part, name, args))
            && (near.opaque.is_empty()
                || !near.effects.iter().any(|effect| effect.kind == EffectKind::Execute))
    }

    /// Whether a departure is what the owner wrote down. A word such as `push` or `-i` that is spelled out vouches for
    /// what it does; a program, code, a file or a setting that an option names has to be spelled out with all the rest.
    fn spells_out(&self, departure: &Departure, name: &Arg, args: &[Arg]) -> bool {
        let spelled =
            |arg: &Arg| arg.span.start <= departure.span.start && departure.span.end <= arg.span.end;
        let words = self.words.iter().skip(1);
        match departure.kind {
            DepartureKind::Environment | DepartureKind::PossibleOption => false,
            DepartureKind::Change | DepartureKind::Network => {
                let whole = departure.span.start <= name.span.start && name.span.end <= departure.span.end;
                whole || words.zip(args).any(|(word, arg)| word.is_plain() && spelled(arg))
            }
            _ => self.is_exact() && args.iter().any(spelled),
        }
    }

    /// Whether an opaque part is the project's own code, which a subcommand that is spelled out runs: `cargo test`,
    /// `npm run`. A script that is named by its path is not: its content may be anything.
    fn names_script(&self, part: &Opaque, name: &Arg, args: &[Arg]) -> bool {
        let holds = |arg: &Arg| arg.span.start <= part.span.start && part.span.end <= arg.span.end;
        let mut words = self.words.iter().zip(std::iter::once(name).chain(args));
        part.reason == OpaqueReason::Script
            && words.any(|(word, arg)| word.is_plain() && !word.is_option() && holds(arg))
    }

    /// Whether a rule that asks or denies is about the run. Options of the pattern may stand anywhere after the program,
    /// and options before and between subcommands are passed over, with their values.
    pub(super) fn finds(&self, run: &Run) -> bool {
        let Some((name, args)) = run.argv.split_first() else { return false };
        let Some((first, words)) = self.words.split_first() else { return false };
        if !self.is_program(first, run, name, false) {
            return false;
        }
        let (options, words): (Vec<_>, Vec<_>) = words.iter().partition(|word| word.is_option());
        let mut args: Vec<&Arg> = args.iter().collect();
        for option in options {
            let Some(at) = args.iter().position(|arg| option.takes(arg)) else { return false };
            args.remove(at);
        }
        find::stands_in(&words, self.rest, run.program.as_deref().unwrap_or_default(), &args)
    }

    /// A name without a slash is compared with the name of the program, one with a slash with what is written. `sure`
    /// takes a program by its name only where it is that of the system.
    fn is_program(&self, word: &WordPattern, run: &Run, name: &Arg, sure: bool) -> bool {
        let written = name.text();
        let by_name = run.program.as_deref().filter(|_| {
            let directory = written.and_then(|text| text.rsplit_once('/')).map(|(directory, _)| directory);
            !sure || directory.is_none_or(|directory| SYSTEM_DIRECTORIES.contains(&directory))
        });
        let choice = |stretch: &Stretch| match stretch.0.first() {
            Some(text) if text.contains('/') => written.is_some_and(|written| stretch.matches(written)),
            _ => by_name.is_some_and(|program| stretch.matches(program)),
        };
        match word {
            WordPattern::OneOf(choices) => choices.iter().any(choice),
            WordPattern::Slot { .. } => by_name.is_some() || !sure,
        }
    }
}

impl WordPattern {
    /// Whether it is an option that is spelled out.
    fn is_option(&self) -> bool {
        matches!(self, WordPattern::OneOf(choices)
            if choices.iter().all(|stretch| stretch.0.first().is_some_and(|text| text.starts_with('-'))))
    }

    /// Whether it is text that is spelled out.
    fn is_plain(&self) -> bool {
        matches!(self, WordPattern::OneOf(choices) if choices.iter().all(|stretch| stretch.0.len() == 1))
    }

    /// Whether the argument is one of those meant, as far as it is known.
    fn takes(&self, arg: &Arg) -> bool {
        match self {
            WordPattern::OneOf(choices) => {
                arg.text().is_some_and(|text| choices.iter().any(|stretch| stretch.matches(text)))
            }
            WordPattern::Slot { before, slot: Slot::Any } => arg.prefix().starts_with(before.as_str()),
            WordPattern::Slot { before, slot } => {
                let rest = arg.text().and_then(|text| text.strip_prefix(before.as_str()));
                rest.is_some_and(|rest| slot.takes(rest))
            }
        }
    }

    /// Whether the argument is certainly one of those meant, and cannot be taken for something else.
    fn takes_surely(&self, arg: &Arg, run: &Run, near: &Near<'_>) -> bool {
        match self {
            WordPattern::OneOf(choices) => arg.text().is_some_and(|text| {
                choices.iter().any(|stretch| stretch.matches(text) && stretch.is_harmless_in(text))
            }),
            WordPattern::Slot { before, slot: Slot::Any } => {
                !arg.splits && arg.prefix().starts_with(before.as_str())
            }
            WordPattern::Slot { before, slot: Slot::Path } => {
                let Some(path) = path_text(arg) else { return false };
                let Some(path) = path.strip_prefix(before.as_str()) else { return false };
                is_inside(path, run, near.workspace)
                    && !near.effects.iter().any(|effect| leads_out(effect, arg))
                    && stays_inside(path, arg, run, near.workspace)
            }
            WordPattern::Slot { .. } => self.takes(arg),
        }
    }
}

impl Stretch {
    /// Whether the whole text fits. Linear in the text: each piece is searched once, from where the last one ended.
    fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.0.as_slice() else {
            return self.0.first().is_some_and(|only| only == text);
        };
        let Some(mut text) = text.strip_prefix(first.as_str()) else { return false };
        for piece in middle {
            let Some(at) = text.find(piece.as_str()) else { return false };
            text = text.get(at + piece.len()..).unwrap_or_default();
        }
        text.ends_with(last.as_str())
    }

    /// A star must not turn a word into an option, nor a path into one that climbs out.
    fn is_harmless_in(&self, text: &str) -> bool {
        let plain = self.0.len() == 1;
        let starts_open = self.0.first().is_some_and(String::is_empty);
        plain || !(climbs(text) || starts_open && text.starts_with('-'))
    }
}

impl Slot {
    /// Whether known text fits the slot.
    fn takes(self, text: &str) -> bool {
        match self {
            Slot::Path => !text.is_empty() && !text.starts_with('-') && !climbs(text),
            Slot::Number => !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()),
            Slot::Name => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
                !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain)
            }
            Slot::Word => !text.starts_with('-'),
            Slot::Any => true,
        }
    }
}

/// Whether a path goes up.
fn climbs(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// The text of an argument that is a path, with its active patterns as they are written.
fn path_text(arg: &Arg) -> Option<String> {
    let mut text = String::new();
    for part in &arg.parts {
        match part {
            ArgPart::Known(part) | ArgPart::Glob(part) => text.push_str(part),
            ArgPart::Unknown => return None,
        }
    }
    (!arg.may_be_option()).then_some(text)
}

/// Whether a path lies in the workspace by its text; a relative one where the run starts in it too.
fn is_inside(path: &str, run: &Run, workspace: &Path) -> bool {
    let starts = |path: &Path| path.starts_with(workspace);
    let inside = if path.starts_with('/') {
        starts(Path::new(path))
    } else {
        run.directory.as_deref().is_some_and(starts)
    };
    Slot::Path.takes(path) && inside
}

/// Whether a path, and all that a pattern in it may stand for, lies in the workspace when links are followed.
fn stays_inside(path: &str, arg: &Arg, run: &Run, workspace: &Path) -> bool {
    let path = run.directory.as_deref().unwrap_or(Path::new("/")).join(path);
    let stays = |path: &Path| guard::stays_inside(path, workspace);
    let is_pattern = arg.parts.iter().any(|part| matches!(part, ArgPart::Glob(_)));
    let mut budget = guard::MAX_TREE;
    let mut all_stay =
        || guard::matching(&path, &mut budget).is_some_and(|found| found.iter().all(|path| stays(path)));
    // What matches nothing is taken as it is written.
    stays(&path) && (!is_pattern || all_stay())
}

/// Whether an effect at this argument touches something outside the workspace or unknown.
fn leads_out(effect: &Effect, arg: &Arg) -> bool {
    let inside = match &effect.target {
        Target::Path { inside, .. } | Target::Glob { inside, .. } => *inside,
        Target::Unknown => false,
        Target::Host(_) | Target::Machine => true,
    };
    !inside && arg.span.start <= effect.span.start && effect.span.end <= arg.span.end
}

/// How many arguments before the subcommand change nothing about what it does: no pager, a directory of the workspace.
fn harmless_before(run: &Run, args: &[Arg], near: &Near<'_>) -> usize {
    let path = WordPattern::Slot { before: String::new(), slot: Slot::Path };
    let mut at = 0;
    while run.program.as_deref() == Some("git") {
        match args.get(at).and_then(Arg::text) {
            Some("--no-pager" | "-P" | "--no-optional-locks") => at += 1,
            Some("-C") if args.get(at + 1).is_some_and(|arg| path.takes_surely(arg, run, near)) => at += 2,
            _ => break,
        }
    }
    at
}
