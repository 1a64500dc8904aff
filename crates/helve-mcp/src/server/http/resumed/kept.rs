//! What is kept of the streams of sessions: of those that go on all that a reader may ask for, of those that have ended as much as
//! there is room for.
//!
//! Each session has room of its own, so that what it does pushes out nothing but its own; where that of all together is not enough,
//! the session that has most gives way. What is kept goes when its time is up or its session closes, whether or not anybody comes.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::Duration;

use futures::Stream;
use helve_core::json_text::length;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use tokio::time::Instant;

use super::super::super::face::lock;

/// So many events of a stream are kept, the newest.
pub(super) const MOST_EVENTS: usize = 16;
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

/// One stream.
pub(super) struct Tape {
    /// What is still to come; none after the end.
    pub(super) rest: Option<Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>>,
    /// The newest events, each with its number.
    pub(super) events: VecDeque<(u64, ServerSseMessage)>,
    /// Who reads it: the newest reader.
    pub(super) reader: u64,
    pub(super) waits: Option<Waker>,
}

impl Kept {
    /// Streams of this session are kept, until it closes.
    pub(super) fn open(&mut self, session: SessionId) {
        self.sessions.insert(session, OfSession::default());
    }

    pub(super) fn close(&mut self, session: &SessionId) {
        let closed = self.sessions.remove(session);
        self.bytes -= closed.map_or(0, |closed| closed.bytes);
    }

    /// A stream that goes on.
    pub(super) fn add(&mut self, session: &SessionId, stream: u64, tape: &Arc<Mutex<Tape>>) {
        if let Some(own) = self.sessions.get_mut(session) {
            own.streams.insert(stream, Arc::clone(tape));
        }
    }

    /// A stream that goes on, or ended not long ago.
    pub(super) fn stream(&mut self, session: &SessionId, stream: u64) -> Option<Arc<Mutex<Tape>>> {
        let own = self.sessions.get_mut(session)?;
        self.bytes -= own.forget();
        own.streams.get(&stream).cloned()
    }

    /// A stream has ended whose messages are so long.
    pub(super) fn end(kept: &Arc<Mutex<Kept>>, session: &SessionId, stream: u64, messages: usize) {
        let mut held = lock(kept);
        held.keep(session, stream, messages);
        if held.bytes > 0
            && !held.is_tended
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            held.is_tended = true;
            runtime.spawn(Kept::tend(Arc::downgrade(kept)));
        }
    }

    fn keep(&mut self, session: &SessionId, stream: u64, messages: usize) {
        let Some(own) = self.sessions.get_mut(session) else { return };
        let bytes = messages.saturating_add(EACH);
        // What ended without a message, such as a call that was taken back, has nothing to tell.
        if messages == 0 || bytes > MOST_OF_ONE {
            own.streams.remove(&stream);
            return;
        }
        own.ended.push_back(Ended { stream, at: Instant::now(), bytes });
        own.bytes += bytes;
        self.bytes += bytes;
        while own.bytes > MOST_OF_ONE {
            self.bytes -= own.drop_oldest();
        }
        while self.bytes > MOST
            && let Some(most) = self.sessions.values_mut().max_by_key(|own| own.bytes)
        {
            self.bytes -= most.drop_oldest();
        }
    }

    /// Forgets in time what is kept, as long as anything is.
    async fn tend(kept: Weak<Mutex<Kept>>) {
        loop {
            tokio::time::sleep(TENDED).await;
            let Some(kept) = kept.upgrade() else { return };
            let mut held = lock(&kept);
            let freed: usize = held.sessions.values_mut().map(OfSession::forget).sum();
            held.bytes -= freed;
            held.is_tended = held.bytes > 0;
            if !held.is_tended {
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
    /// Drops what is too old; says how many bytes that were.
    fn forget(&mut self) -> usize {
        let mut freed = 0;
        while self.ended.front().is_some_and(|oldest| oldest.at.elapsed() >= KEPT_FOR) {
            freed += self.drop_oldest();
        }
        freed
    }

    fn drop_oldest(&mut self) -> usize {
        let Some(Ended { stream, bytes, .. }) = self.ended.pop_front() else { return 0 };
        self.streams.remove(&stream);
        self.bytes -= bytes;
        bytes
    }
}

impl Tape {
    /// The first event that is kept from this number on.
    pub(super) fn at_least(&self, number: u64) -> Option<(u64, ServerSseMessage)> {
        self.events.iter().find(|(own, _)| *own >= number).cloned()
    }

    pub(super) fn keep(&mut self, number: u64, event: ServerSseMessage) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((number, event));
    }

    /// How long its messages are.
    pub(super) fn bytes(&self) -> usize {
        let messages = self.events.iter().filter_map(|(_, event)| event.message.as_deref());
        messages.map(length).sum()
    }
}
