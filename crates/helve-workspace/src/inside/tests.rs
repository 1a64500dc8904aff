use std::collections::HashMap;
use std::fs;

use helve_core::files::{Attributes, Expect, PageStart, SeenFiles, UndoSink};
use helve_core::{Cancel, Ended, OutputSink, SandboxReport, Stream};
use pretty_assertions::assert_eq;

use super::*;
use crate::host;

/// A sandbox that holds nothing: the helper runs in this process.
struct Near {
    /// What the helper gives instead of an answer.
    instead: Option<(Exit, &'static [u8])>,
    /// How the trip ends that has done its work all the same, counted from 1.
    killed_at: Mutex<Option<usize>>,
    /// What somebody writes to a file before the second trip.
    meanwhile: Mutex<Option<(PathBuf, &'static str)>>,
    trips: Mutex<usize>,
}

impl ShellBackend for Near {
    fn report(&self) -> SandboxReport {
        SandboxReport::default()
    }

    fn contains(&self) -> bool {
        false
    }

    fn run<'a>(
        &'a self,
        job: ShellJob,
        mut sink: Box<dyn OutputSink>,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async move {
            *self.trips.lock().unwrap() += 1;
            if *self.trips.lock().unwrap() == 2
                && let Some((path, text)) = self.meanwhile.lock().unwrap().take()
            {
                fs::write(path, text).unwrap();
            }
            assert_eq!(job.work, Work::Program(vec!["/helper".into(), HELPER_WORD.into()]));
            let exit = match self.instead {
                Some((exit, bytes)) => {
                    sink.chunk(Stream::Stdout, bytes);
                    sink.chunk(Stream::Stderr, b"no such\x1b[31m thing\n");
                    exit
                }
                None => {
                    let mut answer = Vec::new();
                    // The helper has a runtime of its own.
                    let served = move || serve::serve(job.stdin.as_slice(), &mut answer).map(|()| answer);
                    let answer = std::thread::spawn(served).join().unwrap().unwrap();
                    if *self.killed_at.lock().unwrap() == Some(*self.trips.lock().unwrap()) {
                        return Ok(Ended::plain(Exit::Signal(9), SandboxReport::default()));
                    }
                    answer.chunks(7).for_each(|chunk| sink.chunk(Stream::Stdout, chunk));
                    Exit::Code(0)
                }
            };
            Ok(Ended::plain(exit, SandboxReport::default()))
        })
    }
}

/// What a session saw, in memory.
#[derive(Default)]
struct Memory(Mutex<HashMap<String, Seen>>);

impl SeenFiles for Memory {
    fn last(&self, path: &str) -> Option<Seen> {
        self.0.lock().unwrap().get(path).cloned()
    }

    fn saw(&self, path: &str, id: Option<&ContentId>, bytes: Option<&[u8]>) {
        let mut all = self.0.lock().unwrap();
        match id {
            Some(id) => {
                drop(all.insert(path.into(), Seen { id: id.clone(), content: bytes.map(<[u8]>::to_vec) }))
            }
            None => drop(all.remove(path)),
        }
    }
}

/// What was kept before a commit, and what was said at its end.
#[derive(Default)]
struct Kept(Mutex<Vec<String>>);

impl UndoSink for Kept {
    fn before(&self, path: &str, was: Was<'_>, _will_be: &Is) -> Result<(), ToolError> {
        let was = match was {
            Was::Absent => "absent".to_owned(),
            Was::Directory | Was::Folder { .. } | Was::Link { .. } => "directory".to_owned(),
            Was::File { id, content, .. } => {
                let text = std::io::read_to_string(content).unwrap();
                assert_eq!(*id, commit::id_of(text.as_bytes()), "what is kept can be found by its hash");
                text
            }
        };
        self.0.lock().unwrap().push(format!("{path}: {was}"));
        Ok(())
    }

    fn ready(&self) -> Result<(), ToolError> {
        self.0.lock().unwrap().push("ready".into());
        Ok(())
    }

    fn done(&self, happened: bool) {
        self.0.lock().unwrap().push(format!("done {happened}"));
    }
}

struct Scene {
    folder: tempfile::TempDir,
    near: Arc<Near>,
    bridge: Arc<dyn FilesBridge>,
}

impl Scene {
    fn new(instead: Option<(Exit, &'static [u8])>) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/a.txt"), "one\ntwo\n").unwrap();
        fs::write(folder.path().join(".env"), "secret").unwrap();
        let near = Arc::new(Near {
            instead,
            killed_at: Mutex::default(),
            meanwhile: Mutex::default(),
            trips: Mutex::new(0),
        });
        let bridge = inside(Inside {
            backend: Arc::clone(&near) as Arc<dyn ShellBackend>,
            program: "/helper".into(),
            workspace: folder.path().canonicalize().unwrap(),
            rules: rules(),
            timeout: Duration::from_secs(5),
            fsync: false,
        });
        Scene { folder, near, bridge }
    }

    fn files(&self) -> Arc<dyn Files> {
        self.bridge.scoped(FilesScope::default())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }
}

fn rules() -> PathRules {
    PathRules { deny_read: vec![".env".into()], ..PathRules::default() }
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn put(path: &str, text: &str, expect: Expect) -> Change {
    Change { path: path.into(), act: Act::Put(Arc::new(text.into())), expect }
}

/// Everything that can be asked, with both bridges, and their answers as text.
fn answers(files: &dyn Files, root: &Path) -> Vec<String> {
    let page = PageRequest {
        path: "src/a.txt".into(),
        start: PageStart::Line { line: 2, cursor: 0 },
        max_lines: 5,
        max_bytes: 100,
    };
    let absolute = root.join("src/a.txt").display().to_string();
    wait(async {
        vec![
            format!("{:?}", files.stat("src").await),
            format!("{:?}", files.stat("gone").await),
            format!("{:?}", files.read(&absolute, 100).await),
            format!("{:?}", files.read("src/a.txt", 3).await.map_err(|error| (error.kind, error.message))),
            format!("{:?}", files.read(".env", 100).await.map_err(|error| (error.kind, error.message))),
            format!("{:?}", files.read("../x", 100).await.map_err(|error| (error.kind, error.hint))),
            format!("{:?}", files.page(&page).await),
            format!("{:?}", files.list(&ListRequest::all(".", 10)).await),
            format!(
                "{:?}",
                files.list(&ListRequest { obey_ignore: true, ..ListRequest::all(".", 10) }).await
            ),
        ]
    })
}

#[test]
fn answers_are_those_of_the_host_in_one_trip_each() {
    let scene = Scene::new(None);
    fs::write(scene.path(".ignore"), "*.o\n.env\n").unwrap();
    fs::write(scene.path("a.o"), "").unwrap();
    let root = scene.folder.path().canonicalize().unwrap();
    let host = host::open(&root, rules()).unwrap();
    let inside = answers(&*scene.files(), &root);
    assert_eq!(inside, answers(&*host.scoped(FilesScope::default()), &root));
    let listed = inside.last().unwrap();
    assert!(listed.contains("src") && !listed.contains(".env"), "{listed}");
    assert!(listed.contains("ignored: 1") && !listed.contains("a.o"), "{listed}");
    assert_eq!(*scene.near.trips.lock().unwrap(), inside.len());
    assert_eq!(scene.files().place(), FilesPlace::Sandbox);
}

#[test]
fn a_change_is_made_inside_and_what_was_there_is_kept_outside() {
    let scene = Scene::new(None);
    let kept = Arc::new(Kept::default());
    let scope = FilesScope { undo: Some(Arc::clone(&kept) as Arc<dyn UndoSink>), ..FilesScope::default() };
    let files = scene.bridge.scoped(scope);
    let changes = vec![put("src/a.txt", "new", Expect::Any), put("b/c", "made", Expect::Absent)];
    wait(files.commit(changes, false)).unwrap();
    assert_eq!(fs::read_to_string(scene.path("src/a.txt")).unwrap(), "new");
    assert_eq!(fs::read_to_string(scene.path("b/c")).unwrap(), "made");
    let kept = kept.0.lock().unwrap().clone();
    assert!(kept.contains(&"src/a.txt: one\ntwo\n".to_owned()), "{kept:?}");
    assert!(kept.contains(&"b/c: absent".to_owned()), "{kept:?}");
    assert_eq!(&kept[kept.len() - 2..], ["ready", "done true"]);
    assert_eq!(*scene.near.trips.lock().unwrap(), 2);
    wait(files.commit(vec![put("src/a.txt", "other", Expect::Any)], true)).unwrap();
    assert_eq!(fs::read_to_string(scene.path("src/a.txt")).unwrap(), "new");
}

#[test]
fn what_the_session_saw_counts_inside() {
    let scene = Scene::new(None);
    let seen = Arc::new(Memory::default());
    let scope = FilesScope { seen: Some(Arc::clone(&seen) as Arc<dyn SeenFiles>), ..FilesScope::default() };
    let files = scene.bridge.scoped(scope);
    wait(files.read("./src/../src/a.txt", 100)).unwrap();
    fs::write(scene.path("src/a.txt"), "somebody else's").unwrap();
    let error = wait(files.commit(vec![put("src/a.txt", "mine", Expect::AsSeen)], false)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(files.last_seen("src/a.txt").unwrap().content.unwrap(), b"one\ntwo\n");
    wait(files.read("src/a.txt", 100)).unwrap();
    wait(files.commit(vec![put("src/a.txt", "mine", Expect::AsSeen)], false)).unwrap();
    wait(files.commit(vec![put("src/a.txt", "again", Expect::AsSeen)], false)).unwrap();
    assert_eq!(fs::read_to_string(scene.path("src/a.txt")).unwrap(), "again");
    // What was read and not shown counts as not seen.
    let shown = files.last_seen("src/a.txt").unwrap();
    fs::write(scene.path("src/a.txt"), "somebody else's").unwrap();
    wait(files.read("src/a.txt", 100)).unwrap();
    files.saw_last("./src/a.txt", &shown);
    assert_eq!(files.last_seen("src/a.txt"), Some(shown));
    let error = wait(files.commit(vec![put("src/a.txt", "mine", Expect::AsSeen)], false)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
}

#[test]
fn a_helper_that_does_not_answer_is_an_error_that_says_so() {
    let cases: [(Exit, &[u8], ErrorKind, &str); 5] = [
        (Exit::Code(127), b"", ErrorKind::Internal, "no such"),
        (Exit::Signal(9), b"", ErrorKind::Internal, "no answer"),
        (Exit::Code(0), b"hello", ErrorKind::Internal, "cut off"),
        (Exit::TimedOut, b"", ErrorKind::Timeout, "within 5 seconds"),
        (Exit::Cancelled, b"", ErrorKind::Cancelled, "taken back"),
    ];
    for (exit, bytes, kind, message) in cases {
        let error = wait(Scene::new(Some((exit, bytes))).files().stat("x")).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.message.contains(message) && !error.message.contains('\x1b'), "{error}");
    }
}

/// Whether anything changed is not known then, so what was there must stay kept.
#[test]
fn what_was_there_stays_kept_where_the_helper_dies_while_it_changes_files() {
    let scene = Scene::new(None);
    let kept = Arc::new(Kept::default());
    let scope = FilesScope { undo: Some(Arc::clone(&kept) as Arc<dyn UndoSink>), ..FilesScope::default() };
    let files = scene.bridge.scoped(scope);
    *scene.near.killed_at.lock().unwrap() = Some(2);
    let error = wait(files.commit(vec![put("src/a.txt", "new", Expect::Any)], false)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    assert_eq!(fs::read_to_string(scene.path("src/a.txt")).unwrap(), "new");
    assert_eq!(*kept.0.lock().unwrap(), ["src/a.txt: one\ntwo\n", "ready"]);
    // A helper that says that it changed nothing is believed.
    let conflict = put("src/a.txt", "newer", Expect::Absent);
    assert!(wait(files.commit(vec![conflict], false)).is_err());
    assert_eq!(kept.0.lock().unwrap()[2..], ["src/a.txt: absent", "ready", "done false"]);
}

/// A helper that somebody replaced cannot have anything kept, and later put back, at a path of its own choice.
#[test]
fn only_what_was_named_is_kept() {
    let is = Is::File { id: ContentId("b3:0".into()), mode: 0o644, attributes: Attributes::NONE };
    for (path, believed) in [("src/a.txt", true), ("src", false), (".git/hooks/x", false), ("src/a", false)] {
        let had =
            Had::File { id: ContentId("b3:0".into()), len: 4, mode: 0o755, attributes: Attributes::NONE };
        let told = Told::Collected(vec![(path.to_owned(), had, is.clone())]);
        let answer: &'static [u8] = encode(&told, b"evil").unwrap().leak();
        let scene = Scene::new(Some((Exit::Code(0), answer)));
        let kept = Arc::new(Kept::default());
        let undo = Some(Arc::clone(&kept) as Arc<dyn UndoSink>);
        let files = scene.bridge.scoped(FilesScope { undo, ..FilesScope::default() });
        // The same answer is none to the second request.
        let change = put("./src/../src/a.txt", "x", Expect::Any);
        assert!(wait(files.commit(vec![change], false)).is_err());
        assert_eq!(!kept.0.lock().unwrap().is_empty(), believed, "{path}");
    }
}

#[test]
fn what_changes_between_the_two_trips_of_a_commit_is_a_conflict() {
    let scene = Scene::new(None);
    let kept = Arc::new(Kept::default());
    let scope = FilesScope { undo: Some(Arc::clone(&kept) as Arc<dyn UndoSink>), ..FilesScope::default() };
    *scene.near.meanwhile.lock().unwrap() = Some((scene.path("src/a.txt"), "somebody else's"));
    let change = put("src/a.txt", "mine", Expect::Any);
    let error = wait(scene.bridge.scoped(scope).commit(vec![change], false)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(fs::read_to_string(scene.path("src/a.txt")).unwrap(), "somebody else's");
    assert_eq!(*kept.0.lock().unwrap(), ["src/a.txt: one\ntwo\n", "ready", "done false"]);
}

#[test]
fn what_a_call_leaves_out_is_left_out_inside_too() {
    let scene = Scene::new(None);
    let found = |left_out: &[&str]| -> Vec<String> {
        let left_out = left_out.iter().map(|one| (*one).to_owned()).collect();
        let files = scene.bridge.scoped(FilesScope { left_out, ..FilesScope::default() });
        let walk = WalkRequest { path: ".".to_owned(), ..crate::seek::tests::names() };
        wait(files.walk(&walk)).unwrap().entries.into_iter().map(|entry| entry.path).collect()
    };
    assert_eq!(found(&[]), ["src/a.txt"]);
    assert_eq!(found(&["/src/**"]), Vec::<String>::new());
}
