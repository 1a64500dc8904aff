//! Malformed arguments: each is either repaired without loss or refused with pointer, expected and received.
//!
//! `cases/arguments.jsonl` has a row for each case: `tool`, `args_text` (what the model wrote), `expect`, `why`, and
//! - for `accepted` and `repaired`, and for calls that fail later, `args`: the canonical arguments, and `noted` if
//!   the caller is told of the repair;
//! - for `invalid_params`, `pointers`: the places that are named, in any order.
//!
//! Commands in it are `touch ran`, so that a look into the workspace tells whether anything ran.
//!
//! `cases/documents.jsonl` has JSON documents: with `reads` for what is JSON, as the journal writes it; without it for
//! what is none.

#![expect(clippy::panic, reason = "helpers of tests fail by panicking")]

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Answer, BARE, Place, cases, json_lines};

/// One row of the file.
struct Case(Value);

impl Case {
    fn all() -> Vec<Case> {
        let cases: Vec<Case> = cases("arguments.jsonl").into_iter().map(Case).collect();
        assert!(cases.len() >= 90, "{} cases", cases.len());
        cases
    }

    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("no {key} in {}", self.0))
    }

    /// Holds a result against the row: what does not fit.
    fn faults(&self, result: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let expect = self.text("expect");
        let good = matches!(expect, "accepted" | "repaired");
        let kind = result["error"]["kind"].as_str();
        if kind != (!good).then_some(expect) || result["ok"] != good {
            faults.push(format!("ended as {kind:?}"));
        }
        if expect == "invalid_params" {
            faults.extend(self.misplaced(&result["error"]["problems"]));
            if !result["sandbox"].is_null() {
                faults.push("reached the sandbox".to_owned());
            }
        }
        let noted = result["notes"].as_array().is_some_and(|notes| !notes.is_empty());
        if noted != (self.0["noted"] == true) {
            faults.push(format!("notes are {}", result["notes"]));
        }
        self.named(faults)
    }

    /// Whether the problems name the wanted places, each with what was expected and received.
    fn misplaced(&self, problems: &Value) -> Option<String> {
        let pointers = |list: &Value, pointer: fn(&Value) -> &Value| {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|item| pointer(item).as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
        };
        let told = |problem: &Value| {
            ["expected", "received"]
                .iter()
                .all(|&member| problem[member].as_str().is_some_and(|text| !text.is_empty()))
        };
        let whole = problems.as_array().is_some_and(|list| list.iter().all(told));
        let places = pointers(problems, |problem| &problem["pointer"]);
        let right = whole && places == pointers(&self.0["pointers"], |pointer| pointer);
        (!right).then(|| format!("problems are {problems}"))
    }

    /// What the journal has instead of the canonical arguments.
    fn misrecorded(&self, journal: &[Value], call: &Value) -> Vec<String> {
        let recorded = recorded(journal, call);
        let wrong = self.0.get("args").is_some_and(|args| args != recorded);
        self.named(wrong.then(|| format!("recorded as {recorded}")).into_iter().collect())
    }

    fn named(&self, faults: Vec<String>) -> Vec<String> {
        faults.into_iter().map(|fault| format!("{}: {fault}\n    {}", self.text("why"), self.0)).collect()
    }
}

#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The arguments that the journal has for a call, from its planned entry.
fn recorded<'j>(journal: &'j [Value], call: &Value) -> &'j Value {
    let planned = journal.iter().find(|entry| entry["type"] == "planned" && entry["call"] == *call);
    &planned.unwrap_or_else(|| panic!("{call} is not in the journal"))["body"]["args"]
}

/// Each row as a call of its own, its text as it is.
#[test]
fn each_case_is_repaired_or_refused() {
    let place = Place::new();
    let ran = place.workspace().join("ran");
    let mut faults = Vec::new();
    let mut calls = Vec::new();
    for case in Case::all() {
        let answer = place.call_text(case.text("tool"), case.text("args_text"), BARE);
        faults.extend(case.faults(&answer.result));
        let runs = case.text("tool") == "exec" && matches!(case.text("expect"), "accepted" | "repaired");
        if std::fs::remove_file(&ran).is_ok() != runs {
            faults.extend(
                case.named(vec![format!("the command {}", if runs { "did not run" } else { "ran" })]),
            );
        }
        calls.push((case, answer.result["call"].clone()));
    }
    let journal = place.journal();
    faults.extend(calls.iter().flat_map(|(case, call)| case.misrecorded(&journal, call)));
    assert_none(&faults);
    assert_eq!(place.verify().code, 0);
}

/// The same rows through the other door: in one batch, as far as their text can stand in a line.
#[test]
fn a_batch_judges_each_case_alike() {
    let place = Place::new();
    let mut cases = Case::all();
    cases.retain(|case| {
        let text = case.text("args_text");
        serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() && !text.contains('\n')
    });
    assert!(cases.len() >= 90, "{} cases", cases.len());
    let line = |(id, case): (usize, &Case)| {
        format!("{{\"id\":{id},\"tool\":{},\"args\":{}}}\n", case.0["tool"], case.text("args_text"))
    };
    let input: String = cases.iter().enumerate().map(line).collect();
    let words = ["batch", "--session", support::SESSION, "--set", BARE[0], "--set", BARE[1]];
    let ran = place.run_with_input(&words, input.as_bytes());
    let results = json_lines(&ran.stdout);
    assert_eq!((ran.code, results.len()), (0, cases.len()), "{}", ran.stderr);
    let journal = place.journal();
    let mut faults = Vec::new();
    for (id, (case, result)) in cases.iter().zip(&results).enumerate() {
        assert_eq!(result["id"], id);
        faults.extend(case.faults(result));
        faults.extend(case.misrecorded(&journal, &result["call"]));
    }
    assert_none(&faults);
}

/// What was repaired once needs no repair again: canonical arguments are taken as they are, without a note.
#[test]
fn canonical_arguments_stay_as_they_are() {
    let place = Place::new();
    let canonical: Vec<(String, Value)> = Case::all()
        .iter()
        .filter_map(|case| Some((case.text("tool").to_owned(), case.0.get("args")?.clone())))
        .collect();
    let lines: Vec<Value> =
        canonical.iter().map(|(tool, args)| json!({"tool": tool, "args": args})).collect();
    let results = place.batch(&lines, BARE);
    let journal = place.journal();
    for ((_, args), result) in canonical.iter().zip(&results) {
        assert_eq!((recorded(&journal, &result["call"]), result.get("notes")), (args, None), "{result:#}");
    }
}

/// What a person sees of a repair in `helve log`.
#[test]
fn the_log_shows_the_canonical_arguments() {
    let place = Place::new();
    let answer = place.call_with("exec", &json!({"cmd": "touch ran", "timeout": "5"}), BARE);
    let shown = place.run(&["log", answer.result["call"].as_str().unwrap(), "--json"]);
    let story: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(story["planned"]["args"], json!({"command": "touch ran", "timeout": 5}));
}

/// A refusal names the known keys, and the one that was probably meant.
#[test]
fn an_unknown_key_is_answered_with_the_known_ones() {
    let place = Place::new();
    let answer = place.call("exec", &json!({"comand": "true", "command": "true"}));
    let problem = &answer.result["error"]["problems"][0];
    let expected = problem["expected"].as_str().unwrap();
    assert!(expected.contains("command, working_dir, timeout"), "{expected}");
    assert!(expected.contains("did you mean 'command'?"), "{expected}");
    assert!(answer.text().contains("/comand"), "{}", answer.text());
}

/// A name that no tool has is answered with the nearest one, and never run as a guess; an alias is a name.
#[test]
fn an_unknown_tool_is_answered_with_the_nearest() {
    let place = Place::new();
    let answer = place.call_with("exce", &json!({"command": "touch ran"}), BARE);
    assert_eq!((answer.kind(), answer.code), (Some("unknown_tool"), 2));
    assert!(answer.text().contains("exec"), "{}", answer.text());
    assert!(!place.has("ran"));
    for alias in ["shell", "bash"] {
        let answer = place.call_with(alias, &json!({"command": "touch ran"}), BARE);
        answer.good();
        assert_eq!(answer.result["tool"], "exec");
    }
}

/// Each document as a value inside the arguments of `json`; the journal tells what the tool was given.
#[test]
fn json_is_read_strictly_and_exactly() {
    let place = Place::new();
    let documents = cases("documents.jsonl");
    assert!(documents.len() >= 60);
    let mut faults = Vec::new();
    for case in documents {
        let document = case["document"].as_str().unwrap();
        let args = format!("{{\"operation\":\"stringify\",\"indent\":0,\"data\":{document}}}");
        let answer = place.call_text("json", &args, &[]);
        let problem = &answer.result["error"]["problems"][0];
        let journal = place.journal();
        let given = &recorded(&journal, &answer.result["call"])["data"];
        let right = match case["reads"].as_str() {
            Some(reads) => answer.kind().is_none() && *given == serde_json::from_str::<Value>(reads).unwrap(),
            None => {
                answer.kind() == Some("invalid_params")
                    && (&problem["pointer"], &problem["expected"])
                        == (&json!(""), &json!("one strict JSON object"))
            }
        };
        if !right {
            faults.push(format!("{case}: given {given}, {}", answer.result["error"]));
        }
    }
    assert_none(&faults);
}

/// Bytes that are not UTF-8 are no text at all.
#[test]
fn arguments_that_are_not_utf8_are_refused() {
    let place = Place::new();
    for bytes in [
        &b"{\"message\":\"\xff\"}"[..],
        b"{\"message\":\"\xc3\"}",
        b"\xff\xfe{\0}\0",
        b"{\"message\":\"\xed\xa0\x80\"}",
    ] {
        let ran = place.run_with_input(&["call", "echo", "-"], bytes);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
        assert!(ran.stderr.contains("UTF-8"), "{ran:?}");
    }
}

/// How long a refusal may take. A program that is not optimized needs many times longer; what grows with the square of
/// the input would still take hours.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 5 });

/// A refusal of hostile arguments: quick, short and of the expected kind.
fn refused_quickly(place: &Place, args: &str, settings: &[&str], kind: &str) -> Answer {
    let start = Instant::now();
    let answer = place.call_text("echo", args, settings);
    let took = start.elapsed();
    assert_eq!(answer.kind(), Some(kind));
    assert!(took < PATIENCE, "{took:?}");
    assert!(answer.text().len() < 20_000, "{} bytes of answer", answer.text().len());
    answer
}

#[test]
fn a_hundred_thousand_levels_are_a_clear_error() {
    let place = Place::new();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let args = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        let answer = refused_quickly(&place, &args, &[], "invalid_params");
        assert!(answer.text().contains("nested too deeply"), "{}", answer.text());
        let inside = format!("{{\"message\":{args}}}");
        refused_quickly(&place, &inside, &[], "invalid_params");
        let unfinished = open.repeat(100_000);
        refused_quickly(&place, &unfinished, &[], "invalid_params");
        let quoted = json!(args).to_string();
        refused_quickly(&place, &quoted, &[], "invalid_params");
    }
}

/// Deep nesting in a text is the tool's matter, and as clear there.
#[test]
fn a_hundred_thousand_levels_in_a_text_are_a_clear_error() {
    let place = Place::new();
    let answer = place.call("json", &json!({"operation": "parse", "data": "[".repeat(100_000)}));
    assert_eq!(answer.kind(), Some("tool_failed"));
    assert!(answer.text().len() < 2000, "{}", answer.text().len());
}

/// A million keys are refused for their size before they are read.
#[test]
fn a_million_keys_are_refused_for_their_size() {
    let place = Place::new();
    let args = many_keys(1_000_000);
    refused_quickly(&place, &args, &[], "too_large");
}

/// As many unknown keys as fit under the limit are refused in time that grows with their number, in a short answer.
#[test]
fn as_many_keys_as_fit_are_refused_quickly() {
    let place = Place::new();
    let args = many_keys(300_000);
    assert!(args.len() < 4 << 20);
    refused_quickly(&place, &args, &[], "invalid_params");
}

/// The same where the owner raised the limit.
#[test]
fn a_million_keys_under_a_raised_limit_are_refused_quickly() {
    let place = Place::new();
    refused_quickly(&place, &many_keys(1_000_000), &["limits.args_bytes=33554432"], "invalid_params");
}

fn many_keys(count: usize) -> String {
    let keys: Vec<String> = (0..count).map(|n| format!("\"k{n}\":0")).collect();
    format!("{{{}}}", keys.join(","))
}
