//! Answering from rows.

use std::collections::HashMap;
use std::fs::File;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::sync::{number, stored};
use super::{CallRow, CallState, CallStory, Filter};
use crate::journal::{JOURNAL, is_in_use};
use crate::line::Line;
use crate::reader::{LineReader, Piece};
use crate::{Home, StoreError, files};

const COLUMNS: &str = "call, session, seq, at_us, tool, caller, ok, error_kind, duration_us, verdict, blob, \
                       truncated_bytes, args, outcome_at IS NOT NULL";

/// The rows that a filter lets through.
pub(super) fn query(home: &Home, database: &Connection, filter: &Filter) -> Result<Vec<CallRow>, StoreError> {
    let order = if filter.newest_first { "DESC" } else { "ASC" };
    // Ids are ASCII, so everything that starts with a prefix lies before the prefix and the last character of all.
    let beyond = filter.call.as_ref().map(|prefix| format!("{prefix}\u{10ffff}"));
    let mut statement = database.prepare(&format!(
        "SELECT {COLUMNS} FROM calls WHERE \
             (?1 IS NULL OR session = ?1) AND (?2 IS NULL OR tool = ?2) AND (?3 IS NULL OR ok = ?3) AND \
             (?4 IS NULL OR error_kind = ?4) AND (?5 IS NULL OR (call >= ?5 AND call < ?6)) AND \
             (?7 IS NULL OR at_us >= ?7) AND (?8 IS NULL OR at_us < ?8) AND (?10 IS NULL OR blob = ?10) \
         ORDER BY at_us {order}, session {order}, seq {order} LIMIT ?9"
    ))?;
    let rows = statement.query_map(
        params![
            filter.session,
            filter.tool,
            filter.ok,
            filter.kind,
            filter.call,
            beyond,
            filter.since_us.map(stored),
            filter.until_us.map(stored),
            filter.limit.map_or(-1, stored),
            filter.blob
        ],
        read_row,
    )?;
    let mut rows = rows.collect::<Result<Vec<_>, _>>()?;

    let mut in_use: HashMap<String, bool> = HashMap::new();
    for row in rows.iter_mut().filter(|row| row.state != CallState::Done) {
        let running = match in_use.get(&row.session) {
            Some(known) => *known,
            None => {
                // Nobody appends to a session that cannot be looked at.
                let known = is_in_use(home, &row.session).unwrap_or(false);
                in_use.insert(row.session.clone(), known);
                known
            }
        };
        if running {
            row.state = CallState::Running;
        }
    }
    Ok(rows)
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<CallRow> {
    let done: bool = row.get(13)?;
    Ok(CallRow {
        call: row.get(0)?,
        session: row.get(1)?,
        seq: number(row.get(2)?),
        at_us: number(row.get(3)?),
        tool: row.get(4)?,
        caller: row.get(5)?,
        ok: row.get(6)?,
        error_kind: row.get(7)?,
        duration_us: row.get::<_, Option<i64>>(8)?.map(number),
        verdict: row.get(9)?,
        blob: row.get(10)?,
        truncated_bytes: row.get::<_, Option<i64>>(11)?.map(number),
        args: row.get(12)?,
        state: if done { CallState::Done } else { CallState::Cut },
    })
}

/// The bodies of a call's entries, read from the journal where the index says they stand.
pub(super) fn story(home: &Home, database: &Connection, call: &str) -> Result<Option<CallStory>, StoreError> {
    let found = database
        .prepare(
            "SELECT session, planned_at, outcome_at FROM calls WHERE call = ?1 ORDER BY at_us DESC LIMIT 1",
        )?
        .query_row([call], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?))
        })
        .optional()?;
    let Some((session, planned_at, outcome_at)) = found else { return Ok(None) };
    let failed = |error| StoreError::io("cannot read the journal", session.as_str(), error);
    let Some(dir) = home.session_dir(&session)? else { return Ok(None) };
    let Some(journal) = files::open_to_read(&dir, JOURNAL).map_err(failed)? else { return Ok(None) };
    let body = |at: Option<i64>| match at {
        Some(at) => read_body(&journal, number(at), call).map_err(failed),
        None => Ok(None),
    };
    let (planned, outcome) = (body(planned_at)?.unwrap_or(Value::Null), body(outcome_at)?);
    Ok(Some(CallStory { session, planned, outcome }))
}

/// The body of the line that starts at an offset, if it still belongs to the call.
fn read_body(journal: &File, at: u64, call: &str) -> std::io::Result<Option<Value>> {
    let mut reader = LineReader::new(journal.try_clone()?, at, u64::MAX)?;
    Ok(match reader.next()? {
        Some(Piece::Line(bytes)) => {
            Line::parse(bytes).filter(|line| line.call == Some(call)).and_then(|line| line.parse_body())
        }
        _ => None,
    })
}
