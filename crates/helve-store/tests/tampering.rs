//! Each case in `cases/tampering.jsonl` does something to a journal of ten entries and says what a check must find:
//! the kind, the line and the number, and with `calls` also which call each message names. With `witness` it can only be seen by comparing with the witness; everything else
//! is found with and without one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use helve_store::{
    Blobs, Entry, EntryKind, FindingKind, HeadCheck, Home, Journal, JournalOptions, StoreError,
    canonical_json, verify,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

struct Place {
    _dir: tempfile::TempDir,
    home: Home,
    /// Journal and head after each entry.
    history: Vec<[Vec<u8>; 2]>,
}

const FILES: [&str; 2] = ["journal.jsonl", "head"];

fn entry(number: u64) -> Entry {
    let kind = if number % 2 == 1 { EntryKind::Planned } else { EntryKind::Outcome };
    let call = format!("c_{}", number.div_ceil(2));
    Entry { kind, call: Some(call), at_us: number, body: json!({"n": number, "text": "something"}) }
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let mut place = Place { _dir: dir, home, history: Vec::new() };
        let journal = place.journal("s");
        place.history.push([Vec::new(), Vec::new()]);
        for number in 1..=10 {
            journal.append(&entry(number)).unwrap();
            place.history.push(FILES.map(|file| fs::read(place.path(file)).unwrap()));
        }
        place
    }

    fn journal(&self, session: &str) -> Journal {
        Journal::open(&self.home, session, JournalOptions::default()).unwrap()
    }

    fn path(&self, file: &str) -> PathBuf {
        self.home.path().join("sessions/s").join(file)
    }

    fn edit_lines(&self, edit: impl FnOnce(&mut Vec<String>)) {
        let text = fs::read_to_string(self.path("journal.jsonl")).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        edit(&mut lines);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path("journal.jsonl"), text).unwrap();
    }

    fn restore(&self, count: usize, file: &str) {
        let index = FILES.iter().position(|known| *known == file).unwrap();
        fs::write(self.path(file), &self.history[count][index]).unwrap();
    }

    fn apply(&self, name: &str, what: &Value) {
        let number = |key: &str| what[key].as_u64().unwrap() as usize;
        let text = |key: &str| what[key].as_str().unwrap();
        match name {
            "replace" => self.edit_lines(|lines| {
                let line = &mut lines[number("line") - 1];
                assert!(line.contains(text("from")), "{line}");
                *line = line.replacen(text("from"), text("to"), 1);
            }),
            "rehash" => self.edit_lines(|lines| {
                let line = &mut lines[number("line") - 1];
                assert!(line.contains(text("from")), "{line}");
                *line = with_fitting_hash(&line.replacen(text("from"), text("to"), 1));
            }),
            "garble" => self.edit_lines(|lines| lines[number("line") - 1] = "\u{fffd}\u{0}{".to_owned()),
            "blank" => self.edit_lines(|lines| lines[number("line") - 1].clear()),
            "capital_hash" => self.edit_lines(|lines| {
                let line = &mut lines[number("line") - 1];
                let value: Value = serde_json::from_str(line).unwrap();
                let hash = value["hash"].as_str().unwrap();
                *line = line.replace(hash, &hash.to_uppercase());
            }),
            "remove" => self.edit_lines(|lines| drop(lines.remove(number("line") - 1))),
            "swap" => self.edit_lines(|lines| lines.swap(number("line") - 1, number("with") - 1)),
            "copy" => self.edit_lines(|lines| {
                let line = lines[number("line") - 1].clone();
                lines.insert(number("before") - 1, line);
            }),
            "insert" => self.edit_lines(|lines| lines.insert(number("before") - 1, text("text").to_owned())),
            "forge" => self.edit_lines(|lines| {
                let at = number("before") - 1;
                let forged = lines[at].replacen("something", "something else", 1);
                lines.insert(at, with_fitting_hash(&forged));
            }),
            "keep_lines" => self.edit_lines(|lines| lines.truncate(number("count"))),
            "cut_bytes" => {
                let mut bytes = fs::read(self.path("journal.jsonl")).unwrap();
                bytes.truncate(bytes.len() - number("count"));
                fs::write(self.path("journal.jsonl"), bytes).unwrap();
            }
            "restore" => {
                for file in what["files"].as_array().unwrap() {
                    self.restore(number("count"), file.as_str().unwrap());
                }
            }
            "append" => {
                // Helve does not go on with an older copy; somebody who knows how can do without the witness.
                let (heads, hidden) = (self.home.path().join("heads"), self.home.path().join("hidden"));
                fs::rename(&heads, &hidden).unwrap();
                let journal = self.journal("s");
                for more in 0..number("count") {
                    journal.append(&entry(100 + more as u64)).unwrap();
                }
                drop(journal);
                fs::remove_dir_all(&heads).unwrap();
                fs::rename(&hidden, &heads).unwrap();
            }
            "delete" if text("file").is_empty() => fs::remove_dir_all(self.path("")).unwrap(),
            "delete" => fs::remove_file(self.path(text("file"))).unwrap(),
            "write_head" => fs::write(self.path("head"), text("text")).unwrap(),
            "shift_head" => shift_end(&self.path("head"), number("to")),
            "shift_witness" => shift_end(&self.home.path().join("heads/s"), number("to")),
            "other_session" => {
                let journal = self.journal("other");
                for number in 1..=10 {
                    journal.append(&entry(number)).unwrap();
                }
                for file in FILES {
                    fs::copy(self.home.path().join("sessions/other").join(file), self.path(file)).unwrap();
                }
            }
            other => panic!("no such edit: {other}"),
        }
    }
}

/// Makes a head say that its entry ends at another byte.
fn shift_end(path: &Path, to: usize) {
    let mut text = fs::read_to_string(path).unwrap();
    text.replace_range(34..54, &format!("{to:020}"));
    fs::write(path, text).unwrap();
}

/// Gives a changed line the hash that its content asks for, as somebody who knows the format would.
fn with_fitting_hash(line: &str) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    value.as_object_mut().unwrap().remove("hash");
    let hash = blake3::hash(&canonical_json(&value).unwrap()).to_hex().to_string();
    value["hash"] = json!(hash);
    String::from_utf8(canonical_json(&value).unwrap()).unwrap()
}

#[test]
fn every_kind_of_tampering_is_found_and_named() {
    for line in include_str!("cases/tampering.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        check_case(&case, true);
        if case["witness"] != true {
            check_case(&case, false);
        }
    }
}

fn check_case(case: &Value, with_witness: bool) {
    let place = Place::new();
    if !with_witness {
        fs::remove_dir_all(place.home.path().join("heads")).unwrap();
    }
    for edit in case["edits"].as_array().unwrap() {
        let (name, what) = edit.as_object().unwrap().iter().next().unwrap();
        place.apply(name, what);
    }
    let report = verify(&place.home, "s", None).unwrap();
    let found: Vec<Value> =
        report.problems.iter().map(|finding| json!([finding.kind, finding.line, finding.seq])).collect();
    assert_eq!(
        Value::from(found),
        case["expect"],
        "{} (witness: {with_witness}): {:#?}",
        case["name"],
        report.problems
    );
    for (finding, call) in report.problems.iter().zip(case["calls"].as_array().into_iter().flatten()) {
        let named = finding.message.rsplit_once("; it is of call ").map(|(_, call)| call);
        assert_eq!(named, call.as_str(), "{}: {}", case["name"], finding.message);
    }
}

#[test]
fn a_check_with_problems_does_not_move_the_witness() {
    let place = Place::new();
    assert!(verify(&place.home, "s", None).unwrap().is_ok());
    for file in FILES {
        place.restore(6, file);
    }
    for _ in 0..2 {
        let report = verify(&place.home, "s", None).unwrap();
        assert_eq!(report.problems[0].kind, FindingKind::OlderCopy);
    }
}

#[test]
fn a_witness_that_is_not_there_is_a_note_and_one_that_is_no_witness_a_problem() {
    let place = Place::new();
    let witness = place.home.path().join("heads/s");
    for missing in [true, false] {
        match missing {
            true => fs::remove_file(&witness).unwrap(),
            false => fs::write(&witness, "").unwrap(),
        }
        let report = verify(&place.home, "s", None).unwrap();
        assert!(report.is_ok() && report.notes.len() == 1, "{report:?}");
        assert!(report.notes[0].contains("heads/s, so it cannot be seen"), "{:?}", report.notes);
        assert_eq!(verify(&place.home, "s", None).unwrap().notes, Vec::<String>::new(), "there is one now");
    }
    fs::write(&witness, "helve-head 1\n").unwrap();
    for _ in 0..2 {
        let report = verify(&place.home, "s", None).unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(report.problems[0].kind, FindingKind::HeadDamaged);
    }
    place.journal("s").append(&entry(11)).unwrap();
    assert!(verify(&place.home, "s", None).unwrap().is_ok(), "who appends writes it anew");
    fs::create_dir_all(place.home.path().join("sessions/unused")).unwrap();
    fs::write(place.home.path().join("sessions/unused/journal.jsonl"), "").unwrap();
    assert_eq!(verify(&place.home, "unused", None).unwrap().notes, Vec::<String>::new());
}

#[test]
fn a_journal_that_is_gone_is_missed_by_its_head_as_well() {
    let place = Place::new();
    fs::remove_file(place.path("journal.jsonl")).unwrap();
    fs::remove_file(place.home.path().join("heads/s")).unwrap();
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!(report.problems[0].kind, FindingKind::Removed);
    assert!(report.problems[0].message.contains("10 entries"), "{report:?}");
    fs::remove_file(place.path("head")).unwrap();
    assert!(matches!(verify(&place.home, "s", None), Err(StoreError::NoSuchSession(_))));
}

#[test]
fn an_expected_head_is_the_newest_an_older_or_none() {
    let place = Place::new();
    let heads: Vec<String> = fs::read_to_string(place.path("journal.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["hash"].as_str().unwrap().to_owned())
        .collect();
    let check = |head: &str| verify(&place.home, "s", Some(head)).unwrap();
    assert_eq!(verify(&place.home, "s", None).unwrap().expected, HeadCheck::NotAsked);
    assert_eq!(check(&heads[9]).expected, HeadCheck::Equal);
    assert_eq!(check(&heads[3].to_uppercase()).expected, HeadCheck::GrownSince(4));
    let absent = check(&"0".repeat(64));
    assert_eq!((absent.expected, absent.problems[0].kind), (HeadCheck::Absent, FindingKind::HeadAbsent));
    assert!(matches!(verify(&place.home, "s", Some("abc")), Err(StoreError::BadHead(_))));

    // Journal, head and witness put back together are seen by whoever noted the head down.
    for file in FILES {
        place.restore(6, file);
    }
    let _ = fs::remove_dir_all(place.home.path().join("heads"));
    assert!(verify(&place.home, "s", None).unwrap().is_ok());
    assert_eq!(check(&heads[9]).expected, HeadCheck::Absent);
}

#[test]
fn calls_without_an_outcome_are_listed() {
    let place = Place::new();
    assert_eq!(verify(&place.home, "s", None).unwrap().cut_calls, Vec::<String>::new());
    let journal = place.journal("s");
    for number in [13, 11, 12] {
        journal.append(&entry(number)).unwrap();
    }
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!(report.cut_calls, ["c_7"]);
    assert_eq!(report.notes, ["call c_7 was planned and has no outcome: it was cut, or is still running"]);
}

#[test]
fn many_cut_calls_have_one_note_together() {
    let place = Place::new();
    let journal = place.journal("s");
    let mut number = 0;
    for (cut, notes) in [(4, 4), (5, 5), (6, 1), (7, 1)] {
        while verify(&place.home, "s", None).unwrap().cut_calls.len() < cut {
            number += 1;
            journal.append(&Entry { call: Some(format!("c_more_{number}")), ..entry(1) }).unwrap();
        }
        let report = verify(&place.home, "s", None).unwrap();
        assert_eq!((report.cut_calls.len(), report.notes.len()), (cut, notes), "{:?}", report.notes);
    }
    let report = verify(&place.home, "s", None).unwrap();
    assert!(report.notes[0].starts_with("7 calls were planned"), "{:?}", report.notes);
}

#[test]
fn a_session_that_never_was_is_an_error_and_an_unused_one_is_fine() {
    let place = Place::new();
    assert!(matches!(verify(&place.home, "t", None), Err(StoreError::NoSuchSession(_))));
    for bad in ["..", ".", "../s"] {
        assert!(matches!(verify(&place.home, bad, None), Err(StoreError::BadSession(_))), "{bad}");
    }
    let _unused = place.journal("t");
    let report = verify(&place.home, "t", None).unwrap();
    assert_eq!((report.entries, report.is_ok()), (0, true));
}

#[test]
fn a_file_of_garbage_gives_a_bounded_report() {
    let place = Place::new();
    fs::write(place.path("journal.jsonl"), "x\n".repeat(50_000)).unwrap();
    let report = verify(&place.home, "s", None).unwrap();
    assert!(!report.is_ok() && report.problems.len() <= 1100, "{}", report.problems.len());
    assert!(report.notes.iter().any(|note| note.contains("not listed")), "{:?}", report.notes);
}

#[test]
fn a_forged_line_with_the_last_number_there_is_does_no_harm() {
    let place = Place::new();
    place.edit_lines(|lines| {
        let forged = lines[9].replace("\"seq\":10", &format!("\"seq\":{}", u64::MAX));
        let forged = with_fitting_hash(&forged);
        lines.extend([forged.clone(), forged, "garbage".to_owned()]);
    });
    let kinds: Vec<_> =
        verify(&place.home, "s", None).unwrap().problems.iter().map(|found| found.kind).collect();
    assert!(kinds.contains(&FindingKind::Removed), "{kinds:?}");
    let journal = Journal::open(&place.home, "s", JournalOptions::default()).unwrap();
    assert!(matches!(journal.append(&entry(11)), Err(StoreError::Damaged { .. })));
}

#[test]
fn many_moved_entries_give_a_bounded_report() {
    let place = Place::new();
    let journal = place.journal("many");
    let entries: Vec<Entry> = (1..=20_000).map(entry).collect();
    journal.append_all(&entries).unwrap();
    let path = place.home.path().join("sessions/many/journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    // The last entry first, then every second one: each splits the one gap that is left.
    lines.rotate_right(1);
    let every_second = lines.iter().step_by(2).map(|line| format!("{line}\n")).collect::<String>();
    fs::write(&path, every_second).unwrap();
    let started = std::time::Instant::now();
    let report = verify(&place.home, "many", None).unwrap();
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    assert!(!report.is_ok() && report.problems.len() <= 2100, "{}", report.problems.len());
}

fn keep(home: &Home, bytes: &[u8]) -> String {
    let mut writer = Blobs::open(home, 1000).unwrap().writer();
    writer.write(bytes).unwrap();
    writer.finish().unwrap().id
}

fn outcome(number: u64, blob: &str) -> Entry {
    let body = json!({"ok": true, "truncated": {"bytes": 5, "blob": blob}, "deep": [[{"truncated": 1}]]});
    let call = Some(format!("c_{number}"));
    Entry { kind: EntryKind::Outcome, call, at_us: number, body }
}

#[test]
fn a_kept_output_that_was_changed_is_a_problem_and_one_that_is_gone_is_a_note() {
    let place = Place::new();
    let (sound, changed, gone) =
        (keep(&place.home, b"sound"), keep(&place.home, b"changed"), keep(&place.home, b"gone"));
    let path = |id: &str| place.home.path().join("blobs").join(&id[3..5]).join(&id[5..]);
    let journal = place.journal("s");
    for (number, blob) in [(11, &sound), (12, &changed), (13, &gone), (14, &changed)] {
        journal.append(&outcome(number, blob)).unwrap();
    }
    for odd in ["b3:xyz", "../../head", "", &"b3:".repeat(100)] {
        journal.append(&outcome(15, odd)).unwrap();
    }
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!((report.problems, report.notes), (vec![], vec![]));

    fs::write(path(&changed), b"CHANGED").unwrap();
    fs::remove_file(path(&gone)).unwrap();
    let report = verify(&place.home, "s", None).unwrap();
    let found: Vec<_> = report.problems.iter().map(|found| (found.kind, found.line, found.seq)).collect();
    assert_eq!(found, [(FindingKind::BlobChanged, Some(12), Some(12))]);
    assert!(report.problems[0].message.contains(&changed), "{:?}", report.problems);
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    assert!(report.notes[0].starts_with("1 kept outputs are not stored"), "{:?}", report.notes);

    fs::remove_dir_all(place.home.path().join("blobs")).unwrap();
    let report = verify(&place.home, "s", None).unwrap();
    assert!(report.is_ok() && report.notes[0].starts_with("3 kept outputs"), "{report:?}");
    assert!(!place.home.path().join("blobs").exists(), "a check makes nothing");
}
