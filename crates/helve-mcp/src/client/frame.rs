//! Frames of a server on standard streams: one JSON-RPC message a line, bounded.
//!
//! In come bytes, out come messages. A line over the cap ends the connection before it is held; what is no message is
//! counted and left out, and too much of it ends the connection too. A response that cannot be read becomes an error for
//! the request that it answers, so that nobody waits for it.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolResult, ClientJsonRpcMessage, ContentBlock, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

use super::backlog::Backlog;
use super::failure::{self, Broken};
use super::inlet::Inlet;
use super::notices::Notices;
use super::straight::{Straight, Waiting, Way};
use crate::ends::Source;
use crate::scan::{Scan, holds_more_than};

/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// The key that says why a tool of a list could not be read.
pub(crate) const UNREADABLE: &str = "unreadable";
/// How many lines in a row may be no message. Some servers greet on standard output.
pub(crate) const NO_MESSAGES: u32 = 256;
/// How many empty ones may: some servers send one now and then, to show that they live.
pub(crate) const EMPTY_LINES: u32 = 65_536;

/// A longer line is looked over before it is read: made into values, it may take many times its bytes.
const LONG: usize = 256 << 10;
/// So many values may it hold.
pub(super) const VALUES: usize = 500_000;

/// Splits a stream into lines.
pub(crate) struct Lines<R> {
    read: R,
    held: Vec<u8>,
    /// Where the next line begins.
    from: usize,
    /// Up to where there is no line break.
    looked: usize,
    cap: usize,
}

/// What comes next on a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A line without its break.
    Line(&'a [u8]),
    /// A line over the cap.
    TooLong,
    /// No more. What stands after the last line break is no message.
    End,
}

impl<R: Source> Lines<R> {
    pub(crate) fn new(read: R, cap: usize) -> Lines<R> {
        Lines { read, held: Vec::new(), from: 0, looked: 0, cap }
    }

    /// What a line may have.
    pub(crate) fn cap(&self) -> usize {
        self.cap
    }

    /// Whether the next line is held already.
    pub(crate) fn has_line(&self) -> bool {
        memchr::memchr(b'\n', self.held.get(self.looked..).unwrap_or_default()).is_some()
    }

    /// Whether more was read, or has ended: what that is, the next line shows.
    pub(crate) fn poll_more(&mut self, poller: &mut Context<'_>) -> Poll<()> {
        self.make_room();
        self.read.poll_into(&mut self.held, poller).map(|_| ())
    }

    /// The next line.
    pub(crate) fn poll_next(&mut self, poller: &mut Context<'_>) -> Poll<Next<'_>> {
        let end = loop {
            if let Some(at) = memchr::memchr(b'\n', self.held.get(self.looked..).unwrap_or_default()) {
                break self.looked + at;
            }
            self.looked = self.held.len();
            if self.looked - self.from > self.cap {
                self.held = Vec::new();
                (self.from, self.looked) = (0, 0);
                return Poll::Ready(Next::TooLong);
            }
            self.make_room();
            match ready!(self.read.poll_into(&mut self.held, poller)) {
                Ok(0) | Err(_) => return Poll::Ready(Next::End),
                Ok(_) => {}
            }
        };
        let line = self.from..end;
        self.from = end + 1;
        self.looked = self.from;
        if line.len() > self.cap {
            return Poll::Ready(Next::TooLong);
        }
        let line = self.held.get(line).unwrap_or_default();
        Poll::Ready(Next::Line(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Room for a chunk behind what is held. What was handed out goes; a large buffer that is empty goes too.
    fn make_room(&mut self) {
        if self.from > 0 {
            self.held.drain(..self.from);
            self.looked -= self.from;
            self.from = 0;
        }
        if self.held.is_empty() && self.held.capacity() > 4 * CHUNK {
            self.held = Vec::new();
        }
        let spare = self.held.capacity() - self.held.len();
        if spare < CHUNK / 4 {
            // Doubling, but never much beyond the cap: what is held stays under twice of it.
            let more =
                self.held.len().clamp(CHUNK, (self.cap + CHUNK).saturating_sub(self.held.len()).max(CHUNK));
            self.held.reserve_exact(more);
        }
    }
}

/// What a line says.
#[derive(Debug)]
pub(crate) enum Said {
    /// A message.
    Message(Box<ServerJsonRpcMessage>),
    /// An empty line.
    Nothing,
    /// No message, and why.
    Garbage(String),
}

/// Whether a text is one that would take far more room when it is read.
pub(super) fn holds_too_much(text: &[u8]) -> bool {
    text.len() > LONG && holds_more_than(VALUES, text)
}

/// Reads one line. Bytes that are no UTF-8 are replaced: a text in another encoding is better than no answer.
pub(crate) fn read(line: &[u8]) -> Said {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return Said::Nothing;
    }
    let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
    if holds_too_much(text.as_bytes()) {
        return refused(&text, format!("it holds more than {VALUES} values"));
    }
    if let Some(answer) = of_a_call(&text) {
        return Said::Message(Box::new(answer));
    }
    match serde_json::from_str::<ServerJsonRpcMessage>(&text) {
        Ok(message) => Said::Message(Box::new(message)),
        Err(problem) => unreadable(&text, &problem),
    }
}

/// An answer with texts alone, as nearly all are written.
fn only_texts(line: &[u8]) -> Option<ServerJsonRpcMessage> {
    let mut scan = Scan::new(line);
    let (mut id, mut version, mut read) = (None, None, None);
    scan.byte(b'{')?;
    loop {
        match scan.name()? {
            b"jsonrpc" if version.is_none() => version = Some(scan.text()?),
            b"id" if id.is_none() => id = Some(scan.number()?),
            b"result" if read.is_none() => read = Some(texts(&mut scan)?),
            _ => return None,
        }
        if scan.is_last()? {
            break;
        }
    }
    let is_answer = version == Some(b"2.0".as_slice()) && scan.is_over();
    let result = ServerResult::CallToolResult(read.filter(|_| is_answer)?);
    Some(ServerJsonRpcMessage::response(result, RequestId::Number(id?)))
}

fn texts(scan: &mut Scan<'_>) -> Option<CallToolResult> {
    let (mut content, mut is_error) = (None, None);
    scan.byte(b'{')?;
    loop {
        match scan.name()? {
            b"content" if content.is_none() => content = Some(blocks(scan)?),
            b"isError" if is_error.is_none() => is_error = Some(scan.bool()?),
            _ => return None,
        }
        if scan.is_last()? {
            break;
        }
    }
    let mut read = CallToolResult::default();
    (read.result_type, read.content, read.is_error) = (None, content?, is_error);
    Some(read)
}

fn blocks(scan: &mut Scan<'_>) -> Option<Vec<ContentBlock>> {
    // Most answers have one.
    let mut blocks = Vec::with_capacity(1);
    scan.byte(b'[')?;
    loop {
        scan.byte(b'{')?;
        let (mut kind, mut text) = (None, None);
        loop {
            match scan.name()? {
                b"type" if kind.is_none() => kind = Some(scan.text()?),
                b"text" if text.is_none() => text = Some(scan.string()?),
                _ => return None,
            }
            if scan.is_last()? {
                break;
            }
        }
        blocks.push(ContentBlock::text(text.filter(|_| kind == Some(b"text".as_slice()))?));
        if scan.is_last_item()? {
            return Some(blocks);
        }
    }
}

/// An answer without anything that it need not have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain<'t> {
    jsonrpc: &'t str,
    id: RequestId,
    #[serde(borrow)]
    result: &'t RawValue,
}

/// The members that the result of a call may have, and no other result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct OfACall {
    #[serde(rename = "content")]
    _content: Vec<IgnoredAny>,
    #[serde(default, rename = "structuredContent")]
    _structured: IgnoredAny,
    #[serde(default, rename = "isError")]
    _is_error: IgnoredAny,
    #[serde(default, rename = "_meta")]
    _meta: IgnoredAny,
}

/// The result of a call, which most lines are, read straight. The general way reads a line into a copy and tries it as every
/// other kind of result first, which takes several times as long and comes to the same.
fn of_a_call(text: &str) -> Option<ServerJsonRpcMessage> {
    if let Some(answer) = only_texts(text.as_bytes()) {
        return Some(answer);
    }
    let Plain { jsonrpc, id, result } = serde_json::from_str(text).ok()?;
    let _: OfACall = serde_json::from_str(result.get()).ok().filter(|_| jsonrpc == "2.0")?;
    let result: CallToolResult = serde_json::from_str(result.get()).ok()?;
    Some(ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id))
}

/// What an answer has to have so that whoever waits for it can be told. Reading it takes no stack, however deep the rest nests.
#[derive(Deserialize)]
struct Head {
    id: RequestId,
    #[serde(default, deserialize_with = "is_there")]
    method: bool,
    #[serde(default, deserialize_with = "is_there")]
    result: bool,
    #[serde(default, deserialize_with = "is_there")]
    error: bool,
}

fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// A list of tools, each as it stands in the text.
#[derive(Deserialize)]
struct List<'t> {
    id: RequestId,
    #[serde(borrow)]
    result: Tools<'t>,
}

#[derive(Deserialize)]
struct Tools<'t> {
    #[serde(borrow)]
    tools: Vec<&'t RawValue>,
    #[serde(default, rename = "nextCursor")]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// A list in which a tool that cannot be read stands with its name and the reason: one bad tool must not take the others along.
fn with_bad_tools(text: &str) -> Option<ServerJsonRpcMessage> {
    let List { id, result } = serde_json::from_str(text).ok()?;
    let read = |raw: &&RawValue| {
        serde_json::from_str::<Value>(raw.get()).unwrap_or_else(|problem| {
            let name = serde_json::from_str::<Named>(raw.get()).map(|named| named.name).unwrap_or_default();
            json!({"name": name, UNREADABLE: problem.to_string()})
        })
    };
    let mut list = json!({"tools": result.tools.iter().map(read).collect::<Vec<Value>>()});
    if let Some(cursor) = result.next_cursor {
        list["nextCursor"] = Value::String(cursor);
    }
    serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": list})).ok()
}

fn unreadable(text: &str, problem: &serde_json::Error) -> Said {
    if let Some(list) = with_bad_tools(text) {
        return Said::Message(Box::new(list));
    }
    refused(text, format!("no message of JSON-RPC 2.0: {problem}"))
}

/// What whoever waits for this is told, if it is an answer.
fn refused(text: &str, problem: String) -> Said {
    match serde_json::from_str::<Head>(text) {
        Ok(Head { id, method: false, result, error }) if result || error => {
            let error = failure::unreadable(&problem);
            Said::Message(Box::new(ServerJsonRpcMessage::error(error, Some(id))))
        }
        _ => Said::Garbage(problem),
    }
}

/// Why a connection ended, for the calls that were under way. The first reason stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<OnceLock<Broken>>);

impl Ending {
    pub(crate) fn because(&self, broken: Broken) {
        let _ = self.0.set(broken);
    }

    pub(crate) fn why(&self) -> Option<Broken> {
        self.0.get().cloned()
    }
}

/// A server on two streams.
pub(crate) struct Streams {
    inlet: Arc<Inlet>,
    write: Way,
    straight: Straight,
}

impl Streams {
    pub(crate) fn new(
        read: impl Source + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        cap: usize,
        ending: Ending,
    ) -> Streams {
        let write: Way = Arc::new(Mutex::new(Some(Box::new(write))));
        let waiting = Arc::<Waiting>::default();
        let inlet = Arc::new(Inlet::new(read, cap, ending, Arc::clone(&waiting)));
        let straight = Straight::new(Arc::clone(&write), Arc::clone(&inlet), waiting);
        Streams { inlet, write, straight }
    }

    /// The same for a server that may read nothing for so long.
    pub(crate) fn patient(mut self, patience: Duration) -> Streams {
        self.straight.backlog = Arc::new(Backlog::new(patience));
        self
    }

    /// The same for one whose notices are heard as they are read.
    pub(crate) fn telling(self, notices: Arc<Notices>) -> Streams {
        self.inlet.tell(notices);
        self
    }

    /// The straight way to the server.
    pub(crate) fn straight(&self) -> Straight {
        self.straight.clone()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.inlet.close();
    }
}

impl Transport<RoleClient> for Streams {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (write, inlet) = (Arc::clone(&self.write), Arc::clone(&self.inlet));
        let backlog = Arc::clone(&self.straight.backlog);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let _room = backlog.room(line.len()).map_err(|waiting| {
                io::Error::other(format!("it does not read what it is sent: {waiting} bytes wait for it"))
            })?;
            let mut write = write.lock().await;
            let Some(way) = write.as_mut() else {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "the connection is closed"));
            };
            let written = backlog.put(way, &line).await;
            if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                write.take();
                inlet.end(Broken::Unread);
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        std::future::poll_fn(|poller| self.inlet.poll_next(poller)).await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A send that waits for a server which does not read holds the lock: it ends with the process.
        if let Ok(mut write) = self.write.try_lock() {
            write.take();
        }
        Ok(())
    }
}

/// Reads what a server has written, `piece` bytes at a time: its messages, and whether they ended at the cap. For fuzzing.
#[doc(hidden)]
pub async fn try_frames(bytes: &[u8], piece: usize, cap: usize) -> (Vec<Value>, bool) {
    let (mut near, far) = tokio::io::duplex(piece.max(1));
    let ending = Ending::default();
    let reading = async {
        let mut streams = Streams::new(far, tokio::io::sink(), cap, ending.clone());
        let mut messages = Vec::new();
        while let Some(message) = streams.receive().await {
            messages.push(serde_json::to_value(&message).unwrap_or_default());
        }
        messages
    };
    let writing = async move {
        // Who reads may have had enough.
        let _ = near.write_all(bytes).await;
    };
    let (messages, ()) = tokio::join!(reading, writing);
    (messages, matches!(ending.why(), Some(Broken::FrameTooLong(_))))
}

#[cfg(test)]
mod tests;
