//! Commands that try to hide what they leave: in what nobody may open, beyond every bound, behind second names, in what
//! stops being protected, or by making the look itself fail.

use std::os::fd::AsRawFd;

use pretty_assertions::assert_eq;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn paths(removed: &[(String, String)]) -> Vec<&str> {
    let mut paths: Vec<&str> = removed.iter().map(|(path, _)| path.as_str()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn what_can_no_longer_be_read_or_remembered_is_restored() {
    let mut files = REPOSITORY.to_vec();
    files.extend([(".vscode/tasks.json", "mine"), (".vscode/in/x", "mine"), (".envrc", "mine")]);
    first_and_later(&files, false, |scene| {
        let large = "x".repeat(2 << 20);
        scene.write(".vscode/large", &large);
        mode(&scene.path(".vscode"), 0o750);
        let removed = scene.call(|scene| {
            for number in 0..2100 {
                scene.write(&format!(".git/hooks/{number}"), "");
            }
            scene.write(".git/hooks/pre-commit", "new");
            for number in 0..10 {
                scene.write(&format!(".vscode/{number}"), &large[..1 << 20]);
            }
            scene.write(".vscode/in/x", "theirs");
            mode(&scene.path(".vscode/in"), 0);
            mode(&scene.path(".vscode"), 0);
            scene.write(".envrc", &large);
        });
        assert_eq!(removed.last().unwrap().0, "(2049 more)");
        let mut hooks: Vec<_> =
            fs::read_dir(scene.path(".git/hooks")).unwrap().map(|one| one.unwrap().file_name()).collect();
        hooks.sort();
        assert_eq!(hooks, ["pre-commit.sample", "pre-push"]);
        assert_eq!(scene.path(".vscode").metadata().unwrap().mode() & 0o777, 0o750);
        assert_eq!(fs::read_dir(scene.path(".vscode")).unwrap().count(), 3);
        assert_eq!(scene.read(".vscode/in/x").unwrap(), "mine");
        assert_eq!(scene.read(".vscode/large").unwrap(), large);
        assert_eq!(scene.read(".envrc").unwrap(), "mine");
        assert_eq!(scene.call(|_| {}), []);
        // What is too large to be put back does not stay as a command left it, either.
        let removed = scene.call(|scene| scene.write(".vscode/large", "theirs"));
        assert_eq!(removed, taken(&[(".vscode/large", "theirs")]));
        assert!(!scene.path(".vscode/large").exists());
    });
}

#[test]
fn a_directory_that_is_removed_is_put_back_with_its_mode() {
    first_and_later(&[(".vscode/in/tasks.json", "mine")], false, |scene| {
        mode(&scene.path(".vscode/in"), 0o710);
        symlink("in/tasks.json", scene.path(".vscode/link")).unwrap();
        let removed = scene.call(|scene| fs::remove_dir_all(scene.path(".vscode")).unwrap());
        assert_eq!(removed, []);
        assert_eq!(scene.read(".vscode/link").unwrap(), "mine");
        assert_eq!(scene.path(".vscode/in").metadata().unwrap().mode() & 0o777, 0o710);
        let owner = scene.folder.path().metadata().unwrap().uid();
        assert_eq!(scene.path(".vscode/link").symlink_metadata().unwrap().uid(), owner);
    });
}

#[test]
fn directories_that_nobody_may_enter_are_looked_into_however_many_they_are() {
    first_and_later(&[("x", "")], true, |scene| {
        const MANY: usize = 1400;
        let removed = scene.call(|scene| {
            for number in 0..MANY {
                scene.write(&format!("d/{number}/.git/config"), HOSTILE);
                mode(&scene.path(&format!("d/{number}")), 0);
            }
        });
        assert_eq!(removed.last().unwrap().0, format!("({} more)", MANY - 64));
        for number in 0..MANY {
            let path = scene.path(&format!("d/{number}"));
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0);
            mode(&path, 0o755);
            assert!(!path.join(".git/config").exists(), "{number}");
        }
    });
}

#[test]
fn what_belongs_to_others_stops_no_call() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root, to make files of another user");
        return;
    }
    let name = "protect::tests::hostile::what_belongs_to_others_stops_no_call_of_a_user";
    let folder = tempfile::tempdir().unwrap();
    for (path, bits) in [("a", 0o700), ("b", 0o744), ("c", 0o711)] {
        write(&folder.path().join(path).join(".envrc"), "root's");
        write(&folder.path().join(path).join(".vscode/x"), "root's");
        mode(&folder.path().join(path), bits);
    }
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    mode(&program, 0o755);
    std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).unwrap();
    let mut command = Command::new(&program);
    std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    std::os::unix::process::CommandExt::gid(&mut command, 65_534);
    let output = command.current_dir("/").args(["--exact", name]).env(ALONE, folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn what_belongs_to_others_stops_no_call_of_a_user() {
    let Some(folder) = std::env::var_os(ALONE).filter(|_| !rustix::process::geteuid().is_root()) else {
        println!("skipped: a part of the test before it");
        return;
    };
    let names = [".envrc", ".vscode", ".git"].map(str::to_owned).to_vec();
    for mounts in [true, false] {
        let protection = Protection::new(PathBuf::from(&folder), names.clone(), none(), mounts);
        for _ in 0..4 {
            let turn = protection.begin().unwrap().unwrap();
            write(&Path::new(&folder).join("d/.envrc"), "new");
            assert_eq!(turn.end().unwrap().len(), 1);
        }
    }
}

#[test]
fn a_directory_is_watched_although_it_was_closed_when_it_was_first_seen() {
    for calls in 0..4 {
        let scene = Scene::new(&[("x", "")], true);
        for _ in 0..calls {
            scene.call(|_| {});
        }
        scene.call(|scene| {
            fs::create_dir(scene.path("d")).unwrap();
            mode(&scene.path("d"), 0);
        });
        scene.call(|_| {});
        let removed = scene.call(|scene| {
            mode(&scene.path("d"), 0o755);
            scene.write("d/.git/hooks/pre-commit", "new");
            scene.write("d/.envrc", "new");
        });
        assert_eq!(paths(&removed), ["d/.envrc", "d/.git/hooks/pre-commit"], "{calls}");
    }
}

#[test]
fn what_stops_being_part_of_a_place_is_looked_into() {
    first_and_later(&[("x", "")], true, |scene| {
        let removed = scene.call(|scene| {
            for path in ["HEAD", "objects/x", "refs/x", "hooks/a.sample"] {
                scene.write(&format!("d/{path}"), "");
            }
            fs::create_dir_all(scene.path(".claude/worktrees")).unwrap();
        });
        assert_eq!(removed, []);
        scene.call(|_| {});
        let removed = scene.call(|scene| {
            fs::remove_file(scene.path("d/HEAD")).unwrap();
            scene.write("d/hooks/sub/.git/hooks/pre-commit", "new");
            scene.write("d/hooks/.envrc", "new");
            fs::remove_dir(scene.path(".claude/worktrees")).unwrap();
            scene.write(".claude/worktrees/w/.git/hooks/pre-commit", "new");
            scene.write(".claude/worktrees/w/.claude/settings.json", "new");
        });
        let expected = [
            ".claude/worktrees/w/.claude/settings.json",
            ".claude/worktrees/w/.git/hooks/pre-commit",
            "d/hooks/.envrc",
            "d/hooks/sub/.git/hooks/pre-commit",
        ];
        assert_eq!(paths(&removed), expected);
        let removed = scene.call(|scene| scene.write("d/hooks/sub2/.vscode/tasks.json", "new"));
        assert_eq!(paths(&removed), ["d/hooks/sub2/.vscode/tasks.json"]);
    });
}

#[test]
fn a_second_name_leads_around_no_mount() {
    let mut files = REPOSITORY.to_vec();
    files.push((".envrc", "mine"));
    for mounts in [true, false] {
        first_and_later(&files, mounts, |scene| {
            for (path, second) in
                [(".envrc", "one"), (".git/config", "two"), (".git/hooks/pre-push", "three")]
            {
                fs::hard_link(scene.path(path), scene.path(second)).unwrap();
            }
            assert_eq!(scene.call(|_| {}), []);
            let removed = scene.call(|scene| {
                fs::write(scene.path("one"), "theirs").unwrap();
                fs::write(scene.path("two"), HOSTILE).unwrap();
                fs::write(scene.path("three"), "theirs").unwrap();
            });
            let expected =
                [(".envrc", "theirs"), (".git/config", HOSTILE), (".git/hooks/pre-push", "theirs")];
            assert_eq!(removed, taken(&expected));
            assert_eq!(scene.read(".envrc").unwrap(), "mine");
            assert_eq!(scene.read(".git/config").unwrap(), HARMLESS);
            assert_eq!(scene.read(".git/hooks/pre-push").unwrap(), "mine");
            // They are other files now, so what is mounted has to be renewed.
            assert_eq!(scene.before().is_some(), mounts);
            fs::write(scene.path("one"), "again").unwrap();
            assert_eq!(scene.after(), []);
            assert_eq!(scene.read(".envrc").unwrap(), "mine");
        });
    }
}

#[test]
fn a_place_that_is_hard_to_take_away_keeps_none_of_the_others() {
    first_and_later(&[("x", "")], true, |scene| {
        // A directory whose path is as long as can be, so that those in it cannot be named.
        let long = format!("{}/{}", vec!["a".repeat(255); 15].join("/"), "a".repeat(248));
        let removed = scene.call(|scene| {
            let mut opened = rustix::fs::open(scene.folder.path(), OFlags::PATH, Mode::empty()).unwrap();
            for part in long.split('/').chain([".git", "hooks"]) {
                rustix::fs::mkdirat(&opened, part, Mode::RWXU).unwrap();
                opened = rustix::fs::openat(&opened, part, OFlags::PATH, Mode::empty()).unwrap();
            }
            let flags = OFlags::CREATE | OFlags::WRONLY;
            rustix::fs::openat(&opened, "pre-commit", flags, Mode::RWXU).unwrap();
            scene.write("b/.git/hooks/pre-commit", "new");
            mode(&scene.path("b/.git/hooks"), 0);
            mode(&scene.path("b/.git"), 0o555);
            mode(&scene.path("b"), 0o555);
            scene.write("z/.git/hooks/pre-commit", "new");
            scene.write("z/.envrc", "new");
        });
        let first = format!("{long}/.git/hooks/pre-commit");
        let first = &first[..first.len().min(4096)];
        let expected = [first, "b/.git/hooks/pre-commit", "z/.envrc", "z/.git/hooks/pre-commit"];
        assert_eq!(paths(&removed), expected);
        assert_eq!(scene.path("b").metadata().unwrap().mode() & 0o777, 0o555);
        mode(&scene.path("b"), 0o755);
        mode(&scene.path("b/.git"), 0o755);
        assert_eq!(scene.call(|_| {}), []);
    });
}

#[test]
fn what_a_link_makes_a_hook_is_protected_too() {
    let mut files = REPOSITORY.to_vec();
    files.extend([("scripts/check", "mine"), ("shell/envrc", "mine"), ("docs/x", "mine"), (".claude/a", "")]);
    for mounts in [true, false] {
        first_and_later(&files, mounts, |scene| {
            symlink("../../scripts/check", scene.path(".git/hooks/pre-commit")).unwrap();
            symlink("shell/envrc", scene.path(".envrc")).unwrap();
            symlink("../docs", scene.path(".claude/docs")).unwrap();
            let guarded = scene.before().unwrap_or_default();
            for path in ["scripts/check", "shell/envrc"] {
                assert_eq!(guarded.contains(&path.to_owned()), mounts, "{guarded:?}");
            }
            if !mounts {
                scene.write("scripts/check", "theirs");
                scene.write("shell/envrc", "theirs");
            }
            scene.write("docs/x", "theirs");
            scene.write("scripts/other", "theirs");
            assert_eq!(paths(&scene.after()).len(), if mounts { 0 } else { 2 });
            assert_eq!(scene.read("scripts/check").unwrap(), "mine");
            assert_eq!(scene.read("shell/envrc").unwrap(), "mine");
            assert_eq!(scene.read("docs/x").unwrap(), "theirs");
        });
    }
}

#[test]
fn a_work_tree_behind_a_link_is_outside() {
    for (worktree, stays) in [("../../part", true), ("../../link", false), ("../../part/../..", false)] {
        let scene = Scene::new(&[("part/x", "")], true);
        let config = format!("{HARMLESS}\tworktree = {worktree}\n");
        let removed = scene.call(|scene| {
            symlink("/", scene.path("link")).unwrap();
            for (path, text) in [("HEAD", "ref: x"), ("objects/y", ""), ("refs/y", ""), ("config", &config)] {
                scene.write(&format!("r/.git/{path}"), text);
            }
        });
        assert_eq!(removed.is_empty(), stays, "{worktree}: {removed:?}");
    }
}

/// Which test runs alone in a process of its own, because it takes descriptors away from the whole process.
const ALONE: &str = "HELVE_TEST_ALONE";

#[test]
fn what_a_failed_sweep_left_does_not_become_the_owners() {
    if std::env::var_os(ALONE).is_none() {
        let name = "protect::tests::hostile::what_a_failed_sweep_left_does_not_become_the_owners";
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program).args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    for calls in [0, 1, 3] {
        let scene = Scene::new(&[("x", "")], true);
        for _ in 0..calls {
            scene.call(|_| {});
        }
        scene.before();
        scene.write("a/.envrc", "new");
        scene.write("b/.git/hooks/pre-commit", "new");
        // Enough to look into a directory, not enough to read a file in it.
        let removed = with_descriptors(1, || scene.keeper.after()).unwrap();
        let told =
            |path: &str| removed.iter().any(|one| one.path == path && one.why.starts_with("NOT taken out"));
        assert!(told("a/.envrc"), "{calls}: {removed:?}");
        assert!(!scene.keeper.is_quick());
        // No call begins before it is settled, and not even that may be hidden by a look that fails.
        assert!(with_descriptors(1, || scene.keeper.before()).is_err());
        assert!(with_descriptors(0, || scene.keeper.before()).is_err());
        assert!(scene.path("a/.envrc").exists());
        scene.before();
        assert!(!scene.path("a/.envrc").exists() && !scene.path("b/.git/hooks/pre-commit").exists());
        let removed = scene.after();
        assert!(removed.contains(&("a/.envrc".to_owned(), "new".to_owned())), "{removed:?}");
        assert_eq!(scene.call(|_| {}), []);
        // Directories that cannot be opened at all.
        scene.before();
        scene.write("c/.envrc", "new");
        assert!(with_descriptors(0, || scene.keeper.after()).is_err());
        scene.before();
        assert_eq!(scene.after(), taken(&[("c/.envrc", "new")]));
    }
}

/// Runs something while this process may open no more than `more` descriptors.
fn with_descriptors<T>(more: u64, run: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    let probe = rustix::fs::open("/", OFlags::PATH, Mode::empty()).unwrap();
    let next = u64::try_from(probe.as_raw_fd()).unwrap();
    drop(probe);
    setrlimit(Resource::Nofile, Rlimit { current: Some(next + more), ..limit }).unwrap();
    let done = run();
    setrlimit(Resource::Nofile, limit).unwrap();
    done
}
