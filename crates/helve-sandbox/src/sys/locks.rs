//! Locks on a part of a file that belong to whoever opened it, and end with him.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_int, c_short};

/// Takes a lock on the byte at `at` that others may have too.
pub(crate) fn share(file: &OwnedFd, at: i64) -> io::Result<()> {
    lock(file, libc::F_OFD_SETLK, &mut range(libc::F_RDLCK, at, 1))
}

/// Gives back every lock.
pub(crate) fn release(file: &OwnedFd) -> io::Result<()> {
    lock(file, libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, 0, 0))
}

/// The byte of some lock of somebody else, among the first `count` bytes, or all if that is 0.
pub(crate) fn found(file: &OwnedFd, count: i64) -> io::Result<Option<i64>> {
    let mut asked = range(libc::F_WRLCK, 0, count);
    lock(file, libc::F_OFD_GETLK, &mut asked)?;
    Ok((c_int::from(asked.l_type) != libc::F_UNLCK).then_some(asked.l_start))
}

fn range(kind: c_int, start: i64, count: i64) -> libc::flock {
    libc::flock {
        l_type: kind as c_short,
        l_whence: libc::SEEK_SET as c_short,
        l_start: start,
        l_len: count,
        // The kernel wants none.
        l_pid: 0,
    }
}

fn lock(file: &OwnedFd, order: c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the structure lives through the call, which waits for nobody.
    match unsafe { libc::fcntl(file.as_raw_fd(), order, std::ptr::from_mut(range)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
