//! Calls of tools whose work is done at once, several at a time.
//!
//! In: calls. Out: how each of them stands. They take the stages that every call takes, without a future: each is looked at and
//! takes its place, then all are recorded as planned, then each runs, then all outcomes are recorded. So two appends are enough
//! for all that run, and no call costs what it takes to put it down and take it up again; a refusal is recorded by itself. A
//! call that has to wait after all (for an answer of the owner's, for a hook, for its turn, for a worker) goes on from where it
//! stands as any other does.

use std::sync::Arc;

use helve_core::{Call, CallResult, ToolError};
use helve_policy::HookEvent;

use super::authorize::{Authorized, Permit};
use super::execute::Notes;
use super::resolve;
use super::schedule::Place;
use super::story::{Ended, Story};
use super::{Admitted, Looked, Pipeline, Ready};
use crate::registry::Entry;
use crate::side::{CallScope, Side};

/// How a call stands that went as far as it could without waiting.
pub enum Stand {
    /// It is done.
    Done(Box<CallResult>),
    /// It has to wait.
    Waits(Waits),
}

/// A call that has to wait. One that is dropped never ran.
pub struct Waits {
    pipeline: Arc<Pipeline>,
    what: For,
}

enum For {
    /// An answer, or a hook.
    Answer(Looked),
    /// Its turn, or a worker.
    Turn(Ready),
}

/// A call on its way through.
enum Step {
    Ready(Ready),
    /// Its tool has run. Its place is kept until that is recorded.
    Ended {
        ended: Ended,
        _place: Place,
    },
    Done(Box<CallResult>),
    Waits(For),
}

/// A call that ended before its tool ran.
fn failed(story: Box<Story>, error: ToolError) -> Step {
    Step::Done(story.result(Err(error)).0)
}

impl Waits {
    /// Goes on with the call, with what is particular to it. Who calls and what led to it are known.
    pub async fn go_on(self, scope: CallScope) -> Box<CallResult> {
        let Waits { pipeline, what } = self;
        let with = |side: &Side| {
            let (caller, tainted) = (Some(side.caller.clone()), side.tainted.clone());
            let scope = CallScope { caller, tainted, ..scope };
            Arc::new(pipeline.side.within(scope, pipeline.hook.as_ref()))
        };
        let admitted = match what {
            For::Answer(Looked(mut story, look)) => {
                let side = with(&story.side);
                story.side = Arc::clone(&side);
                pipeline.admit_one(Looked(story, look), &side).await
            }
            For::Turn(mut ready) => {
                ready.story.side = with(&ready.story.side);
                Admitted::Ready(ready)
            }
        };
        match admitted {
            Admitted::Ready(ready) => Box::pin(pipeline.finish(ready)).await,
            Admitted::Refused(result) => result,
        }
    }
}

impl Pipeline {
    /// Whether calls of a tool are done at once.
    pub(crate) fn is_instant(&self, tool: &str) -> bool {
        let registry = self.registry.now();
        resolve::find(&registry, tool).is_some_and(|found| self.is_done_at_once(found.entry))
    }

    /// Whether a tool's work is, and no hook of the owner's hears of it.
    fn is_done_at_once(&self, entry: &Entry) -> bool {
        let is_deaf = |event| self.hooks.are_deaf(event, &entry.spec().name);
        entry.tool.instant().is_some() && is_deaf(HookEvent::BeforeCall) && is_deaf(HookEvent::AfterCall)
    }

    /// Takes calls as far as they go without waiting; those of other tools go no further than to their permit.
    pub(crate) fn at_once(self: &Arc<Self>, calls: Vec<Call>, side: &Arc<Side>) -> Vec<Stand> {
        // They run one after the other, so that one worker is enough for all.
        let worker = self.scheduler.worker_now();
        let steps = calls.into_iter().map(|call| self.step(call, side, worker.is_some())).collect();
        let run = |step| match step {
            Step::Ready(Ready { story, permit, place }) => {
                Step::Ended { ended: self.run(story, permit), _place: place }
            }
            step => step,
        };
        let mut steps: Vec<Step> = self.plan(steps).into_iter().map(run).collect();
        drop(worker);
        self.tell(&mut steps);
        let waits = |what| Stand::Waits(Waits { pipeline: Arc::clone(self), what });
        let stand = |step| match step {
            Step::Ready(ready) => waits(For::Turn(ready)),
            Step::Waits(what) => waits(what),
            Step::Ended { ended, .. } => Stand::Done(ended.result),
            Step::Done(result) => Stand::Done(result),
        };
        steps.into_iter().map(stand).collect()
    }

    /// Resolve to schedule, for one call.
    fn step(&self, call: Call, side: &Arc<Side>, has_worker: bool) -> Step {
        let (story, look) = self.look(call, side);
        let result = match look {
            Ok(Authorized::Permit(permit)) if self.is_done_at_once(permit.entry()) => Ok(permit),
            Err(refusal) => Err(refusal),
            look => return Step::Waits(For::Answer(Looked(story, look))),
        };
        match self.place(story, result) {
            Admitted::Ready(ready) if has_worker && ready.place.may_start() => {
                match self.authority.still_holds(&ready.permit) {
                    Ok(()) => Step::Ready(ready),
                    Err(error) => Step::Done(self.refuse(ready.story, error)),
                }
            }
            Admitted::Ready(ready) => Step::Waits(For::Turn(ready)),
            Admitted::Refused(result) => Step::Done(result),
        }
    }

    /// Records that they are about to run; what cannot be recorded does not run.
    fn plan(&self, steps: Vec<Step>) -> Vec<Step> {
        let mut entries = self.recorder.entries();
        let plan = |step| match step {
            Step::Ready(ready) => match entries.planned(self.planned(&ready.story)) {
                Ok(()) => Step::Ready(ready),
                Err(error) => failed(ready.story, error),
            },
            step => step,
        };
        let planned: Vec<Step> = steps.into_iter().map(plan).collect();
        let Err(error) = entries.write() else { return planned };
        let fail = |step| match step {
            Step::Ready(ready) => failed(ready.story, error.clone()),
            step => step,
        };
        planned.into_iter().map(fail).collect()
    }

    /// Execute and govern, for one call.
    fn run(&self, mut story: Box<Story>, permit: Box<Permit>) -> Ended {
        let (entry, sources) = (Arc::clone(permit.entry()), self.authority.sources(&permit));
        // Nobody wants to know them any more, so that the tool gets them without a copy.
        story.args = None;
        let outcome = self.executor.execute_now(&story.side, permit);
        story.tainted = self.authority.brought(sources, &self.governor);
        self.ended(story, outcome, &entry, &Notes::default(), false)
    }

    /// Records how they ended.
    fn tell(&self, steps: &mut [Step]) {
        let mut entries = self.recorder.entries();
        for step in &mut *steps {
            if let Step::Ended { ended, .. } = step {
                let told = entries.outcome(&ended.result, ended.beside(&[]));
                ended.holds_if(told);
            }
        }
        if let Err(error) = entries.write() {
            for step in steps {
                if let Step::Ended { ended, .. } = step {
                    ended.holds_if(Err(error.clone()));
                }
            }
        }
    }
}
