//! Analyses made by hand, so that tests of rules do not depend on how a command is read.

use std::path::Path;
use std::time::SystemTime;

use helve_shell::Span;
use helve_shell::analysis::{
    Analysis, Arg, ArgPart, Departure, DepartureKind, Effect, EffectKind, Input, More, Opaque, OpaqueReason,
    Run, RunKind, Target,
};

use super::{Findings, Rules, Subject};

pub(super) const WORKSPACE: &str = "/w";

/// One run of words that stand one space apart. `?` is an unknown word, `*…` an active pattern.
pub(super) fn run(text: &str) -> Run {
    let mut at = 0;
    let mut argv = Vec::new();
    for word in text.split(' ') {
        let span = Span { start: at, end: at + word.len() };
        at = span.end + 1;
        argv.push(match word {
            "?" => Arg::unknown(span),
            word if word.contains('*') => {
                Arg { parts: vec![ArgPart::Glob(word.to_owned())], span, splits: true }
            }
            word => Arg::known(word, span),
        });
    }
    let name = argv.first().and_then(|name| name.text()).map(str::to_owned);
    Run {
        program: name.map(|name| name.rsplit('/').next().unwrap_or(&name).to_owned()),
        argv,
        kind: RunKind::Program,
        span: Span { start: 0, end: text.len() },
        via: Vec::new(),
        environment: Vec::new(),
        input: Input::Inherited,
        departures: Vec::new(),
        more: More::Nothing,
        directory: Some(WORKSPACE.into()),
        understood: true,
    }
}

/// The stretch of the n-th word.
pub(super) fn word(run: &Run, at: usize) -> Span {
    run.argv[at].span
}

/// The same with a departure at its n-th word, or at the whole run.
pub(super) fn departing(mut run: Run, kind: DepartureKind, at: Option<usize>) -> Run {
    let span = at.map_or(run.span, |at| run.argv[at].span);
    run.departures.push(Departure { kind, span });
    run
}

/// An analysis of one run.
pub(super) fn analysis(run: Run) -> Analysis {
    Analysis { runs: vec![run], ..Analysis::default() }
}

/// Adds an effect of the first run on a path, absolute or below the workspace.
pub(super) fn with_effect(mut analysis: Analysis, kind: EffectKind, path: &str) -> Analysis {
    let span = analysis.runs[0].argv.last().unwrap().span;
    let path = Path::new(WORKSPACE).join(path);
    let inside = path.starts_with(WORKSPACE);
    analysis.effects.push(Effect { kind, target: Target::path(path, inside), span, run: Some(0) });
    analysis
}

/// Adds a connection of the first run.
pub(super) fn with_host(mut analysis: Analysis, host: &str) -> Analysis {
    let span = analysis.runs[0].argv.last().unwrap().span;
    let target = Target::Host(host.to_owned());
    analysis.effects.push(Effect { kind: EffectKind::Connect, target, span, run: Some(0) });
    analysis
}

/// Adds an opaque part at the n-th word of the first run.
pub(super) fn with_opaque(mut analysis: Analysis, at: usize) -> Analysis {
    let span = word(&analysis.runs[0], at);
    analysis.opaque.push(Opaque { reason: OpaqueReason::Code, span });
    analysis
}

/// What the rules find about an analysis, in a call of `exec` at the start of time.
pub(super) fn findings(rules: &Rules, analysis: &Analysis) -> Findings {
    rules.judge(&Subject {
        tool: "exec",
        text: "",
        analysis,
        workspace: Path::new(WORKSPACE),
        session: None,
        now: SystemTime::UNIX_EPOCH,
        contained: true,
    })
}
