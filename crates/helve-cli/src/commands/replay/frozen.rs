//! A session told from its journal alone: what was said, what was called, what came of it. The same bytes every time.

use std::collections::HashMap;

use helve::store::Record;
use helve_agent::record::{self, PastCall};
use helve_agent::story::Chapter;
use helve_agent::talk::ToolAnswer;
use serde_json::json;

use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::ui;

/// Tells it: for people, or as JSON, one thing a line.
pub(super) fn tell(session: &str, records: &[Record], as_json: bool) -> Result<(), Failure> {
    let calls = record::calls(records);
    let by_seq: HashMap<u64, &PastCall> = calls.iter().map(|past| (past.seq, past)).collect();
    for record in records {
        if let Some(past) = by_seq.get(&record.seq) {
            match as_json {
                true => ui::print_json(&json!({
                    "call": past.call,
                    "id": past.planned.get("id"),
                    "tool": past.tool(),
                    "args": past.args(),
                    "ok": past.ok(),
                    "error": past.error(),
                    "text": past.text(),
                }))?,
                false => ui::print_styled(&told(past))?,
            }
            continue;
        }
        let (who, text) = match Chapter::of(record) {
            Some(Chapter::Said { message }) if message.from_loop => ("loop", message.text),
            Some(Chapter::Said { message }) => ("owner", message.text),
            Some(Chapter::Answered { answer, .. }) => ("model", answer.message.text),
            Some(Chapter::Summed { answer, .. }) => ("model sums up", answer.message.text),
            Some(Chapter::NotRun { results }) => ("loop", not_run(&results)),
            Some(Chapter::Failed { error, .. }) => ("model failed", error.to_string()),
            Some(Chapter::Shortened { .. }) => ("loop", "(the talk was made shorter)".to_owned()),
            Some(Chapter::End { ending, .. }) => ("end", ending),
            _ => continue,
        };
        if text.is_empty() {
            continue;
        }
        match as_json {
            true => ui::print_json(&json!({"who": who, "text": text}))?,
            false => {
                ui::print_styled(&format!("{}: {}\n", ui::styled(ui::STRONG, who), harmless(&text)))?;
            }
        }
    }
    if records.is_empty() {
        ui::note(&format!("the session {} is empty", harmless(session)));
    }
    Ok(())
}

/// Calls that never reached the pipeline, and what the model was told.
fn not_run(results: &[ToolAnswer]) -> String {
    let each =
        results.iter().map(|result| format!("{} ({}) was not run: {}", result.name, result.id, result.text));
    each.collect::<Vec<_>>().join("\n")
}

fn told(past: &PastCall) -> String {
    let (style, word) = match (past.ok(), past.error()) {
        (None, _) => (ui::CAREFUL, "cut"),
        (Some(true), _) => (ui::GOOD, "ok"),
        (Some(false), kind) => (ui::BAD, kind.unwrap_or("failed")),
    };
    let mut text = format!(
        "> {} {}: {}\n",
        one_line(past.tool(), 60),
        one_line(&past.args().to_string(), usize::MAX),
        ui::styled(style, &harmless(word))
    );
    for line in harmless(&past.text()).lines() {
        text.push_str(&format!("  | {line}\n"));
    }
    text
}
