//! A child that makes namespaces and then only holds them, until somebody has entered or opened them.
//!
//! So namespaces can be made before it is known what else they need, and their maps are written from outside, as a map onto
//! somebody else's number has to be. The child runs in this process's memory: a copy of that would cost more than the
//! namespaces do. It makes raw system calls only, allocates nothing and writes nothing but its own room.

use std::cell::UnsafeCell;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void, pid_t};
use rustix::fs::{Mode, OFlags};

use super::descriptors::keep_only;
use super::failure::{At, Failure};
use super::raw::syscall;
use crate::native::wire::Step;
use crate::sys::report::errno;

/// User and group, as numbers.
pub(super) type Ids = (u32, u32);

/// What the child needs of stack.
const STACK_BYTES: usize = 16 * 1024;

/// The child's memory. Never given back, because it may be on its stack until it is reaped; there are a few of them.
#[repr(C, align(16))]
struct Room {
    stack: UnsafeCell<[u8; STACK_BYTES]>,
    /// What is made besides the user namespace.
    others: c_int,
    network: bool,
    /// Where the child says what it is done with: a byte for everything but the network, and one for that.
    done: c_int,
    /// The `errno` of the user namespace, of the others, and of the network.
    failed: [AtomicI32; 3],
}

/// The child. Dropping this ends it; whoever reaps children reaps it.
pub(super) struct Holder {
    pid: pid_t,
    process: OwnedFd,
    room: &'static Room,
    done: OwnedFd,
}

impl Holder {
    /// A user namespace alone.
    pub(super) fn user_namespace() -> Result<Holder, Failure> {
        Holder::begin(0, false)
    }

    /// A user namespace, and ipc, uts, cgroup and network namespaces that belong to it. The last takes the longest, and is
    /// waited for when it is needed.
    pub(super) fn namespaces() -> Result<Holder, Failure> {
        Holder::begin(libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP, true)
    }

    /// Starts the child, which makes its namespaces while this process does something else, until [`Holder::stand`].
    fn begin(others: c_int, network: bool) -> Result<Holder, Failure> {
        let (done, says) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).at(Step::Process)?;
        let room: &'static Room = Box::leak(Box::new(Room {
            stack: UnsafeCell::new([0; STACK_BYTES]),
            others,
            network,
            done: says.as_raw_fd(),
            failed: [const { AtomicI32::new(0) }; 3],
        }));
        let mut process: c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
        // SAFETY: the stack is the child's alone and is never given back; the end of the room's first field is its top,
        // aligned to 16 bytes. The child keeps to what the head of this file says, and only reads its argument.
        let pid = unsafe {
            let top = room.stack.get().cast::<u8>().add(STACK_BYTES);
            let argument = ptr::from_ref(room).cast_mut().cast();
            libc::clone(hold, top.cast(), flags, argument, &raw mut process)
        };
        if pid == -1 {
            return Err((Step::Process, errno()));
        }
        // SAFETY: the kernel has just opened it for this process.
        let process = unsafe { OwnedFd::from_raw_fd(process) };
        Ok(Holder { pid, process, room, done })
    }

    /// Waits until everything but the network stands, and writes the maps of the user namespace. To be called once.
    pub(super) fn stand(&self, users: &str, groups: &str) -> Result<(), Failure> {
        self.wait()?;
        self.made(0, Step::UserNamespace)?;
        self.made(1, Step::Namespaces)?;
        self.map(users, groups).at(Step::UserNamespace)
    }

    /// Waits for a word. Without one the child has died, and what it has not said is not there.
    fn wait(&self) -> Result<(), Failure> {
        match rustix::io::read(&self.done, &mut [0]) {
            Ok(1) => Ok(()),
            _ => Err((Step::Process, libc::ECHILD)),
        }
    }

    fn made(&self, which: usize, step: Step) -> Result<(), Failure> {
        match self.room.failed.get(which).map_or(0, |failed| failed.load(Ordering::Acquire)) {
            0 => Ok(()),
            errno => Err((step, errno)),
        }
    }

    fn map(&self, users: &str, groups: &str) -> Result<(), c_int> {
        let number = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        let file = |name: &str| format!("/proc/{}/{name}", self.pid);
        fs::write(file("setgroups"), "deny").map_err(number)?;
        fs::write(file("uid_map"), users).map_err(number)?;
        fs::write(file("gid_map"), groups).map_err(number)
    }

    /// The user namespace.
    pub(super) fn user(&self) -> Result<OwnedFd, c_int> {
        self.open("user")
    }

    /// The network namespace, whose loopback device is up. Waits until it is there; to be asked for once.
    pub(super) fn network(&self) -> Result<OwnedFd, Failure> {
        self.wait()?;
        self.made(2, Step::Namespaces)?;
        self.open("net").at(Step::Namespaces)
    }

    fn open(&self, kind: &str) -> Result<OwnedFd, c_int> {
        let path = format!("/proc/{}/ns/{kind}", self.pid);
        let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        opened.map_err(|errno| errno.raw_os_error())
    }

    /// Enters everything but the network.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        set_namespace(self.process.as_fd(), libc::CLONE_NEWUSER | self.room.others).at(Step::UserNamespace)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: plain numbers; it is an own child that is not reaped yet.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

/// Enters one namespace, or those of a process.
pub(super) fn set_namespace(namespace: BorrowedFd<'_>, kinds: c_int) -> Result<(), c_int> {
    // SAFETY: plain numbers; this process has one thread.
    if unsafe { libc::setns(namespace.as_raw_fd(), kinds) } == -1 { Err(errno()) } else { Ok(()) }
}

/// The child's life.
extern "C" fn hold(room: *mut c_void) -> c_int {
    // SAFETY: the room is never given back, and what is written of it is the stack and the atomics.
    let room = unsafe { &*room.cast::<Room>() };
    let _ = keep_only(&[room.done, -1]);
    // SAFETY: plain numbers; this process has one thread, and its table of files is its own.
    let unshare = |kinds: c_int| unsafe { syscall!(libc::SYS_unshare, kinds) }.map(drop);
    let done = |which: usize, answer: Result<(), c_int>| {
        if let (Err(errno), Some(failed)) = (answer, room.failed.get(which)) {
            failed.store(errno, Ordering::Release);
        }
        answer.is_ok()
    };
    if done(0, unshare(libc::CLONE_NEWUSER)) {
        // The kernel forgets this when rights change, so not before.
        // SAFETY: plain numbers.
        let _ = unsafe { syscall!(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        done(1, unshare(room.others));
    }
    // SAFETY: one byte of a constant, and a descriptor that stays open until the end. A parent that is gone shows as an
    // error here, or ends this process.
    let say = || unsafe { syscall!(libc::SYS_write, room.done, c"d".as_ptr(), 1) }.is_ok();
    if !say() {
        return 0;
    }
    if room.network {
        done(2, unshare(libc::CLONE_NEWNET).and_then(|()| raise_loopback()));
        if !say() {
            return 0;
        }
    }
    // The signal of a parent's death needs rights that a parent in namespaces of its own may not have; the end of the pipe needs none.
    let mut heard = libc::pollfd { fd: room.done, events: 0, revents: 0 };
    while heard.revents == 0 {
        // SAFETY: one entry, which lives through the call, and no time: waits until nobody hears this process any more.
        let _ = unsafe { syscall!(libc::SYS_ppoll, &raw mut heard, 1, 0, 0, 8) };
    }
    0
}

/// A program can talk to itself over the loopback device of the empty network.
fn raise_loopback() -> Result<(), c_int> {
    // SAFETY: the request is plain data, zeroed and filled in, and lives through the calls.
    unsafe {
        let socket = syscall!(libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        syscall!(libc::SYS_ioctl, socket, libc::SIOCSIFFLAGS, &raw const request).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Also where the signal of its parent's death does not reach it.
    #[test]
    fn it_ends_when_nobody_hears_it_any_more() {
        let Ok(mut holder) = Holder::user_namespace() else {
            println!("skipped: there are no user namespaces");
            return;
        };
        holder.wait().unwrap();
        let is_over = |holder: &Holder, seconds| {
            let mut ended = [PollFd::new(&holder.process, PollFlags::IN)];
            poll(&mut ended, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() == 1
        };
        assert!(!is_over(&holder, 0));
        drop(std::mem::replace(&mut holder.done, rustix::pipe::pipe().unwrap().0));
        assert!(is_over(&holder, 20));
    }
}
