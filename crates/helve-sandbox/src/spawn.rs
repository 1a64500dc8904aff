//! The async half of a call: waits for the end, the deadline or the cancellation, and cuts the lifeline at the latter
//! two.
//!
//! In: an [`Order`], the sink, the deadline. Out: an [`Outcome`]. Dropping the future cuts the lifeline too, because it
//! owns the lifeline's other end. Nothing here blocks the async runtime: pipes and processes live on a thread of their own.
//! It is not one of the runtime's: those are waited for when the runtime shuts down, and a process that cannot be killed
//! (one that `sudo` started, for example) would hold up the whole program.

use std::io;
use std::pin::pin;
use std::time::Duration;

use helve_core::{Cancel, ErrorKind, Exit, LimitHit, OutputSink, ProcessLimits, Removed, ToolError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::drain::{self, Drained, Order};
use crate::native::wire::Bound;
use crate::sys::{Ending, Stage};

/// How a call ended, seen from the caller.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// By itself.
    Ended(Drained),
    /// The deadline passed.
    TimedOut,
    /// It was taken back.
    Cancelled,
}

/// How long the tree may take to die before the answer is given without waiting for it. Only a process that the
/// kernel itself holds, or that belongs to another user, takes longer; the supervisor stays with it.
const GRACE: Duration = Duration::from_secs(2);

/// Runs the order under a deadline. Besides how it ended: what was taken away of what it left at protected places.
pub(crate) async fn run(
    order: Order,
    timeout: Duration,
    sink: Box<dyn OutputSink>,
    mut signals: Option<UnboundedReceiver<i32>>,
    cancel: &Cancel,
) -> Result<(Outcome, Vec<Removed>), ToolError> {
    if cancel.is_cancelled() {
        return Ok((Outcome::Cancelled, Vec::new()));
    }
    let (lifeline, hold) = drain::pipe().map_err(no_process)?;
    rustix::io::ioctl_fionbio(&hold, true).map_err(|errno| no_process(errno.into()))?;
    let (answer, mut work) = oneshot::channel();
    let run = move || drain::run(order, sink, lifeline, answer);
    std::thread::Builder::new().name("helve-drain".to_owned()).spawn(run).map_err(no_process)?;
    let mut deadline = pin!(tokio::time::sleep(timeout));
    let stopped = loop {
        tokio::select! {
            biased;
            done = &mut work => {
                let done = done.map_err(|_| ToolError::internal("The thread that reads the output failed."))?;
                // Nobody has cut the lifeline, so there is a result.
                return match done.map_err(no_process)? {
                    Some(mut drained) => {
                        let removed = std::mem::replace(&mut drained.removed, Ok(Vec::new()));
                        Ok((Outcome::Ended(drained), removed.map_err(not_swept)?))
                    }
                    None => Err(ToolError::internal("The command's lifeline was cut before it began.")),
                };
            }
            () = cancel.cancelled() => break Outcome::Cancelled,
            () = &mut deadline => break Outcome::TimedOut,
            signal = next_signal(&mut signals) => {
                // A pipe full of signals says no more than one.
                let _ = rustix::io::write(&hold, &[signal]);
            }
        }
    };
    drop(hold);
    // Until the tree is dead its last bytes are still on their way into the sink.
    let removed = match tokio::time::timeout(GRACE, work).await {
        Ok(Ok(Ok(Some(drained)))) => drained.removed.map_err(not_swept)?,
        // The thread sweeps when the tree is gone, however long that takes.
        _ => Vec::new(),
    };
    Ok((stopped, removed))
}

/// The next signal for the command, as the supervisor reads it; for ever if there will be none.
pub(crate) async fn next_signal(signals: &mut Option<UnboundedReceiver<i32>>) -> u8 {
    if let Some(signals) = signals {
        while let Some(signal) = signals.recv().await {
            if let Ok(signal @ 1..) = u8::try_from(signal) {
                return signal;
            }
        }
    }
    std::future::pending().await
}

/// What an ending means for a command that runs without a sandbox program between.
pub(crate) fn plain_exit(ending: Ending, program: &str) -> Result<Exit, ToolError> {
    match ending {
        Ending::Exited(code) => Ok(Exit::Code(code)),
        Ending::Signaled(signal) => Ok(Exit::Signal(signal)),
        Ending::NotStarted(stage, errno) => Err(not_started(stage, errno, program)),
        Ending::Unknown => Err(supervisor_lost()),
    }
}

/// The bound that an ending shows: one for which the command was ended, or one whose passing is a signal.
pub(crate) fn limit_hit(bound: Option<Bound>, exit: Exit, limits: &ProcessLimits) -> Option<LimitHit> {
    match (bound, exit) {
        (Some(Bound::Memory), _) => Some(LimitHit::Memory(limits.memory_bytes)),
        (Some(Bound::Processes), _) => Some(LimitHit::Processes(limits.processes)),
        (Some(Bound::Cpu), _) | (None, Exit::Signal(libc::SIGXCPU)) => {
            Some(LimitHit::Cpu(limits.cpu_seconds))
        }
        (Some(Bound::Disk), _) => Some(LimitHit::Disk(limits.disk_bytes)),
        // One file may grow as far as the nearer of the two bounds.
        (None, Exit::Signal(libc::SIGXFSZ)) if limits.disk_bytes < limits.file_bytes => {
            Some(LimitHit::Disk(limits.disk_bytes))
        }
        (None, Exit::Signal(libc::SIGXFSZ)) => Some(LimitHit::File(limits.file_bytes)),
        (None, Exit::Signal(libc::SIGSYS)) => Some(LimitHit::SystemCall),
        (None, _) => None,
    }
}

/// The error for a program that could not be started.
pub(crate) fn not_started(stage: Stage, errno: i32, program: &str) -> ToolError {
    let cause = io::Error::from_raw_os_error(errno);
    if stage == Stage::Program && errno == libc::E2BIG {
        return ToolError::new(
            ErrorKind::TooLarge,
            "The command is longer than the kernel passes to a process.",
        )
        .hint("Write it into a file of the workspace and run that file.");
    }
    let error = ToolError::new(
        ErrorKind::SandboxUnavailable,
        format!("{program} could not be started: {}: {cause}", stage.describe()),
    );
    match stage {
        Stage::Program => error.hint(format!("Install {program}, or name another in the configuration.")),
        Stage::Descriptors => error.hint("Use Linux 5.9 or newer."),
        Stage::Identity => error
            .hint("Give Helve the capabilities CAP_SETUID and CAP_SETGID, or run it as an ordinary user."),
        Stage::Landlock | Stage::Seccomp => error.hint(
            "Look for what forbids it around Helve (a container's filter), or use the sandbox \"bwrap\".",
        ),
        Stage::Keyring => {
            error.hint("Raise the sysctl kernel.keys.maxkeys, or run fewer commands at a time.")
        }
        _ => error.hint("Check the limits on processes, memory and open files of the user who runs Helve."),
    }
}

/// The error for a supervisor that was killed from outside.
pub(crate) fn supervisor_lost() -> ToolError {
    ToolError::failed("The process that supervises the command was killed; how the command ended is not known.")
        .hint("Look for whoever kills processes here: the out-of-memory killer, or the command itself when it runs bare.")
}

/// The error for a call that failed on Helve's own side.
pub(crate) fn no_process(error: io::Error) -> ToolError {
    ToolError::internal(format!("The command could not be run: {error}"))
        .hint("Check the limits on processes, memory and open files of the user who runs Helve.")
}

/// The error for a workspace whose protected places are not known to be as they were.
pub(crate) fn not_swept(error: io::Error) -> ToolError {
    ToolError::internal(format!("The command ended, but protected paths could not be kept: {error}"))
        .hint("Look at what it left there before you use git, an editor or a shell in this workspace.")
}

/// The error for a workspace that cannot be protected while a command runs.
pub(crate) fn not_protected(error: io::Error) -> ToolError {
    let message = format!("The protected paths of the workspace cannot be guarded: {error}");
    ToolError::new(ErrorKind::SandboxUnavailable, message)
        .hint("Remove what is named, use a workspace that this user may read, and Linux 5.9 or newer, or a sandbox with mounts (native, bwrap); view.protected = [] protects nothing, files.deny_read = [] hides nothing.")
}

/// The error for text that no process can be given.
pub(crate) fn bad_text(_: io::Error) -> ToolError {
    ToolError::new(ErrorKind::InvalidParams, "The command or its environment contains a NUL byte.")
        .hint("Write \\0 with printf inside the command where a NUL byte is needed.")
}
