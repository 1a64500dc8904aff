//! OpenAI's responses: items instead of messages. Nothing is stored there; what the model thought comes back encrypted and is
//! sent again where it stood.

use helve::export::Format;
use serde_json::{Value, json};

use super::draft::{Draft, PARTS};
use super::fault::{Fault, said};
use super::kept::{Written, written};
use super::wire::{
    Manner, Reader, args_text, data_url, index_of, number_at, other, split_pictures, text_of, tools,
};
use crate::model::{Card, ModelErrorKind, Request};
use crate::talk::{Message, ModelMessage, Picture, Stop, Usage};

pub(super) fn body(request: &Request<'_>, manner: &Manner) -> Value {
    let mut input = Vec::new();
    for message in request.messages {
        match message {
            Message::User(user) => input.push(json!({
                "role": "user",
                "content": content(&user.text, &user.images, manner),
            })),
            Message::Model(model) => push_model(model, &manner.card, &mut input),
            Message::Results { results } => input.extend(results.iter().map(|result| {
                let output = match content(&result.text, &result.images, manner) {
                    // Plain text is what every server takes.
                    parts if parts.len() == 1 && text_of(&parts[0], "type") == "input_text" => {
                        parts[0]["text"].clone()
                    }
                    parts => Value::Array(parts),
                };
                json!({"type": "function_call_output", "call_id": result.id, "output": output})
            })),
        }
    }
    let mut body = json!({
        "model": manner.card.name,
        "input": input,
        "stream": true,
        "store": false,
    });
    if !request.system.is_empty() {
        body["instructions"] = json!(request.system);
    }
    let tools: Vec<Value> = tools(request, Format::OpenAi).into_iter().map(flat).collect();
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
        if !request.may_call {
            body["tool_choice"] = json!("none");
        }
    }
    if thinks(&manner.card.name) {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(most) = request.max_output {
        body["max_output_tokens"] = json!(most);
    }
    body
}

/// Whether a model has thoughts to give back. The others refuse to be asked for them.
fn thinks(name: &str) -> bool {
    let older = ["gpt-3", "gpt-4", "chatgpt-4"].iter().any(|start| name.starts_with(start));
    let numbered = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    numbered
        || name.starts_with("gpt-") && !older && !name.starts_with("gpt-oss")
        || name.starts_with("codex-")
}

/// A tool without the wrapping that chat completions want. Its schema is not of the strict kind, in which nothing is optional.
fn flat(tool: Value) -> Value {
    let mut flat = json!({"type": "function", "strict": false});
    for key in ["name", "description", "parameters"] {
        flat[key] = tool["function"][key].clone();
    }
    flat
}

fn content(text: &str, images: &[Picture], manner: &Manner) -> Vec<Value> {
    let (text, shown) = split_pictures(text, images, manner, super::chat::PICTURES);
    let mut parts = Vec::new();
    if !text.is_empty() || shown.is_empty() {
        parts.push(json!({"type": "input_text", "text": text}));
    }
    parts.extend(shown.iter().map(|picture| json!({"type": "input_image", "image_url": data_url(picture)})));
    parts
}

fn push_model(message: &ModelMessage, card: &Card, input: &mut Vec<Value>) {
    for part in written(message, card) {
        match part {
            Written::Text("", _) => {}
            Written::Text(text, _) => input.push(json!({
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text}],
            })),
            Written::Call(call, _) => input.push(json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": args_text(call),
            })),
            Written::Own(own) if text_of(&own, "type") == "reasoning" => input.push(own),
            Written::Own(_) => {}
        }
    }
}

/// Reads events.
#[derive(Default)]
pub(super) struct Responses {
    items: Vec<Item>,
}

/// An item so far.
struct Item {
    /// What events call it: its place, or its names where a server gives no places.
    keys: Vec<String>,
    kind: Kind,
    /// How many bytes of its text came in pieces.
    came: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Call(usize),
    Thought(usize),
}

impl Reader for Responses {
    fn take(&mut self, value: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        let null = Value::Null;
        let kind = text_of(value, "type");
        if kind.starts_with("response.") {
            draft.begun = true;
        }
        match kind {
            "response.output_item.added" | "response.output_item.done" => {
                let item = value.get("item").unwrap_or(&null);
                self.item(keys(value), item, kind.ends_with("done"), draft)?;
            }
            "response.output_text.delta" => {
                let delta = text_of(value, "delta");
                self.count(keys(value), delta)?;
                draft.text(delta)?;
            }
            "response.refusal.delta" => {
                let delta = text_of(value, "delta");
                self.count(keys(value), delta)?;
                draft.refusal(delta)?;
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                draft.thought(text_of(value, "delta"))?;
            }
            "response.function_call_arguments.delta" => {
                let keys = keys(value);
                let call = match self.find(&keys).map(|item| item.kind) {
                    Some(Kind::Call(call)) => call,
                    _ => self.new_call(keys, &null, draft)?,
                };
                draft.args(call, text_of(value, "delta"))?;
            }
            "response.created" | "response.in_progress" => {
                draft.answers(value.pointer("/response/model").and_then(Value::as_str));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(value.get("response").unwrap_or(&null), draft)?;
            }
            // An answer that came at once.
            "" if text_of(value, "object") == "response" => {
                draft.begun = true;
                self.end(value, draft)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// What an event calls the item that it speaks of.
fn keys(value: &Value) -> Vec<String> {
    if let Some(place) = index_of(value, "output_index") {
        return vec![format!("#{place}")];
    }
    let item = value.get("item").unwrap_or(&Value::Null);
    let names = [text_of(value, "item_id"), text_of(item, "id"), text_of(item, "call_id")];
    names.iter().filter(|name| !name.is_empty() && name.len() <= 256).map(|name| (*name).to_owned()).collect()
}

impl Responses {
    /// The item of that name; without a name, the last.
    fn find(&mut self, keys: &[String]) -> Option<&mut Item> {
        let mut items = self.items.iter_mut().rev();
        items.find(|item| keys.is_empty() || item.keys.iter().any(|key| keys.contains(key)))
    }

    fn push(&mut self, keys: Vec<String>, kind: Kind, came: usize) -> Result<(), Fault> {
        if self.items.len() == PARTS {
            return Err(Fault::too_many());
        }
        self.items.push(Item { keys, kind, came });
        Ok(())
    }

    /// Remembers how much of a message came in pieces, so that the whole does not say it twice.
    fn count(&mut self, keys: Vec<String>, delta: &str) -> Result<(), Fault> {
        match self.find(&keys) {
            Some(item) => {
                item.came += delta.len();
                Ok(())
            }
            None => self.push(keys, Kind::Text, delta.len()),
        }
    }

    fn new_call(&mut self, keys: Vec<String>, item: &Value, draft: &mut Draft<'_>) -> Result<usize, Fault> {
        let call = draft.call(text_of(item, "call_id"), text_of(item, "name"))?;
        self.push(keys, Kind::Call(call), 0)?;
        Ok(call)
    }

    fn item(
        &mut self,
        keys: Vec<String>,
        item: &Value,
        whole: bool,
        draft: &mut Draft<'_>,
    ) -> Result<(), Fault> {
        // One that begins and has no name is a new one.
        let nameless = keys.is_empty() && !whole;
        let known = self.find(&keys).filter(|_| !nameless).map(|item| (item.kind, item.came));
        match (text_of(item, "type"), known) {
            ("function_call", known) => {
                let call = match known {
                    Some((Kind::Call(call), _)) => call,
                    _ => self.new_call(keys, item, draft)?,
                };
                draft.id(call, text_of(item, "call_id"))?;
                draft.name(call, text_of(item, "name"))?;
                if whole || draft.args_of(call).is_empty() {
                    draft.all_args(call, text_of(item, "arguments"))?;
                }
            }
            ("reasoning", Some((Kind::Thought(own), _))) => draft.set_own(own, thought(item, whole))?,
            ("reasoning", _) => {
                let own = draft.own(thought(item, whole))?;
                self.push(keys, Kind::Thought(own), 0)?;
            }
            ("message", known) => {
                let came = match known {
                    Some((Kind::Text, came)) => came,
                    _ => {
                        self.push(keys, Kind::Text, 0)?;
                        0
                    }
                };
                if whole && came == 0 {
                    Self::message(item, draft)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn message(item: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
            draft.text(text_of(part, "text"))?;
            let refusal = text_of(part, "refusal");
            if !refusal.is_empty() {
                draft.refusal(refusal)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, response: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        draft.answers(response.get("model").and_then(Value::as_str));
        // What came in events is not said a second time.
        if self.items.is_empty() {
            let output = response.get("output").and_then(Value::as_array);
            for (place, item) in output.into_iter().flatten().enumerate() {
                self.item(vec![format!("#{place}")], item, true, draft)?;
            }
        }
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            let cached = number_at(usage, "/input_tokens_details/cached_tokens");
            draft.usage = Usage {
                input: number_at(usage, "/input_tokens").saturating_sub(cached),
                cached,
                output: number_at(usage, "/output_tokens"),
                ..Usage::default()
            };
        }
        let why = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        draft.stop = Some(match (text_of(response, "status"), why) {
            ("failed" | "cancelled", _) => {
                let fault = said(response).map(|said| said.fault("The provider", ""));
                return Err(fault.unwrap_or_else(|| {
                    Fault::last(
                        ModelErrorKind::Request,
                        "The provider broke the answer off and does not say why.",
                    )
                }));
            }
            ("incomplete", Some("max_output_tokens")) => Stop::Length,
            ("incomplete", Some("content_filter")) => Stop::Refused,
            ("incomplete", why) => other(why.unwrap_or("incomplete")),
            _ => Stop::Done,
        });
        draft.over = true;
        Ok(())
    }
}

/// A thought as it is sent again. Without its encrypted content the provider does not know it.
fn thought(item: &Value, whole: bool) -> Value {
    if !whole || text_of(item, "encrypted_content").is_empty() {
        return Value::Null;
    }
    let mut kept =
        json!({"type": "reasoning", "summary": item.get("summary").cloned().unwrap_or_else(|| json!([]))});
    for key in ["id", "encrypted_content"] {
        if let Some(value) = item.get(key) {
            kept[key] = value.clone();
        }
    }
    kept
}
