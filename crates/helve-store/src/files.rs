//! Opening files and directories below an already open directory, never through a symbolic link.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

const PRIVATE_DIR: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens a directory; `None` when there is none.
pub(crate) fn open_dir(parent: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    absent_is_none(rustix::fs::openat(parent, name, flags, Mode::empty()))
}

/// Opens a directory, making it (for the owner alone) when there is none.
pub(crate) fn make_dir(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    if let Some(dir) = open_dir(&parent, name)? {
        return Ok(dir);
    }
    match rustix::fs::mkdirat(&parent, name, PRIVATE_DIR) {
        // Said again, because the caller's umask may have taken the owner's own rights away.
        Ok(()) => rustix::fs::chmodat(&parent, name, PRIVATE_DIR, AtFlags::empty())?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    open_dir(&parent, name)?.ok_or_else(|| Errno::NOENT.into())
}

/// Opens a regular file for reading; `None` when there is none.
pub(crate) fn open_to_read(dir: impl AsFd, name: &str) -> io::Result<Option<File>> {
    open_regular(dir, name, OFlags::RDONLY)
}

/// Opens a regular file, making it (for the owner alone) when there is none.
pub(crate) fn open_or_make(dir: impl AsFd, name: &str, flags: OFlags) -> io::Result<File> {
    open_regular(dir, name, flags | OFlags::CREATE)?.ok_or_else(|| Errno::NOENT.into())
}

/// Makes a new file for the owner alone; fails when the name is taken.
pub(crate) fn make_new(dir: impl AsFd, name: &str) -> io::Result<File> {
    open_regular(dir, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?.ok_or_else(|| Errno::NOENT.into())
}

fn open_regular(dir: impl AsFd, name: &str, flags: OFlags) -> io::Result<Option<File>> {
    // NONBLOCK keeps a pipe under this name from holding the open until somebody writes to it.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Some(fd) = absent_is_none(rustix::fs::openat(dir, name, flags, PRIVATE_FILE))? else {
        return Ok(None);
    };
    let mode = rustix::fs::fstat(&fd)?.st_mode;
    if FileType::from_raw_mode(mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if flags.contains(OFlags::CREATE) && Mode::from_raw_mode(mode) != PRIVATE_FILE {
        // The caller's umask took rights away, or somebody gave some.
        rustix::fs::fchmod(&fd, PRIVATE_FILE)?;
    }
    Ok(Some(File::from(fd)))
}

/// Removes a file; that there is none is fine.
pub(crate) fn remove_file(dir: impl AsFd, name: &str) -> io::Result<()> {
    absent_is_none(rustix::fs::unlinkat(dir, name, AtFlags::empty())).map(|_| ())
}

/// Removes an empty directory; that there is none is fine.
pub(crate) fn remove_dir(parent: impl AsFd, name: &str) -> io::Result<()> {
    absent_is_none(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)).map(|_| ())
}

/// What is known about a name, symbolic links not followed; `None` when there is nothing.
pub(crate) fn stat(dir: impl AsFd, name: &str) -> io::Result<Option<Stat>> {
    absent_is_none(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// Names in a directory that are valid UTF-8, `.` and `..` left out.
pub(crate) fn names(dir: impl AsFd) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => found.push(name.to_owned()),
        }
    }
    Ok(found)
}

fn absent_is_none<T>(result: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A lock on an open file or directory, held until dropped. It excludes other opens of the same file, in this
/// process and in others.
pub(crate) struct Lock<'f, F: AsFd>(&'f F);

impl<'f, F: AsFd> Lock<'f, F> {
    pub(crate) fn exclusive(file: &'f F) -> io::Result<Self> {
        Self::take(file, FlockOperation::LockExclusive)
    }

    pub(crate) fn shared(file: &'f F) -> io::Result<Self> {
        Self::take(file, FlockOperation::LockShared)
    }

    /// An exclusive lock if nobody holds one now.
    pub(crate) fn try_exclusive(file: &'f F) -> io::Result<Option<Self>> {
        match Self::take(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps it, until it is [given back](Lock::give_back) or the file is closed.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// Gives a lock back that was kept.
    pub(crate) fn give_back(file: &'f F) {
        drop(Lock(file));
    }

    fn take(file: &'f F, operation: FlockOperation) -> io::Result<Self> {
        rustix::io::retry_on_intr(|| rustix::fs::flock(file, operation))?;
        Ok(Lock(file))
    }
}

impl<F: AsFd> Drop for Lock<'_, F> {
    fn drop(&mut self) {
        // Unlocking a lock that is held does not fail; closing the file would release it too.
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

/// The file's last change, as a distance from 1970.
pub(crate) fn modified(stat: &Stat) -> Duration {
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Duration::new(u64::try_from(stat.st_mtime).unwrap_or(0), nanoseconds)
}

/// The present, as a distance from 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A duration in whole microseconds.
pub(crate) fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
