//! What the four wire formats have in common: a request is written from the talk, an answer is read from events.

use helve::export::{Format, export};
use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::fault::Fault;
use super::{anthropic, chat, gemini, responses};
use crate::model::{Card, Request};
use crate::talk::{Picture, Stop, ToolUse};

/// The wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// OpenAI's chat completions, which many others speak too.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's streamGenerateContent.
    Gemini,
}

/// What is true of all requests to one model.
#[derive(Debug)]
pub(super) struct Manner {
    pub(super) card: Card,
    /// It takes pictures.
    pub(super) pictures: bool,
    /// It is served by the company whose format it speaks, not by somebody who speaks it too.
    pub(super) original: bool,
    /// More members for each request.
    pub(super) extra: Map<String, Value>,
}

/// Reads the events of one answer.
pub(super) trait Reader: Send {
    /// Takes what one event says, or a whole answer that came at once.
    fn take(&mut self, value: &Value, draft: &mut Draft<'_>) -> Result<(), Fault>;
}

impl Wire {
    pub(super) fn reader(self) -> Box<dyn Reader> {
        match self {
            Wire::Chat => Box::<chat::Chat>::default(),
            Wire::Responses => Box::<responses::Responses>::default(),
            Wire::Anthropic => Box::<anthropic::Anthropic>::default(),
            Wire::Gemini => Box::<gemini::Gemini>::default(),
        }
    }

    /// The body of a request.
    pub(super) fn body(self, request: &Request<'_>, manner: &Manner) -> Value {
        let body = match self {
            Wire::Chat => chat::body(request, manner),
            Wire::Responses => responses::body(request, manner),
            Wire::Anthropic => anthropic::body(request, manner),
            Wire::Gemini => gemini::body(request, manner),
        };
        with_extra(body, &manner.extra)
    }
}

/// Adds what the owner wants to be in each request. What Helve writes itself stays as it is; objects are joined.
fn with_extra(mut body: Value, extra: &Map<String, Value>) -> Value {
    let Some(own) = body.as_object_mut() else { return body };
    for (key, value) in extra {
        match (own.get_mut(key), value) {
            (None, _) => {
                own.insert(key.clone(), value.clone());
            }
            (Some(Value::Object(ours)), Value::Object(more)) => {
                for (key, value) in more {
                    ours.entry(key).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
        }
    }
    body
}

/// The tools in one of the shapes.
pub(super) fn tools(request: &Request<'_>, format: Format) -> Vec<Value> {
    request.tools.iter().map(|spec| export(spec, format)).collect()
}

/// The arguments of a call as an object: servers that put a talk into a template fail on anything else. What is no object
/// stays readable in one.
pub(super) fn args_object(call: &ToolUse) -> Value {
    if call.args.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str(&call.args) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ => json!({"malformed_arguments": call.args}),
    }
}

/// The same as text: the model's own wherever that is an object.
pub(super) fn args_text(call: &ToolUse) -> String {
    match serde_json::from_str::<Map<String, Value>>(&call.args) {
        Ok(_) => call.args.clone(),
        Err(_) => args_object(call).to_string(),
    }
}

/// A picture as `data:` address.
pub(super) fn data_url(picture: &Picture) -> String {
    format!("data:{};base64,{}", picture.mime, picture.data)
}

/// What is said in place of a picture that a model does not take.
pub(super) fn no_picture(picture: &Picture) -> String {
    let bytes = picture.data.len() / 4 * 3;
    let mime: String = picture.mime.chars().filter(|c| c.is_ascii_graphic()).take(40).collect();
    format!(
        "[A picture ({mime}, about {bytes} bytes) stands here, but this model is not shown pictures of this kind.]"
    )
}

/// Text with what is said in place of the pictures that cannot be shown; the others.
pub(super) fn split_pictures<'a>(
    text: &str,
    pictures: &'a [Picture],
    manner: &Manner,
    kinds: &[&str],
) -> (String, Vec<&'a Picture>) {
    let mut text = text.to_owned();
    let mut shown = Vec::new();
    for picture in pictures {
        if manner.pictures && kinds.contains(&picture.mime.as_str()) {
            shown.push(picture);
        } else {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&no_picture(picture));
        }
    }
    (text, shown)
}

/// A string member.
pub(super) fn text_of<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A number at a path; 0 if there is none.
pub(super) fn number_at(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(count).unwrap_or(0)
}

/// A number of tokens. Some servers write a point behind it.
pub(super) fn count(value: &Value) -> Option<u64> {
    let written = || value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64);
    value.as_u64().or_else(written)
}

/// A provider's own word for why it stopped.
pub(super) fn other(word: &str) -> Stop {
    Stop::Other(word.chars().take(100).collect())
}

/// Where an event says which part it belongs to.
pub(super) fn index_of(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn arguments_are_an_object_for_the_provider() {
        let call = |args: &str| ToolUse { id: "1".into(), name: "t".into(), args: args.into() };
        for (args, text) in [
            ("", "{}"),
            (" \n", "{}"),
            (r#"{ "a": 1 }"#, r#"{ "a": 1 }"#),
            ("[1]", r#"{"malformed_arguments":"[1]"}"#),
            (r#"{"a": "#, r#"{"malformed_arguments":"{\"a\": "}"#),
        ] {
            assert_eq!(args_text(&call(args)), text);
            assert_eq!(args_object(&call(args)), serde_json::from_str::<Value>(text).unwrap());
        }
    }

    #[test]
    fn tokens_are_counted_however_they_are_written() {
        for (value, number) in [
            (json!({"n": 7}), 7),
            (json!({"n": 1_000_000.0}), 1_000_000),
            (json!({"n": 1e30}), u64::MAX),
            (json!({"n": -5}), 0),
            (json!({"n": -5.5}), 0),
            (json!({"n": "7"}), 0),
            (json!({}), 0),
        ] {
            assert_eq!(number_at(&value, "/n"), number, "{value}");
        }
    }

    #[test]
    fn the_owner_adds_and_does_not_replace() {
        let extra =
            json!({"model": "x", "thinking": {"type": "enabled"}, "generationConfig": {"a": 1, "b": 2}});
        let body = json!({"model": "m", "generationConfig": {"a": 0}});
        assert_eq!(
            with_extra(body, extra.as_object().unwrap()),
            json!({"model": "m", "generationConfig": {"a": 0, "b": 2}, "thinking": {"type": "enabled"}})
        );
    }
}
