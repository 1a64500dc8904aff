//! A shell that is loaded once and copied for each command.
//!
//! Most of what a shell costs is to be loaded: its program and its libraries are mapped, read and put together before its
//! own first instruction runs. The mould is a shell that has been brought to that instruction and stays before it. What a
//! command gets is a copy of it, as `fork` makes one, that goes on from there with the command's text.
//!
//! ```text
//! zygote   executes `SHELL -c PLACEHOLDER`, follows it to its first instruction, gives it `code`     (make)
//! init     asks for a copy: itself, the streams, the rules, the text                               (order)
//! mould    enters the init's pid namespace, makes a process there that makes the copy and ends      (code)
//! copy     now the init's child: its namespaces, session, limits, filter, directory, no capabilities,
//!          Landlock, streams; tells the init; closes the rest; becomes the shell                    (tape)
//! ```
//!
//! The copy is `SHELL -c TEXT`: it begins at the first instruction, so whatever a shell finds out about itself it finds out
//! then. What it shares with other copies is where things lie in its memory and the kernel's random bytes for it
//! (`AT_RANDOM`); and as with a warm shell `/proc/PID/cmdline` has zeros after the text.
//!
//! The mould may enter the namespaces of members, which is a right that no command may get. So nothing of a workspace has a
//! say in what is loaded ([`may_be_copied`]); and whatever is loaded, it is followed all the way to the first instruction, and
//! may map and read files there and do nothing else ([`is_harmless`]). After that the mould runs `code` alone. A copy that cannot
//! take all of its steps ends, and its init starts the shell in the ordinary way, which says what is wrong.
//!
//! | module | what it does |
//! |---|---|
//! | `code` | the mould's instructions, and where they find things |
//! | `tape` | the steps of a copy, as system calls in the mould's memory |
//! | `order` | the init's side |
//!
//! Registers and instructions are those of x86-64; elsewhere there is no mould (`nowhere`).

mod code;
mod order;
mod tape;

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use helve_core::Explain;
use libc::{c_int, c_long, pid_t};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::trace::{self, Event};
use super::world::World;
use crate::native::setup::{Place, Setup};
use crate::sys::confine;
use crate::sys::report::errno;

pub(super) use order::COPY;

/// How long a shell may take to be loaded, in seconds.
const LOADED_WITHIN: u32 = 5;

/// Directories in which a system's programs and libraries lie, and what leads to them.
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/etc"];

/// Whether no command, and nothing that comes from a workspace, decides what is loaded with the shell of this setup; and
/// nobody wants to see how it is loaded.
pub(super) fn may_be_copied(setup: &Setup) -> bool {
    setup.explain != Some(Explain::Full) && !is_steered(setup) && is_read_only(&setup.shell)
}

/// Whether the loader is steered by a variable, or could find something in a place that can be written.
fn is_steered(setup: &Setup) -> bool {
    let steers = |text: &CString| {
        let text = text.to_bytes();
        text.starts_with(b"LD_") || text.starts_with(b"GLIBC_TUNABLES=")
    };
    let writable =
        setup.mounts.iter().filter(|(_, place)| matches!(place, Place::ReadWrite | Place::Private));
    let is_system =
        |path: &Path| SYSTEM.iter().any(|top| path.starts_with(top) || Path::new(top).starts_with(path));
    setup.environment.iter().any(steers)
        || writable.map(|(path, _)| path).chain([&setup.workspace]).any(|path| is_system(path))
}

/// Whether what a path names lies on a mount that cannot be written.
fn is_read_only(path: &CStr) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|mount| mount.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// The zygote's record of a mould. It ends with it.
pub(super) struct Mould {
    pid: pid_t,
    /// The same for good: a number is used again once its process has been waited for.
    process: OwnedFd,
    /// Where copies are asked for.
    orders: OwnedFd,
}

/// A mould as a member knows it.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// Where copies are asked for.
    orders: c_int,
}

impl Given {
    /// The descriptor that a member keeps of it.
    pub(super) fn descriptor(self) -> c_int {
        self.orders
    }
}

impl Mould {
    /// Loads the shell. To be called in the zygote, whose one thread is followed by nobody.
    pub(super) fn make(world: &World) -> Result<Mould, c_int> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let pair = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None);
        let (orders, theirs) = pair.map_err(Errno::raw_os_error)?;
        let zygote = rustix::process::getpid();
        // SAFETY: this process has one thread; the child makes only plain system calls, see `load`.
        let child = match unsafe { libc::fork() } {
            -1 => return Err(errno()),
            0 => load(world, theirs.as_fd(), zygote),
            pid => pid,
        };
        let pid = Pid::from_raw(child).ok_or(libc::ESRCH)?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| {
            // It has not been waited for, so the number is still its own.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            errno.raw_os_error()
        })?;
        // From here on it ends with this value.
        let mould = Mould { pid: child, process, orders };
        mould.equip(world)?;
        Ok(mould)
    }

    /// Its process.
    pub(super) fn pid(&self) -> pid_t {
        self.pid
    }

    /// What a member has to know of it.
    pub(super) fn given(&self) -> Given {
        Given { orders: self.orders.as_raw_fd() }
    }

    /// Follows it to its first instruction, gives it what it needs, and lets it go.
    fn equip(&self, world: &World) -> Result<(), c_int> {
        let start = trace::wait_for_exec(self.pid, &mut trace::standstill)?;
        let hand = Hand { pid: self.pid, entry: start.entry, word: trace::peek(self.pid, start.entry)? };
        trace::run_to_by(self.pid, hand.entry, hand.word, || hand.load())?;
        code::install(&hand, world, &start)?;
        trace::resume(libc::PTRACE_DETACH, self.pid, 0)
    }
}

impl Drop for Mould {
    fn drop(&mut self) {
        // The zygote reaps it with its members.
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
    }
}

/// Becomes the shell, in a new process. Never returns; allocates nothing.
fn load(world: &World, orders: BorrowedFd<'_>, zygote: Pid) -> ! {
    let become_shell = || -> Result<(), c_int> {
        // SAFETY: plain numbers; the signal set lives through the call.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if rustix::process::getppid() != Some(zygote) {
                return Err(libc::ESRCH);
            }
            libc::umask(world.origin.umask as libc::mode_t);
            let none = crate::sys::launch::empty_set();
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            // Out of the way of the places that they are put in.
            let orders = libc::fcntl(orders.as_raw_fd(), libc::F_DUPFD, 10);
            let null = libc::fcntl(world.null.as_raw_fd(), libc::F_DUPFD, 10);
            for (from, to) in [(null, 0), (null, 1), (null, 2), (orders, code::ORDERS)] {
                if libc::dup2(from, to) == -1 {
                    return Err(libc::EBADF);
                }
            }
            libc::syscall(libc::SYS_close_range, code::ORDERS + 1, c_int::MAX, 0);
            // A file system that does not answer must not keep the zygote.
            libc::alarm(LOADED_WITHIN);
        }
        confine::keep_right_to_enter()?;
        trace::ask()
    };
    // SAFETY: the texts end with NUL, the lists with a null pointer. Leaves at once where that fails.
    unsafe {
        if become_shell().is_ok() {
            libc::execve(world.shell.as_ptr(), world.shell_arguments.as_ptr(), world.environment.as_ptr());
        }
        libc::_exit(127)
    }
}

/// Whether a system call, of which the arguments are given, only serves to map and read files: what a loader does, and what
/// the C library does before the program itself begins.
fn is_harmless(number: u64, arguments: [u64; 6]) -> bool {
    let writes = |flags: u64| flags as c_int & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != 0;
    let [_, second, third, ..] = arguments;
    match c_long::try_from(number).unwrap_or(-1) {
        libc::SYS_open => !writes(second),
        libc::SYS_openat => !writes(third),
        libc::SYS_prlimit64 => third == 0,
        number => HARMLESS.contains(&number),
    }
}

const HARMLESS: [c_long; 28] = [
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_brk,
    libc::SYS_close,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fstat,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_statx,
    libc::SYS_uname,
];

/// A mould that is followed. Once it stands before its first instruction, it can be made to make system calls there.
struct Hand {
    pid: pid_t,
    entry: u64,
    /// What lies there.
    word: u64,
}

impl Hand {
    /// Lets it be loaded until a trap stops it, and looks at every system call before it is made.
    fn load(&self) -> Result<(), c_int> {
        let mut begins = true;
        loop {
            trace::resume(libc::PTRACE_SYSCALL, self.pid, 0)?;
            match trace::wait(self.pid, &mut trace::standstill)? {
                Event::Signal(libc::SIGTRAP) => return Ok(()),
                Event::Call => {
                    let now = self.registers()?;
                    let arguments = [now.rdi, now.rsi, now.rdx, now.r10, now.r8, now.r9];
                    if begins && !is_harmless(now.orig_rax, arguments) {
                        return Err(libc::EPERM);
                    }
                    begins = !begins;
                }
                Event::Signal(_) => return Err(libc::EINTR),
                Event::Gone(_) => return Err(trace::GONE),
            }
        }
    }

    /// Makes it make a system call.
    fn call(&self, number: c_long, arguments: [u64; 6]) -> Result<u64, c_int> {
        const INSTRUCTION: u64 = 0x050f;
        let before = self.registers()?;
        trace::poke(self.pid, self.entry, self.word & !0xffff | INSTRUCTION)?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let (rax, orig_rax, rip) = (number.cast_unsigned(), u64::MAX, self.entry);
        self.set_registers(&libc::user_regs_struct {
            rax,
            orig_rax,
            rip,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..before
        })?;
        trace::resume(libc::PTRACE_SINGLESTEP, self.pid, 0)?;
        if trace::wait(self.pid, &mut trace::standstill)? != Event::Signal(libc::SIGTRAP) {
            return Err(libc::ENOEXEC);
        }
        let answer = self.registers()?.rax;
        trace::poke(self.pid, self.entry, self.word)?;
        self.set_registers(&before)?;
        match answer.cast_signed() {
            error @ -4095..0 => Err(-error as c_int),
            _ => Ok(answer),
        }
    }

    fn registers(&self) -> Result<libc::user_regs_struct, c_int> {
        // SAFETY: all zero is a value of it.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        trace::request(libc::PTRACE_GETREGS, self.pid, 0, &raw mut registers as u64)?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) -> Result<(), c_int> {
        trace::request(libc::PTRACE_SETREGS, self.pid, 0, std::ptr::from_ref(registers) as u64)
    }
}

#[cfg(test)]
mod tests {
    use helve_core::ProcessLimits;

    use super::*;

    fn setup() -> Setup {
        Setup {
            mounts: [("/usr", Place::ReadOnly), ("/work", Place::ReadWrite), ("/tmp", Place::Private)]
                .map(|(path, place)| (path.into(), place))
                .to_vec(),
            workspace: "/work".into(),
            identity: (0, 0),
            own_network: true,
            environment: vec![c"PATH=/usr/bin".into(), c"OLD_LD_PRELOAD=x".into()],
            path: c"/usr/bin".into(),
            shell: c"/bin/sh".into(),
            limits: ProcessLimits {
                open_files: 1,
                file_bytes: 1,
                memory_bytes: 1,
                processes: 1,
                cpu_seconds: 1,
                disk_bytes: 1,
                tmp_bytes: 1,
            },
            layer: None,
            system_calls: Vec::new(),
            explain: None,
        }
    }

    #[test]
    fn nothing_that_can_be_written_decides_what_is_loaded() {
        assert!(!is_steered(&setup()));
        for variable in [c"LD_PRELOAD=a.so", c"LD_LIBRARY_PATH=", c"LD_AUDIT=x", c"GLIBC_TUNABLES=x=y"] {
            let mut steered = setup();
            steered.environment.push(variable.into());
            assert!(is_steered(&steered), "{variable:?}");
        }
        for path in ["/", "/usr", "/usr/lib/x86_64-linux-gnu", "/etc", "/lib64"] {
            for place in [Place::ReadWrite, Place::Private] {
                let mut steered = setup();
                steered.mounts.push((path.into(), place));
                assert!(is_steered(&steered), "{path}");
            }
            assert!(is_steered(&Setup { workspace: path.into(), ..setup() }), "{path}");
        }
        for path in ["/usrs", "/home/user", "/opt"] {
            let mut free = setup();
            free.mounts.push((path.into(), Place::ReadWrite));
            assert!(!is_steered(&free), "{path}");
        }
    }

    #[test]
    fn a_loader_may_read_and_nothing_else() {
        let of = |number: c_long, arguments: [c_int; 3]| {
            let [a, b, c] = arguments.map(|argument| argument as u64);
            is_harmless(number as u64, [a, b, c, 0, 0, 0])
        };
        assert!(of(libc::SYS_openat, [libc::AT_FDCWD, 1, libc::O_RDONLY | libc::O_CLOEXEC]));
        assert!(of(libc::SYS_prlimit64, [0, 3, 0]));
        assert!(of(libc::SYS_mmap, [0, 4096, libc::PROT_READ | libc::PROT_EXEC]));
        for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_RDONLY | libc::O_TRUNC] {
            assert!(!of(libc::SYS_openat, [libc::AT_FDCWD, 1, flags]), "{flags}");
            assert!(!of(libc::SYS_open, [1, flags, 0]), "{flags}");
        }
        assert!(!of(libc::SYS_prlimit64, [0, 3, 1]));
        for number in
            [libc::SYS_clone, libc::SYS_kill, libc::SYS_write, libc::SYS_rt_sigaction, libc::SYS_setns]
        {
            assert!(!of(number, [0; 3]), "{number}");
        }
        // Numbers of the other convention of this machine.
        assert!(!is_harmless(0x4000_0000 | libc::SYS_read as u64, [0; 6]));
        assert!(!is_harmless(u64::MAX, [0; 6]));
    }

    #[test]
    fn a_shell_that_can_be_written_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let shell = CString::new(folder.path().join("sh").into_os_string().into_encoded_bytes()).unwrap();
        std::fs::write(folder.path().join("sh"), "").unwrap();
        assert!(!is_read_only(&shell));
        assert!(!is_read_only(c"/no/such/shell"));
    }
}
