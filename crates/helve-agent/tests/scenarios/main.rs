//! What the model says, and what must have happened. Each line of `cases/scenarios.jsonl` is one scenario; whatever is in it,
//! the talk must stay valid, the journal must tell the same talk, and no call may be lost.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up must fail loudly, and one that is skipped must say so"
)]

mod beside;
mod broken;
mod check;
#[path = "../mock/mod.rs"]
mod mock;
mod property;
#[path = "../script/mod.rs"]
mod script;
mod served;
mod tools;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::store::{Home, Journal, JournalOptions};
use helve::{Policy, Runtime, RuntimeBuilder};
use helve_agent::control::Control;
use helve_agent::events::{Bounds, Event};
use helve_agent::prompt::Toolset;
use helve_agent::run::{Agent, Options};
use helve_agent::talk::UserMessage;
use serde::Deserialize;
use serde_json::Value;

use check::Wanted;
use script::{CardOf, Reply, SYSTEM, Scripted};

/// The session of every scenario.
const SESSION: &str = "scenario";
/// A secret that the policy of every scenario knows.
const SECRET: &str = "hunter2-correct-horse-battery";

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    name: String,
    /// TOML.
    #[serde(default)]
    policy: String,
    #[serde(default)]
    card: CardOf,
    #[serde(default)]
    bounds: BoundsOf,
    #[serde(default)]
    toolset: Option<String>,
    /// Files of the workspace.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// What the owner says, one a run.
    #[serde(default = "go")]
    say: Vec<String>,
    /// What the model says, in its order; after that, that it is done.
    model: Vec<Reply>,
    /// What it says where it is asked for a summary.
    #[serde(default)]
    summary: Option<Reply>,
    /// What happens from outside while it runs.
    #[serde(default)]
    on: Vec<Outside>,
    /// It runs commands, and is skipped where there is no sandbox.
    #[serde(default)]
    commands: bool,
    want: Wanted,
}

/// Something from outside.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outside {
    /// At which event.
    event: String,
    /// At the how manieth of them, counted from 1.
    #[serde(default = "one")]
    nth: usize,
    /// `stop_tool`, `stop_run`, or `steer:TEXT`.
    #[serde(rename = "do")]
    act: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BoundsOf {
    rounds: Option<u64>,
    time_ms: Option<u64>,
    tokens: Option<u64>,
    cost: Option<u64>,
}

impl Scenario {
    fn model(&self, control: &Control) -> Arc<Scripted> {
        Arc::new(Scripted::new(&self.card, &self.model, self.summary.clone(), control.clone()))
    }

    fn options(&self) -> Options {
        let bounds = &self.bounds;
        let bounds = Bounds {
            rounds: bounds.rounds.unwrap_or(60),
            time: bounds.time_ms.map(Duration::from_millis),
            tokens: bounds.tokens,
            cost: bounds.cost,
        };
        Options { system: SYSTEM.to_owned(), bounds, ..Options::default() }
    }
}

/// All of them.
fn cases() -> Vec<Scenario> {
    let lines = include_str!("../cases/scenarios.jsonl").lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("line {}: {error}", number + 1))
        })
        .collect()
}

fn go() -> Vec<String> {
    vec!["go".to_owned()]
}

fn one() -> usize {
    1
}

/// A place for one talk: state directory and workspace.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ws")).unwrap();
        std::fs::write(dir.path().join("token"), SECRET).unwrap();
        Place { dir }
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.dir.path().join("ws")
    }

    fn home(&self) -> Home {
        Home::open(&self.dir.path().join("state")).unwrap()
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.home(), SESSION, JournalOptions::default()).unwrap()
    }

    fn runtime(&self, policy: &str) -> Runtime {
        self.runtime_with(policy, |builder| builder)
    }

    /// The same with more in it.
    fn runtime_with(&self, policy: &str, more: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Runtime {
        let token = self.dir.path().join("token");
        let policy = format!("{policy}\n[[secrets]]\nfile = {:?}\n", token.to_str().unwrap());
        let builder = Runtime::builder()
            .policy(Policy::from_toml(&policy).unwrap())
            .workspace(self.workspace())
            .home(self.dir.path().join("state"))
            .session(SESSION);
        let builder = tools::register(more(builder));
        let builder = helve::register_file_tools(helve::register_builtin_tools(builder));
        helve::register_container_tools(builder).build().unwrap()
    }
}

fn write_files(workspace: &Path, files: &BTreeMap<String, String>) {
    for (name, text) in files {
        std::fs::write(workspace.join(name), text).unwrap();
    }
}

async fn play(scenario: &Scenario) -> Result<(), String> {
    let place = Place::new();
    write_files(&place.workspace(), &scenario.files);
    let runtime = place.runtime(&scenario.policy);
    if scenario.commands
        && let Err(error) = runtime.try_sandbox().await
    {
        println!("skipped {}: no sandbox here ({error})", scenario.name);
        return Ok(());
    }
    let control = Control::new();
    let model = scenario.model(&control);
    let options = scenario.options();
    let mut agent = Agent::new(runtime.clone(), model.clone(), place.journal(), options.clone());
    if let Some(toolset) = &scenario.toolset {
        agent = agent.with_toolset(toolset.parse::<Toolset>().unwrap());
    }
    let events: Arc<Mutex<Vec<Value>>> = Arc::default();
    let mut ending = None;
    let started = std::time::Instant::now();
    for text in &scenario.say {
        let mut watch = watcher(scenario, &control, &events);
        let message = UserMessage { text: text.clone(), ..UserMessage::default() };
        let run = agent.run(message, &control, &mut watch);
        let over = tokio::time::timeout(Duration::from_secs(90), run).await;
        ending = Some(over.map_err(|_| "the run does not end".to_owned())?);
    }
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap();
    let (events, ending) = (events.lock().unwrap().clone(), ending.unwrap());
    let told =
        check::Told { place: &place, agent: &agent, seen: model.seen(), events: &events, ending, took_ms };
    check::always(&told)?;
    check::wanted(&told, &scenario.want)?;
    let records = helve_agent::record::records(&place.home(), SESSION).map_err(|error| error.to_string())?;
    let resumed = Agent::resume(runtime, model.clone(), place.journal(), options, &records);
    check::same("resumed", resumed.messages(), agent.messages())?;
    Ok(())
}

/// Listens, and does from outside what the scenario wants.
fn watcher(
    scenario: &Scenario,
    control: &Control,
    events: &Arc<Mutex<Vec<Value>>>,
) -> impl FnMut(Event) + Send + use<> {
    let (on, control, events) = (scenario.on.clone(), control.clone(), Arc::clone(events));
    move |event| {
        let event = serde_json::to_value(&event).unwrap();
        let name = event["event"].as_str().unwrap().to_owned();
        let mut events = events.lock().unwrap();
        events.push(event);
        let nth = events.iter().filter(|event| event["event"] == name).count();
        for outside in on.iter().filter(|outside| outside.event == name && outside.nth == nth) {
            match outside.act.split_once(':') {
                Some(("steer", text)) => control.steer(text.to_owned()),
                _ if outside.act == "stop_tool" => control.stop_tool(),
                _ if outside.act == "stop_run" => control.stop_run(),
                _ => panic!("{} is nothing that can be done", outside.act),
            }
        }
    }
}

/// So many scenarios are played at once. Most of their time is waiting: for a grace that passes, for something that hangs.
const AT_ONCE: usize = 8;

/// Plays every scenario whose name holds the word in `SCENARIO`, where that is set; what came of each, in no order.
async fn each<F, T>(play: impl Fn(usize, Scenario) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let only = std::env::var("SCENARIO").ok();
    let (mut playing, mut played) = (tokio::task::JoinSet::new(), Vec::new());
    for (number, scenario) in cases().into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| !scenario.name.contains(only)) {
            continue;
        }
        if playing.len() >= AT_ONCE {
            played.extend(playing.join_next().await.map(Result::unwrap));
        }
        playing.spawn(play(number, scenario));
    }
    played.extend(playing.join_all().await);
    assert!(played.len() >= 50 || only.is_some(), "only {} scenarios", played.len());
    played
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios() {
    let played = each(|_, scenario| async move {
        play(&scenario).await.map_err(|why| format!("{}: {why}", scenario.name))
    });
    let failed: Vec<String> = played.await.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
