//! Decoding the text between `$'` and `'`.

/// The decoded text. Bytes that are no Unicode text become replacement characters; a NUL ends the text, as it does for
/// the shell.
pub(super) fn decode(raw: &str) -> String {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            decoded.push(byte);
            continue;
        }
        let Some((&escape, tail)) = rest.split_first() else {
            decoded.push(b'\\');
            break;
        };
        let before = decoded.len();
        rest = tail;
        match escape {
            b'a' => decoded.push(7),
            b'b' => decoded.push(8),
            b'e' | b'E' => decoded.push(27),
            b'f' => decoded.push(12),
            b'n' => decoded.push(b'\n'),
            b'r' => decoded.push(b'\r'),
            b't' => decoded.push(b'\t'),
            b'v' => decoded.push(11),
            b'\\' | b'\'' | b'"' | b'?' => decoded.push(escape),
            b'0'..=b'7' => {
                let (value, tail) = number(u32::from(escape - b'0'), rest, 8, 2);
                rest = tail;
                decoded.push(low_byte(value));
            }
            b'x' if rest.first() == Some(&b'{') => {
                // All digits up to the brace count, of their value the lowest byte.
                let (value, tail) = number(0, &rest[1..], 16, usize::MAX);
                rest = tail.strip_prefix(b"}").unwrap_or(tail);
                decoded.push(low_byte(value));
            }
            b'x' | b'u' | b'U' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                let most = match escape {
                    b'x' => 2,
                    b'u' => 4,
                    _ => 8,
                };
                let (value, tail) = number(0, rest, 16, most);
                rest = tail;
                if escape == b'x' {
                    decoded.push(low_byte(value));
                } else {
                    let ch = char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
                    decoded.extend_from_slice(ch.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            b'c' if !rest.is_empty() => {
                if let Some((&control, tail)) = rest.split_first() {
                    // A backslash takes the one behind it along.
                    rest = if control == b'\\' { tail.strip_prefix(b"\\").unwrap_or(tail) } else { tail };
                    decoded.push(if control == b'?' { 0x7f } else { control.to_ascii_uppercase() & 0x1f });
                }
            }
            _ => decoded.extend_from_slice(&[b'\\', escape]),
        }
        if decoded.get(before) == Some(&0) {
            decoded.truncate(before);
            break;
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Up to `most` digits after those already in `value`, and the bytes behind them.
fn number(mut value: u32, mut rest: &[u8], radix: u32, most: usize) -> (u32, &[u8]) {
    for _ in 0..most {
        let Some((&byte, tail)) = rest.split_first() else { break };
        let Some(digit) = char::from(byte).to_digit(radix) else { break };
        value = value.wrapping_mul(radix).wrapping_add(digit);
        rest = tail;
    }
    (value, rest)
}

fn low_byte(value: u32) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn escapes_are_decoded_as_bash_decodes_them() {
        for (raw, decoded) in [
            ("plain é", "plain é"),
            (r#"\a\b\e\E\f\n\r\t\v\\\'\"\?"#, "\u{7}\u{8}\u{1b}\u{1b}\u{c}\n\r\t\u{b}\\'\"?"),
            (r"\x72m\x4z\x", "rm\u{4}z\\x"),
            (r"\162\1624\8", "rr4\\8"),
            (r"\u72\U0001F600\uzz", "r\u{1f600}\\uzz"),
            (r"\xc3\xa9", "é"),
            (r"\x{72}m\x{2d\x{0000172}x\x{4z", "rm-rx\u{4}z"),
            (r"a\x{}b", "a"),
            (r"\xff", "\u{fffd}"),
            (r"\cA\ca\c?\c\\x", "\u{1}\u{1}\u{7f}\u{1c}x"),
            (r"a\0b", "a"),
            (r"a\x00b", "a"),
            (r"a\u0000b", "a"),
            (r"a\400b", "a"),
            (r"\q\é", "\\q\\é"),
            ("a\\", "a\\"),
        ] {
            assert_eq!(decode(raw), decoded, "{raw}");
        }
    }
}
