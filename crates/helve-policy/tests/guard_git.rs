//! Git without a sandbox where the repository brings programs of its own.

use std::fs;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;

/// A rule allows a command, not the hooks that a repository brings.
#[test]
fn no_rule_allows_the_hooks_of_a_repository() {
    let around = tempfile::tempdir().unwrap();
    let workspace = around.path().canonicalize().unwrap();
    fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    let policy =
        "[[rules]]\nverdict = 'allow'\ncommand = ['git {status,add,commit,push,checkout} *', 'cat *']";
    let policy = Policy::from_toml(policy).unwrap();
    let judge = |command: &str, contained: bool| {
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        policy.judge(&command, &workspace, contained).decision
    };
    let commands = ["git status", "git add a", "git commit -m x", "git checkout main", "cat a"];
    for command in commands {
        assert_eq!(judge(command, false).verdict, Verdict::Allow, "{command}");
    }
    for (hook, asked) in [
        ("pre-commit", &["git commit -m x", "git -C . commit -m x", "cd . && git commit -m x"][..]),
        ("post-checkout", &["git checkout main"]),
        ("post-index-change", &["git status", "git add a", "git commit -m x"]),
    ] {
        let file = workspace.join(".git/hooks").join(hook);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        for command in asked {
            let decision = judge(command, false);
            assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Ask, "guard.bare"), "{command}");
            assert_eq!(judge(command, true).verdict, Verdict::Allow, "{command} in a sandbox");
        }
        for command in commands.iter().filter(|command| !asked.contains(command)) {
            if hook != "post-index-change" {
                assert_eq!(judge(command, false).verdict, Verdict::Allow, "{hook}: {command}");
            }
        }
        fs::remove_file(file).unwrap();
    }
    fs::write(workspace.join(".git/hooks/pre-commit.sample"), "#!/bin/sh\n").unwrap();
    assert_eq!(judge("git commit -m x", false).verdict, Verdict::Allow);
}
