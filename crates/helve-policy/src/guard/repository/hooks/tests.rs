//! Git itself as the judge of which subcommands run which hooks.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::*;

/// Every hook that git knows, but `fsmonitor-watchman`, which only a setting makes one.
const ALL: &str = "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg \
    commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive \
    post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate p4-changelist \
    p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change";

/// The repository in which each command runs, of few files so that it is soon copied, and a remote beside it.
const SCENE: &str = "
    git init -q --template= -b main work; cd work
    echo a > f; echo b > g; git add .; git commit -q -m one; git branch other; git branch gone
    echo c >> f; git commit -q -a -m two; git tag t1
    git checkout -q other; echo o > o; git add o; git commit -q -m three
    git checkout -q main
    git format-patch -q --stdout other~1..other > ../o.mbox
    git diff main other -- o > ../o.diff
    git clone -q --template= --bare . ../lib.git
    git bundle create -q ../b.bundle main
    git remote add lib ../lib.git; git fetch -q lib
    git gc -q; mkdir d; echo x > d/x";

/// Makes git tidy up where it does so by itself.
const LITTER: &str = "mkdir .git/objects/17; git config gc.auto 1
    for end in 1 2 3; do : > .git/objects/17/0000000000000000000000000000000000000$end; done";

/// What is done before the hooks are there, and a command that runs them.
const CASES: &[(&str, &str)] = &[
    ("", "git add d"),
    ("", "git stage d"),
    ("", "git mv g h"),
    ("", "git rm g"),
    ("echo q >> f", "git restore f"),
    ("", "git restore --source=HEAD~1 f"),
    ("", "git restore --staged f"),
    ("", "git apply --index ../o.diff"),
    ("", "git clean -f -d"),
    ("", "git config user.name x"),
    ("", "git init"),
    ("rm f", "git checkout-index -f -a"),
    ("", "git update-index --refresh"),
    ("", "git read-tree HEAD~1"),
    ("", "git sparse-checkout set d"),
    ("", "git rerere"),
    ("", "git prune --expire=now"),
    ("", "git repack -a -d"),
    ("", "git repack -d --cruft"),
    ("", "git archive HEAD"),
    ("", "git bundle create ../x.bundle main"),
    ("", "git bundle unbundle ../b.bundle"),
    ("", "git commit-graph write"),
    ("", "git diff-files"),
    ("", "git diff-index HEAD"),
    ("", "git format-patch -1"),
    ("", "git fsck"),
    ("", "git hash-object -w f"),
    ("", "git ls-remote lib"),
    ("", "git range-diff main~1..main other~1..other"),
    ("", "git write-tree"),
    ("", "git status"),
    ("", "git diff"),
    ("", "git log"),
    ("", "git blame f"),
    ("", "git annotate f"),
    ("", "git column --mode=plain < f"),
    ("", "git help -g"),
    ("", "git stripspace < f"),
    ("", "git var GIT_EDITOR"),
    ("", "git describe --always"),
    ("", "git pack-refs --all"),
    ("", "git gc"),
    (LITTER, "git gc --auto"),
    (LITTER, "git maintenance run --auto"),
    ("", "git maintenance run --task=pack-refs"),
    ("", "git branch n"),
    ("", "git branch -m gone new"),
    ("", "git tag -a -m x x"),
    ("", "git update-ref refs/heads/n HEAD"),
    ("", "git symbolic-ref HEAD refs/heads/other"),
    ("", "git replace HEAD HEAD~1"),
    ("", "git reset --hard HEAD~1"),
    ("", "git reset f"),
    ("", "git notes add -m x"),
    ("", "git reflog expire --all --expire=now"),
    ("", "git remote rename lib x"),
    ("", "git remote update"),
    ("", "git fetch . main:n"),
    (LITTER, "git fetch lib main"),
    ("", "git clone -q . ../new"),
    ("echo q >> f", "git commit -a -m x"),
    (LITTER, "git commit --allow-empty -m x"),
    ("", "git commit --amend -m x"),
    ("", "git merge other"),
    ("", "git merge --squash other"),
    ("", "git pull --no-rebase lib other"),
    ("", "git pull --rebase lib other"),
    ("", "git rebase other"),
    ("", "git rebase --apply other"),
    ("", "git cherry-pick other"),
    ("", "git revert --no-edit HEAD"),
    ("", "git am ../o.mbox"),
    ("", "git checkout other"),
    ("", "git checkout HEAD~1 f"),
    ("", "git switch -c n"),
    ("", "git worktree add ../new"),
    ("", "git worktree add ../new; git worktree remove ../new"),
    ("", "git bisect start main other"),
    ("echo q >> f", "git stash"),
    ("echo q >> f; git stash", "git stash pop"),
    ("echo q >> f; git stash", "git stash branch n"),
    ("", "git -c protocol.file.allow=always submodule add ../lib.git sub"),
    ("", "git push . HEAD:refs/heads/n"),
    (LITTER, "git push . HEAD:refs/heads/n"),
    ("git config receive.procReceiveRefs refs/for", "git push . HEAD:refs/for/main"),
    ("git config receive.denyCurrentBranch updateInstead", "git push -f . other:main"),
    ("", "git push lib main:n"),
    ("", "git send-pack . HEAD:refs/heads/n"),
];

/// Runs a script with nothing of the user's settings.
fn sh(script: &str, top: &Path, directory: &Path) -> Output {
    Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_EDITOR", "true")])
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("LC_ALL", "C")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b"), ("GIT_TERMINAL_PROMPT", "0")])
        .env("GIT_TEST_FSYNC", "false")
        .envs([("HOME", top.to_path_buf()), ("MARKS", top.join("marks"))])
        .output()
        .unwrap()
}

/// Runs a script that has to end well.
fn prepare(script: &str, top: &Path, directory: &Path) {
    let done = sh(&format!("set -e\n{script}"), top, directory);
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

fn write_hook(file: &Path, name: &str) {
    // Tidying up goes no further.
    let end = if name == "pre-auto-gc" { "exit 1\n" } else { "" };
    fs::write(file, format!("#!/bin/sh\necho {name} >> \"$MARKS\"\n{end}")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The hooks that a command runs.
fn run(command: &str, before: &str, top: &Path) -> BTreeSet<String> {
    let afresh = "rm -rf work new; cp -R -p base work; : > marks; cd work";
    prepare(&format!("{afresh}\n{before}\nln -s ../../hooks .git/hooks"), top, top);
    sh(command, top, &top.join("work"));
    fs::read_to_string(top.join("marks")).unwrap().lines().map(str::to_owned).collect()
}

fn git_is_there() -> bool {
    let there = Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: there is no git");
    }
    there
}

/// The subcommand of a command that starts with `git`.
fn subcommand(command: &str) -> &str {
    let mut words = command.split_whitespace().skip(1);
    match words.next() {
        Some("-c") => words.nth(1),
        word => word,
    }
    .unwrap()
}

#[test]
fn git_runs_no_hook_that_the_table_does_not_list() {
    if !git_is_there() {
        return;
    }
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    prepare(SCENE, top, top);
    fs::rename(top.join("work"), top.join("base")).unwrap();
    fs::create_dir(top.join("hooks")).unwrap();
    ALL.split_whitespace().for_each(|name| write_hook(&top.join("hooks").join(name), name));
    let mut seen = BTreeSet::new();
    for (before, command) in CASES {
        let ran = run(command, before, top);
        for hook in &ran {
            let row = HOOKS.iter().find(|(name, _)| name == hook);
            let listed = row.is_some_and(|(_, subcommands)| may_run(Some(subcommand(command)), subcommands));
            assert!(listed || hook == OF_INDEX, "{command} runs {hook}");
        }
        seen.extend(ran);
    }
    // Each of the others needs a program that may not be installed.
    let unseen: Vec<&str> = ALL
        .split_whitespace()
        .filter(|name| !seen.contains(*name) && !name.starts_with("p4-") && *name != "sendemail-validate")
        .collect();
    assert!(unseen.is_empty(), "no command runs {unseen:?}");
}

#[test]
fn every_subcommand_of_the_tables_is_run() {
    let run: BTreeSet<&str> = CASES.iter().map(|(_, command)| subcommand(command)).collect();
    let listed = HOOKS.iter().flat_map(|(_, subcommands)| *subcommands).chain(QUIET).chain(OTHERS);
    let left: BTreeSet<&str> =
        listed.copied().filter(|name| !run.contains(name) && !["send-email", "p4"].contains(name)).collect();
    assert_eq!(left, BTreeSet::new());
    let hooks: BTreeSet<&str> = HOOKS.iter().map(|(name, _)| *name).chain([OF_INDEX]).collect();
    assert_eq!(hooks, ALL.split_whitespace().collect());
}

/// What the settings and hooks of a repository start when others take from it, and when they give or ask for an archive.
#[test]
fn a_repository_that_only_gives_starts_nothing_of_its_own() {
    if !git_is_there() {
        return;
    }
    let top = tempfile::tempdir().unwrap();
    let top = top.path();
    prepare(SCENE, top, top);
    let lib = top.join("lib.git");
    let program = top.join("program");
    write_hook(&program, "setting");
    fs::create_dir_all(lib.join("hooks")).unwrap();
    ALL.split_whitespace().for_each(|name| write_hook(&lib.join("hooks").join(name), name));
    for setting in [
        "uploadpack.packObjectsHook",
        "core.fsmonitor",
        "core.alternateRefsCommand",
        "core.sshCommand",
        "core.gitProxy",
        "core.pager",
        "gc.recentObjectsHook",
        "diff.external",
        "tar.tgz.command",
        "alias.upload-pack",
        "alias.pack-objects",
    ] {
        let bang = if setting.starts_with("alias.") { "!" } else { "" };
        prepare(&format!("git config {setting} '{bang}{}'", program.display()), top, &lib);
    }
    let starts = |command: &str| {
        fs::write(top.join("marks"), "").unwrap();
        sh(command, top, &top.join("work"));
        !fs::read_to_string(top.join("marks")).unwrap().is_empty()
    };
    for command in [
        "git clone -q ../lib.git ../one",
        "git clone -q --no-local --depth 1 ../lib.git ../two",
        "git fetch lib other:new",
        "git fetch --refetch ../lib.git main",
        "git pull --no-rebase lib other",
        "git ls-remote lib",
        "git remote show lib",
    ] {
        assert!(!starts(command), "{command}");
    }
    for command in ["git push lib HEAD:n", "git archive --remote=lib --format=tgz HEAD"] {
        assert!(starts(command), "{command}");
    }
}
