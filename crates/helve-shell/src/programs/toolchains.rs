//! Options with which package managers and build tools run other programs, read other settings or write elsewhere.
//!
//! What the tools do is said elsewhere, and their many plain options need no list. They are looked for by name, wherever
//! they stand before what belongs to a script or a test.

use super::options::{Place, may_hide_option};
use super::{Invocation, Meaning};
use crate::analysis::{Arg, DepartureKind, More};

/// Options of one kind: their names without dashes, divided by blanks.
struct Options {
    kind: DepartureKind,
    names: &'static str,
}

const NPM: &[Options] = &[
    Options { kind: DepartureKind::Program, names: "script-shell shell editor viewer browser git python" },
    Options { kind: DepartureKind::Code, names: "node-options init-module onload-script" },
    Options { kind: DepartureKind::Configuration, names: "prefix C userconfig globalconfig" },
];
const PNPM: &[Options] = &[
    Options { kind: DepartureKind::Program, names: "script-shell shell editor npm-path git python" },
    Options { kind: DepartureKind::Code, names: "node-options pnpmfile global-pnpmfile" },
    Options { kind: DepartureKind::Configuration, names: "prefix dir C userconfig globalconfig" },
];
const YARN: &[Options] = &[
    Options { kind: DepartureKind::Program, names: "script-shell" },
    Options { kind: DepartureKind::Configuration, names: "cwd use-yarnrc prefix userconfig" },
];
const BUN: &[Options] = &[
    Options { kind: DepartureKind::Program, names: "shell" },
    Options { kind: DepartureKind::Code, names: "preload r require import" },
    Options { kind: DepartureKind::Configuration, names: "cwd config c env-file" },
];
const CARGO: &[Options] = &[
    Options { kind: DepartureKind::Configuration, names: "config manifest-path Z C" },
    Options { kind: DepartureKind::Output, names: "target-dir artifact-dir out-dir lockfile-path" },
];
const GO: &[Options] = &[
    Options { kind: DepartureKind::Program, names: "exec toolexec vettool" },
    Options { kind: DepartureKind::Configuration, names: "C modfile overlay pkgdir" },
    Options {
        kind: DepartureKind::Output,
        names: "o outputdir coverprofile cpuprofile memprofile blockprofile mutexprofile trace",
    },
];

/// Notes such options of a program that has them.
pub(super) fn note(invocation: &Invocation<'_>, meaning: &mut Meaning) {
    let table = match invocation.program {
        "npm" => NPM,
        "pnpm" => PNPM,
        "yarn" => YARN,
        "bun" => BUN,
        "cargo" => CARGO,
        "go" => GO,
        _ => return,
    };
    let args = invocation.args;
    let end = end(invocation);
    for (at, arg) in args.iter().enumerate().take(end) {
        let known = arg.prefix();
        let is_cut = arg.text().is_none() && known.starts_with('-') && !known.contains('=');
        if at > 0 && (is_cut || may_hide_option(arg)) {
            meaning.departs(DepartureKind::PossibleOption, at);
        }
        if let Some((kind, place)) = option(invocation.program, table, arg, at) {
            found(invocation, meaning, kind, place);
        }
    }
    if invocation.more == More::Anything && end == args.len() {
        meaning.departs(DepartureKind::PossibleOption, args.len());
    }
}

/// Where what belongs to a script, a test or a program starts.
fn end(invocation: &Invocation<'_>) -> usize {
    let args = invocation.args;
    let is_option = |at: usize| args[at].prefix().starts_with('-');
    // Behind what is run all is its own; a word behind an option may be the option's value.
    let is_run = matches!((invocation.program, invocation.text(0)), ("go" | "cargo", Some("run" | "r")));
    let own = |at: &usize| match args[*at].text() {
        Some("--") => true,
        Some("-args" | "--args") if invocation.program == "go" => true,
        _ => is_run && *at > 1 && !is_option(*at - 1) && !is_option(*at - 2),
    };
    (0..args.len()).find(own).unwrap_or(args.len())
}

/// Which option of the table an argument is, and where its value stands.
fn option(program: &str, table: &[Options], arg: &Arg, at: usize) -> Option<(DepartureKind, Place)> {
    let known = arg.prefix();
    let text = known.trim_start_matches('-');
    let dashes = known.len() - text.len();
    if dashes == 0 || text.is_empty() {
        return None;
    }
    let (name, attached) = match text.split_once('=') {
        Some((name, _)) => (name, true),
        None => (text, false),
    };
    // `pnpm` takes any setting in this way.
    let name = name.strip_prefix("config.").filter(|_| program == "pnpm").unwrap_or(name);
    let letter = |wanted: &str| wanted.len() == 1 && dashes == 1 && name.starts_with(wanted);
    let is = |wanted: &str| match program {
        // It takes abbreviations.
        "npm" => name == wanted || (name.len() > 3 && wanted.starts_with(name)),
        "cargo" | "bun" => letter(wanted) || (dashes == 2 && name == wanted),
        _ => name == wanted,
    };
    let (kind, wanted) = table
        .iter()
        .flat_map(|options| options.names.split(' ').map(|name| (options.kind, name)))
        .find(|(_, wanted)| is(wanted))?;
    let place = if attached {
        Place { option: at, arg: at, skip: known.find('=').map_or(known.len(), |mark| mark + 1) }
    } else if letter(wanted) && name.len() > 1 {
        Place { option: at, arg: at, skip: 2 }
    } else {
        Place { option: at, arg: at + 1, skip: 0 }
    };
    Some((kind, place))
}

fn found(invocation: &Invocation<'_>, meaning: &mut Meaning, kind: DepartureKind, place: Place) {
    match kind {
        DepartureKind::Program => meaning.runs_option_text(invocation.args, place),
        DepartureKind::Output => meaning.writes_option(invocation.args, place),
        kind => meaning.departs(kind, place.option),
    }
}
