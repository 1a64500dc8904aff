//! `helve check`: what the policy says of a command, without running it.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use helve::shell::Run;
use helve::{CommandUse, Decision, EffectSummary, Judgement, PartDecision, Runtime, Verdict};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::marked::{self, Mark};
use crate::{effects, setup, ui, verdict};

/// Say whether a command may run, and why
#[derive(ClapArgs)]
#[command(long_about = "\
Say whether a command may run, and why. Nothing is run or recorded.

Prints the verdict, the rule that decided, the reason, the command with what the rule is about marked by ^ and what cannot \
be told before it runs by ~, the verdict on each of its parts, what it does to files, hosts and the machine as far as \
reading can tell, and the smallest change of the configuration that would allow it. Characters that hide are shown. \
--json prints the same for programs: `effects` with the runs, `parts` with their spans. A note says when the call would \
fail although it is allowed, because the sandbox is missing. Exit code: 0 allow, 4 ask, 3 deny, 2 bad usage or \
configuration.")]
#[command(after_help = "\
Examples:
  helve check 'rm -rf build'
  helve check --json 'git push --force'
  helve check --set tools.restrict_to_workspace=true 'cat /etc/passwd'")]
pub(crate) struct Options {
    /// The command
    command: String,
    /// Where it would start [default: the workspace]
    #[arg(long, value_name = "DIR")]
    working_dir: Option<String>,
}

pub(crate) fn check(global: &Global, options: &Options) -> Result<u8, Failure> {
    let runtime = setup::runtime(global)?;
    let command = options.command.as_str();
    let decision = runtime.check(command, options.working_dir.as_deref());
    let mut judged = judge(&runtime, global, options)?;
    lift(&decision, &mut judged);
    let note = if decision.verdict == Verdict::Deny { None } else { obstacle(&runtime) };
    if global.json {
        let mut answer = json!({
            "verdict": decision.verdict,
            "rule": decision.rule,
            "reason": decision.reason,
            "span": decision.span,
            "grant": decision.grant,
            "effects": effects(&judged),
            "parts": judged.parts,
        });
        if let Some(note) = note {
            answer["note"] = note.into();
        }
        ui::print_json(&answer)?;
    } else {
        if let Some(note) = note {
            ui::note(&harmless(&note));
        }
        ui::print_styled(&explain(&decision, &judged, command))?;
    }
    Ok(match decision.verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 4,
        Verdict::Deny => 3,
    })
}

/// The command part by part, as it would run.
fn judge(runtime: &Runtime, global: &Global, options: &Options) -> Result<Judgement, Failure> {
    let command = CommandUse { command: options.command.clone(), working_dir: options.working_dir.clone() };
    // A sandbox that is missing would have been around it: without one the call fails.
    let contained = runtime.sandbox().map_or(true, |report| report.backend != "none");
    Ok(runtime.policy().judge(&command, &setup::workspace(global)?, contained))
}

/// What the owner said about all calls, or an earlier approval, may let through what a part alone would ask about.
fn lift(decision: &Decision, judged: &mut Judgement) {
    for part in judged.parts.iter_mut().filter(|part| part.verdict > decision.verdict) {
        part.verdict = decision.verdict;
        part.rule.clone_from(&decision.rule);
        part.reason.clone_from(&decision.reason);
    }
}

/// Why the call would fail although it may happen, as far as that shows without running it.
fn obstacle(runtime: &Runtime) -> Option<String> {
    let error = runtime.sandbox().err()?;
    Some(format!("the call would fail with {}: {}", error.kind.name(), error.message))
}

/// Everything that reading finds, for programs: the lists of the summary, empty ones too, and every run.
fn effects(judged: &Judgement) -> Value {
    let summary = EffectSummary::of(&judged.analysis);
    let runs: Vec<Value> = judged.analysis.runs.iter().map(run).collect();
    json!({
        "programs": summary.programs,
        "reads": summary.reads,
        "writes": summary.writes,
        "deletes": summary.deletes,
        "executes": summary.executes,
        "hosts": summary.hosts,
        "privilege": summary.privilege,
        "persistence": summary.persistence,
        "secrets": summary.secrets,
        "machine": summary.machine,
        "opaque": summary.opaque,
        "more": summary.more,
        "runs": runs,
    })
}

/// One run; an argument that shows only when it runs is null.
fn run(run: &Run) -> Value {
    let argv: Vec<Option<&str>> = run.argv.iter().map(|arg| arg.text()).collect();
    let span = (run.span.start, run.span.end);
    json!({"program": run.program, "argv": argv, "kind": run.kind, "via": run.via, "span": span})
}

fn explain(decision: &Decision, judged: &Judgement, command: &str) -> String {
    let mut text = format!(
        "{}: {}\n",
        ui::styled(verdict::style(decision.verdict), verdict::word(decision.verdict)),
        harmless(&decision.rule)
    );
    if let Some(reason) = &decision.reason {
        let _ = writeln!(text, "{}", harmless(reason));
    }
    text.push_str(&marked::drawn(command, &marks(decision, judged), "  | "));
    if judged.parts.len() > 1 {
        for part in &judged.parts {
            let about = about(part, judged, command);
            let reason = part.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let why = one_line(&format!("{}{reason}", part.rule), usize::MAX);
            let why = if part.verdict == Verdict::Allow { ui::styled(ui::FAINT, &why) } else { why };
            let _ = writeln!(text, "  {}  {:32}  {why}", verdict::column(part.verdict), one_line(&about, 32));
        }
    }
    let summary = EffectSummary::of(&judged.analysis);
    for (name, value) in effects::lines(&summary, command) {
        let name = ui::styled(ui::FAINT, &format!("{name:15}"));
        let _ = writeln!(text, "  {name}{}", one_line(&value, usize::MAX));
    }
    if let Some(grant) = &decision.grant {
        let _ = writeln!(text, "To allow it: {}", harmless(grant));
    }
    text
}

/// A part as it is written; what a wrapper starts, as far as it is known.
fn about(part: &PartDecision, judged: &Judgement, command: &str) -> String {
    let run = part.run.and_then(|run| judged.analysis.runs.get(run)).filter(|run| !run.via.is_empty());
    match run {
        None => command.get(part.span.0..part.span.1).unwrap_or_default().to_owned(),
        Some(run) => {
            let words: Vec<_> =
                run.argv.iter().map(|arg| arg.text().map_or("…".into(), helve::quote)).collect();
            format!("{} (by {})", words.join(" "), run.via.join(", "))
        }
    }
}

/// What the decision and the parts that are not simply allowed are about, and what cannot be told.
fn marks(decision: &Decision, judged: &Judgement) -> Vec<(marked::Stretch, Mark)> {
    let parts = judged.parts.iter().filter(|part| part.verdict != Verdict::Allow).map(|part| part.span);
    let rules = decision.span.into_iter().chain(parts).map(|span| (span, Mark::Rule));
    let opaque = judged.analysis.opaque.iter().map(|part| ((part.span.start, part.span.end), Mark::Unknown));
    rules.chain(opaque).collect()
}
