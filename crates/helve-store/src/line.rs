//! One journal line: what stands in it, and how it is read back. How it is written: `batch`.
//!
//! A line is the canonical JSON of
//! `{"at_us":…,"body":…,"call":"…","hash":"…","prev":"…","seq":…,"type":"…","v":1}` (`call` absent when the entry
//! belongs to no call). `hash` is the BLAKE3 of the same object without its `hash` member; `prev` is the hash of the
//! line before, and for the first line the hash of the session's name, so that a journal cannot stand in for another.
//!
//! Because a line is canonical, its members stand in a known order. The writer therefore hashes what it writes and
//! splices the hash in, and the reader takes the line apart from both ends and hashes the bytes as they are: no JSON
//! is parsed or written twice, and a change of any byte is seen.

use blake3::Hash;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::canonical::MAX_DEPTH;

/// The longest line that is written or read, its line end not counted.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// The longest name of a call.
pub(crate) const MOST_CALL_BYTES: usize = 128;

/// The digits of a hash.
pub(crate) const HEX: usize = 64;

/// What stands behind a line's body and call takes less than this, line end included.
pub(crate) const ENDING_BYTES: usize = 300;

/// What an entry tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A call was allowed and is about to run.
    Planned,
    /// A call ended; the body is its whole result.
    Outcome,
    /// Something worth remembering that belongs to no call's plan or result. Helve writes none itself; it is there for
    /// programs that embed it and keep their own story in the same chain.
    Note,
    /// The unfinished last line of an interrupted writer was taken out; the body says what it was.
    Recovered,
}

impl EntryKind {
    /// The name on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            EntryKind::Planned => "planned",
            EntryKind::Outcome => "outcome",
            EntryKind::Note => "note",
            EntryKind::Recovered => "recovered",
        }
    }

    fn parse(name: &[u8]) -> Option<EntryKind> {
        [EntryKind::Planned, EntryKind::Outcome, EntryKind::Note, EntryKind::Recovered]
            .into_iter()
            .find(|kind| kind.as_str().as_bytes() == name)
    }
}

/// What a caller hands in to be journalled. The body is anything that serde can serialize.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<B = Value> {
    /// What the entry tells.
    pub kind: EntryKind,
    /// The call it belongs to.
    pub call: Option<String>,
    /// When it happened, in microseconds since 1970 UTC.
    pub at_us: u64,
    /// The story itself.
    pub body: B,
}

/// An entry as it stands in a journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Position in the session, counted from 1.
    pub seq: u64,
    /// When it happened, in microseconds since 1970 UTC.
    pub at_us: u64,
    /// What the entry tells.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// The call it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Hash of the entry before.
    pub prev: String,
    /// Hash of this entry.
    pub hash: String,
    /// The story itself.
    pub body: Value,
}

/// The `prev` of a session's first entry.
pub(crate) fn genesis(session: &str) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"helve journal 1\n").update(session.as_bytes());
    hasher.finalize()
}

/// The two digits of each byte.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// The digits of a hash. By a table, because every append writes several.
pub(crate) fn hex(hash: &Hash) -> [u8; HEX] {
    let mut digits = [0; HEX];
    for (at, byte) in hash.as_bytes().iter().enumerate() {
        let [high, low] = PAIRS[usize::from(*byte)];
        digits[2 * at] = high;
        digits[2 * at + 1] = low;
    }
    digits
}

/// A line taken apart, borrowing its bytes; the body is not parsed.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) seq: u64,
    pub(crate) at_us: u64,
    pub(crate) kind: EntryKind,
    pub(crate) call: Option<&'a str>,
    pub(crate) prev: Hash,
    pub(crate) hash: Hash,
    /// The JSON of the body.
    pub(crate) body: &'a [u8],
    before_hash: &'a [u8],
    after_hash: &'a [u8],
}

impl<'a> Line<'a> {
    /// Takes a line (without its line end) apart; `None` when it does not have the form of an entry.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        let Ending { seq, kind, prev, hash, before_hash, after_hash } = Ending::parse(line)?;
        let rest = before_hash.strip_prefix(b"{\"at_us\":")?;
        let (digits, rest) = rest.split_at(rest.iter().position(|byte| !byte.is_ascii_digit())?);
        let at_us = parse_u64(digits)?;
        let (body, call) = split_call(rest.strip_prefix(b",\"body\":")?);
        if body.is_empty() {
            return None;
        }
        Some(Line { seq, at_us, kind, call, prev, hash, body, before_hash, after_hash })
    }

    /// Whether the bytes still have the hash that the line claims.
    pub(crate) fn is_intact(&self) -> bool {
        blake3::Hasher::new().update(self.before_hash).update(self.after_hash).finalize() == self.hash
    }

    /// The parsed body; `None` when it is no JSON or nested deeper than any entry that was ever written.
    pub(crate) fn parse_body(&self) -> Option<Value> {
        if depth(self.body) > MAX_DEPTH {
            return None;
        }
        let mut input = serde_json::Deserializer::from_slice(self.body);
        input.disable_recursion_limit();
        let value = Value::deserialize(&mut input).ok()?;
        input.end().ok()?;
        Some(value)
    }

    /// The line as an owned record; `None` when its body is no JSON.
    pub(crate) fn record(&self) -> Option<Record> {
        Some(Record {
            seq: self.seq,
            at_us: self.at_us,
            kind: self.kind,
            call: self.call.map(str::to_owned),
            prev: self.prev.to_hex().to_string(),
            hash: self.hash.to_hex().to_string(),
            body: self.parse_body()?,
        })
    }
}

/// The part of a line behind its body and call.
pub(crate) struct Ending<'a> {
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    kind: EntryKind,
    prev: Hash,
    before_hash: &'a [u8],
    after_hash: &'a [u8],
}

impl<'a> Ending<'a> {
    /// Takes apart the last [`ENDING_BYTES`] of a line (without its line end), or more of it.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Ending<'a>> {
        let rest = line.strip_suffix(b"\",\"v\":1}")?;
        let (rest, name) = rest.split_at(rest.iter().rposition(|&byte| byte == b'"')? + 1);
        let kind = EntryKind::parse(name)?;
        let rest = rest.strip_suffix(b",\"type\":\"")?;
        let (rest, digits) = rest.split_at(rest.iter().rposition(|byte| !byte.is_ascii_digit())? + 1);
        let seq = parse_u64(digits)?;
        let (rest, prev) = rest.strip_suffix(b"\",\"seq\":")?.split_at_checked_back(HEX)?;
        let prev = parse_hash(prev)?;
        let rest = rest.strip_suffix(b"\",\"prev\":\"")?;
        let after_hash = &line[rest.len() + 1..];
        let (rest, hash) = rest.split_at_checked_back(HEX)?;
        let hash = parse_hash(hash)?;
        let before_hash = rest.strip_suffix(b",\"hash\":\"")?;
        Some(Ending { seq, hash, kind, prev, before_hash, after_hash })
    }
}

/// Separates `BODY,"call":"ID"` into body and id. A body cannot end in this form by itself: inside a string the
/// quotes would be escaped, and inside an object a brace would follow.
fn split_call(text: &[u8]) -> (&[u8], Option<&str>) {
    let split = || {
        let inner = text.strip_suffix(b"\"")?;
        let (rest, id) = inner.split_at(inner.iter().rposition(|&byte| !is_call_byte(byte))? + 1);
        let body = rest.strip_suffix(b",\"call\":\"")?;
        if id.is_empty() { None } else { Some((body, std::str::from_utf8(id).ok()?)) }
    };
    match split() {
        Some((body, id)) => (body, Some(id)),
        None => (text, None),
    }
}

#[inline]
pub(crate) fn is_call_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':')
}

/// Reads a hash, in lower case only: the hash member is the one part of a line that no hash covers.
pub(crate) fn parse_hash(digits: &[u8]) -> Option<Hash> {
    if digits.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    Hash::from_hex(digits).ok()
}

/// Reads an integer as canonical JSON writes it.
pub(crate) fn parse_u64(digits: &[u8]) -> Option<u64> {
    if digits.len() > 1 && digits.first() == Some(&b'0') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The deepest nesting in JSON bytes, found without recursion.
fn depth(json: &[u8]) -> usize {
    let (mut level, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for &byte in json {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b']' | b'}' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Splitting counted from the end.
trait SplitBack {
    fn split_at_checked_back(&self, count: usize) -> Option<(&[u8], &[u8])>;
}

impl SplitBack for [u8] {
    fn split_at_checked_back(&self, count: usize) -> Option<(&[u8], &[u8])> {
        Some(self.split_at(self.len().checked_sub(count)?))
    }
}

#[cfg(test)]
mod tests;
