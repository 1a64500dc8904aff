//! Subcommands of git that change the paths they name.

use super::Call;
use super::changes::{args, has, operands};
use crate::analysis::{Arg, EffectKind};
use crate::programs::{Meaning, On};

/// `mv SOURCE … TARGET`.
pub(super) fn moves(call: &Call<'_>, meaning: &mut Meaning) {
    let mut paths: Vec<usize> = operands(call).collect();
    let target = paths.pop();
    paths.into_iter().for_each(|at| meaning.does(EffectKind::Delete, call.operand(at)));
    target.into_iter().for_each(|at| meaning.writes(call.operand(at)));
}

/// `checkout`, `restore` and `checkout-index`: what they put back into the work tree is written.
pub(super) fn restored(call: &Call<'_>, meaning: &mut Meaning) {
    put_back(call).into_iter().filter_map(|at| pathspec(call, at)).for_each(|on| meaning.writes(on));
    let listed = |arg: &Arg| arg.prefix().starts_with("--pathspec-f");
    if let Some(index) = args(call).iter().position(listed) {
        meaning.writes(On::Unknown(Some(call.at + 1 + index)));
    }
}

/// The pathspecs of what is put back into the work tree. The first operand of `checkout` may be a branch as well as a
/// path, unless its text says that it is a commit.
fn put_back(call: &Call<'_>) -> Vec<usize> {
    let is_value = |at: &usize| matches!(call.text(at - 1), Some("-s" | "--source" | "--conflict"));
    let paths = operands(call).filter(|at| !is_value(at));
    let ended = args(call).iter().position(|arg| arg.text() == Some("--")).map(|end| call.at + 1 + end);
    match (call.name, ended) {
        ("restore", _) if has_letter(call, 'S', "--staged") && !has_letter(call, 'W', "--worktree") => {
            Vec::new()
        }
        ("checkout", Some(end)) => paths.filter(|at| *at > end).collect(),
        ("checkout", None)
            if ["-b", "-B", "--orphan", "-t", "--track"].iter().any(|option| has(call, option)) =>
        {
            Vec::new()
        }
        ("checkout", None) => {
            let mut paths: Vec<usize> = paths.collect();
            if paths.first().is_some_and(|at| call.text(*at).is_some_and(is_commit)) {
                paths.remove(0);
            }
            paths
        }
        _ => paths.collect(),
    }
}

/// Whether an operand is written as commits are and paths are not. A pattern has no name of a commit in front.
fn is_commit(text: &str) -> bool {
    let marks = [text.find(['~', '^']), text.find("@{"), text.find("...")];
    let name = marks.into_iter().flatten().min().and_then(|end| text.get(..end));
    matches!(text, "-" | "@" | "HEAD") || name.is_some_and(|name| !name.contains(['*', '?', '[']))
}

/// What a pathspec stands for; none for one that leaves paths out, or that is read in another way.
fn pathspec(call: &Call<'_>, at: usize) -> Option<On> {
    match call.text(at).and_then(|text| text.strip_prefix(':')) {
        Some(magic) => {
            magic.strip_prefix('/').or_else(|| magic.strip_prefix("(top)")).map(|path| call.path(path))
        }
        None => Some(call.operand(at)),
    }
}

/// Whether an option stands there by its letter, alone or among others, or by its name.
fn has_letter(call: &Call<'_>, letter: char, name: &str) -> bool {
    let is_cluster = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
    args(call).iter().filter_map(Arg::text).any(|text| text == name || is_cluster(text))
}
