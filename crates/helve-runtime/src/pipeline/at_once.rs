//! Calls of tools whose work is done at once, several at a time.
//!
//! In: calls. Out: how each of them stands. They take the stages that every call takes; all of them take one before any takes
//! the next, and nothing is waited for in between. So the entries of all are written at once, and no call costs what it takes
//! to put it down and take it up again. A call that has to wait after all (for an answer of the owner's, for its turn, for a
//! worker) goes on from where it stands as any other does.

use std::sync::Arc;

use helve_core::{Call, CallResult, ToolError};
use helve_policy::HookEvent;

use super::authorize::{Authorized, Permit};
use super::execute::Notes;
use super::resolve::{self, Found};
use super::schedule::Place;
use super::story::{Ended, Story};
use super::{Admitted, Looked, Pipeline, Ready};
use crate::side::Side;

/// How a call stands that went as far as it could without waiting.
pub enum Stand {
    /// It is done.
    Done(Box<CallResult>),
    /// It has to wait.
    Waits(Waits),
}

/// A call that has to wait. One that is dropped never ran.
pub struct Waits(For);

enum For {
    /// An answer.
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
    Stands(Stand),
}

/// A call that ended before its tool ran.
fn failed(story: Box<Story>, error: ToolError) -> Step {
    Step::Stands(Stand::Done(story.result(Err(error)).0))
}

impl Pipeline {
    /// Whether calls of a tool are done at once: its work is, and no hook of the owner's hears of it.
    pub(crate) fn is_instant(&self, tool: &str) -> bool {
        let registry = self.registry.now();
        let Some(Found { entry, .. }) = resolve::find(&registry, tool) else { return false };
        let name = &entry.spec().name;
        let is_deaf = |event| self.hooks.are_deaf(event, name);
        entry.tool.instant().is_some() && is_deaf(HookEvent::BeforeCall) && is_deaf(HookEvent::AfterCall)
    }

    /// Takes calls of tools that are done at once as far as they go without waiting.
    pub(crate) fn at_once(&self, calls: Vec<Call>, side: &Arc<Side>) -> Vec<Stand> {
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
        let stand = |step| match step {
            Step::Ready(ready) => Stand::Waits(Waits(For::Turn(ready))),
            Step::Ended { ended, .. } => Stand::Done(ended.result),
            Step::Stands(stand) => stand,
        };
        steps.into_iter().map(stand).collect()
    }

    /// Goes on with a call that had to wait, for a caller who is there to be asked and can take it back.
    pub(crate) async fn go_on(&self, waits: Waits, side: &Arc<Side>) -> Box<CallResult> {
        let admitted = match waits.0 {
            For::Answer(Looked(mut story, look)) => {
                story.side = Arc::clone(side);
                self.admit_one(Looked(story, look), side).await
            }
            For::Turn(mut ready) => {
                ready.story.side = Arc::clone(side);
                Admitted::Ready(ready)
            }
        };
        match admitted {
            Admitted::Ready(ready) => self.finish(ready).await,
            Admitted::Refused(result) => result,
        }
    }

    /// Resolve to schedule, for one call.
    fn step(&self, call: Call, side: &Arc<Side>, has_worker: bool) -> Step {
        let (story, look) = self.look(call, side);
        let result = match look {
            Ok(Authorized::Permit(permit)) => Ok(permit),
            look @ Ok(Authorized::Question(_)) => {
                return Step::Stands(Stand::Waits(Waits(For::Answer(Looked(story, look)))));
            }
            Err(refusal) => Err(refusal),
        };
        match self.place(story, result) {
            Admitted::Ready(ready) if has_worker && ready.place.may_start() => {
                match self.authority.still_holds(&ready.permit) {
                    Ok(()) => Step::Ready(ready),
                    Err(error) => Step::Stands(Stand::Done(self.refuse(ready.story, error))),
                }
            }
            Admitted::Ready(ready) => Step::Stands(Stand::Waits(Waits(For::Turn(ready)))),
            Admitted::Refused(result) => Step::Stands(Stand::Done(result)),
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
