//! Calls of tools whose work is done at once, or is a server's, several at a time.
//!
//! In: calls. Out: how each of them stands. They take the stages that every call takes, without a future: each is looked at and
//! takes its place, then all are recorded as planned, then each runs, then all outcomes are recorded. So two appends are enough
//! for all that run, and no call costs what it takes to put it down and take it up again; a refusal is recorded by itself. What
//! a server does is sent when its turn has come (`queued`), and taken up where its answer comes (`sent`). A
//! call that has to wait after all (for an answer of the owner's, for a hook; a tool also for its turn and for a worker) goes on
//! from where it stands as any other does.

mod queued;
mod sent;

use std::sync::Arc;

use helve_core::context::ProgressNote;
use helve_core::{Call, CallResult, Lane, Peer, SentCall, ToolError, ToolOrigin};
use helve_policy::HookEvent;
use helve_store::After;
use tokio::sync::mpsc;

use super::authorize::{Authorized, Permit};
use super::execute::Told;
use super::resolve;
use super::schedule::{Place, Worker};
use super::story::{Ended, Story};
use super::{Admitted, Looked, Pipeline, Ready};
use crate::registry::Entry;
use crate::side::{CallScope, Side};
use queued::Queue;
use sent::{Sent, SentCalls};

/// Takes calls of one caller together.
pub struct AtOnce {
    pipeline: Arc<Pipeline>,
    side: Arc<Side>,
    /// The other end, as tools see it.
    peer: Option<Arc<dyn Peer>>,
    sent: SentCalls,
    /// Those that have ended, until they are let go of.
    spent: Vec<Box<dyn SentCall>>,
    queue: Queue,
    /// Whether the journal is kept after an append.
    stays: bool,
}

/// A call that is taken with others.
pub struct Taken {
    /// The call.
    pub call: Call,
    /// Where its progress goes, where that is not where the progress of all of them goes. Notes that find no room are dropped.
    pub progress: Option<mpsc::Sender<ProgressNote>>,
}

impl From<Call> for Taken {
    fn from(call: Call) -> Taken {
        Taken { call, progress: None }
    }
}

/// How a call stands that went as far as it could without waiting.
pub enum Stand {
    /// It is done.
    Done(Box<CallResult>),
    /// A server works on it, or will when its turn has come. Its result comes under this number, from who took the call.
    Sent(u64),
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
    Ready(Ready, Work),
    /// A server will work on it.
    Queued(Ready),
    /// A server works on it.
    Sent(Box<Sent>),
    /// Its tool has run. Its place is kept until that is recorded.
    Ended {
        ended: Ended,
        _place: Place,
    },
    Done(Box<CallResult>),
    Waits(For),
}

impl Step {
    fn ended(&mut self) -> Option<&mut Ended> {
        if let Step::Ended { ended, .. } = self { Some(ended) } else { None }
    }
}

/// Who does the work of a call.
enum Work {
    /// Its tool, at once.
    Tool,
    /// A server. The worker is the call's until that has answered.
    Server(Worker),
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
            let (client, tainted) = (side.client.clone(), side.tainted.clone());
            let scope = CallScope { caller: Some(side.caller.clone()), client, tainted, ..scope };
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
    /// Whether a tool's work is done at once or a server's, and no hook of the owner's hears of it.
    fn is_taken_at_once(&self, entry: &Entry) -> bool {
        let is_deaf = |event| self.hooks.are_deaf(event, &entry.spec().name);
        (entry.tool.instant().is_some() || is_relay(entry))
            && is_deaf(HookEvent::BeforeCall)
            && is_deaf(HookEvent::AfterCall)
    }

    /// Resolve to schedule, for one call. `has_worker` is asked where its tool does the work.
    fn step(&self, call: Call, side: &Arc<Side>, has_worker: &mut impl FnMut() -> bool) -> Step {
        let (story, look) = self.look(call, side);
        let result = match look {
            Ok(Authorized::Permit(permit)) if self.is_taken_at_once(permit.entry()) => Ok(permit),
            Err(refusal) => Err(refusal),
            look => return Step::Waits(For::Answer(Looked(story, look))),
        };
        let ready = match self.place(story, result) {
            Admitted::Ready(ready) => ready,
            Admitted::Refused(result) => return Step::Done(result),
        };
        let is_relay = is_relay(ready.permit.entry());
        let work = match (ready.place.may_start(), is_relay) {
            (false, _) => None,
            (true, true) => self.scheduler.take_worker().map(Work::Server),
            (true, false) => has_worker().then_some(Work::Tool),
        };
        match work {
            Some(work) => self.start(ready, work),
            None if is_relay => Step::Queued(ready),
            None => Step::Waits(For::Turn(ready)),
        }
    }

    /// A call whose turn has come. One before it may have changed what was approved.
    fn start(&self, ready: Ready, work: Work) -> Step {
        match self.authority.still_holds(&ready.permit) {
            Ok(()) => Step::Ready(ready, work),
            Err(error) => Step::Done(self.refuse(ready.story, error)),
        }
    }

    /// Records that they are about to run; what cannot be recorded does not run.
    fn plan(&self, steps: Vec<Step>, stays: bool) -> Vec<Step> {
        // A tool that does its work itself may want the journal.
        let is_tools = |step: &Step| matches!(step, Step::Ready(_, Work::Tool));
        let after = after(stays && !steps.iter().any(is_tools));
        let mut entries = self.recorder.entries();
        let plan = |step| match step {
            Step::Ready(ready, work) => match entries.planned(self.planned(&ready.story)) {
                Ok(()) => Step::Ready(ready, work),
                Err(error) => failed(ready.story, error),
            },
            step => step,
        };
        let planned: Vec<Step> = steps.into_iter().map(plan).collect();
        let Err(error) = entries.write(after) else { return planned };
        let fail = |step| match step {
            Step::Ready(ready, _) => failed(ready.story, error.clone()),
            step => step,
        };
        planned.into_iter().map(fail).collect()
    }

    /// Execute and govern, for one call.
    fn run(&self, mut story: Box<Story>, mut permit: Box<Permit>) -> Ended {
        let (entry, sources) = (Arc::clone(permit.entry()), self.authority.take_sources(&mut permit));
        // Nobody wants to know them any more, so that the tool gets them without a copy.
        story.args = None;
        let outcome = self.executor.execute_now(&story.side, permit);
        story.tainted = self.authority.brought(sources, &self.governor);
        self.ended(story, outcome, &entry, Told::default(), false)
    }

    /// Records how they ended.
    fn tell(&self, mut all: Vec<&mut Ended>, stays: bool) {
        let mut entries = self.recorder.entries();
        for ended in &mut all {
            let told = entries.outcome(&ended.result, ended.beside(&[]));
            ended.holds_if(told);
        }
        if let Err(error) = entries.write(after(stays)) {
            all.into_iter().for_each(|ended| ended.holds_if(Err(error.clone())));
        }
    }
}

fn after(stays: bool) -> After {
    if stays { After::Stay } else { After::Rest }
}

/// Whether a server does a tool's work.
fn is_relay(entry: &Entry) -> bool {
    let (spec, asks) = (entry.spec(), |origin: &ToolOrigin| origin.act.is_call());
    spec.lane == Lane::Mcp && spec.origin.as_ref().is_some_and(asks) && entry.tool.relay().is_some()
}

impl AtOnce {
    pub(crate) fn new(pipeline: Arc<Pipeline>, side: Side) -> AtOnce {
        let peer = side.peer.as_ref().map(|peer| pipeline.executor.governed(peer));
        let sent = SentCalls::new(&side.cancel);
        let (spent, queue) = (Vec::new(), Queue::default());
        AtOnce { pipeline, side: Arc::new(side), peer, sent, spent, queue, stays: false }
    }

    /// From here on the journal is kept after an append, until [`rest`](AtOnce::rest): for whoever looks for the next call or
    /// answer meanwhile and does nothing else. Who else records in the session, in this process or another, waits at least that
    /// long.
    pub fn stay(&mut self) {
        self.stays = true;
    }

    /// Gives the journal back.
    pub fn rest(&mut self) {
        self.settle();
        if std::mem::take(&mut self.stays) {
            self.pipeline.recorder.rest();
        }
    }

    /// Whether calls of a tool are taken.
    pub fn takes(&self, tool: &str) -> bool {
        let registry = self.pipeline.registry.now();
        resolve::find(&registry, tool).is_some_and(|found| self.pipeline.is_taken_at_once(found.entry))
    }

    /// Takes calls as far as they go without waiting; those of other tools go no further than to their permit. How each of them
    /// stands comes in call order.
    pub fn calls(&mut self, calls: impl IntoIterator<Item = impl Into<Taken>>) -> Vec<Stand> {
        self.settle();
        let pipeline = Arc::clone(&self.pipeline);
        // What tools do themselves is done one after the other, so that one worker is enough for all.
        let mut worker = None;
        let mut has_worker = || worker.get_or_insert_with(|| pipeline.scheduler.worker_now()).is_some();
        let step = |taken: Taken| match taken.progress {
            None => pipeline.step(taken.call, &self.side, &mut has_worker),
            progress => {
                let scope = CallScope { progress, ..CallScope::default() };
                pipeline.step(taken.call, &Arc::new(self.side.within(scope, None)), &mut has_worker)
            }
        };
        let steps = calls.into_iter().map(Into::into).map(step).collect();
        let steps = self.go(steps);
        drop(worker);
        let waits = |what| Stand::Waits(Waits { pipeline: Arc::clone(&pipeline), what });
        let stand = |step| match step {
            Step::Ready(ready, _) => waits(For::Turn(ready)),
            Step::Waits(what) => waits(what),
            Step::Sent(sent) => Stand::Sent(self.sent.add(*sent)),
            Step::Queued(ready) => {
                let number = self.sent.number();
                self.queue.add(number, ready);
                Stand::Sent(number)
            }
            Step::Ended { ended, .. } => Stand::Done(ended.result),
            Step::Done(result) => Stand::Done(result),
        };
        steps.into_iter().map(stand).collect()
    }

    /// Plans those that are ready and lets them run.
    fn go(&self, steps: Vec<Step>) -> Vec<Step> {
        let run = |step| match step {
            Step::Ready(Ready { story, permit, place }, Work::Tool) => {
                Step::Ended { ended: self.pipeline.run(story, permit), _place: place }
            }
            Step::Ready(ready, Work::Server(worker)) => self.pipeline.send(ready, worker, self.peer.clone()),
            step => step,
        };
        let mut steps: Vec<Step> = self.pipeline.plan(steps, self.stays).into_iter().map(run).collect();
        self.pipeline.tell(steps.iter_mut().filter_map(Step::ended).collect(), self.stays);
        steps
    }
}
