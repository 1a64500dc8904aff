//! Record: the call's whole story into the journal, planned before, outcome after. No secret enters it.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::{CallId, CallResult, ToolError};
use helve_store::{Entry, EntryKind, Home, Journal, JournalOptions};
use serde_json::{Map, Value, json};

/// Writes the journal of one session; opens it at the first entry.
pub(crate) struct Recorder {
    home: PathBuf,
    session: String,
    fsync: bool,
    journal: OnceLock<Result<Journal, String>>,
}

/// What is written before a call runs.
pub(crate) struct Planned<'a> {
    pub(crate) call: &'a CallId,
    pub(crate) id: Option<&'a Value>,
    pub(crate) tool: &'a str,
    pub(crate) lane: Option<&'a str>,
    pub(crate) caller: &'a str,
    pub(crate) args: Value,
    pub(crate) decision: Option<Value>,
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
        self.append(&[outcome_entry(result, raw)?])
    }

    /// Both at once, for a call that was refused before it could run.
    pub(crate) fn refused(&self, planned: Planned<'_>, result: &CallResult) -> Result<(), ToolError> {
        self.append(&[planned_entry(planned), outcome_entry(result, None)?])
    }

    fn append(&self, entries: &[Entry]) -> Result<(), ToolError> {
        let open = || {
            let home = Home::open(&self.home).map_err(|e| e.to_string())?;
            Journal::open(&home, &self.session, JournalOptions { fsync: self.fsync })
                .map_err(|e| e.to_string())
        };
        let journal = self.journal.get_or_init(open).as_ref().map_err(|error| unrecorded(error))?;
        journal.append_all(entries).map(|_| ()).map_err(|error| unrecorded(&error.to_string()))
    }
}

fn unrecorded(error: &str) -> ToolError {
    ToolError::internal(format!("The journal cannot be written: {error}")).hint(
        "Nothing runs unrecorded. Free the disk or correct the permissions of $HELVE_HOME, then call again.",
    )
}

fn planned_entry(planned: Planned<'_>) -> Entry {
    let mut body = Map::new();
    body.insert("tool".into(), json!(planned.tool));
    body.insert("args".into(), planned.args);
    body.insert("caller".into(), json!(planned.caller));
    if let Some(lane) = planned.lane {
        body.insert("lane".into(), json!(lane));
    }
    if let Some(decision) = planned.decision {
        body.insert("decision".into(), decision);
    }
    if let Some(id) = planned.id {
        body.insert("id".into(), id.clone());
    }
    entry(EntryKind::Planned, planned.call, Value::Object(body))
}

fn outcome_entry(result: &CallResult, raw: Option<&str>) -> Result<Entry, ToolError> {
    let mut body = serde_json::to_value(result).map_err(|error| ToolError::internal(error.to_string()))?;
    if let (Some(raw), Some(body)) = (raw, body.as_object_mut()) {
        body.insert("raw".into(), json!(raw));
    }
    Ok(entry(EntryKind::Outcome, &result.call, body))
}

fn entry(kind: EntryKind, call: &CallId, body: Value) -> Entry {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    Entry { kind, call: Some(call.to_string()), at_us, body }
}
