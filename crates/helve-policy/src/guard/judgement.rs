//! What the guard says about a command: one decision, and one for each part of it.

use helve_core::{Decision, Verdict};
use helve_shell::Span;
use helve_shell::analysis::Analysis;
use serde::Serialize;

use super::short;

/// A decision with everything that it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// The strictest of all that was found.
    pub decision: Decision,
    /// Whether the decision asks only because nothing contains the command.
    pub bare: bool,
    /// What was found about each run, in the order of [`Analysis::runs`], and behind them what belongs to no run: a part
    /// that cannot be read, a redirection without a command, an expression of the owner that matches across commands.
    pub parts: Vec<PartDecision>,
    /// What the command does, as far as reading can tell.
    pub analysis: Analysis,
}

/// A decision about one part of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartDecision {
    /// Which bytes of the command it is about.
    pub span: (usize, usize),
    /// The run that it is about, an index into [`Analysis::runs`]; none for what belongs to no run.
    pub run: Option<usize>,
    /// The name of the program, where there is one and it is known.
    pub program: Option<String>,
    /// May it happen?
    pub verdict: Verdict,
    /// The rule that decided.
    pub rule: String,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it comes from the machine's ceiling, which no approval exceeds.
    pub ceiling: bool,
    /// Whether it asks only because nothing contains the command. Names of rules do not say so: an owner's rule may have
    /// any.
    pub bare: bool,
}

/// Something that a check found: a decision about a part, before it is known whether it is the strictest.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(super) decision: Decision,
    pub(super) run: Option<usize>,
    pub(super) ceiling: bool,
    pub(super) bare: bool,
}

impl Mark {
    pub(super) fn new(decision: Decision, run: Option<usize>) -> Self {
        Mark { decision, run, ceiling: false, bare: false }
    }
}

/// Puts the marks together. The first of equally strict ones decides, `allowance` where there is none.
pub(crate) fn assemble(allowance: Decision, marks: Vec<Mark>, analysis: Analysis) -> Judgement {
    let runs = analysis.runs.iter().enumerate();
    let mut parts: Vec<PartDecision> = runs
        .map(|(index, run)| PartDecision {
            span: bytes(run.span),
            run: Some(index),
            program: run.program.clone(),
            verdict: Verdict::Allow,
            rule: allowance.rule.clone(),
            reason: None,
            ceiling: false,
            bare: false,
        })
        .collect();
    let mut decided = vec![false; parts.len()];
    let mut strictest: Option<&Mark> = None;
    for mark in &marks {
        let decision = &mark.decision;
        if strictest.is_none_or(|so_far| decision.verdict > so_far.decision.verdict) {
            strictest = Some(mark);
        }
        let part = mark.run.and_then(|run| Some((parts.get_mut(run)?, decided.get_mut(run)?)));
        match part {
            Some((part, decided)) if decision.verdict > part.verdict || !*decided => {
                *decided = true;
                part.verdict = decision.verdict;
                part.rule.clone_from(&decision.rule);
                part.reason.clone_from(&decision.reason);
                part.ceiling = mark.ceiling;
                part.bare = mark.bare;
            }
            Some((part, _)) => part.ceiling |= mark.ceiling && decision.verdict == part.verdict,
            None => parts.push(PartDecision {
                span: decision.span.unwrap_or_default(),
                run: None,
                program: None,
                verdict: decision.verdict,
                rule: decision.rule.clone(),
                reason: decision.reason.clone(),
                ceiling: mark.ceiling,
                bare: mark.bare,
            }),
        }
    }
    let (decision, bare) = match strictest {
        Some(mark) if mark.decision.verdict > Verdict::Allow => (mark.decision.clone(), mark.bare),
        _ => (allowance, false),
    };
    Judgement { decision: short(decision), bare, parts, analysis }
}

pub(super) fn bytes(span: Span) -> (usize, usize) {
    (span.start, span.end)
}
