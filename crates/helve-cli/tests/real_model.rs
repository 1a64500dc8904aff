//! `helve agent` with a small real model that drives tools through a server that speaks chat completions. The model has to
//! call, because a grammar leaves it nothing else; what it calls is its own choice, and mostly nonsense. So it is judged by the
//! protocol and by the journal: every call is planned and has an outcome, what is wrong is told to the model, the run ends
//! clearly, nothing is left running.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and tells what the model did"
)]

#[path = "../../helve-agent/tests/real_model/mod.rs"]
mod real_model;
mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use pretty_assertions::assert_eq;
use real_model::{RealModel, WINDOW};
use rustix::process::{getpid, set_child_subreaper};
use serde_json::{Value, json};
use support::{Place, Ran, json_lines, wait_for};

/// So many answers of a talk have to be calls.
const CALLS: usize = 3;

/// A place whose owner has chosen the model.
fn place(served: &RealModel) -> Place {
    let place = Place::new();
    place.put("notes.txt", "The meeting is on Monday.\n");
    place.put("numbers.csv", "a,1\nb,2\n");
    place.configure(&format!(
        "[model]\nbase_url = '{}'\ncontext_window = {WINDOW}\nmax_output = 120\ntemperature = 0.9\nidle_timeout = 600\n",
        served.url
    ));
    place
}

fn agent(place: &Place, forced: usize, more: &[&str]) -> Ran {
    let model = format!("openai-compatible:forced-{forced}");
    let words = ["agent", "--json", "--model", &model, "--max-time", "20m"];
    place.run(&[&words[..], more].concat())
}

/// What stands in the journal of one kind.
fn entries<'a>(journal: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    journal.iter().filter(move |entry| entry["type"] == kind)
}

fn chapters<'a>(journal: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    journal.iter().map(|entry| &entry["body"]).filter(move |body| body["agent"] == name)
}

fn names<'a>(of: impl Iterator<Item = &'a Value>) -> Vec<String> {
    of.map(|value| value.as_str().unwrap_or_default().to_owned()).collect()
}

/// What must hold whatever the model chose; how many calls it made.
fn judge(place: &Place, ran: &Ran) -> usize {
    let events = json_lines(&ran.stdout);
    let journal = place.journal();
    // Every call that the model wanted was made, or it was told why not; each once.
    let wanted: Vec<&Value> = chapters(&journal, "answered")
        .flat_map(|body| body["answer"]["calls"].as_array().into_iter().flatten())
        .collect();
    let ids = names(wanted.iter().map(|call| &call["id"]));
    let unique: BTreeSet<&String> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    let mut answered = names(entries(&journal, "outcome").map(|entry| &entry["body"]["id"]));
    let not_run = chapters(&journal, "not_run").flat_map(|body| body["results"].as_array().unwrap());
    answered.extend(names(not_run.map(|result| &result["id"])));
    answered.sort();
    let mut sorted = ids.clone();
    sorted.sort();
    assert_eq!(answered, sorted);
    // What was planned has an outcome.
    let calls = |kind| -> BTreeSet<String> {
        names(entries(&journal, kind).map(|entry| &entry["call"])).into_iter().collect()
    };
    assert_eq!(calls("planned"), calls("outcome"));
    // Arguments are what the tool takes, or the model was told in words what is wrong with them.
    for entry in entries(&journal, "outcome") {
        let body = &entry["body"];
        let text = body["content"][0]["text"].as_str().unwrap_or_default();
        eprintln!("  {} {} {}", body["tool"], body["error"]["kind"], text.lines().next().unwrap_or_default());
        assert!(body["ok"] == true || !text.is_empty(), "{body}");
        if body["error"]["kind"] == "invalid_params" {
            assert!(text.starts_with("Error") && text.lines().count() > 1, "{body}");
        }
    }
    // It ends clearly, and counts what it cost.
    let end = events.last().unwrap();
    eprintln!("  {} after {} rounds, {}", end["ending"], end["rounds"], end["usage"]);
    assert_eq!(end["event"], "end", "{ran:?}");
    assert!(!end["text"].as_str().unwrap().trim().is_empty(), "{end}");
    assert!(end["usage"]["output"].as_u64().unwrap() > 0, "{end}");
    let ending = if end["ending"] == "bound" { &end["bound"] } else { &end["ending"] };
    assert_eq!(&chapters(&journal, "end").last().unwrap()["ending"], ending);
    let verified = place.verify();
    assert_eq!((verified.code, &verified.result["cut_calls"]), (0, &json!([])), "{:#}", verified.result);
    entries(&journal, "outcome").count()
}

/// Processes that this one has, or has inherited because whoever started them is gone.
fn children() -> BTreeSet<u32> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = |path: std::path::PathBuf| std::fs::read_to_string(path.join("children"));
    let all: Vec<String> = threads.filter_map(|thread| children(thread.path()).ok()).collect();
    all.iter().flat_map(|text| text.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_real_model_drives_tools() {
    let Some(served) = RealModel::start("a_real_model_drives_tools") else { return };
    // What a run would leave behind comes to this process.
    set_child_subreaper(Some(getpid())).unwrap();
    let place = place(&served);
    let ran =
        agent(&place, CALLS, &["--session", "tests", "Which files are here, and what is in notes.txt?"]);
    let calls = judge(&place, &ran);
    // An answer that its length cut in the middle of a call is told so, and is no call of the pipeline.
    let events = json_lines(&ran.stdout);
    let cut = events.iter().filter(|event| event["event"] == "not_run").count();
    assert!(calls + cut >= CALLS, "{calls} calls and {cut} that were cut");
    assert!(events.iter().any(|event| event["event"] == "piece" && event["piece"] == "args"), "{ran:?}");
    // The talk, with everything in it that was wrong, is one that a real server takes again.
    let ran = agent(&place, CALLS + 1, &["--resume", "tests", "And what is in numbers.csv?"]);
    judge(&place, &ran);
    let first = json_lines(&ran.stdout).into_iter().find(|event| event["event"] == "end").unwrap();
    assert_ne!(first["ending"], "model", "{ran:?}");
    let own = BTreeSet::from([served.pid()]);
    assert!(wait_for(Duration::from_secs(10), || children() == own), "{:?}", children());
}

#[test]
fn a_real_model_says_where_it_stands_at_a_bound() {
    let Some(served) = RealModel::start("a_real_model_says_where_it_stands_at_a_bound") else { return };
    let place = place(&served);
    // It would call for ever.
    let ran = agent(&place, 1_000, &["--session", "tests", "--max-rounds", "2", "Read all files."]);
    judge(&place, &ran);
    let end = json_lines(&ran.stdout).pop().unwrap();
    assert_eq!((ran.code, &end["bound"], &end["rounds"]), (1, &json!("rounds"), &json!(3)), "{ran:?}");
}
