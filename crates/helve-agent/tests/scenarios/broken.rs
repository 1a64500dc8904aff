//! Answers that break off: what was said of them costs as much as if they had come to their end.

use helve_agent::model::Price;
use helve_agent::models::{Choice, model};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::mock::Mock;
use super::*;

/// One token costs as much as one is: so many millionths of a US dollar.
const PRICE: Price = Price { input: 1_000_000, written: 1_000_000, cached: 1_000_000, output: 1_000_000 };
/// What an answer says in all; what comes of it before it breaks off is more than 15,000 tokens and less than 19,000.
const WORDS: usize = 70_000;

/// An answer that breaks off, so many times.
fn breaks_off(times: usize) -> Value {
    let say = json!({"text": "x".repeat(WORDS), "split": 1_000, "usage": {"input": 10}});
    json!({"say": say, "cut": 65_000, "repeat": times})
}

fn whole() -> Value {
    json!({"say": {"text": "done", "usage": {"input": 10, "output": 3}}})
}

/// Runs once with a provider that answers so. How it ended, and how many requests came.
async fn run(provider: &str, script: Value, bounds: Bounds) -> (Value, usize) {
    let (place, mock) = (Place::new(), Mock::start(script));
    let model = model(Choice { price: Some(PRICE), ..mock.choice(provider) }).unwrap();
    let options = Options { system: SYSTEM.to_owned(), bounds, ..Options::default() };
    let mut agent = Agent::new(place.runtime(""), model, place.journal(), options);
    let (control, mut end) = (Control::new(), Value::Null);
    let mut watch = |event: Event| end = serde_json::to_value(&event).unwrap();
    let message = UserMessage { text: "go".to_owned(), ..UserMessage::default() };
    let over = agent.run(message, &control, &mut watch);
    tokio::time::timeout(Duration::from_secs(60), over).await.unwrap();
    (end, mock.requests().len())
}

/// A provider says at the beginning what it has counted by then, or nothing at all; neither is the count of what follows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_broke_off_costs_what_was_said() {
    for (provider, counted) in [("anthropic", 30), ("openai-compatible", 10)] {
        let script = json!([breaks_off(2), whole()]);
        let (end, requests) = run(provider, script, Bounds::default()).await;
        assert_eq!((end["ending"].as_str(), requests), (Some("answered"), 3), "{provider}: {end}");
        assert_eq!(end["usage"]["input"], counted, "{provider}: {end}");
        assert_eq!(end["about"], true, "{provider}: {end}");
        assert!(end["cost"].as_u64().unwrap() > 2 * 15_000, "{provider}: {end}");
        let (end, _) = run(provider, json!([whole()]), Bounds::default()).await;
        assert_eq!((&end["cost"], &end["about"]), (&json!(13), &Value::Null), "{provider}: {end}");
    }
}

/// The bounds hold between the tries of one request too; what cost nothing is asked again all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_end_at_a_bound() {
    let cost = Bounds { cost: Some(28_000), ..Bounds::default() };
    let tokens = Bounds { tokens: Some(28_000), ..Bounds::default() };
    for provider in ["anthropic", "openai-compatible"] {
        for (bounds, name) in [(cost, "cost"), (tokens, "tokens")] {
            let (end, requests) = run(provider, json!([breaks_off(5)]), bounds).await;
            assert_eq!((end["bound"].as_str(), requests), (Some(name), 2), "{provider}: {end}");
            assert_eq!((&end["ending"], &end["about"]), (&json!("bound"), &json!(true)), "{provider}: {end}");
        }
        let busy = json!({"status": 429, "headers": {"retry-after": "0"}, "repeat": 2});
        let much = json!({"say": {"text": "", "calls": [{"id": "c1", "name": "echo", "args": {"message": "a"}}], "usage": {"input": 40_000, "output": 5}}});
        let (end, requests) = run(provider, json!([much, busy, whole()]), tokens).await;
        assert_eq!((end["bound"].as_str(), requests), (Some("tokens"), 4), "{provider}: {end}");
        assert_eq!(end["text"], "done", "the last words come: {end}");
    }
}
