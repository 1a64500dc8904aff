//! Calls of tools, sent to a server on standard streams straight and answered straight.
//!
//! The protocol's loop hands every request from task to task: into its line, to one that writes it, and back. A call is written
//! here by whoever makes it, and its answer read by who waits for it ([`Inlet`]). Calls that are made before anybody waits go out
//! together. Numbers of these
//! requests begin where those of the loop never come to. How far a call is is heard by whoever reads it; everything else about it
//! (the server's questions, taking it back) is the loop's, as ever.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use helve_core::ServerCall;
use helve_core::json_text::{write_string, write_u64};
use rmcp::ServiceError;
use rmcp::model::{
    ErrorData, JsonRpcMessage, NumberOrString, ProgressToken, RequestId, ServerJsonRpcMessage, ServerResult,
};
use tokio::io::AsyncWrite;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::JoinHandle;

use super::backlog::Backlog;
use super::failure::{Broken, unread};
use super::inlet::Inlet;

/// The first number. The loop counts from nothing, and has little else to ask than to list; some servers take 32 bits.
const FIRST: i64 = 1 << 30;

/// Room for the request of most calls.
const USUAL_LINE: usize = 256;

/// So much is written together: what a pipe holds.
const TOGETHER: usize = 64 << 10;

/// So often everybody else has a turn before an answer goes out that is not all the server has said.
const TURNS: usize = 2;

/// The way to a server's standard input, which the loop writes to as well; none once it is closed.
pub(crate) type Way = Arc<tokio::sync::Mutex<OpenWay>>;
pub(crate) type OpenWay = Option<Box<dyn AsyncWrite + Send + Unpin>>;

/// What an answer is.
pub(crate) type Answered = Result<ServerResult, ServiceError>;

/// A message of a server. It is large, and handed from one to the next.
pub(super) type Message = Box<ServerJsonRpcMessage>;

/// The straight way to one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Straight {
    way: Way,
    waiting: Arc<Waiting>,
    inlet: Arc<Inlet>,
    next: Arc<AtomicI64>,
    queue: Arc<Queue>,
    pub(super) backlog: Arc<Backlog>,
}

/// The requests that nobody waits for yet, by their numbers, and whether there are any.
#[derive(Default)]
struct Queue {
    has_any: AtomicBool,
    lines: Mutex<Vec<(i64, Vec<u8>)>>,
    /// Those of which nothing could be written yet.
    later: Mutex<Vec<i64>>,
}

impl Queue {
    fn add(&self, number: i64, line: Vec<u8>) {
        let mut lines = locked(&self.lines);
        lines.push((number, line));
        self.has_any.store(true, Ordering::Relaxed);
    }

    /// All of them that are wanted. What cannot be written at once is added to `later`: until it is there it cannot be withdrawn, and a
    /// server may hear that a call is taken back of which it never hears. It passes over that.
    fn take(&self, is_wanted: impl Fn(i64) -> bool) -> Vec<(i64, Vec<u8>)> {
        if !self.has_any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut lines = locked(&self.lines);
        self.has_any.store(false, Ordering::Relaxed);
        lines.retain(|(number, _)| is_wanted(*number));
        std::mem::take(&mut *lines)
    }

    fn add_later(&self, number: i64) {
        locked(&self.later).push(number);
    }

    fn take_later(&self, number: i64) -> bool {
        let mut later = locked(&self.later);
        let at = later.iter().position(|own| *own == number);
        at.map(|at| later.swap_remove(at)).is_some()
    }

    /// Takes one out; whether it was there.
    fn withdraw(&self, number: i64) -> bool {
        let mut lines = locked(&self.lines);
        let at = lines.iter().position(|(own, _)| *own == number);
        at.map(|at| lines.remove(at)).is_some() || self.take_later(number)
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calls that wait for their answers.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    /// By the numbers of their requests. They are few.
    by_number: Vec<(i64, oneshot::Sender<Message>)>,
    /// Nothing is read any more.
    is_over: bool,
}

/// What became of a message.
pub(super) enum Handed {
    /// It is the answer that its reader waits for.
    Own(Message),
    /// Somebody else waits for it, or did.
    Over,
    /// It is no answer to a call.
    Back(Message),
}

/// A call that was sent; it goes out when it is first waited for. Dropped, nobody waits for its answer any more.
pub(crate) struct Asked {
    number: i64,
    answer: oneshot::Receiver<Message>,
    straight: Straight,
    /// How much the loop had been told when it was sent.
    told: u64,
    /// An answer before which the loop was told something (none where there will not be any), and who waits until that is being
    /// heard.
    late: Option<(Option<Message>, JoinHandle<()>)>,
}

impl Straight {
    pub(super) fn new(way: Way, inlet: Arc<Inlet>, waiting: Arc<Waiting>) -> Straight {
        let (queue, backlog) = (Arc::default(), Arc::default());
        Straight { way, waiting, inlet, next: Arc::new(AtomicI64::new(FIRST)), queue, backlog }
    }

    /// Sends a call. `begin` hears under which number and token before anything can come back.
    pub(crate) fn send(
        &self,
        call: &ServerCall,
        begin: impl FnOnce(ProgressToken, RequestId),
    ) -> Result<Asked, ServiceError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let line = line(number, call).map_err(|_| ServiceError::UnexpectedResponse)?;
        let (to, answer) = oneshot::channel();
        let told = self.inlet.told();
        let asked = Asked { number, answer, straight: self.clone(), told, late: None };
        if !self.waiting.add(number, to) {
            return Err(ServiceError::TransportClosed);
        }
        begin(asked.token(), asked.id());
        self.queue.add(number, line);
        Ok(asked)
    }

    /// Writes what was sent, as far as somebody still waits for it.
    pub(super) fn flush(&self) {
        let lines = self.queue.take(|number| self.waiting.has(number));
        let all: usize = lines.iter().map(|(_, line)| line.len()).sum();
        if all <= TOGETHER {
            self.write(lines);
        } else {
            lines.into_iter().for_each(|line| self.write(vec![line]));
        }
    }

    /// Takes a call back of which nothing was written; whether it is one. The server need not hear of it then.
    pub(super) fn withdraw(&self, number: i64) -> bool {
        self.queue.withdraw(number)
    }

    /// Writes lines, at once where the server reads. Where it does not, the rest is written by tasks of their own: whoever calls
    /// may give up, and half a line must not stay.
    fn write(&self, lines: Vec<(i64, Vec<u8>)>) {
        let together = match &lines[..] {
            [] => return,
            [(_, line)] => Cow::Borrowed(&line[..]),
            several => Cow::Owned(several.iter().flat_map(|(_, line)| line).copied().collect::<Vec<u8>>()),
        };
        let mut poller = Context::from_waker(Waker::noop());
        let mut held = Arc::clone(&self.way).try_lock_owned().ok();
        let mut written = 0;
        if let Some(Some(way)) = held.as_deref_mut()
            && let Poll::Ready(Ok(count)) = Pin::new(&mut *way).poll_write(&mut poller, &together)
        {
            written = count;
            let is_all = written == together.len();
            if is_all && matches!(Pin::new(way).poll_flush(&mut poller), Poll::Ready(Ok(()))) {
                return;
            }
        }
        let is_all = written == together.len();
        drop(together);
        let last = lines.len() - 1;
        for (at, (number, line)) in lines.into_iter().enumerate() {
            let from = written.min(line.len());
            written -= from;
            // Where only what was written has still to be passed on, that is the last one's.
            if from < line.len() || (is_all && at == last) {
                self.write_later(held.take(), number, line, from);
            }
        }
    }

    /// Writes a line from there on when the way is free, and the server reads.
    fn write_later(&self, held: Option<OwnedMutexGuard<OpenWay>>, number: i64, line: Vec<u8>, from: usize) {
        let mut poller = Context::from_waker(Waker::noop());
        let room = match self.backlog.room(line.len()) {
            Ok(room) => Some(room),
            // What was begun is written to its end.
            Err(_) if from > 0 => None,
            Err(waiting) => return self.waiting.refuse(number, unread(waiting)),
        };
        if from == 0 {
            self.queue.add_later(number);
        }
        let straight = self.clone();
        let mut writing = Box::pin(async move {
            let mut way = match held {
                Some(way) => way,
                None => Arc::clone(&straight.way).lock_owned().await,
            };
            straight.write_rest(number, &mut way, &line, from).await;
            drop(room);
        });
        if writing.as_mut().poll(&mut poller).is_pending() {
            tokio::spawn(writing);
        }
    }

    /// Writes a line from there on, unless nothing of it was written and nobody waits for its answer any more.
    async fn write_rest(&self, number: i64, way: &mut OpenWay, line: &[u8], from: usize) {
        if from == 0 && !(self.queue.take_later(number) && self.waiting.has(number)) {
            return;
        }
        let rest = line.get(from..).unwrap_or_default();
        let written = match way {
            Some(way) => self.backlog.put(way, rest).await,
            None => Err(ErrorKind::NotConnected.into()),
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                way.take();
                self.inlet.end(Broken::Unread);
            }
            // Nobody will answer.
            Err(_) => self.waiting.forget(number),
        }
    }
}

/// A request, as it is written.
fn line(number: i64, call: &ServerCall) -> serde_json::Result<Vec<u8>> {
    let number = number.unsigned_abs();
    let mut line = Vec::with_capacity(USUAL_LINE);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    write_u64(&mut line, number);
    line.extend_from_slice(br#","method":"tools/call","params":{"#);
    // Only for who listens: a server has the less to read.
    if call.progress.is_heard() {
        line.extend_from_slice(br#""_meta":{"progressToken":"#);
        write_u64(&mut line, number);
        line.extend_from_slice(b"},");
    }
    line.extend_from_slice(br#""name":"#);
    write_string(&mut line, &call.tool);
    if let Some(arguments) = call.args.as_object() {
        line.extend_from_slice(br#","arguments":"#);
        serde_json::to_writer(&mut line, arguments)?;
    }
    line.extend_from_slice(b"}}\n");
    Ok(line)
}

impl Waiting {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        locked(&self.0)
    }

    /// One more, unless nothing is read any more.
    fn add(&self, number: i64, to: oneshot::Sender<Message>) -> bool {
        let mut calls = self.calls();
        if !calls.is_over {
            calls.by_number.push((number, to));
        }
        !calls.is_over
    }

    /// Whether nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.calls().by_number.is_empty()
    }

    /// Whether somebody waits for this one.
    fn has(&self, number: i64) -> bool {
        self.calls().by_number.iter().any(|(own, _)| *own == number)
    }

    /// Answers a call in the server's place.
    fn refuse(&self, number: i64, error: ErrorData) {
        if let Some(waits) = self.take(number) {
            let answer = ServerJsonRpcMessage::error(error, Some(RequestId::Number(number)));
            let _ = waits.send(Box::new(answer));
        }
    }

    fn forget(&self, number: i64) {
        self.take(number);
    }

    fn take(&self, number: i64) -> Option<oneshot::Sender<Message>> {
        let mut calls = self.calls();
        let at = calls.by_number.iter().position(|(own, _)| *own == number)?;
        Some(calls.by_number.swap_remove(at).1)
    }

    /// Hands an answer to who waits for it; gives back what is something else, and what the call `own` waits for.
    pub(super) fn hand(&self, message: Message, own: Option<i64>) -> Handed {
        let id = match &*message {
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
            let waits = self.take(number);
            waits.map(|waits| (waits, own == Some(number)))
        });
        match waits {
            None => Handed::Back(message),
            Some((_, true)) => Handed::Own(message),
            Some((waits, false)) => {
                // Who gave up meanwhile has told the server so.
                let _ = waits.send(message);
                Handed::Over
            }
        }
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

    /// The answer, if it is there; who has it drops this soon, because what comes behind it may be read by nobody else until then.
    /// What the server asked before it on behalf of the call comes first, so that no question seems to be another call's: the loop hands
    /// each to a task, and those have their turn before the answer is given out.
    pub(crate) fn poll_answer(&mut self, poller: &mut Context<'_>) -> Poll<Answered> {
        self.poll_message(poller).map(answered)
    }

    /// None where there will not be any.
    fn poll_message(&mut self, poller: &mut Context<'_>) -> Poll<Option<Message>> {
        if self.late.is_none() {
            self.straight.flush();
            let answer = ready!(self.poll_line(poller));
            if self.straight.inlet.told() == self.told {
                return Poll::Ready(answer);
            }
            self.straight.inlet.leave(self.number);
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
        Poll::Ready(self.late.take().and_then(|(answer, _)| answer))
    }

    fn poll_line(&mut self, poller: &mut Context<'_>) -> Poll<Option<Message>> {
        if let Some(answer) = self.straight.inlet.read_for(self.number, poller) {
            return Poll::Ready(Some(answer));
        }
        let answer = ready!(Pin::new(&mut self.answer).poll(poller));
        self.straight.inlet.leave(self.number);
        Poll::Ready(answer.ok())
    }

    /// Whether polling sees the answer as soon as it has come.
    pub(crate) fn is_seen(&self) -> bool {
        self.late.is_none() && self.straight.inlet.is_free()
    }

    /// The answer; waits for it.
    pub(crate) async fn answer(&mut self) -> Answered {
        let answer = std::future::poll_fn(|poller| self.poll_answer(poller)).await;
        self.straight.inlet.leave(self.number);
        answer
    }
}

fn answered(message: Option<Message>) -> Answered {
    match message.map(|message| *message) {
        Some(JsonRpcMessage::Response(response)) => Ok(response.result),
        Some(JsonRpcMessage::Error(error)) => Err(ServiceError::McpError(error.error)),
        Some(_) => Err(ServiceError::UnexpectedResponse),
        None => Err(ServiceError::TransportClosed),
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.straight.waiting.forget(self.number);
        self.straight.inlet.leave(self.number);
    }
}

#[cfg(test)]
mod tests;
