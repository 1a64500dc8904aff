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
        let News { calls, cut } = ends.news()?;
        if calls.len() < AT_ONCE {
            std::thread::sleep(PAUSE);
        }
        if calls.is_empty() && cut.is_empty() {
            continue;
        }
        index.sync()?;
        printer.anew();
        for call in calls {
            if printed.remove(&call) || !is_wanted(&call, filter) {
                continue;
            }
            let one = Filter { call: Some(call), limit: Some(1), ..filter.clone() };
            printer.print(&index.query(&one)?)?;
        }
        cut.iter().for_each(|session| printer.ask(session));
    }
}

/// Whether a call begins as the filter says, which cannot be asked of the index together with its whole id.
fn is_wanted(call: &str, filter: &Filter) -> bool {
    filter.call.as_ref().is_none_or(|begin| call.starts_with(begin))
}

/// What has happened since the last time.
#[derive(Debug, Default, PartialEq)]
struct News {
    /// The calls whose outcomes were written, at most [`AT_ONCE`].
    calls: Vec<String>,
    /// The sessions whose journals have become shorter, or are gone.
    cut: Vec<String>,
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

    /// Those that are there, and those that were. A named session may come into being later.
    fn sessions(&self) -> Result<Vec<String>, StoreError> {
        let mut sessions = self.home.sessions()?;
        sessions.retain(|name| self.session.as_ref().is_none_or(|only| only == name));
        sessions.extend(self.offsets.keys().cloned());
        sessions.sort_unstable();
        sessions.dedup();
        Ok(sessions)
    }

    fn news(&mut self) -> Result<News, StoreError> {
        let mut news = News::default();
        for session in self.sessions()? {
            let from = self.offsets.get(&session).copied().unwrap_or(0);
            let mut tail = match Tail::open(&self.home, &session, from) {
                // A session without a journal is being made, or was removed.
                Err(StoreError::NoSuchSession(_)) => {
                    self.offsets.remove(&session);
                    news.cut.extend((from > 0).then_some(session));
                    continue;
                }
                // What is left was told when it came.
                Ok(tail) if tail.length()? < from => {
                    news.cut.push(session.clone());
                    Tail::open_at_end(&self.home, &session)?
                }
                opened => opened?,
            };
            while news.calls.len() < AT_ONCE {
                let Some(record) = tail.next_record()? else { break };
                news.calls.extend(record.call.filter(|_| record.kind == EntryKind::Outcome));
            }
            self.offsets.insert(session, tail.offset());
        }
        Ok(news)
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

    /// The calls alone: nothing was cut.
    fn ended(ends: &mut Ends) -> Vec<String> {
        let news = ends.news().unwrap();
        assert_eq!(news.cut, Vec::<String>::new());
        news.calls
    }

    #[test]
    fn every_outcome_is_seen_once_in_old_and_new_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        append(&home, "old", EntryKind::Outcome, "c_before");
        let mut ends = Ends::now(&home, None).unwrap();
        assert_eq!(ended(&mut ends), Vec::<String>::new());
        append(&home, "old", EntryKind::Planned, "c_1");
        append(&home, "new", EntryKind::Outcome, "c_2");
        assert_eq!(ended(&mut ends), ["c_2"]);
        append(&home, "old", EntryKind::Outcome, "c_1");
        assert_eq!(ended(&mut ends), ["c_1"]);
        assert_eq!(ended(&mut ends), Vec::<String>::new());

        let mut one = Ends::now(&home, Some("later".into())).unwrap();
        append(&home, "old", EntryKind::Outcome, "c_3");
        append(&home, "later", EntryKind::Outcome, "c_4");
        assert_eq!(ended(&mut one), ["c_4"]);
    }

    #[test]
    fn a_journal_that_has_become_shorter_is_told_and_followed_from_its_new_end() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        append(&home, "s", EntryKind::Outcome, "c_1");
        let path = home.path().join("sessions/s/journal.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        append(&home, "s", EntryKind::Outcome, "c_2");
        let second = std::fs::read_to_string(&path).unwrap().split_off(whole.len());
        let mut ends = Ends::now(&home, None).unwrap();
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(ends.news().unwrap(), News { calls: vec![], cut: vec!["s".to_owned()] });
        assert_eq!(ends.news().unwrap(), News::default());
        std::fs::write(&path, whole + &second).unwrap();
        assert_eq!(ended(&mut ends), ["c_2"]);
        std::fs::remove_dir_all(home.path().join("sessions/s")).unwrap();
        assert_eq!(ends.news().unwrap(), News { calls: vec![], cut: vec!["s".to_owned()] });
        assert_eq!(ends.news().unwrap(), News::default());
    }

    #[test]
    fn a_call_is_wanted_if_it_begins_so() {
        let begins = |begin: Option<&str>| Filter { call: begin.map(str::to_owned), ..Filter::default() };
        for (begin, expected) in
            [(None, true), (Some("c_1"), true), (Some("c_12"), true), (Some("c_2"), false)]
        {
            assert_eq!(is_wanted("c_12", &begins(begin)), expected, "{begin:?}");
        }
    }
}
