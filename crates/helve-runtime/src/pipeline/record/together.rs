//! Entries of calls that run beside each other, written together.
//!
//! In: an entry. Out: a future that is ready once the entry is in the journal. The first of a round leads: it lets the others
//! that are ready come first, then writes what all of them brought in one append. To lock, write and move the head costs as
//! much for one entry as for many. Where no other call is under way, nobody is waited for.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use helve_core::ToolError;
use helve_store::Prepared;

use super::Recorder;

/// What waits to be written.
#[derive(Default)]
pub(super) struct Together(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    entries: Vec<Prepared>,
    /// The round that they are written in; none before its first entry.
    round: Option<Arc<Round>>,
}

/// Entries that are written at once, for those who wait for them.
#[derive(Default)]
struct Round {
    written: OnceLock<Result<(), ToolError>>,
    wakers: Mutex<Vec<Waker>>,
}

impl Round {
    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, poller: &mut Context<'_>) -> Poll<Result<(), ToolError>> {
        if self.written.get().is_none() {
            let mut wakers = self.wakers();
            if !wakers.iter().any(|known| known.will_wake(poller.waker())) {
                wakers.push(poller.waker().clone());
            }
        }
        // Looked at after the waker is noted, so that no end is missed.
        self.written.get().cloned().map_or(Poll::Pending, Poll::Ready)
    }

    fn end(&self, written: Result<(), ToolError>) {
        let _ = self.written.set(written);
        for waker in std::mem::take(&mut *self.wakers()) {
            waker.wake();
        }
    }
}

impl Together {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry on its way into the journal.
#[must_use]
pub(crate) struct Recorded<'r> {
    recorder: &'r Recorder,
    stand: Stand,
}

enum Stand {
    /// Nobody is there whom it could wait for.
    Alone(Prepared),
    /// It can never be written.
    Unfit(ToolError),
    /// Not with the others yet.
    New(Prepared),
    /// The first of its round: it writes.
    Leads(Arc<Round>),
    Follows(Arc<Round>),
    Done,
}

impl<'r> Recorded<'r> {
    pub(super) fn new(recorder: &'r Recorder, entry: Result<Prepared, ToolError>, alone: bool) -> Self {
        let stand = match entry {
            Err(error) => Stand::Unfit(error),
            Ok(entry) if alone => Stand::Alone(entry),
            Ok(entry) => Stand::New(entry),
        };
        Recorded { recorder, stand }
    }
}

impl Future for Recorded<'_> {
    type Output = Result<(), ToolError>;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<Result<(), ToolError>> {
        let recorder = self.recorder;
        match std::mem::replace(&mut self.stand, Stand::Done) {
            Stand::Alone(entry) => Poll::Ready(recorder.append(vec![entry])),
            Stand::Unfit(error) => Poll::Ready(Err(error)),
            Stand::New(entry) => {
                let mut waiting = recorder.together.waiting();
                waiting.entries.push(entry);
                if let Some(round) = &waiting.round {
                    let round = Arc::clone(round);
                    drop(waiting);
                    let stands = round.poll(poller);
                    self.stand = Stand::Follows(round);
                    return stands;
                }
                let round = Arc::new(Round::default());
                waiting.round = Some(Arc::clone(&round));
                drop(waiting);
                self.stand = Stand::Leads(round);
                // Whoever is ready to run now comes first.
                poller.waker().wake_by_ref();
                Poll::Pending
            }
            Stand::Leads(round) => Poll::Ready(recorder.write_round(&round)),
            Stand::Follows(round) => {
                let stands = round.poll(poller);
                self.stand = Stand::Follows(round);
                stands
            }
            Stand::Done => Poll::Ready(Ok(())),
        }
    }
}

/// A call that is dropped while it leads still writes what the others brought: they wait for it.
impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        if let Stand::Leads(round) = &self.stand {
            let _ = self.recorder.write_round(round);
        }
    }
}

impl Recorder {
    fn write_round(&self, round: &Round) -> Result<(), ToolError> {
        let entries = {
            let mut waiting = self.together.waiting();
            waiting.round = None;
            std::mem::take(&mut waiting.entries)
        };
        let written = self.append(entries);
        round.end(written.clone());
        written
    }
}

#[cfg(test)]
mod tests;
