//! One connection to a server: opened and negotiated in either era, then listing and calls.
//!
//! A server is first asked in the way of the newer era; one that does not know it is met in the older. What was found is
//! remembered by the slot, so that it is asked once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::servers::{HttpServer, StdioServer, Transport as Where};
use helve_core::{QuestionKind, SandboxReport, ServerCall, ServerReply, ServerSpec, ToolError};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, InputRequest,
    InputRequiredResult, InputResponses, ListToolsRequest, PaginatedRequestParams, ProgressToken,
    ProtocolVersion, RequestId, ServerResult, SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, Peer, PeerRequestOptions, RunningService};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpClientTransportConfig,
};
use rmcp::transport::{AuthClient, StreamableHttpClientTransport, Transport};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::Notify;

use super::content;
use super::face::{Face, elicitation_kind, to_value};
use super::failure::{Broken, cancelled, chain, of_service, timed_out, words};
use super::fleet::FleetParts;
use super::frame::{Ending, Streams};
use super::gate::Gate;
use super::http::{self, Http};
use super::oauth::SignIn;
use super::process::{self, Process};
use super::questions::{Questions, Underway};
use super::slot::Era;
use super::sse;

/// How long a server may take to say that it does not know the newer era.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a server of the newer era may ask back within one call.
const ROUNDS: u32 = 16;
/// Pages of a list.
const PAGES: usize = 1_000;

/// An open connection. It ends, and its process with it, when this is dropped.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Face>,
    process: Option<Process>,
    ending: Ending,
    server: String,
    pub(crate) era: Era,
    pub(crate) version: String,
    pub(crate) server_info: Option<Value>,
    pub(crate) instructions: Option<String>,
    pub(crate) opened_in: Duration,
}

/// Why a call failed.
pub(crate) enum CallFailure {
    /// It is answered with this.
    Plain(ToolError),
    /// The connection is of no use any more.
    Gone(ToolError),
    /// The server wants the owner to sign in, or to agree to more: its challenge. The call has not begun.
    SignIn(String),
}

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
    pub(crate) changed: Arc<Notify>,
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
            Where::Http(http) if http.oauth => {
                self.signing().sign_in(http, challenge).await?;
                Ok(())
            }
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
        let backend = (self.parts.launch)(self.spec, stdio).map_err(OpenFailure::Plain)?;
        let name = &self.spec.name;
        let (process, read, write) =
            process::start(backend, name, stdio, Arc::clone(&self.parts.log)).map_err(OpenFailure::Plain)?;
        let ending = Ending::default();
        let streams = Streams::new(read, write, self.parts.limits.frame_bytes, ending.clone());
        let failure = match self.negotiate(streams, era, ending, None).await {
            Ok(connection) => return Ok(Connection { process: Some(process), ..connection }),
            Err(failure) => failure,
        };
        // What the process or the sandbox says is nearer to the cause than that the pipe closed. One that ended at the
        // unknown question is met in the older era.
        let obituary = process.obituary(name).await;
        Err(match (failure, obituary) {
            (OpenFailure::Era(_), Some(error)) if error.kind != helve_core::ErrorKind::ToolFailed => {
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
        let client = Http::new(name, cap, self.spec.start_timeout).map_err(plain)?;
        let ending = Ending::default();
        let transport = sse::open(name, client, url, headers, http.bearer.clone(), cap, ending.clone())
            .await
            .map_err(plain)?;
        self.negotiate(transport, Some(Era::Stateful), ending, None).await
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
        let client = Http::new(name, cap, self.spec.start_timeout).map_err(plain)?;
        let ending = Ending::default();
        if http.oauth && http.bearer.is_none() {
            let manager = self.signing().manager(http).await.map_err(plain)?;
            let transport =
                StreamableHttpClientTransport::with_client(AuthClient::new(client, manager), config);
            self.negotiate(transport, era, ending, None).await
        } else {
            self.negotiate(StreamableHttpClientTransport::with_client(client, config), era, ending, None)
                .await
        }
    }

    async fn negotiate(
        &self,
        transport: impl Transport<RoleClient> + 'static,
        era: Option<Era>,
        ending: Ending,
        process: Option<Process>,
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
        let face = Face::new(questions, Arc::clone(&self.changed));
        let gate = Gate::new(transport, ending.clone(), PATIENCE);
        let service = face
            .serve_with_lifecycle(gate, mode)
            .await
            .map_err(|error| self.unopened(era, &ending, &error))?;
        let info = service.peer().peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.clone()).unwrap_or_default();
        let era = if version >= ProtocolVersion::V_2026_07_28 { Era::Stateless } else { Era::Stateful };
        let lists_change = info
            .as_ref()
            .and_then(|info| info.capabilities.tools.as_ref())
            .is_some_and(|tools| tools.list_changed == Some(true));
        if era == Era::Stateless && lists_change {
            tokio::spawn(listen(service.peer().clone(), Arc::clone(&self.changed)));
        }
        Ok(Connection {
            process,
            ending,
            server: self.spec.name.clone(),
            era,
            version: version.to_string(),
            server_info: info.as_ref().and_then(|info| serde_json::to_value(info.server_info.as_ref()?).ok()),
            instructions: info.as_ref().and_then(|info| info.instructions.as_deref().map(words)),
            opened_in: from.elapsed(),
            service,
        })
    }

    fn unopened(&self, era: Option<Era>, ending: &Ending, error: &ClientInitializeError) -> OpenFailure {
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            return OpenFailure::SignIn(error.auth_challenge().map(str::to_owned));
        }
        let name = &self.spec.name;
        let told = match ending.why() {
            Some(broken) if broken != Broken::Ended => return OpenFailure::Plain(broken.error(name)),
            _ => ToolError::failed(format!(
                "The MCP server '{name}' could not be started: {}",
                words(&chain(error))
            )),
        };
        let told = told.hint(format!(
            "`helve mcp test {name}` tries it, and `helve mcp logs {name}` shows what it said."
        ));
        match era {
            Some(Era::Stateful) => OpenFailure::Plain(told),
            _ => OpenFailure::Era(told),
        }
    }
}

/// Hears of changes where the server has to be asked for that.
async fn listen(peer: Peer<RoleClient>, changed: Arc<Notify>) {
    let Ok(mut subscription) = peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await
    else {
        return;
    };
    while let Ok(Some(_)) = subscription.next().await {
        changed.notify_one();
    }
}

impl Connection {
    /// The sandbox that its process runs in.
    pub(crate) fn sandbox(&self) -> Option<SandboxReport> {
        self.process.as_ref().map(Process::sandbox)
    }

    /// Whether it is of no use any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    fn face(&self) -> &Face {
        self.service.service()
    }

    /// What the server says of its tools, page by page, up to `most` of them.
    pub(crate) async fn list(&self, most: usize, within: Duration) -> Result<Vec<Value>, ToolError> {
        match tokio::time::timeout(within, self.pages(most)).await {
            Ok(listed) => listed,
            Err(_) => Err(timed_out(&self.server, "list its tools", within)),
        }
    }

    async fn pages(&self, most: usize) -> Result<Vec<Value>, ToolError> {
        let mut tools: Vec<Value> = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let answer = match self.service.peer().send_request(request).await {
                Ok(answer) => answer,
                // It has no tools, and says so in the way of servers that have none.
                Err(ServiceError::McpError(error)) if error.code.0 == -32601 => return Ok(tools),
                Err(error) => return Err(self.failure("tools/list", &error).await),
            };
            let next = match answer {
                ServerResult::ListToolsResult(page) => {
                    tools.extend(page.tools.iter().filter_map(|tool| serde_json::to_value(tool).ok()));
                    page.next_cursor
                }
                // One definition that the SDK cannot read makes it leave the whole page as it is.
                ServerResult::CustomResult(page) => {
                    let listed = page.0.get("tools").and_then(Value::as_array);
                    let listed = listed.ok_or_else(|| self.strange("tools/list"))?;
                    tools.extend(listed.iter().cloned());
                    page.0.get("nextCursor").and_then(Value::as_str).map(str::to_owned)
                }
                _ => return Err(self.strange("tools/list")),
            };
            if tools.len() > most {
                return Err(ToolError::new(
                    helve_core::ErrorKind::TooLarge,
                    format!("The MCP server '{}' lists more than {most} tools.", self.server),
                ));
            }
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(tools),
                Some(next) if Some(&next) == cursor.as_ref() => break,
                next => cursor = next,
            }
        }
        Err(ToolError::failed(format!(
            "The MCP server '{}' does not come to an end with listing its tools.",
            self.server
        )))
    }

    fn strange(&self, what: &str) -> ToolError {
        of_service(&self.server, what, &ServiceError::UnexpectedResponse, None)
    }

    async fn failure(&self, what: &str, error: &ServiceError) -> ToolError {
        let told = of_service(&self.server, what, error, self.ending.why());
        let ended = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        match (&self.process, self.ending.why()) {
            (Some(process), None | Some(Broken::Ended)) if ended => {
                process.obituary(&self.server).await.unwrap_or(told)
            }
            _ => told,
        }
    }

    /// Calls a tool. `within` is the server's time: while somebody is asked on its behalf, it does not pass.
    pub(crate) async fn call(&self, call: &ServerCall, within: Duration) -> Result<ServerReply, CallFailure> {
        let underway =
            Underway { progress: call.progress.clone(), peer: call.peer.clone(), asking: Arc::default() };
        let from = Instant::now();
        let mut params = CallToolRequestParams::new(call.tool.clone());
        params.arguments = call.args.as_object().cloned();
        for _ in 0..ROUNDS {
            let (result, request_state) =
                match self.once(call, params.clone(), &underway, from, within).await? {
                    ServerResult::CallToolResult(result) => return Ok(content::reply(result)),
                    ServerResult::InputRequiredResult(wanted) => self.answers(wanted, &underway).await?,
                    // A result without content is one of the oldest protocol.
                    ServerResult::EmptyResult(_) => {
                        return Ok(ServerReply { content: Vec::new(), structured: None, is_error: false });
                    }
                    _ => return Err(CallFailure::Plain(self.strange(&call.tool))),
                };
            params.input_responses = Some(result).filter(|answers| !answers.is_empty());
            params.request_state = request_state;
        }
        let message = format!("The MCP server '{}' asked back more than {ROUNDS} times.", self.server);
        Err(CallFailure::Plain(ToolError::failed(message)))
    }

    /// One request of a call.
    async fn once(
        &self,
        call: &ServerCall,
        params: CallToolRequestParams,
        underway: &Underway,
        from: Instant,
        within: Duration,
    ) -> Result<ServerResult, CallFailure> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent =
            self.service.peer().send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.call_failure(&call.tool, &error).await),
        };
        let (id, token) = (handle.id.clone(), handle.progress_token.clone());
        self.face().calls().begin(token.clone(), id.clone(), underway.clone());
        let mut pending = Pending { of: self, id, token, is_done: false };
        let answer = tokio::select! {
            answer = &mut handle.rx => answer,
            () = call.cancel.cancelled() => {
                pending.take_back("the caller took the call back").await;
                return Err(CallFailure::Plain(cancelled()));
            }
            () = time_is_up(from, within, underway) => {
                pending.take_back("the time for the call is up").await;
                return Err(CallFailure::Plain(timed_out(&self.server, "answer", within)));
            }
        };
        pending.is_done = true;
        drop(pending);
        match answer.unwrap_or(Err(ServiceError::TransportClosed)) {
            Ok(result) => Ok(result),
            Err(error) => Err(self.call_failure(&call.tool, &error).await),
        }
    }

    async fn call_failure(&self, tool: &str, error: &ServiceError) -> CallFailure {
        if let Some(challenge) = challenge_of(error) {
            return CallFailure::SignIn(challenge);
        }
        let told = self.failure(tool, error).await;
        if self.is_closed() { CallFailure::Gone(told) } else { CallFailure::Plain(told) }
    }

    /// The answers to what a server of the newer era wants to know before it goes on. All of it is asked, even where one
    /// question finds no answer: a caller who has to come again then comes once.
    async fn answers(
        &self,
        wanted: InputRequiredResult,
        underway: &Underway,
    ) -> Result<(InputResponses, Option<String>), CallFailure> {
        let mut answers = InputResponses::new();
        let mut failed = None;
        for (name, question) in wanted.input_requests.unwrap_or_default() {
            let (kind, params) = match question {
                InputRequest::CreateMessage(request) => (QuestionKind::Sample, to_value(&request.params)),
                InputRequest::Elicitation(request) => {
                    (elicitation_kind(&request.params), to_value(&request.params))
                }
                InputRequest::ListRoots(_) => (QuestionKind::Roots, Ok(Value::Null)),
                _ => return Err(CallFailure::Plain(self.strange("a question"))),
            };
            let key = underway.next_key();
            let answer = match params {
                Ok(params) => self.face().questions.answer(&key, kind, params, Some(underway)).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => {
                    answers.insert(name, answer);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            None => Ok((answers, wanted.request_state)),
            Some(error) => Err(CallFailure::Plain(ToolError::failed(format!(
                "The MCP server '{}' asks something that is not answered: {}",
                self.server, error.message
            )))),
        }
    }
}

async fn time_is_up(from: Instant, within: Duration, underway: &Underway) {
    loop {
        let left = (within + underway.asking.so_far()).saturating_sub(from.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

/// The challenge in an error of the transport.
fn challenge_of(error: &ServiceError) -> Option<String> {
    let ServiceError::TransportSend(sent) = error else { return None };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(sent.error.as_ref());
    while let Some(error) = cause {
        if let Some(wanted) = error.downcast_ref::<AuthRequiredError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        if let Some(wanted) = error.downcast_ref::<InsufficientScopeError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        cause = error.source();
    }
    None
}

/// A request that waits for its answer. Where nobody waits any more, the server is told.
struct Pending<'a> {
    of: &'a Connection,
    id: RequestId,
    token: ProgressToken,
    is_done: bool,
}

impl Pending<'_> {
    async fn take_back(&mut self, reason: &str) {
        self.is_done = true;
        let told = self.of.service.peer().notify_cancelled(self.notice(reason));
        // A server that does not read is not waited for.
        let _ = tokio::time::timeout(Duration::from_millis(200), told).await;
    }

    fn notice(&self, reason: &str) -> CancelledNotificationParam {
        CancelledNotificationParam::new(Some(self.id.clone()), Some(reason.to_owned()))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.of.face().calls().end(&self.token, &self.id);
        if !self.is_done
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (peer, notice) = (self.of.service.peer().clone(), self.notice("the call was given up"));
            runtime.spawn(async move {
                let _ = tokio::time::timeout(Duration::from_secs(1), peer.notify_cancelled(notice)).await;
            });
        }
    }
}
