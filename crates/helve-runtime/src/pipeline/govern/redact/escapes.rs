//! Undoes the escapes of JSON in a text that is no JSON: one that is cut short, or written wrongly.
//!
//! Where its strings begin and end cannot be told, so escapes count everywhere. One pass: the text may be long, and whoever
//! sends it chooses what is in it.

/// The text with what each escape means in its place. What is no escape stays.
pub(super) fn undone(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (letter, length) = meant(&rest[at..]).unwrap_or(('\\', 1));
        out.push(letter);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// What the escape at the beginning of a text means, and its length.
fn meant(text: &str) -> Option<(char, usize)> {
    let letter = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = unit(text)?;
            return match char::from_u32(first.into()) {
                Some(letter) => Some((letter, 6)),
                None => {
                    let pair = [first, unit(text.get(6..)?)?];
                    Some((char::decode_utf16(pair).next()?.ok()?, 12))
                }
            };
        }
        _ => return None,
    };
    Some((letter, 2))
}

fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    // A sign would be read as part of a number.
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if all { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::undone;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_undone_wherever_they_stand() {
        for (text, meant) in [
            (r#"{"a":"\u0063\u00E9""#, "{\"a\":\"c\u{e9}\""),
            (r#"{"a": "\q\u0063", 'b': '\u0063'"#, r#"{"a": "\qc", 'b': 'c'"#),
            (r#"\u0063 "\ud83d\udd11""#, "c \"\u{1f511}\""),
            (r"\\u0063 \\\u0063", r"\u0063 \c"),
            (r"\ud83d \ud83d\u0063 \udd11 \u+123 \u00", r"\ud83d \ud83dc \udd11 \u+123 \u00"),
            ("no end\\", "no end\\"),
            ("\\\u{e9} \\u00\u{e9}", "\\\u{e9} \\u00\u{e9}"),
        ] {
            assert_eq!(undone(text), meant, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_json_escapes_is_undone(text in any::<String>(), cut in 0usize..9) {
            let json = serde_json::Value::from(text.as_str()).to_string();
            prop_assert_eq!(undone(&json), format!("\"{text}\""));
            let cut = json.floor_char_boundary(json.len().saturating_sub(cut));
            prop_assert!(undone(&json[..cut]).len() <= cut);
        }
    }
}
