//! One run of the shell that is followed from its first instruction on, and what its program looks like in memory.

use std::ffi::{CStr, c_char};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_uint, pid_t};
use rustix::pipe::{PipeFlags, pipe_with};

use super::super::super::trace::{self, Event, GONE, Start};
use super::super::{NOTHING, PLACEHOLDER, Standing, Stop, TEXT_BYTES, release, run_from_start, run_to_stop};
use crate::confine::seccomp::{self, Filter};
use crate::sys::confine;

/// A run that takes longer than this ends itself.
const ALARM_SECONDS: u32 = 5;
/// The longest output of a run that is looked at.
const MOST_OUTPUT: usize = 64 * 1024;
/// A program with more variables than this is not searched.
const MOST_DATA: u64 = 4 * 1024 * 1024;

/// A shell to be examined.
pub(super) struct Lab<'a> {
    shell: &'a CStr,
    env: &'a [*const c_char],
    arguments: [*const c_char; 4],
    filter: Filter,
}

/// One run of it. It ends with this value.
pub(super) struct Run {
    pub(super) child: pid_t,
    pub(super) start: Start,
    /// Whether its end has been seen, so that its number may be another's by now.
    gone: bool,
    /// With which code it ended, unless by a signal.
    status: Option<c_int>,
    output: File,
}

/// Where a program's instructions and its variables lie.
pub(super) struct Image {
    pub(super) code: Range<u64>,
    data: Range<u64>,
}

impl<'a> Lab<'a> {
    pub(super) fn new(shell: &'a CStr, env: &'a [*const c_char]) -> Option<Lab<'a>> {
        let (end, variables) = env.split_last()?;
        if !end.is_null() {
            return None;
        }
        for variable in variables {
            if variable.is_null() {
                return None;
            }
            // SAFETY: the caller's list is one for `execve`: each entry is a text that lives as long as the list.
            let variable = unsafe { CStr::from_ptr(*variable) };
            if variable.to_bytes().starts_with(b"BASH_ENV=") {
                return None;
            }
        }
        let arguments = [shell.as_ptr(), c"-c".as_ptr(), PLACEHOLDER.as_ptr().cast(), ptr::null()];
        Some(Lab { shell, env, arguments, filter: seccomp::inner(&[]) })
    }

    /// Starts the shell and waits for its first instruction.
    pub(super) fn start(&self) -> Option<Run> {
        let (child, output) = self.spawn()?;
        let mut run = Run { child, start: Start::default(), gone: false, status: None, output };
        run.start = run.note(trace::wait_for_exec(child, &mut trace::standstill))?;
        Some(run)
    }

    /// Whether the shell, brought to a stop by `way`, obeys a text that is written then. Gives nothing but success.
    pub(super) fn obeys(&self, way: impl FnOnce(&mut Run) -> Option<()>) -> Option<()> {
        // Each hasher has keys of its own, so nobody can know what it gives.
        let token = RandomState::new().build_hasher().finish().to_string();
        let mut run = self.start()?;
        way(&mut run)?;
        // It ends with a command: a shell that had looked for the end of its text would read on into the zeros.
        let shown = run.answer(format!("echo {token}\n(exit 7)").as_bytes())?;
        (shown == format!("{token}\n").as_bytes() && run.status == Some(7)).then_some(())
    }

    /// What the shell prints for `text` if everything goes the way of a member, and it ends with `status`.
    pub(super) fn whole(&self, stop: &Stop, text: &[u8], status: c_int) -> Option<Vec<u8>> {
        let (child, output) = self.spawn()?;
        let mut run = Run { child, start: Start::default(), gone: false, status: None, output };
        let standing = run.note(run_to_stop(child, stop, &mut trace::standstill))?;
        release(child, &standing, text).ok()?;
        let shown = run.finish()?;
        (run.status == Some(status)).then_some(shown)
    }

    /// A child that executes the shell, followed by this process.
    fn spawn(&self) -> Option<(pid_t, File)> {
        let (output, theirs) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let (nothing, _) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        // SAFETY: the child makes only calls that are safe after a fork, see `become_shell`.
        match unsafe { libc::fork() } {
            -1 => None,
            0 => self.become_shell(&nothing, &theirs),
            child => Some((child, File::from(output))),
        }
    }

    /// Never returns; allocates nothing.
    fn become_shell(&self, stdin: &OwnedFd, output: &OwnedFd) -> ! {
        // SAFETY: the descriptors are open; the set and the texts live until the end; signals that could end the child
        // early do so.
        unsafe {
            let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
            libc::signal(libc::SIGTRAP, libc::SIG_DFL);
            libc::signal(libc::SIGALRM, libc::SIG_DFL);
            libc::dup2(stdin.as_raw_fd(), 0);
            libc::dup2(output.as_raw_fd(), 1);
            libc::dup2(output.as_raw_fd(), 2);
            libc::syscall(libc::SYS_close_range, 3, c_int::MAX, libc::CLOSE_RANGE_CLOEXEC);
            libc::alarm(ALARM_SECONDS);
            let held = trace::ask()
                .and_then(|()| confine::no_new_privs())
                .and_then(|()| confine::install(&self.filter));
            if held.is_ok() {
                libc::execve(self.shell.as_ptr(), self.arguments.as_ptr(), self.env.as_ptr());
            }
            libc::_exit(127)
        }
    }
}

impl Run {
    /// Lets it go on in the way of `how` to its next event.
    pub(super) fn next(&mut self, how: c_uint) -> Option<Event> {
        trace::resume(how, self.child, 0).ok()?;
        self.wait()
    }

    fn wait(&mut self) -> Option<Event> {
        let event = trace::wait(self.child, &mut trace::standstill).ok()?;
        if let Event::Gone(status) = event {
            self.gone = true;
            self.status = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        }
        Some(event)
    }

    /// Lets it run until it has left its system call of that number, counted from 0.
    pub(super) fn run_past_call(&mut self, call: usize) -> Option<()> {
        (0..2 * call + 2).all(|_| self.next(libc::PTRACE_SYSCALL) == Some(Event::Call)).then_some(())
    }

    /// Lets it run from its first instruction to `stop`.
    pub(super) fn run_to(&mut self, stop: &Stop) -> Option<()> {
        let reached = run_from_start(self.child, &self.start, stop, &mut trace::standstill);
        self.note(reached)
    }

    /// What came of following it; an error may say that it is gone.
    fn note<T>(&mut self, result: Result<T, c_int>) -> Option<T> {
        self.gone |= matches!(result, Err(GONE));
        result.ok()
    }

    /// Writes `text` over the placeholder and lets it go; what it prints until its end.
    pub(super) fn answer(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let standing = Standing { text: self.start.text, copy: None, clock: None };
        standing.write(self.child, &NOTHING, &[]).ok()?;
        release(self.child, &standing, text).ok()?;
        self.finish()
    }

    /// Waits for its end and takes what it printed.
    fn finish(&mut self) -> Option<Vec<u8>> {
        // A text of this module prints less than a pipe holds, so its end comes without a reader.
        while !matches!(self.wait()?, Event::Gone(_)) {}
        rustix::io::ioctl_fionbio(&self.output, true).ok()?;
        let mut shown = vec![0; MOST_OUTPUT];
        let length = self.output.read(&mut shown).ok()?;
        shown.truncate(length);
        Some(shown)
    }

    /// Replaces one byte of its memory, whatever the protection there.
    pub(super) fn set_byte(&mut self, address: u64, byte: u8) -> Option<()> {
        let word = trace::peek(self.child, address).ok()?;
        trace::poke(self.child, address, word & !0xff | u64::from(byte)).ok()
    }

    /// Where the placeholder starts that has a byte at `address`, if it is whole.
    pub(super) fn placeholder_around(&self, address: u64) -> Option<u64> {
        let before = TEXT_BYTES as u64;
        let mut around = vec![0; 2 * TEXT_BYTES];
        trace::read(self.child, [(around.as_mut_slice(), address.checked_sub(before)?)]).ok()?;
        let start = around.get(..TEXT_BYTES)?.iter().rposition(|byte| *byte != b' ')? + 1;
        around.get(start..)?.starts_with(&PLACEHOLDER).then(|| address - before + start as u64)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.child, libc::SIGKILL) };
        while self.wait().is_some() && !self.gone {}
    }
}

impl Image {
    /// Reads the program headers of a run.
    pub(super) fn read(run: &Run) -> Option<Image> {
        const LOADED: u32 = 1;
        const HEADERS: u32 = 6;
        const EXECUTABLE: u32 = 1;
        const WRITABLE: u32 = 2;
        let count = usize::try_from(run.start.header_count).ok().filter(|count| *count <= 64)?;
        let mut bytes = vec![0; count * size_of::<libc::Elf64_Phdr>()];
        trace::read(run.child, [(bytes.as_mut_slice(), run.start.headers)]).ok()?;
        let headers: Vec<Header> =
            bytes.chunks_exact(size_of::<libc::Elf64_Phdr>()).map(Header::parse).collect();
        // A program without this header is one that is not moved.
        let own = headers.iter().find(|header| header.kind == HEADERS);
        let moved = own.map_or(0, |own| run.start.headers.wrapping_sub(own.address));
        let loaded = |flag: u32| {
            headers.iter().find(|header| header.kind == LOADED && header.flags & flag != 0).map(|header| {
                let start = moved.wrapping_add(header.address);
                start..start.saturating_add(header.length)
            })
        };
        Some(Image { code: loaded(EXECUTABLE)?, data: loaded(WRITABLE)? })
    }

    /// The program's variables as words, each with its place relative to the entry.
    pub(super) fn words(&self, run: &Run) -> Option<Vec<(u64, u64)>> {
        let start = self.data.start.next_multiple_of(8);
        let length = self.data.end.checked_sub(start).filter(|length| *length <= MOST_DATA)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        trace::read(run.child, [(bytes.as_mut_slice(), start)]).ok()?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let first = start.wrapping_sub(run.start.entry);
        Some(words.enumerate().map(|(index, word)| (first.wrapping_add(8 * index as u64), word)).collect())
    }
}

/// The parts of a program header that are used here.
struct Header {
    kind: u32,
    flags: u32,
    address: u64,
    length: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Header {
        Header {
            kind: number(bytes, 0) as u32,
            flags: number(bytes, 4) as u32,
            address: number(bytes, 16),
            length: number(bytes, 40),
        }
    }
}

/// The word at `at`, of which the caller may use a part.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
