//! What providers send, and what is to be made of it: one case a line in `cases/streams.jsonl`. A case has `events`, which are
//! sent as data, or `raw` bytes; and either the `answer` (and the `pieces`, where they matter) or the kind of `error`. With
//! `times`, the events come so often, and `"N"` in them is the number; a call whose `id` is `*` may have any.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::OnceLock;

use helve_agent::model::Answer;
use helve_agent::models::try_stream;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::Value;

fn cases() -> &'static [Value] {
    static CASES: OnceLock<Vec<Value>> = OnceLock::new();
    CASES.get_or_init(|| {
        let lines = include_str!("cases/streams.jsonl").lines();
        lines.map(|line| serde_json::from_str(line).expect("a case")).collect()
    })
}

/// Those that are small enough to be read many times.
fn small_cases() -> Vec<&'static Value> {
    cases().iter().filter(|case| case.get("times").is_none()).collect()
}

fn bytes(case: &Value) -> Vec<u8> {
    if let Some(raw) = case["raw"].as_str() {
        return raw.as_bytes().to_vec();
    }
    let events = case["events"].as_array().expect("events");
    let lines = events.iter().map(|event| match event.as_str() {
        Some(text) => format!("data: {text}\n\n"),
        None => format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message")),
    });
    let once = lines.collect::<String>();
    let times = case["times"].as_u64().unwrap_or(1);
    (0..times).map(|n| once.replace("\"N\"", &n.to_string())).collect::<String>().into_bytes()
}

/// What comes of bytes, as JSON: answer and pieces, or the error.
fn read(case: &Value, pieces: &[&[u8]]) -> Value {
    match try_stream(case["provider"].as_str().expect("a provider"), pieces) {
        Ok((mut answer, told)) => {
            let expected = case["answer"]["calls"].as_array();
            for (call, expected) in answer.message.calls.iter_mut().zip(expected.into_iter().flatten()) {
                if expected["id"] == "*" {
                    call.id = "*".into();
                }
            }
            serde_json::json!({"answer": answer, "pieces": told})
        }
        Err(error) => serde_json::json!({"error": error.kind, "message": error.message}),
    }
}

#[test]
fn what_providers_send() {
    for case in cases() {
        let name = &case["name"];
        let seen = read(case, &[&bytes(case)]);
        if let Some(error) = case.get("error") {
            assert_eq!(seen.get("error"), Some(error), "{name}: {seen}");
            continue;
        }
        let answer: Answer = serde_json::from_value(case["answer"].clone()).expect("an answer");
        assert_eq!(seen["answer"], serde_json::to_value(&answer).unwrap(), "{name}: {seen}");
        if let Some(pieces) = case.get("pieces") {
            assert_eq!(&seen["pieces"], pieces, "{name}");
        }
    }
}

#[test]
fn byte_by_byte() {
    for case in small_cases() {
        let bytes = bytes(case);
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(case, &pieces), read(case, &[&bytes]), "{}", case["name"]);
    }
}

proptest! {
    #[test]
    fn any_pieces_give_the_same_answer(which in 0usize..1000, cuts in proptest::collection::vec(0usize..4000, 0..12)) {
        let cases = small_cases();
        let case = cases[which % cases.len()];
        let bytes = bytes(case);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(case, &pieces), read(case, &[&bytes]), "{}", &case["name"]);
    }

    /// Whatever is changed in a stream, there is an answer or an error, and calls have names of their own.
    #[test]
    fn nothing_makes_it_panic(which in 0usize..1000, at in 0usize..4000, new in proptest::collection::vec(any::<u8>(), 0..6), drop in 0usize..20) {
        let cases = small_cases();
        let case = cases[which % cases.len()];
        let mut bytes = bytes(case);
        let from = at % (bytes.len() + 1);
        let to = (from + drop).min(bytes.len());
        bytes.splice(from..to, new);
        if let Ok((answer, _)) = try_stream(case["provider"].as_str().expect("a provider"), &[&bytes]) {
            let mut ids: Vec<&str> = answer.message.calls.iter().map(|call| call.id.as_str()).collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), count);
        }
    }
}
