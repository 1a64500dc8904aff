//! Entries of calls that run beside each other, written together.
//!
//! In: an entry. Out: a future that is ready once the entry is in the journal. The first of a round leads: it lets the others
//! that are ready come first, then writes what all of them brought in one append. To lock, write and move the head costs as
//! much for one entry as for many. Where no other call is under way, nobody is waited for. An entry is made ready before
//! anything is locked, in room that is used again.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use helve_core::ToolError;
use helve_store::{After, Batch};

use super::Recorder;

/// What waits to be written.
#[derive(Default)]
pub(super) struct Together(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    entries: Batch,
    /// Room for those of the next round.
    spare: Batch,
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
    Alone(Batch),
    /// It can never be written.
    Unfit(ToolError),
    /// The first of its round, which nobody was asked to come to yet.
    Begins(Arc<Round>),
    /// The first of its round: it writes.
    Leads(Arc<Round>),
    Follows(Arc<Round>),
    Done,
}

thread_local! {
    /// Room for an entry that is made ready.
    static ROOM: Cell<Batch> = Cell::default();
}

pub(super) fn take_room() -> Batch {
    ROOM.take()
}

/// Gives room back for the next entry.
pub(super) fn keep_room(mut room: Batch) {
    room.clear();
    ROOM.set(room);
}

impl<'r> Recorded<'r> {
    /// An entry that `put` makes ready.
    pub(super) fn new(
        recorder: &'r Recorder,
        put: impl FnOnce(&mut Batch) -> Result<(), ToolError>,
        alone: bool,
    ) -> Self {
        let mut entry = take_room();
        let stand = match put(&mut entry) {
            Err(error) => Stand::Unfit(error),
            Ok(()) if alone => Stand::Alone(entry),
            Ok(()) => {
                let stand = recorder.together.waiting().join(&mut entry);
                keep_room(entry);
                stand
            }
        };
        Recorded { recorder, stand }
    }
}

impl Waiting {
    /// Takes an entry to the others.
    fn join(&mut self, entry: &mut Batch) -> Stand {
        self.entries.append(entry);
        match &self.round {
            Some(round) => Stand::Follows(Arc::clone(round)),
            None => {
                let round = Arc::new(Round::default());
                self.round = Some(Arc::clone(&round));
                Stand::Begins(round)
            }
        }
    }
}

impl Future for Recorded<'_> {
    type Output = Result<(), ToolError>;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<Result<(), ToolError>> {
        let recorder = self.recorder;
        match std::mem::replace(&mut self.stand, Stand::Done) {
            Stand::Alone(entry) => {
                let written = recorder.append(&entry, After::Rest);
                keep_room(entry);
                Poll::Ready(written)
            }
            Stand::Unfit(error) => Poll::Ready(Err(error)),
            Stand::Begins(round) => {
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
        if let Stand::Begins(round) | Stand::Leads(round) = &self.stand {
            let _ = self.recorder.write_round(round);
        }
    }
}

impl Recorder {
    fn write_round(&self, round: &Round) -> Result<(), ToolError> {
        let mut entries = {
            let mut waiting = self.together.waiting();
            waiting.round = None;
            let room = std::mem::take(&mut waiting.spare);
            std::mem::replace(&mut waiting.entries, room)
        };
        let written = self.append(&entries, After::Rest);
        round.end(written.clone());
        entries.clear();
        self.together.waiting().spare = entries;
        written
    }
}

#[cfg(test)]
mod tests;
