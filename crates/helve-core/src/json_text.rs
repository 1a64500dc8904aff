//! Pieces of JSON written by hand, for what is written with every call: texts and whole numbers. And how long a text would be.
//!
//! A text carries only the escapes that JSON requires, as `serde_json` and RFC 8785 have it.

use std::io;

use serde::Serialize;

/// How many bytes a value has as JSON, without writing it.
pub fn length(value: &(impl Serialize + ?Sized)) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail; of what is no JSON, the part before that counts.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Appends a text with its quotes; tells whether it is there as it is, without any escape.
#[inline]
pub fn write_string(out: &mut Vec<u8>, text: &str) -> bool {
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

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Whether nothing has to be escaped. Eight bytes are judged at once; where there are fewer left, some are judged twice.
#[inline]
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
pub fn write_u64(out: &mut Vec<u8>, mut value: u64) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_length_is_that_of_the_text() {
        for value in [json!(null), json!({"a": ["\n\u{1}\u{e4}", 1.5, {"b": "\""}]}), json!("")] {
            assert_eq!(length(&value), value.to_string().len(), "{value}");
        }
    }

    proptest! {
        #[test]
        fn what_needs_no_escape_is_seen_whole(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(vec![0x1f, 0x20, 0x21, 0x22, 0x23, 0x5b, 0x5c, 0x5d, 0xa2, 0xdc])],
            0..40,
        )) {
            prop_assert_eq!(is_plain(&bytes), !bytes.iter().any(|byte| needs_escape(*byte)));
        }

        #[test]
        fn texts_and_numbers_are_written_as_by_serde_json(
            text in "(\\PC|[\u{0}-\u{20}\"\\\\\u{7f}]){0,20}", number in any::<u64>(), bits in 0_u32..64,
        ) {
            let mut out = Vec::new();
            let plain = write_string(&mut out, &text);
            prop_assert_eq!(plain, out.len() == text.len() + 2);
            out.push(b' ');
            write_u64(&mut out, number >> bits);
            let expected = format!("{} {}", serde_json::to_string(&text).unwrap(), number >> bits);
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
