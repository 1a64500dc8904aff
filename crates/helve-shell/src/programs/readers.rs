//! Programs that people call read-only, with the options that make them something else.
//!
//! In comes an argv, out goes which files it reads, and where an option, a script or an operand makes the program write,
//! run another program, or take code. Options that a program does not have are departures: the guard vouches for
//! ordinary behaviour only.
//!
//! | module | programs |
//! |---|---|
//! | `table` | what a table is, and how it is applied |
//! | `filters`, `files`, `system` | those that a table describes fully |
//! | `search` | `rg` and `fd` |
//! | `find`, `sed`, `awk`, `jq`, `tar`, `make`, `git` | those with a language of their own |

mod awk;
mod files;
mod filters;
mod find;
mod git;
mod jq;
mod make;
mod search;
mod sed;
mod system;
mod table;
mod tar;
#[cfg(test)]
mod tests;

pub use git::is_plain_setting;

use super::meaning::is_stream;
use super::{Invocation, Meaning, is_named};

/// So many bytes may the paths take that an option such as `-C DIRECTORY` makes of the other arguments.
const MAX_JOINED: usize = 1 << 20;

/// What the argv means, if this table knows the program.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let program = invocation.program;
    let meaning = match program {
        "git" => return Some(git::understand(invocation)),
        // It takes the name of a page or of a file.
        "man" => return by_table(invocation),
        "find" | "gfind" => find::understand(invocation),
        "sed" | "gsed" => sed::understand(invocation),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => awk::understand(invocation),
        "tar" | "gtar" | "bsdtar" => tar::understand(invocation),
        "make" | "gmake" => make::understand(invocation),
        "rg" | "ripgrep" => search::rg(invocation),
        "fd" | "fdfind" => search::fd(invocation),
        "jq" => jq::understand(invocation),
        "date" => system::date(invocation),
        "hostname" => system::hostname(invocation),
        "dc" => system::dc(invocation),
        _ if is_named(system::HARMLESS, program) => Meaning::default(),
        _ => by_table(invocation)?,
    };
    Some(meaning.whole())
}

fn by_table(invocation: &Invocation<'_>) -> Option<Meaning> {
    let tables = [filters::TABLES, files::TABLES, system::TABLES];
    let known = |table: &&table::Table| is_named(table.names, invocation.program);
    let table = tables.into_iter().flatten().find(known)?;
    let mut meaning = table::apply(table, invocation);
    if matches!(invocation.program, "less" | "more" | "zless" | "zmore" | "most") {
        for (at, arg) in invocation.args.iter().enumerate() {
            if let Some(kind) = arg.text().and_then(filters::pager_command) {
                meaning.departs(kind, at);
                meaning.runs_lines(arg, |line| line.trim_start_matches('+').strip_prefix('!'));
            }
        }
    }
    Some(meaning)
}
