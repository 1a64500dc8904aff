//! Record: the call's whole story into the journal, planned before, outcome after. No secret enters it. Entries of calls that
//! run beside each other are written `together`.

mod together;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::{
    CallId, CallResult, Content, Cost, Decision, SandboxReport, ToolError, Truncated, WireError,
};
use helve_policy::HookEvent;
use helve_store::{Entry, EntryKind, Home, Journal, JournalOptions, Prepared, StoreError};
use serde::Serialize;

use serde_json::Value;

use crate::approval::EffectSummary;
use crate::approval::note::ApprovalNote;
use crate::files::FileChanged;
use crate::hooks::HookNote;
use crate::off_async;
pub(crate) use together::Recorded;
use together::Together;

/// Writes the journal of one session; opens it at the first entry.
pub(crate) struct Recorder {
    home: PathBuf,
    session: String,
    workspace: String,
    fsync: bool,
    journal: OnceLock<Journal>,
    together: Together,
}

/// What is written before a call runs. The members of both bodies stand in the order of canonical JSON, so that writing
/// them needs no sorting.
#[derive(Serialize)]
pub(crate) struct Planned<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<&'a ApprovalNote>,
    pub(crate) args: &'a Value,
    #[serde(skip)]
    pub(crate) call: &'a CallId,
    /// The name by which the tool was called in a dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) called: Option<&'a str>,
    pub(crate) caller: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<&'a Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effects: Option<&'a EffectSummary>,
    /// What the owner's hooks said before it.
    #[serde(skip_serializing_if = "<[HookNote]>::is_empty")]
    pub(crate) hooks: &'a [HookNote],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lane: Option<&'a str>,
    /// Who else wrote what led to the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tainted: Option<&'a str>,
    pub(crate) tool: &'a str,
    /// The same for all calls of a runtime.
    pub(crate) workspace: &'a str,
}

/// What is written after it: the result as the wire has it, and what only the journal keeps.
#[derive(Serialize)]
struct Outcome<'a> {
    call: &'a CallId,
    /// What it changed in files.
    #[serde(skip_serializing_if = "<[FileChanged]>::is_empty")]
    changes: &'a [FileChanged],
    content: &'a [Content],
    cost: &'a Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: &'a Option<Decision>,
    #[serde(skip_serializing_if = "Value::is_null")]
    details: &'a Value,
    duration_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: &'a Option<WireError>,
    /// What the owner's hooks said after it.
    #[serde(skip_serializing_if = "<[HookNote]>::is_empty")]
    hooks: &'a [HookNote],
    #[serde(skip_serializing_if = "Option::is_none")]
    id: &'a Option<Value>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: &'a Option<SandboxReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tainted: &'a Option<String>,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: &'a Option<Truncated>,
}

/// What only the journal keeps of an outcome.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// The unshaped answer.
    pub(crate) raw: Option<&'a str>,
    /// What changed in files.
    pub(crate) changes: &'a [FileChanged],
    /// What hooks said.
    pub(crate) hooks: &'a [HookNote],
}

impl<'a> Outcome<'a> {
    fn new(result: &'a CallResult, beside: Beside<'a>) -> Self {
        let Beside { raw, changes, hooks } = beside;
        // Taken apart by name, so that a new field of the result cannot be forgotten here.
        let CallResult {
            id,
            call,
            tool,
            ok,
            content,
            details,
            error,
            notes,
            decision,
            sandbox,
            tainted,
            truncated,
            cost,
            duration_us,
        } = result;
        Outcome {
            call,
            changes,
            content,
            cost,
            decision,
            details,
            duration_us: *duration_us,
            error,
            hooks,
            id,
            notes,
            ok: *ok,
            raw,
            sandbox,
            tainted,
            tool,
            truncated,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Planned(Planned<'a>),
    Outcome(Outcome<'a>),
    Session { hooks: SessionHooks<'a> },
}

/// What hooks said of the session.
#[derive(Serialize)]
struct SessionHooks<'a> {
    event: HookEvent,
    said: &'a [HookNote],
}

impl Recorder {
    pub(crate) fn new(home: PathBuf, session: String, workspace: &Path, fsync: bool) -> Self {
        let workspace = workspace.to_string_lossy().into_owned();
        Recorder { home, session, workspace, fsync, journal: OnceLock::new(), together: Together::default() }
    }

    /// Before the call. `alone` says that no other call is under way whose entry could go with it.
    pub(crate) fn planned(&self, planned: Planned<'_>, alone: bool) -> Recorded<'_> {
        Recorded::new(self, prepared(&planned_entry(planned)), alone)
    }

    /// After the call.
    pub(crate) fn outcome(&self, result: &CallResult, beside: Beside<'_>, alone: bool) -> Recorded<'_> {
        Recorded::new(self, prepared(&outcome_entry(result, beside)), alone)
    }

    /// What hooks said of the session.
    pub(crate) fn session(&self, event: HookEvent, said: &[HookNote]) -> Result<(), ToolError> {
        let body = Body::Session { hooks: SessionHooks { event, said } };
        self.append(vec![prepared(&entry(EntryKind::Note, None, body))?])
    }

    /// Both at once, for a call that was refused before it could run.
    pub(crate) fn refused(&self, planned: Planned<'_>, result: &CallResult) -> Result<(), ToolError> {
        let entries = [planned_entry(planned), outcome_entry(result, Beside::default())];
        self.append(entries.iter().map(prepared).collect::<Result<_, _>>()?)
    }

    /// The workspace, as the journal names it.
    pub(crate) fn workspace(&self) -> &str {
        &self.workspace
    }

    fn append(&self, entries: Vec<Prepared>) -> Result<(), ToolError> {
        let write = || self.open()?.record_prepared(entries).map_err(|error| unrecorded(&error));
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
        let journal = journal.map_err(|error| unrecorded(&error))?;
        Ok(self.journal.get_or_init(|| journal))
    }
}

fn unrecorded(error: &StoreError) -> ToolError {
    let remedy = match error {
        // These say themselves what to do.
        StoreError::Damaged { .. } | StoreError::Gone { .. } => "",
        _ => " Free the disk or correct the permissions of $HELVE_HOME, then call again.",
    };
    ToolError::internal(format!("The journal cannot be written: {error}"))
        .hint(format!("Nothing runs unrecorded.{remedy}"))
}

fn prepared(entry: &Entry<Body<'_>>) -> Result<Prepared, ToolError> {
    Prepared::new(entry).map_err(|error| unrecorded(&error))
}

fn planned_entry(planned: Planned<'_>) -> Entry<Body<'_>> {
    entry(EntryKind::Planned, Some(planned.call), Body::Planned(planned))
}

fn outcome_entry<'a>(result: &'a CallResult, beside: Beside<'a>) -> Entry<Body<'a>> {
    entry(EntryKind::Outcome, Some(&result.call), Body::Outcome(Outcome::new(result, beside)))
}

fn entry<'a>(kind: EntryKind, call: Option<&CallId>, body: Body<'a>) -> Entry<Body<'a>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    Entry { kind, call: call.map(|call| call.as_str().to_owned()), at_us, body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::ErrorKind;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn the_journal_has_the_result_as_the_wire_has_it() {
        let full = CallResult {
            id: Some(json!(1)),
            call: CallId::from_parts(1, 2),
            tool: "t".into(),
            ok: false,
            content: vec![Content::text("x")],
            details: json!({"b": 1, "a": 2}),
            error: Some(WireError {
                kind: ErrorKind::ToolFailed,
                message: "m".into(),
                hint: Some("h".into()),
                problems: Vec::new(),
            }),
            notes: vec!["n".into()],
            decision: Some(Decision::allow("r")),
            sandbox: Some(SandboxReport::default()),
            tainted: Some("mcp:a".into()),
            truncated: Some(Truncated::default()),
            cost: Some(Cost { micros: 1, currency: "EUR".into() }),
            duration_us: 3,
        };
        let bare = CallResult {
            id: None,
            details: Value::Null,
            error: None,
            notes: Vec::new(),
            decision: None,
            sandbox: None,
            tainted: None,
            truncated: None,
            cost: None,
            ..full.clone()
        };
        for result in [full, bare] {
            let entry = outcome_entry(&result, Beside::default());
            assert_eq!(
                helve_store::canonical_json(&entry.body).unwrap(),
                helve_store::canonical_json(&result).unwrap()
            );
            let written = serde_json::to_string(&entry.body).unwrap();
            let keys: Vec<String> = serde_json::from_str::<serde_json::Map<String, Value>>(&written)
                .unwrap()
                .keys()
                .cloned()
                .collect();
            assert!(keys.is_sorted(), "{keys:?}");
        }
    }
}
