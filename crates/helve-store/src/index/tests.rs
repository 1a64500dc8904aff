use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::{Entry, EntryKind, Journal, JournalOptions, verify};

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

    fn journal(&self, session: &str) -> Journal {
        Journal::open(&self.home, session, JournalOptions::default()).unwrap()
    }

    fn all(&self, index: &mut Index) -> Vec<CallRow> {
        index.sync().unwrap();
        index.query(&Filter::default()).unwrap()
    }

    /// The rows of an index that has seen nothing yet.
    fn rebuilt(&self) -> Vec<CallRow> {
        let database = schema::open_temporary().unwrap();
        self.all(&mut Index { home: self.home.clone(), database })
    }
}

fn planned(call: &str, at_us: u64, tool: &str) -> Entry {
    let body = json!({
        "tool": tool, "args": {"command": "x".repeat(300)}, "caller": "cli",
        "decision": {"verdict": "allow"}, "lane": "host", "id": null,
    });
    Entry { kind: EntryKind::Planned, call: Some(call.to_owned()), at_us, body }
}

fn succeeded(call: &str, at_us: u64) -> Entry {
    let body =
        json!({"ok": true, "content": [], "duration_us": 5, "truncated": {"bytes": 99, "blob": "b3:aa"}});
    Entry { kind: EntryKind::Outcome, call: Some(call.to_owned()), at_us, body }
}

fn failed(call: &str, at_us: u64) -> Entry {
    let body =
        json!({"ok": false, "content": [], "error": {"kind": "timeout", "message": "m"}, "duration_us": 7});
    Entry { kind: EntryKind::Outcome, call: Some(call.to_owned()), at_us, body }
}

fn calls(rows: &[CallRow]) -> Vec<&str> {
    rows.iter().map(|row| row.call.as_str()).collect()
}

#[test]
fn a_row_tells_the_call_from_plan_to_outcome() {
    let place = Place::new();
    let journal = place.journal("s");
    journal.append_all(&[planned("c_1", 10, "exec"), succeeded("c_1", 20)]).unwrap();
    let mut index = Index::open(&place.home).unwrap();
    let rows = place.all(&mut index);
    let expected = CallRow {
        call: "c_1".to_owned(),
        session: "s".to_owned(),
        seq: 1,
        at_us: 10,
        tool: Some("exec".to_owned()),
        caller: Some("cli".to_owned()),
        ok: Some(true),
        error_kind: None,
        duration_us: Some(5),
        verdict: Some("allow".to_owned()),
        blob: Some("b3:aa".to_owned()),
        truncated_bytes: Some(99),
        args: Some(format!("{{\"command\":\"{}", "x".repeat(188))),
        state: CallState::Done,
    };
    assert_eq!(rows, [expected]);
}

#[test]
fn a_call_without_outcome_is_running_while_the_journal_is_open_and_cut_after() {
    let place = Place::new();
    let journal = place.journal("s");
    journal.append(&planned("c_1", 10, "exec")).unwrap();
    let mut index = Index::open(&place.home).unwrap();
    assert_eq!(place.all(&mut index)[0].state, CallState::Running);
    drop(journal);
    assert_eq!(place.all(&mut index)[0].state, CallState::Cut);
    place.journal("s").append(&failed("c_1", 30)).unwrap();
    let rows = place.all(&mut index);
    assert_eq!((rows[0].state, rows[0].ok), (CallState::Done, Some(false)));
    assert_eq!(rows[0].error_kind.as_deref(), Some("timeout"));
}

#[test]
fn filters_restrict_and_order() {
    let place = Place::new();
    let (one, two) = (place.journal("one"), place.journal("two"));
    one.append_all(&[planned("c_a1", 10, "exec"), succeeded("c_a1", 11)]).unwrap();
    two.append_all(&[planned("c_a2", 20, "echo"), failed("c_a2", 21)]).unwrap();
    one.append_all(&[planned("c_b3", 30, "exec"), planned("c_b4", 40, "echo")]).unwrap();
    let mut index = Index::open(&place.home).unwrap();
    index.sync().unwrap();
    let mut ask = |filter: Filter| calls(&index.query(&filter).unwrap()).join(" ");
    let any = Filter::default;
    assert_eq!(ask(any()), "c_a1 c_a2 c_b3 c_b4");
    assert_eq!(ask(Filter { newest_first: true, limit: Some(2), ..any() }), "c_b4 c_b3");
    assert_eq!(ask(Filter { session: Some("two".into()), ..any() }), "c_a2");
    assert_eq!(ask(Filter { tool: Some("exec".into()), ..any() }), "c_a1 c_b3");
    assert_eq!(ask(Filter { ok: Some(false), ..any() }), "c_a2");
    assert_eq!(ask(Filter { ok: Some(true), ..any() }), "c_a1");
    assert_eq!(ask(Filter { kind: Some("timeout".into()), ..any() }), "c_a2");
    assert_eq!(ask(Filter { call: Some("c_a".into()), ..any() }), "c_a1 c_a2");
    assert_eq!(ask(Filter { blob: Some("b3:aa".into()), ..any() }), "c_a1");
    assert_eq!(ask(Filter { blob: Some("b3:aa".into()), session: Some("two".into()), ..any() }), "");
    assert_eq!(ask(Filter { call: Some("%".into()), ..any() }), "");
    assert_eq!(ask(Filter { since_us: Some(20), until_us: Some(40), ..any() }), "c_a2 c_b3");
}

#[test]
fn reading_step_by_step_and_reading_anew_give_the_same_rows() {
    let place = Place::new();
    let mut index = Index::open(&place.home).unwrap();
    for number in 0_u64..60 {
        let call = format!("c_{}", number % 23);
        let entry = match number % 5 {
            0 | 1 => planned(&call, number, "exec"),
            2 => failed(&call, number),
            3 => succeeded(&call, number),
            _ => Entry { kind: EntryKind::Note, call: Some(call), at_us: number, body: json!(1) },
        };
        place.journal(["a", "b"][(number % 2) as usize]).append(&entry).unwrap();
        if number % 7 == 0 {
            index.sync().unwrap();
        }
    }
    let stepwise = place.all(&mut index);
    assert!(stepwise.len() > 20);
    assert_eq!(stepwise, place.rebuilt());
}

#[test]
fn a_replaced_or_removed_journal_is_read_anew() {
    let place = Place::new();
    let mut index = Index::open(&place.home).unwrap();
    place.journal("s").append_all(&[planned("c_1", 1, "exec"), planned("c_2", 2, "exec")]).unwrap();
    assert_eq!(calls(&place.all(&mut index)), ["c_1", "c_2"]);

    let other = Place::new();
    other.journal("s").append_all(&[planned("c_3", 3, "exec"), planned("c_4", 4, "exec")]).unwrap();
    for file in ["journal.jsonl", "head"] {
        let path = format!("sessions/s/{file}");
        fs::copy(other.home.path().join(&path), place.home.path().join(&path)).unwrap();
    }
    assert_eq!(calls(&place.all(&mut index)), ["c_3", "c_4"]);
    // The index follows what is there; the witness does not forget what was.
    assert!(!verify(&place.home, "s", None).unwrap().is_ok());

    fs::remove_dir_all(place.home.path().join("sessions/s")).unwrap();
    assert_eq!(place.all(&mut index), []);
}

#[test]
fn a_sync_bears_witness_against_older_copies() {
    let place = Place::new();
    let journal = place.journal("s");
    let paths = ["journal.jsonl", "head"].map(|file| place.home.path().join("sessions/s").join(file));
    journal.append(&planned("c_1", 1, "exec")).unwrap();
    let copies = paths.clone().map(|path| fs::read(path).unwrap());
    journal.append(&planned("c_2", 2, "exec")).unwrap();
    let mut index = Index::open(&place.home).unwrap();
    index.sync().unwrap();
    for (path, copy) in paths.iter().zip(&copies) {
        fs::write(path, copy).unwrap();
    }
    index.sync().unwrap();
    let report = verify(&place.home, "s", None).unwrap();
    assert_eq!(report.problems[0].kind, crate::FindingKind::OlderCopy);
}

#[test]
fn a_damaged_index_is_set_aside_and_made_again() {
    let place = Place::new();
    place.journal("s").append_all(&[planned("c_1", 1, "exec"), succeeded("c_1", 2)]).unwrap();
    let good = place.all(&mut Index::open(&place.home).unwrap());
    let path = place.home.path().join("index.sqlite");

    fs::write(&path, "this is no database, whatever its name says").unwrap();
    assert_eq!(place.all(&mut Index::open(&place.home).unwrap()), good);
    assert!(place.home.path().join("index.sqlite.damaged").exists());

    // Damage behind a good first page, seen only while working.
    let mut bytes = fs::read(&path).unwrap();
    let page = 4096.min(bytes.len());
    bytes[page..].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    assert_eq!(place.all(&mut Index::open(&place.home).unwrap()), good);

    // Written by a later version.
    Index::open(&place.home).unwrap().database.pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(place.all(&mut Index::open(&place.home).unwrap()), good);

    // Tables of something else.
    Index::open(&place.home).unwrap().database.execute_batch("DROP TABLE calls").unwrap();
    assert_eq!(place.all(&mut Index::open(&place.home).unwrap()), good);
}

#[test]
fn calls_are_listed_where_the_index_cannot_be_written() {
    let place = Place::new();
    place.journal("s").append_all(&[planned("c_1", 1, "exec"), succeeded("c_1", 2)]).unwrap();
    let good = place.all(&mut Index::open(&place.home).unwrap());
    let path = place.home.path().join("index.sqlite");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "").unwrap();

    let mut index = Index::open(&place.home).unwrap();
    assert_eq!(place.all(&mut index), good);
    place.journal("s").append(&planned("c_2", 3, "exec")).unwrap();
    assert_eq!(calls(&place.all(&mut index)), ["c_1", "c_2"]);
    assert_eq!(read_call(&place.home, "c_1").unwrap().unwrap().outcome, Some(succeeded("c_1", 2).body));

    // A file that stops being writable while it is in use.
    fs::remove_dir_all(&path).unwrap();
    let mut index = Index::open(&place.home).unwrap();
    index.database.pragma_update(None, "query_only", true).unwrap();
    assert_eq!(calls(&place.all(&mut index)), ["c_1", "c_2"]);
}

#[test]
fn the_index_file_is_for_the_owner_alone() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    let mut index = Index::open(&place.home).unwrap();
    index.sync().unwrap();
    for file in ["index.sqlite", "index.sqlite-wal"] {
        assert_eq!(fs::metadata(place.home.path().join(file)).unwrap().mode() & 0o077, 0, "{file}");
    }
}

#[test]
fn one_call_is_found_in_whatever_session_it_is() {
    let place = Place::new();
    place.journal("a").append_all(&[planned("c_1", 1, "exec"), succeeded("c_1", 2)]).unwrap();
    place.journal("b").append(&planned("c_2", 1, "echo")).unwrap();
    place.journal("b").append(&succeeded("c_3", 1)).unwrap();
    let story = read_call(&place.home, "c_1").unwrap().unwrap();
    assert_eq!(story.session, "a");
    assert_eq!(story.planned, planned("c_1", 1, "exec").body);
    assert_eq!(story.outcome, Some(succeeded("c_1", 2).body));
    assert_eq!(read_call(&place.home, "c_2").unwrap().unwrap().outcome, None);
    assert_eq!(read_call(&place.home, "c_3").unwrap().unwrap().planned, Value::Null);
    assert_eq!(read_call(&place.home, "c_").unwrap(), None);
}

#[test]
fn bodies_of_any_shape_make_a_row() {
    let place = Place::new();
    let journal = place.journal("s");
    let deep = (0..250).fold(json!(1), |inner, _| json!([inner]));
    let plans = [
        json!(["exec"]),
        json!("text"),
        json!({"tool": 5, "caller": {"agent": "a\n"}, "decision": "allow", "args": "a\"b"}),
        json!({"tool": "deep\n", "args": deep}),
    ];
    for (number, body) in plans.into_iter().enumerate() {
        let entry = Entry { body, ..planned(&format!("c_{number}"), number as u64, "x") };
        journal.append(&entry).unwrap();
    }
    let outcome = json!({"ok": "yes", "duration_us": -1, "error": null, "truncated": {"bytes": "many"}});
    journal.append(&Entry { body: outcome, ..succeeded("c_3", 9) }).unwrap();
    let rows = place.all(&mut Index::open(&place.home).unwrap());
    assert_eq!(calls(&rows), ["c_0", "c_1", "c_2", "c_3"]);
    assert_eq!((&rows[0].tool, &rows[1].tool, &rows[2].tool), (&None, &None, &None));
    assert_eq!(rows[2].caller.as_deref(), Some("{\"agent\":\"a\\n\"}"));
    assert_eq!((rows[2].args.as_deref(), &rows[2].verdict), (Some("\"a\\\"b\""), &None));
    assert_eq!(
        (rows[3].tool.as_deref(), rows[3].args.as_ref().map(String::len)),
        (Some("deep\n"), Some(200))
    );
    assert_eq!((rows[3].ok, rows[3].duration_us, rows[3].state), (None, None, CallState::Done));
}

#[test]
fn a_session_that_cannot_be_read_is_passed_over_and_the_others_are_not() {
    let place = Place::new();
    for session in ["a", "m", "z"] {
        place.journal(session).append(&planned(&format!("c_{session}"), 10, "exec")).unwrap();
    }
    let mut index = Index::open(&place.home).unwrap();
    assert_eq!(calls(&place.all(&mut index)), ["c_a", "c_m", "c_z"]);
    let dir = place.home.path().join("sessions/m");
    let journal = dir.join("journal.jsonl");
    type Break<'a> = &'a dyn Fn();
    let breaks: [(usize, Break<'_>); 4] = [
        (0, &|| fs::remove_file(&journal).unwrap()),
        (1, &|| fs::create_dir(&journal).unwrap()),
        (1, &|| {
            fs::remove_dir(&journal).unwrap();
            std::os::unix::fs::symlink("../a/journal.jsonl", &journal).unwrap();
        }),
        (1, &|| {
            fs::remove_dir_all(&dir).unwrap();
            std::os::unix::fs::symlink("a", &dir).unwrap();
        }),
    ];
    for (number, (errors, break_it)) in breaks.into_iter().enumerate() {
        break_it();
        place.journal("z").append(&planned(&format!("c_z{number}"), 20, "exec")).unwrap();
        assert_eq!(index.sync().unwrap().len(), errors, "{number}");
        let rows = index.query(&Filter::default()).unwrap();
        assert_eq!(rows.len(), 4 + number, "what is known of it stays: {rows:?}");
        assert_eq!(rows[1].state, CallState::Cut);
    }
}

#[test]
fn many_that_make_the_index_at_the_same_moment_all_have_it() {
    for _ in 0..20 {
        let place = Place::new();
        let begin = std::sync::Barrier::new(8);
        let open = || {
            begin.wait();
            Index::open(&place.home).and_then(|mut index| index.sync()).map_err(|error| error.to_string())?;
            Ok(())
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all, vec![Ok::<(), String>(()); 8]);
    }
}
