//! Checking a journal: is it still what was written?
//!
//! In: a session, and optionally a head that the owner noted down earlier. Out: a report that names every entry that
//! was changed, removed, moved, added or cut, and whether an older copy was put back. Three things are compared: the
//! chain inside the file, the head beside it, and the witness. The blobs that its outcomes name are read as well. What an interrupted writer leaves is a note, not a
//! problem.
//!
//! The file is read once, in bounded memory, up to the length it had at the start; appending goes on meanwhile.
//! Nothing is repaired here. A journal without problems moves the witness forward.

mod known;
mod outputs;

use std::collections::HashMap;
use std::fs::File;
use std::io;

use blake3::Hash;
use serde::Serialize;

use self::known::{check_head, check_witness, wrong_end};
use self::outputs::Outputs;
use crate::chain::Chain;
use crate::files::{self, Lock};
use crate::head::{Head, Witness, ask_witness, witness_path, write_witness};
use crate::home::{SESSIONS, check_session};
use crate::journal::{HEAD, JOURNAL};
use crate::line::{EntryKind, Line, genesis};
use crate::reader::{LineReader, Piece};
use crate::{Home, StoreError};

/// Calls without an outcome that are remembered at once.
const MOST_OPEN_CALLS: usize = 100_000;

/// Cut calls that have a note each.
const MOST_CUT_NOTES: usize = 5;

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The entry's content, or content and hash together, are not what was written.
    Changed,
    /// The entry is gone from between others.
    Removed,
    /// The entry stands in another place than it was written.
    Reordered,
    /// The entry was not written by an appender.
    Inserted,
    /// Entries at the end are gone although the head counts them.
    CutTail,
    /// Journal and head agree, but the witness has seen a longer or different journal.
    OlderCopy,
    /// The journal was written under another session name.
    OtherSession,
    /// The head file is missing, holds no head or does not fit the journal; or so does what remembers the head.
    HeadDamaged,
    /// The head that the caller expects was never a head of this journal.
    HeadAbsent,
    /// The entry names a kept output whose content is not what was kept.
    BlobChanged,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The line of the journal file, counted from 1.
    pub line: Option<u64>,
    /// The entry's number.
    pub seq: Option<u64>,
    /// What is wrong with it.
    pub kind: FindingKind,
    /// The same in words.
    pub message: String,
}

/// How the expected head relates to the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "seq")]
pub enum HeadCheck {
    /// No head was given.
    NotAsked,
    /// It is the newest entry's hash.
    Equal,
    /// It is the hash of this earlier entry; the journal has grown since.
    GrownSince(u64),
    /// No entry has it.
    Absent,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// The session that was checked.
    pub session: String,
    /// Whole lines in the journal.
    pub entries: u64,
    /// Hash of the newest entry; note it down to compare later.
    pub head: String,
    /// How the expected head relates to the journal.
    pub expected: HeadCheck,
    /// What is wrong, in file order. Empty means that the journal is what was written.
    pub problems: Vec<Finding>,
    /// What is worth knowing and is no problem: what an interrupted writer left, calls that were cut, outputs that
    /// are not kept any more.
    pub notes: Vec<String>,
    /// Calls that were planned and have no outcome: cut, or still running.
    pub cut_calls: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks a session's journal. `expected_head` is a hash from an earlier report.
pub fn verify(home: &Home, session: &str, expected_head: Option<&str>) -> Result<VerifyReport, StoreError> {
    let expected = expected_head.map(parse_expected).transpose()?;
    check(home, session, expected, Some(Outputs::default()))
}

/// The same of the journal alone: the blobs that its outcomes name are not read.
pub fn verify_entries(home: &Home, session: &str) -> Result<VerifyReport, StoreError> {
    check(home, session, None, None)
}

fn check(
    home: &Home,
    session: &str,
    expected: Option<Hash>,
    outputs: Option<Outputs>,
) -> Result<VerifyReport, StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot read the journal", session, error);
    check_session(session)?;
    let asked = ask_witness(home, session)?;
    let witness = asked.head();
    let Some((journal, head, length)) = snapshot(home, session)? else {
        let counted = lone_head(home, session)?;
        return match (witness, counted) {
            (Some(seen), _) => Ok(vanished(session, seen, &witness_path(home, session), expected)),
            (None, Some(counted)) => {
                let dir = home.path().join(SESSIONS).join(session).display().to_string();
                Ok(vanished(session, counted, &dir, expected))
            }
            (None, None) => Err(StoreError::NoSuchSession(session.to_owned())),
        };
    };

    let mut walk = Walk::new(session, [head, witness], expected, outputs);
    let mut reader = LineReader::new(journal, 0, length).map_err(failed)?;
    let mut whole_bytes = 0;
    let mut torn_bytes = 0;
    while let Some(piece) = reader.next().map_err(failed)? {
        if matches!(piece, Piece::Torn) {
            torn_bytes = reader.end() - reader.start();
        } else {
            walk.take(&piece, whole_bytes);
            whole_bytes = reader.end();
        }
    }
    let newest = Head { count: walk.chain.last_seq, bytes: whole_bytes, hash: walk.newest };
    let outputs = walk.outputs.take();
    let mut report = walk.report(session, head, witness, length, torn_bytes);
    if length > 0 {
        tell_silent_witness(&mut report, asked, &witness_path(home, session));
    }
    if report.is_ok()
        && newest.count > 0
        && witness != Some(newest)
        && let Err(error) = write_witness(home, session, &newest)
    {
        // A full or read-only home can still be judged.
        report.notes.push(format!("the witness could not be moved forward: {error}"));
    }
    if let Some(outputs) = outputs {
        let changed = outputs.check(home, &mut report.notes);
        report.problems.extend(changed);
    }
    Ok(report)
}

/// Says that an older copy could have been put back without being seen.
fn tell_silent_witness(report: &mut VerifyReport, asked: Witness, path: &str) {
    match asked {
        Witness::Saw(_) => {}
        Witness::Missing => report.notes.push(format!(
            "there was no {path}, so it cannot be seen whether an older copy of the journal was put back"
        )),
        Witness::Unreadable => {
            let message = format!(
                "{path}, which remembers what was seen of this journal, holds no head. It was changed, and an older copy \
                 of the journal that was put back cannot be seen"
            );
            report.problems.push(outside(FindingKind::HeadDamaged, None, message));
        }
    }
}

fn parse_expected(text: &str) -> Result<Hash, StoreError> {
    Hash::from_hex(text.trim()).map_err(|_| StoreError::BadHead(text.chars().take(100).collect()))
}

/// The journal, its head and its length in a moment in which nobody is appending; `None` when there is no journal.
fn snapshot(home: &Home, session: &str) -> Result<Option<(File, Option<Head>, u64)>, StoreError> {
    let Some(dir) = home.session_dir(session)? else { return Ok(None) };
    let open = || -> io::Result<_> {
        let Some(journal) = files::open_to_read(&dir, JOURNAL)? else { return Ok(None) };
        let lock = Lock::shared(&journal)?;
        let head = match files::open_to_read(&dir, HEAD)? {
            Some(file) => Head::read(&file)?,
            None => None,
        };
        let length = journal.metadata()?.len();
        drop(lock);
        Ok(Some((journal, head, length)))
    };
    open().map_err(|error| StoreError::io("cannot read the journal", session, error))
}

/// The head beside a journal that is not there, when it counts entries.
fn lone_head(home: &Home, session: &str) -> Result<Option<Head>, StoreError> {
    let Some(dir) = home.session_dir(session)? else { return Ok(None) };
    let read = || match files::open_to_read(&dir, HEAD)? {
        Some(file) => Ok(Head::read(&file)?.filter(|head| head.count > 0)),
        None => Ok(None),
    };
    read().map_err(|error: io::Error| StoreError::io("cannot read the head", session, error))
}

/// `remembers` is the path of what still knows of the session.
fn vanished(session: &str, seen: Head, remembers: &str, expected: Option<Hash>) -> VerifyReport {
    VerifyReport {
        session: session.to_owned(),
        entries: 0,
        head: genesis(session).to_hex().to_string(),
        expected: expected.map_or(HeadCheck::NotAsked, |_| HeadCheck::Absent),
        problems: vec![Finding {
            line: None,
            seq: Some(1),
            kind: FindingKind::Removed,
            message: format!(
                "the whole journal is gone; it had {} entries when it was last seen",
                seen.count
            ),
        }],
        notes: vec![format!("if the session was removed on purpose, remove {remembers} too")],
        cut_calls: Vec::new(),
    }
}

/// A number whose hash is known from outside the chain, and what the chain has there.
struct Known {
    head: Head,
    found: Option<Found>,
}

/// The entry with a known number.
struct Found {
    hash: Hash,
    /// Where its line ends.
    end: u64,
    /// The call that it is of.
    call: Option<String>,
}

/// One pass over the journal.
struct Walk {
    chain: Chain,
    /// Hash of the intact entry with the highest number.
    newest: Hash,
    newest_seq: u64,
    /// The head and the witness.
    known: [Option<Known>; 2],
    expected: Option<Hash>,
    expected_at: Option<u64>,
    open_calls: HashMap<String, u64>,
    open_calls_left_out: bool,
    /// None where they are not asked about.
    outputs: Option<Outputs>,
}

impl Walk {
    fn new(
        session: &str,
        known: [Option<Head>; 2],
        expected: Option<Hash>,
        outputs: Option<Outputs>,
    ) -> Walk {
        let start = genesis(session);
        Walk {
            chain: Chain::new(session),
            newest: start,
            newest_seq: 0,
            known: known.map(|head| {
                let empty = Found { hash: start, end: 0, call: None };
                head.map(|head| Known { head, found: (head.count == 0).then_some(empty) })
            }),
            expected,
            expected_at: (expected == Some(start)).then_some(0),
            open_calls: HashMap::new(),
            open_calls_left_out: false,
            outputs,
        }
    }

    /// Takes the next whole line, which starts there.
    fn take(&mut self, piece: &Piece<'_>, start: u64) {
        let Some(line) = self.chain.follow(piece) else { return };
        if line.seq > self.newest_seq {
            (self.newest_seq, self.newest) = (line.seq, line.hash);
        }
        let length = if let Piece::Line(bytes) = piece { bytes.len() as u64 + 1 } else { 0 };
        for known in self.known.iter_mut().flatten() {
            if known.head.count == line.seq && known.found.is_none() {
                known.found =
                    Some(Found { hash: line.hash, end: start + length, call: line.call.map(str::to_owned) });
            }
        }
        if self.expected == Some(line.hash) {
            self.expected_at = Some(line.seq);
        }
        if let Some(outputs) = &mut self.outputs {
            outputs.take(&line, self.chain.lines);
        }
        self.note_call(&line);
    }

    fn note_call(&mut self, line: &Line<'_>) {
        match (line.kind, line.call) {
            (EntryKind::Planned, Some(call)) if self.open_calls.len() < MOST_OPEN_CALLS => {
                self.open_calls.insert(call.to_owned(), line.seq);
            }
            (EntryKind::Planned, Some(_)) => self.open_calls_left_out = true,
            (EntryKind::Outcome, Some(call)) => {
                self.open_calls.remove(call);
            }
            _ => {}
        }
    }

    fn report(
        self,
        session: &str,
        head: Option<Head>,
        witness: Option<Head>,
        length: u64,
        torn_bytes: u64,
    ) -> VerifyReport {
        let Walk { chain, newest, newest_seq, known, expected, expected_at, .. } = self;
        let (open_calls, open_calls_left_out) = (self.open_calls, self.open_calls_left_out);
        let (entries, last_seq, left_out) = (chain.lines, chain.last_seq, chain.left_out);
        let [by_head, by_witness] = known.map(|known| known.and_then(|known| known.found));
        let mut problems = chain.finish();
        // Where entries end tells something only where none was changed.
        let is_chain_sound = problems.is_empty();
        let mut notes = Vec::new();

        let counted = match head {
            Some(head) => {
                check_head(&mut problems, &mut notes, &head, by_head.as_ref(), last_seq, entries, torn_bytes);
                head.count
            }
            None if length > 0 => {
                let message = "the head file is missing or holds no head, so a cut tail cannot be seen";
                problems.push(outside(FindingKind::HeadDamaged, None, message.to_owned()));
                last_seq
            }
            None => 0,
        };
        if torn_bytes > 0 && counted <= last_seq {
            notes.push(format!(
                "the last line was not finished ({torn_bytes} bytes); the next append takes it out"
            ));
        }
        if let Some(witness) = witness {
            check_witness(&mut problems, &witness, by_witness.as_ref(), last_seq, counted);
        }
        if is_chain_sound {
            problems.extend(wrong_end("the head", head, by_head.as_ref()));
            problems.extend(wrong_end("what remembers the head in heads/", witness, by_witness.as_ref()));
        }
        let expected = match (expected, expected_at) {
            (None, _) => HeadCheck::NotAsked,
            (Some(_), Some(seq)) if seq == newest_seq => HeadCheck::Equal,
            (Some(_), Some(seq)) => HeadCheck::GrownSince(seq),
            (Some(hash), None) => {
                let message = format!(
                    "no entry has the expected head {}: the journal was rewritten, or an older copy was put back",
                    hash.to_hex()
                );
                problems.push(outside(FindingKind::HeadAbsent, None, message));
                HeadCheck::Absent
            }
        };
        if left_out > 0 {
            notes.push(format!("{left_out} further problems are not listed"));
        }
        if open_calls_left_out {
            notes.push(format!("more than {MOST_OPEN_CALLS} calls have no outcome; not all are listed"));
        }
        let mut cut: Vec<(u64, String)> = open_calls.into_iter().map(|(call, seq)| (seq, call)).collect();
        cut.sort_unstable();
        let cut: Vec<String> = cut.into_iter().map(|(_, call)| call).collect();
        notes.extend(cut_notes(&cut));
        VerifyReport {
            session: session.to_owned(),
            entries,
            head: newest.to_hex().to_string(),
            expected,
            problems,
            notes,
            cut_calls: cut,
        }
    }
}

/// One note for each of a few cut calls, one for all of many: they stay in the journal for ever.
fn cut_notes(cut: &[String]) -> Vec<String> {
    if cut.len() > MOST_CUT_NOTES {
        return vec![format!(
            "{} calls were planned and have no outcome: they were cut, or are still running",
            cut.len()
        )];
    }
    let note = |call| format!("call {call} was planned and has no outcome: it was cut, or is still running");
    cut.iter().map(note).collect()
}

/// A finding that stands on no line of the journal.
fn outside(kind: FindingKind, seq: Option<u64>, message: String) -> Finding {
    Finding { line: None, seq, kind, message }
}
