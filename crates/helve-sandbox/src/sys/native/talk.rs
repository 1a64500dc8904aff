//! What a member's processes say to Helve and hear from it, over its socket; and the clock between them.

use libc::c_int;

use super::failure::{At, Failure};
use super::raw::syscall;
use crate::native::wire::{Report, Request, Step};

/// Says that the member waits for its request.
pub(super) fn tell_ready(talk: c_int) {
    tell(talk, &Report { tag: Report::READY, status: 0, step: 0, bound: 0, left_running: 0 });
}

/// Says the last word of a member, or one before.
pub(super) fn tell(talk: c_int, report: &Report) {
    // SAFETY: the record lives through the call and its size is given. If nobody listens there is nobody to tell.
    let _ = unsafe {
        let flags = libc::MSG_NOSIGNAL;
        syscall!(libc::SYS_sendto, talk, &raw const *report, size_of::<Report>(), flags, 0, 0)
    };
}

/// Has the clock wake the init, which then looks after the command.
pub(super) fn wind_up(clock: c_int) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let setting = libc::itimerspec { it_interval: none, it_value: pause };
    // SAFETY: the setting lives through the call.
    let _ = unsafe { syscall!(libc::SYS_timerfd_settime, clock, 0, &raw const setting, 0) };
}

/// Receives a request into `buffer` and its descriptors into `streams`. None if the other side is gone.
pub(super) fn receive(
    talk: c_int,
    buffer: &mut [u8],
    streams: &mut [c_int; 3],
) -> Result<Option<Request>, Failure> {
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0_u64; 8];
    // SAFETY: all zero is a valid empty message header; the pointers are set below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let count = loop {
        // SAFETY: header, piece, buffer and control space live through the call.
        match unsafe { syscall!(libc::SYS_recvmsg, talk, &raw mut message, libc::MSG_CMSG_CLOEXEC) } {
            Err(libc::EINTR) => {}
            answer => break answer.at(Step::Order)?,
        }
    };
    if count == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel filled the control space with whole records, which the macros walk; what they yield lies inside.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&message);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
        {
            let bytes = (*first).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(first).cast::<c_int>();
            for (index, stream) in streams.iter_mut().enumerate().take(bytes / size_of::<c_int>()) {
                *stream = data.add(index).read_unaligned();
            }
        }
    }
    if count < size_of::<Request>() {
        return Err((Step::Order, libc::EBADMSG));
    }
    // SAFETY: the buffer holds at least a whole record of plain numbers.
    let request = unsafe { buffer.as_ptr().cast::<Request>().read_unaligned() };
    let whole = request.length as usize == count - size_of::<Request>();
    if request.tag != Request::TAG || request.in_file != 0 || !whole {
        return Err((Step::Order, libc::EBADMSG));
    }
    Ok(Some(request))
}
