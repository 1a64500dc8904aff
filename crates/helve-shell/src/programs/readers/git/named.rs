//! What the arguments of subcommands that change something name: files that are read, or text and commits.
//!
//! Only what is certain to be no file is left out here; all else that is spelled like a path may be one.

use std::collections::HashSet;

use super::Call;
use super::changes::{args, operands};
use crate::analysis::DepartureKind;
use crate::programs::{Meaning, On};
use crate::spelling;

/// Subcommands whose operands are files, or may be.
const TAKE_FILES: &[&str] =
    &["am", "apply", "bundle", "difftool", "index-pack", "merge-file", "quiltimport", "send-email", "stash"];

/// Long options whose value is a file that is read.
const FILES: &[&str] = &[
    "file",
    "template",
    "pathspec-from-file",
    "signature-file",
    "rules-file",
    "reference",
    "reference-if-able",
];

/// Long options whose value is text.
const TEXTS: &[&str] = &[
    "message",
    "author",
    "date",
    "trailer",
    "format",
    "sort",
    "reason",
    "subject",
    "subject-prefix",
    "grep",
    "exclude",
];

/// Subcommands whose `-m` has a message behind it.
const MESSAGES: &[&str] =
    &["commit", "tag", "merge", "notes", "stash", "commit-tree", "update-ref", "symbolic-ref"];

/// Subcommands whose operands are commits, branches and tags, or what `reset` takes out of the index.
const COMMITS: &[&str] = &[
    "push",
    "send-pack",
    "fetch",
    "fetch-pack",
    "pull",
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
    "reflog",
    "bisect",
    "format-patch",
];

/// Subcommands of those whose first operand is a repository.
const REMOTE: &[&str] = &["push", "send-pack", "fetch", "fetch-pack", "pull"];

/// Notes the files that a subcommand may read, such as a patch, a message or a list, and what is text.
pub(super) fn note(call: &Call<'_>, meaning: &mut Meaning) {
    options(call, meaning);
    texts(call, meaning);
    if TAKE_FILES.contains(&call.name) {
        let known: HashSet<usize> = meaning.texts.iter().copied().collect();
        operands(call).filter(|at| !known.contains(at)).for_each(|at| call.may_read(meaning, at));
    }
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

/// What the value of an option is.
#[derive(Clone, Copy)]
enum Value {
    File,
    Text,
}

fn options(call: &Call<'_>, meaning: &mut Meaning) {
    for (index, arg) in args(call).iter().enumerate() {
        let at = call.at + 1 + index;
        let known = arg.prefix();
        if known == "--" && arg.text().is_some() {
            return;
        }
        let Some((value, skip)) = option(call.name, known) else { continue };
        match (value, arg.text().map(|text| text.get(skip..).unwrap_or_default())) {
            (_, Some("")) if at + 1 >= call.args().len() => {}
            (Value::File, Some("")) => call.may_read(meaning, at + 1),
            (Value::File, Some(file)) => call.may_name(meaning, file, at),
            (Value::File, None) => meaning.perhaps.push(On::Tail(at, skip)),
            (Value::Text, Some("")) => meaning.texts.push(at + 1),
            (Value::Text, _) => meaning.texts.push(at),
        }
    }
}

/// What an option has for a value, and where that starts in the argument: at its end for a value in the next one.
fn option(subcommand: &str, known: &str) -> Option<(Value, usize)> {
    if let Some(long) = known.strip_prefix("--") {
        let (name, skip) = match long.split_once('=') {
            Some((name, _)) => (name, name.len() + 3),
            None => (long, known.len()),
        };
        let is = |option: &&&str| name.len() >= 2 && option.starts_with(name);
        // What may be short for either is a file.
        return match (FILES.iter().find(is), TEXTS.iter().find(is)) {
            (Some(_), _) => Some((Value::File, skip)),
            (None, Some(text)) if name == *text || *text == "message" => Some((Value::Text, skip)),
            _ => None,
        };
    }
    let letters = known.strip_prefix('-')?;
    let (at, value) = letters.char_indices().find_map(|(at, letter)| {
        let value = match (letter, subcommand) {
            ('F', _) | ('t', "commit") | ('f', "config") => Value::File,
            ('m', _) if MESSAGES.contains(&subcommand) => Value::Text,
            ('e', "clean") => Value::Text,
            _ => return None,
        };
        Some((at, value))
    })?;
    Some((value, at + 2))
}

/// Operands that are no files.
fn texts(call: &Call<'_>, meaning: &mut Meaning) {
    let behind = |at: usize, start: &str| {
        call.args().get(at - 1).is_some_and(|arg| arg.prefix().starts_with(start) && at - 1 > call.at)
    };
    let leads = |at: usize| {
        let text = call.args().get(at).map_or("", |arg| arg.prefix());
        text.starts_with(['/', '~']) || spelling::has_parent(text)
    };
    let is_text: &dyn Fn(usize) -> bool = match call.name {
        // The name and the value of a setting.
        "config" => &|at| !behind(at, "-"),
        // Patterns.
        "sparse-checkout" => &|at| !behind(at, "--ru"),
        name if COMMITS.contains(&name) => &|at| !behind(at, "--") && !leads(at),
        _ => return,
    };
    let first = usize::from(REMOTE.contains(&call.name));
    meaning.texts.extend(operands(call).skip(first).filter(|at| is_text(*at)));
}
