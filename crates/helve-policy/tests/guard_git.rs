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
    let policy = "[[rules]]\nverdict = 'allow'\ncommand = ['git {status,add,commit,push,checkout,restore} *', 'cat *']";
    let policy = Policy::from_toml(policy).unwrap();
    let judge = |command: &str, contained: bool| {
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        policy.judge(&command, &workspace, contained).decision
    };
    let commands =
        ["git status", "git add a", "git commit -m x", "git checkout main", "git restore a", "cat a"];
    for command in commands {
        assert_eq!(judge(command, false).verdict, Verdict::Allow, "{command}");
    }
    for (hook, asked) in [
        ("pre-commit", &["git commit -m x", "git -C . commit -m x", "cd . && git commit -m x"][..]),
        ("post-checkout", &["git checkout main", "git restore a"]),
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

/// The repository that takes a push has hooks of its own, and it may be on this machine.
#[test]
fn no_rule_allows_the_hooks_of_the_repository_that_takes_a_push() {
    let around = tempfile::tempdir().unwrap();
    let workspace = around.path().canonicalize().unwrap();
    fs::create_dir_all(workspace.join(".git")).unwrap();
    let policy = "[[rules]]\nverdict = 'allow'\n\
         command = ['git {push,fetch,pull,clone} *', 'git push {origin,lib} *', 'git archive --remote=. HEAD']";
    let policy = Policy::from_toml(policy).unwrap();
    let judge = |command: &str, contained: bool| {
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        policy.judge(&command, &workspace, contained).decision
    };
    let asks = |command: &str| {
        let decision = judge(command, false);
        assert_eq!((decision.verdict, decision.rule.as_str()), (Verdict::Ask, "guard.bare"), "{command}");
        assert_eq!(judge(command, true).verdict, Verdict::Allow, "{command} in a sandbox");
    };
    let allows = |command: &str| assert_eq!(judge(command, false).verdict, Verdict::Allow, "{command}");
    let remote = |url: &str| {
        let config =
            format!("[remote \"origin\"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n");
        fs::write(workspace.join(".git/config"), config).unwrap();
    };
    let away = ["git push", "git push -q", "git push origin HEAD"];
    let here = [
        "git push . HEAD:refs/heads/o",
        "git push ./lib.git",
        "git push lib main",
        "git archive --remote=. HEAD",
    ];
    let gives = ["git fetch", "git fetch ./lib.git", "git pull . x", "git clone . new"];
    remote("https://example.org/x");
    away.into_iter().chain(gives).for_each(allows);
    here.into_iter().for_each(asks);
    remote("./lib.git");
    gives.into_iter().for_each(allows);
    away.into_iter().chain(here).for_each(asks);
}

/// A setting whose program only one subcommand starts counts as well.
#[test]
fn no_rule_allows_the_programs_that_settings_name() {
    let around = tempfile::tempdir().unwrap();
    let workspace = around.path().canonicalize().unwrap();
    fs::create_dir_all(workspace.join(".git")).unwrap();
    let policy =
        Policy::from_toml("[[rules]]\nverdict = 'allow'\ncommand = 'git {gc,prune,rebase} *'").unwrap();
    let verdict = |command: &str, config: &str| {
        fs::write(workspace.join(".git/config"), config).unwrap();
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        policy.judge(&command, &workspace, false).decision.verdict
    };
    for (command, plain, program) in [
        ("git gc", "[gc]\n\tauto = 0\n", "[gc]\n\trecentObjectsHook = ./x\n"),
        ("git prune", "[gc]\n\tpruneExpire = now\n", "[gc]\n\trecentObjectsHook = ./x\n"),
        ("git rebase main", "[rebase]\n\tstat = true\n", "[rebase]\n\tinstructionFormat = %s%nexec ./x\n"),
    ] {
        assert_eq!(verdict(command, plain), Verdict::Allow, "{command}: {plain}");
        assert_eq!(verdict(command, program), Verdict::Ask, "{command}: {program}");
    }
}
