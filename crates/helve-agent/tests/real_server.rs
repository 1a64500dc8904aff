//! A real model behind a real server that speaks chat completions, such as llama.cpp's. Judged by the protocol, not by what the
//! model says. It is the one that `scripts/real-model` installs, or any other whose address is given in `HELVE_TEST_MODEL_URL`
//! (`http://127.0.0.1:PORT/v1`); without either there is nothing to ask, and the test says so. How it drives tools is tried with
//! the program `helve`, in `helve-cli`.
#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod real_model;

use std::sync::Arc;
use std::time::{Duration, Instant};

use helve::{Cancel, ToolSpec};
use helve_agent::model::{Answer, Model, ModelError, ModelErrorKind, Piece, Request};
use helve_agent::models::{Choice, model};
use helve_agent::talk::{Message, ModelMessage, Stop, ToolAnswer, ToolUse, UserMessage};
use real_model::RealModel;
use serde_json::json;

/// Where a model is asked, and its server where the test has started one.
struct Served {
    url: String,
    _own: Option<RealModel>,
}

fn served(test: &str) -> Option<Served> {
    if let Ok(url) = std::env::var("HELVE_TEST_MODEL_URL") {
        return Some(Served { url, _own: None });
    }
    let own = RealModel::start(test)?;
    Some(Served { url: own.url.clone(), _own: Some(own) })
}

impl Served {
    fn model(&self, provider: &str) -> Arc<dyn Model> {
        let (provider, name, base_url) = (provider.to_owned(), "any".to_owned(), Some(self.url.clone()));
        model(Choice { provider, name, base_url, ..Choice::default() }).expect("a model")
    }
}

fn user(text: String) -> Message {
    Message::User(UserMessage { text, ..UserMessage::default() })
}

async fn ask(
    model: &dyn Model,
    messages: &[Message],
    most: u64,
    cancel: &Cancel,
) -> (Result<Answer, ModelError>, String) {
    let parameters = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let tools = [Arc::new(ToolSpec::new("echo", "Says it again.", parameters))];
    let system = "You are short.";
    let request = Request {
        system,
        tools: &tools,
        messages,
        may_call: true,
        max_output: Some(most),
        temperature: Some(0.0),
    };
    let mut told = String::new();
    let mut listener = |piece: Piece| {
        if let Piece::Text { text } = piece {
            told.push_str(&text);
        }
    };
    let answer = model.answer(request, &mut listener, cancel).await;
    (answer, told)
}

#[tokio::test]
async fn it_answers_a_talk_with_calls_in_it() {
    let Some(served) = served("it_answers_a_talk_with_calls_in_it") else { return };
    // llama.cpp speaks three of the formats.
    for provider in ["openai-compatible", "anthropic", "openai-responses"] {
        let model = served.model(provider);
        let call = ToolUse { id: "c1".into(), name: "echo".into(), args: "{broken".into() };
        let said = ModelMessage { text: String::new(), calls: vec![call], kept: None };
        let result = ToolAnswer {
            id: "c1".into(),
            name: "echo".into(),
            text: "No JSON.".into(),
            images: Vec::new(),
            is_error: true,
            call: None,
        };
        let talk = [
            user("Say hello.".into()),
            Message::Model(said),
            Message::Results { results: vec![result] },
            user("Then say hello yourself.".into()),
        ];
        let (answer, told) = ask(&*model, &talk, 24, &Cancel::never()).await;
        let answer = match answer {
            Err(error) if error.message.contains("404") && provider != "openai-compatible" => {
                eprintln!("{provider}: skipped, because the server does not speak it");
                continue;
            }
            answer => answer.expect(provider),
        };
        assert_eq!(answer.message.text, told, "{provider}");
        assert!(!told.is_empty() || !answer.message.calls.is_empty(), "{provider}");
        assert!(
            matches!(answer.stop, Stop::Done | Stop::Length | Stop::Calls),
            "{provider} {:?}",
            answer.stop
        );
        assert!(answer.usage.total() > 0 && answer.usage.output <= 24, "{provider} {:?}", answer.usage);
    }
}

#[tokio::test]
async fn it_says_that_a_request_is_too_long() {
    let Some(served) = served("it_says_that_a_request_is_too_long") else { return };
    let model = served.model("openai-compatible");
    let (answer, _) = ask(&*model, &[user("word ".repeat(400_000))], 8, &Cancel::never()).await;
    assert_eq!(answer.expect_err("too long").kind, ModelErrorKind::TooLong);
}

#[tokio::test]
async fn it_is_stopped_at_once() {
    let Some(served) = served("it_is_stopped_at_once") else { return };
    let model = served.model("openai-compatible");
    let (handle, cancel) = Cancel::pair();
    let asking =
        tokio::spawn(
            async move { ask(&*model, &[user("Count to one thousand.".into())], 2000, &cancel).await.0 },
        );
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begin = Instant::now();
    handle.cancel();
    let answer = asking.await.expect("a task");
    assert!(begin.elapsed() < Duration::from_secs(1));
    // A small model may be done sooner than it is stopped.
    assert!(answer.is_ok() || answer.is_err_and(|error| error.kind == ModelErrorKind::Cancelled));
}
