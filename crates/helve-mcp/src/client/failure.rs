//! What goes wrong with a server, as errors of the closed set.

use std::time::Duration;

use helve_core::harmless::harmless;
use helve_core::{ErrorKind, ToolError};
use rmcp::ServiceError;
use rmcp::model::{ErrorCode, ErrorData};

use super::cause::Cause;

/// How much of a server's own words an error carries.
const WORDS: usize = 2_000;

/// Codes of what this end answers in a server's place. A server that uses one of them says the same of itself.
const TOO_LONG: ErrorCode = ErrorCode(-31_413);
const UNREAD: ErrorCode = ErrorCode(-31_408);
const UNREADABLE: ErrorCode = ErrorCode(-31_422);

/// The answer to a request whose own answer is larger than this many bytes.
pub(super) fn too_long(cap: usize) -> ErrorData {
    ErrorData::new(TOO_LONG, format!("more than {cap} bytes"), None)
}

/// Whether an answer is that.
pub(super) fn is_too_long(error: &ErrorData) -> bool {
    error.code == TOO_LONG
}

/// The answer to a request that is not sent: this many bytes wait already.
pub(super) fn unread(waiting: usize) -> ErrorData {
    ErrorData::new(UNREAD, format!("{waiting} bytes wait for it"), None)
}

/// The answer to a request whose own answer cannot be read.
pub(super) fn unreadable(problem: &str) -> ErrorData {
    ErrorData::new(UNREADABLE, problem.to_owned(), None)
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A message was larger than this many bytes.
    FrameTooLong(usize),
    /// It said too much that is no message; the last of it.
    Garbage(String),
    /// It asked or told too much at once.
    Flood,
    /// It does not read what it is sent.
    Unread,
    /// It closed its end.
    Ended,
}

impl Broken {
    pub(crate) fn error(&self, server: &str) -> ToolError {
        match self {
            Broken::FrameTooLong(cap) => ToolError::new(
                ErrorKind::TooLarge,
                format!("The MCP server '{server}' sent a message of more than {cap} bytes; its connection was closed."),
            )
            .hint("Ask it for less at once."),
            Broken::Garbage(why) => ToolError::failed(format!(
                "The MCP server '{server}' does not speak the protocol; its connection was closed. {}",
                words(why)
            ))
            .hint("A server must write nothing but messages to its standard output, or its stream of events."),
            Broken::Flood => ToolError::failed(format!(
                "The MCP server '{server}' sent more messages than this end takes; its connection was closed."
            )),
            Broken::Unread => ToolError::failed(format!(
                "The MCP server '{server}' does not read what it is sent; its connection was closed."
            ))
            .hint(format!("`helve mcp logs {server}` shows what it said last.")),
            Broken::Ended => ToolError::failed(format!("The MCP server '{server}' closed its connection."))
                .hint(format!("`helve mcp logs {server}` shows what it said last.")),
        }
    }
}

/// A server's own words, bounded and harmless.
pub(crate) fn words(text: &str) -> String {
    bounded(text, WORDS)
}

/// The first `most` bytes of a server's words, made harmless.
pub(super) fn bounded(text: &str, most: usize) -> String {
    let cut = text.floor_char_boundary(most);
    let mut shown = harmless(text.get(..cut).unwrap_or_default());
    if cut < text.len() {
        shown.push('…');
    }
    shown
}

/// The server answered with an error of the protocol. `what` it answered is a name in quotes, or says besides what that names.
pub(crate) fn refused(server: &str, what: &str, error: &ErrorData) -> ToolError {
    let code = error.code.0;
    let said = words(&error.message);
    match error.code {
        TOO_LONG => {
            let message = format!("The MCP server '{server}' answered {what} with a message of {said}.");
            return ToolError::new(ErrorKind::TooLarge, message).hint("Ask it for less at once.");
        }
        UNREAD => {
            let message = format!("The MCP server '{server}' does not read what it is sent: {said}.");
            return ToolError::failed(message)
                .hint("Call it again when it has gone on, or was started again.");
        }
        UNREADABLE => {
            let message = format!(
                "The MCP server '{server}' answered {what} with something that cannot be read: {said}."
            );
            return ToolError::failed(message)
                .hint("It may have done what it was asked for. Look before you ask for it again.");
        }
        _ => {}
    }
    let kind = match code {
        -32602 => ErrorKind::InvalidParams,
        _ => ErrorKind::ToolFailed,
    };
    let call = if what.starts_with('\'') { "the call of " } else { "" };
    ToolError::new(kind, format!("The MCP server '{server}' refused {call}{what}: {said} (code {code})"))
}

/// The server did not answer in time.
pub(crate) fn timed_out(server: &str, what: &str, after: Duration) -> ToolError {
    let message = format!("The MCP server '{server}' did not {what} within {} s.", after.as_secs_f64());
    ToolError::new(ErrorKind::Timeout, message)
}

/// The call was taken back.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "The call was cancelled.")
}

/// A failure of a request that is no answer of the server's.
pub(crate) fn of_service(
    server: &str,
    what: &str,
    error: &ServiceError,
    broken: Option<Broken>,
) -> ToolError {
    match error {
        ServiceError::McpError(data) => refused(server, what, data),
        ServiceError::TransportClosed => broken.unwrap_or(Broken::Ended).error(server),
        ServiceError::Cancelled { .. } => cancelled(),
        ServiceError::UnexpectedResponse => ToolError::failed(format!(
            "The MCP server '{server}' answered {what} with something that is not a result of it."
        )),
        other => match broken {
            Some(broken) if broken != Broken::Ended => broken.error(server),
            _ => {
                let cause = match other {
                    ServiceError::TransportSend(error) => Cause::of(error.error.as_ref()),
                    other => Cause { words: chain(other), hint: None },
                };
                unreachable(server, cause)
            }
        },
    }
}

/// The server could not be reached.
pub(super) fn unreachable(server: &str, cause: Cause) -> ToolError {
    let Cause { words: why, hint } = cause;
    let error = ToolError::failed(format!("The MCP server '{server}' could not be reached: {}", words(&why)));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// An error and what it comes from.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
