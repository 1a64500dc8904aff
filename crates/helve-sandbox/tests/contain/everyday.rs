//! Everyday work, one line of JSON each: inside a sandbox it gives the bytes, the exit code and the files that it gives
//! outside.
//!
//! Both runs find the same directory at the same path, an empty home and the same variables.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use helve_core::{Exit, SandboxChoice, View};
use pretty_assertions::Comparison;
use serde::Deserialize;

use crate::common::{
    LIMITS, User, backend, beside_others, block_on, choice_of_role, give_away, is_asked_for, is_root, play,
    prime, role, run, shell, view, works,
};

const CASES: &str = include_str!("../cases/everyday.jsonl");

/// One piece of work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    /// A text for bash.
    command: String,
    /// Programs without which it is skipped.
    #[serde(default)]
    needs: Vec<String>,
    /// Directories whose content nobody promises.
    #[serde(default)]
    ignore: Vec<String>,
    /// Sandboxes in which it gives something else, and why: `bwrap`, or `bwrap as root`.
    #[serde(default)]
    differs_in: BTreeMap<String, String>,
}

fn work(sandbox: &str, user: User) {
    let _beside = beside_others();
    let Some(mut role) = role("everyday::role_works", user) else { return };
    let toolchain = toolchain(user);
    if let Some(toolchain) = &toolchain {
        role.env("ROLE_TOOLCHAIN", toolchain.path());
    }
    play(role.env("ROLE_SANDBOX", sandbox));
}

#[test]
fn native_changes_nothing() {
    work("native", User::Same);
}

#[test]
fn native_changes_nothing_for_an_ordinary_user() {
    work("native", User::Ordinary);
}

#[test]
fn landlock_changes_nothing() {
    work("landlock", User::Same);
}

#[test]
fn bwrap_changes_nothing() {
    work("bwrap", User::Same);
}

/// The Rust toolchain where another user can read it: hard links in a new directory.
fn toolchain(user: User) -> Option<tempfile::TempDir> {
    let found = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim());
    if user == User::Same && !is_root() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-al").args([root.join("bin"), root.join("lib")]).arg(folder.path());
    copy.status().unwrap().success().then_some(folder)
}

#[test]
#[ignore = "played as a process of its own by the tests above"]
fn role_works() {
    let (name, choice) = choice_of_role();
    if !works(&choice) {
        return;
    }
    let cases = CASES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    let (mut wrong, mut done) = (Vec::new(), 0);
    for case in cases {
        let case: Case = case;
        if !is_asked_for(&case.id) {
            continue;
        }
        match compare(&case, &choice) {
            None => println!("skipped {}: it needs {:?}", case.id, case.needs),
            Some(differences) => {
                done += 1;
                let as_root = format!("{name} as root");
                let known = case.differs_in.contains_key(&name)
                    || (is_root() && case.differs_in.contains_key(&as_root));
                if known && differences.is_empty() {
                    wrong.push(format!("{}: there is no difference any more", case.id));
                }
                let unknown = differences.into_iter().filter(|_| !known);
                wrong.extend(unknown.map(|difference| format!("{}: {difference}", case.id)));
            }
        }
    }
    println!("{name}: {done} kinds of work, {} differences", wrong.len());
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

/// What a piece of work gives.
#[derive(Debug, PartialEq)]
struct Given {
    exit: Exit,
    stdout: String,
    stderr: String,
    /// Mode and content of every file; of a repository's own only the names.
    files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
}

/// Runs the work outside and inside; the differences, or none if a program is missing.
fn compare(case: &Case, choice: &SandboxChoice) -> Option<Vec<String>> {
    let root = tempfile::tempdir().unwrap();
    let base = root.path().canonicalize().unwrap();
    std::fs::set_permissions(&base, PermissionsExt::from_mode(0o755)).unwrap();
    let (workspace, home) = (base.join("ws"), base.join("home"));
    std::fs::create_dir(&workspace).unwrap();
    std::fs::create_dir(&home).unwrap();
    let view = everyday_view(&workspace, &home);
    // Shells show the name by which they were started in their messages.
    let name = match choice {
        SandboxChoice::Native => view.shell.file_name().unwrap(),
        _ => view.shell.as_os_str(),
    };
    let is_there = |need: &String| {
        outside(&view, name, &format!("command -v {need} || {need} --version")).0 == Exit::Code(0)
    };
    if !case.needs.iter().all(is_there) {
        return None;
    }
    let (exit, stdout, stderr) = outside(&view, name, &case.command);
    let expected = Given { exit, stdout, stderr, files: files(&workspace, &case.ignore) };
    // The first call of a backend, and a later one, may take different ways.
    let mut differences = Vec::new();
    let ways = if *choice == SandboxChoice::Native { &["first", "later"][..] } else { &["first"] };
    for way in ways {
        // Another directory at the same place, as it was at first.
        std::fs::remove_dir_all(&workspace).unwrap();
        std::fs::create_dir(&workspace).unwrap();
        give_away(&workspace, choice);
        let backend = backend(choice, view.clone(), LIMITS);
        let done = block_on(async {
            if *way == "later" {
                prime(&*backend).await;
            }
            run(&*backend, shell(&case.command)).await
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let inside = Given {
            exit: done.ended.unwrap().exit,
            stdout: text(&done.stdout),
            stderr: text(&done.stderr),
            files: files(&workspace, &case.ignore),
        };
        if inside != expected {
            differences.push(format!("{way} call: {}", Comparison::new(&expected, &inside)));
        }
    }
    Some(differences)
}

/// The view with a toolchain.
fn everyday_view(workspace: &Path, home: &Path) -> View {
    let mut view = view(workspace, home);
    if let Some(toolchain) = std::env::var_os("ROLE_TOOLCHAIN") {
        let path = format!("{}:{}/bin", view.env["PATH"], toolchain.display());
        view.env.insert("PATH".to_owned(), path);
        view.read_only.push(toolchain.into());
    }
    view
}

/// Runs a text without a sandbox, with the view's variables.
fn outside(view: &View, shell: &OsStr, text: &str) -> (Exit, String, String) {
    let output = Command::new(shell)
        .args(["-c", text])
        .current_dir(&view.workspace)
        .env_clear()
        .envs(&view.env)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    use std::os::unix::process::ExitStatusExt as _;
    let exit = match output.status.signal() {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Code(output.status.code().unwrap()),
    };
    (exit, text(&output.stdout), text(&output.stderr))
}

/// Everything in a workspace.
fn files(workspace: &Path, ignore: &[String]) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut left = vec![workspace.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let name = path.file_name().unwrap_or_default();
            if ignore.iter().any(|ignored| OsStr::new(ignored) == name) {
                continue;
            }
            let mode = found.permissions().mode();
            let repository = path.components().any(|part| part.as_os_str() == ".git");
            let content =
                if found.is_file() && !repository { std::fs::read(&path).unwrap() } else { Vec::new() };
            if found.is_dir() {
                left.push(path.clone());
            }
            all.insert(path, (mode, content));
        }
    }
    all
}
