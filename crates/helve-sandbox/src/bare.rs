//! The backend `none`: the shell as a plain child process. The owner chose it by writing `sandbox = "none"`.
//!
//! What it still gives: a clean environment, closed descriptors, limits, a checked starting directory, and an end of
//! the whole tree. What it does not give: any protection of files, network or other processes. A hostile command can
//! kill its own supervisor, which is a process of the same user, and outlive the call.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use helve_core::{ErrorKind, Exit, ProcessLimits, ShellJob, ToolError, View};

use crate::call::Sandbox;
use crate::drain::{Drained, Order};
use crate::program;
use crate::spawn;
use crate::sys::Program;
use crate::workdir;

/// Runs commands without a sandbox.
#[derive(Debug)]
pub(crate) struct Bare {
    view: View,
    limits: ProcessLimits,
}

impl Bare {
    pub(crate) fn new(view: View, limits: ProcessLimits) -> Self {
        Bare { view, limits }
    }
}

/// Where a program lies; a bare name is looked up in the command's own `PATH`.
pub(crate) fn locate(view: &View, name: &OsStr) -> Result<PathBuf, ToolError> {
    let path = PathBuf::from(name);
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(path);
    }
    let name = path.display().to_string();
    let list = view.env.get("PATH").map_or("", String::as_str);
    program::find(&name, OsStr::new(list), |_| false).ok_or_else(|| {
        ToolError::new(ErrorKind::SandboxUnavailable, format!("The program {name} is not in PATH ({list})."))
            .hint("Install it, or give its absolute path; a shell is set with tools.exec.shell.")
    })
}

/// Without a pid namespace the tree is found through the kernel's lists of children; without those it would not be.
pub(crate) fn tree_can_be_ended() -> Result<(), ToolError> {
    if Path::new("/proc/thread-self/children").exists() {
        return Ok(());
    }
    let message =
        "The kernel does not list the children of a process, so a command's tree could not be ended.";
    Err(ToolError::new(ErrorKind::SandboxUnavailable, message)
        .hint("Mount /proc, and use a kernel with CONFIG_PROC_CHILDREN; or use the sandbox \"bwrap\"."))
}

impl Sandbox for Bare {
    const NAME: &'static str = "none";

    fn order(&self, job: &ShellJob) -> Result<Order, ToolError> {
        tree_can_be_ended()?;
        let directory = workdir::open(&self.view, job.working_dir.as_deref())?;
        let words = program::words(&self.view, job);
        let (name, arguments) = words.split_first().ok_or_else(program::nothing_to_run)?;
        let path = locate(&self.view, name)?;
        let arguments = arguments.iter().map(OsString::as_os_str);
        let program = Program::new(path.as_os_str(), arguments, &self.view.env).map_err(spawn::bad_text)?;
        Ok(Order::plain(program, directory.fd, self.limits))
    }

    fn exit(&self, drained: &Drained) -> Result<Exit, ToolError> {
        spawn::plain_exit(drained.ending, &self.view.shell.display().to_string())
    }
}
