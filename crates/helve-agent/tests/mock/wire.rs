//! What a model says, written in the four formats.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Reply;

/// What a model says, in no format.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Say {
    pub thought: String,
    pub text: String,
    pub calls: Vec<SayCall>,
    /// `done`, `calls`, `length` or `refused`; by itself what fits the calls.
    pub stop: Option<String>,
    pub usage: SayUsage,
    /// So many characters in each delta; all if 0.
    pub split: usize,
    /// The deltas of several calls come in turns.
    pub interleave: bool,
    /// How often each of the calls is there, with a number behind its id.
    pub times: usize,
}

/// A call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SayCall {
    /// None is written if there is none.
    #[serde(default)]
    pub id: Option<String>,
    pub name: String,
    /// The arguments; a string is sent as it is, whatever it holds.
    #[serde(default)]
    pub args: Value,
}

/// What it cost.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SayUsage {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

/// The content type and the body of a reply to a request for this path.
pub fn bytes(path: &str, reply: &Reply) -> (&'static str, Vec<u8>) {
    let events = "text/event-stream";
    let format = match path {
        path if path.contains(":streamGenerateContent") => Format::Gemini,
        path if path.ends_with("/responses") => Format::Responses,
        path if path.ends_with("/messages") => Format::Anthropic,
        _ => Format::Chat,
    };
    if let Some(body) = &reply.body {
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        return ("application/json", text.into_bytes());
    }
    if let Some(all) = &reply.events {
        let lines = all.iter().map(|event| match event {
            Value::String(text) => text.clone(),
            value => event_text(format, value),
        });
        return (events, lines.collect::<String>().into_bytes());
    }
    let Some(say) = &reply.say else { return ("application/json", Vec::new()) };
    let mut say = say.clone();
    if say.times > 0 {
        let numbered = |n: usize| {
            let number = move |call: &SayCall| SayCall {
                id: call.id.as_ref().map(|id| format!("{id}{n}")),
                ..call.clone()
            };
            say.calls.iter().map(number).collect::<Vec<_>>()
        };
        say.calls = (0..say.times).flat_map(numbered).collect();
    }
    if !reply.stream {
        return ("application/json", whole(format, &say).to_string().into_bytes());
    }
    let mut text: String =
        stream(format, &say, reply.done).iter().map(|event| event_text(format, event)).collect();
    if reply.done && format == Format::Chat {
        text.push_str("data: [DONE]\n\n");
    }
    (events, text.into_bytes())
}

fn event_text(format: Format, event: &Value) -> String {
    match event.get("type").and_then(Value::as_str) {
        Some(name) if matches!(format, Format::Anthropic | Format::Responses) => {
            format!("event: {name}\ndata: {event}\n\n")
        }
        _ => format!("data: {event}\n\n"),
    }
}

impl Say {
    fn stop(&self) -> &str {
        let by_itself = if self.calls.is_empty() { "done" } else { "calls" };
        self.stop.as_deref().unwrap_or(by_itself)
    }

    fn deltas(&self, text: &str) -> Vec<String> {
        if self.split == 0 || text.is_empty() {
            return vec![text.to_owned()];
        }
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(self.split).map(|chunk| chunk.iter().collect()).collect()
    }

    /// The arguments of the calls in deltas: which call, what.
    fn args(&self) -> Vec<(usize, String)> {
        let all: Vec<Vec<String>> = self.calls.iter().map(|call| self.deltas(&args_text(call))).collect();
        if !self.interleave {
            let each = all.into_iter().enumerate();
            return each.flat_map(|(at, deltas)| deltas.into_iter().map(move |delta| (at, delta))).collect();
        }
        let longest = all.iter().map(Vec::len).max().unwrap_or(0);
        let turns = (0..longest).flat_map(|turn| (0..all.len()).map(move |at| (at, turn)));
        turns.filter_map(|(at, turn)| Some((at, all[at].get(turn)?.clone()))).collect()
    }
}

fn args_text(call: &SayCall) -> String {
    match &call.args {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn args_value(call: &SayCall) -> Value {
    serde_json::from_str(&args_text(call)).unwrap_or_else(|_| json!({}))
}

fn stream(format: Format, say: &Say, done: bool) -> Vec<Value> {
    match format {
        Format::Chat => chat(say),
        Format::Responses => responses(say, done),
        Format::Anthropic => anthropic(say, done),
        Format::Gemini => gemini(say),
    }
}

fn whole(format: Format, say: &Say) -> Value {
    match format {
        Format::Chat => {
            let calls = say.calls.iter().map(|call| {
                let function = json!({"name": call.name, "arguments": args_text(call)});
                with_id(json!({"type": "function", "function": function}), "id", call)
            });
            let mut message = json!({"role": "assistant", "content": say.text});
            if !say.calls.is_empty() {
                message["tool_calls"] = calls.collect();
            }
            let choice = json!({"index": 0, "message": message, "finish_reason": chat_stop(say)});
            json!({"object": "chat.completion", "model": "mock-1", "choices": [choice], "usage": chat_usage(say)})
        }
        Format::Responses => response(say),
        Format::Anthropic => {
            let mut content = Vec::new();
            if !say.thought.is_empty() {
                content.push(json!({"type": "thinking", "thinking": say.thought, "signature": "signed"}));
            }
            if !say.text.is_empty() {
                content.push(json!({"type": "text", "text": say.text}));
            }
            content.extend(say.calls.iter().map(|call| {
                with_id(json!({"type": "tool_use", "name": call.name, "input": args_value(call)}), "id", call)
            }));
            json!({
                "type": "message", "role": "assistant", "model": "mock-1", "content": content,
                "stop_reason": anthropic_stop(say),
                "usage": {
                    "input_tokens": say.usage.input,
                    "cache_read_input_tokens": say.usage.cached,
                    "output_tokens": say.usage.output,
                },
            })
        }
        Format::Gemini => Value::Array(gemini(say)),
    }
}

fn with_id(mut value: Value, key: &str, call: &SayCall) -> Value {
    if let Some(id) = &call.id {
        value[key] = json!(id);
    }
    value
}

fn chat_stop(say: &Say) -> &str {
    match say.stop() {
        "done" => "stop",
        "calls" => "tool_calls",
        "refused" => "content_filter",
        other => other,
    }
}

fn chat_usage(say: &Say) -> Value {
    json!({
        "prompt_tokens": say.usage.input + say.usage.cached,
        "completion_tokens": say.usage.output,
        "prompt_tokens_details": {"cached_tokens": say.usage.cached},
    })
}

fn chat(say: &Say) -> Vec<Value> {
    let chunk = |delta: Value, stop: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
        json!({"object": "chat.completion.chunk", "model": "mock-1", "choices": [choice]})
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    if !say.thought.is_empty() {
        events.extend(
            say.deltas(&say.thought).iter().map(|delta| chunk(json!({"reasoning_content": delta}), None)),
        );
    }
    if !say.text.is_empty() {
        events.extend(say.deltas(&say.text).iter().map(|delta| chunk(json!({"content": delta}), None)));
    }
    let mut begun = vec![false; say.calls.len()];
    for (at, delta) in say.args() {
        let mut call = json!({"index": at, "function": {"arguments": delta}});
        if !std::mem::replace(&mut begun[at], true) {
            call = with_id(call, "id", &say.calls[at]);
            call["type"] = json!("function");
            call["function"]["name"] = json!(say.calls[at].name);
        }
        events.push(chunk(json!({"tool_calls": [call]}), None));
    }
    events.push(chunk(json!({}), Some(chat_stop(say))));
    events.push(json!({"model": "mock-1", "choices": [], "usage": chat_usage(say)}));
    events
}

fn anthropic_stop(say: &Say) -> &str {
    match say.stop() {
        "done" => "end_turn",
        "calls" => "tool_use",
        "length" => "max_tokens",
        "refused" => "refusal",
        other => other,
    }
}

fn anthropic(say: &Say, done: bool) -> Vec<Value> {
    let usage = json!({"input_tokens": say.usage.input, "cache_read_input_tokens": say.usage.cached, "output_tokens": 1});
    let message =
        json!({"type": "message", "role": "assistant", "model": "mock-1", "content": [], "usage": usage});
    let mut events = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !say.thought.is_empty() {
        let mut deltas: Vec<Value> = say
            .deltas(&say.thought)
            .iter()
            .map(|text| json!({"type": "thinking_delta", "thinking": text}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": "signed"}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !say.text.is_empty() {
        let deltas = say.deltas(&say.text);
        block(
            json!({"type": "text", "text": ""}),
            deltas.iter().map(|text| json!({"type": "text_delta", "text": text})).collect(),
        );
    }
    for call in &say.calls {
        let deltas = say.deltas(&args_text(call));
        let start = with_id(json!({"type": "tool_use", "name": call.name, "input": {}}), "id", call);
        block(
            start,
            deltas.iter().map(|text| json!({"type": "input_json_delta", "partial_json": text})).collect(),
        );
    }
    let delta = json!({"stop_reason": anthropic_stop(say), "stop_sequence": null});
    events
        .push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": say.usage.output}}));
    if done {
        events.push(json!({"type": "message_stop"}));
    }
    events
}

fn response(say: &Say) -> Value {
    let mut output = Vec::new();
    if !say.thought.is_empty() {
        output.push(reasoning(say));
    }
    if !say.text.is_empty() {
        let content = json!([{"type": "output_text", "text": say.text}]);
        output.push(json!({"type": "message", "role": "assistant", "content": content}));
    }
    output.extend(say.calls.iter().map(|call| {
        with_id(
            json!({"type": "function_call", "name": call.name, "arguments": args_text(call)}),
            "call_id",
            call,
        )
    }));
    let (status, why) = match say.stop() {
        "length" => ("incomplete", json!({"reason": "max_output_tokens"})),
        "refused" => ("incomplete", json!({"reason": "content_filter"})),
        _ => ("completed", Value::Null),
    };
    json!({
        "object": "response", "model": "mock-1", "status": status, "error": null, "incomplete_details": why,
        "output": output,
        "usage": {
            "input_tokens": say.usage.input + say.usage.cached,
            "input_tokens_details": {"cached_tokens": say.usage.cached},
            "output_tokens": say.usage.output,
        },
    })
}

fn reasoning(say: &Say) -> Value {
    let summary = json!([{"type": "summary_text", "text": say.thought}]);
    json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "signed"})
}

fn responses(say: &Say, done: bool) -> Vec<Value> {
    let end = response(say);
    let mut events =
        vec![json!({"type": "response.created", "response": {"model": "mock-1", "status": "in_progress"}})];
    let mut index = 0;
    if !say.thought.is_empty() {
        let item = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        for delta in say.deltas(&say.thought) {
            events.push(json!({"type": "response.reasoning_summary_text.delta", "output_index": index, "delta": delta}));
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": reasoning(say)}),
        );
        index += 1;
    }
    if !say.text.is_empty() {
        let item = json!({"type": "message", "role": "assistant", "content": []});
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        for delta in say.deltas(&say.text) {
            events.push(json!({"type": "response.output_text.delta", "output_index": index, "delta": delta}));
        }
        let content = json!([{"type": "output_text", "text": say.text}]);
        let item = json!({"type": "message", "role": "assistant", "content": content});
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        index += 1;
    }
    let item = |call: &SayCall, args: &str| {
        with_id(json!({"type": "function_call", "name": call.name, "arguments": args}), "call_id", call)
    };
    for (at, call) in say.calls.iter().enumerate() {
        events.push(
            json!({"type": "response.output_item.added", "output_index": index + at, "item": item(call, "")}),
        );
    }
    for (at, delta) in say.args() {
        events.push(json!({"type": "response.function_call_arguments.delta", "output_index": index + at, "delta": delta}));
    }
    for (at, call) in say.calls.iter().enumerate() {
        let item = item(call, &args_text(call));
        events.push(json!({"type": "response.output_item.done", "output_index": index + at, "item": item}));
    }
    if done {
        let kind = if end["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
        events.push(json!({"type": kind, "response": end}));
    }
    events
}

fn gemini(say: &Say) -> Vec<Value> {
    let chunk = |parts: Value| json!({"candidates": [{"content": {"role": "model", "parts": parts}}], "modelVersion": "mock-1"});
    let mut events = Vec::new();
    if !say.thought.is_empty() {
        events.extend(
            say.deltas(&say.thought).iter().map(|text| chunk(json!([{"text": text, "thought": true}]))),
        );
    }
    if !say.text.is_empty() {
        events.extend(say.deltas(&say.text).iter().map(|text| chunk(json!([{"text": text}]))));
    }
    for (at, call) in say.calls.iter().enumerate() {
        let function = with_id(json!({"name": call.name, "args": args_value(call)}), "id", call);
        let mut part = json!({"functionCall": function});
        // The first of parallel calls carries the signature.
        if at == 0 && !say.thought.is_empty() {
            part["thoughtSignature"] = json!("signed");
        }
        events.push(chunk(json!([part])));
    }
    let reason = match say.stop() {
        "done" | "calls" => "STOP",
        "length" => "MAX_TOKENS",
        "refused" => "SAFETY",
        other => other,
    };
    let mut end = chunk(json!([{"text": ""}]));
    end["candidates"][0]["finishReason"] = json!(reason);
    end["usageMetadata"] = json!({
        "promptTokenCount": say.usage.input + say.usage.cached,
        "cachedContentTokenCount": say.usage.cached,
        "candidatesTokenCount": say.usage.output,
    });
    events.push(end);
    events
}
