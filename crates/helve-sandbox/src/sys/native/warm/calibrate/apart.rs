//! Looks for a stop in a process apart, which holds the shell as a member holds its command.
//!
//! What a shell loads may have been planted by an earlier command: the view may let it be written, or the environment may
//! lead there. So the shell is never run beside the zygote: it is in a pid namespace of its own, may change no file, and
//! everything that it starts ends with the search.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::super::super::raw::{CloneArgs, syscall};
use super::super::{Kept, Stop};
use crate::confine::landlock::{Access, Handled};
use crate::sys::confine::{self, Ruleset};

/// A search that takes longer than this has found nothing.
const LONGEST: Duration = Duration::from_secs(10);

/// A [`Stop`] on its way through a pipe.
type Words = [u64; 7];

/// Searches in a process apart. None if there can be no such process, or it finds nothing.
pub(super) fn search(find: impl FnOnce() -> Option<Stop>) -> Option<Stop> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let arguments = CloneArgs {
        flags: (libc::CLONE_NEWPID | libc::CLONE_NEWIPC) as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    // SAFETY: without shared memory this is a fork: the child goes on with a copy of everything, on its own stack. The
    // process has one thread, so nothing is locked in the copy.
    let child = unsafe { syscall!(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) }.ok()?;
    if child == 0 {
        drop(ours);
        let found = confine().and_then(|()| find());
        if let Some(stop) = found {
            let bytes = pack(&stop).map(u64::to_ne_bytes);
            let _ = File::from(theirs).write_all(bytes.as_flattened());
        }
        // SAFETY: leaves without running anything of the process that was copied.
        unsafe { libc::_exit(0) }
    }
    drop(theirs);
    let found = receive(File::from(ours));
    end(child as pid_t);
    found
}

/// Holds this process, and all that it starts, to what a search needs.
fn confine() -> Option<()> {
    // SAFETY: plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == -1 {
        return None;
    }
    confine::no_new_privs().ok()?;
    confine::drop_capabilities().ok()?;
    let handled = Handled::everything(confine::landlock_version().ok()?, helve_core::Network::Off);
    let ruleset = Ruleset::new(handled).ok()?;
    let grant = |place: &CStr, access: Access| {
        let place = rustix::fs::open(
            place,
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        ruleset.grant(place.ok()?.as_raw_fd(), handled.rights(access, true)).ok()
    };
    grant(c"/", Access::Use)?;
    ruleset.restrict_self().ok()
}

/// What the search says within its time.
fn receive(mut from: File) -> Option<Stop> {
    let until = Instant::now() + LONGEST;
    let mut words: [[u8; 8]; size_of::<Words>() / 8] = Default::default();
    loop {
        let left = until.checked_duration_since(Instant::now())?;
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&left.try_into().ok()?)) {
            Ok(0) => return None,
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    // It is written at once, and less than a pipe takes at once.
    from.read_exact(words.as_flattened_mut()).ok()?;
    Some(unpack(words.map(u64::from_ne_bytes)))
}

/// Ends the search, and with it everything in its pid namespace.
fn end(child: pid_t) {
    let mut status: c_int = 0;
    // SAFETY: the child has not been waited for, so the number is still its own; the status lives through the call.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        while syscall!(libc::SYS_wait4, child, &raw mut status, libc::__WALL, 0) == Err(libc::EINTR) {}
    }
}

fn pack(stop: &Stop) -> Words {
    let kept = stop.copy.unwrap_or(Kept { pointer: 0, distance: 0 });
    let (copied, timed) = (u64::from(stop.copy.is_some()), u64::from(stop.clock.is_some()));
    [stop.place, stop.code, copied, kept.pointer, kept.distance, timed, stop.clock.unwrap_or(0)]
}

fn unpack([place, code, copied, pointer, distance, timed, clock]: Words) -> Stop {
    let copy = (copied == 1).then_some(Kept { pointer, distance });
    Stop { place, code, copy, clock: (timed == 1).then_some(clock) }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStringExt;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_stop_comes_out_of_the_pipe_as_it_went_in() {
        let kept = Kept { pointer: 3, distance: 4 };
        for copy in [None, Some(kept)] {
            for clock in [None, Some(5)] {
                let stop = Stop { place: u64::MAX, code: 2, copy, clock };
                assert_eq!(unpack(pack(&stop)), stop);
            }
        }
    }

    /// What is done apart makes only plain system calls: the process that is copied here has many threads.
    #[test]
    fn a_search_changes_no_file_and_leaves_no_process() {
        let directory = tempfile::tempdir().unwrap();
        let planted = CString::new(directory.path().join("planted").into_os_string().into_vec()).unwrap();
        let (alive, held) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let found = search(|| {
            // SAFETY: the path ends with NUL; the child waits until it is ended and touches nothing.
            let (process, file) = unsafe {
                if libc::fork() == 0 {
                    loop {
                        libc::pause();
                    }
                }
                (libc::getpid(), libc::open(planted.as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600))
            };
            Some(Stop { place: process as u64, code: u64::from(file == -1), copy: None, clock: None })
        });
        let Some(found) = found else {
            println!("skipped: this user can make no pid namespace here");
            return;
        };
        assert_eq!(found, Stop { place: 1, code: 1, copy: None, clock: None });
        drop(held);
        // Only the process that was left could still hold the other end.
        assert_eq!(File::from(alive).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_search_that_dies_has_found_nothing() {
        // SAFETY: ends the process in which the search is made.
        assert_eq!(search(|| unsafe { libc::_exit(3) }), None);
    }
}
