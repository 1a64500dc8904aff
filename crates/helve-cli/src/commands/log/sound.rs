//! Whether the journals behind what is printed are what was written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use helve::store::{Home, StoreError, Tail, verify_entries};

use crate::harmless::harmless;
use crate::ui;

/// So many bytes of journals are read for one answer. What is longer is left to `helve verify`.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// So many more in a second where the answer goes on.
const BYTES_PER_SECOND: u64 = 16 * 1024 * 1024;

/// The journals that were asked about.
pub(super) struct Journals {
    home: Home,
    bytes_left: u64,
    since: Instant,
    /// Those that were checked for what is being printed.
    known: BTreeMap<String, Option<bool>>,
    /// What was said, and of which.
    said: BTreeSet<(String, String)>,
    any_unsound: bool,
}

impl Journals {
    pub(super) fn new(home: &Home) -> Self {
        Journals {
            home: home.clone(),
            bytes_left: MOST_BYTES,
            since: Instant::now(),
            known: BTreeMap::new(),
            said: BTreeSet::new(),
            any_unsound: false,
        }
    }

    /// What is printed from here on came later than what was checked. A journal that was changed stays one.
    pub(super) fn anew(&mut self) {
        self.known.retain(|_, known| *known == Some(false));
        let passed = self.since.elapsed();
        self.since += passed;
        let more =
            u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).saturating_mul(BYTES_PER_SECOND) / 1000;
        self.bytes_left = self.bytes_left.saturating_add(more).min(MOST_BYTES);
    }

    /// Whether a session's journal is what was written; none where that was not checked. What is wrong is said at once, on
    /// standard error.
    pub(super) fn is_sound(&mut self, session: &str) -> Option<bool> {
        if let Some(known) = self.known.get(session) {
            return *known;
        }
        let sound = self.check(session).unwrap_or_else(|error| {
            let error = harmless(&error.to_string());
            self.say(session, ui::note, format!("the journal of {session} is not checked: {error}"));
            None
        });
        self.any_unsound |= sound == Some(false);
        self.known.insert(session.to_owned(), sound);
        sound
    }

    /// What the answer is worth as an exit code.
    pub(super) fn code(&self) -> u8 {
        u8::from(self.any_unsound)
    }

    /// Says something of a journal, once.
    fn say(&mut self, session: &str, as_what: impl FnOnce(&str), message: String) {
        let said = (session.to_owned(), message);
        if !self.said.contains(&said) {
            as_what(&said.1);
            self.said.insert(said);
        }
    }

    fn check(&mut self, session: &str) -> Result<Option<bool>, StoreError> {
        let length = match Tail::open(&self.home, session, 0) {
            Ok(tail) => tail.length()?,
            // Whether it should be there, the check says.
            Err(StoreError::NoSuchSession(_)) => 0,
            Err(error) => return Err(error),
        };
        let Some(left) = self.bytes_left.checked_sub(length) else {
            let message =
                format!("the journal of {session} is long and not checked here: helve verify {session}");
            self.say(session, ui::note, message);
            return Ok(None);
        };
        self.bytes_left = left;
        let report = match verify_entries(&self.home, session) {
            // Nothing was ever in it, or it was removed as a whole, with what is known of it.
            Err(StoreError::NoSuchSession(_)) => return Ok(None),
            checked => checked?,
        };
        let Some(first) = report.problems.first() else { return Ok(Some(true)) };
        let more = match report.problems.len() {
            1 => String::new(),
            count => format!("; {} more problems", count - 1),
        };
        let message = format!(
            "the journal of {session} is not what was written: {}{more}. Run `helve verify {session}`",
            harmless(&first.message)
        );
        self.say(session, ui::error, message);
        Ok(Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve::store::{Entry, EntryKind, Journal, JournalOptions};
    use pretty_assertions::assert_eq;

    /// Journals of which one, `s`, was changed after it was written.
    fn with_one_changed() -> (tempfile::TempDir, Journals) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let journal = Journal::open(&home, "s", JournalOptions { fsync: false }).unwrap();
        let body = serde_json::json!({"message": "as written"});
        journal.append(&Entry { kind: EntryKind::Outcome, call: None, at_us: 1, body }).unwrap();
        drop(journal);
        let path = home.path().join("sessions/s/journal.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("as written", "as changed")).unwrap();
        let journals = Journals::new(&home);
        (dir, journals)
    }

    #[test]
    fn a_journal_that_was_changed_stays_one_though_there_is_no_time_to_look_again() {
        let (_dir, mut journals) = with_one_changed();
        assert_eq!((journals.is_sound("s"), journals.code()), (Some(false), 1));
        journals.anew();
        journals.bytes_left = 0;
        assert_eq!((journals.is_sound("s"), journals.code()), (Some(false), 1));
    }

    #[test]
    fn each_message_about_a_journal_is_said_once() {
        let (_dir, mut journals) = with_one_changed();
        let mut said = Vec::new();
        for (session, message) in [("s", "a"), ("s", "b"), ("s", "a"), ("t", "a"), ("s", "b")] {
            journals.say(session, |text| said.push(format!("{session} {text}")), message.to_owned());
        }
        assert_eq!(said, ["s a", "s b", "t a"]);
    }
}
