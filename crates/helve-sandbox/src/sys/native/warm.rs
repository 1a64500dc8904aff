//! A shell that has started up and stands still just before it reads its `-c` text.
//!
//! ```text
//! calibrate   once per shell: where to stop it, found and proved by doing           (zygote)
//! ask         the child asks to be followed; it restricts itself, executes
//!             `SHELL -c PLACEHOLDER` and is stopped by that                          (child)
//! run_to_stop follows it through its start-up with one breakpoint                    (member's init)
//! release     writes the text over the placeholder and lets it go                    (member's init)
//! ```
//!
//! From there on the process is `SHELL -c TEXT` and nothing else: `$0`, `$-`, error prefixes, line numbers, the
//! execution of the last command in place. What a shell keeps of its start is mended with the text: its copy of the
//! placeholder (`BASH_EXECUTION_STRING`) and the time at which it started (`SECONDS`). Two things remain: the kernel knows
//! when the process really began, and `/proc/PID/cmdline` has zeros after the text, up to the placeholder's length.
//!
//! `run_to_stop` and `release` run in a process that shares the zygote's memory: they make system calls without the C
//! library, allocate nothing and do not panic. What they read of the child is checked: other code at the place of the
//! breakpoint, or a placeholder that is not where it should be, is an error, and then the caller ends the child and
//! starts the shell in the ordinary way. Deliberately not here: making the child, its restrictions, deadlines.

mod calibrate;
#[cfg(test)]
mod tests;

use libc::{c_int, pid_t};

use super::trace::{self, Idle};

pub(super) use calibrate::calibrate;

/// A text must be shorter than this.
pub(super) const TEXT_BYTES: usize = 4096;

/// Argument 2 of a shell to be kept warm; blank, so that nothing happens if a shell ever obeyed it.
pub(super) static PLACEHOLDER: [u8; TEXT_BYTES] = {
    let mut bytes = [b' '; TEXT_BYTES];
    bytes[TEXT_BYTES - 1] = 0;
    bytes
};

pub(super) static NOTHING: [u8; TEXT_BYTES] = [0; TEXT_BYTES];

/// Where to stop a shell. Places are relative to the program's entry, so they hold wherever the kernel puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    /// An instruction that the shell reaches once before it reads its text.
    place: u64,
    /// The bytes there.
    code: u64,
    /// The shell's own copy of the text, if it makes one.
    copy: Option<Kept>,
    /// The word in which the shell keeps the second of its start, if it does.
    clock: Option<u64>,
}

/// A copy of the text in memory that the shell allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// A word with an address in the same memory.
    pointer: u64,
    /// How far behind that address the copy lies.
    distance: u64,
}

/// A shell that stands still, and where to write.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    text: u64,
    copy: Option<u64>,
    clock: Option<u64>,
}

/// Asks, in the child, that its parent follow it; before its filter, which refuses this. Signals must not be blocked
/// when it executes the shell.
pub(super) fn ask() -> Result<(), c_int> {
    trace::ask()
}

/// Follows `child`, which has asked for it and executes `SHELL -c PLACEHOLDER`, to the stop. Waits without a deadline, in the
/// way of `idle`. After `ECHILD` the child has ended and has been waited for; after another error it is still there, to be killed.
pub(super) fn run_to_stop(child: pid_t, stop: &Stop, idle: Idle<'_>) -> Result<Standing, c_int> {
    let start = trace::wait_for_exec(child, idle)?;
    run_from_start(child, &start, stop, idle)?;
    let standing = Standing {
        text: start.text,
        copy: stop.copy.map(|kept| kept.find(child, start.entry)).transpose()?,
        clock: stop.clock.map(|place| start.entry.wrapping_add(place)),
    };
    expect_placeholder(child, standing.text)?;
    // Only the text itself is left to write when a call comes.
    standing.write(child, &NOTHING, &[])?;
    Ok(standing)
}

/// Writes `text`, which is shorter than [`TEXT_BYTES`] and has no NUL, and lets the shell go. Nothing of the following
/// remains.
pub(super) fn release(child: pid_t, standing: &Standing, text: &[u8]) -> Result<(), c_int> {
    if text.len() >= TEXT_BYTES {
        return Err(libc::E2BIG);
    }
    let second = trace::now()?.to_ne_bytes();
    standing.write(child, text, &second)?;
    trace::resume(libc::PTRACE_DETACH, child, 0)
}

impl Standing {
    /// Writes everything that there is a place for, in one system call.
    fn write(&self, child: pid_t, text: &[u8], second: &[u8]) -> Result<(), c_int> {
        let copy = self.copy.map_or((&[] as &[u8], 0), |place| (text, place));
        let clock = self.clock.map_or((&[] as &[u8], 0), |place| (second, place));
        trace::write(child, [(text, self.text), copy, clock])
    }
}

/// Lets a child that has just executed its program run to the stop.
fn run_from_start(child: pid_t, start: &trace::Start, stop: &Stop, idle: Idle<'_>) -> Result<(), c_int> {
    trace::run_to(child, start.entry.wrapping_add(stop.place), stop.code, idle)
}

impl Kept {
    /// Where the copy lies in this child.
    fn find(self, child: pid_t, entry: u64) -> Result<u64, c_int> {
        let pointer = trace::peek(child, entry.wrapping_add(self.pointer))?;
        let copy = pointer.wrapping_add(self.distance);
        expect_placeholder(child, copy)?;
        Ok(copy)
    }
}

/// Checks that the placeholder lies at `address`: both of its ends.
fn expect_placeholder(child: pid_t, address: u64) -> Result<(), c_int> {
    const END: usize = 64;
    let (mut first, mut last) = ([0_u8; END], [0_u8; END]);
    let end = address.wrapping_add((TEXT_BYTES - END) as u64);
    trace::read(child, [(first.as_mut_slice(), address), (last.as_mut_slice(), end)])?;
    if PLACEHOLDER.starts_with(&first) && PLACEHOLDER.ends_with(&last) { Ok(()) } else { Err(libc::EFAULT) }
}
