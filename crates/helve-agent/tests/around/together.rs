//! While calls run together, each result is told when its call ends; the talk has them in call order.

use std::sync::Arc;

use helve::{BoxFuture, Context, Output, Tool, ToolError, ToolSpec};
use helve_agent::control::Control;
use helve_agent::events::{Ending, Event};
use helve_agent::talk::{Message, UserMessage};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Parrot, Place, Says, run};

/// A tool that waits until somebody says that it may end.
struct Waits(ToolSpec, Arc<Notify>);

impl Waits {
    fn new(may_end: &Arc<Notify>) -> Waits {
        let schema = json!({"type": "object", "properties": {}});
        Waits(ToolSpec::new("waits", "Waits.", schema).read_only(), Arc::clone(may_end))
    }
}

impl Tool for Waits {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async {
            self.1.notified().await;
            Ok(Output::text("waited"))
        })
    }
}

fn ids(events: &[Event]) -> Vec<&str> {
    let results = events.iter().filter_map(|event| match event {
        Event::Result { id, .. } => Some(id.as_str()),
        _ => None,
    });
    results.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_told_when_its_call_ends_not_when_all_have() {
    let place = Place::new();
    let may_end = Arc::new(Notify::new());
    let runtime = place.builder("").register(Waits::new(&may_end)).build().unwrap();
    let model = Parrot::new(vec![Says::calls(&[
        ("waits", json!({})),
        ("echo", json!({"message": "two"})),
        ("nobody", json!({})),
        ("echo", json!({"message": "four"})),
    ])]);
    let mut agent = place.agent(&runtime, &model);
    // The first call ends only when the results of all others have been told.
    let mut told = 0;
    let (ending, events) = run(&mut agent, "go", &mut |event| {
        if matches!(event, Event::Result { .. }) {
            told += 1;
            if told == 3 {
                may_end.notify_one();
            }
        }
    })
    .await;
    assert_eq!(ending, Ending::Answered);
    assert_eq!(ids(&events).last(), Some(&"1"), "the first call ends last");
    assert_eq!(ids(&events).len(), 4);
    let results = agent.messages().iter().find_map(|message| match message {
        Message::Results { results } => Some(results),
        _ => None,
    });
    let order: Vec<&str> = results.unwrap().iter().map(|result| result.id.as_str()).collect();
    assert_eq!(order, ["1", "2", "3", "4"], "the talk keeps the order of the calls");
    let told = helve_agent::record::messages(&place.records());
    assert_eq!(told, agent.messages(), "and so does what the journal tells");
}

/// Whoever stops a batch keeps the results that there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_before_the_stop_has_its_own_result() {
    let place = Place::new();
    let runtime = place.builder("").register(Waits::new(&Arc::new(Notify::new()))).build().unwrap();
    let calls = Says::calls(&[("waits", json!({})), ("echo", json!({"message": "two"}))]);
    let mut agent = place.agent(&runtime, &Parrot::new(vec![calls]));
    let control = Control::new();
    let mut events = Vec::new();
    let stop = control.clone();
    let mut watch = |event: Event| {
        if matches!(&event, Event::Result { id, .. } if id == "2") {
            stop.stop_tool();
        }
        events.push(event);
    };
    let message = UserMessage { text: "go".into(), ..UserMessage::default() };
    assert_eq!(agent.run(message, &control, &mut watch).await, Ending::Answered);
    let ended = |event: &Event| match event {
        Event::Result { id, result } => Some((id.clone(), result.ok)),
        _ => None,
    };
    let ended: Vec<(String, bool)> = events.iter().filter_map(ended).collect();
    assert_eq!(ended, [("2".to_owned(), true), ("1".to_owned(), false)]);
}
