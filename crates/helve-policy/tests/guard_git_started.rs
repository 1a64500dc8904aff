//! Git without a sandbox where what it starts does not stand in the settings or hooks of the repository next to it.
//!
//! Each command is judged and then runs, so that git itself shows that the program is started.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;
use tempfile::TempDir;

/// A directory with a workspace `w` in it, and beside it a program that leaves a mark.
struct Scene {
    _around: TempDir,
    top: PathBuf,
    policy: Policy,
}

/// A repository with a branch more; the program is called `$EVIL`.
const REPOSITORY: &str = "
    git init -q -b main; echo a > f; git add f; git commit -q -m one; git branch first
    echo b >> f; git commit -q -a -m two; git branch other; git reset -q --hard first
    echo g > g; git add g; git commit -q -m three";

/// One in it whose settings name the program, untracked.
const INNER: &str = "git init -q n; git -C n commit -q --allow-empty -m i; touch n/x
    git -C n config core.fsmonitor \"$EVIL\"";

/// That one in a commit, and in the index no more.
const COMMITTED: &str = "git -c core.fsmonitor= add n 2> /dev/null; git commit -q -m n; git branch linked
    git reset -q --hard HEAD~1";

/// A clone of another repository in it, which has one inside itself and its own settings for that.
const LIBRARY: &str = "git init -q ../a; git -C ../a commit -q --allow-empty -m i; cp -R ../a ../b
    git -C ../b -c protocol.file.allow=always submodule --quiet add \"$PWD/../a\" m; git -C ../b commit -q -m m
    git -c protocol.file.allow=always clone -q --recurse-submodules ../b n 2> /dev/null";

impl Scene {
    /// A scene in which a script has made the workspace; none if there is no git.
    fn new(script: &str) -> Option<Scene> {
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
             'git {pull,push,rebase,reset,revert,stash,status,switch,worktree} *', 'mkdir *', 'rm *']";
        let scene = Scene { _around: around, top, policy: Policy::from_toml(policy).unwrap() };
        let made = scene.sh(&format!("set -e\n{script}"));
        assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
        Some(scene)
    }

    fn workspace(&self) -> PathBuf {
        self.top.join("w")
    }

    /// Runs a script with nothing of the user's settings.
    fn sh(&self, script: &str) -> std::process::Output {
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
    fn verdict(&self, command: &str) -> Verdict {
        let command = CommandUse { command: command.to_owned(), working_dir: None };
        self.policy.judge(&command, &self.workspace(), false).decision.verdict
    }

    /// Whether git starts the program in the course of a command.
    fn starts(&self, command: &str) -> bool {
        let _ = fs::remove_file(self.marks());
        self.sh(command);
        self.marks().exists()
    }
}

/// A command is asked about, and git starts the program.
fn starts_and_asks(script: &str, command: &str) {
    let Some(scene) = Scene::new(script) else { return };
    assert_eq!(scene.verdict(command), Verdict::Ask, "{script}: {command}");
    assert!(scene.starts(command), "{script}: {command}");
}

/// Commands about which nothing is asked, and in which git starts nothing.
fn is_allowed(script: &str, commands: &[&str]) {
    let Some(scene) = Scene::new(script) else { return };
    for command in commands {
        assert_eq!(scene.verdict(command), Verdict::Allow, "{script}: {command}");
    }
    for command in commands {
        assert!(!scene.starts(command), "{script}: {command}");
    }
}

/// A directory that git does not take for its own does not end the search for the repository.
#[test]
fn the_repository_around_one_that_git_passes_by_counts() {
    let evil = format!("{REPOSITORY}\ngit config core.fsmonitor \"$EVIL\"\n");
    for hidden in [
        "mkdir -p sub/.git",
        "mkdir -p sub/.git/objects sub/.git/refs; echo garbage > sub/.git/HEAD",
        "mkdir -p sub/.git/objects; echo 'ref: refs/heads/main' > sub/.git/HEAD",
        "git init -q sub; ln -sfn /nowhere sub/.git/HEAD",
        "git init -q sub; rm -r sub/.git/objects",
        "git init -q sub; printf 'ref: heads/main' > sub/.git/HEAD",
    ] {
        for command in ["cd sub && git status", "git -C sub status"] {
            starts_and_asks(&format!("{evil}{hidden}"), command);
        }
        let plain = format!("{REPOSITORY}\n{hidden}");
        is_allowed(&plain, &["cd sub && git status", "git -C sub status", "git status"]);
    }
    // Git takes one that it takes, and looks no further.
    for own in ["git init -q sub", "git init -q sub; git -C sub checkout -q -b x 2> /dev/null"] {
        is_allowed(&format!("{evil}{own}"), &["cd sub && git status"]);
    }
    is_allowed(&format!("{REPOSITORY}\ngit checkout -q --detach"), &["git status", "git commit -m x"]);
}

/// A git directory that has its parts elsewhere is one, too.
#[test]
fn a_git_directory_with_its_parts_elsewhere_counts() {
    let script = format!(
        "{REPOSITORY}\nmkdir x; cp -R .git e; echo 'ref: refs/heads/main' > x/HEAD; echo ../e > x/commondir
        git config -f e/config diff.external \"$EVIL\"; git config -f e/config core.bare false
        git config -f e/config core.fsmonitor \"$EVIL\"; git config -f e/config core.worktree \"$PWD\""
    );
    for command in ["cd x && git diff --no-index HEAD commondir", "git -C x diff --no-index HEAD commondir"] {
        starts_and_asks(&script, command);
    }
    is_allowed(REPOSITORY, &["git status", "git diff --no-index f g"]);
}

/// A rebase that waits, with steps still to do.
fn waiting(steps: &str, more: &str) -> String {
    format!(
        "{REPOSITORY}\nmkdir .git/rebase-merge; git rev-parse HEAD > .git/rebase-merge/onto
        cp .git/rebase-merge/onto .git/rebase-merge/orig-head; echo refs/heads/main > .git/rebase-merge/head-name
        : > .git/rebase-merge/interactive; : > .git/rebase-merge/done
        printf '{steps}' > .git/rebase-merge/git-rebase-todo; git checkout -q --detach\n{more}"
    )
}

/// What a rebase still has to do may be a command, and may stand there without one having been started.
#[test]
fn the_steps_of_a_rebase_that_waits_count() {
    for steps in
        ["exec ../evil\\n", "x ../evil", "noop\\n \\tx\\t../evil\\n", "# x\\n\\r\\nexec ../evil\\r\\n"]
    {
        for command in ["git rebase --continue", "git rebase --skip"] {
            starts_and_asks(&waiting(steps, ""), command);
        }
        is_allowed(&waiting(steps, ""), &["git status", "git add f", "git stash", "git commit -m x"]);
    }
    let named = waiting("pick other\\n", "echo evil > .git/rebase-merge/strategy");
    starts_and_asks(&named, "git rebase --continue");
    for steps in [
        "",
        "noop\\n",
        "# exec ../evil\\n\\n  \\t\\nbreak\\npick exec\\n",
        "p other\\nreword other\\nedit other\\nupdate-ref refs/heads/x\\nfixup -C other\\nm -C other x\\n",
    ] {
        is_allowed(&waiting(steps, ""), &["git rebase --continue", "git rebase --abort"]);
    }
    let of_git = "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i -X theirs other";
    is_allowed(&format!("{REPOSITORY}\n{of_git}"), &["git rebase --continue"]);
    // What is too long or no file is not read.
    let Some(scene) = Scene::new(&waiting("", "")) else { return };
    let steps = scene.workspace().join(".git/rebase-merge/git-rebase-todo");
    fs::write(&steps, "noop\n".repeat(1 << 20)).unwrap();
    assert_eq!(scene.verdict("git rebase --continue"), Verdict::Ask);
    fs::write(&steps, b"\xff\0x\0").unwrap();
    assert_eq!(scene.verdict("git rebase --continue"), Verdict::Ask);
    fs::remove_file(&steps).unwrap();
    std::os::unix::fs::symlink("../../f", &steps).unwrap();
    assert_eq!(scene.verdict("git rebase --continue"), Verdict::Ask);
}

/// Commits that wait to be taken over name a way to merge, which is a program.
#[test]
fn the_options_of_commits_that_wait_count() {
    let waiting = |verb: &str, options: &str| {
        format!(
            "{REPOSITORY}\nmkdir .git/sequencer; git rev-parse HEAD > .git/sequencer/head
            cp .git/sequencer/head .git/sequencer/abort-safety; printf '{options}' > .git/sequencer/opts
            for time in 1 2; do echo \"{verb} $(git rev-parse other) x\"; done > .git/sequencer/todo"
        )
    };
    for options in [
        "[options]\\n\\tstrategy = evil\\n",
        "[options] STRATEGY=evil",
        "[options]\\nstrategy = \"evi\\\\\\nl\"",
    ] {
        for command in ["git cherry-pick --continue", "git cherry-pick --skip"] {
            starts_and_asks(&waiting("pick", options), command);
        }
        is_allowed(&waiting("pick", options), &["git status", "git commit -m x"]);
    }
    for options in
        ["", "[options]\\n\\tstrategy-option = theirs\\n\\tedit = true\\n\\tstrategy = recursive\\n"]
    {
        is_allowed(&waiting("pick", options), &["git cherry-pick --continue"]);
        is_allowed(&waiting("revert", options), &["git revert --continue"]);
    }
    let Some(scene) = Scene::new(&waiting("revert", "[options] strategy = evil")) else { return };
    assert_eq!(scene.verdict("git revert --continue"), Verdict::Ask);
    let of_git = "git cherry-pick -X theirs HEAD other > /dev/null 2>&1 || test -f .git/sequencer/opts";
    is_allowed(&format!("{REPOSITORY}\n{of_git}"), &["git cherry-pick --skip"]);
}

/// Entries of an index may stand in a file beside it.
#[test]
fn an_index_in_two_files_counts() {
    let script = format!("{REPOSITORY}\n{INNER}\ngit add n; git update-index --split-index");
    starts_and_asks(&script, "git status");
    is_allowed(&format!("{REPOSITORY}\n{INNER}"), &["git status"]);
    // Only the one that the index names counts.
    let before = format!("{REPOSITORY}\ngit update-index --split-index; git update-index --no-split-index");
    is_allowed(&format!("{before}; ls .git/sharedindex.*"), &["git status", "git diff"]);
}

/// Git writes an index in several ways, and each is read to its end.
#[test]
fn an_index_of_any_version_counts() {
    let many = "mkdir d; for n in $(seq 300); do echo $n > d/some-name-$n; done; git add -A; echo x > new; git add -N new";
    for version in 2..=4 {
        let write =
            format!("git -c core.fsmonitor= update-index --index-version {version} --force-write-index");
        let blocks = write.replace("git ", "git -c index.threads=4 ");
        for write in [write, format!("{blocks}; grep -q IEOT .git/index")] {
            let script = format!("{REPOSITORY}\n{many}");
            is_allowed(&format!("{script}\n{write}"), &["git status"]);
            let inner = format!("{INNER}\ngit -c core.fsmonitor= add n 2> /dev/null");
            starts_and_asks(&format!("{script}\n{inner}\n{write}"), "git status");
        }
    }
}

/// Git works in a repository inside another as soon as the index has it, which the command itself may bring about.
#[test]
fn a_repository_inside_another_counts_where_the_command_may_take_it_up() {
    let inside = format!("{REPOSITORY}\n{INNER}");
    for command in [
        "git add n && git status",
        "git add . ; git commit -a",
        "git -C . add -A && git diff",
        "git stage n; cd . && git status --short",
        "for time in 1 2; do git add n; done",
    ] {
        starts_and_asks(&inside, command);
    }
    is_allowed(&inside, &["git status; git diff", "git status; git push", "git diff other"]);
    // A commit may hold it.
    let committed = format!("{inside}\n{COMMITTED}");
    for command in [
        "git checkout linked",
        "git switch linked",
        "git merge linked && git status",
        "git reset --hard linked && git status",
        "git rebase linked; git diff",
        "git cherry-pick linked; git status",
        "git pull . linked; git status",
    ] {
        starts_and_asks(&committed, command);
    }
    // The repository around it may be new.
    starts_and_asks(INNER, "git init && git add n && git status");
    is_allowed("echo a > f; git init -q n; touch n/x", &["git init && git add . && git commit -m x"]);
    // It may stand in the place of a file.
    let replaced = format!("{REPOSITORY}\nrm f\n{}", INNER.replace(" n", " f").replace("n/x", "f/x"));
    starts_and_asks(&replaced, "git commit -a");
}

/// All other subcommands that change something leave the index without one, though a commit holds it.
#[test]
fn other_subcommands_take_no_repository_up() {
    let Some(scene) = Scene::new(&format!("{REPOSITORY}\n{INNER}\n{COMMITTED}")) else { return };
    for command in [
        "git mv g h",
        "git rm -q --cached h",
        "git clean -f -d",
        "git checkout-index -f -a",
        "git rerere",
        "git sparse-checkout set n",
        "git config user.name x",
        "git init",
        "git fetch . linked:fetched",
        "git push . linked:pushed",
        "git branch more linked",
        "git tag -m x more linked",
        "git notes add -m x linked",
        "git replace HEAD linked",
        "git update-ref refs/heads/main linked",
        "git symbolic-ref HEAD refs/heads/linked",
        "git worktree add -q -f ../y linked",
        "git bundle create ../b linked",
        "git archive linked",
        "git format-patch -1 linked",
        "git pack-refs --all",
        "git repack -a -d",
        "git gc",
        "git write-tree",
        "git status",
        "git diff HEAD",
    ] {
        assert!(!scene.starts(command), "{command}");
        let index = scene.sh("git ls-files --stage");
        let index = String::from_utf8(index.stdout).unwrap();
        assert!(index.contains("100644 ") && !index.contains("160000 "), "{command}: {index}");
    }
}

/// Repositories inside another that start nothing themselves.
#[test]
fn a_plain_repository_inside_another_may_be_taken_up() {
    let commands = ["git add . && git commit -m x", "git checkout other", "git switch main; git status"];
    for more in [
        "mkdir -p d/e; touch d/e/x; ln -s . d/loop; ln -s /nowhere d/lost",
        "git clone -q . n; mkdir -p d; cp -R n d/m",
        "git init -q n; touch n/x",
        "mkdir n; touch n/x; echo 'gitdir: ../.git/worktrees/n' > n/.git",
        "mkdir n; touch n/x; echo hello > n/.git; mkdir m; touch m/x m/.git",
        "mkdir n; touch n/x; echo 'gitdir: /etc/passwd/x' > n/.git; mkdir m; echo 'gitdir: ../f/x' > m/.git",
        "git worktree add -q trees/x other~1 2> /dev/null; git worktree add -q --detach ../outside",
    ] {
        is_allowed(&format!("{REPOSITORY}\n{more}"), &commands);
    }
    for more in [LIBRARY.to_owned(), format!("{LIBRARY}\ngit -C n worktree add -q w/x 2> /dev/null")] {
        is_allowed(&format!("{REPOSITORY}\n{more}"), &commands);
    }
    // One inside such a one starts a program, or its settings lead git to another work tree, where one does.
    for more in [
        "git -C n/m config core.fsmonitor \"$EVIL\"; touch n/m/y",
        "git init -q n/m/o; git -C n/m/o commit -q --allow-empty -m i; git -C n/m add o 2> /dev/null
        git -C n/m commit -q -m o; git -C n/m/o config core.fsmonitor \"$EVIL\"; touch n/m/o/y",
        "cp -R n/m ../m; rm ../m/.git; git init -q ../m/o; git -C ../m/o commit -q --allow-empty -m i
        git -C n/m config core.worktree \"$PWD/../m\"; git -C n/m add o 2> /dev/null; git -C n/m commit -q -m o
        git -C ../m/o config core.fsmonitor \"$EVIL\"; touch ../m/o/y",
    ] {
        starts_and_asks(&format!("{REPOSITORY}\n{LIBRARY}\n{more}"), "git add n; git status");
    }
    // A file leads to settings of somewhere else.
    for more in ["git init -q ../o; git -C ../o config core.fsmonitor \"$EVIL\"; git -C ../o commit -q --allow-empty -m i
        mkdir n; touch n/x; echo \"gitdir: $PWD/../o/.git\" > n/.git",
        "git worktree add -q n; cp -R .git ../o; git -C ../o config core.fsmonitor \"$EVIL\"
        echo ../../../../o > .git/worktrees/n/commondir; touch n/x"] {
        starts_and_asks(&format!("{REPOSITORY}\n{more}"), "git add n; git status");
    }
}

/// What a repository keeps of another work tree says where the settings are that count there.
#[test]
fn another_work_tree_with_settings_of_its_own_counts() {
    let script = format!("{REPOSITORY}\ngit worktree add -q ../x other 2> /dev/null");
    let commands = ["git worktree remove ../x", "git worktree add ../y", "git status"];
    is_allowed(&script, &commands);
    let elsewhere = "cp -R .git e; git --git-dir=e config core.fsmonitor \"$EVIL\"
        echo ../../../e > .git/worktrees/x/commondir";
    starts_and_asks(&format!("{script}\n{elsewhere}"), "git worktree remove ../x");
    is_allowed(&format!("{script}\n{elsewhere}"), &["git status", "git commit -m x"]);
}

/// What is asked about anyway is not looked for in the work tree.
#[test]
fn the_work_tree_counts_where_a_rule_would_let_the_command_pass() {
    let Some(scene) = Scene::new(&format!("{REPOSITORY}\n{INNER}")) else { return };
    let reason = |policy: &Policy| {
        let command = CommandUse { command: "git add -A".to_owned(), working_dir: None };
        policy.judge(&command, &scene.workspace(), false).decision.reason.unwrap_or_default()
    };
    assert!(reason(&scene.policy).contains("the repository may name programs"));
    assert!(reason(&Policy::from_toml("").unwrap()).contains("may do more than read"));
}

/// Without a subcommand, and with those that no alias replaces, git looks at no work tree.
#[test]
fn what_git_says_of_itself_starts_nothing() {
    let Some(mut scene) = Scene::new(&format!("{REPOSITORY}\n{INNER}")) else { return };
    scene.policy = Policy::from_toml("[[rules]]\nverdict = 'allow'\ncommand = ['git', 'git *']").unwrap();
    let says = ["git", "git --version", "git help -g", "git var GIT_EDITOR", "git annotate f"];
    for command in says {
        assert_eq!(scene.verdict(command), Verdict::Allow, "{command}");
        assert!(!scene.starts(&format!("{command} < /dev/null")), "{command}");
    }
    for command in ["git co", "git $x", "echo add -A | xargs git"] {
        assert_eq!(scene.verdict(command), Verdict::Ask, "{command}");
    }
}

/// A commit of the index as it is takes nothing up.
#[test]
fn a_commit_of_the_index_looks_at_no_work_tree() {
    let script = format!("{REPOSITORY}\n{INNER}\necho n/ > .gitignore; echo q >> g; git add g .gitignore");
    let commits = ["git commit -m x", "git commit -q --amend --no-edit", "git commit -m x -s; git status"];
    is_allowed(&script, &commits);
    let Some(scene) = Scene::new(&script) else { return };
    for args in [
        "-am x",
        "-a -m x",
        "-m x n",
        "-m x -i n",
        "-m $x",
        "-m \"$@\"",
        "-m *",
        "$x",
        "-m",
        "-p -m x",
        "-m x --",
    ] {
        assert_eq!(scene.verdict(&format!("git commit {args}")), Verdict::Ask, "{args}");
    }
    assert_eq!(scene.verdict("git add n && git commit -m x"), Verdict::Ask);
}
