//! What is known of a call on its way, and when it has run.

use std::sync::Arc;
use std::time::Instant;

use helve_core::{CallId, CallResult, Content, Decision, Lane, Output, SharedReport, ToolError, WireError};
use serde_json::Value;

use crate::approval::EffectSummary;
use crate::approval::note::ApprovalNote;
use crate::call_id;
use crate::files::FileChanged;
use crate::hooks::HookNote;
use crate::side::Side;

use super::record::Beside;

/// What is known of a call that has run.
pub(super) struct Ended {
    pub(super) result: Box<CallResult>,
    /// The unshaped answer, which only the journal keeps.
    pub(super) raw: Option<String>,
    pub(super) changed: Vec<FileChanged>,
    /// The story, where hooks hear it.
    pub(super) heard: Option<Box<Story>>,
}

impl Ended {
    /// What only the journal keeps of it.
    pub(super) fn beside<'e>(&'e self, hooks: &'e [HookNote]) -> Beside<'e> {
        Beside { raw: self.raw.as_deref(), changes: &self.changed, hooks }
    }

    /// What could not be recorded is no success.
    pub(super) fn holds_if(&mut self, recorded: Result<(), ToolError>) {
        if let Err(error) = recorded {
            self.result.ok = false;
            self.result.error = Some(WireError::from(error));
        }
    }
}

/// What is known of a call on its way.
#[derive(Clone)]
pub(super) struct Story {
    pub(super) id: Option<Value>,
    pub(super) call: CallId,
    pub(super) tool: String,
    /// The dialect's name, if the tool was called by that.
    pub(super) called: Option<String>,
    pub(super) lane: Option<Lane>,
    pub(super) side: Arc<Side>,
    /// Who else may have written the output.
    pub(super) tainted: Option<String>,
    pub(super) started: Instant,
    pub(super) notes: Vec<String>,
    pub(super) decision: Option<Decision>,
    /// What the owner's hooks said before it, for the journal, and what of that the reader of the result is told.
    pub(super) hooks: Vec<HookNote>,
    pub(super) said: Vec<String>,
    /// What the commands of the call do.
    pub(super) effects: Option<Box<EffectSummary>>,
    /// What the owner answered, where that was needed.
    pub(super) approval: Option<Box<ApprovalNote>>,
    pub(super) sandbox: Option<SharedReport>,
    /// The arguments as the journal may show them, while somebody may want to know.
    pub(super) args: Option<Arc<Value>>,
}

impl Story {
    pub(super) fn new(id: Option<Value>, tool: String, side: &Arc<Side>) -> Box<Self> {
        Box::new(Story {
            id,
            call: call_id::fresh(),
            tool,
            called: None,
            lane: None,
            side: Arc::clone(side),
            tainted: None,
            started: Instant::now(),
            notes: Vec::new(),
            decision: None,
            hooks: Vec::new(),
            said: Vec::new(),
            effects: None,
            approval: None,
            sandbox: None,
            args: None,
        })
    }

    /// The result, and the unshaped answer that only the journal keeps.
    pub(super) fn result(
        self: Box<Self>,
        outcome: Result<Output, ToolError>,
    ) -> (Box<CallResult>, Option<String>) {
        let (ok, output, error) = match outcome {
            Ok(output) => (true, output, None),
            Err(mut error) => {
                let output = error.output.take().map_or_else(|| explained(&error), |output| *output);
                (false, output, Some(WireError::from(error)))
            }
        };
        let mut content = output.content;
        content.extend(self.said.into_iter().map(Content::text));
        let result = Box::new(CallResult {
            id: self.id,
            call: self.call,
            tool: self.tool,
            ok,
            content,
            details: output.details,
            error,
            notes: self.notes,
            decision: self.decision,
            sandbox: self.sandbox,
            tainted: self.tainted,
            truncated: output.truncated,
            cost: output.cost,
            duration_us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        });
        (result, output.raw)
    }
}

/// An error as the model reads it.
fn explained(error: &ToolError) -> Output {
    let mut text = error.message.clone();
    if !text.starts_with("Error:") {
        text.insert_str(0, "Error: ");
    }
    if let Some(hint) = &error.hint {
        text.push_str("\n\n");
        text.push_str(hint);
    }
    Output { content: vec![Content::text(text)], ..Output::default() }
}
