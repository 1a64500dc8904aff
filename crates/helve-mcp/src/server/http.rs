//! The face over HTTP: who may come in, how much of anything there may be, and what happens at the end.
//!
//! The protocol itself is the SDK's service. Around it stands a door: the address, the token, and limits on bodies,
//! connections, streams and sessions. `Host` and `Origin` are checked, so that a page in a browser cannot reach a server on
//! the same machine. One client takes only a part of what there is, and a connection that has not shown a token gives way to
//! a new one where there is no place left.
//!
//! `place` is how long a request counts, `owners` whose the sessions are, and `resumed` what is kept of their streams for clients
//! that read slowly or come again.

mod owners;
mod place;
mod resumed;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use helve_core::Cancel;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Body;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::SessionManager as _;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Hosts;
use super::crowd::{Share, Shares, Stranger, Strangers};
use super::face::{ClientName, Face, LOCAL, Shared};
use super::message::{self, Read};
use super::running::{Running, TAKEN_BACK};
use owners::{Begins, Using};
use place::{Held, Place};
use resumed::Sessions;

const SESSION_ID: &str = "mcp-session-id";
const LAST_EVENT_ID: &str = "last-event-id";
/// How long connections have to end when the server does, once the last requests are answered.
const GRACE: Duration = Duration::from_secs(2);
/// How long a connection may take to send the head of its next request.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long it may take to send the body.
const BODY_TIME: Duration = Duration::from_secs(30);
/// What a connection beyond the most gets.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Who may come in.
pub enum Gate {
    /// Anybody who reaches the address.
    Open,
    /// Whoever brings one of these tokens; each is one client.
    Tokens(Vec<Token>),
}

/// A client and its token, of which only the hash is kept.
pub struct Token {
    client: String,
    hash: blake3::Hash,
}

impl Token {
    /// The token of a client.
    pub fn new(client: impl Into<String>, token: &str) -> Self {
        Token { client: client.into(), hash: blake3::hash(token.as_bytes()) }
    }
}

impl Gate {
    /// The client that a request comes from; none if it may not come in.
    fn client(&self, headers: &HeaderMap) -> Option<String> {
        let Gate::Tokens(tokens) = self else { return Some(LOCAL.to_owned()) };
        let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        let hash = blake3::hash(token.trim().as_bytes());
        // Comparing hashes takes the same time whatever they are.
        let known = tokens.iter().find(|one| one.hash == hash)?;
        scheme.eq_ignore_ascii_case("bearer").then(|| known.client.clone())
    }
}

/// What the door lets through.
pub struct HttpOptions {
    /// Who may come in.
    pub gate: Gate,
    /// The path of the service, such as `/mcp`.
    pub path: String,
    /// What `Host` may name, with or without a port.
    pub hosts: Vec<String>,
    /// What `Origin` may name, where a request has one. Without a port that is the one of its scheme; `:*` is any.
    pub origins: Vec<String>,
    /// How long a body may be, in bytes.
    pub body_bytes: usize,
    /// How many connections may be open.
    pub connections: usize,
    /// How many requests and streams may be worked on and answered at once.
    pub streams: usize,
    /// How many of them may be one client's.
    pub streams_of_one: usize,
    /// How many sessions there may be.
    pub sessions: usize,
    /// How many of them may be one client's.
    pub sessions_of_one: usize,
    /// After how long without a message a session ends.
    pub idle: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        HttpOptions {
            gate: Gate::Tokens(Vec::new()),
            path: "/mcp".to_owned(),
            hosts: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            origins: ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]
                .map(str::to_owned)
                .to_vec(),
            body_bytes: 8 << 20,
            connections: 1024,
            streams: 512,
            streams_of_one: 128,
            sessions: 256,
            sessions_of_one: 64,
            idle: Duration::from_secs(30 * 60),
        }
    }
}

/// The face over HTTP.
pub struct HttpFace {
    service: StreamableHttpService<Face, Sessions>,
    manager: Arc<Sessions>,
    options: HttpOptions,
    streams: Arc<Semaphore>,
    shares: Arc<Shares>,
    /// Sessions that begin.
    starting: Arc<Shares>,
    strangers: Strangers,
    /// Requests that are worked on, or whose answers are under way.
    running: Arc<Running>,
    /// Ends every stream.
    stop: CancellationToken,
}

impl HttpFace {
    /// A face before these hosts.
    pub fn new(hosts: Arc<dyn Hosts>, options: HttpOptions) -> std::io::Result<Arc<Self>> {
        let shared = Shared::new(hosts)?;
        let stop = CancellationToken::new();
        let mut manager = Sessions::default();
        manager.local.session_config.keep_alive = Some(options.idle);
        let manager = Arc::new(manager);
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(options.hosts.iter().cloned())
            .with_allowed_origins(options.origins.iter().map(|origin| with_port(origin)))
            .enforce_origin_validation()
            .with_max_request_body_bytes(options.body_bytes)
            .with_cancellation_token(stop.clone());
        let running = Arc::clone(&shared.running);
        let make = move || Ok(Face::new(Arc::clone(&shared), true, shared.running.over().clone()));
        let service = StreamableHttpService::new(make, Arc::clone(&manager), config);
        let streams = Arc::new(Semaphore::new(options.streams));
        Ok(Arc::new(HttpFace {
            service,
            manager,
            options,
            streams,
            shares: Arc::default(),
            starting: Arc::default(),
            strangers: Strangers::default(),
            running,
            stop,
        }))
    }

    /// Answers one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        match self.admitted(request).await {
            Ok(answer) => answer,
            Err((status, why)) => refusal(status, why),
        }
    }

    async fn admitted<B>(&self, request: Request<B>) -> Result<Answer, (StatusCode, &'static str)>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        if request.uri().path() != self.options.path {
            return Err((StatusCode::NOT_FOUND, "There is nothing at this address."));
        }
        // An address in the request line would stand over that of `Host`, and so would the first of two.
        if request.uri().authority().is_some() || request.headers().get_all(HOST).iter().count() > 1 {
            return Err((StatusCode::BAD_REQUEST, "A request names this server once, in Host."));
        }
        // Of two of these, too, only the first would be looked at.
        if request.headers().get_all(ORIGIN).iter().count() > 1 {
            return Err((
                StatusCode::BAD_REQUEST,
                "A request names where it comes from at most once, in Origin.",
            ));
        }
        let client = self.options.gate.client(request.headers());
        let client = client.ok_or((StatusCode::UNAUTHORIZED, "A bearer token of this server is needed."))?;
        let session = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let no_session = (StatusCode::NOT_FOUND, "There is no such session.");
        if let Some(session) = &session
            && self.manager.owners.keeps_out(session, &client)
        {
            return Err(no_session);
        }
        let busy =
            (StatusCode::TOO_MANY_REQUESTS, "Too many requests and streams are open; come again later.");
        let (using, ends_with) =
            session.as_ref().and_then(|session| self.manager.owners.uses(session)).unzip();
        let (mut parts, body) = request.into_parts();
        // Whoever takes a stream up again has the place of its request.
        let again = session.as_ref().and_then(|session| self.manager.place_of(session, last_event(&parts)?));
        let place = again.or_else(|| self.place_of(&client, using));
        if place.is_none() && !place::may_make_room(&parts) {
            return Err(busy);
        }
        let body = self.body(&parts.headers, body).await?;
        match &place {
            Some(place) => drop(parts.extensions.insert(place.clone())),
            None if place::makes_room(&parts, &body) => {}
            None => return Err(busy),
        }
        if message::may_last_too_long(&body)
            && let Read::Refused(refused) = message::read(&body)
        {
            return Ok(unread(&refused.answer));
        }
        let is_new = session.is_none() && parts.method == Method::POST;
        let full = (StatusCode::TOO_MANY_REQUESTS, "Too many sessions are open; come again later.");
        let room = match is_new && may_start_a_session(&body) {
            true => Some(self.room(&client).await.ok_or(full)?),
            false => None,
        };
        let run = is_owed_an_answer(&parts).then(|| self.running.begin());
        let (is_end, is_known) = (parts.method == Method::DELETE, ends_with.is_some());
        if let Some(ends_with) = ends_with {
            parts.extensions.insert(ends_with);
        }
        parts.extensions.insert(ClientName(client.clone()));
        let body = message::with_text_cursor(&body).map_or(body, Bytes::from);
        let sent = body.clone();
        let begins = Begins::new(client, room);
        let answer = self.service.handle(Request::from_parts(parts, Full::new(body)));
        let answer = begins.in_its_course(answer).await;
        if [StatusCode::UNSUPPORTED_MEDIA_TYPE, StatusCode::BAD_REQUEST].contains(&answer.status())
            && let Read::Refused(refused) = message::read(&sent)
        {
            return Ok(unread(&refused.answer));
        }
        // The SDK ends also what is not there.
        if is_end && !is_known && answer.status().is_success() {
            return Err(no_session);
        }
        let begun = begins.using();
        Ok(answer.map(|body| Held { body, _place: place, _begun: begun, _run: run }.boxed()))
    }

    /// A place for a request of a client's, if there is one.
    fn place_of(&self, client: &str, using: Option<Using>) -> Option<Place> {
        let share = self.shares.take(client, self.options.streams_of_one)?;
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        Some(Place::new(permit, share, using))
    }

    /// The whole body, if it comes in time and is not too long.
    async fn body<B>(&self, headers: &HeaderMap, body: B) -> Result<Bytes, (StatusCode, &'static str)>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        let limit = self.options.body_bytes;
        let long = (StatusCode::PAYLOAD_TOO_LARGE, "The body is too long.");
        if place::length(headers).is_some_and(|said| said > limit as u64) {
            return Err(long);
        }
        let read = tokio::time::timeout(BODY_TIME, Limited::new(body, limit).collect()).await;
        let read = read.map_err(|_| (StatusCode::REQUEST_TIMEOUT, "The body did not come in time."))?;
        read.map(|body| body.to_bytes()).map_err(|error| {
            match error.is::<http_body_util::LengthLimitError>() {
                true => long,
                false => (StatusCode::BAD_REQUEST, "The body could not be read."),
            }
        })
    }

    /// Room for another session of a client, while that begins. Where it has all that it may have, one that it does not use ends.
    async fn room(&self, client: &str) -> Option<Share> {
        let sessions = self.manager.local.sessions.read().await;
        let all = sessions.len() + self.starting.count();
        let left = self.options.sessions_of_one.saturating_sub(self.manager.owners.count(client));
        if let Some(share) = self.starting.take(client, left) {
            return (all < self.options.sessions).then_some(share);
        }
        // There is room in place of one that ends.
        if all > self.options.sessions {
            return None;
        }
        let share = self.starting.take(client, left + 1)?;
        let given_up = self.manager.owners.give_one_up(client)?;
        drop(sessions);
        let manager = Arc::clone(&self.manager);
        // To its end, also where whoever wants the room does not wait for it.
        let closed = tokio::spawn(async move { manager.close_session(&given_up.into()).await });
        let _ = closed.await;
        Some(share)
    }

    /// Serves connections until `cancel` fires; then nothing new is begun, and what runs is taken back, recorded and answered. For
    /// that there is a moment.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, cancel: &Cancel) -> std::io::Result<()> {
        let places = Arc::new(Semaphore::new(self.options.connections));
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = open.join_next() => continue,
                () = cancel.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    let Some(place) = self.place(&places, cancel).await else {
                        let _ = stream.try_write(TOO_MANY);
                        continue;
                    };
                    let (face, stranger) = (Arc::clone(&self), self.strangers.comes());
                    let ends = cancel.clone();
                    open.spawn(async move {
                        let _place = place;
                        face.connection(stream, stranger, ends).await;
                    });
                }
                // Mostly too many open files; some will be closed soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        drop(listener);
        self.running.take_back();
        // Streams end once the last answers are on them.
        let _ = tokio::time::timeout(TAKEN_BACK, self.running.none()).await;
        self.stop.cancel();
        let _ = tokio::time::timeout(GRACE, async { while open.join_next().await.is_some() {} }).await;
        Ok(())
    }

    /// A place for a connection: a free one, or that of the oldest stranger, who leaves in a moment. Who comes next waits
    /// for that moment too: it would take the place that was made for this one.
    async fn place(&self, places: &Arc<Semaphore>, cancel: &Cancel) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Some(place);
        }
        if !self.strangers.turn_one_out() {
            return None;
        }
        tokio::select! {
            place = Arc::clone(places).acquire_owned() => place.ok(),
            () = cancel.cancelled() => None,
        }
    }

    /// Answers what comes on a connection; once `ends` fires no more than what has come.
    async fn connection(self: Arc<Self>, stream: TcpStream, stranger: Arc<Stranger>, ends: Cancel) {
        let _ = stream.set_nodelay(true);
        let (face, who) = (Arc::clone(&self), Arc::clone(&stranger));
        let answer = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
            let face = Arc::clone(&face);
            if face.options.gate.client(request.headers()).is_some() {
                who.is_known();
            }
            async move { Ok::<_, Infallible>(face.handle(request).await) }
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answer));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = stranger.turned_out() => return,
            () = ends.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// An origin that names its port: one that names none has that of its scheme, and not any.
fn with_port(origin: &str) -> String {
    let origin = origin.trim_end_matches('/').to_ascii_lowercase();
    let (port, host) = match origin.split_once("://") {
        Some(("https", host)) => (443, host),
        Some(("http", host)) => (80, host),
        _ => return origin,
    };
    // The colons between brackets are the address's own.
    let has_port = host.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
    if has_port { origin } else { format!("{origin}:{port}") }
}

/// Whether this asks something, or asks again for what is to come of it. A stream of nothing but notices has no end.
fn is_owed_an_answer(of: &Parts) -> bool {
    of.method == Method::POST || last_event(of).is_some_and(resumed::is_of_a_request)
}

/// The event behind which a stream is taken up again.
fn last_event(of: &Parts) -> Option<&str> {
    of.headers.get(LAST_EVENT_ID).filter(|_| of.method == Method::GET)?.to_str().ok()
}

/// Whether a body may be the request that begins a session: it is, or cannot be read as anything else.
fn may_start_a_session(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message<'b> {
        #[serde(borrow, default)]
        method: Option<Cow<'b, str>>,
    }

    serde_json::from_slice(body)
        .map_or(true, |Message { method }| method.is_some_and(|method| method == "initialize"))
}

/// The answer to a body that is no message.
fn unread(answer: &ServerJsonRpcMessage) -> Answer {
    let body = serde_json::to_vec(answer).unwrap_or_default();
    let mut answer = Response::new(Full::new(Bytes::from(body)).boxed());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn refusal(status: StatusCode, why: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *answer.status_mut() = status;
    match status {
        StatusCode::UNAUTHORIZED => {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::TOO_MANY_REQUESTS => {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        _ => {}
    }
    answer
}

#[cfg(test)]
mod tests;
