//! Each act is tried in a child process, which answers with its exit code. Before and after, so that a refusal is known to
//! come from what was installed.

use std::os::fd::AsRawFd;

use helve_core::Network;
use pretty_assertions::assert_eq;

use libc::c_long;

use super::*;
use crate::confine::landlock::Access;
use crate::confine::seccomp::{self, Around};
use crate::sys::report::errno;

/// Runs `act` in a child and gives what it returned, or a negative signal.
fn in_child(act: impl Fn() -> c_int) -> c_int {
    // SAFETY: the child only calls `act`, which makes system calls on memory prepared before, and leaves.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(act());
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        if libc::WIFSIGNALED(status) { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
    }
}

/// The `errno` of a call, 0 if it succeeded.
fn outcome(answer: c_long) -> c_int {
    if answer == -1 { errno() } else { 0 }
}

/// A system call with numbers for arguments.
fn raw(number: c_long, arguments: [c_long; 4]) -> c_int {
    let [a, b, c, d] = arguments;
    // SAFETY: no pointer that is passed leads anywhere: the kernel answers EFAULT where it would read.
    outcome(unsafe { libc::syscall(number, a, b, c, d) })
}

fn filtered(filter: &Filter, act: impl Fn() -> c_int) -> c_int {
    in_child(|| match no_new_privs().and_then(|()| install(filter)) {
        Ok(()) => act(),
        Err(_) => 250,
    })
}

#[test]
fn the_kernel_takes_every_filter_and_answers_as_it_says() {
    let acts: [(c_long, [c_long; 4], c_int); 9] = [
        (libc::SYS_unshare, [libc::CLONE_NEWUSER as c_long, 0, 0, 0], libc::EPERM),
        (libc::SYS_clone3, [0, 0, 0, 0], libc::ENOSYS),
        (libc::SYS_ptrace, [0, 0, 0, 0], libc::EPERM),
        (libc::SYS_bpf, [0, 0, 0, 0], libc::EPERM),
        (libc::SYS_io_uring_setup, [1, 0, 0, 0], libc::ENOSYS),
        (libc::SYS_keyctl, [0, -4, 0, 0], libc::ENOSYS),
        (libc::SYS_socket, [libc::AF_VSOCK as c_long, 1, 0, 0], libc::EAFNOSUPPORT),
        (libc::SYS_personality, [0x0040_0000, 0, 0, 0], libc::EPERM),
        (468, [0, 0, 0, 0], libc::ENOSYS),
    ];
    for filter in [
        seccomp::whole(Around::Namespaces, &[]),
        seccomp::whole(Around::Nothing(Network::Off), &[]),
        seccomp::whole(Around::Nothing(Network::Host), &[]),
    ] {
        for (number, arguments, errno) in acts {
            assert_eq!(filtered(&filter, || raw(number, arguments)), errno, "{number}");
        }
        // Ordinary work goes on: a process, a pipe, a file.
        let work = || {
            let mut ends = [0; 2];
            // SAFETY: the array lives through the call; the new process leaves at once.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(0);
                }
                let mut status = -1;
                libc::waitpid(child, &mut status, 0);
                status
                    | outcome(c_long::from(libc::pipe(ends.as_mut_ptr())))
                    | outcome(c_long::from(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR)))
            }
        };
        assert_eq!(filtered(&filter, work), 0);
    }
    // Two filters one upon the other do what the whole does.
    let (outer, inner) = (seccomp::outer(), seccomp::inner(&[]));
    for (number, arguments, errno) in acts {
        let both = || match install(&inner) {
            Ok(()) => raw(number, arguments),
            Err(_) => 251,
        };
        assert_eq!(filtered(&outer, both), errno, "{number}");
    }
    // What the helper needs is not in the outer one: the kernel itself answers.
    assert_eq!(filtered(&outer, || raw(libc::SYS_clone3, [0, 0, 0, 0])), libc::EINVAL);
}

#[test]
fn sockets_are_those_of_the_surroundings() {
    let socket = |around, family: c_int, kind: c_int, protocol: c_int| {
        let arguments = [family.into(), kind.into(), protocol.into(), 0];
        filtered(&seccomp::whole(around, &[]), || raw(libc::SYS_socket, arguments))
    };
    let (datagram, route) = (libc::SOCK_DGRAM, libc::NETLINK_ROUTE);
    for (around, unix, internet) in [
        (Around::Namespaces, 0, 0),
        (Around::Nothing(Network::Off), libc::EAFNOSUPPORT, libc::EAFNOSUPPORT),
        (Around::Nothing(Network::Host), libc::EAFNOSUPPORT, 0),
    ] {
        assert_eq!(socket(around, libc::AF_UNIX, datagram, 0), unix);
        assert_eq!(socket(around, libc::AF_INET, datagram, 0), internet);
        assert_eq!(socket(around, libc::AF_NETLINK, libc::SOCK_RAW, route), internet);
        assert_eq!(socket(around, libc::AF_PACKET, datagram, 0), libc::EAFNOSUPPORT);
        assert_eq!(socket(around, libc::AF_ALG, libc::SOCK_SEQPACKET, 0), libc::EAFNOSUPPORT);
        let mut ends = [0; 2];
        let place = ends.as_mut_ptr().expose_provenance() as c_long;
        let pair = [libc::AF_UNIX.into(), libc::SOCK_STREAM.into(), 0, place];
        assert_eq!(filtered(&seccomp::whole(around, &[]), || raw(libc::SYS_socketpair, pair)), 0);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_of_32_bits_ends_the_process() {
    let getpid_of_32_bits = || {
        let mut number: u64 = 20;
        // SAFETY: asks for the process's number through the old interface, which keeps all registers but the first; the
        // instruction saves what Rust keeps in the others.
        unsafe {
            std::arch::asm!("int 0x80", inout("rax") number, out("r8") _, out("r9") _, out("r10") _, out("r11") _)
        };
        c_int::from(number == 0)
    };
    let without = in_child(getpid_of_32_bits);
    if without != 0 {
        println!("skipped: this kernel runs no programs of 32 bits ({without})");
        return;
    }
    assert_eq!(filtered(&seccomp::whole(Around::Namespaces, &[]), getpid_of_32_bits), -libc::SIGSYS);
}

#[test]
fn an_empty_filter_is_no_filter() {
    let empty = Filter::default();
    assert_eq!(in_child(|| install(&empty).err().unwrap_or(0)), libc::ENOSYS);
}

#[test]
fn capabilities_are_gone_and_stay_away() {
    let privileged = rustix::process::geteuid().is_root();
    let act = || {
        if privileged && empty_bounding_set().and_then(|()| lock_securebits()).is_err() {
            return 1;
        }
        if drop_capabilities().is_err() || no_new_privs().is_err() {
            return 2;
        }
        let header: [u32; 2] = [0x2008_0522, 0];
        let mut sets = [u32::MAX; 6];
        // SAFETY: both have the layout of version 3 and live through the call.
        let answer = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) };
        // SAFETY: plain numbers.
        let bounding = unsafe { libc::prctl(libc::PR_CAPBSET_READ, 0) };
        if answer == -1 || sets != [0; 6] || (privileged && bounding != 0) { 3 } else { 0 }
    };
    assert_eq!(in_child(act), 0);
    // An ordinary user cannot empty the bounding set, and is told so.
    if !privileged {
        assert_eq!(in_child(|| empty_bounding_set().err().unwrap_or(0)), libc::EPERM);
    }
}

#[test]
fn landlock_holds_files_and_signals() {
    let Ok(version) = landlock_version() else {
        println!("skipped: this kernel has no Landlock");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for name in ["see", "change"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("file"), "text").unwrap();
    }
    let open = |name: &str| std::fs::File::open(folder.path().join(name)).unwrap();
    let (see, change) = (open("see"), open("change"));
    let act = |file: &'static std::ffi::CStr, flags: c_int, restricted: bool| {
        let (see, change) = (see.as_raw_fd(), change.as_raw_fd());
        let path = folder.path().as_os_str().to_owned().into_string().unwrap();
        let path = std::ffi::CString::new(format!("{path}/{}", file.to_str().unwrap())).unwrap();
        in_child(|| {
            let restrict = || {
                let ruleset = Ruleset::new(Handled::everything(version, Network::Off))?;
                ruleset.grant(see, ruleset.handled().rights(Access::Use, true))?;
                ruleset.grant(change, ruleset.handled().rights(Access::Change, true))?;
                no_new_privs()?;
                ruleset.restrict_self()
            };
            if restricted && restrict().is_err() {
                return 250;
            }
            // SAFETY: the path ends with NUL.
            outcome(c_long::from(unsafe { libc::open(path.as_ptr(), flags, 0o600) }))
        })
    };
    std::fs::write(folder.path().join("other"), "text").unwrap();
    let make = libc::O_CREAT | libc::O_WRONLY;
    for (file, flags, refused) in [
        (c"see/file", libc::O_RDONLY, false),
        (c"see/file", libc::O_WRONLY, true),
        (c"see/new", make, true),
        (c"change/file", libc::O_RDWR, false),
        (c"change/new", make, false),
        (c"other", libc::O_RDONLY, true),
        (c"other", libc::O_WRONLY, true),
    ] {
        assert_eq!(act(file, flags, false), 0, "{file:?} without");
        std::fs::remove_file(folder.path().join("see/new")).ok();
        assert_eq!(act(file, flags, true), if refused { libc::EACCES } else { 0 }, "{file:?}");
    }
    if version < Version::SCOPES {
        println!("skipped signals: this kernel's Landlock does not know them");
        return;
    }
    // Signal 0 asks whether one could be sent: to the parent it cannot any more.
    let signal = |restricted: bool| {
        in_child(|| {
            let restrict = || {
                let ruleset = Ruleset::new(Handled::everything(version, Network::Off))?;
                no_new_privs()?;
                ruleset.restrict_self()
            };
            if restricted && restrict().is_err() {
                return 250;
            }
            // SAFETY: plain numbers.
            outcome(c_long::from(unsafe { libc::kill(libc::getppid(), 0) }))
        })
    };
    assert_eq!((signal(false), signal(true)), (0, libc::EPERM));
}
