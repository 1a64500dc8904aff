//! JSON as a tool's arguments want it: one document, no duplicate keys, bounded size and depth.
//!
//! `serde_json` already refuses lone surrogates, trailing bytes, comments and a byte-order mark; duplicate keys it
//! takes silently, so they are caught here, while the value is built.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is not acceptable JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StrictError {
    /// More bytes than allowed.
    TooLarge { bytes: usize, limit: u64 },
    /// Not JSON, or not strict enough.
    Malformed(String),
}

/// Parses `text` strictly.
pub(crate) fn parse(text: &str, max_bytes: u64, max_depth: u64) -> Result<Value, StrictError> {
    if text.len() as u64 > max_bytes {
        return Err(StrictError::TooLarge { bytes: text.len(), limit: max_bytes });
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let depth = usize::try_from(max_depth).unwrap_or(usize::MAX);
    let value = Strict { depth }.deserialize(&mut reader).map_err(malformed)?;
    reader.end().map_err(malformed)?;
    Ok(value)
}

fn malformed(error: serde_json::Error) -> StrictError {
    StrictError::Malformed(error.to_string())
}

/// The depth of an already parsed value, looked at no further than `limit`.
pub(crate) fn deeper_than(value: &Value, limit: u64) -> bool {
    let children: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return false,
    };
    if limit == 0 {
        return true;
    }
    let mut children = children;
    children.any(|child| deeper_than(child, limit - 1))
}

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Strict, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Strict { depth }),
            None => Err(E::custom("nested too deeply")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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
                return Err(A::Error::custom(format!("duplicate key {key:?}")));
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

    fn read(text: &str) -> Result<Value, StrictError> {
        parse(text, 1000, 8)
    }

    fn refusal(text: &str) -> String {
        match read(text) {
            Err(StrictError::Malformed(message)) => message,
            other => panic!("{text} gave {other:?}"),
        }
    }

    #[test]
    fn takes_plain_json() {
        assert_eq!(
            read(r#" {"a":[1,-2,0.5,null,true,"x"]} "#),
            Ok(json!({"a": [1, -2, 0.5, null, true, "x"]}))
        );
    }

    #[test]
    fn refuses_duplicates_also_escaped_and_nested() {
        assert!(refusal(r#"{"a":1,"a":2}"#).contains("duplicate key \"a\""));
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
    fn refuses_depth_and_size_before_building() {
        assert!(refusal(&("[".repeat(9) + &"]".repeat(9))).contains("deeply"));
        assert!(read(&("[".repeat(8) + &"]".repeat(8))).is_ok());
        refusal(&"{\"a\":".repeat(190));
        assert_eq!(read(&" ".repeat(1001)), Err(StrictError::TooLarge { bytes: 1001, limit: 1000 }));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_on_what_it_accepts(text in "[\\[\\]{}:,\"a1 .e-]{0,24}") {
            let ours = read(&text);
            let theirs = serde_json::from_str::<Value>(&text);
            match ours {
                Ok(value) => prop_assert_eq!(value, theirs.unwrap()),
                Err(StrictError::Malformed(message)) => {
                    prop_assert!(theirs.is_err() || message.contains("duplicate") || message.contains("deeply"));
                }
                Err(other) => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
