//! A commit of what a command changed, killed at random moments: each path is its old or its new self, the next start takes
//! the rest back, bits of directories included, and a second commit makes all of it.
//!
//! The test starts this program again to be killed. `HELVE_TEST_SOAK=1` kills 1,000 instead of 60.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Cursor, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Dice, litter, names, role, soak};
use helve_core::ToolError;
use helve_core::files::{
    ContentId, Contents, Files, FilesBridge, FilesScope, Is, Names, PathRules, Turn, Turned, Turns,
};
use helve_workspace::{Options, Workspace, open_with};

const DIR: &str = "HELVE_TEST_DIR";

type Tree = BTreeMap<String, Is>;

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn open(dir: &Path, name: &str) -> Arc<Workspace> {
    let options = Options { fsync: false, janitor: Some(dir.join("janitor")) };
    open_with(&dir.join(name), PathRules::default(), options).unwrap()
}

fn whole(workspace: &Arc<Workspace>) -> Arc<dyn Files> {
    workspace.scoped(FilesScope { whole: true, ..FilesScope::default() })
}

/// Everything below a directory, as turns see it.
fn tree(dir: &Path, name: &str) -> Tree {
    let files = whole(&open(dir, name));
    let all = names(&dir.join(name)).into_iter();
    all.map(|path| (path.clone(), wait(async { files.now(&path).await }).unwrap())).collect()
}

/// Contents of files in some directories, held in memory.
struct Held(BTreeMap<String, Vec<u8>>);

impl Contents for Held {
    fn open(&self, id: &ContentId) -> Result<Box<dyn Read + Send>, ToolError> {
        let bytes = self.0.get(&id.0).ok_or_else(|| ToolError::not_found("It is not held."))?;
        Ok(Box::new(Cursor::new(bytes.clone())))
    }
}

fn turns(dir: &Path, from: &str, to: &str) -> Turns {
    let (old, new) = (tree(dir, from), tree(dir, to));
    let mut held = BTreeMap::new();
    for (path, is) in &new {
        if let Is::File { id, .. } = is {
            held.insert(id.0.clone(), fs::read(dir.join(to).join(path)).unwrap());
        }
    }
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let at = |tree: &Tree, path: &String| tree.get(path).cloned().unwrap_or(Is::Absent);
    let turn = |path: &String| Turn {
        path: path.clone(),
        from: at(&old, path),
        to: at(&new, path),
        modified: None,
        owner: None,
        names: Names {
            same_as: (path == "second" && new.contains_key("first")).then(|| "first".to_owned()),
            ..Names::default()
        },
    };
    let turns = paths.into_iter().map(turn).filter(|turn| turn.from != turn.to).collect();
    Turns { turns, contents: Arc::new(Held(held)), leave_used: false }
}

fn turn(files: &dyn Files, turns: &Turns) -> Result<Turned, ToolError> {
    wait(async { files.turn(turns.clone()).await })
}

fn put(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn bits(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives an attribute, where the file system has such.
fn mark(path: &Path, name: &str, value: &[u8]) {
    let _ = rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty());
}

/// The two trees between which a workspace is turned: files that differ, come, go and move, links, bits, attributes, a directory that is
/// shut and goes, a file where a directory was.
fn make(dir: &Path) {
    for name in ["even", "odd", "ws"] {
        let top = dir.join(name);
        let even = name != "odd";
        for number in 0..40 {
            let text = if even { "even" } else { "odd" };
            let mode = if even && number % 5 == 0 { 0o755 } else { 0o644 };
            put(&top.join(format!("d{}/f{number}", number % 3)), &format!("{text} {number}"), mode);
        }
        put(&top.join("only_bits"), "the same", if even { 0o644 } else { 0o700 });
        put(&top.join("marked"), "the same", 0o644);
        for number in 0..8 {
            mark(&top.join("marked"), &format!("user.{number}"), if even { b"even" } else { b"odd" });
        }
        mark(&top.join("marked"), if even { "user.even" } else { "user.odd" }, b"");
        mark(&top.join("d1/f1"), "user.of_what_is_replaced", if even { b"1" } else { b"2" });
        mark(&top.join("d1"), "user.dir", if even { b"1" } else { b"2" });
        put(&top.join(if even { "moved/a" } else { "moved/b" }), "moved", 0o644);
        symlink(if even { "d0" } else { "d1" }, top.join("link")).unwrap();
        if even {
            put(&top.join("shut/deep/x"), "x", 0o444);
            bits(&top.join("shut/deep"), 0o555);
            bits(&top.join("shut"), 0o555);
            put(&top.join("changes"), "a file", 0o644);
        } else {
            put(&top.join("changes/in"), "a directory", 0o644);
            put(&top.join("first"), "two names", 0o644);
            fs::hard_link(top.join("first"), top.join("second")).unwrap();
        }
        bits(&top.join("d2"), if even { 0o755 } else { 0o711 });
    }
}

/// Turns the workspace from one tree to the other for ever.
#[test]
#[ignore = "a role that is killed"]
fn turner() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let both = [turns(&dir, "even", "odd"), turns(&dir, "odd", "even")];
    let files = whole(&open(&dir, "ws"));
    let first = usize::from(dir.join("ws/first").exists());
    fs::write(dir.join("ready"), "").unwrap();
    for number in first.. {
        turn(&*files, &both[number % 2]).unwrap();
    }
}

/// Whether the steps of a commit are noted.
fn noted(dir: &Path) -> bool {
    names(&dir.join("janitor")).iter().any(|name| name.ends_with(".steps"))
}

/// Reads what is at a path as it is now; none while it cannot be looked at.
fn is_one_of(files: &dyn Files, path: &str, trees: [&Tree; 2]) -> bool {
    let Ok(now) = wait(async { files.now(path).await }) else { return false };
    let same_kind = |one: &Is| match (one, &now) {
        (Is::Folder { .. }, Is::Folder { .. }) => true,
        // Of one whose content stays bits and attributes change by themselves.
        (Is::File { id, .. }, Is::File { id: of_now, .. }) if path == "marked" || path == "only_bits" => {
            id == of_now
        }
        _ => *one == now,
    };
    trees.iter().any(|tree| same_kind(tree.get(path).unwrap_or(&Is::Absent)))
}

#[test]
fn a_killed_commit_of_a_layer_is_taken_back_or_whole_at_the_next_start() {
    let rounds = if soak() { 1_000 } else { 60 };
    let dir = tempfile::tempdir().unwrap();
    make(dir.path());
    // The first one may be killed before it has noted anything.
    fs::create_dir(dir.path().join("janitor")).unwrap();
    let (even, odd) = (tree(dir.path(), "even"), tree(dir.path(), "odd"));
    let mut dice = Dice::new();
    let (mut mixtures, mut under_way) = (0, 0);
    for round in 0..rounds * 10 {
        if round >= rounds && mixtures > 0 {
            break;
        }
        let _ = fs::remove_file(dir.path().join("ready"));
        let mut child =
            role("turns::turner", &[]).env(DIR, dir.path()).stdout(Stdio::null()).spawn().unwrap();
        while !dir.path().join("ready").exists() {
            assert!(child.try_wait().unwrap().is_none(), "the turner ended by itself");
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
        assert!(child.try_wait().unwrap().is_none(), "the turner ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        under_way += usize::from(noted(dir.path()));
        // Without a place for notes nothing is taken back by looking.
        let look = Options { fsync: false, janitor: None };
        let looking = open_with(&dir.path().join("ws"), PathRules::default(), look).unwrap();
        let left: Vec<String> =
            names(&dir.path().join("ws")).into_iter().filter(|name| !name.contains(".helve-")).collect();
        for path in &left {
            assert!(is_one_of(&*whole(&looking), path, [&even, &odd]), "round {round}: {path} is neither");
        }
        let now: BTreeSet<&String> = left.iter().collect();
        mixtures += usize::from(now != even.keys().collect() && now != odd.keys().collect());
        drop(looking);

        let now = tree(dir.path(), "ws");
        assert!(now == even || now == odd, "after round {round}: {now:#?}");
        assert_eq!(litter(&dir.path().join("ws")), Vec::<String>::new(), "after round {round}");
        assert_eq!(names(&dir.path().join("janitor")), Vec::<String>::new(), "after round {round}");
        // What was asked for a second time is whole.
        let (to, wanted) = if now == even { (("even", "odd"), &odd) } else { (("odd", "even"), &even) };
        let again = turns(dir.path(), to.0, to.1);
        let workspace = open(dir.path(), "ws");
        turn(&*whole(&workspace), &again).unwrap();
        drop(workspace);
        assert_eq!(&tree(dir.path(), "ws"), wanted, "after round {round}, the second time");
        if wanted == &odd {
            let inode = |name: &str| fs::metadata(dir.path().join("ws").join(name)).unwrap().ino();
            assert_eq!(inode("first"), inode("second"));
        }
    }
    println!("{mixtures} of {rounds} or more kills left a mixture of names, {under_way} a commit under way");
    for name in ["even", "odd", "ws"] {
        for path in ["shut", "shut/deep"] {
            // Who is no root can remove nothing from a directory that is shut.
            let _ = fs::set_permissions(dir.path().join(name).join(path), fs::Permissions::from_mode(0o755));
        }
    }
    assert!(mixtures > 0, "no kill ever came in the middle of a commit");
}
