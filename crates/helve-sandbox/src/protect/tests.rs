use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use pretty_assertions::assert_eq;

use super::*;
use crate::native::wire::Cover;

mod denied;
mod hostile;
mod links;
mod others;

const HARMLESS: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";
const HOSTILE: &str = "[core]\n\tfsmonitor = touch owned\n";

/// What nobody may read in a [`Scene`].
fn denied() -> DenyRead {
    DenyRead::new(&[".env", "!sample/.env", "*.pem", "vault/"]).unwrap()
}

fn none() -> DenyRead {
    DenyRead::new::<&str>(&[]).unwrap()
}

/// A workspace and its keeper.
struct Scene {
    folder: tempfile::TempDir,
    keeper: Keeper,
}

impl Scene {
    /// With these files, which are the owner's.
    fn new(files: &[(&str, &str)], mounts: bool) -> Scene {
        Scene::denying(files, mounts, denied())
    }

    fn denying(files: &[(&str, &str)], mounts: bool, denied: DenyRead) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(&folder.path().join(path), text);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, folder.path(), flags, Mode::empty()).unwrap();
        let names: Vec<String> = helve_core::protected::NAMES.iter().map(|name| (*name).to_owned()).collect();
        Scene { folder, keeper: Keeper::new(opened, &names, denied, mounts) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.path(path), text);
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    fn before(&self) -> Option<Vec<String>> {
        self.keeper.before().unwrap().map(|list| list.into_iter().map(show).collect())
    }

    fn after(&self) -> Vec<(String, String)> {
        let removed = self.keeper.after().unwrap();
        removed
            .into_iter()
            .map(|one| (one.path, String::from_utf8_lossy(&one.content).into_owned()))
            .collect()
    }

    /// What is taken away of what a command does.
    fn call(&self, command: impl FnOnce(&Scene)) -> Vec<(String, String)> {
        self.before();
        command(self);
        self.after()
    }
}

fn show(guarded: Guarded) -> String {
    let path = String::from_utf8(guarded.path).unwrap();
    match guarded.cover {
        Cover::ReadOnly => path,
        Cover::Pin => format!("{path} (pin)"),
        Cover::Hidden => format!("{path} (hidden)"),
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn taken(paths: &[(&str, &str)]) -> Vec<(String, String)> {
    paths.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Both ways of looking: by walks (the first call), and by watches (later ones).
fn first_and_later(files: &[(&str, &str)], mounts: bool, test: impl Fn(&Scene)) {
    for calls in [0, 1, 3] {
        let scene = Scene::new(files, mounts);
        for _ in 0..calls {
            assert_eq!(scene.call(|_| {}), []);
        }
        test(&scene);
    }
}

const REPOSITORY: &[(&str, &str)] = &[
    (".git/HEAD", "ref: refs/heads/main\n"),
    (".git/config", HARMLESS),
    (".git/hooks/pre-push", "mine"),
    (".git/hooks/pre-commit.sample", "sample"),
    (".git/objects/x", ""),
    (".git/refs/x", ""),
    ("src/main.rs", ""),
];

#[test]
fn what_exists_is_listed_with_pins_above_and_only_once() {
    let mut files = REPOSITORY.to_vec();
    files.extend([("a/b/.vscode/tasks.json", "{}"), (".mcp.json", "{}"), ("a/.claude/worktrees/w/x", "")]);
    let scene = Scene::new(&files, true);
    let list = [
        ".git (pin)",
        ".git/config",
        ".git/hooks",
        ".mcp.json",
        "a (pin)",
        "a/.claude",
        "a/.claude/worktrees (pin)",
        "a/b (pin)",
        "a/b/.vscode",
    ];
    assert_eq!(scene.before(), Some(list.map(str::to_owned).to_vec()));
    assert_eq!(scene.after(), []);
    for _ in 0..3 {
        assert_eq!(scene.before(), None);
        assert_eq!(scene.after(), []);
    }
}

#[test]
fn owners_changes_between_calls_stay_and_renew_the_list() {
    first_and_later(REPOSITORY, true, |scene| {
        scene.call(|_| {});
        scene.write(".git/config", HOSTILE);
        scene.write(".vscode/tasks.json", "{}");
        let list = scene.before().unwrap();
        assert!(list.contains(&".vscode".to_owned()), "{list:?}");
        assert_eq!(scene.after(), []);
        // Another file under the same name, as git and editors write: a mount on the old one is worth nothing.
        scene.write("config.new", HARMLESS);
        fs::rename(scene.path("config.new"), scene.path(".git/config")).unwrap();
        assert!(scene.before().is_some());
        assert_eq!(scene.after(), []);
        fs::remove_dir_all(scene.path(".vscode")).unwrap();
        let list = scene.before().unwrap();
        assert!(!list.contains(&".vscode".to_owned()), "{list:?}");
        assert_eq!(scene.after(), []);
        assert_eq!(scene.read(".git/config").unwrap(), HARMLESS);
    });
}

#[test]
fn what_a_command_makes_at_protected_places_is_taken_away() {
    first_and_later(REPOSITORY, true, |scene| {
        let removed = scene.call(|scene| {
            scene.write(".agent/settings.json", "{}");
            scene.write("deep/er/.vscode/a/b/tasks.json", "run");
            scene.write("src/.envrc", "touch owned");
            scene.write(".git/config.worktree", HOSTILE);
            scene.write("src/ordinary", "stays");
            scene.write(".bashrc", "x");
        });
        let expected = [
            (".agent/settings.json", "{}"),
            (".bashrc", "x"),
            (".git/config.worktree", HOSTILE),
            ("deep/er/.vscode/a/b/tasks.json", "run"),
            ("src/.envrc", "touch owned"),
        ];
        assert_eq!(removed, taken(&expected));
        for path in [".agent", "deep/er/.vscode", "src/.envrc", ".bashrc"] {
            assert!(!scene.path(path).exists(), "{path}");
        }
        assert_eq!(scene.read("src/ordinary").unwrap(), "stays");
        assert!(scene.path("deep/er").is_dir());
        assert_eq!(scene.call(|_| {}), []);
    });
}

#[test]
fn repositories_of_commands_stay_as_long_as_they_are_harmless() {
    first_and_later(&[("x", "")], true, |scene| {
        let make = |scene: &Scene, at: &str, config: &str| {
            for (path, text) in [("HEAD", "ref: x"), ("objects/y", ""), ("refs/y", ""), ("config", config)] {
                scene.write(&format!("{at}/{path}"), text);
            }
            scene.write(&format!("{at}/hooks/update.sample"), "");
        };
        let removed = scene.call(|scene| {
            make(scene, "good/.git", HARMLESS);
            make(scene, "bad/.git", HOSTILE);
            make(scene, "bare/hidden", HOSTILE);
            scene.write("good/.git/hooks/pre-commit", "exit");
        });
        let expected = [
            ("bad/.git/config", HOSTILE),
            ("bare/hidden/config", HOSTILE),
            ("good/.git/hooks/pre-commit", "exit"),
        ];
        assert_eq!(removed, taken(&expected));
        assert!(scene.path("good/.git/hooks/update.sample").exists());
        // It stays the command's: nothing to mount, free to be configured, judged each time.
        for _ in 0..2 {
            assert_eq!(scene.before(), None);
            assert_eq!(scene.after(), []);
        }
        let more = format!("{HARMLESS}[remote \"origin\"]\n\turl = https://example.org/x\n");
        assert_eq!(scene.call(|scene| scene.write("good/.git/config", &more)), []);
        let removed = scene.call(|scene| {
            fs::rename(scene.path("good"), scene.path("moved")).unwrap();
            scene.write("moved/.git/config", HOSTILE);
        });
        assert_eq!(removed, taken(&[("moved/.git/config", HOSTILE)]));
        assert_eq!(scene.call(|scene| fs::remove_dir_all(scene.path("moved")).unwrap()), []);
        // A hook that the owner adds is the owner's.
        make(scene, "good/.git", HARMLESS);
        scene.write("good/.git/hooks/pre-commit", "mine");
        assert!(scene.before().unwrap().contains(&"good/.git/hooks".to_owned()));
        assert_eq!(scene.after(), []);
        assert_eq!(scene.read("good/.git/hooks/pre-commit").unwrap(), "mine");
    });
}

#[test]
fn second_names_and_mappings_hide_no_change() {
    first_and_later(&[("x", "")], true, |scene| {
        let removed = scene.call(|scene| {
            for (path, text) in [("HEAD", "ref: x"), ("objects/y", ""), ("refs/y", ""), ("config", HARMLESS)]
            {
                scene.write(&format!("r/.git/{path}"), text);
            }
        });
        assert_eq!(removed, []);
        let removed = scene.call(|scene| {
            fs::hard_link(scene.path("r/.git/config"), scene.path("other")).unwrap();
            fs::write(scene.path("other"), HOSTILE).unwrap();
        });
        assert_eq!(removed, taken(&[("r/.git/config", HOSTILE)]));
        assert!(scene.path("other").exists());
    });
}

#[test]
fn files_that_lead_git_elsewhere_are_taken_away() {
    first_and_later(REPOSITORY, true, |scene| {
        let root = scene.folder.path().canonicalize().unwrap();
        let inside = format!("gitdir: {}/.git/worktrees/w\n", root.display());
        let removed = scene.call(|scene| {
            scene.write(".git/worktrees/w/HEAD", "ref: x");
            scene.write(".git/worktrees/w/commondir", "../..\n");
            scene.write(".git/worktrees/w/gitdir", &format!("{}/w/.git\n", root.display()));
            scene.write("w/.git", &inside);
            scene.write("out/.git", "gitdir: /tmp/evil\n");
            scene.write("up/.git", "gitdir: ../../evil\n");
            scene.write("plain/.git", "gitdir: ../src\n");
            scene.write("bare/HEAD", "ref: x");
            scene.write("bare/commondir", "/tmp/evil");
            // Another repository, harmless by itself, in place of the owner's.
            scene.write(".git/commondir", "../bare");
            fs::create_dir_all(scene.path("link")).unwrap();
            symlink("../.git", scene.path("link/.git")).unwrap();
        });
        let paths: Vec<&str> = removed.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [".git/commondir", "bare/commondir", "link/.git", "out/.git", "plain/.git", "up/.git"]
        );
        assert_eq!(scene.read("w/.git").unwrap(), inside);
    });
}

#[test]
fn without_mounts_the_owners_files_are_put_back() {
    let mut files = REPOSITORY.to_vec();
    files.extend([(".vscode/tasks.json", "mine"), (".envrc", "mine")]);
    first_and_later(&files, false, |scene| {
        symlink("../elsewhere", scene.path(".codex")).unwrap();
        fs::set_permissions(scene.path(".git/hooks/pre-push"), fs::Permissions::from_mode(0o755)).unwrap();
        let removed = scene.call(|scene| {
            scene.write(".git/config", HOSTILE);
            scene.write(".git/hooks/post-commit", "new");
            fs::remove_file(scene.path(".git/hooks/pre-push")).unwrap();
            scene.write(".vscode/tasks.json", "theirs");
            scene.write(".vscode/new.json", "new");
            fs::remove_file(scene.path(".envrc")).unwrap();
            fs::create_dir(scene.path(".envrc")).unwrap();
            fs::remove_file(scene.path(".codex")).unwrap();
        });
        let expected = [
            (".git/config", HOSTILE),
            (".git/hooks/post-commit", "new"),
            (".vscode/new.json", "new"),
            (".vscode/tasks.json", "theirs"),
        ];
        assert_eq!(removed, taken(&expected));
        assert_eq!(scene.read(".git/config").unwrap(), HARMLESS);
        assert_eq!(scene.read(".git/hooks/pre-push").unwrap(), "mine");
        assert_eq!(scene.path(".git/hooks/pre-push").metadata().unwrap().mode() & 0o777, 0o755);
        assert_eq!(scene.read(".vscode/tasks.json").unwrap(), "mine");
        assert_eq!(scene.read(".envrc").unwrap(), "mine");
        assert_eq!(fs::read_link(scene.path(".codex")).unwrap(), Path::new("../elsewhere"));
        assert_eq!(scene.call(|_| {}), []);
    });
}

#[test]
fn hooks_and_includes_of_the_owners_configuration_are_protected_where_they_lie() {
    let config = "[core]\n\thooksPath = .husky/_\n[include]\n\tpath = ../tools/gitconfig\n";
    let mut files = vec![(".git/config", config), (".git/HEAD", ""), (".husky/pre-commit", "mine")];
    files.push(("tools/gitconfig", HARMLESS));
    first_and_later(&files, false, |scene| {
        let removed = scene.call(|scene| {
            scene.write(".husky/pre-commit", "theirs");
            scene.write("tools/gitconfig", HOSTILE);
            scene.write("tools/other", "stays");
        });
        assert_eq!(removed, taken(&[(".husky/pre-commit", "theirs"), ("tools/gitconfig", HOSTILE)]));
        assert_eq!(scene.read(".husky/pre-commit").unwrap(), "mine");
        assert_eq!(scene.read("tools/other").unwrap(), "stays");
    });
}

#[test]
fn nothing_that_is_left_leads_out_or_stops_the_sweep() {
    first_and_later(&[("x", "")], true, |scene| {
        let outside = tempfile::tempdir().unwrap();
        write(&outside.path().join("kept"), "kept");
        let removed = scene.call(|scene| {
            fs::create_dir(scene.path(".vscode")).unwrap();
            symlink(outside.path(), scene.path(".vscode/out")).unwrap();
            symlink(outside.path().join("kept"), scene.path(".mcp.json")).unwrap();
            symlink(outside.path(), scene.path("linked")).unwrap();
            rustix::fs::mknodat(CWD, scene.path(".vscode/pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
                .unwrap();
            scene.write(".vscode/shut/inner", "x");
            fs::set_permissions(scene.path(".vscode/shut"), fs::Permissions::from_mode(0o0)).unwrap();
            scene.write("closed/.envrc", "x");
            fs::set_permissions(scene.path("closed"), fs::Permissions::from_mode(0o0)).unwrap();
        });
        let mut paths: Vec<&str> = removed.iter().map(|(path, _)| path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(
            paths,
            [".mcp.json", ".vscode/out", ".vscode/pipe", ".vscode/shut/inner", "closed/.envrc"]
        );
        assert_eq!(scene.path("closed").metadata().unwrap().mode() & 0o777, 0);
        fs::set_permissions(scene.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
    });
}

#[test]
fn deep_and_many_are_taken_away_within_bounds() {
    let scene = Scene::new(&[], true);
    scene.call(|_| {});
    let removed = scene.call(|scene| {
        let mut directory = scene.path(".vscode");
        fs::create_dir(&directory).unwrap();
        for number in 0..3000 {
            fs::write(directory.join(number.to_string()), "x").unwrap();
        }
        // Deeper than descriptors and paths reach.
        let mut opened = rustix::fs::open(&directory, OFlags::PATH, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&opened, "deep", Mode::RWXU).unwrap();
            opened = rustix::fs::openat(&opened, "deep", OFlags::PATH, Mode::empty()).unwrap();
        }
        directory.push("large");
        fs::write(directory, vec![b'x'; 3 << 20]).unwrap();
    });
    assert!(!scene.path(".vscode").exists());
    assert_eq!(removed.len(), 65);
    assert_eq!(removed.last().unwrap().0, "(2937 more)");
    assert!(removed.iter().all(|(_, content)| content.len() <= 1 << 20));
}

#[test]
fn calls_that_overlap_are_the_commands_doing() {
    let scene = Scene::new(&[("x", "")], true);
    scene.call(|_| {});
    assert_eq!(scene.before(), None);
    scene.write(".mcp.json", "theirs");
    assert_eq!(scene.before(), None);
    assert_eq!(scene.after(), taken(&[(".mcp.json", "theirs")]));
    scene.write(".mcp.json", "again");
    assert_eq!(scene.after(), taken(&[(".mcp.json", "again")]));
}

#[test]
fn more_events_than_the_kernel_keeps_lose_nothing() {
    let scene = Scene::new(&[("a/x", "")], true);
    scene.call(|_| {});
    let removed = scene.call(|scene| {
        let bound = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        for number in 0..bound.trim().parse::<u32>().unwrap().min(100_000) {
            let path = scene.path(if number % 2 == 0 { "a/one" } else { "a/two" });
            fs::write(&path, "").unwrap();
            fs::remove_file(&path).unwrap();
        }
        scene.write("a/.envrc", "late");
    });
    assert_eq!(removed, taken(&[("a/.envrc", "late")]));
}

#[test]
fn names_without_a_dot_count_where_the_owner_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let protection = Protection::new(folder.path().to_owned(), vec!["secret.mk".into()], none(), false);
    write(&folder.path().join("a/secret.mk"), "mine");
    for _ in 0..3 {
        let turn = protection.begin().unwrap().unwrap();
        write(&folder.path().join("a/secret.mk"), "theirs");
        write(&folder.path().join("b/secret.mk"), "new");
        write(&folder.path().join("b/.envrc"), "not named");
        assert_eq!(turn.end().unwrap().len(), 2);
        assert_eq!(fs::read_to_string(folder.path().join("a/secret.mk")).unwrap(), "mine");
        assert!(!folder.path().join("b/secret.mk").exists());
    }
    assert!(folder.path().join("b/.envrc").exists());
}

#[test]
fn a_dropped_turn_sweeps_too() {
    let folder = tempfile::tempdir().unwrap();
    let protection = Protection::new(folder.path().to_owned(), vec![".envrc".into()], none(), true);
    let turn = protection.begin().unwrap().unwrap();
    fs::write(folder.path().join(".envrc"), "x").unwrap();
    drop(turn);
    assert!(!folder.path().join(".envrc").exists());
    // A workspace that was made anew is another one.
    let path = folder.path().to_owned();
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let turn = protection.begin().unwrap().unwrap();
    fs::write(path.join(".envrc"), "x").unwrap();
    assert_eq!(turn.end().unwrap().len(), 1);
    let nothing = Protection::new(path, Vec::new(), none(), true);
    assert!(nothing.begin().unwrap().is_none());
}

#[test]
fn what_git_makes_is_left_alone() {
    if !Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no git");
        return;
    }
    first_and_later(&[("x", "")], true, |scene| {
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .current_dir(scene.folder.path())
                .args(["-c", "user.name=A", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
                .args(arguments)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_SYSTEM", "/dev/null")
                .output()
                .unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let removed = scene.call(|_| {
            git(&["init", "-q", "seed"]);
            git(&["-C", "seed", "commit", "-q", "--allow-empty", "-m", "one"]);
            git(&["clone", "-q", "seed", "copy"]);
            git(&["clone", "-q", "--bare", "seed", "bare"]);
            git(&["-C", "seed", "worktree", "add", "-q", "../tree", "-b", "side"]);
            git(&["-C", "copy", "submodule", "--quiet", "add", "../seed", "part"]);
        });
        assert_eq!(removed, []);
        let removed = scene.call(|_| {
            for place in ["seed", "copy", "bare", "tree", "copy/part"] {
                git(&["-C", place, "log", "--oneline"]);
            }
            git(&["-C", "copy", "remote", "add", "other", "https://example.org/x"]);
            git(&["-C", "seed", "worktree", "remove", "../tree"]);
        });
        assert_eq!(removed, []);
        assert_eq!(scene.before(), None);
        fs::remove_dir_all(scene.path("copy")).unwrap();
        assert_eq!(scene.after(), []);
    });
}
