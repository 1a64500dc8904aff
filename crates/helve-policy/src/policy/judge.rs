//! Judges a command: analysis, the owner's rules and the guard put together.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use helve_core::{CommandUse, Decision, SandboxChoice};
use helve_shell::analysis::Setting;
use helve_shell::normal;
use helve_shell::tree::Dialect;

use super::Policy;
use crate::guard::{self, Case, Judgement};
use crate::rules::Subject;
use crate::view;

/// Which call runs a command, as far as rules are concerned.
#[derive(Clone, Copy, Debug)]
pub struct RunBy<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The session of the call, where it has a name.
    pub session: Option<&'a str>,
}

impl Policy {
    /// Judges a command of the tool `exec` in the session that the policy names.
    pub fn judge(&self, command: &CommandUse, workspace: &Path, contained: bool) -> Judgement {
        self.judge_run(RunBy { tool: "exec", session: self.session() }, command, workspace, contained)
    }

    /// The directory in which a command starts, in its normal form.
    pub fn directory_of(&self, command: &CommandUse, workspace: &Path) -> PathBuf {
        let directory = command.working_dir.as_deref().filter(|directory| !directory.is_empty());
        let directory = directory.or_else(|| self.working_dir()).unwrap_or(".");
        match directory {
            "." => normal(workspace),
            directory => normal(&normal(workspace).join(directory)),
        }
    }

    /// Judges a command before it is wrapped or run. `workspace` is an absolute path; `contained` says whether a sandbox
    /// or the owner's wrapper is around it.
    pub fn judge_run(
        &self,
        by: RunBy<'_>,
        command: &CommandUse,
        workspace: &Path,
        contained: bool,
    ) -> Judgement {
        let inner = &self.inner;
        let workspace = normal(workspace);
        let directory = self.directory_of(command, &workspace);
        let text = command.command.as_str();
        let setting = Setting {
            dialect: self.dialect(),
            directory: &directory,
            workspace: &workspace,
            home: inner.guard.home.as_deref(),
        };
        let mut analysis = helve_shell::analyze(text, &setting);
        guard::settle(&mut analysis);
        let subject = Subject {
            tool: by.tool,
            text,
            analysis: &analysis,
            workspace: &workspace,
            session: by.session,
            now: SystemTime::now(),
            contained,
        };
        let findings = self.rules().judge(&subject);
        let case = Case { text, setting, analysis: &analysis, contained };
        let refusal = self.check_directory(&directory, &workspace);
        let (allowance, marks) = inner.guard.judge(&case, &findings, refusal);
        guard::assemble(allowance, marks, analysis)
    }

    /// The decision alone, for a command that runs as the policy says.
    pub fn check(&self, command: &CommandUse, workspace: &Path) -> Decision {
        self.judge(command, workspace, self.inner.sandbox != SandboxChoice::None).decision
    }

    /// Judges the text of a command that starts in the workspace.
    pub fn check_text(&self, command: &str, workspace: &Path) -> Decision {
        self.check(&CommandUse { command: command.to_owned(), working_dir: None }, workspace)
    }

    /// How the configured shell reads: a name such as `sh` may be any shell, so the file itself counts.
    fn dialect(&self) -> Dialect {
        *self.inner.dialect.get_or_init(|| {
            let shell = self.shell();
            let real = shell.canonicalize().unwrap_or_else(|_| shell.to_owned());
            if real.file_name().is_some_and(|name| name == "bash") { Dialect::Bash } else { Dialect::Posix }
        })
    }

    fn check_directory(&self, directory: &Path, workspace: &Path) -> Option<Decision> {
        let inner = &self.inner;
        // Found by looking at the disk, so only where the answer may depend on it.
        let usual: &[PathBuf] = if directory.starts_with(workspace) {
            &[]
        } else {
            inner.usual_roots.get_or_init(|| view::usual_roots(&inner.around))
        };
        guard::judge_working_dir(&inner.guard, directory, workspace, usual, &inner.hidden)
    }
}
