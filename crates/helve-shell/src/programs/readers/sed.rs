//! `sed`: its options, and what its script says.

mod script;

use crate::analysis::{Arg, DepartureKind, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, read};
use crate::programs::{Invocation, Meaning, On};
use script::Act;

const SED: Grammar = Grammar {
    flags: "nrEsuzab",
    values: "efl",
    optional: "iI",
    names: &["quiet silent debug expression= file= follow-symlinks in-place? line-length= null-data posix \
        regexp-extended separate sandbox unbuffered zero-terminated binary"],
    ..Grammar::NONE
};

/// What `sed` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &SED);
    meaning.notes_doubts(&items, invocation);
    let mut scripts: Vec<(usize, Option<Arg>)> = Vec::new();
    let mut files = Vec::new();
    let mut script_file = false;
    let mut in_place = None;
    for item in items {
        match item {
            Item::Value("e" | "expression", place) => scripts.push((place.option, place.value(args))),
            Item::Value("f" | "file", place) => {
                script_file = true;
                meaning.departs(DepartureKind::Code, place.option);
                meaning.reads(place.on(args));
                meaning.hides(OpaqueReason::Script, Some(place.option));
            }
            Item::Flag("i" | "I" | "in-place", at) => in_place = Some(at),
            Item::Value("i" | "I" | "in-place", place) => in_place = Some(place.option),
            // On BSD, an empty suffix is an argument of its own.
            Item::Operand(at)
                if in_place.is_some_and(|option| option + 1 == at) && args[at].text() == Some("") => {}
            Item::Operand(at) | Item::Maybe(at) => files.push(at),
            _ => {}
        }
    }
    if scripts.is_empty() && !script_file {
        if files.is_empty() {
            if invocation.more != More::Nothing {
                meaning.departs(DepartureKind::Code, args.len());
                meaning.hides(OpaqueReason::UnknownText, None);
            }
        } else {
            let at = files.remove(0);
            scripts.push((at, Some(args[at].clone())));
        }
    }
    note_scripts(&mut meaning, &scripts);
    if let Some(at) = in_place {
        meaning.departs(DepartureKind::Output, at);
    }
    for at in files {
        if invocation.text(at) != Some("-") {
            meaning.reads(On::Arg(at));
            if in_place.is_some() {
                meaning.writes(On::Arg(at));
            }
        }
    }
    if invocation.more != More::Nothing {
        meaning.reads(On::Unknown(None));
        if in_place.is_some() {
            meaning.writes(On::Unknown(None));
        }
    }
    meaning
}

/// Reads the scripts as one, as `sed` does: a line each.
fn note_scripts(meaning: &mut Meaning, scripts: &[(usize, Option<Arg>)]) {
    let mut text = String::new();
    for (index, (at, script)) in scripts.iter().enumerate() {
        let Some(known) = script.as_ref().and_then(Arg::text) else {
            meaning.departs(DepartureKind::Code, *at);
            meaning.hides(OpaqueReason::UnknownText, Some(*at));
            return;
        };
        if index > 0 {
            text.push('\n');
        }
        text.push_str(known);
    }
    let Some((at, Some(origin))) = scripts.first() else { return };
    let Some(acts) = script::read(&text) else {
        meaning.departs(DepartureKind::Code, *at);
        meaning.hides(OpaqueReason::Code, Some(*at));
        return;
    };
    for act in acts {
        match act {
            Act::Read(path) => {
                if !super::is_stream(&path) {
                    meaning.reads(On::Path(path, Some(*at)));
                }
            }
            Act::Write(path) => {
                if !super::is_stream(&path) {
                    meaning.departs(DepartureKind::Output, *at);
                    meaning.writes(On::Path(path, Some(*at)));
                }
            }
            Act::Run(command) => {
                meaning.departs(DepartureKind::Code, *at);
                meaning.runs_text(Arg::known(command, origin.span), "sh");
            }
            Act::RunInput => {
                meaning.departs(DepartureKind::Code, *at);
                meaning.hides(OpaqueReason::UnknownText, Some(*at));
            }
        }
    }
}

/// What a text says, for tests.
#[cfg(test)]
pub(super) fn script_acts(text: &str) -> impl std::fmt::Debug + use<> {
    script::read(text)
}
