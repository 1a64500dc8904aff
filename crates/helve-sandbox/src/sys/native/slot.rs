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

use super::raw::syscall;
use super::warm::Stop;
use super::world::World;
use crate::native::wire::{INLINE_BYTES, MOST_TEXTS, Request};

/// One stack. Its lowest page is left out of the address space, so that an overflow ends the process.
const STACK_BYTES: usize = 64 * 1024;
const PAGE_BYTES: usize = 4096;

/// How many descriptors a member may keep.
pub(super) const KEEP: usize = 256;

/// The longest path that a program is looked up at.
pub(super) const PATH_BYTES: usize = 4096;

/// One member's memory. Its processes share it with the zygote, so what more than one of them writes is atomic.
#[repr(C, align(4096))]
pub(super) struct Slot {
    init_stack: [u8; STACK_BYTES],
    child_stack: [u8; STACK_BYTES],
    own: UnsafeCell<Own>,
    given: MaybeUninit<Given>,
    /// A clock that the command winds up when it starts, so that its init looks after it.
    pub(super) clock: AtomicI32,
    /// The Landlock ruleset.
    pub(super) ruleset: AtomicI32,
    /// Why the command could not be started: a `wire::Step`, or 0.
    pub(super) failed_step: AtomicU32,
    /// The `errno` of that.
    pub(super) failed_errno: AtomicI32,
    /// The process id of the member's init, seen from the zygote; 0 if the slot is free.
    pub(super) pid: AtomicI32,
}

/// Working memory of one process at a time: the zygote's until the member is made, then the command's, or the init's
/// where the command is a shell that stands still.
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

    /// Says what its member is. Only for a free slot.
    pub(super) fn give(slot: *mut Slot, given: Given) {
        // SAFETY: nobody uses a free slot, and no reference into it exists.
        unsafe {
            (&raw mut (*slot).given).cast::<Given>().write(given);
            (*slot).failed_step.store(0, Ordering::Relaxed);
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

    /// Where the init's stack begins, and its size.
    pub(super) fn init_stack(slot: *mut Slot) -> (u64, u64) {
        // SAFETY: only the address is taken.
        (unsafe { &raw mut (*slot).init_stack } as u64, STACK_BYTES as u64)
    }

    /// Where the command's stack begins, and its size.
    pub(super) fn child_stack(slot: *mut Slot) -> (u64, u64) {
        // SAFETY: only the address is taken.
        (unsafe { &raw mut (*slot).child_stack } as u64, STACK_BYTES as u64)
    }

    /// Gives the pages of a slot back to the kernel when its member has gone.
    pub(super) fn release(slot: *mut Slot) {
        // SAFETY: the range is the slot's own mapping, and no process of the member is left to use it. It reads as zero
        // afterwards, which is what a slot holds when it is new.
        unsafe {
            let _ = syscall!(libc::SYS_madvise, slot, size_of::<Slot>(), libc::MADV_DONTNEED);
        }
    }
}
