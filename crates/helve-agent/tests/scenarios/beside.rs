//! What is not in the answers of a model: which tools it is shown, a journal that cannot be written, and time in which a
//! person is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use helve::mcp::client::{Shelf, ToolSearch};
use helve::{Answer, Approval, ApprovalRequest, Approver, BoxFuture, Context, Output, Tool, ToolError};
use helve_agent::events::{Bound, Ending};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

/// A model that gives these answers.
fn scripted(replies: &[Value], control: &Control) -> Arc<Scripted> {
    let replies: Vec<Reply> =
        replies.iter().map(|reply| serde_json::from_value(reply.clone()).unwrap()).collect();
    Arc::new(Scripted::new(&CardOf::default(), &replies, None, control.clone()))
}

fn options(bounds: Bounds) -> Options {
    Options { system: SYSTEM.to_owned(), bounds, ..Options::default() }
}

fn said(text: &str) -> UserMessage {
    UserMessage { text: text.to_owned(), ..UserMessage::default() }
}

fn outcomes(place: &Place) -> Vec<(String, Value)> {
    let records = helve_agent::record::records(&place.home(), SESSION).unwrap();
    let outcomes = records.into_iter().filter(|record| record.kind == helve::store::EntryKind::Outcome);
    outcomes
        .map(|record| {
            (record.body["tool"].as_str().unwrap().to_owned(), record.body["error"]["kind"].clone())
        })
        .collect()
}

/// The tool that finds tools under another name: its own is kept for the servers' gateway.
struct Finds {
    spec: helve::ToolSpec,
    search: ToolSearch,
}

impl Tool for Finds {
    fn spec(&self) -> &helve::ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        self.search.run(args, ctx)
    }
}

/// Of the tools on a shelf that is too full the model is shown those that it has searched for, from its next request on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_on_a_shelf_are_shown_when_they_were_found() {
    let (place, control) = (Place::new(), Control::new());
    let shelf = Shelf::new(1);
    let search = ToolSearch::new(Arc::clone(&shelf));
    let spec = helve::ToolSpec::new("finder", "Finds tools.", search.spec().parameters.clone()).read_only();
    let runtime = place.runtime_with("", |builder| builder.register(Finds { spec, search }));
    let stored: Vec<Arc<helve::ToolSpec>> =
        runtime.specs().filter(|spec| ["count", "picture"].contains(&spec.name.as_str())).collect();
    shelf.fill(stored.iter().map(|spec| &**spec));
    let model = scripted(
        &[json!({"calls": [["finder", {"query": "another number"}]]}), json!({"calls": [["count", {}]]})],
        &control,
    );
    let mut agent =
        Agent::new(runtime, model.clone(), place.journal(), options(Bounds::default())).with_shelf(shelf);
    let ending = agent.run(said("go"), &control, &mut |_| {}).await;
    assert_eq!(ending, Ending::Answered);
    assert_eq!(outcomes(&place), [("finder".to_owned(), Value::Null), ("count".to_owned(), Value::Null)]);
    let seen = model.seen();
    assert_eq!(seen.problems, Vec::<String>::new());
    let shown = |name: &str| -> Vec<bool> {
        seen.tools.iter().map(|names| names.iter().any(|shown| shown == name)).collect()
    };
    assert_eq!(shown("count"), [false, true]);
    assert_eq!(shown("picture"), [false, false]);
    assert_eq!((shown("finder"), shown("echo")), (vec![true, true], vec![true, true]));
}

/// Whatever cannot be recorded is not done, and the run ends with a word that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_on_unrecorded() {
    // At these events the journal becomes one that nothing may be added to. The first comes before anything is written.
    for (event, rounds) in [("begin", 0), ("round", 1), ("answer", 1), ("result", 1)] {
        let (place, control) = (Place::new(), Control::new());
        let runtime = place.runtime("");
        let call = json!({"calls": [["write_file", {"path": "made.txt", "content": "x"}]]});
        let model = scripted(&[json!({"text": "before"}), call], &control);
        let mut agent = Agent::new(runtime, model.clone(), place.journal(), options(Bounds::default()));
        assert_eq!(agent.run(said("first"), &control, &mut |_| {}).await, Ending::Answered);
        let before = model.seen().requests;
        let journal = place.dir.path().join("state/sessions").join(SESSION).join("journal.jsonl");
        let (mut events, mut emptied) = (Vec::new(), false);
        let mut watch = |told: Event| {
            let told = serde_json::to_value(&told).unwrap();
            if told["event"] == event && !emptied {
                emptied = true;
                std::fs::write(&journal, "").unwrap();
            }
            events.push(told);
        };
        let ending = agent.run(said("second"), &control, &mut watch).await;
        assert!(matches!(&ending, Ending::Unrecorded { message } if message.contains("journal")), "{event}");
        let last = events.last().unwrap();
        assert_eq!((&last["event"], &last["ending"]), (&json!("end"), &json!("unrecorded")), "{last}");
        assert!(last["text"].as_str().unwrap().contains("Nothing goes on unrecorded"), "{last}");
        assert_eq!(model.seen().requests - before, rounds.min(usize::from(event != "round")), "{event}");
        assert_eq!(place.workspace().join("made.txt").exists(), event == "result", "{event}");
        assert_eq!(model.seen().problems, Vec::<String>::new());
    }
}

/// A person who thinks for a while and agrees.
struct Slow {
    thinks: Duration,
    asked: AtomicUsize,
}

impl Approver for Slow {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.thinks).await;
            Answer::new("test", Approval::Once)
        })
    }
}

/// The time of a run does not go on while a person is asked, however long that takes; the model's own time counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_a_run_stands_still_while_a_person_is_asked() {
    let time = Duration::from_secs(4);
    let asks = json!({"calls": [["asks", {}]]});
    let thinks = json!({"text": "I think.", "sleep_ms": 4_500, "calls": [["echo", {"message": "a"}]]});
    for (first, ending) in [(asks, Ending::Answered), (thinks, Ending::Bound { bound: Bound::Time })] {
        let (place, control) = (Place::new(), Control::new());
        let person = Arc::new(Slow { thinks: Duration::from_secs(6), asked: AtomicUsize::new(0) });
        let approver = Arc::clone(&person) as Arc<dyn Approver>;
        let runtime = place.runtime_with("", |builder| builder.approver(approver));
        let questions = usize::from(ending == Ending::Answered);
        let model = scripted(&[first, json!({"text": "done"})], &control);
        let bounds = Bounds { time: Some(time), ..Bounds::default() };
        let mut agent = Agent::new(runtime, model, place.journal(), options(bounds));
        assert_eq!(agent.run(said("go"), &control, &mut |_| {}).await, ending);
        assert_eq!(person.asked.load(Ordering::Relaxed), questions);
        let (tool, kind) = outcomes(&place).pop().unwrap();
        assert_eq!((tool.as_str(), kind), (if questions == 1 { "asks" } else { "echo" }, Value::Null));
    }
}
