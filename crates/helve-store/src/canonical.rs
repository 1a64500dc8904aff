//! RFC 8785 canonical JSON: one value, one sequence of bytes.
//!
//! In goes anything that serde can serialize, out come the bytes that are hashed and written. Keys are sorted by their UTF-16
//! code units, numbers are written as ECMAScript writes them, strings carry only the escapes that JSON requires.
//!
//! One extension: integers that are held exactly (64 bits, signed or unsigned) are written as plain decimal digits
//! even beyond 2^53, where the RFC would round them to a double. For integers within ±2^53 the two rules agree.

mod serializer;

use std::cell::Cell;
use std::cmp::Ordering;

use serde::Serialize;

use crate::StoreError;
use serializer::{Member, Writer};

/// How deeply arrays and objects may be nested in a canonical value. Bounds the stack of writer and reader alike.
pub const MAX_DEPTH: usize = 256;
/// Room for so many open members is kept.
const MOST_MEMBERS: usize = 1024;

/// The canonical bytes of a value. Fails when it is nested deeper than [`MAX_DEPTH`] or is not JSON: a number that is not
/// finite, a key that is not text.
pub fn canonical_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, StoreError> {
    let mut out = Vec::new();
    write_canonical(&mut out, value)?;
    Ok(out)
}

/// Appends the canonical bytes of a value.
pub(crate) fn write_canonical<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), StoreError> {
    // A value that writes another while it is written finds none, and makes its own.
    let mut members = MEMBERS.take();
    members.clear();
    let written = value.serialize(Writer::new(out, &mut members));
    if members.capacity() <= MOST_MEMBERS {
        MEMBERS.set(members);
    }
    written
}

thread_local! {
    /// Room for what is known of the objects that are open.
    static MEMBERS: Cell<Vec<Member>> = const { Cell::new(Vec::new()) };
}

/// Compares two texts in UTF-8 by their UTF-16 code units without converting them.
///
/// UTF-8 bytes compare like code points. That differs from UTF-16 in one place: characters beyond U+FFFF (lead byte
/// F0 and up) are surrogates there, and sort before U+E000..U+FFFF (lead bytes EE and EF).
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: u8| {
        if byte >= 0xF0 {
            byte - 2
        } else if byte >= 0xEE {
            byte + 0x10
        } else {
            byte
        }
    };
    match a.iter().zip(b).find(|(x, y)| x != y) {
        Some((x, y)) => rank(*x).cmp(&rank(*y)),
        None => a.len().cmp(&b.len()),
    }
}

fn write_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_u64(out, value.unsigned_abs());
}

fn write_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
}

/// The two decimal digits of each number below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Appends an integer in decimal digits. Two at a time, because every entry has several long ones.
pub(crate) fn write_u64(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    while value >= 10 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    // A number with an odd count of digits has one left; of one with an even count nothing is, but of zero itself.
    if value > 0 || start == digits.len() {
        start -= 1;
        digits[start] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[start..]);
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Writes a string; tells whether it is there as it is.
fn write_string(out: &mut Vec<u8>, text: &str) -> bool {
    out.reserve(text.len() + 2);
    out.push(b'"');
    // Most text has nothing to escape.
    let plain = is_plain(text.as_bytes());
    if plain {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_escaped(out, text.as_bytes());
    }
    out.push(b'"');
    plain
}

/// Whether nothing has to be escaped. Eight bytes are judged at once; where there are fewer left, some are judged twice.
fn is_plain(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    // The top bit of a byte is set where the byte is below `least`; a byte that itself has it set is not.
    let below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word & TOPS;
    let plain = |word: u64| {
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        below(word, 0x20) | is(b'"') | is(b'\\') == 0
    };
    match (bytes.last_chunk::<8>(), bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(last), ..) => {
            bytes.as_chunks::<8>().0.iter().all(|chunk| plain(u64::from_le_bytes(*chunk)))
                && plain(u64::from_le_bytes(*last))
        }
        (None, Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            plain(u64::from(first) | (u64::from(last) << 32))
        }
        _ => !bytes.iter().any(|byte| needs_escape(*byte)),
    }
}

fn write_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut written = 0;
    for (index, &byte) in bytes.iter().enumerate().filter(|(_, byte)| needs_escape(**byte)) {
        out.extend_from_slice(&bytes[written..index]);
        written = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            other => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(other >> 4)]);
                out.push(HEX[usize::from(other & 15)]);
            }
        }
    }
    out.extend_from_slice(&bytes[written..]);
}

#[cfg(test)]
mod tests;
