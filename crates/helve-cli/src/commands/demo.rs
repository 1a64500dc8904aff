//! `helve demo`: a recorded coding session with real tools.
//!
//! In: a shipped record of what a model said, and a small project with a bug. Out: the session as `helve agent` shows one,
//! recorded like any other. The record holds no output of any tool: every call is made through the pipeline, in the sandbox,
//! and what each should come to is checked.

mod project;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args as ClapArgs;
use helve::ErrorKind;
use helve::store::{Entry, EntryKind, Home, Journal, JournalOptions, Record};
use helve_agent::control::Control;
use helve_agent::events::{Ending, Event};
use helve_agent::models::record::Recorded;
use helve_agent::run::{Agent, Options as AgentOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agent::show::{self, Reader, Show};
use crate::args::Global;
use crate::failure::{Failure, whoever_reads};
use crate::harmless::one_line;
use crate::setup::{self, Running};
use crate::{moment, ui};
pub(crate) use project::Project;

/// What the model says.
const RECORD: &str = include_str!("demo/record.jsonl");
/// The record's name where a model's name stands.
const NAME: &str = "demo";
/// What the model is told of itself.
const SYSTEM: &str = "You mend a small project.";

/// Watch a recorded coding session with real tools; needs no model
#[derive(ClapArgs)]
#[command(long_about = "\
Watch a recorded coding session with real tools; needs no model, no key and no network.

A small project with a failing test is put into a new directory. What the model says comes from a record that is part of \
Helve; what it wants to do is really done: every call goes through the pipeline under your policy, in the sandbox, and into \
a journal, like those of `helve agent`. The test fails before and passes after. The directory is removed at the end unless \
you keep it.

Exit code: 0 if every call ended as the record says it should, 1 if not, 130 if it was stopped.")]
#[command(after_help = "\
Examples:
  helve demo
  helve demo --keep
  helve demo --seed 7 --json")]
pub(crate) struct Options {
    /// Keep the project's directory, and say where it is
    #[arg(long)]
    keep: bool,
    /// Another number than 0 changes a price in the project, so that one result is another
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// What the journal keeps of the demo, so that `helve replay` can make its project again.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Mark {
    demo: Demo,
}

/// Which project it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Demo {
    /// What its project was changed by.
    pub(crate) seed: u64,
}

/// The demo that these records are of; none if they are of none.
pub(crate) fn of(records: &[Record]) -> Option<Demo> {
    let notes = records.iter().filter(|record| record.kind == EntryKind::Note);
    notes.filter_map(|record| Mark::deserialize(&record.body).ok()).map(|mark| mark.demo).next()
}

pub(crate) fn demo(global: &Global, options: &Options) -> Result<u8, Failure> {
    let recorded = Recorded::parse(NAME, RECORD).map_err(|error| Failure::internal(error.to_string()))?;
    let project = Project::make(options.seed, options.keep)?;
    let session = global.session.clone().unwrap_or_else(|| fresh("demo"));
    let inside = within(global, &project, session.clone());
    let policy = setup::policy(&inside)?;
    let fsync = policy.fsync();
    let running = Running::for_agent(&inside, policy, session.clone())?;
    let home = Home::open(&Home::default_path()?)?;
    let journal = Journal::open(&home, &session, JournalOptions { fsync })?;
    let mark = Mark { demo: Demo { seed: options.seed } };
    journal.record(&[Entry { kind: EntryKind::Note, call: None, at_us: now(), body: mark }])?;
    if !global.json {
        let dir = project.dir().display();
        ui::tell(&format!("A model's recorded words, and real tools in {dir}.\n"));
        let task = recorded.task().map(|task| task.text.as_str()).unwrap_or_default();
        ui::tell(&format!("{} {}\n", ui::styled(ui::STRONG, "Task:"), one_line(task, 500)));
    }
    let ran = running.block_on(|runtime, cancel, _| async move {
        let control = Control::new();
        let stopper = control.clone();
        let stop = tokio::spawn(async move {
            cancel.cancelled().await;
            stopper.stop_run();
        });
        let options = AgentOptions { system: SYSTEM.to_owned(), ..AgentOptions::default() };
        let ran = run(
            Agent::new(runtime, Arc::new(recorded.clone()), journal, options),
            &recorded,
            &control,
            reader(global),
        )
        .await;
        stop.abort();
        ran
    })?;
    let Ran { ending, other } = ran?;
    let as_recorded = ending == Ending::Answered && other.is_empty();
    if global.json {
        ui::print_json(&json!({
            "event": "demo",
            "session": session,
            "as_recorded": as_recorded,
            "other": other,
            "kept": options.keep.then(|| project.dir()),
        }))?;
    } else {
        tell_end(&session, &other, options.keep.then(|| project.dir()));
    }
    Ok(match ending {
        Ending::Answered => u8::from(!as_recorded),
        ending => show::exit_code(&ending),
    })
}

/// The demo's own place in the options: its project and its session.
pub(crate) fn within(global: &Global, project: &Project, session: String) -> Global {
    Global {
        workspace: Some(project.dir().to_owned()),
        config: global.config.clone(),
        set: global.set.clone(),
        json: global.json,
        session: Some(session),
    }
}

/// A name for a new session.
pub(crate) fn fresh(kind: &str) -> String {
    let unlike = now() % 1_000_000;
    format!("{kind}-{}-{unlike:06}", moment::stamp())
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

fn reader(global: &Global) -> Reader {
    match global.json {
        true => Reader::Program,
        false => Reader::Person { streams: ui::stdout_is_terminal() },
    }
}

/// How the session went.
struct Ran {
    ending: Ending,
    /// The calls that did not end as they should.
    other: Vec<Value>,
}

async fn run(
    mut agent: Agent,
    recorded: &Recorded,
    control: &Control,
    reader: Reader,
) -> Result<Ran, Failure> {
    let mut show = Show::new(reader, control.clone());
    let mut waiting: Vec<&str> = recorded.calls().collect();
    let mut other = Vec::new();
    let mut watch = |event: Event| {
        if let Event::Result { id, result } = &event {
            waiting.retain(|call| call != id);
            // A refusal is no failure of the kind that the record means.
            let kind = result.error.as_ref().map(|error| error.kind);
            let as_recorded = match recorded.should_end_well(id) {
                Some(true) => result.ok,
                Some(false) => kind == Some(ErrorKind::ToolFailed),
                None => true,
            };
            if !as_recorded {
                let ended = kind.map_or("ok", |kind| kind.name());
                other.push(json!({"id": id, "call": result.call, "tool": result.tool, "ended": ended}));
            }
        }
        show.take(&event);
    };
    let task = recorded.task().cloned().unwrap_or_default();
    let ending = agent.run(task, control, &mut watch).await;
    agent.close(ending.name(), &mut watch).await;
    whoever_reads(show.finish())?;
    other.extend(waiting.into_iter().map(|id| json!({"id": id, "ended": "never made"})));
    Ok(Ran { ending, other })
}

fn tell_end(session: &str, other: &[Value], kept: Option<&std::path::Path>) {
    for call in other {
        let word = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
        ui::error(&format!("the call {} should have ended otherwise: {}", word("id"), word("ended")));
    }
    if let Some(dir) = kept {
        ui::note(&format!("the project is in {}", dir.display()));
    }
    ui::note(&format!(
        "the session is {session}: `helve replay {session}` makes its calls again, `helve verify {session}` checks its journal"
    ));
}
