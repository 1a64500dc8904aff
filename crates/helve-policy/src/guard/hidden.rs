//! Paths that show only when the command runs, of which nothing says that they lie in the workspace.
//!
//! In comes an effect; out goes whether it is on such a path. Names that a program lists inside the workspace stay there:
//! `rg -l x | xargs cat`, `wc -l $(git ls-files)`. Asked where no sandbox holds a command.

use helve_shell::Span;
use helve_shell::analysis::{ArgPart, Effect, EffectKind, Input, Run, Target};

use super::Case;
use super::argv::Argv;

/// The longest pipe of programs that pass names on.
const MAX_PIPE: usize = 8;

/// The most effects of a command that is looked through for what lists names.
const MAX_EFFECTS: usize = 1_000;

/// Whether an effect is on a path that may turn out to be any.
pub(super) fn is_hidden(case: &Case<'_>, effect: &Effect) -> bool {
    effect.target == Target::Unknown && effect.kind.is_on_path() && !is_listed(case, effect)
}

/// Whether what an effect is on is a name that a program of the command lists.
fn is_listed(case: &Case<'_>, effect: &Effect) -> bool {
    let runs = &case.analysis.runs;
    let written = case.text.get(effect.span.range()).unwrap_or_default();
    let run = effect.run.and_then(|run| runs.get(run));
    // What is added to a run has no place of its own.
    let is_added = |run: &Run| {
        run.span == effect.span && run.argv.iter().all(|arg| !arg.parts.contains(&ArgPart::Unknown))
    };
    if !written.contains(['$', '`']) || run.is_some_and(is_added) {
        return effect.run.and_then(|run| fed_by(runs, run)).is_some_and(|lister| lists(case, lister, 0));
    }
    let plain = written.trim_matches('"');
    let marks = plain.matches(['$', '`']).count();
    let is_substitution = plain.starts_with("$(") && plain.ends_with(')') && marks == 1
        || plain.starts_with('`') && plain.ends_with('`') && marks == 2 && !plain.contains('$');
    let from = runs.partition_point(|run| run.span.start <= effect.span.start);
    let within = |run: &&Run| holds(effect.span, run.span);
    let count = runs.iter().skip(from).take_while(within).count();
    is_substitution && count > 0 && (from..from + count).all(|run| lists(case, run, 0))
}

/// What gives `xargs` the arguments of a run that it starts.
fn fed_by(runs: &[Run], index: usize) -> Option<usize> {
    let run = runs.get(index).filter(|run| run.via.last().is_some_and(|name| name == "xargs"))?;
    let before = runs.get(..index)?.iter().rev().take(MAX_PIPE);
    let is_xargs = |outer: &&Run| outer.program.as_deref() == Some("xargs") && holds(outer.span, run.span);
    match before.clone().find(is_xargs)?.input {
        Input::Pipe(lister) => lister,
        _ => None,
    }
}

/// Whether a run prints names of files inside the workspace and nothing else.
fn lists(case: &Case<'_>, index: usize, depth: usize) -> bool {
    let analysis = case.analysis;
    let is_short = depth < MAX_PIPE && analysis.effects.len() + analysis.possible.len() <= MAX_EFFECTS;
    let Some(run) = analysis.runs.get(index).filter(|_| is_short) else { return false };
    let is_inside = |target: &Target| {
        matches!(target, Target::Path { inside: true, .. } | Target::Glob { inside: true, .. })
    };
    let possible = analysis.possible.iter().map(|possible| &possible.effect);
    let mut own = analysis.effects.iter().chain(possible).filter(|effect| effect.run == Some(index));
    let argv = Argv::of(run);
    let has = |start: &str| argv.texts().any(|text| text.starts_with(start));
    let lists = match argv.name.as_ref() {
        "find" => !has("-printf"),
        "fd" | "ls" => true,
        "rg" => argv.short('l') || has("--files"),
        "grep" | "egrep" | "fgrep" => argv.short('l') || has("--files-with-matches"),
        "git" => argv.git().is_some_and(|git| git.name == "ls-files"),
        _ => false,
    };
    if lists {
        let here =
            run.directory.as_ref().is_some_and(|directory| directory.starts_with(case.setting.workspace));
        return here
            && run.departures.is_empty()
            && own.all(|effect| effect.kind == EffectKind::Read && is_inside(&effect.target));
    }
    let passes_on = matches!(
        argv.name.as_ref(),
        "grep" | "egrep" | "fgrep" | "rg" | "sort" | "uniq" | "head" | "tail" | "shuf" | "tac"
    );
    match run.input {
        Input::Pipe(Some(before)) if passes_on => {
            own.next().is_none() && self::lists(case, before, depth + 1)
        }
        _ => false,
    }
}

fn holds(outer: Span, inner: Span) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}
