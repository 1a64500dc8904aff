//! What the zygote hears: its control socket, whole messages and descriptors with them; and the end of its children.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, pid_t};

use crate::native::wire::Told;
use crate::sys::launch;

/// The most descriptors of one message: talk, two outputs, three streams, a file, two of a control group.
const MOST_DESCRIPTORS: usize = 9;

/// One message and its descriptors. Waits for it; no bytes mean that Helve has gone.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0_u64; 16];
    // SAFETY: all zero is a valid empty message header; every pointer leads to memory that lives through the call, and the
    // macros walk only the records that the kernel wrote.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let count = libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
        if count == -1 {
            let error = io::Error::last_os_error();
            let gone = error.kind() == io::ErrorKind::ConnectionReset;
            return if gone { Ok((0, Vec::new())) } else { Err(error) };
        }
        let mut descriptors = Vec::new();
        let first = libc::CMSG_FIRSTHDR(&message);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
        {
            let bytes = (*first).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(first).cast::<c_int>();
            for index in 0..(bytes / size_of::<c_int>()).min(MOST_DESCRIPTORS) {
                descriptors.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
            }
        }
        Ok((count as usize, descriptors))
    }
}

/// Says something, with a descriptor.
pub(super) fn tell(control: &OwnedFd, told: Told, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut piece = libc::iovec { iov_base: (&raw const told).cast_mut().cast(), iov_len: size_of::<Told>() };
    let mut space = [0_u64; 4];
    // SAFETY: all zero is a valid empty message header; every pointer leads to memory that lives through the call, and the
    // control space is large enough for one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        if let Some(fd) = descriptor {
            message.msg_control = space.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
            let head = libc::CMSG_FIRSTHDR(&message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
            libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(fd.as_raw_fd());
        }
        if libc::sendmsg(control.as_raw_fd(), &message, libc::MSG_NOSIGNAL) == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A child that has ended, if there is one.
pub(super) fn ended_child() -> Option<pid_t> {
    let mut status = 0;
    // SAFETY: `status` lives through the call.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::__WALL) };
    (pid > 0).then_some(pid)
}

/// What can be read when a child has ended.
pub(super) fn child_signals() -> io::Result<OwnedFd> {
    let mut set = launch::empty_set();
    // SAFETY: the set lives through both calls; the descriptor is new.
    unsafe {
        libc::sigaddset(&mut set, libc::SIGCHLD);
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd == -1 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}
