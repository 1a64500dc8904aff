//! Hands calls to the pipeline, and its results to the model.

use helve::{Args, Call, CallScope};
use serde_json::json;
use tokio::sync::mpsc;

use super::{Agent, Stop};
use crate::control::Control;
use crate::events::{Ending, Event};
use crate::talk::{Message, ToolAnswer, ToolUse};

/// Notes of running calls that wait to be shown; more are dropped.
const NOTES: usize = 256;

impl Agent {
    /// Runs the calls of one answer and puts their results into the talk.
    pub(super) async fn call(
        &mut self,
        calls: Vec<ToolUse>,
        control: &Control,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), Stop> {
        watch(Event::Calls { ids: calls.iter().map(|call| call.id.clone()).collect() });
        let (to, mut notes) = mpsc::channel(NOTES);
        let (running, cancel) = control.calls();
        let scope = CallScope { cancel: Some(cancel), progress: Some(to), ..CallScope::default() };
        let batch = calls.iter().map(|call| Call {
            id: Some(json!(call.id)),
            tool: call.name.clone(),
            args: Args::Text(call.args.clone()),
        });
        let batch = self.runtime.batch_in(batch.collect(), scope);
        tokio::pin!(batch);
        let results = loop {
            tokio::select! {
                biased;
                results = &mut batch => break results,
                Some(note) = notes.recv() => watch(Event::Progress { message: note.message }),
            }
        };
        drop(running);
        let mut answers = Vec::with_capacity(calls.len());
        for (call, result) in calls.iter().zip(results) {
            answers.push(ToolAnswer::new(call, Some(result.call.clone()), result.ok, &result.content));
            watch(Event::Result { id: call.id.clone(), result: Box::new(result) });
        }
        self.messages.push(Message::Results { results: answers });
        if control.stopped().is_cancelled() {
            return Err(Ending::Cancelled.into());
        }
        Ok(())
    }
}
