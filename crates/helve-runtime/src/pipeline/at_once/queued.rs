//! Calls of servers' tools whose turn has not come.
//!
//! They stay with those that were sent, in call order, and are sent when nothing before them is in their way and there is a
//! worker. Until something moves in the line, to look costs nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use helve_core::BoxFuture;

use crate::pipeline::Ready;
use crate::pipeline::schedule::{Scheduler, Worker};

/// Those of one caller, by their numbers.
#[derive(Default)]
pub(super) struct Queue {
    calls: Vec<(u64, Ready)>,
    moved: Arc<Moved>,
    /// Who is waited for where all workers are busy.
    worker: Option<BoxFuture<'static, Worker>>,
}

/// Whether one of them may have its turn now, and who wants to know.
#[derive(Default)]
struct Moved {
    has: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Wake for Moved {
    fn wake(self: Arc<Self>) {
        self.has.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Moved {
    /// Whether something has moved since the last time. When something does, `poller` is woken.
    fn poll(&self, poller: &Context<'_>) -> bool {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *waker {
            Some(known) => known.clone_from(poller.waker()),
            none => *none = Some(poller.waker().clone()),
        }
        // Looked at after the waker is noted, so that nothing is missed.
        self.has.swap(false, Ordering::AcqRel)
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn add(&mut self, number: u64, ready: Ready) {
        self.calls.push((number, ready));
        self.moved.has.store(true, Ordering::Release);
    }

    /// Takes a call out that was not sent.
    pub(super) fn remove(&mut self, number: u64) -> Option<Ready> {
        let at = self.calls.iter().position(|(own, _)| *own == number)?;
        let (_, ready) = self.calls.remove(at);
        // It may have been the one that a worker was waited for; who comes behind it asks anew.
        self.worker = None;
        Waker::from(Arc::clone(&self.moved)).wake();
        Some(ready)
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> Vec<(u64, Ready)> {
        self.worker = None;
        std::mem::take(&mut self.calls)
    }

    /// Takes those out that are to be sent now. Who polls is woken when there may be more.
    pub(super) fn poll(
        &mut self,
        scheduler: &Arc<Scheduler>,
        poller: &Context<'_>,
    ) -> Vec<(u64, Ready, Worker)> {
        let mut due = Vec::new();
        if self.calls.is_empty() || !self.moved.poll(poller) {
            return due;
        }
        let waker = Waker::from(Arc::clone(&self.moved));
        let mut moved = Context::from_waker(&waker);
        let mut waits = self.worker.take();
        let mut at = 0;
        while let Some((_, ready)) = self.calls.get(at) {
            if ready.place.poll_turn(&moved).is_pending() {
                at += 1;
                continue;
            }
            let mut worker = waits.take().unwrap_or_else(|| Box::pin(Arc::clone(scheduler).worker()));
            match worker.as_mut().poll(&mut moved) {
                Poll::Ready(worker) => {
                    let (number, ready) = self.calls.remove(at);
                    due.push((number, ready, worker));
                }
                // Those behind it have none either. Kept only here: whoever waits for a worker owns the next that is free.
                Poll::Pending => {
                    self.worker = Some(worker);
                    break;
                }
            }
        }
        due
    }
}
