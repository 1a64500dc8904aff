//! What is behind an error of a connection, in words for the owner: an error of the SDK tells which of its types have failed, and
//! not why.

use std::error::Error;

use rmcp::model::ErrorData;
use rmcp::service::ClientInitializeError;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::failure::chain;

/// For an address at which something else answers.
const ELSEWHERE: &str = "No MCP server answers at this address: look at its path, which often is /mcp, or say that it speaks \
                         the older HTTP with `transport = \"sse\"`.";
/// For one whose server says that it is elsewhere.
const MOVED: &str = "If you know that address, write it as the `url` of the server.";
/// For one that answers nobody whom it does not know.
const UNKNOWN: &str =
    "It wants to know who asks: name the variable that holds a token for it in `bearer_token_env`.";
const NOBODY: &str = "Look at the address, and whether the server runs.";

/// Why a connection could not be opened whose token had to be renewed; none where that is not why.
pub(super) fn unrenewed(error: &ClientInitializeError) -> Option<&str> {
    match error {
        ClientInitializeError::TransportError { error, .. } => match error.error.downcast_ref()? {
            StreamableHttpError::<reqwest::Error>::Auth(AuthError::TokenRefreshFailed(why)) => Some(why),
            _ => None,
        },
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => unrenewed(fallback),
        _ => None,
    }
}

/// The error with which a server answered instead of opening a connection.
pub(super) fn refusal(error: &ClientInitializeError) -> Option<&ErrorData> {
    match error {
        ClientInitializeError::JsonRpcError(error) => Some(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refusal(fallback),
        _ => None,
    }
}

/// Why it failed, and what to do about it where that is known.
pub(super) struct Cause {
    pub(super) words: String,
    pub(super) hint: Option<&'static str>,
}

impl Cause {
    /// Of a connection that could not be opened.
    pub(super) fn of_opening(error: &ClientInitializeError) -> Cause {
        match error {
            ClientInitializeError::TransportError { error, .. } => Cause::of(error.error.as_ref()),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Cause::of_opening(fallback),
            other => Cause { words: chain(other), hint: None },
        }
    }

    /// Of a connection that failed.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Cause {
        use StreamableHttpError::{Client, HttpStatus, UnexpectedContentType, UnexpectedServerResponse};
        match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            Some(Client(error)) => Cause::of_request(error),
            Some(UnexpectedServerResponse(text)) => {
                let status = text.strip_prefix("HTTP ").and_then(|rest| rest.get(..3)?.parse().ok());
                Cause::of_status(status.unwrap_or_default(), text.to_string())
            }
            Some(UnexpectedContentType(kind)) => {
                let kind =
                    kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("nothing that has a type");
                Cause {
                    words: format!("it answers with {kind}, not with JSON or events"),
                    hint: Some(ELSEWHERE),
                }
            }
            Some(HttpStatus(status)) => Cause { words: status.to_string(), hint: None },
            _ => error.downcast_ref().map_or_else(
                || Cause { words: chain(error), hint: None },
                |error: &reqwest::Error| Cause::of_request(error),
            ),
        }
    }

    /// Of an answer with this status.
    pub(super) fn of_status(status: u16, words: String) -> Cause {
        let hint = match status {
            401 | 403 => Some(UNKNOWN),
            301..=303 | 404 | 405 | 410 => Some(ELSEWHERE),
            307 | 308 => Some(MOVED),
            _ => None,
        };
        Cause { words, hint }
    }

    /// Of a request that got no answer. What is nearest to the wire says most.
    pub(super) fn of_request(error: &reqwest::Error) -> Cause {
        let mut innermost: &dyn Error = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        let mut words = innermost.to_string();
        // Without its end, in which a secret may stand.
        if let Some(url) = error.url() {
            words = format!("{}{}: {words}", url.origin().ascii_serialization(), url.path());
        }
        Cause { words, hint: (error.is_connect() || error.is_timeout()).then_some(NOBODY) }
    }
}
