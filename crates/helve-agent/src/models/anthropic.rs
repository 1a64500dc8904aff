//! Anthropic's messages.
//!
//! Thoughts are signed there, and have to stand where they stood when they come back. The prefix of a talk is kept warm by
//! marks on what does not change: the tools, the system text, and the last block so far.

use helve::export::Format;
use serde_json::{Value, json};

use super::draft::{Draft, PARTS};
use super::fault::Fault;
use super::kept::{Written, written};
use super::wire::{
    Manner, Reader, args_object, count, index_of, number_at, other, split_pictures, text_of, tools,
};
use crate::model::{Card, Request};
use crate::talk::{Message, ModelMessage, Picture, Stop, ToolAnswer};

const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
/// What stands where a message would be empty, which the API refuses.
const NOTHING: &str = "(nothing)";

pub(super) fn body(request: &Request<'_>, manner: &Manner) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    for message in request.messages {
        let (role, blocks) = match message {
            Message::User(user) => ("user", content(&user.text, &user.images, manner)),
            Message::Model(model) => ("assistant", from_model(model, &manner.card)),
            Message::Results { results } => {
                ("user", results.iter().map(|result| from_tool(result, manner)).collect())
            }
        };
        match messages.last_mut().filter(|last| last["role"] == role) {
            Some(last) => {
                if let Some(so_far) = last["content"].as_array_mut() {
                    so_far.extend(blocks);
                }
            }
            None => messages.push(json!({"role": role, "content": blocks})),
        }
    }
    for message in &mut messages {
        if let Some(blocks) = message["content"].as_array_mut()
            && blocks.is_empty()
        {
            blocks.push(json!({"type": "text", "text": NOTHING}));
        }
    }
    let last = messages.last_mut().and_then(|message| message["content"].as_array_mut());
    mark(last.and_then(|blocks| blocks.iter_mut().rev().find(|block| !is_thought(block))));
    let mut tools = tools(request, Format::Anthropic);
    mark(tools.last_mut());
    let mut body = json!({
        "model": manner.card.name,
        "max_tokens": request.max_output.unwrap_or(manner.card.max_output),
        "stream": true,
        "messages": messages,
    });
    if !request.system.is_empty() {
        let mut system = json!({"type": "text", "text": request.system});
        mark(Some(&mut system));
        body["system"] = json!([system]);
    }
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
        if !request.may_call {
            body["tool_choice"] = json!({"type": "none"});
        }
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    body
}

/// Up to here the provider keeps the request for the next one.
fn mark(block: Option<&mut Value>) {
    if let Some(block) = block {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

fn is_thought(block: &Value) -> bool {
    matches!(text_of(block, "type"), "thinking" | "redacted_thinking")
}

fn content(text: &str, images: &[Picture], manner: &Manner) -> Vec<Value> {
    let (text, shown) = split_pictures(text, images, manner, PICTURES);
    let mut blocks: Vec<Value> = shown
        .iter()
        .map(|picture| {
            let source = json!({"type": "base64", "media_type": picture.mime, "data": picture.data});
            json!({"type": "image", "source": source})
        })
        .collect();
    if !text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    blocks
}

fn from_tool(result: &ToolAnswer, manner: &Manner) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": id(&result.id),
        "content": content(&result.text, &result.images, manner),
    });
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}

fn from_model(message: &ModelMessage, card: &Card) -> Vec<Value> {
    let mut blocks = Vec::new();
    for part in written(message, card) {
        match part {
            // The API refuses blocks of white space alone.
            Written::Text(text, _) if text.trim().is_empty() => {}
            Written::Text(text, _) => blocks.push(json!({"type": "text", "text": text})),
            Written::Call(call, _) => blocks.push(json!({
                "type": "tool_use",
                "id": id(&call.id),
                "name": call.name,
                "input": args_object(call),
            })),
            Written::Own(own) if is_thought(&own) => blocks.push(own),
            Written::Own(_) => {}
        }
    }
    blocks
}

/// A call's name in the signs that the API takes: a talk may have begun with another provider.
fn id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Reads events.
#[derive(Default)]
pub(super) struct Anthropic {
    /// The blocks that are not ended: the provider's index, what it is.
    open: Vec<(u64, Block)>,
    /// Tokens of the request: plain, written into the cache, read from it.
    input: [u64; 3],
}

#[derive(Clone, Copy)]
enum Block {
    Text,
    Call(usize),
    Thought(usize),
}

impl Reader for Anthropic {
    fn take(&mut self, value: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        let null = Value::Null;
        let index = index_of(value, "index").unwrap_or(0);
        match text_of(value, "type") {
            "message_start" => {
                draft.begun = true;
                let message = value.get("message").unwrap_or(&null);
                draft.answers(message.get("model").and_then(Value::as_str));
                self.usage(message.get("usage"), draft);
                // How much is said cannot be known yet; what stands here is a beginning.
                draft.usage.output = 0;
            }
            "content_block_start" => {
                draft.begun = true;
                let block = value.get("content_block").unwrap_or(&null);
                if let Some(kind) = Self::start(block, draft)? {
                    self.open.retain(|open| open.0 != index);
                    if self.open.len() == PARTS {
                        return Err(Fault::too_many());
                    }
                    self.open.push((index, kind));
                }
            }
            "content_block_delta" => {
                let delta = value.get("delta").unwrap_or(&null);
                let block = self.open.iter().find(|open| open.0 == index).map(|open| open.1);
                Self::delta(block, delta, draft)?;
            }
            "content_block_stop" => self.open.retain(|open| open.0 != index),
            "message_delta" => {
                self.usage(value.get("usage"), draft);
                let delta = value.get("delta").unwrap_or(&null);
                stop(delta, draft);
            }
            "message_stop" => draft.over = true,
            // An answer that came at once.
            "message" => {
                draft.begun = true;
                draft.answers(value.get("model").and_then(Value::as_str));
                for block in value.get("content").and_then(Value::as_array).into_iter().flatten() {
                    Self::start(block, draft)?;
                }
                self.usage(value.get("usage"), draft);
                stop(value, draft);
                draft.over = true;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Anthropic {
    /// A block begins, with whatever is in it already.
    fn start(block: &Value, draft: &mut Draft<'_>) -> Result<Option<Block>, Fault> {
        Ok(match text_of(block, "type") {
            "text" => {
                draft.text(text_of(block, "text"))?;
                Some(Block::Text)
            }
            "tool_use" => {
                let at = draft.call(text_of(block, "id"), text_of(block, "name"))?;
                match block.get("input") {
                    Some(Value::Object(input)) if input.is_empty() => {}
                    Some(input @ Value::Object(_)) => draft.args(at, &input.to_string())?,
                    Some(Value::String(text)) => draft.args(at, text)?,
                    _ => {}
                }
                Some(Block::Call(at))
            }
            "thinking" => {
                let thought = text_of(block, "thinking");
                draft.thought(thought)?;
                let own = json!({"type": "thinking", "thinking": thought, "signature": text_of(block, "signature")});
                Some(Block::Thought(draft.own(own)?))
            }
            "redacted_thinking" => {
                draft.own(json!({"type": "redacted_thinking", "data": text_of(block, "data")}))?;
                None
            }
            _ => None,
        })
    }

    fn delta(block: Option<Block>, delta: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        match (text_of(delta, "type"), block) {
            ("text_delta", _) => draft.text(text_of(delta, "text")),
            ("input_json_delta", Some(Block::Call(at))) => draft.args(at, text_of(delta, "partial_json")),
            ("thinking_delta", Some(Block::Thought(at))) => {
                let thought = text_of(delta, "thinking");
                draft.thought(thought)?;
                draft.extend_own(at, "thinking", thought)
            }
            ("signature_delta", Some(Block::Thought(at))) => {
                draft.extend_own(at, "signature", text_of(delta, "signature"))
            }
            _ => Ok(()),
        }
    }

    /// What was counted: the events say it bit by bit, and later ones count more.
    fn usage(&mut self, usage: Option<&Value>, draft: &mut Draft<'_>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        for (slot, key) in self.input.iter_mut().zip([
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ]) {
            if let Some(number) = usage.get(key).and_then(count) {
                *slot = number;
            }
        }
        draft.usage.input = self.input[0].saturating_add(self.input[1]);
        draft.usage.written = self.input[1];
        draft.usage.cached = self.input[2];
        if usage.get("output_tokens").is_some() {
            draft.usage.output = number_at(usage, "/output_tokens");
        }
    }
}

fn stop(value: &Value, draft: &mut Draft<'_>) {
    if let Some(reason) = value.get("stop_reason").and_then(Value::as_str) {
        draft.stop = Some(match reason {
            "end_turn" | "stop_sequence" => Stop::Done,
            "tool_use" => Stop::Calls,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused,
            word => other(word),
        });
    }
}
