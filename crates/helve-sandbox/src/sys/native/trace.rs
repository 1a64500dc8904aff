//! The system calls with which a process is followed, and what its stack says at its start.
//!
//! Nothing here allocates or panics: it serves a member's init, which shares the zygote's memory. Registers and
//! instructions are those of x86-64; on other machines nobody can ask to be followed.

use std::ptr;

use libc::{c_int, c_long, c_uint, pid_t};

use super::raw::syscall;

/// The instruction that stops a followed process, one byte long.
pub(super) const BREAKPOINT: u64 = 0xcc;

/// Where `struct user` keeps the instruction pointer and the stack pointer, for `PTRACE_PEEKUSER`.
const INSTRUCTION: u64 = 16 * 8;
const STACK: u64 = 19 * 8;

/// The error that says that a followed process has ended and has been waited for.
pub(super) const GONE: c_int = libc::ECHILD;

/// What a process looks like when it has executed a program and not yet run an instruction of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Start {
    /// Where the program's own first instruction lies, wherever the kernel put the program.
    pub(super) entry: u64,
    /// Where its program headers lie, and how many there are.
    pub(super) headers: u64,
    pub(super) header_count: u64,
    /// Where its argument 2 lies.
    pub(super) text: u64,
}

/// Why a followed process stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// It is stopped by this signal, which has not been delivered.
    Signal(c_int),
    /// It enters or leaves a system call.
    Call,
    /// It is gone; the status is as `waitpid` gives it.
    Gone(c_int),
}

/// Asks that the parent follow this process. The next `execve` stops it.
pub(super) fn ask() -> Result<(), c_int> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(libc::ENOSYS);
    }
    request(libc::PTRACE_TRACEME, 0, 0, 0)
}

/// Waits until `child`, which asked to be followed, has executed its program. It dies with its tracer from then on.
pub(super) fn wait_for_exec(child: pid_t, idle: Idle<'_>) -> Result<Start, c_int> {
    run_to_trap(child, idle)?;
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
    request(libc::PTRACE_SETOPTIONS, child, 0, options as u64)?;
    read_start(child)
}

/// Lets a child run until a trap stops it; it gets every other signal.
fn run_to_trap(child: pid_t, idle: Idle<'_>) -> Result<(), c_int> {
    loop {
        match wait(child, idle)? {
            Event::Signal(libc::SIGTRAP) => return Ok(()),
            Event::Signal(other) => resume(libc::PTRACE_CONT, child, other)?,
            Event::Call => resume(libc::PTRACE_CONT, child, 0)?,
            Event::Gone(_) => return Err(GONE),
        }
    }
}

/// Reads what the kernel put on the stack: the number of arguments, the arguments, the environment, and the vector of
/// auxiliary values.
fn read_start(child: pid_t) -> Result<Start, c_int> {
    const AT_NULL: u64 = 0;
    const AT_PHDR: u64 = 3;
    const AT_PHNUM: u64 = 5;
    const AT_ENTRY: u64 = 9;
    let mut words = Words { child, next: register(child, STACK)?, held: [0; 64], used: 64 };
    if words.take()? != 3 {
        return Err(libc::EINVAL);
    }
    let (_name, _flag, text) = (words.take()?, words.take()?, words.take()?);
    // The end of the arguments, then the environment with its end.
    words.take()?;
    while words.take()? != 0 {}
    let mut start = Start { entry: 0, headers: 0, header_count: 0, text };
    loop {
        let (key, value) = (words.take()?, words.take()?);
        match key {
            AT_NULL => break,
            AT_PHDR => start.headers = value,
            AT_PHNUM => start.header_count = value,
            AT_ENTRY => start.entry = value,
            _ => {}
        }
    }
    if start.entry == 0 { Err(libc::EINVAL) } else { Ok(start) }
}

/// The words of another process's memory from an address on, read in blocks.
struct Words {
    child: pid_t,
    next: u64,
    held: [u64; 64],
    used: usize,
}

impl Words {
    fn take(&mut self) -> Result<u64, c_int> {
        if self.used >= self.held.len() {
            let bytes = size_of_val(&self.held);
            let into = Piece { address: self.held.as_mut_ptr() as u64, length: bytes as u64 };
            let from = Piece { address: self.next, length: bytes as u64 };
            transfer(libc::SYS_process_vm_readv, self.child, &[into], &[from])?;
            self.next += bytes as u64;
            self.used = 0;
        }
        let word = self.held.get(self.used).copied().ok_or(libc::EFAULT)?;
        self.used += 1;
        Ok(word)
    }
}

/// What is done while nothing has happened to a followed process: waits until something may have. False if that is left to
/// the kernel.
pub(super) type Idle<'a> = &'a mut dyn FnMut() -> bool;

/// Nothing is done meanwhile.
pub(super) fn standstill() -> bool {
    false
}

/// Waits for the next event of `child`.
pub(super) fn wait(child: pid_t, idle: Idle<'_>) -> Result<Event, c_int> {
    let mut status: c_int = 0;
    let mut how = libc::__WALL | libc::WNOHANG;
    loop {
        // SAFETY: the status lives through the call; no usage is asked for.
        match unsafe { syscall!(libc::SYS_wait4, child, &raw mut status, how, 0) } {
            Ok(0) if !idle() => how = libc::__WALL,
            Ok(0) => {}
            Ok(_) => break,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    if !libc::WIFSTOPPED(status) {
        return Ok(Event::Gone(status));
    }
    Ok(match libc::WSTOPSIG(status) {
        signal if signal == libc::SIGTRAP | 0x80 => Event::Call,
        signal => Event::Signal(signal),
    })
}

/// Lets a stopped child go on in the way of `how`, with `signal` delivered unless it is 0.
pub(super) fn resume(how: c_uint, child: pid_t, signal: c_int) -> Result<(), c_int> {
    request(how, child, 0, signal as u64)
}

/// Lets a stopped child run to the instruction at `place`, where the word `code` lies, and stop before it.
pub(super) fn run_to(child: pid_t, place: u64, code: u64, idle: Idle<'_>) -> Result<(), c_int> {
    run_to_by(child, place, code, || {
        resume(libc::PTRACE_CONT, child, 0)?;
        run_to_trap(child, idle)
    })
}

/// The same, in the way of `run`: it lets the child go, and returns when a trap has stopped it.
pub(super) fn run_to_by(
    child: pid_t,
    place: u64,
    code: u64,
    run: impl FnOnce() -> Result<(), c_int>,
) -> Result<(), c_int> {
    if peek(child, place)? != code {
        return Err(libc::ENOEXEC);
    }
    poke(child, place, code & !0xff | BREAKPOINT)?;
    run()?;
    if instruction(child)? != place.wrapping_add(1) {
        return Err(libc::ENOEXEC);
    }
    poke(child, place, code)?;
    set_instruction(child, place)
}

/// Where the child's next instruction lies.
pub(super) fn instruction(child: pid_t) -> Result<u64, c_int> {
    register(child, INSTRUCTION)
}

/// Makes the child go on at `address`.
pub(super) fn set_instruction(child: pid_t, address: u64) -> Result<(), c_int> {
    request(libc::PTRACE_POKEUSER, child, INSTRUCTION, address)
}

fn register(child: pid_t, which: u64) -> Result<u64, c_int> {
    let mut value = 0_u64;
    request(libc::PTRACE_PEEKUSER, child, which, ptr::from_mut(&mut value) as u64)?;
    Ok(value)
}

/// The word at `address`, whatever its protection.
pub(super) fn peek(child: pid_t, address: u64) -> Result<u64, c_int> {
    let mut value = 0_u64;
    request(libc::PTRACE_PEEKDATA, child, address, ptr::from_mut(&mut value) as u64)?;
    Ok(value)
}

/// Replaces the word at `address`, whatever its protection: the child gets a page of its own.
pub(super) fn poke(child: pid_t, address: u64, value: u64) -> Result<(), c_int> {
    request(libc::PTRACE_POKEDATA, child, address, value)
}

/// Reads memory of the child, several pieces in one call, each from the address beside it; fewer bytes than asked for
/// are an error.
pub(super) fn read<const N: usize>(child: pid_t, mut pieces: [(&mut [u8], u64); N]) -> Result<(), c_int> {
    let own = pieces
        .each_mut()
        .map(|(bytes, _)| Piece { address: bytes.as_mut_ptr() as u64, length: bytes.len() as u64 });
    let theirs = pieces.map(|(bytes, address)| Piece { address, length: bytes.len() as u64 });
    transfer(libc::SYS_process_vm_readv, child, &own, &theirs)
}

/// Writes memory of the child, several pieces in one call. Each goes from the bytes to the address beside them.
pub(super) fn write<const N: usize>(child: pid_t, pieces: [(&[u8], u64); N]) -> Result<(), c_int> {
    let own = pieces.map(|(bytes, _)| Piece { address: bytes.as_ptr() as u64, length: bytes.len() as u64 });
    let theirs = pieces.map(|(bytes, address)| Piece { address, length: bytes.len() as u64 });
    transfer(libc::SYS_process_vm_writev, child, &own, &theirs)
}

/// The second that the wall clock shows.
pub(super) fn now() -> Result<u64, c_int> {
    let mut time = [0_u64; 2];
    // SAFETY: the kernel's structure is two words, which live through the call.
    unsafe { syscall!(libc::SYS_clock_gettime, libc::CLOCK_REALTIME, time.as_mut_ptr()) }?;
    let [second, _] = time;
    Ok(second)
}

/// The kernel's `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Piece {
    address: u64,
    length: u64,
}

fn transfer(number: c_long, child: pid_t, own: &[Piece], theirs: &[Piece]) -> Result<(), c_int> {
    let whole: u64 = own.iter().map(|piece| piece.length).sum();
    // SAFETY: the own pieces are borrowed slices (mutably for a read), which live through the call; the kernel checks the
    // addresses in the other process.
    let moved =
        unsafe { syscall!(number, child, own.as_ptr(), own.len(), theirs.as_ptr(), theirs.len(), 0) }?;
    if moved as u64 == whole { Ok(()) } else { Err(libc::EFAULT) }
}

pub(super) fn request(operation: c_uint, child: pid_t, address: u64, data: u64) -> Result<(), c_int> {
    // SAFETY: only the operations that read write to this process's memory, and their callers give room for it; the
    // others change a child that asked to be followed.
    unsafe { syscall!(libc::SYS_ptrace, operation, child, address, data) }.map(drop)
}
