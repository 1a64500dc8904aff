//! Layers read as the overlay leaves them: whiteouts, opaque directories, renames, links and modes, and what a turn of the
//! workspace makes of them.

mod attributes;
mod links;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use helve_core::files::{Attributes, Contents, FilesBridge, FilesScope, Names, Turn, Turns};
use helve_core::{ErrorKind, LayerLinks, LayerPart, PathRules};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, XattrFlags, makedev};

use super::entry::OPAQUE;
use super::*;

/// Contents in memory.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl KeepContent for Held {
    fn keep(&mut self, content: &mut dyn Read) -> Result<ContentId, ToolError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).unwrap();
        let id = crate::commit::id_of(&bytes);
        self.0.lock().unwrap().insert(id.0.clone(), bytes);
        Ok(id)
    }
}

impl Contents for Held {
    fn open(&self, id: &ContentId) -> Result<Box<dyn Read + Send>, ToolError> {
        let bytes = self.0.lock().unwrap().get(&id.0).cloned();
        bytes
            .map(|bytes| Box::new(std::io::Cursor::new(bytes)) as Box<dyn Read + Send>)
            .ok_or_else(|| ToolError::not_found("it"))
    }
}

struct Scene {
    folder: tempfile::TempDir,
    held: Held,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        for name in ["lower", "upper"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Scene { folder, held: Held::default() }
    }

    fn lower(&self) -> PathBuf {
        self.folder.path().join("lower")
    }

    fn put(&self, path: &str, text: &str, mode: u32) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn whiteout(&self, path: &str) {
        let path = self.folder.path().join("upper").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).unwrap();
    }

    /// A directory that hides what is below; false where the file system has no such attributes.
    fn opaque(&self, path: &str) -> bool {
        let path = self.folder.path().join("upper").join(path);
        fs::create_dir_all(&path).unwrap();
        rustix::fs::setxattr(&path, OPAQUE, b"y", XattrFlags::empty()).is_ok()
    }

    /// Gives an attribute; false where the file system has no such attributes.
    fn mark(&self, path: &str, name: &str, value: &[u8]) -> bool {
        let set = rustix::fs::setxattr(self.folder.path().join(path), name, value, XattrFlags::empty());
        assert!(matches!(set, Ok(()) | Err(Errno::OPNOTSUPP)), "{path} {name} {set:?}");
        set.is_ok()
    }

    fn layer(&self) -> Layer {
        let upper = rustix::fs::open(self.folder.path().join("upper"), OFlags::PATH, Mode::empty()).unwrap();
        Layer {
            parts: vec![LayerPart { path: PathBuf::new(), upper }],
            since: SystemTime::now() + Duration::from_secs(60),
            links: LayerLinks::default(),
        }
    }

    fn read(&mut self) -> LayerRead {
        read_layer(&self.lower(), &self.layer(), &mut self.held, &Cancel::never()).unwrap()
    }

    fn turn(&mut self, turns: Vec<Turn>) -> Result<(), ToolError> {
        let workspace = crate::open(&self.lower(), PathRules::default()).unwrap();
        let files = workspace.scoped(FilesScope { whole: true, ..FilesScope::default() });
        let turns = Turns { turns, contents: Arc::new(self.held.clone()), leave_used: false };
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio.block_on(async { files.turn(turns).await.map(drop) })
    }

    /// Every path below the workspace, and what it is.
    fn tree(&mut self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.lower()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let data = path.symlink_metadata().unwrap();
                let mode = data.mode() & 0o7777;
                let what = if data.is_dir() {
                    open.push(path.clone());
                    format!("directory {mode:o}")
                } else if data.is_symlink() {
                    format!("link {}", path.read_link().unwrap().display())
                } else {
                    // What is taken back later has to be kept.
                    self.held.keep(&mut File::open(&path).unwrap()).unwrap();
                    format!("{mode:o} {} {}", data.nlink(), fs::read_to_string(&path).unwrap())
                };
                let marks = match data.is_symlink() {
                    true => Attributes::NONE,
                    false => crate::attributes::read(File::open(&path).unwrap(), None).unwrap(),
                };
                let what = if marks.is_none() { what } else { format!("{what} {marks:?}") };
                found.insert(path.strip_prefix(self.lower()).unwrap().to_str().unwrap().to_owned(), what);
            }
        }
        found
    }
}

fn turns(read: &LayerRead) -> Vec<Turn> {
    let one = |change: &LayerChange| Turn {
        path: change.path.clone(),
        from: change.was.clone(),
        to: change.is.clone(),
        modified: change.modified,
        owner: None,
        names: Names {
            same_as: change.same_as.clone(),
            inode: None,
            was_same_as: change.was_same_as.clone(),
            apart: change.apart,
        },
    };
    read.changes.iter().map(one).collect()
}

fn back(read: &LayerRead) -> Vec<Turn> {
    let one = |change: &LayerChange| Turn {
        path: change.path.clone(),
        from: change.is.clone(),
        to: change.was.clone(),
        modified: None,
        owner: None,
        names: Names { same_as: change.was_same_as.clone(), ..Names::default() },
    };
    read.changes.iter().map(one).collect()
}

#[test]
fn what_a_layer_says_is_what_becomes_of_the_workspace_and_can_be_taken_back() {
    let mut scene = Scene::new();
    for (path, text, mode) in [
        ("lower/same", "same", 0o644),
        ("lower/edited", "old", 0o640),
        ("lower/only_bits", "bits", 0o644),
        ("lower/gone", "gone", 0o600),
        ("lower/dir/a", "a", 0o644),
        ("lower/dir/deep/b", "b", 0o444),
        ("lower/hidden/old", "old", 0o644),
        ("lower/hidden/both", "both", 0o644),
        ("lower/to_dir", "file", 0o644),
        ("lower/to_file/inner/x", "x", 0o644),
        ("lower/stays/x", "x", 0o644),
        ("upper/same", "same", 0o644),
        ("upper/edited", "new", 0o640),
        ("upper/only_bits", "bits", 0o755),
        ("upper/fresh/deep/n", "n", 0o600),
        ("upper/to_dir/inner", "inner", 0o644),
        ("upper/to_file", "now a file", 0o755),
        ("upper/one_name", "shared", 0o644),
    ] {
        scene.put(path, text, mode);
    }
    let upper = scene.folder.path().join("upper");
    symlink("edited", scene.lower().join("link")).unwrap();
    symlink("elsewhere", upper.join("link")).unwrap();
    symlink("../outside", upper.join("new_link")).unwrap();
    fs::hard_link(upper.join("one_name"), upper.join("other_name")).unwrap();
    fs::set_permissions(scene.lower().join("stays"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(upper.join("stays")).unwrap();
    fs::set_permissions(upper.join("stays"), fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(upper.join("fresh"), fs::Permissions::from_mode(0o555)).unwrap();
    for path in ["gone", "dir"] {
        scene.whiteout(path);
    }
    let hides = scene.opaque("hidden");
    scene.put("upper/hidden/both", "other", 0o644);
    let before = scene.tree();
    let read = scene.read();
    let changed: Vec<&str> = read.changes.iter().map(|change| change.path.as_str()).collect();
    let mut expected = vec![
        "dir",
        "dir/a",
        "dir/deep",
        "dir/deep/b",
        "edited",
        "fresh",
        "fresh/deep",
        "fresh/deep/n",
        "gone",
        "hidden/both",
        "hidden/old",
        "link",
        "new_link",
        "one_name",
        "only_bits",
        "other_name",
        "stays",
        "to_dir",
        "to_dir/inner",
        "to_file",
        "to_file/inner",
        "to_file/inner/x",
    ];
    expected.retain(|path| hides || *path != "hidden/old");
    assert_eq!(changed, expected);
    scene.turn(turns(&read)).unwrap();
    let after = scene.tree();
    let mut wanted = BTreeMap::new();
    for (path, what) in [
        ("edited", "640 1 new"),
        ("fresh", "directory 555"),
        ("fresh/deep", "directory 755"),
        ("fresh/deep/n", "600 1 n"),
        ("hidden", "directory 755"),
        ("hidden/both", "644 1 other"),
        ("link", "link elsewhere"),
        ("new_link", "link ../outside"),
        ("one_name", "644 2 shared"),
        ("only_bits", "755 1 bits"),
        ("other_name", "644 2 shared"),
        ("same", "644 1 same"),
        ("stays", "directory 711"),
        ("stays/x", "644 1 x"),
        ("to_dir", "directory 755"),
        ("to_dir/inner", "644 1 inner"),
        ("to_file", "755 1 now a file"),
    ] {
        wanted.insert(path.to_owned(), what.to_owned());
    }
    if !hides {
        wanted.insert("hidden/old".to_owned(), "644 1 old".to_owned());
    }
    assert_eq!(after, wanted);
    // A second time there is nothing left to do.
    scene.turn(turns(&read)).unwrap();
    assert_eq!(scene.tree(), after);
    scene.turn(back(&read)).unwrap();
    assert_eq!(scene.tree(), before);
}

/// Takes what was in files to show it.
#[derive(Default)]
struct Shown(BTreeMap<String, Vec<u8>>);

impl KeepContent for Shown {
    fn keep(&mut self, content: &mut dyn Read) -> Result<ContentId, ToolError> {
        Held::default().keep(content)
    }

    fn compares(&self, bytes: u64) -> bool {
        bytes <= 8
    }

    fn compare(&mut self, id: &ContentId, content: Vec<u8>) {
        self.0.insert(id.0.clone(), content);
    }
}

#[test]
fn what_was_in_files_that_changed_is_given_as_it_was_read_and_no_other() {
    let scene = Scene::new();
    for (path, text) in [
        ("lower/edited", "was here"),
        ("lower/gone", "gone"),
        ("lower/same", "same"),
        ("lower/long", "more than eight"),
        ("lower/untouched", "rest"),
        ("upper/edited", "is here"),
        ("upper/same", "same"),
        ("upper/long", "other"),
    ] {
        scene.put(path, text, 0o644);
    }
    scene.whiteout("gone");
    let mut shown = Shown::default();
    let read = read_layer(&scene.lower(), &scene.layer(), &mut shown, &Cancel::never()).unwrap();
    let given: Vec<_> = read
        .changes
        .iter()
        .map(|change| match &change.was {
            Is::File { id, .. } => (change.path.as_str(), shown.0.get(&id.0).map(Vec::as_slice)),
            _ => panic!("{change:?}"),
        })
        .collect();
    assert_eq!(given, [("edited", Some(&b"was here"[..])), ("gone", Some(b"gone")), ("long", None)]);
    assert_eq!(shown.0.len(), 2, "what is as it was is not shown");
}

#[test]
fn what_changed_meanwhile_is_a_conflict_with_its_name_and_nothing_happens() {
    for disturb in ["content", "bits", "gone", "new", "inside"] {
        let mut scene = Scene::new();
        scene.put("lower/a", "a", 0o644);
        scene.put("lower/b", "b", 0o644);
        scene.put("lower/dir/x", "x", 0o644);
        scene.put("upper/a", "A", 0o644);
        scene.put("upper/c", "C", 0o644);
        scene.whiteout("dir");
        let read = scene.read();
        let named = match disturb {
            "content" => {
                scene.put("lower/a", "other", 0o644);
                "a"
            }
            "bits" => {
                scene.put("lower/a", "a", 0o600);
                "a"
            }
            "gone" => {
                fs::remove_file(scene.lower().join("a")).unwrap();
                "a"
            }
            "new" => {
                scene.put("lower/c", "mine", 0o644);
                "c"
            }
            _ => {
                scene.put("lower/dir/mine", "mine", 0o644);
                "dir/mine"
            }
        };
        let before = scene.tree();
        let error = scene.turn(turns(&read)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{disturb}: {error:?}");
        assert!(error.message.contains(&format!(": {named}.")), "{disturb}: {error:?}");
        assert_eq!(scene.tree(), before, "{disturb}");
    }
}

#[test]
fn a_file_that_changed_below_while_the_command_ran_is_marked() {
    let mut scene = Scene::new();
    scene.put("lower/a", "a", 0o644);
    scene.put("upper/a", "A", 0o644);
    let upper = rustix::fs::open(scene.folder.path().join("upper"), OFlags::PATH, Mode::empty()).unwrap();
    let parts = vec![LayerPart { path: PathBuf::new(), upper }];
    let mut layer = Layer { parts, since: SystemTime::UNIX_EPOCH, links: LayerLinks::default() };
    let disturbed = |scene: &mut Scene, layer: &Layer| {
        read_layer(&scene.lower(), layer, &mut scene.held, &Cancel::never()).unwrap().changes[0].disturbed
    };
    assert!(disturbed(&mut scene, &layer));
    layer.since = SystemTime::now() + Duration::from_secs(60);
    assert!(!disturbed(&mut scene, &layer));
}

#[test]
fn a_handle_of_a_tool_turns_nothing() {
    let mut scene = Scene::new();
    scene.put("lower/a", "a", 0o644);
    scene.put("upper/a", "A", 0o644);
    let read = scene.read();
    let workspace = crate::open(&scene.lower(), PathRules::default()).unwrap();
    let files = workspace.scoped(FilesScope::default());
    let turns = Turns { turns: turns(&read), contents: Arc::new(scene.held.clone()), leave_used: false };
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(tokio.block_on(async { files.turn(turns).await }).unwrap_err().kind, ErrorKind::Blocked);
    assert_eq!(tokio.block_on(async { files.now("a").await }).unwrap_err().kind, ErrorKind::Blocked);
    assert_eq!(fs::read_to_string(scene.lower().join("a")).unwrap(), "a");
}

/// Its names can be read, and nothing of it be reached.
#[test]
fn a_directory_that_its_owner_may_not_enter_is_read() {
    let mut scene = Scene::new();
    scene.put("upper/shut/in", "in", 0o644);
    fs::set_permissions(scene.folder.path().join("upper/shut"), fs::Permissions::from_mode(0o600)).unwrap();
    let read = scene.read();
    let paths: Vec<&str> = read.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["shut", "shut/in"]);
    assert!(matches!(read.changes[0].is, Is::Folder { mode: 0o600, .. }), "{read:?}");
}

#[test]
fn a_file_too_long_to_be_read_is_refused_before_it_is_read() {
    let sparse = |scene: &Scene, path: &str| {
        scene.put(path, "", 0o644);
        let file = fs::OpenOptions::new().write(true).open(scene.folder.path().join(path)).unwrap();
        file.set_len(1 << 40).unwrap();
    };
    let refused = |scene: &mut Scene| {
        let read = read_layer(&scene.lower(), &scene.layer(), &mut scene.held, &Cancel::never());
        let error = read.unwrap_err();
        (error.kind, error.message.contains("'a/sp'"))
    };
    let mut removed = Scene::new();
    sparse(&removed, "lower/a/sp");
    removed.whiteout("a/sp");
    assert_eq!(refused(&mut removed), (ErrorKind::TooLarge, true));
    let mut replaced = Scene::new();
    sparse(&replaced, "lower/a/sp");
    replaced.put("upper/a/sp", "x", 0o644);
    assert_eq!(refused(&mut replaced), (ErrorKind::TooLarge, true));
    let mut made = Scene::new();
    made.put("lower/a/other", "x", 0o644);
    sparse(&made, "upper/a/sp");
    assert_eq!(refused(&mut made), (ErrorKind::TooLarge, true));
    let mut with_its_directory = Scene::new();
    sparse(&with_its_directory, "lower/a/sp");
    with_its_directory.whiteout("a");
    assert_eq!(refused(&mut with_its_directory), (ErrorKind::TooLarge, true));
}

#[test]
fn a_call_that_is_taken_back_while_a_file_is_read_says_so() {
    /// Takes the call back as soon as it is asked about the file.
    struct Back(helve_core::CancelHandle);

    impl KeepContent for Back {
        fn keep(&mut self, _: &mut dyn Read) -> Result<ContentId, ToolError> {
            Ok(crate::commit::id_of(b""))
        }

        fn compares(&self, _: u64) -> bool {
            self.0.cancel();
            false
        }
    }

    let scene = Scene::new();
    scene.put("lower/a", "text", 0o644);
    scene.whiteout("a");
    let (handle, cancel) = Cancel::pair();
    let error = read_layer(&scene.lower(), &scene.layer(), &mut Back(handle), &cancel).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
}
