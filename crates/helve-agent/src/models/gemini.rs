//! Gemini's `streamGenerateContent`: contents of parts. Arguments come whole; a signature of the model's thoughts may hang on
//! any part and has to come back on the same one.

use helve::export::Format;
use serde_json::{Value, json};

use super::draft::Draft;
use super::fault::Fault;
use super::kept::{Written, written};
use super::wire::{Manner, Reader, args_object, number_at, other, split_pictures, text_of, tools};
use crate::model::Request;
use crate::talk::{Message, ModelMessage, Picture, Stop, ToolAnswer, Usage};

const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp"];
const SIGNATURE: &str = "thoughtSignature";
/// What the API documents for calls that another model made, which have no signature.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// What stands where a message would be empty, which the API refuses.
const NOTHING: &str = "(nothing)";

pub(super) fn body(request: &Request<'_>, manner: &Manner) -> Value {
    let mut contents: Vec<Value> = Vec::new();
    for message in request.messages {
        let (role, parts) = match message {
            Message::User(user) => ("user", content(&user.text, &user.images, manner)),
            Message::Model(model) => ("model", from_model(model, manner)),
            Message::Results { results } => ("user", from_tools(results, manner)),
        };
        match contents.last_mut().filter(|last| last["role"] == role) {
            Some(last) => {
                if let Some(so_far) = last["parts"].as_array_mut() {
                    so_far.extend(parts);
                }
            }
            None => contents.push(json!({"role": role, "parts": parts})),
        }
    }
    for content in &mut contents {
        if let Some(parts) = content["parts"].as_array_mut()
            && parts.is_empty()
        {
            parts.push(json!({"text": NOTHING}));
        }
    }
    let mut body = json!({"contents": contents, "generationConfig": {}});
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": request.system}]});
    }
    let tools = tools(request, Format::Gemini);
    if !tools.is_empty() {
        body["tools"] = json!([{"functionDeclarations": tools}]);
        if !request.may_call {
            body["toolConfig"] = json!({"functionCallingConfig": {"mode": "NONE"}});
        }
    }
    if let Some(temperature) = request.temperature {
        body["generationConfig"]["temperature"] = json!(temperature);
    }
    if let Some(most) = request.max_output {
        body["generationConfig"]["maxOutputTokens"] = json!(most);
    }
    body
}

fn content(text: &str, images: &[Picture], manner: &Manner) -> Vec<Value> {
    let (text, shown) = split_pictures(text, images, manner, PICTURES);
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(json!({"text": text}));
    }
    parts.extend(shown.into_iter().map(inline));
    parts
}

fn inline(picture: &Picture) -> Value {
    json!({"inlineData": {"mimeType": picture.mime, "data": picture.data}})
}

/// The answers first, in the order of the calls, then their pictures.
fn from_tools(results: &[ToolAnswer], manner: &Manner) -> Vec<Value> {
    let (mut parts, mut pictures) = (Vec::new(), Vec::new());
    for result in results {
        let (text, shown) = split_pictures(&result.text, &result.images, manner, PICTURES);
        let response = if result.is_error { json!({"error": text}) } else { json!({"output": text}) };
        parts.push(json!({
            "functionResponse": {"id": result.id, "name": result.name, "response": response},
        }));
        if !shown.is_empty() {
            pictures.push(json!({"text": format!("Pictures of the result of {}:", result.name)}));
            pictures.extend(shown.into_iter().map(inline));
        }
    }
    parts.append(&mut pictures);
    parts
}

fn from_model(message: &ModelMessage, manner: &Manner) -> Vec<Value> {
    let mut parts = Vec::new();
    let wants_signature = !["gemini-1", "gemini-2"].iter().any(|old| manner.card.name.contains(old));
    let mut first = true;
    for part in written(message, &manner.card) {
        let (mut part, extra) = match part {
            Written::Text("", None) => continue,
            Written::Text(text, extra) => (json!({"text": text}), extra),
            Written::Call(call, extra) => {
                let function = json!({"id": call.id, "name": call.name, "args": args_object(call)});
                let missing = std::mem::take(&mut first) && extra.is_none() && wants_signature;
                (json!({"functionCall": function}), extra.or_else(|| missing.then(|| json!(NO_SIGNATURE))))
            }
            Written::Own(_) => continue,
        };
        if let Some(extra) = extra {
            part[SIGNATURE] = extra;
        }
        parts.push(part);
    }
    parts
}

/// Reads chunks.
#[derive(Default)]
pub(super) struct Gemini;

impl Reader for Gemini {
    fn take(&mut self, value: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
        draft.answers(value.get("modelVersion").and_then(Value::as_str));
        if let Some(usage) = value.get("usageMetadata") {
            draft.usage = usage_of(usage);
        }
        if let Some(reason) = value.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
            draft.begun = true;
            draft.refusal(&format!("[Gemini does not answer this: {}]", super::fault::shown(reason)))?;
            draft.stop = Some(Stop::Refused);
        }
        let candidates = value.get("candidates").and_then(Value::as_array);
        let Some(candidate) = candidates.and_then(|all| all.first()) else { return Ok(()) };
        draft.begun = true;
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            take_part(part, draft)?;
        }
        if let Some(reason) = candidate.get("finishReason").and_then(Value::as_str) {
            draft.stop = Some(match reason {
                "STOP" => Stop::Done,
                "MAX_TOKENS" => Stop::Length,
                "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
                | "IMAGE_SAFETY" => Stop::Refused,
                word => other(word),
            });
        }
        Ok(())
    }
}

fn take_part(part: &Value, draft: &mut Draft<'_>) -> Result<(), Fault> {
    let signature = part.get(SIGNATURE).filter(|signature| signature.is_string());
    if let Some(call) = part.get("functionCall") {
        let at = draft.call(text_of(call, "id"), text_of(call, "name"))?;
        if let Some(args) = call.get("args").filter(|args| !args.is_null()) {
            draft.args(at, &args.to_string())?;
        }
        return match signature {
            Some(signature) => draft.attach(at, signature.clone()),
            None => Ok(()),
        };
    }
    let text = text_of(part, "text");
    if part.get("thought") == Some(&Value::Bool(true)) {
        return draft.thought(text);
    }
    match signature {
        Some(signature) => draft.text_with(text, signature.clone()),
        None => draft.text(text),
    }
}

fn usage_of(usage: &Value) -> Usage {
    let cached = number_at(usage, "/cachedContentTokenCount");
    let input =
        number_at(usage, "/promptTokenCount").saturating_add(number_at(usage, "/toolUsePromptTokenCount"));
    Usage {
        input: input.saturating_sub(cached),
        cached,
        output: number_at(usage, "/candidatesTokenCount")
            .saturating_add(number_at(usage, "/thoughtsTokenCount")),
        ..Usage::default()
    }
}
