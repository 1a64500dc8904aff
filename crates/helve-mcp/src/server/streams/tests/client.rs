//! A host that does as calls say, and a client that has introduced itself to a server before it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use helve_core::context::ProgressNote;
use helve_core::{
    BoxFuture, Call, CallId, CallResult, Cancel, EmbeddedResource, LogLevel, Peer, QuestionKind, ToolError,
    ToolSpec,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::{Notify, mpsc, watch};

use crate::server::{AtOnce, Card, Host, HostCall, Hosts, Line, Stand, Taken, serve_streams};

/// `say` answers at once with the text that it is given, `later` when it is looked at again, `wait` when it is taken back, `lingers`
/// when it is let go after that, `asks` when the client has said what its roots are, and `never` never. `quick` is taken together with
/// others, and has to wait all the same where its text says so.
pub(super) struct Fake {
    version: watch::Sender<u64>,
    beside: mpsc::UnboundedSender<bool>,
    ended: mpsc::UnboundedSender<()>,
    /// The texts of calls, in the order in which they began.
    pub(super) began: Arc<Mutex<Vec<String>>>,
    /// How many calls were taken together, each time.
    pub(super) groups: Arc<Mutex<Vec<usize>>>,
    /// Whether something is kept at hand for the next call.
    pub(super) stays: Arc<AtomicBool>,
    /// Whether something was when a call came.
    pub(super) stayed: Arc<AtomicBool>,
    /// Whether results were given out after which nobody has settled.
    pub(super) unsettled: Arc<AtomicBool>,
    /// Lets go of a call that lingers.
    pub(super) lets_go: Notify,
    /// Where calls tell of their progress that were sent and go on.
    pub(super) tells: Tells,
    /// How many resources were read.
    pub(super) read: AtomicUsize,
}

type Tells = Arc<Mutex<Vec<mpsc::Sender<ProgressNote>>>>;

/// How far a call is.
pub(super) fn note(message: &str, done: Option<f64>, total: Option<f64>) -> ProgressNote {
    ProgressNote { call: CallId::from_parts(1, 2), message: message.to_owned(), done, total, output: None }
}

fn tell(to: Option<&mpsc::Sender<ProgressNote>>, note: ProgressNote) {
    if let Some(to) = to {
        let _ = to.try_send(note);
    }
}

/// Takes the calls of `quick`.
struct Group {
    began: Arc<Mutex<Vec<String>>>,
    groups: Arc<Mutex<Vec<usize>>>,
    stays: Arc<AtomicBool>,
    stayed: Arc<AtomicBool>,
    unsettled: Arc<AtomicBool>,
    tells: Tells,
    peer: Arc<dyn Peer>,
    /// Calls that were sent, by their numbers. Those that say `log` log something and are done when they are polled; those that say
    /// `tell` have said before how far they are.
    sent: Vec<(u64, Box<CallResult>)>,
    next: u64,
    taken_back: mpsc::UnboundedSender<()>,
}

impl AtOnce for Group {
    fn takes(&self, tool: &str) -> bool {
        tool == "quick"
    }

    fn calls(&mut self, calls: Vec<Taken>) -> Vec<Stand> {
        self.stayed.fetch_or(self.stays.load(Ordering::Relaxed), Ordering::Relaxed);
        self.groups.lock().unwrap().push(calls.len());
        let stand = |Taken { call, progress }| {
            let text = text_of(&call);
            self.began.lock().unwrap().push(text.clone());
            let result = said(call.id, call.tool, &text);
            match &*text {
                "wait" => Stand::Waits(Box::new(move |line| {
                    Box::pin(async move {
                        line.cancel.cancelled().await;
                        result
                    })
                })),
                "later" => Stand::Waits(Box::new(move |line| {
                    Box::pin(async move {
                        tell(line.progress.as_ref(), note("goes on", None, None));
                        tokio::task::yield_now().await;
                        result
                    })
                })),
                "sent" | "log" | "chatter" | "tell" => {
                    if text == "tell" {
                        tell(progress.as_ref(), note("begins", None, None));
                        tell(progress.as_ref(), note("half", Some(5.0), Some(10.0)));
                        tell(progress.as_ref(), note("", Some(2.0), Some(3.0)));
                    }
                    self.tells.lock().unwrap().extend(progress.filter(|_| text == "sent"));
                    self.next += 1;
                    self.sent.push((self.next, result));
                    Stand::Sent(self.next)
                }
                _ => Stand::Done(result),
            }
        };
        calls.into_iter().map(stand).collect()
    }

    fn poll(&mut self, poller: &mut Context<'_>) -> Vec<(u64, Box<CallResult>)> {
        if self.sent.iter().any(|(_, result)| result.text() == "chatter") {
            for _ in 0..64 {
                self.peer.log(LogLevel::Error, None, json!("x".repeat(2_000)));
            }
            poller.waker().wake_by_ref();
        }
        let is_done = |(_, result): &mut (u64, Box<CallResult>)| ["log", "tell"].contains(&&*result.text());
        let mut all = Vec::new();
        // The last comes first: answers come in any order.
        while let Some(at) = self.sent.iter_mut().rposition(is_done) {
            let (number, result) = self.sent.remove(at);
            if result.text() == "log" {
                self.peer.log(LogLevel::Warning, Some("server"), json!("before"));
                self.peer.log(LogLevel::Info, Some("server"), json!("too little"));
            }
            all.push((number, result));
            self.unsettled.store(true, Ordering::Relaxed);
        }
        all
    }

    fn settle(&mut self) {
        self.unsettled.store(false, Ordering::Relaxed);
    }

    fn take_back(&mut self, number: u64) {
        self.sent.retain(|(own, _)| *own != number);
        let _ = self.taken_back.send(());
    }

    fn stay(&mut self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    fn rest(&mut self) {
        self.stays.store(false, Ordering::Relaxed);
    }
}

fn text_of(call: &Call) -> String {
    let helve_core::Args::Value(args) = &call.args else { panic!("text") };
    args["text"].as_str().unwrap_or_default().to_owned()
}

fn said(id: Option<Value>, tool: String, text: &str) -> Box<CallResult> {
    Box::new(CallResult { id, ..CallResult::saying(CallId::from_parts(1, 2), tool, text) })
}

pub(super) struct Fakes(Arc<Fake>);

impl Fakes {
    /// Hosts whose calls nobody watches.
    pub(super) fn new() -> Fakes {
        Fakes(Arc::new(Fake::new().0))
    }
}

impl Fake {
    /// With what tells whether calls came together, and that they have ended.
    fn new() -> (Fake, mpsc::UnboundedReceiver<bool>, mpsc::UnboundedReceiver<()>) {
        let ((tell_beside, beside), (tell_ended, ended)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let fake = Fake {
            version: watch::Sender::new(0),
            beside: tell_beside,
            ended: tell_ended,
            began: Arc::default(),
            groups: Arc::default(),
            stays: Arc::default(),
            stayed: Arc::default(),
            unsettled: Arc::default(),
            lets_go: Notify::new(),
            tells: Arc::default(),
            read: AtomicUsize::new(0),
        };
        (fake, beside, ended)
    }
}

impl Host for Fake {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        Vec::new()
    }

    fn tools_version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn call(&self, call: HostCall) -> BoxFuture<'_, Box<CallResult>> {
        Box::pin(async move {
            let HostCall { call, line, beside, .. } = call;
            let _ = self.beside.send(beside);
            let text = text_of(&call);
            self.began.lock().unwrap().push(text.clone());
            assert!(!self.stays.load(Ordering::Relaxed), "a call that runs by itself may want it");
            match &*call.tool {
                "wait" => {
                    line.cancel.cancelled().await;
                    let _ = self.ended.send(());
                }
                "lingers" => {
                    line.cancel.cancelled().await;
                    self.lets_go.notified().await;
                    let _ = self.ended.send(());
                }
                "asks" => {
                    let roots = line.peer.ask("roots", QuestionKind::Roots, json!({})).await.unwrap();
                    return said(call.id, call.tool, &roots.to_string());
                }
                "later" => tokio::task::yield_now().await,
                "never" => std::future::pending().await,
                _ => {}
            }
            said(call.id, call.tool, &text)
        })
    }

    /// A resource whose content is its address.
    fn read<'a>(
        &'a self,
        uri: &'a str,
        _client: String,
        _line: Line,
    ) -> BoxFuture<'a, Result<Vec<EmbeddedResource>, ToolError>> {
        Box::pin(async move {
            self.read.fetch_add(1, Ordering::Relaxed);
            let (uri, text) = (uri.to_owned(), Some(uri.to_owned()));
            Ok(vec![EmbeddedResource { uri, text, ..EmbeddedResource::default() }])
        })
    }

    fn at_once(&self, client: &str, peer: Arc<dyn Peer>) -> Option<Box<dyn AtOnce>> {
        assert_eq!(client, "c");
        Some(Box::new(Group {
            began: Arc::clone(&self.began),
            groups: Arc::clone(&self.groups),
            stays: Arc::clone(&self.stays),
            stayed: Arc::clone(&self.stayed),
            unsettled: Arc::clone(&self.unsettled),
            tells: Arc::clone(&self.tells),
            peer,
            sent: Vec::new(),
            next: 0,
            taken_back: self.ended.clone(),
        }))
    }
}

impl Hosts for Fakes {
    fn card(&self) -> Card {
        Card::default()
    }

    fn session(&self, _client: &str) -> Result<Arc<dyn Host>, ToolError> {
        Ok(Arc::clone(&self.0) as Arc<dyn Host>)
    }

    fn standing(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        self.session(client)
    }
}

/// A client that has introduced itself.
pub(super) struct Client {
    pub(super) to: WriteHalf<DuplexStream>,
    pub(super) from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(super) beside: mpsc::UnboundedReceiver<bool>,
    pub(super) ended: mpsc::UnboundedReceiver<()>,
    pub(super) served: tokio::task::JoinHandle<std::io::Result<()>>,
    pub(super) fake: Arc<Fake>,
}

impl Client {
    pub(super) async fn open() -> Client {
        let mut client = Client::stranger(Cancel::never());
        client.introduces_itself().await;
        client
    }

    /// One that has not introduced itself, with a server that serves it until that fires.
    pub(super) fn stranger(cancel: Cancel) -> Client {
        let (near, far) = tokio::io::duplex(64 << 10);
        let (fake, beside, ended) = Fake::new();
        let fake = Arc::new(fake);
        let hosts = Arc::new(Fakes(Arc::clone(&fake)));
        let served = tokio::spawn(async move {
            let (input, output) = tokio::io::split(far);
            serve_streams(hosts, input, output, 10_000, &cancel).await
        });
        let (from, to) = tokio::io::split(near);
        Client { to, from: BufReader::new(from).lines(), beside, ended, served, fake }
    }

    pub(super) async fn introduces_itself(&mut self) {
        let who = json!({"name": "c", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": who});
        self.say(&[json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})]).await;
        assert_eq!(self.hear().await["id"], 0);
        self.say(&[json!({"jsonrpc": "2.0", "method": "notifications/initialized"})]).await;
    }

    /// Says all of it at once.
    pub(super) async fn say(&mut self, messages: &[Value]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.to.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until a call that was taken back has ended.
    pub(super) async fn hear_of_an_end(&mut self) {
        tokio::time::timeout(Duration::from_secs(60), self.ended.recv()).await.unwrap().unwrap();
    }

    /// Wants to hear of nothing less.
    pub(super) async fn hears_warnings(&mut self) {
        let params = json!({"level": "warning"});
        self.say(&[json!({"jsonrpc": "2.0", "id": "l", "method": "logging/setLevel", "params": params})])
            .await;
        assert_eq!(self.hear().await["id"], "l");
    }

    pub(super) async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(10), self.from.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }
}

/// What takes a call back.
pub(super) fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

pub(super) fn call(id: Value, tool: &str, text: &str) -> Value {
    let params = json!({"name": tool, "arguments": {"text": text}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// A call as clients of the newer era make it, which the loop runs.
pub(super) fn stateless(mut call: Value) -> Value {
    call["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    call
}
