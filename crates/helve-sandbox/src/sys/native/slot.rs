//! The memory of one member, in the zygote's address space: two stacks, the request, and what its processes need to know.
//!
//! A member's init and its command run in the zygote's memory until the command executes its program. Everything that they
//! write lies in their own slot, and a slot is used again only after the member's init was reaped.

use std::ptr;

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

/// Everything of one member that its processes write.
#[repr(C, align(4096))]
pub(super) struct Slot {
    init_stack: [u8; STACK_BYTES],
    child_stack: [u8; STACK_BYTES],
    /// A request, as it came.
    pub(super) request: [u8; size_of::<Request>() + INLINE_BYTES],
    /// The arguments of the program, ended by a null pointer.
    pub(super) arguments: [*const c_char; MOST_TEXTS as usize + 1],
    /// Where a program is being looked for.
    pub(super) candidate: [u8; PATH_BYTES],
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
    /// A clock that the command winds up when it starts, so that its init looks after it.
    pub(super) clock: c_int,
    /// The Landlock ruleset.
    pub(super) ruleset: c_int,
    /// Where a warm shell is stopped.
    pub(super) stop: Option<Stop>,
    /// Every descriptor that stays open in the member, sorted, ended by -1.
    pub(super) keep: [c_int; KEEP],
    /// Why the command could not be started: a `wire::Step` and an `errno`.
    pub(super) failure: (u32, c_int),
    /// The process id of the member's init, seen from the zygote; 0 if the slot is free.
    pub(super) pid: libc::pid_t,
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
        unsafe {
            libc::mprotect((&raw mut (*slot).init_stack).cast(), PAGE_BYTES, libc::PROT_NONE);
            libc::mprotect((&raw mut (*slot).child_stack).cast(), PAGE_BYTES, libc::PROT_NONE);
        }
        Some(slot)
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
