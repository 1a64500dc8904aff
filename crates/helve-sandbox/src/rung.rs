//! The backend `landlock`: for machines that refuse user namespaces. Landlock rules, a system call filter, no capabilities,
//! limits, and the supervisor that ends the whole tree.
//!
//! In: a view. The plan of mounts that the other sandboxes build becomes `grants`; `private` is the directory that a command
//! has instead of a `/tmp` of its own. Out: the command's exit.
//!
//! Root is not held by Landlock (modes and times can be changed everywhere), so root becomes the owner of the workspace
//! first, and is refused where that is root again. What this backend cannot do and the others can: hide names, attributes
//! and command lines of processes; keep modes, times and extended attributes of the user's own files elsewhere from being
//! changed; give out Unix sockets, shared memory by name and terminals; bound what is written to the private directory alone.

mod grants;
pub(crate) mod private;

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use helve_core::{ErrorKind, Exit, LimitHit, ProcessLimits, ShellJob, ToolError, View};
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::bare;
use crate::call::{Attached, Sandbox};
use crate::confine::landlock::{Access, Handled, Version};
use crate::confine::seccomp::{self, Around};
use crate::drain::{Drained, Order};
use crate::native::wire::Bound;
use crate::plan::rules::Rules;
use crate::plan::{self, Wanted};
use crate::program;
use crate::protect::Protection;
use crate::spawn;
use crate::sys::confine::{self, Confinement, Identity, Ruleset};
use crate::sys::{Ending, Program, Stage};
use crate::workdir;
use grants::Grant;
use private::Private;

/// Runs commands under Landlock.
#[derive(Debug)]
pub(crate) struct Rung {
    view: View,
    rules: Rules,
    limits: ProcessLimits,
    /// The names that are put back.
    protected: Vec<String>,
    protection: Protection,
    /// What the kernel has, or the `errno` of the question.
    version: Result<Version, i32>,
}

impl Rung {
    pub(crate) fn new(view: View, limits: ProcessLimits) -> Result<Self, ToolError> {
        let rules = plan::rules::resolve(&view)?;
        let protected = protected(&view, &rules);
        // Nothing can be mounted, so what a command changes is put back.
        let protection =
            Protection::new(rules.workspace.real.clone(), protected.clone(), rules.denied.clone(), false);
        let version = confine::landlock_version();
        let rung = Rung { view, rules, limits, protected, protection, version };
        rung.grants()?;
        Ok(rung)
    }

    /// What the view grants.
    fn grants(&self) -> Result<Vec<Grant>, ToolError> {
        let wanted = Wanted {
            rules: &self.rules,
            home: self.view.env.get("HOME").map(Path::new),
            network: self.view.network,
            file_bytes: self.limits.file_bytes,
        };
        grants::grants(&plan::plan(&wanted)?, &self.rules.workspace.real, &self.protected)
    }

    /// The version of Landlock, if it is one that holds.
    fn version(&self) -> Result<Version, ToolError> {
        let version = self.version.map_err(no_landlock)?;
        if version < Version::TRUNCATES {
            let message = format!(
                "The kernel's Landlock (version {}) lets commands empty files that they may not write.",
                version.0
            );
            return Err(unavailable(message).hint("Use Linux 6.2 or newer, or the sandbox \"bwrap\"."));
        }
        if !seccomp::exists() {
            let message = "There is no system call filter for this machine's processor.".to_owned();
            return Err(
                unavailable(message).hint("Use an x86-64 or an arm64 machine, or the sandbox \"bwrap\".")
            );
        }
        Ok(version)
    }

    /// Whom root becomes: the owner of the workspace.
    fn identity(&self) -> Result<Option<Identity>, ToolError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let path = &self.rules.workspace.real;
        let owner = path.metadata().map_err(|error| {
            unavailable(format!("The workspace {} cannot be looked at: {error}", path.display()))
                .hint("Choose an existing directory as the workspace.")
        })?;
        if owner.uid() == 0 {
            let message = format!(
                "The sandbox landlock does not hold root, and the workspace {} belongs to root, so that there is nobody \
                 else to run commands as.",
                path.display()
            );
            return Err(unavailable(message).hint(format!(
                "Run Helve as an ordinary user, or give the workspace to one: chown -R USER {}",
                path.display()
            )));
        }
        Ok(Some(Identity { user: owner.uid(), group: owner.gid() }))
    }

    fn ruleset(&self, version: Version, private: &Private) -> Result<Ruleset, ToolError> {
        let failed = |errno| spawn::not_started(Stage::Landlock, errno, "The command");
        let ruleset = Ruleset::new(Handled::everything(version, self.view.network)).map_err(failed)?;
        for (path, access) in self.grants()? {
            // What is not there, or not for this user, needs no grant.
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let Ok(place) = rustix::fs::openat(CWD, &path, flags, Mode::empty()) else { continue };
            let kind = rustix::fs::fstat(&place).map(|stat| FileType::from_raw_mode(stat.st_mode));
            let rights = ruleset.handled().rights(access, kind == Ok(FileType::Directory));
            ruleset.grant(place.as_raw_fd(), rights).map_err(failed)?;
        }
        let own = private.open().map_err(no_private)?;
        let rights = ruleset.handled().rights(Access::Change, true);
        ruleset.grant(own.as_raw_fd(), rights).map_err(failed)?;
        Ok(ruleset)
    }

    fn order_of(&self, words: &[OsString], working_dir: Option<&str>) -> Result<Order, ToolError> {
        let version = self.version()?;
        bare::tree_can_be_ended()?;
        self.rules.check_entries()?;
        let identity = self.identity()?;
        let directory = workdir::open(&self.view, working_dir)?;
        let private = Private::make(identity, |place| self.rules.in_writable(place)).map_err(no_private)?;
        let confinement = Confinement {
            identity,
            ruleset: self.ruleset(version, &private)?,
            filter: seccomp::whole(Around::Nothing(self.view.network), &self.view.system_calls),
            processes: self.limits.processes.saturating_add(threads_of(identity)),
        };
        let mut environment = self.view.env.clone();
        environment.insert("TMPDIR".to_owned(), private.path().display().to_string());
        if !self.view.env.get("HOME").is_some_and(|home| self.rules.in_writable(Path::new(home))) {
            environment.insert("HOME".to_owned(), private.path().join("home").display().to_string());
        }
        let (name, arguments) = words.split_first().ok_or_else(program::nothing_to_run)?;
        let path = bare::locate(&self.view, name)?;
        let arguments = arguments.iter().map(OsString::as_os_str);
        let program = Program::new(path.as_os_str(), arguments, &environment).map_err(spawn::bad_text)?;
        let mut order = Order::plain(program, directory.fd, self.limits);
        order.turn = self.protection.begin().map_err(spawn::not_protected)?;
        order.watched = true;
        order.confinement = Some(confinement);
        order.private = Some(private);
        Ok(order)
    }
}

impl Sandbox for Rung {
    const NAME: &'static str = "landlock";

    fn layers(&self) -> Vec<&'static str> {
        let Ok(version) = self.version else { return Vec::new() };
        let mut layers = vec!["landlock"];
        if version >= Version::SCOPES {
            layers.push("scopes");
        }
        if rustix::process::geteuid().is_root() {
            layers.push("uid");
        }
        layers.extend(["no_new_privs", "caps", "seccomp", "rlimits", "supervised"]);
        layers
    }

    /// Before signals were scoped, a command could end its own supervisor and Helve.
    fn contains(&self) -> bool {
        self.version.is_ok_and(|version| version >= Version::SCOPES)
    }

    fn ready(&self) -> Result<(), ToolError> {
        self.version()?;
        self.identity().map(drop)
    }

    fn order(&self, job: &ShellJob) -> Result<Order, ToolError> {
        self.order_of(&program::words(&self.view, job), job.working_dir.as_deref())
    }

    fn order_attached(&self, program: &Attached<'_>) -> Result<Order, ToolError> {
        program::check_exists(&self.view, program.words)?;
        self.order_of(program.words, program.working_dir)
    }

    fn exit(&self, drained: &Drained) -> Result<Exit, ToolError> {
        spawn::plain_exit(drained.ending, &self.view.shell.display().to_string())
    }

    fn exit_attached(&self, drained: &Drained, program: &Attached<'_>) -> Result<Exit, ToolError> {
        match drained.ending {
            Ending::NotStarted(Stage::Program, _) => Err(program::not_executed(&self.view, program)),
            _ => self.exit(drained),
        }
    }

    fn limit(&self, bound: Option<Bound>, exit: Exit) -> Option<LimitHit> {
        spawn::limit_hit(bound, exit, &self.limits)
    }
}

/// The names that the view protects, and those of the files of the workspace that it shows read-only.
fn protected(view: &View, rules: &Rules) -> Vec<String> {
    let inside = rules.read_only.iter().filter(|rule| rule.real.starts_with(&rules.workspace.real));
    let files = inside.filter(|rule| rule.real.is_file()).filter_map(|rule| rule.real.file_name()?.to_str());
    view.protected.iter().cloned().chain(files.map(str::to_owned)).collect()
}

/// How many threads a user has: the kernel's limit counts all of them, not only the command's.
fn threads_of(identity: Option<Identity>) -> u64 {
    let user = identity.map_or_else(|| rustix::process::getuid().as_raw(), |identity| identity.user);
    let entries = Path::new("/proc").read_dir().into_iter().flatten().flatten();
    let tasks = entries.filter_map(|entry| entry.path().join("task").metadata().ok());
    tasks.filter(|task| task.uid() == user).map(|task| task.nlink().saturating_sub(2)).sum()
}

fn unavailable(message: String) -> ToolError {
    ToolError::new(ErrorKind::SandboxUnavailable, message)
}

fn no_landlock(errno: i32) -> ToolError {
    if errno == libc::EOPNOTSUPP {
        return unavailable("Landlock is built into this kernel but switched off.".to_owned())
            .hint("Add landlock to the kernel's boot parameter lsm=, or use the sandbox \"bwrap\".");
    }
    unavailable("This kernel has no Landlock, or a filter around Helve forbids it.".to_owned())
        .hint("Use Linux 6.2 or newer with CONFIG_SECURITY_LANDLOCK, or the sandbox \"bwrap\".")
}

fn no_private(error: std::io::Error) -> ToolError {
    unavailable(format!("No directory for the command's temporary files could be made: {error}"))
        .hint("Let TMPDIR name a directory outside of the workspace that the user who runs Helve can write.")
}
