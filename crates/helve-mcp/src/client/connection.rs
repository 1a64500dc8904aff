//! One open connection: listing a server's tools, calling them, and answering what it asks meanwhile.

use std::ops::Deref;
use std::time::{Duration, Instant};

use helve_core::{QuestionKind, ServerCall, ServerReply, SharedReport, ToolError};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, InputRequest,
    InputRequiredResult, InputResponses, PaginatedRequestParams, ProgressToken, RequestId, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RunningService};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use rmcp::{RoleClient, ServiceError};
use serde_json::Value;

use super::content;
use super::face::{Face, elicitation_kind, to_value};
use super::failure::{Broken, cancelled, of_service, timed_out};
use super::frame::Ending;
use super::listing::Listing;
use super::look::Era;
use super::more::{self, Listed, quoted};
use super::process::Process;
use super::questions::Underway;
use super::seat::Session;
use super::straight::{Answered, Asked, Straight};

/// How often a server of the newer era may ask back within one call.
const ROUNDS: u32 = 16;
/// How many questions it may ask at a time.
const QUESTIONS: usize = 16;
/// Pages of a list.
const PAGES: usize = 1_000;

/// How often it is looked whether a connection has ended.
const LOOK: Duration = Duration::from_millis(5);

/// An open connection. It ends, and its process with it, when this is dropped.
pub(crate) struct Connection {
    pub(super) service: RunningService<RoleClient, Face>,
    pub(super) process: Option<Process>,
    /// The way for calls of tools that need nothing of the loop.
    pub(super) straight: Option<Straight>,
    pub(super) ending: Ending,
    pub(super) server: String,
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

impl Connection {
    /// Ends it; comes back when a server at an address has been told.
    pub(crate) async fn close(&self) {
        self.service.cancellation_token().cancel();
        while !self.service.peer().is_transport_closed() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The sandbox that its process runs in.
    pub(crate) fn sandbox(&self) -> Option<SharedReport> {
        self.process.as_ref().map(Process::sandbox)
    }

    /// Whether it is of no use any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    fn face(&self) -> &Face {
        self.service.service()
    }

    /// Whether the server says that it has such things at all.
    pub(crate) fn has(&self, what: Listed) -> bool {
        let Some(info) = self.service.peer().peer_info() else { return false };
        match what {
            Listed::Tools => true,
            Listed::Resources | Listed::Templates => info.capabilities.resources.is_some(),
            Listed::Prompts => info.capabilities.prompts.is_some(),
        }
    }

    /// What the server says that it has, page by page, up to `most`.
    pub(crate) async fn list(
        &self,
        what: Listed,
        most: usize,
        within: Duration,
    ) -> Result<Vec<Value>, CallFailure> {
        match tokio::time::timeout(within, self.pages(what, most)).await {
            Ok(listed) => listed,
            Err(_) => Err(CallFailure::Plain(timed_out(&self.server, what.to_do(), within))),
        }
    }

    async fn pages(&self, what: Listed, most: usize) -> Result<Vec<Value>, CallFailure> {
        let strange = || CallFailure::Plain(self.strange(&quoted(what.method())));
        let mut all = Listing::new(&self.server, what, most);
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let answer = match self.service.peer().send_request(what.request(params)).await {
                Ok(answer) => answer,
                // It has none, and says so in the way of servers that have none.
                Err(ServiceError::McpError(error)) if error.code.0 == -32601 => return Ok(all.items()),
                Err(error) => return Err(self.call_failure(&quoted(what.method()), &error).await),
            };
            let mut page = match answer {
                // One item that the SDK cannot read makes it leave the whole page as it is.
                ServerResult::CustomResult(page) => page.0,
                other => serde_json::to_value(other).map_err(|_| strange())?,
            };
            let Some(Value::Array(items)) = page.get_mut(what.key()).map(Value::take) else {
                return Err(strange());
            };
            all.take(items).map_err(CallFailure::Plain)?;
            let next = page.get("nextCursor").and_then(Value::as_str).filter(|next| !next.is_empty());
            match next {
                None => return Ok(all.items()),
                Some(next) if Some(next) == cursor.as_deref() => break,
                Some(next) => cursor = Some(next.to_owned()),
            }
        }
        Err(CallFailure::Plain(ToolError::failed(format!(
            "The MCP server '{}' does not come to an end when it is to {}.",
            self.server,
            what.to_do()
        ))))
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

    /// Calls a tool, or asks for something else. `within` is the server's time: while somebody is asked on its behalf, it does not
    /// pass.
    pub(crate) async fn call(
        &self,
        call: &ServerCall,
        session: Session,
        within: Duration,
    ) -> Result<ServerReply, CallFailure> {
        let underway = Underway::of(call, session);
        let from = Instant::now();
        if let Some((request, what)) = more::request(call) {
            let answer = Box::pin(self.once(call, request, &underway, from, within)).await?;
            return more::reply(what, answer, self.sandbox())
                .ok_or_else(|| CallFailure::Plain(self.strange(&more::asked_for(call))));
        }
        if let Some(straight) = &self.straight {
            let answer = Box::pin(self.once_straight(straight, call, &underway, from, within)).await?;
            return self.reply(&call.tool, answer);
        }
        let mut params = CallToolRequestParams::new(call.tool.clone());
        params.arguments = call.args.as_object().cloned();
        for _ in 0..ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            let (result, request_state) =
                match Box::pin(self.once(call, request, &underway, from, within)).await? {
                    ServerResult::InputRequiredResult(wanted) => {
                        Box::pin(self.answers(wanted, &underway)).await?
                    }
                    answer => return self.reply(&call.tool, answer),
                };
            params.input_responses = Some(result).filter(|answers| !answers.is_empty());
            params.request_state = request_state;
        }
        let message = format!("The MCP server '{}' asked back more than {ROUNDS} times.", self.server);
        Err(CallFailure::Plain(ToolError::failed(message)))
    }

    /// What a call comes to when nothing more is asked.
    pub(super) fn reply(&self, tool: &str, answer: ServerResult) -> Result<ServerReply, CallFailure> {
        match answer {
            ServerResult::CallToolResult(result) => Ok(content::reply(result, self.sandbox())),
            // A result without content is one of the oldest protocol.
            ServerResult::EmptyResult(_) => {
                let (content, sandbox) = (Vec::new(), self.sandbox());
                Ok(ServerReply { content, structured: None, is_error: false, sandbox })
            }
            _ => Err(CallFailure::Plain(self.strange(&quoted(tool)))),
        }
    }

    /// A call that goes straight to the server.
    async fn once_straight(
        &self,
        straight: &Straight,
        call: &ServerCall,
        underway: &Underway,
        from: Instant,
        within: Duration,
    ) -> Result<ServerResult, CallFailure> {
        let (mut asked, pending) = match Connection::ask(self, straight, call, underway) {
            Ok(asked) => asked,
            Err(error) => return Err(self.call_failure(&more::asked_for(call), &error).await),
        };
        self.awaited(call, pending, asked.answer(), underway, from, within).await
    }

    /// Sends a call straight to the server.
    pub(super) fn ask<C: Deref<Target = Connection>>(
        of: C,
        straight: &Straight,
        call: &ServerCall,
        underway: &Underway,
    ) -> Result<(Asked, Pending<C>), ServiceError> {
        let begin = |token: ProgressToken, id: RequestId| {
            of.face().calls().begin(token, id, underway.clone());
        };
        let asked = straight.send(call, begin)?;
        let id = asked.id();
        Ok((asked, Pending { of, id, is_done: false }))
    }

    /// One request of a call.
    async fn once(
        &self,
        call: &ServerCall,
        request: ClientRequest,
        underway: &Underway,
        from: Instant,
        within: Duration,
    ) -> Result<ServerResult, CallFailure> {
        let sent =
            self.service.peer().send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.call_failure(&more::asked_for(call), &error).await),
        };
        let (id, token) = (handle.id.clone(), handle.progress_token.clone());
        self.face().calls().begin(token, id.clone(), underway.clone());
        let pending = Pending { of: self, id, is_done: false };
        let answer = async { (&mut handle.rx).await.unwrap_or(Err(ServiceError::TransportClosed)) };
        self.awaited(call, pending, answer, underway, from, within).await
    }

    /// Waits for the answer to a request, for the caller to take the call back, and for its time to be up.
    async fn awaited(
        &self,
        call: &ServerCall,
        mut pending: Pending<&Connection>,
        answer: impl Future<Output = Answered>,
        underway: &Underway,
        from: Instant,
        within: Duration,
    ) -> Result<ServerResult, CallFailure> {
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
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
        match answer {
            Ok(result) => Ok(result),
            Err(error) => Err(self.call_failure(&more::asked_for(call), &error).await),
        }
    }

    pub(super) async fn call_failure(&self, what: &str, error: &ServiceError) -> CallFailure {
        if let Some(challenge) = challenge_of(error) {
            return CallFailure::SignIn(challenge);
        }
        let told = self.failure(what, error).await;
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
        let questions = wanted.input_requests.unwrap_or_default();
        if questions.len() > QUESTIONS {
            return Err(CallFailure::Plain(ToolError::failed(format!(
                "The MCP server '{}' asks {} questions at a time, more than {QUESTIONS}.",
                self.server,
                questions.len()
            ))));
        }
        for (name, question) in questions {
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

/// A request that waits for its answer. Where nobody waits any more, the server is told, if it has got the request. One that goes
/// straight is dropped before what waits for its answer, so that the line still goes out of which the server is told.
pub(super) struct Pending<C: Deref<Target = Connection>> {
    of: C,
    id: RequestId,
    pub(super) is_done: bool,
}

impl<C: Deref<Target = Connection>> Pending<C> {
    async fn take_back(&mut self, reason: &str) {
        self.is_done = true;
        if self.is_unsent() {
            return;
        }
        let told = self.of.service.peer().notify_cancelled(self.notice(reason));
        // A server that does not read is not waited for.
        let _ = tokio::time::timeout(Duration::from_millis(200), told).await;
    }

    /// The same without waiting at all.
    pub(super) fn give_up(&mut self, reason: &str) {
        self.is_done = true;
        if !self.is_unsent()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (peer, notice) = (self.of.service.peer().clone(), self.notice(reason));
            runtime.spawn(async move {
                let _ = tokio::time::timeout(Duration::from_secs(1), peer.notify_cancelled(notice)).await;
            });
        }
    }

    /// Whether the server never got it, and now will not.
    fn is_unsent(&self) -> bool {
        let RequestId::Number(number) = self.id else { return false };
        self.of.straight.as_ref().is_some_and(|straight| straight.withdraw(number))
    }

    fn notice(&self, reason: &str) -> CancelledNotificationParam {
        CancelledNotificationParam::new(Some(self.id.clone()), Some(reason.to_owned()))
    }
}

impl<C: Deref<Target = Connection>> Drop for Pending<C> {
    fn drop(&mut self) {
        self.of.face().calls().end(&self.id);
        if !self.is_done {
            self.give_up("the call was given up");
        }
    }
}
