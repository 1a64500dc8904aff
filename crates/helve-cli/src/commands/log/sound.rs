//! Whether the journals behind what is printed are what was written.

use std::collections::BTreeMap;

use helve::store::{Home, StoreError, Tail, verify_entries};

use crate::harmless::harmless;
use crate::ui;

/// So many bytes of journals are read for one answer. What is longer is left to `helve verify`.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// The journals that were asked about, each checked once.
pub(super) struct Journals {
    home: Home,
    bytes_left: u64,
    known: BTreeMap<String, Option<bool>>,
}

impl Journals {
    pub(super) fn new(home: &Home) -> Self {
        Journals { home: home.clone(), bytes_left: MOST_BYTES, known: BTreeMap::new() }
    }

    /// Whether a session's journal is what was written; none where that was not checked. What is wrong is said at once, on
    /// standard error.
    pub(super) fn is_sound(&mut self, session: &str) -> Option<bool> {
        if let Some(known) = self.known.get(session) {
            return *known;
        }
        let sound = self.check(session).unwrap_or_else(|error| {
            ui::note(&format!("the journal of {session} is not checked: {}", harmless(&error.to_string())));
            None
        });
        self.known.insert(session.to_owned(), sound);
        sound
    }

    /// What the answer is worth as an exit code.
    pub(super) fn code(&self) -> u8 {
        u8::from(self.known.values().any(|sound| *sound == Some(false)))
    }

    fn check(&mut self, session: &str) -> Result<Option<bool>, StoreError> {
        let length = match Tail::open(&self.home, session, 0) {
            Ok(tail) => tail.length()?,
            // Whether it should be there, the check says.
            Err(StoreError::NoSuchSession(_)) => 0,
            Err(error) => return Err(error),
        };
        let Some(left) = self.bytes_left.checked_sub(length) else {
            ui::note(&format!(
                "the journal of {session} is long and not checked here: helve verify {session}"
            ));
            return Ok(None);
        };
        self.bytes_left = left;
        let report = verify_entries(&self.home, session)?;
        let Some(first) = report.problems.first() else { return Ok(Some(true)) };
        let more = match report.problems.len() {
            1 => String::new(),
            count => format!("; {} more problems", count - 1),
        };
        ui::error(&format!(
            "the journal of {session} is not what was written: {}{more}. Run `helve verify {session}`",
            harmless(&first.message)
        ));
        Ok(Some(false))
    }
}
