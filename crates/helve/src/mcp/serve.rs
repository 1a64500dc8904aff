//! A runtime before an MCP client: its tools, its approvals as questions to the client's person, and what it remembers as
//! resources.
//!
//! | address | what it is |
//! |---|---|
//! | `helve://manual` | what each tool does and where its limits are |
//! | `helve://journal`, `helve://journal/{offset}` | the session's journal, a page at a time |
//! | `helve://blob/{id}`, `helve://blob/{id}/{offset}` | the whole of an output that a result shows in part |
//! | `helve://mcp/{server}/{address}` | a resource of a server behind the gateway, at its own address |
//!
//! Nothing else has an address: no file is served as a resource, because reading files is a tool, under its rules. A resource
//! or a prompt of a server is a call as well, so that the policy holds for it and the journal has it.

mod ask;
mod resources;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::task::Context;
use std::time::Duration;

use helve_core::{
    BoxFuture, Call, CallResult, CancelHandle, Content, EmbeddedResource, ErrorKind, Peer, ServerAct,
    ToolError, ToolSpec,
};
use helve_mcp::client::{Listed, asking_name, of_address};
use helve_mcp::server::{self, AtOnce, Host, HostCall, Line};
use helve_runtime::{CallScope, Caller, Runtime, Stand, Taken};
use serde_json::{Value, json};
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
    news: News,
    introduced: Option<Introduced>,
}

/// A caller that is told apart by what it calls itself first.
struct Introduced {
    caller: String,
    whole: OnceLock<Caller>,
}

/// So many changes of resources wait for a client that listens.
const WAITING: usize = 16;
/// How long a list waits for what servers have to add to it.
const PATIENCE: Duration = Duration::from_secs(5);

impl RuntimeHost {
    /// A host for one client, which is the runtime's caller whatever it calls itself, unless it is [`introduced`](Self::introduced).
    /// `home` and `session` are where the runtime keeps its journal, `canceller` takes back its calls.
    pub fn new(runtime: Runtime, home: PathBuf, session: String, canceller: CancelHandle) -> Self {
        let version = runtime.tools_version();
        let resources = Arc::new(Resources { home, session });
        let news = News { updates: broadcast::channel(WAITING).0, blobs: watch::channel(0).0 };
        RuntimeHost { runtime, canceller, resources, gateway: None, version, news, introduced: None }
    }

    /// For a client that brings no token, on standard streams: who calls is `caller/NAME`, by what the client calls itself at its
    /// first call, so that what the owner agrees to for one program does not hold for all. No later name changes it, and a token's
    /// client has no such name.
    #[must_use]
    pub fn introduced(mut self, caller: impl Into<String>) -> Self {
        self.introduced = Some(Introduced { caller: caller.into(), whole: OnceLock::new() });
        self
    }

    /// Who calls, where that is not the runtime's caller.
    fn caller(&self, client: &str) -> Option<Caller> {
        let Introduced { caller, whole } = self.introduced.as_ref()?;
        let named =
            || Caller::Named(if client.is_empty() { caller.clone() } else { [caller, "/", client].concat() });
        Some(whole.get_or_init(named).clone())
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

    /// What the servers behind the gateway have of this kind.
    async fn more(&self, what: Listed) -> Vec<Value> {
        match &self.gateway {
            Some(gateway) => gateway.fleet().more(what, PATIENCE).await,
            None => Vec::new(),
        }
    }

    /// Asks a server for something else than a tool's work, as a call.
    async fn ask(
        &self,
        server: &str,
        act: ServerAct,
        args: Value,
        client: String,
        line: Line,
    ) -> Result<CallResult, ToolError> {
        let (caller, client) = (self.caller(&client), own_name(client));
        let scope = CallScope { caller, client, ..scope(line) };
        let result = self.runtime.call_in(Call::new(asking_name(server, act), args), scope).await;
        self.news.recorded([&result]);
        match result.error {
            None => Ok(result),
            // A server that is not there has no resource either.
            Some(error) if error.kind == ErrorKind::UnknownTool => {
                Err(ToolError::not_found(format!("There is no MCP server '{server}'.")))
            }
            Some(error) => Err(error.into()),
        }
    }

    async fn read_of_server(
        &self,
        address: &str,
        client: String,
        line: Line,
    ) -> Result<Vec<EmbeddedResource>, ToolError> {
        let not_there = || ToolError::not_found(format!("There is no resource '{}'.", shortened(address)));
        let (server, uri) = of_address(address).filter(|_| self.gateway.is_some()).ok_or_else(not_there)?;
        let args = json!({ "uri": uri });
        let result = self.ask(server, ServerAct::ReadResource, args, client, line).await?;
        let resource = |content| match content {
            Content::Resource { resource, .. } => {
                Some(EmbeddedResource { uri: address.to_owned(), ..resource })
            }
            // What was too long to show is cut, and text.
            Content::Text { text, .. } => Some(resources::text(address, "text/plain", text)),
            _ => None,
        };
        Ok(result.content.into_iter().filter_map(resource).collect())
    }
}

/// Tells whoever wants to know what calls leave behind.
#[derive(Clone)]
struct News {
    updates: broadcast::Sender<String>,
    /// How many outputs were kept.
    blobs: watch::Sender<u64>,
}

impl News {
    /// Calls were recorded, with these results as far as they have ended.
    fn recorded<'r>(&self, results: impl IntoIterator<Item = &'r CallResult>) {
        if self.updates.receiver_count() > 0 {
            let _ = self.updates.send(resources::JOURNAL.to_owned());
        }
        let has_blob =
            |result: &CallResult| result.truncated.as_ref().is_some_and(|left_out| left_out.blob.is_some());
        if results.into_iter().any(has_blob) {
            self.blobs.send_modify(|count| *count += 1);
        }
    }
}

/// What a client calls itself, if it does.
fn own_name(client: String) -> Option<String> {
    (!client.is_empty()).then_some(client)
}

/// A call of a client that can be asked.
fn scope(line: Line) -> CallScope {
    let Line { cancel, progress, peer } = line;
    CallScope {
        cancel: Some(cancel),
        progress,
        approver: Some(Arc::new(PeerApprover::new(Arc::clone(&peer)))),
        peer: Some(peer),
        ..CallScope::default()
    }
}

/// Calls of one client that are taken together.
struct Together {
    calls: helve_runtime::AtOnce,
    news: News,
}

impl AtOnce for Together {
    fn takes(&self, tool: &str) -> bool {
        self.calls.takes(tool)
    }

    fn calls(&mut self, mut calls: Vec<server::Taken>) -> Vec<server::Stand> {
        let stand = |stand| match stand {
            Stand::Done(result) => server::Stand::Done(result),
            Stand::Sent(number) => server::Stand::Sent(number),
            Stand::Waits(waits) => {
                let news = self.news.clone();
                server::Stand::Waits(Box::new(move |line| {
                    Box::pin(async move {
                        let result = waits.go_on(scope(line)).await;
                        news.recorded([&*result]);
                        result
                    })
                }))
            }
        };
        // A list that is made in the room of another is cut to its size, which takes longer than to make one.
        let taken = calls.drain(..).map(|server::Taken { call, progress }| Taken { call, progress });
        let stands: Vec<server::Stand> = self.calls.calls(taken).drain(..).map(stand).collect();
        self.news.recorded(stands.iter().filter_map(|stand| match stand {
            server::Stand::Done(result) => Some(&**result),
            _ => None,
        }));
        stands
    }

    fn poll(&mut self, poller: &mut Context<'_>) -> Vec<(u64, Box<CallResult>)> {
        let results = self.calls.poll(poller);
        if !results.is_empty() {
            self.news.recorded(results.iter().map(|(_, result)| &**result));
        }
        results
    }

    fn settle(&mut self) {
        self.calls.settle();
    }

    fn take_back(&mut self, number: u64) {
        self.calls.take_back(number);
        self.news.recorded([]);
    }

    fn sees(&self) -> bool {
        self.calls.sees()
    }

    fn stay(&mut self) {
        self.calls.stay();
    }

    fn rest(&mut self) {
        self.calls.rest();
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

impl Drop for RuntimeHost {
    fn drop(&mut self) {
        self.canceller.cancel();
    }
}

impl Host for RuntimeHost {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        let is_tool = |spec: &ToolSpec| spec.origin.as_ref().is_none_or(|origin| origin.act.is_call());
        let shows = |spec: &Arc<ToolSpec>| {
            is_tool(spec) && self.gateway.as_ref().is_none_or(|gateway| gateway.shelf().shows(&spec.name))
        };
        self.runtime.specs().filter(shows).collect()
    }

    fn tools_version(&self) -> watch::Receiver<u64> {
        self.version.clone()
    }

    fn tools_changes(&self) -> u64 {
        let shown = self.gateway.as_ref().map_or(0, |gateway| *gateway.shelf().version().borrow());
        *self.runtime.tools_version().borrow() + shown
    }

    fn call(&self, call: HostCall) -> BoxFuture<'_, Box<CallResult>> {
        let HostCall { call, client, line, beside } = call;
        let (caller, client) = (self.caller(&client), own_name(client));
        let scope = CallScope { beside, caller, client, ..scope(line) };
        let begun = self.runtime.begin(call, scope);
        Box::pin(async move {
            let result = begun.await;
            self.news.recorded([&*result]);
            result
        })
    }

    fn at_once(&self, client: &str, peer: Arc<dyn Peer>) -> Option<Box<dyn AtOnce>> {
        let (caller, client) = (self.caller(client), own_name(client.to_owned()));
        let calls =
            self.runtime.at_once(CallScope { caller, client, peer: Some(peer), ..CallScope::default() });
        Some(Box::new(Together { calls, news: self.news.clone() }))
    }

    fn resources(&self) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        let resources = Arc::clone(&self.resources);
        Box::pin(async move {
            let mut all = off_thread(move || resources.list()).await?;
            all.append(&mut self.more(Listed::Resources).await);
            Ok(all)
        })
    }

    fn resource_templates(&self) -> BoxFuture<'_, Vec<Value>> {
        Box::pin(async move {
            let mut all = resources::templates();
            all.append(&mut self.more(Listed::Templates).await);
            all
        })
    }

    fn resources_versions(&self) -> Vec<watch::Receiver<u64>> {
        let of_servers = self.gateway.as_ref().map(|gateway| gateway.fleet().more_version());
        of_servers.into_iter().chain([self.news.blobs.subscribe()]).collect()
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        client: String,
        line: Line,
    ) -> BoxFuture<'a, Result<Vec<EmbeddedResource>, ToolError>> {
        Box::pin(async move {
            if uri == resources::MANUAL {
                let text = crate::manual(self.tools(), self.runtime.policy());
                return Ok(vec![resources::text(uri, "text/markdown", text)]);
            }
            if uri.starts_with(resources::OF_SERVERS) {
                return self.read_of_server(uri, client, line).await;
            }
            let (resources, uri) = (Arc::clone(&self.resources), uri.to_owned());
            off_thread(move || resources.read(&uri)).await.map(|one| vec![one])
        })
    }

    fn updates(&self) -> Option<broadcast::Receiver<String>> {
        Some(self.news.updates.subscribe())
    }

    fn prompts(&self) -> BoxFuture<'_, Vec<Value>> {
        Box::pin(self.more(Listed::Prompts))
    }

    fn prompts_version(&self) -> Option<watch::Receiver<u64>> {
        self.gateway.as_ref().map(|gateway| gateway.fleet().more_version())
    }

    fn prompt<'a>(
        &'a self,
        name: &'a str,
        args: Value,
        client: String,
        line: Line,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let not_there = || ToolError::not_found(format!("There is no prompt '{}'.", shortened(name)));
            let gateway = self.gateway.as_ref().ok_or_else(not_there)?;
            let found = tokio::select! {
                found = gateway.fleet().prompt(name) => found,
                () = line.cancel.cancelled() => return Err(taken_back()),
            };
            let (server, own) = found.ok_or_else(not_there)?;
            let args = json!({"name": own, "arguments": args});
            let result = self.ask(&server, ServerAct::GetPrompt, args, client, line).await?;
            match result.details {
                Value::Null => Err(ToolError::new(ErrorKind::TooLarge, result.notes.join("; "))),
                prompt => Ok(prompt),
            }
        })
    }
}

fn taken_back() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "The request was taken back.")
}

/// Runs what waits for a disk beside everything else.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ToolError::internal("Reading a resource crashed.")))
}
