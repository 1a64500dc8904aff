//! Calls that servers work on: sent, and not waited for one by one.
//!
//! Whoever serves the caller polls all of them together. Those whose answers have come are governed and recorded together, as
//! those are that were done at once. One alarm is set for all, to the first whose time is up.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use helve_core::{BoxFuture, CallResult, Cancel, Output, Peer, SentCall, ServerReply, ToolError};
use tokio::time::{Instant, Sleep};

use super::{AtOnce, For, Step, Work};
use crate::pipeline::authorize::taint::Sources;
use crate::pipeline::execute::{Told, cancelled, panicked, timed_out};
use crate::pipeline::schedule::{Place, Worker};
use crate::pipeline::story::{Ended, Story};
use crate::pipeline::{Looked, Pipeline, Ready};
use crate::registry::Entry;

/// How often a call is looked at that has no deadline.
const SELDOM: Duration = Duration::from_secs(3_600);

/// A call that a server works on.
pub(super) struct Sent {
    story: Box<Story>,
    entry: Arc<Entry>,
    sources: Sources,
    call: Box<dyn SentCall>,
    /// How long it may take, and until when that is; none where that is for ever.
    deadline: (Duration, Option<Instant>),
    /// Kept until its end is recorded.
    place: Place,
    worker: Worker,
}

/// Those of one caller.
pub(super) struct SentCalls {
    calls: Vec<(u64, Sent)>,
    next: u64,
    alarm: Option<Pin<Box<Sleep>>>,
    /// What takes all of them back, and what wakes who polls then.
    cancel: Cancel,
    stop: BoxFuture<'static, ()>,
}

impl Sent {
    /// What has become of it.
    fn poll(&mut self, poller: &mut Context<'_>) -> Poll<Result<ServerReply, ToolError>> {
        let (call, name) = (&mut self.call, &self.entry.spec().name);
        match std::panic::catch_unwind(AssertUnwindSafe(|| call.poll_reply(poller))) {
            Err(_panic) => Poll::Ready(Err(panicked(name))),
            Ok(Poll::Pending) if self.deadline.1.is_some_and(|deadline| Instant::now() >= deadline) => {
                Poll::Ready(Err(timed_out(name, self.deadline.0)))
            }
            Ok(poll) => poll,
        }
    }

    /// When it has to be polled, whatever happens.
    fn due(&self) -> Instant {
        let left = std::panic::catch_unwind(AssertUnwindSafe(|| self.call.left())).unwrap_or(None);
        let own = left.and_then(|left| Instant::now().checked_add(left));
        [own, self.deadline.1].into_iter().flatten().min().unwrap_or_else(|| Instant::now() + SELDOM)
    }
}

impl SentCalls {
    pub(super) fn new(cancel: &Cancel) -> SentCalls {
        let fires = cancel.clone();
        let stop = Box::pin(async move { fires.cancelled().await });
        SentCalls { calls: Vec::new(), next: 0, alarm: None, cancel: cancel.clone(), stop }
    }

    /// A number that no call had before.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// One more; its number.
    pub(super) fn add(&mut self, sent: Sent) -> u64 {
        let number = self.number();
        self.add_as(number, sent);
        number
    }

    fn add_as(&mut self, number: u64, sent: Sent) {
        // Most are due later than those before them.
        self.alarm.take_if(|alarm| sent.due() < alarm.deadline());
        self.calls.push((number, sent));
    }

    /// Whether all are taken back. Who polls is woken when they are.
    fn poll_over(&mut self, poller: &mut Context<'_>) -> bool {
        self.cancel.is_cancelled() || self.stop.as_mut().poll(poller).is_ready()
    }

    /// Those that have ended, and how.
    fn poll(&mut self, poller: &mut Context<'_>) -> Vec<(u64, Sent, Result<ServerReply, ToolError>)> {
        let mut ended = Vec::new();
        let mut is_over = false;
        loop {
            let mut at = 0;
            while let Some((_, sent)) = self.calls.get_mut(at) {
                match sent.poll(poller) {
                    Poll::Pending if !is_over => at += 1,
                    poll => {
                        let reply = match poll {
                            Poll::Ready(reply) => reply,
                            Poll::Pending => Err(cancelled()),
                        };
                        let (number, sent) = self.calls.remove(at);
                        ended.push((number, sent, reply));
                    }
                }
            }
            if self.calls.is_empty() {
                return ended;
            }
            is_over = self.poll_over(poller);
            if !is_over && self.poll_alarm(poller).is_pending() {
                return ended;
            }
        }
    }

    /// Whether the time of one of them may be up.
    fn poll_alarm(&mut self, poller: &mut Context<'_>) -> Poll<()> {
        let soonest = || self.calls.iter().map(|(_, sent)| sent.due()).min().unwrap_or_else(Instant::now);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(soonest())));
        let rung = alarm.as_mut().poll(poller);
        if rung.is_ready() {
            self.alarm = None;
        }
        rung
    }
}

impl Pipeline {
    /// Execute, for one call that a server works on: sends it.
    pub(super) fn send(&self, ready: Ready, worker: Worker, peer: Option<Arc<dyn Peer>>) -> Step {
        let Ready { mut story, mut permit, place } = ready;
        let (entry, sources) = (Arc::clone(permit.entry()), self.authority.take_sources(&mut permit));
        // Nobody wants to know them any more, so that the server's line is written without a copy.
        story.args = None;
        let within = self.executor.deadline(entry.spec());
        let deadline = (within, Instant::now().checked_add(within));
        match self.executor.send(&story.call, &story.side, peer, permit) {
            Ok(call) => Step::Sent(Box::new(Sent { story, entry, sources, call, deadline, place, worker })),
            Err(error) => {
                story.tainted = self.authority.brought(sources, &self.governor);
                let ended = self.ended(story, Err(error), &entry, Told::default(), false);
                Step::Ended { ended, _place: place }
            }
        }
    }

    /// Govern, for one call whose answer has come.
    fn answered(
        &self,
        sent: Sent,
        reply: Result<ServerReply, ToolError>,
    ) -> (Ended, Place, Box<dyn SentCall>) {
        let Sent { mut story, entry, sources, call, place, worker, .. } = sent;
        drop(worker);
        let mut beside = Told::default();
        let outcome = reply.and_then(|mut reply| {
            beside.sandbox = reply.sandbox.take();
            told(&entry, reply)
        });
        story.tainted = self.authority.brought(sources, &self.governor);
        (self.ended(story, outcome, &entry, beside, false), place, call)
    }
}

/// Drops a call. One that is not over at its server is taken back.
fn let_go(call: Box<dyn SentCall>) {
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(call)));
}

fn told(entry: &Entry, reply: ServerReply) -> Result<Output, ToolError> {
    let Some(relay) = entry.tool.relay() else {
        return Err(ToolError::internal("The tool hands nothing on."));
    };
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| relay.told(reply)));
    told.unwrap_or_else(|_panic| Err(panicked(&entry.spec().name)))
}

impl AtOnce {
    /// The results of calls that were sent, by their numbers. Who polls is woken when there may be more.
    pub fn poll(&mut self, poller: &mut Context<'_>) -> Vec<(u64, Box<CallResult>)> {
        self.settle();
        let mut results = Vec::new();
        while !(self.sent.calls.is_empty() && self.queue.is_empty()) {
            if self.stays && !self.sees() {
                // Whoever does the work of such a call when it is polled may want the journal.
                self.pipeline.recorder.rest();
            }
            let ended = self.sent.poll(poller);
            results.append(&mut self.results(ended));
            if !self.queue.is_empty() && self.sent.poll_over(poller) {
                results.append(&mut self.give_up_queued());
            }
            // The ends of those before them are recorded.
            let due = self.queue.poll(&self.pipeline.scheduler, poller);
            if due.is_empty() {
                break;
            }
            self.settle();
            results.append(&mut self.send_due(due));
        }
        if !self.stays {
            self.settle();
        }
        results
    }

    /// Sends calls whose turn has come; the results of those for which that failed.
    fn send_due(&mut self, due: Vec<(u64, Ready, Worker)>) -> Vec<(u64, Box<CallResult>)> {
        let start = |(number, ready, worker)| (number, self.pipeline.start(ready, Work::Server(worker)));
        let (numbers, steps): (Vec<u64>, Vec<Step>) = due.into_iter().map(start).unzip();
        let mut results = Vec::new();
        for (number, step) in numbers.into_iter().zip(self.go(steps)) {
            match step {
                Step::Sent(sent) => self.sent.add_as(number, *sent),
                Step::Ended { ended, .. } => results.push((number, ended.result)),
                Step::Done(result) => results.push((number, result)),
                Step::Queued(ready) | Step::Ready(ready, _) | Step::Waits(For::Turn(ready)) => {
                    self.queue.add(number, ready);
                }
                // Nobody is asked a second time.
                Step::Waits(For::Answer(Looked(story, _))) => {
                    results.push((number, self.pipeline.refuse(story, cancelled())));
                }
            }
        }
        results
    }

    /// Records that calls were taken back before they were sent.
    fn give_up_queued(&mut self) -> Vec<(u64, Box<CallResult>)> {
        let give_up =
            |(number, ready): (u64, Ready)| (number, self.pipeline.refuse(ready.story, cancelled()));
        self.queue.take().into_iter().map(give_up).collect()
    }

    /// Whether polling sees every answer as soon as it has come, so that who waits may poll again and again for a moment.
    pub fn sees(&self) -> bool {
        let waits_for_others = self.sent.calls.is_empty() && !self.queue.is_empty();
        !waits_for_others && self.sent.calls.iter().all(|(_, sent)| sent.call.is_seen())
    }

    /// Takes a call back that was sent, or would have been. It is recorded, and has no result any more.
    pub fn take_back(&mut self, number: u64) {
        if let Some(at) = self.sent.calls.iter().position(|(own, _)| *own == number) {
            let (number, sent) = self.sent.calls.remove(at);
            self.results(vec![(number, sent, Err(cancelled()))]);
        } else if let Some(ready) = self.queue.remove(number) {
            self.pipeline.refuse(ready.story, cancelled());
        }
    }

    fn results(
        &mut self,
        mut ended: Vec<(u64, Sent, Result<ServerReply, ToolError>)>,
    ) -> Vec<(u64, Box<CallResult>)> {
        if ended.is_empty() {
            return Vec::new();
        }
        let answered = |(number, sent, reply): (u64, Sent, Result<ServerReply, ToolError>)| {
            let is_over = reply.is_ok();
            let (ended, place, call) = self.pipeline.answered(sent, reply);
            if is_over {
                self.spent.push(call)
            } else {
                let_go(call)
            }
            (number, ended, place)
        };
        let mut ended: Vec<(u64, Ended, Place)> = ended.drain(..).map(answered).collect();
        self.pipeline.tell(ended.iter_mut().map(|(_, ended, _)| ended).collect(), self.stays);
        ended.drain(..).map(|(number, ended, _)| (number, ended.result)).collect()
    }

    /// Lets go of calls whose answers have come. Where the journal [stays](AtOnce::stay), nobody who waits for a result has to wait for
    /// that too: it is for whoever has passed the results on, and is done at the latest when calls are taken or polled again, or the
    /// journal is given back. Until then nobody may be listening to the server.
    pub fn settle(&mut self) {
        self.spent.drain(..).for_each(let_go);
    }
}

/// Calls whose results nobody will want are taken back.
impl Drop for AtOnce {
    fn drop(&mut self) {
        self.rest();
        self.give_up_queued();
        let left = std::mem::take(&mut self.sent.calls);
        self.results(left.into_iter().map(|(number, sent)| (number, sent, Err(cancelled()))).collect());
        self.settle();
    }
}
