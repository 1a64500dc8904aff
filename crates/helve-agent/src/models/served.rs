//! A model behind an address: asks it, reads what comes, and asks again where that may help.
//!
//! A key goes to the address that the owner named and nowhere else: no redirect is followed, and without encryption it does
//! not leave this machine.

use std::collections::HashSet;
use std::sync::Once;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use helve::{BoxFuture, Cancel};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::{Host, Url};

use super::fault::{Again, Fault, said_in_body, shown};
use super::intake::Intake;
use super::wire::{Manner, Wire};
use super::{Patience, Secret, retry};
use crate::model::{Answer, Card, Listener, Model, ModelError, ModelErrorKind, Piece, Request};
use crate::talk::{Message, ModelMessage};

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(30);
/// How long is waited for what may follow an answer that is there: its usage, the end of the body.
const AFTER_ANSWER: Duration = Duration::from_secs(5);
/// The same once the provider has said that it is over. A connection whose body was read to its end is used again.
const AFTER_END: Duration = Duration::from_millis(100);
/// The most of an error's body that is read.
const ERROR_BODY: usize = 64 << 10;

/// A model that somebody serves.
pub(super) struct Served {
    wire: Wire,
    manner: Manner,
    url: Url,
    headers: HeaderMap,
    client: reqwest::Client,
    key: Option<Secret>,
    key_hint: String,
    patience: Patience,
}

impl Served {
    pub(super) fn new(
        wire: Wire,
        manner: Manner,
        url: Url,
        key: Option<Secret>,
        key_hint: String,
        patience: Patience,
    ) -> Result<Served, ModelError> {
        let is_here = is_this_machine(&url);
        if key.is_some() && url.scheme() != "https" && !is_here {
            let message = format!("A key would go to {} without encryption.", shown(&address(&url)));
            return Err(ModelError::new(ModelErrorKind::Request, message)
                .hint("Use https:, or http: to this machine (127.0.0.1, ::1, localhost)."));
        }
        with_tls();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("helve/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none());
        if is_here {
            builder = builder.no_proxy();
        }
        if url.scheme() == "http" {
            // Nothing will be encrypted, so that the machine's certificates, of which there are many, need not be read.
            builder = builder.tls_backend_preconfigured(no_certificates()?);
        }
        let client = builder.build().map_err(|error| {
            ModelError::new(ModelErrorKind::Connection, format!("There is no HTTP client: {error}."))
        })?;
        let headers = headers(wire, key.as_ref(), &key_hint)?;
        Ok(Served { wire, manner, url, headers, client, key, key_hint, patience })
    }

    async fn attempts(
        &self,
        request: Request<'_>,
        listener: Listener<'_>,
        cancel: &Cancel,
    ) -> Result<Answer, ModelError> {
        let mut body = self.body(&request)?;
        let (mut tries, mut waited, mut forgot) = (0, Duration::ZERO, false);
        loop {
            // Whoever heard of the last try may want no other.
            if cancel.is_cancelled() {
                return Err(taken_back());
            }
            tries += 1;
            let used = ids(request.messages);
            let fault = match self.attempt(body.clone(), used, &mut *listener).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => self.without_key(fault),
            };
            let usage = fault.error.usage;
            let gives_back = request
                .messages
                .iter()
                .any(|message| matches!(message, Message::Model(model) if model.kept.is_some()));
            if !forgot && gives_back && speaks_of_thoughts(&fault.error) {
                forgot = true;
                let plain: Vec<Message> = request.messages.iter().map(without_kept).collect();
                body = self.body(&Request { messages: &plain, ..request })?;
                listener(Piece::Again { after: Duration::ZERO, why: fault.error.message, usage });
                continue;
            }
            let most = self.patience.tries.max(1);
            let (most, named) = match fault.again {
                Again::Never => return Err(fault.error),
                Again::Once => (most.min(2), None),
                Again::After(named) => (most, named),
            };
            // Who names no time, or none to speak of, is left alone for the usual one.
            let after = retry::pause(&self.patience, tries).max(named.unwrap_or_default());
            if tries >= most || waited.saturating_add(after) > self.patience.all_pauses {
                return Err(given_up(fault.error, tries, named));
            }
            listener(Piece::Again { after, why: fault.error.message, usage });
            tokio::time::sleep(after).await;
            waited += after;
        }
    }

    fn body(&self, request: &Request<'_>) -> Result<Bytes, ModelError> {
        let body = self.wire.body(request, &self.manner);
        let body = serde_json::to_vec(&body).map_err(|error| {
            ModelError::new(ModelErrorKind::Request, format!("The request cannot be written: {error}."))
        })?;
        Ok(body.into())
    }

    async fn attempt(
        &self,
        body: Bytes,
        used: HashSet<String>,
        listener: Listener<'_>,
    ) -> Result<Answer, Fault> {
        let provider = self.manner.card.provider.as_str();
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = match tokio::time::timeout(self.patience.idle, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.no_connection(error)),
            Err(_) => return Err(self.silent()),
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut intake = Intake::new(self.wire, provider, &self.key_hint, listener);
        let read = self.read(response, &mut intake).await;
        let usage = intake.usage();
        let answered = match read {
            Err(fault) => Err(fault),
            // An answer that is there counts, however its body ended.
            Ok(Some(fault)) if !intake.is_whole() => Err(fault),
            Ok(_) => intake.end(&self.manner.card.name, used),
        };
        answered.map_err(|mut fault| {
            fault.error.usage = usage;
            fault
        })
    }

    /// Reads a body until its end, or until it is not waited for any more and why. Whatever keeps coming, it ends.
    async fn read(
        &self,
        mut response: reqwest::Response,
        intake: &mut Intake<'_>,
    ) -> Result<Option<Fault>, Fault> {
        let mut waits = Waits::new(&self.patience);
        loop {
            let end = waits.end(intake);
            // What is ready is taken before a clock is looked at, so the clock is looked at here too.
            let chunk = match end.checked_duration_since(Instant::now()) {
                Some(left) => tokio::time::timeout(left, response.chunk()).await.ok(),
                None => None,
            };
            match chunk {
                Some(Ok(Some(bytes))) => intake.push(&bytes)?,
                Some(Ok(None)) => return Ok(None),
                Some(Err(error)) => {
                    let provider = &self.manner.card.provider;
                    let cause = cause(&error);
                    return Ok(Some(Fault::broken(format!("The connection to {provider} broke: {cause}."))));
                }
                None if waits.is_late() => return Ok(Some(self.endless())),
                None => return Ok(Some(self.silent())),
            }
        }
    }

    /// An answer whose status is not success.
    async fn refused(&self, mut response: reqwest::Response) -> Fault {
        let status = response.status();
        let provider = self.manner.card.provider.as_str();
        if status.is_redirection() {
            // Only the place: what else is in an address may be secret.
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| self.url.join(to).ok()).map(|to| address(&to));
            let message = format!(
                "{provider} sends the request on to {} ({status}), and no key is sent after it.",
                shown(to.as_deref().unwrap_or("nowhere"))
            );
            let mut fault = Fault::last(ModelErrorKind::Request, message);
            fault.error = fault.error.hint("Give the right address as base_url.");
            return fault;
        }
        let asked = retry::asked_for(response.headers(), SystemTime::now());
        let should = response.headers().get("x-should-retry").map(|value| value.as_bytes() == b"true");
        let mut body = Vec::new();
        let read = async {
            while body.len() < ERROR_BODY
                && let Ok(Some(chunk)) = response.chunk().await
            {
                body.extend_from_slice(&chunk[..chunk.len().min(ERROR_BODY - body.len())]);
            }
        };
        // What came by then is enough to tell what it is about.
        let _ = tokio::time::timeout(AFTER_ANSWER, read).await;
        let mut fault = said_in_body(status.as_u16(), &body).fault(provider, &self.key_hint);
        if let Again::After(named) = fault.again {
            fault.again = if should == Some(false) { Again::Never } else { Again::After(asked.or(named)) };
        }
        fault
    }

    fn no_connection(&self, error: reqwest::Error) -> Fault {
        let message = format!(
            "{} cannot be reached at {}: {}.",
            self.manner.card.provider,
            shown(&address(&self.url)),
            cause(&error)
        );
        let mut fault = Fault::broken(message);
        if error.is_connect() && is_this_machine(&self.url) {
            fault.error = fault.error.hint("Start the server, or give its address as base_url.");
        }
        fault
    }

    fn silent(&self) -> Fault {
        let seconds = self.patience.idle.as_secs_f64();
        Fault::broken(format!("{} was silent for {seconds} s.", self.manner.card.provider))
    }

    fn endless(&self) -> Fault {
        let (provider, seconds) = (&self.manner.card.provider, self.patience.whole.as_secs_f64());
        let message = format!("The answer of {provider} has not ended after {seconds} s.");
        Fault::last(ModelErrorKind::Connection, message)
    }

    /// No key in any words, whoever says them.
    fn without_key(&self, mut fault: Fault) -> Fault {
        if let Some(key) = &self.key {
            fault.error.message = key.taken_out_of(&fault.error.message);
        }
        fault
    }
}

/// How long a body is waited for: until nothing of an answer has come for a while, not long after the answer is there, and
/// never beyond the longest time that an answer may take.
struct Waits {
    idle: Duration,
    /// The latest end.
    last: Instant,
    /// How much of an answer there was when some came last, and when that was.
    seen: (usize, Instant),
    /// When the answer was there, and when the provider said that it is over.
    whole: Option<Instant>,
    over: Option<Instant>,
}

impl Waits {
    fn new(patience: &Patience) -> Waits {
        let now = Instant::now();
        Waits { idle: patience.idle, last: now + patience.whole, seen: (0, now), whole: None, over: None }
    }

    /// Until when more is waited for.
    fn end(&mut self, intake: &Intake<'_>) -> Instant {
        let now = Instant::now();
        if intake.progress() > self.seen.0 {
            self.seen = (intake.progress(), now);
        }
        let since = |mark: &mut Option<Instant>, is: bool| is.then(|| *mark.get_or_insert(now));
        let over = since(&mut self.over, intake.is_over()).map(|at| at + AFTER_END);
        let whole = since(&mut self.whole, intake.is_whole()).map(|at| at + AFTER_ANSWER.min(self.idle));
        over.or(whole).unwrap_or(self.seen.1 + self.idle).min(self.last)
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.last
    }
}

impl Model for Served {
    fn card(&self) -> &Card {
        &self.manner.card
    }

    fn answer<'a>(
        &'a self,
        request: Request<'a>,
        listener: Listener<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(taken_back()),
                answer = self.attempts(request, listener, cancel) => answer,
            }
        })
    }
}

fn taken_back() -> ModelError {
    ModelError::new(ModelErrorKind::Cancelled, "The request was taken back.")
}

/// Whether a request is refused because of thoughts that it gives back. Providers bind them to a model and to the talk as it
/// was, and a talk may have been made shorter since; without them it is as good as new.
fn speaks_of_thoughts(error: &ModelError) -> bool {
    let words = error.message.to_lowercase();
    error.kind == ModelErrorKind::Request
        && ["thinking", "signature", "reasoning", "encrypted"].iter().any(|word| words.contains(word))
}

fn without_kept(message: &Message) -> Message {
    match message {
        Message::Model(model) => Message::Model(ModelMessage { kept: None, ..model.clone() }),
        other => other.clone(),
    }
}

/// The error after the last try.
fn given_up(error: ModelError, tries: u32, named: Option<Duration>) -> ModelError {
    let mut message = error.message;
    if tries > 1 {
        message = format!("{message} It was asked {tries} times.");
    } else if let Some(named) = named {
        message = format!("{message} It wants to be left alone for {} s.", named.as_secs_f64());
    }
    ModelError { message, ..error }
}

/// The names of the calls of a talk.
fn ids(messages: &[Message]) -> HashSet<String> {
    let calls = messages.iter().filter_map(|message| match message {
        Message::Model(model) => Some(&model.calls),
        _ => None,
    });
    calls.flatten().map(|call| call.id.clone()).collect()
}

fn headers(wire: Wire, key: Option<&Secret>, key_hint: &str) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    let Some(key) = key else { return Ok(headers) };
    let (name, value) = match wire {
        Wire::Chat | Wire::Responses => {
            (AUTHORIZATION, zeroize::Zeroizing::new(format!("Bearer {}", key.expose())))
        }
        Wire::Anthropic => {
            (HeaderName::from_static("x-api-key"), zeroize::Zeroizing::new(key.expose().to_owned()))
        }
        Wire::Gemini => {
            (HeaderName::from_static("x-goog-api-key"), zeroize::Zeroizing::new(key.expose().to_owned()))
        }
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| {
        ModelError::new(ModelErrorKind::Key, "The key holds signs that no key has.").hint(key_hint)
    })?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(headers)
}

/// Makes TLS known to the HTTP library. Done when the first model is chosen, not when the program starts.
fn with_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that somebody else in this process has chosen already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

fn no_certificates() -> Result<rustls::ClientConfig, ModelError> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| {
        ModelError::new(ModelErrorKind::Connection, format!("There is no HTTP client: {error}."))
    })?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// An address without what may be secret in it.
fn address(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The innermost reason, without the address: the outer ones only say that a request failed.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let text = inner.to_string();
    shown(text.trim_end_matches('.'))
}
