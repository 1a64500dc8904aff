//! The owner's rules: what `[[rules]]` of `helve.toml`, of a profile and of a ceiling say about one command.
//!
//! In comes a [`Subject`], the analysis of a command and where it would run; out go [`Findings`]: for each run, effect
//! and opaque part that a rule is about, the strictest verdict with the rule's name and reason.
//!
//! | module | what it holds |
//! |---|---|
//! | `rule` | one rule with its matchers |
//! | `read` | from a table of the configuration to a rule |
//! | `pattern` | command patterns |
//! | `place` | path globs and host names |
//! | `braces` | what `{a,b}` in a pattern or a glob stands for |
//! | `effect` | the names of effects |
//! | `moment` | the date until which a rule holds |
//! | `judge` | which rules are about which part |
//! | `leads` | where links lead that are in the way of what a command names |
//! | `examples` | commands that a rule must decide as it says |
//! | `learn` | rules proposed from what was run |
//! | `offer` | patterns that a person is offered, and those that never are |
//! | `steering` | builtins that only steer the shell and need no rule |
//!
//! Rules that allow take only what is certain and never what is opaque. Rules that ask or deny find what is written.
//! Not here: the built-in families, what happens to parts that no rule is about, approvals.

mod braces;
mod effect;
mod examples;
mod judge;
mod leads;
mod learn;
mod moment;
mod offer;
mod pattern;
mod place;
pub(crate) mod read;
mod rule;
mod steering;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::SystemTime;

use helve_core::Verdict;
use helve_shell::Span;
use helve_shell::analysis::Analysis;

pub use effect::effect_names;
pub use learn::{Observation, ProposedRule, learn};
pub use offer::{never_offered, propose};
pub use pattern::CommandPattern;
pub use read::rule_keys;
pub(crate) use rule::Rule;
pub(crate) use steering::needs_no_rule;

use crate::config::layers::Origin;

/// The rule that speaks where an allow list is silent.
pub(crate) const OTHERWISE: &str = "rules_otherwise";

/// All rules in force, from every layer, the profile and the ceiling.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// What happens to a run that no rule is about.
    otherwise: Verdict,
    /// The same where nothing contains it.
    otherwise_bare: Verdict,
}

/// What is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The name of the tool.
    pub(crate) tool: &'a str,
    /// The command as it was given.
    pub(crate) text: &'a str,
    /// What it does; empty for a tool without a command.
    pub(crate) analysis: &'a Analysis,
    /// An absolute path.
    pub(crate) workspace: &'a Path,
    /// The session of the call, where it has a name.
    pub(crate) session: Option<&'a str>,
    /// What expiry is compared with.
    pub(crate) now: SystemTime,
    /// Whether a sandbox contains what runs.
    pub(crate) contained: bool,
}

/// What a finding is about. The numbers are indices into the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// The call as a whole.
    Whole,
    /// One run.
    Run(usize),
    /// One effect.
    Effect(usize),
    /// One opaque part.
    Opaque(usize),
}

/// What a rule says about one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// The rule's own name, or its place: `rules[2]`, `profile.coding.rules[0]`, `ceiling.rules[1]`.
    pub(crate) rule: String,
    /// One sentence.
    pub(crate) reason: String,
    pub(crate) span: Span,
    pub(crate) part: Part,
    /// Where the rule stands; none where an allow list is silent.
    pub(crate) origin: Option<Origin>,
    /// Whether no approval may lift it.
    pub(crate) ceiling: bool,
}

/// The findings about one subject: at most one a part, the strictest, in the order of the parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    found: Vec<Finding>,
}

impl Findings {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.found.iter()
    }

    /// What the rules say about one part.
    pub(crate) fn of(&self, part: Part) -> Option<&Finding> {
        let at = self.found.binary_search_by_key(&part, |finding| finding.part).ok()?;
        self.found.get(at)
    }

    /// The strictest; the first of equals.
    pub(crate) fn strictest(&self) -> Option<&Finding> {
        self.found.iter().rev().max_by_key(|finding| finding.verdict)
    }
}

impl Rules {
    /// Puts rules together. `otherwise` is what the owner or a profile wrote; where nobody did, an allow list asks about
    /// the rest, and without one the rest is allowed.
    pub(crate) fn new(rules: Vec<Rule>, otherwise: Option<Verdict>) -> Self {
        // A rule that no longer holds still makes it a list: its end must not open everything.
        let listed = rules.iter().any(Rule::lists_commands);
        let otherwise = otherwise.unwrap_or(if listed { Verdict::Ask } else { Verdict::Allow });
        Rules { rules, otherwise, otherwise_bare: otherwise }
    }

    /// The same rules, stricter where nothing contains a command.
    pub(crate) fn stricter_bare(mut self, verdict: Option<Verdict>) -> Self {
        self.otherwise_bare = self.otherwise.max(verdict.unwrap_or(self.otherwise));
        self
    }

    /// For each run, effect and opaque part: the strictest verdict of the rules that are about it. Where the rest is not
    /// allowed, every run that no rule is about has a finding by [`OTHERWISE`], and so has every opaque part.
    pub(crate) fn judge(&self, subject: &Subject<'_>) -> Findings {
        judge::judge(self, subject)
    }

    /// What is wrong with the examples of the rules that `which` picks, each a sentence.
    pub(crate) fn example_problems(&self, home: Option<&Path>, which: impl Fn(&Rule) -> bool) -> Vec<String> {
        let rules = self.rules.iter().filter(|rule| which(rule));
        rules.flat_map(|rule| examples::problems(rule, home)).collect()
    }

    /// All rules, in the order of the layers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// What happens to a run that no rule is about.
    pub(crate) fn otherwise(&self) -> Verdict {
        self.otherwise
    }

    /// Whether nothing can be found: no rule, and the rest is allowed.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.otherwise_bare == Verdict::Allow
    }
}
