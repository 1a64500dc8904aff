//! JSON text, read strictly: one document, no duplicate keys, no integer that would lose digits.
//!
//! What is wrong is told with line, column and a small excerpt. Nesting is bounded by `serde_json`'s own limit.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Why a text is not acceptable, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadJson {
    pub(super) reason: String,
    /// Counted from 1.
    pub(super) line: usize,
    /// Characters, counted from 1.
    pub(super) column: usize,
    /// The place with a caret below it.
    excerpt: String,
}

impl fmt::Display for BadJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}:\n{}", self.reason, self.line, self.column, self.excerpt)
    }
}

/// Reads one JSON document.
pub(super) fn read(text: &str) -> Result<Value, BadJson> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    let value = value.map_err(|error| {
        let message = error.to_string();
        let reason = message.split(" at line ").next().unwrap_or_default();
        let reason = match reason {
            "recursion limit exceeded" => "nested more than 127 levels deep (recursion limit exceeded)",
            reason => reason,
        };
        let line_start = line_start(text, error.line());
        bad(text, reason, line_start + error.column().saturating_sub(1))
    })?;
    match lossy_integer(text) {
        Some((at, literal)) => {
            let shown: String = literal.chars().take(40).collect();
            Err(bad(
                text,
                &format!("the integer {shown} would lose digits (quote it to keep it as text)"),
                at,
            ))
        }
        None => Ok(value),
    }
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                let shown: String = key.chars().take(60).collect();
                return Err(A::Error::custom(format_args!("duplicate key {shown:?}")));
            }
            let value = members.next_value_seed(Strict)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
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

/// The byte at which a line, counted from 1, starts.
fn line_start(text: &str, line: usize) -> usize {
    let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    match line.checked_sub(2) {
        Some(nth) => newlines.map(|(at, _)| at + 1).nth(nth).unwrap_or(text.len()),
        None => 0,
    }
}

/// Characters that an excerpt shows on either side.
const AROUND: usize = 30;

fn bad(text: &str, reason: &str, at: usize) -> BadJson {
    let at = text.floor_char_boundary(at.min(text.len()));
    let (before, after) = text.split_at(at);
    let line_before = before.rsplit('\n').next().unwrap_or_default();
    let line_after = after.split('\n').next().unwrap_or_default();
    let column = line_before.chars().count();
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let mut excerpt: String = line_before.chars().skip(column.saturating_sub(AROUND)).map(visible).collect();
    excerpt.extend(line_after.chars().take(AROUND).map(visible));
    excerpt.push('\n');
    excerpt.extend(std::iter::repeat_n(' ', column.min(AROUND)));
    excerpt.push('^');
    BadJson {
        reason: reason.to_owned(),
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: column + 1,
        excerpt,
    }
}
