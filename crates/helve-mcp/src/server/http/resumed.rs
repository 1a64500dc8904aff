//! Sessions whose streams of answers can be taken up again where a connection broke off, also when the answer has come meanwhile.
//!
//! Each event on a stream has an id, and a client that lost its connection comes again with the last one that it saw. The SDK's
//! sessions forget a stream as soon as its answer is on it, so the newest events of each are kept here, while it goes on and for a
//! time after its end. Whoever reads a stream reads it for all: one that comes again takes it from the one before, and where a client
//! is gone the rest is read for nobody, until it comes again.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::future::Either;
use futures::{Stream, StreamExt as _};
use helve_core::json_text::length;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

use super::super::face::lock;

/// So many events of a stream are kept, the newest.
const MOST_EVENTS: usize = 16;
/// So long after its end a stream can be taken up.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// So many streams that have ended are kept, and so many bytes of them.
const MOST_ENDED: usize = 256;
const MOST_BYTES: usize = 16 << 20;

/// The sessions of the SDK, and what is kept of their streams.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) local: LocalSessionManager,
    kept: Arc<Mutex<Kept>>,
}

/// The session that a stream belongs to, and its number there.
type Key = (SessionId, u64);

#[derive(Default)]
struct Kept {
    streams: HashMap<Key, Arc<Mutex<Tape>>>,
    /// Those that have ended, the oldest first.
    ended: VecDeque<Ended>,
    bytes: usize,
}

struct Ended {
    key: Key,
    at: Instant,
    bytes: usize,
}

/// One stream.
struct Tape {
    /// What is still to come; none after the end.
    rest: Option<Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>>,
    /// The newest events, each with its number.
    events: VecDeque<(u64, ServerSseMessage)>,
    /// Who reads it: the newest reader.
    reader: u64,
    waits: Option<Waker>,
}

impl Kept {
    /// A stream that goes on, or ended not long ago.
    fn stream(&mut self, key: &Key) -> Option<Arc<Mutex<Tape>>> {
        self.forget();
        self.streams.get(key).cloned()
    }

    fn end(&mut self, key: Key, bytes: usize) {
        self.bytes += bytes;
        self.ended.push_back(Ended { key, at: Instant::now(), bytes });
        self.forget();
    }

    fn forget(&mut self) {
        let too_many = |kept: &Kept| kept.ended.len() > MOST_ENDED || kept.bytes > MOST_BYTES;
        while let Some(oldest) = self.ended.front()
            && (too_many(self) || oldest.at.elapsed() >= KEPT_FOR)
            && let Some(Ended { key, bytes, .. }) = self.ended.pop_front()
        {
            self.bytes -= bytes;
            self.streams.remove(&key);
        }
    }
}

impl Tape {
    /// The first event that is kept from this number on.
    fn at_least(&self, number: u64) -> Option<(u64, ServerSseMessage)> {
        self.events.iter().find(|(own, _)| *own >= number).cloned()
    }

    fn keep(&mut self, number: u64, event: ServerSseMessage) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((number, event));
    }

    /// How long its messages are.
    fn bytes(&self) -> usize {
        let messages = self.events.iter().filter_map(|(_, event)| event.message.as_deref());
        messages.map(length).sum()
    }
}

/// Reads a stream, as long as no other reader has come.
struct Reader {
    kept: Arc<Mutex<Kept>>,
    session: SessionId,
    tape: Arc<Mutex<Tape>>,
    reader: u64,
    /// The number of the event that comes next, at least.
    next: u64,
    /// Its client is gone already.
    for_nobody: bool,
}

impl Reader {
    fn first(
        kept: Arc<Mutex<Kept>>,
        session: SessionId,
        rest: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    ) -> Reader {
        let tape = Tape { rest: Some(Box::pin(rest)), events: VecDeque::new(), reader: 0, waits: None };
        let tape = Arc::new(Mutex::new(tape));
        Reader { kept, session, tape, reader: 0, next: 0, for_nobody: false }
    }

    /// Takes the stream from whoever reads it.
    fn after(
        kept: Arc<Mutex<Kept>>,
        session: SessionId,
        tape: Arc<Mutex<Tape>>,
        next: u64,
        for_nobody: bool,
    ) -> Reader {
        let mut held = lock(&tape);
        held.reader += 1;
        let (reader, before) = (held.reader, held.waits.take());
        drop(held);
        if let Some(before) = before {
            before.wake();
        }
        Reader { kept, session, tape, reader, next, for_nobody }
    }
}

impl Stream for Reader {
    type Item = ServerSseMessage;

    fn poll_next(self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let this = self.get_mut();
        let mut tape = lock(&this.tape);
        if tape.reader != this.reader {
            return Poll::Ready(None);
        }
        if let Some((number, event)) = tape.at_least(this.next) {
            this.next = number + 1;
            return Poll::Ready(Some(event));
        }
        let Some(rest) = &mut tape.rest else { return Poll::Ready(None) };
        match rest.poll_next_unpin(poller) {
            Poll::Pending => {
                tape.waits = Some(poller.waker().clone());
                Poll::Pending
            }
            Poll::Ready(Some(event)) => {
                if let Some((number, stream)) = event.event_id.as_deref().and_then(numbers) {
                    if tape.events.is_empty() {
                        let key = (Arc::clone(&this.session), stream);
                        lock(&this.kept).streams.insert(key, Arc::clone(&this.tape));
                    }
                    tape.keep(number, event.clone());
                    this.next = number + 1;
                }
                Poll::Ready(Some(event))
            }
            Poll::Ready(None) => {
                tape.rest = None;
                let stream = tape.events.back().and_then(|(_, event)| numbers(event.event_id.as_deref()?));
                let bytes = tape.bytes();
                drop(tape);
                if let Some((_, stream)) = stream {
                    lock(&this.kept).end((Arc::clone(&this.session), stream), bytes);
                }
                Poll::Ready(None)
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let tape = lock(&self.tape);
        let is_left = tape.rest.is_some() && tape.reader == self.reader;
        drop(tape);
        // The session waits for whoever reads its streams.
        if is_left
            && !self.for_nobody
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (kept, session, tape) =
                (Arc::clone(&self.kept), Arc::clone(&self.session), Arc::clone(&self.tape));
            let rest = Reader::after(kept, session, tape, self.next, true);
            runtime.spawn(rest.for_each(|_| std::future::ready(())));
        }
    }
}

/// The number of an event, and that of its stream, which only the streams of requests have.
fn numbers(id: &str) -> Option<(u64, u64)> {
    let (event, stream) = id.split_once('/')?;
    Some((event.parse().ok()?, stream.parse().ok()?))
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.local.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.local.create_stream(id, message).await?;
        Ok(Reader::first(Arc::clone(&self.kept), Arc::clone(id), stream))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        if let Some((number, stream)) = numbers(&last_event_id) {
            let tape = lock(&self.kept).stream(&(Arc::clone(id), stream));
            if let Some(tape) = tape {
                let (kept, session) = (Arc::clone(&self.kept), Arc::clone(id));
                let next = number.saturating_add(1);
                return Ok(Either::Left(Reader::after(kept, session, tape, next, false)));
            }
        }
        Ok(Either::Right(self.local.resume(id, last_event_id).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::channel::mpsc;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn event(number: u64, text: &str) -> ServerSseMessage {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
        ServerSseMessage::new(format!("{number}/7"), serde_json::from_value(message).unwrap())
    }

    fn session() -> SessionId {
        "s".into()
    }

    type Source = mpsc::UnboundedSender<ServerSseMessage>;

    fn stream(kept: &Arc<Mutex<Kept>>) -> (Source, Reader) {
        let (from, rest) = mpsc::unbounded();
        (from, Reader::first(Arc::clone(kept), session(), rest))
    }

    fn again(kept: &Arc<Mutex<Kept>>, last: u64) -> Option<Reader> {
        let tape = lock(kept).stream(&(session(), 7))?;
        Some(Reader::after(Arc::clone(kept), session(), tape, last + 1, false))
    }

    async fn ids(reader: Reader) -> Vec<String> {
        let all = tokio::time::timeout(Duration::from_secs(10), reader.collect::<Vec<_>>()).await.unwrap();
        all.into_iter().filter_map(|event| event.event_id).collect()
    }

    #[tokio::test]
    async fn what_came_while_nobody_read_is_told_to_who_comes_again() {
        let kept = Arc::default();
        let (from, mut reader) = stream(&kept);
        from.unbounded_send(event(0, "")).unwrap();
        assert_eq!(reader.next().await.unwrap().event_id.as_deref(), Some("0/7"));
        drop(reader);
        from.unbounded_send(event(1, "one")).unwrap();
        let reader = again(&kept, 0).unwrap();
        from.unbounded_send(event(2, "two")).unwrap();
        drop(from);
        assert_eq!(ids(reader).await, ["1/7", "2/7"]);
        // Also after its end, from any event on.
        assert_eq!(ids(again(&kept, 1).unwrap()).await, ["2/7"]);
        assert_eq!(ids(again(&kept, 2).unwrap()).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn who_comes_again_takes_the_stream() {
        let kept = Arc::default();
        let (from, mut first) = stream(&kept);
        from.unbounded_send(event(0, "")).unwrap();
        assert!(first.next().await.is_some());
        let first = tokio::spawn(ids(first));
        tokio::task::yield_now().await;
        let second = again(&kept, 0).unwrap();
        assert_eq!(first.await.unwrap(), Vec::<String>::new());
        from.unbounded_send(event(1, "one")).unwrap();
        drop(from);
        assert_eq!(ids(second).await, ["1/7"]);
    }

    #[tokio::test]
    async fn only_so_much_is_kept() {
        let kept = Arc::default();
        let (from, reader) = stream(&kept);
        for number in 0..100 {
            from.unbounded_send(event(number, "")).unwrap();
        }
        drop(from);
        assert_eq!(ids(reader).await.len(), 100);
        assert_eq!(ids(again(&kept, 0).unwrap()).await.len(), MOST_EVENTS);
        let long = "x".repeat(MOST_BYTES / 3);
        for _ in 0..3 {
            let (from, reader) = stream(&kept);
            from.unbounded_send(event(0, &long)).unwrap();
            drop(from);
            ids(reader).await;
        }
        let held = lock(&kept);
        assert!(held.bytes <= MOST_BYTES && held.ended.len() == 2, "{} bytes", held.bytes);
    }
}
