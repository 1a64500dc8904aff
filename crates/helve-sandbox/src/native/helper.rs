//! The helper: this program started again, which becomes a zygote before it does anything else.
//!
//! A program that embeds the sandbox is asked for nothing where its start can be looked at early (see
//! `sys::early`); elsewhere it calls [`run_helper_if_asked`] first in its `main`. A program that can do neither names
//! another one with [`use_helper`]. In: the encoded setup. Out: a child process and Helve's end of its control socket.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use helve_core::{ErrorKind, ToolError};

use super::socket;
use super::wire::HELPER_NAME;
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
    if std::env::args_os().next().is_some_and(|name| name == HELPER_NAME) {
        crate::sys::native::zygote_main();
    }
}

/// Names another program as the sandbox's helper: one whose `main` calls [`run_helper_if_asked`] first. For programs
/// that cannot do so themselves.
pub fn use_helper(program: PathBuf) {
    *OTHER.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(program);
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
    pub(super) child: Child,
    /// Helve's end of `control`.
    pub(super) control: OwnedFd,
}

/// Starts a helper with an encoded setup.
pub(super) fn start(setup: &[u8]) -> Result<Started, ToolError> {
    let (control, theirs) = socket::pair().map_err(|errno| spawn::no_process(errno.into()))?;
    let setup = memory_file("setup", setup).map_err(spawn::no_process)?;
    let program = program().ok_or_else(no_helper)?;
    // Without a hook between fork and exec the standard library uses posix_spawn, whose cost does not grow with the
    // memory of this process.
    let mut command = Command::new(&program);
    command.arg0(HELPER_NAME).env_clear().current_dir("/");
    command.stdin(theirs).stdout(setup).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| {
        let message =
            format!("The sandbox's helper process could not be started from {}: {error}", program.display());
        ToolError::new(ErrorKind::SandboxUnavailable, message).hint(
            "Check that /proc is mounted, and the limits on processes and memory of the user who runs Helve.",
        )
    })?;
    Ok(Started { child, control })
}

/// The program to start. The kernel resolves the link to the file that runs, even if another has taken its name.
fn program() -> Option<PathBuf> {
    let other = OTHER.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
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
    use std::collections::BTreeMap;
    use std::os::fd::AsFd;

    use helve_core::{Network, ProcessLimits, View};
    use rustix::event::{PollFd, PollFlags};

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
        let Started { mut child, control } = start(&setup.encode()).unwrap();
        rustix::event::poll(&mut [PollFd::new(&control, PollFlags::IN)], None).unwrap();
        let mut bytes = [0; RECORD_BYTES];
        let (count, _) = socket::receive(control.as_fd(), &mut bytes).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
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
