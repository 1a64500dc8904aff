//! Files that configure programs, which commands do not write: those that the owner names, and Helve's own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;

use helve_core::{CommandUse, Verdict};
use helve_policy::{Policy, Sources};
use tempfile::TempDir;

/// A workspace.
fn workspace() -> TempDir {
    let workspace = tempfile::tempdir().unwrap();
    fs::write(workspace.path().join("notes.txt"), "x").unwrap();
    workspace
}

/// The guard and the sandbox have one list.
#[test]
fn names_that_the_owner_protects_are_not_written_by_hand() {
    let workspace = workspace();
    let rule = |policy: &str, command: &str| {
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        Policy::from_toml(policy).unwrap().judge(&command, workspace.path(), true).decision.rule
    };
    for command in ["echo x > .envrc", "cp notes.txt sub/.vscode/tasks.json", "tee .MCP.json < notes.txt"] {
        assert_eq!(rule("", command), "guard.protected-write", "{command}");
        assert_ne!(rule("view.protected = ['.git']", command), "guard.protected-write", "{command}");
    }
    assert_eq!(rule("view.protected = ['secret.mk']", "echo x > secret.mk"), "guard.protected-write");
    assert_ne!(rule("", "echo x > .claude/worktrees/a/notes"), "guard.protected-write");
}

/// Wherever they lie.
#[test]
fn files_that_configure_helve_are_not_written() {
    let workspace = workspace();
    let root = workspace.path().canonicalize().unwrap();
    let file = root.join("helve-user.toml");
    fs::write(&file, "").unwrap();
    let policy = Policy::load(&Sources { user: Some(file), ..Sources::default() }).unwrap();
    let check = |command: &str| policy.check_text(command, &root);
    for command in
        ["echo x > helve-user.toml", "cp notes.txt helve-user.toml", "tee helve-user.toml < notes.txt"]
    {
        assert_eq!(check(command).rule, "guard.protected-write", "{command}");
    }
    assert_eq!(check("cat helve-user.toml").verdict, Verdict::Allow);
}
