//! Programs that start others.
//!
//! In comes an argv, out goes the command that it starts: an argv of its own, a text for a shell, or code in another
//! language. Options that a runner does not have are departures. How deep commands are followed, and shells and
//! interpreters that are fed through standard input, is the walker's business.
//!
//! | module | programs |
//! |---|---|
//! | `shells` | `sh`, `bash`, `zsh`, `fish` … with `-c`, a script, `--rcfile` |
//! | `wrappers` | those that run their operands as they stand: `nice`, `timeout`, `nohup`, `strace` |
//! | `env` | `env` |
//! | `privilege` | `sudo`, `doas`, `su`, `pkexec` and their kind |
//! | `repeaters` | `xargs`, `parallel`, `watch`, `entr`, `flock`, `hyperfine` |
//! | `sessions` | `script`, `tmux`, `screen`, `at`, `fzf` |
//! | `elsewhere` | `ssh`, containers, other roots and namespaces |
//! | `environments` | tools that prepare surroundings: `direnv`, `mise`, `nix`, `conda`, `bwrap`, `gosu` |
//! | `interpreters` | code in other languages |
//! | `packages` | `npx`, `npm run`, `uv run`, `cargo run` |
//! | `windows` | `powershell` and `cmd` |

mod elsewhere;
mod env;
mod environments;
mod interpreters;
mod packages;
mod privilege;
mod repeaters;
mod sessions;
mod shells;
#[cfg(test)]
mod tests;
mod windows;
mod wrappers;

pub(crate) use shells::{is_unusual_mode, mode_of};

use super::{Invocation, Meaning};

/// What the argv means, if this table knows the program.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let tables = [
        shells::understand,
        wrappers::understand,
        env::understand,
        privilege::understand,
        repeaters::understand,
        sessions::understand,
        elsewhere::understand,
        environments::understand,
        interpreters::understand,
        packages::understand,
        windows::understand,
    ];
    tables.iter().find_map(|table| table(invocation))
}
