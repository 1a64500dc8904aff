//! Git without a sandbox where a repository lies inside the work tree of another, or has other work trees.

mod scene;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;
use scene::{INNER, REPOSITORY, Scene, is_allowed, starts_and_asks};

/// The one inside in a commit, and in the index no more.
const COMMITTED: &str = "git -c core.fsmonitor= add n 2> /dev/null; git commit -q -m n; git branch linked
    git reset -q --hard HEAD~1";

/// A clone of another repository in it, which has one inside itself and its own settings for that.
const LIBRARY: &str = "git init -q ../a; git -C ../a commit -q --allow-empty -m i; cp -R ../a ../b
    git -C ../b -c protocol.file.allow=always submodule --quiet add \"$PWD/../a\" m; git -C ../b commit -q -m m
    git -c protocol.file.allow=always clone -q --recurse-submodules ../b n 2> /dev/null";

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
    // A file leads to settings of somewhere else, which may be another place for each process.
    for more in [
        "git init -q e; git -C e commit -q --allow-empty -m i; git -C e config core.fsmonitor \"$EVIL\"
        mv e/.git d; rm -r e; mv d e; mkdir n; cp -R e n/e; touch n/x; echo 'gitdir: /proc/self/cwd/e' > n/.git",
        "git init -q ../o; git -C ../o config core.fsmonitor \"$EVIL\"; git -C ../o commit -q --allow-empty -m i
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

/// An index may have a directory as a whole, in whose tree the repository is.
#[test]
fn an_index_with_a_whole_directory_counts() {
    let modules = "printf '[submodule \"n\"]\\n\\tpath = d/n\\n\\turl = x\\n' > .gitmodules";
    let Some(scene) = Scene::new(&format!("{REPOSITORY}\n{modules}\nmkdir d; cd d\n{INNER}")) else { return };
    let tree = "printf '160000 commit %s\\tn\\n' $(git -C d/n rev-parse HEAD) | git mktree --missing";
    let tree = String::from_utf8(scene.sh(tree).stdout).unwrap();
    let id = (0..20).map(|at| u8::from_str_radix(&tree[2 * at..2 * at + 2], 16).unwrap());
    let index = |mode: u16| {
        let mut index = b"DIRC\0\0\0\x03\0\0\0\x01".to_vec();
        index.extend([0; 26]);
        index.extend(mode.to_be_bytes());
        index.extend([0; 12]);
        index.extend(id.clone());
        // The two further bytes of flags say that the entry is not in the work tree.
        index.extend(b"\x40\x02\x40\0d/\0\0\0\0\0\0sdir\0\0\0\0");
        index.extend([0; 20]);
        std::fs::write(scene.workspace().join(".git/index"), index).unwrap();
    };
    index(0o100_000);
    assert_eq!(scene.verdict("git rm --sparse -r d"), Verdict::Allow);
    index(0o040_000);
    assert_eq!(scene.verdict("git rm --sparse -r d"), Verdict::Ask);
    assert!(scene.starts("git rm --sparse -r d"));
}

/// One inside with a hook and no settings of its own, in a commit and in the index no more.
const HOOKED: &str = "git init -q n; git -C n commit -q --allow-empty -m i; git -C n commit -q --allow-empty -m j
    printf '[submodule \"n\"]\\n\\tpath = n\\n\\turl = ./n\\n' > .gitmodules; git add n .gitmodules 2> /dev/null
    git commit -q -m n; git branch linked; git -C n checkout -q --detach HEAD~1; git reset -q --hard HEAD~1
    mkdir -p n/.git/hooks";

/// A subcommand that works in a repository inside starts its hooks, too.
#[test]
fn the_hooks_of_a_repository_inside_count_where_git_works_in_it() {
    let script = |hook: &str| format!("{REPOSITORY}\n{HOOKED}\ncp \"$EVIL\" n/.git/hooks/{hook}");
    let updates = "git checkout -q linked && git submodule update --init";
    starts_and_asks(&script("post-checkout"), updates);
    starts_and_asks(&script("reference-transaction"), updates);
    starts_and_asks(
        &script("reference-transaction"),
        "git checkout linked; git submodule init; git checkout --recurse-submodules -f linked",
    );
    is_allowed(&script("post-checkout"), &["git checkout linked; git diff", "git fetch . linked:x"]);
    // What runs no hook that is there is none, and what takes none up reaches none.
    is_allowed(&script("pre-push"), &[updates]);
    let Some(scene) = Scene::new(&script("pre-push")) else { return };
    for (command, verdict) in [
        ("git push", Verdict::Allow),
        ("git add n; git push", Verdict::Allow),
        ("git add n; git push --recurse-submodules=on-demand", Verdict::Ask),
        ("git checkout linked; git fetch", Verdict::Allow),
        ("git checkout linked", Verdict::Allow),
    ] {
        assert_eq!(scene.verdict(command), verdict, "{command}");
    }
    let Some(scene) = Scene::new(&script("reference-transaction")) else { return };
    for (command, verdict) in [
        ("git pull", Verdict::Ask),
        ("git checkout linked; git fetch", Verdict::Ask),
        ("for x in 1 2; do git fetch; git add n; done", Verdict::Ask),
        ("git fetch", Verdict::Allow),
        ("git reset linked", Verdict::Allow),
        ("git reset --rec linked", Verdict::Ask),
        ("git switch \"$x\"", Verdict::Ask),
    ] {
        assert_eq!(scene.verdict(command), verdict, "{command}");
    }
}

/// A repository inside may keep one that is not in its work tree yet.
#[test]
fn what_a_repository_inside_keeps_for_later_counts_where_git_works_in_it() {
    let kept = format!(
        "{REPOSITORY}\n{LIBRARY}\nprintf '[submodule \"n\"]\\n\\tpath = n\\n\\turl = ./n\\n' > .gitmodules
        git add n .gitmodules 2> /dev/null; git commit -q -m n; git branch linked; git reset -q --hard HEAD~1
        rm -r n/m; git config -f n/.git/modules/m/config core.fsmonitor \"$EVIL\""
    );
    starts_and_asks(&kept, "git checkout -q linked; git submodule update --init --recursive");
    is_allowed(&kept, &["git checkout linked; git status"]);
}
