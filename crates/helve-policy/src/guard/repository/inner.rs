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

use super::{Content, hooks, is_absent, read, read_settings, settings};

/// The largest index that is read, in bytes.
const MAX_INDEX: u64 = 8 << 20;

/// The largest file that says where a git directory is, in bytes.
const MAX_PATH: u64 = 8 << 10;

/// The most entries of a git directory that are looked at.
const MAX_PARTS: usize = 10_000;

/// The most directories of a work tree, and the most entries in all of them, that are looked at.
const MAX_DIRECTORIES: usize = 200_000;
const MAX_ENTRIES: usize = 2_000_000;

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
    pub(super) fn is_plain(&self, subcommand: Option<&str>) -> bool {
        let is_any = subcommand.is_none_or(|name| !hooks::is_known(name));
        let takes_up = is_any || subcommand.is_some_and(|name| TAKE_UP.contains(&name));
        let goes_beside = is_any || subcommand == Some("worktree");
        (!takes_up || *self.below.get_or_init(|| are_plain(&self.git)))
            && (!goes_beside || *self.beside.get_or_init(|| are_work_trees(&self.git)))
    }
}

/// Whether an index may hold another repository. A part of it may stand in a file beside it.
pub(super) fn are_linked(git: &Path) -> bool {
    let is_shared = |(at, entry): (usize, std::io::Result<std::fs::DirEntry>)| {
        at >= MAX_PARTS
            || entry.map_or(true, |entry| entry.file_name().as_encoded_bytes().starts_with(b"sharedindex."))
    };
    match read(&git.join("index"), MAX_INDEX) {
        Content::Nothing => false,
        Content::Bytes(index) => {
            holds_repositories(&index)
                || git.read_dir().map_or(true, |entries| entries.enumerate().any(is_shared))
        }
        Content::TooMuch => true,
    }
}

/// Whether an index may hold another repository, whose settings count too: its entries have a mode of their own. Other
/// bytes may look like it, which costs a question.
fn holds_repositories(index: &[u8]) -> bool {
    index.windows(4).any(|mode| mode == [0, 0, 0xe0, 0])
}

/// Whether all repositories in the work tree around a git directory start nothing. If there is more in it than is looked
/// at, one may.
fn are_plain(git: &Path) -> bool {
    let Some(top) = git.parent() else { return true };
    let mut left = vec![top.to_owned()];
    let mut directories = 0;
    let mut entries = 0;
    while let Some(directory) = left.pop() {
        directories += 1;
        let Ok(listed) = list(&directory) else { return false };
        for entry in listed.into_iter().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES || directories > MAX_DIRECTORIES {
                return false;
            }
            let Ok(entry) = entry else { return false };
            if entry.file_name() != ".git" {
                left.extend(entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path()));
            } else if directory != top && !is_plain(&entry.path()) {
                return false;
            }
        }
    }
    true
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
fn is_plain(git: &Path) -> bool {
    match git.symlink_metadata() {
        Ok(found) if found.is_dir() => git.parent().is_some_and(|tree| starts_nothing(git, tree)),
        Ok(found) if found.is_file() => leads_to_plain(git).unwrap_or(false),
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Whether git starts nothing where a file `.git` leads to: a git directory, or what one keeps of a work tree.
fn leads_to_plain(file: &Path) -> Option<bool> {
    let tree = file.parent()?;
    let leads = text(file)?;
    let git = tree.join(leads.strip_prefix("gitdir: ")?.trim_end_matches(['\r', '\n']));
    // Nothing is left of one that was removed.
    if is_absent(&git) {
        return Some(true);
    }
    let git = git.canonicalize().ok()?;
    if is_absent(&git.join("commondir")) {
        return Some(starts_nothing(&git, tree));
    }
    Some(is_kept_plain(&git) && starts_nothing(git.parent()?.parent()?, tree))
}

/// Whether git starts nothing by a git directory when it looks at a work tree of it. What lies in the work tree is looked
/// at by itself.
fn starts_nothing(git: &Path, tree: &Path) -> bool {
    let is_tree = |value: &str| {
        let named = git.join(value).canonicalize();
        named.is_ok_and(|named| tree.canonicalize().is_ok_and(|tree| named == tree))
    };
    let is_plain = |settings: String| settings::are_plain_inside(&settings, is_tree);
    let hook = Path::new("hooks").join(hooks::OF_INDEX);
    read_settings(git).is_some_and(is_plain)
        && [Path::new("commondir"), Path::new("config.worktree"), &hook]
            .iter()
            .all(|name| is_absent(&git.join(name)))
}

/// Whether git starts nothing in other work trees of a repository.
fn are_work_trees(git: &Path) -> bool {
    match git.join("worktrees").read_dir() {
        Ok(entries) => entries
            .enumerate()
            .all(|(at, entry)| at < MAX_PARTS && entry.is_ok_and(|entry| is_work_tree(&entry.path()))),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Whether what a repository keeps of a work tree is plain, and the index there holds no other repository.
fn is_work_tree(kept: &Path) -> bool {
    is_kept_plain(kept) && !are_linked(kept)
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
