//! What the policy says of the commands of one call: a decision, what the commands do, and the parts that ask.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::{CommandUse, Decision, Verdict};
use helve_policy::Policy;
use helve_shell::Span;
use helve_shell::analysis::{
    Analysis, Arg, ArgPart, Departure, DepartureKind, Input, More, Opaque, OpaqueReason, Run, RunKind,
};

use crate::approval::binding;

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
}

/// Judges a command.
pub(super) fn judge(policy: &Policy, command: &CommandUse, workspace: &Path) -> Judged {
    let decision = policy.check(command, workspace);
    let analysis = analyze(&command.command);
    let asking = match decision.verdict {
        Verdict::Ask => asking(&decision, &analysis),
        Verdict::Allow | Verdict::Deny => Vec::new(),
    };
    let directory = command.working_dir.as_deref().filter(|directory| !directory.is_empty());
    let directory = directory.or_else(|| policy.working_dir()).unwrap_or(".");
    let cwd = binding::normal(&workspace.join(directory));
    Judged { command: command.clone(), cwd, decision, analysis: Arc::new(analysis), asking }
}

/// Every command that is started, where the question is about all of them.
pub(super) fn every_run(decision: &Decision, analysis: &Analysis) -> Vec<Asking> {
    let whole = Asking::whole(decision);
    let runs = analysis.runs.iter().enumerate();
    let mut parts: Vec<Asking> =
        runs.map(|(at, run)| Asking { span: Some(run.span), run: Some(at), ..whole.clone() }).collect();
    if parts.is_empty() {
        parts.push(whole);
    }
    parts
}

/// The runs that the decision's span touches.
fn asking(decision: &Decision, analysis: &Analysis) -> Vec<Asking> {
    let whole = Asking::whole(decision);
    let Some((start, end)) = decision.span else { return vec![whole] };
    let touched = |run: &Run| run.span.start < end && start < run.span.end;
    let runs = analysis.runs.iter().enumerate().filter(|(_, run)| touched(run));
    let parts: Vec<Asking> =
        runs.map(|(at, run)| Asking { span: Some(run.span), run: Some(at), ..whole.clone() }).collect();
    if parts.is_empty() { vec![whole] } else { parts }
}

fn analyze(text: &str) -> Analysis {
    let command = helve_shell::read(text);
    let mut analysis = Analysis::default();
    for segment in &command.segments {
        let arg = |word: &helve_shell::Word| {
            let known = word.known && !word.glob;
            let part = if known { ArgPart::Known(word.text.clone()) } else { ArgPart::Unknown };
            Arg { parts: vec![part], span: word.span, splits: !known }
        };
        let Some(name) = segment.name() else { continue };
        let argv: Vec<Arg> = std::iter::once(name).chain(segment.arguments()).map(arg).collect();
        let extra = segment.words.len() != argv.len() || !segment.here_documents.is_empty();
        let departure = Departure { kind: DepartureKind::Output, span: segment.span };
        let program = argv[0].text().map(|name| name.rsplit('/').next().unwrap_or(name).to_owned());
        analysis.runs.push(Run {
            program,
            argv,
            kind: RunKind::Program,
            span: segment.span,
            via: Vec::new(),
            environment: Vec::new(),
            input: Input::Inherited,
            departures: if extra { vec![departure] } else { Vec::new() },
            more: More::Nothing,
            directory: None,
            understood: false,
        });
    }
    if let Some(opaque) = &command.opaque {
        let span = Span { start: opaque.span.start, end: text.len() };
        analysis.opaque.push(Opaque { reason: OpaqueReason::TooComplex, span });
    }
    analysis
}
