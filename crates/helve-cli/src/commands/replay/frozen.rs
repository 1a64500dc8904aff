//! A session told from its journal alone: what was said, what was called, what came of it. The same bytes every time.
//!
//! The journal is read from one end to the other, one record in memory at a time. A call is told where it was planned; what
//! came of it stands further on and is looked for ahead.

use std::collections::HashMap;

use helve::store::{EntryKind, Home, Record, StoreError, Tail};
use helve_agent::record::PastCall;
use helve_agent::story::Chapter;
use helve_agent::talk::ToolAnswer;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::ui;

/// Tells it: for people, or as JSON, one thing a line.
pub(super) fn tell(home: &Home, session: &str, as_json: bool) -> Result<(), Failure> {
    let mut tail = Tail::open(home, session, 0)?;
    let mut outcomes = Outcomes::new(home, session)?;
    let mut is_empty = true;
    while let Some(record) = tail.next_record()? {
        is_empty = false;
        match record {
            Record { kind: EntryKind::Planned, call: Some(call), seq, body: planned, .. } => {
                let outcome = outcomes.of(&call, tail.offset())?;
                tell_call(&PastCall { call, seq, planned, outcome }, as_json)?;
            }
            other => tell_chapter(&other, as_json)?,
        }
    }
    if is_empty {
        ui::note(&format!("the session {} is empty", harmless(session)));
    }
    Ok(())
}

fn tell_call(past: &PastCall, as_json: bool) -> Result<(), Failure> {
    match as_json {
        true => ui::print_json(&json!({
            "call": past.call,
            "id": past.planned.get("id"),
            "tool": past.tool(),
            "args": past.args(),
            "ok": past.ok(),
            "error": past.error(),
            "text": past.text(),
        })),
        false => ui::print_styled(&told(past)),
    }
}

fn tell_chapter(record: &Record, as_json: bool) -> Result<(), Failure> {
    let (who, text) = match Chapter::of(record) {
        Some(Chapter::Said { message }) if message.from_loop => ("loop", message.text),
        Some(Chapter::Said { message }) => ("owner", message.text),
        Some(Chapter::Answered { answer, .. }) => ("model", answer.message.text),
        Some(Chapter::Summed { answer, .. }) => ("model sums up", answer.message.text),
        Some(Chapter::NotRun { results }) => ("loop", not_run(&results)),
        Some(Chapter::Failed { error, .. }) => ("model failed", error.to_string()),
        Some(Chapter::Shortened { .. }) => ("loop", "(the talk was made shorter)".to_owned()),
        Some(Chapter::End { ending, .. }) => ("end", ending),
        _ => return Ok(()),
    };
    if text.is_empty() {
        return Ok(());
    }
    match as_json {
        true => ui::print_json(&json!({"who": who, "text": text})),
        false => ui::print_styled(&format!("{}: {}\n", ui::styled(ui::STRONG, who), harmless(&text))),
    }
}

/// What came of calls, looked up ahead of where the journal is told. Of what is not told yet only places are kept.
struct Outcomes<'a> {
    home: &'a Home,
    session: &'a str,
    ahead: Tail,
    /// Where the outcomes stand that were passed on the way.
    passed: HashMap<String, u64>,
}

impl<'a> Outcomes<'a> {
    fn new(home: &'a Home, session: &'a str) -> Result<Self, StoreError> {
        Ok(Outcomes { home, session, ahead: Tail::open(home, session, 0)?, passed: HashMap::new() })
    }

    /// What came of a call whose plan ends at this place; none if it was cut.
    fn of(&mut self, call: &str, end: u64) -> Result<Option<Value>, StoreError> {
        match self.passed.remove(call).filter(|place| *place >= end) {
            Some(place) => {
                let record = Tail::open(self.home, self.session, place)?.next_record()?;
                Ok(record.map(|record| record.body))
            }
            None => self.look(call, end),
        }
    }

    fn look(&mut self, call: &str, end: u64) -> Result<Option<Value>, StoreError> {
        loop {
            let place = self.ahead.offset();
            let Some(record) = self.ahead.next_record()? else { return Ok(None) };
            let Some(of) = record.call.filter(|_| record.kind == EntryKind::Outcome && place >= end) else {
                continue;
            };
            if of == call {
                return Ok(Some(record.body));
            }
            self.passed.entry(of).or_insert(place);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use helve::store::{Entry, Journal, JournalOptions};
    use pretty_assertions::assert_eq;

    #[test]
    fn every_call_finds_its_outcome_whatever_stands_between() {
        use EntryKind::{Outcome, Planned};
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let journal = Journal::open(&home, "s", JournalOptions { fsync: false }).unwrap();
        let entries = [
            (Outcome, "c_early"),
            (Planned, "c_1"),
            (Planned, "c_2"),
            (Outcome, "c_2"),
            (Outcome, "c_1"),
            (Planned, "c_cut"),
            (Planned, "c_early"),
            (Planned, "c_3"),
            (Outcome, "c_3"),
        ];
        for (number, (kind, call)) in entries.into_iter().enumerate() {
            let body = json!({"number": number});
            journal.append(&Entry { kind, call: Some(call.to_owned()), at_us: 1, body }).unwrap();
        }
        let mut tail = Tail::open(&home, "s", 0).unwrap();
        let mut outcomes = Outcomes::new(&home, "s").unwrap();
        let mut found = Vec::new();
        while let Some(record) = tail.next_record().unwrap() {
            if record.kind == Planned {
                let call = record.call.unwrap();
                let outcome = outcomes.of(&call, tail.offset()).unwrap();
                found.push((call, outcome.map(|body| body["number"].as_u64().unwrap())));
            }
        }
        let expected =
            [("c_1", Some(4)), ("c_2", Some(3)), ("c_cut", None), ("c_early", None), ("c_3", Some(8))];
        assert_eq!(found, expected.map(|(call, number)| (call.to_owned(), number)));
        assert!(outcomes.passed.is_empty(), "nothing is kept of what was told");
    }
}
