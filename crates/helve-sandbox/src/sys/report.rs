//! What the supervisor tells Helve through its pipe: one record of sixteen bytes, when the tree is gone.

use std::io;
use std::os::fd::BorrowedFd;

use libc::c_int;

use crate::native::wire::Bound;

/// The step at which a command could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Stage {
    /// Becoming the reaper of orphans.
    Supervise = 2,
    /// Closing the descriptors that the command must not have.
    Descriptors = 3,
    /// Making the process.
    Process = 4,
    /// Giving it its standard streams.
    Streams = 5,
    /// Entering its directory.
    Directory = 6,
    /// Setting its limits.
    Limits = 7,
    /// Executing its program.
    Program = 8,
    /// Taking a session keyring of its own.
    Keyring = 9,
    /// Becoming another user than root.
    Identity = 10,
    /// Giving up capabilities.
    Capabilities = 11,
    /// Restricting its files.
    Landlock = 12,
    /// Filtering its system calls.
    Seccomp = 13,
}

const EXITED: i32 = 0;
const SIGNALED: i32 = 1;

impl Stage {
    fn from_tag(tag: i32) -> Option<Stage> {
        const ALL: [Stage; 12] = [
            Stage::Supervise,
            Stage::Descriptors,
            Stage::Process,
            Stage::Streams,
            Stage::Directory,
            Stage::Limits,
            Stage::Program,
            Stage::Keyring,
            Stage::Identity,
            Stage::Capabilities,
            Stage::Landlock,
            Stage::Seccomp,
        ];
        ALL.into_iter().find(|stage| *stage as i32 == tag)
    }

    /// What could not be done, as words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Stage::Supervise => "its supervisor could not take over",
            Stage::Descriptors => "descriptors could not be closed",
            Stage::Process => "no process could be made",
            Stage::Streams => "its output could not be connected",
            Stage::Directory => "its directory could not be entered",
            Stage::Limits => "its limits could not be set",
            Stage::Program => "its program could not be executed",
            Stage::Keyring => "it could not be given a session keyring of its own",
            Stage::Identity => "it could not become another user than root",
            Stage::Capabilities => "capabilities could not be given up",
            Stage::Landlock => "Landlock could not be applied",
            Stage::Seccomp => "the system call filter could not be applied",
        }
    }
}

/// How the supervised command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It never began: at this step, with this `errno`.
    NotStarted(Stage, i32),
    /// The supervisor itself was killed and said nothing.
    Unknown,
}

/// What a supervisor has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// How the command ended.
    pub(crate) ending: Ending,
    /// The bound that it passed, for which it was ended.
    pub(crate) bound: Option<Bound>,
    /// How many processes were still running when the command itself had ended.
    pub(crate) left_running: u64,
}

impl Told {
    fn only(ending: Ending) -> Told {
        Told { ending, bound: None, left_running: 0 }
    }
}

/// Reads the record. `None` if it has not come yet.
pub(crate) fn read_report(pipe: BorrowedFd<'_>) -> Option<Told> {
    let mut bytes = [0_u8; 16];
    loop {
        return match rustix::io::read(pipe, &mut bytes) {
            Ok(16) => Some(decode(bytes)),
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::AGAIN) => None,
            Ok(_) | Err(_) => Some(Told::only(Ending::Unknown)),
        };
    }
}

fn decode(bytes: [u8; 16]) -> Told {
    let (words, _) = bytes.as_chunks::<4>();
    let mut numbers = words.iter().map(|word| i32::from_ne_bytes(*word));
    let mut next = || numbers.next().unwrap_or(-1);
    let (tag, value, bound, left) = (next(), next(), next(), next());
    let ending = match tag {
        EXITED => Ending::Exited(value),
        SIGNALED => Ending::Signaled(value),
        other => Stage::from_tag(other).map_or(Ending::Unknown, |stage| Ending::NotStarted(stage, value)),
    };
    let bound = u32::try_from(bound).ok().and_then(Bound::from_number);
    Told { ending, bound, left_running: u64::try_from(left).unwrap_or(0) }
}

/// Writes what `waitpid` said, the bound that was passed, and how many processes were left. Async-signal-safe.
pub(super) fn send_status(pipe: c_int, status: c_int, bound: Option<Bound>, left: u32) {
    let bound = bound.map_or(0, |bound| bound as i32);
    let left = i32::try_from(left).unwrap_or(i32::MAX);
    if libc::WIFSIGNALED(status) {
        send(pipe, [SIGNALED, libc::WTERMSIG(status), bound, left]);
    } else {
        send(pipe, [EXITED, libc::WEXITSTATUS(status), bound, left]);
    }
}

/// Writes that the command never began. Async-signal-safe.
pub(super) fn send_failure(pipe: c_int, stage: Stage, errno: c_int) {
    send(pipe, [stage as i32, errno, 0, 0]);
}

fn send(pipe: c_int, record: [i32; 4]) {
    // SAFETY: `record` lives through the call and is sixteen bytes long. A pipe takes so few bytes whole; if nobody
    // reads any more there is nobody to tell.
    let _ = unsafe { libc::write(pipe, record.as_ptr().cast(), size_of_val(&record)) };
}

/// The calling thread's `errno`.
pub(super) fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;

    #[test]
    fn every_record_comes_back_as_it_was_sent() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let exit_3 = 3 << 8;
        send_status(writer.as_raw_fd(), exit_3, None, 7);
        let told = Told { ending: Ending::Exited(3), bound: None, left_running: 7 };
        assert_eq!(read_report(reader.as_fd()), Some(told));
        send_status(writer.as_raw_fd(), libc::SIGTERM, Some(Bound::Memory), 0);
        let ending = Ending::Signaled(libc::SIGTERM);
        let told = Told { ending, bound: Some(Bound::Memory), left_running: 0 };
        assert_eq!(read_report(reader.as_fd()), Some(told));
        for tag in 2..=13 {
            let stage = Stage::from_tag(tag).unwrap();
            send_failure(writer.as_raw_fd(), stage, libc::ENOENT);
            assert_eq!(
                read_report(reader.as_fd()),
                Some(Told::only(Ending::NotStarted(stage, libc::ENOENT)))
            );
        }
        drop(writer);
        assert_eq!(read_report(reader.as_fd()), Some(Told::only(Ending::Unknown)));
    }
}
