//! Record: the call's whole story into the journal, planned before, outcome after. No secret enters it.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::{CallId, CallResult, Decision, ToolError};
use helve_store::{Entry, EntryKind, Home, Journal, JournalOptions};
use serde::Serialize;

use serde_json::Value;

use crate::off_async;

/// Writes the journal of one session; opens it at the first entry.
pub(crate) struct Recorder {
    home: PathBuf,
    session: String,
    fsync: bool,
    journal: OnceLock<Journal>,
}

/// What is written before a call runs.
#[derive(Clone, Serialize)]
pub(crate) struct Planned<'a> {
    #[serde(skip)]
    pub(crate) call: &'a CallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<&'a Value>,
    pub(crate) tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lane: Option<&'a str>,
    pub(crate) caller: &'a str,
    pub(crate) args: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<&'a Decision>,
}

/// What is written after it: the result as the wire has it, and what only the journal keeps.
#[derive(Serialize)]
struct WithRaw<'a> {
    #[serde(flatten)]
    result: &'a CallResult,
    raw: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Planned(Planned<'a>),
    Outcome(&'a CallResult),
    WithRaw(WithRaw<'a>),
}

impl Recorder {
    pub(crate) fn new(home: PathBuf, session: String, fsync: bool) -> Self {
        Recorder { home, session, fsync, journal: OnceLock::new() }
    }

    /// Before the call.
    pub(crate) fn planned(&self, planned: Planned<'_>) -> Result<(), ToolError> {
        self.append(&[planned_entry(planned)])
    }

    /// After the call.
    pub(crate) fn outcome(&self, result: &CallResult, raw: Option<&str>) -> Result<(), ToolError> {
        self.append(&[outcome_entry(result, raw)])
    }

    /// Both at once, for a call that was refused before it could run.
    pub(crate) fn refused(&self, planned: Planned<'_>, result: &CallResult) -> Result<(), ToolError> {
        self.append(&[planned_entry(planned), outcome_entry(result, None)])
    }

    fn append(&self, entries: &[Entry<Body<'_>>]) -> Result<(), ToolError> {
        let write =
            || self.open()?.append_all(entries).map(|_| ()).map_err(|error| unrecorded(&error.to_string()));
        if self.fsync { off_async(write) } else { write() }
    }

    /// The journal; only success is remembered, so that a call works again when its cause is gone.
    fn open(&self) -> Result<&Journal, ToolError> {
        if let Some(journal) = self.journal.get() {
            return Ok(journal);
        }
        let home = Home::open(&self.home);
        let journal =
            home.and_then(|home| Journal::open(&home, &self.session, JournalOptions { fsync: self.fsync }));
        let journal = journal.map_err(|error| unrecorded(&error.to_string()))?;
        Ok(self.journal.get_or_init(|| journal))
    }
}

fn unrecorded(error: &str) -> ToolError {
    ToolError::internal(format!("The journal cannot be written: {error}")).hint(
        "Nothing runs unrecorded. Free the disk or correct the permissions of $HELVE_HOME, then call again.",
    )
}

fn planned_entry(planned: Planned<'_>) -> Entry<Body<'_>> {
    entry(EntryKind::Planned, planned.call, Body::Planned(planned.clone()))
}

fn outcome_entry<'a>(result: &'a CallResult, raw: Option<&'a str>) -> Entry<Body<'a>> {
    let body = match raw {
        None => Body::Outcome(result),
        Some(raw) => Body::WithRaw(WithRaw { result, raw }),
    };
    entry(EntryKind::Outcome, &result.call, body)
}

fn entry<'a>(kind: EntryKind, call: &CallId, body: Body<'a>) -> Entry<Body<'a>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    Entry { kind, call: Some(call.to_string()), at_us, body }
}
