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

use helve_core::json_text::write_u64;
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
    write_inside(out, value, 0)
}

/// The same for a value that stands inside so many arrays and objects.
pub(crate) fn write_inside<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
    levels: usize,
) -> Result<(), StoreError> {
    // A value that writes another while it is written finds none, and makes its own.
    let mut members = MEMBERS.take();
    members.clear();
    let written = value.serialize(Writer::new(out, &mut members, MAX_DEPTH.saturating_sub(levels)));
    if members.capacity() <= MOST_MEMBERS {
        MEMBERS.set(members);
    }
    Ok(written?)
}

thread_local! {
    /// Room for what is known of the objects that are open.
    static MEMBERS: Cell<Vec<Member>> = const { Cell::new(Vec::new()) };
}

/// Compares two texts in UTF-8 by their UTF-16 code units without converting them.
///
/// UTF-8 bytes compare like code points. That differs from UTF-16 in one place: characters beyond U+FFFF (lead byte
/// F0 and up) are surrogates there, and sort before U+E000..U+FFFF (lead bytes EE and EF).
#[inline]
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first(), b.first()) {
        // Most keys differ at once.
        (Some(x), Some(y)) if x != y && *x.max(y) < 0xEE => x.cmp(y),
        _ => utf16_order_by_bytes(a, b),
    }
}

fn utf16_order_by_bytes(a: &[u8], b: &[u8]) -> Ordering {
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

#[cfg(test)]
mod tests;
