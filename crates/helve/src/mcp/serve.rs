//! A runtime before an MCP client: its tools, its approvals as questions to the client's person, and what it remembers as
//! resources.
//!
//! | address | what it is |
//! |---|---|
//! | `helve://manual` | what each tool does and where its limits are |
//! | `helve://journal`, `helve://journal/{offset}` | the session's journal, a page at a time |
//! | `helve://blob/{id}`, `helve://blob/{id}/{offset}` | the whole of an output that a result shows in part |
//!
//! Nothing else has an address: no file is served as a resource, because reading files is a tool, under its rules.

mod ask;
mod resources;

use std::path::PathBuf;
use std::sync::Arc;

use helve_core::{BoxFuture, CallResult, CancelHandle, EmbeddedResource, ToolError, ToolSpec};
use helve_mcp::server::{Host, HostCall};
use helve_runtime::{CallScope, Caller, Runtime};
use serde_json::Value;
use tokio::sync::{broadcast, watch};

pub use ask::PeerApprover;

use super::lane::Gateway;
use resources::Resources;

/// A runtime as an MCP client sees it. When it is dropped its calls are taken back.
pub struct RuntimeHost {
    runtime: Runtime,
    canceller: CancelHandle,
    resources: Arc<Resources>,
    gateway: Option<Gateway>,
    version: watch::Receiver<u64>,
    updates: broadcast::Sender<String>,
}

/// So many changes of resources wait for a client that listens.
const WAITING: usize = 16;

impl RuntimeHost {
    /// A host for one client. `home` and `session` are where the runtime keeps its journal, `canceller` takes back its calls.
    pub fn new(runtime: Runtime, home: PathBuf, session: String, canceller: CancelHandle) -> Self {
        let version = runtime.tools_version();
        let resources = Arc::new(Resources { home, session });
        let (updates, _) = broadcast::channel(WAITING);
        RuntimeHost { runtime, canceller, resources, gateway: None, version, updates }
    }

    /// Keeps what holds the tools of MCP servers in the runtime, and shows of them what its shelf shows. Has to be called where
    /// tasks can be spawned.
    #[must_use]
    pub fn gateway(mut self, gateway: Gateway) -> Self {
        let shelf = Arc::clone(gateway.shelf());
        self.gateway = Some(gateway);
        let (mut tools, mut shown) = (self.runtime.tools_version(), shelf.version());
        let (both, version) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                let changed = tokio::select! {
                    changed = tools.changed() => changed,
                    changed = shown.changed() => changed,
                    () = both.closed() => return,
                };
                if changed.is_err() {
                    return;
                }
                both.send_modify(|count| *count += 1);
            }
        });
        self.version = version;
        self
    }
}

impl Drop for RuntimeHost {
    fn drop(&mut self) {
        self.canceller.cancel();
    }
}

impl Host for RuntimeHost {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        let shows = |spec: &Arc<ToolSpec>| {
            self.gateway.as_ref().is_none_or(|gateway| gateway.shelf().shows(&spec.name))
        };
        self.runtime.specs().filter(shows).collect()
    }

    fn tools_version(&self) -> watch::Receiver<u64> {
        self.version.clone()
    }

    fn call(&self, call: HostCall) -> BoxFuture<'_, CallResult> {
        Box::pin(async move {
            let HostCall { call, client, cancel, progress, peer } = call;
            let caller = if client.is_empty() { "mcp".to_owned() } else { format!("mcp:{client}") };
            let scope = CallScope {
                cancel: Some(cancel),
                progress,
                approver: Some(Arc::new(PeerApprover::new(Arc::clone(&peer)))),
                peer: Some(peer),
                caller: Some(Caller::Named(caller)),
            };
            let result = self.runtime.call_in(call, scope).await;
            let _ = self.updates.send(resources::JOURNAL.to_owned());
            result
        })
    }

    fn resources(&self) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        let resources = Arc::clone(&self.resources);
        Box::pin(off_thread(move || resources.list()))
    }

    fn resource_templates(&self) -> Vec<Value> {
        resources::templates()
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Vec<EmbeddedResource>, ToolError>> {
        Box::pin(async move {
            if uri == resources::MANUAL {
                let text = crate::manual(self.tools(), self.runtime.policy());
                return Ok(vec![resources::text(uri, "text/markdown", text)]);
            }
            let (resources, uri) = (Arc::clone(&self.resources), uri.to_owned());
            off_thread(move || resources.read(&uri)).await.map(|one| vec![one])
        })
    }

    fn updates(&self) -> Option<broadcast::Receiver<String>> {
        Some(self.updates.subscribe())
    }
}

/// Runs what waits for a disk beside everything else.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ToolError::internal("Reading a resource crashed.")))
}
