//! What the disk says about a path that a command names: where links lead, and whether a pattern may match an option.
//!
//! Only looks, never opens a file, and stops after a fixed number of steps. The answer may be old by the time the command
//! runs: the sandbox is the boundary.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// The most links and names that are followed for one path.
const MAX_STEPS: usize = 256;

/// The most entries of a directory that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// Where an absolute path leads: every link that exists is followed, what does not exist stays as it is written. None if
/// there are too many.
pub(crate) fn resolve(path: &Path) -> Option<PathBuf> {
    follow(path, &mut { MAX_STEPS }, |_| true)
}

/// The same for a path that another process will open, in steps of which so many are left: none too where a link in `/proc`
/// leads elsewhere for each process, and where a path ends in there.
pub(super) fn resolve_for_all(path: &Path, steps: &mut usize) -> Option<PathBuf> {
    let mut for_this = MAX_STEPS.min(*steps);
    *steps -= for_this;
    let resolved = follow(path, &mut for_this, |reached| !reached.starts_with("/proc"));
    *steps += for_this;
    resolved
}

fn follow(path: &Path, steps: &mut usize, may_reach: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut resolved = PathBuf::from("/");
    let mut left: VecDeque<OsString> = names(path).collect();
    let mut exists = true;
    while let Some(name) = left.pop_front() {
        *steps = steps.checked_sub(1)?;
        if name == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&name);
        if !may_reach(&next) {
            return None;
        }
        let target = if exists { next.read_link().ok() } else { None };
        match target {
            Some(target) => {
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(name);
                }
            }
            None => {
                exists = exists && next.symlink_metadata().is_ok();
                resolved = next;
            }
        }
    }
    Some(resolved)
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

/// Whether a path stays below a directory when the links on its way are followed.
pub(crate) fn stays_inside(path: &Path, root: &Path) -> bool {
    match (resolve(path), resolve(root)) {
        (Some(path), Some(root)) => path.starts_with(root),
        _ => false,
    }
}

/// What there is that a path with patterns of a shell may stand for; none if the budget of entries to look at does not
/// last, or if a pattern is not plain.
pub(crate) fn matching(path: &Path, budget: &mut usize) -> Option<Vec<PathBuf>> {
    let mut found = vec![PathBuf::from("/")];
    for name in names(path) {
        let name = name.to_str()?;
        if name.contains(['\\', '(']) {
            return None;
        }
        if !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let mut next = Vec::new();
        for tree in found {
            let meant = entries(&tree, budget).filter(|entry| may_stand_for(name, entry));
            next.extend(meant.map(|entry| tree.join(entry)));
        }
        found = next;
    }
    (*budget > 0).then_some(found)
}

/// Whether a pattern may match an entry of a directory: hidden ones only where it starts with the dot.
fn may_stand_for(pattern: &str, entry: &OsStr) -> bool {
    let entry = entry.to_string_lossy();
    entry.starts_with('.') == pattern.starts_with('.') && matches(pattern, &entry)
}

/// Whether a path is a plain file below a directory when the links on its way are followed, or nothing yet.
pub(super) fn is_plain_file(path: &Path, root: &Path) -> bool {
    stays_inside(path, root) && path.metadata().map_or(true, |found| found.is_file())
}

/// Whether a directory has an entry that a program could take for an option. One that cannot be read to its end may.
pub(super) fn may_hold_option(directory: &Path) -> bool {
    let Ok(entries) = directory.read_dir() else { return true };
    for (count, entry) in entries.enumerate() {
        let name = entry.map(|entry| entry.file_name());
        if count >= MAX_ENTRIES || name.is_ok_and(|name| name.as_encoded_bytes().starts_with(b"-")) {
            return true;
        }
    }
    false
}

/// The most entries that are looked at for the trees of one command.
pub(crate) const MAX_TREE: usize = 4096;

/// Whether a tree holds git's own directory or file, of those that `under` and the names and patterns below it lead to.
/// Looks from the top down and takes each entry from `budget`; what lies deeper than it lasts is not found.
pub(super) fn holds_git(under: &Path, names: &[&str], budget: &mut usize) -> bool {
    let mut trees = VecDeque::from([under.to_owned()]);
    for name in names.iter().filter(|name| !name.is_empty()) {
        let mut next = VecDeque::new();
        for tree in trees {
            if !name.contains(['*', '?', '[', '\\']) {
                next.push_back(tree.join(name));
                continue;
            }
            let meant = entries(&tree, budget).filter(|entry| may_stand_for(name, entry));
            next.extend(meant.map(|entry| tree.join(entry)));
        }
        trees = next;
    }
    while let Some(tree) = trees.pop_front() {
        if tree.file_name().is_some_and(|name| name == ".git") {
            return true;
        }
        if tree.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            trees.extend(entries(&tree, budget).map(|entry| tree.join(entry)));
        }
    }
    false
}

/// The names in a directory, as long as the budget lasts; none if it cannot be read.
fn entries(directory: &Path, budget: &mut usize) -> impl Iterator<Item = OsString> {
    let read = directory.read_dir().into_iter().flatten().flatten();
    let mut names: Vec<OsString> = read.take(*budget).map(|entry| entry.file_name()).collect();
    *budget -= names.len();
    // The order of a disk is that of chance.
    names.sort_unstable();
    names.into_iter()
}

/// Whether a shell pattern of one name may match `name`; a bracket counts as any one character.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut possible = vec![false; name.len() + 1];
    if let Some(first) = possible.first_mut() {
        *first = true;
    }
    let name = name.as_bytes();
    let mut rest = pattern.chars().peekable();
    while let Some(ch) = rest.next() {
        let mut next = vec![false; possible.len()];
        match ch {
            '*' => {
                let mut any = false;
                for (from, to) in possible.iter().zip(&mut next) {
                    any |= from;
                    *to = any;
                }
            }
            _ => {
                let open = ch == '?' || ch == '[';
                if ch == '[' {
                    skip_bracket(&mut rest);
                }
                for ((from, byte), to) in possible.iter().zip(name).zip(next.iter_mut().skip(1)) {
                    *to = *from && (open || char::from(*byte) == ch);
                }
            }
        }
        possible = next;
    }
    possible.last() == Some(&true)
}

/// Leaves out what belongs to a bracket; a `]` right behind the `[` or its `!` is one of the characters.
fn skip_bracket(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if matches!(rest.peek(), Some('!' | '^')) {
        rest.next();
    }
    if rest.peek() == Some(&']') {
        rest.next();
    }
    for ch in rest.by_ref() {
        if ch == ']' {
            return;
        }
    }
}
