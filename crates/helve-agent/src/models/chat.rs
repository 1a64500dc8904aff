//! Chat completions: OpenAI's older format, which nearly every server speaks in its own way.
//!
//! So the reader takes what is there: an index or none, a name of a call or none, arguments as text or as an object, usage in
//! the last chunk or in each, an end that is said or not.

use helve::export::Format;
use serde_json::{Value, json};

use super::draft::Draft;
use super::fault::Fault;
use super::kept::{Written, written};
use super::wire::{
    Manner, Reader, args_text, data_url, index_of, number_at, other, split_pictures, text_of, tools,
};
use crate::model::{Card, Request};
use crate::talk::{Message, ModelMessage, Picture, Stop, ToolAnswer, Usage};

/// The pictures that are taken.
pub(super) const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What stands where an answer would be empty, which some servers refuse.
const NOTHING: &str = "(nothing)";
/// What is added to a call or an answer by servers that want it back: the member's name on the wire is the name here.
const SIGNED: &str = "extra_content";
const REASONING: &str = "reasoning_content";

pub(super) fn body(request: &Request<'_>, manner: &Manner) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    for message in request.messages {
        match message {
            Message::User(user) => messages.push(json!({
                "role": "user",
                "content": content(&user.text, &user.images, manner),
            })),
            Message::Model(model) => messages.push(from_model(model, &manner.card)),
            Message::Results { results } => push_results(results, manner, &mut messages),
        }
    }
    let mut body = json!({
        "model": manner.card.name,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    let tools = tools(request, Format::OpenAi);
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
        if !request.may_call {
            body["tool_choice"] = json!("none");
        }
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(most) = request.max_output {
        // OpenAI's newer models refuse the old word, and other servers do not know the new one.
        body[if manner.original { "max_completion_tokens" } else { "max_tokens" }] = json!(most);
    }
    body
}

fn content(text: &str, images: &[Picture], manner: &Manner) -> Value {
    let (text, shown) = split_pictures(text, images, manner, PICTURES);
    if shown.is_empty() {
        return json!(text);
    }
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(json!({"type": "text", "text": text}));
    }
    parts.extend(
        shown.iter().map(|picture| json!({"type": "image_url", "image_url": {"url": data_url(picture)}})),
    );
    Value::Array(parts)
}

fn from_model(message: &ModelMessage, card: &Card) -> Value {
    let mut out = json!({"role": "assistant", "content": message.text});
    let mut calls = Vec::new();
    for part in written(message, card) {
        match part {
            Written::Call(call, extra) => {
                let function = json!({"name": call.name, "arguments": args_text(call)});
                let mut written = json!({"id": call.id, "type": "function", "function": function});
                if let Some(extra) = extra {
                    written[SIGNED] = extra;
                }
                calls.push(written);
            }
            // Servers whose models think between calls want the thoughts back with the calls, and with them alone.
            Written::Own(own) if !message.calls.is_empty() && own.get(REASONING).is_some() => {
                out[REASONING] = own[REASONING].clone();
            }
            Written::Own(_) | Written::Text(..) => {}
        }
    }
    if !calls.is_empty() {
        if message.text.is_empty() {
            out["content"] = Value::Null;
        }
        out["tool_calls"] = Value::Array(calls);
    } else if message.text.is_empty() {
        out["content"] = json!(NOTHING);
    }
    out
}

/// A result is text here. Its pictures follow in a message of the user, which is where they are taken.
fn push_results(results: &[ToolAnswer], manner: &Manner, messages: &mut Vec<Value>) {
    let mut pictures = Vec::new();
    for result in results {
        let (mut text, shown) = split_pictures(&result.text, &result.images, manner, PICTURES);
        if !shown.is_empty() {
            text.push_str("\n[Pictures of this result follow below.]");
            pictures
                .push(json!({"type": "text", "text": format!("Pictures of the result of {}:", result.id)}));
            pictures.extend(
                shown.iter().map(|one| json!({"type": "image_url", "image_url": {"url": data_url(one)}})),
            );
        }
        messages.push(json!({"role": "tool", "tool_call_id": result.id, "content": text}));
    }
    if !pictures.is_empty() {
        messages.push(json!({"role": "user", "content": pictures}));
    }
}

/// Reads chunks.
#[derive(Default)]
pub(super) struct Chat {
    /// Where the calls are that the server counts: its index, ours.
    places: Vec<(u64, usize)>,
    /// Where the thoughts are kept.
    thoughts: Option<usize>,
}

impl Reader for Chat {
    fn take(&mut self, value: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        draft.answers(value.get("model").and_then(Value::as_str));
        for usage in [value.get("usage"), value.pointer("/x_groq/usage")].into_iter().flatten() {
            if usage.is_object() {
                draft.usage = usage_of(usage);
            }
        }
        let Some(choices) = value.get("choices").and_then(Value::as_array) else { return Ok(()) };
        draft.begun = true;
        let first = choices.iter().find(|choice| index_of(choice, "index").unwrap_or(0) == 0);
        let Some(choice) = first else { return Ok(()) };
        // A chunk has a delta; an answer that came whole has a message of the same shape.
        for delta in [choice.get("delta"), choice.get("message")].into_iter().flatten() {
            self.delta(delta, draft)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            draft.stop = Some(match reason {
                "stop" => Stop::Done,
                "tool_calls" | "function_call" => Stop::Calls,
                "length" => Stop::Length,
                "content_filter" => Stop::Refused,
                "error" => return Err(Fault::broken("The provider broke the answer off.")),
                word => other(word),
            });
        }
        Ok(())
    }
}

impl Chat {
    fn delta(&mut self, delta: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        for (key, kept) in [(REASONING, true), ("reasoning", false)] {
            let thought = text_of(delta, key);
            if thought.is_empty() {
                continue;
            }
            draft.thought(thought)?;
            if kept {
                let at = match self.thoughts {
                    Some(at) => at,
                    None => *self.thoughts.insert(draft.own(json!({}))?),
                };
                draft.extend_own(at, REASONING, thought)?;
            }
            // Some servers say the same under both names.
            break;
        }
        match delta.get("content") {
            Some(Value::String(text)) => draft.text(text)?,
            Some(Value::Array(parts)) => {
                for part in parts {
                    draft.text(text_of(part, "text"))?;
                }
            }
            _ => {}
        }
        let refusal = text_of(delta, "refusal");
        if !refusal.is_empty() {
            draft.refusal(refusal)?;
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, draft)?;
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        let (id, function) = (text_of(call, "id"), call.get("function").unwrap_or(&Value::Null));
        let name = text_of(function, "name");
        let index = index_of(call, "index");
        let known = match index {
            Some(index) => self.places.iter().rev().find(|place| place.0 == index).map(|place| place.1),
            // Without an index, a piece with no name of its own goes on with the last call.
            None if id.is_empty() && name.is_empty() => draft.calls().checked_sub(1),
            None => (0..draft.calls()).rev().find(|at| !id.is_empty() && draft.id_of(*at) == id),
        };
        // Some servers count all their calls as 0: another name with another tool is another call.
        let known = known.filter(|at| {
            let other = !id.is_empty() && !draft.id_of(*at).is_empty() && draft.id_of(*at) != id;
            !other || name.is_empty()
        });
        let at = match known {
            Some(at) => {
                draft.id(at, id)?;
                draft.name(at, name)?;
                at
            }
            None => {
                let at = draft.call(id, name)?;
                if let Some(index) = index {
                    self.places.push((index, at));
                }
                at
            }
        };
        match function.get("arguments") {
            Some(Value::String(text)) => draft.args(at, text)?,
            Some(object @ Value::Object(_)) => draft.args(at, &object.to_string())?,
            _ => {}
        }
        match call.get(SIGNED) {
            Some(extra) if !extra.is_null() => draft.attach(at, extra.clone()),
            _ => Ok(()),
        }
    }
}

fn usage_of(usage: &Value) -> Usage {
    let cached = number_at(usage, "/prompt_tokens_details/cached_tokens")
        .max(number_at(usage, "/prompt_cache_hit_tokens"));
    Usage {
        input: number_at(usage, "/prompt_tokens").saturating_sub(cached),
        cached,
        output: number_at(usage, "/completion_tokens"),
        ..Usage::default()
    }
}
