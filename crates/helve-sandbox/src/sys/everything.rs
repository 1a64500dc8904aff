//! The end of everything in a pid namespace, for its first process.

use std::time::{Duration, Instant};

use super::report::errno;

/// Kills every process of this pid namespace but this one, and waits until they are gone, `within` at the latest. Whether
/// they are. Does nothing in a process that is not the first of its namespace: there it would kill strangers.
pub(crate) fn end_everything_else(within: Duration) -> bool {
    if std::process::id() != 1 {
        return true;
    }
    let start = Instant::now();
    loop {
        // SAFETY: plain numbers. For the first process of a namespace -1 is everybody else in it and nobody outside.
        let none = unsafe { libc::kill(-1, libc::SIGKILL) } == -1 && errno() == libc::ESRCH;
        let mut status = 0;
        // SAFETY: `status` lives through the call. Nobody else waits for children here while this runs.
        while unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } > 0 {}
        if none || start.elapsed() > within {
            return none;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
