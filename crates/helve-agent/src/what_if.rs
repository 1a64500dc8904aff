//! What another policy would have said of a session's calls.
//!
//! In: the calls of the past and whoever decides now, such as [`Runtime::decide_in`](helve::Runtime::decide_in) under
//! another policy. Out: the calls on which the word or its rule would have been another. What is compared is what the policy says:
//! where a person was asked, that it asked, whatever the person answered.

use std::collections::HashMap;

use helve::{Call, CallScope, Decision, Verdict, deny_read};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::PastCall;
use crate::replay::Places;

/// What a policy said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// May it happen?
    pub verdict: Verdict,
    /// The rule that decided.
    pub rule: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<Decision> for Word {
    fn from(decision: Decision) -> Self {
        Word { verdict: decision.verdict, rule: decision.rule, reason: decision.reason }
    }
}

/// A call that would have been decided otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its arguments as the journal shows them.
    pub args: Value,
    /// What was said.
    pub before: Word,
    /// What would be said.
    pub after: Word,
}

impl Changed {
    /// Whether the verdict itself is another, and not only the rule behind it.
    pub fn verdict_changed(&self) -> bool {
        self.before.verdict != self.after.verdict
    }
}

/// All that is known of a session under another policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// How many calls were decided again.
    pub decided: usize,
    /// Those that would have been decided otherwise.
    pub changed: Vec<Changed>,
    /// Calls that cannot be decided again, each with the reason.
    pub left_out: Vec<(String, &'static str)>,
}

/// What the policy of the time said of a call; none if the call never got that far.
fn said(past: &PastCall) -> Option<Word> {
    let outcome = past.outcome.as_ref().unwrap_or(&Value::Null);
    if past.was_closed() {
        let reason = outcome["error"]["message"].as_str().map(str::to_owned);
        return Some(Word { verdict: Verdict::Deny, rule: deny_read::KEY.to_owned(), reason });
    }
    let either = |name: &str| {
        let planned = &past.planned[name];
        if planned.is_null() { &outcome[name] } else { planned }
    };
    let approval = either("approval");
    if let Some(rule) = approval["rule"].as_str() {
        let reason = approval["parts"][0]["reason"].as_str().map(str::to_owned);
        return Some(Word { verdict: Verdict::Ask, rule: rule.to_owned(), reason });
    }
    Word::deserialize(either("decision")).ok().filter(|word| word.rule != "rate_limit")
}

/// Decides every call again. `place` is the workspace in which that happens.
pub fn what_if(calls: &[PastCall], place: &str, decide: impl Fn(Call, CallScope) -> Decision) -> Report {
    let mut report = Report::default();
    // Nothing is called here, so that no call has another name.
    let names = HashMap::new();
    for past in calls {
        let Some(before) = said(past) else {
            report.left_out.push((past.call.clone(), "no rule decided about it"));
            continue;
        };
        if let Some(why) = past.why_not_again() {
            report.left_out.push((past.call.clone(), why));
            continue;
        }
        let places = Places { before: past.workspace().unwrap_or_default(), after: place, calls: &names };
        let call = past.again();
        let call = Call { args: places.moved(past.args()).into(), ..call };
        let tainted = past.tainted().map(str::to_owned);
        let after = Word::from(decide(call, CallScope { tainted, ..CallScope::default() }));
        report.decided += 1;
        if (before.verdict, &before.rule) != (after.verdict, &after.rule) {
            let (call, tool, args) = (past.call.clone(), past.tool().to_owned(), past.args().clone());
            report.changed.push(Changed { call, tool, args, before, after });
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn past(call: &str, more: Value) -> PastCall {
        let mut planned = json!({"tool": "t", "args": {"path": "/old/a"}, "workspace": "/old"});
        if let (Some(planned), Value::Object(more)) = (planned.as_object_mut(), more) {
            planned.extend(more);
        }
        PastCall { call: call.into(), seq: 1, planned, outcome: None }
    }

    fn failed(call: &str, kind: &str, message: &str) -> PastCall {
        let error = json!({"kind": kind, "message": message});
        let planned = json!({"decision": {"verdict": "allow", "rule": "r"}});
        PastCall { outcome: Some(json!({"ok": false, "error": error})), ..past(call, planned) }
    }

    #[test]
    fn only_what_changes_is_told() {
        let allowed = json!({"verdict": "allow", "rule": "r"});
        let calls = [
            past("same", json!({"decision": allowed})),
            past("asked", json!({"decision": allowed, "approval": {"rule": "q", "answer": "once"}})),
            past("undone", json!({"decision": {"verdict": "allow", "rule": "owner"}})),
            failed("closed", "blocked", "'a' is closed to tools (files.deny_read)."),
            failed("missing", "not_found", "'a' does not exist."),
            past("secret", json!({"decision": allowed, "args": {"a": ["[REDACTED:KEY]"]}})),
            past("wrong", json!({})),
        ];
        let report = what_if(&calls, "/new", |call, _| {
            assert_eq!(call.args, json!({"path": "/new/a"}).into());
            Decision::allow("r")
        });
        let names: Vec<&str> = report.changed.iter().map(|changed| changed.call.as_str()).collect();
        assert_eq!((report.decided, names), (4, vec!["asked", "closed"]));
        assert!(report.changed.iter().all(Changed::verdict_changed));
        assert_eq!(report.changed[1].before.rule, "files.deny_read");
        let left: Vec<&str> = report.left_out.iter().map(|(call, _)| call.as_str()).collect();
        assert_eq!(left, ["undone", "secret", "wrong"]);
    }
}
