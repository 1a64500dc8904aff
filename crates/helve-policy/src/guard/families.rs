//! The destructive families: which built-in rules an analysis falls under, and where.
//!
//! Most of it is read off the effects. Names and options count too: a program on another host has no effects here, and
//! one that hides its name (`$x -rf y`) has none at all.

use std::path::{Component, Path};

use helve_shell::Span;
use helve_shell::analysis::{Analysis, Arg, ArgPart, Effect, EffectKind, More, Run, RunKind, Target};

use super::argv::{Argv, lower};
use super::rules::{
    DD, DEVICE_WRITE, DISK_FORMAT, DOWNLOAD_RUN, FORK_BOMB, POWER, PROTECTED_WRITE, RM_RECURSIVE,
    WINDOWS_DELETE,
};
use super::written::{copies, is_redirected};
use super::{Case, Guard};
use super::{disk, protected};

/// A rule that a part falls under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) rule: &'static str,
    pub(super) span: Span,
    pub(super) run: Option<usize>,
    /// Whether `delete_inside` lets it through.
    pub(super) liftable: bool,
}

/// Every rule that the command falls under, with the simple command that it is about.
pub(super) fn look(guard: &Guard, case: &Case<'_>) -> Vec<Hit> {
    let analysis = case.analysis;
    let plain = plain_deletions(case);
    let is_plain = |run: Option<usize>| run.and_then(|run| plain.get(run)) == Some(&true);
    let hit = |rule, span, run| Hit { rule, span, run, liftable: rule == RM_RECURSIVE && is_plain(run) };
    let stays = |hit: &Hit| !(hit.liftable && guard.delete_inside);
    let mut hits = Vec::new();
    for effect in &analysis.effects {
        let rule = of_effect(case, effect);
        hits.extend(rule.map(|rule| hit(rule, place(analysis, effect), effect.run)).filter(stays));
    }
    for (index, run) in analysis.runs.iter().enumerate() {
        let hit = |rule| hit(rule, run.span, Some(index));
        let argv = Argv::of(run);
        hits.extend(of_run(run, &argv).map(hit).filter(stays));
        hits.extend(super::asked::look(&argv).map(hit));
    }
    hits.extend(protected::look(guard, case).into_iter().map(|(span, run)| hit(PROTECTED_WRITE, span, run)));
    hits
}

/// The simple command that does it; a fork bomb is the function itself.
pub(super) fn place(analysis: &Analysis, effect: &Effect) -> Span {
    let run = effect.run.and_then(|run| analysis.runs.get(run));
    match run {
        Some(run) if effect.kind != EffectKind::ForkBomb => run.span,
        _ => effect.span,
    }
}

fn of_effect(case: &Case<'_>, effect: &Effect) -> Option<&'static str> {
    let run = effect.run.and_then(|run| case.analysis.runs.get(run));
    let name = lower(run.and_then(|run| run.program.as_deref()).unwrap_or_default());
    match effect.kind {
        // What these delete they put in order again: a mirror, or a work tree that git keeps.
        EffectKind::DeleteTree if matches!(name.as_ref(), "rsync" | "git") => None,
        EffectKind::DeleteTree if is_windows(&name) => Some(WINDOWS_DELETE),
        EffectKind::DeleteTree => Some(RM_RECURSIVE),
        EffectKind::Device if copies(&name) || run.is_none() || is_redirected(run, effect) => {
            Some(DEVICE_WRITE)
        }
        // Many projects have a script of such a name.
        EffectKind::Device | EffectKind::Power if run.is_some_and(is_of_the_project) => None,
        EffectKind::Device if makes_image(case, &name, run, &effect.target) => None,
        EffectKind::Device => Some(DISK_FORMAT),
        EffectKind::Power => Some(POWER),
        EffectKind::ForkBomb => Some(FORK_BOMB),
        EffectKind::RunsDownload => Some(DOWNLOAD_RUN),
        _ => None,
    }
}

/// Whether the name is a relative path, so that it is no program of the system.
fn is_of_the_project(run: &Run) -> bool {
    let name = run.argv.first().and_then(|arg| arg.text()).unwrap_or_default();
    name.contains('/') && !name.starts_with('/')
}

/// Whether a program that makes file systems makes one in a plain file of the workspace that is written out.
fn makes_image(case: &Case<'_>, name: &str, run: Option<&Run>, target: &Target) -> bool {
    let makes =
        name.starts_with("mkfs.") || matches!(name, "mkfs" | "mke2fs" | "mkswap" | "mkntfs" | "mkdosfs");
    makes
        && run.is_some_and(|run| run.more == More::Nothing && run.directory.is_some())
        && matches!(target, Target::Path { path, inside: true, .. }
            if path != case.setting.workspace && disk::is_plain_file(path, case.setting.workspace))
}

fn is_windows(name: &str) -> bool {
    matches!(
        name,
        "del"
            | "erase"
            | "rd"
            | "rmdir"
            | "remove-item"
            | "ri"
            | "cmd"
            | "cmd.exe"
            | "powershell"
            | "powershell.exe"
            | "pwsh"
            | "pwsh.exe"
    )
}

/// What the name and the options alone say. What a function does is said by the runs of its body.
fn of_run(run: &Run, argv: &Argv<'_>) -> Option<&'static str> {
    if run.kind == RunKind::Function {
        return None;
    }
    let switch = |letters: &[&str]| argv.texts().any(|text| letters.contains(&text.to_lowercase().as_str()));
    match argv.name.as_ref() {
        "rm" | "grm" if is_recursive(argv) => Some(RM_RECURSIVE),
        "del" | "erase" if switch(&["/f", "/q", "/s"]) => Some(WINDOWS_DELETE),
        "rmdir" | "rd" if switch(&["/s", "/q"]) => Some(WINDOWS_DELETE),
        "dd" | "gdd" if copies_raw(run) => Some(DD),
        // Which disk shows only when it runs.
        name if run.more != More::Nothing && (name == "mkfs" || name.starts_with("mkfs.")) => {
            Some(DISK_FORMAT)
        }
        // Whoever hides the name of a program and gives it these options means rm.
        "" if hides_rm(run) && starts_with_cluster(run) => Some(RM_RECURSIVE),
        _ => None,
    }
}

/// Whether dd gets both what to read and what to write, and writes more than a device that swallows everything.
fn copies_raw(run: &Run) -> bool {
    let swallows = |arg: &Arg| matches!(arg.text(), Some("of=/dev/null" | "of=/dev/stdout" | "of=/dev/zero"));
    let with = |start: &str| {
        run.argv.iter().skip(1).filter(|arg| arg.prefix().starts_with(start)).collect::<Vec<&Arg>>()
    };
    let outputs = with("of=");
    !with("if=").is_empty() && outputs.iter().any(|arg| !swallows(arg))
}

/// Whether the first argument is `-rf` or its like and something to delete follows, if only later.
fn starts_with_cluster(run: &Run) -> bool {
    let first = run.argv.get(1).and_then(Arg::text).unwrap_or_default();
    is_cluster(first) && (run.argv.len() > 2 || run.more != More::Nothing)
}

/// rm gives up at a letter that it does not know; what stands before one that is no letter is meant.
fn is_recursive(argv: &Argv<'_>) -> bool {
    let cluster = |option: &str| {
        let known = option.bytes().skip(1).take_while(|letter| b"dfiIrRvPWx".contains(letter));
        !option.starts_with("--") && known.into_iter().any(|letter| matches!(letter, b'r' | b'R'))
    };
    argv.options().any(cluster) || argv.long("--recursive", "--r")
}

/// `-rf`, `-fr`, `-Rf`, also with further letters.
fn is_cluster(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|letters| {
        letters.bytes().all(|letter| letter.is_ascii_alphabetic())
            && letters.contains('f')
            && letters.contains(['r', 'R'])
    })
}

/// Whether a name that is not known may turn out to be `rm`: unknown text, or a pattern that matches it.
fn hides_rm(run: &Run) -> bool {
    let Some(first) = run.argv.first() else { return false };
    let mut pattern = String::new();
    for part in &first.parts {
        match part {
            ArgPart::Known(text) => {
                pattern.extend(text.chars().map(|ch| if "*?[".contains(ch) { '\u{fffd}' } else { ch }))
            }
            ArgPart::Glob(glob) => pattern.push_str(glob),
            ArgPart::Unknown => pattern.push('*'),
        }
    }
    let last = pattern.rsplit('/').next().unwrap_or_default();
    disk::matches(last, "rm")
}

/// The most deleted paths of one command that are looked up on the disk; one that deletes more is not plain.
const MAX_LOOKED_UP: usize = 256;

/// For each run, whether it deletes, and everything it deletes is written out and lies strictly inside the workspace.
fn plain_deletions(case: &Case<'_>) -> Vec<bool> {
    let mut plain: Vec<Option<bool>> = vec![None; case.analysis.runs.len()];
    let deletes = case.analysis.effects.iter().filter(|effect| effect.kind == EffectKind::DeleteTree);
    let mut budget = disk::MAX_TREE;
    for (count, effect) in deletes.enumerate() {
        let Some(index) = effect.run else { continue };
        if let (Some(plain), Some(run)) = (plain.get_mut(index), case.analysis.runs.get(index)) {
            let so_far = *plain.get_or_insert_with(|| names_all(run));
            *plain = Some(so_far && count < MAX_LOOKED_UP && is_plain_inside(case, effect, &mut budget));
        }
    }
    plain.into_iter().map(|plain| plain == Some(true)).collect()
}

/// Whether a run gets no more arguments than those that are written out.
fn names_all(run: &Run) -> bool {
    run.more == More::Nothing
        && run.directory.is_some()
        && !run.argv.iter().any(|arg| arg.parts.contains(&ArgPart::Unknown))
}

/// A path or a pattern below a directory of the workspace: not the workspace itself, not git's own nor what holds it,
/// without `..`, and not led elsewhere by a link.
fn is_plain_inside(case: &Case<'_>, effect: &Effect, budget: &mut usize) -> bool {
    let written = case.text.get(effect.span.range()).unwrap_or_default();
    if written.contains("..") {
        return false;
    }
    let strictly_inside = |path: &Path| {
        path != case.setting.workspace
            && path
                .strip_prefix(case.setting.workspace)
                .is_ok_and(|below| !below.components().any(|part| part == Component::Normal(".git".as_ref())))
            && disk::stays_inside(path, case.setting.workspace)
    };
    match &effect.target {
        Target::Path { path, .. } => strictly_inside(path) && !disk::holds_git(path, &[], budget),
        Target::Glob { under, pattern, .. } => {
            let names: Vec<&str> = pattern.split('/').collect();
            let is_git = |name: &&str| name.starts_with('.') && disk::matches(name, ".git");
            strictly_inside(under) && !names.iter().any(is_git) && !disk::holds_git(under, &names, budget)
        }
        Target::Unknown | Target::Host(_) | Target::Machine => false,
    }
}
