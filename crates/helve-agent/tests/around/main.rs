//! What stands around the calls of a loop: the owner's hooks, who else wrote what led to a call, results as they come, and
//! secrets in words that are still being said.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set up must fail loudly")]

mod behind;
mod hooks;
mod pieces;
mod taint;
mod together;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::store::{Home, Journal, JournalOptions};
use helve::{BoxFuture, Cancel, Policy, Runtime, RuntimeBuilder};
use helve_agent::control::Control;
use helve_agent::events::{Ending, Event};
use helve_agent::model::{Answer, Card, Listener, Model, ModelError, Piece, Request};
use helve_agent::run::{Agent, Options};
use helve_agent::talk::{Kept, ModelMessage, Stop, ToolUse, Usage, UserMessage};
use serde_json::Value;

/// The session of every test.
const SESSION: &str = "around";
/// A secret that every policy here knows.
const SECRET: &str = "hunter2-correct-horse-battery";

/// What a model says, and in which pieces.
#[derive(Clone, Default)]
struct Says {
    pieces: Vec<Piece>,
    text: String,
    calls: Vec<ToolUse>,
    /// What the provider wants back.
    kept: Option<Kept>,
}

impl Says {
    /// These calls, each a tool and its arguments; their names are `1`, `2`, ….
    fn calls(calls: &[(&str, Value)]) -> Says {
        let call = |(at, (name, args)): (usize, &(&str, Value))| ToolUse {
            id: format!("{}", at + 1),
            name: (*name).to_owned(),
            args: args.to_string(),
        };
        Says { calls: calls.iter().enumerate().map(call).collect(), ..Says::default() }
    }

    /// These words, each a piece.
    fn words(words: &[&str]) -> Says {
        let pieces = words.iter().map(|text| Piece::Text { text: (*text).to_owned() }).collect();
        Says { pieces, text: words.concat(), ..Says::default() }
    }
}

/// A model that says what it is told to, then that it is done.
struct Parrot {
    card: Card,
    says: Mutex<VecDeque<Says>>,
    /// The messages of each request, as JSON.
    asked: Mutex<Vec<String>>,
}

impl Parrot {
    fn new(says: Vec<Says>) -> Arc<Parrot> {
        let card = Card {
            provider: "test".into(),
            name: "parrot".into(),
            context_window: 100_000,
            max_output: 4_000,
            price: None,
        };
        Arc::new(Parrot { card, says: Mutex::new(says.into()), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Model for Parrot {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer<'a>(
        &'a self,
        request: Request<'a>,
        listener: Listener<'a>,
        _cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Answer, ModelError>> {
        self.asked.lock().unwrap().push(serde_json::to_string(request.messages).unwrap());
        let says = self.says.lock().unwrap().pop_front().unwrap_or_else(|| Says::words(&["done"]));
        Box::pin(async move {
            says.pieces.into_iter().for_each(listener);
            let stop = if says.calls.is_empty() { Stop::Done } else { Stop::Calls };
            let message = ModelMessage { text: says.text, calls: says.calls, kept: says.kept };
            Ok(Answer { message, stop, usage: Usage::default(), model: "parrot".into() })
        })
    }
}

/// A workspace, a directory beside it, and a state directory.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        for name in ["w", "elsewhere"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("token"), SECRET).unwrap();
        Place { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// A runtime with the tools for files; `$DIR` in the policy is this place.
    fn builder(&self, policy: &str) -> RuntimeBuilder {
        let policy = format!("secrets = [{{ file = \"$DIR/token\" }}]\n{policy}");
        let policy = policy.replace("$DIR", self.path("").to_str().unwrap().trim_end_matches('/'));
        let builder = Runtime::builder()
            .policy(Policy::from_toml(&policy).unwrap())
            .workspace(self.path("w"))
            .home(self.path("state"))
            .session(SESSION);
        helve::register_file_tools(helve::register_builtin_tools(builder))
    }

    fn agent(&self, runtime: &Runtime, model: &Arc<Parrot>) -> Agent {
        let home = Home::open(&self.path("state")).unwrap();
        let journal = Journal::open(&home, SESSION, JournalOptions::default()).unwrap();
        Agent::new(runtime.clone(), Arc::clone(model) as Arc<dyn Model>, journal, Options::default())
    }

    fn records(&self) -> Vec<helve::store::Record> {
        helve_agent::record::records(&Home::open(&self.path("state")).unwrap(), SESSION).unwrap()
    }

    /// The bodies of the journal's entries of one kind.
    fn entries(&self, kind: &str) -> Vec<Value> {
        let journal = std::fs::read_to_string(self.path("state/sessions/around/journal.jsonl")).unwrap();
        let entries = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["type"] == kind).map(|entry| entry["body"].clone()).collect()
    }
}

/// Runs an agent to its end and gives what it told.
async fn run(agent: &mut Agent, say: &str, watch: &mut (dyn FnMut(&Event) + Send)) -> (Ending, Vec<Event>) {
    let mut events = Vec::new();
    let mut listen = |event: Event| {
        watch(&event);
        events.push(event);
    };
    let message = UserMessage { text: say.to_owned(), ..UserMessage::default() };
    let control = Control::new();
    let over = agent.run(message, &control, &mut listen);
    let Ok(ending) = tokio::time::timeout(Duration::from_secs(60), over).await else {
        panic!("the run does not end: {events:?}")
    };
    (ending, events)
}
