//! The steps of a copy, as system calls that lie ready in the mould's memory: the same as those of a command's process that
//! executes its program (`command`), in the same order.

use std::ops::Range;

use libc::{c_int, c_long};

use super::super::raw::{CloneArgs, syscall};
use super::super::trace;
use super::super::witness::Witness;
use super::super::world::World;
use super::Hand;
use super::code::{ERROR, MOUNTS, NEXT, OUTPUT, QUEUES, RULES, WORD};
use super::order::{BETWEEN, COPY};
use crate::sys::confine;

/// Memory of the mould's that is being written.
pub(super) struct Tape {
    address: u64,
    bytes: Vec<u8>,
}

impl Tape {
    /// For memory at `address`; what is placed comes after the first `reserved` bytes.
    pub(super) fn new(address: u64, reserved: usize) -> Tape {
        Tape { address, bytes: vec![0; reserved] }
    }

    /// Writes words at a place of the reserved part.
    pub(super) fn set(&mut self, place: usize, words: &[u64]) {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        self.bytes.iter_mut().skip(place).zip(bytes).for_each(|(to, from)| *to = from);
    }

    /// Adds words. Where they lie.
    pub(super) fn place(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.place_bytes(&bytes)
    }

    fn place_bytes(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        let place = self.address + self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        place
    }

    /// Everything.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What the C library has registered for the one thread of the mould, which a copy registers again.
pub(super) struct Own {
    /// Where its number is kept, or 0.
    number: u64,
    /// Its list of locks, and the size of that list's head.
    locks: [u64; 2],
    /// What it registered for sequences that are not interrupted: where, how large, its signature; 0 if nothing.
    sequences: [u64; 3],
}

impl Own {
    /// Reads it, and has the mould forget the sequences: code of its library would be gone on with where one is interrupted.
    /// `place` is memory of the mould's own.
    pub(super) fn take(hand: &Hand, place: u64) -> Result<Own, c_int> {
        const GET_TID_ADDRESS: u64 = 40;
        const GET_SEQUENCES: libc::c_uint = 0x420f;
        const UNREGISTER: u64 = 1;
        hand.call(libc::SYS_prctl, [GET_TID_ADDRESS, place, 0, 0, 0, 0])?;
        let number = trace::peek(hand.pid, place)?;
        // Another C library may keep something else there.
        if number != 0 && trace::peek(hand.pid, number)? as u32 != hand.pid.cast_unsigned() {
            return Err(libc::ENOSYS);
        }
        let mut locks = [0_u64; 2];
        let [head, length] = &mut locks;
        // SAFETY: the kernel writes two words, which live through the call.
        unsafe { syscall!(libc::SYS_get_robust_list, hand.pid, &raw mut *head, &raw mut *length) }?;
        // The kernel's structure: an address, then size, signature, flags and nothing.
        let mut kept = [0_u64; 3];
        trace::request(GET_SEQUENCES, hand.pid, size_of_val(&kept) as u64, &raw mut kept as u64)?;
        let [sequences, sizes, _] = kept;
        let sequences @ [place, size, signature] = [sequences, sizes & u64::from(u32::MAX), sizes >> 32];
        if place != 0 {
            hand.call(libc::SYS_rseq, [place, size, UNREGISTER, signature, 0, 0])?;
        }
        Ok(Own { number, locks, sequences })
    }
}

/// How the process between and the copy are made, as the kernel reads it. Both have their own numbers in the init's
/// namespace; what the shell starts gets the next ones, as if the process between had never been.
pub(super) fn births(tape: &mut Tape, own: &Own) -> [[u64; size_of::<CloneArgs>() / 8]; 2] {
    let [between, copy] = [BETWEEN, COPY].map(|number| tape.place(&[word(number)]));
    let flags = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    let flags = if own.number == 0 { 0 } else { word(flags) };
    // Flags, process descriptor, where the child's number is kept, where the parent keeps it, the signal at its end; stack,
    // its size, thread's own memory; its number and how many there are of it; control group.
    [
        [0, 0, 0, 0, 0, 0, 0, 0, between, 1, 0],
        [flags, 0, own.number, 0, word(libc::SIGCHLD), 0, 0, 0, copy, 1, 0],
    ]
}

/// Steps that are being written.
#[derive(Default)]
struct Steps(Vec<u64>);

impl Steps {
    /// A system call that has to answer `answer`.
    fn add<const N: usize>(&mut self, number: c_long, arguments: [u64; N], answer: u64) {
        let mut words = [0; 6];
        words.iter_mut().zip(arguments).for_each(|(to, from)| *to = from);
        self.0.push(number.cast_unsigned());
        self.0.extend(words);
        self.0.push(answer);
    }
}

/// A number as a word.
fn word(number: c_int) -> u64 {
    i64::from(number).cast_unsigned()
}

/// Places the steps of a copy and everything that they lead to. Where they begin and end.
pub(super) fn steps(tape: &mut Tape, world: &World, own: &Own) -> Range<u64> {
    let mut steps = Steps::default();
    for (namespace, kind) in [(QUEUES, libc::CLONE_NEWIPC), (MOUNTS, libc::CLONE_NEWNS)] {
        steps.add(libc::SYS_setns, [word(namespace), word(kind)], 0);
    }
    steps.add(libc::SYS_setsid, [], word(COPY));
    for (resource, limit) in &world.limits {
        let limit = tape.place(&[limit.rlim_cur, limit.rlim_max]);
        steps.add(libc::SYS_prlimit64, [0, u64::from(*resource), limit, 0], 0);
    }
    let listener = filter(tape, &mut steps, world);
    // The process between has ended, and has been waited for.
    steps.add(libc::SYS_kill, [word(BETWEEN), 0], word(-libc::ESRCH));
    let directory = tape.place_bytes(world.template.workspace_path.as_bytes_with_nul());
    steps.add(libc::SYS_chdir, [directory], 0);
    // With the permitted ones the kernel takes those that a program would be given.
    let (head, none) =
        (tape.place_bytes(&confine::CAPABILITIES.map(u32::to_ne_bytes).concat()), tape.place(&[0; 3]));
    steps.add(libc::SYS_capset, [head, none], 0);
    steps.add(libc::SYS_landlock_restrict_self, [word(RULES), 0], 0);
    for (from, to) in [(OUTPUT, 1), (ERROR, 2)] {
        steps.add(libc::SYS_dup3, [word(from), word(to), 0], word(to));
    }
    let [list, size] = own.locks;
    if list != 0 {
        steps.add(libc::SYS_set_robust_list, [list, size], 0);
    }
    let [place, size, signature] = own.sequences;
    if place != 0 {
        steps.add(libc::SYS_rseq, [place, size, 0, signature], 0);
    }
    // Whoever has heard this can count on it.
    say(tape, &mut steps, listener);
    steps.add(libc::SYS_close_range, [3, word(c_int::MAX), 0], 0);
    let first = tape.place(&steps.0);
    first..first + size_of_val(steps.0.as_slice()) as u64
}

/// The filter. Where the init is asked about the copy's calls, if it is.
fn filter(tape: &mut Tape, steps: &mut Steps, world: &World) -> Option<c_int> {
    const SET_MODE_FILTER: u64 = 1;
    let asking = world.witness.as_ref().map(Witness::filter_for_copies);
    let listener = asking.is_some().then_some(NEXT);
    let (bytes, flags) =
        asking.map_or_else(|| (world.filter.bytes(), 0), |(filter, flags)| (filter.bytes(), flags));
    let instructions = tape.place_bytes(&bytes);
    let program = tape.place(&[bytes.len() as u64 / 8, instructions]);
    steps.add(libc::SYS_seccomp, [SET_MODE_FILTER, flags, program], listener.map_or(0, word));
    listener
}

/// One byte to the init, and with it where it is asked.
fn say(tape: &mut Tape, steps: &mut Steps, listener: Option<c_int>) {
    let byte = tape.place(&[1]);
    let piece = tape.place(&[byte, 1]);
    let rights =
        u64::from(libc::SOL_SOCKET.cast_unsigned()) | u64::from(libc::SCM_RIGHTS.cast_unsigned()) << 32;
    let control = listener.map(|listener| {
        let length = size_of::<[u64; 2]>() + size_of::<c_int>();
        tape.place(&[length as u64, rights, word(listener)])
    });
    let (control, room) = control.map_or((0, 0), |control| (control, 24));
    let message = tape.place(&[0, 0, piece, 1, control, room, 0]);
    steps.add(libc::SYS_sendmsg, [word(WORD), message, word(libc::MSG_NOSIGNAL)], 1);
}
