//! Several processes on one journal, processes that die while they write, and writes that fail.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and print to their parent"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use helve_core::files::Attributes;
use helve_store::{
    Blobs, Entry, EntryKind, FileState, Filter, Home, Index, Journal, JournalOptions, SmallContents, Tail,
    Undo, UndoChange, UndoRecord, verify,
};
use pretty_assertions::assert_eq;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;

const HOME: &str = "HELVE_STORE_TEST_HOME";
const COUNT: &str = "HELVE_STORE_TEST_COUNT";
const LIMIT: &str = "HELVE_STORE_TEST_LIMIT";

/// Starts this test program again as an appender.
fn start_appender(home: &Path, count: u64) -> Child {
    appender(home, count).spawn().unwrap()
}

fn appender(home: &Path, count: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "appender_process", "--nocapture", "--test-threads=1"])
        .env(HOME, home)
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped());
    command
}

/// The notes without those on cut calls, which every process that dies leaves.
fn unusual(mut notes: Vec<String>) -> Vec<String> {
    notes.retain(|note| !note.contains("no outcome"));
    notes
}

/// Not a test of its own: what `start_appender` runs. Prints the number of each entry once it is journalled.
#[test]
#[ignore = "runs only as a child of the other tests"]
fn appender_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let home = Home::open(Path::new(&home)).unwrap();
    let count: u64 = std::env::var(COUNT).unwrap().parse().unwrap();
    if let Ok(limit) = std::env::var(LIMIT) {
        let at = |bytes: u64| Rlimit { current: Some(bytes), maximum: Some(bytes) };
        setrlimit(Resource::Core, at(0)).unwrap();
        setrlimit(Resource::Fsize, at(limit.parse().unwrap())).unwrap();
    }
    let journal = Journal::open(&home, "s", JournalOptions::default()).unwrap();
    let mut blob = Blobs::open(&home, 1 << 20).unwrap().writer();
    blob.write(b"kept").unwrap();
    blob.finish().unwrap();
    let pid = std::process::id();
    let mut out = std::io::stdout();
    for number in 0..count {
        let call = Some(format!("c_{pid}_{number}"));
        // Some entries are long, so that their write takes a while and can be caught in the middle.
        let text = "x".repeat(if number % 7 == 0 { 300_000 } else { 300 });
        let body = json!({"tool": "echo", "args": {"text": text}});
        let plan = Entry { kind: EntryKind::Planned, call: call.clone(), at_us: number, body };
        let outcome = Entry { kind: EntryKind::Outcome, call, at_us: number, body: json!({"ok": true}) };
        journal.append(&plan).unwrap();
        let place = journal.append(&outcome).unwrap();
        out.write_all(format!("seq {} {}\n", place.seq, place.hash).as_bytes()).unwrap();
    }
}

#[test]
fn two_processes_make_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let mut children = [start_appender(dir.path(), 500), start_appender(dir.path(), 500)];
    for child in &mut children {
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
    }
    let report = verify(&home, "s", None).unwrap();
    assert_eq!((report.problems, unusual(report.notes)), (vec![], vec![]));
    assert_eq!((report.entries, report.cut_calls), (2000, vec![]));
}

#[test]
fn what_was_acknowledged_survives_kill_and_the_journal_stays_good() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let mut acknowledged: Vec<(u64, String)> = Vec::new();
    for round in 0..20_u64 {
        let mut child = start_appender(dir.path(), 1_000_000);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut wanted = 3 + round * 5;
        let mut killed = false;
        // Reads on after the kill: what was printed before it must be in the journal too.
        while let Some(Ok(line)) = lines.next() {
            let mut words = line.split(' ').skip_while(|word| *word != "seq").skip(1);
            let (Some(seq), Some(hash)) = (words.next(), words.next()) else { continue };
            if hash.len() < 64 {
                continue;
            }
            acknowledged.push((seq.parse().unwrap(), hash.to_owned()));
            wanted = wanted.saturating_sub(1);
            if wanted == 0 && !killed {
                std::thread::sleep(std::time::Duration::from_micros(round * 211));
                child.kill().unwrap();
                killed = true;
            }
        }
        child.wait().unwrap();
        assert!(killed, "the appender ended by itself in round {round}");
        let report = verify(&home, "s", None).unwrap();
        assert_eq!(report.problems, vec![], "round {round}");
    }

    let journal = Journal::open(&home, "s", JournalOptions::default()).unwrap();
    journal.append(&Entry { kind: EntryKind::Note, call: None, at_us: 0, body: json!(null) }).unwrap();
    drop(journal);
    let report = verify(&home, "s", None).unwrap();
    assert_eq!((report.problems, unusual(report.notes)), (vec![], vec![]));

    let mut tail = Tail::open(&home, "s", 0).unwrap();
    let mut hashes = Vec::new();
    while let Some(record) = tail.next_record().unwrap() {
        hashes.push(record.hash);
    }
    for (seq, hash) in &acknowledged {
        assert_eq!(&hashes[*seq as usize - 1], hash);
    }
    assert!(acknowledged.len() > 500);

    let mut index = Index::open(&home).unwrap();
    index.sync().unwrap();
    let rows = index.query(&Filter::default()).unwrap();
    let mut cut: Vec<String> = rows.into_iter().filter(|row| row.ok.is_none()).map(|row| row.call).collect();
    let mut expected = report.cut_calls;
    cut.sort();
    expected.sort();
    assert_eq!(cut, expected);
}

/// The kernel ends a process whose write crosses the file size limit, after letting through what fits: a writer that
/// dies in the middle of a line, at a byte of our choice.
#[test]
fn a_process_that_dies_within_a_line_leaves_a_journal_that_is_put_right() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let path = dir.path().join("sessions/s/journal.jsonl");
    let mut recovered = 0;
    for more in [5_000, 1, 2, 120, 300_000, 300_700, 301_000, 302_345, 303_456] {
        let before = path.metadata().map_or(0, |metadata| metadata.len());
        let limit = before + more;
        let status = appender(dir.path(), 1000).env(LIMIT, limit.to_string()).output().unwrap().status;
        assert_eq!(status.signal(), Some(rustix::process::Signal::XFSZ.as_raw()), "limit {limit}");
        assert_eq!(path.metadata().unwrap().len(), limit);

        let report = verify(&home, "s", None).unwrap();
        assert_eq!(report.problems, vec![], "limit {limit}");
        let torn = std::fs::read(&path).unwrap().last() != Some(&b'\n');
        let mut notes = unusual(report.notes);
        // One that dies at its first entries leaves no witness, and that is told too.
        notes.retain(|note| !note.starts_with("there was no "));
        assert_eq!(notes.len(), usize::from(torn), "{notes:?}");
        recovered += u64::from(torn);

        let journal = Journal::open(&home, "s", JournalOptions::default()).unwrap();
        journal.append(&Entry { kind: EntryKind::Note, call: None, at_us: 0, body: json!(null) }).unwrap();
        let report = verify(&home, "s", None).unwrap();
        assert_eq!((report.problems, unusual(report.notes)), (vec![], vec![]), "limit {limit}");
    }
    let mut tail = Tail::open(&home, "s", 0).unwrap();
    let records = std::iter::from_fn(|| tail.next_record().unwrap());
    assert_eq!(records.filter(|record| record.kind == EntryKind::Recovered).count() as u64, recovered);
    assert!(recovered > 5, "{recovered}");
}

/// With that signal ignored the write fails instead, as it does when the disk is full.
#[test]
fn a_write_that_fails_in_the_middle_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let output = after("trap '' XFSZ", appender(dir.path(), 1000).env(LIMIT, "310000")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(101), "{text}");

    let acknowledged = text.lines().filter(|line| line.contains("seq ")).count() as u64;
    let report = verify(&home, "s", None).unwrap();
    assert_eq!((report.problems, unusual(report.notes)), (vec![], vec![]));
    assert!(report.entries >= acknowledged * 2 && acknowledged > 0, "{} {acknowledged}", report.entries);
    let journal = Journal::open(&home, "s", JournalOptions::default()).unwrap();
    let note = Entry { kind: EntryKind::Note, call: None, at_us: 0, body: json!(null) };
    assert_eq!(journal.append(&note).unwrap().seq, report.entries + 1);
}

/// A record with a content that no other has.
fn changes_of(call: &str, bytes: usize) -> (UndoRecord, SmallContents) {
    let content = call.repeat(bytes / call.len()).into_bytes();
    let id = Blobs::id_of(&content);
    let is = FileState::File { id: id.clone(), mode: 0o644, dropped: false, attributes: Attributes::NONE };
    let record = UndoRecord {
        call: call.to_owned(),
        tool: "exec".to_owned(),
        session: "s".to_owned(),
        workspace: "/w".to_owned(),
        at_us: 1,
        undoes: None,
        changes: vec![UndoChange::new("a".to_owned(), FileState::Absent, is)],
        layered: true,
        commits: None,
    };
    (record, SmallContents::from([(id, content)]))
}

fn hold(undo: &Undo, call: &str, bytes: usize) -> bool {
    let (record, contents) = changes_of(call, bytes);
    undo.hold(&record, &contents).is_ok()
}

/// Whether exactly these wait, each with its content.
fn assert_waiting(undo: &Undo, calls: &[&str], bytes: usize, told: &str) {
    let mut wanted: Vec<UndoRecord> = calls.iter().map(|call| changes_of(call, bytes).0).collect();
    wanted.sort_by(|a, b| b.call.cmp(&a.call));
    assert_eq!(undo.pending().unwrap(), wanted, "{told}");
    for call in calls {
        undo.unfold(call).unwrap();
        for (id, content) in changes_of(call, bytes).1 {
            assert_eq!(undo.contents().read_range(&id, 0, bytes).unwrap(), content, "{told}: {call}");
        }
    }
}

/// Not a test of its own: holds changes and releases others where no file may be longer than a limit.
#[test]
#[ignore = "runs only as a child of the other tests"]
fn holder_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let limit = std::env::var(LIMIT).unwrap().parse().unwrap();
    setrlimit(Resource::Fsize, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
    let undo = Undo::open(&Home::open(Path::new(&home)).unwrap()).unwrap();
    println!("result {} {}", hold(&undo, "c_99", 3000), undo.release("c_01").is_ok());
}

/// Whether another process could hold `c_99` and release `c_01` under a limit.
fn held_and_released(home: &Path, limit: u64) -> (bool, bool) {
    let mut holder = Command::new(std::env::current_exe().unwrap());
    holder.args(["--ignored", "--exact", "holder_process", "--nocapture"]);
    let output =
        after("trap '' XFSZ", holder.env(HOME, home).env(LIMIT, limit.to_string())).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let result = text.split_once("result ").and_then(|(_, rest)| rest.lines().next());
    let Some((held, released)) = result.and_then(|result| result.split_once(' ')) else {
        unreachable!("{output:?}")
    };
    (held == "true", released == "true")
}

#[test]
fn changes_that_cannot_be_held_or_released_leave_those_that_wait() {
    // How many bytes there are room for, and whether a release is short enough for that.
    for (room, releases) in [(0, false), (1, false), (10, false), (100, true), (2000, true), (4000, true)] {
        let dir = tempfile::tempdir().unwrap();
        let undo = Undo::open(&Home::open(dir.path()).unwrap()).unwrap();
        let told = format!("room for {room} bytes");
        assert!(hold(&undo, "c_01", 3000) && hold(&undo, "c_02", 3000));
        let file = dir.path().join("undo/pending/waiting");
        let long = file.metadata().unwrap().len();
        assert_eq!(held_and_released(dir.path(), long + room), (false, releases), "{told}");
        let waiting: &[&str] = if releases { &["c_02"] } else { &["c_01", "c_02"] };
        assert_waiting(&undo, waiting, 3000, &told);
        let released = b"\n{\"released\":\"c_01\"}\n".len() as u64;
        let more = if releases { released } else { 0 };
        assert_eq!(file.metadata().unwrap().len(), long + more, "{told}: nothing of the line is left");
        assert!(hold(&undo, "c_03", 3000));
        assert_waiting(&undo, &[waiting, &["c_03"]].concat(), 3000, &told);
    }
}

#[test]
fn a_file_of_what_waits_that_cannot_be_written_anew_stays() {
    let dir = tempfile::tempdir().unwrap();
    let undo = Undo::open(&Home::open(dir.path()).unwrap()).unwrap();
    let calls: Vec<String> = (0..20).map(|number| format!("c_{number:02}")).collect();
    let mut left: Vec<&str> = calls.iter().map(String::as_str).collect();
    for call in &left {
        assert!(hold(&undo, call, 30_000));
    }
    // Half of them are over, but for one.
    for call in left.drain(11..) {
        assert!(undo.release(call).unwrap());
    }
    let pending = dir.path().join("undo/pending");
    let long = || pending.join("waiting").metadata().unwrap().len();
    let before = long();
    assert_eq!(held_and_released(dir.path(), 100_000), (false, false));
    assert_eq!(long(), before);
    assert_waiting(&undo, &left, 30_000, "nothing was released");
    assert!(pending.join(".waiting").exists(), "it was not written anew");
    assert!(undo.release("c_01").unwrap());
    left.remove(1);
    assert_waiting(&undo, &left, 30_000, "one was released");
    assert!(long() < before * 3 / 5 && !pending.join(".waiting").exists(), "{} of {before}", long());
}

/// The same program again, started by a shell that first does something to itself.
fn after(setup: &str, program: &Command) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{setup}; exec \"$0\" \"$@\"")])
        .arg(program.get_program())
        .args(program.get_args())
        .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Not a test of its own: checks and lists a session where nothing can be written, as on a full or read-only disk.
#[test]
#[ignore = "runs only as a child of the other tests"]
fn reader_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Fsize, nothing).unwrap();
    let home = Home::open(Path::new(&home)).unwrap();
    let report = verify(&home, "s", None).unwrap();
    let mut index = Index::open(&home).unwrap();
    index.sync().unwrap();
    let rows = index.query(&Filter::default()).unwrap();
    println!("result {}", json!({"ok": report.is_ok(), "notes": report.notes, "calls": rows.len()}));
}

#[test]
fn a_home_that_cannot_be_written_can_be_checked_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    assert!(appender(dir.path(), 300).output().unwrap().status.success());
    for has_index in [false, true] {
        if has_index {
            Index::open(&home).unwrap().sync().unwrap();
            assert!(appender(dir.path(), 300).output().unwrap().status.success());
        }
        std::fs::remove_dir_all(dir.path().join("heads")).unwrap();
        let mut reader = Command::new(std::env::current_exe().unwrap());
        reader.args(["--ignored", "--exact", "reader_process", "--nocapture"]).env(HOME, dir.path());
        let output = after("trap '' XFSZ", &reader).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let result = text.split_once("result ").and_then(|(_, rest)| rest.lines().next());
        let Some(result) = result else { unreachable!("{output:?}") };
        let result: serde_json::Value = serde_json::from_str(result).unwrap();
        let note = "the witness could not be moved forward: cannot write the witness (s): ";
        let notes: Vec<&str> =
            result["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str()).collect();
        assert!(notes.iter().any(|one| one.starts_with(note)), "{result}");
        let calls = if has_index { 600 } else { 300 };
        assert_eq!((&result["ok"], &result["calls"]), (&json!(true), &json!(calls)), "{result}");
    }
}

/// Every file and directory below a path, with its permissions.
fn modes(path: &Path) -> Vec<(String, u32)> {
    let metadata = path.metadata().unwrap();
    let mut found = vec![(path.display().to_string(), metadata.permissions().mode() & 0o7777)];
    if metadata.is_dir() {
        found.extend(std::fs::read_dir(path).unwrap().flat_map(|entry| modes(&entry.unwrap().path())));
    }
    found
}

/// A umask that takes even the owner's rights away must not leave a state directory that nobody can open again.
#[test]
fn whatever_the_umask_is_the_owner_and_nobody_else_has_the_state() {
    for umask in ["0777", "0000"] {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("above/home");
        let status = after(&format!("umask {umask}"), &appender(&home, 3)).output().unwrap().status;
        assert!(status.success(), "umask {umask}");

        let modes = modes(&dir.path().join("above"));
        assert!(modes.len() >= 8, "{modes:?}");
        for (path, mode) in modes {
            let expected = if Path::new(&path).is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{path} with umask {umask}");
        }
        assert!(verify(&Home::open(&home).unwrap(), "s", None).unwrap().is_ok());
    }
}
