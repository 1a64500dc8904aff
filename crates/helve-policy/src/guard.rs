//! The guard: judges the text of a command before it is wrapped or run.
//!
//! In comes what `helve_shell` read, out goes a [`Decision`] with the rule, the reason, the bytes it is about and the
//! smallest change of the configuration that would allow it. Every check runs; the strictest verdict wins.
//!
//! | module | what it judges |
//! |---|---|
//! | `pattern` | one entry of a list: a built-in rule by name, or the owner's regular expression |
//! | `rules` | the built-in rules: what is plainly destructive |
//! | `allow` | whether the owner's allow list holds all of a command |
//! | `expand` | words as the shell makes them of `{a,b}`, `$IFS` and variables that the command sets |
//! | `invoke` | which programs a command starts, through `sudo`, `env`, `sh -c`, `xargs` and the like |
//! | `starters` | programs such as `sudo`, which start another |
//! | `outside` | paths and a working directory outside the workspace |
//! | `message` | a decision in the words that a person or a model reads |
//!
//! Built-in rules look at programs and their options, so a pattern that is only data (`grep 'rm -rf' notes`) passes.
//! An owner's expression is searched in the whole text, as written.
//!
//! Not here: containment. A command can hide what it does from any reader; the sandbox is the boundary, the guard
//! refuses what is plainly destructive and explains why.

mod allow;
mod expand;
mod invoke;
mod message;
mod outside;
mod pattern;
mod rules;
mod starters;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use helve_core::{Decision, Verdict};
use helve_shell::{Command, OpaqueReason, Span};

use crate::config::keys::{EXEC_ALLOW, EXEC_ASK, EXEC_DENY};
use invoke::Unseen;
pub use message::blocked_message;
pub(crate) use message::short;
pub(crate) use outside::{WORKING_DIR, judge_working_dir, normal};
pub(crate) use pattern::Pattern;
use rules::Seen;
pub(crate) use rules::names as rule_names;

/// The rule that allows what no other rule is about.
const DEFAULT: &str = "guard.default";

/// The rule that refuses what no shell can take.
const NUL: &str = "guard.nul";

/// The rule that refuses what a shell may run and the guard cannot read.
const UNREADABLE: &str = "guard.unreadable";

/// The rule that refuses what cannot be read in reasonable time.
const TOO_COMPLEX: &str = "guard.too-complex";

/// What the owner's configuration says about commands.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) deny: Vec<Pattern>,
    pub(crate) ask: Vec<Pattern>,
    pub(crate) allow: Option<Vec<Pattern>>,
    /// The keys that restrict paths to the workspace; empty if none does.
    pub(crate) restricted_by: Vec<&'static str>,
    /// Paths outside the workspace that the owner opened.
    pub(crate) opened: Opened,
    /// The user's home directory, which no grant opens as a whole.
    pub(crate) home: Option<PathBuf>,
}

/// The owner's `[view]` lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) read_write: Vec<PathBuf>,
}

impl Guard {
    /// Judges a command that starts in `directory`, an absolute path.
    pub(crate) fn judge(&self, command: &Command, workspace: &Path, directory: &Path) -> Decision {
        if let Some(opaque) = command.opaque.filter(|opaque| opaque.reason == OpaqueReason::Nul) {
            return Decision::deny(NUL, opaque.reason.to_string()).at(bytes(opaque.span));
        }
        let uses_rules = self.deny.iter().chain(&self.ask).any(|p| matches!(p, Pattern::Rule(_)));
        let seen = if uses_rules { rules::look(command) } else { Seen::default() };
        let findings = [
            listed(command, &seen.found, &self.deny, EXEC_DENY, Verdict::Deny),
            self.unread(command, &seen),
            outside::judge_paths(self, command, workspace, directory),
            self.allow.as_deref().and_then(|patterns| allow::judge(patterns, command)),
            listed(command, &seen.found, &self.ask, EXEC_ASK, Verdict::Ask),
        ];
        findings.into_iter().flatten().fold(self.allowance(command), Decision::stricter)
    }

    /// Refuses a command of which a part cannot be judged. An owner whose list is empty wants no such judgement.
    fn unread(&self, command: &Command, seen: &Seen) -> Option<Decision> {
        if self.deny.is_empty() {
            return None;
        }
        let whole = command.opaque.filter(|opaque| invoke::may_run(opaque.reason));
        let whole = whole.map(|opaque| (Unseen::Opaque(opaque.reason), opaque.span));
        let (unseen, span) = whole.or(seen.unseen)?;
        let decision = match unseen {
            Unseen::Opaque(reason) => {
                Decision::deny(UNREADABLE, format!("a part of it cannot be judged: {reason}"))
            }
            Unseen::TooComplex => Decision::deny(
                TOO_COMPLEX,
                "commands inside commands are nested too deep or too often to be read in reasonable time; put them \
                 into a script and run that",
            ),
        };
        Some(decision.at(bytes(span)))
    }

    fn allowance(&self, command: &Command) -> Decision {
        let rule = if self.allow.is_some() { EXEC_ALLOW } else { DEFAULT };
        let allowed = Decision::allow(rule);
        let Some(opaque) = command.opaque else { return allowed };
        let reason = format!("only what comes before was judged: {}", opaque.reason);
        Decision { reason: Some(reason), ..allowed }.at(bytes(opaque.span))
    }
}

/// The first entry of a list that matches. The grant leaves out every entry that does.
fn listed(
    command: &Command,
    found: &[(&'static str, Span)],
    list: &[Pattern],
    key: &str,
    verdict: Verdict,
) -> Option<Decision> {
    let hit = |pattern: &Pattern| match pattern {
        Pattern::Rule(rule) => {
            found.iter().find(|(name, _)| *name == rule.name).map(|(_, span)| bytes(*span))
        }
        Pattern::Regex { regex, .. } => regex.find(&command.text).map(|hit| (hit.start(), hit.end())),
    };
    let hits: Vec<_> = list.iter().map(hit).collect();
    let (index, span) = hits.iter().enumerate().find_map(|(i, hit)| hit.map(|span| (i, span)))?;
    let kept = list.iter().zip(&hits).filter(|(_, hit)| hit.is_none());
    let kept: Vec<&str> = kept.map(|(pattern, _)| pattern.source()).collect();
    let (rule, reason) = match list.get(index)? {
        Pattern::Rule(rule) => (rule.name.to_owned(), rule.reason.to_owned()),
        Pattern::Regex { source, .. } => {
            (format!("{key}[{index}]"), format!("the command matches the owner's pattern {source:?}"))
        }
    };
    let decision = match verdict {
        Verdict::Ask => Decision::ask(rule, reason),
        Verdict::Allow | Verdict::Deny => Decision::deny(rule, reason),
    };
    Some(decision.at(span).grant(assignment(key, &kept)))
}

/// `key = ["…", "…"]`.
fn assignment(key: &str, items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| serde_json::Value::from(*item).to_string()).collect();
    format!("{key} = [{}]", items.join(", "))
}

fn bytes(span: Span) -> (usize, usize) {
    (span.start, span.end)
}
