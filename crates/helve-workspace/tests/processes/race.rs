//! Names that change their meaning while tools use them: directories become links that lead out, files become hard links
//! of files outside, parents are exchanged. Nothing outside is read or changed.
//!
//! 2,000 rounds, or 20,000 with `HELVE_TEST_SOAK=1`, as the user who runs the tests and, where that is root, as an
//! ordinary user too.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{Dice, ORDINARY, is_root, names, role, soak};
use helve_core::ToolError;
use helve_core::files::{
    Act, CaseMode, Change, Expect, Files, FilesBridge, FilesScope, Kinds, ListRequest, PathRules, SearchMode,
    SearchRequest, WalkRequest,
};
use helve_workspace::{Options, open_with};
use rustix::fs::{CWD, RenameFlags};

const DIR: &str = "HELVE_TEST_DIR";
const CANARY: &str = "CANARY";

/// Pairs of names whose meaning is exchanged all the time.
const PAIRS: [[&str; 2]; 5] =
    [["dir", "link"], ["file", "file_link"], ["single", "hard"], ["deep/dir", "deep/link"], ["one", "two"]];

fn build(dir: &Path) {
    let (ws, out) = (dir.join("ws"), dir.join("out"));
    for path in ["dir", "deep/dir", "one/sub", "two/sub"] {
        fs::create_dir_all(ws.join(path)).unwrap();
        fs::write(ws.join(path).join("secret"), "inside").unwrap();
    }
    fs::create_dir(&out).unwrap();
    fs::write(out.join("secret"), CANARY).unwrap();
    fs::write(out.join("linked"), CANARY).unwrap();
    symlink("../out", ws.join("link")).unwrap();
    symlink(&out, ws.join("deep/link")).unwrap();
    fs::write(ws.join("file"), "inside").unwrap();
    symlink("../out/secret", ws.join("file_link")).unwrap();
    fs::write(ws.join("single"), "inside").unwrap();
    fs::hard_link(out.join("linked"), ws.join("hard")).unwrap();
}

/// Everything outside: names, content, mode, and when it last changed.
fn outside(dir: &Path) -> Vec<(String, String, u32, i64, i64)> {
    let out = dir.join("out");
    let of = |name: String| {
        let data = fs::metadata(out.join(&name)).unwrap();
        let text = fs::read_to_string(out.join(&name)).unwrap();
        (name, text, data.mode(), data.mtime(), data.mtime_nsec())
    };
    names(&out).into_iter().map(of).collect()
}

fn swap(ws: &Path, stop: &AtomicBool, swaps: &AtomicU64) {
    let mut dice = Dice::new();
    while !stop.load(Ordering::Relaxed) {
        let [one, other] = PAIRS[usize::try_from(dice.roll(5)).unwrap()];
        let (one, other) = (ws.join(one), ws.join(other));
        // A name is missing for a moment while another swap of its directory is going on.
        if rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
            swaps.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct Tally {
    done: u64,
    refused: u64,
}

impl Tally {
    /// Whatever came must not come from outside.
    fn judge<T: std::fmt::Debug>(&mut self, what: &str, got: Result<T, ToolError>) {
        match got {
            Ok(got) => {
                self.done += 1;
                let shown = format!("{got:?}");
                assert!(!shown.contains(CANARY) && !shown.contains("67, 65, 78, 65"), "{what}: {shown}");
            }
            Err(_) => self.refused += 1,
        }
    }
}

fn search() -> SearchRequest {
    SearchRequest {
        path: ".".to_owned(),
        pattern: CANARY.to_owned(),
        literal: true,
        case: CaseMode::Sensitive,
        word: false,
        multiline: false,
        globs: Vec::new(),
        types: Vec::new(),
        hidden: true,
        obey_ignore: false,
        before: 0,
        after: 0,
        mode: SearchMode::Lines,
        limit: 100,
        skip: 0,
        line_chars: 100,
        max_bytes: 1 << 16,
    }
}

fn walk() -> WalkRequest {
    WalkRequest {
        path: ".".to_owned(),
        globs: Vec::new(),
        kinds: Kinds::All,
        hidden: true,
        obey_ignore: false,
        depth: None,
        limit: 1000,
        after: None,
        stat: true,
    }
}

async fn round(files: &dyn Files, turn: u64, reads: &mut Tally, writes: &mut Tally) {
    for path in ["dir/secret", "file", "single", "deep/dir/secret", "one/sub/secret", "link/secret", "hard"] {
        reads.judge(path, files.read(path, 1 << 20).await);
    }
    for path in ["dir", "deep/dir", "one/sub"] {
        reads.judge(path, files.list(&ListRequest::all(path, 100)).await);
    }
    if turn.is_multiple_of(10) {
        let found = files.walk(&walk()).await;
        if let Ok(found) = &found {
            assert!(found.entries.iter().all(|entry| !entry.path.ends_with("linked")), "{found:?}");
        }
        reads.judge("walk", found);
        reads.judge("search", files.search(&search()).await.map(|found| found.files));
    }
    let put = |path: &str| Change {
        path: path.to_owned(),
        act: Act::Put(format!("inside {turn}").into_bytes().into()),
        expect: Expect::Any,
    };
    for path in ["dir/secret", "dir/new", "file", "single", "deep/dir/secret", "one/sub/secret", "link/new"] {
        writes.judge(path, files.commit(vec![put(path)], false).await);
    }
    let made = Change { act: Act::Mkdirp, ..put("dir/made/deep") };
    writes.judge("mkdirp", files.commit(vec![made, put("deep/dir/made/file")], false).await);
    for path in ["dir/new", "dir/made/deep", "deep/dir/made/file"] {
        writes.judge(path, files.remove(path).await);
    }
    let moved = format!("moved{turn}");
    writes.judge("move", files.rename("dir/secret", &moved).await);
    let _ = files.rename(&moved, "dir/secret").await;
}

#[test]
#[ignore = "a role that runs as several users"]
fn racer() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    build(&dir);
    let before = outside(&dir);
    let (ws, rounds) = (dir.join("ws"), if soak() { 20_000 } else { 2_000 });
    let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let swapper = {
        let (ws, stop, swaps) = (ws.clone(), Arc::clone(&stop), Arc::clone(&swaps));
        std::thread::spawn(move || swap(&ws, &stop, &swaps))
    };
    let options = Options { fsync: false, janitor: None };
    let workspace = open_with(&ws, PathRules::default(), options).unwrap();
    let files = workspace.scoped(FilesScope::default());
    let (mut reads, mut writes) = (Tally::default(), Tally::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for turn in 0..rounds {
        runtime.block_on(round(&*files, turn, &mut reads, &mut writes));
        if turn.is_multiple_of(100) {
            assert_eq!(outside(&dir), before, "in round {turn}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(outside(&dir), before);
    println!(
        "{rounds} rounds, {} swaps; reads: {} done, {} refused; writes: {} done, {} refused",
        swaps.load(Ordering::Relaxed),
        reads.done,
        reads.refused,
        writes.done,
        writes.refused
    );
    for tally in [reads, writes] {
        assert!(tally.done > 100 && tally.refused > 100, "there was no race");
    }
    assert!(swaps.load(Ordering::Relaxed) > rounds, "there were hardly any swaps");
}

fn race(before: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    if !before.is_empty() {
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    }
    let output = role("race::racer", before).env(DIR, dir.path()).current_dir("/").output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success() && said.contains(" rounds, "));
}

#[test]
fn nothing_outside_is_touched_while_names_change_their_meaning() {
    race(&[]);
}

#[test]
fn nor_by_an_ordinary_user() {
    if !is_root() {
        println!("skipped: already an ordinary user");
        return;
    }
    race(ORDINARY);
}
