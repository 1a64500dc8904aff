//! What is in the workspace, for the planner of a commit, and whether it still is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use helve_core::files::ContentId;
use helve_core::limits::fixed::CHANGED_FILE;
use helve_core::{Cancel, ToolError};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::recall::Recall;
use super::resolve::{cannot_open, open_beneath, open_place, special_kind};
use super::{Host, links};
use crate::commit::{Key, Original, There, World};
use crate::refuse;

/// How often a file is read again that is being written meanwhile.
const READS: usize = 3;

/// What tells a file from another one, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    place: (u64, u64),
    len: i64,
    modified: (i64, i64),
    changed: (i64, i64),
    links: u64,
}

impl Identity {
    pub(super) fn of(stat: &Stat) -> Identity {
        Identity {
            place: (stat.st_dev, stat.st_ino),
            len: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
            links: links(stat),
        }
    }

    /// Whether it is the same, but for the moment at which it was renamed, and the number of names if it had several: the
    /// commit may have made or removed one.
    pub(super) fn is_after_rename(&self, stat: &Stat) -> bool {
        let now = Identity::of(stat);
        let links = if self.has_other_names() { self.links } else { now.links };
        Identity { changed: self.changed, links, ..now } == *self
    }

    /// Whether the file had more than one name.
    pub(super) fn has_other_names(&self) -> bool {
        self.links > 1
    }

    /// The file system that it is on.
    pub(super) fn device(&self) -> u64 {
        self.place.0
    }
}

/// The workspace as one commit sees it.
pub(super) struct HostWorld<'a> {
    host: &'a Host,
    recall: &'a Recall,
    /// Whether the call was taken back; looked at while long files are read.
    pub(super) cancel: &'a Cancel,
    /// The files that were looked at.
    files: BTreeMap<Key, Identity>,
    /// Those of which the call's own reading was believed, and what it read.
    believed: BTreeMap<Key, ContentId>,
}

impl<'a> HostWorld<'a> {
    pub(super) fn new(host: &'a Host, recall: &'a Recall, cancel: &'a Cancel) -> HostWorld<'a> {
        HostWorld { host, recall, cancel, files: BTreeMap::new(), believed: BTreeMap::new() }
    }

    /// Reads again what was believed, but for those files that somebody has read since; a conflict if one has changed.
    pub(super) fn confirm(&self, confirmed: &BTreeSet<Key>) -> Result<(), ToolError> {
        for (key, id) in self.believed.iter().filter(|(key, _)| !confirmed.contains(key)) {
            let shown = self.host.shown(key);
            let file = self.open_original(key)?;
            match self.take_in(&file, &shown, self.identity(key)?)? {
                Some(now) if now.id == *id => {}
                _ => return Err(refuse::raced(&shown)),
            }
        }
        Ok(())
    }

    /// A file was looked at by somebody else.
    pub(super) fn note(&mut self, key: &Key, identity: Identity) {
        self.files.insert(key.clone(), identity);
    }

    /// What a file was when it was looked at.
    pub(super) fn identity(&self, key: &Key) -> Result<Identity, ToolError> {
        self.files
            .get(key)
            .copied()
            .ok_or_else(|| ToolError::internal("A file of a commit was not looked at."))
    }

    /// Opens a file that was looked at; a conflict if it is another one by now.
    pub(super) fn open_original(&self, key: &Key) -> Result<File, ToolError> {
        let shown = self.host.shown(key);
        let place =
            self.host.open_at(key, OFlags::PATH | OFlags::NOFOLLOW).map_err(|_| refuse::raced(&shown))?;
        self.check(key, &place)?;
        self.host.sys.call("open", || open_place(&place)).map_err(|error| cannot_open(&shown, error))
    }

    /// A conflict if a file is no longer what was looked at.
    pub(super) fn check(&self, key: &Key, file: impl AsFd) -> Result<(), ToolError> {
        let shown = self.host.shown(key);
        let stat = rustix::fs::fstat(&file).map_err(|error| refuse::system("read", &shown, error))?;
        match Identity::of(&stat) == self.identity(key)? {
            true => Ok(()),
            false => Err(refuse::raced(&shown)),
        }
    }

    /// Reads a file to its end; none if it changed meanwhile.
    fn take_in(&self, file: &File, shown: &str, identity: Identity) -> Result<Option<Original>, ToolError> {
        let mut hasher = Box::new(blake3::Hasher::new());
        let mut buffer = vec![0; 256 << 10];
        let mut len = 0_u64;
        loop {
            if self.cancel.is_cancelled() {
                return Err(refuse::cancelled());
            }
            let read = self.host.sys.call("read", || rustix::io::pread(file, &mut buffer[..], len));
            let count = read.map_err(|error| refuse::system("read", shown, error))?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            len += count as u64;
        }
        let stat = rustix::fs::fstat(file).map_err(|error| refuse::system("read", shown, error))?;
        let same = Identity::of(&stat) == identity && stat.st_size.cast_unsigned() == len;
        Ok(same.then(|| Original::new(hasher, len)))
    }
}

impl World for HostWorld<'_> {
    fn look(&mut self, key: &Key) -> Result<There, ToolError> {
        let shown = self.host.shown(key);
        for _ in 0..READS {
            let place = match self.host.open_at(key, OFlags::PATH | OFlags::NOFOLLOW) {
                Ok(place) => place,
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(There::Absent),
                Err(Errno::LOOP) => return Err(self.host.refuse_link(key)),
                Err(Errno::XDEV) => return Err(refuse::outside(&shown)),
                Err(error) => return Err(refuse::system("open", &shown, error)),
            };
            let stat = rustix::fs::fstat(&place).map_err(|error| refuse::system("open", &shown, error))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => return Ok(There::Directory),
                FileType::Symlink => return Err(self.host.refuse_link(key)),
                FileType::RegularFile => {}
                _ => return Err(refuse::special(&shown, special_kind(&stat))),
            }
            self.host.check_links(&shown, &stat)?;
            if stat.st_size.cast_unsigned() > CHANGED_FILE as u64 {
                return Err(refuse::too_long(&shown, stat.st_size.cast_unsigned(), CHANGED_FILE as u64));
            }
            if let Some(original) = self.recall.of(key, Identity::of(&stat)) {
                self.files.insert(key.clone(), Identity::of(&stat));
                self.believed.insert(key.clone(), original.id.clone());
                return Ok(There::File(original));
            }
            let open = self.host.sys.call("open", || open_place(&place));
            let file = open.map_err(|error| cannot_open(&shown, error))?;
            let identity = Identity::of(&stat);
            if let Some(original) = self.take_in(&file, &shown, identity)? {
                self.files.insert(key.clone(), identity);
                return Ok(There::File(original));
            }
        }
        Err(refuse::raced(&shown))
    }

    fn is_there(&mut self, key: &Key) -> bool {
        let place = self.host.open_at(key, OFlags::PATH | OFlags::NOFOLLOW);
        !matches!(place, Err(Errno::NOENT | Errno::NOTDIR))
    }

    fn entry_besides(&mut self, key: &Key, gone: &dyn Fn(&str) -> bool) -> Result<Option<String>, ToolError> {
        let shown = self.host.shown(key);
        let cannot = |error| refuse::system("list", &shown, error);
        let dir = self.host.open_dir_at(key).map_err(cannot)?;
        let temporary = self.host.janitor.hidden();
        for entry in Dir::read_from(&dir).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || temporary.has(name) {
                continue;
            }
            let known = entry.file_name().to_str().is_ok_and(gone);
            if !known {
                return Ok(Some(entry.file_name().to_string_lossy().into_owned()));
            }
        }
        Ok(None)
    }
}

impl Host {
    /// Opens a resolved path; a link in it is an error.
    pub(super) fn open_at(&self, key: &Key, flags: OFlags) -> Result<OwnedFd, Errno> {
        let root = self.root(key.root).map_err(|_| Errno::NOENT)?;
        self.sys.call("open", || open_beneath(root.as_fd(), &key.path, flags))
    }

    /// Opens a directory in which names are to be changed. One whose names cannot be read can still be used.
    pub(super) fn open_dir_at(&self, key: &Key) -> Result<OwnedFd, Errno> {
        match self.open_at(key, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::ACCESS) => self.open_at(key, OFlags::PATH | OFlags::DIRECTORY),
            other => other,
        }
    }

    /// Whether an open directory is still at its path.
    pub(super) fn is_still_at(&self, key: &Key, dir: &OwnedFd) -> Result<bool, Errno> {
        let now = self.open_at(key, OFlags::PATH | OFlags::DIRECTORY)?;
        let (was, is) = (rustix::fs::fstat(dir)?, rustix::fs::fstat(&now)?);
        Ok((was.st_dev, was.st_ino) == (is.st_dev, is.st_ino))
    }

    /// The mode with which new directories are made; the process's mask takes its bits away.
    pub(super) const DIR_MODE: u32 = Mode::RWXU.bits() | Mode::RWXG.bits() | Mode::RWXO.bits();
}
