//! Opening a connection: the process, the address or the two addresses; the negotiation of the era; the sign-in.
//!
//! A server is first asked in the way of the newer era; one that does not know it is met in the older. What was found is
//! remembered by the slot, so that it is asked once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::servers::{HttpServer, StdioServer, Transport as Where};
use helve_core::{ErrorKind, ServerSpec, ToolError};
use rmcp::model::{Implementation, ProtocolVersion, SubscriptionFilter};
use rmcp::service::{ClientInitializeError, Peer};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{AuthClient, StreamableHttpClientTransport, Transport};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};

use super::cause::{Cause, refusal, unrenewed};
use super::connection::Connection;
use super::events::LAST_PAUSE;
use super::face::{Face, News};
use super::failure::{Broken, is_too_long, refused, timed_out, unreachable, words};
use super::fleet::FleetParts;
use super::frame::{Ending, Streams};
use super::gate::Gate;
use super::http::{self, Http};
use super::look::Era;
use super::notices::Notices;
use super::oauth::SignIn;
use super::process;
use super::questions::Questions;
use super::sse;

/// How long a process may take to say that it does not know the newer era, as a part of its time to start, and at most.
/// It is asked while it still starts.
const PATIENCE_PART: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(10);

/// How much longer than for a call's answer it is waited for a server to read: the call is told first that its time is up.
const LONGER: Duration = Duration::from_secs(1);

/// Why a connection could not be opened.
enum OpenFailure {
    Plain(ToolError),
    SignIn(Option<String>),
    /// The server does not understand; in the older era it may.
    Era(ToolError),
}

/// What a connection is opened with.
pub(crate) struct Opening<'a> {
    pub(crate) spec: &'a ServerSpec,
    pub(crate) parts: &'a FleetParts,
    pub(crate) era: Option<Era>,
    pub(crate) news: News,
}

impl Opening<'_> {
    /// Opens, negotiates, and signs in where the owner lets it. Gives up after the server's start timeout; a sign-in has
    /// its own time.
    pub(crate) async fn open(&self) -> Result<Connection, ToolError> {
        let failure = match self.attempt(self.era).await {
            Ok(connection) => return Ok(connection),
            Err(failure) => failure,
        };
        let failure = match failure {
            OpenFailure::Era(_) => match self.attempt(Some(Era::Stateful)).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => failure,
            },
            failure => failure,
        };
        match failure {
            OpenFailure::Plain(error) | OpenFailure::Era(error) => Err(error),
            OpenFailure::SignIn(challenge) => {
                self.sign_in(challenge.as_deref()).await?;
                match self.attempt(self.era).await {
                    Ok(connection) => Ok(connection),
                    Err(OpenFailure::Era(_)) => {
                        self.attempt(Some(Era::Stateful)).await.map_err(|failure| self.last(failure))
                    }
                    Err(failure) => Err(self.last(failure)),
                }
            }
        }
    }

    /// Sends the owner through a sign-in.
    pub(crate) async fn sign_in(&self, challenge: Option<&str>) -> Result<(), ToolError> {
        match &self.spec.transport {
            Where::Http(http) if http.oauth => self.signing().sign_in(http, challenge).await,
            _ => Err(self.refuses()),
        }
    }

    fn last(&self, failure: OpenFailure) -> ToolError {
        match failure {
            OpenFailure::Plain(error) | OpenFailure::Era(error) => error,
            OpenFailure::SignIn(_) => self.refuses(),
        }
    }

    fn refuses(&self) -> ToolError {
        let name = &self.spec.name;
        ToolError::failed(format!("The MCP server '{name}' lets nobody in without signing in."))
            .hint(format!("Give it a token (bearer_token_env) or let the owner sign in (oauth = true) in [mcp.servers.{name}]."))
    }

    fn signing(&self) -> SignIn {
        SignIn {
            server: self.spec.name.clone(),
            tokens: Arc::clone(&self.parts.tokens),
            owner: self.parts.owner.clone(),
        }
    }

    async fn attempt(&self, era: Option<Era>) -> Result<Connection, OpenFailure> {
        let limit = self.spec.start_timeout;
        match tokio::time::timeout(limit, self.connect(era)).await {
            Ok(Ok(connection)) if !is_known(&connection.version) => {
                Err(OpenFailure::Plain(self.unknown_version(&connection.version)))
            }
            Ok(done) => done,
            Err(_) => Err(OpenFailure::Plain(timed_out(&self.spec.name, "start", limit))),
        }
    }

    async fn connect(&self, era: Option<Era>) -> Result<Connection, OpenFailure> {
        match &self.spec.transport {
            Where::Stdio(stdio) => self.connect_process(stdio, era).await,
            Where::Http(http) if http.sse => self.connect_two_addresses(http).await,
            Where::Http(http) => self.connect_http(http, era).await,
        }
    }

    async fn connect_process(
        &self,
        stdio: &StdioServer,
        era: Option<Era>,
    ) -> Result<Connection, OpenFailure> {
        let launched = (self.parts.launch)(self.spec, stdio).map_err(OpenFailure::Plain)?;
        let name = &self.spec.name;
        let (process, read, write) =
            process::start(launched, name, stdio, Arc::clone(&self.parts.log)).map_err(OpenFailure::Plain)?;
        let (ending, notices) = (Ending::default(), self.notices());
        let streams = Streams::new(read, write, self.parts.limits.frame_bytes, ending.clone())
            .patient(self.spec.call_timeout + LONGER)
            .telling(Arc::clone(&notices));
        let straight = streams.straight();
        let failure = match self.negotiate(streams, era, ending, notices).await {
            Ok(connection) => {
                // A server of the newer era wants to hear with each request who asks; the loop says that.
                let straight = Some(straight).filter(|_| connection.era == Era::Stateful);
                return Ok(Connection { process: Some(process), straight, ..connection });
            }
            Err(failure) => failure,
        };
        // What the process or the sandbox says is nearer to the cause than that the pipe closed. One that ended at the
        // unknown question is met in the older era.
        let obituary = process.obituary(name).await.map(|error| with_arguments(name, stdio, error));
        Err(match (failure, obituary) {
            (OpenFailure::Era(_), Some(error)) if error.kind != ErrorKind::ToolFailed => {
                OpenFailure::Plain(error)
            }
            (OpenFailure::Era(_), Some(error)) => OpenFailure::Era(error),
            (OpenFailure::Plain(_), Some(error)) => OpenFailure::Plain(error),
            (failure, _) => failure,
        })
    }

    async fn connect_two_addresses(&self, http: &HttpServer) -> Result<Connection, OpenFailure> {
        let name = &self.spec.name;
        let plain = OpenFailure::Plain;
        let url = http::address(name, &http.url).map_err(plain)?;
        let headers = http::headers(name, http).map_err(plain)?;
        let cap = self.parts.limits.frame_bytes;
        let client = Http::new(name, &url, cap, self.spec.start_timeout).map_err(plain)?;
        let ending = Ending::default();
        let transport = sse::open(name, client, url, headers, http.bearer.clone(), cap, ending.clone())
            .await
            .map_err(plain)?;
        self.negotiate(transport, Some(Era::Stateful), ending, self.notices()).await
    }

    async fn connect_http(&self, http: &HttpServer, era: Option<Era>) -> Result<Connection, OpenFailure> {
        let name = &self.spec.name;
        let plain = OpenFailure::Plain;
        let url = http::address(name, &http.url).map_err(plain)?;
        let cap = self.parts.limits.frame_bytes;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
        config.custom_headers = http::headers(name, http).map_err(plain)?;
        config.auth_header.clone_from(&http.bearer);
        config.max_sse_event_size = cap;
        config.max_concurrent_requests = 64;
        let mut retries = ExponentialBackoff::default();
        retries.max_delay = Some(LAST_PAUSE);
        config.retry_config = Arc::new(retries);
        let client = Http::new(name, &url, cap, self.spec.start_timeout).map_err(plain)?;
        let ending = Ending::default();
        if http.oauth && http.bearer.is_none() {
            let manager = self.signing().manager(http).await.map_err(plain)?;
            let transport =
                StreamableHttpClientTransport::with_client(AuthClient::new(client, manager), config);
            self.negotiate(transport, era, ending, self.notices()).await
        } else {
            let transport = StreamableHttpClientTransport::with_client(client, config);
            self.negotiate(transport, era, ending, self.notices()).await
        }
    }

    /// What the server tells at a new connection.
    fn notices(&self) -> Arc<Notices> {
        Arc::new(Notices::new(&self.spec.name, Arc::clone(&self.parts.log)))
    }

    async fn negotiate(
        &self,
        transport: impl Transport<RoleClient> + 'static,
        era: Option<Era>,
        ending: Ending,
        notices: Arc<Notices>,
    ) -> Result<Connection, OpenFailure> {
        let from = Instant::now();
        let newest_first: Vec<ProtocolVersion> =
            ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect();
        let mode = match era {
            Some(Era::Stateful) => ClientLifecycleMode::Initialize,
            Some(Era::Stateless) => ClientLifecycleMode::Discover { preferred_versions: newest_first },
            None => ClientLifecycleMode::Auto {
                preferred_versions: newest_first,
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
        };
        let questions = Questions::new(
            self.spec.name.clone(),
            self.spec.may,
            self.parts.workspace.clone(),
            Arc::clone(&self.parts.log),
        );
        let face = Face::new(questions, Arc::clone(&notices), self.news.clone());
        // An address always answers somehow.
        let patience = match &self.spec.transport {
            Where::Stdio(_) => PATIENCE.min(self.spec.start_timeout / PATIENCE_PART),
            Where::Http(_) => self.spec.start_timeout,
        };
        let gate = Gate::new(transport, ending.clone(), patience, notices);
        let service = face
            .serve_with_lifecycle(gate, mode)
            .await
            .map_err(|error| self.unopened(era, &ending, &error))?;
        let info = service.peer().peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.clone()).unwrap_or_default();
        let era = if version >= ProtocolVersion::V_2026_07_28 { Era::Stateless } else { Era::Stateful };
        if era == Era::Stateless
            && let Some(info) = &info
        {
            let can = &info.capabilities;
            let mut wanted = SubscriptionFilter::default();
            wanted.tools_list_changed = can.tools.as_ref().and_then(|tools| tools.list_changed);
            wanted.prompts_list_changed = can.prompts.as_ref().and_then(|prompts| prompts.list_changed);
            wanted.resources_list_changed =
                can.resources.as_ref().and_then(|resources| resources.list_changed);
            if [wanted.tools_list_changed, wanted.prompts_list_changed, wanted.resources_list_changed]
                .contains(&Some(true))
            {
                tokio::spawn(listen(service.peer().clone(), wanted, self.news.clone()));
            }
        }
        Ok(Connection {
            process: None,
            ending,
            server: self.spec.name.clone(),
            era,
            version: version.to_string(),
            server_info: info.as_ref().and_then(|info| Some(self.who(info.server_info.as_ref()?))),
            instructions: info.as_ref().and_then(|info| Some(self.words(info.instructions.as_deref()?))),
            opened_in: from.elapsed(),
            straight: None,
            service,
        })
    }

    /// A server's own words, without secrets.
    fn words(&self, text: &str) -> String {
        words(&self.parts.hidden(text))
    }

    /// What a server says it is, in words that hide nothing.
    fn who(&self, server: &Implementation) -> Value {
        let mut who = json!({"name": self.words(&server.name), "version": self.words(&server.version)});
        if let Some(title) = &server.title {
            who["title"] = json!(self.words(title));
        }
        who
    }

    fn unknown_version(&self, version: &str) -> ToolError {
        let name = &self.spec.name;
        let known: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
        let (what, hint) = match known.iter().all(|known| version > *known) {
            true => (
                "is newer than any that is known here",
                "Use a newer Helve, or an older version of the server.",
            ),
            false => ("is none that is known here", "Use another version of the server, or tell its author."),
        };
        let version = words(version);
        ToolError::failed(format!(
            "The MCP server '{name}' speaks the protocol {version}, which {what}: {}.",
            known.join(", ")
        ))
        .hint(hint)
    }

    fn unopened(&self, era: Option<Era>, ending: &Ending, error: &ClientInitializeError) -> OpenFailure {
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            return OpenFailure::SignIn(error.auth_challenge().map(str::to_owned));
        }
        if let Some(why) = unrenewed(error) {
            return match &self.parts.owner {
                Some(_) => OpenFailure::SignIn(None),
                None => OpenFailure::Plain(self.signing().unrenewed(why)),
            };
        }
        let name = &self.spec.name;
        if let Some(broken) = ending.why().filter(|broken| *broken != Broken::Ended) {
            return OpenFailure::Plain(broken.error(name));
        }
        if let Some(error) = refusal(error).filter(|error| is_too_long(error)) {
            return OpenFailure::Plain(refused(name, "the first question", error));
        }
        let cause = Cause::of_opening(error);
        let told = match &self.spec.transport {
            Where::Stdio(_) => {
                let why = words(&cause.words);
                ToolError::failed(format!("The MCP server '{name}' could not be started: {why}"))
                    .hint(format!("`helve mcp logs {name}` shows what it said."))
            }
            Where::Http(_) => unreachable(name, cause),
        };
        match era {
            Some(Era::Stateful) => OpenFailure::Plain(told),
            _ => OpenFailure::Era(told),
        }
    }
}

/// Where the command of a server is not there: whole command lines are often written in its place.
fn with_arguments(name: &str, stdio: &StdioServer, error: ToolError) -> ToolError {
    let mut words = stdio.command.split_whitespace();
    let (Some(command), Some(first)) = (words.next(), words.next()) else { return error };
    if error.kind != ErrorKind::NotFound {
        return error;
    }
    let args: Vec<&str> =
        std::iter::once(first).chain(words).chain(stdio.args.iter().map(String::as_str)).collect();
    let (command, args) = (json!(command), json!(args));
    error.hint(format!("Arguments go in a list of their own: write `command = {command}` and `args = {args}` in [mcp.servers.{name}]."))
}

fn is_known(version: &str) -> bool {
    ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version)
}

/// Hears of changes where the server has to be asked for that.
async fn listen(peer: Peer<RoleClient>, wanted: SubscriptionFilter, news: News) {
    let Ok(mut subscription) = peer.listen(wanted).await else { return };
    while let Ok(Some(_)) = subscription.next().await {
        // Whatever it was: to look once too often costs little.
        news.tools.notify_one();
        news.more.send_modify(|version| *version += 1);
    }
}
