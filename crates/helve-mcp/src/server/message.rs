//! A message that is read in full, as all are but plain calls.
//!
//! In comes a line or a body, out comes the message, or the answer to what cannot be read: it has the id of the request where that
//! can be found, so that nobody waits for an answer that cannot come.

use std::borrow::Cow;

use memchr::memmem;
use rmcp::RoleServer;
use rmcp::model::{
    ClientRequest, ErrorData, GetMeta as _, JsonRpcMessage, JsonRpcRequest, ProtocolVersion, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::input::Seen;
use super::unread;

/// What some editors put before a text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// So long may a request be of which something is kept for as long as its client is there: who that is, and what it listens to.
pub(super) const LONGEST_LASTING: usize = 64 << 10;
const LASTING: [&str; 2] = ["initialize", "subscriptions/listen"];

/// The requests for a page of a list.
const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

/// What says whether a message is one of them: of a long one nothing else is kept.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
}

/// A request with params that have one cursor at most.
#[derive(Deserialize)]
struct OneCursor {
    #[serde(rename = "params")]
    _params: Cursor,
}

#[derive(Deserialize)]
struct Cursor {
    #[serde(rename = "cursor", default)]
    _cursor: IgnoredAny,
}

/// What was read.
pub(super) enum Read {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    Refused(Box<Refused>),
}

/// What cannot be read.
pub(super) struct Refused {
    pub(super) answer: ServerJsonRpcMessage,
    /// Whether an answer is owed: not to a notification, nor to an answer.
    pub(super) is_owed: bool,
}

/// Reads a message.
pub(super) fn read(text: &[u8]) -> Read {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let changed = with_text_cursor(text);
    let text = changed.as_deref().unwrap_or(text);
    match serde_json::from_slice(text) {
        Ok(message) => match refused_at_once(&message, text.len()) {
            Some(answer) => Read::Refused(Box::new(Refused { answer, is_owed: true })),
            None => Read::Message(Box::new(message)),
        },
        Err(_) => Read::Refused(Box::new(refused(text))),
    }
}

/// Whether a message may be a request of which more would be kept than there is room for: it is, or cannot be read as anything else.
pub(super) fn may_last_too_long(text: &[u8]) -> bool {
    let is_lasting = |head: Head<'_>| LASTING.contains(&head.method.as_ref());
    text.len() > LONGEST_LASTING && serde_json::from_slice(text).map_or(true, is_lasting)
}

/// The answer to a request that nobody else looks at.
fn refused_at_once(message: &RxJsonRpcMessage<RoleServer>, bytes: usize) -> Option<ServerJsonRpcMessage> {
    let JsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) = message else { return None };
    let refuse = |why: ErrorData| Some(ServerJsonRpcMessage::error(why, Some(id.clone())));
    let method = request.method();
    if bytes > LONGEST_LASTING && LASTING.contains(&method) {
        let why = format!("{method} may have {LONGEST_LASTING} bytes; this one had {bytes}. Say less.");
        return refuse(ErrorData::invalid_request(why, None));
    }
    match request {
        // Before it has been read nobody would say what is wrong with it.
        ClientRequest::CustomRequest(hello) if method == "initialize" => {
            let is_stateless = request.get_meta().protocol_version().is_some();
            (!is_stateless).then(|| refuse(unread::refusal(hello.clone(), false)))?
        }
        _ => None,
    }
}

/// The answer to a request whose id another one has that is not answered yet.
pub(super) fn in_use() -> ErrorData {
    let why = "A request of this id is not answered yet. Each request of a session has an id of its own.";
    ErrorData::invalid_request(why, None)
}

/// Whether a message is the answer to a request of ours.
pub(super) fn is_answer(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Parts {
        method: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }

    let parts = serde_json::from_slice::<Parts>(text);
    parts.is_ok_and(|parts| parts.method.is_none() && (parts.result.is_some() || parts.error.is_some()))
}

/// A request for a list whose cursor is no text, or is there twice, with one in its place that no list gives: the SDK reads such params as none,
/// and the first page would be the answer to a wrong request.
pub(super) fn with_text_cursor(text: &[u8]) -> Option<Vec<u8>> {
    let has = |part: &[u8]| memmem::find(text, part).is_some();
    // Most messages are no such request, and any letter may be written as an escape.
    if !has(b"list") && !has(b"\\u") {
        return None;
    }
    let head: Head<'_> = serde_json::from_slice(text).ok()?;
    if !LISTS.contains(&head.method.as_ref()) {
        return None;
    }
    let mut message: Value = serde_json::from_slice(text).ok()?;
    let cursor = message.get_mut("params")?.get_mut("cursor")?;
    let is_one = serde_json::from_slice::<OneCursor>(text).is_ok();
    if is_one && (cursor.is_string() || cursor.is_null()) {
        return None;
    }
    *cursor = Value::String(cursor.to_string());
    serde_json::to_vec(&message).ok()
}

fn refused(text: &[u8]) -> Refused {
    match serde_json::from_slice::<Value>(text) {
        Ok(value) => of_wrong_form(&value),
        Err(error) => {
            let mut seen = Seen::default();
            seen.look(text);
            let why = format!("The message is no JSON that can be read: {error}.");
            let answer = ServerJsonRpcMessage::error(ErrorData::parse_error(why, None), seen.request());
            Refused { answer, is_owed: true }
        }
    }
}

fn of_wrong_form(value: &Value) -> Refused {
    let has = |name| value.get(name).is_some();
    let is_notice = has("method") && !has("id");
    let is_answer = !has("method") && (has("result") || has("error"));
    let id = value.get("id").filter(|_| !is_answer).cloned();
    let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
    let why = "This is no request as JSON-RPC 2.0 has it: `jsonrpc` is \"2.0\", `id` a text or a whole number, `method` a text, \
        and `params` an object.";
    let answer = ServerJsonRpcMessage::error(ErrorData::invalid_request(why, None), id);
    Refused { answer, is_owed: !is_notice && !is_answer }
}

/// Whether the protocol's loop goes on from the handshake with this message. Before it does so it takes requests and nothing else.
pub(super) fn opens(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        // One of the newer era says all that a handshake would.
        request => {
            let meta = request.get_meta();
            let is_known = |version| ProtocolVersion::KNOWN_VERSIONS.contains(&version);
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta.protocol_version().is_some_and(is_known)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    /// The code and the id of the answer to a text that cannot be read; none where none is owed.
    fn answer(text: &[u8]) -> Option<(Value, Value)> {
        let Read::Refused(refused) = read(text) else { panic!("it can be read") };
        let Refused { answer, is_owed } = *refused;
        let answer = serde_json::to_value(answer).unwrap();
        is_owed.then(|| (answer["error"]["code"].clone(), answer["id"].clone()))
    }

    #[test]
    fn what_cannot_be_read_is_answered_under_the_id_that_can() {
        let (open, close) = ("[".repeat(126), "]".repeat(126));
        let nested = format!(r#"{{"jsonrpc":"2.0","id":"d","method":"m","params":{{"a":{open}{close}}}}}"#);
        let cases: &[(&[u8], i32, Value)] = &[
            (br#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\ud83d b"}}"#, -32700, json!(7)),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"a\":\"\xff\"}}",
                -32700,
                json!(7),
            ),
            (nested.as_bytes(), -32700, json!("d")),
            (br#"{"params":{"id":1},"method":"m","id":7,"#, -32700, json!(7)),
            (br#"{"method":"m","params":{"id":1}"#, -32700, Value::Null),
            // The id of an answer is one of ours.
            (br#"{"jsonrpc":"2.0","id":7,"result":{"a":"\ud83d"}}"#, -32700, Value::Null),
            (b"{", -32700, Value::Null),
            (b"hello", -32700, Value::Null),
            (br#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#, -32600, json!(7)),
            (br#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#, -32600, json!("x")),
            (br#"{"jsonrpc":"2.0","id":7,"method":7}"#, -32600, json!(7)),
            (br#"{"jsonrpc":"2.0","id":7}"#, -32600, json!(7)),
            (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
            (br#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#, -32600, Value::Null),
            (b"7", -32600, Value::Null),
        ];
        for (text, code, id) in cases {
            let shown = String::from_utf8_lossy(text);
            assert_eq!(answer(text), Some((json!(code), id.clone())), "{shown}");
        }
    }

    #[test]
    fn what_is_no_request_is_owed_no_answer() {
        for text in [
            r#"{"jsonrpc":"1.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":"broken"}"#,
        ] {
            assert_eq!(answer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_is_kept_of_a_client_is_not_longer_than_there_is_room_for() {
        let hello = |name: String| {
            json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
                "capabilities": {}, "clientInfo": {"name": "c", "version": "1", "title": name}}})
        };
        let listen = |uri: String| {
            json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen",
                "params": {"notifications": {"resourceSubscriptions": [uri]}}})
        };
        let call = |text: String| {
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "initialize",
                "arguments": {"text": text}}})
        };
        let (short, long) = ("x".repeat(LONGEST_LASTING - 1_000), "x".repeat(LONGEST_LASTING));
        for message in [hello(short.clone()), listen(short.clone()), call(short), call(long.clone())] {
            let text = message.to_string();
            assert!(!may_last_too_long(text.as_bytes()) && matches!(read(text.as_bytes()), Read::Message(_)));
        }
        for message in [hello(long.clone()), listen(long.clone())] {
            let text = message.to_string();
            let spelled = text.replace("\"initialize", "\"\\u0069nitialize");
            for text in [text, spelled] {
                assert!(may_last_too_long(text.as_bytes()));
                assert_eq!(answer(text.as_bytes()), Some((json!(-32600), json!(7))));
            }
        }
        assert!(may_last_too_long(format!("{long}x").as_bytes()), "nobody knows what it is");
    }

    #[test]
    fn a_mark_before_a_message_is_passed_over() {
        let text = [BYTE_ORDER_MARK, br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#].concat();
        assert!(matches!(read(&text), Read::Message(_)));
    }
}
