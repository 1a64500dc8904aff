//! Models whose answers a test wrote down.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use serde_json::{Value, json};

use super::support::Place;

/// One answer of a record: words, and calls as (id, tool, arguments).
pub(crate) fn answered(text: &str, calls: &[(&str, &str, Value)]) -> Value {
    let calls: Vec<Value> =
        calls.iter().map(|(id, name, args)| json!({"id": id, "name": name, "args": args})).collect();
    json!({"agent": "answered", "answer": {"text": text, "calls": calls}})
}

/// Writes a record and gives the name of the model that plays it.
pub(crate) fn record(place: &Place, answers: &[Value]) -> String {
    let file = place.root().join("record.jsonl");
    let text: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
    std::fs::write(&file, text).unwrap();
    format!("replay:{}", file.display())
}

pub(crate) fn echo<'a>(id: &'a str, message: &str) -> (&'a str, &'static str, Value) {
    (id, "echo", json!({"message": message}))
}

pub(crate) fn exec<'a>(id: &'a str, command: &str) -> (&'a str, &'static str, Value) {
    (id, "exec", json!({"command": command}))
}
