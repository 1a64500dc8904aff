//! System calls without the C library.
//!
//! A member's processes run in the zygote's memory until they execute their program, and so share its `errno` with it and
//! with each other. Here a failure is a value.

use libc::{c_int, c_long};

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the call wants: pointers to memory that lives through it, and so on.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call(number: c_long, arguments: [usize; 6]) -> Result<usize, c_int> {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the kernel changes only the registers named here and memory that the caller vouches for.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    told(answer)
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the call wants: pointers to memory that lives through it, and so on.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn call(number: c_long, arguments: [usize; 6]) -> Result<usize, c_int> {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the kernel changes only the registers named here and memory that the caller vouches for.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    told(answer)
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn told(answer: isize) -> Result<usize, c_int> {
    if (-4095..0).contains(&answer) { Err((-answer) as c_int) } else { Ok(answer as usize) }
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be what the call wants: pointers to memory that lives through it, and so on.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) unsafe fn call(number: c_long, arguments: [usize; 6]) -> Result<usize, c_int> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: passed on from the caller.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if answer == -1 { Err(super::report::errno()) } else { Ok(answer as usize) }
}

/// `call` with as many arguments as are given; the rest are zero.
macro_rules! syscall {
    ($number:expr $(, $argument:expr)* $(,)?) => {{
        let given: &[usize] = &[$(($argument) as usize),*];
        let mut all = [0_usize; 6];
        for (to, from) in all.iter_mut().zip(given) {
            *to = *from;
        }
        $crate::sys::raw::call($number, all)
    }};
}
pub(super) use syscall;

/// The flag of [`CloneArgs`] with which a child is born in the control group `cgroup`.
pub(super) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The kernel's `struct clone_args`.
#[repr(C)]
#[derive(Default)]
pub(super) struct CloneArgs {
    pub(super) flags: u64,
    pub(super) pidfd: u64,
    pub(super) child_tid: u64,
    pub(super) parent_tid: u64,
    pub(super) exit_signal: u64,
    pub(super) stack: u64,
    pub(super) stack_size: u64,
    pub(super) tls: u64,
    pub(super) set_tid: u64,
    pub(super) set_tid_size: u64,
    pub(super) cgroup: u64,
}

/// Makes a child that runs `body(argument)` on the stack of `arguments` and ends with what it returns.
///
/// # Safety
/// The stack must be the child's alone while it lives, and aligned to 16 bytes. With `CLONE_VM` the child may touch only
/// memory that nobody else changes meanwhile, and may neither allocate nor unwind.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn clone3(
    arguments: &CloneArgs,
    body: extern "C" fn(usize) -> c_int,
    argument: usize,
) -> Result<libc::pid_t, c_int> {
    let answer: isize;
    // SAFETY: in the child everything after the call is on its new stack and never returns here; the parent sees only
    // the registers named as changed.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "mov edi, eax",
            "mov eax, 60",
            "syscall",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => answer,
            in("rdi") core::ptr::from_ref(arguments), in("rsi") size_of::<CloneArgs>(),
            in("r12") body, in("r13") argument,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    told(answer).map(|pid| pid as libc::pid_t)
}

/// Makes a child that runs `body(argument)` on the stack of `arguments` and ends with what it returns.
///
/// # Safety
/// The stack must be the child's alone while it lives, and aligned to 16 bytes. With `CLONE_VM` the child may touch only
/// memory that nobody else changes meanwhile, and may neither allocate nor unwind.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn clone3(
    arguments: &CloneArgs,
    body: extern "C" fn(usize) -> c_int,
    argument: usize,
) -> Result<libc::pid_t, c_int> {
    extern "C" fn enter(pair: *mut libc::c_void) -> c_int {
        // SAFETY: the pair lies on the child's own stack region, written before it was made.
        let (body, argument) = unsafe { *pair.cast::<(extern "C" fn(usize) -> c_int, usize)>() };
        body(argument)
    }
    if arguments.flags & CLONE_INTO_CGROUP != 0 {
        return Err(libc::ENOSYS);
    }
    let top = (arguments.stack + arguments.stack_size) as usize - 64;
    let pair = top as *mut (extern "C" fn(usize) -> c_int, usize);
    let flags = arguments.flags as c_int | arguments.exit_signal as c_int;
    // SAFETY: the pair fits between `top` and the stack's end; the rest is the caller's word.
    let pid = unsafe {
        pair.write((body, argument));
        libc::clone(enter, top as *mut libc::c_void, flags, pair.cast(), arguments.pidfd as *mut c_int)
    };
    if pid == -1 { Err(super::report::errno()) } else { Ok(pid) }
}
