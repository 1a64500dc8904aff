//! What the arguments of another process's call point to. It may change at any moment, and nothing of it is trusted.

use libc::pid_t;

use super::super::raw::syscall;
use super::text::{PATH_BYTES, Text};

/// The most bytes of a socket's address that are looked at.
const ADDRESS_BYTES: usize = 128;
const PAGE_BYTES: u64 = 4096;

/// The text at an address, up to its NUL. None if it is empty, too long, or cannot be read.
pub(super) fn path(pid: pid_t, at: u64) -> Option<Text<PATH_BYTES>> {
    let mut text = Text::new();
    let room = text.room();
    // Most are short, and a piece of the page is read sooner than the whole.
    let mut count = 0;
    for end in [256, room.len()] {
        count += read(pid, at.checked_add(count as u64)?, room.get_mut(count..end)?)?;
        if let Some(length) = room.get(..count)?.iter().position(|byte| *byte == 0) {
            text.set_length(length);
            return (length > 0).then_some(text);
        }
        if count < end {
            return None;
        }
    }
    None
}

/// The address of a socket that lies there, and how long it is.
pub(super) fn address(pid: pid_t, at: u64, length: u64) -> Option<([u8; ADDRESS_BYTES], usize)> {
    let mut bytes = [0; ADDRESS_BYTES];
    let length = usize::try_from(length & u64::from(u32::MAX)).ok()?.min(ADDRESS_BYTES);
    let count = read(pid, at, bytes.get_mut(..length)?)?;
    Some((bytes, count))
}

/// Reads memory of another process, as far as it is there: up to the end of its page, and then the rest.
fn read(pid: pid_t, at: u64, into: &mut [u8]) -> Option<usize> {
    let first = (PAGE_BYTES - at % PAGE_BYTES).min(into.len() as u64);
    let own = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let theirs = [
        libc::iovec { iov_base: at as *mut libc::c_void, iov_len: first as usize },
        libc::iovec {
            iov_base: at.wrapping_add(first) as *mut libc::c_void,
            iov_len: into.len() - first as usize,
        },
    ];
    // SAFETY: the own piece is a borrowed slice, which lives through the call; the kernel checks the addresses in the other
    // process.
    let count = unsafe {
        syscall!(libc::SYS_process_vm_readv, pid, &raw const own, 1, theirs.as_ptr(), theirs.len(), 0)
    };
    count.ok().filter(|count| *count > 0)
}
