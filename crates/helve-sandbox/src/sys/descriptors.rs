//! Closes descriptors by the kernel's own list of them. Only async-signal-safe calls, no allocation.

use libc::c_int;

use super::report::errno;

/// Where an entry of a directory has its length, and its name.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

/// Closes every descriptor of this process above the standard streams that is not in `keep`, which is sorted. Its other
/// threads, if it has any, must use none of them.
pub(super) fn close_listed(keep: &[c_int]) -> Result<(), c_int> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated.
    let list = unsafe { libc::open(c"/proc/self/fd".as_ptr(), flags) };
    if list == -1 {
        return Err(errno());
    }
    let mut buffer = [0_u8; 4096];
    let answer = loop {
        // SAFETY: the buffer lives through the call and its length is given.
        let count = unsafe { libc::syscall(libc::SYS_getdents64, list, buffer.as_mut_ptr(), buffer.len()) };
        match usize::try_from(count) {
            Ok(0) => break Ok(()),
            Ok(count) => close_some(buffer.get(..count).unwrap_or_default(), list, keep),
            Err(_) => break Err(errno()),
        }
    };
    // SAFETY: opened above, used nowhere else.
    unsafe { libc::close(list) };
    answer
}

/// Closes what some entries name. The kernel goes on by number, so that what is closed meanwhile does not confuse it.
fn close_some(mut entries: &[u8], list: c_int, keep: &[c_int]) {
    while let (Some(length), Some(name)) = (entries.get(LENGTH_AT..LENGTH_AT + 2), entries.get(NAME_AT..)) {
        if let Some(fd) = number(name)
            && fd > 2
            && fd != list
            && keep.binary_search(&fd).is_err()
        {
            // SAFETY: a descriptor that nobody in this process uses any more, as the caller says.
            unsafe { libc::close(fd) };
        }
        let &[low, high] = length else { return };
        entries = entries.get(usize::from(u16::from_ne_bytes([low, high])).max(1)..).unwrap_or_default();
    }
}

/// The number that a name is, which a NUL byte ends; none of `.` and `..`.
fn number(name: &[u8]) -> Option<c_int> {
    let digits = name.iter().take_while(|byte| **byte != 0);
    let mut number: Option<c_int> = None;
    for byte in digits {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(c_int::from(digit))?);
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_numbers() {
        let cases: [(&[u8], Option<c_int>); 6] = [
            (b"17\0rest", Some(17)),
            (b"0\0", Some(0)),
            (b".\0", None),
            (b"..\0", None),
            (b"\0", None),
            (b"99999999999\0", None),
        ];
        for (name, expected) in cases {
            assert_eq!(number(name), expected);
        }
    }

    /// In a child, because it closes what the test program uses.
    #[test]
    fn everything_that_is_not_kept_is_closed() {
        let opened: Vec<std::fs::File> =
            (0..300).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let mut numbers: Vec<c_int> = opened.iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
        numbers.sort_unstable();
        let keep = [numbers[7], numbers[201]];
        // SAFETY: the child makes only async-signal-safe calls and leaves without running anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let closed = close_listed(&keep).is_ok();
            // SAFETY: only asks whether a number is a descriptor.
            let open = |fd: c_int| unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1;
            let right = numbers.iter().all(|fd| open(*fd) == keep.contains(fd));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if closed && right && open(2) { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: `status` lives through the call.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
    }
}
