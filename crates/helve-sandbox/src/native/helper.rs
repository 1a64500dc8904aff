//! The helper: this program started again, which becomes a zygote before it does anything else.
//!
//! A program that embeds the sandbox is asked for nothing where its start can be looked at early (see
//! `sys::early`); elsewhere it calls [`run_helper_if_asked`] first in its `main`. A program that can do neither names
//! another one with [`use_helper`]. One that is certain to run a command forks its first helper at its own beginning, with
//! [`helper_ahead`]. In: the encoded setup. Out: a child process and Helve's end of its control socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use helve_core::{ErrorKind, ToolError};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use super::socket;
use super::wire::{HELPER_NAME, SETUP};
use crate::drain::memory_file;
use crate::spawn;

/// Whether this program, started again, would look whether it is asked to be the helper.
static LOOKS: AtomicBool = AtomicBool::new(false);

/// Another program that looks.
static OTHER: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Becomes the sandbox's helper process or the one that the probe tries it with, and then never returns, if this process
/// was started to be one of them.
///
/// Call it first in `main`, before threads and before arguments are read. It costs nothing in an ordinary start.
pub fn run_helper_if_asked() {
    LOOKS.store(true, Ordering::Relaxed);
    crate::probe::run_if_asked(std::env::args_os());
    crate::container::run_bare_helper_if_asked();
    if std::env::args_os().next().is_some_and(|name| name == HELPER_NAME) {
        crate::sys::native::zygote_main();
    }
}

/// Names another program as the sandbox's helper: one whose `main` calls [`run_helper_if_asked`] first. For programs
/// that cannot do so themselves.
pub fn use_helper(program: PathBuf) {
    *OTHER.write().unwrap_or_else(PoisonError::into_inner) = Some(program);
}

/// Whether there is a program to start.
pub(super) fn is_there() -> Result<(), ToolError> {
    startable().map(drop)
}

/// The program that can be started as a helper.
pub(crate) fn startable() -> Result<PathBuf, ToolError> {
    program().ok_or_else(no_helper)
}

/// A zygote that was started.
#[derive(Debug)]
pub(super) struct Started {
    /// The process.
    pub(super) process: Process,
    /// Helve's end of `control`.
    pub(super) control: OwnedFd,
}

/// A child of this process, whose number stays its own until it is waited for.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pid: Pid,
    handle: Arc<OwnedFd>,
}

impl Process {
    /// The child of that number.
    pub(super) fn of(pid: Pid) -> Result<Process, Errno> {
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Process { pid, handle: Arc::new(handle) })
    }

    /// Its number.
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_pid().cast_unsigned()
    }

    /// Can be read once it has ended.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        (*self.handle).as_fd()
    }

    /// Ends it, and with it every member.
    pub(super) fn kill(&self) {
        // An error means that it has ended already.
        let _ = rustix::process::pidfd_send_signal(self.handle(), Signal::KILL);
    }

    /// Waits until it has ended.
    pub(super) fn wait(&self) {
        let wait = || rustix::process::waitid(WaitId::PidFd(self.handle()), WaitIdOptions::EXITED);
        // An error means that somebody else has waited for it.
        let _ = rustix::io::retry_on_intr(wait);
    }
}

/// A helper that waits to be told what it is for.
static AHEAD: Mutex<Option<Started>> = Mutex::new(None);

fn ahead() -> Option<Started> {
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Keeps a helper that was forked with [`helper_ahead`]; ends it if nothing has used it.
#[derive(Debug)]
#[must_use = "dropping it ends the helper"]
pub struct HelperAhead(());

impl Drop for HelperAhead {
    fn drop(&mut self) {
        if let Some(Started { process, .. }) = ahead() {
            process.kill();
            process.wait();
        }
    }
}

/// Forks the sandbox's helper process now, so that it makes ready while this one finds out what it is to run.
///
/// For a program that runs one command and ends: call it at the beginning of `main`, when it is certain that a command
/// comes, and before threads are started and secrets are read. With other threads it does nothing; the sandbox starts its
/// helper when it needs one.
pub fn helper_ahead() -> HelperAhead {
    let started = socket::pair().ok().and_then(|(control, theirs)| {
        let pid = crate::sys::native::fork_zygote(theirs).ok()??;
        // Where it cannot be held, its control socket closes, which ends it.
        Some(Started { process: Process::of(pid).ok()?, control })
    });
    *AHEAD.lock().unwrap_or_else(PoisonError::into_inner) = started;
    HelperAhead(())
}

/// Starts a helper with an encoded setup, or takes the one that waits for it.
pub(super) fn start(setup: &[u8]) -> Result<Started, ToolError> {
    let setup = memory_file("setup", setup).map_err(spawn::no_process)?;
    let tell =
        |started: &Started| socket::send(started.control.as_fd(), &[&SETUP.to_ne_bytes()], &[setup.as_fd()]);
    // One that has gone is replaced like one that never was.
    if let Some(started) = ahead() {
        if tell(&started).is_ok() {
            return Ok(started);
        }
        started.process.kill();
        started.process.wait();
    }
    let started = spawn_helper()?;
    tell(&started).map_err(|errno| spawn::no_process(errno.into()))?;
    Ok(started)
}

fn spawn_helper() -> Result<Started, ToolError> {
    let (control, theirs) = socket::pair().map_err(|errno| spawn::no_process(errno.into()))?;
    let program = program().ok_or_else(no_helper)?;
    // Without a hook between fork and exec the standard library uses posix_spawn, whose cost does not grow with the
    // memory of this process.
    let mut command = Command::new(&program);
    command.arg0(HELPER_NAME).env_clear().current_dir("/");
    command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| {
        let message =
            format!("The sandbox's helper process could not be started from {}: {error}", program.display());
        ToolError::new(ErrorKind::SandboxUnavailable, message).hint(
            "Check that /proc is mounted, that there is a /dev/null, and the limits on processes and memory of the user who \
             runs Helve.",
        )
    })?;
    // It is not waited for before its record is dropped, so its number is its own.
    let process = Process::of(Pid::from_child(&child)).map_err(|errno| spawn::no_process(errno.into()))?;
    Ok(Started { process, control })
}

/// The program to start. The kernel resolves the link to the file that runs, even if another has taken its name.
fn program() -> Option<PathBuf> {
    let other = OTHER.read().unwrap_or_else(PoisonError::into_inner).clone();
    other.or_else(|| LOOKS.load(Ordering::Relaxed).then(|| PathBuf::from("/proc/self/exe")))
}

fn no_helper() -> ToolError {
    ToolError::new(
        ErrorKind::SandboxUnavailable,
        "The sandbox native needs a helper process, and this program cannot be started as one.",
    )
    .hint(
        "Call helve::sandbox::run_helper_if_asked() first in main, or name a program that does with \
         helve::sandbox::use_helper.",
    )
}

#[cfg(test)]
mod tests {
    use helve_core::{Explain, Network, ProcessLimits, View};
    use rustix::event::{PollFd, PollFlags};
    use std::collections::BTreeMap;

    use super::*;
    use crate::native::records::RECORD_BYTES;
    use crate::native::setup::Setup;
    use crate::native::wire::{Step, Told};
    use crate::native::zygote::Place;
    use crate::plan::rules;

    /// What a helper says first, whose workspace is expected to have these numbers.
    fn first_word(view: &View, identity: (u64, u64)) -> Told {
        let limits = ProcessLimits {
            open_files: 64,
            file_bytes: 1 << 20,
            memory_bytes: 1 << 30,
            processes: 64,
            cpu_seconds: 10,
            disk_bytes: 1 << 20,
            tmp_bytes: 1 << 20,
        };
        let setup = Setup::new(view, &rules::resolve(view).unwrap(), identity, limits).unwrap();
        let Started { process, control } = start(&setup.encode()).unwrap();
        rustix::event::poll(&mut [PollFd::new(&control, PollFlags::IN)], None).unwrap();
        let mut bytes = [0; RECORD_BYTES];
        let (count, _) = socket::receive(control.as_fd(), &mut bytes).unwrap();
        process.kill();
        process.wait();
        Told::from_bytes(&bytes[..count]).unwrap()
    }

    #[test]
    fn another_directory_in_the_workspaces_place_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let view = View {
            workspace: folder.path().to_owned(),
            read_only: Vec::new(),
            read_write: Vec::new(),
            hidden: Vec::new(),
            protected: Vec::new(),
            deny_read: Vec::new(),
            env: BTreeMap::new(),
            network: Network::Off,
            system_calls: Vec::new(),
            explain: Explain::Rare,
            shell: "/bin/sh".into(),
        };
        let (device, number) = Place::of(folder.path()).unwrap().numbers();
        let told = first_word(&view, (device, number));
        if told.tag != Told::READY {
            println!("skipped: no sandbox can be had here: {told:?}");
            return;
        }
        let told = first_word(&view, (device, number + 1));
        assert_eq!((told.tag, told.step, told.errno), (Told::BROKEN, Step::Mounts as u32, libc::ESTALE));
    }
}
