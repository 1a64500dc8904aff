//! What a commit of several steps is about to do, noted so that a start after a kill can take it back.
//!
//! In come the steps of a commit, before the first of them; out goes a file beside the janitor's record, locked as long as
//! the commit is under way and removed at the moment at which it counts as done. Whoever finds one unlocked goes through
//! its steps backwards. Whether a step was taken is seen by the file itself: by its number, length and time, not by its
//! name. So nothing is taken back that somebody has changed since, and to do it twice is no harm.
//!
//! One step needs no note: it is taken or not. Where a file system cannot exchange two files, a replaced file cannot be
//! taken back from here; the undo record has it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use helve_core::files::Attributes;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::resolve::open_beneath;
use super::stage::{Spot, Step};
use super::sys::Sys;
use crate::attributes::{self, MAX_BYTES as MAX_VALUE};

/// What the names of these files end with.
pub(super) const SUFFIX: &str = ".steps";
/// A commit has at most 10,000 changes; what is longer is no note of ours.
const MAX_BYTES: u64 = 256 << 20;
/// Directories below a new one; deeper ones are not looked into, and so count as changed.
const MAX_DEPTH: usize = 256;

/// The steps of one commit.
#[derive(Serialize, Deserialize)]
struct Journal {
    /// The absolute paths of the roots.
    roots: Vec<Vec<u8>>,
    steps: Vec<Noted>,
}

/// One step: something goes from one name to another, or the two change their names.
#[derive(Serialize, Deserialize)]
struct Noted {
    swap: bool,
    from: At,
    to: At,
    what: Mark,
}

/// A name in a directory below a root.
#[derive(Serialize, Deserialize)]
struct At {
    root: usize,
    dir: String,
    name: String,
}

/// What tells the thing that a step moves, and whether it was changed since.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
enum Mark {
    /// A file.
    File { place: (u64, u64), len: i64, modified: (i64, i64) },
    /// A directory that is new, with all that is in it.
    Tree { place: (u64, u64), entries: usize, hash: String },
    /// A directory that goes: what is in it does not matter.
    Directory { place: (u64, u64) },
    /// A file or a directory that stays where it is and gets other permission bits.
    Bits { place: (u64, u64), from: u32, to: u32 },
    /// The same with an extended attribute: the values alone, none where it is not there.
    Attribute { place: (u64, u64), name: String, from: Attributes, to: Attributes },
}

/// A commit whose steps are noted. Dropping it leaves the note to the next start.
pub(super) struct Under {
    path: PathBuf,
    /// Locked, and unlocked by closing it.
    _lock: File,
}

impl Under {
    /// The commit is done, or nothing of it is.
    pub(super) fn over(&self, sys: &Sys) -> Result<(), Errno> {
        sys.call("unnote", || rustix::fs::unlink(&self.path))
    }
}

/// Notes the steps of a commit in a new file.
pub(super) fn note(sys: &Sys, path: PathBuf, roots: &[&Path], steps: &[Step]) -> Result<Under, Errno> {
    let steps: Result<Vec<Noted>, Errno> = steps.iter().map(noted).collect();
    let roots = roots.iter().map(|root| root.as_os_str().as_bytes().to_vec()).collect();
    let text = serde_json::to_vec(&Journal { roots, steps: steps? }).map_err(|_| Errno::INVAL)?;
    let io = |error: std::io::Error| super::errno(&error);
    let write = || {
        let mut file = loop {
            let file = File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(io)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            // Before it was locked, somebody else may have taken it for one of a dead process and removed it.
            if file.metadata().map_err(io)?.nlink() > 0 {
                break file;
            }
        };
        file.write_all(&text).map_err(io)?;
        sys.sync(&file)?;
        if let Some(dir) = path.parent() {
            sys.sync(File::open(dir).map_err(io)?)?;
        }
        Ok(file)
    };
    match sys.call("note", write) {
        Ok(lock) => Ok(Under { path, _lock: lock }),
        Err(error) => {
            let _ = rustix::fs::unlink(&path);
            Err(error)
        }
    }
}

/// What is noted of a step.
fn noted(step: &Step) -> Result<Noted, Errno> {
    let (swap, from, to) = match step {
        Step::Chmod { at, .. } | Step::Attribute { at, .. } => (false, at, at),
        Step::Place { temp, to, .. } => (false, temp, to),
        Step::Swap { temp, to, .. } => (true, temp, to),
        Step::Rename { from, to, .. } => (false, from, to),
        Step::Hide { from, temp, .. } | Step::HideDir { from, temp, .. } => (false, from, temp),
    };
    let what = match step {
        Step::HideDir { .. } => Mark::Directory { place: place(&stat(&from.dir, &from.name)?) },
        Step::Chmod { from: bits, to, .. } => {
            Mark::Bits { place: place(&stat(&from.dir, &from.name)?), from: *bits, to: *to }
        }
        Step::Attribute { name, from: was, to, .. } => {
            let alone = |value: &Option<Vec<u8>>| {
                value.iter().map(|value| (name.as_str(), value.as_slice())).collect()
            };
            let place = place(&stat(&from.dir, &from.name)?);
            Mark::Attribute { place, name: name.clone(), from: alone(was), to: alone(to) }
        }
        _ => Mark::of(&from.dir, &from.name, usize::MAX)?,
    };
    Ok(Noted { swap, from: At::of(from), to: At::of(to), what })
}

impl At {
    fn of(spot: &Spot) -> At {
        At { root: spot.of.root, dir: spot.of.path.clone(), name: spot.name.clone() }
    }
}

impl Mark {
    /// What is at a name. A directory with more entries than `most` has some number of them.
    fn of(dir: &OwnedFd, name: &str, most: usize) -> Result<Mark, Errno> {
        let stat = stat(dir, name)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            let modified = (stat.st_mtime, stat.st_mtime_nsec.cast_signed());
            return Ok(Mark::File { place: place(&stat), len: stat.st_size, modified });
        }
        let mut tree = Tree { entries: 0, most, hasher: blake3::Hasher::new() };
        tree.take_in(dir, name.as_bytes(), 0)?;
        let hash = tree.hasher.finalize().to_hex().to_string();
        Ok(Mark::Tree { place: place(&stat), entries: tree.entries, hash })
    }

    /// Whether this is what is at a name.
    fn is_at(&self, dir: Option<&OwnedFd>, name: &str) -> Result<bool, Errno> {
        let Some(dir) = dir else { return Ok(false) };
        let now = match self {
            Mark::File { .. } => Mark::of(dir, name, 0),
            Mark::Tree { entries, .. } => Mark::of(dir, name, *entries),
            Mark::Directory { .. } => stat(dir, name).map(|stat| Mark::Directory { place: place(&stat) }),
            Mark::Bits { from, .. } => stat(dir, name).map(|stat| Mark::Bits {
                place: place(&stat),
                from: *from,
                to: stat.st_mode & 0o7777,
            }),
            Mark::Attribute { name: attribute, from, .. } => stat(dir, name).and_then(|stat| {
                let to = one_attribute(dir, name, attribute)?;
                Ok(Mark::Attribute { place: place(&stat), name: attribute.clone(), from: from.clone(), to })
            }),
        };
        match now {
            Ok(now) => Ok(now == *self),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Everything in a directory, as one hash.
struct Tree {
    entries: usize,
    most: usize,
    hasher: blake3::Hasher,
}

impl Tree {
    fn take_in(&mut self, dir: &OwnedFd, name: &[u8], depth: usize) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&inner)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            self.entries += 1;
            if self.entries > self.most {
                return Ok(());
            }
            found.push(name.to_vec());
        }
        found.sort_unstable();
        for name in found {
            let stat = rustix::fs::statat(&inner, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            self.hasher.update(&(name.len() as u64).to_le_bytes()).update(&name);
            self.hasher.update(&stat.st_ino.to_le_bytes()).update(&[u8::from(is_dir)]);
            if !is_dir {
                let numbers = [stat.st_size, stat.st_mtime, stat.st_mtime_nsec.cast_signed()];
                for number in numbers {
                    self.hasher.update(&number.to_le_bytes());
                }
            } else if depth < MAX_DEPTH {
                self.take_in(&inner, &name, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// Takes back what a dead process was about to do. False if that could not be found out: the note stays then.
pub(super) fn take_back(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    // Its commit was done before it could be locked.
    if file.metadata().is_ok_and(|data| data.nlink() == 0) {
        return true;
    }
    let mut text = Vec::new();
    if (&file).take(MAX_BYTES).read_to_end(&mut text).is_err() {
        return false;
    }
    // One that is cut off was written before the first step was taken.
    let done = match serde_json::from_slice::<Journal>(&text) {
        Ok(journal) => journal.undo().is_ok(),
        Err(_) => true,
    };
    done && rustix::fs::unlink(path).is_ok()
}

impl Journal {
    fn undo(&self) -> Result<(), Errno> {
        let sys = Sys::real(true);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let roots: Vec<Option<OwnedFd>> = self
            .roots
            .iter()
            .map(|root| rustix::fs::open(root.as_slice(), flags, Mode::empty()).ok())
            .collect();
        let open = |at: &At| match roots.get(at.root) {
            Some(Some(root)) => match open_beneath(root.as_fd(), &at.dir, OFlags::RDONLY | OFlags::DIRECTORY)
            {
                Ok(dir) => Ok(Some(dir)),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
                Err(error) => Err(error),
            },
            // The workspace itself is gone, and all that was in it.
            _ => Ok(None),
        };
        for step in self.steps.iter().rev() {
            let (from, to) = (open(&step.from)?, open(&step.to)?);
            step.undo(&sys, from.as_ref(), to.as_ref())?;
            for dir in from.iter().chain(&to) {
                sys.sync(dir)?;
            }
        }
        Ok(())
    }
}

impl Noted {
    /// Takes the step back if it was taken, and what it moved is still what it was.
    fn undo(&self, sys: &Sys, from: Option<&OwnedFd>, to: Option<&OwnedFd>) -> Result<(), Errno> {
        let (was, is) = (&self.from.name, &self.to.name);
        let not_taken = self.what.is_at(from, was)?;
        let taken = self.what.is_at(to, is)?;
        let (Some(from), Some(to), true) = (from, to, taken) else { return Ok(()) };
        let done = match (self.swap, not_taken) {
            _ if let Mark::Bits { from: bits, .. } = self.what => sys.chmod_at(to, is, bits),
            _ if let Mark::Attribute { name, from, .. } = &self.what => {
                sys.attribute_at(to, is, name, from.get(name))
            }
            (true, false) => {
                sys.exchange(to, was, is).and_then(|()| match self.what.is_at(Some(from), was)? {
                    true => Ok(()),
                    // Somebody has put another file there at the same moment: it stays.
                    false => sys.exchange(to, was, is),
                })
            }
            (true, true) => Ok(()),
            // Between a second name and the end of the first one.
            (false, true) => sys.unlink(to, is),
            (false, false) => sys.place(to, is, from, was),
        };
        match done {
            // Somebody else's by now, or a file system that cannot exchange.
            Err(Errno::EXIST | Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            other => other,
        }
    }
}

/// An extended attribute of what is at a name, alone.
fn one_attribute(dir: &OwnedFd, name: &str, attribute: &str) -> Result<Attributes, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let mut value = vec![0; MAX_VALUE];
    match rustix::fs::getxattr(attributes::link(&place), attribute, &mut value[..]) {
        Ok(len) => Ok(std::iter::once((attribute, value.get(..len).unwrap_or_default())).collect()),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Attributes::NONE),
        Err(error) => Err(error),
    }
}

fn stat(dir: &OwnedFd, name: &str) -> Result<Stat, Errno> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn place(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
