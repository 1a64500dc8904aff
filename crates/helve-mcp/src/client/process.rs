//! A server as a process in the sandbox, on pipes of ours.
//!
//! The sandbox ends its whole tree when this end lets go of it, and when this program dies. What it writes to its
//! standard error goes to the log, as much as the log takes; the last of it stands in errors.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use helve_core::servers::StdioServer;
use helve_core::{Attach, Cancel, CancelHandle, Ended, Exit, SharedReport, ShellBackend, ToolError};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{self, Receiver, Sender};
use tokio::sync::{mpsc, watch};

use super::failure::words;
use super::fleet::Launched;
use super::keep::ServerLog;
use super::rate::Bucket;
use crate::ends::ReadEnd;

/// How much of standard error is kept for error messages.
const TAIL: usize = 2_000;
/// How long a server may take to end by itself once its standard input is closed.
const GRACE: Duration = Duration::from_millis(500);

/// A running server. It ends when this is dropped.
pub(crate) struct Process {
    cancel: CancelHandle,
    ended: watch::Receiver<Option<Result<Ended, ToolError>>>,
    backend: Arc<dyn ShellBackend>,
    /// What the sandbox says of itself, once somebody has asked.
    report: OnceLock<SharedReport>,
    tail: Arc<Mutex<VecDeque<u8>>>,
    /// Closed once standard error was read to its end.
    heard: watch::Receiver<()>,
}

/// Starts a server; gives the ends of its standard output and input.
pub(crate) fn start(
    launched: Launched,
    name: &str,
    server: &StdioServer,
    log: Arc<dyn ServerLog>,
) -> Result<(Process, ReadEnd, Sender), ToolError> {
    let (to_server, stdin) = end(name, |(near, far)| Ok((near, far.into_blocking_fd()?)))?;
    let near = |near: Receiver| near.into_nonblocking_fd().and_then(ReadEnd::of_pipe);
    let (stdout, from_server) = end(name, |(far, end)| Ok((far.into_blocking_fd()?, near(end)?)))?;
    let (stderr, complaints) = end(name, |(far, near)| Ok((far.into_blocking_fd()?, near)))?;
    let words = std::iter::once(&server.command).chain(&server.args).map(OsString::from).collect();
    let (_no_signals, signals) = mpsc::unbounded_channel();
    let attach = Attach {
        words,
        working_dir: launched.working_dir,
        streams: [stdin, stdout, stderr],
        terminal: false,
        timeout: None,
        signals,
    };
    let (handle, cancel) = Cancel::pair();
    let (told, ended) = watch::channel(None);
    let tail = Arc::new(Mutex::new(VecDeque::new()));
    let backend = launched.backend;
    let running = Arc::clone(&backend);
    tokio::spawn(async move {
        let done = running.attach(attach, cancel).await;
        told.send_replace(Some(done));
    });
    let (hearing, heard) = watch::channel(());
    tokio::spawn(keep_complaints(complaints, name.to_owned(), log, Arc::clone(&tail), hearing));
    let process = Process { cancel: handle, ended, backend, report: OnceLock::new(), tail, heard };
    Ok((process, from_server, to_server))
}

/// A pipe, one end of which the server gets.
fn end<T>(name: &str, split: impl FnOnce((Sender, Receiver)) -> std::io::Result<T>) -> Result<T, ToolError> {
    pipe::pipe()
        .and_then(split)
        .map_err(|error| ToolError::internal(format!("No pipe for the MCP server '{name}': {error}")))
}

/// Reads standard error to its end, so that the server never waits for it. `_hearing` is dropped there.
async fn keep_complaints(
    mut from: Receiver,
    name: String,
    log: Arc<dyn ServerLog>,
    tail: Arc<Mutex<VecDeque<u8>>>,
    _hearing: watch::Sender<()>,
) {
    let mut rate = Bucket::new(1 << 20, f64::from(16 << 10));
    let mut dropped = 0u64;
    let mut chunk = vec![0; 8 << 10];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let bytes = chunk.get(..count).unwrap_or_default();
        {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(bytes);
            let over = tail.len().saturating_sub(TAIL);
            tail.drain(..over);
        }
        if rate.take(u32::try_from(count).unwrap_or(u32::MAX)) {
            log.stderr(&name, bytes);
        } else {
            dropped += count as u64;
        }
    }
    if dropped > 0 {
        log.event(
            &name,
            "note",
            &format!("{dropped} bytes of standard error were not kept: too many at once"),
        );
    }
}

impl Process {
    /// The sandbox that it runs in. Asked of a process that runs: what confines it stays as it is.
    pub(crate) fn sandbox(&self) -> SharedReport {
        self.report.get_or_init(|| self.backend.report().into()).clone()
    }

    /// Why it ended, if it did or does so soon: an error of the sandbox, or how it ended and what it said last.
    pub(crate) async fn obituary(&self, name: &str) -> Option<ToolError> {
        let mut ended = self.ended.clone();
        let done = tokio::time::timeout(GRACE, ended.wait_for(Option::is_some)).await.ok()?.ok()?.clone()?;
        Some(match done {
            Err(error) => error,
            Ok(ended) => {
                let how = match (ended.exit, ended.limit) {
                    (_, Some(limit)) => format!("was ended at a limit ({limit:?})"),
                    (Exit::Code(code), _) => format!("ended with code {code}"),
                    (Exit::Signal(signal), _) => format!("was ended by signal {signal}"),
                    (Exit::TimedOut | Exit::Cancelled, _) => "was ended".to_owned(),
                };
                // Its end is known sooner than its last words are read; a child of its own may keep them coming.
                let _ = tokio::time::timeout(GRACE, self.heard.clone().changed()).await;
                let said = self.last_words();
                let said = if said.is_empty() { said } else { format!(" It said last: {said}") };
                ToolError::failed(format!("The MCP server '{name}' {how}.{said}"))
                    .hint(format!("`helve mcp logs {name}` shows all that it said."))
            }
        })
    }

    fn last_words(&self) -> String {
        let tail: Vec<u8> =
            self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        words(String::from_utf8_lossy(&tail).trim())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let (cancel, mut ended) = (self.cancel.clone(), self.ended.clone());
        // Its standard input closes with the connection: one that ends by itself may do so in order.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move {
                    let _ = tokio::time::timeout(GRACE, ended.wait_for(Option::is_some)).await;
                    cancel.cancel();
                });
            }
            Err(_) => cancel.cancel(),
        }
    }
}
