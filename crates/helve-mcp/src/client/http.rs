//! Streamable HTTP with every body bounded.
//!
//! The protocol (sessions, streams, their resumption, headers) is the SDK's; what goes over the wire is done here, because
//! its own client reads whole bodies whatever their length. Addresses are `https:`, or `http:` to this machine; no
//! redirect leads to another origin.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use futures::StreamExt;
use helve_core::servers::HttpServer;
use helve_core::{ErrorKind, ToolError};
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use url::{Host, Url};

use super::events::{Events, Pace, events, is_too_long};
use super::failure::too_long;
use super::frame::{VALUES, holds_too_much};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: &str = "mcp-session-id";
/// Redirects within one origin that are followed.
const REDIRECTS: usize = 5;
/// Headers that belong to the protocol.
const RESERVED: [&str; 6] =
    ["accept", "content-type", SESSION, "mcp-protocol-version", "last-event-id", "host"];

/// A client whose answers are bounded.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    cap: usize,
    pace: Pace,
}

type Fault = StreamableHttpError<reqwest::Error>;

/// Makes TLS known to the HTTP library. Done when the first address is reached, not when the program starts.
pub(crate) fn with_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that somebody else in this process has chosen already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// An address that may be reached.
pub(crate) fn address(server: &str, text: &str) -> Result<Url, ToolError> {
    permitted(text).map_err(|why| {
        ToolError::new(
            ErrorKind::Blocked,
            format!("The address of the MCP server '{server}' is refused: {why}."),
        )
        .hint("Use https:, or http: to this machine (127.0.0.1, ::1, localhost).")
    })
}

/// The same; else why not.
pub(crate) fn permitted(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a name or a password".to_owned());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_this_machine(&url) => Ok(url),
        "http" => Err("http: reaches beyond this machine without encryption".to_owned()),
        _ => Err("it is neither https: nor http:".to_owned()),
    }
}

/// Whether an address is one of this machine.
pub(crate) fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The owner's headers.
pub(crate) fn headers(
    server: &str,
    http: &HttpServer,
) -> Result<HashMap<HeaderName, HeaderValue>, ToolError> {
    let wrong = |name: &str, why: &str| {
        ToolError::new(ErrorKind::Blocked, format!("The header '{name}' of the MCP server '{server}' {why}."))
            .hint("Change it in the configuration of the server.")
    };
    let mut headers = HashMap::new();
    for (name, value) in &http.headers {
        let header = HeaderName::try_from(name).map_err(|_| wrong(name, "has no proper name"))?;
        if RESERVED.contains(&header.as_str()) {
            return Err(wrong(name, "belongs to the protocol"));
        }
        let mut value =
            HeaderValue::try_from(value).map_err(|_| wrong(name, "has a value that no header can have"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

/// A client for one server. A direct one uses no proxy, whatever the environment says.
pub(crate) fn plain_client(
    server: &str,
    direct: bool,
    set: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, ToolError> {
    with_tls();
    let builder = set(reqwest::Client::builder());
    let builder = if direct { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| {
        ToolError::internal(format!("No HTTP client for the MCP server '{server}': {error}"))
    })
}

/// Redirects stay at one origin and change no request.
fn at_one_origin() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let first = attempt.previous().first();
        let same = first.is_some_and(|first| first.origin() == attempt.url().origin());
        let keeps =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if same && keeps && attempt.previous().len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

impl Http {
    /// A client of its own for one server. What goes to this machine goes through no proxy: it would read every token there.
    pub(crate) fn new(server: &str, url: &Url, cap: usize, connect: Duration) -> Result<Http, ToolError> {
        let client = plain_client(server, is_this_machine(url), |builder| {
            builder.connect_timeout(connect).redirect(at_one_origin())
        })?;
        Ok(Http { client, cap, pace: Pace::default() })
    }

    /// The plain client, for what is no message.
    pub(crate) fn plain(&self) -> &reqwest::Client {
        &self.client
    }

    /// A body; none where it is larger than the cap.
    async fn body(&self, mut response: reqwest::Response) -> Result<Option<Vec<u8>>, Fault> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > self.cap {
                return Ok(None);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Some(body))
    }

    /// What a request is answered with in the server's place, whose answer is larger than the cap.
    fn too_long(&self, message: &ClientJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let JsonRpcMessage::Request(request) = message else { return None };
        Some(ServerJsonRpcMessage::error(too_long(self.cap), Some(request.id.clone())))
    }

    /// The events that answer a message.
    fn answers(&self, response: reqwest::Response, message: &ClientJsonRpcMessage) -> Events {
        let too_long = self.too_long(message).and_then(|told| serde_json::to_string(&told).ok());
        let told = move |event: Result<Sse, SseError>| match (event, &too_long) {
            (Err(error), Some(told)) if is_too_long(&error) => Ok(Sse::default().data(told.clone())),
            (event, _) => event,
        };
        events(response, self.cap).map(told).boxed()
    }

    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let body = serde_json::to_vec(message).map_err(|error| unexpected(error.to_string()))?;
        let mut request = self
            .client
            .post(uri)
            .header(ACCEPT, format!("{EVENTS}, {JSON}"))
            .header(CONTENT_TYPE, JSON)
            .headers(headers.into_iter().collect())
            .body(body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers());
        if let Some(wanted) = wants_sign_in(status, headers) {
            return Err(wanted);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let kind =
            headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        let given = headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if !status.is_success() {
            return self.failed(message, session.is_some(), response, is_type(&kind, JSON)).await;
        }
        let wants_answer = matches!(message, JsonRpcMessage::Request(_));
        if is_type(&kind, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.answers(response, message), given));
        }
        let is_json = is_type(&kind, JSON);
        let Some(body) = self.body(response).await? else {
            let told = self.too_long(message).filter(|_| is_json);
            return told
                .map(|told| StreamableHttpPostResponse::Json(told, given))
                .ok_or_else(|| unexpected(format!("a body of more than {} bytes", self.cap)));
        };
        if holds_too_much(&body) {
            return Err(unexpected(format!("a body of more than {VALUES} values")));
        }
        match serde_json::from_slice(&body) {
            Ok(answer) if is_json => Ok(StreamableHttpPostResponse::Json(answer, given)),
            _ if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            Ok(_) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
            Err(error) if is_json => Err(unexpected(format!("no JSON-RPC message: {error}"))),
            Err(_) => Err(StreamableHttpError::UnexpectedContentType(Some(kind))),
        }
    }

    /// An answer whose status is not success: an error of the protocol where the body is one.
    async fn failed(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        response: reqwest::Response,
        is_json: bool,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let status = response.status();
        if let Some(to) = leads_to(&response) {
            return Err(unexpected(format!("HTTP {status}: it leads to {to}, which is not followed")));
        }
        let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let after =
            response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()).map(str::to_owned);
        let body = self.body(response).await.ok().flatten().filter(|body| !holds_too_much(body));
        let body = body.unwrap_or_default();
        let said = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(error)) => Some(error),
            _ => None,
        };
        let denied = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        // A server of the older era refuses a question that it does not know before anything else; whatever it says, that
        // is its answer to this one.
        if !in_session
            && !denied
            && status.is_client_error()
            && let JsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            let error = said.map_or_else(
                || {
                    ErrorData::invalid_request(
                        format!("server/discover was answered with HTTP {status}"),
                        None,
                    )
                },
                |said| said.error,
            );
            let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
            return Ok(StreamableHttpPostResponse::Json(answer, None));
        }
        match said {
            Some(error) if !denied && is_json => {
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None))
            }
            _ if busy => Err(HttpStatusError::new(status.as_u16(), after).into()),
            _ => {
                let text: String = String::from_utf8_lossy(&body).chars().take(500).collect();
                Err(unexpected(format!("HTTP {status}: {text}")))
            }
        }
    }
}

/// Where a redirect leads that was not followed, without the end of the address, in which a secret may stand.
pub(super) fn leads_to(response: &reqwest::Response) -> Option<String> {
    let place = response.headers().get(LOCATION).filter(|_| response.status().is_redirection())?;
    let url = response.url().join(place.to_str().ok()?).ok()?;
    Some(match url.host() {
        Some(_) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        None => format!("{}:", url.scheme()),
    })
}

/// The owner is to sign in, or to agree to more.
fn wants_sign_in(status: StatusCode, headers: &HeaderMap) -> Option<Fault> {
    let challenge = headers.get(WWW_AUTHENTICATE)?.to_str().ok()?.to_owned();
    match status {
        StatusCode::UNAUTHORIZED => {
            Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        StatusCode::FORBIDDEN => {
            let scope = scope_of(&challenge);
            Some(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        _ => None,
    }
}

/// The scope that a challenge names.
pub(crate) fn scope_of(challenge: &str) -> Option<String> {
    let (_, rest) = challenge.split_once("scope=")?;
    let scope = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split([',', ' ']).next()?,
    };
    Some(scope.to_owned())
}

/// Whether a content type is of this media type.
fn is_type(content_type: &str, media_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

fn unexpected(text: String) -> Fault {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text))
}

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        self.post(&uri, &message, session_id.as_deref(), auth_header, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Fault> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Fault> {
        let events = self
            .client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                self.cap,
            )
            .await?;
        Ok(self.pace.hold(events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn only_encrypted_or_local_addresses() {
        for good in
            ["https://example.test/mcp", "http://127.0.0.1:1/mcp", "http://[::1]:1/", "http://localhost/"]
        {
            assert!(address("s", good).is_ok(), "{good}");
        }
        for bad in [
            "http://example.test/mcp",
            "http://10.0.0.1/",
            "http://localhost.example.test/",
            "ftp://127.0.0.1/",
            "https://me:secret@example.test/",
            "file:///etc/passwd",
            "nonsense",
        ] {
            assert_eq!(address("s", bad).unwrap_err().kind, ErrorKind::Blocked, "{bad}");
        }
    }

    #[test]
    fn the_owner_sets_no_header_of_the_protocol() {
        let of = |name: &str, value: &str| {
            let headers = [(name.to_owned(), value.to_owned())].into();
            let (url, bearer) = ("https://example.test/".to_owned(), None);
            let server = HttpServer { url, headers, bearer, oauth: false, oauth_client: None, sse: false };
            super::headers("s", &server).map(|headers| headers.len()).map_err(|error| error.kind)
        };
        assert_eq!(of("X-Mine", "1"), Ok(1));
        for name in
            ["Host", "Accept", "content-type", "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"]
        {
            assert_eq!(of(name, "1"), Err(ErrorKind::Blocked), "{name}");
        }
        assert_eq!(of("no name", "1"), Err(ErrorKind::Blocked));
        assert_eq!(of("X-Mine", "a\r\nHost: b"), Err(ErrorKind::Blocked));
    }

    #[test]
    fn a_media_type_is_compared_as_a_whole() {
        for same in ["application/json", "application/json; charset=utf-8", "Application/JSON ;x=y"] {
            assert!(is_type(same, JSON), "{same}");
        }
        for other in ["application/json-evil", "application/jsonp", "text/html; application/json", ""] {
            assert!(!is_type(other, JSON), "{other}");
        }
    }

    #[test]
    fn the_scope_of_a_challenge() {
        assert_eq!(
            scope_of(r#"Bearer error="insufficient_scope", scope="a b", x="y""#),
            Some("a b".to_owned())
        );
        assert_eq!(scope_of("Bearer scope=a, x=y"), Some("a".to_owned()));
        assert_eq!(scope_of("Bearer"), None);
    }
}
