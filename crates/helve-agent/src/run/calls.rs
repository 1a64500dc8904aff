//! Hands calls to the pipeline, and its results to the model. Every call gets exactly one result, in call order.

use std::time::Duration;

use helve::{Args, Call, CallResult, CallScope};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::limits::Run;
use super::{Agent, Over, cancelled};
use crate::events::Event;
use crate::guard::RoundHash;
use crate::story::Chapter;
use crate::talk::{Message, ToolAnswer, ToolUse};

/// Notes of running calls that wait to be shown; more are dropped.
const NOTES: usize = 256;
/// How long calls have to end that were taken back. The pipeline needs a few seconds at most.
const GRACE: Duration = Duration::from_secs(30);

const CUT: &str = "Error: The answer was cut by its length in the middle of this call, so it was not run.\n\n\
                   Call again with less: write long content in parts.";
const LOST: &str = "Error: The call was cancelled, and did not end in time.\n\n\
                    Look at what is there before you do it again.";

/// What is told of a call that never reaches the pipeline.
pub(super) fn not_run(call: &ToolUse, why: &str) -> ToolAnswer {
    let text = why.to_owned();
    let (id, name) = (call.id.clone(), call.name.clone());
    ToolAnswer { id, name, text, images: Vec::new(), is_error: true, call: None }
}

impl Agent {
    /// Runs the calls of one answer and puts their results into the talk; the round's hash. `was_cut` says that the answer
    /// was cut by its length.
    pub(super) async fn call(
        &mut self,
        calls: &[ToolUse],
        was_cut: bool,
        run: &mut Run<'_>,
    ) -> Result<blake3::Hash, Over> {
        let shown = match self.messages.last() {
            Some(Message::Model(said)) => said.calls.clone(),
            _ => calls.to_vec(),
        };
        let mut results: Vec<Option<ToolAnswer>> = calls.iter().map(|_| None).collect();
        let mut places = Vec::with_capacity(calls.len());
        for (place, call) in calls.iter().enumerate() {
            let cut = was_cut && place + 1 == calls.len();
            match self.refused(call, cut, places.len()) {
                Some(why) => results[place] = shown.get(place).map(|shown| not_run(shown, &why)),
                None => places.push(place),
            }
        }
        let refused: Vec<ToolAnswer> = results.iter().flatten().cloned().collect();
        for answer in &refused {
            run.tell(Event::NotRun { id: answer.id.clone(), text: answer.text.clone() });
        }
        if !refused.is_empty() {
            self.record(&[Chapter::NotRun { results: refused }])?;
        }
        let wanted = places.iter().map(|place| (&calls[*place], shown.get(*place).unwrap_or(&calls[*place])));
        let done = self.batch(wanted.collect(), run).await;
        let mut lost = Vec::new();
        for (place, done) in places.into_iter().zip(done) {
            results[place] = Some(match done {
                Some(Done { answer, tainted }) => {
                    self.tainted = self.tainted.take().or(tainted);
                    answer
                }
                None => {
                    let answer = not_run(shown.get(place).unwrap_or(&calls[place]), LOST);
                    lost.push(answer.clone());
                    answer
                }
            });
        }
        let results: Vec<ToolAnswer> = results.into_iter().flatten().collect();
        if !lost.is_empty() {
            self.record(&[Chapter::NotRun { results: lost }])?;
        }
        let mut round = RoundHash::default();
        for (call, result) in calls.iter().zip(&results) {
            round.add(&call.name, &call.args, &result.text, result.call.as_ref().map(|call| call.as_str()));
        }
        self.push(Message::Results { results });
        if run.is_stopped() {
            return Err(cancelled());
        }
        Ok(round.done())
    }

    /// Answers the calls of the latest answer without running any.
    pub(super) fn answer_without_running(&mut self, results: Vec<ToolAnswer>) -> Result<(), Over> {
        self.record(&[Chapter::NotRun { results: results.clone() }])?;
        self.push(Message::Results { results });
        Ok(())
    }

    /// Why a call is not handed to the pipeline at all; none if it is. `before` so many calls of the answer were.
    fn refused(&self, call: &ToolUse, cut: bool, before: usize) -> Option<String> {
        if cut && serde_json::from_str::<Value>(&call.args).is_err() {
            return Some(CUT.to_owned());
        }
        let hidden = self.runtime.specs().any(|spec| {
            !self.toolset.shows(&spec) && (spec.name == call.name || spec.aliases.contains(&call.name))
        });
        if hidden {
            let toolset = self.toolset.name();
            return Some(format!(
                "Error: The tool is not in the toolset '{toolset}' that the owner chose.\n\nUse the tools that you are shown."
            ));
        }
        let most = self.runtime.policy().limits().batch_calls;
        (before as u64 >= most).then(|| {
            format!("Error: One answer has at most {most} calls, so this one was not run.\n\nCall it in your next answer.")
        })
    }

    /// What came of these calls, each as the pipeline gets it and as the talk has it, in their order; none for one that was
    /// taken back and did not end. Each is told when it ends.
    async fn batch(&self, calls: Vec<(&ToolUse, &ToolUse)>, run: &mut Run<'_>) -> Vec<Option<Done>> {
        let mut done: Vec<Option<Done>> = calls.iter().map(|_| None).collect();
        if calls.is_empty() {
            return done;
        }
        let (to, mut notes) = mpsc::channel(NOTES);
        // No more results come than there are calls.
        let (ends, mut ended) = mpsc::unbounded_channel();
        let control = run.control.clone();
        let (_running, cancel) = control.calls();
        run.tell(Event::Calls { ids: calls.iter().map(|(call, _)| call.id.clone()).collect() });
        let scope = CallScope {
            cancel: Some(cancel.clone()),
            progress: Some(to),
            asked: Some(run.asked.clone()),
            tainted: self.tainted.clone(),
            ..CallScope::default()
        };
        let call = |call: &ToolUse| Call {
            id: Some(json!(call.id)),
            tool: call.name.clone(),
            args: Args::Text(call.args.clone()),
        };
        let wanted = calls.iter().map(|(wanted, _)| call(wanted)).collect();
        let batch = self.runtime.batch_each(wanted, scope, move |place, result| {
            let _ = ends.send((place, result));
        });
        tokio::pin!(batch);
        let (timer, pace) = (run.timer(false), run.pace());
        let given_up = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = timer.over() => control.stop_tool(),
            }
            tokio::time::sleep(GRACE).await;
        };
        tokio::pin!(given_up);
        let mut take = |(place, result): (usize, CallResult), run: &mut Run<'_>| {
            let (call, shown) = calls[place];
            let answer = ToolAnswer::new(shown, Some(result.call.clone()), result.ok, &result.content);
            done[place] = Some(Done { answer, tainted: result.tainted.clone() });
            run.tell(Event::Result { id: call.id.clone(), result: Box::new(result) });
        };
        loop {
            // What calls do, and what is recorded of it, does not wait for whoever listens.
            let full = pace.is_full();
            tokio::select! {
                biased;
                () = &mut batch => break,
                // What a call said goes before what came of it.
                Some(note) = notes.recv(), if !full => run.tell(Event::Progress { message: note.message }),
                Some(end) = ended.recv(), if !full => take(end, run),
                () = pace.room(), if full => {}
                () = &mut given_up => break,
            }
        }
        while let Ok(note) = notes.try_recv() {
            run.tell(Event::Progress { message: note.message });
        }
        while let Ok(end) = ended.try_recv() {
            take(end, run);
        }
        done
    }
}

/// What came of a call.
struct Done {
    answer: ToolAnswer,
    /// Who else wrote it.
    tainted: Option<String>,
}
