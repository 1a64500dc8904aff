//! What the policy says of the commands of one call: a decision, what the commands do, and the parts that ask.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::{CommandUse, Decision, SandboxChoice, Verdict};
use helve_policy::{PartDecision, Policy};
use helve_shell::Span;
use helve_shell::analysis::{Analysis, EffectKind};

use crate::approval::binding;

/// The guard's rule that asks about a command only because nothing contains it.
pub(super) const BARE: &str = "guard.bare";

/// One command as the policy sees it.
pub(super) struct Judged {
    pub(super) command: CommandUse,
    /// Where it would start.
    pub(super) cwd: PathBuf,
    pub(super) decision: Decision,
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
        }
    }

    fn part(part: &PartDecision) -> Self {
        Asking {
            span: Some(Span { start: part.span.0, end: part.span.1 }),
            run: part.run,
            rule: part.rule.clone(),
            reason: part.reason.clone().unwrap_or_default(),
            ceiling: part.ceiling,
        }
    }
}

/// Judges a command. A wrapper of the owner's is around it like a sandbox, although Helve does not vouch for it.
pub(super) fn judge(policy: &Policy, command: &CommandUse, workspace: &Path, contained: bool) -> Judged {
    let around = contained || matches!(policy.sandbox(), SandboxChoice::Wrapper { .. });
    let judgement = policy.judge(command, workspace, around);
    let parts = judgement.parts.iter().filter(|part| part.verdict == Verdict::Ask);
    let mut asking: Vec<Asking> = parts.map(Asking::part).collect();
    if asking.is_empty() && judgement.decision.verdict == Verdict::Ask {
        asking.push(Asking::whole(&judgement.decision));
    }
    let directory = command.working_dir.as_deref().filter(|directory| !directory.is_empty());
    let directory = directory.or_else(|| policy.working_dir()).unwrap_or(".");
    Judged {
        command: command.clone(),
        cwd: binding::normal(&workspace.join(directory)),
        decision: judgement.decision,
        analysis: Arc::new(judgement.analysis),
        asking,
    }
}

/// Every command that is started, where the question is about all of them.
pub(super) fn every_run(decision: &Decision, analysis: &Analysis) -> Vec<Asking> {
    let whole = Asking::whole(decision);
    let runs = analysis.runs.iter().enumerate();
    let mut parts: Vec<Asking> =
        runs.map(|(at, run)| Asking { span: Some(run.span), run: Some(at), ..whole.clone() }).collect();
    // What is hidden outside every run, or redirected without a command, is not allowed by allowing the runs.
    let hidden = |span: Span| {
        !analysis.runs.iter().any(|run| run.span.start <= span.start && span.end <= run.span.end)
    };
    let alone = analysis.effects.iter().any(|effect| effect.run.is_none() && effect.kind != EffectKind::Read);
    if parts.is_empty() || alone || analysis.opaque.iter().any(|part| hidden(part.span)) {
        parts.push(whole);
    }
    parts
}
