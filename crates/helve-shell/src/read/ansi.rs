//! Decoding the text between `$'` and `'`.

use std::iter::Peekable;
use std::str::Chars;

/// The decoded text, and whether it is exactly what the shell makes of it.
///
/// It is not exact where the result is no Unicode text, or is cut short at a NUL.
pub(super) fn decode(raw: &str) -> (String, bool) {
    let mut text = String::with_capacity(raw.len());
    let mut exact = true;
    let mut chars = raw.chars().peekable();
    while let Some(ch) = chars.next() {
        if ch != '\\' {
            text.push(ch);
            continue;
        }
        let Some(escape) = chars.next() else {
            text.push('\\');
            break;
        };
        let decoded = match escape {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'e' | 'E' => Some('\u{1b}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '\'' | '"' | '?' => Some(escape),
            '0'..='7' => {
                let first = escape.to_digit(8).unwrap_or_default();
                byte(number(&mut chars, first, 8, 2) & 0xff)
            }
            'x' if chars.peek().is_some_and(char::is_ascii_hexdigit) => byte(number(&mut chars, 0, 16, 2)),
            'u' if chars.peek().is_some_and(char::is_ascii_hexdigit) => scalar(number(&mut chars, 0, 16, 4)),
            'U' if chars.peek().is_some_and(char::is_ascii_hexdigit) => scalar(number(&mut chars, 0, 16, 8)),
            'c' => chars.next().filter(char::is_ascii).and_then(|ch| scalar(u32::from(ch) & 0x1f)),
            _ => {
                text.push('\\');
                Some(escape)
            }
        };
        exact &= decoded.is_some();
        text.push(decoded.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    (text, exact)
}

/// Up to `most` digits after those already in `value`.
fn number(chars: &mut Peekable<Chars<'_>>, mut value: u32, radix: u32, most: usize) -> u32 {
    for _ in 0..most {
        let Some(digit) = chars.peek().and_then(|ch| ch.to_digit(radix)) else { break };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        chars.next();
    }
    value
}

/// A single byte is a character of its own only in ASCII.
fn byte(value: u32) -> Option<char> {
    (value < 0x80).then(|| scalar(value)).flatten()
}

fn scalar(value: u32) -> Option<char> {
    char::from_u32(value).filter(|&ch| ch != '\0')
}
