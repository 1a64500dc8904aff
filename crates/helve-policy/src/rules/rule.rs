//! One rule: a verdict, what it is about, and when it holds.

use std::time::SystemTime;

use helve_core::Verdict;

use super::Subject;
use super::effect::EffectName;
use super::pattern::CommandPattern;
use super::place::{HostPattern, PathGlob};
use crate::config::layers::Origin;

/// The tool that the examples of a rule are held against where it names none.
pub(crate) const EXEC: &str = "exec";

/// One rule. All matchers that are given have to match; a matcher with several entries matches when one of them does.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) verdict: Verdict,
    /// How findings name it: its `name`, else its place in the configuration.
    pub(crate) name: String,
    /// The owner's own words.
    pub(crate) reason: Option<String>,
    pub(crate) matchers: Matchers,
    pub(crate) scope: Scope,
    pub(crate) examples: Examples,
    /// Whether it comes from the machine's ceiling.
    pub(crate) ceiling: bool,
    pub(crate) origin: Origin,
    /// The table as it was written, for people.
    pub(crate) written: serde_json::Value,
}

/// What a rule is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matchers {
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) commands: Option<Vec<CommandPattern>>,
    pub(crate) effects: Option<Vec<EffectName>>,
    pub(crate) paths: Option<Vec<PathGlob>>,
    pub(crate) hosts: Option<Vec<HostPattern>>,
}

/// When and where a rule holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) expires: Option<SystemTime>,
    pub(crate) workspaces: Option<Vec<PathGlob>>,
    pub(crate) sessions: Option<Vec<String>>,
}

/// Commands whose verdict is checked when the rule is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examples {
    pub(crate) allows: Vec<String>,
    pub(crate) asks: Vec<String>,
    pub(crate) denies: Vec<String>,
}

impl Rule {
    /// Whether it is an entry of a list of allowed commands.
    pub(super) fn lists_commands(&self) -> bool {
        self.verdict == Verdict::Allow && self.matchers.commands.is_some()
    }

    /// Whether it holds for this call at all.
    pub(crate) fn holds(&self, subject: &Subject<'_>) -> bool {
        let of_tool = match &self.matchers.tools {
            Some(tools) => tools.iter().any(|tool| tool == subject.tool),
            // Whatever tool runs a command, a rule about commands means it.
            None => true,
        };
        let scope = &self.scope;
        of_tool
            && scope.expires.is_none_or(|end| subject.now < end)
            && scope
                .sessions
                .as_ref()
                .is_none_or(|names| names.iter().any(|name| Some(name.as_str()) == subject.session))
            && scope
                .workspaces
                .as_ref()
                .is_none_or(|globs| globs.iter().any(|glob| glob.holds(subject.workspace, subject.workspace)))
    }

    /// Whether it is about the call as a whole.
    pub(super) fn is_about_tools_alone(&self) -> bool {
        let Matchers { tools: _, commands, effects, paths, hosts } = &self.matchers;
        commands.is_none() && effects.is_none() && paths.is_none() && hosts.is_none()
    }
}
