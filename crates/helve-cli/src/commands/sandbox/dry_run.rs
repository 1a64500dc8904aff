//! What a command of the owner's own would change: held under an id, and shown.

use std::fmt::Write as _;
use std::path::Path;

use helve::sandbox::{Ended, Exit, Layer, LayerReport, LimitHit, hold_layer, layer_changes};
use helve::store::{Home, Undo};
use helve::{CallId, Cancel, ToolError};
use serde_json::{Value, json};

use crate::commands::diff;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::ui;

/// How many paths a person is shown.
const LINES: usize = 200;
/// How many lines of diffs.
const DIFF_LINES: usize = 400;

/// Where changes are held: opened before anything runs, so that a place that cannot be used is seen in time.
pub(super) fn holder(state: &Path) -> Result<Undo, ToolError> {
    Home::open(state).and_then(|home| Undo::open(&home)).map_err(|error| {
        // Of the kind that says nothing of the program.
        ToolError::internal(format!(
            "What the command would change could not be kept, so it was not started: {error}"
        ))
        .hint("Free the disk or correct the permissions of $HELVE_HOME, then call again.")
    })
}

/// What is held, if the command came to an end that counts.
pub(super) struct Held(Option<(CallId, LayerReport)>);

impl Held {
    /// Takes what a command changed in its layer. One that was taken back, or that passed the layer's bound, has changed
    /// nothing.
    pub(super) fn of(
        undo: &Undo,
        workspace: &Path,
        layer: &Layer,
        ended: &Ended,
        cancel: &Cancel,
    ) -> Result<Held, ToolError> {
        if ended.exit == Exit::Cancelled || matches!(ended.limit, Some(LimitHit::Layer(_))) {
            return Ok(Held(None));
        }
        hold_layer(undo, workspace, layer, cancel).map(|held| Held(Some(held)))
    }

    /// For programs.
    pub(super) fn facts(&self) -> Value {
        let Some((call, report)) = &self.0 else {
            return json!({"call": null, "changes": [], "left_out": []});
        };
        let waits = !report.changes.is_empty();
        json!({
            "call": waits.then(|| call.to_string()),
            "paths": report.changes.len(),
            "changes": layer_changes(report),
            "left_out": report.left_out.iter().map(|(path, why)| json!({"path": path, "why": why})).collect::<Vec<_>>(),
            "linked": report.linked,
        })
    }

    /// For people, on standard error: standard output is the command's own.
    pub(super) fn show(&self) -> Result<(), Failure> {
        let Some((call, report)) = &self.0 else {
            ui::note("the workspace is as it was, and nothing of what the command did is kept");
            return Ok(());
        };
        let changes = layer_changes(report);
        let mut text = String::new();
        for change in changes.iter().take(LINES) {
            let _ = writeln!(text, "{}", ui::styled(ui::STRONG, &one_line(&change.line(), 300)));
        }
        if let Some(more) = changes.len().checked_sub(LINES).filter(|more| *more > 0) {
            let _ = writeln!(text, "and {more} more");
        }
        let diffs: String =
            changes.iter().filter_map(|change| change.diff.as_deref()).map(diff::lines).collect();
        for line in diffs.lines().take(DIFF_LINES) {
            let _ = writeln!(text, "{line}");
        }
        if diffs.lines().count() > DIFF_LINES {
            let _ = writeln!(text, "(more: helve diff {call})");
        }
        for (path, why) in &report.left_out {
            let _ = writeln!(text, "left as it was: {} ({why})", one_line(path, 200));
        }
        ui::tell(&text);
        match report.changes.is_empty() {
            true => ui::note("the command would change nothing"),
            false => ui::note(&format!(
                "nothing was changed: `helve commit {call}` makes it happen, `helve discard {call}` drops it"
            )),
        }
        Ok(())
    }
}
