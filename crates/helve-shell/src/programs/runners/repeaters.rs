//! Programs that run a command repeatedly or under a lock.

use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind, Input, More, OpaqueReason};
use crate::programs::meaning::joined;
use crate::programs::options::{Grammar, Item, Order, read};
use crate::programs::{Inner, Invocation, Meaning, On};

/// What such a program does, if it is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    Some(match invocation.program {
        "xargs" | "gxargs" => xargs(invocation),
        "parallel" => parallel(invocation),
        "watch" => watch(invocation),
        "entr" => entr(invocation),
        "flock" => flock(invocation),
        "hyperfine" => hyperfine(invocation),
        _ => return None,
    })
}

const XARGS: Grammar = Grammar {
    flags: "0oprtx",
    values: "adEIJLnPRsS",
    optional: "eil",
    names: &["null arg-file= delimiter= eof? replace? max-lines? max-args= open-tty max-procs= interactive \
         process-slot-var= no-run-if-empty max-chars= show-limits verbose exit"],
    order: Order::First,
    ..Grammar::NONE
};

/// How `xargs` makes arguments of what it reads.
#[derive(Default)]
struct Splitting {
    /// What stands for what is read.
    mark: Option<String>,
    /// Whether a mark is not known.
    unknown_mark: bool,
    /// Whether an option behind the mark may take it back.
    cancels_mark: bool,
    /// Whether words are not simply divided by blanks.
    unusual: bool,
    /// Whether they come from elsewhere than standard input, or are cut so that a path may become an option.
    foreign: bool,
    /// How many go to one run.
    count: Option<usize>,
    /// A variable that each run gets.
    slot: Option<String>,
}

/// How many words, and runs that get them, are followed; a person types a few.
const MAX_WORDS: usize = 64;
const MAX_RUNS: usize = 16;

/// What is read becomes arguments: behind the command, or where a mark stands.
fn xargs(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &XARGS);
    meaning.notes_unknown(&items);
    let mut first = args.len();
    let mut splitting = Splitting::default();
    for item in items {
        match item {
            Item::Operand(at) => first = first.min(at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                first = first.min(at);
            }
            Item::Value("a" | "arg-file", place) => {
                meaning.reads(place.on(args));
                splitting.foreign = true;
            }
            Item::Value("process-slot-var", place) => match place.text(args) {
                Some(name) => splitting.slot = Some(name.to_owned()),
                None => meaning.hides(OpaqueReason::Environment, Some(place.option)),
            },
            Item::Value(name, place) => splitting.value(name, place.text(args)),
            Item::Flag(name, _) => splitting.flag(name),
            _ => {}
        }
    }
    if invocation.more == More::Anything && first == args.len() {
        meaning.departs(DepartureKind::PossibleOption, first);
    }
    let mut command = invocation.from(first).to_vec();
    let span = args.first().map_or(crate::Span { start: 0, end: 0 }, |arg| arg.span);
    if command.is_empty() && invocation.more == More::Nothing {
        // Without a command it prints what it reads.
        command.push(Arg::known("echo", span));
    }
    if splitting.unknown_mark {
        meaning.hides(OpaqueReason::UnknownText, None);
    }
    let mark = splitting.mark.as_ref().filter(|mark| !mark.is_empty() && first < args.len());
    let runs: Vec<(Vec<Arg>, More)> = match (mark, splitting.words(invocation)) {
        (Some(mark), _) => {
            let more = if splitting.cancels_mark { More::Anything } else { More::Nothing };
            vec![(command.iter().map(|arg| marked(arg, mark)).collect(), more)]
        }
        (None, Some(runs)) => {
            let with = |words: Vec<&str>| {
                let words = words.into_iter().map(|word| Arg::known(word, span));
                command.iter().cloned().chain(words).collect()
            };
            runs.into_iter().map(|words| (with(words), More::Nothing)).collect()
        }
        (None, None) => vec![(command, More::Anything)],
    };
    let environment: Vec<(String, Arg)> =
        splitting.slot.iter().map(|name| (name.clone(), Arg::known("0", span))).collect();
    for (argv, more) in runs {
        meaning.inner.push(Inner::Argv {
            argv,
            more,
            environment: environment.clone(),
            keeps_input: !splitting.foreign,
            directory: None,
            elsewhere: false,
        });
    }
    meaning
}

impl Splitting {
    fn value(&mut self, name: &str, text: Option<&str>) {
        match name {
            "I" | "i" | "J" | "replace" => {
                self.mark = text.map(str::to_owned);
                self.unknown_mark = text.is_none();
                self.cancels_mark = false;
            }
            "n" | "max-args" => {
                self.count = text.and_then(|text| text.parse().ok()).filter(|count| *count > 0);
                self.unusual |= self.count.is_none();
                self.cancels_mark |= self.mark.is_some() && self.count != Some(1);
            }
            "L" | "l" | "max-lines" => {
                self.unusual = true;
                self.cancels_mark |= self.mark.is_some();
            }
            "d" | "delimiter" => {
                self.unusual = true;
                // Names of files that are divided elsewhere may hold what looks like an option.
                self.foreign |= !matches!(text, Some("\n" | "\\n" | "\0" | "\\0"));
            }
            "P" | "max-procs" => {}
            _ => self.unusual = true,
        }
    }

    fn flag(&mut self, name: &str) {
        match name {
            "i" | "replace" => self.value("replace", Some("{}")),
            "l" | "max-lines" => self.value("max-lines", None),
            "0" | "null" => self.unusual = true,
            _ => {}
        }
    }

    /// What each run gets, where the input is known and is divided by blanks alone.
    fn words<'a>(&self, invocation: &'a Invocation<'_>) -> Option<Vec<Vec<&'a str>>> {
        if self.unusual || self.foreign || invocation.more != More::Nothing {
            return None;
        }
        let Input::Text(arg) = invocation.input else { return None };
        let text = arg.text()?;
        let special =
            |next: char| matches!(next, '\'' | '"' | '\\') || (next.is_control() && !" \t\n".contains(next));
        if text.contains(special) {
            return None;
        }
        let words: Vec<&str> = text.split([' ', '\t', '\n']).filter(|word| !word.is_empty()).collect();
        let count = self.count.unwrap_or(MAX_WORDS);
        if words.len() > MAX_WORDS || words.len() > count.saturating_mul(MAX_RUNS) {
            return None;
        }
        if words.is_empty() {
            return Some(vec![words]);
        }
        Some(words.chunks(count).map(<[&str]>::to_vec).collect())
    }
}

/// The argument with nothing known where the mark stands.
fn marked(arg: &Arg, mark: &str) -> Arg {
    let mut parts = Vec::with_capacity(arg.parts.len());
    for part in &arg.parts {
        match part {
            ArgPart::Known(text) if text.contains(mark) => {
                for (index, known) in text.split(mark).enumerate() {
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
    Arg { parts, span: arg.span, splits: arg.splits }
}

const PARALLEL: Grammar = Grammar {
    flags: "0kqmXtruv",
    values: "aCdEIjJLnNPSs",
    names: &[
        "null arg-file= colsep= delay= delimiter= dry-run eta bar files group halt= header= jobs= joblog= keep-order \
         line-buffer linebuffer load= max-args= max-procs= memfree= nice= no-notice no-run-if-empty pipe pipepart \
         block= plain progress quote replace= results= resume retries= semaphore sem shuf silent ssh= sshlogin= \
         sshloginfile= tag tagstring= tempdir= timeout= tmpdir= trim= ungroup verbose wait will-cite workdir= xargs \
         compress-program= bibtex citation record-env env= round-robin fifo cat",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// `parallel`: its operands up to `:::` make a text for a shell; without any, each line of the input is one.
fn parallel(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &PARALLEL);
    meaning.notes_unknown(&items);
    let mut first = args.len();
    for item in items {
        match item {
            Item::Value("joblog" | "results", place) => meaning.writes_option(args, place),
            Item::Value("a" | "arg-file", place) => meaning.reads(place.on(args)),
            Item::Value("compress-program" | "ssh", place) => meaning.runs_program(args, place),
            Item::Value("S" | "sshlogin" | "sshloginfile", place) => {
                meaning.departs(DepartureKind::Network, place.option);
                meaning.does(EffectKind::Connect, On::Unknown(Some(place.option)));
            }
            Item::Operand(at) | Item::Maybe(at) => first = first.min(at),
            _ => {}
        }
    }
    let is_divider = |arg: &&Arg| arg.text().is_some_and(|text| text.starts_with(":::"));
    let command = invocation.from(first);
    let end = command.iter().position(|arg| is_divider(&arg)).unwrap_or(command.len());
    let values: Vec<&Arg> = command[end..].iter().filter(|arg| !is_divider(arg)).collect();
    if end == 0 {
        // The values themselves are the commands.
        values.iter().for_each(|text| meaning.runs_text((*text).clone(), "sh"));
        if values.is_empty() {
            match invocation.input {
                Input::Text(text) => meaning.runs_text(text.clone(), "sh"),
                _ => meaning.hides(OpaqueReason::UnknownText, None),
            }
        }
        return meaning;
    }
    let mut parts = Vec::new();
    let text: Option<Arg> = joined(&command[..end]);
    let Some(text) = text else { return meaning };
    let mut named = false;
    for part in &text.parts {
        match part {
            ArgPart::Known(known) => named |= split_marks(known, &mut parts),
            _ => parts.push(part.clone()),
        }
    }
    if !named {
        parts.push(ArgPart::Known(" ".to_owned()));
        parts.push(ArgPart::Unknown);
    }
    meaning.runs_text(Arg { parts, span: text.span, splits: false }, "sh");
    meaning
}

/// Takes `{}`, `{.}`, `{/}`, `{1}` and their kind out of a text, and says whether there was any.
fn split_marks(text: &str, parts: &mut Vec<ArgPart>) -> bool {
    let mut named = false;
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        // A mark is short, so that no brace is looked for far away.
        let close = rest[open..].bytes().take(10).position(|byte| byte == b'}');
        let mark = close.map(|close| &rest[open + 1..open + close]);
        let Some(mark) = mark.filter(|mark| mark.bytes().all(|byte| b"0123456789./%#-+".contains(&byte)))
        else {
            parts.push(ArgPart::Known(rest[..=open].to_owned()));
            rest = &rest[open + 1..];
            continue;
        };
        named = true;
        parts.push(ArgPart::Known(rest[..open].to_owned()));
        parts.push(ArgPart::Unknown);
        rest = &rest[open + mark.len() + 2..];
    }
    parts.push(ArgPart::Known(rest.to_owned()));
    named
}

const WATCH: Grammar = Grammar {
    flags: "bcegtxwrpChvf",
    values: "nqs",
    optional: "d",
    names: &[
        "beep color no-color differences? errexit chgexit equexit= interval= precise no-rerun no-title no-wrap exec \
         shotsdir= follow",
    ],
    order: Order::First,
    ..Grammar::NONE
};

fn watch(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, &WATCH);
    meaning.notes_unknown(&items);
    let executes = items.iter().any(|item| matches!(item, Item::Flag("x" | "exec", _)));
    let command = invocation.from(first_operand(&items, invocation));
    if executes {
        meaning.runs(command, invocation.more);
    } else if let Some(text) = joined(command) {
        meaning.runs_text(text, "sh");
    }
    meaning
}

/// The index of the first operand; past the end if there is none.
pub(super) fn first_operand(items: &[Item], invocation: &Invocation<'_>) -> usize {
    let operand = items.iter().find_map(|item| match item {
        Item::Operand(at) | Item::Maybe(at) => Some(*at),
        _ => None,
    });
    operand.unwrap_or(invocation.args.len())
}

const ENTR: Grammar = Grammar { flags: "acdnprsxz", order: Order::First, ..Grammar::NONE };

fn entr(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, &ENTR);
    meaning.notes_unknown(&items);
    let shell = items.iter().any(|item| matches!(item, Item::Flag("s", _)));
    let command = invocation.from(first_operand(&items, invocation));
    match command.first() {
        Some(text) if shell => meaning.runs_text(text.clone(), "sh"),
        _ => {
            let argv: Vec<Arg> = command.iter().map(|arg| marked(arg, "/_")).collect();
            meaning.runs_detached(argv, invocation.more);
        }
    }
    meaning
}

const FLOCK: Grammar = Grammar {
    flags: "snuxeoFvhV",
    values: "wEc",
    names: &[
        "shared exclusive unlock nonblock nb timeout= wait= conflict-exit-code= close command= no-fork verbose fcntl \
         start= length=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// `flock FILE COMMAND …`, `flock FILE -c TEXT`, `flock NUMBER`.
fn flock(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &FLOCK);
    meaning.notes_unknown(&items);
    for item in &items {
        if let Item::Value("c" | "command", place) = item
            && let Some(text) = place.value(args)
        {
            meaning.runs_text(text, "sh");
            return meaning;
        }
    }
    let lock = first_operand(&items, invocation);
    if lock >= args.len() {
        return meaning;
    }
    if !invocation.text(lock).is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit())) {
        meaning.writes(On::Arg(lock));
    }
    match (invocation.text(lock + 1), args.get(lock + 2)) {
        (Some("-c" | "--command"), Some(text)) => meaning.runs_text(text.clone(), "sh"),
        _ => meaning.runs(invocation.from(lock + 1), invocation.more),
    }
    meaning
}

const HYPERFINE: Grammar = Grammar {
    flags: "iNhV",
    values: "wmMrspcPDLSun",
    names: &[
        "warmup= min-runs= max-runs= runs= setup= prepare= conclude= cleanup= parameter-scan= parameter-step-size= \
         parameter-list= shell= ignore-failure? style= sort= time-unit= export-asciidoc= export-csv= export-json= \
         export-markdown= export-orgmode= show-output output= input= command-name= reference=",
    ],
    ..Grammar::NONE
};

fn hyperfine(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &HYPERFINE);
    meaning.notes_unknown(&items);
    for item in items {
        match item {
            Item::Value(
                "s" | "setup" | "p" | "prepare" | "conclude" | "c" | "cleanup" | "reference",
                place,
            ) => {
                place.value(args).into_iter().for_each(|text| meaning.runs_text(text, "sh"));
            }
            Item::Value(name, place) if name.starts_with("export-") => meaning.writes_option(args, place),
            Item::Value("S" | "shell", place) if place.text(args) != Some("none") => {
                meaning.departs(DepartureKind::Program, place.option);
            }
            Item::Operand(at) | Item::Maybe(at) => meaning.runs_text(args[at].clone(), "sh"),
            _ => {}
        }
    }
    meaning
}
