//! What a client says on standard input: lines, bounded.
//!
//! In come bytes, out come lines, and two things more. The end of input is told to whoever waits for it: the protocol's loop
//! waits some seconds for what still runs, and a client waits as long for its server to go. And of a message over the limit,
//! which is never held whole, what comes out is its id, so that it is answered with an error: nobody waits for an answer that
//! cannot come.

use std::ops::Range;
use std::task::{Context, Poll, ready};

use helve_core::CancelHandle;
use rmcp::ErrorData;
use rmcp::model::RequestId;

use crate::ends::Source;

/// How much is read at once.
const CHUNK: usize = 16 << 10;
/// So much is read ahead where nothing can be handed out.
const AHEAD: usize = 1 << 20;
/// The longest id that is looked at.
const LONGEST_ID: usize = 256;

/// The answer to a request that was too long.
pub(super) fn too_long(limit: usize) -> ErrorData {
    ErrorData::invalid_request(
        format!("A message may have {limit} bytes; this one had more. Send less at once."),
        None,
    )
}

/// A client's words, line by line.
pub(super) struct Lines<P> {
    pipe: P,
    ended: CancelHandle,
    is_over: bool,
    /// How long a line may be, its break included.
    pub(super) limit: usize,
    held: Vec<u8>,
    /// Where the next line begins.
    from: usize,
    /// Up to where there is no line break.
    looked: usize,
    /// Up to where lines were overheard that are still to be handed out.
    heard: usize,
    /// What is known of the line under way, where its beginning was too long to hold.
    over: Option<Seen>,
}

/// What stands next in what was read.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// A line, its break included, at this place.
    Line(Range<usize>),
    /// A request over the limit.
    TooLong(RequestId),
}

impl<P> Lines<P> {
    /// `ended` fires at the end.
    pub(super) fn new(pipe: P, limit: usize, ended: CancelHandle) -> Self {
        let (held, over) = (Vec::new(), None);
        Lines { pipe, ended, is_over: false, limit, held, from: 0, looked: 0, heard: 0, over }
    }

    /// Whether nothing more comes. What stands after the last line break is no message.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Nothing more is read.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.ended.cancel();
    }

    /// The next line of what was read.
    pub(super) fn next(&mut self) -> Option<Next> {
        loop {
            let Some(at) = memchr::memchr(b'\n', self.bytes(self.looked..self.held.len())) else {
                self.looked = self.held.len();
                if self.over.is_some() || self.looked - self.from >= self.limit {
                    let mut seen = self.over.take().unwrap_or_default();
                    seen.look(self.bytes(self.from..self.looked));
                    self.over = Some(seen);
                    self.from = self.looked;
                }
                return None;
            };
            let line = self.from..self.looked + at + 1;
            self.from = line.end;
            self.looked = line.end;
            if self.over.is_none() && line.len() <= self.limit {
                return Some(Next::Line(line));
            }
            let mut seen = self.over.take().unwrap_or_default();
            seen.look(self.bytes(line));
            if let Some(id) = seen.request() {
                return Some(Next::TooLong(id));
            }
        }
    }

    /// A line that will be handed out later; each once.
    pub(super) fn overhear(&mut self) -> Option<Range<usize>> {
        let from = self.heard.max(self.from);
        let at = memchr::memchr(b'\n', self.bytes(from..self.held.len()))?;
        self.heard = from + at + 1;
        Some(from..self.heard)
    }

    /// Whether there is room for more that is not handed out yet.
    pub(super) fn has_room(&self) -> bool {
        self.held.len() - self.from < AHEAD
    }

    /// Whether something stands behind the line that was handed out last.
    pub(super) fn has_more(&self) -> bool {
        self.from < self.held.len()
    }

    /// The bytes of a line, for as long as nothing more is read.
    pub(super) fn bytes(&self, line: Range<usize>) -> &[u8] {
        self.held.get(line).unwrap_or_default()
    }
}

impl<P: Source> Lines<P> {
    /// Whether reading on sees what the client says as soon as it has said it.
    pub(super) fn is_seen(&self) -> bool {
        self.pipe.is_seen()
    }

    /// Reads on; ready when there is more, or no more.
    pub(super) fn poll_more(&mut self, poller: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Ready(());
        }
        if self.from > 0 {
            // What was handed out goes; a large buffer goes too once it is empty.
            self.held.drain(..self.from);
            self.looked -= self.from;
            self.heard = self.heard.saturating_sub(self.from);
            self.from = 0;
            if self.held.is_empty() && self.held.capacity() > 8 * CHUNK {
                self.held = Vec::new();
            }
        }
        if self.held.capacity() - self.held.len() < CHUNK / 4 {
            self.held.reserve(CHUNK);
        }
        let read = ready!(self.pipe.poll_into(&mut self.held, poller));
        if !matches!(read, Ok(1..)) {
            self.end();
        }
        Poll::Ready(())
    }
}

/// What is known of a message without holding it: its id, and whether it is a request.
#[derive(Default)]
pub(super) struct Seen {
    depth: u32,
    in_string: bool,
    escaped: bool,
    part: Part,
    /// The name, or the id, that is being read.
    kept: Vec<u8>,
    id: Option<RequestId>,
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
    /// The id, if it is a request's.
    pub(super) fn request(self) -> Option<RequestId> {
        self.id.filter(|_| self.has_method)
    }

    /// Looks at what comes next of the message.
    pub(super) fn look(&mut self, mut bytes: &[u8]) {
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
            self.id = serde_json::from_slice(&self.kept).ok();
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
    use serde_json::Value;

    use super::*;

    /// Gives a text piece by piece.
    struct Pieces<'t>(std::slice::Chunks<'t, u8>);

    impl Source for Pieces<'_> {
        fn poll_into(&mut self, held: &mut Vec<u8>, _: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
            let piece = self.0.next().unwrap_or_default();
            held.extend_from_slice(piece);
            Poll::Ready(Ok(piece.len()))
        }
    }

    /// What comes out when the bytes come in such pieces: lines, and ids of what was too long.
    fn passed(limit: usize, text: &str, piece: usize) -> Vec<String> {
        let (ended, cancel) = Cancel::pair();
        let mut lines = Lines::new(Pieces(text.as_bytes().chunks(piece)), limit, ended);
        let mut poller = Context::from_waker(std::task::Waker::noop());
        let mut out = Vec::new();
        while !lines.is_over() {
            assert!(lines.poll_more(&mut poller).is_ready());
            while let Some(next) = lines.next() {
                out.push(match next {
                    Next::Line(line) => std::str::from_utf8(lines.bytes(line)).unwrap().to_owned(),
                    Next::TooLong(id) => too_long(&id),
                });
            }
            assert!(lines.held.len() <= limit + piece, "{} bytes are held", lines.held.len());
        }
        assert!(cancel.is_cancelled());
        out
    }

    fn too_long(id: &RequestId) -> String {
        format!("too long: {}", serde_json::to_string(id).unwrap())
    }

    #[test]
    fn of_a_request_over_the_limit_its_id_is_known_and_the_next_is_read() {
        let long = "x".repeat(200);
        let call = |id: &str| format!(r#"{{"params":{{"id":9,"t":"\"}}{long}"}},"method":"m","id":{id}}}"#);
        let short = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
        for piece in [1, 7, 10_000] {
            for id in ["7", "\"a\\\"b\"", " 12 "] {
                let lines = passed(150, &format!("{}\n{short}\n", call(id)), piece);
                assert_eq!(lines, [format!("too long: {}", id.trim()), format!("{short}\n")]);
            }
            // What is no request, or none that could be answered, leaves nothing.
            let other = [
                call("null"),
                call(&format!("\"{}\"", "i".repeat(300))),
                format!(r#"{{"id":1,"result":"{long}"}}"#),
                format!(r#"{{"method":"m","params":"{long}"}}"#),
                format!("{{{long}"),
                long.clone(),
            ];
            for line in other {
                assert_eq!(passed(150, &format!("{line}\n{short}\n"), piece), [format!("{short}\n")]);
            }
        }
    }

    #[test]
    fn what_fits_is_passed_on() {
        let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n";
        assert_eq!(passed(line.len(), &format!("{line}\n{line}rest"), 3), [line, "\n", line]);
        assert_eq!(passed(line.len() - 1, line, 3), [too_long(&RequestId::Number(1))]);
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
            let id = serde_json::from_value::<RequestId>(object["id"].clone()).ok();
            prop_assert_eq!(seen.request(), id.filter(|_| object.get("method").is_some()));
        }

        #[test]
        fn no_line_within_the_limit_is_lost(
            text in "[a-z{}\\[\\]\":,\\\\\n ]{0,200}",
            limit in 1usize..50,
            piece in 1usize..20,
        ) {
            let out: Vec<String> = passed(limit, &text, piece)
                .into_iter()
                .filter(|line| !line.starts_with("too long: "))
                .collect();
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n') && line.len() <= limit);
            prop_assert_eq!(out, whole.map(str::to_owned).collect::<Vec<_>>());
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
