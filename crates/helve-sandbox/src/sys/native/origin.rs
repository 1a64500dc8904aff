//! What a helper leaves of the program that started it, and what it keeps.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use libc::c_int;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::descriptors::keep_only;
use crate::sys::launch;

/// What is kept.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    /// The program's file mode mask.
    pub(super) umask: c_int,
    /// Whether the helper is in the program's session; then neither has a terminal.
    pub(super) session: bool,
}

impl Origin {
    /// Leaves the program's terminal, its process group, its signals and its descriptors but `control`.
    pub(super) fn begin(control: &OwnedFd) -> io::Result<Origin> {
        crate::sys::supervisor::default_dispositions();
        let session = !may_have_terminal();
        // SAFETY: plain numbers, a name that ends with NUL, and a signal set that lives through the call.
        let umask = unsafe {
            if session {
                libc::setpgid(0, 0)
            } else {
                libc::setsid()
            };
            libc::prctl(libc::PR_SET_NAME, c"helve-zygote".as_ptr());
            // Whatever a shell that is copied leaves behind is waited for here.
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            let mut every = launch::empty_set();
            libc::sigfillset(&mut every);
            libc::sigprocmask(libc::SIG_SETMASK, &every, ptr::null_mut());
            libc::umask(0) as c_int
        };
        // Where the host runs out of memory, a command goes before anything else. Members share this with the zygote.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        let null = File::options().read(true).write(true).open("/dev/null")?;
        for stream in 0..3 {
            // SAFETY: plain numbers; nothing uses the standard streams any more.
            if unsafe { libc::dup2(null.as_raw_fd(), stream) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        drop(null);
        keep_only(&[control.as_raw_fd(), -1]).map_err(|(_, errno)| io::Error::from_raw_os_error(errno))?;
        Ok(Origin { umask, session })
    }
}

/// Whether this process may have a controlling terminal. One that has none never gets one: it was forked, so it leads no session.
fn may_have_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    !matches!(rustix::fs::open("/dev/tty", flags, Mode::empty()), Err(Errno::NXIO))
}
