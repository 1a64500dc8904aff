//! The workspace on disk, through the same handle that tools use.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use helve_core::files::{Act, Expect, ExtraRoot, SeenFiles, UndoSink};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use helve_core::ErrorKind;

use super::*;

mod between;
mod closed;
mod faults;
mod model;
mod record;
mod rights;
mod turned;

use record::{Full, Notes, Record};

/// A directory with the workspace `ws` in it and the directory `out` beside it.
pub(super) struct Scene {
    pub(super) dir: TempDir,
    pub(super) rules: PathRules,
}

impl Scene {
    pub(super) fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("ws/src")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("out/secret.txt"), "CANARY").unwrap();
        fs::write(dir.path().join("ws/a.txt"), "old\n").unwrap();
        fs::write(dir.path().join("ws/src/lib.rs"), "lib\n").unwrap();
        Scene { dir, rules: PathRules::default() }
    }

    pub(super) fn ws(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn files(&self) -> Arc<dyn Files> {
        self.with(FilesScope::default())
    }

    fn with(&self, scope: FilesScope) -> Arc<dyn Files> {
        let options = Options { fsync: false, janitor: None };
        open_with(&self.ws(), self.rules.clone(), options).unwrap().scoped(scope)
    }
}

pub(super) fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

pub(super) fn change(path: &str, act: Act) -> Change {
    Change { path: path.to_owned(), act, expect: Expect::Any }
}

pub(super) fn put(path: &str, text: &str) -> Change {
    change(path, Act::Put(Arc::new(text.as_bytes().to_vec())))
}

fn read(files: &dyn Files, path: &str) -> Result<String, ErrorKind> {
    let got = wait(async { files.read(path, 1 << 20).await });
    got.map(|content| String::from_utf8(content.bytes).unwrap()).map_err(|error| error.kind)
}

fn commit(files: &dyn Files, changes: Vec<Change>) -> Result<Vec<Changed>, ToolError> {
    wait(async { files.commit(changes, false).await })
}

fn write(files: &dyn Files, path: &str, text: &str) -> Result<(), ErrorKind> {
    commit(files, vec![put(path, text)]).map(drop).map_err(|error| error.kind)
}

/// Every name below a directory.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            all.push(entry.path().strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            }
        }
    }
    all.sort();
    all
}

#[test]
fn reads_and_lists_what_is_inside() {
    let scene = Scene::new();
    let files = scene.files();
    assert_eq!(read(&*files, "src/lib.rs"), Ok("lib\n".to_owned()));
    assert_eq!(read(&*files, "./src/../src/lib.rs"), Ok("lib\n".to_owned()));
    assert_eq!(read(&*files, scene.ws().join("a.txt").to_str().unwrap()), Ok("old\n".to_owned()));
    symlink("src/lib.rs", scene.ws().join("inside")).unwrap();
    symlink(scene.ws().join("a.txt"), scene.ws().join("absolute")).unwrap();
    assert_eq!(read(&*files, "inside"), Ok("lib\n".to_owned()));
    assert_eq!(read(&*files, "absolute"), Ok("old\n".to_owned()));
    let content = wait(async { files.read("inside", 100).await }).unwrap();
    assert_eq!((content.path.as_str(), content.id.clone()), ("inside", commit::id_of(b"lib\n")));
    let Listed { entries, more, .. } = wait(async { files.list(&ListRequest::all(".", 2)).await }).unwrap();
    let found: Vec<_> = entries.iter().map(|one| (one.path.as_str(), one.kind)).collect();
    assert_eq!((found, more), (vec![("a.txt", FileKind::File), ("absolute", FileKind::Link)], true));
    let after = ListRequest { after: Some("absolute".to_owned()), ..ListRequest::all("", 9) };
    let Listed { entries, more, .. } = wait(async { files.list(&after).await }).unwrap();
    assert_eq!((entries.len(), more), (2, false));
    assert_eq!(wait(async { files.stat("nothing").await }), Ok(None));
    assert_eq!(wait(async { files.stat("a.txt/x").await }), Ok(None));
    assert_eq!(wait(async { files.read("a.txt", 3).await }).unwrap_err().kind, ErrorKind::TooLarge);
}

#[test]
fn nothing_outside_is_read_or_written() {
    let scene = Scene::new();
    let (ws, out) = (scene.ws(), scene.out());
    symlink(&out, ws.join("link")).unwrap();
    symlink("../out", ws.join("relative")).unwrap();
    symlink("l2", ws.join("l1")).unwrap();
    symlink("../out/secret.txt", ws.join("l2")).unwrap();
    symlink(out.join("mark"), ws.join("dangling")).unwrap();
    symlink("circle", ws.join("circle")).unwrap();
    fs::hard_link(out.join("secret.txt"), ws.join("hl")).unwrap();
    let files = scene.files();
    let outside = out.join("secret.txt");
    let outside = outside.to_str().unwrap();
    for path in [
        outside,
        "missing/../../out/secret.txt",
        "../out/secret.txt",
        "link/secret.txt",
        "relative/secret.txt",
        "l1",
        "dangling",
        "circle",
        "hl",
        "/proc/self/root/etc/hostname",
        "/proc/self/environ",
        "/dev/stdin",
        "~/.bashrc",
        "file:///etc/hostname",
        "src/../../out/secret.txt",
    ] {
        assert_eq!(read(&*files, path), Err(ErrorKind::Blocked), "read {path}");
        assert_eq!(write(&*files, path, "x"), Err(ErrorKind::Blocked), "write {path}");
    }
    for path in ["..\\out\\secret.txt", "．．/out/secret.txt"] {
        assert_eq!(read(&*files, path), Err(ErrorKind::NotFound), "{path}");
    }
    assert_eq!(read(&*files, "a\0b"), Err(ErrorKind::InvalidParams));
    assert_eq!(write(&*files, "missing/../b", "x"), Err(ErrorKind::NotFound));
    assert_eq!(names(&out), ["secret.txt"]);
    assert_eq!(fs::read_to_string(out.join("secret.txt")).unwrap(), "CANARY");
}

#[test]
fn what_is_no_file_is_said_and_never_opened() {
    let scene = Scene::new();
    let fifo = scene.ws().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.ws().join("socket")).unwrap();
    let files = scene.files();
    for (path, what) in [("fifo", "a FIFO"), ("socket", "a socket"), ("src", "a directory")] {
        let error = wait(async { files.read(path, 10).await }).unwrap_err();
        assert!(error.message.contains(what), "{}", error.message);
        let error = commit(&*files, vec![put(path, "x")]).unwrap_err();
        assert!(error.message.contains(what), "{}", error.message);
    }
    let error = commit(&*files, vec![put("a.txt/b", "x")]).unwrap_err();
    assert_eq!(error.message, "'a.txt' is a file, not a directory.");
    let error = commit(&*files, vec![put("con\n\x1bname", "x")]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParams);
    assert!(error.message.contains("con\\x0a\\x1bname"), "{}", error.message);
    assert_eq!(write(&*files, "new/", "x"), Err(ErrorKind::InvalidParams));
    assert_eq!(write(&*files, ".", "x"), Err(ErrorKind::ToolFailed));
}

#[test]
fn links_inside_are_not_written_through_and_the_target_is_named() {
    let scene = Scene::new();
    symlink("a.txt", scene.ws().join("l")).unwrap();
    symlink("src", scene.ws().join("d")).unwrap();
    let files = scene.files();
    for (path, target) in [("l", "'a.txt'"), ("d/new.rs", "'src/new.rs'"), ("d/lib.rs", "'src/lib.rs'")] {
        let error = commit(&*files, vec![put(path, "x")]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::ToolFailed);
        assert!(error.hint.as_ref().unwrap().contains(target), "{:?}", error.hint);
    }
    assert_eq!(names(&scene.ws()), ["a.txt", "d", "l", "src", "src/lib.rs"]);
}

#[test]
fn a_commit_of_every_kind() {
    let scene = Scene::new();
    let files = scene.files();
    let done = commit(
        &*files,
        vec![
            put("a.txt", "new\n"),
            change("a.txt", Act::Append(b"more\n".to_vec())),
            put("deep/er/b.txt", "b"),
            change("deep/er/c.txt", Act::Append(b"c".to_vec())),
            change("empty/dir", Act::Mkdirp),
            change("src/lib.rs", Act::Move { to: "deep/lib.rs".to_owned(), content: None }),
            change("src", Act::Remove),
        ],
    )
    .unwrap();
    assert_eq!(
        names(&scene.ws()),
        ["a.txt", "deep", "deep/er", "deep/er/b.txt", "deep/er/c.txt", "deep/lib.rs", "empty", "empty/dir"]
    );
    assert_eq!(fs::read_to_string(scene.ws().join("a.txt")).unwrap(), "new\nmore\n");
    assert_eq!(fs::read_to_string(scene.ws().join("deep/lib.rs")).unwrap(), "lib\n");
    assert_eq!(done[1].before, Some(commit::id_of(b"new\n")));
    assert_eq!(done[1].after, Some(commit::id_of(b"new\nmore\n")));
    assert_eq!((done[5].path.as_str(), done[5].len), ("deep/lib.rs", 4));
    let before = names(&scene.ws());
    for changes in [
        vec![put("x", "1"), change("nothing", Act::Remove)],
        vec![put("x/y/z", "1"), change("deep", Act::Remove)],
        vec![change("a.txt", Act::Move { to: "deep/lib.rs".to_owned(), content: None })],
        vec![change("a.txt", Act::Remove), put("a.txt/b", "1")],
    ] {
        assert!(commit(&*files, changes).is_err());
        assert_eq!(names(&scene.ws()), before);
    }
    let rehearsed = wait(async { files.commit(vec![put("x/y", "1")], true).await }).unwrap();
    assert_eq!(rehearsed[0].after, Some(commit::id_of(b"1")));
    assert_eq!(names(&scene.ws()), before);
}

#[test]
fn a_replaced_file_keeps_what_is_not_its_content() {
    let scene = Scene::new();
    let path = scene.ws().join("a.txt");
    // Before its owner may not write it any more.
    let attribute =
        rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    }
    let files = scene.files();
    assert_eq!(write(&*files, "a.txt", "new"), Ok(()));
    let now = fs::metadata(&path).unwrap();
    assert_eq!(now.mode() & 0o7777, 0o444);
    if root {
        assert_eq!((now.uid(), now.gid()), (1234, 4321));
    }
    if attribute {
        let mut value = [0; 16];
        let len = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"kept");
    }
    // The same bytes again touch nothing.
    let inode = fs::metadata(&path).unwrap().ino();
    assert_eq!(write(&*files, "a.txt", "new"), Ok(()));
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
}

#[test]
fn compare_and_swap() {
    let scene = Scene::new();
    let seen = Arc::new(Notes::default());
    let files = scene.with(FilesScope { seen: Some(seen.clone()), ..FilesScope::default() });
    let as_seen = |path: &str, text: &str| Change { expect: Expect::AsSeen, ..put(path, text) };
    let conflict = Err(ErrorKind::Conflict);
    let go = |change: Change| commit(&*files, vec![change]).map(drop).map_err(|error| error.kind);
    // Never seen: fine. Then seen as written.
    assert_eq!(go(as_seen("a.txt", "1")), Ok(()));
    assert_eq!(seen.last("a.txt").unwrap().content.as_deref(), Some(&b"1"[..]));
    fs::write(scene.ws().join("a.txt"), "other").unwrap();
    assert_eq!(go(as_seen("a.txt", "2")), conflict);
    assert_eq!(files.last_seen("./a.txt").unwrap().id, commit::id_of(b"1"));
    assert_eq!(read(&*files, "a.txt"), Ok("other".to_owned()));
    assert_eq!(go(as_seen("a.txt", "2")), Ok(()));
    let with = |expect| Change { expect, ..put("a.txt", "3") };
    assert_eq!(go(with(Expect::Absent)), conflict);
    assert_eq!(go(with(Expect::Content(commit::id_of(b"1")))), conflict);
    assert_eq!(go(with(Expect::Content(commit::id_of(b"2")))), Ok(()));
    fs::remove_file(scene.ws().join("a.txt")).unwrap();
    assert_eq!(go(with(Expect::Content(commit::id_of(b"3")))), conflict);
    assert_eq!(go(as_seen("a.txt", "4")), Ok(()));
    assert_eq!(go(change("a.txt", Act::Remove)), Ok(()));
    assert!(seen.last("a.txt").is_none());
}

/// What a call has read is believed for its plan, and is read again before anything changes.
#[test]
fn a_file_that_changed_without_looking_so_is_a_conflict() {
    let scene = Scene::new();
    let sinks: [Arc<dyn UndoSink>; 2] = [Arc::new(Record::default()), Arc::new(Full)];
    for undo in std::iter::once(None).chain(sinks.map(Some)) {
        let workspace =
            open_with(&scene.ws(), scene.rules.clone(), Options { fsync: true, janitor: None }).unwrap();
        let scope = Arc::new(FilesScope { undo, ..FilesScope::default() });
        let handle = Handle { host: Arc::clone(&workspace.0), scope, recall: Arc::default() };
        assert_eq!(read(&handle, "a.txt"), Ok("old\n".to_owned()));
        let expect = |text: &[u8]| Expect::Content(commit::id_of(text));
        let edit = |expect, text: &str| commit(&handle, vec![Change { expect, ..put("a.txt", text) }]);
        // As if it had been something else when it was read.
        let stat = rustix::fs::stat(scene.ws().join("a.txt")).unwrap();
        let key = Key::new(0, &["a.txt"]);
        handle.recall.note(&key, Identity::of(&stat), Original::of(b"odl\n"));
        for text in ["new\n", "odl\n"] {
            let error = edit(expect(b"odl\n"), text).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        }
        assert_eq!(names(&scene.ws()).iter().filter(|name| name.contains("helve")).count(), 0);
        assert_eq!(read(&handle, "a.txt"), Ok("old\n".to_owned()));
        edit(expect(b"old\n"), "new\n").unwrap();
        // What was read before a change is not believed after it.
        assert_eq!(edit(expect(b"old\n"), "x").unwrap_err().kind, ErrorKind::Conflict);
        edit(expect(b"new\n"), "old\n").unwrap();
    }
}

#[test]
fn a_file_that_the_call_has_read_is_read_once_more_and_not_twice() {
    let scene = Scene::new();
    let undo: Arc<dyn UndoSink> = Arc::new(Record::default());
    for (undo, text, reads) in [(None, "one", 2), (Some(undo), "two", 0)] {
        let workspace = open_with(&scene.ws(), scene.rules.clone(), Options::default()).unwrap();
        let counted = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&counted);
        *workspace.0.sys.fault.lock().unwrap() = Some(Box::new(move |name| {
            count.fetch_add(usize::from(name == "read"), std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }));
        let files = workspace.scoped(FilesScope { undo, ..FilesScope::default() });
        let content = wait(async { files.read("a.txt", 100).await }).unwrap();
        let change = Change { expect: Expect::Content(content.id), ..put("a.txt", text) };
        commit(&*files, vec![change]).unwrap();
        // The content and its end; the undo record reads by itself.
        assert_eq!(counted.load(std::sync::atomic::Ordering::Relaxed), reads);
    }
}

#[test]
fn a_restored_file_has_its_mode_whether_something_is_there_or_not() {
    let scene = Scene::new();
    let files = scene.with(FilesScope::default());
    let content = || b"x".to_vec();
    let restore = |path: &str, mode| {
        let act = Act::Restore { content: content(), mode, attributes: Attributes::NONE, owner: None };
        change(path, act)
    };
    commit(&*files, vec![restore("a.txt", 0o640), restore("new/run", 0o4755)]).unwrap();
    commit(&*files, vec![restore("a.txt", 0o600)]).unwrap();
    let mode = |path: &str| fs::metadata(scene.ws().join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("a.txt"), mode("new/run")), (0o600, 0o755));
    assert_eq!(fs::read(scene.ws().join("new/run")).unwrap(), b"x");
}

#[test]
fn what_was_there_is_told_before_it_changes() {
    let scene = Scene::new();
    fs::set_permissions(scene.ws().join("a.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    let undo = Arc::new(Record::default());
    let files = scene.with(FilesScope { undo: Some(undo.clone()), ..FilesScope::default() });
    let moved = Act::Move { to: "new/b.txt".to_owned(), content: Some(b"b".to_vec()) };
    commit(&*files, vec![change("a.txt", moved), change("src/lib.rs", Act::Remove)]).unwrap();
    let b = commit::id_of(b"b").0;
    assert_eq!(
        undo.lines(),
        [
            "a.txt: file 640 'old\\n' -> nothing".to_owned(),
            "new: nothing -> directory".to_owned(),
            format!("new/b.txt: nothing -> file 640 {b}"),
            format!(
                "src/lib.rs: file {:o} 'lib\\n' -> nothing",
                fs::metadata(scene.out().join("secret.txt")).unwrap().mode() & 0o777
            ),
            "ready".to_owned(),
            "done true".to_owned(),
        ]
    );
    undo.refuse.store(true, std::sync::atomic::Ordering::Relaxed);
    let before = names(&scene.ws());
    assert!(commit(&*files, vec![put("new/b.txt", "c"), put("z", "1")]).is_err());
    assert_eq!(names(&scene.ws()), before);
    assert_eq!(undo.lines().last().unwrap(), "done false");
}

#[test]
fn other_roots_are_read_and_written_as_the_policy_says() {
    let mut scene = Scene::new();
    fs::create_dir(scene.dir.path().join("rw")).unwrap();
    scene.rules.roots = vec![
        ExtraRoot { path: scene.out(), write: false },
        ExtraRoot { path: scene.dir.path().join("rw"), write: true },
        ExtraRoot { path: scene.dir.path().join("gone"), write: true },
    ];
    symlink(scene.out().join("secret.txt"), scene.ws().join("l")).unwrap();
    let files = scene.files();
    let path = |name: &str| scene.dir.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(read(&*files, &path("out/secret.txt")), Ok("CANARY".to_owned()));
    assert_eq!(read(&*files, "l"), Ok("CANARY".to_owned()));
    assert_eq!(write(&*files, &path("out/secret.txt"), "x"), Err(ErrorKind::Blocked));
    let done = commit(&*files, vec![put(&path("rw/a/b"), "x")]).unwrap();
    assert_eq!(done[0].path, path("rw/a/b"));
    assert_eq!(read(&*files, &path("rw/../ws/a.txt")), Err(ErrorKind::Blocked));
    assert_eq!(read(&*files, &path("gone/x")), Err(ErrorKind::ToolFailed));
    assert_eq!(read(&*files, &path("outer")), Err(ErrorKind::Blocked));
}

#[test]
fn of_roots_in_each_other_the_deepest_says_whether_it_is_written() {
    let mut scene = Scene::new();
    fs::create_dir_all(scene.ws().join("vendor/own")).unwrap();
    scene.rules.roots = vec![
        ExtraRoot { path: scene.ws().join("vendor"), write: false },
        ExtraRoot { path: scene.ws().join("vendor/own"), write: true },
        // Above the workspace, which stays open.
        ExtraRoot { path: scene.dir.path().to_owned(), write: false },
    ];
    let files = scene.files();
    for (path, expected) in [
        ("vendor/new", Err(ErrorKind::Blocked)),
        ("./a/../vendor/new", Err(ErrorKind::NotFound)),
        ("vendor/own/new", Ok(())),
        ("vendored", Ok(())),
        ("a.txt", Ok(())),
    ] {
        assert_eq!(write(&*files, path, "x"), expected, "{path}");
    }
    let moved = change("a.txt", Act::Move { to: "vendor/a.txt".to_owned(), content: None });
    assert_eq!(commit(&*files, vec![moved]).unwrap_err().kind, ErrorKind::Blocked);
}

#[test]
fn what_a_call_leaves_out_is_found_only_by_who_names_it() {
    let scene = Scene::new();
    fs::create_dir_all(scene.ws().join("secret/deep")).unwrap();
    fs::write(scene.ws().join("secret/deep/x"), "needle").unwrap();
    fs::write(scene.ws().join("open"), "needle").unwrap();
    let files = scene.with(FilesScope { left_out: vec!["/secret/**".to_owned()], ..FilesScope::default() });
    let found = |path: &str| -> Vec<String> {
        let search = SearchRequest { path: path.to_owned(), ..crate::seek::tests::lines("needle") };
        let searched = wait(async { files.search(&search).await }).unwrap();
        searched.files.into_iter().map(|file| file.path).collect()
    };
    assert_eq!(found("."), ["open"]);
    assert_eq!(found("secret"), ["secret/deep/x"]);
    assert_eq!(found("secret/deep"), ["secret/deep/x"]);
    assert_eq!(found("secret/deep/x"), ["secret/deep/x"]);
    let walk = WalkRequest { path: ".".to_owned(), ..crate::seek::tests::names() };
    let walked = wait(async { files.walk(&walk).await }).unwrap();
    assert!(walked.entries.iter().all(|entry| !entry.path.starts_with("secret/")), "{:?}", walked.entries);
    assert_eq!(read(&*files, "secret/deep/x"), Ok("needle".to_owned()));
}

#[test]
fn a_cancelled_commit_does_not_begin() {
    let scene = Scene::new();
    let (handle, cancel) = helve_core::Cancel::pair();
    handle.cancel();
    let files = scene.with(FilesScope { cancel, ..FilesScope::default() });
    assert_eq!(write(&*files, "a.txt", "x"), Err(ErrorKind::Cancelled));
    assert_eq!(fs::read_to_string(scene.ws().join("a.txt")).unwrap(), "old\n");
}

#[test]
fn what_the_owner_agreed_to_is_not_copied_for_each_act() {
    let scene = Scene::new();
    let agreed = (0..200_000).map(|number| format!("a file with number {number}")).collect();
    let files = scene.with(FilesScope { agreed, ..FilesScope::default() });
    let started = std::time::Instant::now();
    for _ in 0..2000 {
        assert!(wait(async { files.stat("a.txt").await }).unwrap().is_some());
    }
    assert!(started.elapsed().as_secs() < 8, "{:?}", started.elapsed());
}
