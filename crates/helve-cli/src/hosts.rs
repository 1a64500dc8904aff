//! What an MCP client is offered: a runtime of its own for each, with the tools that the configuration gives.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args as ClapArgs;
use helve::mcp::serve::RuntimeHost;
use helve::mcp::server::{Card, Host, Hosts, LOCAL};
use helve::mcp::{Fleet, Fleets, Gateway};
use helve::store::Home;
use helve::{Caller, Cancel, CancelHandle, Counts, Dialect, ErrorKind, Policy, Runtime, ToolError};

use crate::args::{Global, Names};
use crate::failure::Failure;
use crate::{interrupt, moment, setup};

/// What is offered, and under which rules.
#[derive(ClapArgs)]
pub(crate) struct Offer {
    #[command(flatten)]
    names: Names,
    /// The profile whose rules hold, in place of the configured one
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Offer the tools of the configured MCP servers
    #[arg(long)]
    gateway: bool,
    /// Offer Helve's own tools beside those of the servers
    #[arg(long, requires = "gateway")]
    with_own: bool,
}

const INSTRUCTIONS: &str = "\
Every call is checked against the owner's policy, runs in a sandbox where it runs commands, and is recorded. A refusal names \
its rule: do not try the same by other means. The resource helve://manual says what each tool does and where its limits are; \
where a result was cut, helve://blob/… has the whole of it.";

/// How long clients wait for servers that were never seen before.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(5);

/// Makes a runtime for each client.
pub(crate) struct ClientHosts {
    policy: Policy,
    workspace: PathBuf,
    home: PathBuf,
    /// How the names of sessions begin, and whether one was named.
    session: String,
    named: bool,
    dialect: Option<Dialect>,
    /// The MCP servers whose tools are offered, to each client its own.
    fleets: Option<Arc<Fleets>>,
    own_tools: bool,
    cancel: Cancel,
    /// Of all sessions together: a client that begins another has no more calls and questions for that.
    counts: Counts,
}

/// The hosts, and what takes all their calls back.
pub(crate) struct Offered {
    pub(crate) hosts: Arc<ClientHosts>,
    pub(crate) cancel: Cancel,
    pub(crate) canceller: CancelHandle,
}

/// Puts the hosts of a command together; Ctrl-C ends what they do.
pub(crate) fn offered(global: &Global, offer: &Offer, kind: &str) -> Result<Offered, Failure> {
    let mut sources = setup::all_sources(global)?;
    if let Some(profile) = &offer.profile {
        sources.set.push(format!("profile={profile}"));
    }
    let policy = Policy::load(&sources).map_err(|error| Failure::usage(error.to_string()))?;
    let (canceller, cancel) = Cancel::pair();
    let (workspace, home) = (setup::workspace(global)?, Home::default_path()?);
    let fleets = offer.gateway.then(|| {
        let (policy, workspace, home) = (policy.clone(), workspace.clone(), home.clone());
        Fleets::new(Box::new(move || {
            helve::mcp::fleet(&policy, &workspace, &home, helve::mcp::keep(&home, &policy, None))
        }))
    });
    let named = setup::named_session(global, &policy);
    let hosts = ClientHosts {
        workspace,
        home,
        fleets,
        own_tools: !offer.gateway || offer.with_own,
        named: named.is_some(),
        session: named.unwrap_or_else(|| format!("{kind}-{}", moment::today())),
        dialect: offer.names.dialect(),
        cancel: cancel.clone(),
        counts: Counts::default(),
        policy,
    };
    // What is wrong with the configuration is said now and not to the first client.
    hosts.runtime("check", LOCAL, None, Cancel::never()).map_err(|error| Failure::usage(error.message))?;
    interrupt::catch()?.listen(canceller.clone());
    Ok(Offered { hosts: Arc::new(hosts), cancel, canceller })
}

/// A client as rules and journal name it: grants, limits and questions are kept by it, so no client chooses another's.
fn caller(client: &str) -> String {
    format!("mcp:{client}")
}

impl ClientHosts {
    fn runtime(
        &self,
        session: &str,
        client: &str,
        fleet: Option<&Arc<Fleet>>,
        cancel: Cancel,
    ) -> Result<Runtime, ToolError> {
        let mut builder = Runtime::builder()
            .policy(self.policy.clone())
            .workspace(&self.workspace)
            .home(&self.home)
            .session(session)
            .caller(Caller::Named(caller(client)))
            .cancel(cancel)
            .counts(self.counts.clone());
        if let Some(dialect) = &self.dialect {
            builder = builder.dialect(dialect.clone());
        }
        if let Some(fleet) = fleet {
            builder = builder.servers(fleet.seat());
        }
        if self.own_tools {
            builder = helve::register_file_tools(helve::register_builtin_tools(builder));
            builder = helve::register_container_tools(builder);
        }
        builder.build().map_err(|error| ToolError::new(ErrorKind::Internal, error.to_string()))
    }

    fn host(&self, session: String, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        let (canceller, cancel) = Cancel::pair();
        let fleet = self.fleets.as_ref().map(|fleets| fleets.of(client));
        let runtime = self.runtime(&session, client, fleet.as_ref(), cancel.or(&self.cancel))?;
        let mut host = RuntimeHost::new(runtime.clone(), self.home.clone(), session, canceller);
        if client == LOCAL {
            host = host.introduced(caller(client));
        }
        let Some(fleet) = fleet else { return Ok(Arc::new(host)) };
        let budget = usize::try_from(self.policy.mcp_schema_budget()).unwrap_or(usize::MAX);
        Ok(Arc::new(host.gateway(Gateway::new(&fleet, &runtime, budget))))
    }

    /// Learns the tools of the servers: from what is on record where they were seen before, else by starting them. A server
    /// that is slow holds nobody up for long; its tools come when it does.
    pub(crate) async fn settle(&self) {
        if let Some(fleets) = &self.fleets {
            fleets.settle(SETTLE).await;
        }
    }

    /// Ends the servers.
    pub(crate) async fn stop(&self) {
        if let Some(fleets) = &self.fleets {
            fleets.close().await;
        }
    }

    /// The frame that a message may fill: arguments at their limit, escaped, and what stands around them.
    pub(crate) fn frame_bytes(&self) -> usize {
        let args = usize::try_from(self.policy.limits().args_bytes).unwrap_or(usize::MAX);
        args.saturating_mul(2).saturating_add(64 << 10)
    }

    /// The state directory.
    pub(crate) fn home(&self) -> &std::path::Path {
        &self.home
    }
}

impl Hosts for ClientHosts {
    fn card(&self) -> Card {
        Card {
            name: "helve".to_owned(),
            title: Some("Helve".to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: Some(INSTRUCTIONS.to_owned()),
            prompts: self.fleets.is_some(),
            ..Card::default()
        }
    }

    fn session(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        // A session that the owner named is the one that is meant, if there is only one client.
        if self.named && client == LOCAL {
            return self.host(self.session.clone(), client);
        }
        let unlike = helve::mcp::token::fresh()
            .map_err(|error| ToolError::internal(format!("No session can be named: {error}")))?;
        self.host(format!("{}-{client}-{}", self.session, &unlike[..8]), client)
    }

    fn standing(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        self.host(format!("{}-{client}", self.session), client)
    }
}

/// How many clients a face serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    /// The one at the other end of the standard streams.
    One,
    /// As many as come.
    Many,
}

/// Runs what serves clients to its end. One client's messages are handled on one thread, because handing each of them from
/// thread to thread takes longer than the work; what waits for a disk or computes for long has threads of its own.
pub(crate) fn block_on<T>(clients: Clients, work: impl Future<Output = T>) -> Result<T, Failure> {
    let threads = match clients {
        Clients::One => 1,
        Clients::Many => std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8)),
    };
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("the event loop cannot start: {error}")))?;
    let done = tokio.block_on(work);
    // What works on a thread of its own has a moment to end.
    tokio.shutdown_timeout(std::time::Duration::from_secs(3));
    Ok(done)
}
