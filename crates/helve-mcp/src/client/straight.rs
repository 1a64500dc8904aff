//! Calls of tools, sent to a server on standard streams straight and answered straight.
//!
//! The protocol's loop hands every request from task to task: into its line, to one that writes it, and back. A call is written
//! here by whoever makes it, and its answer read by who waits for it ([`Inlet`]). Numbers of these
//! requests begin where those of the loop never come to. Everything else about a call (its progress, the server's questions,
//! taking it back) is the loop's, as ever.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use helve_core::ServerCall;
use rmcp::ServiceError;
use rmcp::model::{
    JsonRpcMessage, NumberOrString, ProgressToken, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::inlet::Inlet;

/// The first number. The loop counts from nothing, and has little else to ask than to list; some servers take 32 bits.
const FIRST: i64 = 1 << 30;

/// So often everybody else has a turn before an answer goes out that is not all the server has said.
const TURNS: usize = 2;

/// The way to a server's standard input, which the loop writes to as well; none once it is closed.
pub(crate) type Way = Arc<tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>>;

/// What an answer is.
pub(crate) type Answered = Result<ServerResult, ServiceError>;

/// The straight way to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Straight {
    way: Way,
    waiting: Arc<Waiting>,
    inlet: Arc<Inlet>,
    next: Arc<AtomicI64>,
}

/// The calls that wait for their answers.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    by_number: HashMap<i64, oneshot::Sender<Answered>>,
    /// Nothing is read any more.
    is_over: bool,
}

/// What became of a message.
pub(super) enum Handed {
    /// It is the answer that its reader waits for.
    Own(Box<Answered>),
    /// Somebody else waits for it, or did.
    Over,
    /// It is no answer to a call.
    Back(Box<ServerJsonRpcMessage>),
}

#[derive(Serialize)]
struct Frame<'c> {
    jsonrpc: &'static str,
    id: i64,
    method: &'static str,
    params: Params<'c>,
}

#[derive(Serialize)]
struct Params<'c> {
    /// Only for who listens: a server has the less to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    _meta: Option<Meta>,
    name: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'c Map<String, Value>>,
}

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "progressToken")]
    progress_token: i64,
}

/// A call that was sent. Dropped, nobody waits for its answer any more.
pub(crate) struct Asked {
    number: i64,
    answer: oneshot::Receiver<Answered>,
    waiting: Arc<Waiting>,
    inlet: Arc<Inlet>,
    /// How much the loop had been told when it was sent.
    told: u64,
    /// An answer before which the loop was told something, and who waits until that is being heard.
    late: Option<(Answered, JoinHandle<()>)>,
}

impl Straight {
    pub(super) fn new(way: Way, inlet: Arc<Inlet>, waiting: Arc<Waiting>) -> Straight {
        Straight { way, waiting, inlet, next: Arc::new(AtomicI64::new(FIRST)) }
    }

    /// Sends a call. `begin` hears under which number and token before anything can come back.
    pub(crate) fn send(
        &self,
        call: &ServerCall,
        begin: impl FnOnce(&ProgressToken, &RequestId),
    ) -> Result<Asked, ServiceError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let params = Params {
            _meta: call.progress.is_heard().then_some(Meta { progress_token: number }),
            name: &call.tool,
            arguments: call.args.as_object(),
        };
        let frame = Frame { jsonrpc: "2.0", id: number, method: "tools/call", params };
        let mut line = serde_json::to_vec(&frame).map_err(|_| ServiceError::UnexpectedResponse)?;
        line.push(b'\n');
        let (to, answer) = oneshot::channel();
        let (waiting, inlet) = (Arc::clone(&self.waiting), Arc::clone(&self.inlet));
        let told = inlet.told();
        let asked = Asked { number, answer, waiting, inlet, told, late: None };
        if !self.waiting.add(number, to) {
            return Err(ServiceError::TransportClosed);
        }
        begin(&asked.token(), &asked.id());
        self.write(number, line);
        Ok(asked)
    }

    /// Writes a line, at once where the server reads. Where it does not, the rest is written by a task of its own: whoever calls
    /// may give up, and half a line must not stay.
    fn write(&self, number: i64, line: Vec<u8>) {
        let (way, waiting) = (Arc::clone(&self.way), Arc::clone(&self.waiting));
        let mut writing = Box::pin(async move {
            let mut way = way.lock().await;
            let written = match way.as_mut() {
                Some(way) => way.write_all(&line).await.is_ok() && way.flush().await.is_ok(),
                None => false,
            };
            if !written {
                // Nobody will answer.
                waiting.forget(number);
            }
        });
        let mut poller = Context::from_waker(Waker::noop());
        if writing.as_mut().poll(&mut poller).is_pending() {
            tokio::spawn(writing);
        }
    }
}

impl Waiting {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, unless nothing is read any more.
    fn add(&self, number: i64, to: oneshot::Sender<Answered>) -> bool {
        let mut calls = self.calls();
        if !calls.is_over {
            calls.by_number.insert(number, to);
        }
        !calls.is_over
    }

    fn forget(&self, number: i64) {
        self.calls().by_number.remove(&number);
    }

    /// Hands an answer to who waits for it; gives back what is something else, and what the call `own` waits for.
    pub(super) fn hand(&self, message: ServerJsonRpcMessage, own: Option<i64>) -> Handed {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let number = match id {
            Some(NumberOrString::Number(number)) => Some(*number),
            // Some servers answer with the number as text.
            Some(NumberOrString::String(text)) => text.parse().ok(),
            None => None,
        };
        let waits = number.filter(|number| *number >= FIRST).and_then(|number| {
            let waits = self.calls().by_number.remove(&number);
            waits.map(|waits| (waits, own == Some(number)))
        });
        let Some((waits, is_own)) = waits else { return Handed::Back(Box::new(message)) };
        let answer = match message {
            JsonRpcMessage::Response(response) => Ok(response.result),
            JsonRpcMessage::Error(error) => Err(ServiceError::McpError(error.error)),
            other => return Handed::Back(Box::new(other)),
        };
        if is_own {
            return Handed::Own(Box::new(answer));
        }
        // Who gave up meanwhile has told the server so.
        let _ = waits.send(answer);
        Handed::Over
    }

    /// Nothing is read any more: whoever waits hears that, and so does who comes later.
    pub(super) fn end(&self) {
        let mut calls = self.calls();
        calls.is_over = true;
        calls.by_number.clear();
    }
}

impl Asked {
    pub(crate) fn id(&self) -> RequestId {
        RequestId::Number(self.number)
    }

    pub(crate) fn token(&self) -> ProgressToken {
        ProgressToken(NumberOrString::Number(self.number))
    }

    /// The answer, if it is there. What the server said before it on behalf of the call comes first: the loop hands each of that to
    /// a task, and those have their turn before the answer is given out.
    pub(crate) fn poll_answer(&mut self, poller: &mut Context<'_>) -> Poll<Answered> {
        if self.late.is_none() {
            let answer = ready!(self.poll_line(poller));
            if self.inlet.told() == self.told {
                return Poll::Ready(answer);
            }
            let turns = async {
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            };
            self.late = Some((answer, tokio::spawn(turns)));
        }
        if let Some((_, turns)) = &mut self.late {
            let _ = ready!(Pin::new(turns).poll(poller));
        }
        Poll::Ready(self.late.take().map_or(Err(ServiceError::TransportClosed), |(answer, _)| answer))
    }

    fn poll_line(&mut self, poller: &mut Context<'_>) -> Poll<Answered> {
        if let Some(answer) = self.inlet.read_for(self.number, poller) {
            return Poll::Ready(answer);
        }
        let answer = ready!(Pin::new(&mut self.answer).poll(poller));
        self.inlet.leave(self.number);
        Poll::Ready(answer.unwrap_or(Err(ServiceError::TransportClosed)))
    }

    /// Whether polling sees the answer as soon as it has come.
    pub(crate) fn is_seen(&self) -> bool {
        self.late.is_none() && self.inlet.is_free()
    }

    /// The answer; waits for it.
    pub(crate) async fn answer(&mut self) -> Answered {
        std::future::poll_fn(|poller| self.poll_answer(poller)).await
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.waiting.forget(self.number);
        self.inlet.leave(self.number);
    }
}
