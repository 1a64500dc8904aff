//! Programs that run a command repeatedly or under a lock.

use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind, Input, More, OpaqueReason};
use crate::programs::meaning::joined;
use crate::programs::options::{Grammar, Item, Order, read};
use crate::programs::{Invocation, Meaning, On};

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

/// What is read becomes arguments: behind the command, or where a mark stands.
fn xargs(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &XARGS);
    meaning.notes_unknown(&items);
    let mut first = args.len();
    let mut mark: Option<String> = None;
    let mut unknown_mark = false;
    for item in items {
        match item {
            Item::Value("I" | "i" | "J" | "replace", place) => {
                mark = place.text(args).map(str::to_owned);
                unknown_mark = mark.is_none();
            }
            Item::Flag("i" | "replace", _) => mark = Some("{}".to_owned()),
            Item::Value("a" | "arg-file", place) => meaning.reads(place.on(args)),
            Item::Operand(at) => first = first.min(at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                first = first.min(at);
            }
            _ => {}
        }
    }
    if invocation.more == More::Anything && first == args.len() {
        meaning.departs(DepartureKind::PossibleOption, first);
    }
    let command = invocation.from(first);
    match mark.filter(|mark| !mark.is_empty()) {
        Some(mark) if !command.is_empty() => {
            meaning.runs(&command.iter().map(|arg| marked(arg, &mark)).collect::<Vec<_>>(), More::Nothing);
        }
        _ if command.is_empty() && invocation.more == More::Nothing => {
            // Without a command it prints what it reads.
            let span = args.first().map_or(crate::Span { start: 0, end: 0 }, |arg| arg.span);
            meaning.runs(&[Arg::known("echo", span)], More::Anything);
        }
        _ => {
            if unknown_mark {
                meaning.hides(OpaqueReason::UnknownText, None);
            }
            meaning.runs(command, More::Anything);
        }
    }
    meaning
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
        let mark = rest[open..].find('}').map(|close| &rest[open + 1..open + close]);
        let Some(mark) = mark
            .filter(|mark| mark.len() <= 8 && mark.bytes().all(|byte| b"0123456789./%#-+".contains(&byte)))
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
