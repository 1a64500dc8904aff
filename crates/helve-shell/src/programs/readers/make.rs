//! `make`: its targets are the owner's; what is given on the command line is not.

use crate::analysis::{DepartureKind, OpaqueReason};
use crate::programs::options::{Grammar, Item, read};
use crate::programs::{Invocation, Meaning};

const MAKE: Grammar = Grammar {
    flags: "bBdeiknmpqrRsStvwhL",
    values: "CfIoWE",
    optional: "jlO",
    names: &["always-make directory= debug? environment-overrides eval= file= makefile= ignore-errors \
        include-dir= jobs? keep-going load-average? max-load? check-symlink-times just-print dry-run \
        recon old-file= assume-old= output-sync? print-data-base question no-builtin-rules \
        no-builtin-variables silent quiet no-silent no-keep-going stop touch trace print-directory \
        no-print-directory what-if= new-file= assume-new= warn-undefined-variables shuffle? \
        jobserver-auth? jobserver-style="],
    ..Grammar::NONE
};

/// Variables that name what `make` and its usual rules run.
const PROGRAMS: &[&str] = &[
    "AR", "ARFLAGS", "AS", "CC", "CO", "COMPILER", "CPP", "CXX", "FC", "GET", "GO", "INSTALL", "LD", "LEX",
    "LINT", "M2C", "MAKE", "MAKEINFO", "NM", "NODE", "NPM", "OBJCOPY", "PC", "PERL", "PYTHON", "RANLIB",
    "RM", "RUBY", "STRIP", "TANGLE", "TEX", "WEAVE", "YACC", "CTANGLE", "CWEAVE", "TEXI2DVI", "CARGO",
    "DOCKER",
];

/// Variables that change how `make` itself works.
const STEERING: &[&str] = &[
    "SHELL",
    ".SHELLFLAGS",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MFLAGS",
    "MAKEFILES",
    "MAKEFILE_LIST",
    "MAKEOVERRIDES",
    ".RECIPEPREFIX",
    "VPATH",
    ".INCLUDE_DIRS",
    "MAKESHELL",
    "PATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
];

/// What `make` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &MAKE);
    meaning.notes_doubts(&items, invocation);
    for item in items {
        match item {
            Item::Value("E" | "eval", place) => {
                meaning.departs(DepartureKind::Code, place.option);
                meaning.hides(OpaqueReason::Code, Some(place.option));
            }
            Item::Value("f" | "file" | "makefile", place) => {
                meaning.reads(place.on(args));
                if !matches!(
                    place.text(args),
                    Some("Makefile" | "makefile" | "GNUmakefile" | "./Makefile" | "./makefile" | "/dev/null")
                ) {
                    meaning.departs(DepartureKind::Code, place.option);
                    meaning.hides(OpaqueReason::Script, Some(place.option));
                }
            }
            Item::Value("I" | "include-dir", place) => {
                meaning.departs(DepartureKind::Configuration, place.option)
            }
            Item::Value("C" | "directory", place) => {
                meaning.reads(place.on(args));
                // The makefile of a directory below is the project's own; one from elsewhere is not.
                if place.text(args).is_none_or(|path| {
                    path.starts_with(['/', '~']) || path.split('/').any(|part| part == "..")
                }) {
                    meaning.departs(DepartureKind::Code, place.option);
                    meaning.hides(OpaqueReason::Script, Some(place.option));
                }
            }
            Item::Operand(at) | Item::Maybe(at) => assignment(&mut meaning, invocation, at),
            _ => {}
        }
    }
    meaning
}

/// `NAME=value`, with the operators `=`, `:=`, `::=`, `?=`, `+=`, `!=`.
fn assignment(meaning: &mut Meaning, invocation: &Invocation<'_>, at: usize) {
    let known = invocation.args[at].prefix();
    let Some((left, value)) = known.split_once('=') else { return };
    let runs = left.ends_with('!');
    let name = left.trim_end_matches(['!', '?', '+', ':']).trim();
    let text = invocation.text(at).map(|_| value);
    if runs || STEERING.contains(&name) || text.is_none_or(is_code) || name.contains('$') {
        meaning.departs(DepartureKind::Code, at);
        meaning.hides(OpaqueReason::Code, Some(at));
    } else if PROGRAMS.contains(&name) {
        meaning.departs(DepartureKind::Program, at);
    }
}

/// Whether a value can do more in a recipe than stand for a word or a list of words.
fn is_code(value: &str) -> bool {
    value.contains(['$', '`', ';', '|', '&', '<', '>', '(', ')', '\n', '\r'])
}
