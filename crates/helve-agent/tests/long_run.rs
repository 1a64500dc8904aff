//! A thousand rounds in one session: memory stays flat, the talk within its budget, and every result can still be read.
//!
//! Alone in its program, because it looks at the memory of the whole process.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

mod script;

use std::collections::HashMap;
use std::sync::Arc;

use helve::store::{EntryKind, Home, Journal, JournalOptions};
use helve::{Call, Policy, Runtime};
use helve_agent::control::Control;
use helve_agent::events::{Bounds, Ending, Event};
use helve_agent::run::{Agent, Options};
use helve_agent::talk::UserMessage;
use script::{CardOf, Reply, SYSTEM, Scripted};
use serde_json::json;

const ROUNDS: usize = 1_000;
const WINDOW: u64 = 32_000;
const MAX_OUTPUT: u64 = 2_000;
/// How much the process may grow after it has found its size.
const GROWTH: u64 = 24 << 20;

/// Bytes of memory that the process holds.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_rounds() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("ws");
    std::fs::create_dir(&workspace).unwrap();
    let home = dir.path().join("state");
    let builder =
        Runtime::builder().policy(Policy::builtin()).workspace(&workspace).home(&home).session("long");
    let runtime = helve::register_builtin_tools(builder).build().unwrap();
    let store = Home::open(&home).unwrap();
    let journal = Journal::open(&store, "long", JournalOptions::default()).unwrap();
    let card = CardOf { window: WINDOW, max_output: MAX_OUTPUT, counts: true, ..CardOf::default() };
    // Something new each time: the number of the request, again and again.
    let says = Reply {
        text: "round $round".into(),
        calls: vec![json!(["echo", {"message": "$180*<$round> some words "}])],
        times: Some(ROUNDS),
        ..Reply::default()
    };
    let control = Control::new();
    let model = Arc::new(Scripted::new(&card, &[says], None, control.clone()));
    let bounds = Bounds { rounds: 3 * ROUNDS as u64, ..Bounds::default() };
    let options = Options { system: SYSTEM.to_owned(), bounds, ..Options::default() };
    let mut agent = Agent::new(runtime.clone(), model.clone(), journal, options);
    let (mut settled, mut most, mut shortened) = (0, 0, 0);
    let mut watch = |event: Event| match event {
        Event::Round { round: 300 } => settled = resident(),
        Event::Round { round } if round > 300 && round % 50 == 0 => most = most.max(resident()),
        Event::Shortened { .. } => shortened += 1,
        _ => {}
    };
    let message = UserMessage { text: "a thousand times".into(), ..UserMessage::default() };
    let ending = agent.run(message, &control, &mut watch).await;
    assert_eq!(ending, Ending::Answered);
    assert!(shortened > 10, "{shortened}");
    assert!(most < settled + GROWTH, "{settled} bytes after 300 rounds, {most} later");
    let seen = model.seen();
    assert_eq!(seen.problems, Vec::<String>::new());
    let largest = seen.largest as u64 / 4;
    assert!(largest <= (WINDOW - MAX_OUTPUT) * 3 / 4 + 1_500, "a request has {largest} tokens");

    let records = helve_agent::record::records(&store, "long").unwrap();
    // What each call was given, by its name, and then what is read of it.
    let message = |body: &serde_json::Value| body["args"]["message"].as_str().map(str::to_owned);
    let given: HashMap<String, String> = records
        .iter()
        .filter(|record| record.kind == EntryKind::Planned)
        .map(|record| (record.call.clone().unwrap(), message(&record.body).unwrap()))
        .collect();
    let ended = records.iter().filter(|record| record.kind == EntryKind::Outcome).count();
    assert_eq!((given.len(), ended), (ROUNDS, ROUNDS));
    drop(records);
    let before = resident();
    for (call, message) in &given {
        let read = runtime.call(Call::new("read_output", json!({ "call": call }))).await;
        assert!(read.ok && read.text().contains(message.trim_end()), "{call}: {}", read.text());
    }
    let after = resident();
    assert!(after < before + GROWTH, "{before} bytes before all was read, {after} later");
}
