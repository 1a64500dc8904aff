//! Which failures pass by themselves, because the machine is only short of something now.
//!
//! In: an `errno`, or the error of a call. Out: whether the same may succeed at the next try. Such a failure belongs to one
//! call: nothing is concluded from it about what the machine can give, so that no command can make its successors run in a
//! lesser sandbox by using everything up.

use helve_core::{ErrorKind, ToolError};

/// Whether this error of the kernel speaks of a shortage, not of a refusal.
pub(super) fn is_shortage(errno: i32) -> bool {
    match errno {
        libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOBUFS => true,
        libc::EDQUOT | libc::EBUSY | libc::EINTR | libc::ETIMEDOUT => true,
        // "All are in use" never passes where none are allowed.
        libc::ENOSPC | libc::EUSERS => !allows_no_namespaces(),
        _ => false,
    }
}

/// Whether a call may succeed at the next try.
pub(crate) fn passes(error: &ToolError) -> bool {
    match errno_in(&error.message) {
        Some(errno) => is_shortage(errno),
        // Without an answer of the kernel: killed, late, or crashed. A sandbox that is not there says so.
        None => error.kind != ErrorKind::SandboxUnavailable,
    }
}

/// The number with which the standard library ends the words of the kernel's errors.
fn errno_in(message: &str) -> Option<i32> {
    let (_, rest) = message.rsplit_once("(os error ")?;
    rest.split_once(')')?.0.parse().ok()
}

fn allows_no_namespaces() -> bool {
    const KINDS: [&str; 6] = ["user", "mnt", "pid", "ipc", "net", "uts"];
    KINDS.iter().any(|kind| {
        let switch = std::fs::read_to_string(format!("/proc/sys/user/max_{kind}_namespaces"));
        switch.is_ok_and(|text| text.trim() == "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the words that the sandboxes really use.
    #[test]
    fn a_shortage_passes_and_a_refusal_does_not() {
        let words = |errno| format!("It failed: {}", std::io::Error::from_raw_os_error(errno));
        let stage = crate::sys::Stage::Process;
        for (errno, passing) in [
            (libc::EAGAIN, true),
            (libc::ENOMEM, true),
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::EPERM, false),
            (libc::EACCES, false),
            (libc::ENOSYS, false),
            (libc::EINVAL, false),
            (libc::EOPNOTSUPP, false),
        ] {
            for kind in [ErrorKind::SandboxUnavailable, ErrorKind::Internal] {
                assert_eq!(passes(&ToolError::new(kind, words(errno))), passing, "{errno} {kind:?}");
            }
            assert_eq!(passes(&crate::spawn::not_started(stage, errno, "It")), passing, "{errno}");
            let process = std::io::Error::from_raw_os_error(errno);
            assert_eq!(passes(&crate::spawn::no_process(process)), passing, "{errno}");
        }
        assert!(passes(&crate::spawn::supervisor_lost()));
        assert!(!passes(&ToolError::new(ErrorKind::SandboxUnavailable, "It is not installed.")));
    }
}
