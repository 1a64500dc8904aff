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
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

/// How many bytes of entries are read at a time.
const LISTING_BYTES: usize = 32 * 1024;
/// The same where there are few.
const FEW_BYTES: usize = 4 * 1024;
/// How many directories and entries a small workspace has at the most.
const FEW_DIRECTORIES: usize = 32;
const FEW_ENTRIES: usize = 512;
/// How many widened directories are remembered at a time.
const MOST_WIDENED: usize = 4096;
/// The longest path that the kernel takes at once.
const LONGEST_STEP: usize = 4095;
/// The longest path that is opened, in steps: that of a place in the deepest directory that is looked into.
const LONGEST_PATH: usize = 2 * LONGEST_STEP;

/// A workspace.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// Directories whose modes were widened for a look.
    widened: Mutex<Vec<Widened>>,
}

/// A directory whose mode was widened, and the mode that it had.
#[derive(Debug)]
struct Widened {
    path: Vec<u8>,
    identity: Identity,
    mode: Mode,
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

/// A path as a part of a message, on one line.
pub(crate) fn shown(path: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(path).chars() {
        if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

/// Says of an error which path it is about, so that whoever reads it knows what to look at.
pub(super) fn about<E: Into<io::Error>>(path: &[u8]) -> impl FnOnce(E) -> io::Error {
    move |error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("{}: {error}", shown(path)))
    }
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

    /// Whether there is so little that a look through all of it takes no longer than to hand it to another thread.
    pub(super) fn is_small(&self) -> bool {
        let mut ahead = vec![Vec::new()];
        let (mut directories, mut entries) = (1, 0);
        while let Some(path) = ahead.pop() {
            let Ok(directory) = self.open_directory(&path) else { return false };
            let mut buffer = [MaybeUninit::uninit(); FEW_BYTES];
            let mut listing = RawDir::new(&directory, &mut buffer);
            while let Some(entry) = listing.next() {
                let Ok(entry) = entry else { return false };
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                entries += 1;
                if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                    directories += 1;
                    ahead.push(join(&path, name));
                }
                if directories > FEW_DIRECTORIES || entries > FEW_ENTRIES {
                    return false;
                }
            }
        }
        true
    }

    /// Opens a directory, even if its mode forbids it to its owner: until [`Tree::narrow`] is called its mode is wider
    /// then. Refused are only directories of others.
    pub(super) fn directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        match self.open_directory(path) {
            Err(Errno::ACCESS) => {
                self.widen(path)?;
                self.open_directory(path)
            }
            answer => answer,
        }
    }

    /// Opens a directory in which names are to be removed or made.
    pub(super) fn directory_to_change(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let opened = self.directory(path)?;
        let stat = rustix::fs::fstat(&opened)?;
        if is_mine(&stat) && !Mode::from_raw_mode(stat.st_mode).contains(Mode::RWXU) {
            self.widen(path)?;
        }
        Ok(opened)
    }

    /// Lets this user into a directory and those above it.
    fn widen(&self, path: &[u8]) -> Result<(), Errno> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let ends: Vec<usize> = ends.chain([path.len()]).collect();
        if self.widened().len() + ends.len() > MOST_WIDENED {
            self.narrow();
        }
        for end in ends {
            let path = path.get(..end).unwrap_or_default();
            let place = self.open(path, OFlags::PATH | OFlags::DIRECTORY)?;
            let stat = rustix::fs::fstat(&place)?;
            let mode = Mode::from_raw_mode(stat.st_mode);
            if mode.contains(Mode::RWXU) || !is_mine(&stat) {
                continue;
            }
            match change_mode(&place, mode | Mode::RWXU) {
                // Nobody can have left anything there.
                Err(Errno::ROFS) => return Err(Errno::ACCESS),
                changed => changed?,
            }
            self.widened().push(Widened { path: path.to_vec(), identity: identity(&stat), mode });
        }
        Ok(())
    }

    /// Gives directories back the modes that they had, the innermost first.
    pub(super) fn narrow(&self) {
        loop {
            let Some(last) = self.widened().pop() else { return };
            // It may be gone, or be somewhere else: then its owner can enter it.
            let Ok(place) = self.open(&last.path, OFlags::PATH | OFlags::DIRECTORY) else { continue };
            if rustix::fs::fstat(&place).is_ok_and(|stat| identity(&stat) == last.identity) {
                let _ = change_mode(&place, last.mode);
            }
        }
    }

    /// Gives a directory a mode that it keeps.
    pub(super) fn set_mode(&self, path: &[u8], mode: Mode) -> Result<(), Errno> {
        let opened = self.directory(path)?;
        let identity = identity(&rustix::fs::fstat(&opened)?);
        let mut widened = self.widened();
        match widened.iter_mut().find(|one| one.identity == identity) {
            // It is needed wide until then.
            Some(one) => one.mode = mode,
            None => rustix::fs::fchmod(&opened, mode)?,
        }
        Ok(())
    }

    fn widened(&self) -> MutexGuard<'_, Vec<Widened>> {
        self.widened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a path, in steps where it is longer than the kernel takes at once.
    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if path.len() <= LONGEST_STEP {
            return open_beneath(&self.root, path, flags);
        }
        let at = path.iter().take(LONGEST_STEP).rposition(|byte| *byte == b'/');
        let (Some(at), true) = (at, path.len() <= LONGEST_PATH) else { return Err(Errno::NAMETOOLONG) };
        let first = path.get(..at).unwrap_or_default();
        let rest = path.get(at + 1..).unwrap_or_default();
        let first = open_beneath(&self.root, first, OFlags::PATH | OFlags::DIRECTORY)?;
        open_beneath(&first, rest, flags)
    }

    /// What is at a path, without following a link; none if there is nothing, or nothing that this user can reach.
    pub(super) fn stat(&self, path: &[u8]) -> Result<Option<Stat>, Errno> {
        let (directory, name) = split(path);
        let opened = match self.directory(directory) {
            Err(errno) if is_gone(errno) || matches!(errno, Errno::ACCESS | Errno::NAMETOOLONG) => {
                return Ok(None);
            }
            opened => opened?,
        };
        let stat = match stat_in(&opened, name) {
            Err(Errno::ACCESS) => match self.widen(directory).and_then(|()| stat_in(&opened, name)) {
                Err(Errno::ACCESS) => None,
                answer => answer?,
            },
            answer => answer?,
        };
        // A mode that was widened for this look is not what was left there.
        Ok(stat.map(|mut stat| {
            if let Some(one) = self.widened().iter().find(|one| one.identity == identity(&stat)) {
                stat.st_mode = stat.st_mode & !0o7777 | one.mode.bits();
            }
            stat
        }))
    }

    /// Opens what has a name in a directory, without following a link and good for nothing but to look at it; none if there
    /// is nothing.
    pub(super) fn node(&self, directory: &[u8], name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        let opened = self.directory(directory)?;
        let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&opened, name, how, Mode::empty());
        let node = match open() {
            Err(Errno::ACCESS) => self.widen(directory).and_then(|()| open()),
            node => node,
        };
        match node {
            Ok(node) => Ok(Some(node)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Which directory the workspace is.
    pub(super) fn identity(&self) -> Result<Identity, Errno> {
        rustix::fs::fstat(&self.root).map(|stat| identity(&stat))
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

/// Whether an error says that there is no such directory in the workspace.
pub(super) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV)
}

fn is_mine(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Changes the mode of what a descriptor is on, also of one that is good for nothing else.
pub(super) fn change_mode(place: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), mode)
}

fn open_beneath(directory: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b"." } else { path };
    let how = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    // The kernel answers EAGAIN when something was renamed meanwhile.
    for _ in 0..16 {
        match rustix::fs::openat2(directory, path, flags | OFlags::CLOEXEC, Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
    Err(Errno::AGAIN)
}

/// What a name in a directory is.
pub(super) fn stat_in(directory: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        // Nothing has a longer name than its file system takes.
        Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
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

/// What a regular file holds, up to `most` bytes; nothing if this user may not read it or it is something else.
pub(super) fn read_in(directory: &OwnedFd, name: &[u8], most: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // Nothing else is even opened: a device may act on that.
    let regular = |stat: Stat| kind(&stat) == FileType::RegularFile;
    if !stat_in(directory, name)?.is_some_and(regular) {
        return Ok(None);
    }
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        file => file?,
    };
    if !regular(rustix::fs::fstat(&file)?) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::from(file).take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
