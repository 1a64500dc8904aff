//! Walking and searching below an open directory, in parallel, without following a link or resolving a path twice.
//!
//! In comes an open directory (or file), the rules of the policy and a request; out goes the answer in the order of the
//! bytes of its paths. Directories are entered by one name from their parent's descriptor, files are opened the same
//! way, and so are ignore files: no path is resolved by name from the root, and no link is followed.
//!
//! ```text
//! crew (threads, jobs in the order of their paths)
//!   ├─ tree      what is asked of a file system: `host` by descriptors, `memory` for the bridge in memory
//!   ├─ ignores   .ignore, .gitignore, .git/info/exclude of a directory and those above it
//!   ├─ filter    hidden names, denied paths, globs, types: whether an entry counts
//!   └─ visitor   names (a walk) or find (a search: pattern, lines, answer)
//! ```
//!
//! Answers are the first in order, although threads find them in any order: what can no longer be among the first is
//! dropped when it is found, and what lies behind the last of them is not visited. So memory is bounded by the answer,
//! the names of the directories that are being read, and one buffer for each thread.
//!
//! Deliberately not here: how a path of a request becomes an open directory, and how an answer is shown.

mod answer;
mod crew;
mod filter;
mod find;
mod host;
mod ignores;
mod lines;
mod memory;
mod names;
mod pattern;
mod tree;
mod unread;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use helve_core::files::{SearchRequest, Searched, WalkRequest, Walked};
use helve_core::{Cancel, ErrorKind, ToolError};

use crate::host::Hidden;
use crate::rules::Rules;

pub(crate) use memory::{MemoryEntry, MemoryTree};

/// The directory where a walk or a search begins.
pub(crate) struct Start {
    /// The workspace or the extra root that it lies in, for ignore files above it and for links.
    pub(crate) root: Arc<OwnedFd>,
    /// The directory itself.
    pub(crate) dir: OwnedFd,
    /// Its path relative to the root without a link in it; empty for the root itself.
    pub(crate) shown: String,
    /// What every path of the answer begins with: nothing in the workspace, the root's path and `/` in an extra root.
    pub(crate) prefix: String,
    /// Names in it that nobody is shown.
    pub(crate) temporary: Hidden,
}

/// Where a search begins.
pub(crate) enum SearchStart {
    /// Everything below a directory.
    Dir(Start),
    /// One file, which the request named itself: neither ignore files nor globs hold for it.
    File {
        /// The open file.
        file: File,
        /// Its path as the answer has it.
        shown: String,
    },
}

/// What is below a directory.
pub(crate) fn walk(
    start: Start,
    rules: &Rules,
    request: &WalkRequest,
    cancel: &Cancel,
) -> Result<Walked, ToolError> {
    let tree = host::HostTree::new(start, rules)?;
    names::walk(&tree, rules, request, cancel)
}

/// Lines below a directory, or in one file, that match.
pub(crate) fn search(
    start: SearchStart,
    rules: &Rules,
    request: &SearchRequest,
    cancel: &Cancel,
) -> Result<Searched, ToolError> {
    match start {
        SearchStart::Dir(start) => {
            let tree = host::HostTree::new(start, rules)?;
            find::search(&tree, rules, request, cancel)
        }
        SearchStart::File { file, shown } => find::search_one(file, shown, request, cancel),
    }
}

/// [`walk`] over files in memory.
pub(crate) fn walk_memory(
    tree: &MemoryTree<'_>,
    rules: &Rules,
    request: &WalkRequest,
    cancel: &Cancel,
) -> Result<Walked, ToolError> {
    names::walk(tree, rules, request, cancel)
}

/// [`search`] over files in memory.
pub(crate) fn search_memory(
    tree: &MemoryTree<'_>,
    rules: &Rules,
    request: &SearchRequest,
    cancel: &Cancel,
) -> Result<Searched, ToolError> {
    find::search(tree, rules, request, cancel)
}

/// [`search`] in one file in memory.
pub(crate) fn search_bytes(
    bytes: &[u8],
    shown: String,
    request: &SearchRequest,
    cancel: &Cancel,
) -> Result<Searched, ToolError> {
    find::search_one(bytes, shown, request, cancel)
}

/// What the ignore files of a directory and of those above it leave out of it; by default nothing.
#[derive(Default)]
pub(crate) struct Ignores(Option<Arc<ignores::Level>>);

impl Ignores {
    pub(crate) fn of_host(start: Start, rules: &Rules) -> Result<Ignores, ToolError> {
        Ignores::of(&host::HostTree::new(start, rules)?)
    }

    pub(crate) fn of_memory(tree: &MemoryTree<'_>) -> Result<Ignores, ToolError> {
        Ignores::of(tree)
    }

    fn of<T: tree::Tree>(tree: &T) -> Result<Ignores, ToolError> {
        ignores::at_start(tree).map(Ignores).map_err(|error| unread::unreadable(&error))
    }

    /// Whether an entry of the directory, by its path relative to the root, is left out.
    pub(crate) fn leave_out(&self, path: &[u8], is_dir: bool) -> bool {
        self.0.as_ref().is_some_and(|level| level.leaves_out(path, is_dir))
    }
}

fn cancelled() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "The call was taken back while it looked through files.")
}

#[cfg(test)]
pub(crate) mod tests;
