//! The policy's word for file tools: the rules that a bridge enforces, and what is said of the paths that a call names.
//!
//! A decision here goes by names, so that it can be explained and asked about before anything is opened. What holds is
//! what the bridge does with the [`PathRules`] on what it has opened.

mod closed;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use helve_core::files::{ExtraRoot, PathRules};
use helve_core::harmless::{escaped, is_harmless};
use helve_core::{Decision, FilesPlace, Verdict, protected};
use helve_shell::analysis::{Analysis, Effect, EffectKind, Target};
use helve_shell::{Span, normal};

use super::{Policy, RunBy, list, paths, text};
use crate::config::keys;
use crate::config::layers::WORKSPACE_FILE;
use crate::config::value::Value;
use crate::guard;
use crate::rules::{Finding, Part, Rule, Subject};

/// The rule that asks about protected names.
const PROTECTED: &str = keys::VIEW_PROTECTED;

/// A path that a call of a file tool names, as its arguments say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathUse<'a> {
    /// The path.
    pub path: &'a str,
    /// What is done with it.
    pub act: PathAct,
}

/// What a call does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAct {
    /// It is only read.
    Read,
    /// It is changed, or made.
    Write,
    /// It is changed so that nothing is left: what rules say of writing holds for it too.
    Delete,
}

impl PathAct {
    /// What it does, as rules speak of it.
    fn effects(self) -> &'static [EffectKind] {
        match self {
            PathAct::Read => &[EffectKind::Read],
            PathAct::Write => &[EffectKind::Write],
            PathAct::Delete => &[EffectKind::Write, EffectKind::Delete],
        }
    }
}

/// What the policy says about one path of a call, or about the call as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathDecision {
    /// The path: relative to the workspace if it lies there. None for the call as a whole.
    pub path: Option<String>,
    /// The decision.
    pub decision: Decision,
    /// Whether it is asked about because programs obey what has its name: if the owner agrees, this call may write it.
    pub protected: bool,
    /// Whether no answer may hold for longer than the call.
    pub ceiling: bool,
}

impl Policy {
    /// What every bridge enforces in `workspace`; `session` is the one whose calls use it.
    pub fn path_rules(&self, workspace: &Path, session: Option<&str>) -> PathRules {
        let settings = &self.inner.settings;
        let root = |write| move |path: &String| ExtraRoot { path: path.into(), write };
        let read_only = list(settings, keys::FILES_READ_ONLY).iter().map(root(false));
        let read_write = list(settings, keys::FILES_READ_WRITE).iter().map(root(true));
        let mut deny_read = list(settings, keys::FILES_DENY_READ).to_vec();
        deny_read.extend(self.denied_by_rules(workspace, session));
        PathRules {
            roots: read_write.chain(read_only).collect(),
            deny_read,
            protected: self.protected_names(),
            read_only: false,
            hard_links: text(settings, keys::FILES_HARD_LINKS) == Some("allow"),
            max_file_bytes: self.limits().file_bytes,
        }
    }

    /// Where file tools do their work.
    pub fn files_place(&self) -> FilesPlace {
        match text(&self.inner.settings, keys::FILES_BRIDGE) {
            Some("sandbox") => FilesPlace::Sandbox,
            _ => FilesPlace::Host,
        }
    }

    /// Whether file tools reach files outside the workspace.
    pub fn files_reach_out(&self) -> bool {
        let settings = &self.inner.settings;
        !list(settings, keys::FILES_READ_ONLY).is_empty()
            || !list(settings, keys::FILES_READ_WRITE).is_empty()
    }

    /// How many tokens the model's context window holds, where the owner says so.
    pub fn model_context_window_tokens(&self) -> Option<u64> {
        match self.inner.settings.get(keys::CONTEXT_WINDOW) {
            Some(Value::Count(tokens)) => Some(*tokens),
            _ => self.model().context_window,
        }
    }

    /// The paths of rules that deny everything about them to every tool: a bridge can hold those on what it has opened,
    /// whatever links lead there.
    fn denied_by_rules(&self, workspace: &Path, session: Option<&str>) -> Vec<String> {
        let by = RunBy { tool: "", session };
        self.paths_of_rules(by, workspace, |rule| {
            rule.verdict == Verdict::Deny && rule.matchers.tools.is_none()
        })
    }

    /// The other paths that rules deny to a tool or ask about. A call that names one is judged; one that only looks through
    /// what is above it leaves it out.
    pub fn left_out(&self, by: RunBy<'_>, workspace: &Path) -> Vec<String> {
        self.paths_of_rules(by, workspace, |rule| match rule.verdict {
            Verdict::Allow => false,
            Verdict::Ask => true,
            Verdict::Deny => rule.matchers.tools.is_some(),
        })
    }

    /// The paths of rules that hold for a call and are about nothing but paths, as patterns.
    fn paths_of_rules(&self, by: RunBy<'_>, workspace: &Path, wanted: impl Fn(&Rule) -> bool) -> Vec<String> {
        let analysis = Analysis::default();
        let subject = self.subject(by, &analysis, workspace);
        let about_paths = |rule: &&Rule| {
            let of = &rule.matchers;
            of.commands.is_none()
                && of.effects.is_none()
                && of.hosts.is_none()
                && wanted(rule)
                && rule.holds(&subject)
        };
        let rules = self.rules().iter().filter(about_paths);
        let globs = rules.flat_map(|rule| rule.matchers.paths.iter().flatten());
        globs.filter_map(|glob| glob.to_ignore_pattern(workspace)).collect()
    }

    /// What is said about a call of a file tool that names these paths: the strictest about the call as a whole and about
    /// each path of which something is said. `workspace` is an absolute path.
    pub fn judge_paths(&self, by: RunBy<'_>, uses: &[PathUse<'_>], workspace: &Path) -> Vec<PathDecision> {
        if uses.is_empty() && self.rules().is_empty() {
            return Vec::new();
        }
        let workspace = normal(workspace);
        let mut analysis = Analysis::default();
        let mut of_use = Vec::new();
        for (index, one) in uses.iter().enumerate() {
            for path in places(one, &workspace) {
                let inside = path.starts_with(&workspace);
                for kind in one.act.effects() {
                    let (kind, target) = (*kind, Target::path(path.clone(), inside));
                    analysis.effects.push(Effect {
                        kind,
                        target,
                        span: Span { start: 0, end: 0 },
                        run: None,
                    });
                    of_use.push(index);
                }
            }
        }
        let subject = self.subject(by, &analysis, &workspace);
        let findings = self.rules().judge(&subject);
        let mut decisions = Vec::new();
        for finding in findings.iter() {
            let index = match finding.part {
                Part::Effect(effect) => of_use.get(effect),
                _ => None,
            };
            let path = index.and_then(|index| uses.get(*index)).map(|one| shown(one.path, &workspace));
            let decision = decision(finding, path.as_deref());
            let said = PathDecision { path, decision, protected: false, ceiling: finding.ceiling };
            // What is said of a delete may be said of it as a write already.
            if decisions.last() != Some(&said) {
                decisions.push(said);
            }
        }
        let written = uses.iter().filter(|one| one.act != PathAct::Read);
        decisions.extend(written.filter_map(|one| self.protected(one, &workspace)));
        decisions
    }

    fn subject<'a>(&self, by: RunBy<'a>, analysis: &'a Analysis, workspace: &'a Path) -> Subject<'a> {
        let now = SystemTime::now();
        Subject { tool: by.tool, text: "", analysis, workspace, session: by.session, now, contained: true }
    }

    /// What no file tool writes unasked: as for commands, and the file of a workspace that configures Helve.
    fn protected_names(&self) -> Vec<String> {
        self.inner.guard.protected.iter().cloned().chain([WORKSPACE_FILE.to_owned()]).collect()
    }

    /// The question about a path that programs obey without being asked.
    fn protected(&self, one: &PathUse<'_>, workspace: &Path) -> Option<PathDecision> {
        let path = normal(&workspace.join(one.path));
        let roots = paths(&self.inner.settings, keys::FILES_READ_WRITE);
        let root = std::iter::once(workspace).chain(roots.iter().map(PathBuf::as_path));
        let below = root.filter_map(|root| path.strip_prefix(root).ok()).next()?;
        let names = self.protected_names();
        let name = protected::find(&names, below)?;
        let entry = protected::entry(&names, name.as_encoded_bytes())?;
        let name = name.to_str()?;
        let path = shown(one.path, workspace);
        let why = format!(
            "{} has a name by which programs of the owner are run or configured ({})",
            plain(&path),
            plain(name)
        );
        let mut decision = Decision::ask(PROTECTED, why);
        if !name.eq_ignore_ascii_case(WORKSPACE_FILE) {
            decision = decision.grant(format!("{PROTECTED} without {entry:?}"));
        }
        Some(PathDecision { path: Some(path), decision, protected: true, ceiling: false })
    }
}

/// Where a path leads: as it is written and, where it is read, through the links that there are now. What is written goes
/// through no link.
fn places(one: &PathUse<'_>, workspace: &Path) -> Vec<PathBuf> {
    let path = workspace.join(one.path);
    let written = normal(&path);
    let real = if one.act == PathAct::Read { guard::resolve(&path) } else { None };
    let mut places = vec![written];
    places.extend(real.filter(|real| !places.contains(real)));
    places
}

/// A path as decisions name it, relative to the workspace where it lies in it.
fn shown(path: &str, workspace: &Path) -> String {
    let whole = normal(&workspace.join(path));
    let below = whole.strip_prefix(workspace).unwrap_or(&whole);
    match below.to_string_lossy() {
        below if below.is_empty() => ".".to_owned(),
        below => below.into_owned(),
    }
}

/// A path in a sentence: on one line, and nothing in it that acts on a terminal or cannot be seen.
fn plain(path: &str) -> String {
    let show = |ch: char| match ch {
        '\n' | '\t' => escaped(ch),
        ch if is_harmless(ch) => ch.to_string(),
        ch => escaped(ch),
    };
    path.chars().map(show).collect()
}

fn decision(finding: &Finding, path: Option<&str>) -> Decision {
    let reason = match path {
        Some(path) => format!("{}: {}", plain(path), finding.reason),
        None => finding.reason.clone(),
    };
    let grant = finding.change().filter(|_| finding.verdict > Verdict::Allow);
    Decision {
        verdict: finding.verdict,
        reason: Some(reason),
        grant,
        ..Decision::allow(finding.rule.clone())
    }
}

#[cfg(test)]
mod tests;
