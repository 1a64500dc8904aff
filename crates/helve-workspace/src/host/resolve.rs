//! From the text of a path to an open descriptor, without ever following a link.
//!
//! Every open is one beneath a root's descriptor that follows no link (`beneath`). Where the kernel says that a link
//! is in the way, the links are read here, one after another, until a path without any is known, and that one is opened
//! in the same way. So a link that is swapped meanwhile can make an open fail but never lead it elsewhere.
//!
//! What is opened is at first only a place in the tree (`O_PATH`): nothing happens to a device or a FIFO. When it is
//! known to be a regular file, that very place is opened for reading through `/proc/self/fd`.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use helve_core::limits::fixed::LINKS;
use helve_core::{ErrorKind, ToolError};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Host, links};
use crate::beneath;
use crate::commit::Key;
use crate::names;
use crate::refuse;

/// How often links are read again because what they led to was swapped meanwhile.
const RESOLVES: usize = 16;

/// Something that a path led to.
pub(super) struct Found {
    /// Its place; cannot be read from.
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
    /// Where it really is.
    pub(super) key: Key,
    /// The same, with a final link not followed.
    pub(super) named: Key,
}

/// Where the links in a path lead.
pub(super) enum Led {
    To(Key),
    Outside,
    Circle,
}

/// Opens a path below a directory without following any link.
pub(super) fn open_beneath(dir: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    beneath::open(dir, path.as_bytes(), flags)
}

/// Opens for reading what a place descriptor stands for, which must be known to be a regular file.
pub(super) fn open_place(place: &OwnedFd) -> Result<File, Errno> {
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // The link stands for the descriptor itself, not for a name.
    rustix::fs::open(name, flags, Mode::empty()).map(File::from)
}

/// What kind of thing is neither file nor directory.
pub(super) fn special_kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "neither a file nor a directory",
    }
}

impl Host {
    /// Where the text of a path leads: a root and what is below it, `..` still in it. What is plainly outside is refused.
    pub(super) fn locate(&self, path: &str) -> Result<(usize, String), ToolError> {
        let (root, relative) = match names::asked(path)? {
            names::Asked::Relative(relative) => (0, relative.to_owned()),
            names::Asked::Absolute(absolute) => {
                self.below_root(absolute).ok_or_else(|| refuse::outside(path))?
            }
        };
        if names::parts(&relative).is_none() {
            return Err(refuse::outside(path));
        }
        Ok((root, relative))
    }

    /// The root that an absolute path is below, the deepest if there are several.
    fn below_root(&self, absolute: &str) -> Option<(usize, String)> {
        let mut best: Option<(usize, usize, String)> = None;
        for (index, root) in self.roots.iter().enumerate() {
            for name in &root.names {
                let Some(rest) = std::path::Path::new(absolute).strip_prefix(name).ok() else { continue };
                let depth = name.components().count();
                if best.as_ref().is_none_or(|(known, ..)| *known < depth) {
                    best = Some((depth, index, rest.to_str()?.to_owned()));
                }
            }
        }
        best.map(|(_, index, rest)| (index, rest))
    }

    /// Whether the root that a path belongs to may be written: the deepest one that holds it, for a directory in the
    /// workspace may be open for reading only.
    pub(super) fn is_writable(&self, key: &Key) -> bool {
        let Some(root) = self.roots.get(key.root) else { return false };
        let place = root.names.last().map(|name| name.join(&key.path));
        let deepest = place.and_then(|place| self.below_root(place.to_str()?)).map(|(index, _)| index);
        root.write && deepest.and_then(|index| self.roots.get(index)).is_none_or(|deepest| deepest.write)
    }

    /// What is at a path, links inside the workspace followed; none if nothing is. What must not be read is refused.
    pub(super) fn find(&self, path: &str) -> Result<Option<Found>, ToolError> {
        let (root, relative) = self.locate(path)?;
        let parts = names::parts(&relative).ok_or_else(|| refuse::outside(path))?;
        let named = Key::new(root, &parts);
        self.check_read(&named, false)?;
        let first = open_beneath(self.root(root)?.as_fd(), &relative, OFlags::PATH);
        let (fd, key, named) = match first {
            Ok(fd) => (fd, named.clone(), named),
            Err(Errno::LOOP) => match self.find_through_links(path, root, &relative)? {
                Some((fd, key)) => {
                    let named = self.named(root, &relative, &parts).unwrap_or(named);
                    (fd, key, named)
                }
                None => return Ok(None),
            },
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::XDEV) => return Err(refuse::outside(path)),
            Err(error) => return Err(refuse::system("open", path, error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|error| refuse::system("open", path, error))?;
        // Some rules are about directories alone, and a path without links was asked about already.
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_dir || key != named {
            self.check_read(&key, is_dir)?;
        }
        Ok(Some(Found { fd, stat, key, named }))
    }

    fn find_through_links(
        &self,
        path: &str,
        root: usize,
        relative: &str,
    ) -> Result<Option<(OwnedFd, Key)>, ToolError> {
        for _ in 0..RESOLVES {
            let key =
                match self.follow(root, relative).map_err(|error| refuse::system("open", path, error))? {
                    Led::To(key) => key,
                    Led::Outside => return Err(refuse::outside(path)),
                    Led::Circle => return Err(refuse::circle(path)),
                };
            self.check_read(&key, false)?;
            match open_beneath(self.root(key.root)?.as_fd(), &key.path, OFlags::PATH) {
                Ok(fd) => return Ok(Some((fd, key))),
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                // Something became a link after it was looked at.
                Err(Errno::LOOP) => {}
                Err(Errno::XDEV) => return Err(refuse::outside(path)),
                Err(error) => return Err(refuse::system("open", path, error)),
            }
        }
        Err(refuse::raced(path))
    }

    /// Where the directory of a path really is, and the last name in it.
    fn named(&self, root: usize, relative: &str, parts: &[&str]) -> Option<Key> {
        let leaf = parts.last()?;
        let above = relative.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
        match self.follow(root, above).ok()? {
            Led::To(key) => Some(key.child(leaf)),
            Led::Outside | Led::Circle => None,
        }
    }

    /// Reads the links in a path until none is left. What is not there stays as it is written.
    pub(super) fn follow(&self, root: usize, relative: &str) -> Result<Led, Errno> {
        let mut root = root;
        let mut done: Vec<String> = Vec::new();
        // What is still to be walked, its next part last.
        let mut rest: Vec<String> = relative.split('/').rev().map(str::to_owned).collect();
        let mut links = 0;
        let mut there = true;
        while let Some(part) = rest.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    if done.pop().is_none() {
                        return Ok(Led::Outside);
                    }
                    continue;
                }
                _ => done.push(part),
            }
            if !there {
                continue;
            }
            let Ok(dir) = self.root(root) else { return Ok(Led::Outside) };
            let place = match open_beneath(dir.as_fd(), &done.join("/"), OFlags::PATH | OFlags::NOFOLLOW) {
                Ok(place) => place,
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    there = false;
                    continue;
                }
                Err(Errno::LOOP) => return Ok(Led::Circle),
                Err(Errno::XDEV) => return Ok(Led::Outside),
                Err(error) => return Err(error),
            };
            let stat = rustix::fs::fstat(&place)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                continue;
            }
            links += 1;
            if links > LINKS {
                return Ok(Led::Circle);
            }
            let target = rustix::fs::readlinkat(&place, "", Vec::new())?;
            let Ok(target) = target.to_str() else { return Ok(Led::Outside) };
            done.pop();
            let below = if target.starts_with('/') {
                let Some((other, below)) = self.below_root(target) else { return Ok(Led::Outside) };
                root = other;
                done.clear();
                below
            } else {
                target.to_owned()
            };
            rest.extend(below.split('/').rev().map(str::to_owned));
        }
        Ok(Led::To(Key::new(root, &done)))
    }

    /// The open directory of a root.
    pub(super) fn root(&self, index: usize) -> Result<&OwnedFd, ToolError> {
        let root = self.roots.get(index).ok_or_else(|| ToolError::internal("A root is not there."))?;
        root.dir.as_deref().map_err(|why| {
            ToolError::failed(format!("The directory {} {why}.", root.shown.as_deref().unwrap_or(".")))
                .hint("Tell the owner.")
        })
    }

    /// The path for people and for the record: relative to the workspace, or absolute in another root.
    pub(super) fn shown(&self, key: &Key) -> String {
        match self.roots.get(key.root).and_then(|root| root.shown.as_deref()) {
            None => key.path.clone(),
            Some(root) if key.path.is_empty() => root.to_owned(),
            Some(root) => format!("{}/{}", root.trim_end_matches('/'), key.path),
        }
    }

    fn check_read(&self, key: &Key, is_dir: bool) -> Result<(), ToolError> {
        self.rules.check_read(&key.path, &self.shown(key), is_dir)
    }

    /// Why a path that has a link in it is not written: where it leads.
    pub(super) fn refuse_link(&self, key: &Key) -> ToolError {
        let shown = self.shown(key);
        match self.follow(key.root, &key.path) {
            Ok(Led::To(target)) => refuse::link(&shown, &self.shown(&target)),
            Ok(Led::Outside) => refuse::outside(&shown),
            Ok(Led::Circle) => refuse::circle(&shown),
            Err(error) => refuse::system("open", &shown, error),
        }
    }

    /// Opens a regular file that a path leads to.
    pub(super) fn open_file(&self, path: &str, found: &Found) -> Result<File, ToolError> {
        match FileType::from_raw_mode(found.stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(refuse::directory(path)),
            _ => return Err(refuse::special(path, special_kind(&found.stat))),
        }
        self.check_links(path, &found.stat)?;
        open_place(&found.fd).map_err(|error| cannot_open(path, error))
    }

    /// Refuses a file with several names, unless they are allowed.
    pub(super) fn check_links(&self, path: &str, stat: &Stat) -> Result<(), ToolError> {
        let count = links(stat);
        match count > 1 && !self.rules.given().hard_links {
            true => Err(refuse::hard_link(path, count)),
            false => Ok(()),
        }
    }
}

/// Why an open through `/proc` did not succeed.
pub(super) fn cannot_open(path: &str, error: Errno) -> ToolError {
    match error {
        Errno::NOENT => {
            ToolError::new(ErrorKind::Internal, "Files cannot be opened because /proc is not mounted.")
        }
        error => refuse::system("read", path, error),
    }
}
