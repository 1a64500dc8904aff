//! Calls of tools, read and answered straight: most of what a client says, and all of it that has to be quick.
//!
//! In comes a line, out comes the call that it asks for, or nothing where the line is anything else or has anything that a
//! call need not have; the protocol's loop then reads it as it reads everything. What the loop does with such a line comes to
//! the same (`tests`), but it reads it as every kind of message in turn, hands it from task to task, and builds a tree of what
//! it answers before it writes it. How an answer is written straight: `answer`. Lines
//! as nearly all are written are read without any detour: `plain`.

mod answer;
mod plain;

use std::borrow::Cow;
use std::fmt;

use rmcp::model::{NumberOrString, ProgressToken, RequestId};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

pub(super) use answer::{answer, notice, refusal, write};

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
    plain::call(line).or_else(|| call_in_full(line))
}

fn call_in_full(line: &[u8]) -> Option<Asked> {
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

#[cfg(test)]
mod tests;
