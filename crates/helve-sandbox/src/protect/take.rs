//! Taking away what a command left at a protected place, and putting back what was there.
//!
//! There is no private place in a workspace to move things to, so a file is read and then unlinked, through the
//! descriptor of its directory. A directory is emptied by moving what is in its directories up into it, one level at a
//! time: that takes one descriptor whatever the depth, and each entry is touched once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use helve_core::Removed;
use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use super::snapshot::{FILE_BYTES, Held};
use super::tree::{self, Tree, join, kind, split, stat_in};

/// How many taken files are told with their content; more are counted.
const MOST_KEPT: usize = 64;
/// How many bytes of content are kept of one call.
const KEPT_BYTES: u64 = 8 * FILE_BYTES;
/// The longest path that is told.
const PATH_BYTES: usize = 4096;

/// What one call left and lost.
#[derive(Debug)]
pub(super) struct Taken {
    removed: Vec<Removed>,
    bytes: u64,
    beyond: u64,
}

impl Taken {
    pub(super) fn new() -> Taken {
        Taken { removed: Vec::new(), bytes: KEPT_BYTES, beyond: 0 }
    }

    /// What was taken away, with a last line for what was not kept.
    pub(super) fn finish(mut self) -> Vec<Removed> {
        if self.beyond > 0 {
            let path = format!("({} more)", self.beyond);
            let why = "too many to be kept one by one".to_owned();
            self.removed.push(Removed { path, why, content: Vec::new() });
        }
        self.removed
    }

    fn note(&mut self, path: &[u8], why: &str, content: Option<Vec<u8>>) {
        if self.removed.len() >= MOST_KEPT {
            self.beyond += 1;
            return;
        }
        let content = content.unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(content.len() as u64);
        let path = path.get(..path.len().min(PATH_BYTES)).unwrap_or_default();
        let path = String::from_utf8_lossy(path).into_owned();
        self.removed.push(Removed { path, why: why.to_owned(), content });
    }

    /// Takes away whatever is at a path.
    pub(super) fn take(&mut self, tree: &Tree, path: &[u8], why: &str) -> Result<(), Errno> {
        let (parent, name) = split(path);
        let parent = tree.directory_anyhow(parent)?;
        let Some(stat) = stat_in(&parent, name)? else { return Ok(()) };
        if kind(&stat) != FileType::Directory {
            return self.take_file(&parent, name, path, why);
        }
        let top = open_directory(&parent, name)?;
        self.empty(&top, path, why)?;
        rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)
    }

    /// Takes away the entries of a directory that are `wanted`.
    pub(super) fn take_entries(
        &mut self,
        tree: &Tree,
        path: &[u8],
        wanted: &dyn Fn(&[u8]) -> bool,
        why: &str,
    ) -> Result<(), Errno> {
        loop {
            let directory = tree.directory_anyhow(path)?;
            let entries = some_entries(&directory, wanted)?;
            if entries.is_empty() {
                return Ok(());
            }
            for (name, _) in entries {
                self.take(tree, &join(path, &name), why)?;
            }
        }
    }

    /// Takes away a directory that holds nothing.
    pub(super) fn take_if_empty(&mut self, tree: &Tree, path: &[u8]) -> Result<(), Errno> {
        let (parent, name) = split(path);
        match rustix::fs::unlinkat(tree.directory_anyhow(parent)?, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(()),
            answer => answer,
        }
    }

    fn take_file(&mut self, parent: &OwnedFd, name: &[u8], told: &[u8], why: &str) -> Result<(), Errno> {
        let room = if self.removed.len() < MOST_KEPT { FILE_BYTES.min(self.bytes) } else { 0 };
        let content = if room > 0 { tree::read_in(parent, name, room) } else { None };
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) => self.note(told, why, content),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Takes away everything in a directory.
    fn empty(&mut self, top: &OwnedFd, path: &[u8], why: &str) -> Result<(), Errno> {
        // Under which path an entry that was moved up is told.
        let mut told: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut number = 0_u64;
        loop {
            let entries = some_entries(top, &|_| true)?;
            if entries.is_empty() {
                return Ok(());
            }
            for (name, kind) in entries {
                let path = told.remove(&name).unwrap_or_else(|| join(path, &name));
                if kind != FileType::Directory {
                    self.take_file(top, &name, &path, why)?;
                    continue;
                }
                let inner = open_directory(top, &name)?;
                loop {
                    let below = some_entries(&inner, &|_| true)?;
                    if below.is_empty() {
                        break;
                    }
                    for (name, kind) in below {
                        let path = join(path.get(..path.len().min(PATH_BYTES)).unwrap_or_default(), &name);
                        if kind != FileType::Directory {
                            self.take_file(&inner, &name, &path, why)?;
                            continue;
                        }
                        number += 1;
                        let moved = free_name(top, &mut number)?;
                        // Moving a directory changes it: what it says of its parent.
                        open_directory(&inner, &name)?;
                        rustix::fs::renameat_with(&inner, &name, top, &moved, RenameFlags::NOREPLACE)?;
                        told.insert(moved, path);
                    }
                }
                rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
            }
        }
    }
}

fn free_name(directory: &OwnedFd, number: &mut u64) -> Result<Vec<u8>, Errno> {
    loop {
        let name = format!("moved-{number}").into_bytes();
        if stat_in(directory, &name)?.is_none() {
            return Ok(name);
        }
        *number += 1;
    }
}

/// The first entries of a directory, as it is read from its beginning.
fn some_entries(
    directory: &OwnedFd,
    wanted: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    const AT_ONCE: usize = 1024;
    rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0))?;
    let mut entries = Vec::new();
    tree::list(directory, |name, kind| {
        if wanted(name.to_bytes()) {
            entries.push((name.to_bytes().to_vec(), kind));
        }
        entries.len() < AT_ONCE
    })?;
    Ok(entries)
}

/// Opens a directory that is to be emptied, whatever its mode.
fn open_directory(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(parent, name, flags, Mode::empty());
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let is_open = || rustix::fs::accessat(parent, name, access, AtFlags::EACCESS).is_ok();
    match opened {
        Ok(opened) if is_open() => Ok(opened),
        Ok(_) | Err(Errno::ACCESS) => {
            // By its descriptor: a name could lead elsewhere by now.
            let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = rustix::fs::openat(parent, name, how, Mode::empty())?;
            rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::RWXU)?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        Err(errno) => Err(errno),
    }
}

/// Makes what was at a path anew, where nothing is now. A directory that is gone is not made again: what was in it went
/// with it.
pub(super) fn put_back(tree: &Tree, path: &[u8], held: &Held) -> io::Result<()> {
    let (parent, name) = split(path);
    let parent = match tree.directory(parent) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        parent => parent?,
    };
    // Root works for the owner of the directory.
    let stat = rustix::fs::fstat(&parent)?;
    let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let give = |name: &[u8]| match rustix::process::geteuid().is_root() {
        true => rustix::fs::chownat(&parent, name, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW),
        false => Ok(()),
    };
    match held {
        Held::File { mode, content } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(file);
            file.write_all(content)?;
            give(name)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))?;
        }
        Held::Link(target) => {
            rustix::fs::symlinkat(target.as_slice(), &parent, name)?;
            give(name)?;
        }
        Held::Directory { mode, entries } => {
            rustix::fs::mkdirat(&parent, name, Mode::RWXU)?;
            for (name, held) in entries {
                put_back(tree, &join(path, name), held)?;
            }
            give(name)?;
            rustix::fs::fchmod(tree.directory(path)?, Mode::from_raw_mode(*mode))?;
        }
        Held::Large { .. } | Held::Unknown => {}
    }
    Ok(())
}

/// Makes a place what it was: takes away what is new or changed, puts back what was there. What was too large to
/// remember is left as it is.
pub(super) fn reconcile(
    tree: &Tree,
    path: &[u8],
    before: &Held,
    now: &Held,
    why: &str,
    taken: &mut Taken,
) -> io::Result<()> {
    match (before, now) {
        (Held::Unknown | Held::Large { .. }, _) => {}
        (Held::Directory { entries: before, .. }, Held::Directory { entries: now, .. }) => {
            for (name, now) in now {
                let below = join(path, name);
                match before.get(name) {
                    Some(before) if !before.differs(now) => {}
                    Some(before) => reconcile(tree, &below, before, now, why, taken)?,
                    None => taken.take(tree, &below, why)?,
                }
            }
            for (name, before) in before.iter().filter(|(name, _)| !now.contains_key(*name)) {
                put_back(tree, &join(path, name), before)?;
            }
        }
        _ => {
            taken.take(tree, path, why)?;
            put_back(tree, path, before)?;
        }
    }
    Ok(())
}
