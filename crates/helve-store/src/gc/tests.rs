use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{
    ApprovalScope, Approvals, Blobs, Entry, EntryKind, Journal, JournalOptions, NewApproval, Within, verify,
};

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    (dir, home)
}

fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

fn blob_path(home: &Home, id: &str) -> PathBuf {
    home.path().join("blobs").join(&id[3..5]).join(&id[5..])
}

/// Keeps a blob of 100 bytes and makes it look older.
fn keep(home: &Home, byte: u8, seconds: u64) -> String {
    let mut writer = Blobs::open(home, 1000).unwrap().writer();
    writer.write(&[byte; 100]).unwrap();
    let id = writer.finish().unwrap().id;
    age(&blob_path(home, &id), seconds);
    id
}

fn options(blob_budget_bytes: u64) -> GcOptions {
    GcOptions { blob_budget_bytes, undo_budget_bytes: 0, dry_run: false, sessions_older_than: None }
}

fn names(removed: &[Removed]) -> Vec<&str> {
    removed.iter().map(|removed| removed.name.as_str()).collect()
}

#[test]
fn an_empty_home_has_nothing_to_remove() {
    let (_dir, home) = home();
    assert_eq!(gc(&home, &options(0)).unwrap(), GcReport::default());
}

#[test]
fn the_oldest_blobs_go_until_the_rest_fits() {
    let (_dir, home) = home();
    let middle = keep(&home, 1, 5000);
    let young = keep(&home, 2, 10);
    let oldest = keep(&home, 3, 9000);
    let newer = keep(&home, 4, 100);

    let dry = gc(&home, &GcOptions { dry_run: true, ..options(250) }).unwrap();
    assert!(blob_path(&home, &oldest).exists());
    let report = gc(&home, &options(250)).unwrap();
    assert_eq!(dry, report);
    assert_eq!(names(&report.blobs), [oldest.as_str(), middle.as_str()]);
    assert_eq!((report.freed_bytes, report.blob_bytes_left), (200, 200));

    // The last minute is safe even when the budget is nothing.
    let report = gc(&home, &options(0)).unwrap();
    assert_eq!(names(&report.blobs), [newer.as_str()]);
    assert_eq!(report.blob_bytes_left, 100);
    assert!(blob_path(&home, &young).exists());
}

#[test]
fn bytes_that_are_kept_again_count_as_new() {
    let (_dir, home) = home();
    let id = keep(&home, 1, 9000);
    let mut writer = Blobs::open(&home, 1000).unwrap().writer();
    writer.write(&[1; 100]).unwrap();
    writer.finish().unwrap();
    assert_eq!(gc(&home, &options(0)).unwrap().blobs, []);
    assert!(blob_path(&home, &id).exists());
}

#[test]
fn temporaries_of_dead_writers_go_after_an_hour() {
    let (_dir, home) = home();
    keep(&home, 1, 0);
    let tmp = home.path().join("blobs/tmp");
    for (name, seconds) in [("stale", 3700), ("fresh", 3500)] {
        fs::write(tmp.join(name), "abc").unwrap();
        age(&tmp.join(name), seconds);
    }
    let report = gc(&home, &options(1000)).unwrap();
    assert_eq!(report.temporaries, [Removed { name: "stale".to_owned(), bytes: 3 }]);
    assert!(tmp.join("fresh").exists() && !tmp.join("stale").exists());
}

#[test]
fn old_sessions_go_only_when_asked_and_never_while_open() {
    let (_dir, home) = home();
    let hour = Duration::from_secs(3600);
    let write = |session: &str, at: Duration| {
        let journal = Journal::open(&home, session, JournalOptions::default()).unwrap();
        for at in [Duration::ZERO, at] {
            let entry =
                Entry { kind: EntryKind::Note, call: None, at_us: microseconds(at), body: json!("x") };
            journal.append(&entry).unwrap();
        }
        journal
    };
    write("old", now() - 2 * hour);
    write("recent", now() - hour / 2);
    let open = write("open", now() - 2 * hour);
    write("damaged", now() - 2 * hour);
    fs::write(home.path().join("sessions/damaged/journal.jsonl"), "?\n").unwrap();
    verify(&home, "old", None).unwrap();

    assert_eq!(gc(&home, &options(0)).unwrap().sessions, []);
    let asked = GcOptions { sessions_older_than: Some(hour), ..options(0) };
    let dry = gc(&home, &GcOptions { dry_run: true, ..asked }).unwrap();
    assert_eq!(home.sessions().unwrap().len(), 4);
    let report = gc(&home, &asked).unwrap();
    assert_eq!(dry, report);
    assert_eq!(names(&report.sessions), ["old"]);
    assert!(report.freed_bytes > 400);
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    assert_eq!(home.sessions().unwrap(), ["damaged", "open", "recent"]);
    // The name is free again: nothing complains about the session that was removed on purpose.
    write("old", now());
    assert!(verify(&home, "old", None).unwrap().is_ok());

    drop(open);
    assert_eq!(names(&gc(&home, &asked).unwrap().sessions), ["open"]);
}

#[test]
fn what_a_removal_that_was_killed_leaves_can_be_used_and_removed() {
    let (_dir, home) = home();
    let asked = GcOptions { sessions_older_than: Some(Duration::ZERO), ..options(0) };
    let dir = home.path().join("sessions/s");
    let entry = Entry { kind: EntryKind::Note, call: None, at_us: 1, body: json!("x") };
    let append = || Journal::open(&home, "s", JournalOptions::default()).unwrap().append(&entry).unwrap().seq;
    assert_eq!(append(), 1);
    // The steps of a removal, each of them the last one.
    remove_witness(&home, "s").unwrap();
    assert_eq!(append(), 2);
    remove_witness(&home, "s").unwrap();
    let forget =
        || Head::empty("s").write(&File::options().write(true).open(dir.join(HEAD)).unwrap()).unwrap();
    forget();
    assert!(verify(&home, "s", None).unwrap().is_ok());
    assert_eq!(append(), 3);
    let left = |head: bool| {
        remove_witness(&home, "s").unwrap();
        forget();
        fs::remove_file(dir.join(JOURNAL)).unwrap();
        if !head {
            fs::remove_file(dir.join(HEAD)).unwrap();
        }
    };
    for head in [true, false] {
        left(head);
        assert_eq!(append(), 1, "the name is free again");
        left(head);
        assert_eq!(names(&gc(&home, &asked).unwrap().sessions), ["s"]);
        assert!(!dir.exists());
        append();
    }
    // What was seen, or holds anything else, is not what a removal leaves.
    fs::remove_file(dir.join(JOURNAL)).unwrap();
    assert_eq!(gc(&home, &asked).unwrap().notes.len(), 1);
    remove_witness(&home, "s").unwrap();
    assert_eq!(gc(&home, &asked).unwrap().notes.len(), 1, "the head counts an entry");
    forget();
    fs::write(dir.join("letter"), "x").unwrap();
    assert_eq!(gc(&home, &asked).unwrap().notes.len(), 1);
    fs::create_dir(dir.join(JOURNAL)).unwrap();
    assert_eq!(gc(&home, &asked).unwrap().notes.len(), 1, "and no reason to stop");
}

#[test]
fn approvals_that_ended_long_ago_are_forgotten() {
    let (_dir, home) = home();
    assert_eq!(gc(&home, &options(0)).unwrap().approvals, 0);
    assert!(Approvals::open_existing(&home).unwrap().is_none(), "cleaning makes no file");
    let mut approvals = Approvals::open(&home).unwrap();
    for days in [1, 31] {
        let ended = now().saturating_sub(Duration::from_secs(days * 24 * 3600));
        let approval = NewApproval {
            pattern: format!("ended {days} days ago"),
            tool: "exec".to_owned(),
            caller: "owner".to_owned(),
            rule: "guard.bare".to_owned(),
            reason: String::new(),
            within: Within::Nothing,
            scope: ApprovalScope::User,
            cwd: ".".to_owned(),
            scripts: Vec::new(),
            expires_at_us: Some(microseconds(ended)),
            created_by: "test".to_owned(),
            call: "c_1".to_owned(),
            shown: String::new(),
        };
        approvals.add(&approval).unwrap();
    }
    let dry = GcOptions { dry_run: true, ..options(0) };
    assert_eq!(gc(&home, &dry).unwrap().approvals, 1);
    assert_eq!(gc(&home, &options(0)).unwrap().approvals, 1);
    let left = approvals.list(true).unwrap();
    assert_eq!(left.iter().map(|row| row.granted.pattern.as_str()).collect::<Vec<_>>(), ["ended 1 days ago"]);
}
