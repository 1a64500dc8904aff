//! Repositories inside the work tree of another, and other work trees of the same.
//!
//! Git works in one, by its settings, as soon as the index around it has an entry for it, and such an entry comes from a
//! `git add` or from a commit. So an index that has one counts, and where a subcommand may put one there, all repositories
//! in the work tree do: git may look at them then, or with the next subcommand of the same command. Those that are plain
//! themselves start nothing. What a repository keeps of another work tree says where its settings are; where that is the
//! repository itself, it starts nothing either.

use std::cell::OnceCell;
use std::fs::ReadDir;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use helve_shell::analysis::{Arg, ArgPart};

use super::{Content, hooks, index, is_absent, read, read_settings, settings};

/// The largest file that says where a git directory is, in bytes.
const MAX_PATH: u64 = 8 << 10;

/// What may be looked at in the work trees of one command; beyond it nothing is plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    directories: usize,
    /// Entries of all directories.
    entries: usize,
    repositories: usize,
    /// Bytes of their settings.
    bytes: usize,
    /// Bytes of what other work trees have as their index.
    indexes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            directories: 20_000,
            entries: 200_000,
            repositories: 1_000,
            bytes: 8 << 20,
            indexes: 64 << 20,
        }
    }
}

/// Takes some of what is left; none if it is too little.
fn take(left: &mut usize, some: usize) -> Option<()> {
    *left = left.checked_sub(some)?;
    Some(())
}

/// Subcommands that may put another repository into the index.
const TAKE_UP: &[&str] = &[
    "add",
    "am",
    "apply",
    "bisect",
    "checkout",
    "cherry-pick",
    "commit",
    "merge",
    "pull",
    "read-tree",
    "rebase",
    "reset",
    "restore",
    "revert",
    "stage",
    "stash",
    "submodule",
    "switch",
    "update-index",
];

/// Options of `commit` that add nothing to the index, and those of them that take the next argument.
const OF_COMMIT: &[&str] =
    &["--allow-empty", "--amend", "--no-edit", "--no-verify", "--quiet", "--signoff", "-n", "-q", "-s"];
const OF_COMMIT_WITH_VALUE: &[&str] = &["--author", "--date", "--file", "--message", "-F", "-m"];

/// What lies in the work tree of a repository, and its other work trees. Both are looked at once, if at all.
pub(super) struct Inner {
    git: PathBuf,
    below: OnceCell<bool>,
    beside: OnceCell<bool>,
}

impl Inner {
    /// What belongs to the repository in a directory.
    pub(super) fn of(git: &Path) -> Inner {
        Inner { git: git.to_owned(), below: OnceCell::new(), beside: OnceCell::new() }
    }

    /// Whether it starts nothing, whatever a subcommand looks at. A name that is not known is an alias, and may stand for
    /// any.
    pub(super) fn is_plain(
        &self,
        subcommand: Option<&str>,
        args: Option<&[Arg]>,
        budget: &mut Budget,
    ) -> bool {
        // The index as it is has none, or the repository around counts, and what changes it before counts by itself.
        if subcommand == Some("commit") && args.is_some_and(commits_index) {
            return true;
        }
        let is_any = subcommand.is_none_or(|name| !hooks::is_known(name));
        let takes_up = is_any || subcommand.is_some_and(|name| TAKE_UP.contains(&name));
        let goes_beside = is_any || subcommand == Some("worktree");
        (!takes_up || *self.below.get_or_init(|| are_plain(&self.git, budget).is_some()))
            && (!goes_beside || *self.beside.get_or_init(|| are_work_trees(&self.git, budget).is_some()))
    }
}

/// Whether a `commit` with these arguments takes the index as it is.
fn commits_index(args: &[Arg]) -> bool {
    let is_one = |arg: &Arg| !arg.splits && !arg.parts.iter().any(|part| matches!(part, ArgPart::Glob(_)));
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let passes = match arg.text() {
            Some(text) if OF_COMMIT_WITH_VALUE.contains(&text) => args.next().is_some_and(is_one),
            Some(text) => OF_COMMIT.contains(&text),
            None => false,
        };
        if !passes {
            return false;
        }
    }
    true
}

/// Says that all repositories in the work tree around a git directory start nothing. If there is more in it than is looked
/// at, one may.
fn are_plain(git: &Path, budget: &mut Budget) -> Option<()> {
    let Some(top) = git.parent() else { return Some(()) };
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in list(&directory).ok()?.into_iter().flatten() {
            take(&mut budget.entries, 1)?;
            let entry = entry.ok()?;
            if entry.file_name() != ".git" {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    take(&mut budget.directories, 1)?;
                    left.push(entry.path());
                }
            } else if directory != top && !is_plain(&entry.path(), budget) {
                return None;
            }
        }
    }
    Some(())
}

/// What is in a directory; nothing if it is gone, or if nobody may enter it, which holds for git as well.
fn list(directory: &Path) -> Result<Option<ReadDir>, ()> {
    let is_closed = |kind: ErrorKind| matches!(kind, ErrorKind::NotFound | ErrorKind::PermissionDenied);
    match directory.read_dir() {
        Ok(entries) => Ok(Some(entries)),
        // What stands behind the last slash is found only where the directory may be entered.
        Err(_) => match directory.join(".").symlink_metadata() {
            Err(error) if is_closed(error.kind()) => Ok(None),
            _ => Err(()),
        },
    }
}

/// Whether git starts nothing in the work tree that has a `.git`, inside that of another repository.
fn is_plain(git: &Path, budget: &mut Budget) -> bool {
    if take(&mut budget.repositories, 1).is_none() {
        return false;
    }
    match git.symlink_metadata() {
        Ok(found) if found.is_dir() => git.parent().is_some_and(|tree| starts_nothing(git, tree, budget)),
        Ok(found) if found.is_file() => leads_to_plain(git, budget).unwrap_or(false),
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Whether git starts nothing where a file `.git` leads to: a git directory, or what one keeps of a work tree.
fn leads_to_plain(file: &Path, budget: &mut Budget) -> Option<bool> {
    let tree = file.parent()?;
    let Content::Bytes(leads) = read(file, MAX_PATH) else { return None };
    // Git follows no other one.
    let Some(leads) = leads.strip_prefix(b"gitdir: ") else { return Some(true) };
    let git = tree.join(std::str::from_utf8(leads).ok()?.trim_end_matches(['\r', '\n']));
    if leads_nowhere(&git) {
        return Some(true);
    }
    let git = git.canonicalize().ok()?;
    if is_absent(&git.join("commondir")) {
        return Some(starts_nothing(&git, tree, budget));
    }
    Some(is_kept_plain(&git) && starts_nothing(git.parent()?.parent()?, tree, budget))
}

/// Whether nothing is left where a path leads, or nothing can be there because a part of it is no directory.
fn leads_nowhere(path: &Path) -> bool {
    let is_none = |kind: ErrorKind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    path.symlink_metadata().is_err_and(|error| is_none(error.kind()))
}

/// Whether git starts nothing by a git directory when it looks at a work tree of it. What lies in the work tree is looked
/// at by itself.
fn starts_nothing(git: &Path, tree: &Path, budget: &mut Budget) -> bool {
    let is_tree = |value: &str| {
        let named = git.join(value).canonicalize();
        named.is_ok_and(|named| tree.canonicalize().is_ok_and(|tree| named == tree))
    };
    let mut is_plain = |settings: String| {
        take(&mut budget.bytes, settings.len()).is_some() && settings::are_plain_inside(&settings, is_tree)
    };
    let hook = Path::new("hooks").join(hooks::OF_INDEX);
    read_settings(git).is_some_and(&mut is_plain)
        && [Path::new("commondir"), Path::new("config.worktree"), &hook]
            .iter()
            .all(|name| is_absent(&git.join(name)))
}

/// Says that git starts nothing in other work trees of a repository.
fn are_work_trees(git: &Path, budget: &mut Budget) -> Option<()> {
    match git.join("worktrees").read_dir() {
        Ok(mut entries) => entries.try_for_each(|entry| is_work_tree(&entry.ok()?.path(), budget)),
        Err(error) => (error.kind() == ErrorKind::NotFound).then_some(()),
    }
}

/// Says that what a repository keeps of a work tree is plain, and that the index there holds no other repository.
fn is_work_tree(kept: &Path, budget: &mut Budget) -> Option<()> {
    take(&mut budget.repositories, 1)?;
    let size = kept.join("index").symlink_metadata().map_or(0, |index| index.len());
    take(&mut budget.indexes, usize::try_from(size).ok()?)?;
    (is_kept_plain(kept) && !index::holds_repositories(kept)).then_some(())
}

/// Whether what a repository keeps of a work tree leads back to it.
fn is_kept_plain(kept: &Path) -> bool {
    text(&kept.join("commondir")).is_some_and(|common| common.trim_end_matches(['\r', '\n']) == "../..")
        && is_absent(&kept.join("config.worktree"))
}

fn text(path: &Path) -> Option<String> {
    match read(path, MAX_PATH) {
        Content::Bytes(bytes) => String::from_utf8(bytes).ok(),
        Content::Nothing | Content::TooMuch => None,
    }
}

#[cfg(test)]
mod tests;
