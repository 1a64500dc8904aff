//! The entries of one directory, a page of them at a time.
//!
//! Names are read once and only as many are held as the page has, whatever the size of the directory. Names that are
//! closed to tools are neither given nor counted.

use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;

use helve_core::ToolError;
use helve_core::files::{FileEntry, ListRequest, Listed};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags};

use super::resolve::Found;
use super::{Host, kind_of, stat_of};
use crate::commit::Key;
use crate::names::{told, untold};
use crate::refuse;
use crate::seek::Ignores;

/// What the rules and the ignore files make of an entry.
enum Standing {
    Wanted,
    /// Left out, and counted.
    Ignored,
    /// Closed to tools.
    Closed,
}

impl Host {
    /// The first entries that are wanted, in the order of the bytes of their names.
    pub(super) fn list(&self, request: &ListRequest) -> Result<Listed, ToolError> {
        let ListRequest { path, after, limit, hidden, obey_ignore } = request;
        let found = self.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let dir = open_dir(path, &found)?;
        let key = found.key.clone();
        let ignores = match obey_ignore {
            true => Ignores::of_host(self.start(path, found)?, &self.rules)?,
            false => Ignores::default(),
        };
        let after = after.as_deref().map(untold);
        let cannot = |error| refuse::system("list", path, error);
        // The smallest names so far, the largest of them on top.
        let mut names: BinaryHeap<Vec<u8>> = BinaryHeap::new();
        let (mut more, mut ignored) = (false, 0);
        let temporary = self.janitor.hidden();
        for entry in Dir::read_from(&dir).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_bytes();
            let before = after.as_ref().is_some_and(|after| name <= after.as_slice());
            let passed_over = !hidden && name.first() == Some(&b'.');
            if before || passed_over || name == b"." || name == b".." || temporary.has(name) {
                continue;
            }
            let full = names.len() == *limit;
            let behind = full && names.peek().is_none_or(|largest| name >= largest.as_slice());
            // That there are more is known, and then nothing is counted either.
            if behind && more {
                continue;
            }
            match self.standing(&key, &dir, &entry, &ignores) {
                Standing::Wanted => {}
                Standing::Ignored => {
                    ignored += 1;
                    continue;
                }
                Standing::Closed => continue,
            }
            more |= full;
            if behind {
                continue;
            }
            if full {
                names.pop();
            }
            names.push(name.to_vec());
        }
        let mut entries = Vec::with_capacity(names.len());
        for name in names.into_sorted_vec() {
            // It may be gone by now.
            let Ok(stat) = rustix::fs::statat(&dir, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            entries.push(FileEntry {
                path: told(&name),
                kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
                stat: Some(stat_of(&stat)),
            });
        }
        Ok(Listed { entries, more, ignored: if more { 0 } else { ignored } })
    }

    fn standing(&self, key: &Key, dir: &OwnedFd, entry: &DirEntry, ignores: &Ignores) -> Standing {
        let name = entry.file_name().to_bytes();
        let is_dir = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            kind => kind == FileType::Directory,
        };
        let mut path = key.path.clone().into_bytes();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        // Closed comes first: that such a name is also ignored would tell that it is there.
        if self.rules.denies_entry(&path, is_dir) {
            Standing::Closed
        } else if ignores.leave_out(&path, is_dir) {
            Standing::Ignored
        } else {
            Standing::Wanted
        }
    }
}

/// Opens the directory that a path leads to, for reading its entries.
pub(super) fn open_dir(path: &str, found: &Found) -> Result<OwnedFd, ToolError> {
    if FileType::from_raw_mode(found.stat.st_mode) != FileType::Directory {
        return Err(refuse::not_directory(path));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(&found.fd, ".", flags, Mode::empty())
        .map_err(|error| refuse::system("list", path, error))
}
