//! The program at the other end of a call: what a running tool may ask it or tell it while the call lasts.
//!
//! An MCP client is one. A face that can pass questions on gives a [`Peer`] along with the call; a tool finds it in its
//! context, and so does the broker of approvals. Questions and answers are JSON in the shape of the MCP specification, so
//! that nothing is lost between a server behind Helve and a client before it.
//!
//! A question has a key. Where a face cannot wait for an answer (a protocol without state), asking ends the call, the
//! caller is told what is wanted, and it comes again with the answers; the tool then runs again and finds them under the
//! same keys. A tool therefore asks before it does anything.

use serde_json::Value;

use crate::error::ToolError;
use crate::lane::BoxFuture;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// A form for the person (`elicitation/create`).
    Form,
    /// An address for the person to open (`elicitation/create` with a URL).
    Url,
    /// Words of the client's model (`sampling/createMessage`).
    Sample,
    /// The client's roots (`roots/list`).
    Roots,
}

/// How grave a log message is, in the names of RFC 5424.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// The ordinary course.
    Info,
    /// Worth a look.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part does not work.
    Critical,
    /// Somebody has to act.
    Alert,
    /// Nothing works.
    Emergency,
}

/// The other end of a call.
pub trait Peer: Send + Sync {
    /// Whether it takes questions of this kind.
    fn takes(&self, kind: QuestionKind) -> bool;

    /// Asks, and waits for the answer. `params` are the request's parameters, the answer is the response's result. Two
    /// questions of one call need different keys.
    fn ask<'a>(
        &'a self,
        key: &'a str,
        kind: QuestionKind,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>>;

    /// Whether the answer to the question of this key came with the call, because it was asked before: then asking asks nobody.
    fn has_answer(&self, _key: &str) -> bool {
        false
    }

    /// Tells something that nobody has to answer. It may be dropped.
    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value);
}
