//! Printing calls as they end. The ends of the journals say which calls have ended; the index, brought up to date, says
//! which of them are wanted and how they stand.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use helve::store::{EntryKind, Filter, Home, Index, StoreError, Tail};

use super::table::Printer;
use crate::failure::Failure;

const PAUSE: Duration = Duration::from_millis(200);

/// Calls that are printed in one go.
const AT_ONCE: usize = 1000;

/// Prints what there is, then what comes, until nobody reads any more or the program is ended.
pub(super) fn follow(
    home: &Home,
    index: &mut Index,
    filter: &Filter,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    // The ends first: a call that ends in between is seen twice, and printed once.
    let mut ends = Ends::now(home, filter.session.clone())?;
    index.sync()?;
    let mut rows = index.query(filter)?;
    rows.reverse();
    printer.print(&rows)?;
    let mut printed: HashSet<String> =
        rows.into_iter().filter(|row| row.ok.is_some()).map(|row| row.call).collect();
    loop {
        let calls = ends.calls_ended_since()?;
        if calls.len() < AT_ONCE {
            std::thread::sleep(PAUSE);
        }
        if calls.is_empty() {
            continue;
        }
        index.sync()?;
        printer.anew();
        for call in calls {
            if printed.remove(&call) {
                continue;
            }
            let one = Filter { call: Some(call), limit: Some(1), ..filter.clone() };
            printer.print(&index.query(&one)?)?;
        }
    }
}

/// How far the journals have been read.
struct Ends {
    home: Home,
    /// Only this session.
    session: Option<String>,
    offsets: HashMap<String, u64>,
}

impl Ends {
    /// Where the journals end now.
    fn now(home: &Home, session: Option<String>) -> Result<Ends, StoreError> {
        let mut ends = Ends { home: home.clone(), session, offsets: HashMap::new() };
        for session in ends.sessions()? {
            let end = Tail::open_at_end(home, &session).map_or(0, |tail| tail.offset());
            ends.offsets.insert(session, end);
        }
        Ok(ends)
    }

    /// A named session may come into being later.
    fn sessions(&self) -> Result<Vec<String>, StoreError> {
        let mut sessions = self.home.sessions()?;
        sessions.retain(|name| self.session.as_ref().is_none_or(|only| only == name));
        Ok(sessions)
    }

    /// The calls whose outcomes were written since the last time, at most [`AT_ONCE`].
    fn calls_ended_since(&mut self) -> Result<Vec<String>, StoreError> {
        let mut calls = Vec::new();
        for session in self.sessions()? {
            let from = self.offsets.get(&session).copied().unwrap_or(0);
            // A session without a journal is being made, or being removed.
            let mut tail = match Tail::open(&self.home, &session, from) {
                Err(StoreError::NoSuchSession(_)) => continue,
                opened => opened?,
            };
            while calls.len() < AT_ONCE {
                let Some(record) = tail.next_record()? else { break };
                calls.extend(record.call.filter(|_| record.kind == EntryKind::Outcome));
            }
            self.offsets.insert(session, tail.offset());
        }
        Ok(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve::store::{Entry, Journal, JournalOptions};
    use pretty_assertions::assert_eq;

    fn append(home: &Home, session: &str, kind: EntryKind, call: &str) {
        let journal = Journal::open(home, session, JournalOptions { fsync: false }).unwrap();
        let body = serde_json::json!({});
        journal.append(&Entry { kind, call: Some(call.to_owned()), at_us: 1, body }).unwrap();
    }

    #[test]
    fn every_outcome_is_seen_once_in_old_and_new_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        append(&home, "old", EntryKind::Outcome, "c_before");
        let mut ends = Ends::now(&home, None).unwrap();
        assert_eq!(ends.calls_ended_since().unwrap(), Vec::<String>::new());
        append(&home, "old", EntryKind::Planned, "c_1");
        append(&home, "new", EntryKind::Outcome, "c_2");
        assert_eq!(ends.calls_ended_since().unwrap(), ["c_2"]);
        append(&home, "old", EntryKind::Outcome, "c_1");
        assert_eq!(ends.calls_ended_since().unwrap(), ["c_1"]);
        assert_eq!(ends.calls_ended_since().unwrap(), Vec::<String>::new());

        let mut one = Ends::now(&home, Some("later".into())).unwrap();
        append(&home, "old", EntryKind::Outcome, "c_3");
        append(&home, "later", EntryKind::Outcome, "c_4");
        assert_eq!(one.calls_ended_since().unwrap(), ["c_4"]);
    }
}
