//! Text that came as structured blocks, the way model APIs write messages.
//!
//! What counts as a block says so: it has a `type` with `text` in it (`text`, `input_text`) or the `kind` `text`, and its text
//! in `text`, `content`, `parts` or `value`. A list of blocks is their text without anything between. Inside a block's
//! or a message's own list, plain strings and `{"text": …}` are text too. Anything else, and it is not text: an object that
//! somebody wants to see in a file is not taken apart.

use serde_json::{Map, Value};

/// Deeper than any message nests.
const MAX_DEPTH: usize = 6;
/// Keys that a block may have besides its text: they say something about it, they are not part of it.
const ABOUT: &[&str] = &["type", "kind", "role", "id", "annotations", "cache_control"];

/// The text of blocks; none if the value is anything else.
pub(super) fn text(value: &Value) -> Option<String> {
    let mut text = String::new();
    match value {
        Value::Array(blocks) if !blocks.is_empty() => {
            for block in blocks {
                put_block(block.as_object()?, MAX_DEPTH, &mut text)?;
            }
        }
        Value::Object(message) if !is_text(message) => match payload(message)? {
            list @ Value::Array(_) => put_inner(list, MAX_DEPTH, &mut text)?,
            _ => return None,
        },
        Value::Object(block) => put_block(block, MAX_DEPTH, &mut text)?,
        _ => return None,
    }
    Some(text)
}

/// Whether an object says that it is text.
fn is_text(block: &Map<String, Value>) -> bool {
    let says = |key: &str| block.get(key).and_then(Value::as_str);
    says("type").is_some_and(|kind| kind.to_ascii_lowercase().contains("text"))
        || says("kind") == Some("text")
}

/// The one value that holds the text; none if there are others that would be lost.
fn payload(block: &Map<String, Value>) -> Option<&Value> {
    let mut rest = block.iter().filter(|(key, _)| !ABOUT.contains(&key.as_str()));
    let (key, value) = rest.next()?;
    let fits = match key.as_str() {
        "text" => value.is_string(),
        "content" => value.is_string() || value.is_array(),
        "parts" => value.is_array(),
        "value" => value.as_str().is_some_and(|text| !text.is_empty()),
        _ => false,
    };
    (fits && rest.next().is_none()).then_some(value)
}

fn put_block(block: &Map<String, Value>, depth: usize, text: &mut String) -> Option<()> {
    if !is_text(block) {
        return None;
    }
    put_inner(payload(block)?, depth, text)
}

/// What is inside a block or a message.
fn put_inner(value: &Value, depth: usize, text: &mut String) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::String(part) => text.push_str(part),
        Value::Array(parts) if !parts.is_empty() => {
            for part in parts {
                put_inner(part, depth, text)?;
            }
        }
        Value::Object(block) if is_text(block) || block.contains_key("text") => {
            put_inner(payload(block)?, depth, text)?;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn blocks_of_every_api_are_text() {
        for (value, wanted) in [
            (json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab"),
            (json!({"type": "text", "text": "a"}), "a"),
            (json!([{"type": "input_text", "text": "a", "annotations": []}]), "a"),
            (json!({"kind": "text", "value": "a"}), "a"),
            (json!({"type": "text", "content": "a"}), "a"),
            (json!({"type": "text", "content": [{"type": "text", "text": "a"}, "b"]}), "ab"),
            (json!({"role": "user", "parts": [{"text": "a"}, {"text": ""}, {"text": "b"}]}), "ab"),
            (json!({"content": [{"type": "text", "text": "a"}]}), "a"),
            (json!([{"type": "text", "text": ""}]), ""),
        ] {
            assert_eq!(text(&value).as_deref(), Some(wanted), "{value}");
        }
    }

    #[test]
    fn what_may_be_meant_as_it_is_stays() {
        for value in [
            json!({"text": "a"}),
            json!([{"text": "a"}]),
            json!(["ls", "-la"]),
            json!({"content": "a"}),
            json!({"a": 1, "b": [true, null]}),
            json!([]),
            json!({}),
            json!([{"type": "text", "text": "a"}, {"type": "image", "data": "b"}]),
            json!([{"type": "text", "text": "a"}, "b"]),
            json!({"type": "text", "text": "a", "lang": "en"}),
            json!({"type": "text", "text": "a", "content": "b"}),
            json!({"type": "text", "value": ""}),
            json!({"type": "text"}),
        ] {
            assert_eq!(text(&value), None, "{value}");
        }
        let mut deep = json!("a");
        for _ in 0..10 {
            deep = json!({"type": "text", "content": [deep]});
        }
        assert_eq!(text(&deep), None);
    }
}
