//! The guard: judges a command before it is wrapped or run.
//!
//! In comes what `helve_shell` says the command does, out goes a [`Judgement`]: a decision with the rule, the reason, the
//! bytes it is about and the smallest change of the configuration that would allow it, and the same for each part. Every
//! check runs; the strictest verdict wins.
//!
//! | module | what it judges |
//! |---|---|
//! | `rules` | the table of built-in rules |
//! | `families` | what falls under those that refuse; `guess` where a name is a pattern |
//! | `protected` | changes of files that run or configure programs by themselves; `written` who says what they hold, `links` where paths lead |
//! | `asked` | what falls under those that ask |
//! | `pattern` | one entry of a list: a built-in rule by name, or the owner's regular expression |
//! | `allow` | whether the owner's allow list holds all of a command |
//! | `outside` | paths and a working directory outside the workspace; `disk` where they lead |
//! | `hidden` | paths that show only when it runs |
//! | `owners` | what the owner's rules found |
//! | `bare` | what is asked about where nothing contains a command; `repository` whether git only reads there |
//! | `options` | whether a pattern can turn out to be an option |
//! | `judgement` | how the findings become one decision |
//! | `message` | a decision in the words that a person or a model reads |
//!
//! Built-in rules look at what programs do, so a pattern that is only data (`grep 'rm -rf' notes`) passes. An owner's
//! expression is searched in the whole text, as written.
//!
//! Not here: containment. A command can hide what it does from any reader; the sandbox is the boundary, the guard
//! refuses what is plainly destructive and explains why.

mod allow;
mod argv;
mod asked;
mod bare;
mod disk;
mod families;
mod guess;
mod hidden;
mod judgement;
mod links;
mod message;
mod options;
mod outside;
mod owners;
mod pattern;
mod protected;
mod repository;
mod rules;
#[cfg(test)]
mod tests;
mod written;

use std::path::PathBuf;

use helve_core::{Decision, Verdict};
use helve_shell::Span;
use helve_shell::analysis::{Analysis, OpaqueReason, Setting};
use helve_shell::tree::FaultReason;

use crate::config::keys::{EXEC_ALLOW, EXEC_ASK, EXEC_DELETE_INSIDE, EXEC_DENY};
use crate::rules::Findings;
pub(crate) use disk::{MAX_TREE, matching, resolve, stays_inside};
use families::Hit;
pub(crate) use judgement::assemble;
pub use judgement::{Judgement, PartDecision};
use judgement::{Mark, bytes};
pub(crate) use message::short;
pub use message::{blocked_message, sentence};
pub(crate) use options::settle;
pub(crate) use outside::{WORKING_DIR, is_stream, judge_working_dir};
pub(crate) use pattern::Pattern;
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
    /// Whether the list of what asks is the owner's own, so that it counts inside a sandbox too.
    pub(crate) asks_inside: bool,
    pub(crate) allow: Option<Vec<Pattern>>,
    /// The keys that restrict paths to the workspace; empty if none does.
    pub(crate) restricted_by: Vec<&'static str>,
    /// Whether literal paths strictly inside the workspace may be deleted with all that is in them.
    pub(crate) delete_inside: bool,
    /// Paths outside the workspace that the owner opened.
    pub(crate) opened: Opened,
    /// The user's home directory, which no grant opens as a whole.
    pub(crate) home: Option<PathBuf>,
    /// Files that configure Helve or hold a secret.
    pub(crate) own_files: Vec<PathBuf>,
    /// Names of files that run or configure programs without being asked.
    pub(crate) protected: Vec<String>,
}

/// The owner's `[view]` lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) read_write: Vec<PathBuf>,
}

/// What is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) text: &'a str,
    pub(crate) setting: Setting<'a>,
    pub(crate) analysis: &'a Analysis,
    /// Whether a sandbox contains what runs.
    pub(crate) contained: bool,
}

impl Guard {
    /// Judges a command. `findings` is what the owner's rules say about it, `directory` the refusal of its working
    /// directory, if there is one.
    pub(crate) fn judge(
        &self,
        case: &Case<'_>,
        findings: &Findings,
        directory: Option<Decision>,
    ) -> (Decision, Vec<Mark>) {
        let allowance = self.allowance(case, findings);
        if let Some(opaque) = fault(case.analysis, |reason| reason == FaultReason::Nul) {
            let decision = Decision::deny(NUL, opaque.1.to_string()).at(bytes(opaque.0));
            return (allowance, vec![Mark::new(decision, None)]);
        }
        let mut hits = families::look(self, case);
        hits.extend(guess::look(self, case));
        let mut marks: Vec<Mark> = directory.into_iter().map(|decision| Mark::new(decision, None)).collect();
        marks.extend(listed(case, &hits, &self.deny, EXEC_DENY, Verdict::Deny));
        marks.extend(self.unread(case.analysis));
        marks.extend(outside::judge_paths(self, case));
        if let Some(patterns) = self.allow.as_deref() {
            marks.extend(allow::judge(patterns, case));
        }
        marks.extend(owners::judge(case, findings));
        if self.asks_inside || !case.contained {
            marks.extend(listed(case, &hits, &self.ask, EXEC_ASK, Verdict::Ask));
        }
        if !case.contained {
            marks.extend(bare::judge(case, findings));
        }
        (allowance, marks)
    }

    /// Refuses a command of which a part cannot be judged. An owner whose list is empty wants no such judgement.
    fn unread(&self, analysis: &Analysis) -> Option<Mark> {
        if self.deny.is_empty() {
            return None;
        }
        let decision = if let Some((span, reason)) = fault(analysis, may_run) {
            Decision::deny(UNREADABLE, format!("a part of it cannot be judged: {reason}")).at(bytes(span))
        } else {
            let complex = analysis.opaque.iter().find(|opaque| opaque.reason == OpaqueReason::TooComplex)?;
            let reason = "commands inside commands are nested too deep or too often, or braces make too many words, to \
                          be read in reasonable time; put them into a script and run that";
            Decision::deny(TOO_COMPLEX, reason).at(bytes(complex.span))
        };
        Some(Mark::new(decision, None))
    }

    fn allowance(&self, case: &Case<'_>, findings: &Findings) -> Decision {
        let rule = if self.allow.is_some() { EXEC_ALLOW } else { DEFAULT };
        let allowed = Decision::allow(rule);
        let Some((span, reason)) = fault(case.analysis, |_| true) else {
            let by_rule = owners::allowance(case, findings).filter(|_| self.allow.is_none());
            return by_rule.unwrap_or(allowed);
        };
        let reason = format!("only what comes before was judged: {reason}");
        Decision { reason: Some(reason), ..allowed }.at(bytes(span))
    }
}

/// The first fault of the text, or of a text inside it, for such a reason.
fn fault(analysis: &Analysis, matches: impl Fn(FaultReason) -> bool) -> Option<(Span, FaultReason)> {
    analysis.opaque.iter().find_map(|opaque| match opaque.reason {
        OpaqueReason::Unreadable(reason) if matches(reason) => Some((opaque.span, reason)),
        _ => None,
    })
}

/// Whether a shell may still run what could not be read. It refuses what its grammar has no place for, and it takes a
/// here-document up to the end of the text.
fn may_run(reason: FaultReason) -> bool {
    matches!(
        reason,
        FaultReason::TooDeep
            | FaultReason::TooLong
            | FaultReason::Nul
            | FaultReason::AmbiguousHereDocument
            | FaultReason::BadSubstitution
    )
}

/// The innermost run whose text holds the stretch.
fn enclosing(analysis: &Analysis, span: Span) -> Option<usize> {
    /// Runs that start before the stretch and end before it too are not looked at for ever.
    const MAX_BACK: usize = 64;
    let behind = analysis.runs.partition_point(|run| run.span.start <= span.start);
    (0..behind)
        .rev()
        .take(MAX_BACK)
        .find(|index| analysis.runs.get(*index).is_some_and(|run| span.end <= run.span.end))
}

/// The entries of a list that match, in the order of the list. The grant leaves out every entry that does.
fn listed(case: &Case<'_>, hits: &[Hit], list: &[Pattern], key: &str, verdict: Verdict) -> Vec<Mark> {
    if hits.is_empty() && list.iter().all(|pattern| matches!(pattern, Pattern::Rule(_))) {
        return Vec::new();
    }
    let of_entry = |pattern: &Pattern| -> Vec<Hit> {
        match pattern {
            Pattern::Rule(rule) => hits.iter().filter(|hit| hit.rule == rule.name).copied().collect(),
            Pattern::Regex { regex, .. } => {
                let found =
                    regex.find(case.text).map(|found| Span { start: found.start(), end: found.end() });
                let hit = |span| Hit { rule: "", span, run: enclosing(case.analysis, span), liftable: false };
                found.map(hit).into_iter().collect()
            }
        }
    };
    let found: Vec<Vec<Hit>> = list.iter().map(of_entry).collect();
    if found.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let kept = list.iter().zip(&found).filter(|(_, hits)| hits.is_empty());
    let kept: Vec<&str> = kept.map(|(pattern, _)| pattern.source()).collect();
    // A build directory can be deleted without letting everything be deleted.
    let liftable = found.iter().flatten().all(|hit| hit.liftable);
    let mut grant =
        Some(if liftable { format!("{EXEC_DELETE_INSIDE} = true") } else { assignment(key, &kept) });
    let mut marks = Vec::new();
    for (index, (pattern, hits)) in list.iter().zip(&found).enumerate() {
        let (rule, reason) = match pattern {
            Pattern::Rule(rule) => (rule.name.to_owned(), rule.reason.to_owned()),
            Pattern::Regex { source, .. } => {
                (format!("{key}[{index}]"), format!("the command matches the owner's pattern {source:?}"))
            }
        };
        for hit in hits {
            let decision =
                Decision { verdict, reason: Some(reason.clone()), ..Decision::allow(rule.clone()) };
            // Only the first can become the decision of the whole.
            let decision = Decision { grant: grant.take(), ..decision.at(bytes(hit.span)) };
            marks.push(Mark::new(decision, hit.run));
        }
    }
    marks
}

/// `key = ["…", "…"]`.
fn assignment(key: &str, items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| serde_json::Value::from(*item).to_string()).collect();
    format!("{key} = [{}]", items.join(", "))
}
