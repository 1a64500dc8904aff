//! What is kept of the streams of sessions: of those that go on all that a reader may ask for, of those that have ended as much as
//! there is room for.
//!
//! Each session has room of its own, so that what it does pushes out nothing but its own; where that of all together is not enough,
//! the session that has most gives way. What is kept goes when its time is up or its session closes, whether or not anybody comes; it
//! is taken out while all is locked, and let go behind that: it may be much.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use rmcp::transport::streamable_http_server::session::SessionId;
use tokio::time::Instant;

use super::super::super::face::lock;
use super::tape::Tape;

/// So long after its end a stream can be taken up.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(60);
/// So often what is older goes.
const TENDED: Duration = Duration::from_secs(5);
/// So many bytes of streams that have ended are kept: of one session, and of all.
pub(super) const MOST_OF_ONE: usize = 8 << 20;
pub(super) const MOST: usize = 32 << 20;
/// About what a stream takes beside its messages.
pub(super) const EACH: usize = 1 << 10;

#[derive(Default)]
pub(super) struct Kept {
    /// Those that are open.
    sessions: HashMap<SessionId, OfSession>,
    bytes: usize,
    /// Whether a task forgets what is too old.
    is_tended: bool,
}

#[derive(Default)]
struct OfSession {
    streams: HashMap<u64, Arc<Mutex<Tape>>>,
    /// Those that have ended, the oldest first.
    ended: VecDeque<Ended>,
    bytes: usize,
}

struct Ended {
    stream: u64,
    at: Instant,
    bytes: usize,
}

/// What is let go, once nobody waits for it.
#[derive(Default)]
#[must_use]
struct Gone {
    bytes: usize,
    tapes: Vec<Arc<Mutex<Tape>>>,
}

impl Kept {
    /// Streams of this session are kept, until it closes.
    pub(super) fn open(&mut self, session: SessionId) {
        self.sessions.insert(session, OfSession::default());
    }

    pub(super) fn close(kept: &Mutex<Kept>, session: &SessionId) {
        let mut held = lock(kept);
        let closed = held.sessions.remove(session);
        held.bytes -= closed.as_ref().map_or(0, |closed| closed.bytes);
        drop(held);
        drop(closed);
    }

    /// A stream that goes on.
    pub(super) fn add(&mut self, session: &SessionId, stream: u64, tape: &Arc<Mutex<Tape>>) {
        if let Some(own) = self.sessions.get_mut(session) {
            own.streams.insert(stream, Arc::clone(tape));
        }
    }

    /// A stream that goes on, or ended not long ago.
    pub(super) fn stream(kept: &Mutex<Kept>, session: &SessionId, stream: u64) -> Option<Arc<Mutex<Tape>>> {
        let mut held = lock(kept);
        let own = held.sessions.get_mut(session)?;
        let mut gone = Gone::default();
        own.forget(&mut gone);
        let found = own.streams.get(&stream).cloned();
        Kept::let_go(held, gone);
        found
    }

    /// A stream has ended whose messages are so long.
    pub(super) fn end(kept: &Arc<Mutex<Kept>>, session: &SessionId, stream: u64, messages: usize) {
        let mut held = lock(kept);
        let gone = held.keep(session, stream, messages);
        if held.bytes > gone.bytes
            && !held.is_tended
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            held.is_tended = true;
            runtime.spawn(Kept::tend(Arc::downgrade(kept)));
        }
        Kept::let_go(held, gone);
    }

    /// Keeps a stream that has ended, if there is room for it; what it pushes out is gone, but still counted.
    fn keep(&mut self, session: &SessionId, stream: u64, messages: usize) -> Gone {
        let mut gone = Gone::default();
        let Some(own) = self.sessions.get_mut(session) else { return gone };
        let bytes = messages.saturating_add(EACH);
        // What ended without a message, such as a call that was taken back, has nothing to tell.
        if messages == 0 || bytes > MOST_OF_ONE {
            gone.tapes.extend(own.streams.remove(&stream));
            return gone;
        }
        own.ended.push_back(Ended { stream, at: Instant::now(), bytes });
        own.bytes += bytes;
        self.bytes += bytes;
        while own.bytes > MOST_OF_ONE {
            own.drop_oldest(&mut gone);
        }
        while self.bytes - gone.bytes > MOST
            && let Some(most) = self.sessions.values_mut().max_by_key(|own| own.bytes)
        {
            most.drop_oldest(&mut gone);
        }
        gone
    }

    fn let_go(mut held: MutexGuard<'_, Kept>, gone: Gone) {
        held.bytes -= gone.bytes;
        drop(held);
        drop(gone);
    }

    /// Forgets in time what is kept, as long as anything is.
    async fn tend(kept: Weak<Mutex<Kept>>) {
        loop {
            tokio::time::sleep(TENDED).await;
            let Some(kept) = kept.upgrade() else { return };
            let mut held = lock(&kept);
            let mut gone = Gone::default();
            held.sessions.values_mut().for_each(|own| own.forget(&mut gone));
            let is_tended = held.bytes > gone.bytes;
            held.is_tended = is_tended;
            Kept::let_go(held, gone);
            if !is_tended {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl OfSession {
    /// Lets go what is too old.
    fn forget(&mut self, gone: &mut Gone) {
        while self.ended.front().is_some_and(|oldest| oldest.at.elapsed() >= KEPT_FOR) {
            self.drop_oldest(gone);
        }
    }

    fn drop_oldest(&mut self, gone: &mut Gone) {
        let Some(Ended { stream, bytes, .. }) = self.ended.pop_front() else { return };
        gone.tapes.extend(self.streams.remove(&stream));
        gone.bytes += bytes;
        self.bytes -= bytes;
    }
}
