//! `awk`: its options, and what its program says.

mod program;

use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, read};
use crate::programs::{Inner, Invocation, Meaning, On};
use program::Act;

const AWK: Grammar = Grammar {
    flags: "bcCghIkMnNOPrsStV",
    values: "FvfeEilW",
    optional: "dDLop",
    names: &["field-separator= assign= file= source= exec= include= load= characters-as-bytes traditional \
        copyright csv dump-variables? debug? lint? pretty-print? profile? gen-pot bignum \
        non-decimal-data use-lc-numeric optimize no-optimize posix re-interval sandbox lint-old trace"],
    order: Order::First,
    ..Grammar::NONE
};

/// What `awk` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &AWK);
    meaning.notes_unknown(&items);
    let mut programs: Vec<(usize, Option<Arg>)> = Vec::new();
    let mut operands = Vec::new();
    let mut program_file = false;
    for item in items {
        match item {
            Item::Value("e" | "source", place) => programs.push((place.option, place.value(args))),
            Item::Value("f" | "file" | "E" | "exec", place) => {
                program_file = true;
                meaning.departs(DepartureKind::Code, place.option);
                meaning.reads(place.on(args));
                meaning.hides(OpaqueReason::Script, Some(place.option));
            }
            Item::Value("i" | "include" | "l" | "load", place) => {
                let in_place = place.text(args) == Some("inplace");
                let kind = if in_place { DepartureKind::Output } else { DepartureKind::Code };
                meaning.departs(kind, place.option);
                if in_place {
                    meaning.writes(On::Unknown(Some(place.option)));
                } else {
                    meaning.hides(OpaqueReason::Script, Some(place.option));
                }
            }
            Item::Value("W", place) => {
                let text = place.text(args).map(str::to_ascii_lowercase);
                if !text.is_some_and(|text| HARMLESS_W.contains(&text.as_str())) {
                    meaning.departs(DepartureKind::UnknownOption, place.option);
                    meaning.hides(OpaqueReason::Code, Some(place.option));
                }
            }
            Item::Flag(name @ ("d" | "dump-variables" | "o" | "pretty-print" | "p" | "profile"), at) => {
                meaning.departs(DepartureKind::Output, at);
                let file = if name.starts_with('d') { "awkvars.out" } else { "awkprof.out" };
                meaning.writes(On::Path(file.to_owned(), Some(at)));
            }
            Item::Value("d" | "dump-variables" | "o" | "pretty-print" | "p" | "profile", place) => {
                meaning.writes_option(args, place);
            }
            Item::Flag("D" | "debug", at) => meaning.departs(DepartureKind::Code, at),
            Item::Value("D" | "debug", place) => meaning.departs(DepartureKind::Code, place.option),
            Item::Operand(at) => operands.push(at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                operands.push(at);
            }
            _ => {}
        }
    }
    if programs.is_empty() && !program_file {
        if operands.is_empty() {
            if invocation.more != More::Nothing {
                meaning.departs(DepartureKind::Code, args.len());
                meaning.hides(OpaqueReason::UnknownText, None);
            }
        } else {
            let at = operands.remove(0);
            programs.push((at, Some(args[at].clone())));
        }
    }
    if let Some((at, text)) = whole(programs) {
        note_program(&mut meaning, at, text);
    }
    let opens = |arg: &Arg| arg.prefix().rsplit('=').next().is_some_and(|path| path.starts_with("/inet"));
    for at in (0..args.len()).filter(|at| opens(&args[*at])) {
        meaning.departs(DepartureKind::Network, at);
        meaning.does(EffectKind::Connect, On::Unknown(Some(at)));
    }
    for at in operands {
        let is_assignment = args[at].prefix().split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        if !is_assignment && invocation.text(at) != Some("-") {
            meaning.reads(On::Arg(at));
        }
    }
    if invocation.more != More::Nothing {
        meaning.reads(On::Unknown(None));
    }
    meaning
}

/// Values of `-W` that change nothing but what is printed.
const HARMLESS_W: &[&str] = &[
    "version",
    "v",
    "help",
    "usage",
    "posix",
    "traditional",
    "compat",
    "lint",
    "re-interval",
    "interactive",
];

/// Several sources are one program, a line each.
fn whole(sources: Vec<(usize, Option<Arg>)>) -> Option<(usize, Option<Arg>)> {
    let mut sources = sources.into_iter();
    let (at, first) = sources.next()?;
    let Some(mut program) = first else { return Some((at, None)) };
    for (_, next) in sources {
        let Some(next) = next else { return Some((at, None)) };
        program.parts = match (program.text(), next.text()) {
            (Some(before), Some(text)) => vec![ArgPart::Known(format!("{before}\n{text}"))],
            _ => return Some((at, None)),
        };
    }
    Some((at, Some(program)))
}

fn note_program(meaning: &mut Meaning, at: usize, program: Option<Arg>) {
    let Some((program, text)) = program.as_ref().and_then(|arg| Some((arg, arg.text()?))) else {
        meaning.departs(DepartureKind::Code, at);
        meaning.hides(OpaqueReason::UnknownText, Some(at));
        return;
    };
    let mut starts_programs = false;
    for act in program::read(text) {
        match act {
            Act::Read(path) => {
                if !super::is_stream(&path) {
                    meaning.reads(On::Path(path, Some(at)));
                }
            }
            Act::Write(path) => {
                if !super::is_stream(&path) {
                    meaning.departs(DepartureKind::Output, at);
                    meaning.writes(On::Path(path, Some(at)));
                }
            }
            Act::WriteSomewhere => {
                meaning.departs(DepartureKind::Output, at);
                meaning.writes(On::Unknown(Some(at)));
            }
            Act::Run(command) => {
                starts_programs = true;
                meaning.runs_text(Arg::known(command, program.span), "sh");
            }
            Act::RunSomething => {
                starts_programs = true;
                meaning.hides(OpaqueReason::UnknownText, Some(at));
            }
            Act::Connect => {
                meaning.departs(DepartureKind::Network, at);
                meaning.does(EffectKind::Connect, On::Unknown(Some(at)));
            }
            Act::Unreadable => {
                starts_programs = true;
                meaning.hides(OpaqueReason::Code, Some(at));
            }
        }
    }
    if starts_programs {
        meaning.departs(DepartureKind::Code, at);
        meaning.inner.push(Inner::Code { language: "awk", text: program.clone() });
    }
}

/// What a text says, for tests.
#[cfg(test)]
pub(super) fn program_acts(text: &str) -> impl std::fmt::Debug + use<> {
    program::read(text)
}
