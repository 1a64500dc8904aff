//! A walk: which entries there are.

use std::sync::Mutex;

use helve_core::files::{FileEntry, FileKind, FileStat, Kinds, WalkRequest, Walked};
use helve_core::{Cancel, ToolError};

use super::answer::Cutoff;
use super::crew::{self, Found, Visitor};
use super::filter::Filter;
use super::tree::Tree;
use super::unread::{Unread, locked};
use crate::names::{told, untold};
use crate::rules::Rules;

struct Entry {
    path: Vec<u8>,
    kind: FileKind,
    stat: Option<FileStat>,
}

struct Walk<'a, T> {
    tree: &'a T,
    filter: &'a Filter<'a>,
    unread: &'a Unread,
    kinds: Kinds,
    stat: bool,
    /// As many as the answer may have, and one more to know whether there are more.
    keep: usize,
    after: Option<&'a [u8]>,
    cutoff: Cutoff,
    found: Mutex<Vec<Vec<Entry>>>,
}

/// What one thread has found.
struct Own {
    entries: Vec<Entry>,
    behind: super::answer::Seen,
}

pub(super) fn walk<T: Tree>(
    tree: &T,
    rules: &Rules,
    request: &WalkRequest,
    cancel: &Cancel,
) -> Result<Walked, ToolError> {
    let filter = Filter::of_walk(rules, tree.base(), request)?;
    let unread = Unread::default();
    let after = request.after.as_deref().map(|after| after.strip_prefix(tree.prefix()).unwrap_or(after));
    let after = after.map(untold);
    let walk = Walk {
        tree,
        filter: &filter,
        unread: &unread,
        kinds: request.kinds,
        stat: request.stat,
        keep: request.limit.saturating_add(1),
        after: after.as_deref(),
        cutoff: Cutoff::default(),
        found: Mutex::default(),
    };
    crew::run(tree, &filter, &walk, &unread, cancel)?;
    let mut found = std::mem::take(&mut *locked(&walk.found)).into_iter();
    let mut entries = found.next().unwrap_or_default();
    for more in found {
        entries.extend(more);
    }
    // Each thread's entries are in order already: this only merges them.
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let more = entries.len() > request.limit;
    entries.truncate(request.limit);
    let (unread, unread_count) = unread.told(tree.prefix());
    let entries = entries.into_iter().map(|entry| FileEntry {
        path: shown(tree.prefix(), entry.path),
        kind: entry.kind,
        stat: entry.stat,
    });
    Ok(Walked { entries: entries.collect(), more, unread, unread_count })
}

/// A path as the answer has it.
pub(super) fn shown(prefix: &str, path: Vec<u8>) -> String {
    let path = String::from_utf8(path).unwrap_or_else(|error| told(error.as_bytes()));
    if prefix.is_empty() { path } else { format!("{prefix}{path}") }
}

impl<T: Tree> Walk<'_, T> {
    fn add(&self, own: &mut Own, found: &Found<'_, T::Dir>) {
        if self.after.is_some_and(|after| found.path <= after) {
            return;
        }
        let stat = match self.stat {
            false => None,
            true => match self.tree.stat(super::tree::Place { ..found.at }, found.name) {
                Ok(stat) => Some(stat),
                Err(error) => {
                    self.unread.note(found.path, &error);
                    return;
                }
            },
        };
        own.entries.push(Entry { path: found.path.to_vec(), kind: found.kind, stat });
        if own.entries.len() >= self.keep.saturating_mul(2) {
            own.entries.select_nth_unstable_by(self.keep - 1, |a, b| a.path.cmp(&b.path));
            own.entries.truncate(self.keep);
            if let Some(last) = own.entries.last() {
                self.cutoff.lower(&last.path);
            }
        }
    }
}

impl<T: Tree> Visitor<T> for Walk<'_, T> {
    type Own = Own;

    fn begin(&self) -> Own {
        Own { entries: Vec::new(), behind: Default::default() }
    }

    fn takes(&self, kind: FileKind) -> bool {
        match self.kinds {
            Kinds::All => true,
            Kinds::Directories => false,
            Kinds::Files => matches!(kind, FileKind::File | FileKind::Link),
        }
    }

    fn leaf(&self, own: &mut Own, found: &Found<'_, T::Dir>) {
        let files_only = self.kinds == Kinds::Files && found.kind == FileKind::Link;
        if !files_only || self.tree.links_to_file(found.path) {
            self.add(own, found);
        }
    }

    fn dir(&self, own: &mut Own, found: &Found<'_, T::Dir>) {
        if self.kinds != Kinds::Files && self.filter.wants_dir(found.path) {
            self.add(own, found);
        }
    }

    fn is_behind(&self, own: &mut Own, path: &[u8]) -> bool {
        self.cutoff.is_behind(&mut own.behind, path)
    }

    fn is_before(&self, dir: &[u8]) -> bool {
        self.after.is_some_and(|after| after > dir && !after.starts_with(dir))
    }

    fn end(&self, mut own: Own) {
        own.entries.sort_by(|a, b| a.path.cmp(&b.path));
        locked(&self.found).push(own.entries);
    }
}
