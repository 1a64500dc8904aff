//! The guard and rules where `..` stands behind a link: the kernel goes through the link, and the text does not.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;

/// A workspace beside a directory `outside`, with links to there, to `src` and to `secret/deep`.
fn workspace() -> (tempfile::TempDir, PathBuf) {
    let around = tempfile::tempdir().unwrap();
    let root = around.path().canonicalize().unwrap();
    let workspace = root.join("project");
    for directory in ["project/src", "project/build/deep", "project/secret/deep", "outside/data"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(workspace.join("notes.txt"), "x").unwrap();
    fs::write(workspace.join("secret/a.txt"), "x").unwrap();
    symlink("../outside/data", workspace.join("away")).unwrap();
    symlink("src", workspace.join("inner")).unwrap();
    symlink("secret/deep", workspace.join("deep")).unwrap();
    (around, workspace)
}

fn verdict(policy: &str, command: &str, workspace: &Path, contained: bool) -> Verdict {
    let command = CommandUse { command: command.to_owned(), working_dir: None };
    Policy::from_toml(policy).unwrap().judge(&command, workspace, contained).decision.verdict
}

#[test]
fn up_from_behind_a_link_is_where_the_link_leads() {
    let (_around, workspace) = workspace();
    let restricted = "tools.restrict_to_workspace = true";
    let denied = "[[rules]]\nverdict = 'deny'\npath = 'secret/**'";
    let cases = [
        (restricted, "> away/../x", Verdict::Deny),
        (restricted, "echo x > away/../x", Verdict::Deny),
        (restricted, "echo x 2>> away/../x", Verdict::Deny),
        (restricted, "cat < away/../x", Verdict::Deny),
        (restricted, "{ echo x; } > away/../x", Verdict::Deny),
        (restricted, "dd if=away/../x", Verdict::Deny),
        (restricted, "cat away/../*.txt", Verdict::Deny),
        (restricted, "cd away; cat < ../x", Verdict::Deny),
        (restricted, "> inner/../x", Verdict::Allow),
        (restricted, "> build/../x", Verdict::Allow),
        (restricted, "> build/deep/../../x", Verdict::Allow),
        (restricted, "cat < inner/../notes.txt", Verdict::Allow),
        (restricted, "dd if=inner/../notes.txt", Verdict::Allow),
        (restricted, "cat inner/../*.txt", Verdict::Allow),
        (denied, "> deep/../a.txt", Verdict::Deny),
        (denied, "cat < deep/../a.txt", Verdict::Deny),
        (denied, "echo x > deep/../new", Verdict::Deny),
        (denied, "dd of=deep/../a.txt", Verdict::Deny),
        (denied, "cat deep/../*", Verdict::Deny),
        (denied, "> inner/../a.txt", Verdict::Allow),
        (denied, "> build/../a.txt", Verdict::Allow),
        (denied, "cat < build/../notes.txt", Verdict::Allow),
    ];
    for (policy, command, expected) in cases {
        assert_eq!(verdict(policy, command, &workspace, true), expected, "{policy}: {command}");
    }
}

#[test]
fn what_a_rule_allows_is_not_led_out_by_going_up() {
    let (_around, workspace) = workspace();
    let place = "[[rules]]\nverdict = 'allow'\neffect = 'writes'\npath = '**'";
    let listed = "rules_otherwise = 'ask'\n[[rules]]\nverdict = 'allow'\neffect = 'writes'\npath = '**'";
    for policy in [place, listed] {
        for (command, expected) in [
            ("> x", Verdict::Allow),
            ("> inner/../x", Verdict::Allow),
            ("> build/../x", Verdict::Allow),
            ("> away/../x", Verdict::Ask),
            ("> away/../data/../x", Verdict::Ask),
        ] {
            assert_eq!(verdict(policy, command, &workspace, false), expected, "{policy}: {command}");
        }
    }
}

#[test]
fn a_link_does_not_hide_gits_own_files() {
    let (_around, workspace) = workspace();
    fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    fs::create_dir_all(workspace.join(".vscode")).unwrap();
    symlink(".git", workspace.join("g")).unwrap();
    symlink("../.git/hooks", workspace.join("src/h")).unwrap();
    symlink(".vscode", workspace.join("v")).unwrap();
    let cases = [
        ("echo x > g/hooks/pre-commit", Verdict::Deny),
        ("cp x g/config", Verdict::Deny),
        ("cd src; tee h/pre-push < x", Verdict::Deny),
        ("cp x inner/h/pre-push", Verdict::Deny),
        ("echo x > v/tasks.json", Verdict::Deny),
        ("cat g/config", Verdict::Allow),
        ("echo x > g/info/exclude", Verdict::Allow),
        ("echo x > inner/notes", Verdict::Allow),
        ("echo x > away/config", Verdict::Allow),
        ("ln -sfn .git g", Verdict::Allow),
    ];
    for (command, expected) in cases {
        assert_eq!(verdict("", command, &workspace, true), expected, "{command}");
    }
}
