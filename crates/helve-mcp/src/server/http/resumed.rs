//! Sessions whose streams of answers can be taken up again where a connection broke off, also when the answer has come meanwhile.
//!
//! Each event on a stream has an id, and a client that lost its connection comes again with the last one that it saw. The SDK's
//! sessions forget a stream as soon as its answer is on it, so the newest events of each are kept here, while it goes on and for a
//! time after its end. A session says nothing more to anybody while one of its streams is not read, so each is read as soon as
//! something comes, and its client is told from what is kept: one that is slow, or does not read, holds up nobody. One that comes again
//! takes a stream from the one before. How what a request logs gets onto its stream: `logged`.

mod flight;
mod kept;
mod logged;
mod tape;

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::future::Either;
use futures::{Stream, StreamExt as _, stream};
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::task::AbortHandle;

use super::super::face::lock;
use super::super::message;
use super::owners::Owners;
use super::place::{Place, PlaceOf};
use flight::{Flight, Flights};
use kept::Kept;
use logged::Routed;
use tape::Tape;

/// The sessions of the SDK, whose they are, and what is kept of their streams.
#[derive(Default)]
pub(super) struct Sessions {
    pub(super) local: LocalSessionManager,
    pub(super) owners: Owners,
    kept: Arc<Mutex<Kept>>,
    flights: Flights,
}

/// Tells a stream, as long as no other reader has come.
struct Reader {
    tape: Arc<Mutex<Tape>>,
    reader: u64,
    /// Reads the stream for this reader alone.
    own: Option<AbortHandle>,
}

impl Reader {
    /// The first reader of a stream that is read to its end, whoever its readers are: the session waits for nobody.
    fn first(
        kept: Arc<Mutex<Kept>>,
        session: SessionId,
        rest: impl Stream<Item = ServerSseMessage> + Send + 'static,
        (flight, place): (Option<Arc<Flight>>, PlaceOf),
    ) -> Reader {
        let tape = Arc::new(Mutex::new(Tape::of(flight, place)));
        tokio::spawn(read_on(rest, Arc::clone(&tape), Some((kept, session))));
        Reader { tape, reader: 0, own: None }
    }

    /// The only reader of a stream, which ends with it.
    fn only(rest: impl Stream<Item = ServerSseMessage> + Send + 'static) -> Reader {
        let tape = Arc::new(Mutex::new(Tape::of(None, PlaceOf::default())));
        let own = tokio::spawn(read_on(rest, Arc::clone(&tape), None)).abort_handle();
        Reader { tape, reader: 0, own: Some(own) }
    }

    /// Takes the stream from whoever reads it, from an event of this number on.
    fn after(tape: Arc<Mutex<Tape>>, from: u64) -> Reader {
        let (reader, before) = lock(&tape).is_taken(from);
        if let Some(before) = before {
            before.wake();
        }
        Reader { tape, reader, own: None }
    }
}

impl Stream for Reader {
    type Item = ServerSseMessage;

    fn poll_next(self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let mut tape = lock(&self.tape);
        if tape.reader != self.reader {
            return Poll::Ready(None);
        }
        // Who was woken is held no longer: with it goes its connection.
        tape.waits = None;
        if let Some(event) = tape.tell() {
            return Poll::Ready(Some(event));
        }
        if tape.is_over {
            return Poll::Ready(None);
        }
        tape.waits = Some(poller.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            own.abort();
        }
        let waits = lock(&self.tape).is_left(self.reader);
        drop(waits);
    }
}

/// Reads a stream to its end, also where its client does not: a session waits until what it says is read, and with it all of its other
/// streams.
async fn read_on(
    rest: impl Stream<Item = ServerSseMessage>,
    tape: Arc<Mutex<Tape>>,
    kept: Option<(Arc<Mutex<Kept>>, SessionId)>,
) {
    let mut rest = pin!(rest);
    while let Some(event) = rest.next().await {
        let mut held = lock(&tape);
        let begun = held.keep(logged::coming_out(event));
        if let (Some(stream), Some((kept, session))) = (begun, &kept) {
            lock(kept).add(session, stream, &tape);
        }
        let waits = held.waits.take();
        drop(held);
        waits.into_iter().for_each(Waker::wake);
    }
    let ended = lock(&tape).end();
    if let (Some((stream, bytes)), Some((kept, session))) = (ended, &kept) {
        Kept::end(kept, session, stream, bytes);
    }
    let mut held = lock(&tape);
    held.is_over = true;
    let waits = held.waits.take();
    drop(held);
    waits.into_iter().for_each(Waker::wake);
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

impl Sessions {
    /// The place of the request whose stream is taken up behind this event, as long as somebody works on it.
    pub(super) fn place_of(&self, session: &str, event: &str) -> Option<Place> {
        let (_, stream) = numbers(event)?;
        let tape = Kept::stream(&self.kept, &session.into(), stream)?;
        lock(&tape).place.again()
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = Routed<<LocalSessionManager as SessionManager>::Transport>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.local.create_session().await?;
        self.owners.begun(&id);
        lock(&self.kept).open(Arc::clone(&id));
        Ok((id, Routed(transport)))
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
        let closed = self.local.close_session(id).await;
        // As long as it is there it is somebody's.
        self.owners.ended(id);
        closed
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut asked: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let mut of = (None, PlaceOf::default());
        if let JsonRpcMessage::Request(request) = &mut asked {
            let Some(begun) = self.flights.begin(id, &request.id) else {
                let refused = ServerJsonRpcMessage::error(message::in_use(), Some(request.id.clone()));
                return Ok(Either::Right(stream::iter([ServerSseMessage::from_message(refused)])));
            };
            // Who works on it has a part in it: where it is taken back, its stream ends before that.
            request.request.extensions_mut().insert(Arc::clone(&begun));
            of = (Some(begun), PlaceOf::request(&request.request));
        }
        let rest = self.local.create_stream(id, asked).await?;
        Ok(Either::Left(Reader::first(Arc::clone(&self.kept), Arc::clone(id), rest, of)))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(Reader::only(self.local.create_standalone_stream(id).await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        if let Some((number, stream)) = numbers(&last_event_id) {
            let tape = Kept::stream(&self.kept, id, stream);
            if let Some(tape) = tape {
                return Ok(Reader::after(tape, number.saturating_add(1)));
            }
        }
        Ok(Reader::only(self.local.resume(id, last_event_id).await?))
    }
}

#[cfg(test)]
mod tests;
