//! Entries that are ready to be appended: of each the part of its line that does not depend on its place in the chain, made
//! before any lock is taken.
//!
//! In: entries. Out: finished lines, once it is known where they stand. All of a batch lies in one piece of memory, which whoever
//! writes again and again keeps and uses again.

use blake3::Hash;
use helve_core::json_text::{write_string, write_u64};
use serde::Serialize;

use crate::StoreError;
use crate::canonical::{write_canonical, write_inside};
use crate::line::{ENDING_BYTES, Entry, EntryKind, HEX, MAX_LINE_BYTES, MOST_CALL_BYTES, hex, is_call_byte};

/// What stands between the two parts of a line, before the digits of its hash and behind them.
const BEFORE_HASH: &[u8] = b",\"hash\":\"";
const BEHIND_HASH: &[u8] = b"\"";
/// Room for so many bytes is kept.
const MOST_KEPT: usize = 256 << 10;

/// Entries on their way into a journal, in their order.
#[derive(Debug, Default)]
pub struct Batch {
    /// How their lines begin, one behind the other.
    starts: Vec<u8>,
    /// Where each of them ends there.
    entries: Vec<(usize, EntryKind)>,
}

impl Batch {
    /// One entry alone.
    pub fn of<B: Serialize>(entry: &Entry<B>) -> Result<Batch, StoreError> {
        Batch::all(std::slice::from_ref(entry))
    }

    /// Entries next to each other.
    pub fn all<B: Serialize>(entries: &[Entry<B>]) -> Result<Batch, StoreError> {
        let mut batch = Batch::default();
        for Entry { kind, call, at_us, body } in entries {
            batch.put(*kind, call.as_deref(), *at_us, body)?;
        }
        Ok(batch)
    }

    /// Puts an entry behind the others. Fails when it is no JSON, or too long for a line; the others stay then.
    pub fn put<B: Serialize>(
        &mut self,
        kind: EntryKind,
        call: Option<&str>,
        at_us: u64,
        body: &B,
    ) -> Result<(), StoreError> {
        self.put_written(kind, call, at_us, |out| write_canonical(out, body))
    }

    /// The same for a body that writes its members itself, in the order of canonical JSON.
    pub fn put_members(
        &mut self,
        kind: EntryKind,
        call: Option<&str>,
        at_us: u64,
        write: impl FnOnce(&mut Members<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.put_written(kind, call, at_us, |out| {
            out.push(b'{');
            write(&mut Members { out, last: None, depth: 1 })?;
            out.push(b'}');
            Ok(())
        })
    }

    fn put_written(
        &mut self,
        kind: EntryKind,
        call: Option<&str>,
        at_us: u64,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let before = self.starts.len();
        let written = write_start(&mut self.starts, call, at_us, body);
        match written {
            Ok(()) => self.entries.push((self.starts.len(), kind)),
            Err(_) => self.starts.truncate(before),
        }
        written
    }

    /// Puts the entries of another batch behind the others, and leaves it empty.
    pub fn append(&mut self, other: &mut Batch) {
        let before = self.starts.len();
        self.starts.extend_from_slice(&other.starts);
        self.entries.extend(other.entries.iter().map(|(end, kind)| (before + end, *kind)));
        other.clear();
    }

    /// Takes all entries out. Room that is larger than usual goes with them.
    pub fn clear(&mut self) {
        if self.starts.capacity() > MOST_KEPT {
            *self = Batch::default();
        }
        self.starts.clear();
        self.entries.clear();
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends the finished lines, line ends included, to `out`. `count` entries stand before them, the last of which has the
    /// hash `prev`. Tells of each line its place and its hash, and gives how many entries there are then and the last hash.
    pub(crate) fn seal(
        &self,
        mut count: u64,
        prev: Hash,
        out: &mut Vec<u8>,
        mut placed: impl FnMut(u64, Hash),
    ) -> (u64, Hash) {
        let (mut last, mut digits, mut start) = (prev, hex(&prev), 0);
        for (end, kind) in &self.entries {
            count += 1;
            let from = out.len();
            out.extend_from_slice(self.starts.get(start..*end).unwrap_or_default());
            start = *end;
            let middle = out.len();
            out.extend_from_slice(b",\"prev\":\"");
            out.extend_from_slice(&digits);
            out.extend_from_slice(b"\",\"seq\":");
            write_u64(out, count);
            out.extend_from_slice(b",\"type\":\"");
            out.extend_from_slice(kind.as_str().as_bytes());
            out.extend_from_slice(b"\",\"v\":1}");
            last = blake3::hash(out.get(from..).unwrap_or_default());
            digits = hex(&last);
            splice(out, middle, &digits);
            out.push(b'\n');
            placed(count, last);
        }
        (count, last)
    }
}

/// Puts the hash of a line where it belongs, at `middle`.
fn splice(out: &mut Vec<u8>, middle: usize, digits: &[u8; HEX]) {
    const BYTES: usize = BEFORE_HASH.len() + HEX + BEHIND_HASH.len();
    let end = out.len();
    out.resize(end + BYTES, 0);
    out.copy_within(middle..end, middle + BYTES);
    let (before, rest) = out[middle..middle + BYTES].split_at_mut(BEFORE_HASH.len());
    let (hash, behind) = rest.split_at_mut(HEX);
    before.copy_from_slice(BEFORE_HASH);
    hash.copy_from_slice(digits);
    behind.copy_from_slice(BEHIND_HASH);
}

/// The name of a member, as it is written behind another one. [`key!`](crate::key) makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(&'static str);

impl Key {
    /// A name with the comma, the quotes and the colon around it.
    #[doc(hidden)]
    pub const fn written(text: &'static str) -> Key {
        Key(text)
    }

    /// The name alone.
    fn name(self) -> &'static str {
        self.0.get(2..self.0.len() - 2).unwrap_or_default()
    }
}

/// The name of a member: a literal that needs no escape.
#[macro_export]
macro_rules! key {
    ($name:literal) => {
        $crate::Key::written(concat!(",\"", $name, "\":"))
    };
}

/// The members of a body on their way. Whoever writes them knows their order.
#[derive(Debug)]
pub struct Members<'o> {
    out: &'o mut Vec<u8>,
    /// The one before: their names ascend.
    last: Option<Key>,
    /// How many objects and lists it is in, its own included.
    depth: usize,
}

impl Members<'_> {
    #[inline]
    fn name(&mut self, key: Key) {
        debug_assert!(self.last.map(Key::name) < Some(key.name()), "{key:?} after {:?}", self.last);
        let written = key.0.as_bytes();
        // The first has no comma before it.
        let from = usize::from(self.last.is_none());
        self.out.extend_from_slice(written.get(from..).unwrap_or_default());
        self.last = Some(key);
    }

    /// A text.
    pub fn text(&mut self, key: Key, text: &str) {
        self.name(key);
        let _ = write_string(self.out, text);
    }

    /// A number.
    pub fn number(&mut self, key: Key, number: u64) {
        self.name(key);
        write_u64(self.out, number);
    }

    /// What is canonical JSON already.
    pub fn json(&mut self, key: Key, json: &str) {
        self.name(key);
        self.out.extend_from_slice(json.as_bytes());
    }

    /// An object that writes its members itself.
    pub fn members(&mut self, key: Key, write: impl FnOnce(&mut Members<'_>)) {
        self.name(key);
        self.out.push(b'{');
        write(&mut Members { out: self.out, last: None, depth: self.depth + 1 });
        self.out.push(b'}');
    }

    /// A list of one such object.
    pub fn list_of_one(&mut self, key: Key, write: impl FnOnce(&mut Members<'_>)) {
        self.name(key);
        self.out.extend_from_slice(b"[{");
        write(&mut Members { out: self.out, last: None, depth: self.depth + 2 });
        self.out.extend_from_slice(b"}]");
    }

    /// Anything.
    pub fn any<T: Serialize + ?Sized>(&mut self, key: Key, value: &T) -> Result<(), StoreError> {
        self.name(key);
        write_inside(self.out, value, self.depth)
    }

    /// The same, where there is something.
    pub fn some<T: Serialize + ?Sized>(&mut self, key: Key, value: Option<&T>) -> Result<(), StoreError> {
        value.map_or(Ok(()), |value| self.any(key, value))
    }
}

fn write_start(
    out: &mut Vec<u8>,
    call: Option<&str>,
    at_us: u64,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let before = out.len();
    out.extend_from_slice(b"{\"at_us\":");
    write_u64(out, at_us);
    out.extend_from_slice(b",\"body\":");
    body(out)?;
    if let Some(call) = call {
        if call.is_empty() || call.len() > MOST_CALL_BYTES || !call.bytes().all(is_call_byte) {
            return Err(StoreError::BadCall(call.chars().take(140).collect()));
        }
        out.extend_from_slice(b",\"call\":\"");
        out.extend_from_slice(call.as_bytes());
        out.push(b'"');
    }
    let bytes = out.len() - before + ENDING_BYTES;
    if bytes > MAX_LINE_BYTES {
        return Err(StoreError::TooLarge { bytes, limit: MAX_LINE_BYTES });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
