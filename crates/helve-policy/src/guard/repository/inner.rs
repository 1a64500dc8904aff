//! Repositories inside the work tree of another, and other work trees of the same.
//!
//! Git works in one, by its settings, as soon as the index around it has an entry for it, and such an entry comes from a
//! `git add` or from a commit. So an index that has one counts, and where a subcommand may put one there, all repositories
//! in the work tree do: git may look at them then, or with the next subcommand of the same command. Those whose settings
//! name no program start nothing when they are looked at. A few subcommands also work in them (`submodule`, `pull`), and then
//! their hooks count, and repositories that they keep for later. What a repository keeps of another work tree says where its
//! settings are; where that is the repository itself, it starts nothing either.
//!
//! Whoever made the work tree chooses how much there is to look at, so all of it is counted: no path is followed by the
//! kernel alone, and nothing is looked for deep down.

use std::cell::OnceCell;
use std::fs::ReadDir;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use helve_shell::analysis::{Arg, ArgPart};

use super::hooks::{self, Hooks};
use super::{Content, MAX_LEVELS, index, is_absent, read, read_settings, settings};
use crate::guard::disk;

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
    /// Names and links on the way to git directories and work trees.
    steps: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            directories: 20_000,
            entries: 200_000,
            repositories: 1_000,
            bytes: 8 << 20,
            indexes: 64 << 20,
            steps: 100_000,
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

/// Whether a subcommand may put another repository into the index. A name that is not known is an alias, and may stand for
/// any.
pub(in crate::guard) fn takes_up(subcommand: Option<&str>) -> bool {
    subcommand.is_none_or(|name| TAKE_UP.contains(&name) || !hooks::is_known(name))
}

/// As which subcommand git may work in repositories inside, beyond looking at them. `is_taken_up` says that the command may
/// put one into the index: without that, git reaches none for what it fetches.
fn works_inside<'a>(
    subcommand: Option<&'a str>,
    args: Option<&[Arg]>,
    is_taken_up: bool,
) -> Option<Option<&'a str>> {
    match subcommand {
        Some("submodule" | "pull") => Some(Some("pull")),
        Some("fetch" | "remote") => is_taken_up.then_some(Some("fetch")),
        // These do so where an option says it; no plain setting does.
        Some(name @ ("checkout" | "push" | "read-tree" | "reset" | "restore" | "switch")) => {
            let as_which = if name == "push" { "push" } else { "pull" };
            args.is_none_or(|args| args.iter().any(may_recurse)).then_some(Some(as_which))
        }
        Some(name) if hooks::is_known(name) => None,
        _ => Some(subcommand),
    }
}

/// Whether an argument may be the option that takes repositories inside along, or short for it.
fn may_recurse(arg: &Arg) -> bool {
    match arg.text() {
        Some(text) => {
            let name = text.split('=').next().unwrap_or_default();
            name.len() > "--".len() && "--recurse-submodules".starts_with(name)
        }
        None => arg.may_be_option(),
    }
}

/// Options of `commit` that add nothing to the index, and those of them that take the next argument.
const OF_COMMIT: &[&str] =
    &["--allow-empty", "--amend", "--no-edit", "--no-verify", "--quiet", "--signoff", "-n", "-q", "-s"];
const OF_COMMIT_WITH_VALUE: &[&str] = &["--author", "--date", "--file", "--message", "-F", "-m"];

/// What lies in the work tree of a repository, and its other work trees. Both are looked at once, if at all.
pub(super) struct Inner {
    git: PathBuf,
    /// None if one of the repositories starts something when git looks at it.
    below: OnceCell<Option<Below>>,
    beside: OnceCell<bool>,
}

/// What the repositories in a work tree have that counts only where git works in them.
#[derive(Default)]
struct Below {
    hooks: Hooks,
    /// Whether one keeps repositories whose work trees may still be made.
    keeps: bool,
}

impl Inner {
    /// What belongs to the repository in a directory.
    pub(super) fn of(git: &Path) -> Inner {
        Inner { git: git.to_owned(), below: OnceCell::new(), beside: OnceCell::new() }
    }

    /// Whether it starts nothing, whatever a subcommand looks at; `is_taken_up` says that the command may put a repository
    /// into the index.
    pub(super) fn is_plain(
        &self,
        subcommand: Option<&str>,
        args: Option<&[Arg]>,
        is_taken_up: bool,
        budget: &mut Budget,
    ) -> bool {
        // The index as it is has none, or the repository around counts, and what changes it before counts by itself.
        if subcommand == Some("commit") && args.is_some_and(commits_index) {
            return true;
        }
        let works = works_inside(subcommand, args, is_taken_up);
        if takes_up(subcommand) || works.is_some() {
            let Some(below) = self.below.get_or_init(|| look(&self.git, budget)) else { return false };
            if works.is_some_and(|as_which| below.keeps || below.hooks.may_run(as_which)) {
                return false;
            }
        }
        let goes_beside = subcommand.is_none_or(|name| name == "worktree" || !hooks::is_known(name));
        !goes_beside || *self.beside.get_or_init(|| are_work_trees(&self.git, budget).is_some())
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

/// Looks at all repositories in the work tree around a git directory; none if one may start something, or if there is more
/// in it than is looked at.
fn look(git: &Path, budget: &mut Budget) -> Option<Below> {
    let mut below = Below::default();
    let Some(top) = git.parent() else { return Some(below) };
    let mut left = vec![(top.to_owned(), 0)];
    while let Some((directory, level)) = left.pop() {
        for entry in list(&directory).ok()?.into_iter().flatten() {
            take(&mut budget.entries, 1)?;
            let entry = entry.ok()?;
            if entry.file_name() != ".git" {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    take(&mut budget.directories, 1)?;
                    if level >= MAX_LEVELS {
                        return None;
                    }
                    left.push((entry.path(), level + 1));
                }
            } else if level > 0 {
                is_plain(&entry.path(), budget, &mut below)?;
            }
        }
    }
    Some(below)
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

/// Says that git starts nothing when it looks at the work tree that has a `.git`, inside that of another repository.
fn is_plain(git: &Path, budget: &mut Budget, below: &mut Below) -> Option<()> {
    take(&mut budget.repositories, 1)?;
    match git.symlink_metadata() {
        Ok(found) if found.is_dir() => starts_nothing(git, git.parent()?, budget, below),
        Ok(found) if found.is_file() => leads_to_plain(git, budget, below),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(()),
        _ => None,
    }
}

/// Says that git starts nothing where a file `.git` leads to: a git directory, or what one keeps of a work tree.
fn leads_to_plain(file: &Path, budget: &mut Budget, below: &mut Below) -> Option<()> {
    let tree = file.parent()?;
    let Content::Bytes(leads) = read(file, MAX_PATH) else { return None };
    // Git follows no other one.
    let Some(leads) = leads.strip_prefix(b"gitdir: ") else { return Some(()) };
    let git = tree.join(std::str::from_utf8(leads).ok()?.trim_end_matches(['\r', '\n']));
    let git = disk::resolve_for_all(&git, &mut budget.steps)?;
    if leads_nowhere(&git) {
        return Some(());
    }
    if is_absent(&git.join("commondir")) {
        return starts_nothing(&git, tree, budget, below);
    }
    is_kept_plain(&git).then_some(())?;
    starts_nothing(git.parent()?.parent()?, tree, budget, below)
}

/// Whether nothing is left where a path leads, or nothing can be there because a part of it is no directory.
fn leads_nowhere(path: &Path) -> bool {
    let is_none = |kind: ErrorKind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    path.symlink_metadata().is_err_and(|error| is_none(error.kind()))
}

/// Says that git starts nothing by a git directory when it looks at a work tree of it, and notes what it may start when it
/// works there. What lies in the work tree is looked at by itself.
fn starts_nothing(git: &Path, tree: &Path, budget: &mut Budget, below: &mut Below) -> Option<()> {
    let text = read_settings(git)?;
    take(&mut budget.bytes, text.len())?;
    let is_tree = |value: &str| {
        let named = disk::resolve_for_all(&git.join(value), &mut budget.steps);
        named.is_some_and(|named| named == tree)
    };
    let is_plain = settings::are_plain_inside(&text, is_tree);
    let hooks = disk::resolve_for_all(&git.join("hooks"), &mut budget.steps)?;
    let more = [git.join("commondir"), git.join("config.worktree"), hooks.join(hooks::OF_INDEX)];
    if !is_plain || !more.iter().all(|path| is_absent(path)) {
        return None;
    }
    below.hooks.add(Hooks::look(&hooks));
    below.keeps |= !is_absent(&git.join("modules"));
    Some(())
}

/// Says that git starts nothing in other work trees of a repository.
fn are_work_trees(git: &Path, budget: &mut Budget) -> Option<()> {
    let kept = disk::resolve_for_all(&git.join("worktrees"), &mut budget.steps)?;
    match kept.read_dir() {
        Ok(mut entries) => entries.try_for_each(|entry| {
            let kept = disk::resolve_for_all(&entry.ok()?.path(), &mut budget.steps)?;
            is_work_tree(&kept, budget)
        }),
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
