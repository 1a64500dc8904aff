//! The same scenarios with a model behind a server: real HTTP, real server-sent events, in small pieces, in four formats.
//!
//! What the script does inside the model (steering, waiting, refusing a long talk) a server cannot do; those scenarios are left
//! to the scripted model. Everything else must come out the same, whoever serves it.

use std::sync::Arc;
use std::time::Instant;

use helve_agent::model::{ModelErrorKind, Price};
use helve_agent::models::{Choice, model};
use helve_agent::talk::Stop;
use serde_json::{Map, Value, json};

use super::mock::Mock;
use super::script::{Reply, Seen, expanded, tool_use};
use super::*;

/// One for each format.
const PROVIDERS: [&str; 4] = ["openai-compatible", "anthropic", "openai-responses", "gemini"];

/// How often a provider is asked that is busy or breaks off.
const ASKED: usize = 5;
/// A server adds its numbers up, and cannot say larger ones.
const MOST_TOKENS: u64 = 1 << 60;

/// What the server sends for one answer of a script; none if a server cannot do that.
fn reply(reply: &Reply, number: usize, provider: &str) -> Option<Value> {
    let inside =
        reply.steer.is_some() || reply.stop_run || reply.ignores_cancel || reply.sleep_ms > 0 || reply.kept;
    let too_many = reply.usage.iter().any(|tokens| *tokens > MOST_TOKENS);
    if inside || too_many || matches!(reply.stop, Some(Stop::Other(_))) {
        return None;
    }
    if reply.hangs {
        return Some(json!({"say": {"text": "never whole"}, "done": false, "hang": true}));
    }
    let error =
        |kind: &str, message: &str| json!({"error": {"type": kind, "message": message, "code": kind}});
    match reply.error {
        None => {}
        Some(ModelErrorKind::Key) => {
            return Some(json!({"status": 401, "body": error("authentication_error", "no such key")}));
        }
        Some(ModelErrorKind::Request) => {
            return Some(json!({"status": 400, "body": error("invalid_request_error", "not so")}));
        }
        Some(ModelErrorKind::Busy) => {
            let body = error("rate_limit_error", "busy");
            return Some(
                json!({"status": 429, "headers": {"retry-after": "0"}, "body": body, "repeat": ASKED}),
            );
        }
        Some(ModelErrorKind::Connection) => {
            return Some(json!({"say": {"text": "broken off"}, "cut": 10, "repeat": ASKED}));
        }
        Some(_) => return None,
    }
    let each = reply.calls.iter().flat_map(|call| vec![call; reply.each.unwrap_or(1)]);
    let mut calls = Vec::new();
    for (place, call) in each.enumerate() {
        let wanted = tool_use(call, place, number);
        let args = serde_json::from_str::<Value>(&wanted.args).ok().filter(Value::is_object);
        // This format has no arguments that are not an object.
        if args.is_none() && provider == "gemini" {
            return None;
        }
        calls.push(json!({"id": wanted.id, "name": wanted.name, "args": wanted.args}));
        if let Some(args) = args.filter(|_| provider == "gemini") {
            calls.last_mut()?["args"] = args;
        }
    }
    let stop = match &reply.stop {
        Some(Stop::Length) => json!("length"),
        Some(Stop::Refused) => json!("refused"),
        Some(Stop::Done) => json!("done"),
        _ => Value::Null,
    };
    let [input, cached, output] = reply.usage;
    let text = expanded(&reply.text, number);
    // What is long comes in one piece, because this is not about how fast a server is.
    let is_short = text.len() + calls.iter().map(|call| call.to_string().len()).sum::<usize>() < 2_000;
    let (piece, split) = if is_short { (7, 3) } else { (0, 0) };
    let say = json!({
        "text": text, "calls": calls, "stop": stop, "split": split, "interleave": number.is_multiple_of(2),
        "usage": {"input": input, "cached": cached, "output": output},
    });
    let mut one = json!({ "piece": piece });
    one["say"] = say;
    Some(one)
}

/// The whole script for a server; none if a server cannot play it.
fn script(scenario: &Scenario, provider: &str) -> Option<Value> {
    // A talk that is made shorter asks in between, which a script without a look at the question cannot answer.
    if scenario.card.window != CardOf::default().window || scenario.card.too_long.is_some() {
        return None;
    }
    let mut replies = Vec::new();
    for one in &scenario.model {
        for _ in 0..one.times.unwrap_or(1) {
            replies.push(reply(one, replies.len() + 1, provider)?);
        }
    }
    replies.push(json!({"say": {"text": "done"}, "repeat": 100}));
    Some(Value::Array(replies))
}

/// Whether every call in what a provider was sent has its result right behind it.
fn sent_right(body: &Value) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let of = |kind: &str, member: &str| -> Vec<String> {
            blocks.iter().filter(|block| block["type"] == kind).map(|block| text(&block[member])).collect()
        };
        let mut results = of("tool_result", "tool_use_id");
        if message["role"] == "tool" {
            results.push(text(&message["tool_call_id"]));
        }
        for id in &results {
            if open.first() != Some(id) {
                return Err(format!("a result of {id} where one of {open:?} belongs"));
            }
            open.remove(0);
        }
        let mut calls = of("tool_use", "id");
        let chat = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        calls.extend(chat.iter().map(|call| text(&call["id"])));
        if results.is_empty() && !open.is_empty() {
            return Err(format!("{open:?} have no result"));
        }
        open.extend(calls);
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no result")) }
}

async fn play_served(scenario: &Scenario, provider: &str) -> Result<bool, String> {
    let Some(script) = script(scenario, provider) else { return Ok(false) };
    let place = Place::new();
    write_files(&place.workspace(), &scenario.files);
    let runtime = place.runtime(&scenario.policy);
    if scenario.commands && runtime.try_sandbox().await.is_err() {
        return Ok(false);
    }
    let mock = Mock::start(script);
    let price = scenario.card.price.map(|price| Price::plain(price, price, price));
    let (context_window, max_output) = (Some(scenario.card.window), Some(scenario.card.max_output));
    let choice = Choice { context_window, max_output, price, extra: Map::new(), ..mock.choice(provider) };
    let model = model(choice).map_err(|error| error.to_string())?;
    let control = Control::new();
    let options = scenario.options();
    let mut agent = Agent::new(runtime, model, place.journal(), options);
    if let Some(toolset) = &scenario.toolset {
        agent = agent.with_toolset(toolset.parse::<Toolset>().unwrap());
    }
    let events: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (mut ending, started) = (None, Instant::now());
    for text in &scenario.say {
        let mut watch = watcher(scenario, &control, &events);
        let message = UserMessage { text: text.clone(), ..UserMessage::default() };
        let over =
            tokio::time::timeout(Duration::from_secs(90), agent.run(message, &control, &mut watch)).await;
        ending = Some(over.map_err(|_| "the run does not end".to_owned())?);
    }
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap();
    let mut seen = Seen::default();
    for request in mock.requests() {
        seen.problems.extend(sent_right(&request.body).err());
    }
    let (events, ending) = (events.lock().unwrap().clone(), ending.unwrap());
    let told = check::Told { place: &place, agent: &agent, seen, events: &events, ending, took_ms };
    check::always(&told)?;
    check::wanted(&told, &scenario.want.served())?;
    Ok(true)
}

/// Plays it in one of the formats in turn, and where that cannot say it, in the one that most servers speak. Which it was;
/// none if neither can.
async fn play_in_turn(number: usize, scenario: &Scenario) -> Result<Option<usize>, String> {
    for which in [number % PROVIDERS.len(), 0] {
        let played = play_served(scenario, PROVIDERS[which]).await;
        if played.map_err(|why| format!("{} ({}): {why}", scenario.name, PROVIDERS[which]))? {
            return Ok(Some(which));
        }
    }
    Ok(None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_over_a_server() {
    let played = each(|number, scenario| async move { play_in_turn(number, &scenario).await }).await;
    let (mut counts, mut failed) = ([0; PROVIDERS.len()], Vec::new());
    for one in played {
        match one {
            Ok(Some(which)) => counts[which] += 1,
            Ok(None) => {}
            Err(why) => failed.push(why),
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
    let all = std::env::var_os("SCENARIO").is_none();
    assert!(counts.iter().sum::<usize>() >= 50 || !all, "only {counts:?} scenarios");
    assert!(counts.iter().all(|count| *count >= 10) || !all, "only {counts:?} scenarios");
}
