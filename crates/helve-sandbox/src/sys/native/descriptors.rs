//! Descriptors of a member's processes: which stay open, and opening places by path.

use std::ffi::CStr;

use libc::c_int;

use super::failure::{At, Failure};
use super::raw::syscall;
use crate::native::wire::Step;

/// Closes everything that is not in the sorted list.
pub(super) fn keep_only(keep: &[c_int]) -> Result<(), Failure> {
    let mut first = 3;
    for fd in keep.iter().take_while(|fd| **fd != -1) {
        if first < *fd {
            close_range(first, *fd - 1)?;
        }
        first = fd.saturating_add(1);
    }
    close_range(first, c_int::MAX)
}

pub(super) fn close_range(first: c_int, last: c_int) -> Result<(), Failure> {
    // SAFETY: descriptors of this process, whose table is its own, that nothing in it uses.
    unsafe { syscall!(libc::SYS_close_range, first, last, 0) }.at(Step::Streams).map(drop)
}

pub(super) fn close(fd: c_int) {
    // SAFETY: a descriptor of this process that is not used afterwards.
    let _ = unsafe { syscall!(libc::SYS_close, fd) };
}

/// Opens a place, only to name it.
pub(super) fn open_path(path: &CStr) -> Result<c_int, c_int> {
    open_path_at(libc::AT_FDCWD, path)
}

/// The same in an open directory.
pub(super) fn open_path_at(directory: c_int, path: &CStr) -> Result<c_int, c_int> {
    // SAFETY: the path ends with NUL and lives through the call.
    let fd =
        unsafe { syscall!(libc::SYS_openat, directory, path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC, 0) };
    fd.map(|fd| fd as c_int)
}
