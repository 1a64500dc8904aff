//! A model server for tests. It speaks the four wire formats over loopback, as real providers do: HTTP, server-sent events, in
//! pieces, with breaks, pauses and lies. What it says comes from a script; what it was asked can be looked at.
//!
//! A script is a list of replies, one for each request in the order in which they come. What a reply may hold is in [`Reply`];
//! most say something in no format at all, and it is written in that of the address that was asked:
//!
//! ```json
//! [{"status": 429, "headers": {"retry-after": "0"}},
//!  {"say": {"text": "I look.", "calls": [{"id": "c1", "name": "echo", "args": {"text": "a"}}]}, "piece": 1},
//!  {"say": {"text": "Done."}}]
//! ```
//!
//! After the last reply every request gets a 400 that says so. The server runs on a thread of its own and ends when it is
//! dropped.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use helve_agent::models::{Choice, Patience, Secret};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use wire::Say;

/// The key that [`Mock::choice`] gives.
pub const KEY: &str = "sk-mock-0123456789abcdef";

/// One reply of a script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    /// What the model says, in no format.
    pub say: Option<Say>,
    /// Events as they are: a string is sent as it is, anything else as JSON.
    pub events: Option<Vec<Value>>,
    /// A body that is no stream of events: a string is sent as it is, anything else as JSON.
    pub body: Option<Value>,
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    /// Whether `say` comes as events, or as one JSON value.
    pub stream: bool,
    /// Whether `say` ends as it should, with `[DONE]` or what the format has instead.
    pub done: bool,
    /// So many bytes at once; all if 0.
    pub piece: usize,
    /// The pause after each piece.
    pub pause_ms: u64,
    /// After so many bytes the connection breaks.
    pub cut: Option<usize>,
    /// After the last byte there is silence, and no end.
    pub hang: bool,
    /// Before this byte it is waited for [`Mock::release`].
    pub gate: Option<usize>,
    /// So many requests get this reply.
    pub repeat: usize,
}

impl Default for Reply {
    fn default() -> Reply {
        Reply {
            say: None,
            events: None,
            body: None,
            status: 200,
            headers: BTreeMap::new(),
            stream: true,
            done: true,
            piece: 0,
            pause_ms: 0,
            cut: None,
            hang: false,
            gate: None,
            repeat: 1,
        }
    }
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The path with its query.
    pub path: String,
    /// The headers; names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null if it is no JSON.
    pub body: Value,
}

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
    news: Condvar,
    gate: Semaphore,
}

/// The server.
pub struct Mock {
    port: u16,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Mock {
    /// Starts a server with a script: a JSON array of replies.
    pub fn start(script: Value) -> Mock {
        let replies: Vec<Reply> = serde_json::from_value(script).expect("a script of replies");
        let replies =
            replies.into_iter().flat_map(|reply| std::iter::repeat_n(reply.clone(), reply.repeat)).collect();
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies),
            seen: Mutex::new(Vec::new()),
            news: Condvar::new(),
            gate: Semaphore::new(0),
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, for_thread) => {}
                    _ = stopped => {}
                }
            });
        });
        Mock { port, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// The address, as an owner would write it.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("a lock").clone()
    }

    /// Waits until there were so many requests, at most ten seconds.
    pub fn wait_for(&self, requests: usize) {
        let end = Instant::now() + Duration::from_secs(10);
        let mut seen = self.shared.seen.lock().expect("a lock");
        while seen.len() < requests {
            let left = end.checked_duration_since(Instant::now()).expect("the requests in time");
            seen = self.shared.news.wait_timeout(seen, left).expect("a lock").0;
        }
    }

    /// Lets one reply go on that waits at its gate, or the next that comes to one.
    pub fn release(&self) {
        self.shared.gate.add_permits(1);
    }

    /// The replies that were not asked for yet.
    pub fn left(&self) -> usize {
        self.shared.replies.lock().expect("a lock").len()
    }

    /// A model `mock` of a provider at this address, with a key, and without long pauses.
    pub fn choice(&self, provider: &str) -> Choice {
        Choice {
            provider: provider.to_owned(),
            name: "mock".to_owned(),
            base_url: Some(self.base_url()),
            key: Some(Secret::new(KEY.to_owned())),
            pictures: Some(true),
            patience: Patience { first_pause: Duration::from_millis(1), ..Patience::default() },
            ..Choice::default()
        }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a socket");
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&shared)));
            // A connection that a test breaks is no error of the server.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Pieces>, Infallible> {
    let path = request.uri().to_string();
    let headers = request.headers().iter();
    let headers = headers
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let headers = headers.collect();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    shared.seen.lock().expect("a lock").push(Seen { path: path.clone(), headers, body });
    shared.news.notify_all();
    let reply = shared.replies.lock().expect("a lock").pop_front().unwrap_or_else(|| Reply {
        status: 400,
        body: Some(json!({"error": {"type": "invalid_request_error", "message": "The script has ended."}})),
        ..Reply::default()
    });
    let (kind, bytes) = wire::bytes(&path, &reply);
    let mut response = Response::builder().status(reply.status).header("content-type", kind);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let (pieces, body) = mpsc::channel(1);
    tokio::spawn(async move { send(bytes, reply, &shared, pieces).await });
    Ok(response.body(Pieces(body)).expect("a response"))
}

/// Sends a body as the reply says.
async fn send(bytes: Vec<u8>, reply: Reply, shared: &Shared, pieces: mpsc::Sender<Result<Bytes, Cut>>) {
    let end = reply.cut.unwrap_or(bytes.len()).min(bytes.len());
    let size = if reply.piece == 0 { usize::MAX } else { reply.piece };
    let (mut at, mut gate) = (0, reply.gate);
    while at < end {
        if gate.is_some_and(|gate| gate <= at) {
            gate = None;
            shared.gate.acquire().await.expect("a gate").forget();
        }
        let to = at.saturating_add(size).min(end).min(gate.unwrap_or(usize::MAX));
        if pieces.send(Ok(Bytes::copy_from_slice(&bytes[at..to]))).await.is_err() {
            return;
        }
        at = to;
        if reply.pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(reply.pause_ms)).await;
        }
    }
    if reply.cut.is_some() {
        let _ = pieces.send(Err(Cut)).await;
    } else if reply.hang {
        pieces.closed().await;
    }
}

/// A body that comes in pieces and may break.
struct Pieces(mpsc::Receiver<Result<Bytes, Cut>>);

#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut as the script says")
    }
}

impl std::error::Error for Cut {}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        poller: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.0.poll_recv(poller).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
