//! The paths that arguments of git name, and subcommands that change the paths that they name.

use std::path::Path;

use super::{Call, patterns, values};
use crate::analysis::EffectKind;
use crate::programs::{Meaning, On};

/// The name of a commit, and the path behind it. What braces hold is part of the name, as in `HEAD@{12:00}:path`; to newer
/// versions of git only those behind `@` or `^` are such braces, so that there may be two readings.
pub(super) fn behind_commit(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let any = colon(text, |_| true);
    let marked = colon(text, |before| matches!(before, Some(b'@' | b'^')));
    let readings = [any, marked.filter(|_| marked != any)];
    readings.into_iter().flatten().filter_map(|at| Some((text.get(..at)?, text.get(at + 1..)?)))
}

/// The first colon outside of braces, of those that open a group by what stands before them.
fn colon(text: &str, opens: impl Fn(Option<u8>) -> bool) -> Option<usize> {
    let (mut depth, mut before) = (0_usize, None);
    text.bytes().position(|byte| {
        match byte {
            b'{' if depth > 0 || opens(before) => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = Some(byte);
        byte == b':' && depth == 0
    })
}

/// The path behind the colon of the index or of a pathspec: `:path`, `:0:path`, `:/path`, `:(top)path`.
pub(super) fn of_index(magic: &str) -> &str {
    let staged = magic.strip_prefix(['0', '1', '2', '3']).and_then(|rest| rest.strip_prefix(':'));
    staged.unwrap_or_else(|| of_pathspec(magic))
}

/// The path behind the colon of a pathspec: `:/path`, `:(top)path`.
fn of_pathspec(magic: &str) -> &str {
    match magic.strip_prefix('(').and_then(|magic| magic.split_once(')')) {
        Some((_, path)) => path,
        None => {
            // Each slash says once more that the path is seen from the top.
            let short = magic.trim_start_matches('/');
            short.strip_prefix(':').unwrap_or(short)
        }
    }
}

/// Whether a pathspec says which paths are not meant: `:!path`, `:^path`, `:(exclude)path`.
pub(super) fn leaves_out(magic: &str) -> bool {
    match magic.strip_prefix('(') {
        Some(words) => {
            words.split_once(')').is_some_and(|(words, _)| words.split(',').any(|word| word == "exclude"))
        }
        None => magic.trim_start_matches('/').starts_with(['!', '^']),
    }
}

/// Whether an argument is a pathspec that says which paths are not meant.
pub(super) fn only_leaves_out(call: &Call<'_>, at: usize) -> bool {
    call.text(at).and_then(|text| text.strip_prefix(':')).is_some_and(leaves_out)
}

/// Whether a pathspec is seen from the top of the work tree: `:/path`, `:(top)path`.
fn is_top(magic: &str) -> bool {
    match magic.strip_prefix('(').and_then(|magic| magic.split_once(')')) {
        Some((words, _)) => words.split(',').any(|word| word == "top"),
        None => magic.starts_with('/'),
    }
}

/// The most directories above the one where git works of which one may be the top of the work tree.
const MAX_LEVELS: usize = 8;

/// Where a path lies that is seen from the top of the work tree, if that is a directory above the one where git works: the
/// workspace, or one on the way there.
pub(super) fn above(call: &Call<'_>, path: &str) -> impl Iterator<Item = String> {
    let path = path.trim_start_matches('/');
    let here = call.directory.as_ref().map(|directory| format!("{directory}/")).unwrap_or_default();
    let levels = levels(call);
    let between =
        (1..levels.unwrap_or(0).min(MAX_LEVELS)).map(|level| format!("{here}{}{path}", "../".repeat(level)));
    let top =
        (levels != Some(0)).then(|| call.invocation.workspace.join(path).to_string_lossy().into_owned());
    between.chain(top).collect::<Vec<_>>().into_iter()
}

/// How many directories below the workspace git works, where that is known.
fn levels(call: &Call<'_>) -> Option<usize> {
    if !call.located {
        return None;
    }
    let Some(directory) = &call.directory else { return call.invocation.depth };
    if directory.starts_with('/') {
        let below = crate::walk::normal(Path::new(directory));
        return Some(below.strip_prefix(call.invocation.workspace).ok()?.components().count());
    }
    directory.split('/').try_fold(call.invocation.depth?, |levels, part| match part {
        "" | "." => Some(levels),
        ".." => levels.checked_sub(1),
        _ => Some(levels + 1),
    })
}

/// The paths that pathspecs stand for. Where all of them leave paths out, the directory is meant.
pub(super) fn matched(call: &Call<'_>, pathspecs: impl Iterator<Item = usize>) -> Vec<On> {
    let mut found = Vec::new();
    let mut left_out = None;
    for at in pathspecs {
        match call.text(at).map(|text| (text, text.strip_prefix(':'))) {
            Some((_, Some(magic))) if leaves_out(magic) => left_out = Some(at),
            Some((_, Some(magic))) => {
                let path = Some(of_pathspec(magic)).filter(|path| !path.is_empty()).unwrap_or(".");
                let as_written = || (path.to_owned(), String::new());
                let (path, pattern) =
                    patterns::of(path, patterns::Magic::of(magic)).unwrap_or_else(as_written);
                found.push(meant(call.path_at(&path, at), &pattern));
                if is_top(magic) {
                    let above = above(call, &path).map(|path| On::Path(path, Some(at)));
                    found.extend(above.map(|on| meant(on, &pattern)));
                }
            }
            Some((text, None)) => match patterns::of(text, patterns::Magic::default()) {
                Some((path, pattern)) => found.push(meant(call.path_at(&path, at), &pattern)),
                None => found.push(call.operand(at)),
            },
            None => found.push(call.operand(at)),
        }
    }
    let whole = left_out.filter(|_| found.is_empty());
    found.extend(whole.map(|at| call.path_at(".", at)));
    found
}

/// What a path with a pattern behind it stands for.
fn meant(on: On, pattern: &str) -> On {
    match on {
        On::Path(before, at) if !pattern.is_empty() => On::Matching(before, pattern.to_owned(), at),
        on => on,
    }
}

/// A path that is one however it is spelled. A plain word alone is a file only if one of that name is there.
pub(super) fn no_word(on: On) -> On {
    match on {
        On::Path(path, at) if !path.contains(['/', '.', '~']) => On::Path(format!("./{path}"), at),
        on => on,
    }
}

/// `mv SOURCE … TARGET`.
pub(super) fn moves(call: &Call<'_>, meaning: &mut Meaning) {
    let mut paths: Vec<usize> = call.operands().collect();
    let target = paths.pop();
    paths.into_iter().for_each(|at| meaning.does(EffectKind::Delete, call.operand(at)));
    target.into_iter().for_each(|at| meaning.writes(call.operand(at)));
}

/// `checkout`, `restore` and `checkout-index`: what they put back into the work tree is written.
pub(super) fn restored(call: &Call<'_>, meaning: &mut Meaning) {
    matched(call, put_back(call).into_iter()).into_iter().for_each(|on| meaning.writes(on));
    listed(call).into_iter().for_each(|on| meaning.writes(on));
}

/// `rm`: what it deletes.
pub(super) fn removed(call: &Call<'_>, meaning: &mut Meaning) {
    let paths = matched(call, call.operands());
    paths.into_iter().chain(listed(call)).for_each(|on| meaning.does(EffectKind::Delete, on));
}

/// What the file holds that lists pathspecs.
fn listed(call: &Call<'_>) -> Option<On> {
    let given = call.options().find(|given| given.is_long("pathspec-from-file"))?;
    Some(On::Unknown(Some(given.place.option)))
}

/// `clean`: it deletes what pathspecs match, or all that the repository does not know.
pub(super) fn cleans(call: &Call<'_>, meaning: &mut Meaning) {
    let mut paths = matched(call, call.operands());
    if paths.is_empty() {
        paths.push(call.path("."));
    }
    paths.into_iter().for_each(|on| meaning.does(EffectKind::Delete, on));
}

/// The pathspecs of what is put back into the work tree. The first operand of `checkout` may be a branch as well as a
/// path, unless its text says that it is a commit.
fn put_back(call: &Call<'_>) -> Vec<usize> {
    let names_branch = |given: values::Given<'_>| {
        matches!(given.name, values::Name::Letter('b' | 'B' | 't'))
            || ["track", "orphan"].iter().any(|name| given.is_long(name))
    };
    match (call.name, call.end()) {
        ("restore", _) if call.is_given('S', "staged") && !call.is_given('W', "worktree") => Vec::new(),
        ("checkout", Some(end)) => call.operands().filter(|at| *at > end).collect(),
        ("checkout", None) if call.options().any(names_branch) => Vec::new(),
        ("checkout", None) => {
            let mut paths: Vec<usize> = call.operands().collect();
            if paths.first().is_some_and(|at| call.text(*at).is_some_and(is_commit)) {
                paths.remove(0);
            }
            paths
        }
        _ => call.operands().collect(),
    }
}

/// Whether an operand is written as commits are and paths are not. A pattern has no name of a commit in front, and a file
/// may have one that only ends with a mark, as copies that editors make do, or stand in a directory.
fn is_commit(text: &str) -> bool {
    let marks = [text.find(['~', '^']), text.find("@{"), text.find("...")];
    let end = marks.into_iter().flatten().min();
    let Some((name, mark)) = end.and_then(|end| text.split_at_checked(end)) else {
        return matches!(text, "-" | "@" | "HEAD");
    };
    let may_be_file = matches!(mark, "~" | "^") || name.contains('/');
    matches!(name, "@" | "HEAD") || !may_be_file && !name.contains(['*', '?', '['])
}
