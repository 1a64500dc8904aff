//! The memory of one member, in the zygote's address space: two stacks, the request, and what its processes need to know.
//!
//! A member's init and its command run in the zygote's memory until the command executes its program. Everything that they
//! write lies in their own slot, and a slot is used again only after the member's init was reaped. Nobody holds a reference
//! to a whole slot: each part has its own owner.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use libc::{c_char, c_int};

use super::kit;
use super::mould;
use super::raw::syscall;
use super::warm::Stop;
use super::world::World;
use crate::native::notes::LOG_BYTES;
use crate::native::wire::{INLINE_BYTES, MOST_TEXTS, Request};
use crate::sys::report::errno;

/// One stack. Its lowest page is left out of the address space, so that an overflow ends the process.
const STACK_BYTES: usize = 64 * 1024;
/// The init's, which holds paths while it looks at them: several of them in a program that is not optimized.
const INIT_STACK_BYTES: usize = 256 * 1024;
const PAGE_BYTES: usize = 4096;

/// How many descriptors a member may keep.
pub(super) const KEEP: usize = 256;

/// The longest path that a program is looked up at.
pub(super) const PATH_BYTES: usize = 4096;

/// [`Slot::listener`] while nothing is known of it, and where there is none.
const UNSAID: c_int = -2;
pub(super) const NO_LISTENER: c_int = -1;

/// How long an init waits for a word of its command before it looks whether that is still there.
const WORD_NANOS: i64 = 50_000_000;

/// One member's memory. Its processes share it with the zygote, so what more than one of them writes is atomic.
#[repr(C, align(4096))]
pub(super) struct Slot {
    init_stack: [u8; INIT_STACK_BYTES],
    child_stack: [u8; STACK_BYTES],
    own: UnsafeCell<Own>,
    /// What the init has seen being refused.
    log: UnsafeCell<[u8; LOG_BYTES]>,
    given: MaybeUninit<Given>,
    /// A clock that the command winds up when it starts, so that its init looks after it.
    pub(super) clock: AtomicI32,
    /// The descriptor on which the init is asked about the command's calls; see [`Slot::hand`].
    listener: AtomicI32,
    /// How far the init is with the member's mounts: a [`Stage`].
    stage: AtomicU32,
    /// 1 if a copy of the shell was asked for, and there is none.
    uncopied: AtomicU32,
    /// Why the command could not be started: a `wire::Step`, or 0.
    pub(super) failed_step: AtomicU32,
    /// The `errno` of that.
    pub(super) failed_errno: AtomicI32,
    /// The process id of the member's init, seen from the zygote; 0 if the slot is free.
    pub(super) pid: AtomicI32,
}

/// How far an init is. The command's process gets itself ready meanwhile, and waits for what it needs.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Stage {
    /// The private directories stand, and with them every place that the command may write.
    Private = 1,
    /// Everything stands, and the init has given up its capabilities.
    All = 2,
}

/// Working memory of one process at a time: the zygote's until the member is made, then the init's until it makes the
/// command's process, then that one's, or the init's where the command is a shell that stands still.
pub(super) struct Own {
    /// A request, as it came.
    pub(super) request: [u8; size_of::<Request>() + INLINE_BYTES],
    /// The arguments of the program, ended by a null pointer.
    pub(super) arguments: [*const c_char; MOST_TEXTS as usize + 1],
    /// Where a program is being looked for.
    pub(super) candidate: [u8; PATH_BYTES],
}

/// What the zygote says before the member is made. Never changed afterwards.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// What all members share.
    pub(super) world: *const World,
    /// A request that was too long for `request`, mapped by the zygote, and its pointers.
    pub(super) long: Option<Long>,
    /// A `wire::Kind`.
    pub(super) kind: u32,
    /// The member's end of its socket.
    pub(super) talk: c_int,
    /// Standard input, output, error, as far as they were given; -1 otherwise.
    pub(super) streams: [c_int; 3],
    /// Where a warm shell is stopped.
    pub(super) stop: Option<Stop>,
    /// What was made for it beforehand.
    pub(super) kit: Option<kit::Given>,
    /// What copies the shell, if the program is not executed.
    pub(super) mould: Option<mould::Given>,
    /// The control group that the command is born in; -1 for that of its init.
    pub(super) group: c_int,
    /// The statistics of that group's processor time, or -1.
    pub(super) processor: c_int,
    /// Every descriptor that stays open in the member, sorted, ended by -1.
    pub(super) keep: [c_int; KEEP],
}

/// A request in memory of its own.
#[derive(Clone, Copy)]
pub(super) struct Long {
    pub(super) bytes: *const u8,
    pub(super) length: usize,
    pub(super) arguments: *mut *const c_char,
    pub(super) texts: usize,
}

impl Long {
    /// Maps a request that came as a file, and makes room for the pointers to its texts.
    pub(super) fn map(file: c_int, head: &Request) -> Result<Long, c_int> {
        let length = head.length as usize;
        let pointers = (head.texts as usize + 1) * size_of::<*const c_char>();
        // SAFETY: new private mappings at places that the kernel chooses; the file is one that Helve has sealed off by giving
        // away its last use.
        unsafe {
            let bytes =
                libc::mmap(ptr::null_mut(), length.max(1), libc::PROT_READ, libc::MAP_PRIVATE, file, 0);
            if bytes == libc::MAP_FAILED {
                return Err(errno());
            }
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let arguments = libc::mmap(ptr::null_mut(), pointers, protection, flags, -1, 0);
            if arguments == libc::MAP_FAILED {
                let errno = errno();
                libc::munmap(bytes, length.max(1));
                return Err(errno);
            }
            Ok(Long { bytes: bytes.cast(), length, arguments: arguments.cast(), texts: head.texts as usize })
        }
    }

    /// Gives its memory back, once no process of its member is left.
    pub(super) fn unmap(&self) {
        // SAFETY: both were mapped by `map` with these sizes, and no process of the member is left.
        unsafe {
            libc::munmap(self.bytes.cast_mut().cast(), self.length.max(1));
            libc::munmap(self.arguments.cast(), (self.texts + 1) * size_of::<*const c_char>());
        }
    }
}

impl Slot {
    /// New memory for a slot, never given back: members come and go, and the zygote uses it again.
    pub(super) fn new() -> Option<*mut Slot> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping at a place that the kernel chooses; it is aligned to pages.
        let memory = unsafe { libc::mmap(ptr::null_mut(), size_of::<Slot>(), protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let slot = memory.cast::<Slot>();
        // SAFETY: both pages lie inside the mapping, at the low ends of stacks that nobody uses yet.
        let guarded = unsafe {
            libc::mprotect((&raw mut (*slot).init_stack).cast(), PAGE_BYTES, libc::PROT_NONE) == 0
                && libc::mprotect((&raw mut (*slot).child_stack).cast(), PAGE_BYTES, libc::PROT_NONE) == 0
        };
        guarded.then_some(slot)
    }

    /// Whether no member uses it.
    pub(super) fn is_free(slot: *const Slot) -> bool {
        Slot::pid(slot) == 0
    }

    /// The process id of its init.
    pub(super) fn pid(slot: *const Slot) -> libc::pid_t {
        // SAFETY: slots are never given back, and the number is atomic.
        unsafe { &(*slot).pid }.load(Ordering::Relaxed)
    }

    /// Says, in the init, that it got no copy.
    pub(super) fn got_no_copy(slot: *const Slot) {
        // SAFETY: the slot outlives its processes, and the number is atomic.
        unsafe { &(*slot).uncopied }.store(1, Ordering::Relaxed);
    }

    /// Whether its init has said so.
    pub(super) fn is_uncopied(slot: *const Slot) -> bool {
        // SAFETY: slots are never given back, and the number is atomic.
        unsafe { &(*slot).uncopied }.load(Ordering::Relaxed) == 1
    }

    /// Says what its member is. Only for a free slot.
    pub(super) fn give(slot: *mut Slot, given: Given) {
        // SAFETY: nobody uses a free slot, and no reference into it exists.
        unsafe {
            (&raw mut (*slot).given).cast::<Given>().write(given);
            (*slot).failed_step.store(0, Ordering::Relaxed);
            (*slot).stage.store(0, Ordering::Relaxed);
            (*slot).uncopied.store(0, Ordering::Relaxed);
            (*slot).listener.store(UNSAID, Ordering::Relaxed);
        }
    }

    /// What its member is. Only after [`Slot::give`].
    ///
    /// # Safety
    /// The slot must have been given, and not released since.
    pub(super) unsafe fn given<'a>(slot: *const Slot) -> &'a Given {
        // SAFETY: initialized, as the caller vouches, and not changed while the member lives.
        unsafe { &*(&raw const (*slot).given).cast::<Given>() }
    }

    /// The working memory.
    ///
    /// # Safety
    /// The caller must be the one process that uses it now: see [`Own`].
    pub(super) unsafe fn own<'a>(slot: *const Slot) -> &'a mut Own {
        // SAFETY: nobody else uses it, as the caller vouches. Any bytes are a value of it.
        unsafe { &mut *UnsafeCell::raw_get(&raw const (*slot).own) }
    }

    /// The memory of the init's log.
    ///
    /// # Safety
    /// The caller must be the init, and ask once.
    pub(super) unsafe fn log<'a>(slot: *const Slot) -> &'a mut [u8; LOG_BYTES] {
        // SAFETY: nobody else uses it, as the caller vouches. Any bytes are a value of it.
        unsafe { &mut *UnsafeCell::raw_get(&raw const (*slot).log) }
    }

    /// Says, in the command's process, on which descriptor of the init's table its calls are asked about, if on any. From then
    /// on the two tables are not one. Only the first word counts.
    pub(super) fn hand(slot: *const Slot, listener: c_int) {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the slot outlives its processes, and the number is atomic.
        unsafe {
            let place = &(*slot).listener;
            if place.compare_exchange(UNSAID, listener, Ordering::Release, Ordering::Relaxed).is_ok() {
                let _ = syscall!(libc::SYS_futex, place.as_ptr(), wake, 1);
            }
        }
    }

    /// Waits, in the init, for that word. A command that has died without it is asked about nothing.
    pub(super) fn listener(slot: *const Slot, command: libc::pid_t) -> c_int {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let pause = libc::timespec { tv_sec: 0, tv_nsec: WORD_NANOS };
        // SAFETY: the slot outlives its processes, the number is atomic, and the time lives through the call. Nobody wants to
        // know more of the child than whether it has ended.
        unsafe {
            let place = &(*slot).listener;
            loop {
                let listener = place.load(Ordering::Acquire);
                if listener != UNSAID {
                    return listener;
                }
                let _ = syscall!(libc::SYS_futex, place.as_ptr(), wait, UNSAID, &raw const pause);
                let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
                let mut ended: libc::siginfo_t = std::mem::zeroed();
                let known = syscall!(libc::SYS_waitid, libc::P_PID, command, &raw mut ended, how, 0);
                if place.load(Ordering::Acquire) == UNSAID && (known.is_err() || ended.si_pid() != 0) {
                    return NO_LISTENER;
                }
            }
        }
    }

    /// Says, in the init, that a stage is reached.
    pub(super) fn reach(slot: *const Slot, stage: Stage) {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the slot outlives its processes, and the number is atomic.
        unsafe {
            let place = &(*slot).stage;
            place.store(stage as u32, Ordering::Release);
            let _ = syscall!(libc::SYS_futex, place.as_ptr(), wake, 1);
        }
    }

    /// Waits, in the command's process, for a stage. If it is never reached, the init ends, and the kernel ends this process
    /// with it.
    pub(super) fn wait_for(slot: *const Slot, stage: Stage) {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the slot outlives its processes, and the number is atomic.
        unsafe {
            let place = &(*slot).stage;
            loop {
                let reached = place.load(Ordering::Acquire);
                if reached >= stage as u32 {
                    return;
                }
                // No time limit. Whatever it returns, the number says.
                let _ = syscall!(libc::SYS_futex, place.as_ptr(), wait, reached, 0);
            }
        }
    }

    /// Where the init's stack begins, and its size.
    pub(super) fn init_stack(slot: *mut Slot) -> (u64, u64) {
        // SAFETY: only the address is taken.
        (unsafe { &raw mut (*slot).init_stack } as u64, INIT_STACK_BYTES as u64)
    }

    /// Where the command's stack begins, and its size.
    pub(super) fn child_stack(slot: *mut Slot) -> (u64, u64) {
        // SAFETY: only the address is taken.
        (unsafe { &raw mut (*slot).child_stack } as u64, STACK_BYTES as u64)
    }

    /// Frees a slot whose member has gone. The pages that every member uses stay, because to get them again would take a
    /// call as long as some of its mounts; those of a long request go back to the kernel.
    pub(super) fn release(slot: *mut Slot) {
        // SAFETY: slots are never given back, the number is atomic, and no process of the member is left to use the rest.
        // What is given back reads as zero afterwards, and any bytes are a value of it.
        unsafe {
            let own = UnsafeCell::raw_get(&raw const (*slot).own);
            give_back((&raw mut (*own).request).cast(), size_of_val(&(*own).request));
            give_back((&raw mut (*own).arguments).cast(), size_of_val(&(*own).arguments));
            (*slot).pid.store(0, Ordering::Relaxed);
        }
    }
}

/// Gives the pages of some memory back to the kernel, but for the first ones.
///
/// # Safety
/// The memory must be a part of a slot that nobody uses.
unsafe fn give_back(memory: *mut u8, bytes: usize) {
    let start = (memory as usize + PAGE_BYTES).next_multiple_of(PAGE_BYTES);
    let end = (memory as usize + bytes) / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: the range lies in the memory for which the caller vouches.
    let _ = unsafe { syscall!(libc::SYS_madvise, start, end.saturating_sub(start), libc::MADV_DONTNEED) };
}
