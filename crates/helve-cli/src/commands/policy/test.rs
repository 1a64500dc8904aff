//! `helve policy test`: whether the rules do what they say: their own examples, and a file of cases.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use helve::{CaseOutcome, PolicyCase};
use serde_json::json;

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::{setup, ui, verdict};

/// Some case came out otherwise.
const WRONG: u8 = 1;

pub(super) fn test(global: &Global, file: Option<&Path>) -> Result<u8, Failure> {
    let policy = setup::policy(global)?;
    let cases = file.map(read).transpose()?.unwrap_or_default();
    let outcomes = policy.test(&cases, &setup::workspace(global)?);
    let wrong: Vec<&CaseOutcome> = outcomes.iter().filter(|outcome| outcome.problem.is_some()).collect();
    let code = if wrong.is_empty() { 0 } else { WRONG };
    if global.json {
        ui::print_json(&json!({"ok": wrong.is_empty(), "cases": outcomes.len(), "wrong": wrong}))?;
        return Ok(code);
    }
    let mut text = String::new();
    for outcome in &wrong {
        let _ =
            writeln!(text, "{}  {}", ui::styled(ui::BAD, "wrong"), one_line(&outcome.command, usize::MAX));
        let problem = outcome.problem.as_deref().unwrap_or_default();
        let _ = writeln!(text, "       {}: {}", one_line(&outcome.from, 80), one_line(problem, usize::MAX));
        let decision = &outcome.decision;
        let reason = decision.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let decided = one_line(&format!("{}{reason}", decision.rule), usize::MAX);
        let _ = writeln!(text, "       {}  {decided}", verdict::column(decision.verdict));
    }
    let _ = match (outcomes.len(), wrong.len()) {
        (0, _) => {
            writeln!(text, "There is nothing to test: no rule has examples, and no file of cases was named.")
        }
        (all, 0) => {
            writeln!(text, "{}: all {all} cases come out as they should.", ui::styled(ui::GOOD, "ok"))
        }
        (all, wrong) => writeln!(text, "{wrong} of {all} cases come out otherwise."),
    };
    ui::print_styled(&text)?;
    Ok(code)
}

/// One JSON object a line; empty lines and those that start with `#` are passed over.
fn read(file: &Path) -> Result<Vec<PolicyCase>, Failure> {
    let name = file.display();
    let wrong = |why: String| Failure::usage(format!("{name} cannot be read as cases: {why}"));
    let opened = File::open(file).map_err(|error| wrong(error.to_string()))?;
    let mut cases = Vec::new();
    for (at, line) in BufReader::new(opened).lines().enumerate() {
        let line = line.map_err(|error| wrong(error.to_string()))?;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let case = serde_json::from_str(&line).map_err(|error| {
            let form = r#"{"command":"ls","verdict":"allow|ask|deny","rule":"…"}"#;
            wrong(format!("line {}: {error}; write {form}, where the rule may be left out", at + 1))
        })?;
        cases.push(case);
    }
    Ok(cases)
}
