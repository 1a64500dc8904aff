//! All servers of a configuration. Nothing runs until something of it is needed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helve_core::servers::{StdioServer, Transport, called};
use helve_core::{
    BoxFuture, SentCall, ServerAct, ServerCall, ServerReply, ServerSpec, Servers, ShellBackend, Tool,
    ToolError, ToolSpec,
};
use serde_json::Value;
use tokio::sync::watch;

use super::connection::Connection;
use super::definition::Definition;
use super::keep::{Owner, PinStore, ServerLog, TokenStore};
use super::look::{ServerLook, ServerState, StateName};
use super::more::{self, Listed};
use super::names;
use super::seat::{Seat, Session};
use super::slot::Slot;
use super::tool::{RemoteTool, StandIn};

/// How long servers at addresses may take to hear that nobody needs them any more.
const PARTING: Duration = Duration::from_secs(1);

/// Makes the sandbox for a server's process, when that is to be started.
pub type Launch = Arc<dyn Fn(&ServerSpec, &StdioServer) -> Result<Launched, ToolError> + Send + Sync>;

/// Takes the secrets that the owner knows out of what a server says.
pub type Hide = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// A sandbox for a server's process.
pub struct Launched {
    /// The sandbox.
    pub backend: Arc<dyn ShellBackend>,
    /// Where the process starts, as the sandbox names it.
    pub working_dir: Option<String>,
}

/// What a fleet is put together from.
pub struct FleetParts {
    /// Makes the sandbox for a server's process.
    pub launch: Launch,
    /// Whether that sandbox contains what runs in it.
    pub contains: bool,
    /// What the owner has agreed to.
    pub pins: Arc<dyn PinStore>,
    /// What sign-ins gave.
    pub tokens: Arc<dyn TokenStore>,
    /// What servers say and what happens to them.
    pub log: Arc<dyn ServerLog>,
    /// Takes out what nobody is to see.
    pub hide: Hide,
    /// The owner, where one is there to sign in.
    pub owner: Option<Arc<dyn Owner>>,
    /// The workspace, as the root that servers may be told.
    pub workspace: Option<PathBuf>,
    /// Bounds.
    pub limits: FleetLimits,
}

impl FleetParts {
    /// A server's words without secrets.
    pub(super) fn hidden(&self, text: &str) -> String {
        let mut words = Value::from(text);
        (self.hide)(&mut words);
        words.as_str().unwrap_or_default().to_owned()
    }
}

/// Bounds on what comes from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetLimits {
    /// Bytes of one message.
    pub frame_bytes: usize,
    /// Tools of one server.
    pub tools: usize,
}

impl Default for FleetLimits {
    fn default() -> Self {
        FleetLimits { frame_bytes: 16 << 20, tools: 10_000 }
    }
}

/// The servers.
pub struct Fleet {
    slots: BTreeMap<String, Arc<Slot>>,
    contains: bool,
    version: Arc<watch::Sender<u64>>,
    more_version: Arc<watch::Sender<u64>>,
    /// How many sessions it has had.
    sessions: AtomicU64,
}

impl Fleet {
    /// Starts nothing.
    pub fn new(servers: Vec<ServerSpec>, parts: FleetParts) -> Arc<Fleet> {
        let contains = parts.contains;
        let parts = Arc::new(parts);
        let (version, more_version) = (Arc::new(watch::channel(0).0), Arc::new(watch::channel(0).0));
        let slot = |spec: ServerSpec| {
            let (version, more) = (Arc::clone(&version), Arc::clone(&more_version));
            (spec.name.clone(), Slot::new(spec, Arc::clone(&parts), version, more))
        };
        let slots = servers.into_iter().map(slot).collect();
        Arc::new(Fleet { slots, contains, version, more_version, sessions: AtomicU64::new(0) })
    }

    /// The servers for one more session of the client that they run for.
    pub fn seat(self: &Arc<Self>) -> Arc<Seat> {
        let session = Session(self.sessions.fetch_add(1, Ordering::Relaxed) + 1);
        Arc::new(Seat { fleet: Arc::clone(self), session })
    }

    pub(super) async fn call_of(&self, session: Session, call: ServerCall) -> Result<ServerReply, ToolError> {
        self.slot(&call.server)?.call(call, session).await
    }

    pub(super) fn send_of(self: Arc<Self>, session: Session, call: ServerCall) -> Box<dyn SentCall> {
        let sent = self.slot(&call.server).ok().and_then(|slot| slot.send(&call, session));
        match sent {
            Some(sent) => Box::new(sent),
            // It has to be started first, or to wait for its turn, or has an address, or says why not.
            None => called(Box::pin(async move { self.call_of(session, call).await })),
        }
    }

    fn slot(&self, server: &str) -> Result<&Arc<Slot>, ToolError> {
        self.slots.get(server).ok_or_else(|| {
            ToolError::not_found(format!("No MCP server is named '{server}' in the configuration."))
                .hint("`helve mcp list` shows those that there are.")
        })
    }

    /// Starts every server, all at once, and comes back at once.
    pub fn start_all(self: &Arc<Self>) {
        for slot in self.slots.values() {
            let slot = Arc::clone(slot);
            tokio::spawn(async move {
                // A failure stands in the server's state and its log.
                let _ = slot.connection().await;
            });
        }
    }

    /// Makes known what is on record of servers that were seen before, without starting any. A server of which nothing is
    /// on record, or whose record cannot be read, has no tools yet.
    pub async fn recall(&self) {
        for slot in self.slots.values() {
            let _ = slot.recall().await;
        }
    }

    /// The same for who may wait for a disk.
    pub fn recall_now(&self) {
        for slot in self.slots.values() {
            let _ = slot.recall_now();
        }
    }

    /// Makes one tool known, by the name under which a model sees it: from what is on record, else by starting the server
    /// that it would be of. Where it is known and cannot be called, says why; where no server could have it, says nothing.
    pub async fn bring(&self, shown: &str) -> Result<(), ToolError> {
        for slot in self.slots.values().filter(|slot| names::could_be_of(shown, &slot.spec.name)) {
            slot.recall().await?;
            if slot.has(shown) == Some(true) {
                return Ok(());
            }
            slot.connection().await?;
            if slot.has(shown).is_some() {
                return slot.may_call_shown(shown);
            }
        }
        Ok(())
    }

    /// A tool that stands for one which could not be made known: its call says why not and does nothing else. None if no
    /// server could have it.
    pub fn stand_in(&self, shown: &str, why: ToolError) -> Option<Box<dyn Tool>> {
        let slot = self.slots.values().find(|slot| names::could_be_of(shown, &slot.spec.name))?;
        let tool = slot.tool_shown(shown).or_else(|| {
            let rest = shown.strip_prefix(&format!("mcp__{}__", slot.spec.name))?;
            (!rest.is_empty()).then(|| rest.to_owned())
        })?;
        let parameters = serde_json::json!({"type": "object", "properties": {}});
        let spec =
            ToolSpec::new(shown, "A tool that is not known yet.", parameters).origin(&slot.spec.name, tool);
        Some(Box::new(StandIn { spec, why }))
    }

    /// Waits until the tools of every server are known, or it has failed, but no longer than `within`.
    pub async fn settled(self: &Arc<Self>, within: Duration) {
        let all = futures::future::join_all(self.slots.values().filter(|slot| !slot.is_known()).map(
            |slot| async {
                let _ = slot.connection().await;
            },
        ));
        let _ = tokio::time::timeout(within, all).await;
    }

    /// The tools that can be called, as they are known now.
    pub fn tools(&self) -> Vec<Box<dyn Tool>> {
        let of_slot = |slot: &Arc<Slot>| {
            let contains = self.contains;
            let specs = slot.offered().into_iter().map(|definition| definition.spec(&slot.spec, contains));
            specs.map(|spec| Box::new(RemoteTool::new(spec)) as Box<dyn Tool>).collect::<Vec<_>>()
        };
        self.slots.values().flat_map(of_slot).collect()
    }

    /// The tools that ask servers for their resources and prompts; for whoever offers those on.
    pub fn asking_tools(&self) -> Vec<Box<dyn Tool>> {
        let acts = [ServerAct::ReadResource, ServerAct::GetPrompt];
        let of_slot = |slot: &Arc<Slot>| {
            acts.map(|act| {
                Box::new(RemoteTool::new(more::asking_spec(&slot.spec, act, self.contains))) as Box<dyn Tool>
            })
        };
        self.slots.values().flat_map(of_slot).collect()
    }

    /// A list of every server's, as a client is shown it, sorted by server. Servers are started if they are not yet; one that
    /// fails, or takes longer than `within`, has nothing to show.
    pub async fn more(&self, what: Listed, within: Duration) -> Vec<Value> {
        let of_slot = |slot: &Arc<Slot>| {
            let slot = Arc::clone(slot);
            async move { tokio::time::timeout(within, slot.more(what)).await.ok()?.ok() }
        };
        let lists = futures::future::join_all(self.slots.values().map(of_slot)).await;
        lists.into_iter().flatten().flatten().collect()
    }

    /// Changes when a server says that its resources or prompts have.
    pub fn more_version(&self) -> watch::Receiver<u64> {
        self.more_version.subscribe()
    }

    /// The server of a prompt and its name there, by the name under which a client is shown it.
    pub async fn prompt(&self, shown: &str) -> Option<(String, String)> {
        for slot in self.slots.values().filter(|slot| names::could_be_of(shown, &slot.spec.name)) {
            if slot.prompt_shown(shown).is_none() {
                // A failure leaves it unknown.
                let _ = slot.more(Listed::Prompts).await;
            }
            if let Some(own) = slot.prompt_shown(shown) {
                return Some((slot.spec.name.clone(), own));
            }
        }
        None
    }

    /// Changes whenever [`Fleet::tools`] does.
    pub fn version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// How each server is, without starting any.
    pub fn states(&self) -> Vec<ServerState> {
        self.slots.values().map(|slot| slot.state()).collect()
    }

    /// Everything about one server, which is started if it is not yet.
    pub async fn look(&self, server: &str) -> Result<ServerLook, ToolError> {
        self.slot(server)?.look().await
    }

    /// Pins tools of a server as the owner has seen them, whatever the server says of them by now: one that has changed since
    /// is off.
    pub async fn agree(&self, server: &str, seen: &[Definition]) -> Result<(), ToolError> {
        self.slot(server)?.agree(seen).await
    }

    /// Ends every server. A later use starts it again.
    pub fn stop(&self) {
        self.let_go();
    }

    /// The same; comes back when the servers at addresses have been told, for which there is a moment.
    pub async fn close(&self) {
        let is_told = |(slot, _): &(&Slot, _)| matches!(slot.spec.transport, Transport::Http(_));
        let told = self.let_go().into_iter().filter(is_told);
        let told = told.map(|(_, connection)| async move { connection.close().await });
        let _ = tokio::time::timeout(PARTING, futures::future::join_all(told)).await;
    }

    /// The connections that there were.
    fn let_go(&self) -> Vec<(&Slot, Arc<Connection>)> {
        let slots = self.slots.values().filter(|slot| slot.state().state != StateName::Idle);
        slots.filter_map(|slot| Some((&**slot, slot.stop()?))).collect()
    }
}

/// Who has the servers for itself is one session.
impl Servers for Fleet {
    fn call(&self, call: ServerCall) -> BoxFuture<'_, Result<ServerReply, ToolError>> {
        Box::pin(self.call_of(Session::default(), call))
    }

    fn send(self: Arc<Self>, call: ServerCall) -> Box<dyn SentCall> {
        self.send_of(Session::default(), call)
    }

    fn missing(&self, shown: &str) -> Option<ToolError> {
        let slots = self.slots.values().filter(|slot| names::could_be_of(shown, &slot.spec.name));
        slots.filter_map(|slot| slot.missing(shown)).next()
    }
}
