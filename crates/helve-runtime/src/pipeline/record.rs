//! Record: the call's whole story into the journal, planned before, outcome after. No secret enters it. Entries of calls that
//! run beside each other are written `together`.

mod bodies;
mod together;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::{
    CallId, CallResult, Content, Cost, Decision, SharedReport, ToolError, Truncated, WireError,
};
use helve_policy::HookEvent;
use helve_store::{After, Batch, EntryKind, Home, Journal, JournalOptions, StoreError};
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

/// What is written before a call runs. How both bodies are written: `bodies`.
pub(crate) struct Planned<'a> {
    pub(crate) approval: Option<&'a ApprovalNote>,
    pub(crate) args: &'a Value,
    pub(crate) call: &'a CallId,
    /// The name by which the tool was called in a dialect.
    pub(crate) called: Option<&'a str>,
    pub(crate) caller: &'a str,
    /// What the caller's program calls itself.
    pub(crate) client: Option<&'a str>,
    pub(crate) decision: Option<&'a Decision>,
    pub(crate) effects: Option<&'a EffectSummary>,
    /// What the owner's hooks said before it.
    pub(crate) hooks: &'a [HookNote],
    pub(crate) id: Option<&'a Value>,
    pub(crate) lane: Option<&'a str>,
    /// Who else wrote what led to the call.
    pub(crate) tainted: Option<&'a str>,
    pub(crate) tool: &'a str,
    /// The same for all calls of a runtime.
    pub(crate) workspace: &'a str,
}

/// What is written after it: the result as the wire has it, and what only the journal keeps.
struct Outcome<'a> {
    call: &'a CallId,
    /// What it changed in files.
    changes: &'a [FileChanged],
    content: &'a [Content],
    cost: &'a Option<Cost>,
    decision: &'a Option<Decision>,
    details: &'a Value,
    duration_us: u64,
    error: &'a Option<WireError>,
    /// What the owner's hooks said after it.
    hooks: &'a [HookNote],
    id: &'a Option<Value>,
    notes: &'a [String],
    ok: bool,
    raw: Option<&'a str>,
    sandbox: &'a Option<SharedReport>,
    tainted: &'a Option<String>,
    tool: &'a str,
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

/// What hooks said of the session.
#[derive(Serialize)]
struct Session<'a> {
    hooks: SessionHooks<'a>,
}

#[derive(Serialize)]
struct SessionHooks<'a> {
    event: HookEvent,
    said: &'a [HookNote],
}

impl Recorder {
    pub(crate) fn new(home: PathBuf, session: String, workspace: String, fsync: bool) -> Self {
        Recorder { home, session, workspace, fsync, journal: OnceLock::new(), together: Together::default() }
    }

    /// Before the call. `alone` says that no other call is under way whose entry could go with it.
    pub(crate) fn planned(&self, planned: Planned<'_>, alone: bool) -> Recorded<'_> {
        Recorded::new(self, |batch| put_planned(batch, now_us(), planned), alone)
    }

    /// After the call.
    pub(crate) fn outcome(&self, result: &CallResult, beside: Beside<'_>, alone: bool) -> Recorded<'_> {
        Recorded::new(self, |batch| put_outcome(batch, now_us(), result, beside), alone)
    }

    /// For calls that go through the pipeline together.
    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { recorder: self, batch: together::take_room(), at_us: now_us() }
    }

    /// What hooks said of the session.
    pub(crate) fn session(&self, event: HookEvent, said: &[HookNote]) -> Result<(), ToolError> {
        let mut batch = Batch::default();
        let body = Session { hooks: SessionHooks { event, said } };
        batch.put(EntryKind::Note, None, now_us(), &body).map_err(|error| unrecorded(&error))?;
        self.append(&batch, After::Rest)
    }

    /// Both at once, for a call that was refused before it could run.
    pub(crate) fn refused(&self, planned: Planned<'_>, result: &CallResult) -> Result<(), ToolError> {
        let mut batch = Batch::default();
        let at_us = now_us();
        put_planned(&mut batch, at_us, planned)?;
        put_outcome(&mut batch, at_us, result, Beside::default())?;
        self.append(&batch, After::Rest)
    }

    /// The workspace, as the journal names it.
    pub(crate) fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Gives the journal back to others after entries that were written [to stay](After::Stay).
    pub(crate) fn rest(&self) {
        if let Some(journal) = self.journal.get() {
            // What could not be done now is done by the next append, or that says why not.
            let _ = journal.rest();
        }
    }

    fn append(&self, entries: &Batch, after: After) -> Result<(), ToolError> {
        let write = || self.open()?.record_batch(entries, after).map_err(|error| unrecorded(&error));
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

/// Entries of one moment, which are written at once.
pub(crate) struct Entries<'r> {
    recorder: &'r Recorder,
    batch: Batch,
    at_us: u64,
}

impl Entries<'_> {
    /// Before a call.
    pub(crate) fn planned(&mut self, planned: Planned<'_>) -> Result<(), ToolError> {
        put_planned(&mut self.batch, self.at_us, planned)
    }

    /// After it.
    pub(crate) fn outcome(&mut self, result: &CallResult, beside: Beside<'_>) -> Result<(), ToolError> {
        put_outcome(&mut self.batch, self.at_us, result, beside)
    }

    /// Writes all of them.
    pub(crate) fn write(self, after: After) -> Result<(), ToolError> {
        let Entries { recorder, batch, .. } = self;
        let written = if batch.is_empty() { Ok(()) } else { recorder.append(&batch, after) };
        together::keep_room(batch);
        written
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

fn put_planned(batch: &mut Batch, at_us: u64, planned: Planned<'_>) -> Result<(), ToolError> {
    let (kind, call) = (EntryKind::Planned, Some(planned.call.as_str()));
    let put = batch.put_members(kind, call, at_us, |members| planned.write(members));
    put.map_err(|error| unrecorded(&error))
}

fn put_outcome(
    batch: &mut Batch,
    at_us: u64,
    result: &CallResult,
    beside: Beside<'_>,
) -> Result<(), ToolError> {
    let (kind, call) = (EntryKind::Outcome, Some(result.call.as_str()));
    let put = batch.put_members(kind, call, at_us, |members| Outcome::new(result, beside).write(members));
    put.map_err(|error| unrecorded(&error))
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
