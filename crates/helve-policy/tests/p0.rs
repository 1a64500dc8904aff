//! An allow list of read-only programs, written as rules: what it lets through by itself.
//!
//! `tests/cases/p0.jsonl`, one case a line: `command`, and `expect`, which is `allowed` or `blocked` (asked about or
//! denied). No sandbox stands behind the guard here, so that it is judged alone.

use std::path::Path;

use helve_core::{CommandUse, Verdict};
use helve_policy::Policy;
use serde::Deserialize;

const LIST: &str = r#"
rules_otherwise = "ask"

[[rules]]
verdict = "allow"
command = [
  "echo *", "cat *", "ls *", "head *", "tail *", "wc *", "grep *", "rg *", "find *", "sed *", "sort *", "xargs *", "env *",
  "awk *", "tar *", "make *", "git {status,diff,log,show,grep} *",
]
"#;

#[derive(Deserialize)]
struct Case {
    command: String,
    expect: String,
}

/// What is allowed without a question.
fn allowed(policy: &Policy, command: &str, workspace: &str) -> bool {
    let command = CommandUse { command: command.to_owned(), working_dir: None };
    policy.judge(&command, Path::new(workspace), true).decision.verdict == Verdict::Allow
}

#[test]
fn the_list_vouches_for_ordinary_reading_and_nothing_else() {
    let policy = Policy::from_toml(LIST).unwrap();
    let cases: Vec<Case> =
        include_str!("cases/p0.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let attacks = cases.iter().filter(|case| case.expect == "blocked").count();
    assert!(attacks >= 100 && cases.len() - attacks >= 60, "{attacks} of {}", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| allowed(&policy, &case.command, "/home/user/project") != (case.expect == "allowed"))
        .map(|case| format!("{:?} should be {}", case.command, case.expect))
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[derive(Deserialize)]
struct Shared {
    id: String,
    input: String,
    why: String,
}

/// The same over cases that are not part of the project.
#[test]
fn shared_cases_are_decided_as_expected() {
    let Some(data) = std::env::var_os("HELVE_SHARED_DATA") else {
        eprintln!("skipped: HELVE_SHARED_DATA does not say where the cases are");
        return;
    };
    let file = Path::new(&data).join("../cases/guard.jsonl");
    let list = Policy::from_toml(LIST).unwrap();
    let builtin = Policy::builtin();
    let mut wrong = Vec::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let case: Shared = serde_json::from_str(line).unwrap();
        let mut command = case.input.clone();
        for (placeholder, text) in [
            ("@WS@", "/home/user/project"),
            ("@OUT@", "/home/user/outside"),
            ("@MARK@", "/home/user/outside/mark"),
            ("@HOME@", "/home/user"),
        ] {
            command = command.replace(placeholder, text);
        }
        let by_list = allowed(&list, &command, "/home/user/project");
        let expected = if case.id.starts_with("sg-") {
            !by_list
        } else {
            let of_list = case.why.starts_with("P0");
            (by_list || !of_list) && allowed(&builtin, &command, "/home/user/project")
        };
        if !expected {
            wrong.push(format!("{}: {command:?} (on the list: {by_list})", case.id));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
