//! `make`: its targets are the owner's; what is given on the command line is not.

use crate::analysis::{DepartureKind, Input, OpaqueReason};
use crate::programs::options::{Grammar, Item, read, tail};
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
    if invocation.outside {
        meaning.departs(DepartureKind::Code, args.len());
        meaning.hides(OpaqueReason::Script, None);
    }
    for item in items {
        match item {
            Item::Value("E" | "eval", place) => {
                meaning.departs(DepartureKind::Code, place.option);
                meaning.hides(OpaqueReason::Code, Some(place.option));
                place.value(args).into_iter().for_each(|text| {
                    meaning.runs_lines(&text, recipe);
                    meaning.runs_lines(&text, shell_function);
                });
            }
            Item::Value("f" | "file" | "makefile", place) => {
                match (place.text(args), invocation.input) {
                    (Some("-" | "/dev/stdin"), Input::Text(text)) => meaning.runs_lines(text, recipe),
                    _ => meaning.reads(place.on(args)),
                }
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
                if invocation.leads_outside(place.text(args)) {
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
        if runs || (matches!(name, "SHELL" | "MAKESHELL") && value.contains(' ')) {
            meaning.runs_text(tail(&invocation.args[at], left.len() + 1), "sh");
        }
    } else if PROGRAMS.contains(&name)
        || value.split_ascii_whitespace().any(|word| leads_away(invocation, word))
    {
        meaning.departs(DepartureKind::Program, at);
    }
}

/// The command of a line of a makefile: behind a tab, or behind `target: sources;`.
fn recipe(line: &str) -> Option<&str> {
    let command = match line.strip_prefix('\t') {
        Some(command) => command,
        None => line.split_once(':')?.1.split_once(';')?.1,
    };
    Some(command.trim_start_matches([' ', '\t', '@', '-', '+']))
}

/// The command of the first `$(shell …)` of a line.
fn shell_function(line: &str) -> Option<&str> {
    let (_, command) = line.split_once("$(shell ").or_else(|| line.split_once("${shell "))?;
    let mut open = 0;
    let end = command.find(|next: char| {
        open += i32::from(matches!(next, '(' | '{')) - i32::from(matches!(next, ')' | '}'));
        open < 0
    });
    Some(&command[..end.unwrap_or(command.len())])
}

/// Whether a value can do more in a recipe than stand for a word or a list of words.
fn is_code(value: &str) -> bool {
    value.contains(['$', '`', ';', '|', '&', '<', '>', '(', ')', '\n', '\r'])
}

/// Options of compilers, linkers and runners that load code, name a program or a file to write.
const LOADING: &[&str] = &[
    "-fplugin",
    "-fpass-plugin",
    "-B",
    "-specs",
    "--specs",
    "-wrapper",
    "-load",
    "-Xclang",
    "-Xlinker",
    "-toolexec",
    "-exec",
    "--exec",
    "--eval",
    "-fuse-ld",
    "-include",
    "-imacros",
    "-o",
    "--output",
];

/// Whether a word of a value is a file that a recipe may run, a place outside, or an option that does as much.
fn leads_away(invocation: &Invocation<'_>, word: &str) -> bool {
    // A pattern of packages is no file.
    if word.ends_with("/...") && !word.starts_with(['/', '~']) {
        return false;
    }
    let (option, value) = word.split_once('=').unwrap_or((word, word));
    if word.starts_with('-')
        && (LOADING.contains(&option) || word.starts_with("-B") || word.starts_with("-Wl,"))
    {
        return true;
    }
    value.starts_with("./") || (value.starts_with(['/', '~', '.']) && invocation.leads_outside(Some(value)))
}
