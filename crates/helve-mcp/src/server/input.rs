//! What a client says on standard input, before the protocol's loop reads it.
//!
//! In come bytes, out come the same bytes, and two things more. The end of input is told to whoever waits for it: the loop waits
//! some seconds for what still runs, and a client waits as long for its server to go. And a message over the limit, which the
//! loop skips without a word, is followed by a short request with its id, which the face answers with an error: nobody waits for
//! an answer that cannot come.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use helve_core::CancelHandle;
use rmcp::ErrorData;
use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

/// The method of the request that stands for one that was too long.
pub(super) const TOO_LONG: &str = "helve/too_long";
/// How much is read at once.
const CHUNK: usize = 8 << 10;
/// The longest id that is looked at.
const LONGEST_ID: usize = 256;

/// The answer to a request that was too long.
pub(super) fn too_long(params: Option<&Value>) -> ErrorData {
    let limit = params.and_then(|params| params["limit"].as_u64()).unwrap_or_default();
    ErrorData::invalid_request(
        format!("A message may have {limit} bytes; this one had more. Send less at once."),
        None,
    )
}

/// A client's words.
pub(super) struct Input<P> {
    pipe: P,
    ended: CancelHandle,
    frames: Frames,
    read: Box<[u8]>,
    /// What is to be handed on, and from where.
    ready: Vec<u8>,
    from: usize,
}

impl<P> Input<P> {
    /// `limit` is that of the loop, for a line with its break; `ended` fires at the end.
    pub(super) fn new(pipe: P, limit: usize, ended: CancelHandle) -> Self {
        let frames = Frames { limit, length: 0, seen: Seen::default() };
        Input { pipe, ended, frames, read: vec![0; CHUNK].into(), ready: Vec::new(), from: 0 }
    }
}

impl<P: AsyncRead + Unpin> AsyncRead for Input<P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        if this.from == this.ready.len() {
            let mut chunk = ReadBuf::new(&mut this.read);
            let read = ready!(Pin::new(&mut this.pipe).poll_read(context, &mut chunk));
            if read.is_err() || chunk.filled().is_empty() {
                this.ended.cancel();
                return Poll::Ready(read);
            }
            this.ready.clear();
            this.from = 0;
            this.frames.pass(chunk.filled(), &mut this.ready);
        }
        let rest = this.ready.get(this.from..).unwrap_or_default();
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..count).unwrap_or_default());
        this.from += count;
        Poll::Ready(Ok(()))
    }
}

/// Follows the lines.
struct Frames {
    limit: usize,
    /// How long the line is so far.
    length: usize,
    seen: Seen,
}

impl Frames {
    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            out.extend_from_slice(piece);
            self.length = self.length.saturating_add(piece.len());
            self.seen.look(piece);
            if piece.ends_with(b"\n") {
                let seen = std::mem::take(&mut self.seen);
                if std::mem::take(&mut self.length) > self.limit
                    && let Some(id) = seen.request()
                {
                    out.extend_from_slice(self.stand_in(&id).to_string().as_bytes());
                    out.push(b'\n');
                }
            }
        }
    }

    /// Says all that a request of either era has to say of itself.
    fn stand_in(&self, id: &Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": ProtocolVersion::V_2026_07_28.as_str(),
            "io.modelcontextprotocol/clientInfo": {"name": "unknown", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        json!({"jsonrpc": "2.0", "id": id, "method": TOO_LONG, "params": {"limit": self.limit, "_meta": meta}})
    }
}

/// What is known of a message without holding it: its id, and whether it is a request.
#[derive(Default)]
struct Seen {
    depth: u32,
    in_string: bool,
    escaped: bool,
    part: Part,
    /// The name, or the id, that is being read.
    kept: Vec<u8>,
    id: Option<Value>,
    has_method: bool,
}

/// Where in the outermost object one is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    Name,
    Id,
    #[default]
    Other,
}

impl Seen {
    fn request(self) -> Option<Value> {
        self.id.filter(|_| self.has_method)
    }

    fn look(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            self.byte(*byte);
            bytes = rest;
            if self.in_string && !self.escaped && self.depth > 1 {
                // Long messages are long texts.
                let skip = memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                bytes = bytes.get(skip..).unwrap_or_default();
            }
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                if self.depth == 1 {
                    self.part = Part::Name;
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.end_of_member();
                }
            }
            b',' if self.depth == 1 => {
                self.end_of_member();
                self.part = Part::Name;
            }
            b':' if self.depth == 1 => {
                self.has_method |= self.kept == b"\"method\"";
                self.part = if self.kept == b"\"id\"" { Part::Id } else { Part::Other };
                self.kept.clear();
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            other => self.keep(other),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.part != Part::Other && self.kept.len() <= LONGEST_ID {
            self.kept.push(byte);
        }
    }

    fn end_of_member(&mut self) {
        if self.part == Part::Id {
            let id = serde_json::from_slice::<Value>(&self.kept).ok();
            self.id = id.filter(|id| id.is_string() || id.is_u64() || id.is_i64());
        }
        self.kept.clear();
        self.part = Part::Other;
    }
}

#[cfg(test)]
mod tests {
    use helve_core::Cancel;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// What comes out when the bytes come in such pieces.
    fn passed(limit: usize, text: &str, piece: usize) -> Vec<String> {
        let mut frames = Frames { limit, length: 0, seen: Seen::default() };
        let mut out = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            frames.pass(piece, &mut out);
        }
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_request_over_the_limit_is_followed_by_one_that_can_be_answered() {
        let long = "x".repeat(200);
        let call = |id: &str| format!(r#"{{"params":{{"id":9,"t":"\"}}{long}"}},"method":"m","id":{id}}}"#);
        let short = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
        for piece in [1, 7, 10_000] {
            for id in ["7", "\"a\\\"b\"", " 12 "] {
                let lines = passed(150, &format!("{}\n{short}\n", call(id)), piece);
                assert_eq!(lines.len(), 3);
                let stand_in: Value = serde_json::from_str(&lines[1]).unwrap();
                assert_eq!(stand_in["id"], serde_json::from_str::<Value>(id).unwrap());
                assert_eq!(
                    (&stand_in["method"], &stand_in["params"]["limit"]),
                    (&json!(TOO_LONG), &json!(150))
                );
                assert_eq!(lines[2], short);
            }
            // What is no request, or none that could be answered, is only passed on.
            let other = [
                call("null"),
                call(&format!("\"{}\"", "i".repeat(300))),
                format!(r#"{{"id":1,"result":"{long}"}}"#),
                format!(r#"{{"method":"m","params":"{long}"}}"#),
                format!("{{{long}"),
                long.clone(),
            ];
            for line in other {
                assert_eq!(passed(150, &format!("{line}\n{short}\n"), piece), [line.as_str(), short]);
            }
        }
    }

    #[test]
    fn what_fits_is_passed_on_alone() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
        assert_eq!(passed(line.len() + 1, &format!("{line}\n"), 3), [line]);
        assert_eq!(passed(line.len(), &format!("{line}\n"), 3).len(), 2);
    }

    #[tokio::test]
    async fn the_end_is_told() {
        let (ended, cancel) = Cancel::pair();
        let mut input = Input::new(&b"a\nb"[..], 100, ended);
        let mut text = String::new();
        input.read_to_string(&mut text).await.unwrap();
        assert_eq!((text.as_str(), cancel.is_cancelled()), ("a\nb", true));
    }

    proptest! {
        #[test]
        fn the_id_is_what_a_parser_finds(
            members in prop::collection::btree_map("[a-z]{1,3}|id|method", json_value(), 0..6),
            piece in 1usize..20,
        ) {
            let object = Value::Object(members.into_iter().collect());
            let mut seen = Seen::default();
            for piece in object.to_string().as_bytes().chunks(piece) {
                seen.look(piece);
            }
            let id = &object["id"];
            let is_id = id.is_string() || id.is_u64() || id.is_i64();
            let expected = (is_id && object.get("method").is_some()).then(|| id.clone());
            prop_assert_eq!(seen.request(), expected);
        }

        #[test]
        fn no_line_is_lost(text in "[a-z{}\\[\\]\":,\\\\\n ]{0,200}", limit in 0usize..50, piece in 1usize..20) {
            let mut frames = Frames { limit, length: 0, seen: Seen::default() };
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(piece) {
                frames.pass(piece, &mut out);
            }
            let out = String::from_utf8(out).unwrap();
            let own: String = out.split_inclusive('\n').filter(|line| !line.contains(TOO_LONG)).collect();
            prop_assert_eq!(own, text);
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-z\"\\\\{}:, ]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("id|method|[a-z]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
