//! A thousand rounds in one session: memory stays flat, the talk within its budget, and every result can still be read.
//!
//! Alone in its program, because it looks at the memory of the whole process.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helve::store::{EntryKind, Home, Journal, JournalOptions};
use helve::{BoxFuture, Call, Cancel, Policy, Runtime};
use helve_agent::control::Control;
use helve_agent::events::{Bounds, Ending, Event};
use helve_agent::model::{Answer, Card, Listener, Model, ModelError, Request};
use helve_agent::run::{Agent, Options};
use helve_agent::talk::{ModelMessage, Stop, ToolUse, Usage, UserMessage};
use serde_json::json;

const ROUNDS: u64 = 1_000;
const WINDOW: u64 = 32_000;
/// How much the process may grow after it has found its size.
const GROWTH: u64 = 24 << 20;

/// A model that calls `echo` with something new each time.
struct Talker {
    card: Card,
    calls: AtomicU64,
    largest: AtomicU64,
}

/// About four bytes are a token to this provider.
fn tokens(request: &Request<'_>) -> u64 {
    (serde_json::to_string(request.messages).unwrap().len() as u64) / 4
}

impl Model for Talker {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer<'a>(
        &'a self,
        request: Request<'a>,
        _listener: Listener<'a>,
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        let input = tokens(&request);
        self.largest.fetch_max(input, Ordering::Relaxed);
        let message = if request.tools.is_empty() {
            ModelMessage { text: "the summary".into(), ..ModelMessage::default() }
        } else {
            let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let text = format!("<{number}>{}", "some words ".repeat(180));
            let args = json!({ "message": text }).to_string();
            let call = ToolUse { id: format!("id{number}"), name: "echo".into(), args };
            let calls = if number > ROUNDS { Vec::new() } else { vec![call] };
            ModelMessage { text: format!("round {number}"), calls, kept: None }
        };
        let stop = if message.calls.is_empty() { Stop::Done } else { Stop::Calls };
        let usage = Usage { input, cached: 0, output: 50 };
        Box::pin(async move { Ok(Answer { message, stop, usage, model: "talker".into() }) })
    }
}

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
    let card = Card {
        provider: "test".into(),
        name: "talker".into(),
        context_window: WINDOW,
        max_output: 2_000,
        price: None,
    };
    let model = Arc::new(Talker { card, calls: AtomicU64::new(0), largest: AtomicU64::new(0) });
    let bounds = Bounds { rounds: 3 * ROUNDS, ..Bounds::default() };
    let options = Options { system: "You are tested.".into(), bounds, ..Options::default() };
    let mut agent = Agent::new(runtime.clone(), model.clone(), journal, options);
    let (mut settled, mut most, mut shortened) = (0, 0, 0);
    let mut watch = |event: Event| match event {
        Event::Round { round: 300 } => settled = resident(),
        Event::Round { round } if round > 300 && round % 50 == 0 => most = most.max(resident()),
        Event::Shortened { .. } => shortened += 1,
        _ => {}
    };
    let message = UserMessage { text: "a thousand times".into(), ..UserMessage::default() };
    let ending = agent.run(message, &Control::new(), &mut watch).await;
    assert_eq!(ending, Ending::Answered);
    assert!(shortened > 10, "{shortened}");
    assert!(most < settled + GROWTH, "{settled} bytes after 300 rounds, {most} later");
    let largest = model.largest.load(Ordering::Relaxed);
    assert!(largest <= (WINDOW - 2_000) * 3 / 4 + 1_500, "a request has {largest} tokens");

    let records = helve_agent::record::records(&store, "long").unwrap();
    let calls: Vec<String> = records
        .iter()
        .filter(|record| record.kind == EntryKind::Outcome)
        .map(|record| record.call.clone().unwrap())
        .collect();
    assert_eq!(calls.len() as u64, ROUNDS);
    // All of them could be read; every seventh shows it.
    for (number, call) in calls.iter().enumerate().step_by(7) {
        let read = runtime.call(Call::new("read_output", json!({ "call": call }))).await;
        assert!(read.text().contains(&format!("<{}>some words", number + 1)), "{call}: {}", read.text());
    }
}
