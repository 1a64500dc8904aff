//! The owner's word on what a command would change: it is committed, all of it or nothing, or discarded.
//!
//! Both are the owner's own acts and no tools that a model can call; they take the pipeline's way from their place in the line
//! on, so that they are ordered and recorded, and a commit can be undone.

use std::collections::BTreeMap;

use helve_core::files::{Files, Turns};
use helve_core::harmless::shown;
use helve_core::{Access, BoxFuture, Context, ErrorKind, Lane, Output, Resource, Tool, ToolError, ToolSpec};
use helve_store::{FileState, Undo, UndoChange, UndoRecord, UndoStage};
use serde_json::{Value, json};

use super::git_index;
use super::layer::{forwards, is_there};
use super::records::unread;

/// The calls of a workspace whose changes wait.
pub(crate) fn all(undo: &Undo, workspace: &str) -> Result<Vec<UndoRecord>, ToolError> {
    let mut pending = undo.pending().map_err(|error| unread(&error))?;
    pending.retain(|record| record.workspace == workspace);
    Ok(pending)
}

/// The changes of one call that wait.
pub(crate) fn one(undo: &Undo, call: &str, workspace: &str) -> Result<UndoRecord, ToolError> {
    let found = undo.get(call).map_err(|error| unread(&error))?;
    let hint = "`helve commit --list` shows the calls whose changes wait here.";
    match found {
        Some((record, UndoStage::Pending)) if record.workspace == workspace => {
            undo.unfold(call).map_err(|error| unread(&error))?;
            Ok(record)
        }
        Some((record, UndoStage::Pending)) => {
            let message =
                format!("The call {call} would change files of {}, not of {workspace}.", record.workspace);
            let hint = format!("Name that workspace: --workspace {}", record.workspace);
            Err(ToolError::new(ErrorKind::NotFound, message).hint(hint))
        }
        Some(_) => {
            Err(ToolError::not_found(format!("What the call {call} changed is in the workspace already."))
                .hint(format!("`helve undo {call}` takes it back. {hint}")))
        }
        None => Err(ToolError::not_found(format!(
            "No changes of the call {call} wait: it changed nothing, or they were committed or discarded."
        ))
        .hint(hint)),
    }
}

/// Puts what a call would change into the workspace.
pub(crate) struct Commit {
    spec: ToolSpec,
    record: UndoRecord,
    undo: Undo,
}

impl Commit {
    pub(crate) fn new(record: UndoRecord, undo: Undo) -> Commit {
        let spec =
            ToolSpec::new("commit", "Puts what a command would change into the workspace.", json!({"type": "object"}))
                .lane(Lane::Files)
                .rate_limit(None)
                .output_schema(json!({
                    "type": "object",
                    "properties": {"commits": {"type": "string"}, "changed": {"type": "array", "items": {"type": "string"}}},
                    "required": ["commits", "changed"],
                }));
        Commit { spec, record, undo }
    }

    async fn commit(&self, ctx: &Context) -> Result<Output, ToolError> {
        let call = &self.record.call;
        let turned = match forwards(&self.record, &self.undo) {
            Ok(turns) => {
                let files = ctx.files()?;
                files.turn(self.after_looks(files, turns).await).await
            }
            Err(error) => Err(error),
        };
        let turned = turned.map_err(|error| match error.kind {
            ErrorKind::Conflict => error.hint(format!(
                "What {call} would change no longer fits. `helve discard {call}` drops it; run the command again then."
            )),
            _ => error,
        })?;
        // It is done, whatever becomes of the record: a second commit finds everything as it is to be.
        let _ = self.undo.release(call);
        let mut text = match turned.changed.len() {
            0 => format!("Everything is already as {call} would make it."),
            count => format!("Committed {call}: {count} paths."),
        };
        let done: BTreeMap<&str, &str> = self.record.changes.iter().map(done).collect();
        for path in &turned.changed {
            let done = done.get(path.as_str()).copied().unwrap_or("changed");
            text.push_str(&format!("\n{done} {}", shown(path)));
        }
        Ok(Output::text(text).with_details(json!({"commits": call, "changed": turned.changed})))
    }

    /// The turns, from what is there where git wrote its index anew for a mere look.
    async fn after_looks(&self, files: &dyn Files, mut turns: Turns) -> Turns {
        for (turn, change) in turns.turns.iter_mut().zip(&self.record.changes) {
            if !change.was_kept {
                continue;
            }
            // What cannot be seen is a conflict in its turn.
            let Ok(now) = files.now(&turn.path).await else { continue };
            let (path, max) = (&turn.path, git_index::WAITING_BYTES);
            if !is_there(&now, &change.was)
                && git_index::was_looked_at(files, &self.undo, path, (&change.was, &now), max).await
            {
                turn.from = now;
            }
        }
        turns
    }
}

/// What becomes of a path, in a word.
fn done(change: &UndoChange) -> (&str, &str) {
    let word = match (&change.was, &change.is) {
        (FileState::Absent, _) => "added",
        (_, FileState::Absent) => "deleted",
        _ => "changed",
    };
    (&change.path, word)
}

impl Tool for Commit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _args: &Value) -> Access {
        let paths = self.record.changes.iter().map(|change| Resource::Path(change.path.clone()));
        Access { writes: paths.collect(), ..Access::default() }
    }

    fn run<'a>(&'a self, _args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(self.commit(ctx))
    }
}

/// Drops what a call would change.
pub(crate) struct Discard {
    spec: ToolSpec,
    record: UndoRecord,
    undo: Undo,
}

impl Discard {
    pub(crate) fn new(record: UndoRecord, undo: Undo) -> Discard {
        let spec = ToolSpec::new("discard", "Drops what a command would change.", json!({"type": "object"}))
            .lane(Lane::Files)
            .rate_limit(None)
            .output_schema(json!({
                "type": "object",
                "properties": {"discards": {"type": "string"}, "paths": {"type": "integer"}},
                "required": ["discards", "paths"],
            }));
        Discard { spec, record, undo }
    }
}

impl Tool for Discard {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _args: &Value) -> Access {
        Access::default()
    }

    fn run<'a>(&'a self, _args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let (call, paths) = (&self.record.call, self.record.changes.len());
            self.undo.release(call).map_err(|error| ToolError::failed(error.to_string()))?;
            let text =
                format!("Discarded what {call} would change: {paths} paths. The workspace is as it was.");
            Ok(Output::text(text).with_details(json!({"discards": call, "paths": paths})))
        })
    }
}
