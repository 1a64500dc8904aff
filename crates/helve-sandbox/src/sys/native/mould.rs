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
//! The mould has the capabilities of the zygote in its user namespace, because only with them can it enter others. So it
//! runs nothing but what the zygote would run itself: a shell and libraries that no command can have changed
//! ([`may_be_copied`]), up to the first instruction, and then `code`. A copy that cannot do all of its steps ends, and its
//! init starts the shell in the ordinary way, which says what is wrong.
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
use libc::{c_int, pid_t};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::failure::{At, Failure};
use super::trace::{self, Event};
use super::world::World;
use crate::native::setup::{Place, Setup};
use crate::native::wire::Step;
use crate::sys::confine;

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
    pub(super) fn make(world: &World) -> Result<Mould, Failure> {
        let (orders, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .at(Step::Process)?;
        // SAFETY: this process has one thread; the child makes only plain system calls, see `load`.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err((Step::Process, crate::sys::report::errno())),
            0 => load(world, theirs.as_fd()),
            pid => pid,
        };
        // From here on it ends with this value.
        let mould = Mould { pid, orders };
        mould.equip(world).at(Step::Process)?;
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
        let word = trace::peek(self.pid, start.entry)?;
        trace::run_to(self.pid, start.entry, word, &mut trace::standstill)?;
        let hand = Hand { pid: self.pid, entry: start.entry, word };
        code::install(&hand, world, &start)?;
        trace::resume(libc::PTRACE_DETACH, self.pid, 0)
    }
}

impl Drop for Mould {
    fn drop(&mut self) {
        // SAFETY: it is an own child; the zygote reaps it with its members, and forgets it when it has.
        let _ = unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

/// Becomes the shell, in a new process. Never returns; allocates nothing.
fn load(world: &World, orders: BorrowedFd<'_>) -> ! {
    let become_shell = || -> Result<(), c_int> {
        // SAFETY: plain numbers; the signal set lives through the call.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::umask(world.umask as libc::mode_t);
            let none = crate::sys::launch::empty_set();
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            // The order in which these are put in their places keeps the last one from being covered before.
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
        confine::keep_capabilities()?;
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

/// A mould that stands before its first instruction, and can be made to make system calls there.
struct Hand {
    pid: pid_t,
    entry: u64,
    /// What lies there.
    word: u64,
}

impl Hand {
    /// Makes it make a system call.
    fn call(&self, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, c_int> {
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
    fn a_shell_that_can_be_written_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let shell = CString::new(folder.path().join("sh").into_os_string().into_encoded_bytes()).unwrap();
        std::fs::write(folder.path().join("sh"), "").unwrap();
        assert!(!is_read_only(&shell));
        assert!(!is_read_only(c"/no/such/shell"));
    }
}
