//! The init's side: it asks for a copy and waits for its word. Raw system calls only, no allocation.

use std::ffi::CStr;

use libc::{c_int, c_ulong, pid_t};

use super::super::descriptors::close;
use super::super::raw::{CLONE_INTO_CGROUP, syscall};
use super::super::slot::{self, NO_LISTENER};
use super::super::warm::NOTHING;
use super::Given;
use super::code::{GIVEN, GROUP, Head};

/// The number of a copy in its pid namespace, where the init has 1: that of every command that is the first.
pub(in super::super) const COPY: pid_t = 2;

/// The number of the process between, while it is there.
pub(super) const BETWEEN: pid_t = 299;

/// No descriptor.
const NONE: c_int = -1;

/// A message with descriptors: `struct cmsghdr`, then they.
#[repr(C)]
struct Descriptors<const N: usize> {
    length: usize,
    level: c_int,
    kind: c_int,
    descriptors: [c_int; N],
}

impl<const N: usize> Descriptors<N> {
    fn new(descriptors: [c_int; N]) -> Descriptors<N> {
        let length = size_of::<[usize; 2]>() + size_of_val(&descriptors);
        Descriptors { length, level: libc::SOL_SOCKET, kind: libc::SCM_RIGHTS, descriptors }
    }
}

impl Given {
    /// Has the mould make a copy of the shell that runs `text` as the command of `member`, in the namespaces of the calling
    /// init and under `rules`; `null` stands for a control group that is not there. Where the init is asked about its calls,
    /// if it is; none if there is no copy, and will be none. An error says nothing of that.
    pub(in super::super) fn copy(
        self,
        member: &slot::Given,
        text: &[u8],
        rules: c_int,
        null: c_int,
    ) -> Result<Option<c_int>, c_int> {
        let mut pair = [NONE; 2];
        // SAFETY: the pair lives through the call.
        unsafe {
            let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
            syscall!(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, pair.as_mut_ptr())?;
        }
        let [near, far] = pair;
        let [_, output, error] = member.streams;
        let born_elsewhere = member.group != NONE;
        let group = if born_elsewhere { member.group } else { null };
        let sent = self.send(text, [far, output, error, rules, group], born_elsewhere);
        // Nobody else holds it when the copy and the mould have let go of it.
        close(far);
        let listener = if sent.is_ok() { hear(near) } else { Ok(None) };
        close(near);
        listener
    }

    fn send(self, text: &[u8], given: [c_int; GIVEN - 3], born_elsewhere: bool) -> Result<(), c_int> {
        let rest = NOTHING.get(text.len()..).filter(|rest| !rest.is_empty()).ok_or(libc::E2BIG)?;
        let elsewhere = if born_elsewhere { CLONE_INTO_CGROUP } else { 0 };
        let head = Head {
            flags: (libc::CLONE_VM | libc::CLONE_VFORK) as u64 | elsewhere,
            group: if born_elsewhere { GROUP as u64 } else { 0 },
        };
        let piece =
            |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let first =
            libc::iovec { iov_base: (&raw const head).cast_mut().cast(), iov_len: size_of_val(&head) };
        let mut pieces = [first, piece(text), piece(rest)];
        let own = own_namespaces();
        let [processes, mounts, queues] = own;
        let [far, output, error, rules, group] = given;
        let mut control = Descriptors::new([processes, mounts, queues, far, output, error, rules, group]);
        // SAFETY: all zero is a valid empty message header; every pointer leads to memory that lives through the call.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = pieces.as_mut_ptr();
            message.msg_iovlen = pieces.len();
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = size_of_val(&control);
            syscall!(libc::SYS_sendmsg, self.orders, &raw const message, libc::MSG_NOSIGNAL)
        };
        // One that could not be opened is refused with the message.
        own.into_iter().filter(|namespace| *namespace != NONE).for_each(close);
        sent.map(drop)
    }
}

/// Its namespaces: of processes, of mounts, of queues. Asked for by a descriptor on itself: looked up in `/proc`, they would have
/// been seen there before the command looks. Before Linux 6.11 there is no other way.
fn own_namespaces() -> [c_int; 3] {
    const ASK: [c_ulong; 3] = [0xff05, 0xff03, 0xff02];
    const PATHS: [&CStr; 3] = [c"/proc/self/ns/pid", c"/proc/self/ns/mnt", c"/proc/self/ns/ipc"];
    // SAFETY: plain numbers.
    let own = unsafe {
        let own = syscall!(libc::SYS_getpid).and_then(|own| syscall!(libc::SYS_pidfd_open, own, 0));
        own.map_or(NONE, |own| own as c_int)
    };
    let mut all = [NONE; 3];
    for ((namespace, ask), path) in all.iter_mut().zip(ASK).zip(PATHS) {
        // SAFETY: plain numbers. Without a descriptor on itself it is refused.
        let asked = unsafe { syscall!(libc::SYS_ioctl, own, ask, 0) };
        *namespace = asked.map(|fd| fd as c_int).or_else(|_| open_namespace(path)).unwrap_or(NONE);
    }
    if own != NONE {
        close(own);
    }
    all
}

fn open_namespace(path: &CStr) -> Result<c_int, c_int> {
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe {
        syscall!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0)
    };
    fd.map(|fd| fd as c_int)
}

/// Waits for the copy's word. None if it has ended without one, or was never made.
fn hear(near: c_int) -> Result<Option<c_int>, c_int> {
    let mut byte = 0_u8;
    let mut piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // Room for one descriptor is room for two.
    let mut control = Descriptors::new([NO_LISTENER; 2]);
    control.length = 0;
    // SAFETY: all zero is a valid empty message header; every pointer leads to memory that lives through the call.
    let count = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of_val(&control);
        loop {
            match syscall!(libc::SYS_recvmsg, near, &raw mut message, libc::MSG_CMSG_CLOEXEC) {
                Err(libc::EINTR) => {}
                answer => break answer?,
            }
        }
    };
    let [listener, _] = control.descriptors;
    Ok((count == 1).then_some(listener))
}
