//! The workspace as a tree of names below one descriptor.
//!
//! Every path is relative to the workspace, every directory is opened by the kernel beneath it, without links and without
//! leaving its file system, and everything in it is reached through that descriptor. So nothing that a command leaves
//! behind leads anywhere else.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

/// How many bytes of entries are read at a time.
const LISTING_BYTES: usize = 32 * 1024;
/// How many directories that nobody may enter are opened for a look.
const MOST_OPENED: usize = 1024;

/// A workspace.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// Directories whose modes were widened for a look, with the modes that they had.
    widened: Mutex<Vec<(OwnedFd, Mode)>>,
}

/// Which inode a name leads to.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A path below a directory.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() {
        return name.to_vec();
    }
    [directory, name].join(&b'/')
}

/// The directory of a path, and its name in there.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default()),
        None => (&[], path),
    }
}

/// Whether a path lies in a directory, or is it.
pub(super) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

impl Tree {
    pub(super) fn new(root: OwnedFd) -> Tree {
        Tree { root, widened: Mutex::new(Vec::new()) }
    }

    /// The path of the workspace outside, as the kernel knows it.
    pub(super) fn real_path(&self) -> io::Result<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.root.as_raw_fd()))
    }

    /// Opens a directory.
    pub(super) fn directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a directory even if its mode forbids it to its owner. Until [`Tree::narrow`] is called its mode is wider.
    pub(super) fn directory_anyhow(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let refused = match self.directory(path) {
            Err(Errno::ACCESS) => Errno::ACCESS,
            answer => return answer,
        };
        let mut widened = self.widened.lock().unwrap_or_else(PoisonError::into_inner);
        if widened.len() >= MOST_OPENED {
            return Err(refused);
        }
        let place = self.open(path, OFlags::PATH | OFlags::DIRECTORY)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
        let by_number = format!("/proc/self/fd/{}", place.as_raw_fd());
        rustix::fs::chmod(by_number.as_str(), mode | Mode::RWXU)?;
        widened.push((place, mode));
        drop(widened);
        self.directory(path)
    }

    /// Gives directories back the modes that they had, the innermost first.
    pub(super) fn narrow(&self) {
        let mut widened = self.widened.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((place, mode)) = widened.pop() {
            // It may be gone.
            let _ = rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), mode);
        }
    }

    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let how = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        // The kernel answers EAGAIN when something was renamed meanwhile.
        for _ in 0..16 {
            match rustix::fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), how) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                answer => return answer,
            }
        }
        Err(Errno::AGAIN)
    }

    /// What is at a path, without following a link; none if there is nothing.
    pub(super) fn stat(&self, path: &[u8]) -> Result<Option<Stat>, Errno> {
        let (directory, name) = split(path);
        let opened = match self.directory(directory) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            opened => opened?,
        };
        stat_in(&opened, name)
    }

    /// Where a path that a file names leads to, relative to the workspace: `None` if that is outside. `base` is the
    /// directory that it is relative to. Only names are looked at, no links.
    pub(super) fn resolve(&self, base: &[u8], named: &[u8]) -> Option<Vec<u8>> {
        let named = Path::new(OsStr::from_bytes(named));
        let mut parts: Vec<&OsStr> = Vec::new();
        let real;
        let steps = if named.is_absolute() {
            real = self.real_path().ok()?;
            named.strip_prefix(&real).ok()?
        } else {
            parts.extend(
                base.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(OsStr::from_bytes),
            );
            named
        };
        for step in steps.components() {
            match step {
                std::path::Component::Normal(name) => parts.push(name),
                std::path::Component::ParentDir => drop(parts.pop()?),
                std::path::Component::CurDir => {}
                std::path::Component::RootDir | std::path::Component::Prefix(_) => return None,
            }
        }
        Some(parts.join(OsStr::new("/")).as_bytes().to_vec())
    }
}

/// What a name in a directory is.
pub(super) fn stat_in(directory: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Gives each name in a directory and what it is, until `each` says false.
pub(super) fn list(directory: &OwnedFd, mut each: impl FnMut(&CStr, FileType) -> bool) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match stat_in(directory, name.to_bytes())? {
                Some(stat) => kind(&stat),
                None => continue,
            },
            known => known,
        };
        if !each(name, kind) {
            break;
        }
    }
    Ok(())
}

/// What a regular file holds, up to `most` bytes; nothing if this user cannot read it or it is something else.
pub(super) fn read_in(directory: &OwnedFd, name: &[u8], most: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Nothing else is even opened: a device may act on that.
    let regular = |stat: Stat| kind(&stat) == FileType::RegularFile;
    if !stat_in(directory, name).ok()?.is_some_and(regular) {
        return None;
    }
    let file = rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?;
    if !regular(rustix::fs::fstat(&file).ok()?) {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
