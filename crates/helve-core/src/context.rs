//! What a running tool can reach: the handles that execute builds from the call's permit, and nothing else.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::call::CallId;
use crate::cancel::Cancel;
use crate::error::{ErrorKind, ToolError};
use crate::files::Files;
use crate::lane::{Blobs, Egress, Shell};
use crate::limits::Limits;

/// A line of progress from a running call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressNote {
    /// Which call.
    pub call: CallId,
    /// What it says.
    pub message: String,
}

/// Where a tool reports progress. A note that nobody has room for is dropped: progress never slows a tool down.
#[derive(Clone, Debug)]
pub struct Progress {
    call: CallId,
    tx: Option<mpsc::Sender<ProgressNote>>,
}

impl Progress {
    /// Progress of `call` into `tx`.
    pub fn new(call: CallId, tx: Option<mpsc::Sender<ProgressNote>>) -> Self {
        Progress { call, tx }
    }

    /// Says how far it is.
    pub fn note(&self, message: impl Into<String>) {
        if let Some(tx) = &self.tx {
            let _ = tx.try_send(ProgressNote { call: self.call.clone(), message: message.into() });
        }
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
