use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{EntryKind, FindingKind, Record, Tail, verify};

struct Place {
    _dir: tempfile::TempDir,
    home: Home,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        Place { _dir: dir, home }
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.home, "s", JournalOptions::default()).unwrap()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.home.path().join("sessions/s").join(file)
    }

    fn records(&self) -> Vec<Record> {
        let mut tail = Tail::open(&self.home, "s", 0).unwrap();
        std::iter::from_fn(|| tail.next_record().unwrap()).collect()
    }
}

fn note(number: u64) -> Entry {
    Entry { kind: EntryKind::Note, call: None, at_us: number, body: json!({"n": number, "text": "äöü"}) }
}

#[test]
fn entries_are_numbered_and_chained() {
    let place = Place::new();
    let journal = place.journal();
    let first = journal.append(&note(1)).unwrap();
    let rest = journal.append_all(&[note(2), note(3)]).unwrap();
    assert_eq!(journal.append_all::<serde_json::Value>(&[]).unwrap(), []);
    assert_eq!((first.seq, rest[0].seq, rest[1].seq), (1, 2, 3));
    let records = place.records();
    assert_eq!(records.len(), 3);
    assert_eq!(records[1].prev, first.hash);
    assert_eq!(records[2].prev, rest[0].hash);
    assert_eq!(records[2].body, note(3).body);
    let report = verify(&place.home, "s", Some(&rest[1].hash)).unwrap();
    assert_eq!((report.entries, report.head.as_str(), report.is_ok()), (3, rest[1].hash.as_str(), true));
}

#[test]
fn an_entry_that_is_refused_leaves_nothing_behind() {
    let place = Place::new();
    let journal = place.journal();
    let bad = Entry { call: Some("no spaces".to_owned()), ..note(2) };
    assert!(matches!(journal.append_all(&[note(1), bad]), Err(StoreError::BadCall(_))));
    assert_eq!(journal.append(&note(3)).unwrap().seq, 1);
}

#[test]
fn files_are_for_the_owner_alone_and_links_are_not_followed() {
    let place = Place::new();
    place.journal().append(&note(1)).unwrap();
    for (file, mode) in [("journal.jsonl", 0o600), ("head", 0o600), ("", 0o700)] {
        assert_eq!(fs::metadata(place.path(file)).unwrap().mode() & 0o777, mode, "{file}");
    }
    let elsewhere = place.home.path().join("elsewhere");
    for file in ["journal.jsonl", "head"] {
        let path = place.path(file);
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(Journal::open(&place.home, "s", JournalOptions::default()).is_err(), "{file}");
        fs::remove_file(&path).unwrap();
        fs::rename(&elsewhere, &path).unwrap();
    }
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, place.home.path().join("sessions/linked")).unwrap();
    assert!(Journal::open(&place.home, "linked", JournalOptions::default()).is_err());
}

#[test]
fn waiting_for_the_disk_gives_the_same_journal() {
    let place = Place::new();
    let journal = Journal::open(&place.home, "s", JournalOptions { fsync: true }).unwrap();
    journal.append(&note(1)).unwrap();
    journal.append(&note(2)).unwrap();
    assert!(verify(&place.home, "s", None).unwrap().is_ok());
}

#[test]
fn a_session_that_was_removed_is_not_begun_anew_unless_its_witness_is_removed_too() {
    let place = Place::new();
    let journal = place.journal();
    journal.append_all(&[note(1), note(2)]).unwrap();
    fs::remove_dir_all(place.path("")).unwrap();
    let witness = place.home.path().join("heads/s");
    let refused = |error: StoreError| {
        let text = error.to_string();
        assert!(matches!(error, StoreError::Gone { entries: 2, .. }), "{text}");
        assert!(text.contains("--session") && text.contains(witness.to_str().unwrap()), "{text}");
        assert!(!place.path("").exists());
    };
    refused(journal.append(&note(3)).unwrap_err());
    refused(Journal::open(&place.home, "s", JournalOptions::default()).unwrap_err());
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!(report.problems[0].kind, FindingKind::Removed);
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    assert!(report.notes[0].contains(witness.to_str().unwrap()), "{:?}", report.notes);

    fs::remove_file(&witness).unwrap();
    assert_eq!(journal.append(&note(3)).unwrap().seq, 1);
    assert_eq!(place.records()[0].body, note(3).body);
    // A handle of the removed session does not call it back to mind when it ends.
    let other = place.journal();
    fs::remove_dir_all(place.path("")).unwrap();
    fs::remove_file(&witness).unwrap();
    drop((journal, other));
    assert!(!witness.exists());
}

/// How far the witness has come.
fn witnessed(place: &Place) -> Option<u64> {
    read_witness(&place.home, "s").unwrap().map(|head| head.count)
}

#[test]
fn the_witness_moves_at_the_first_entry_now_and_then_and_at_the_end() {
    let place = Place::new();
    let journal = place.journal();
    assert_eq!(witnessed(&place), None);
    let mut seen = Vec::new();
    for number in 1..=2 * WITNESS_EVERY + 9 {
        journal.append(&note(number)).unwrap();
        let known = witnessed(&place).unwrap();
        assert!(number - known < WITNESS_EVERY, "{known} of {number}");
        seen.push(known);
    }
    seen.dedup();
    assert!(seen[0] == 1 && seen.len() < 100, "{seen:?}");
    // One that was killed now would have been seen as it is here, but for its last moment.
    std::thread::sleep(WITNESS_AFTER);
    journal.append(&note(0)).unwrap();
    assert_eq!(witnessed(&place), Some(2 * WITNESS_EVERY + 10));
    drop(journal);
    assert_eq!(witnessed(&place), Some(2 * WITNESS_EVERY + 10));
    // One that only looks moves nothing.
    drop(place.journal());
    assert_eq!(witnessed(&place), Some(2 * WITNESS_EVERY + 10));
}

/// A copy of the session, as a backup program makes it.
fn copy(place: &Place) -> [(PathBuf, Vec<u8>); 2] {
    [JOURNAL, HEAD].map(|file| (place.path(file), fs::read(place.path(file)).unwrap()))
}

#[test]
fn an_older_copy_is_seen_without_any_check_in_between_and_nothing_is_added_to_it() {
    for longer_than_before in [false, true] {
        let place = Place::new();
        place.journal().append_all(&[note(1), note(2)]).unwrap();
        let old = copy(&place);
        let longer = longer_than_before.then(|| {
            // The same beginning and another end, with a fitting head: what somebody who knows the format makes.
            let other = Place::new();
            other.journal().append_all(&[note(1), note(2)]).unwrap();
            other.journal().append_all(&[note(7), note(8), note(9)]).unwrap();
            copy(&other)
        });
        place.journal().append_all(&[note(3), note(4)]).unwrap();
        let put_back = longer.as_ref().unwrap_or(&old);
        for ((path, _), (_, bytes)) in old.iter().zip(put_back) {
            fs::write(path, bytes).unwrap();
        }

        let error = place.journal().append(&note(5)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("helve verify"), "{error}");
        for ((path, _), (_, bytes)) in old.iter().zip(put_back) {
            assert!(fs::read(path).unwrap() == *bytes, "{}", path.display());
        }
        let kinds: Vec<_> =
            verify(&place.home, "s", None).unwrap().problems.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, [FindingKind::OlderCopy], "longer: {longer_than_before}");
    }
}

#[test]
fn an_older_copy_is_seen_by_a_process_that_has_the_journal_open() {
    for replaced in [false, true] {
        let place = Place::new();
        let journal = place.journal();
        journal.append_all(&[note(1), note(2)]).unwrap();
        let old = copy(&place);
        journal.append_all(&[note(3), note(4)]).unwrap();
        if replaced {
            fs::remove_dir_all(place.path("")).unwrap();
            fs::create_dir(place.path("")).unwrap();
        }
        for (path, bytes) in &old {
            fs::write(path, bytes).unwrap();
        }
        let error = journal.append(&note(5)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "replaced: {replaced}: {error}");
        assert!(fs::read(place.path(JOURNAL)).unwrap() == old[0].1);
        drop(journal);
        assert_eq!(
            verify(&place.home, "s", None).unwrap().problems[0].kind,
            FindingKind::OlderCopy,
            "replaced: {replaced}"
        );
    }
}

#[test]
fn a_witness_that_cannot_be_written_does_not_stop_an_append() {
    let place = Place::new();
    let journal = place.journal();
    fs::create_dir_all(place.home.path().join("heads/s")).unwrap();
    // The witness is read at the first append: what is not a witness is not passed over.
    assert!(journal.append(&note(1)).is_err());
    fs::remove_dir(place.home.path().join("heads/s")).unwrap();
    journal.append(&note(1)).unwrap();
    fs::remove_dir_all(place.home.path().join("heads")).unwrap();
    fs::write(place.home.path().join("heads"), "").unwrap();
    for number in 2..=WITNESS_EVERY + 2 {
        journal.append(&note(number)).unwrap();
    }
}

/// A writer that dies between the line and the head leaves exactly this: a longer journal beside the old head.
#[test]
fn whole_lines_beyond_the_head_are_adopted() {
    let place = Place::new();
    let journal = place.journal();
    journal.append(&note(1)).unwrap();
    let old_head = fs::read(place.path("head")).unwrap();
    journal.append_all(&[note(2), note(3)]).unwrap();
    fs::write(place.path("head"), &old_head).unwrap();

    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!((report.problems, report.entries), (vec![], 3));
    assert!(report.notes[0].contains("lags by 2"), "{:?}", report.notes);

    assert_eq!(journal.append(&note(4)).unwrap().seq, 4);
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!((report.problems, report.notes, report.entries), (vec![], vec![], 4));
}

/// Appends and keeps the lock.
fn append_and_stay(journal: &Journal, number: u64) {
    journal.record_batch(&Batch::of(&note(number)).unwrap(), After::Stay).unwrap();
}

fn is_locked(place: &Place) -> bool {
    Lock::try_exclusive(&File::open(place.path(JOURNAL)).unwrap()).unwrap().is_none()
}

fn count_in_head(place: &Place) -> Option<u64> {
    Head::read(&File::open(place.path(HEAD)).unwrap()).unwrap().map(|head| head.count)
}

#[test]
fn who_stays_has_others_wait_until_it_rests() {
    let place = Place::new();
    let journal = place.journal();
    (1..=3).for_each(|number| append_and_stay(&journal, number));
    // With the first, the witness was moved.
    assert_eq!((is_locked(&place), count_in_head(&place), place.records().len()), (true, Some(1), 3));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| place.journal().append(&note(4)).unwrap().seq);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!other.is_finished(), "it waits");
        journal.rest().unwrap();
        assert_eq!(other.join().unwrap(), 4);
    });
    journal.rest().unwrap();
    append_and_stay(&journal, 5);
    assert_eq!(journal.append(&note(6)).unwrap().seq, 6);
    assert_eq!((is_locked(&place), count_in_head(&place)), (false, Some(6)));
    append_and_stay(&journal, 7);
    drop(journal);
    assert_eq!((is_locked(&place), count_in_head(&place), witnessed(&place)), (false, Some(7), Some(7)));
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!((report.entries, report.is_ok()), (7, true));
}

#[test]
fn what_one_wrote_who_stayed_and_was_killed_is_found() {
    let (place, after) = (Place::new(), Place::new());
    let journal = place.journal();
    (1..=3).for_each(|number| append_and_stay(&journal, number));
    // Killed, it leaves its files as they are now.
    fs::create_dir_all(after.path("")).unwrap();
    for file in [JOURNAL, HEAD] {
        fs::copy(place.path(file), after.path(file)).unwrap();
    }
    assert_eq!(after.journal().append(&note(4)).unwrap().seq, 4);
    assert_eq!(verify(&after.home, "s", None).unwrap().entries, 4);
}

#[test]
fn a_head_that_could_not_be_written_is_put_right() {
    let place = Place::new();
    let journal = place.journal();
    journal.append(&note(1)).unwrap();
    append_and_stay(&journal, 2);
    // No file that is open for reading alone can be written.
    let head = std::mem::replace(&mut journal.files().head, File::open(place.path(HEAD)).unwrap());
    assert!(journal.rest().is_err());
    assert_eq!((is_locked(&place), count_in_head(&place)), (false, Some(1)));
    assert!(journal.append(&note(3)).is_err(), "it cannot be put right yet");
    journal.files().head = head;
    assert_eq!(journal.append(&note(3)).unwrap().seq, 3);
    assert_eq!((count_in_head(&place), verify(&place.home, "s", None).unwrap().is_ok()), (Some(3), true));
}

#[test]
fn a_line_torn_at_any_byte_is_taken_out_and_remembered() {
    let place = Place::new();
    let journal = place.journal();
    journal.append(&note(1)).unwrap();
    let lagging = fs::read(place.path("head")).unwrap();
    journal.append(&note(2)).unwrap();
    let (whole, head) =
        (fs::read(place.path("journal.jsonl")).unwrap(), fs::read(place.path("head")).unwrap());
    journal.append(&note(3)).unwrap();
    let longer = fs::read(place.path("journal.jsonl")).unwrap();
    drop(journal);

    for cut in whole.len() + 1..longer.len() {
        let (head, notes) = if cut % 2 == 0 { (&head, 2) } else { (&lagging, 3) };
        fs::write(place.path("journal.jsonl"), &longer[..cut]).unwrap();
        fs::write(place.path("head"), head).unwrap();
        // The process died before it could bear witness.
        fs::remove_file(place.home.path().join("heads/s")).unwrap();
        let report = verify(&place.home, "s", None).unwrap();
        assert_eq!((report.problems, report.entries, report.notes.len()), (vec![], 2, notes), "cut at {cut}");

        assert_eq!(place.journal().append(&note(9)).unwrap().seq, 4, "cut at {cut}");
        let records = place.records();
        let torn = &longer[whole.len()..cut];
        let recovered = &records[2];
        assert_eq!(recovered.kind, EntryKind::Recovered);
        assert_eq!(recovered.body["bytes"], torn.len());
        assert_eq!(recovered.body["hash"], blake3::hash(torn).to_hex().as_str());
        let preview = recovered.body["preview"].as_str().unwrap();
        let expected: String = String::from_utf8_lossy(torn).chars().take(200).collect();
        assert_eq!(preview, expected);
        assert_eq!(records[3].body, note(9).body);
    }
}

#[test]
fn what_no_interruption_leaves_is_refused_and_not_touched() {
    let place = Place::new();
    let journal = place.journal();
    journal.append_all(&[note(1), note(2)]).unwrap();
    let good = fs::read(place.path("journal.jsonl")).unwrap();
    let head = fs::read(place.path("head")).unwrap();
    let first_line = good.iter().position(|&byte| byte == b'\n').unwrap() + 1;

    let shorter = good[..first_line].to_vec();
    let repeated = [&good[..], &good[first_line..]].concat();
    let garbage = [&good[..], b"hello\n"].concat();
    for (what, bytes) in [("shorter", shorter), ("repeated", repeated), ("garbage", garbage)] {
        fs::write(place.path("journal.jsonl"), &bytes).unwrap();
        let error = journal.append(&note(3)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{what}: {error}");
        assert!(error.to_string().contains("helve verify"), "{error}");
        assert_eq!(fs::read(place.path("journal.jsonl")).unwrap(), bytes, "{what}");
        assert_eq!(fs::read(place.path("head")).unwrap(), head, "{what}");
    }

    fs::write(place.path("journal.jsonl"), &good).unwrap();
    fs::write(place.path("head"), b"").unwrap();
    assert!(matches!(place.journal().append(&note(3)), Err(StoreError::Damaged { .. })));
    // The process that wrote the journal knows its head by heart.
    journal.append(&note(3)).unwrap();
    assert!(verify(&place.home, "s", None).unwrap().is_ok());
}

#[test]
fn a_session_is_in_use_while_its_journal_is_open() {
    let place = Place::new();
    assert!(!is_in_use(&place.home, "s").unwrap());
    let journal = place.journal();
    journal.append(&note(1)).unwrap();
    assert!(is_in_use(&place.home, "s").unwrap());
    drop(journal);
    assert!(!is_in_use(&place.home, "s").unwrap());
}

#[test]
fn threads_with_one_handle_and_with_two_make_one_chain() {
    let place = Place::new();
    let (one, two) = (place.journal(), place.journal());
    std::thread::scope(|scope| {
        for journal in [&one, &one, &two] {
            scope.spawn(move || {
                for number in 0..300 {
                    journal.append(&note(number)).unwrap();
                }
            });
        }
    });
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!((report.problems, report.entries), (vec![], 900));
}

#[test]
fn a_follower_sees_entries_as_they_come_and_only_whole_ones() {
    let place = Place::new();
    let journal = place.journal();
    journal.append(&note(1)).unwrap();
    let mut tail = Tail::open(&place.home, "s", 0).unwrap();
    assert_eq!(tail.next_record().unwrap().unwrap().seq, 1);
    assert_eq!(tail.next_record().unwrap(), None);

    journal.append(&note(2)).unwrap();
    let mut late = Tail::open_at_end(&place.home, "s").unwrap();
    let whole = fs::read(place.path("journal.jsonl")).unwrap();
    fs::write(place.path("journal.jsonl"), &whole[..whole.len() - 5]).unwrap();
    assert_eq!(tail.next_record().unwrap(), None);
    fs::write(place.path("journal.jsonl"), &whole).unwrap();
    assert_eq!(tail.next_record().unwrap().unwrap().seq, 2);
    assert_eq!(tail.offset(), whole.len() as u64);

    assert_eq!(late.next_record().unwrap(), None);
    journal.append(&note(3)).unwrap();
    assert_eq!(late.next_record().unwrap().unwrap().seq, 3);
    assert!(matches!(Tail::open(&place.home, "t", 0), Err(StoreError::NoSuchSession(_))));
}
