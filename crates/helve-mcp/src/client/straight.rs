//! Calls of tools, sent to a server on standard streams straight and answered straight.
//!
//! The protocol's loop hands every request from task to task: into its line, to one that writes it, and back. A call is written
//! here by whoever makes it, and its answer read by who waits for it ([`Inlet`]). Numbers of these
//! requests begin where those of the loop never come to. Everything else about a call (its progress, the server's questions,
//! taking it back) is the loop's, as ever.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use helve_core::ServerCall;
use helve_core::json_text::{write_string, write_u64};
use rmcp::ServiceError;
use rmcp::model::{
    ErrorData, JsonRpcMessage, NumberOrString, ProgressToken, RequestId, ServerJsonRpcMessage, ServerResult,
};
use tokio::io::AsyncWrite;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::backlog::Backlog;
use super::failure::{Broken, unread};
use super::inlet::Inlet;

/// The first number. The loop counts from nothing, and has little else to ask than to list; some servers take 32 bits.
const FIRST: i64 = 1 << 30;

/// Room for the request of most calls.
const USUAL_LINE: usize = 256;

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
    pub(super) backlog: Arc<Backlog>,
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

/// A call that was sent. Dropped, nobody waits for its answer any more.
pub(crate) struct Asked {
    number: i64,
    answer: oneshot::Receiver<Message>,
    waiting: Arc<Waiting>,
    inlet: Arc<Inlet>,
    /// How much the loop had been told when it was sent.
    told: u64,
    /// An answer before which the loop was told something (none where there will not be any), and who waits until that is being
    /// heard.
    late: Option<(Option<Message>, JoinHandle<()>)>,
}

impl Straight {
    pub(super) fn new(way: Way, inlet: Arc<Inlet>, waiting: Arc<Waiting>) -> Straight {
        Straight { way, waiting, inlet, next: Arc::new(AtomicI64::new(FIRST)), backlog: Arc::default() }
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
        let (waiting, inlet) = (Arc::clone(&self.waiting), Arc::clone(&self.inlet));
        let told = inlet.told();
        let asked = Asked { number, answer, waiting, inlet, told, late: None };
        if !self.waiting.add(number, to) {
            return Err(ServiceError::TransportClosed);
        }
        begin(asked.token(), asked.id());
        self.write(number, line);
        Ok(asked)
    }

    /// Writes a line, at once where the server reads. Where it does not, the rest is written by a task of its own: whoever calls
    /// may give up, and half a line must not stay.
    fn write(&self, number: i64, line: Vec<u8>) {
        let mut poller = Context::from_waker(Waker::noop());
        let mut held = Arc::clone(&self.way).try_lock_owned().ok();
        let mut from = 0;
        if let Some(Some(way)) = held.as_deref_mut()
            && let Poll::Ready(Ok(count)) = Pin::new(&mut *way).poll_write(&mut poller, &line)
        {
            from = count;
            if from == line.len() && matches!(Pin::new(way).poll_flush(&mut poller), Poll::Ready(Ok(()))) {
                return;
            }
        }
        let room = match self.backlog.room(line.len()) {
            Ok(room) => Some(room),
            // What was begun is written to its end.
            Err(_) if from > 0 => None,
            Err(waiting) => return self.waiting.refuse(number, unread(waiting)),
        };
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
        if from == 0 && !self.waiting.has(number) {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// What the server said before it on behalf of the call comes first: the loop hands each of that to
    /// a task, and those have their turn before the answer is given out.
    pub(crate) fn poll_answer(&mut self, poller: &mut Context<'_>) -> Poll<Answered> {
        self.poll_message(poller).map(answered)
    }

    /// None where there will not be any.
    fn poll_message(&mut self, poller: &mut Context<'_>) -> Poll<Option<Message>> {
        if self.late.is_none() {
            let answer = ready!(self.poll_line(poller));
            if self.inlet.told() == self.told {
                return Poll::Ready(answer);
            }
            self.inlet.leave(self.number);
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
        if let Some(answer) = self.inlet.read_for(self.number, poller) {
            return Poll::Ready(Some(answer));
        }
        let answer = ready!(Pin::new(&mut self.answer).poll(poller));
        self.inlet.leave(self.number);
        Poll::Ready(answer.ok())
    }

    /// Whether polling sees the answer as soon as it has come.
    pub(crate) fn is_seen(&self) -> bool {
        self.late.is_none() && self.inlet.is_free()
    }

    /// The answer; waits for it.
    pub(crate) async fn answer(&mut self) -> Answered {
        let answer = std::future::poll_fn(|poller| self.poll_answer(poller)).await;
        self.inlet.leave(self.number);
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
        self.waiting.forget(self.number);
        self.inlet.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::call;
    use super::super::frame::{Ending, Streams};
    use super::*;
    use helve_core::{CallId, Progress};
    use pretty_assertions::assert_eq;
    use rmcp::transport::Transport as _;
    use serde_json::{Value, json};
    use std::time::Duration;
    use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream};

    #[test]
    fn a_request_is_what_the_protocol_has() {
        let (heard, _listens) = tokio::sync::mpsc::channel(1);
        for (name, args) in [("t", json!({"a": [1, "\n"]})), ("q\"\u{1}", json!({})), ("none", Value::Null)] {
            for progress in [None, Some(heard.clone())] {
                let mut call = call("s", name, args.clone());
                call.progress = Progress::new(CallId::from_parts(1, 1), progress);
                let mut expected =
                    json!({"jsonrpc": "2.0", "id": FIRST, "method": "tools/call", "params": {"name": name}});
                if call.progress.is_heard() {
                    expected["params"]["_meta"] = json!({"progressToken": FIRST});
                }
                if args.is_object() {
                    expected["params"]["arguments"] = args.clone();
                }
                let line = String::from_utf8(line(FIRST, &call).unwrap()).unwrap();
                let text = line.strip_suffix('\n').filter(|text| !text.contains('\n')).unwrap();
                assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);
            }
        }
    }

    #[tokio::test]
    async fn lines_stay_whole_and_in_their_order_where_the_server_reads_slowly() {
        let ((_said, ours), (server, to)) = (tokio::io::duplex(64), tokio::io::duplex(7));
        let streams = Streams::new(ours, to, 1 << 20, Ending::default());
        let send = |number: i64| {
            let call = call("s", "t", json!({"number": number, "text": "x".repeat(200)}));
            streams.straight().send(&call, |_, _| ()).unwrap()
        };
        let _under_way: Vec<Asked> = (0..20).map(send).collect();
        let mut lines = BufReader::new(server).lines();
        for number in 0..20 {
            let line = lines.next_line().await.unwrap().unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(said["params"]["arguments"]["number"], number);
        }
    }
    /// A server that says and reads nothing, and how its connection ends.
    fn deaf(patience: Duration) -> ([DuplexStream; 2], Streams, Ending) {
        let ((server, to), (says, ours)) = (tokio::io::duplex(7), tokio::io::duplex(64));
        let ending = Ending::default();
        let streams = Streams::new(ours, to, 1 << 20, ending.clone()).patient(patience);
        ([server, says], streams, ending)
    }

    /// A call that has so many bytes.
    fn ask(streams: &Streams, name: &str, bytes: usize) -> Asked {
        streams.straight().send(&call("s", name, json!({"text": "x".repeat(bytes)})), |_, _| ()).unwrap()
    }

    #[tokio::test]
    async fn what_waits_for_a_server_that_does_not_read_is_bounded() {
        let (_server, streams, _) = deaf(Duration::from_secs(600));
        let mut asked: Vec<Asked> = (0..20).map(|_| ask(&streams, "t", 1 << 20)).collect();
        let mut poller = Context::from_waker(Waker::noop());
        let refused = asked.iter_mut().filter_map(|asked| match asked.poll_answer(&mut poller) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        });
        let refused: Vec<Answered> = refused.collect();
        assert_eq!(refused.len(), 13);
        for answer in refused {
            let Err(ServiceError::McpError(error)) = answer else { panic!("{answer:?}") };
            assert!(error.message.contains("bytes wait"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_call_that_was_given_up_before_it_was_sent_is_not_sent() {
        let ([server, _says], streams, _) = deaf(Duration::from_secs(600));
        let _first = ask(&streams, "first", 100);
        drop(ask(&streams, "given up", 100));
        let _last = ask(&streams, "last", 100);
        let mut lines = BufReader::new(server).lines();
        for name in ["first", "last"] {
            let line = lines.next_line().await.unwrap().unwrap();
            let said: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(said["params"]["name"], name);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_reads_nothing_for_too_long_is_given_up() {
        let (_server, mut streams, ending) = deaf(Duration::from_secs(5));
        let (mut first, mut second) = (ask(&streams, "t", 100), ask(&streams, "t", 100));
        let all = async { tokio::join!(first.answer(), second.answer(), streams.receive()) };
        let (first, second, end) = tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
        assert!(matches!(first, Err(ServiceError::TransportClosed)), "{first:?}");
        assert!(matches!(second, Err(ServiceError::TransportClosed)), "{second:?}");
        assert!(end.is_none());
        assert_eq!(ending.why(), Some(Broken::Unread));
        assert!(streams.straight().send(&call("s", "t", json!({})), |_, _| ()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn so_is_one_to_which_the_loop_writes() {
        let (_server, mut streams, ending) = deaf(Duration::from_secs(5));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let sent = streams.send(serde_json::from_value(note).unwrap());
        let sent = tokio::time::timeout(Duration::from_secs(60), sent).await.unwrap();
        assert!(sent.is_err());
        assert!(streams.receive().await.is_none());
        assert_eq!(ending.why(), Some(Broken::Unread));
    }
}
