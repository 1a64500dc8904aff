//! Tools in a container, with a real engine that the test starts itself; skipped where that is impossible.
//!
//! Each round trip to the helper inside is counted by a backend around the real one, each request to the engine by a proxy
//! before its socket. This program is the helper inside the container too: that is why it has a `main` of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

#[path = "../../helve-sandbox/tests/support/engine.rs"]
mod engine;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use helve::sandbox::{Ended, FilesHelper, ShellJob};
use helve::{
    BoxFuture, Call, CallResult, Caller, Cancel, ErrorKind, OutputSink, Policy, Runtime, SandboxReport,
    ShellBackend, Sources, ToolError,
};
use serde_json::{Value, json};

use engine::Engine;

fn main() -> ExitCode {
    if let Some(code) = helve::serve_files_if_asked() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    // As the usual harness: a word that is no option says what is asked for.
    if words
        .iter()
        .any(|word| word == "--list" || !word.starts_with("--") && !"container".contains(word.as_str()))
    {
        return ExitCode::SUCCESS;
    }
    let Some(mut engine) = Engine::start() else { return ExitCode::SUCCESS };
    for (name, test) in [
        ("twenty mixed calls take at most one round trip each", twenty_mixed_calls as fn(&mut Engine)),
        ("what was changed meanwhile is not lost", changed_meanwhile),
        ("an engine killed under a call to the files", killed_engine),
    ] {
        test(&mut engine);
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// A proxy before the engine that counts the requests: each has a connection of its own.
fn proxy(engine: &Path, at: &Path) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let (listener, counted, engine) =
        (UnixListener::bind(at).unwrap(), Arc::clone(&count), engine.to_owned());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let Ok(server) = UnixStream::connect(&engine) else { continue };
            for (mut from, mut to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server.try_clone().unwrap(), client.try_clone().unwrap()),
            ] {
                std::thread::spawn(move || {
                    let mut buffer = [0; 16 << 10];
                    while let Ok(count @ 1..) = from.read(&mut buffer) {
                        if to.write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    count
}

/// The real backend, with its round trips counted.
struct Counted {
    backend: Arc<dyn ShellBackend>,
    trips: AtomicUsize,
}

impl ShellBackend for Counted {
    fn report(&self) -> SandboxReport {
        self.backend.report()
    }

    fn contains(&self) -> bool {
        self.backend.contains()
    }

    fn run<'a>(
        &'a self,
        job: ShellJob,
        sink: Box<dyn OutputSink>,
        cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        self.trips.fetch_add(1, Ordering::SeqCst);
        self.backend.run(job, sink, cancel)
    }

    fn files_helper(&self) -> Option<&dyn FilesHelper> {
        self.backend.files_helper().map(|_| self as &dyn FilesHelper)
    }
}

impl FilesHelper for Counted {
    fn ask(
        &self,
        request: Vec<u8>,
        most: u64,
        timeout: Duration,
        cancel: Cancel,
    ) -> BoxFuture<'_, Result<Vec<u8>, ToolError>> {
        self.trips.fetch_add(1, Ordering::SeqCst);
        self.backend.files_helper().expect("a helper").ask(request, most, timeout, cancel)
    }
}

/// A workspace of an ordinary user's, and a runtime whose tools work in a container.
struct Scene {
    folder: tempfile::TempDir,
    counted: Arc<Counted>,
    requests: Arc<AtomicUsize>,
    runtime: Runtime,
    tokio: tokio::runtime::Runtime,
}

impl Scene {
    fn new(engine: &Engine) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let workspace = folder.path().join("ws");
        std::fs::create_dir(&workspace).unwrap();
        std::os::unix::fs::chown(&workspace, Some(4321), Some(4321)).unwrap();
        let socket = folder.path().join("proxy.sock");
        let requests = proxy(&engine.socket(), &socket);
        let set = [
            "sandbox=container".to_owned(),
            format!("container.image={}", engine::TOOLS),
            format!("container.socket={}", socket.display()),
            "files.bridge=sandbox".to_owned(),
        ];
        let sources =
            Sources { system: None, user: None, user_required: false, set: set.to_vec(), workspace: None };
        let policy = Policy::load(&sources).unwrap();
        let home = folder.path().join("home");
        let view = policy.view(&workspace, &home);
        let backend = helve::sandbox::backend(&policy.sandbox(), view, policy.process_limits()).unwrap();
        let counted = Arc::new(Counted { backend, trips: AtomicUsize::new(0) });
        let builder = Runtime::builder()
            .policy(policy)
            .workspace(&workspace)
            .home(home)
            .session("s")
            .caller(Caller::Named("test".to_owned()))
            .shell(Arc::clone(&counted) as Arc<dyn ShellBackend>);
        let builder = helve::register_file_tools(helve::register_builtin_tools(builder));
        let runtime = helve::register_container_tools(builder).build().unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Scene { folder, counted, requests, runtime, tokio }
    }

    /// The result of a call, how many round trips it took, and how many requests to the engine.
    fn call(&self, tool: &str, args: Value) -> (CallResult, usize, usize) {
        let before = (self.counted.trips.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst));
        let result = self.tokio.block_on(self.runtime.call(Call::new(tool, args)));
        let after = (self.counted.trips.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst));
        (result, after.0 - before.0, after.1 - before.1)
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("ws").join(name)).unwrap()
    }
}

fn text(result: &CallResult) -> String {
    serde_json::to_value(result).unwrap()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn twenty_mixed_calls(engine: &mut Engine) {
    let scene = Scene::new(engine);
    let edit = |old: &str, new: &str| json!({"path": "a.txt", "oldText": old, "newText": new});
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    let calls = [
        ("exec", json!({"command": "echo hello > made; echo '*.o' > .gitignore; touch a.o; id -u"})),
        ("write_file", write("a.txt", "one\ntwo\n")),
        ("read_file", json!({"path": "a.txt"})),
        ("edit_file", edit("two", "three")),
        ("edit_file", edit("one", "ONE")),
        ("read_file", json!({"path": "a.txt"})),
        ("list_dir", json!({"path": "."})),
        ("exec", json!({"command": "cat a.txt"})),
        ("grep", json!({"pattern": "three"})),
        ("glob", json!({"pattern": "*.txt"})),
        ("write_file", write("b.txt", "b\n")),
        ("read_file", json!({"path": "made"})),
        ("write_file", write("made", "replaced\n")),
        ("exec", json!({"command": "echo more >> b.txt; cat made"})),
        ("read_file", json!({"path": "b.txt"})),
        ("edit_file", json!({"path": "b.txt", "oldText": "more", "newText": "less"})),
        ("write_file", write("b.txt", "again\n")),
        ("list_dir", json!({"path": "."})),
        ("read_file", json!({"path": "b.txt"})),
        ("exec", json!({"command": "cat a.txt b.txt made"})),
    ];
    assert_eq!(calls.len(), 20);
    let mut last = None;
    for (number, (tool, args)) in calls.into_iter().enumerate() {
        let (result, trips, requests) = scene.call(tool, args.clone());
        assert!(result.ok, "{tool} {args}: {result:?}");
        assert_eq!(trips, 1, "{tool} {args}");
        if tool == "list_dir" {
            let note = "[1 entry that ignore files name is not shown; ignored=true shows it]";
            assert!(text(&result).ends_with(note), "{result:?}");
        }
        // Only the first call asks the engine for anything.
        assert_eq!(requests > 0, number == 0, "{tool} {args}: {requests} requests");
        last = Some(result);
    }
    assert!(text(&last.unwrap()).contains("ONE\nthree\nagain\nreplaced\n"));
    assert_eq!((scene.file("a.txt"), scene.file("b.txt")), ("ONE\nthree\n".to_owned(), "again\n".to_owned()));
    let stat = scene.folder.path().join("ws/a.txt").metadata().unwrap();
    assert_eq!((stat.uid(), stat.mode() & 0o777), (4321, 0o644));
    // What each call replaced can be had back, also where it was guessed.
    let made: Vec<String> =
        scene.runtime.file_calls().unwrap().into_iter().map(|entry| entry.record.call).collect();
    assert_eq!(made.len(), 7);
    for call in &made {
        let undone = scene.tokio.block_on(scene.runtime.undo(call, true)).unwrap();
        assert!(undone.ok, "{undone:?}");
    }
    assert_eq!(scene.file("made"), "hello\n");
    assert!(!scene.folder.path().join("ws/a.txt").exists());
    drop(scene);
    engine.is_empty_soon();
}

fn changed_meanwhile(engine: &mut Engine) {
    let scene = Scene::new(engine);
    let path = scene.folder.path().join("ws/a.txt");
    let write = |text: &str| {
        std::fs::write(&path, text).unwrap();
        std::os::unix::fs::chown(&path, Some(4321), Some(4321)).unwrap();
    };
    write("one\ntwo\n");
    assert!(scene.call("read_file", json!({"path": "a.txt"})).0.ok);
    // Somebody else's line stays, although the bridge remembers a file without it.
    write("zero\none\ntwo\n");
    let (result, trips, _) =
        scene.call("edit_file", json!({"path": "a.txt", "oldText": "two", "newText": "2"}));
    assert!(result.ok, "{result:?}");
    assert!(trips > 1);
    assert_eq!(scene.file("a.txt"), "zero\none\n2\n");
    // A text that is there only now is found, and one that is there no more is not replaced.
    write("new\n");
    let (result, ..) = scene.call("edit_file", json!({"path": "a.txt", "oldText": "one", "newText": "1"}));
    assert!(!result.ok);
    let (result, ..) =
        scene.call("edit_file", json!({"path": "a.txt", "oldText": "new", "newText": "newer"}));
    assert!(result.ok, "{result:?}");
    // A write over what the session has not seen as it is now is a conflict, and a new file is not taken for absent.
    write("other\n");
    let (result, ..) = scene.call("write_file", json!({"path": "a.txt", "content": "mine\n"}));
    assert_eq!(result.error.unwrap().kind, ErrorKind::Conflict);
    assert_eq!(scene.file("a.txt"), "other\n");
    std::fs::write(scene.folder.path().join("ws/there"), "kept\n").unwrap();
    std::os::unix::fs::chown(scene.folder.path().join("ws/there"), Some(4321), Some(4321)).unwrap();
    let (result, ..) = scene.call("write_file", json!({"path": "there", "content": "new\n"}));
    assert!(result.ok, "{result:?}");
    let undone = scene.tokio.block_on(scene.runtime.undo(&result.call.to_string(), false)).unwrap();
    assert!(undone.ok, "{undone:?}");
    assert_eq!(scene.file("there"), "kept\n");
    // What the policy denies is denied inside too.
    std::fs::write(scene.folder.path().join("ws/.env"), "TOKEN=1").unwrap();
    let (result, ..) = scene.call("read_file", json!({"path": ".env"}));
    assert!(!result.ok && !text(&result).contains("TOKEN"), "{result:?}");
    let (result, ..) = scene.call("read_file", json!({"path": "../home"}));
    assert!(!result.ok, "{result:?}");
}

fn killed_engine(engine: &mut Engine) {
    let scene = Scene::new(engine);
    assert!(scene.call("write_file", json!({"path": "a.txt", "content": "one\n"})).0.ok);
    engine.kill();
    let start = std::time::Instant::now();
    // The helper ends when Helve hears that the engine is gone: calls fail, or come before that, and never hang.
    loop {
        let (result, ..) = scene.call("read_file", json!({"path": "a.txt"}));
        assert!(start.elapsed() < Duration::from_secs(20));
        if let Some(error) = result.error {
            assert!(matches!(error.kind, ErrorKind::ToolFailed | ErrorKind::SandboxUnavailable), "{error:?}");
            break;
        }
    }
    engine.start_again();
    let (result, ..) = scene.call("read_file", json!({"path": "a.txt"}));
    assert!(result.ok, "{result:?}");
    drop(scene);
    engine.is_empty_soon();
}
