//! The backend `wrapper`: the owner's own command template around each command.
//!
//! In: the template of `tools.exec.commandWrapper`. The rendered line is read by `sh -c` with the view's environment, in
//! the starting directory, under the same supervisor as every command. What the wrapper keeps in or out cannot be verified
//! here, so it reports no layers and does not count as contained. Quoting is `helve-shell`'s work.

use std::ffi::OsStr;

use helve_core::{ErrorKind, Exit, ProcessLimits, ShellJob, ToolError, View, Work};
use helve_shell::Template;

use crate::bare::tree_can_be_ended;
use crate::call::Sandbox;
use crate::drain::{Drained, Order};
use crate::spawn;
use crate::sys::Program;
use crate::workdir;

/// The shell that reads the rendered line; templates are written for it.
const SHELL: &str = "/bin/sh";

/// Runs commands inside the owner's template.
#[derive(Debug)]
pub(crate) struct Wrapper {
    template: Template,
    view: View,
    limits: ProcessLimits,
}

impl Wrapper {
    pub(crate) fn new(template: &str, view: View, limits: ProcessLimits) -> Result<Self, ToolError> {
        let template = Template::parse(template).map_err(|error| {
            ToolError::new(
                ErrorKind::SandboxUnavailable,
                format!("The command wrapper cannot be used: {error}"),
            )
            .hint("Correct tools.exec.commandWrapper, for example: firejail --private={cwd} -- {command}")
        })?;
        Ok(Wrapper { template, view, limits })
    }
}

impl Sandbox for Wrapper {
    const NAME: &'static str = "wrapper";

    fn order(&self, job: &ShellJob) -> Result<Order, ToolError> {
        tree_can_be_ended()?;
        let directory = workdir::open(&self.view, job.working_dir.as_deref())?;
        let cwd = directory.path.to_str().ok_or_else(|| {
            ToolError::failed("The command wrapper cannot be given a directory whose name is not UTF-8.")
                .hint("Rename the directory, or choose another working_dir.")
        })?;
        let command = match &job.work {
            Work::Shell(text) => text.clone(),
            Work::Program(words) => {
                let words: Vec<_> = words.iter().map(|word| helve_shell::quote(word)).collect();
                words.join(" ")
            }
        };
        let line = self.template.render(&command, cwd).map_err(|error| {
            ToolError::new(ErrorKind::InvalidParams, format!("The command cannot be wrapped: {error}"))
        })?;
        let arguments = ["-c", &line].map(OsStr::new);
        let program = Program::new(OsStr::new(SHELL), arguments, &self.view.env).map_err(spawn::bad_text)?;
        Ok(Order::plain(program, directory.fd, self.limits))
    }

    fn exit(&self, drained: &Drained) -> Result<Exit, ToolError> {
        spawn::plain_exit(drained.ending, SHELL)
    }
}
