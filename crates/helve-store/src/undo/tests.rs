use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use pretty_assertions::assert_eq;

use super::*;

fn scene() -> (tempfile::TempDir, Undo) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    let undo = Undo::open(&home).unwrap();
    (dir, undo)
}

fn keep(undo: &Undo, bytes: &[u8]) -> FileState {
    let mut writer = undo.contents().writer();
    writer.write(bytes).unwrap();
    FileState::File {
        id: writer.finish().unwrap().id,
        mode: 0o644,
        dropped: false,
        attributes: Attributes::NONE,
    }
}

fn record(call: &str, was: FileState) -> UndoRecord {
    UndoRecord {
        call: call.to_owned(),
        tool: "write_file".to_owned(),
        session: "s".to_owned(),
        workspace: "/w".to_owned(),
        at_us: 1,
        undoes: None,
        changes: vec![UndoChange::new("a".to_owned(), was, FileState::Absent)],
        layered: false,
        commits: None,
    }
}

/// Makes every content an hour old.
fn age(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            age(&entry.path());
        } else {
            let file = File::options().write(true).open(entry.path()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(3000)).unwrap();
        }
    }
}

#[test]
fn a_record_is_there_before_and_after_and_gone_when_nothing_happened() {
    let (_dir, undo) = scene();
    let record = record("c_1", FileState::Absent);
    let begun = undo.begin(&record, true).unwrap();
    assert_eq!(undo.get("c_1").unwrap(), Some((record.clone(), UndoStage::Begun)));
    assert_eq!(undo.calls().unwrap(), Vec::<String>::new());
    begun.finish().unwrap();
    assert_eq!(undo.get("c_1").unwrap(), Some((record.clone(), UndoStage::Done)));
    let again = UndoRecord { at_us: 2, ..record.clone() };
    undo.begin(&again, false).unwrap().void().unwrap();
    assert_eq!(undo.get("c_1").unwrap(), Some((record.clone(), UndoStage::Done)));
    undo.begin(&again, false).unwrap().finish().unwrap();
    assert_eq!(undo.get("c_1").unwrap(), Some((again, UndoStage::Done)));
    undo.begin(&UndoRecord { call: "c_2".into(), ..record }, false).unwrap().finish().unwrap();
    assert_eq!(undo.calls().unwrap(), ["c_2", "c_1"]);
    assert_eq!(undo.get("c_3").unwrap(), None);
    assert!(undo.get("../c_1").is_err());
}

#[test]
fn what_a_dead_process_left_is_told_once_and_what_a_living_one_does_never() {
    let (_dir, undo) = scene();
    let (alive, dead) = (record("c_1", FileState::Absent), record("c_2", FileState::Absent));
    let begun = undo.begin(&alive, false).unwrap();
    undo.begin(&dead, false).unwrap().finish().unwrap();
    drop(undo.begin(&UndoRecord { at_us: 7, ..dead.clone() }, false).unwrap());
    assert_eq!(undo.take_cut("/elsewhere").unwrap(), Vec::<String>::new());
    assert_eq!(undo.take_cut(&dead.workspace).unwrap(), ["c_2"]);
    assert_eq!(undo.take_cut(&dead.workspace).unwrap(), Vec::<String>::new());
    assert_eq!(undo.get("c_2").unwrap(), Some((UndoRecord { at_us: 7, ..dead }, UndoStage::Cut)));
    assert_eq!(undo.calls().unwrap(), ["c_2"]);
    begun.finish().unwrap();
    assert_eq!(undo.calls().unwrap(), ["c_2", "c_1"]);
    undo.complete("c_2").unwrap();
    assert_eq!(undo.get("c_2").unwrap().map(|(_, stage)| stage), Some(UndoStage::Done));
    drop(undo.begin(&UndoRecord { call: "c_3".into(), ..alive }, false).unwrap());
    assert_eq!(undo.take_cut("/w").unwrap(), ["c_3"]);
    undo.forget("c_3").unwrap();
    assert_eq!(undo.get("c_3").unwrap(), None);
}

#[test]
fn what_was_taken_back_is_not_in_force_and_the_undo_of_an_undo_brings_it_back() {
    let (_dir, undo) = scene();
    let done = |call: &str, undoes: Option<&str>| {
        let undoes = undoes.map(str::to_owned);
        let record = UndoRecord { undoes, ..record(call, FileState::Absent) };
        undo.begin(&record, false).unwrap().finish().unwrap();
    };
    let calls = |first: &str| undo.in_force(first).unwrap().into_keys().collect::<Vec<_>>();
    done("c_1", None);
    done("c_2", None);
    assert_eq!(calls(""), ["c_1", "c_2"]);
    done("c_3", Some("c_1"));
    assert_eq!(calls(""), ["c_2", "c_3"]);
    assert_eq!(calls("c_3"), ["c_3"]);
    done("c_4", Some("c_3"));
    assert_eq!(calls(""), ["c_1", "c_2", "c_4"]);
    // What a clock that went back left: an undo that sorts before what it undoes, and one of that.
    done("c_0", Some("c_4"));
    assert_eq!(calls(""), ["c_0", "c_2", "c_3"]);
    done("c_00", Some("c_0"));
    done("c_5", Some("c_5"));
    assert_eq!(calls(""), ["c_00", "c_1", "c_2", "c_4", "c_5"]);
}

#[test]
fn the_newest_call_is_known_when_its_record_is_gone() {
    let (dir, undo) = scene();
    let newest = || newest_undo(&dir.path().join("home"));
    assert_eq!(newest(), None);
    for call in ["c_2", "c_1", "c_3"] {
        undo.begin(&record(call, FileState::Absent), false).unwrap().finish().unwrap();
    }
    undo.gc(0, false).unwrap();
    assert_eq!((undo.calls().unwrap(), newest()), (vec![], Some("c_3".to_owned())));
    undo.hold(&record("c_4", FileState::Absent), &SmallContents::new()).unwrap();
    assert_eq!(newest().as_deref(), Some("c_4"));
}

#[test]
fn the_oldest_calls_go_first_and_take_only_what_nobody_else_needs() {
    let (dir, undo) = scene();
    let shared = keep(&undo, &[1; 1000]);
    let own = keep(&undo, &[2; 1000]);
    keep(&undo, &[3; 1000]);
    for (call, was) in [("c_1", &own), ("c_2", &shared), ("c_3", &shared)] {
        undo.begin(&record(call, was.clone()), false).unwrap().finish().unwrap();
    }
    age(&dir.path().join("home/undo/blobs"));
    let whole = undo.gc(1 << 20, false).unwrap();
    assert_eq!((whole.calls.len(), whole.contents.len()), (0, 0));
    let dry = undo.gc(whole.bytes_left - 1, true).unwrap();
    assert_eq!((dry.calls.len(), dry.contents.len()), (0, 1), "what no record needs goes first");
    let report = undo.gc(whole.bytes_left - 1001, false).unwrap();
    assert_eq!((report.calls.len(), report.contents.len()), (1, 2));
    assert_eq!(undo.calls().unwrap(), ["c_3", "c_2"]);
    let FileState::File { id, .. } = &shared else { panic!() };
    assert_eq!(undo.contents().len(id).unwrap(), 1000);
    let report = undo.gc(0, false).unwrap();
    assert_eq!((report.calls.len(), report.contents.len(), report.bytes_left), (2, 1, 0));
    assert!(undo.contents().len(id).is_err());
}

#[test]
fn contents_of_the_last_minute_cost_only_the_oldest_calls_their_records() {
    let (dir, undo) = scene();
    for (call, byte) in [("c_1", 1), ("c_2", 2), ("c_3", 3)] {
        let was = keep(&undo, &[byte; 10_000]);
        undo.begin(&record(call, was), false).unwrap().finish().unwrap();
    }
    let whole = undo.gc(1 << 20, false).unwrap().bytes_left;
    for budget in [whole - 1, 25_000] {
        // What has to stay for now is not made up for again.
        let report = undo.gc(budget, false).unwrap();
        assert_eq!(report.contents, [], "too young");
        assert!(report.bytes_left > 30_000, "they are still there");
        assert_eq!(undo.calls().unwrap(), ["c_3", "c_2"], "{budget}");
    }
    undo.gc(1, false).unwrap();
    assert_eq!(undo.calls().unwrap(), ["c_3"], "the newest stays while its contents do");
    age(&dir.path().join("home/undo/blobs"));
    let report = undo.gc(15_000, false).unwrap();
    assert_eq!((report.calls.len(), report.contents.len()), (0, 2));
    assert!(undo.gc(0, true).unwrap().calls.len() == 1, "a budget of nothing leaves nothing");
}

#[test]
fn what_is_under_way_keeps_its_contents() {
    let (dir, undo) = scene();
    let was = keep(&undo, &[1; 1000]);
    let begun = undo.begin(&record("c_1", was), false).unwrap();
    age(&dir.path().join("home/undo/blobs"));
    assert_eq!(undo.gc(0, false).unwrap().contents, []);
    begun.finish().unwrap();
    assert_eq!(undo.gc(0, false).unwrap().contents.len(), 1);
}

#[test]
fn what_waits_keeps_its_new_contents_until_it_is_released() {
    let (dir, undo) = scene();
    let (was, is) = (keep(&undo, &[1; 1000]), keep(&undo, &[2; 1000]));
    let mut held = record("c_1", was.clone());
    held.changes = vec![UndoChange::new("a".to_owned(), was, is)];
    undo.hold(&held, &SmallContents::new()).unwrap();
    assert_eq!(undo.get("c_1").unwrap(), Some((held.clone(), UndoStage::Pending)));
    assert_eq!(undo.pending().unwrap(), [held]);
    assert_eq!(undo.calls().unwrap(), Vec::<String>::new(), "nothing has happened that could be undone");
    age(&dir.path().join("home/undo/blobs"));
    let whole = undo.gc(1 << 20, false).unwrap();
    let report = undo.gc(whole.bytes_left - 1, false).unwrap();
    assert_eq!((report.calls.len(), report.contents.len()), (0, 1), "what it replaces is in the workspace");
    assert!(undo.release("c_1").unwrap());
    assert!(!undo.release("c_1").unwrap());
    assert_eq!(undo.gc(0, false).unwrap().contents.len(), 1);
    // Unless it is kept to be compared.
    let was = keep(&undo, &[3; 1000]);
    let mut compared = record("c_1", was.clone());
    compared.changes = vec![UndoChange { was_kept: true, ..compared.changes.remove(0) }];
    undo.hold(&compared, &SmallContents::new()).unwrap();
    age(&dir.path().join("home/undo/blobs"));
    let whole = undo.gc(1 << 20, false).unwrap();
    let report = undo.gc(whole.bytes_left - 1, false).unwrap();
    assert_eq!((report.calls.len(), report.contents.len()), (1, 1), "both go together");
    undo.hold(&record("c_2", FileState::Absent), &SmallContents::new()).unwrap();
    assert_eq!(undo.gc(0, false).unwrap().calls.len(), 1, "the budget holds for what waits too");
    assert_eq!(undo.pending().unwrap(), []);
}

#[test]
fn a_record_that_cannot_be_read_is_an_error_and_goes_in_its_turn() {
    let (dir, undo) = scene();
    undo.begin(&record("c_1", FileState::Absent), false).unwrap().finish().unwrap();
    fs::write(dir.path().join("home/undo/done/c_1.json"), "{").unwrap();
    assert!(undo.get("c_1").unwrap_err().to_string().contains("c_1"));
    assert_eq!(undo.gc(0, false).unwrap().calls.len(), 1);
}

#[test]
fn a_state_is_read_as_it_was_written_before_there_were_attributes() {
    let old = r#"{"file":{"id":"b3:0","mode":420}}"#;
    let state =
        FileState::File { id: "b3:0".into(), mode: 0o644, dropped: false, attributes: Attributes::NONE };
    assert_eq!(serde_json::from_str::<FileState>(old).unwrap(), state);
    assert_eq!(serde_json::to_string(&state).unwrap(), old);
    let attributes: Attributes = [("user.a", &b"1"[..])].into_iter().collect();
    let text = r#"{"folder":{"mode":493,"attributes":{"user.a":"MQ=="}}}"#;
    let state = FileState::Folder { mode: 0o755, attributes };
    assert_eq!(serde_json::from_str::<FileState>(text).unwrap(), state);
    assert_eq!(serde_json::to_string(&state).unwrap(), text);
}
