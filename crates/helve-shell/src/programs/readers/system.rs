//! Programs that print something about the machine, the session or their own arguments.

use super::table::{Does, Operands, Table};
use crate::analysis::{DepartureKind, Input, OpaqueReason};
use crate::programs::options::{Grammar, Item, read};
use crate::programs::{Invocation, Meaning, On};

/// Programs that no argument makes do anything but print or succeed.
pub(super) const HARMLESS: &[&str] = &[
    ":",
    "[",
    "arch",
    "basename",
    "cal",
    "dirname",
    "echo",
    "expr",
    "factor",
    "false",
    "free",
    "getconf",
    "getent",
    "groups",
    "id",
    "last",
    "locale",
    "logname",
    "lsb_release",
    "lsblk",
    "lscpu",
    "lsmod",
    "lsof",
    "lspci",
    "lsusb",
    "ncal",
    "nproc",
    "numfmt",
    "pathchk",
    "pgrep",
    "pidof",
    "printenv",
    "printf",
    "ps",
    "pstree",
    "pwd",
    "seq",
    "sleep",
    "test",
    "top",
    "tput",
    "true",
    "tty",
    "type",
    "uname",
    "uptime",
    "users",
    "vmstat",
    "w",
    "whatis",
    "whereis",
    "which",
    "who",
    "whoami",
    "yes",
];

/// The tables of this module.
pub(super) const TABLES: &[Table] = &[
    Table {
        names: &["bc"],
        grammar: Grammar {
            flags: "hilqswvPCz",
            names: &["mathlib quiet standard warn interactive"],
            ..Grammar::NONE
        },
        operands: Operands::Paths,
        ..Table::NONE
    },
    Table {
        names: &["man"],
        grammar: Grammar {
            flags: "aDdfFiIJkKltTuVwWX7",
            values: "CELmMPpRrSse",
            optional: "H",
            names: &[
                "config-file= all whatis apropos where path location locale= manpath= sections= pager= \
                prompt= html? preprocessor= local-file",
            ],
            ..Grammar::NONE
        },
        values: &[
            ("C", Does::Configure),
            ("config-file", Does::Configure),
            ("P", Does::Shell),
            ("pager", Does::Shell),
            ("H", Does::Run),
            ("html", Does::Run),
        ],
        ..Table::NONE
    },
];

const DATE: Grammar = Grammar {
    flags: "uRjn",
    values: "dfrsvz",
    optional: "I",
    names: &["date= debug file= iso-8601? resolution rfc-email rfc-2822 rfc-3339= reference= set= utc \
        universal"],
    ..Grammar::NONE
};

/// `date`: prints, unless it is told to set the clock.
pub(super) fn date(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, &DATE);
    meaning.notes_unknown(&items);
    // On BSD, -j and -f with an operand only convert.
    let converts = items.iter().any(|item| matches!(item, Item::Flag("j", _)));
    for item in items {
        match item {
            Item::Value("s" | "set", place) => sets_machine(&mut meaning, place.option),
            Item::Value("f" | "file" | "r" | "reference", place) if !converts => {
                meaning.reads(place.on(invocation.args));
            }
            Item::Operand(at)
                if !converts && invocation.text(at).is_some_and(|text| !text.starts_with('+')) =>
            {
                sets_machine(&mut meaning, at);
            }
            _ => {}
        }
    }
    meaning
}

const HOSTNAME: Grammar = Grammar {
    flags: "aAdfiIsyhV",
    values: "Fb",
    names: &["alias all-fqdns boot domain fqdn long ip-address all-ip-addresses short nis yp file="],
    ..Grammar::NONE
};

/// `hostname`: prints, unless it is given a name.
pub(super) fn hostname(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, &HOSTNAME);
    meaning.notes_unknown(&items);
    for item in items {
        match item {
            Item::Operand(at) | Item::Maybe(at) => sets_machine(&mut meaning, at),
            Item::Value(name, place) => {
                if matches!(name, "F" | "file") {
                    meaning.reads(place.on(invocation.args));
                }
                sets_machine(&mut meaning, place.option);
            }
            _ => {}
        }
    }
    meaning
}

fn sets_machine(meaning: &mut Meaning, at: usize) {
    meaning.departs(DepartureKind::Change, at);
    meaning.writes(On::Machine);
}

const DC: Grammar = Grammar { flags: "hV", values: "ef", names: &["expression= file="], ..Grammar::NONE };

/// `dc`: its `!` starts a command.
pub(super) fn dc(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, &DC);
    meaning.notes_unknown(&items);
    let mut sources: Vec<(Option<&str>, usize)> = Vec::new();
    for item in items {
        match item {
            Item::Value("e" | "expression", place) => {
                sources.push((place.text(invocation.args), place.option))
            }
            Item::Value(_, place) => sources.push((None, place.option)),
            Item::Operand(at) | Item::Maybe(at) => {
                meaning.reads(On::Arg(at));
                sources.push((None, at));
            }
            _ => {}
        }
    }
    if sources.is_empty() {
        let text = match invocation.input {
            Input::Text(text) => text.text(),
            _ => None,
        };
        sources.push((text, invocation.args.len()));
    }
    for (_, at) in sources.into_iter().filter(|(text, _)| text.is_none_or(starts_commands)) {
        meaning.departs(DepartureKind::Code, at);
        meaning.hides(OpaqueReason::Code, (at < invocation.args.len()).then_some(at));
    }
    meaning
}

/// Whether `dc` code has a `!` that is not part of a comparison.
fn starts_commands(code: &str) -> bool {
    code.match_indices('!').any(|(at, _)| !code[at + 1..].starts_with(['<', '=', '>']))
}
