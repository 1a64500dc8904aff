//! The calls that a journal holds: how each was planned, and what came of it.

use std::collections::{HashMap, HashSet};

use helve::deny_read::says_closed;
use helve::store::{EntryKind, Record};
use helve::{Call, ErrorKind};
use serde::Deserialize;
use serde_json::Value;

/// The rule behind what the owner did at the command line, which is no tool call.
const OWNER: &str = "owner";
/// The act that makes what a command would change.
const COMMIT: &str = "commit";
/// What stands where the journal may not show something.
const REDACTED: &str = "[REDACTED";

/// One call of the past.
#[derive(Clone, Debug, PartialEq)]
pub struct PastCall {
    /// Helve's name of it.
    pub call: String,
    /// The number of its first entry.
    pub seq: u64,
    /// How it was planned, as the journal has it.
    pub planned: Value,
    /// What came of it; none if it was cut.
    pub outcome: Option<Value>,
}

/// The calls of a journal, in the order in which they were planned.
pub fn calls(records: &[Record]) -> Vec<PastCall> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut calls: Vec<PastCall> = Vec::new();
    for record in records {
        let Some(call) = record.call.as_deref() else { continue };
        match record.kind {
            EntryKind::Planned => {
                places.entry(call).or_insert(calls.len());
                let planned = record.body.clone();
                calls.push(PastCall { call: call.to_owned(), seq: record.seq, planned, outcome: None });
            }
            EntryKind::Outcome => {
                let past = places.get(call).and_then(|place| calls.get_mut(*place));
                if let Some(past) = past.filter(|past| past.outcome.is_none()) {
                    past.outcome = Some(record.body.clone());
                }
            }
            EntryKind::Note | EntryKind::Recovered => {}
        }
    }
    calls
}

/// The calls whose changes nobody has made: they ran in preview, or what they changed did not fit, and no commit followed.
pub fn uncommitted(calls: &[PastCall]) -> HashSet<String> {
    let waits = |past: &&PastCall| {
        past.outcome.as_ref().is_some_and(|outcome| outcome["details"]["layer"]["state"] == "pending")
    };
    let mut waiting: HashSet<String> = calls.iter().filter(waits).map(|past| past.call.clone()).collect();
    for past in
        calls.iter().filter(|past| past.is_owners() && past.tool() == COMMIT && past.ok() == Some(true))
    {
        if let Some(call) = past.args()["call"].as_str() {
            waiting.remove(call);
        }
    }
    waiting
}

impl PastCall {
    /// The tool.
    pub fn tool(&self) -> &str {
        self.planned["tool"].as_str().unwrap_or_default()
    }

    /// The arguments as the journal shows them.
    pub fn args(&self) -> &Value {
        &self.planned["args"]
    }

    /// The workspace that it worked in.
    pub fn workspace(&self) -> Option<&str> {
        self.planned["workspace"].as_str()
    }

    /// Whether it went well; none if it was cut.
    pub fn ok(&self) -> Option<bool> {
        self.outcome.as_ref().map(|outcome| outcome["ok"] == true)
    }

    /// The kind of its error.
    pub fn error(&self) -> Option<&str> {
        self.outcome.as_ref()?["error"]["kind"].as_str()
    }

    /// Whether it was refused because it named a path that nobody reads.
    pub fn was_closed(&self) -> bool {
        let error = self.outcome.as_ref().map_or(&Value::Null, |outcome| &outcome["error"]);
        let kind = ErrorKind::deserialize(&error["kind"]);
        kind.is_ok_and(|kind| says_closed(kind, error["message"].as_str().unwrap_or_default()))
    }

    /// What the model read of it.
    pub fn text(&self) -> String {
        let content = self.outcome.as_ref().map(super::content).unwrap_or_default();
        let texts = content.iter().filter_map(|block| match block {
            helve::Content::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The same call once more.
    pub fn again(&self) -> Call {
        Call { id: self.planned.get("id").cloned(), ..Call::new(self.tool(), self.args().clone()) }
    }

    /// Who else wrote what led to it, where the owner does not vouch for that.
    pub fn tainted(&self) -> Option<&str> {
        self.planned["tainted"].as_str()
    }

    /// Whether it was an act of the owner's at the command line.
    fn is_owners(&self) -> bool {
        self.planned["decision"]["rule"] == OWNER
    }

    /// Why it cannot be made or decided once more; none if it can.
    pub fn why_not_again(&self) -> Option<&'static str> {
        if self.is_owners() {
            return Some("it was the owner's own act, not a tool call");
        }
        if !self.args().is_object() {
            return Some("its arguments could not be read, so that it was refused before any rule was asked");
        }
        if has_mark(self.args()) {
            return Some("its arguments held a secret, which the journal does not have");
        }
        None
    }
}

fn has_mark(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(REDACTED),
        Value::Array(list) => list.iter().any(has_mark),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains(REDACTED) || has_mark(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
