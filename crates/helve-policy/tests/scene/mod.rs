//! A workspace with git repositories in it, in which commands are judged and then run, so that git itself shows which programs
//! it starts.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;
use tempfile::TempDir;

/// A directory with a workspace `w` in it, and beside it a program that leaves a mark.
pub(crate) struct Scene {
    _around: TempDir,
    top: PathBuf,
    pub(crate) policy: Policy,
}

/// A repository with a branch more; the program is called `$EVIL`.
pub(crate) const REPOSITORY: &str = "
    git init -q -b main; echo a > f; git add f; git commit -q -m one; git branch first
    echo b >> f; git commit -q -a -m two; git branch other; git reset -q --hard first
    echo g > g; git add g; git commit -q -m three";

/// One in it whose settings name the program, untracked.
pub(crate) const INNER: &str = "git init -q n; git -C n commit -q --allow-empty -m i; touch n/x
    git -C n config core.fsmonitor \"$EVIL\"";

impl Scene {
    /// A scene in which a script has made the workspace; none if there is no git.
    pub(crate) fn new(script: &str) -> Option<Scene> {
        if Command::new("git").arg("--version").output().is_err() {
            println!("skipped: there is no git");
            return None;
        }
        let around = tempfile::tempdir().unwrap();
        let top = around.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("w")).unwrap();
        fs::create_dir_all(top.join("bin")).unwrap();
        // Nothing that a program of this name is asked ends well.
        for name in ["evil", "bin/git-merge-evil"] {
            fs::write(top.join(name), "#!/bin/sh\necho x >> \"$MARKS\"\nexit 1\n").unwrap();
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let policy = "[[rules]]\nverdict = 'allow'\ncommand = ['git {add,bisect,checkout,cherry-pick,commit,diff,init,merge} *', \
             'git {fetch,pull,push,rebase,reset,revert,rm,stash,submodule,status,switch,worktree} *', 'mkdir *', 'rm *']";
        let scene = Scene { _around: around, top, policy: Policy::from_toml(policy).unwrap() };
        let made = scene.sh(&format!("set -e\n{script}"));
        assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
        Some(scene)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.top.join("w")
    }

    /// Runs a script with nothing of the user's settings.
    pub(crate) fn sh(&self, script: &str) -> std::process::Output {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("sh")
            .args(["-c", script])
            .current_dir(self.workspace())
            .env_clear()
            .env("PATH", format!("{path}:{}", self.top.join("bin").display()))
            .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_EDITOR", "true")])
            .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("LC_ALL", "C")])
            .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b"), ("GIT_TERMINAL_PROMPT", "0")])
            .envs([("HOME", self.top.clone()), ("MARKS", self.marks()), ("EVIL", self.top.join("evil"))])
            .output()
            .unwrap()
    }

    fn marks(&self) -> PathBuf {
        self.top.join("marks")
    }

    /// What is said about a command without a sandbox.
    pub(crate) fn verdict(&self, command: &str) -> Verdict {
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        self.policy.judge(&command, &self.workspace(), false).decision.verdict
    }

    /// Whether git starts the program in the course of a command.
    pub(crate) fn starts(&self, command: &str) -> bool {
        let _ = fs::remove_file(self.marks());
        self.sh(command);
        self.marks().exists()
    }
}

/// A command is asked about, and git starts the program.
pub(crate) fn starts_and_asks(script: &str, command: &str) {
    let Some(scene) = Scene::new(script) else { return };
    assert_eq!(scene.verdict(command), Verdict::Ask, "{script}: {command}");
    assert!(scene.starts(command), "{script}: {command}");
}

/// Commands about which nothing is asked, and in which git starts nothing.
pub(crate) fn is_allowed(script: &str, commands: &[&str]) {
    let Some(scene) = Scene::new(script) else { return };
    for command in commands {
        assert_eq!(scene.verdict(command), Verdict::Allow, "{script}: {command}");
    }
    for command in commands {
        assert!(!scene.starts(command), "{script}: {command}");
    }
}
