//! The entries of one directory, a page of them at a time.
//!
//! Names are read once and only as many are held as the page has, whatever the size of the directory.

use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;

use helve_core::ToolError;
use helve_core::files::FileEntry;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::resolve::Found;
use super::{Host, kind_of, stat_of};
use crate::host::janitor::is_temporary;
use crate::refuse;

impl Host {
    /// At most `limit` entries after the name `after`, in the order of their bytes, and whether there are more.
    pub(super) fn list(
        &self,
        path: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<FileEntry>, bool), ToolError> {
        let found = self.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let dir = open_dir(path, &found)?;
        let cannot = |error| refuse::system("list", path, error);
        // The smallest names so far, the largest of them on top.
        let mut names: BinaryHeap<Vec<u8>> = BinaryHeap::new();
        let mut more = false;
        for entry in Dir::read_from(&dir).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_bytes();
            let before = after.is_some_and(|after| name <= after.as_bytes());
            if before || name == b"." || name == b".." || is_temporary(name) {
                continue;
            }
            if names.len() == limit {
                more = true;
                match names.peek() {
                    Some(largest) if name < largest.as_slice() => {
                        names.pop();
                    }
                    _ => continue,
                }
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
                path: String::from_utf8_lossy(&name).into_owned(),
                kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
                stat: Some(stat_of(&stat)),
            });
        }
        Ok((entries, more))
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
