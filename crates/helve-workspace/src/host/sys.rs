//! The system calls of a commit, each in one place, so that a test can make any of them fail.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, SeekFrom, Stat, XattrFlags};
use rustix::io::Errno;

use crate::attributes;

/// What a test has happen before a call: an error, or nothing.
#[cfg(test)]
pub(super) type Fault = Box<dyn Fn(&'static str) -> Result<(), Errno> + Send + Sync>;

/// The way to the kernel.
pub(super) struct Sys {
    fsync: bool,
    #[cfg(test)]
    pub(super) fault: std::sync::Mutex<Option<Fault>>,
}

impl Sys {
    pub(super) fn real(fsync: bool) -> Sys {
        Sys {
            fsync,
            #[cfg(test)]
            fault: std::sync::Mutex::new(None),
        }
    }

    /// One call, repeated while a signal interrupts it.
    pub(super) fn call<T>(
        &self,
        name: &'static str,
        mut work: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.before(name)?;
        loop {
            match work() {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    #[cfg(test)]
    fn before(&self, name: &'static str) -> Result<(), Errno> {
        self.fault.lock().unwrap().as_ref().map_or(Ok(()), |fault| fault(name))
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests make it fail")]
    fn before(&self, _: &'static str) -> Result<(), Errno> {
        Ok(())
    }

    /// What is at a name, which is not followed if it is a link.
    pub(super) fn stat_at(&self, dir: &OwnedFd, name: &str) -> Result<Stat, Errno> {
        self.call("stat", || rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Makes a file that was not there.
    pub(super) fn create(&self, dir: &OwnedFd, name: &str, mode: u32) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.call("create", || {
            rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(mode)).map(File::from)
        })
    }

    /// Makes a directory that was not there, and opens it.
    pub(super) fn make_dir(&self, dir: &OwnedFd, name: &str, mode: u32) -> Result<OwnedFd, Errno> {
        self.call("mkdir", || rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode)))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.call("open", || rustix::fs::openat(dir, name, flags, Mode::empty()))
    }

    /// Reads a file of about `len` bytes in as few pieces as it comes in; of one that is longer than `max`, enough to tell.
    pub(super) fn read_to_end(&self, file: &File, len: u64, max: u64) -> Result<Vec<u8>, Errno> {
        // The one byte more lets the last piece say that it is the last.
        let len = usize::try_from(len.min(max)).unwrap_or_default();
        let mut bytes = Vec::with_capacity(len.saturating_add(1));
        loop {
            if bytes.len() == bytes.capacity() {
                bytes.reserve(64 << 10);
            }
            let count = self.call("load", || rustix::io::read(file, spare_capacity(&mut bytes)))?;
            if count == 0 || bytes.len() as u64 > max {
                return Ok(bytes);
            }
        }
    }

    /// Writes all bytes, a few megabytes at a time.
    pub(super) fn write_all(&self, file: &File, bytes: &[u8]) -> Result<(), Errno> {
        const AT_ONCE: usize = 8 << 20;
        let mut rest = bytes;
        while !rest.is_empty() {
            let part = rest.get(..AT_ONCE).unwrap_or(rest);
            let count = self.call("write", || rustix::io::write(file, part))?;
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// The same into a new file, but that blocks of zeros take no room in it. [`Sys::end_here`] has to follow.
    pub(super) fn write_with_holes(&self, file: &File, bytes: &[u8]) -> Result<(), Errno> {
        const BLOCK: usize = 64 << 10;
        let is_hole = |block: &&[u8]| block.iter().all(|byte| *byte == 0);
        let mut rest = bytes;
        while !rest.is_empty() {
            let holes: usize = rest.chunks(BLOCK).take_while(is_hole).map(<[u8]>::len).sum();
            if holes > 0 {
                self.call("seek", || rustix::fs::seek(file, SeekFrom::Current(holes.cast_signed() as i64)))?;
                rest = rest.get(holes..).unwrap_or_default();
            }
            let data: usize = rest.chunks(BLOCK).take_while(|block| !is_hole(block)).map(<[u8]>::len).sum();
            self.write_all(file, rest.get(..data).unwrap_or_default())?;
            rest = rest.get(data..).unwrap_or_default();
        }
        Ok(())
    }

    /// A new file is as long as was written, also where that ends with a hole.
    pub(super) fn end_here(&self, file: &File) -> Result<(), Errno> {
        self.call("truncate", || rustix::fs::ftruncate(file, rustix::fs::tell(file)?))
    }

    /// Whether [`Sys::sync`] waits for the disk.
    pub(super) fn syncs(&self) -> bool {
        self.fsync
    }

    /// Waits until the disk has a file or a directory.
    pub(super) fn sync(&self, fd: impl AsFd) -> Result<(), Errno> {
        if !self.fsync {
            return Ok(());
        }
        match self.call("fsync", || rustix::fs::fsync(&fd)) {
            // A file system that cannot for directories.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::BADF) => Ok(()),
            other => other,
        }
    }

    /// Two names change their files, at one moment.
    pub(super) fn exchange(&self, dir: &OwnedFd, one: &str, other: &str) -> Result<(), Errno> {
        self.call("exchange", || rustix::fs::renameat_with(dir, one, dir, other, RenameFlags::EXCHANGE))
    }

    /// A file takes the place of another, at one moment.
    pub(super) fn replace(&self, dir: &OwnedFd, from: &str, to: &str) -> Result<(), Errno> {
        self.call("rename", || rustix::fs::renameat(dir, from, dir, to))
    }

    /// A file or directory takes a name at which nothing is.
    pub(super) fn place(
        &self,
        from_dir: &OwnedFd,
        from: &str,
        to_dir: &OwnedFd,
        to: &str,
    ) -> Result<(), Errno> {
        let flags = RenameFlags::NOREPLACE;
        match self.call("place", || rustix::fs::renameat_with(from_dir, from, to_dir, to, flags)) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            other => return other,
        }
        // A file system without that. A second name is refused where there is one already, and so is as good.
        match self.call("link", || rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())) {
            Ok(()) => return self.unlink(from_dir, from),
            // One without second names, or a directory.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {}
            Err(error) => return Err(error),
        }
        match self.stat_at(to_dir, to) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => self.call("rename", || rustix::fs::renameat(from_dir, from, to_dir, to)),
            Err(error) => Err(error),
        }
    }

    /// Opens a file or a directory only to name it; a link is `LOOP`.
    fn place_at(&self, dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = self.call("open", || rustix::fs::openat(dir, name, flags, Mode::empty()))?;
        match FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) {
            FileType::Symlink => Err(Errno::LOOP),
            _ => Ok(place),
        }
    }

    /// Gives a file or a directory other permission bits; a link is `LOOP`.
    pub(super) fn chmod_at(&self, dir: &OwnedFd, name: &str, mode: u32) -> Result<(), Errno> {
        let place = self.place_at(dir, name)?;
        let link = attributes::link(&place);
        self.call("chmod", || rustix::fs::chmod(&link, Mode::from_raw_mode(mode)))
    }

    /// Gives a file or a directory another value of an extended attribute, or takes it away; a link is `LOOP`.
    pub(super) fn attribute_at(
        &self,
        dir: &OwnedFd,
        name: &str,
        attribute: &str,
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let place = self.place_at(dir, name)?;
        let link = attributes::link(&place);
        let Some(value) = value else {
            return match self.call("removexattr", || rustix::fs::removexattr(&link, attribute)) {
                // It has none already.
                Err(Errno::NODATA) => Ok(()),
                other => other,
            };
        };
        self.call("setxattr", || rustix::fs::setxattr(&link, attribute, value, XattrFlags::empty()))
    }

    /// Waits until the disk has everything of a file system: less than a wait for each of many files.
    pub(super) fn sync_all(&self, dir: &OwnedFd) -> Result<(), Errno> {
        if !self.fsync {
            return Ok(());
        }
        self.call("syncfs", || rustix::fs::syncfs(dir))
    }

    pub(super) fn unlink(&self, dir: &OwnedFd, name: &str) -> Result<(), Errno> {
        self.call("unlink", || rustix::fs::unlinkat(dir, name, AtFlags::empty()))
    }

    pub(super) fn is_empty_dir(&self, dir: &OwnedFd, name: &str) -> Result<bool, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = self.call("open", || rustix::fs::openat(dir, name, flags, Mode::empty()))?;
        for entry in Dir::read_from(&dir)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
