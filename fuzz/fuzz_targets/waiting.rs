//! The file of small changes that wait, with any bytes in it: no panic, what is held is found whole, and what waited before
//! waits on.
#![no_main]

use std::sync::OnceLock;

use helve_core::files::Attributes;
use helve_store::{Blobs, FileState, Home, SmallContents, Undo, UndoChange, UndoRecord, UndoStage};
use libfuzzer_sys::fuzz_target;

const CALL: &str = "c_fuzz";

fn place() -> &'static (tempfile::TempDir, Undo) {
    static PLACE: OnceLock<(tempfile::TempDir, Undo)> = OnceLock::new();
    PLACE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let undo = Undo::open(&Home::open(&dir.path().join("state")).expect("a home")).expect("records");
        std::fs::create_dir(dir.path().join("state/undo/pending")).expect("a directory");
        (dir, undo)
    })
}

fn record(id: &str) -> UndoRecord {
    let is = FileState::File { id: id.to_owned(), mode: 0o644, dropped: false, attributes: Attributes::NONE };
    UndoRecord {
        call: CALL.to_owned(),
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

fuzz_target!(|input: (&[u8], &[u8])| {
    let (text, content) = input;
    let (dir, undo) = place();
    std::fs::write(dir.path().join("state/undo/pending/waiting"), text).expect("written");
    let others = || {
        let mut all = undo.pending().expect("read");
        all.retain(|record| record.call != CALL);
        all
    };
    let before = others();
    for record in &before {
        let _ = undo.unfold(&record.call);
    }
    let id = Blobs::id_of(content);
    let held = record(&id);
    undo.hold(&held, &SmallContents::from([(id.clone(), content.to_vec())])).expect("held");
    assert_eq!(undo.get(CALL).expect("read"), Some((held, UndoStage::Pending)));
    undo.unfold(CALL).expect("unfolded");
    assert_eq!(undo.contents().read_range(&id, 0, content.len()).expect("kept"), content);
    assert_eq!(others(), before);
    assert!(undo.release(CALL).expect("released"));
    assert_eq!(undo.get(CALL).expect("read"), None);
    assert_eq!(others(), before);
});
