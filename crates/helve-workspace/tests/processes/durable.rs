//! Changes to files when their process is killed, and when the disk is full: the old or the new content, nothing else,
//! and no litter after the next start.
//!
//! The tests start this program again to be killed, or to live in namespaces of its own with a small disk.
//! `HELVE_TEST_SOAK=1` kills 200 writers of files with 64 MiB instead of 30 with 4 MiB.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Dice, is_root, litter, names, role, soak};
use helve_core::files::{Act, Change, Expect, Files, FilesBridge, FilesScope, PathRules};
use helve_core::{ErrorKind, ToolError};
use helve_workspace::{Options, Workspace, open_with};

const DIR: &str = "HELVE_TEST_DIR";
const SIZE: &str = "HELVE_TEST_SIZE";
const FSYNC: &str = "HELVE_TEST_FSYNC";

fn open(dir: &Path, fsync: bool) -> Arc<Workspace> {
    let options = Options { fsync, janitor: Some(dir.join("janitor")) };
    open_with(&dir.join("ws"), PathRules::default(), options).unwrap()
}

fn commit(files: &dyn Files, changes: Vec<Change>) -> Result<(), ToolError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { files.commit(changes, false).await }).map(drop)
}

fn change(path: &str, act: Act) -> Change {
    Change { path: path.to_owned(), act, expect: Expect::Any }
}

fn put(path: &str, bytes: Vec<u8>) -> Change {
    change(path, Act::Put(bytes.into()))
}

/// Replaces a large file for ever, and makes and removes directories with files.
#[test]
#[ignore = "a role that is killed"]
fn writer() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (size, fsync) = (number(SIZE), number(FSYNC) == 1);
    let workspace = open(&dir, fsync);
    let files = workspace.scoped(FilesScope::default());
    fs::write(dir.join("ready"), "").unwrap();
    for turn in 0_u8.. {
        let letter = b'a' + turn % 26;
        let mut changes = vec![put("big", vec![letter; size])];
        if turn % 2 == 0 {
            changes.extend([put("new/dir/one", vec![b'1'; 100]), put("new/two", vec![b'2'; 100])]);
        } else {
            changes
                .extend(["new/dir/one", "new/dir", "new/two", "new"].map(|path| change(path, Act::Remove)));
        }
        commit(&*files, changes).unwrap();
    }
}

fn check_whole(path: &Path, len: usize) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes.len(), len, "{}", path.display());
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{} is a mixture", path.display());
}

#[test]
fn a_killed_writer_leaves_the_old_or_the_new_file() {
    let (rounds, size) = if soak() { (200, 64 << 20) } else { (30, 4 << 20) };
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    fs::create_dir(&ws).unwrap();
    fs::write(ws.join("big"), vec![b'A'; size]).unwrap();
    let mut dice = Dice::new();
    let mut found = 0;
    for round in 0..rounds {
        let _ = fs::remove_file(dir.path().join("ready"));
        // The writer begins with what is not there.
        let _ = fs::remove_dir_all(ws.join("new"));
        let mut child = role("durable::writer", &[])
            .env(DIR, dir.path())
            .env(SIZE, size.to_string())
            .env(FSYNC, (round % 2).to_string())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while !dir.path().join("ready").exists() {
            assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        let span = if soak() { 400_000 } else { 60_000 };
        std::thread::sleep(Duration::from_micros(dice.roll(span)));
        assert!(child.try_wait().unwrap().is_none(), "the writer ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        found += usize::from(!litter(&ws).is_empty());
        check_whole(&ws.join("big"), size);
        for path in ["new/dir/one", "new/two"] {
            if ws.join(path).exists() {
                check_whole(&ws.join(path), 100);
            }
        }
        drop(open(dir.path(), false));
        assert_eq!(litter(&ws), Vec::<String>::new(), "after round {round}");
        if dir.path().join("janitor").exists() {
            assert_eq!(names(&dir.path().join("janitor")), Vec::<String>::new(), "after round {round}");
        }
    }
    println!("{found} of {rounds} kills came in the middle of a change");
    assert!(found > 0, "no kill ever came in the middle of a change");
}

/// Changes many files together for ever: each turn all have the next letter, and others come, go and move.
#[test]
#[ignore = "a role that is killed"]
fn patcher() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let workspace = open(&dir, false);
    let files = workspace.scoped(FilesScope::default());
    let even = dir.join("ws/at/even").exists();
    fs::write(dir.join("ready"), "").unwrap();
    for turn in usize::from(even).. {
        commit(&*files, patch(turn)).unwrap();
    }
}

/// What one turn of the patcher does: on an even turn the tree becomes the even one, else the odd one.
fn patch(turn: usize) -> Vec<Change> {
    let (now, before) = if turn.is_multiple_of(2) { ("even", "odd") } else { ("odd", "even") };
    let mut changes: Vec<Change> =
        (0..40).map(|number| put(&format!("d{}/f{number}", number % 3), now.into())).collect();
    changes.push(put(&format!("at/{now}"), now.into()));
    changes.push(change(&format!("at/{before}"), Act::Remove));
    let to = Act::Move { to: format!("moved/{now}/file"), content: None };
    changes.push(change(&format!("moved/{before}/file"), to));
    changes.push(change(&format!("moved/{before}"), Act::Remove));
    changes
}

type Tree = Vec<(String, Option<String>)>;

/// A workspace in which the patcher can begin, and its even and its odd tree.
fn patched() -> (tempfile::TempDir, Tree, Tree) {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    for made in ["at", "moved/odd"] {
        fs::create_dir_all(ws.join(made)).unwrap();
    }
    fs::write(ws.join("at/odd"), "odd").unwrap();
    fs::write(ws.join("moved/odd/file"), "moves").unwrap();
    let workspace = open(dir.path(), false);
    let step = |turn| {
        commit(&*workspace.scoped(FilesScope::default()), patch(turn)).unwrap();
        tree(&ws)
    };
    let (even, odd) = (step(0), step(1));
    drop(workspace);
    (dir, even, odd)
}

/// What is below a directory: the text of files, none for directories.
fn tree(dir: &Path) -> Tree {
    let text = |name: &String| fs::read_to_string(dir.join(name)).ok();
    names(dir).into_iter().map(|name| (name.clone(), text(&name))).collect()
}

/// Whether a commit of many files is under way: its steps are noted.
fn noted(dir: &Path) -> bool {
    names(&dir.join("janitor")).iter().any(|name| name.ends_with(".steps"))
}

#[test]
fn a_killed_commit_of_many_files_is_taken_back_or_whole_at_the_next_start() {
    let rounds = if soak() { 1_000 } else { 60 };
    let (dir, even, odd) = patched();
    let ws = dir.path().join("ws");
    let mut dice = Dice::new();
    let (mut mixtures, mut taken_back) = (0, 0);
    for round in 0..rounds * 10 {
        if round >= rounds && mixtures > 0 {
            break;
        }
        let _ = fs::remove_file(dir.path().join("ready"));
        let mut child = role("durable::patcher", &[])
            .env(DIR, dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while !dir.path().join("ready").exists() {
            assert!(child.try_wait().unwrap().is_none(), "the patcher ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_micros(dice.roll(20_000)));
        } else {
            // Staging takes nearly all of the time: every second kill waits for the steps to be noted, and comes soon after.
            let begun = Instant::now();
            while !noted(dir.path()) && begun.elapsed() < Duration::from_secs(1) {}
            std::thread::sleep(Duration::from_micros(dice.roll(1_500)));
        }
        assert!(child.try_wait().unwrap().is_none(), "the patcher ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        let left: Vec<_> = tree(&ws).into_iter().filter(|(name, _)| !name.contains(".helve-")).collect();
        mixtures += usize::from(left != even && left != odd);
        taken_back += usize::from(noted(dir.path()));
        drop(open(dir.path(), false));
        let now = tree(&ws);
        assert!(now == even || now == odd, "after round {round}: {now:#?}");
        assert_eq!(names(&dir.path().join("janitor")), Vec::<String>::new(), "after round {round}");
    }
    println!("{mixtures} of {rounds} or more kills left a mixture, {taken_back} a commit under way");
    assert!(mixtures > 0, "no kill ever came in the middle of a commit");
}

#[test]
fn what_a_living_process_stages_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    fs::create_dir(&ws).unwrap();
    let mut child = role("durable::writer", &[])
        .env(DIR, dir.path())
        .env(SIZE, (1 << 20).to_string())
        .env(FSYNC, "0")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !dir.path().join("ready").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..200 {
        drop(open(dir.path(), false));
    }
    assert!(child.try_wait().unwrap().is_none(), "the writer lost its files");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Lives in a mount namespace of its own.
#[test]
#[ignore = "a role in namespaces of its own"]
fn on_a_small_disk() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let ws = dir.join("ws");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(&ws).status().unwrap();
    assert!(mounted.success());
    fs::write(ws.join("a"), "old").unwrap();
    fs::write(ws.join("b"), "old").unwrap();
    let workspace = open(&dir, true);
    let files = workspace.scoped(FilesScope::default());
    let before = names(&ws);
    for changes in [
        vec![put("a", vec![b'x'; 4 << 20])],
        vec![put("a", b"new".to_vec()), put("dir/c", b"c".to_vec()), put("b", vec![b'x'; 4 << 20])],
        vec![change("a", Act::Append(vec![b'x'; 4 << 20]))],
    ] {
        let error = commit(&*files, changes).unwrap_err();
        assert_eq!(error.kind, ErrorKind::ToolFailed);
        assert!(error.message.contains("the disk is full"), "{}", error.message);
        assert!(error.message.contains("Nothing was changed"), "{}", error.message);
        assert_eq!(names(&ws), before);
        assert_eq!(fs::read_to_string(ws.join("a")).unwrap(), "old");
        assert_eq!(fs::read_to_string(ws.join("b")).unwrap(), "old");
    }
    commit(&*files, vec![put("a", vec![b'x'; 1 << 20])]).unwrap();
    println!("the disk was full");
}

#[test]
fn a_full_disk_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("ws")).unwrap();
    let own_user: &[&str] = &["unshare", "--user", "--map-root-user", "--mount", "--"];
    let mut ways = vec![own_user];
    if is_root() {
        ways.insert(0, &["unshare", "--mount", "--"]);
    }
    for way in ways {
        let possible =
            Command::new(way[0]).args(&way[1..]).args(["mount", "-t", "tmpfs", "none", "/mnt"]).output();
        if !possible.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let output = role("durable::on_a_small_disk", way).env(DIR, dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("the disk was full"), "{said}{:?}", output.stderr);
        return;
    }
    println!("skipped: no small disk can be mounted here");
}
