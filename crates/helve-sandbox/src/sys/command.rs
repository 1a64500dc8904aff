//! The command's process, from vfork to exec. It shares the supervisor's memory, so that its cause of failure can be
//! left there, and the supervisor sleeps until it has executed its program or ended.

use std::ptr;

use libc::{c_int, c_void, pid_t};

use super::launch::{Prepared, empty_set};
use super::report::{Stage, errno};

struct Start<'a> {
    call: &'a Prepared,
    supervisor: pid_t,
    failure: Option<(Stage, c_int)>,
}

/// Starts the command and returns its process id, once its program runs.
pub(super) fn start(call: &mut Prepared) -> Result<pid_t, (Stage, c_int)> {
    // The stack grows down from its end, which has to be aligned to 16 bytes.
    let top = call.stack.as_mut_ptr_range().end;
    let top = top.wrapping_sub(top.addr() % 16);
    // SAFETY: getpid only returns a number.
    let mut start = Start { call, supervisor: unsafe { libc::getpid() }, failure: None };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child runs `enter` on a stack of its own while this process sleeps (CLONE_VFORK), so that `start`
    // lives and nothing touches it at the same time. Without CLONE_FILES and CLONE_SIGHAND its descriptors and
    // signal mask are its own.
    let pid = unsafe { libc::clone(enter, top.cast(), flags, ptr::from_mut(&mut start).cast()) };
    if pid == -1 {
        return Err((Stage::Process, errno()));
    }
    let Some(failure) = start.failure else { return Ok(pid) };
    // SAFETY: a null status is allowed; the child has ended.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } == -1 && errno() == libc::EINTR {}
    Err(failure)
}

extern "C" fn enter(argument: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its own `Start`, which lives while it sleeps.
    let start = unsafe { &mut *argument.cast::<Start<'_>>() };
    start.failure = Some(execute(start.call, start.supervisor));
    127
}

/// Becomes the program. Returns only the step that failed, and why.
fn execute(call: &Prepared, supervisor: pid_t) -> (Stage, c_int) {
    if let Err(stage) = prepare(call) {
        return (stage, errno());
    }
    // SAFETY: whoever launches keeps the confinement until the program runs.
    if let Some(confinement) = unsafe { call.confinement.as_ref() }
        && let Err(failure) = confinement.apply()
    {
        return failure;
    }
    // SAFETY: all pointers lead to NUL-terminated texts and null-terminated lists in `call`, which lives until exec;
    // the other arguments are numbers.
    unsafe {
        // The supervisor has one thread, so its death is the one meant here. A change of user forgets it, so it comes last.
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == -1 || libc::getppid() != supervisor {
            return (Stage::Process, errno());
        }
        let none = empty_set();
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        libc::execve(call.path, call.arguments.as_ptr(), call.environment.as_ptr());
    }
    (Stage::Program, errno())
}

/// Gives the process its streams, its directory and its limits.
fn prepare(call: &Prepared) -> Result<(), Stage> {
    // SAFETY: plain numbers, and limits that live through the call.
    unsafe {
        libc::setsid();
        for (target, source) in [(0, call.stdin), (1, call.stdout), (2, call.stderr)] {
            if libc::dup2(source, target) == -1 {
                return Err(Stage::Streams);
            }
        }
        if call.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
            return Err(Stage::Streams);
        }
        for fd in &call.inherited {
            if libc::fcntl(*fd, libc::F_SETFD, 0) == -1 {
                return Err(Stage::Descriptors);
            }
        }
        if call.directory != -1 && libc::fchdir(call.directory) == -1 {
            return Err(Stage::Directory);
        }
        for (resource, limit) in &call.limits {
            if libc::setrlimit(*resource, limit) == -1 {
                return Err(Stage::Limits);
            }
        }
    }
    Ok(())
}
