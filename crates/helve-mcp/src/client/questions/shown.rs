//! A server's question as the caller is shown it: with the name of who asks it, in words that hide nothing and have an end.
//!
//! Labels are made harmless. What the caller would send back as it stands (names of fields, values to choose from) is not
//! changed: where it hides something, the question is refused. Members that the protocol does not have are left out.

use helve_core::QuestionKind;
use helve_core::harmless::harmless;
use serde_json::{Map, Value, json};

use crate::client::failure::bounded;
use crate::client::http::permitted;

/// Bytes of a message, of a label, of a name and of an address.
const MESSAGE: usize = 4_000;
const LABEL: usize = 500;
const NAME: usize = 200;
const ADDRESS: usize = 2_000;
/// Bytes of a form, and of what a model is to read.
const FORM: usize = 64 << 10;
const SAMPLE: usize = 4 << 20;
/// So many words a model may be asked for.
const MOST_TOKENS: u64 = 16_384;

const OF_A_FORM: &[&str] = &["mode", "message", "requestedSchema"];
const OF_AN_ADDRESS: &[&str] = &["mode", "message", "url", "elicitationId"];
const OF_A_SAMPLE: &[&str] = &[
    "messages",
    "modelPreferences",
    "systemPrompt",
    "includeContext",
    "temperature",
    "maxTokens",
    "stopSequences",
    "metadata",
    "tools",
    "toolChoice",
];

/// The parameters of a question as the caller gets them; else why nobody is asked.
pub(super) fn shown(server: &str, kind: QuestionKind, params: Value) -> Result<Value, String> {
    let Value::Object(mut params) = params else { return Err("it has no parameters".to_owned()) };
    match kind {
        QuestionKind::Roots => return Ok(Value::Object(params)),
        QuestionKind::Form => {
            keep(&mut params, OF_A_FORM);
            say(&mut params, "message", server, MESSAGE);
            if let Some(schema) = params.get_mut("requestedSchema") {
                fits(schema, FORM)?;
                form(schema)?;
            }
        }
        QuestionKind::Url => {
            keep(&mut params, OF_AN_ADDRESS);
            say(&mut params, "message", server, MESSAGE);
            let url = params.get("url").and_then(Value::as_str).unwrap_or_default();
            let url = permitted(url).map_err(|why| format!("its address is refused: {why}"))?;
            if url.as_str().len() > ADDRESS {
                return Err(format!("its address has more than {ADDRESS} bytes"));
            }
            params.insert("url".to_owned(), json!(url.as_str()));
            if let Some(id) = params.get("elicitationId").and_then(Value::as_str) {
                plain(id)?;
            }
        }
        QuestionKind::Sample => {
            keep(&mut params, OF_A_SAMPLE);
            say(&mut params, "systemPrompt", server, SAMPLE);
            // What other servers have said is not this one's.
            params.insert("includeContext".to_owned(), json!("none"));
            if let Some(tokens) = params.get_mut("maxTokens") {
                *tokens = json!(tokens.as_u64().unwrap_or(MOST_TOKENS).min(MOST_TOKENS));
            }
            let mut params = Value::Object(params);
            fits(&params, SAMPLE)?;
            clean(&mut params);
            return Ok(params);
        }
    }
    Ok(Value::Object(params))
}

fn keep(params: &mut Map<String, Value>, known: &[&str]) {
    params.retain(|name, _| known.contains(&name.as_str()));
}

/// Puts the name of the server before what it says.
fn say(params: &mut Map<String, Value>, name: &str, server: &str, most: usize) {
    let said = params.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = format!("The MCP server '{server}' asks: {}", bounded(said, most));
    params.insert(name.to_owned(), Value::String(said));
}

fn fits(value: &Value, most: usize) -> Result<(), String> {
    let bytes = serde_json::to_vec(value).map_or(usize::MAX, |text| text.len());
    if bytes > most { Err(format!("it has more than {most} bytes")) } else { Ok(()) }
}

/// What a caller sends back as it stands.
fn plain(text: &str) -> Result<(), String> {
    if text.len() > NAME {
        return Err(format!("a name or a value in it has more than {NAME} bytes"));
    }
    if harmless(text) != text || text.contains('\n') {
        return Err("a name or a value in it has characters that can hide something".to_owned());
    }
    Ok(())
}

/// On one line.
fn label(text: &str) -> String {
    bounded(text, LABEL).replace(['\n', '\t'], " ")
}

/// Makes the labels of a form harmless; refuses what else hides something.
fn form(schema: &mut Value) -> Result<(), String> {
    match schema {
        Value::Object(members) => members.iter_mut().try_for_each(|(name, member)| {
            plain(name)?;
            match (name.as_str(), member) {
                ("title" | "description", Value::String(text)) => *text = label(text),
                ("enumNames", Value::Array(names)) => {
                    for name in names {
                        *name = Value::String(label(name.as_str().unwrap_or_default()));
                    }
                }
                (_, member) => form(member)?,
            }
            Ok(())
        }),
        Value::Array(items) => items.iter_mut().try_for_each(form),
        Value::String(text) => plain(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Makes every text harmless.
fn clean(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(clean),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::String(text) => *text = harmless(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_form_says_who_asks_and_hides_nothing() {
        let form = |name: &str, title: &str| {
            json!({"mode": "form", "_meta": {"helve": 1}, "message": "Helve asks\u{1b}[2J: allow?",
                "requestedSchema": {"type": "object", "required": [name], "properties": {(name): {
                    "type": "string", "title": title, "description": "a\u{202e}b", "enum": ["one"],
                    "enumNames": ["\u{7}One"]}}}})
        };
        assert_eq!(
            shown("s", QuestionKind::Form, form("title", "A\nB")),
            Ok(json!({"mode": "form", "message": "The MCP server 's' asks: Helve asks\\x1b[2J: allow?",
                "requestedSchema": {"type": "object", "required": ["title"], "properties": {"title": {
                    "type": "string", "title": "A B", "description": "a\\u{202e}b", "enum": ["one"],
                    "enumNames": ["\\x07One"]}}}}))
        );
        assert!(shown("s", QuestionKind::Form, form("a\u{1b}[2J", "A")).unwrap_err().contains("hide"));
        let long = shown("s", QuestionKind::Form, json!({"message": "x".repeat(1 << 20)})).unwrap();
        assert!(long["message"].as_str().unwrap().len() < MESSAGE + 100);
        let large = json!({"message": "", "requestedSchema": {"properties": vec!["x"; 1 << 16]}});
        assert!(shown("s", QuestionKind::Form, large).unwrap_err().contains("more than"));
    }

    #[test]
    fn only_addresses_that_are_encrypted_or_on_this_machine() {
        let of = |url: &str| {
            shown("s", QuestionKind::Url, json!({"message": "go", "url": url, "elicitationId": "1"}))
        };
        for good in ["https://example.test/a?b=c", "http://127.0.0.1:8080/"] {
            let asked = json!({"message": "The MCP server 's' asks: go", "url": good, "elicitationId": "1"});
            assert_eq!(of(good), Ok(asked));
        }
        assert_eq!(of("https://example.test/\u{1b}[2J").unwrap()["url"], "https://example.test/%1B[2J");
        let long = format!("https://example.test/{}", "x".repeat(ADDRESS));
        for bad in ["javascript:alert(1)", "file:///etc/passwd", "http://169.254.169.254/", "x", &long] {
            assert!(of(bad).unwrap_err().contains("its address"), "{bad}");
        }
    }

    #[test]
    fn a_model_is_asked_for_so_much_and_told_nothing_of_others() {
        let asked = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "a\u{1b}b"}}],
            "includeContext": "allServers", "maxTokens": 100_000_000, "more": 1});
        assert_eq!(
            shown("s", QuestionKind::Sample, asked),
            Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": "a\\x1bb"}}],
                "systemPrompt": "The MCP server 's' asks: ", "includeContext": "none",
                "maxTokens": MOST_TOKENS}))
        );
    }
}
