//! Builtins that only steer the shell: an allow list need not name them.

use helve_shell::analysis::{Run, RunKind};

/// Those that do nothing to the world whatever their arguments are; a subscript or a variable that runs code is opaque,
/// and a redirection is a departure.
const PLAIN: &[&str] = &[
    ":", "[", "break", "cd", "continue", "dirs", "exit", "export", "false", "getopts", "local", "popd",
    "pushd", "pwd", "read", "return", "shift", "test", "true", "type", "unset", "wait",
];

/// Options of `set` that change how errors end a script.
const SET_OPTIONS: &[&str] = &["errexit", "nounset", "pipefail", "noglob", "noclobber"];

/// Whether a run needs no rule of its own. A function needs none either: what its body runs is listed by itself.
pub(crate) fn needs_no_rule(run: &Run, opaque: bool) -> bool {
    if opaque || !run.departures.is_empty() {
        return false;
    }
    let name = run.program.as_deref().unwrap_or_default();
    match run.kind {
        RunKind::Function => true,
        RunKind::Program => false,
        RunKind::Builtin if PLAIN.contains(&name) => true,
        RunKind::Builtin => {
            let args: Option<Vec<&str>> = run.argv.iter().skip(1).map(|arg| arg.text()).collect();
            match (name, args) {
                ("set", Some(args)) => !args.is_empty() && sets_how_errors_end(&args),
                // It only says what a name means.
                ("command", Some(args)) => matches!(args.first(), Some(&("-v" | "-V"))),
                _ => false,
            }
        }
    }
}

/// `set -e`, `set -euo pipefail`, `set +u`.
fn sets_how_errors_end(args: &[&str]) -> bool {
    let mut wants_name = false;
    for arg in args {
        if wants_name {
            if !SET_OPTIONS.contains(arg) {
                return false;
            }
            wants_name = false;
            continue;
        }
        let Some(flags) = arg.strip_prefix(['-', '+']) else { return false };
        if flags.is_empty() || !flags.bytes().all(|flag| b"eufCo".contains(&flag)) {
            return false;
        }
        wants_name = flags.contains('o');
    }
    !wants_name
}
