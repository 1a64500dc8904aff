//! Reading journals into rows.

use std::fs::File;
use std::io;

use rusqlite::{Connection, OptionalExtension, Statement, Transaction, TransactionBehavior, params};
use serde_json::value::RawValue;

use crate::body::{Body, parsed};
use crate::files::{self, Lock};
use crate::head::{Head, read_witness, write_witness};
use crate::journal::JOURNAL;
use crate::line::{EntryKind, Line, parse_hash};
use crate::reader::{LineReader, Piece};
use crate::{Home, StoreError};

/// How much of a call's arguments, or of any text, a row holds.
const SHOWN_CHARS: usize = 200;

/// Reads what has been added to each journal since the last time. Returns why sessions were passed over.
pub(super) fn sync(home: &Home, database: &mut Connection) -> Result<Vec<StoreError>, StoreError> {
    let sessions = home.sessions()?;
    let mut passed_over = Vec::new();
    for session in &sessions {
        match sync_session(home, database, session) {
            // One session that cannot be read says nothing of the others.
            Err(error @ StoreError::Io { .. }) => passed_over.push(error),
            done => done?,
        }
    }
    let mut gone = known_sessions(database)?;
    gone.retain(|name| sessions.binary_search(name).is_err());
    for gone in &gone {
        let transaction = begin(database)?;
        forget(&transaction, gone)?;
        transaction.commit()?;
    }
    Ok(passed_over)
}

fn known_sessions(database: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = database.prepare("SELECT name FROM sessions")?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

fn begin(database: &mut Connection) -> Result<Transaction<'_>, StoreError> {
    Ok(database.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

fn forget(transaction: &Transaction<'_>, session: &str) -> Result<(), StoreError> {
    transaction.execute("DELETE FROM calls WHERE session = ?1", [session])?;
    transaction.execute("DELETE FROM sessions WHERE name = ?1", [session])?;
    Ok(())
}

/// The last line that was read, and where it stands.
struct Place {
    head: Head,
    start: u64,
}

fn sync_session(home: &Home, database: &mut Connection, session: &str) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot read the journal", session, error);
    let Some(dir) = home.session_dir(session)? else { return Ok(()) };
    let Some(journal) = files::open_to_read(&dir, JOURNAL).map_err(failed)? else { return Ok(()) };
    let length = settled_length(&journal).map_err(failed)?;
    if read_place(database, session)?.is_some_and(|place| place.head.bytes == length)
        && !was_replaced(database, session, &journal)?
    {
        return Ok(());
    }
    let transaction = begin(database)?;
    // Asked again inside the transaction: another process may have come first.
    let replaced = was_replaced(&transaction, session, &journal)?;
    if replaced {
        forget(&transaction, session)?;
    }
    let mut place = read_place(&transaction, session)?;
    let witness = read_witness(home, session)?;
    let contains = |place: &Option<Place>| match (&witness, place) {
        (None, _) => true,
        (Some(witness), Some(place)) => witness.count == place.head.count && witness.hash == place.head.hash,
        (Some(_), None) => false,
    };
    let mut witness_seen = contains(&place);
    let from = place.as_ref().map_or(0, |place| place.head.bytes);
    let mut reader = LineReader::new(journal, from, length).map_err(failed)?;
    let mut rows = RowWriter::new(&transaction)?;
    loop {
        let start = reader.end();
        let piece = reader.next().map_err(failed)?;
        let line = match piece {
            Some(Piece::Line(bytes)) => Line::parse(bytes),
            Some(Piece::TooLong) => None,
            Some(Piece::Torn) | None => break,
        };
        let Some(line) = line else { continue };
        if let Some(call) = line.call {
            rows.write(
                line.kind,
                &CallEntry { session, call, seq: line.seq, at_us: line.at_us, start },
                line.body,
            )?;
        }
        let (count, hash) = (line.seq, line.hash);
        place = Some(Place { head: Head { count, bytes: reader.end(), hash }, start });
        witness_seen |= witness.is_some() && contains(&place);
    }
    drop(rows);
    if let Some(place) = &place {
        write_place(&transaction, session, place)?;
    }
    transaction.commit()?;
    if let Some(place) = place.filter(|_| witness_seen) {
        // Asking about calls must work in a full or read-only home too; the next sync that can writes the witness.
        let _ = write_witness(home, session, &place.head);
    }
    Ok(())
}

/// The length in a moment in which nobody is appending: lines that are being written may yet be taken back.
fn settled_length(journal: &File) -> io::Result<u64> {
    let _lock = Lock::shared(journal)?;
    Ok(journal.metadata()?.len())
}

fn read_place(database: &Connection, session: &str) -> Result<Option<Place>, StoreError> {
    let found = database
        .prepare("SELECT last_seq, last_end, last_hash, last_start FROM sessions WHERE name = ?1")?
        .query_row([session], |row| {
            Ok((number(row.get(0)?), number(row.get(1)?), row.get::<_, String>(2)?, number(row.get(3)?)))
        })
        .optional()?;
    Ok(found.and_then(|(count, bytes, hash, start)| {
        let hash = parse_hash(hash.as_bytes())?;
        Some(Place { head: Head { count, bytes, hash }, start })
    }))
}

fn write_place(transaction: &Transaction<'_>, session: &str, place: &Place) -> Result<(), StoreError> {
    transaction.execute(
        "INSERT OR REPLACE INTO sessions (name, last_seq, last_hash, last_start, last_end) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            session,
            stored(place.head.count),
            place.head.hash.to_hex().as_str(),
            stored(place.start),
            stored(place.head.bytes)
        ],
    )?;
    Ok(())
}

/// Whether the journal is no longer the one that was read: the last line that was read does not stand there any more.
fn was_replaced(database: &Connection, session: &str, journal: &File) -> Result<bool, StoreError> {
    let Some(place) = read_place(database, session)? else {
        // Rows without a place come from a database that was tampered with; they go.
        return Ok(true);
    };
    let look = || -> io::Result<bool> {
        let mut reader = LineReader::new(journal.try_clone()?, place.start, place.head.bytes)?;
        let same = match reader.next()? {
            Some(Piece::Line(bytes)) => Line::parse(bytes)
                .is_some_and(|line| line.hash == place.head.hash && line.seq == place.head.count),
            _ => false,
        };
        Ok(same && reader.end() == place.head.bytes)
    };
    match look() {
        Ok(same) => Ok(!same),
        Err(error) => Err(StoreError::io("cannot read the journal", session, error)),
    }
}

/// One entry that belongs to a call.
struct CallEntry<'a> {
    session: &'a str,
    call: &'a str,
    seq: u64,
    at_us: u64,
    start: u64,
}

/// The two statements that write rows, prepared once for many entries.
struct RowWriter<'t> {
    plan: Statement<'t>,
    outcome: Statement<'t>,
}

impl<'t> RowWriter<'t> {
    fn new(transaction: &'t Transaction<'_>) -> Result<Self, StoreError> {
        Ok(RowWriter {
            plan: transaction.prepare(
                "INSERT OR REPLACE INTO calls (session, call, seq, at_us, tool, caller, verdict, args, planned_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            outcome: transaction.prepare(
                "INSERT INTO calls (session, call, seq, at_us, tool, ok, error_kind, duration_us, verdict, blob, \
                                    truncated_bytes, outcome_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
                 ON CONFLICT (session, call) DO UPDATE SET \
                     tool = coalesce(tool, excluded.tool), ok = excluded.ok, error_kind = excluded.error_kind, \
                     duration_us = excluded.duration_us, verdict = coalesce(verdict, excluded.verdict), \
                     blob = excluded.blob, truncated_bytes = excluded.truncated_bytes, \
                     outcome_at = excluded.outcome_at",
            )?,
        })
    }

    fn write(&mut self, kind: EntryKind, entry: &CallEntry<'_>, body: &[u8]) -> Result<(), StoreError> {
        match kind {
            EntryKind::Planned => self.write_plan(entry, &Body::read(body)),
            EntryKind::Outcome => self.write_outcome(entry, &Body::read(body)),
            EntryKind::Note | EntryKind::Recovered => Ok(()),
        }
    }

    fn write_plan(&mut self, entry: &CallEntry<'_>, body: &Body<'_>) -> Result<(), StoreError> {
        self.plan.execute(params![
            entry.session,
            entry.call,
            stored(entry.seq),
            stored(entry.at_us),
            text(body.tool),
            text(body.caller).or_else(|| shown(body.caller)),
            text(Body::inside(body.decision).verdict),
            shown(body.args),
            stored(entry.start)
        ])?;
        Ok(())
    }

    fn write_outcome(&mut self, entry: &CallEntry<'_>, body: &Body<'_>) -> Result<(), StoreError> {
        let truncated = Body::inside(body.truncated);
        self.outcome.execute(params![
            entry.session,
            entry.call,
            stored(entry.seq),
            stored(entry.at_us),
            text(body.tool),
            parsed::<bool>(body.ok),
            text(Body::inside(body.error).kind),
            parsed::<u64>(body.duration_us).map(stored),
            text(Body::inside(body.decision).verdict),
            text(truncated.blob),
            parsed::<u64>(truncated.bytes).map(stored),
            stored(entry.start)
        ])?;
        Ok(())
    }
}

/// The beginning of a text member.
fn text(json: Option<&RawValue>) -> Option<String> {
    let text: String = parsed(json)?;
    Some(text.chars().take(SHOWN_CHARS).collect())
}

/// The beginning of a member of any kind, as JSON.
fn shown(json: Option<&RawValue>) -> Option<String> {
    Some(json?.get().chars().take(SHOWN_CHARS).collect())
}

/// SQLite's integers are signed; nothing counted here comes near their end.
pub(super) fn stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The reverse of [`stored`].
pub(super) fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
