//! How bytes become characters, and where lines end among them.
//!
//! In every encoding that is read here a line's end can be found without decoding, and decoding may begin anew after
//! any whole character. So a file may be entered in its middle.

use encoding_rs::{UTF_8, UTF_16BE, UTF_16LE};
use memchr::{memchr, memchr_iter, memrchr};

/// What stands for bytes that are no character.
const REPLACEMENT: char = '\u{fffd}';

/// An encoding whose state is empty between characters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Coding {
    Utf8,
    Utf16 {
        big: bool,
    },
    /// One of the older ones, in all of which the bytes of `\n` and `\r` stand for nothing else.
    Other(&'static encoding_rs::Encoding),
}

/// What follows the bytes that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// More of the same line.
    More,
    /// The line's end.
    LineEnd,
    /// The end of the file.
    FileEnd,
}

/// A line's end: where its text stops, and where the next line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineEnd {
    pub(super) stop: usize,
    pub(super) next: usize,
}

impl Coding {
    /// Its name by the WHATWG standard.
    pub(super) fn name(self) -> &'static str {
        match self {
            Coding::Utf8 => UTF_8.name(),
            Coding::Utf16 { big: true } => UTF_16BE.name(),
            Coding::Utf16 { big: false } => UTF_16LE.name(),
            Coding::Other(encoding) => encoding.name(),
        }
    }

    /// Bytes of the smallest unit.
    pub(super) fn unit(self) -> usize {
        if matches!(self, Coding::Utf16 { .. }) { 2 } else { 1 }
    }

    /// The unit at `at`, if all of it is there.
    pub(super) fn unit_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        match self {
            Coding::Utf16 { big } => {
                let pair = [*bytes.get(at)?, *bytes.get(at + 1)?];
                Some(if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
            }
            _ => bytes.get(at).copied().map(u16::from),
        }
    }

    /// The first line's end at or after `from`: `\n` or `\r\n`. A `\r` alone is text, as for everybody who counts lines.
    pub(super) fn next_end(self, bytes: &[u8], from: usize) -> Option<LineEnd> {
        let newline = match self {
            Coding::Utf16 { .. } => {
                (from..bytes.len()).step_by(2).find(|at| self.unit_at(bytes, *at) == Some(0x0a))?
            }
            _ => from + memchr(b'\n', bytes.get(from..)?)?,
        };
        let unit = self.unit();
        let before = newline.checked_sub(unit).filter(|before| *before >= from);
        let pair = before.filter(|before| self.unit_at(bytes, *before) == Some(0x0d));
        Some(LineEnd { stop: pair.unwrap_or(newline), next: newline + unit })
    }

    /// How many lines end in `bytes`, and where the last of them ends.
    pub(super) fn count_ends(self, bytes: &[u8]) -> (u64, usize) {
        match self {
            Coding::Utf16 { .. } => {
                let (mut count, mut last) = (0u64, 0usize);
                for at in (0..bytes.len()).step_by(2) {
                    if self.unit_at(bytes, at) == Some(0x0a) {
                        count += 1;
                        last = at + 2;
                    }
                }
                (count, last)
            }
            _ => {
                let count = memchr_iter(b'\n', bytes).count() as u64;
                (count, memrchr(b'\n', bytes).map_or(0, |at| at + 1))
            }
        }
    }

    /// Decodes the whole characters at the start of `bytes` onto `out` and says how many bytes those are. Where nothing
    /// more of the line follows that is all of them, and an unfinished character is replaced.
    pub(super) fn decode(self, bytes: &[u8], then: Then, out: &mut String) -> usize {
        match self {
            Coding::Utf8 => decode_utf8(bytes, then != Then::More, out),
            Coding::Utf16 { .. } => self.decode_utf16(bytes, then != Then::More, out),
            Coding::Other(encoding) => decode_other(encoding, bytes, then, out),
        }
    }

    fn decode_utf16(self, bytes: &[u8], last: bool, out: &mut String) -> usize {
        let mut at = 0;
        while let Some(unit) = self.unit_at(bytes, at) {
            if !(0xd800..0xe000).contains(&unit) {
                out.push(char::from_u32(u32::from(unit)).unwrap_or(REPLACEMENT));
                at += 2;
                continue;
            }
            let next = self.unit_at(bytes, at + 2);
            if unit < 0xdc00 && next.is_none() && !last {
                return at;
            }
            match next.filter(|next| unit < 0xdc00 && (0xdc00..0xe000).contains(next)) {
                Some(low) => {
                    let code = 0x10000 + ((u32::from(unit) - 0xd800) << 10) + (u32::from(low) - 0xdc00);
                    out.push(char::from_u32(code).unwrap_or(REPLACEMENT));
                    at += 4;
                }
                None => {
                    out.push(REPLACEMENT);
                    at += 2;
                }
            }
        }
        if last && at < bytes.len() {
            // Half a unit at the end; after half a pair it is part of the same wrong character.
            if !bytes.len().checked_sub(3).is_some_and(|at| self.high_at(bytes, at)) {
                out.push(REPLACEMENT);
            }
            at = bytes.len();
        }
        at
    }

    /// Whether the first half of a pair is at `at`.
    fn high_at(self, bytes: &[u8], at: usize) -> bool {
        self.unit_at(bytes, at).is_some_and(|unit| (0xd800..0xdc00).contains(&unit))
    }
}

fn decode_utf8(bytes: &[u8], last: bool, out: &mut String) -> usize {
    let mut at = 0;
    loop {
        match std::str::from_utf8(&bytes[at..]) {
            Ok(text) => {
                out.push_str(text);
                return bytes.len();
            }
            Err(error) => {
                let valid = at + error.valid_up_to();
                out.push_str(std::str::from_utf8(&bytes[at..valid]).unwrap_or_default());
                match error.error_len() {
                    Some(wrong) => at = valid + wrong,
                    None if last => at = bytes.len(),
                    None => return valid,
                }
                out.push(REPLACEMENT);
            }
        }
    }
}

fn decode_other(
    encoding: &'static encoding_rs::Encoding,
    bytes: &[u8],
    then: Then,
    out: &mut String,
) -> usize {
    let start = out.len();
    // A character has at most four bytes, so one of these cuts is between two of them.
    for cut in 0..4usize.min(bytes.len()) {
        let part = &bytes[..bytes.len() - cut];
        let mut decoder = encoding.new_decoder_without_bom_handling();
        let mut give = |bytes: &[u8], last: bool, out: &mut String| {
            out.reserve(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len() * 4).max(16));
            let _ = decoder.decode_to_string(bytes, out, last);
        };
        give(part, false, out);
        match then {
            Then::FileEnd => {
                give(b"", true, out);
                return part.len();
            }
            // A wrong character may be followed by bytes of its own that stand for themselves.
            Then::LineEnd => {
                give(b"\n", false, out);
                out.pop();
                return part.len();
            }
            Then::More => {}
        }
        let whole = out.len();
        give(b"", true, out);
        if out.len() == whole {
            return part.len();
        }
        out.truncate(start);
    }
    0
}
