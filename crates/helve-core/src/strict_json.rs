//! JSON read strictly: one document, no duplicate keys, no integer that would lose digits, bounded depth.
//!
//! `serde_json` already refuses lone surrogates, trailing bytes, comments and a byte-order mark. Duplicate keys it takes
//! silently and long integers it rounds; both are caught here.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is not acceptable, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong.
    pub reason: String,
    /// The byte at which it shows.
    pub at: usize,
    /// Counted from 1.
    pub line: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {}, byte {})", self.reason, self.line, self.at)
    }
}

/// Reads one JSON document that nests at most `max_depth` levels (and never more than 127).
pub fn read(text: &str, max_depth: usize) -> Result<Value, Malformed> {
    let floats = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Strict { depth: max_depth, floats: &floats }.deserialize(&mut reader);
    let value = read.and_then(|value| reader.end().map(|()| value)).map_err(|error| {
        let message = error.to_string();
        let reason = message.split(" at line ").next().unwrap_or_default();
        let reason = if reason == "recursion limit exceeded" { "nested too deeply" } else { reason };
        let at = line_start(text, error.line()) + error.column().saturating_sub(1);
        Malformed { reason: reason.to_owned(), at: at.min(text.len()), line: error.line().max(1) }
    })?;
    // An integer that does not fit arrives as a float; without floats there is nothing to look for.
    match floats.get().then(|| lossy_integer(text)).flatten() {
        Some((at, literal)) => {
            let shown: String = literal.chars().take(40).collect();
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            let reason = format!("the integer {shown} would lose digits (quote it to keep it as text)");
            Err(Malformed { reason, at, line })
        }
        None => Ok(value),
    }
}

/// The byte at which a line, counted from 1, starts.
fn line_start(text: &str, line: usize) -> usize {
    let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    match line.checked_sub(2) {
        Some(nth) => newlines.map(|(at, _)| at + 1).nth(nth).unwrap_or(text.len()),
        None => 0,
    }
}

/// The first integer literal of a valid text whose value the reader cannot hold exactly.
fn lossy_integer(text: &str) -> Option<(usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let from = at;
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                {
                    at += 1;
                }
                let literal = &text[from..at];
                if loses_digits(literal) {
                    return Some((from, literal));
                }
            }
            _ => at += 1,
        }
    }
    None
}

fn loses_digits(literal: &str) -> bool {
    let is_integer = literal.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    let fits = literal.parse::<i64>().is_ok() || literal.parse::<u64>().is_ok();
    is_integer && !fits && literal.parse::<f64>().is_ok_and(|number| format!("{number:.0}") != literal)
}

/// Whether an already parsed value nests deeper than `limit` levels.
pub fn deeper_than(value: &Value, limit: usize) -> bool {
    let Some(below) = limit.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| deeper_than(item, below)),
        Value::Object(members) => members.values().any(|member| deeper_than(member, below)),
        _ => false,
    }
}

#[derive(Clone, Copy)]
struct Strict<'f> {
    depth: usize,
    floats: &'f Cell<bool>,
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Strict { depth, ..self }),
            None => Err(E::custom("nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.floats.set(true);
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if members.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "duplicate key {:?}",
                    key.chars().take(60).collect::<String>()
                )));
            }
            let value = map.next_value_seed(inner)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    fn refusal(text: &str) -> String {
        match read(text, 8) {
            Err(malformed) => malformed.reason,
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn takes_plain_json() {
        let text = r#" {"a":[1,-2,0.5,null,true,"x",18446744073709551615,1e3]} "#;
        assert_eq!(read(text, 8), Ok(json!({"a": [1, -2, 0.5, null, true, "x", u64::MAX, 1000.0]})));
    }

    #[test]
    fn refuses_duplicates_also_escaped_and_nested() {
        assert_eq!(refusal(r#"{"a":1,"a":2}"#), "duplicate key \"a\"");
        assert!(refusal(r#"{"command":"ls","c\u006fmmand":"rm"}"#).contains("duplicate"));
        assert!(refusal(r#"[{"x":{"a":1,"a":1}}]"#).contains("duplicate"));
    }

    #[test]
    fn refuses_what_is_not_one_document() {
        for text in
            ["", "{} {}", "{},", "[1,]", "// x\n1", "\u{feff}{}", "NaN", r#""\ud800""#, "1e400", "{'a':1}"]
        {
            refusal(text);
        }
    }

    #[test]
    fn refuses_depth_before_building() {
        assert!(refusal(&("[".repeat(9) + &"]".repeat(9))).contains("deeply"));
        assert!(read(&("[".repeat(8) + &"]".repeat(8)), 8).is_ok());
        assert!(refusal(&"{\"a\":".repeat(100_000)).contains("deeply"));
        assert_eq!(read(&"[".repeat(200), 1000).map_err(|m| m.reason), Err("nested too deeply".into()));
    }

    #[test]
    fn refuses_integers_that_would_lose_digits_and_says_where() {
        let found = read("{\n \"a\": 12345678901234567890123}", 8).map_err(|m| (m.line, m.at));
        assert_eq!(found, Err((2, 8)));
        assert_eq!(
            read("[\"12345678901234567890123\", 0.5]", 8),
            Ok(json!(["12345678901234567890123", 0.5]))
        );
    }

    #[test]
    fn depth_of_a_value() {
        assert!(!deeper_than(&json!([[1]]), 2));
        assert!(deeper_than(&json!([[[]]]), 2));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_what_it_accepts(text in "[\\[\\]{}:,\"a1 .e-]{0,24}") {
            match read(&text, 8) {
                Ok(value) => prop_assert_eq!(value, serde_json::from_str::<Value>(&text).unwrap()),
                Err(Malformed { reason, .. }) => {
                    let ours = ["duplicate", "deeply", "lose digits"].iter().any(|word| reason.contains(word));
                    prop_assert!(ours || serde_json::from_str::<Value>(&text).is_err());
                }
            }
        }
    }
}
