//! Which rules are about which part of a command.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use helve_core::Verdict;
use helve_shell::Span;
use helve_shell::analysis::{
    Analysis, Departure, DepartureKind, Effect, EffectKind, Opaque, PossibleRead, Run, Target,
};

use super::effect::EffectName;
use super::leads::{Lead, Leads, is_inside};
use super::pattern::Near;
use super::place::{HostPattern, PathGlob};
use super::rule::{Matchers, Rule};
use super::{Finding, Findings, OTHERWISE, Part, Rules, Subject, steering};

pub(super) fn judge(rules: &Rules, subject: &Subject<'_>) -> Findings {
    let mut found = Found::default();
    if rules.is_empty() {
        return found.finish();
    }
    let scene = Scene::new(subject);
    for rule in rules.iter().filter(|rule| rule.holds(subject)) {
        scene.apply(rule, &mut found);
    }
    let otherwise = if subject.contained { rules.otherwise } else { rules.otherwise_bare };
    if otherwise != Verdict::Allow {
        scene.fill(otherwise, &mut found);
    }
    found.finish()
}

/// The strictest finding of each part.
#[derive(Default)]
struct Found {
    strictest: BTreeMap<Part, Finding>,
    /// The parts that a rule allows, whatever others say.
    allowed: BTreeSet<Part>,
}

impl Found {
    /// The stricter of two stays, the first of equals: the rules of a ceiling come first.
    fn add(&mut self, finding: Finding) {
        if finding.verdict == Verdict::Allow {
            self.allowed.insert(finding.part);
        }
        match self.strictest.get(&finding.part) {
            Some(known) if known.verdict >= finding.verdict => {}
            _ => {
                self.strictest.insert(finding.part, finding);
            }
        }
    }

    fn finish(self) -> Findings {
        Findings { found: self.strictest.into_values().collect() }
    }
}

/// A subject with what is looked up often.
struct Scene<'a> {
    subject: &'a Subject<'a>,
    /// The effects of each run.
    effects: Vec<Vec<&'a Effect>>,
    /// What each run may read besides, once it was asked for. It makes no rule allow more.
    possible: OnceCell<Vec<Vec<&'a PossibleRead>>>,
    /// The opaque parts of each run: those that lie in it and in no smaller one.
    opaque: Vec<Vec<(usize, &'a Opaque)>>,
    /// Where other opaque parts lie: sorted, without overlaps.
    hidden: Vec<Span>,
    leads: Leads<'a>,
}

impl<'a> Scene<'a> {
    fn new(subject: &'a Subject<'a>) -> Self {
        let analysis: &Analysis = subject.analysis;
        let mut effects = vec![Vec::new(); analysis.runs.len()];
        for effect in &analysis.effects {
            if let Some(list) = effect.run.and_then(|run| effects.get_mut(run)) {
                list.push(effect);
            }
        }
        let mut opaque = vec![Vec::new(); analysis.runs.len()];
        let mut spans: Vec<Span> = Vec::new();
        for (index, part) in analysis.opaque.iter().enumerate() {
            let owners = owners(&analysis.runs, part.span);
            if owners.is_empty() {
                spans.push(part.span);
            }
            for owner in owners {
                if let Some(list) = opaque.get_mut(owner) {
                    list.push((index, part));
                }
            }
        }
        spans.sort();
        let mut hidden: Vec<Span> = Vec::new();
        for span in spans {
            match hidden.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => hidden.push(span),
            }
        }
        let leads = Leads::new(subject.workspace);
        Scene { subject, effects, possible: OnceCell::new(), opaque, hidden, leads }
    }

    /// Whether something opaque lies around the run.
    fn is_hidden(&self, run: &Run) -> bool {
        let first = self.hidden.partition_point(|span| span.end < run.span.start);
        self.hidden.get(first).is_some_and(|span| span.start <= run.span.end)
    }

    fn opaque_of(&self, run: usize) -> &[(usize, &'a Opaque)] {
        self.opaque.get(run).map_or(&[], Vec::as_slice)
    }

    fn effects_of(&self, run: usize) -> &[&'a Effect] {
        self.effects.get(run).map_or(&[], Vec::as_slice)
    }

    /// What a run may read besides its effects.
    fn possible_of(&self, run: usize) -> &[&'a PossibleRead] {
        let possible = self.possible.get_or_init(|| possible_reads(self.subject.analysis));
        possible.get(run).map_or(&[], Vec::as_slice)
    }

    fn apply(&self, rule: &Rule, found: &mut Found) {
        if rule.is_about_tools_alone() {
            let span = Span { start: 0, end: self.subject.text.len() };
            found.add(finding(rule, Part::Whole, span, || "the owner has a rule for this tool".into()));
        } else if rule.matchers.commands.is_some() {
            for (index, run) in self.subject.analysis.runs.iter().enumerate() {
                if self.is_about_run(rule, index, run) {
                    found.add(finding(rule, Part::Run(index), run.span, || said(rule)));
                    // What it vouches for includes the project's own code, which a task of it runs.
                    for (part, opaque) in
                        self.opaque_of(index).iter().filter(|_| rule.verdict == Verdict::Allow)
                    {
                        found.add(finding(rule, Part::Opaque(*part), opaque.span, || said(rule)));
                    }
                }
            }
        } else {
            self.apply_to_effects(rule, found);
        }
    }

    /// A rule without commands is about effects.
    fn apply_to_effects(&self, rule: &Rule, found: &mut Found) {
        let allows = rule.verdict == Verdict::Allow;
        let analysis = self.subject.analysis;
        for (index, effect) in analysis.effects.iter().enumerate() {
            if self.names_effect(&rule.matchers, effect, allows) {
                found.add(finding(rule, Part::Effect(index), effect.span, || said(rule)));
            }
        }
        if allows {
            return;
        }
        for index in 0..analysis.runs.len() {
            if let Some(read) = self.possible_read(&rule.matchers, index) {
                found.add(finding(rule, Part::Run(index), read.effect.span, || said(rule)));
            }
        }
        if rule.matchers.name_any_connection() {
            for (index, run) in analysis.runs.iter().enumerate() {
                if let Some(departure) = connects(run) {
                    found.add(finding(rule, Part::Run(index), departure.span, || departure.kind.to_string()));
                }
            }
        }
        let Matchers { effects: Some(names), paths: None, hosts: None, .. } = &rule.matchers else { return };
        if names.contains(&EffectName::Opaque) {
            for (index, opaque) in analysis.opaque.iter().enumerate() {
                found.add(finding(rule, Part::Opaque(index), opaque.span, || opaque.reason.to_string()));
            }
        }
    }

    /// Whether a rule with commands is about the run.
    fn is_about_run(&self, rule: &Rule, index: usize, run: &Run) -> bool {
        let matchers = &rule.matchers;
        let patterns = matchers.commands.as_deref().unwrap_or_default();
        let own = self.effects_of(index);
        if rule.verdict != Verdict::Allow {
            return patterns.iter().any(|pattern| pattern.finds(run))
                && (!matchers.limits_effects()
                    || own.iter().any(|effect| self.names_effect(matchers, effect, false))
                    || self.possible_read(matchers, index).is_some()
                    || matchers.name_any_connection() && connects(run).is_some());
        }
        let opaque: Vec<&Opaque> = self.opaque_of(index).iter().map(|(_, part)| *part).collect();
        let near = Near {
            workspace: self.subject.workspace,
            effects: own,
            opaque: &opaque,
            hidden: self.is_hidden(run),
            skips: true,
        };
        patterns.iter().any(|pattern| pattern.vouches_for(run, &near))
            && self.stays_within(matchers, own)
            && self.may_stay_within(matchers, index)
    }

    /// The first thing that a run may read of those that a rule which asks or denies names.
    fn possible_read(&self, matchers: &Matchers, run: usize) -> Option<&'a PossibleRead> {
        self.possible_of(run).iter().copied().find(|read| self.names_effect(matchers, &read.effect, false))
    }

    /// Whether all that a run does is named by the effects, paths and hosts of a rule that allows it. Without a list of
    /// effects, paths speak of what has a path and hosts of connections, and reading inside the workspace needs no name.
    fn stays_within(&self, matchers: &Matchers, effects: &[&'a Effect]) -> bool {
        if !matchers.limits_effects() {
            return true;
        }
        let is_named = |effect: &&'a Effect| {
            let reads_inside = effect.kind == EffectKind::Read
                && is_inside(&effect.target)
                && self.leads.stays_inside(effect);
            let spoken_of = match (&matchers.effects, &matchers.paths, &matchers.hosts) {
                (Some(_), ..) => !reads_inside,
                (None, Some(_), None) => !matches!(effect.target, Target::Host(_) | Target::Machine),
                (None, None, _) => {
                    matches!(effect.target, Target::Host(_)) || effect.kind == EffectKind::Connect
                }
                (None, Some(_), Some(_)) => effect.target != Target::Machine,
            };
            !spoken_of || self.names_effect(matchers, effect, true)
        };
        effects.iter().all(is_named)
    }

    /// Whether what a run may read outside the workspace is among the paths of a rule that allows it, where it has some.
    fn may_stay_within(&self, matchers: &Matchers, run: usize) -> bool {
        let Some(globs) = &matchers.paths else { return true };
        let is_held = |read: &&'a PossibleRead| {
            is_inside(&read.effect.target) && self.leads.stays_inside(&read.effect)
                || self.hold_all(globs, &read.effect)
        };
        self.possible_of(run).iter().all(is_held)
    }

    /// Whether the effect is one that the matchers name: `surely` for rules that allow.
    fn names_effect(&self, matchers: &Matchers, effect: &'a Effect, surely: bool) -> bool {
        let by_name =
            matchers.effects.as_ref().is_none_or(|names| names.iter().any(|name| name.names(effect)));
        if !by_name {
            return false;
        }
        let by_path = matchers.paths.as_ref().map(|globs| match surely {
            true => self.hold_all(globs, effect),
            false => self.touch(globs, effect),
        });
        let by_host = matchers.hosts.as_ref().map(|hosts| match &effect.target {
            Target::Host(host) => hosts.iter().any(|pattern| match surely {
                true => pattern.holds(host),
                false => pattern.may_hold(host),
            }),
            Target::Unknown => !surely && effect.kind == EffectKind::Connect && matchers.name_any_host(),
            _ => false,
        });
        match (by_path, by_host) {
            // A path and a host are never the same target: either will do.
            (Some(path), Some(host)) => path || host,
            (path, host) => path.or(host).unwrap_or(true),
        }
    }

    /// Whether the effect certainly stays among the paths meant, by its text and where links lead.
    fn hold_all(&self, globs: &[PathGlob], effect: &'a Effect) -> bool {
        let held = |target: &Target| globs.iter().any(|glob| glob.holds_all(target, self.subject.workspace));
        // What lies in the workspace is no way out of it.
        let stays = |target: &Target| held(target) && (is_inside(target) || !is_inside(&effect.target));
        held(&effect.target)
            && matches!(&*self.leads.of(effect), Lead::To { targets, whole: true } if targets.iter().all(stays))
    }

    /// Whether the effect touches one of the paths meant, by its text or where links lead.
    fn touch(&self, globs: &[PathGlob], effect: &'a Effect) -> bool {
        let touched = |target: &Target| {
            globs.iter().any(|glob| glob.touches(target, effect.kind, self.subject.workspace))
        };
        touched(&effect.target)
            || match &*self.leads.of(effect) {
                Lead::To { targets, .. } => targets.iter().any(touched),
                Lead::Anywhere => true,
            }
    }

    /// What no rule allows: runs, opaque parts, and redirections without a command that write. A rule that asks does not
    /// put a run on the list, so that another question never opens what was closed.
    fn fill(&self, verdict: Verdict, found: &mut Found) {
        let analysis = self.subject.analysis;
        // A rule that allows a tool as a whole allows what the tool does itself.
        let by_tool = self.subject.text.is_empty() && found.allowed.contains(&Part::Whole);
        let mut add = |part, span, reason: String| {
            if !found.allowed.contains(&part) {
                let rule = OTHERWISE.to_owned();
                found.add(Finding { verdict, rule, reason, span, part, origin: None, ceiling: false });
            }
        };
        for (index, run) in analysis.runs.iter().enumerate() {
            let opaque = self.is_hidden(run) || !self.opaque_of(index).is_empty();
            if !steering::needs_no_rule(run, opaque) {
                add(Part::Run(index), run.span, unlisted(run, opaque));
            }
        }
        let change = match self.subject.text {
            "" => "no rule allows this change",
            _ => "no rule allows what this redirection does",
        };
        for (index, effect) in analysis.effects.iter().enumerate() {
            if effect.run.is_none() && effect.kind != EffectKind::Read && !by_tool {
                add(Part::Effect(index), effect.span, change.into());
            }
        }
        for (index, opaque) in analysis.opaque.iter().enumerate() {
            add(Part::Opaque(index), opaque.span, format!("no rule can allow it: {}", opaque.reason));
        }
    }
}

/// What each run may read. A plain word is a file only if one of that name is there.
fn possible_reads(analysis: &Analysis) -> Vec<Vec<&PossibleRead>> {
    let is_there =
        |target: &Target| matches!(target, Target::Path { path, .. } if path.symlink_metadata().is_ok());
    let mut possible = vec![Vec::new(); analysis.runs.len()];
    for read in analysis.possible.iter().filter(|read| !read.word || is_there(&read.effect.target)) {
        if let Some(list) = read.effect.run.and_then(|run| possible.get_mut(run)) {
            list.push(read);
        }
    }
    possible
}

/// The runs that a stretch belongs to: the smallest that hold it, several where they stand at the same place.
fn owners(runs: &[Run], span: Span) -> Vec<usize> {
    /// As far as is looked back; a part that belongs to no run is on no list at all.
    const MAX_BACK: usize = 64;
    let behind = runs.partition_point(|run| run.span.start <= span.start);
    let from = behind.saturating_sub(MAX_BACK);
    let near = runs.iter().enumerate().take(behind).skip(from);
    let holding: Vec<(usize, Span)> =
        near.map(|(index, run)| (index, run.span)).filter(|(_, run)| span.end <= run.end).collect();
    let smallest = holding.iter().map(|(_, run)| run.end - run.start).min();
    let is_smallest = |run: &Span| Some(run.end - run.start) == smallest;
    holding.iter().filter(|(_, run)| is_smallest(run)).map(|(index, _)| *index).collect()
}

impl Matchers {
    /// Whether it says which effects it is about.
    fn limits_effects(&self) -> bool {
        self.effects.is_some() || self.paths.is_some() || self.hosts.is_some()
    }

    /// Whether it is about connections to any host.
    fn name_any_host(&self) -> bool {
        self.hosts.iter().flatten().any(HostPattern::is_any)
    }

    /// Whether it is about every connection, also one of which only shows that there is one.
    fn name_any_connection(&self) -> bool {
        let by_effect = self.effects.as_ref().map(|names| names.contains(&EffectName::Network));
        let by_host = self.hosts.as_ref().map(|_| self.name_any_host());
        self.paths.is_none()
            && (by_effect.is_some() || by_host.is_some())
            && by_effect.unwrap_or(true)
            && by_host.unwrap_or(true)
    }
}

/// Where a run opens a connection of which nothing else is known.
fn connects(run: &Run) -> Option<&Departure> {
    run.departures.iter().find(|one| one.kind == DepartureKind::Network)
}

/// Why an allow list does not allow a run.
fn unlisted(run: &Run, opaque: bool) -> String {
    let name = run.program.as_deref().unwrap_or("the program");
    match run.departures.first() {
        Some(departure) => format!("no rule vouches for this use of {name}: {}", departure.kind),
        None if opaque => format!("no rule allows {name} here: a part of it shows only when it runs"),
        None => format!("no rule allows this use of {name}"),
    }
}

fn finding(rule: &Rule, part: Part, span: Span, reason: impl FnOnce() -> String) -> Finding {
    Finding {
        verdict: rule.verdict,
        rule: rule.name.clone(),
        reason: rule.reason.clone().unwrap_or_else(reason),
        span,
        part,
        origin: Some(rule.origin.clone()),
        ceiling: rule.ceiling,
    }
}

/// What a rule without a reason of its own is about.
fn said(rule: &Rule) -> String {
    let does = match rule.verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask about",
        Verdict::Deny => "refuse",
    };
    let matchers = &rule.matchers;
    let what = match (&matchers.commands, &matchers.effects) {
        (Some(patterns), _) => {
            let patterns: Vec<String> =
                patterns.iter().take(3).map(|pattern| format!("`{pattern}`")).collect();
            format!("commands like {}", patterns.join(", "))
        }
        (None, Some(names)) => {
            let names: Vec<&str> = names.iter().map(|name| name.covers()).collect();
            format!("what {}", names.join(" or "))
        }
        (None, None) if matchers.hosts.is_some() => "connections to these hosts".to_owned(),
        (None, None) => "what touches these paths".to_owned(),
    };
    format!("the owner's rules {does} {what}")
}
