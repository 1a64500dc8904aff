//! Calls of tools, read and answered straight: most of what a client says, and all of it that has to be quick.
//!
//! In comes a line, out comes the call that it asks for, or nothing where the line is anything else or has anything that a
//! call need not have; the protocol's loop then reads it as it reads everything. What the loop does with such a line comes to
//! the same (`tests`), but it reads it as every kind of message in turn, hands it from task to task, and builds a tree of what
//! it answers before it writes it.

use std::borrow::Cow;
use std::fmt;

use helve_core::output::{Content, join_text};
use helve_core::{CallResult, ErrorKind, WireError};
use rmcp::ErrorData;
use rmcp::model::{NumberOrString, ProgressToken, RequestId, ServerJsonRpcMessage};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::shown;

/// How the names of what the protocol itself says about a request begin.
const OF_THE_PROTOCOL: &str = "io.modelcontextprotocol/";

/// A call that a client asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) id: RequestId,
    pub(super) tool: String,
    pub(super) args: Map<String, Value>,
    /// Under which the client wants to hear of its progress.
    pub(super) token: Option<ProgressToken>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame<'l> {
    jsonrpc: &'l str,
    id: RequestId,
    method: &'l str,
    #[serde(borrow)]
    params: Params<'l>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'l> {
    #[serde(borrow)]
    name: Cow<'l, str>,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(default, rename = "_meta")]
    meta: Option<Meta>,
}

/// What is said about a request. Where the protocol says something of its own, the request is none of the older era.
#[derive(Default)]
struct Meta {
    token: Option<ProgressToken>,
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Meta;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Meta, A::Error> {
                let mut meta = Meta::default();
                while let Some(name) = members.next_key::<Name<'de>>()? {
                    match &*name.0 {
                        "progressToken" if meta.token.is_none() => {
                            meta.token = Some(ProgressToken(members.next_value::<NumberOrString>()?));
                        }
                        "progressToken" => return Err(A::Error::duplicate_field("progressToken")),
                        name if name.starts_with(OF_THE_PROTOCOL) => {
                            return Err(A::Error::custom("the protocol's own"));
                        }
                        _ => {
                            members.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(meta)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[derive(Deserialize)]
struct Name<'l>(#[serde(borrow)] Cow<'l, str>);

/// The call that a line asks for.
pub(super) fn call(line: &[u8]) -> Option<Asked> {
    let Frame { jsonrpc, id, method, params } = serde_json::from_slice(line).ok()?;
    let Params { name, arguments, meta } = params;
    (jsonrpc == "2.0" && method == "tools/call").then(|| Asked {
        id,
        tool: name.into_owned(),
        args: arguments.unwrap_or_default(),
        token: meta.unwrap_or_default().token,
    })
}

/// The request that a line takes back.
pub(super) fn taken_back(line: &[u8]) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Notice<'l> {
        #[serde(borrow)]
        method: Cow<'l, str>,
        params: Of,
    }

    #[derive(Deserialize)]
    struct Of {
        #[serde(rename = "requestId")]
        request_id: RequestId,
    }

    let notice: Notice<'_> = serde_json::from_slice(line).ok()?;
    (notice.method == "notifications/cancelled").then_some(notice.params.request_id)
}

/// Writes the answer to a call as a line. `declared` says whether the tool publishes a schema.
pub(super) fn answer(out: &mut Vec<u8>, id: &RequestId, result: &CallResult, declared: bool) {
    let start = out.len();
    let answer = Answer { jsonrpc: "2.0", id, result: Shown { result, declared } };
    if serde_json::to_writer(&mut *out, &answer).is_err() {
        // Everything in a result can be written; whoever waits is told all the same.
        out.truncate(start);
        refusal(out, id, ErrorData::internal_error("The result cannot be written.", None));
        return;
    }
    out.push(b'\n');
}

/// Writes the refusal of a call as a line.
pub(super) fn refusal(out: &mut Vec<u8>, id: &RequestId, error: ErrorData) {
    let answer = ServerJsonRpcMessage::error(error, Some(id.clone()));
    if serde_json::to_writer(&mut *out, &answer).is_ok() {
        out.push(b'\n');
    }
}

#[derive(Serialize)]
struct Answer<'r> {
    jsonrpc: &'static str,
    id: &'r RequestId,
    result: Shown<'r>,
}

/// A result as [`shown::result`] shows it to a client of the older era.
struct Shown<'r> {
    result: &'r CallResult,
    declared: bool,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let CallResult { ok, content, details, error, tainted, .. } = self.result;
        let mut members = out.serialize_struct("result", 4)?;
        let kind = error.as_ref().map(|error| error.kind).filter(|kind| *kind != ErrorKind::ToolFailed);
        members.serialize_field("content", &Blocks { content, kind })?;
        match (tainted, error) {
            (Some(_), _) if details.is_null() => {}
            (Some(_), _) => members.serialize_field("structuredContent", details)?,
            (None, None) if details.is_null() && !self.declared => {}
            (None, error) => {
                let structured = Structured { details: details.as_object(), error: error.as_ref(), content };
                members.serialize_field("structuredContent", &structured)?;
            }
        }
        members.serialize_field("isError", &!ok)?;
        members.serialize_field("_meta", &Told(self.result))?;
        members.end()
    }
}

/// The blocks, and the kind of error behind them.
struct Blocks<'r> {
    content: &'r [Content],
    kind: Option<ErrorKind>,
}

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut blocks = out.serialize_seq(None)?;
        for block in self.content {
            match block {
                Content::Text { text, about: None } => blocks.serialize_element(&Text::new(text))?,
                other => blocks.serialize_element(&shown::block(other.clone()))?,
            }
        }
        if let Some(kind) = self.kind {
            blocks.serialize_element(&Text::new(&shown::kind(kind)))?;
        }
        blocks.end()
    }
}

#[derive(Serialize)]
struct Text<'r> {
    r#type: &'static str,
    text: &'r str,
}

impl<'r> Text<'r> {
    fn new(text: &'r str) -> Self {
        Text { r#type: "text", text }
    }
}

/// Details with the text, and the error where there is one.
struct Structured<'r> {
    details: Option<&'r Map<String, Value>>,
    error: Option<&'r WireError>,
    content: &'r [Content],
}

impl Serialize for Structured<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut members = out.serialize_map(None)?;
        for (name, value) in self.details.into_iter().flatten() {
            if !(name == "error" && self.error.is_some()) {
                members.serialize_entry(name, value)?;
            }
        }
        if let Some(error) = self.error {
            members.serialize_entry("error", error)?;
        }
        if !self.details.is_some_and(|details| details.contains_key("text")) {
            match self.content {
                [Content::Text { text, .. }] => members.serialize_entry("text", text)?,
                content => members.serialize_entry("text", &join_text(content))?,
            }
        }
        members.end()
    }
}

/// What only Helve knows of a call.
struct Told<'r>(&'r CallResult);

impl Serialize for Told<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut members = out.serialize_map(Some(1))?;
        members.serialize_entry(shown::META, &Facts(self.0))?;
        members.end()
    }
}

struct Facts<'r>(&'r CallResult);

impl Serialize for Facts<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let CallResult { call, decision, sandbox, truncated, notes, tainted, cost, duration_us, .. } = self.0;
        let mut members = out.serialize_map(None)?;
        members.serialize_entry("call", call)?;
        members.serialize_entry("duration_us", duration_us)?;
        if let Some(decision) = decision {
            members.serialize_entry("decision", decision)?;
        }
        if let Some(sandbox) = sandbox {
            members.serialize_entry("sandbox", sandbox)?;
        }
        if let Some(truncated) = truncated {
            members.serialize_entry("truncated", truncated)?;
        }
        if let Some(tainted) = tainted {
            members.serialize_entry("tainted", tainted)?;
        }
        if let Some(cost) = cost {
            members.serialize_entry("cost", cost)?;
        }
        if !notes.is_empty() {
            members.serialize_entry("notes", notes)?;
        }
        members.end()
    }
}

#[cfg(test)]
mod tests;
