//! A policy held against commands: its own examples, a file of cases, another policy.

use std::path::Path;

use helve_core::{Decision, Verdict};
use serde::{Deserialize, Serialize};

use super::Policy;

/// One line of a file of cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyCase {
    /// The command.
    pub command: String,
    /// What has to come out.
    pub verdict: Verdict,
    /// The rule that has to decide; any, where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// What came out for one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseOutcome {
    /// Where the case comes from: the rule that holds it as an example, or `cases[3]`.
    pub from: String,
    /// The command.
    pub command: String,
    /// What came out.
    pub decision: Decision,
    /// What is wrong with it, in a sentence; none if nothing is.
    pub problem: Option<String>,
}

/// One difference between two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A setting has another value.
    Setting {
        /// The key.
        key: String,
        /// Its value in the first policy, in JSON.
        before: serde_json::Value,
        /// Its value in the second.
        after: serde_json::Value,
    },
    /// A command is decided otherwise.
    Verdict {
        /// The command.
        command: String,
        /// The decision of the first policy.
        before: Decision,
        /// The decision of the second.
        after: Decision,
    },
}

impl Policy {
    /// Decides every example of every rule and every given case under the whole policy. `workspace` is an absolute path.
    /// A rule's own kind of example must come out at least as the rule says; others must not be decided by it.
    pub fn test(&self, cases: &[PolicyCase], workspace: &Path) -> Vec<CaseOutcome> {
        let mut outcomes = Vec::new();
        for rule in self.rules().iter() {
            let examples = &rule.examples;
            let lists = [
                (Verdict::Allow, &examples.allows),
                (Verdict::Ask, &examples.asks),
                (Verdict::Deny, &examples.denies),
            ];
            for (wanted, command) in
                lists.iter().flat_map(|(wanted, list)| list.iter().map(move |one| (*wanted, one)))
            {
                let decision = self.check_text(command, workspace);
                let problem = match (rule.verdict, wanted) {
                    (Verdict::Allow, Verdict::Allow) if decision.verdict != Verdict::Allow => {
                        Some(format!("the rule allows it, but {} does not", decision.rule))
                    }
                    (Verdict::Allow, Verdict::Ask | Verdict::Deny) if decision.verdict == Verdict::Allow => {
                        Some(format!("it is to be held back, but {} allows it", decision.rule))
                    }
                    (own, wanted) if own == wanted && decision.verdict < own => {
                        Some(format!("the rule wants more than what {} decides", decision.rule))
                    }
                    (own, Verdict::Allow) if own != Verdict::Allow && decision.rule == rule.name => {
                        Some("the rule is not to be about it, but decides it".to_owned())
                    }
                    _ => None,
                };
                outcomes.push(CaseOutcome {
                    from: rule.name.clone(),
                    command: command.clone(),
                    decision,
                    problem,
                });
            }
        }
        for (index, case) in cases.iter().enumerate() {
            let decision = self.check_text(&case.command, workspace);
            let problem = if decision.verdict != case.verdict {
                Some(format!("expected {}, received {}", said(case.verdict), said(decision.verdict)))
            } else {
                let other = case.rule.as_ref().filter(|rule| **rule != decision.rule);
                other.map(|rule| format!("expected the rule {rule}, received {}", decision.rule))
            };
            let from = format!("cases[{index}]");
            outcomes.push(CaseOutcome { from, command: case.command.clone(), decision, problem });
        }
        outcomes
    }
}

/// What differs between two policies: settings with other values, and which of the commands, run in `workspace`, are
/// decided otherwise.
pub fn diff<S: AsRef<str>>(before: &Policy, after: &Policy, commands: &[S], workspace: &Path) -> Vec<Change> {
    let mut changes = Vec::new();
    let (old, new) = (before.explain(), after.explain());
    let value = |settings: &[crate::Setting], key: &str| {
        let found = settings.iter().find(|setting| setting.key == key);
        found.map_or(serde_json::Value::Null, |setting| setting.value.clone())
    };
    let mut seen = std::collections::BTreeSet::new();
    for setting in old.iter().chain(&new).filter(|setting| seen.insert(setting.key.as_str())) {
        let (before, after) = (value(&old, &setting.key), value(&new, &setting.key));
        if before != after {
            changes.push(Change::Setting { key: setting.key.clone(), before, after });
        }
    }
    for command in commands {
        let command = command.as_ref();
        let (before, after) = (before.check_text(command, workspace), after.check_text(command, workspace));
        if (before.verdict, &before.rule) != (after.verdict, &after.rule) {
            changes.push(Change::Verdict { command: command.to_owned(), before, after });
        }
    }
    changes
}

fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}
