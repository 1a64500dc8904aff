//! What the arguments of subcommands that change something name: files that are read, or text and commits.
//!
//! Only what is certain to be no file is left out here; all else that is spelled like a path may be one.

use std::collections::HashSet;

use super::values::Takes;
use super::{Call, paths};
use crate::analysis::DepartureKind;
use crate::programs::Meaning;
use crate::spelling;

/// Subcommands whose operands are files, or may be.
const TAKE_FILES: &[&str] = &[
    "am",
    "apply",
    "bisect",
    "bundle",
    "commit",
    "difftool",
    "format-patch",
    "index-pack",
    "merge-file",
    "quiltimport",
    "reflog",
    "restore",
    "send-email",
    "stash",
    "unpack-file",
];

/// Subcommands whose operands are commits, branches and tags, or what `reset` takes out of the index.
const COMMITS: &[&str] = &[
    "branch",
    "tag",
    "merge",
    "merge-tree",
    "rebase",
    "cherry-pick",
    "revert",
    "reset",
    "switch",
    "checkout",
    "notes",
    "update-ref",
    "symbolic-ref",
    "commit-tree",
    "read-tree",
    "replace",
];

/// Subcommands whose first operand is a repository, and whose others are commits, branches and tags.
const REMOTE: &[&str] = &["push", "send-pack", "fetch", "fetch-pack", "pull"];

/// Notes the files that a subcommand may read, such as a patch, a message or a list, and what is text.
pub(super) fn note(call: &Call<'_>, meaning: &mut Meaning) {
    options(call, meaning);
    operands(call, meaning);
    in_front(call, meaning);
}

/// The options of git itself are known, but for those that no table has.
fn in_front(call: &Call<'_>, meaning: &mut Meaning) {
    let is_unknown = |(kind, at): &(DepartureKind, usize)| {
        (*kind == DepartureKind::UnknownOption && *at < call.at).then_some([*at, *at + 1])
    };
    let unknown: HashSet<usize> = meaning.departures.iter().filter_map(is_unknown).flatten().collect();
    meaning.texts.extend((0..=call.at).filter(|at| !unknown.contains(at)));
}

fn options(call: &Call<'_>, meaning: &mut Meaning) {
    for given in call.options() {
        let is_there = given.place.arg < call.args().len();
        match given.takes {
            Takes::File if is_there => call.may_hold(meaning, given.place),
            Takes::Text if is_there => meaning.texts.push(given.place.arg),
            _ => {}
        }
    }
}

/// What an operand is.
enum Operand {
    /// A file, or one of a commit, or anything else that is not spelled like one.
    File,
    /// No file, however it looks.
    Text,
    /// Not known.
    Open,
}

fn operands(call: &Call<'_>, meaning: &mut Meaning) {
    let touched: HashSet<usize> = meaning.deeds.iter().filter_map(|deed| deed.on.argument()).collect();
    let verb = call.operands().next().and_then(|at| call.text(at));
    let end = call.end();
    for (index, at) in call.operands().enumerate().filter(|(_, at)| !touched.contains(at)) {
        match operand(call, (verb, end), index, at) {
            Operand::File => call.may_read(meaning, at),
            Operand::Text => meaning.texts.push(at),
            Operand::Open => {}
        }
    }
}

/// `known` is the first operand, and where `--` stands.
fn operand(call: &Call<'_>, known: (Option<&str>, Option<usize>), index: usize, at: usize) -> Operand {
    let (verb, end) = known;
    let text = call.args().get(at).map_or("", |arg| arg.prefix());
    let leads = spelling::leads(text) || text.starts_with("file:");
    // What stands behind an option that nobody knows may be its value.
    let behind = |start: &str| {
        call.args().get(at - 1).is_some_and(|arg| arg.prefix().starts_with(start) && at - 1 > call.at)
    };
    match call.name {
        // The name and the value of a setting.
        "config" if behind("-") => Operand::Open,
        // Patterns.
        "config" | "sparse-checkout" => Operand::Text,
        "stash" if verb == Some("save") && index > 0 => Operand::Text,
        // A command.
        "bisect" if verb == Some("run") => Operand::Open,
        name if TAKE_FILES.contains(&name) => Operand::File,
        name if REMOTE.contains(&name) && (index == 0 || leads || behind("--")) => Operand::Open,
        name if REMOTE.contains(&name) => Operand::Text,
        name if !COMMITS.contains(&name) => Operand::Open,
        "reset" if end.is_some_and(|end| end < at) => Operand::File,
        _ if leads || text.contains(':') => Operand::File,
        _ if behind("--") => Operand::Open,
        _ => Operand::Text,
    }
}

/// Notes the files of commits that arguments may name of a subcommand that nobody knows, such as an alias. What looks like
/// a URL or like a path of another machine is none.
pub(super) fn note_unknown(call: &Call<'_>, meaning: &mut Meaning) {
    for at in call.operands() {
        let text = call.text(at).unwrap_or_default();
        let is_path = |(commit, path): (&str, &str)| {
            !path.starts_with('/') && !commit.contains('=') && !spelling::leads(commit)
        };
        if paths::behind_commit(text).any(is_path) {
            call.may_name(meaning, text, at);
        }
    }
}
