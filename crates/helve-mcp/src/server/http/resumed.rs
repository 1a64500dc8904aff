//! Sessions whose streams of answers can be taken up again where a connection broke off, also when the answer has come meanwhile.
//!
//! Each event on a stream has an id, and a client that lost its connection comes again with the last one that it saw. The SDK's
//! sessions forget a stream as soon as its answer is on it, so the newest events of each are kept here, while it goes on and for a
//! time after its end. Whoever reads a stream reads it for all: one that comes again takes it from the one before, and where a client
//! is gone the rest is read for nobody, until it comes again.

mod flight;
mod kept;
mod tape;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::future::Either;
use futures::{Stream, StreamExt as _, stream};
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

use super::super::face::lock;
use flight::{Flight, Flights};
use kept::Kept;
use tape::Tape;

/// The sessions of the SDK, and what is kept of their streams.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) local: LocalSessionManager,
    kept: Arc<Mutex<Kept>>,
    flights: Flights,
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
        flight: Option<Arc<Flight>>,
    ) -> Reader {
        let tape = Arc::new(Mutex::new(Tape::of(rest, flight)));
        Reader { kept, session, tape, reader: 0, next: 0, for_nobody: false }
    }

    /// Takes the stream from whoever reads it.
    fn after(kept: Arc<Mutex<Kept>>, session: SessionId, tape: Arc<Mutex<Tape>>, next: u64) -> Reader {
        let mut held = lock(&tape);
        held.reader += 1;
        let (reader, before) = (held.reader, held.waits.take());
        drop(held);
        if let Some(before) = before {
            before.wake();
        }
        Reader { kept, session, tape, reader, next, for_nobody: false }
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
        // Who was woken is held no longer: with it goes its connection.
        tape.waits = None;
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
                    if tape.is_empty() {
                        lock(&this.kept).add(&this.session, stream, &this.tape);
                    }
                    tape.keep((number, stream), &event);
                    this.next = number + 1;
                }
                tape.tells(&event);
                Poll::Ready(Some(event))
            }
            Poll::Ready(None) => {
                let (stream, bytes) = (tape.end(), tape.bytes());
                drop(tape);
                if let Some(stream) = stream {
                    Kept::end(&this.kept, &this.session, stream, bytes);
                }
                Poll::Ready(None)
            }
        }
    }
}

impl Reader {
    /// Who reads on for nobody when the client of this one is gone: the session waits for whoever reads its streams. It has the place
    /// of this one and takes none, so that whoever comes again has the stream, however soon that is.
    fn drain(&self) -> Option<Reader> {
        let tape = lock(&self.tape);
        let is_left = tape.rest.is_some() && tape.reader == self.reader && !self.for_nobody;
        drop(tape);
        is_left.then(|| Reader {
            kept: Arc::clone(&self.kept),
            session: Arc::clone(&self.session),
            tape: Arc::clone(&self.tape),
            reader: self.reader,
            next: self.next,
            for_nobody: true,
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(rest) = self.drain()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(rest.for_each(|_| std::future::ready(())));
        }
    }
}

/// The number of an event, and that of its stream, which only the streams of requests have.
fn numbers(id: &str) -> Option<(u64, u64)> {
    let (event, stream) = id.split_once('/')?;
    Some((event.parse().ok()?, stream.parse().ok()?))
}

/// Whether the stream of this event is a request's.
pub(super) fn is_of_a_request(event: &str) -> bool {
    numbers(event).is_some()
}

/// The answer to a request whose id another one has that is not answered yet.
fn in_use(id: RequestId) -> ServerSseMessage {
    let why = "A request of this id is not answered yet. Each request of a session has an id of its own.";
    ServerSseMessage::from_message(ServerJsonRpcMessage::error(
        ErrorData::invalid_request(why, None),
        Some(id),
    ))
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.local.create_session().await?;
        lock(&self.kept).open(Arc::clone(&id));
        Ok((id, transport))
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
        Kept::close(&self.kept, id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let mut flight = None;
        if let JsonRpcMessage::Request(request) = &mut message {
            let Some(begun) = self.flights.begin(id, &request.id) else {
                return Ok(Either::Right(stream::iter([in_use(request.id.clone())])));
            };
            // Who works on it has a part in it: where it is taken back, its stream ends before that.
            request.request.extensions_mut().insert(Arc::clone(&begun));
            flight = Some(begun);
        }
        let rest = self.local.create_stream(id, message).await?;
        Ok(Either::Left(Reader::first(Arc::clone(&self.kept), Arc::clone(id), rest, flight)))
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
            let tape = Kept::stream(&self.kept, id, stream);
            if let Some(tape) = tape {
                let (kept, session) = (Arc::clone(&self.kept), Arc::clone(id));
                let next = number.saturating_add(1);
                return Ok(Either::Left(Reader::after(kept, session, tape, next)));
            }
        }
        Ok(Either::Right(self.local.resume(id, last_event_id).await?))
    }
}

#[cfg(test)]
mod tests;
