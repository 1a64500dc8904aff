//! What the policy says of the commands of one call: a decision, what the commands do, and the parts that ask.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::{CommandUse, Decision, Verdict};
use helve_policy::{Judgement, PartDecision, PathDecision, Policy, RunBy};
use helve_shell::Span;
use helve_shell::analysis::{Analysis, EffectKind};
use helve_store::Within;

use super::Shown;

/// The guard's word for a command that no rule is about.
const DEFAULT: &str = "guard.default";

/// One command as the policy sees it.
pub(super) struct Judged {
    pub(super) command: CommandUse,
    /// The command as it may be shown.
    pub(super) text: String,
    /// Where it would start.
    pub(super) cwd: PathBuf,
    /// What would be around it.
    pub(super) within: Within,
    pub(super) decision: Decision,
    /// The rule that allows it, where that is more than that no rule is about it.
    pub(super) allowed_by: Option<Decision>,
    pub(super) analysis: Arc<Analysis>,
    pub(super) asking: Vec<Asking>,
}

/// A part that needs an answer.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) span: Option<Span>,
    /// The run, if the part is one.
    pub(super) run: Option<usize>,
    pub(super) rule: String,
    pub(super) reason: String,
    /// Whether no answer may hold for longer than the call.
    pub(super) ceiling: bool,
    /// The path that it is about, where it is one.
    pub(super) path: Option<String>,
    /// Whether it asks only because nothing contains the command.
    bare: bool,
}

impl Asking {
    /// The call as a whole.
    pub(super) fn whole(decision: &Decision) -> Self {
        Asking {
            span: None,
            run: None,
            rule: decision.rule.clone(),
            reason: decision.reason.clone().unwrap_or_default(),
            ceiling: false,
            path: None,
            bare: false,
        }
    }

    /// A path that the call names.
    pub(super) fn path(one: &PathDecision) -> Self {
        Asking { ceiling: one.ceiling, path: one.path.clone(), ..Asking::whole(&one.decision) }
    }

    fn part(part: &PartDecision) -> Self {
        Asking {
            span: Some(Span { start: part.span.0, end: part.span.1 }),
            run: part.run,
            rule: part.rule.clone(),
            reason: part.reason.clone().unwrap_or_default(),
            ceiling: part.ceiling,
            path: None,
            bare: part.bare,
        }
    }
}

/// Judges a command. A wrapper of the owner's is around it like a sandbox, although Helve does not vouch for it.
pub(super) fn judge(
    policy: &Policy,
    by: RunBy<'_>,
    command: &CommandUse,
    workspace: &Path,
    within: Within,
) -> Judged {
    let judgement = policy.judge_run(by, command, workspace, within != Within::Nothing);
    let parts = judgement.parts.iter().filter(|part| part.verdict == Verdict::Ask);
    let mut asking: Vec<Asking> = parts.map(Asking::part).collect();
    if asking.is_empty() && judgement.decision.verdict == Verdict::Ask {
        asking.push(Asking::whole(&judgement.decision));
    }
    Judged {
        command: command.clone(),
        text: command.command.clone(),
        cwd: policy.directory_of(command, workspace),
        within,
        allowed_by: allowed_by(&judgement),
        decision: judgement.decision,
        analysis: Arc::new(judgement.analysis),
        asking,
    }
}

/// The rule behind an allowed command: its own, else the first of a part.
fn allowed_by(judgement: &Judgement) -> Option<Decision> {
    let decision = &judgement.decision;
    if decision.verdict == Verdict::Allow && decision.rule != DEFAULT {
        return Some(decision.clone());
    }
    let named = judgement.parts.iter().find(|part| part.verdict == Verdict::Allow && part.rule != DEFAULT);
    named.map(|part| Decision { reason: part.reason.clone(), ..Decision::allow(&part.rule) })
}

impl Judged {
    /// Leaves known secrets out of all that is shown, kept or recorded of it.
    pub(super) fn hide_secrets(&mut self, shown: &Shown<'_>) {
        self.text = (shown.text)(&self.command.command);
        let same = self.is_shown_as_it_is();
        shown.clean(&mut self.decision, same);
        if let Some(decision) = &mut self.allowed_by {
            shown.clean(decision, same);
        }
        for part in &mut self.asking {
            part.reason = shown.cleaned(&part.reason).unwrap_or_default();
        }
    }

    /// Whether places in the command are places in what is shown of it.
    pub(super) fn is_shown_as_it_is(&self) -> bool {
        self.text == self.command.command
    }

    /// Forgets what asks only because nothing contains the command.
    pub(super) fn forget_bare(&mut self) {
        self.asking.retain(|part| !part.bare);
        if self.decision.verdict == Verdict::Ask && self.asking.is_empty() {
            self.decision = Decision::allow(DEFAULT);
        }
    }
}

/// Every command that is started, where the question is about all of them.
pub(super) fn every_run(decision: &Decision, analysis: &Analysis) -> Vec<Asking> {
    let whole = Asking::whole(decision);
    let runs = analysis.runs.iter().enumerate();
    let mut parts: Vec<Asking> =
        runs.map(|(at, run)| Asking { span: Some(run.span), run: Some(at), ..whole.clone() }).collect();
    // What is hidden outside every run, or redirected without a command, is not allowed by allowing the runs. For each run
    // the end of the one that reaches farthest so far: runs stand in the order in which they start.
    let mut ends: Vec<usize> = Vec::with_capacity(analysis.runs.len());
    for run in &analysis.runs {
        ends.push(ends.last().copied().unwrap_or_default().max(run.span.end));
    }
    let hidden = |span: Span| {
        let before = analysis.runs.partition_point(|run| run.span.start <= span.start);
        before.checked_sub(1).and_then(|last| ends.get(last)).is_none_or(|end| *end < span.end)
    };
    let alone = analysis.effects.iter().any(|effect| effect.run.is_none() && effect.kind != EffectKind::Read);
    if parts.is_empty() || alone || analysis.opaque.iter().any(|part| hidden(part.span)) {
        parts.push(whole);
    }
    parts
}

/// Adds those of `more` whose run does not ask already.
pub(super) fn extend(asking: &mut Vec<Asking>, more: Vec<Asking>) {
    let asked: HashSet<usize> = asking.iter().filter_map(|part| part.run).collect();
    asking.extend(more.into_iter().filter(|part| part.run.is_none_or(|run| !asked.contains(&run))));
}
