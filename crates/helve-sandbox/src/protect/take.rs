//! Taking away what a command left at a protected place, and putting back what was there.
//!
//! There is no private place in a workspace to move things to, so a file is read and then unlinked, through the
//! descriptor of its directory. A directory is emptied by moving what is in its directories up into it, one level at a
//! time: that takes one descriptor whatever the depth, and each entry is touched once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use helve_core::Removed;
use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use super::snapshot::{FILE_BYTES, Held, Snapshot, Stamp};
use super::tree::{self, Tree, join, kind, split, stat_in};

/// How many taken files are told with their content; more are counted.
const MOST_KEPT: usize = 64;
/// How many things that could not be taken away are told; more are counted.
const MOST_FAILED: usize = 8;
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
    /// What could not be done, as lines for the reader.
    failed: Vec<Removed>,
    failed_beyond: u64,
}

impl Taken {
    pub(super) fn new() -> Taken {
        Taken { removed: Vec::new(), bytes: KEPT_BYTES, beyond: 0, failed: Vec::new(), failed_beyond: 0 }
    }

    /// Notes that something may be left that should not be.
    pub(super) fn failed(&mut self, path: &[u8], reason: &dyn std::fmt::Display) {
        if self.failed.len() >= MOST_FAILED {
            self.failed_beyond += 1;
            return;
        }
        self.failed.push(left(&told(path), reason));
    }

    /// Whether something may be left: the first of it.
    pub(super) fn first_failed(&self) -> Option<&Removed> {
        self.failed.first()
    }

    /// Notes that something may have changed and could not be compared, which is no reason to look again.
    fn doubted(&mut self, path: &[u8]) {
        self.note(path, "perhaps changed; left there, because it was too large to be remembered", None);
    }

    /// Notes that somebody changed a place, and nobody knows whether that was the command.
    pub(super) fn unclear(&mut self, path: &[u8]) {
        self.note(path, "changed while another call ran in this workspace; left there", None);
    }

    /// What was taken away, with a last line for what was not kept; what could not be taken away comes first.
    pub(super) fn finish(mut self) -> Vec<Removed> {
        if self.failed_beyond > 0 {
            self.failed.push(left(&format!("({} more)", self.failed_beyond), &"see those before it"));
        }
        if self.beyond > 0 {
            let path = format!("({} more)", self.beyond);
            let why = "too many to be kept one by one".to_owned();
            self.removed.push(Removed { path, why, content: Vec::new() });
        }
        self.failed.append(&mut self.removed);
        self.failed
    }

    fn note(&mut self, path: &[u8], why: &str, content: Option<Vec<u8>>) {
        if self.removed.len() >= MOST_KEPT {
            self.beyond += 1;
            return;
        }
        let content = content.unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(content.len() as u64);
        self.removed.push(Removed { path: told(path), why: why.to_owned(), content });
    }

    /// Takes away whatever is at a path.
    pub(super) fn take(&mut self, tree: &Tree, path: &[u8], why: &str) -> io::Result<()> {
        let (parent, name) = split(path);
        let parent = tree.directory_to_change(parent)?;
        let Some(stat) = stat_in(&parent, name)? else { return Ok(()) };
        if kind(&stat) != FileType::Directory {
            return self.take_file(&parent, name, path, why);
        }
        let top = open_directory(&parent, name)?;
        self.empty(&top, path, why)?;
        Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Takes away the entries of a directory that are `wanted`, and says of the first that stays why.
    pub(super) fn take_entries(
        &mut self,
        tree: &Tree,
        path: &[u8],
        wanted: &dyn Fn(&[u8]) -> bool,
        why: &str,
    ) -> io::Result<()> {
        let mut stay = BTreeSet::new();
        let mut first = Ok(());
        while stay.len() < MOST_KEPT {
            let directory = tree.directory_to_change(path)?;
            let entries = some_entries(&directory, &|name| wanted(name) && !stay.contains(name))?;
            if entries.is_empty() {
                break;
            }
            for (name, _) in entries {
                if let Err(error) = self.take(tree, &join(path, &name), why) {
                    stay.insert(name);
                    first = first.and(Err(error));
                }
            }
        }
        first
    }

    /// Takes away a directory that holds nothing.
    pub(super) fn take_if_empty(&mut self, tree: &Tree, path: &[u8]) -> Result<(), Errno> {
        let (parent, name) = split(path);
        match rustix::fs::unlinkat(tree.directory_to_change(parent)?, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(()),
            answer => answer,
        }
    }

    fn take_file(&mut self, parent: &OwnedFd, name: &[u8], told: &[u8], why: &str) -> io::Result<()> {
        let room = if self.removed.len() < MOST_KEPT { FILE_BYTES.min(self.bytes) } else { 0 };
        let content = if room > 0 { tree::read_in(parent, name, room)? } else { None };
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) => self.note(told, why, content),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Takes away everything in a directory.
    fn empty(&mut self, top: &OwnedFd, path: &[u8], why: &str) -> io::Result<()> {
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

/// A path as it is told.
fn told(path: &[u8]) -> String {
    String::from_utf8_lossy(path.get(..path.len().min(PATH_BYTES)).unwrap_or_default()).into_owned()
}

/// A line for what could not be taken away.
fn left(path: &str, reason: &dyn std::fmt::Display) -> Removed {
    let why = format!(
        "NOT taken out: {reason}; look at it before you use git, an editor or a shell in this workspace"
    );
    Removed { path: path.to_owned(), why, content: Vec::new() }
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
            tree::change_mode(&place, Mode::RWXU)?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        Err(errno) => Err(errno),
    }
}

/// Makes what was at a path anew, where nothing is now. A directory that is gone is not made again: what was in it went
/// with it.
pub(super) fn put_back(tree: &Tree, path: &[u8], held: &Held) -> io::Result<()> {
    let (parent, name) = split(path);
    match tree.directory_to_change(parent) {
        Err(errno) if tree::is_gone(errno) => Ok(()),
        parent => put_in(&parent?, name, held),
    }
}

/// Makes something in a directory. What was made is given its owner and mode by its descriptor: its name may lead
/// elsewhere a moment later.
fn put_in(parent: &OwnedFd, name: &[u8], held: &Held) -> io::Result<()> {
    // Root works for the owner of the directory.
    let stat = rustix::fs::fstat(parent)?;
    let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
    let give = |made: &OwnedFd| match rustix::process::geteuid().is_root() {
        true => rustix::fs::chownat(made, "", owner.0, owner.1, AtFlags::EMPTY_PATH),
        false => Ok(()),
    };
    match held {
        Held::File { mode, content } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(file);
            file.write_all(content)?;
            let file = OwnedFd::from(file);
            give(&file)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))?;
        }
        Held::Link(target) => {
            rustix::fs::symlinkat(target.as_slice(), parent, name)?;
            let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = own(rustix::fs::openat(parent, name, how, Mode::empty())?, FileType::Symlink)?;
            give(&made)?;
        }
        Held::Directory { mode, entries } => {
            rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
            let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = own(rustix::fs::openat(parent, name, how, Mode::empty())?, FileType::Directory)?;
            give(&made)?;
            for (name, held) in entries {
                put_in(&made, name, held)?;
            }
            rustix::fs::fchmod(&made, Mode::from_raw_mode(*mode))?;
        }
        Held::Large(_) | Held::Unknown => {}
    }
    Ok(())
}

/// What was opened, if it is still what this process has just made under that name.
fn own(opened: OwnedFd, made: FileType) -> io::Result<OwnedFd> {
    let stat = rustix::fs::fstat(&opened)?;
    let mine = stat.st_uid == rustix::process::geteuid().as_raw();
    let single = made == FileType::Directory || stat.st_nlink == 1;
    if mine && single && kind(&stat) == made {
        return Ok(opened);
    }
    Err(io::Error::other("something else took its place while it was put back"))
}

/// Makes a place what it was: takes away what is new or changed, puts back what was there. `wanted` says which entries
/// of the place itself count. Everything is looked at by itself here, so that nothing that a command adds uses up what
/// may be remembered of the rest.
pub(super) fn reconcile(
    tree: &Tree,
    path: &[u8],
    before: &Held,
    wanted: &dyn Fn(&[u8]) -> bool,
    why: &str,
    taken: &mut Taken,
) -> io::Result<()> {
    let Some(stat) = tree.stat(path)? else { return put_back(tree, path, before) };
    match before {
        Held::Unknown => Ok(()),
        Held::Large(before) => {
            let now = Stamp::of(&stat);
            if now == *before {
                return Ok(());
            }
            if now == (Stamp { changed: now.changed, ..before.clone() }) {
                taken.doubted(path);
                return Ok(());
            }
            taken.take(tree, path, why)
        }
        Held::Directory { mode, entries } if kind(&stat) == FileType::Directory => {
            let new = |name: &[u8]| wanted(name) && !entries.contains_key(name);
            let mut done = taken.take_entries(tree, path, &new, why);
            for (name, before) in entries {
                let one = reconcile(tree, &join(path, name), before, &|_| true, why, taken);
                done = done.and(one);
            }
            if stat.st_mode & 0o7777 != *mode {
                tree.set_mode(path, Mode::from_raw_mode(*mode))?;
            }
            done
        }
        _ => {
            let now = Snapshot::of(tree, path, &|_| true)?;
            if now.is_some_and(|now| !before.differs(&now.held)) {
                return Ok(());
            }
            taken.take(tree, path, why)?;
            put_back(tree, path, before)
        }
    }
}
