//! Every system call of a turn of many paths fails once, or from some moment on: the tree is the old or the new one, at once or
//! at the next start, and a second turn makes it the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use helve_core::files::{
    ACCESS_LIST, Attributes, ContentId, Contents, DEFAULT_LIST, Is, Names, Turn, Turned, Turns,
};
use pretty_assertions::assert_eq;

use super::*;
use crate::attributes::read;
use crate::host::janitor::is_temporary;

type Tree = BTreeMap<String, Is>;

/// Contents in memory.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Held {
    /// Everything below a directory, whose contents are held from now on.
    fn tree(&self, dir: &Path) -> Tree {
        let is = |name: &String| {
            let path = dir.join(name);
            let data = path.symlink_metadata().unwrap();
            let mode = data.mode() & 0o7777;
            if data.is_dir() {
                Is::Folder { mode, attributes: read(fs::File::open(&path).unwrap(), None).unwrap() }
            } else if data.is_symlink() {
                Is::Link { target: path.read_link().unwrap().to_str().unwrap().to_owned() }
            } else {
                let bytes = fs::read(&path).unwrap();
                let id = commit::id_of(&bytes);
                self.0.lock().unwrap().insert(id.0.clone(), bytes);
                Is::File { id, mode, attributes: read(fs::File::open(&path).unwrap(), None).unwrap() }
            }
        };
        names(dir).into_iter().map(|name| (name.clone(), is(&name))).collect()
    }
}

impl Contents for Held {
    fn open(&self, id: &ContentId) -> Result<Box<dyn Read + Send>, ToolError> {
        let bytes = self.0.lock().unwrap().get(&id.0).cloned();
        let bytes = bytes.ok_or_else(|| ToolError::not_found("It is not held."))?;
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }
}

/// A workspace, and what it is to become.
struct Fault {
    scene: Scene,
    held: Held,
    old: Tree,
    new: Tree,
}

/// Files of a tree: path, text, permission bits. A text that begins with `->` is that of a link.
type Rows = &'static [(&'static str, &'static str, u32)];

const OLD: Rows = &[
    ("edited", "old", 0o640),
    ("both", "old", 0o644),
    ("bits", "bits", 0o644),
    ("marked", "marked", 0o444),
    ("gone", "gone", 0o600),
    ("link", "->edited", 0),
    ("moved/from", "moved", 0o644),
    ("shut/deep/x", "x", 0o444),
    ("to_dir", "file", 0o644),
    ("to_file/inner/y", "y", 0o644),
    ("stays/z", "z", 0o644),
    ("twin", "old", 0o644),
    ("mode", "mode", 0o644),
    ("leaves", "leaves", 0o644),
];

const NEW: Rows = &[
    ("edited", "new", 0o640),
    ("both", "new", 0o755),
    ("bits", "bits", 0o755),
    ("marked", "marked", 0o440),
    ("link", "->elsewhere", 0),
    ("moved/to", "moved", 0o644),
    ("fresh/deep/n", "n", 0o600),
    ("one_name", "shared", 0o644),
    ("other_name", "shared", 0o644),
    ("to_dir/inner", "inner", 0o644),
    ("to_file", "now a file", 0o755),
    ("stays/z", "z", 0o644),
    ("twin", "new", 0o600),
    ("mode", "mode", 0o755),
    ("stays/name", "leaves", 0o644),
];

/// Names of one file before, and after: the second is made.
const OLD_NAMES: &[(&str, &str)] =
    &[("twin", "stays/twin"), ("mode", "other_mode"), ("leaves", "stays/name")];
const NEW_NAMES: &[(&str, &str)] =
    &[("twin", "stays/twin"), ("mode", "other_mode"), ("stays/name", "arrives")];

/// Attributes: path, name, value.
type Marks = &'static [(&'static str, &'static str, &'static [u8])];

/// A list that lets one user read too; its owner may read and write, a group read.
const LIST: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xe8\x03\0\0\
    \x04\0\x04\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

const OLD_MARKS: Marks = &[
    ("edited", "user.goes", b"1"),
    ("edited", "user.stays", b"1"),
    ("gone", "user.gone", b"1"),
    ("marked", "user.goes", b""),
    ("marked", "user.other", b"1"),
    ("stays", "user.dir", b"1"),
    ("stays", DEFAULT_LIST, LIST),
];

const NEW_MARKS: Marks = &[
    ("edited", "user.new", b"\0\xff"),
    ("edited", "user.stays", b"1"),
    ("both", ACCESS_LIST, LIST),
    ("marked", "user.comes", b"1"),
    ("marked", "user.other", b"2"),
    ("marked", ACCESS_LIST, LIST),
    ("fresh/deep/n", "user.new", b"1"),
    ("fresh", DEFAULT_LIST, LIST),
    ("stays", "user.dir", b"2"),
];

/// Gives attributes, where the file system has such.
fn mark(dir: &Path, marks: Marks) {
    for (path, name, value) in marks {
        let path = dir.join(path);
        let mode = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let set = rustix::fs::setxattr(&path, *name, value, rustix::fs::XattrFlags::empty());
        assert!(matches!(set, Ok(()) | Err(Errno::OPNOTSUPP)), "{path:?} {name} {set:?}");
        if *name != ACCESS_LIST {
            fs::set_permissions(&path, mode).unwrap();
        }
    }
}

fn fill(dir: &Path, rows: Rows, bits: &[(&str, u32)]) {
    for (path, text, mode) in rows {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.strip_prefix("->") {
            Some(target) => symlink(target, &path).unwrap(),
            None => {
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
        }
    }
    for (path, mode) in bits {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(*mode)).unwrap();
    }
}

impl Fault {
    fn new() -> Fault {
        let scene = Scene::new();
        let goal = scene.dir.path().join("goal");
        // A directory that is to go, and in which nothing may be changed as it is; another that gets other bits.
        fill(&scene.ws(), OLD, &[("shut/deep", 0o555), ("shut", 0o555), ("stays", 0o755)]);
        fill(&goal, NEW, &[("fresh/deep", 0o555), ("fresh", 0o750), ("stays", 0o711)]);
        for (top, names) in [(scene.ws(), OLD_NAMES), (goal.clone(), NEW_NAMES)] {
            for (first, second) in names {
                fs::hard_link(top.join(first), top.join(second)).unwrap();
            }
        }
        mark(&scene.ws(), OLD_MARKS);
        mark(&goal, NEW_MARKS);
        for (path, text) in [("a.txt", "old\n"), ("src/lib.rs", "lib\n")] {
            fs::create_dir_all(goal.join("src")).unwrap();
            fs::write(goal.join(path), text).unwrap();
        }
        let held = Held::default();
        let (old, new) = (held.tree(&scene.ws()), held.tree(&goal));
        Fault { scene, held, old, new }
    }

    fn turns(&self) -> Turns {
        let paths: BTreeSet<&String> = self.old.keys().chain(self.new.keys()).collect();
        let at = |tree: &Tree, path: &String| tree.get(path).cloned().unwrap_or(Is::Absent);
        let of = |names: &[(&str, &str)], path: &str, second: bool| {
            let one = |(a, b): &(&str, &str)| match second {
                true => (*b == path).then(|| (*a).to_owned()),
                false => (*a == path && path == "leaves").then(|| (*b).to_owned()),
            };
            names.iter().find_map(one)
        };
        let turn = |path: &String| Turn {
            path: path.clone(),
            from: at(&self.old, path),
            to: at(&self.new, path),
            modified: None,
            owner: None,
            names: Names {
                same_as: match path.as_str() {
                    "other_name" => Some("one_name".to_owned()),
                    path => of(NEW_NAMES, path, true),
                },
                was_same_as: of(OLD_NAMES, path, true).or_else(|| of(OLD_NAMES, path, false)),
                ..Names::default()
            },
        };
        let turns = paths.into_iter().map(turn).filter(|turn| turn.from != turn.to).collect();
        Turns { turns, contents: Arc::new(self.held.clone()), leave_used: false }
    }

    fn open(&self) -> Arc<Workspace> {
        let options = Options { fsync: true, janitor: Some(self.scene.dir.path().join("janitor")) };
        open_with(&self.scene.ws(), PathRules::default(), options).unwrap()
    }

    /// Turns while `fault` decides about every call.
    fn turn(
        &self,
        fault: impl Fn(&'static str) -> Result<(), Errno> + Send + Sync + 'static,
    ) -> Result<Turned, ToolError> {
        let workspace = self.open();
        *workspace.0.sys.fault.lock().unwrap() = Some(Box::new(fault));
        let files = workspace.scoped(FilesScope { whole: true, ..FilesScope::default() });
        wait(async { files.turn(self.turns()).await })
    }

    fn now(&self) -> Tree {
        self.held.tree(&self.scene.ws())
    }

    /// What is there after the next start.
    fn after(&self) -> Tree {
        drop(self.open());
        let janitor = self.scene.dir.path().join("janitor");
        assert!(!janitor.exists() || names(&janitor).is_empty(), "the janitor keeps a record");
        let now = self.now();
        let inode = |name: &str| fs::metadata(self.scene.ws().join(name)).unwrap().ino();
        let names = if now.contains_key("leaves") { OLD_NAMES } else { NEW_NAMES };
        for (first, second) in names {
            assert_eq!(inode(first), inode(second), "{first} {second}");
        }
        now
    }

    /// A second turn makes what the first did not.
    fn again(&self) {
        self.turn(|_| Ok(())).unwrap();
        assert_eq!(self.after(), self.new, "the second time");
        let inode = |name: &str| fs::metadata(self.scene.ws().join(name)).unwrap().ino();
        assert_eq!(inode("one_name"), inode("other_name"));
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // Who is no root can remove nothing from a directory that is shut.
        for top in ["ws", "goal"] {
            let top = self.scene.dir.path().join(top);
            for path in ["shut", "shut/deep", "fresh", "fresh/deep"] {
                let _ = fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o755));
            }
        }
    }
}

#[test]
fn any_call_that_fails_once_turns_nothing_or_all() {
    let mut seen = BTreeSet::new();
    for (error, every) in [(Errno::IO, 1), (Errno::NOSPC, 5)] {
        for nth in (1..).step_by(every) {
            assert!(nth < 2000, "the turn never succeeds");
            let fault = Fault::new();
            let calls = AtomicUsize::new(0);
            let hit = Arc::new(Mutex::new(None));
            let mark = Arc::clone(&hit);
            let outcome = fault.turn(move |name| {
                if calls.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                    *mark.lock().unwrap() = Some(name);
                    return Err(error);
                }
                Ok(())
            });
            let hit = *hit.lock().unwrap();
            let now = fault.after();
            match &outcome {
                Ok(_) => assert_eq!(now, fault.new, "call {nth} {hit:?}"),
                Err(said) => {
                    assert_eq!(now, fault.old, "call {nth} {hit:?}: {said}");
                    assert!(said.message.ends_with('.') && said.kind != ErrorKind::Internal, "{said}");
                }
            }
            // Of a disk each of these waits for, some are enough.
            if nth % 8 == 0 {
                fault.again();
            }
            seen.extend(hit);
            if hit.is_none() {
                assert!(outcome.is_ok());
                break;
            }
        }
    }
    for name in [
        "create",
        "write",
        "fsync",
        "symlink",
        "link",
        "chmod",
        "exchange",
        "place",
        "note",
        "unnote",
        "setxattr",
        "removexattr",
    ] {
        assert!(seen.contains(name), "{name} was never made to fail: {seen:?}");
    }
}

/// A disk that is gone from some moment on, or a process: the next start takes back what was done of the turn, bits included.
#[test]
fn when_every_later_call_fails_too_the_next_start_takes_all_of_a_turn_back() {
    let (mut stuck, mut mixtures) = (0, 0);
    for nth in 1.. {
        let fault = Fault::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let outcome = fault.turn(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 >= nth { Err(Errno::IO) } else { Ok(()) }
        });
        let now = fault.now();
        for (path, is) in &now {
            let is_one = fault.old.get(path) == Some(is)
                || fault.new.get(path) == Some(is)
                || changes_in_place(fault.old.get(path), fault.new.get(path), is);
            let is_beside = path.split('/').any(|name| is_temporary(name.as_bytes()));
            assert!(is_one || is_beside, "call {nth}: {path} is neither old nor new");
        }
        mixtures += usize::from(outcome.is_err() && now != fault.old);
        stuck += usize::from(outcome.as_ref().is_err_and(|said| said.kind == ErrorKind::Internal));
        let then = fault.after();
        assert_eq!(
            &then,
            if outcome.is_ok() { &fault.new } else { &fault.old },
            "call {nth}, at the next start"
        );
        if nth % 8 == 0 {
            fault.again();
        }
        if calls.load(Ordering::Relaxed) < nth {
            break;
        }
    }
    assert!(stuck > 0 && mixtures > 0, "{stuck} {mixtures}");
}

/// A directory that is to go is opened for that first, and where only bits and attributes differ, each changes by itself.
fn changes_in_place(old: Option<&Is>, new: Option<&Is>, now: &Is) -> bool {
    match (old, new, now) {
        (Some(Is::File { id: old, .. }), Some(Is::File { id: new, .. }), Is::File { id, .. }) => {
            old == id && new == id
        }
        (one, other, Is::Folder { .. }) => {
            [one, other].iter().any(|one| matches!(one, Some(Is::Folder { .. })))
        }
        _ => false,
    }
}

#[test]
fn bits_that_somebody_changed_since_stay_at_the_next_start() {
    let mut changed = 0;
    for nth in 1.. {
        let fault = Fault::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let outcome = fault.turn(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 >= nth { Err(Errno::IO) } else { Ok(()) }
        });
        let bits = fault.scene.ws().join("bits");
        let mode =
            |mode: u32| Some(Is::File { id: commit::id_of(b"bits"), mode, attributes: Attributes::NONE });
        if outcome.is_err() && fault.now().get("bits").cloned() == mode(0o755) {
            fs::set_permissions(&bits, fs::Permissions::from_mode(0o700)).unwrap();
            let mut wanted = fault.old.clone();
            wanted.insert("bits".to_owned(), mode(0o700).unwrap());
            assert_eq!(fault.after(), wanted, "call {nth}");
            let error = fault.turn(|_| Ok(())).unwrap_err();
            assert_eq!(
                (error.kind, error.message.contains(": bits.")),
                (ErrorKind::Conflict, true),
                "{error}"
            );
            changed += 1;
        }
        if calls.load(Ordering::Relaxed) < nth {
            break;
        }
    }
    assert!(changed > 0);
}

#[test]
fn attributes_that_somebody_changed_since_stay_at_the_next_start() {
    let mut changed = 0;
    for nth in 1.. {
        let fault = Fault::new();
        let path = fault.scene.ws().join("stays");
        let set =
            |value: &[u8]| rustix::fs::setxattr(&path, "user.dir", value, rustix::fs::XattrFlags::empty());
        if set(b"1") == Err(Errno::OPNOTSUPP) {
            println!("skipped: no attributes of users in {}", path.display());
            return;
        }
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let outcome = fault.turn(move |_| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 >= nth { Err(Errno::IO) } else { Ok(()) }
        });
        let value = |tree: &Tree| tree.get("stays").unwrap().attributes().get("user.dir").unwrap().to_vec();
        if outcome.is_err() && value(&fault.now()) == b"2" {
            set(b"mine").unwrap();
            let then = fault.after();
            assert_eq!(value(&then), b"mine", "call {nth}");
            let others = |tree: &Tree| -> Tree {
                tree.iter()
                    .filter(|(path, _)| *path != "stays")
                    .map(|(path, is)| (path.clone(), is.clone()))
                    .collect()
            };
            assert_eq!(others(&then), others(&fault.old), "call {nth}");
            let error = fault.turn(|_| Ok(())).unwrap_err();
            assert_eq!(
                (error.kind, error.message.contains(": stays.")),
                (ErrorKind::Conflict, true),
                "{error}"
            );
            changed += 1;
        }
        if calls.load(Ordering::Relaxed) < nth {
            break;
        }
    }
    assert!(changed > 0);
}

/// What a file system says that has no such attributes, or no room for them.
#[test]
fn an_attribute_that_cannot_be_had_is_named_and_nothing_is_changed() {
    for (errno, why) in [(Errno::OPNOTSUPP, "has no such attributes"), (Errno::NOSPC, "has no room for it")] {
        // The first is of a file that is staged, the last of a directory that stays.
        for nth in [1, 8] {
            let fault = Fault::new();
            if fault.old["edited"].attributes().is_none() {
                println!("skipped: no attributes of users here");
                return;
            }
            let calls = AtomicUsize::new(0);
            let error = fault.turn(move |name| {
                let hit = name == "setxattr" && calls.fetch_add(1, Ordering::Relaxed) + 1 == nth;
                if hit { Err(errno) } else { Ok(()) }
            });
            let error = error.unwrap_err();
            assert_eq!(error.kind, ErrorKind::ToolFailed, "{error}");
            assert!(error.message.contains(why) && error.message.contains("extended attribute '"), "{error}");
            assert_eq!(fault.after(), fault.old);
        }
    }
}
