//! What a running tool can reach: the handles that execute builds from the call's permit, and nothing else.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::call::CallId;
use crate::cancel::Cancel;
use crate::error::{ErrorKind, ToolError};
use crate::files::Files;
use crate::lane::{Blobs, Egress, Shell, Stream};
use crate::limits::Limits;
use crate::peer::Peer;
use crate::servers::Servers;

/// A line of progress from a running call, or what its command just put out.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressNote {
    /// Which call.
    pub call: CallId,
    /// What it says; for the output of a command a piece of it, without secrets and harmless.
    pub message: String,
    /// How far it is.
    pub done: Option<f64>,
    /// How far it has to go.
    pub total: Option<f64>,
    /// Which stream of a command the message is a piece of; none for a note of the tool itself.
    pub output: Option<Stream>,
}

/// What a note goes through before anybody else reads it.
pub type Cleaner = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Where a tool reports progress. A note that nobody has room for is dropped: progress never slows a tool down.
#[derive(Clone)]
pub struct Progress {
    call: CallId,
    tx: Option<mpsc::Sender<ProgressNote>>,
    clean: Option<Cleaner>,
}

impl Progress {
    /// Progress of `call` into `tx`.
    pub fn new(call: CallId, tx: Option<mpsc::Sender<ProgressNote>>) -> Self {
        Progress { call, tx, clean: None }
    }

    /// The same, with every message going through `clean` first.
    #[must_use]
    pub fn cleaned_by(self, clean: Cleaner) -> Self {
        Progress { clean: Some(clean), ..self }
    }

    /// Whether anybody listens.
    pub fn is_heard(&self) -> bool {
        self.tx.as_ref().is_some_and(|tx| !tx.is_closed())
    }

    /// Says what it does.
    pub fn note(&self, message: impl Into<String>) {
        self.send(message.into(), None, None);
    }

    /// Says how far it is, of how much if that is known.
    pub fn step(&self, done: f64, total: Option<f64>, message: impl Into<String>) {
        self.send(message.into(), Some(done), total);
    }

    /// Passes on a piece of a command's output, which the drain has cleaned: a secret may lie across two pieces.
    pub fn output(&self, stream: Stream, piece: String) {
        if let Some(tx) = &self.tx {
            let call = self.call.clone();
            let note = ProgressNote { call, message: piece, done: None, total: None, output: Some(stream) };
            let _ = tx.try_send(note);
        }
    }

    fn send(&self, message: String, done: Option<f64>, total: Option<f64>) {
        let Some(tx) = &self.tx else { return };
        let message = match &self.clean {
            Some(clean) => clean(&message),
            None => message,
        };
        let _ = tx.try_send(ProgressNote { call: self.call.clone(), message, done, total, output: None });
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("call", &self.call).field("heard", &self.is_heard()).finish()
    }
}

/// The handles of one call. A tool gets it by reference; through the library face `helve` nobody can make one.
///
/// ```compile_fail
/// let ctx = helve_core::Context {};
/// ```
pub struct Context {
    parts: Parts,
}

/// What the runtime puts into a [`Context`]. Not part of the library face.
#[doc(hidden)]
pub struct Parts {
    /// The call.
    pub call: CallId,
    /// Who calls.
    pub caller: String,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// The shell lane, if the permit covers it.
    pub shell: Option<Box<dyn Shell>>,
    /// The files lane.
    pub files: Option<Arc<dyn Files>>,
    /// The network lane.
    pub net: Option<Arc<dyn Egress>>,
    /// Outputs of earlier calls.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// The MCP server that the permit names, if its tool is one.
    pub servers: Option<Arc<dyn Servers>>,
    /// The program at the other end of the call, if it takes questions.
    pub peer: Option<Arc<dyn Peer>>,
    /// Where progress goes.
    pub progress: Progress,
    /// Whether the call was taken back.
    pub cancel: Cancel,
}

/// Makes a context. Only the runtime calls it; the library face does not export it.
#[doc(hidden)]
pub fn assemble(parts: Parts) -> Context {
    Context { parts }
}

impl Context {
    /// The call's id.
    pub fn call(&self) -> &CallId {
        &self.parts.call
    }

    /// Who calls: `owner` for the owner's own command line.
    pub fn caller(&self) -> &str {
        &self.parts.caller
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.parts.limits
    }

    /// Runs commands in the sandbox.
    pub fn shell(&self) -> Result<&dyn Shell, ToolError> {
        self.parts.shell.as_deref().ok_or_else(|| no_handle("shell", "sandbox"))
    }

    /// Reads and writes files of the workspace.
    pub fn files(&self) -> Result<&dyn Files, ToolError> {
        self.parts.files.as_deref().ok_or_else(|| no_handle("files", "files"))
    }

    /// Sends requests to the hosts that the policy opens.
    pub fn net(&self) -> Result<&dyn Egress, ToolError> {
        self.parts.net.as_deref().ok_or_else(|| no_handle("net", "egress"))
    }

    /// Reads outputs of earlier calls.
    pub fn blobs(&self) -> Result<&dyn Blobs, ToolError> {
        self.parts.blobs.as_deref().ok_or_else(|| no_handle("blobs", "store"))
    }

    /// Calls the tool of the MCP server that the permit names.
    pub fn servers(&self) -> Result<&dyn Servers, ToolError> {
        self.parts.servers.as_deref().ok_or_else(|| no_handle("servers", "mcp"))
    }

    /// The program at the other end of the call; none where it cannot be asked or told anything.
    pub fn peer(&self) -> Option<&Arc<dyn Peer>> {
        self.parts.peer.as_ref()
    }

    /// Reports progress.
    pub fn progress(&self) -> &Progress {
        &self.parts.progress
    }

    /// Whether the call was taken back.
    pub fn cancelled(&self) -> &Cancel {
        &self.parts.cancel
    }
}

fn no_handle(handle: &str, lane: &str) -> ToolError {
    ToolError::new(ErrorKind::Blocked, format!("This call was not given the handle '{handle}'."))
        .hint(format!("Declare the tool in a lane that carries it ({lane}), and configure that lane."))
}
