//! Commands that run bare: whatever is more than plain reading is asked about.
//!
//! Plainly read-only is a run of a program on the list of `readers`, with options whose effect is known, that only reads, and
//! reads files whose names are known; and a command of which every run is one and nothing is opaque. A rule of the owner allows what it names and no more: not the
//! programs that a repository names to git, nor its hooks.

use std::collections::HashSet;
use std::path::PathBuf;

use helve_core::{Decision, Verdict};
use helve_shell::analysis::{Arg, EffectKind, More, Run, RunKind};

use super::argv::Argv;
use super::hidden::is_hidden;
use super::judgement::{Mark, bytes};
use super::repository::{Reach, Seen, takes_up};
use super::{Case, disk, enclosing, outside};
use crate::readers;
use crate::rules::{Findings, Part};

/// The rule that asks about what runs without a sandbox.
pub(super) const BARE: &str = "guard.bare";

/// Builtins that change nothing outside the shell.
const BUILTINS: &[&str] = &[
    ":", "[", "[[", "break", "cd", "command", "continue", "declare", "dirs", "echo", "exit", "export",
    "false", "getopts", "let", "local", "popd", "printf", "pushd", "pwd", "read", "readonly", "return",
    "set", "shift", "test", "time", "times", "true", "type", "typeset", "umask", "unset", "wait",
];

/// What has to be asked about because nothing contains it.
pub(super) fn judge(case: &Case<'_>, findings: &Findings) -> Vec<Mark> {
    let analysis = case.analysis;
    let mut changing: HashSet<usize> = HashSet::new();
    let mut marks = Vec::new();
    let may_take_up = |run: &Run| repository(run).is_some_and(|repository| takes_up(repository.subcommand));
    let mut seen = Seen::new(analysis.runs.iter().filter(|run| is_git(run)).any(may_take_up));
    let grant = "sandbox = \"auto\"";
    let ask = |reason: String, span, run| {
        let decision = Decision::ask(BARE, reason).at(bytes(span)).grant(grant);
        Mark { bare: true, ..Mark::new(decision, run) }
    };
    for (index, effect) in analysis.effects.iter().enumerate() {
        if allowed(findings, Part::Effect(index)) {
            continue;
        }
        if effect.kind == EffectKind::Read {
            let run = effect.run.and_then(|run| analysis.runs.get(run));
            let vouched = effect.run.is_some_and(|run| allowed(findings, Part::Run(run)));
            if !vouched && !run.is_some_and(only_lists) && is_hidden(case, effect) {
                let reason = "it runs without a sandbox, and which file it reads shows only when it runs";
                marks.push(ask(reason.into(), effect.span, effect.run));
            }
            continue;
        }
        match effect.run {
            Some(run) => {
                changing.insert(run);
            }
            None => {
                marks.push(ask("it runs without a sandbox and writes".into(), effect.span, None));
            }
        }
    }
    for opaque in &analysis.opaque {
        let run = enclosing(analysis, opaque.span);
        if !run.is_some_and(|run| allowed(findings, Part::Run(run))) {
            let reason = format!("it runs without a sandbox, and {}", opaque.reason);
            marks.push(ask(reason, opaque.span, run));
        }
    }
    for (index, run) in analysis.runs.iter().enumerate() {
        let passes = allowed(findings, Part::Run(index))
            || !changing.contains(&index) && run.departures.is_empty() && is_reader(run);
        // What is asked about anyway is not worth reading a whole work tree.
        let reach = if passes { Reach::Inside } else { Reach::Around };
        let reason = if is_led_on(run, &mut seen, reach) {
            "it runs without a sandbox, and the repository may name programs or have hooks that git starts"
        } else if passes {
            continue;
        } else {
            "it runs without a sandbox and may do more than read"
        };
        marks.push(ask(reason.into(), run.span, Some(index)));
    }
    marks
}

/// Whether a rule of the owner allows the part.
fn allowed(findings: &Findings, part: Part) -> bool {
    findings.of(part).is_some_and(|finding| finding.verdict == Verdict::Allow)
}

/// Whether a run tells of files only that they are there, and how large.
fn only_lists(run: &Run) -> bool {
    const LISTERS: [&str; 9] = ["cd", "du", "fd", "find", "ls", "readlink", "realpath", "stat", "tree"];
    run.program.as_deref().is_some_and(|name| LISTERS.contains(&name))
}

/// Whether a run only reads, where the repository of a run of git starts nothing.
fn is_reader(run: &Run) -> bool {
    let argv = Argv::of(run);
    let name = run.program.as_deref().unwrap_or_default();
    match run.kind {
        RunKind::Function => true,
        RunKind::Builtin => BUILTINS.contains(&name),
        RunKind::Program if name == "git" => {
            let told = run.environment.iter().any(|(name, _)| name.starts_with("GIT_"));
            let plain = repository(run).is_some_and(|repository| !repository.told);
            plain && !told && argv.git().is_some_and(|git| readers::is_git_reader(&git.name))
        }
        RunKind::Program => readers::is_reader(name),
    }
}

fn is_git(run: &Run) -> bool {
    run.kind == RunKind::Program && run.program.as_deref() == Some("git")
}

/// Whether a run of git works in a repository that may start programs on the way, or in one that nobody knows.
fn is_led_on(run: &Run, seen: &mut Seen, reach: Reach) -> bool {
    let is_plain = |repository: Repository<'_>| {
        disk::resolve_for_all(&repository.directory, &mut { usize::MAX })
            .is_some_and(|directory| seen.is_plain(&directory, repository.subcommand, repository.args, reach))
    };
    is_git(run) && !outside::is_elsewhere(run) && !repository(run).is_some_and(is_plain)
}

/// Where git works.
struct Repository<'a> {
    /// The directory from which on git looks for it.
    directory: PathBuf,
    /// What git does there.
    subcommand: Option<&'a str>,
    /// What stands behind the subcommand; none if more is added when it runs.
    args: Option<&'a [Arg]>,
    /// Whether options before the subcommand tell git how to work.
    told: bool,
}

/// The repository of a run of git; none if it is not certain.
fn repository(run: &Run) -> Option<Repository<'_>> {
    let mut directory = run.directory.clone()?;
    let mut subcommand = None;
    let mut told = false;
    let mut args = run.argv.get(1..)?.iter();
    while let Some(option) = args.next() {
        match option.text()? {
            "--no-pager" | "-P" | "--no-optional-locks" | "--version" => {}
            "-C" => directory.push(args.next()?.text()?),
            "-c" => {
                args.next()?;
                told = true;
            }
            "-p" | "--paginate" | "--no-advice" | "--literal-pathspecs" => told = true,
            word if !word.starts_with('-') => {
                subcommand = Some(word);
                break;
            }
            _ => return None,
        }
    }
    let args = (run.more == More::Nothing).then_some(args.as_slice());
    Some(Repository { directory, subcommand, args, told })
}
