//! Protected paths of the workspace through every sandbox that keeps them, with real commands and a real git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::{Cancel, Ended, Exit, Removed, SandboxChoice, ShellBackend, ShellJob};
use pretty_assertions::assert_eq;

use crate::common::{Collector, LIMITS, block_on, choices, job, view};

/// A workspace with a repository of the owner's at its top and another inside, and a sandbox on it.
struct Scene {
    _folder: tempfile::TempDir,
    workspace: PathBuf,
    choice: SandboxChoice,
    backend: Arc<dyn ShellBackend>,
}

impl Scene {
    fn new(choice: &SandboxChoice) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("ws");
        fs::create_dir(&workspace).unwrap();
        git(&workspace, &["init", "-q", "."]);
        git(&workspace, &["init", "-q", "sub"]);
        let mut view = view(&workspace);
        view.protected = helve_core::protected::NAMES.iter().map(|name| (*name).to_owned()).collect();
        for (number, (key, value)) in SETTINGS.iter().enumerate() {
            view.env.insert(format!("GIT_CONFIG_KEY_{number}"), (*key).to_owned());
            view.env.insert(format!("GIT_CONFIG_VALUE_{number}"), (*value).to_owned());
        }
        view.env.insert("GIT_CONFIG_COUNT".into(), SETTINGS.len().to_string());
        let backend = helve_sandbox::backend(choice, view, LIMITS).unwrap();
        Scene { _folder: folder, workspace, choice: choice.clone(), backend }
    }

    fn call_job(&self, job: ShellJob) -> (Ended, String) {
        let sink = Collector::default();
        let ended = block_on(self.backend.run(job, Box::new(sink.clone()), Cancel::never()));
        let collected = sink.0.lock().unwrap().clone();
        let text = [collected.stdout, collected.stderr].concat();
        (ended.unwrap(), String::from_utf8(text).unwrap())
    }

    fn call(&self, command: &str) -> (Ended, String) {
        self.call_job(job(command))
    }

    /// Which paths are taken away of what a command leaves.
    fn removed(&self, command: &str) -> Vec<String> {
        let (ended, text) = self.call(command);
        assert!(matches!(ended.exit, Exit::Code(_)), "{:?} {command}: {text}", self.choice);
        ended.removed.into_iter().map(|one| one.path).collect()
    }

    /// Runs a command that has to succeed and to leave nothing that may not stay.
    fn works(&self, command: &str) -> String {
        let (ended, text) = self.call(command);
        assert_eq!(
            (ended.exit, ended.removed),
            (Exit::Code(0), Vec::<Removed>::new()),
            "{:?} {command}: {text}",
            self.choice
        );
        text
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.workspace.join(path)).ok()
    }
}

const SETTINGS: [(&str, &str); 4] = [
    ("user.name", "A"),
    ("user.email", "a@example.org"),
    ("safe.directory", "*"),
    ("protocol.file.allow", "always"),
];

/// Git outside, with nobody's settings.
fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    for (key, value) in SETTINGS {
        command.args(["-c", &format!("{key}={value}")]);
    }
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}

fn git_is_there() -> bool {
    let there = Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped what needs git, which is not here");
    }
    there
}

/// Every sandbox that keeps protected paths, where there is a git.
fn each(test: impl Fn(&Scene)) {
    if !git_is_there() {
        return;
    }
    for choice in choices() {
        if matches!(choice, SandboxChoice::Native | SandboxChoice::Bwrap | SandboxChoice::Landlock) {
            test(&Scene::new(&choice));
        }
    }
}

fn mounts(scene: &Scene) -> bool {
    scene.choice != SandboxChoice::Landlock
}

#[test]
fn what_the_owner_has_does_not_change() {
    each(|scene| {
        let (top, inner) = (scene.read(".git/config").unwrap(), scene.read("sub/.git/config").unwrap());
        fs::write(scene.workspace.join(".envrc"), "mine").unwrap();
        for command in [
            "git config core.fsmonitor 'touch owned'",
            "echo x >> .git/config; echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
            "rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/post-merge",
            "cp .git/config c; echo '[core]\n\tpager = x' >> c; mv c .git/config",
            "ln -f .git/config twin; echo '[alias]\n\tx = !x' >> twin; rm -f twin",
            "echo x > .envrc; mv .envrc away; rm -f away",
            "echo x > sub/.git/config.worktree",
        ] {
            scene.removed(command);
            assert_eq!(scene.read(".git/config").as_deref(), Some(top.as_str()), "{command}");
            assert_eq!(scene.read(".envrc").as_deref(), Some("mine"), "{command}");
            assert!(scene.read("sub/.git/config.worktree").is_none(), "{command}");
            for hook in ["pre-commit", "post-merge"] {
                assert!(scene.read(&format!(".git/hooks/{hook}")).is_none(), "{command}");
            }
        }
        let moving = "mkdir -p n && mv sub n/ && echo x > n/sub/.git/config; mv .git gone";
        scene.removed(moving);
        if mounts(scene) {
            assert_eq!(scene.read("sub/.git/config").unwrap(), inner);
            assert!(!scene.workspace.join("n/sub").exists());
            assert!(!scene.workspace.join("gone").exists());
        } else {
            assert!(scene.read("n/sub/.git/config").is_none());
        }
    });
}

#[test]
fn a_second_name_of_the_owners_file_changes_nothing() {
    each(|scene| {
        let config = scene.read(".git/config").unwrap();
        for round in 0..3 {
            let twin = scene.workspace.join("twin");
            let _ = fs::remove_file(&twin);
            fs::hard_link(scene.workspace.join(".git/config"), &twin).unwrap();
            let command = "printf '[core]\n\tfsmonitor = x\n' >> twin && tail -n 1 twin";
            assert_eq!(scene.removed(command), [".git/config"], "{:?} {round}", scene.choice);
            assert_eq!(scene.read(".git/config").unwrap(), config, "{:?} {round}", scene.choice);
            assert!(fs::read_to_string(&twin).unwrap().contains("fsmonitor"));
            // What was put back is guarded as the first was.
            scene.removed("echo x >> .git/config");
            assert_eq!(scene.read(".git/config").unwrap(), config, "{:?} {round}", scene.choice);
        }
    });
}

#[test]
fn what_a_command_plants_is_gone_before_the_result() {
    each(|scene| {
        let planted = "mkdir -p .agent a/.vscode && echo '{}' > .agent/settings.json && echo x > a/.vscode/tasks.json \
             && echo x > .mcp.json && echo ok > a/plain";
        assert_eq!(scene.removed(planted), [".agent/settings.json", ".mcp.json", "a/.vscode/tasks.json"]);
        let hook = "git init -q nested && echo exit > nested/.git/hooks/pre-commit && git -C nested status";
        let (ended, text) = scene.call(hook);
        let expected = Removed {
            path: "nested/.git/hooks/pre-commit".into(),
            why: "a hook of git".into(),
            content: b"exit\n".to_vec(),
        };
        assert_eq!(ended.removed, [expected], "{text}");
        assert_eq!(
            scene.removed("git -C nested config core.fsmonitor 'touch owned'"),
            ["nested/.git/config"]
        );
        // No placeholder is left, and what was not protected is there.
        let mut names: Vec<_> = fs::read_dir(&scene.workspace)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".git", "a", "nested", "sub"]);
        assert_eq!(fs::read_dir(scene.workspace.join("a")).unwrap().count(), 1);
    });
}

#[test]
fn everyday_git_works_and_its_results_stay_usable() {
    each(|scene| {
        scene.works("git init -q seed && cd seed && echo 1 > f && git add f && git commit -q -m one && git log --oneline");
        scene.works("git clone -q seed copy && git clone -q --bare seed bare.git");
        scene.works("git -C seed worktree add -q ../tree -b side && git -C tree log --oneline");
        scene.works("git -C copy submodule --quiet add ../seed part && git -C copy commit -q -m two");
        scene.works("git -C copy remote add other https://example.org/x && git -C copy checkout -q -b new origin/HEAD");
        scene.works(
            "echo 2 > f && git add f && git commit -q -m top && git worktree add -q wt && rm -rf bare.git",
        );
        for place in ["seed", "copy", "copy/part", "tree", "wt", "."] {
            let outside = git(&scene.workspace.join(place), &["log", "--oneline"]);
            assert!(!outside.is_empty());
            assert_eq!(git(&scene.workspace.join(place), &["status", "--porcelain", "-uno"]), "", "{place}");
        }
        scene.works("rm -rf copy tree && git -C seed worktree prune && rm -rf seed");
        assert!(!scene.workspace.join("copy").exists());
    });
}

#[test]
fn the_owners_edits_between_calls_stay() {
    each(|scene| {
        scene.works("true");
        for round in 0..3 {
            git(&scene.workspace, &["config", "alias.x", &format!("!echo {round}")]);
            fs::create_dir_all(scene.workspace.join(".vscode")).unwrap();
            fs::write(scene.workspace.join(".vscode/tasks.json"), round.to_string()).unwrap();
            scene.removed(
                "echo x >> .vscode/tasks.json; git config alias.y x; echo x >> .git/config; rm -rf .vscode",
            );
            assert_eq!(scene.read(".vscode/tasks.json").unwrap(), round.to_string(), "{:?}", scene.choice);
            let config = git(&scene.workspace, &["config", "--get-regexp", "alias"]);
            assert_eq!(config, format!("alias.x !echo {round}\n"), "{:?}", scene.choice);
            fs::remove_dir_all(scene.workspace.join(".vscode")).unwrap();
            scene.works("test ! -e .vscode");
        }
    });
}

#[test]
fn a_command_that_is_ended_leaves_nothing_either() {
    each(|scene| {
        let plant = "while :; do mkdir -p .cursor d; echo x > .cursor/rules; mv .cursor d/.cursor; rm -rf d; \
             echo x > .envrc; mv .envrc .zshrc; rm .zshrc; done";
        for milliseconds in [150, 203, 251] {
            let job = ShellJob { timeout: Duration::from_millis(milliseconds), ..job(plant) };
            assert_eq!(scene.call_job(job).0.exit, Exit::TimedOut);
            for path in [".cursor", "d/.cursor", ".envrc", ".zshrc"] {
                assert!(!scene.workspace.join(path).exists(), "{:?} {path}", scene.choice);
            }
        }
    });
}

/// Prints what protection costs in a large workspace; see it with `--nocapture`.
#[test]
fn a_large_workspace_is_looked_through_once() {
    let choice = choices().into_iter().find(|choice| {
        matches!(choice, SandboxChoice::Native | SandboxChoice::Bwrap | SandboxChoice::Landlock)
    });
    let Some(choice) = choice.filter(|_| git_is_there()) else { return };
    let scene = Scene::new(&choice);
    for directory in 0..1000 {
        let path = scene.workspace.join(format!("d{}/e{directory}", directory % 40));
        fs::create_dir_all(&path).unwrap();
        for file in 0..20 {
            fs::write(path.join(file.to_string()), "").unwrap();
        }
    }
    let mut times = Vec::new();
    for _ in 0..12 {
        let start = Instant::now();
        scene.works("true");
        times.push(start.elapsed());
    }
    println!("{choice:?}: 20,000 files in 1,040 directories, calls of `true` took {times:?}");
    // The first two look at every directory; one of those after them need not be disturbed by others.
    assert!(times.iter().skip(2).min() < times.first(), "{times:?}");
    assert_eq!(scene.removed("echo x > d3/e3/.envrc"), ["d3/e3/.envrc"]);
}
