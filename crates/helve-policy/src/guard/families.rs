//! The destructive families: which built-in rules an analysis falls under, and where.
//!
//! Most of it is read off the effects. Names and options count too: a program on another host has no effects here, and
//! one that hides its name (`$x -rf y`) has none at all.

use std::path::{Component, Components, Path};

use helve_shell::Span;
use helve_shell::analysis::{Analysis, ArgPart, Effect, EffectKind, More, Run, Target};

use super::argv::{Argv, lower};
use super::disk;
use super::rules::{
    DD, DEVICE_WRITE, DISK_FORMAT, DOWNLOAD_RUN, FORK_BOMB, POWER, PROTECTED_WRITE, RM_RECURSIVE,
    WINDOWS_DELETE,
};
use super::{Case, Guard};
use crate::config::layers::WORKSPACE_FILE;

/// A rule that a part falls under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) rule: &'static str,
    pub(super) span: Span,
    pub(super) run: Option<usize>,
}

/// Every rule that the command falls under, with the simple command that it is about.
pub(super) fn look(guard: &Guard, case: &Case<'_>) -> Vec<Hit> {
    let analysis = case.analysis;
    let lifted = lifted(guard, case);
    let is_lifted = |run: Option<usize>| run.and_then(|run| lifted.get(run)) == Some(&true);
    let mut hits = Vec::new();
    for effect in &analysis.effects {
        let rule = of_effect(guard, case, effect);
        if let Some(rule) = rule.filter(|rule| *rule != RM_RECURSIVE || !is_lifted(effect.run)) {
            hits.push(Hit { rule, span: place(analysis, effect), run: effect.run });
        }
    }
    for (index, run) in analysis.runs.iter().enumerate() {
        let hit = |rule| Hit { rule, span: run.span, run: Some(index) };
        let argv = Argv::of(run);
        hits.extend(
            of_run(run, &argv).map(hit).filter(|hit| hit.rule != RM_RECURSIVE || !is_lifted(hit.run)),
        );
        hits.extend(super::asked::look(&argv).map(hit));
    }
    hits
}

/// The simple command that does it; a fork bomb is the function itself.
fn place(analysis: &Analysis, effect: &Effect) -> Span {
    let run = effect.run.and_then(|run| analysis.runs.get(run));
    match run {
        Some(run) if effect.kind != EffectKind::ForkBomb => run.span,
        _ => effect.span,
    }
}

fn of_effect(guard: &Guard, case: &Case<'_>, effect: &Effect) -> Option<&'static str> {
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
        EffectKind::Device => Some(DISK_FORMAT),
        EffectKind::Power => Some(POWER),
        EffectKind::ForkBomb => Some(FORK_BOMB),
        EffectKind::RunsDownload => Some(DOWNLOAD_RUN),
        EffectKind::Write => {
            // Programs write such files for their owner; what is put there by hand is another matter.
            let by_hand = copies(&name) || name == "sed" || run.is_none() || is_redirected(run, effect);
            is_protected(guard, case, &name, &effect.target, by_hand).then_some(PROTECTED_WRITE)
        }
        _ => None,
    }
}

/// Whether the name is a relative path, so that it is no program of the system.
fn is_of_the_project(run: &Run) -> bool {
    let name = run.argv.first().and_then(|arg| arg.text()).unwrap_or_default();
    name.contains('/') && !name.starts_with('/')
}

/// Programs that write what they are given to the path that they are given.
fn copies(name: &str) -> bool {
    matches!(
        name,
        "dd" | "cp" | "mv" | "ln" | "install" | "tee" | "shred" | "truncate" | "sponge" | "cat" | "rsync"
    )
}

/// Whether the effect comes from a redirection: it points at none of the arguments.
fn is_redirected(run: Option<&Run>, effect: &Effect) -> bool {
    run.is_some_and(|run| {
        let holds = |outer: Span, inner: Span| outer.start <= inner.start && inner.end <= outer.end;
        effect.span != run.span
            && !run.argv.iter().any(|arg| holds(arg.span, effect.span) || holds(effect.span, arg.span))
    })
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

/// What the name and the options alone say.
fn of_run(run: &Run, argv: &Argv<'_>) -> Option<&'static str> {
    let switch = |letters: &[&str]| argv.texts().any(|text| letters.contains(&text.to_lowercase().as_str()));
    match argv.name.as_ref() {
        "rm" | "grm" if is_recursive(argv) => Some(RM_RECURSIVE),
        "del" | "erase" if switch(&["/f", "/q", "/s"]) => Some(WINDOWS_DELETE),
        "rmdir" | "rd" if switch(&["/s", "/q"]) => Some(WINDOWS_DELETE),
        "dd" if argv.texts().any(|text| text.starts_with("if="))
            && argv.texts().any(|text| text.starts_with("of=")) =>
        {
            Some(DD)
        }
        // Which disk shows only when it runs.
        name if run.more != More::Nothing && (name == "mkfs" || name.starts_with("mkfs.")) => {
            Some(DISK_FORMAT)
        }
        // Whoever hides the name of a program and gives it these options means rm.
        "" if hides_rm(run) && argv.options().any(is_cluster) => Some(RM_RECURSIVE),
        _ => None,
    }
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

/// For each run, whether the owner lets it delete: everything it deletes is written out and lies strictly inside the
/// workspace.
fn lifted(guard: &Guard, case: &Case<'_>) -> Vec<bool> {
    let mut lifted = vec![false; case.analysis.runs.len()];
    if !guard.delete_inside {
        return lifted;
    }
    let deletes = case.analysis.effects.iter().filter(|effect| effect.kind == EffectKind::DeleteTree);
    for index in deletes.clone().filter_map(|effect| effect.run) {
        if let (Some(lifted), Some(run)) = (lifted.get_mut(index), case.analysis.runs.get(index)) {
            *lifted = run.more == More::Nothing
                && run.directory.is_some()
                && !run.argv.iter().any(|arg| arg.parts.contains(&ArgPart::Unknown));
        }
    }
    let mut budget = disk::MAX_TREE;
    for effect in deletes {
        let lifted = effect.run.and_then(|run| lifted.get_mut(run));
        if let Some(lifted) = lifted.filter(|lifted| **lifted) {
            *lifted = is_plain_inside(case, effect, &mut budget);
        }
    }
    lifted
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

/// What configures editors and agents in a workspace, whose settings name programs that they start.
const CONFIGURING: &[&str] = &[".agents", ".claude", ".codex", ".cursor", ".idea", ".mcp.json", ".vscode"];

/// Git's hooks and configuration anywhere, Helve's own files, and what is written by hand into those of editors and
/// agents. Git itself may, and so may who changes only modes and times.
fn is_protected(guard: &Guard, case: &Case<'_>, name: &str, target: &Target, by_hand: bool) -> bool {
    if matches!(name, "git" | "chmod" | "chown" | "chgrp" | "touch" | "setfacl" | "mkdir") {
        return false;
    }
    let path = match target {
        Target::Path { path, .. } => path,
        Target::Glob { under, .. } => under,
        Target::Unknown | Target::Host(_) | Target::Machine => return false,
    };
    let of_git = behind(path, &[".git"]).is_some_and(|mut rest| {
        let (first, second) = (rest.next(), rest.next());
        let is = |name: &str| first.is_some_and(|part| part.as_os_str() == name);
        is("hooks") || second.is_none() && (is("config") || is("config.worktree"))
    });
    let own = || {
        guard.own_files.iter().any(|file| path.starts_with(file))
            || *path == case.setting.workspace.join(WORKSPACE_FILE)
    };
    let configures = || {
        let below = path.strip_prefix(case.setting.workspace).ok();
        // Whole work trees lie there.
        below
            .and_then(|below| behind(below, CONFIGURING))
            .is_some_and(|mut rest| rest.next().is_none_or(|first| first.as_os_str() != "worktrees"))
    };
    of_git || own() || by_hand && configures()
}

/// What stands behind the first part of a path that is one of the names.
fn behind<'p>(path: &'p Path, names: &[&str]) -> Option<Components<'p>> {
    let mut parts = path.components();
    parts.find(|part| names.iter().any(|name| part.as_os_str() == *name))?;
    Some(parts)
}
