//! Git without a sandbox where what it starts does not stand in the settings or hooks of the repository next to it.

mod scene;

use std::fs;

use helve_core::Verdict;
use helve_policy::Policy;
use scene::{INNER, REPOSITORY, Scene, is_allowed, starts_and_asks};

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
        "git init -q sub; printf 'ref:\\frefs/heads/main\\n' > sub/.git/HEAD",
        "git init -q sub; printf 'ref:\\vrefs/heads/main\\n' > sub/.git/HEAD",
    ] {
        for command in ["cd sub && git status", "git -C sub status"] {
            starts_and_asks(&format!("{evil}{hidden}"), command);
        }
        let plain = format!("{REPOSITORY}\n{hidden}");
        is_allowed(&plain, &["cd sub && git status", "git -C sub status", "git status"]);
    }
    // Git takes one that it takes, and looks no further.
    for own in [
        "git init -q sub",
        "git init -q sub; git -C sub checkout -q -b x 2> /dev/null",
        "git init -q sub; printf 'ref: \\t\\r\\nrefs/heads/main' > sub/.git/HEAD",
        "git init -q sub; printf 'ref:refs/heads/main' > sub/.git/HEAD",
    ] {
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

/// A directory may be another one for each process.
#[test]
fn a_directory_of_the_process_that_looks_is_none_of_git() {
    let script = format!("{REPOSITORY}\ngit config core.fsmonitor \"$EVIL\"; ln -s /proc/self/cwd here");
    starts_and_asks(&script, "git -C /proc/self/cwd status");
    starts_and_asks(&script, "git -C here status");
}
