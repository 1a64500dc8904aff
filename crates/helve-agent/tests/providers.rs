//! The four providers against a server that speaks their formats: what is sent, what comes of what is answered, and what
//! happens when something breaks.
//!
//! Long file: each test is short and stands alone; what they share is at the top.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod mock;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use helve::{Cancel, ToolSpec};
use helve_agent::model::{Answer, Model, ModelError, ModelErrorKind, Piece, Request};
use helve_agent::models::{Choice, Patience, model};
use helve_agent::talk::{Message, ModelMessage, Stop, ToolAnswer, ToolUse, Usage, UserMessage};
use mock::{KEY, Mock};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

const PROVIDERS: [&str; 5] = ["openai", "openai-compatible", "openai-responses", "anthropic", "gemini"];

fn user(text: &str) -> Message {
    Message::User(UserMessage { text: text.into(), ..UserMessage::default() })
}

fn tools() -> Vec<Arc<ToolSpec>> {
    let parameters =
        json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    vec![Arc::new(ToolSpec::new("echo", "Says it again.", parameters))]
}

async fn ask_with(
    choice: Choice,
    messages: &[Message],
    cancel: &Cancel,
) -> (Result<Answer, ModelError>, Vec<Piece>) {
    let model = model(choice).expect("a model");
    let tools = tools();
    let request = Request {
        system: "Be short.",
        tools: &tools,
        messages,
        may_call: true,
        max_output: Some(100),
        temperature: None,
    };
    let mut pieces = Vec::new();
    let mut listener = |piece: Piece| pieces.push(piece);
    let answer = model.answer(request, &mut listener, cancel).await;
    (answer, pieces)
}

async fn ask(choice: Choice) -> (Result<Answer, ModelError>, Vec<Piece>) {
    ask_with(choice, &[user("Hi")], &Cancel::never()).await
}

fn again(pieces: &[Piece]) -> usize {
    pieces.iter().filter(|piece| matches!(piece, Piece::Again { .. })).count()
}

fn use_of(id: &str, args: &str) -> ToolUse {
    ToolUse { id: id.into(), name: "echo".into(), args: args.into() }
}

/// The text and the arguments as the pieces tell them.
fn told(pieces: &[Piece]) -> (String, Vec<String>) {
    let (mut text, mut args) = (String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text { text: more } => text.push_str(more),
            Piece::Call { index, .. } => {
                assert_eq!(*index, args.len());
                args.push(String::new());
            }
            Piece::Args { index, text } => args[*index].push_str(text),
            Piece::Thought { .. } => {}
            Piece::Again { .. } => (text, args) = (String::new(), Vec::new()),
        }
    }
    (text, args)
}

#[tokio::test]
async fn the_same_answer_in_every_format() {
    let say = json!({
        "text": "Ich prüfe — 🦀.",
        "calls": [
            {"id": "call_a", "name": "echo", "args": {"text": "ä"}},
            {"id": "call_b", "name": "echo", "args": {"text": "🦀", "n": [1, 2]}},
        ],
        "usage": {"input": 10, "cached": 5, "output": 7},
        "split": 1, "interleave": true,
    });
    for provider in PROVIDERS {
        for more in [
            json!({}),
            json!({"piece": 1}),
            json!({"piece": 7, "done": provider == "openai-responses"}),
            json!({"stream": false}),
        ] {
            let mut reply = json!({"say": say});
            for (key, value) in more.as_object().expect("an object") {
                reply[key] = value.clone();
            }
            let mock = Mock::start(json!([reply]));
            let (answer, pieces) = ask(mock.choice(provider)).await;
            let answer = answer.unwrap_or_else(|error| panic!("{provider} {more}: {error}"));
            let calls =
                vec![use_of("call_a", r#"{"text":"ä"}"#), use_of("call_b", r#"{"text":"🦀","n":[1,2]}"#)];
            let expected = Answer {
                message: ModelMessage { text: "Ich prüfe — 🦀.".into(), calls, kept: None },
                stop: Stop::Calls,
                usage: Usage { input: 10, cached: 5, output: 7, ..Usage::default() },
                model: "mock-1".into(),
            };
            assert_eq!(answer, expected, "{provider} {more}");
            let args: Vec<String> = expected.message.calls.iter().map(|call| call.args.clone()).collect();
            assert_eq!(told(&pieces), (expected.message.text, args), "{provider} {more}");
        }
    }
}

#[tokio::test]
async fn requests_as_the_providers_want_them() {
    for provider in PROVIDERS {
        let mock = Mock::start(json!([{"say": {"text": "ok"}}]));
        ask(mock.choice(provider)).await.0.expect("an answer");
        let seen = mock.requests().remove(0);
        let (path, key) = match provider {
            "openai-responses" => ("/v1/responses", ("authorization", format!("Bearer {KEY}"))),
            "anthropic" => ("/v1/messages", ("x-api-key", KEY.to_owned())),
            "gemini" => ("/v1/models/mock:streamGenerateContent?alt=sse", ("x-goog-api-key", KEY.to_owned())),
            _ => ("/v1/chat/completions", ("authorization", format!("Bearer {KEY}"))),
        };
        assert_eq!(seen.path, path, "{provider}");
        assert_eq!(seen.headers.get(key.0), Some(&key.1), "{provider}");
        assert_eq!(seen.headers["content-type"], "application/json");
        let parameters =
            json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
        let expected = match provider {
            "openai-responses" => json!({
                "model": "mock", "stream": true, "store": false, "instructions": "Be short.", "max_output_tokens": 100,
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
                "tools": [{"type": "function", "strict": false, "name": "echo", "description": "Says it again.", "parameters": parameters}],
            }),
            "anthropic" => json!({
                "model": "mock", "stream": true, "max_tokens": 100,
                "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}],
                "tools": [{"name": "echo", "description": "Says it again.", "input_schema": parameters, "cache_control": {"type": "ephemeral"}}],
            }),
            "gemini" => json!({
                "systemInstruction": {"parts": [{"text": "Be short."}]},
                "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
                "generationConfig": {"maxOutputTokens": 100},
                "tools": [{"functionDeclarations": [{"name": "echo", "description": "Says it again.", "parameters": {
                    "type": "OBJECT", "properties": {"text": {"type": "STRING"}}, "required": ["text"],
                }}]}],
            }),
            _ => json!({
                "model": "mock", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 100,
                "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}],
                "tools": [{"type": "function", "function": {"name": "echo", "description": "Says it again.", "parameters": parameters}}],
            }),
        };
        assert_eq!(seen.body, expected, "{provider}");
    }
}

/// A talk with calls, results, pictures and an error goes out as the cases say.
#[tokio::test]
async fn talks_as_the_providers_want_them() {
    let cases = include_str!("cases/requests.jsonl");
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let (name, provider) = (&case["name"], case["provider"].as_str().expect("a provider"));
        let messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).expect("messages");
        let mock = Mock::start(json!([{"say": {"text": "ok"}}]));
        let mut choice = mock.choice(provider);
        choice.pictures = case["pictures"].as_bool().or(Some(true));
        if let Some(model) = case["model"].as_str() {
            choice.name = model.to_owned();
        }
        ask_with(choice, &messages, &Cancel::never()).await.0.expect("an answer");
        let body = mock.requests().remove(0).body;
        let part = ["messages", "input", "contents"].iter().find_map(|key| body.get(*key)).expect("a talk");
        let part = part.as_array().expect("a list");
        let skip = usize::from(part[0]["role"] == "system");
        assert_eq!(Value::Array(part[skip..].to_vec()), case["sent"], "{name}");
    }
}

#[tokio::test]
async fn signed_thoughts_come_back_where_they_stood() {
    let say = json!({"thought": "Hm.", "text": "I look.", "calls": [{"id": "c1", "name": "echo", "args": {"text": "a"}}], "split": 2});
    for (provider, name) in
        [("anthropic", "mock"), ("openai-responses", "gpt-5"), ("gemini", "mock"), ("openai", "mock")]
    {
        let mock = Mock::start(json!([{"say": say}, {"say": {"text": "ok"}}, {"say": {"text": "ok"}}]));
        let choice = |name: &str| Choice { name: name.into(), ..mock.choice(provider) };
        let (answer, pieces) = ask(choice(name)).await;
        let answer = answer.expect("an answer");
        let thoughts: String = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Thought { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(thoughts, "Hm.", "{provider}");
        // It stays in the journal, so it has to come back from there.
        let kept: ModelMessage =
            serde_json::from_value(serde_json::to_value(&answer.message).unwrap()).unwrap();
        assert_eq!(kept, answer.message);
        let result = ToolAnswer {
            id: "c1".into(),
            name: "echo".into(),
            text: "a".into(),
            images: vec![],
            is_error: false,
            call: None,
        };
        let talk = [user("Hi"), Message::Model(kept), Message::Results { results: vec![result] }];
        ask_with(choice(name), &talk, &Cancel::never()).await.0.expect("an answer");
        ask_with(choice("another"), &talk, &Cancel::never()).await.0.expect("an answer");
        let bodies: Vec<Value> = mock.requests().into_iter().map(|seen| seen.body).collect();
        let (to_same, to_other) = (&bodies[1], &bodies[2]);
        match provider {
            "anthropic" => {
                let block = &to_same["messages"][1]["content"];
                assert_eq!(block[0], json!({"type": "thinking", "thinking": "Hm.", "signature": "signed"}));
                assert_eq!((&block[1]["text"], &block[2]["type"]), (&json!("I look."), &json!("tool_use")));
                assert_eq!(to_other["messages"][1]["content"].as_array().unwrap().len(), 2);
            }
            "openai-responses" => {
                assert_eq!(bodies[0]["include"], json!(["reasoning.encrypted_content"]));
                assert_eq!(
                    (&to_same["input"][1]["type"], &to_same["input"][1]["encrypted_content"]),
                    (&json!("reasoning"), &json!("signed"))
                );
                assert_eq!(to_other["input"][1]["type"], "message");
            }
            "gemini" => {
                assert_eq!(to_same["contents"][1]["parts"][1]["thoughtSignature"], "signed");
                assert_eq!(
                    to_other["contents"][1]["parts"][1]["thoughtSignature"],
                    "skip_thought_signature_validator"
                );
            }
            _ => {
                assert_eq!(to_same["messages"][2]["reasoning_content"], "Hm.");
                assert_eq!(to_other["messages"][2].get("reasoning_content"), None);
            }
        }
    }
}

#[tokio::test]
async fn thoughts_that_are_refused_are_left_out() {
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "messages.1: Invalid `signature` in `thinking` block"}});
    let mock = Mock::start(json!([
        {"say": {"thought": "Hm.", "text": "Hello."}},
        {"status": 400, "body": refusal}, {"say": {"text": "ok"}},
        {"status": 400, "body": refusal, "repeat": 3},
    ]));
    let first = ask(mock.choice("anthropic")).await.0.expect("an answer");
    let talk = [user("Hi"), Message::Model(first.message), user("Go on")];
    let (answer, pieces) = ask_with(mock.choice("anthropic"), &talk, &Cancel::never()).await;
    assert_eq!((answer.expect("an answer").message.text.as_str(), again(&pieces)), ("ok", 1));
    let sent = mock.requests().remove(2).body;
    assert_eq!(sent["messages"][1]["content"], json!([{"type": "text", "text": "Hello."}]));
    let (answer, _) = ask_with(mock.choice("anthropic"), &talk, &Cancel::never()).await;
    assert_eq!((answer.unwrap_err().kind, mock.left()), (ModelErrorKind::Request, 1), "once, not for ever");
}

#[tokio::test]
async fn sixty_four_calls_at_once() {
    for provider in PROVIDERS {
        let say = json!({"calls": [{"id": "c", "name": "echo", "args": {"text": "a"}}], "times": 64, "split": 3, "interleave": true});
        let mock = Mock::start(json!([{"say": say, "piece": 11}]));
        let (answer, pieces) = ask(mock.choice(provider)).await;
        let expected: Vec<ToolUse> = (0..64).map(|n| use_of(&format!("c{n}"), r#"{"text":"a"}"#)).collect();
        assert_eq!(answer.expect("an answer").message.calls, expected, "{provider}");
        assert_eq!(told(&pieces).1.len(), 64, "{provider}");
    }
}

#[tokio::test]
async fn every_call_of_a_talk_has_its_own_name() {
    for provider in PROVIDERS {
        let call = |id: Value| json!({"id": id, "name": "echo", "args": {}});
        let calls = json!([
            call(json!("a")),
            call(json!("a")),
            call(Value::Null),
            call(json!("old")),
            call(json!("x y")),
            call(json!(""))
        ]);
        let mock = Mock::start(json!([{"say": {"calls": calls}}]));
        let before = ModelMessage { calls: vec![use_of("old", "{}")], ..ModelMessage::default() };
        let result = ToolAnswer {
            id: "old".into(),
            name: "echo".into(),
            text: "a".into(),
            images: vec![],
            is_error: false,
            call: None,
        };
        let talk = [user("Hi"), Message::Model(before), Message::Results { results: vec![result] }];
        let (answer, _) = ask_with(mock.choice(provider), &talk, &Cancel::never()).await;
        let calls = answer.expect("an answer").message.calls;
        assert_eq!((calls.len(), calls[0].id.as_str()), (6, "a"), "{provider}");
        let mut ids: Vec<String> = calls.into_iter().map(|call| call.id).collect();
        ids.push("old".into());
        assert!(
            ids.iter().all(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric())),
            "{ids:?}"
        );
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 7, "{provider}");
    }
}

#[tokio::test]
async fn arguments_stay_what_the_model_wrote() {
    let texts = ["", "{", "{\"a\": 1,}", "[1]", "null", "\u{1f980}"];
    for provider in ["openai", "openai-responses", "anthropic"] {
        let calls: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(n, text)| json!({"id": format!("c{n}"), "name": "echo", "args": text}))
            .collect();
        let mock = Mock::start(json!([{"say": {"calls": calls, "split": 1}}]));
        let (answer, _) = ask(mock.choice(provider)).await;
        let args: Vec<String> =
            answer.expect("an answer").message.calls.into_iter().map(|call| call.args).collect();
        assert_eq!(args, texts, "{provider}");
    }
}

#[tokio::test]
async fn why_a_model_stopped() {
    for provider in PROVIDERS {
        for (word, stop) in [("done", Stop::Done), ("length", Stop::Length), ("refused", Stop::Refused)] {
            let mock = Mock::start(json!([{"say": {"text": "a", "stop": word}}]));
            assert_eq!(
                ask(mock.choice(provider)).await.0.expect("an answer").stop,
                stop,
                "{provider} {word}"
            );
        }
    }
}

#[tokio::test]
async fn a_busy_provider_is_asked_again() {
    let past = "Sun, 06 Nov 1994 08:49:37 GMT";
    for provider in PROVIDERS {
        for (status, headers) in [
            (429, json!({"retry-after": "0"})),
            (500, json!({"retry-after": past})),
            (503, json!({})),
            (529, json!({"retry-after": "60", "retry-after-ms": "3"})),
        ] {
            let busy = json!({"error": {"type": "overloaded_error", "message": "Overloaded"}});
            let mock = Mock::start(json!([
                {"status": status, "headers": headers, "body": busy, "repeat": 2},
                {"say": {"text": "ok"}},
            ]));
            let (answer, pieces) = ask(mock.choice(provider)).await;
            assert_eq!(answer.expect("an answer").message.text, "ok", "{provider} {status}");
            assert_eq!((again(&pieces), mock.requests().len()), (2, 3), "{provider} {status}");
            let Piece::Again { after, why, .. } = &pieces[0] else { panic!("{pieces:?}") };
            assert!(why.contains("Overloaded"), "{why}");
            match status {
                529 => assert_eq!(*after, Duration::from_millis(3)),
                // Who wants to be asked at once is left alone for a moment all the same.
                _ => assert!(*after > Duration::ZERO && *after <= Duration::from_millis(1), "{after:?}"),
            }
        }
    }
}

#[tokio::test]
async fn it_is_asked_five_times_and_no_more() {
    let mock = Mock::start(json!([{"status": 503, "body": "no", "repeat": 9}]));
    let (answer, pieces) = ask(mock.choice("openai")).await;
    let error = answer.unwrap_err();
    assert_eq!((error.kind, again(&pieces), mock.requests().len()), (ModelErrorKind::Busy, 4, 5));
    assert!(error.message.contains("asked 5 times"), "{error}");
}

#[tokio::test]
async fn a_pause_that_is_too_long_is_not_made() {
    let mock = Mock::start(json!([{"status": 429, "headers": {"retry-after": "7200"}, "body": "no"}]));
    let (answer, pieces) = ask(mock.choice("anthropic")).await;
    let error = answer.unwrap_err();
    assert_eq!((error.kind, again(&pieces)), (ModelErrorKind::Busy, 0));
    assert!(error.message.contains("7200 s"), "{error}");
}

#[tokio::test]
async fn a_broken_answer_is_asked_for_again() {
    let say = json!({"text": "A longer text that breaks in its midst.", "calls": [{"id": "c", "name": "echo", "args": {"text": "abc"}}], "split": 2});
    for provider in PROVIDERS {
        for cut in [0, 1, 100, 400, 700] {
            let mock = Mock::start(json!([{"say": say, "cut": cut, "piece": 13}, {"say": say}]));
            let (answer, pieces) = ask(mock.choice(provider)).await;
            let answer = answer.unwrap_or_else(|error| panic!("{provider} {cut}: {error}"));
            assert_eq!((answer.message.calls.len(), again(&pieces)), (1, 1), "{provider} {cut}");
            assert_eq!(told(&pieces), (answer.message.text, vec![r#"{"text":"abc"}"#.to_owned()]));
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_too_early_is_no_answer() {
    for provider in ["openai", "anthropic", "gemini", "openai-responses"] {
        let events = match provider {
            "openai" => json!([{"choices": [{"index": 0, "delta": {"content": "half"}}]}]),
            "anthropic" => {
                json!([{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "half"}}])
            }
            "gemini" => json!([{"candidates": [{"content": {"parts": [{"text": "half"}]}}]}]),
            _ => json!([{"type": "response.output_text.delta", "delta": "half"}]),
        };
        let mock = Mock::start(json!([{"events": events}, {"say": {"text": "whole"}}]));
        let (answer, pieces) = ask(mock.choice(provider)).await;
        assert_eq!(
            (answer.expect("an answer").message.text.as_str(), again(&pieces)),
            ("whole", 1),
            "{provider}"
        );
    }
}

#[tokio::test]
async fn errors_inside_a_stream() {
    let half = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]});
    let busy = json!({"error": {"code": 502, "message": "upstream"}});
    let mock = Mock::start(json!([{"events": [half, busy]}, {"say": {"text": "whole"}}]));
    let (answer, pieces) = ask(mock.choice("openai")).await;
    assert_eq!((answer.expect("an answer").message.text.as_str(), again(&pieces)), ("whole", 1));
    let wrong =
        json!({"error": {"code": 400, "message": "This model's maximum context length is 10 tokens."}});
    let mock = Mock::start(json!([{"events": [half, wrong]}]));
    assert_eq!(ask(mock.choice("openai")).await.0.unwrap_err().kind, ModelErrorKind::TooLong);
}

#[tokio::test]
async fn nonsense_is_asked_for_once_more() {
    for provider in PROVIDERS {
        for nonsense in ["data: {\"a\n\n", "{\"a\": nonsense}", "data: {}\n\n", "", "hello"] {
            let mock = Mock::start(json!([{"events": [nonsense], "repeat": 3}]));
            let (answer, pieces) = ask(mock.choice(provider)).await;
            let error = answer.unwrap_err();
            assert_eq!(
                (error.kind, again(&pieces), mock.left()),
                (ModelErrorKind::Strange, 1, 1),
                "{provider} {nonsense}: {error}"
            );
        }
    }
    let mock = Mock::start(json!([{"body": "<!doctype html><p>Welcome"}]));
    let error = ask(mock.choice("openai")).await.0.unwrap_err();
    assert_eq!((error.kind, error.hint.as_deref()), (ModelErrorKind::Strange, Some("Check base_url.")));
}

#[tokio::test]
async fn a_key_that_is_not_taken() {
    for (provider, variable) in [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("ollama", "model.key_env"),
    ] {
        for status in [401, 403] {
            let told = format!("Incorrect API key provided: {KEY}, {}****", &KEY[..12]);
            let mock = Mock::start(json!([{"status": status, "body": {"error": {"message": told}}}]));
            let (answer, pieces) = ask(mock.choice(provider)).await;
            let error = answer.unwrap_err();
            assert_eq!((error.kind, again(&pieces)), (ModelErrorKind::Key, 0));
            assert!(error.hint.as_deref().unwrap_or_default().contains(variable), "{error}");
            assert!(
                error.message.contains("Incorrect API key provided: [key]")
                    && !format!("{error:?}").contains(&KEY[..12]),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn no_key_at_all() {
    for provider in ["openai", "openai-responses", "anthropic", "gemini"] {
        let choice = Choice { provider: provider.into(), name: "m".into(), ..Choice::default() };
        let error = model(choice).err().expect("an error");
        assert_eq!(error.kind, ModelErrorKind::Key, "{provider}");
    }
    let mock = Mock::start(json!([{"say": {"text": "ok"}}]));
    ask(Choice { key: None, ..mock.choice("openai-compatible") }).await.0.expect("an answer");
    assert_eq!(mock.requests()[0].headers.get("authorization"), None);
}

#[tokio::test]
async fn no_key_goes_where_it_should_not() {
    let elsewhere = Mock::start(json!([]));
    let mock = Mock::start(
        json!([{"status": 307, "headers": {"location": format!("{}/chat/completions", elsewhere.base_url())}}]),
    );
    let error = ask(mock.choice("openai")).await.0.unwrap_err();
    assert_eq!((error.kind, elsewhere.requests().len()), (ModelErrorKind::Request, 0));
    for base_url in [
        "http://models.example.test/v1",
        "http://192.0.2.1/v1",
        "ftp://127.0.0.1/",
        "https://me:pw@example.test/",
        "nonsense",
    ] {
        let error =
            model(Choice { base_url: Some(base_url.into()), ..mock.choice("openai") }).err().expect(base_url);
        assert_eq!(error.kind, ModelErrorKind::Request);
        assert!(!error.to_string().contains("pw"), "{error}");
    }
}

#[tokio::test]
async fn silence_is_bounded_and_a_slow_answer_is_not_silence() {
    let patience = |mock: &Mock| Choice {
        patience: Patience { idle: Duration::from_millis(400), tries: 1, ..Patience::default() },
        ..mock.choice("openai")
    };
    let half = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]});
    let mock = Mock::start(json!([{"events": [half], "hang": true}]));
    let (answer, _) = ask(patience(&mock)).await;
    let error = answer.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Connection);
    assert!(error.message.contains("silent for 0.4 s"), "{error}");
    let mock = Mock::start(json!([{"say": {"text": "slow"}, "piece": 50, "pause_ms": 80}]));
    assert_eq!(ask(patience(&mock)).await.0.expect("an answer").message.text, "slow");
}

#[tokio::test]
async fn an_answer_that_is_there_does_not_wait_for_its_end() {
    for provider in ["openai", "anthropic", "openai-responses"] {
        let mock = Mock::start(json!([{"say": {"text": "ok"}, "hang": true}]));
        let begin = Instant::now();
        assert_eq!(ask(mock.choice(provider)).await.0.expect("an answer").message.text, "ok");
        assert!(begin.elapsed() < Duration::from_secs(4), "{provider}");
    }
}

#[tokio::test]
async fn it_ends_at_once_when_it_is_taken_back() {
    let replies = [
        json!({"say": {"text": "never"}, "gate": 0}),
        json!({"say": {"text": "half"}, "gate": 60}),
        json!({"status": 429, "headers": {"retry-after": "60"}, "body": "no"}),
    ];
    for reply in replies {
        let mock = Mock::start(json!([reply]));
        let (handle, cancel) = Cancel::pair();
        let choice = mock.choice("openai");
        let asking = tokio::spawn(async move { ask_with(choice, &[user("Hi")], &cancel).await });
        while mock.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begin = Instant::now();
        handle.cancel();
        let (answer, _) = asking.await.expect("a task");
        assert_eq!(answer.unwrap_err().kind, ModelErrorKind::Cancelled, "{reply}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{reply}");
    }
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let huge = "x".repeat(17 << 20);
    for (what, reply) in [
        ("one event", json!({"events": [format!("data: {huge}")]})),
        ("one body", json!({"body": format!("{{\"a\": \"{huge}\"}}")})),
        ("a line that does not end", json!({"events": [format!(": {huge}")]})),
        ("many events", json!({"say": {"text": huge, "split": 1 << 20}})),
        (
            "arguments",
            json!({"say": {"calls": [{"id": "c", "name": "echo", "args": huge}], "split": 1 << 20}}),
        ),
        ("calls", json!({"say": {"calls": [{"id": "c", "name": "echo", "args": {}}], "times": 2000}})),
    ] {
        let mock = Mock::start(json!([reply]));
        let (answer, pieces) = ask(mock.choice("openai")).await;
        assert_eq!((answer.unwrap_err().kind, again(&pieces)), (ModelErrorKind::Strange, 0), "{what}");
    }
}

#[tokio::test]
async fn an_error_body_is_bounded_and_shown() {
    let mock = Mock::start(json!([{"status": 400, "body": format!("\u{1b}[2J{}", "x".repeat(1 << 20))}]));
    let error = ask(mock.choice("gemini")).await.0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Request);
    assert!(error.message.len() < 700 && error.message.contains("\\x1b[2Jxxx"), "{error}");
    let long = json!({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}});
    let mock = Mock::start(json!([{"status": 400, "body": long}]));
    assert_eq!(ask(mock.choice("anthropic")).await.0.unwrap_err().kind, ModelErrorKind::TooLong);
}

#[tokio::test]
async fn nobody_is_there() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let choice = Choice {
        provider: "ollama".into(),
        name: "m".into(),
        base_url: Some(format!("http://127.0.0.1:{port}/v1")),
        patience: Patience { first_pause: Duration::from_millis(1), ..Patience::default() },
        ..Choice::default()
    };
    let (answer, pieces) = ask(choice).await;
    let error = answer.unwrap_err();
    assert_eq!((error.kind, again(&pieces)), (ModelErrorKind::Connection, 4));
    assert!(
        error.to_string().contains(&format!("http://127.0.0.1:{port}")) && error.hint.is_some(),
        "{error}"
    );
}

#[tokio::test]
async fn the_owner_adds_to_requests() {
    let mock = Mock::start(json!([{"say": {"text": "ok"}}]));
    let extra =
        json!({"reasoning_effort": "low", "model": "another"}).as_object().cloned().expect("an object");
    ask(Choice { extra, ..mock.choice("openai") }).await.0.expect("an answer");
    let body = mock.requests().remove(0).body;
    assert_eq!((&body["reasoning_effort"], &body["model"]), (&json!("low"), &json!("mock")));
}

/// One connection serves many requests, because each answer is read to its end.
#[tokio::test]
async fn many_answers_from_one_model() {
    let mock = Mock::start(json!([{"say": {"text": "ok"}, "repeat": 20}]));
    let model: Arc<dyn Model> = model(mock.choice("anthropic")).expect("a model");
    let texts = Mutex::new(Vec::new());
    for _ in 0..20 {
        let messages = [user("Hi")];
        let request = Request {
            system: "",
            tools: &[],
            messages: &messages,
            may_call: true,
            max_output: None,
            temperature: Some(0.5),
        };
        let answer = model.answer(request, &mut |_| {}, &Cancel::never()).await.expect("an answer");
        texts.lock().expect("a lock").push(answer.message.text);
    }
    assert_eq!(texts.into_inner().expect("a lock"), vec!["ok"; 20]);
    let body = mock.requests().remove(0).body;
    assert_eq!(
        (body.get("system"), body.get("tools"), &body["max_tokens"], &body["temperature"]),
        (None, None, &json!(8192), &json!(0.5))
    );
}

#[tokio::test]
async fn tools_that_may_not_be_called_are_shown_all_the_same() {
    for (provider, key, choice) in [
        ("openai", "tool_choice", json!("none")),
        ("openai-responses", "tool_choice", json!("none")),
        ("anthropic", "tool_choice", json!({"type": "none"})),
        ("gemini", "toolConfig", json!({"functionCallingConfig": {"mode": "NONE"}})),
    ] {
        let mock = Mock::start(json!([{"say": {"text": "ok"}, "repeat": 2}]));
        let model = model(mock.choice(provider)).expect("a model");
        let (tools, messages) = (tools(), [user("Hi")]);
        for tools in [&tools[..], &[]] {
            let request = Request {
                system: "",
                tools,
                messages: &messages,
                may_call: false,
                max_output: None,
                temperature: None,
            };
            model.answer(request, &mut |_| {}, &Cancel::never()).await.expect("an answer");
        }
        let bodies: Vec<Value> = mock.requests().into_iter().map(|seen| seen.body).collect();
        assert_eq!((bodies[0].get(key), bodies[0]["tools"].is_array()), (Some(&choice), true), "{provider}");
        assert_eq!((bodies[1].get(key), bodies[1].get("tools")), (None, None), "{provider}");
    }
}
