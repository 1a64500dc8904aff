//! The supervisor's life, from the fork to its exit. Only async-signal-safe calls, no allocation.
//!
//! For a bare command the supervisor is a process of the same user: a hostile command may kill it and then outlive its
//! call. Under bwrap the command is in another pid namespace and cannot name it; under Landlock its signals do not reach it.

use std::os::fd::AsRawFd;
use std::ptr;

use libc::{c_int, pid_t};

use crate::native::wire::Bound;

use super::command;
use super::launch::{Prepared, empty_set};
use super::native::watch::Watch;
use super::report::{Stage, errno, send_failure, send_status};

/// Runs in the forked child and never returns.
pub(super) fn run(call: &mut Prepared) -> ! {
    if let Err((stage, errno)) = supervise(call) {
        remove_private(call);
        send_failure(call.report, stage, errno);
    }
    // SAFETY: leaves without running anything of the process that was forked.
    unsafe { libc::_exit(0) }
}

/// Removes the directory that the command had for itself.
fn remove_private(call: &Prepared) {
    // SAFETY: whoever launches keeps it until the supervisor has reported, and this process has its own copy.
    if let Some(private) = unsafe { call.private.as_ref() } {
        private.remove();
    }
}

type Failure = (Stage, c_int);

fn supervise(call: &mut Prepared) -> Result<(), Failure> {
    take_over(call)?;
    leave_session_keyring()?;
    close_all_but(&call.keep).map_err(|errno| (Stage::Descriptors, errno))?;
    let ended_children = watch_children()?;
    let main = command::start(call)?;
    // SAFETY: getpid only returns a number.
    let own = u32::try_from(unsafe { libc::getpid() }).unwrap_or(0);
    if let Some(watch) = &mut call.watch {
        watch.begin(own);
    }
    // SAFETY: whoever launches keeps it until the supervisor has reported, and this process has its own copy.
    let private = unsafe { call.private.as_ref() };
    let place = private.map_or(call.lifeline, AsRawFd::as_raw_fd);
    // What is watched: the list of processes, and the disk by way of the starting directory.
    let root = call.watch.as_ref().map_or(call.lifeline, Watch::root);
    let disk = if call.watch.is_some() && call.directory != -1 { call.directory } else { call.lifeline };
    let mut keep = [call.lifeline, call.report, ended_children, place, root, disk];
    keep.sort_unstable();
    close_all_but(&keep).map_err(|errno| (Stage::Descriptors, errno)).inspect_err(|_| {
        end_tree(main);
    })?;
    let bound = wait_for_end(main, call.lifeline, ended_children, call.watch.as_mut());
    let (status, left) = end_tree(main);
    remove_private(call);
    send_status(call.report, status, bound, if bound.is_some() { 0 } else { left });
    Ok(())
}

/// Leaves the session of the forking process, becomes the parent of orphans, and forgets what it knows.
fn take_over(call: &Prepared) -> Result<(), Failure> {
    // SAFETY: the name is a NUL-terminated text; `/` is one too; the other arguments are numbers.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"helve-supervise".as_ptr());
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) == -1 || libc::prctl(libc::PR_SET_DUMPABLE, 0) == -1 {
            return Err((Stage::Supervise, errno()));
        }
        libc::chdir(c"/".as_ptr());
        for stream in 0..3 {
            if libc::dup2(call.null, stream) == -1 {
                return Err((Stage::Streams, errno()));
            }
        }
    }
    if let Some((start, end)) = call.own_environment {
        // The command's parent would show its variables in /proc to a command that runs as root.
        // SAFETY: the kernel named this range as the environment on this process's stack, which is mapped and
        // writable, and this is a private copy that nobody reads.
        unsafe { ptr::write_bytes(start as *mut u8, 0, end - start) };
    }
    default_dispositions();
    Ok(())
}

/// Takes a new, empty session keyring: the one of the forking process may hold keys, which the command could read.
pub(super) fn leave_session_keyring() -> Result<(), Failure> {
    const JOIN_SESSION_KEYRING: c_int = 1;
    // SAFETY: without a name (the null pointer) the new keyring is anonymous; nothing else is read.
    let answer =
        unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, ptr::null::<libc::c_char>()) };
    // A kernel without keyrings has no keys either, and a filter that forbids this call holds for the command too.
    if answer != -1 || matches!(errno(), libc::ENOSYS | libc::EPERM) {
        Ok(())
    } else {
        Err((Stage::Keyring, errno()))
    }
}

/// Makes every signal do what it does by default: what is ignored here would stay ignored in the command.
pub(super) fn default_dispositions() {
    // The kernel's own structure, which is smaller on every architecture; all zero is the default. The C library's
    // function would refuse the signals that it keeps for itself.
    let default = [0_u64; 8];
    for signal in 1..=64 {
        // SAFETY: the structure lives through the call; the kernel's signal sets have eight bytes. What cannot be
        // changed (SIGKILL, SIGSTOP) is refused without effect.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null_mut::<u64>(), 8_usize)
        };
    }
}

/// Closes every descriptor above the standard streams that is not in `keep`, which is sorted. Filters of older engines for
/// containers do not know the call for it; there the kernel's own list is gone through.
fn close_all_but(keep: &[c_int]) -> Result<(), c_int> {
    match close_ranges(keep) {
        Err(libc::ENOSYS | libc::EPERM) => super::descriptors::close_listed(keep),
        answer => answer,
    }
}

fn close_ranges(keep: &[c_int]) -> Result<(), c_int> {
    let mut first = 3;
    for fd in keep {
        if first < *fd {
            close_range(first, *fd - 1)?;
        }
        first = fd.saturating_add(1);
    }
    close_range(first, c_int::MAX)
}

fn close_range(first: c_int, last: c_int) -> Result<(), c_int> {
    // SAFETY: closes descriptors of this single-threaded process that nothing in it uses any more.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 { Err(errno()) } else { Ok(()) }
}

/// A descriptor that can be read when a child has ended. All signals stay blocked, as the fork left them.
fn watch_children() -> Result<c_int, Failure> {
    let mut set = empty_set();
    // SAFETY: the set lives through both calls.
    let fd = unsafe {
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd == -1 { Err((Stage::Supervise, errno())) } else { Ok(fd) }
}

/// Returns when the main command has ended, the lifeline was cut or a bound was passed. Orphans that end meanwhile are
/// reaped, signals passed on.
fn wait_for_end(
    main: pid_t,
    lifeline: c_int,
    ended_children: c_int,
    mut watch: Option<&mut Watch>,
) -> Option<Bound> {
    let mut watched = [
        libc::pollfd { fd: lifeline, events: libc::POLLIN, revents: 0 },
        libc::pollfd { fd: ended_children, events: libc::POLLIN, revents: 0 },
    ];
    loop {
        let pause = watch.as_ref().map_or(-1, |watch| watch.next_ms());
        // SAFETY: `watched` lives through the call and its length is given.
        let ready = unsafe { libc::poll(watched.as_mut_ptr(), 2, pause) };
        if ready == -1 && errno() == libc::EINTR {
            continue;
        }
        if ready == -1 || (watched[0].revents != 0 && !pass_signal_on(lifeline, main)) {
            return None;
        }
        // Whatever it was that woke this process: a command could wake it all the time.
        if let Some(bound) = watch.as_mut().and_then(|watch| watch.tick()) {
            return Some(bound);
        }
        drain_signals(ended_children);
        loop {
            match ended_child() {
                Some(pid) if pid == main => return None,
                Some(pid) => drop(reap(pid, 0)),
                None => break,
            }
        }
    }
}

/// Takes one signal from the lifeline and sends it to the command. Whether the lifeline still holds.
fn pass_signal_on(lifeline: c_int, main: pid_t) -> bool {
    let mut signal = 0_u8;
    // SAFETY: the byte lives through the call. The descriptor never blocks.
    match unsafe { libc::read(lifeline, (&raw mut signal).cast(), 1) } {
        1 => {
            let signal = c_int::from(signal);
            // What a terminal sends reaches every process in the foreground.
            let group = matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGHUP);
            // SAFETY: plain numbers. The main command is not reaped yet, so its id and its group's id are still its own.
            unsafe { libc::kill(if group { -main } else { main }, signal) };
            true
        }
        0 => false,
        _ => matches!(errno(), libc::EAGAIN | libc::EINTR),
    }
}

fn drain_signals(fd: c_int) {
    let mut buffer = [0_u8; 512];
    // SAFETY: the buffer lives through the call and its length is given. The descriptor never blocks.
    while unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
}

/// A child that has ended and is not reaped yet. It is left so, because its id cannot be reused until then.
fn ended_child() -> Option<pid_t> {
    // SAFETY: `info` is plain data, zeroed so that its pid tells whether there was a child; it lives through the call.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let answer = libc::waitid(libc::P_ALL, 0, &mut info, flags);
        (answer == 0 && info.si_pid() != 0).then(|| info.si_pid())
    }
}

/// `waitpid`, repeated when a signal interrupts it: the child and its status; `None` if there is none.
fn reap(pid: pid_t, flags: c_int) -> Option<(pid_t, c_int)> {
    loop {
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        let answer = unsafe { libc::waitpid(pid, &mut status, flags) };
        if answer > 0 {
            return Some((answer, status));
        }
        if answer == 0 || errno() != libc::EINTR {
            return None;
        }
    }
}

/// Kills everything that descends from this process, and returns how the main command ended and how many others were
/// still running.
///
/// Only own children are killed. Nobody else can reap them, so a number never names a stranger. When a child dies
/// its children become own ones, and the next round finds them.
fn end_tree(main: pid_t) -> (c_int, u32) {
    let mut main_status = None;
    let mut killed: u32 = 0;
    // SAFETY: plain numbers. The main command is not reaped yet, so its id and its group's id are still its own.
    unsafe {
        libc::kill(-main, libc::SIGKILL);
        libc::kill(main, libc::SIGKILL);
    }
    loop {
        kill_children();
        let mut ended = reap(-1, 0);
        if ended.is_none() {
            return (main_status.unwrap_or(libc::SIGKILL), killed);
        }
        while let Some((pid, status)) = ended {
            if pid == main {
                main_status = Some(status);
            } else if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL {
                killed = killed.saturating_add(1);
            }
            ended = reap(-1, libc::WNOHANG);
        }
    }
}

/// Sends SIGKILL to each child that the kernel lists.
fn kill_children() {
    // SAFETY: the path is NUL-terminated. After a fork this process has one thread, whose children are all of them.
    let list =
        unsafe { libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if list == -1 {
        return;
    }
    let mut buffer = [0_u8; 4096];
    let mut pid: pid_t = 0;
    loop {
        // SAFETY: the buffer lives through the call and its length is given.
        let count = unsafe { libc::read(list, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Ok(count @ 1..) = usize::try_from(count) else { break };
        for byte in buffer.iter().take(count) {
            if byte.is_ascii_digit() {
                pid = pid.wrapping_mul(10).wrapping_add(pid_t::from(byte - b'0'));
            } else if pid > 0 {
                // SAFETY: plain numbers; the process is an own child that is not reaped yet.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                pid = 0;
            }
        }
    }
    // SAFETY: opened above, used nowhere else.
    unsafe { libc::close(list) };
}
