//! System calls that only the probe makes: each is one of the acts that a sandbox has to refuse.
//!
//! Called by a throw-away process that has one thread and ends right after. Not here: what an answer means
//! (`probe::act`).

use std::ffi::CStr;
use std::io;
use std::ptr;

use libc::{c_int, c_long};

use super::report::errno;

fn done(result: c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::from_raw_os_error(errno())) } else { Ok(()) }
}

/// Puts this process into a new user namespace.
pub(crate) fn new_user_namespace() -> io::Result<()> {
    // SAFETY: unshare takes a number and changes only this process.
    done(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into())
}

/// Puts this process into a new mount namespace.
pub(crate) fn new_mount_namespace() -> io::Result<()> {
    // SAFETY: unshare takes a number and changes only this process.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())
}

/// Mounts an empty file system on a directory, and takes it away again.
pub(crate) fn mount_and_unmount(directory: &CStr) -> io::Result<()> {
    let kind = c"tmpfs".as_ptr();
    // SAFETY: the texts are NUL-terminated and outlive the calls; no data is passed.
    unsafe {
        done(libc::mount(kind, directory.as_ptr(), kind, 0, ptr::null()).into())?;
        done(libc::umount2(directory.as_ptr(), libc::MNT_DETACH).into())
    }
}

/// Makes a socket to the machine that this one is a guest of. It is never connected.
pub(crate) fn hypervisor_socket() -> io::Result<()> {
    // SAFETY: socket takes numbers; the descriptor is closed at once and nobody else knows it.
    unsafe {
        let socket = libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        done(socket.into())?;
        done(libc::close(socket).into())
    }
}

/// Whether `io_uring_setup` gets as far as to look at its arguments, which are wrong.
pub(crate) fn reach_io_uring() -> io::Result<()> {
    // SAFETY: the kernel refuses a null pointer to parameters.
    match done(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, ptr::null_mut::<u8>()) }) {
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        other => other,
    }
}

/// Traces a child of this process, which is then ended.
pub(crate) fn trace_a_child() -> io::Result<()> {
    // SAFETY: this process has one thread. The child only waits, by a call that is safe after fork; the parent traces,
    // kills and collects exactly that child.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            loop {
                libc::pause();
            }
        }
        done(child.into())?;
        let none = ptr::null_mut::<u8>();
        let traced = done(libc::ptrace(libc::PTRACE_SEIZE, child, none, libc::PTRACE_O_EXITKILL));
        libc::kill(child, libc::SIGKILL);
        while libc::waitpid(child, ptr::null_mut(), 0) == -1 && errno() == libc::EINTR {}
        traced
    }
}

/// Whether system call filters can answer with an error, asked without installing one.
pub(crate) fn filters_can_refuse() -> io::Result<()> {
    const GET_ACTION_AVAILABLE: c_int = 2;
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one number through the pointer.
    done(unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAILABLE, 0, ptr::from_ref(&action)) })
}
