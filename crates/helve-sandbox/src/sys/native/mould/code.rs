//! What a mould does, as instructions, and where they find things.
//!
//! They use no stack and nothing of a library: the memory around them is a shell's that has not begun. Whoever made the
//! mould is trusted, and so is whoever sends orders: the zygote and the inits of its members, which are one program.

use std::arch::global_asm;
use std::mem::offset_of;

use libc::c_int;

use super::super::raw::CloneArgs;
use super::super::trace::{self, Start};
use super::super::warm::TEXT_BYTES;
use super::super::world::World;
use super::Hand;
use super::tape::{self, Own, Tape};

/// The mould's descriptors: where orders come in; then, in this order, what comes with one.
pub(super) const ORDERS: c_int = 3;
/// The init's pid namespace.
pub(super) const PROCESSES: c_int = 4;
/// Its mount and ipc namespaces.
pub(super) const MOUNTS: c_int = 5;
pub(super) const QUEUES: c_int = 6;
/// Where the copy says that it is there.
pub(super) const WORD: c_int = 7;
/// Its outputs.
pub(super) const OUTPUT: c_int = 8;
pub(super) const ERROR: c_int = 9;
/// Its rules of Landlock.
pub(super) const RULES: c_int = 10;
/// The control group in which it is born, or anything.
pub(super) const GROUP: c_int = 11;
/// How many come with an order.
pub(super) const GIVEN: usize = 8;
/// What is opened next.
pub(super) const NEXT: c_int = 12;

/// How an order begins; the text follows, with zeros after it.
#[repr(C)]
pub(super) struct Head {
    /// How the process between is made: its flags, and the control group if it is born in one.
    pub(super) flags: u64,
    pub(super) group: u64,
}

/// The bytes of an order.
const ORDER_BYTES: usize = size_of::<Head>() + TEXT_BYTES;

// Where things lie in the mould's own memory.
/// A message header of the kernel's, for orders.
const MESSAGE: usize = 0;
/// The length of that message's room for descriptors, which the kernel overwrites.
const ROOM_FIELD: usize = MESSAGE + 40;
const ROOM: usize = 64;
/// The length of an order.
const LENGTH: usize = 72;
/// The shell's first instruction, and a register as it was there: what the loader wants to be called at the end.
const ENTRY: usize = 80;
const LAST: usize = 88;
/// The first of the copy's steps, and their end.
const FIRST: usize = 96;
const END: usize = 104;
/// How the copy is made.
const COPY: usize = 128;
/// How the process between is made; two of its fields come with an order.
const BETWEEN: usize = 256;
const BETWEEN_FLAGS: usize = BETWEEN + offset_of!(CloneArgs, flags);
const BETWEEN_GROUP: usize = BETWEEN + offset_of!(CloneArgs, cgroup);
/// Where the rest begins.
const REST: usize = 512;

/// How much memory that is.
const MEMORY_BYTES: usize = 16 * 1024;
const CODE_BYTES: usize = 4096;

global_asm!(
    ".pushsection .rodata",
    ".balign 8",
    ".hidden helve_mould_code",
    ".globl helve_mould_code",
    "helve_mould_code:",
    // An order comes in. r12 leads to the mould's own memory all the time.
    "2:",
    "mov rax, [r12 + {ROOM}]",
    "mov [r12 + {ROOM_FIELD}], rax",
    "mov eax, {RECVMSG}",
    "mov edi, {ORDERS}",
    "lea rsi, [r12 + {MESSAGE}]",
    "mov edx, {CLOEXEC}",
    "syscall",
    "test rax, rax",
    "jz 8f",
    "cmp rax, [r12 + {LENGTH}]",
    "jne 3f",
    // The next process is one of the init's namespace.
    "mov eax, {SETNS}",
    "mov edi, {PROCESSES}",
    "mov esi, {NEWPID}",
    "syscall",
    "test rax, rax",
    "jnz 3f",
    // The process between, in this memory; goes on when that has ended.
    "mov eax, {CLONE3}",
    "lea rdi, [r12 + {BETWEEN}]",
    "mov esi, {CLONE_ARGS}",
    "syscall",
    "test rax, rax",
    "jz 4f",
    "js 3f",
    "mov rdi, rax",
    "xor esi, esi",
    "mov edx, {WALL}",
    "xor r10d, r10d",
    "mov eax, {WAIT4}",
    "syscall",
    // Whatever came with the order is closed.
    "3:",
    "mov edi, {PROCESSES}",
    "mov esi, -1",
    "xor edx, edx",
    "mov eax, {CLOSE_RANGE}",
    "syscall",
    "jmp 2b",
    // The process between makes the copy and ends: so the copy is the init's.
    "4:",
    "mov eax, {CLONE3}",
    "lea rdi, [r12 + {COPY}]",
    "mov esi, {CLONE_ARGS}",
    "syscall",
    "test rax, rax",
    "jz 5f",
    "xor edi, edi",
    "mov eax, {EXIT}",
    "syscall",
    "ud2",
    // The copy takes its steps, each of eight words: a system call, its arguments, and what it has to answer.
    "5:",
    "mov rbx, [r12 + {FIRST}]",
    "6:",
    "mov rax, [rbx]",
    "mov rdi, [rbx + 8]",
    "mov rsi, [rbx + 16]",
    "mov rdx, [rbx + 24]",
    "mov r10, [rbx + 32]",
    "mov r8, [rbx + 40]",
    "mov r9, [rbx + 48]",
    "syscall",
    "cmp rax, [rbx + 56]",
    "jne 7f",
    "add rbx, 64",
    "cmp rbx, [r12 + {END}]",
    "jne 6b",
    // It lets go of the mould's own memory, and becomes the shell.
    "mov rbx, [r12 + {LAST}]",
    "mov rbp, [r12 + {ENTRY}]",
    "mov rdi, r12",
    "mov esi, {MEMORY_BYTES}",
    "mov eax, {MUNMAP}",
    "syscall",
    "test rax, rax",
    "jnz 9f",
    "mov rdx, rbx",
    "mov rcx, rbp",
    "xor ebx, ebx",
    "xor ebp, ebp",
    "xor r12d, r12d",
    "jmp rcx",
    // The process between may still be there; everything else must go as it should.
    "7:",
    "cmp qword ptr [rbx], {KILL}",
    "jne 9f",
    "mov eax, {YIELD}",
    "syscall",
    "jmp 6b",
    // There is nobody any more who could send orders.
    "8:",
    "xor edi, edi",
    "mov eax, {EXIT_GROUP}",
    "syscall",
    "ud2",
    "9:",
    "mov edi, 127",
    "mov eax, {EXIT_GROUP}",
    "syscall",
    "ud2",
    ".hidden helve_mould_code_end",
    ".globl helve_mould_code_end",
    "helve_mould_code_end:",
    ".popsection",
    ROOM = const ROOM,
    ROOM_FIELD = const ROOM_FIELD,
    MESSAGE = const MESSAGE,
    LENGTH = const LENGTH,
    BETWEEN = const BETWEEN,
    COPY = const COPY,
    FIRST = const FIRST,
    END = const END,
    ENTRY = const ENTRY,
    LAST = const LAST,
    ORDERS = const ORDERS,
    PROCESSES = const PROCESSES,
    CLONE_ARGS = const size_of::<CloneArgs>(),
    CLOEXEC = const libc::MSG_CMSG_CLOEXEC,
    NEWPID = const libc::CLONE_NEWPID,
    WALL = const libc::__WALL,
    RECVMSG = const libc::SYS_recvmsg,
    SETNS = const libc::SYS_setns,
    CLONE3 = const libc::SYS_clone3,
    WAIT4 = const libc::SYS_wait4,
    CLOSE_RANGE = const libc::SYS_close_range,
    EXIT = const libc::SYS_exit,
    EXIT_GROUP = const libc::SYS_exit_group,
    KILL = const libc::SYS_kill,
    MUNMAP = const libc::SYS_munmap,
    MEMORY_BYTES = const MEMORY_BYTES,
    YIELD = const libc::SYS_sched_yield,
);

/// The instructions, which lie together.
fn instructions() -> &'static [u8] {
    unsafe extern "C" {
        static helve_mould_code: u8;
        static helve_mould_code_end: u8;
    }
    // SAFETY: both name places of one piece of constant bytes, the second its end.
    unsafe {
        let (start, end) = (&raw const helve_mould_code, &raw const helve_mould_code_end);
        std::slice::from_raw_parts(start, end.offset_from_unsigned(start))
    }
}

/// Gives a mould its memory, its instructions and its tape, and has it go on with them.
pub(super) fn install(hand: &Hand, world: &World, start: &Start) -> Result<(), c_int> {
    // It was loaded in time.
    hand.call(libc::SYS_alarm, [0; 6])?;
    let at_start = hand.registers()?;
    let code = map(hand, CODE_BYTES, libc::PROT_READ | libc::PROT_EXEC)?;
    let memory = map(hand, MEMORY_BYTES, libc::PROT_READ | libc::PROT_WRITE)?;
    let own = Own::take(hand, memory)?;
    let mut tape = Tape::new(memory, REST);
    let pieces: Vec<u64> = [(BETWEEN_FLAGS, 8), (BETWEEN_GROUP, 8)]
        .into_iter()
        .flat_map(|(place, length)| [memory + place as u64, length])
        .chain([start.text, TEXT_BYTES as u64])
        .collect();
    let pieces = (tape.place(&pieces), pieces.len() as u64 / 2);
    let room_bytes = size_of::<[u64; 2]>() + (GIVEN * size_of::<c_int>()).next_multiple_of(8);
    let room = tape.place(&vec![0; room_bytes / 8]);
    let steps = tape::steps(&mut tape, world, &own);
    tape.set(MESSAGE, &[0, 0, pieces.0, pieces.1, room, room_bytes as u64, 0]);
    let found = [room_bytes as u64, ORDER_BYTES as u64, start.entry, at_start.rdx, steps.start, steps.end];
    tape.set(ROOM, &found);
    let [between, copy] = tape::births(&mut tape, &own);
    tape.set(BETWEEN, &between);
    tape.set(COPY, &copy);
    let bytes = tape.bytes();
    if bytes.len() > MEMORY_BYTES {
        return Err(libc::E2BIG);
    }
    trace::write(hand.pid, [(bytes, memory)])?;
    // Memory that cannot be written can only be written so.
    let (words, rest) = instructions().as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    for (index, word) in words.iter().chain([&last]).enumerate() {
        trace::poke(hand.pid, code + 8 * index as u64, u64::from_ne_bytes(*word))?;
    }
    hand.set_registers(&libc::user_regs_struct { rip: code, r12: memory, orig_rax: u64::MAX, ..at_start })
}

fn map(hand: &Hand, bytes: usize, protection: c_int) -> Result<u64, c_int> {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    hand.call(libc::SYS_mmap, [0, bytes as u64, protection as u64, flags, u64::MAX, 0])
}
