//! What the owner's rules say, as findings of the guard: marks, the name of the rule that allows a command, and the
//! change that would allow it.

use helve_core::{Decision, Verdict};
use helve_shell::analysis::{EffectKind, Run};

use super::judgement::{Mark, bytes};
use super::{Case, enclosing};
use crate::config::layers::Layer;
use crate::rules::{Finding, Findings, Part, needs_no_rule, propose};

/// The most commands that one proposed rule lists.
const MAX_PROPOSED: usize = 16;

/// The findings as marks, each with what would lift it.
pub(super) fn judge(case: &Case<'_>, findings: &Findings) -> Vec<Mark> {
    // Found out once: it is the same for every part that the list lacks.
    let mut listing: Option<Option<String>> = None;
    let mark = |finding: &Finding| {
        let run = match finding.part {
            Part::Run(run) => Some(run),
            Part::Effect(effect) => case.analysis.effects.get(effect).and_then(|effect| effect.run),
            Part::Opaque(_) => enclosing(case.analysis, finding.span),
            Part::Whole => None,
        };
        let grant = match (finding.verdict, &finding.origin) {
            (Verdict::Allow, _) => None,
            (_, Some(_)) => finding.change(),
            (_, None) => listing.get_or_insert_with(|| listed(case, findings)).clone(),
        };
        let decision = Decision {
            verdict: finding.verdict,
            rule: finding.rule.clone(),
            reason: Some(finding.reason.clone()),
            span: Some(bytes(finding.span)),
            grant,
        };
        Mark { ceiling: finding.ceiling, ..Mark::new(decision, run) }
    };
    findings.iter().map(mark).collect()
}

/// The allowance in the name of the owner's rule, where rules allow all that the command does: the first of them.
pub(super) fn allowance(case: &Case<'_>, findings: &Findings) -> Option<Decision> {
    let analysis = case.analysis;
    let allowed = |part| findings.of(part).is_some_and(|finding| finding.verdict == Verdict::Allow);
    let vouched = |(index, run): (usize, &Run)| allowed(Part::Run(index)) || needs_no_rule(run, false);
    let alone = analysis.effects.iter().enumerate().filter(|(_, effect)| effect.run.is_none());
    let all = allowed(Part::Whole)
        || analysis.runs.iter().enumerate().all(vouched)
            && alone.into_iter().all(|(at, one)| one.kind == EffectKind::Read || allowed(Part::Effect(at)))
            && (0..analysis.opaque.len()).all(|index| allowed(Part::Opaque(index)));
    let first = findings.iter().find(|finding| finding.verdict == Verdict::Allow)?;
    let decision = Decision { reason: Some(first.reason.clone()), ..Decision::allow(first.rule.clone()) };
    all.then_some(decision)
}

/// A rule that would put on the list what is missing from it; none if no rule can.
fn listed(case: &Case<'_>, findings: &Findings) -> Option<String> {
    let mut patterns: Vec<String> = Vec::new();
    let is_missing = |part| findings.of(part).is_some_and(|finding| finding.origin.is_none());
    for finding in findings.iter().filter(|finding| finding.origin.is_none()) {
        let run = match finding.part {
            Part::Run(run) => run,
            // A rule for the run speaks for the project's own code that it runs.
            Part::Opaque(_) => {
                enclosing(case.analysis, finding.span).filter(|run| is_missing(Part::Run(*run)))?;
                continue;
            }
            Part::Effect(_) | Part::Whole => return None,
        };
        let pattern = propose(case.analysis, run, case.setting.workspace)?;
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
        if patterns.len() > MAX_PROPOSED {
            return None;
        }
    }
    let text =
        |text: &String| serde_json::Value::from(text.as_str()).to_string().replace('\u{7f}', "\\u007f");
    let command = match patterns.as_slice() {
        [] => return None,
        [only] => text(only),
        several => format!("[{}]", several.iter().map(text).collect::<Vec<_>>().join(", ")),
    };
    Some(format!("[[rules]]\nverdict = \"allow\"\ncommand = {command}"))
}

impl Finding {
    /// Which rule would have to change, and where it stands; none where no rule spoke.
    pub(crate) fn change(&self) -> Option<String> {
        let (rule, origin) = (&self.rule, self.origin.as_ref()?);
        Some(match origin.layer {
            Layer::Profile => format!("choose another profile: the rule {rule} is part of this one"),
            Layer::CommandLine => format!("leave the rule {rule} out of the command line"),
            Layer::Workspace => {
                format!("take out or narrow the rule {rule} in {origin}, and trust the file again")
            }
            _ => format!("take out or narrow the rule {rule} in {origin}"),
        })
    }
}
