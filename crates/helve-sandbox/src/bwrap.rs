//! The backend `bwrap`: the installed bubblewrap builds the view out of namespaces and mounts.
//!
//! In: a view. `installed` finds the program, the plan of mounts becomes `options`,
//! `confine::seccomp` says which system calls are left out. The options go through a descriptor,
//! so that `/proc/1/cmdline` inside does not show them. bwrap itself runs outside and is started with no environment at
//! all: a variable such as `LD_PRELOAD` would have it run what the command left in the workspace. Only the command gets
//! the view's variables. Out: the command's exit, told apart from a failure of bwrap by what bwrap
//! writes to its status descriptor: it gives an exit code only for a command that was really executed.
//!
//! bwrap passes on a death by signal N as exit code 128 + N, as a shell does.

mod installed;
pub(crate) mod options;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use helve_core::{ErrorKind, Exit, LimitHit, Network, ProcessLimits, ShellJob, ToolError, View};
use serde_json::Value;

use crate::call::{Attached, Sandbox};
use crate::confine::seccomp::{self, Around};
use crate::drain::{self, Drained, Given, Order, memory_file};
use crate::namespaces;
use crate::native::wire::Bound;
use crate::plan::rules::Rules;
use crate::plan::{self, Wanted};
use crate::program;
use crate::protect::{Protection, Turn};
use crate::spawn;
use crate::sys::{Ending, Program};
use crate::workdir::{self, WorkDir};
use installed::Installed;
use options::{Content, Options};

/// Runs commands inside bubblewrap.
#[derive(Debug)]
pub(crate) struct Bwrap {
    view: View,
    rules: Rules,
    limits: ProcessLimits,
    installed: std::sync::OnceLock<Installed>,
    protection: Protection,
}

impl Bwrap {
    pub(crate) fn new(view: View, limits: ProcessLimits) -> Result<Self, ToolError> {
        for (name, value) in &view.env {
            check_variable(name, value)?;
        }
        let rules = plan::rules::resolve(&view)?;
        let protection =
            Protection::new(rules.workspace.real.clone(), view.protected.clone(), rules.denied.clone(), true);
        Ok(Bwrap { view, rules, limits, installed: std::sync::OnceLock::new(), protection })
    }

    /// The program, looked for until it is found, so that it may be installed while Helve runs.
    fn installed(&self) -> Result<&Installed, ToolError> {
        if let Some(known) = self.installed.get() {
            return Ok(known);
        }
        let found = installed::find(&self.rules)?;
        Ok(self.installed.get_or_init(|| found))
    }

    /// Every option, each ended by a NUL byte. The first descriptor in `inherited` is the status pipe; files made of
    /// memory are added to it.
    fn options(
        &self,
        installed: &Installed,
        start: &WorkDir,
        session: Session,
        turn: Option<&Turn>,
        inherited: &mut Vec<OwnedFd>,
    ) -> Result<Vec<u8>, ToolError> {
        let mut options = Options::default();
        // "All" takes some namespaces only where it can; the second and third word insist.
        options.add(["--unshare-all", "--unshare-user", "--unshare-cgroup"]);
        if self.view.network == Network::Host {
            options.add(["--share-net"]);
        }
        if installed.disables_userns {
            options.add(["--disable-userns"]);
        }
        options.add(["--die-with-parent", "--cap-drop", "ALL"]);
        if session == Session::New {
            options.add(["--new-session"]);
        }
        if let Some(status) = inherited.first() {
            options.add(["--json-status-fd", &status.as_raw_fd().to_string()]);
        }
        let wanted = Wanted {
            rules: &self.rules,
            home: self.view.env.get("HOME").map(Path::new),
            network: self.view.network,
            file_bytes: self.limits.file_bytes,
        };
        let mut plan = plan::plan(&wanted)?;
        plan.guard(&self.rules, &turn.map(Turn::guarded).unwrap_or_default());
        options::write(&plan, &mut options, |content| {
            let file = match content {
                Content::Bytes(bytes) => memory_file("file", bytes).map_err(spawn::no_process)?,
                Content::Of(path) => open_file(path)?,
            };
            let number = file.as_raw_fd();
            inherited.push(file);
            Ok(number)
        })?;
        if seccomp::exists() {
            let filter = seccomp::whole(Around::Namespaces, &self.view.system_calls);
            let file = memory_file("filter", &filter.bytes()).map_err(spawn::no_process)?;
            options.add(["--seccomp", &file.as_raw_fd().to_string()]);
            inherited.push(file);
        }
        options.add([OsStr::new("--chdir"), start.path.as_os_str()]);
        for (name, value) in &self.view.env {
            options.add(["--setenv", name, value]);
        }
        Ok(options.0)
    }

    fn setup_failed(&self, has_child: bool, code: i32, stderr: &[u8]) -> ToolError {
        let said = String::from_utf8_lossy(stderr);
        let said = match said.trim() {
            "" => format!("it said nothing and ended with exit code {code}"),
            said => said.to_owned(),
        };
        let unavailable = |message: String| ToolError::new(ErrorKind::SandboxUnavailable, message);
        if has_child {
            let shell = self.view.shell.display();
            return unavailable(format!(
                "The sandbox bwrap could not build its view or start {shell}: {said}"
            ))
            .hint(format!(
                "Check that {shell} and the directories of the policy exist; `sandbox = \"none\"` runs bare."
            ));
        }
        let cause = namespaces::why_none();
        unavailable(format!("The sandbox bwrap could not make its namespaces: {said}"))
            .hint(format!("{cause}; or write sandbox = \"none\" to run bare."))
    }
}

impl Sandbox for Bwrap {
    const NAME: &'static str = "bwrap";

    fn layers(&self) -> Vec<&'static str> {
        let mut layers = vec!["userns", "mountns", "pidns", "ipcns", "utsns", "cgroupns"];
        if self.view.network == Network::Off {
            layers.push("netns");
        }
        layers.extend(["no_new_privs", "caps"]);
        if seccomp::exists() {
            layers.push("seccomp");
        }
        layers.push("supervised");
        layers
    }

    fn contains(&self) -> bool {
        true
    }

    fn ready(&self) -> Result<(), ToolError> {
        self.installed().map(drop)
    }

    fn order(&self, job: &ShellJob) -> Result<Order, ToolError> {
        self.order_of(&program::words(&self.view, job), job.working_dir.as_deref(), Session::New)
    }

    fn order_attached(&self, program: &Attached<'_>) -> Result<Order, ToolError> {
        program::check_exists(&self.view, program.words)?;
        let session = if program.terminal { Session::OfTerminal } else { Session::New };
        self.order_of(program.words, program.working_dir, session)
    }

    fn exit(&self, drained: &Drained) -> Result<Exit, ToolError> {
        match drained.ending {
            Ending::Exited(code) => match Status::read(&drained.status) {
                Status { exit_code: Some(code), .. } => Ok(Exit::Code(code)),
                status => Err(self.setup_failed(status.has_child, code, &drained.stderr_head)),
            },
            Ending::Signaled(signal) => Ok(Exit::Signal(signal)),
            Ending::NotStarted(stage, errno) => Err(spawn::not_started(stage, errno, "bwrap")),
            Ending::Unknown => Err(spawn::supervisor_lost()),
        }
    }

    fn limit(&self, bound: Option<Bound>, exit: Exit) -> Option<LimitHit> {
        spawn::limit_hit(bound, exit, &self.limits)
    }

    /// What bwrap says of a program that it cannot execute stands on the caller's own standard error already.
    fn exit_attached(&self, drained: &Drained, program: &Attached<'_>) -> Result<Exit, ToolError> {
        if matches!(drained.ending, Ending::Exited(_)) {
            let status = Status::read(&drained.status);
            if status.has_child && status.exit_code.is_none() {
                return Err(program::not_executed(&self.view, program));
            }
        }
        self.exit(drained)
    }
}

impl Bwrap {
    fn order_of(
        &self,
        words: &[OsString],
        working_dir: Option<&str>,
        session: Session,
    ) -> Result<Order, ToolError> {
        let installed = self.installed()?;
        self.rules.check_entries()?;
        let start = workdir::open(&self.view, working_dir)?;
        let (status, status_end) = drain::pipe().map_err(spawn::no_process)?;
        let mut inherited = vec![status_end];
        let turn = self.protection.begin().map_err(spawn::not_protected)?;
        let options = self.options(installed, &start, session, turn.as_ref(), &mut inherited)?;
        let options = memory_file("options", &options).map_err(spawn::no_process)?;
        let number = options.as_raw_fd().to_string();
        inherited.push(options);
        let arguments = ["--args", &number, "--"].map(OsStr::new).into_iter();
        let arguments = arguments.chain(words.iter().map(OsString::as_os_str));
        let program = Program::new(installed.path.as_os_str(), arguments, std::iter::empty());
        Ok(Order {
            program: program.map_err(spawn::bad_text)?,
            directory: None,
            inherited,
            status: Some(status),
            streams: Given::Nothing,
            limits: self.limits,
            turn,
            watched: true,
            confinement: None,
            private: None,
        })
    }
}

/// The session that a command is in.
#[derive(Clone, Copy, PartialEq)]
enum Session {
    /// One of its own without a terminal.
    New,
    /// That of bwrap, whose controlling terminal is the command's.
    OfTerminal,
}

/// A NUL byte would begin an option of bwrap, and a name that is none would make it fail.
fn check_variable(name: &str, value: &str) -> Result<(), ToolError> {
    if !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') {
        return Ok(());
    }
    let message = format!("The environment variable {name:?} cannot be given to a command.");
    Err(ToolError::new(ErrorKind::SandboxUnavailable, message).hint(
        "Give each variable of tools.exec.env a name without =, and no NUL character in name or value.",
    ))
}

/// What bwrap wrote to its status descriptor: JSON documents, one after another.
#[derive(Debug, Default, PartialEq)]
struct Status {
    /// Whether the namespaces were made.
    has_child: bool,
    /// The command's exit code; only there if it was executed.
    exit_code: Option<i32>,
}

impl Status {
    fn read(bytes: &[u8]) -> Status {
        let mut status = Status::default();
        for document in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
            let Ok(document) = document else { break };
            status.has_child |= document.get("child-pid").is_some();
            let code = document.get("exit-code").and_then(Value::as_i64);
            status.exit_code = status.exit_code.or(code.and_then(|code| i32::try_from(code).ok()));
        }
        status
    }
}

/// A file of the system, to be copied. One that this user cannot read is empty inside.
fn open_file(path: &Path) -> Result<OwnedFd, ToolError> {
    match File::open(path) {
        Ok(file) => drain::above_streams(file.into()).map_err(spawn::no_process),
        Err(_) => memory_file("file", b"").map_err(spawn::no_process),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn status_tells_a_command_from_a_failed_setup() {
        let read = |text: &str| Status::read(text.as_bytes());
        assert_eq!(read(""), Status { has_child: false, exit_code: None });
        assert_eq!(read("{ \"child-pid\": 7 }\n"), Status { has_child: true, exit_code: None });
        let both = "{ \"child-pid\": 7, \"net-namespace\": 1 }\n{ \"exit-code\": 3 }\n";
        assert_eq!(read(both), Status { has_child: true, exit_code: Some(3) });
        assert_eq!(read("{ \"child-pid\": 7 }\n{ \"exit-"), Status { has_child: true, exit_code: None });
    }
}
