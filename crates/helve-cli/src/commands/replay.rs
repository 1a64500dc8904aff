//! `helve replay`: makes the calls of a session again and says where their results differ, or tells it from the record.
//!
//! | module | does |
//! |---|---|
//! | `frozen` | tells a session from its journal alone |
//!
//! Deliberately not here: what counts as a difference, which is `helve-agent`'s.

mod frozen;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use clap::Args as ClapArgs;
use helve::mcp::Gateway;
use helve::store::{self, Home, Record, StoreError, Tail};
use helve::{Call, CallScope, ExecMode};
use helve_agent::record::{self, PastCall};
use helve_agent::replay::{Difference, Places, difference};
use helve_agent::talk::ToolUse;
use serde::Serialize;
use serde_json::{Value, json};

use super::agent::show::headline;
use super::demo::{self, Demo, Project};
use crate::args::Global;
use crate::failure::{CANCELLED, Failure, USAGE};
use crate::harmless::harmless;
use crate::setup::{self, Running};
use crate::{approve, ui};

/// Make the calls of a session again and see where results differ
#[derive(ClapArgs)]
#[command(long_about = "\
Make the calls of a session again and see where results differ.

Each call goes through the pipeline like any other, one after the other, under the policy of now, and is recorded in a session \
of its own. What differs by nature (names of calls, times, lengths of time, the path of the workspace) is left out. Calls \
change files and run commands as they did then: name the place with --in DIR, best a copy of the project as it was before, or \
you are asked. The session of a demo gets its project made anew. Not made again: what the owner did (undo, commit, discard), and a \
command of which nobody committed what it would change, unless the policy of now is one of previews too.

With --frozen nothing is called: the session is told from its journal, the same bytes every time.

The journal is verified first; an entry that was changed is named, and then nothing is called. Not made again is also a call \
whose arguments could not be read. Exit code: 0 no difference, 1 differences or a journal that is not sound, 2 bad usage or \
no such session, 130 stopped.")]
#[command(after_help = "\
Examples:
  helve replay 2026-01-31 --in ../copy-of-the-project
  helve replay 2026-01-31 --frozen
  helve replay 2026-01-31 --in ../copy-of-the-project --json")]
pub(crate) struct Options {
    /// The session
    #[arg(value_name = "SESSION")]
    name: String,
    /// Tell it from the record; nothing is called
    #[arg(long)]
    frozen: bool,
    /// The directory to make the calls in; nobody is asked
    #[arg(long = "in", value_name = "DIR", conflicts_with = "frozen")]
    place: Option<PathBuf>,
    /// Do not ask before the calls are made in the workspace
    #[arg(long, conflicts_with = "frozen")]
    yes: bool,
    /// For the session of a demo: make its project with another seed
    #[arg(long, value_name = "N", conflicts_with_all = ["frozen", "place"])]
    seed: Option<u64>,
}

/// A session's records; an error that says what to do if it is not there, with this exit code.
pub(crate) fn records(home: Option<&Home>, session: &str, absent: u8) -> Result<Vec<Record>, Failure> {
    known(home, session, absent, |home| record::records(home, session))
}

/// The same for who reads them one by one: where the session is.
pub(crate) fn holds<'h>(home: Option<&'h Home>, session: &str, absent: u8) -> Result<&'h Home, Failure> {
    known(home, session, absent, |home| Tail::open(home, session, 0).map(|_| home))
}

fn known<'h, T>(
    home: Option<&'h Home>,
    session: &str,
    absent: u8,
    read: impl FnOnce(&'h Home) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let failed = || Failure::no_session(session).with_code(absent);
    let home = home.ok_or_else(failed)?;
    match read(home) {
        Err(StoreError::NoSuchSession(_)) => Err(match store::verify_entries(home, session) {
            // It was there: that is no mistake in the name.
            Ok(_) => Failure::journal_gone(session),
            Err(StoreError::NoSuchSession(_)) => failed(),
            Err(error) => error.into(),
        }),
        other => Ok(other?),
    }
}

pub(crate) fn replay(global: &Global, options: &Options) -> Result<u8, Failure> {
    let home = setup::existing_home()?;
    let home = holds(home.as_ref(), &options.name, USAGE)?;
    // All of it is held at once to make the calls again; what is too large for that is refused before it is read.
    let records = match options.frozen {
        true => Vec::new(),
        false => records(Some(home), &options.name, USAGE)?,
    };
    let problems = store::verify(home, &options.name, None)?.problems;
    for problem in &problems {
        ui::error(&format!("the journal is not sound: {}", harmless(&problem.message)));
    }
    if options.frozen {
        frozen::tell(home, &options.name, global.json)?;
        return Ok(u8::from(!problems.is_empty()));
    }
    let calls = record::calls(&records);
    let problems: Vec<String> = problems.into_iter().map(|problem| problem.message).collect();
    // What somebody else may have written into a journal is not carried out.
    if calls.is_empty() || !problems.is_empty() {
        ui::note(match problems.is_empty() {
            true => "the session holds no calls",
            false => "nothing was called: a journal that is not sound can only be told, with --frozen",
        });
        if global.json {
            ui::print_json(&Tally::default().told(&options.name, None, &problems))?;
        }
        return Ok(u8::from(!problems.is_empty()));
    }
    let session = global.session.clone().unwrap_or_else(|| demo::fresh("replay"));
    let (inside, _project) = place(global, options, demo::of(&records), calls.len(), session.clone())?;
    let tally = again(&inside, calls)?;
    if global.json {
        ui::print_json(&tally.told(&options.name, Some(&session), &problems))?;
    } else {
        let Tally { same, differ, left_out, .. } = tally;
        ui::print(&format!("{same} the same, {differ} differ, {left_out} not made again"))?;
    }
    Ok(match tally.cancelled {
        true => CANCELLED,
        false => u8::from(tally.differ > 0),
    })
}

/// Where the calls are made: the demo's project made anew, the place that was named, or the workspace if the owner agrees.
fn place(
    global: &Global,
    options: &Options,
    demo: Option<Demo>,
    count: usize,
    session: String,
) -> Result<(Global, Option<Project>), Failure> {
    let own = |workspace| Global {
        workspace,
        config: global.config.clone(),
        set: global.set.clone(),
        json: global.json,
        session: Some(session.clone()),
    };
    if let Some(dir) = &options.place {
        return Ok((own(Some(setup::directory("directory", dir, "--in")?)), None));
    }
    if let Some(demo) = demo {
        let project = Project::make(options.seed.unwrap_or(demo.seed), false)?;
        return Ok((demo::within(global, &project, session), Some(project)));
    }
    if options.seed.is_some() {
        return Err(Failure::usage("--seed belongs to the session of a demo, and this is none"));
    }
    let inside = own(global.workspace.clone());
    let workspace = setup::workspace(&inside)?;
    let question = format!(
        "{count} calls are made again in {}; they may change files there. Go on? [y/N] ",
        harmless(&workspace.display().to_string())
    );
    if options.yes || approve::confirm(&question) {
        return Ok((inside, None));
    }
    Err(Failure::usage(
        "nothing was called. Name the directory for it with --in DIR, agree with --yes, or tell the session with --frozen",
    ))
}

/// Why a call is not made again.
const UNCOMMITTED: &str = "what it would change was not committed, and now it would happen; --set tools.exec.mode=preview shows it again";

/// How many calls came out how.
#[derive(Default)]
struct Tally {
    same: u64,
    differ: u64,
    left_out: u64,
    cancelled: bool,
}

impl Tally {
    /// The same for programs. Where nothing was called there is no session that it was recorded in.
    fn told(&self, session: &str, recorded_in: Option<&str>, problems: &[String]) -> Value {
        let mut told = json!({"session": session});
        if let Some(recorded_in) = recorded_in {
            told["recorded_in"] = json!(recorded_in);
        }
        told["same"] = json!(self.same);
        told["differ"] = json!(self.differ);
        told["left_out"] = json!(self.left_out);
        told["problems"] = json!(problems);
        told
    }
}

/// One call, made again.
#[derive(Serialize)]
struct Line<'a> {
    /// Its number in the session.
    number: usize,
    call: &'a str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'a Difference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<&'a str>,
}

/// Makes the calls, one after the other, and says of each how it came out.
fn again(inside: &Global, calls: Vec<PastCall>) -> Result<Tally, Failure> {
    let policy = setup::policy(inside)?;
    // What the owner has not let happen does not happen by a repetition.
    let waiting = match policy.exec_mode() {
        ExecMode::Preview => HashSet::new(),
        ExecMode::Direct | ExecMode::Checkpoint => record::uncommitted(&calls),
    };
    let workspace = setup::workspace(inside)?;
    let fleet = match calls.iter().any(|past| past.planned["lane"] == "mcp") {
        true => setup::fleet(inside, &policy)?,
        false => None,
    };
    let running = match &fleet {
        None => Running::new(inside, policy)?,
        Some(fleet) => Running::with_servers(inside, policy, None, fleet)?,
    };
    let json = inside.json;
    running.block_on(|runtime, cancel, _| async move {
        let _gateway = match &fleet {
            None => None,
            Some(fleet) => {
                fleet.recall().await;
                Some(Gateway::new(fleet, &runtime, usize::MAX))
            }
        };
        let after = workspace.to_string_lossy().into_owned();
        let mut tally = Tally::default();
        let mut names: HashMap<String, String> = HashMap::new();
        for (number, past) in calls.iter().enumerate() {
            let mut line = Line {
                number: number + 1,
                call: &past.call,
                tool: past.tool(),
                same: None,
                difference: None,
                left_out: past
                    .why_not_again()
                    .or_else(|| waiting.contains(&past.call).then_some(UNCOMMITTED)),
            };
            let mut found = None;
            if line.left_out.is_some() {
                tally.left_out += 1;
            } else {
                let before = past.workspace().unwrap_or_default();
                let places = Places { before, after: &after, calls: &names };
                let call = Call { args: places.moved(past.args()).into(), ..past.again() };
                let tainted = past.tainted().map(str::to_owned);
                let scope = CallScope { tainted, ..CallScope::default() };
                let result = runtime.call_in(call, scope).await;
                if cancel.is_cancelled() {
                    tally.cancelled = true;
                    return Ok(tally);
                }
                found = difference(past, &result, places);
                names.insert(past.call.clone(), result.call.to_string());
                line.same = Some(found.is_none());
                tally.same += u64::from(found.is_none());
                tally.differ += u64::from(found.is_some());
            }
            line.difference = found.as_ref();
            match json {
                true => ui::print_json(&line)?,
                false => ui::print_styled(&told(&line, past))?,
            }
        }
        Ok(tally)
    })?
}

/// A call on one line, and its difference below.
fn told(line: &Line<'_>, past: &PastCall) -> String {
    let name = headline_of(past);
    let number = line.number;
    if let Some(why) = line.left_out {
        return format!("{number:4} {}  {name}: {why}\n", ui::styled(ui::CAREFUL, "not made"));
    }
    let Some(found) = line.difference else {
        return format!("{number:4} {}      {name}\n", ui::styled(ui::GOOD, "same"));
    };
    let mut text =
        format!("{number:4} {}   {name}  {} ({})\n", ui::styled(ui::BAD, "differs"), line.call, found.what);
    for line in found.diff.lines() {
        let style = match line.as_bytes().first() {
            Some(b'-') => ui::BAD,
            Some(b'+') => ui::GOOD,
            _ => ui::FAINT,
        };
        text.push_str(&format!("       {}\n", ui::styled(style, &harmless(line))));
    }
    text
}

/// The tool and what it was about. The journal has every argument, also those that nobody wrote.
fn headline_of(past: &PastCall) -> String {
    const TELLING: &[&str] = &["command", "pattern", "path", "url", "query", "name", "message"];
    let args = past.args();
    let told: serde_json::Map<String, Value> =
        TELLING.iter().filter_map(|name| Some(((*name).to_owned(), args.get(*name)?.clone()))).collect();
    let args = if told.is_empty() { args.to_string() } else { Value::Object(told).to_string() };
    headline(&ToolUse { id: String::new(), name: past.tool().to_owned(), args }, 70)
}
