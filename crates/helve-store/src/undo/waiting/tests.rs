use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use helve_core::files::Attributes;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::{Blobs, FileState, Home, Undo, UndoChange, UndoStage};

struct Scene {
    dir: tempfile::TempDir,
    undo: Undo,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        Scene { undo: Undo::open(&home).unwrap(), dir }
    }

    fn pending(&self) -> PathBuf {
        self.dir.path().join("home/undo/pending")
    }

    fn file(&self) -> PathBuf {
        self.pending().join(NAME)
    }

    fn len(&self) -> u64 {
        self.file().metadata().unwrap().len()
    }

    fn hold(&self, call: &str, content: &[u8]) -> UndoRecord {
        let record = record(call, content);
        self.undo.hold(&record, &SmallContents::from([(Blobs::id_of(content), content.to_vec())])).unwrap();
        record
    }

    fn calls(&self) -> Vec<String> {
        self.undo.pending().unwrap().into_iter().map(|record| record.call).collect()
    }

    /// The content of a call that waits, as a commit reads it.
    fn content(&self, call: &str) -> Vec<u8> {
        self.undo.unfold(call).unwrap();
        let (record, stage) = self.undo.get(call).unwrap().unwrap();
        assert_eq!(stage, UndoStage::Pending);
        let FileState::File { id, .. } = &record.changes[0].is else { panic!() };
        self.undo.contents().read_range(id, 0, 1 << 20).unwrap()
    }
}

fn record(call: &str, content: &[u8]) -> UndoRecord {
    let is = FileState::File {
        id: Blobs::id_of(content),
        mode: 0o644,
        dropped: false,
        attributes: Attributes::NONE,
    };
    UndoRecord {
        call: call.to_owned(),
        tool: "exec".to_owned(),
        session: "s".to_owned(),
        workspace: "/w".to_owned(),
        at_us: 1,
        undoes: None,
        changes: vec![UndoChange::new("a".to_owned(), FileState::Absent, is)],
        layered: true,
        commits: None,
    }
}

#[test]
fn small_changes_wait_without_a_file_of_their_own_and_bring_their_contents_along() {
    let scene = Scene::new();
    let first = scene.hold("c_1", b"one");
    scene.hold("c_2", &[0, 255, b'\n']);
    assert_eq!(fs::read_dir(scene.pending()).unwrap().count(), 1);
    assert_eq!(scene.calls(), ["c_2", "c_1"]);
    assert_eq!(scene.undo.get("c_1").unwrap(), Some((first, UndoStage::Pending)));
    assert_eq!(scene.undo.get("c_3").unwrap(), None);
    assert_eq!((scene.content("c_1"), scene.content("c_2")), (b"one".to_vec(), vec![0, 255, b'\n']));
    assert!(scene.undo.release("c_1").unwrap());
    assert!(!scene.undo.release("c_1").unwrap());
    assert_eq!(scene.calls(), ["c_2"]);
    assert!(scene.undo.release("c_2").unwrap());
    assert_eq!((scene.calls(), scene.len()), (Vec::<String>::new(), 0), "it is emptied");
}

#[test]
fn large_changes_have_a_file_of_their_own() {
    let scene = Scene::new();
    let large = vec![b'x'; LINE_BYTES];
    scene.hold("c_1", &large);
    assert!(scene.pending().join("c_1.json").is_file());
    assert_eq!(scene.content("c_1"), large);
    assert!(scene.undo.release("c_1").unwrap());
    assert_eq!(scene.calls(), Vec::<String>::new());
}

#[test]
fn the_file_is_bounded_and_written_anew_when_most_of_it_is_over() {
    let scene = Scene::new();
    let content = vec![b'x'; 30 << 10];
    let calls: Vec<String> = (0..60).map(|number| format!("c_{number:02}")).collect();
    for call in &calls {
        scene.hold(call, &content);
    }
    assert!(scene.len() <= MOST_BYTES);
    let own = fs::read_dir(scene.pending()).unwrap().count();
    assert!((2..60).contains(&own), "{own} files");
    assert_eq!(scene.calls().len(), 60);
    for call in calls.iter().take(59) {
        assert!(scene.undo.release(call).unwrap());
    }
    assert_eq!(scene.calls(), ["c_59"]);
    assert!(scene.len() < MOST_BYTES / 2 + (LINE_BYTES as u64), "{} bytes", scene.len());
    assert_eq!(scene.content("c_59"), content);
}

#[test]
fn what_a_killed_process_left_unfinished_spoils_nothing() {
    let scene = Scene::new();
    scene.hold("c_1", b"one");
    let whole = scene.len();
    scene.hold("c_2", b"two");
    let end = scene.len();
    for cut in whole..end {
        let text = fs::read(scene.file()).unwrap();
        fs::write(scene.file(), &text[..usize::try_from(cut).unwrap()]).unwrap();
        // Without its last line feed it is whole.
        let expected: &[&str] = if cut == end - 1 { &["c_2", "c_1"] } else { &["c_1"] };
        assert_eq!(scene.calls(), expected, "cut at {cut}");
        scene.hold("c_3", b"three");
        assert_eq!((scene.content("c_1"), scene.content("c_3")), (b"one".to_vec(), b"three".to_vec()));
        fs::write(scene.file(), &text).unwrap();
    }
}

#[test]
fn a_line_that_was_changed_gives_nobody_another_content() {
    let scene = Scene::new();
    scene.hold("c_1", b"one");
    let text = fs::read_to_string(scene.file()).unwrap();
    let other = text.replace(&BASE64_STANDARD_NO_PAD.encode(b"one"), &BASE64_STANDARD_NO_PAD.encode(b"two"));
    assert_ne!(text, other);
    fs::write(scene.file(), other).unwrap();
    scene.undo.unfold("c_1").unwrap();
    assert!(scene.undo.contents().len(&Blobs::id_of(b"one")).is_err());
}

#[test]
fn many_hold_and_release_at_the_same_time() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let undo = Undo::open(&Home::open(&scene.dir.path().join("home")).unwrap()).unwrap();
            scope.spawn(move || {
                for number in 0..60 {
                    let call = format!("c_{thread}_{number:02}");
                    let content = vec![b'x'; 20 << 10];
                    let small = SmallContents::from([(Blobs::id_of(&content), content.clone())]);
                    undo.hold(&record(&call, &content), &small).unwrap();
                    if number % 10 != 0 {
                        assert!(undo.release(&call).unwrap(), "{call}");
                    }
                }
            });
        }
    });
    assert_eq!(scene.calls().len(), 24);
}

#[test]
fn the_budget_holds_for_them_too() {
    let scene = Scene::new();
    scene.hold("c_1", b"one");
    scene.hold("c_2", b"two");
    let whole = scene.undo.gc(1 << 20, false).unwrap();
    assert_eq!((whole.calls.len(), whole.bytes_left), (0, scene.len()));
    let dry = scene.undo.gc(whole.bytes_left - 1, true).unwrap();
    assert_eq!((dry.calls[0].name.as_str(), scene.calls().len()), ("c_1", 2));
    scene.undo.gc(whole.bytes_left - 1, false).unwrap();
    assert_eq!(scene.calls(), ["c_2"]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_crash(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let scene = Scene::new();
        scene.hold("c_1", b"one");
        let mut file = File::options().append(true).open(scene.file()).unwrap();
        file.write_all(&text).unwrap();
        prop_assert!(scene.calls().contains(&"c_1".to_owned()));
        scene.hold("c_2", b"two");
        prop_assert!(scene.calls().contains(&"c_2".to_owned()));
    }
}
