//! The owner's rules as part of a policy: gathered from all layers, held below the ceiling, shown to people.

use std::path::Path;
use std::time::SystemTime;

use helve_core::{ApprovalNeed, Decision, Verdict};
use helve_shell::analysis::Analysis;
use serde::Serialize;

use super::{Policy, flag, text};
use crate::config::hook;
use crate::config::keys;
use crate::config::layers::{Collector, ConfigError, Layer, Origin, Settings, WorkspaceFile};
use crate::config::server_keys;
use crate::config::tighten;
use crate::config::value::Value;
use crate::profiles;
use crate::rules::{Rule, Rules, Subject};

/// How long an approval may hold at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalLength {
    /// For the one call that asked.
    Once,
    /// Until the session ends.
    Session,
    /// Until it is revoked or its date has come.
    Always,
}

/// One rule in force, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleShown {
    /// How decisions name it.
    pub name: String,
    /// What it says.
    pub verdict: Verdict,
    /// The table as it was written.
    pub rule: serde_json::Value,
    /// The place that it came from.
    pub origin: Origin,
    /// Whether it is part of the machine's ceiling, which nothing lifts.
    pub ceiling: bool,
}

/// A tool, or with `*` several, that a rule or a hook names.
#[derive(Clone, Copy, Debug)]
pub struct ToolMeant<'a> {
    /// As it is written.
    pub name: &'a str,
    /// Whether `*` in it stands for any characters.
    pattern: bool,
    /// Where.
    pub origin: &'a Origin,
}

impl ToolMeant<'_> {
    /// Whether a tool of this name is meant.
    pub fn is(&self, tool: &str) -> bool {
        match self.pattern {
            true => hook::matches(self.name, tool),
            false => self.name == tool,
        }
    }

    /// Whether tools may be meant that come and go while Helve runs, those of MCP servers.
    pub fn may_come(&self) -> bool {
        self.name.starts_with("mcp_") || (self.pattern && self.name.starts_with('*'))
    }
}

impl Policy {
    /// The rules in force, in the order of the layers.
    pub(crate) fn rules(&self) -> &Rules {
        &self.inner.rules
    }

    /// Every rule with the place that it came from: ceiling, system, user, command line, workspace, profile.
    pub fn rules_shown(&self) -> Vec<RuleShown> {
        let shown = |rule: &Rule| RuleShown {
            name: rule.name.clone(),
            verdict: rule.verdict,
            rule: rule.written.clone(),
            origin: rule.origin.clone(),
            ceiling: rule.ceiling,
        };
        self.rules().iter().map(shown).collect()
    }

    /// The tools that rules and hooks name, so that a name which no tool has can be reported: such a rule would hold for
    /// nothing.
    pub fn tools_meant(&self) -> Vec<ToolMeant<'_>> {
        let rules = self.rules().iter().flat_map(|rule| {
            let named = rule.matchers.tools.iter().flatten();
            named.map(|name| ToolMeant { name, pattern: false, origin: &rule.origin })
        });
        let hooks = self.hooks().iter().flat_map(|hook| {
            let named = hook.tools.iter().flatten();
            named.map(|name| ToolMeant { name, pattern: true, origin: &hook.origin })
        });
        rules.chain(hooks).collect()
    }

    /// What the rules say about a call of a tool as a whole, whatever its arguments: the strictest of those that name the
    /// tool and nothing else. `workspace` is an absolute path. Judging a command includes it.
    pub fn check_tool(&self, tool: &str, workspace: &Path, session: Option<&str>) -> Option<Decision> {
        let analysis = Analysis::default();
        let now = SystemTime::now();
        let found = self.rules().judge(&Subject {
            tool,
            text: "",
            analysis: &analysis,
            workspace,
            session,
            now,
            contained: true,
        });
        let finding = found.strictest()?;
        let reason = Some(finding.reason.clone());
        let grant = finding.change().filter(|_| finding.verdict > Verdict::Allow);
        Some(Decision { verdict: finding.verdict, reason, grant, ..Decision::allow(finding.rule.clone()) })
    }

    /// What happens to a command that no rule is about.
    pub fn rules_otherwise(&self) -> Verdict {
        self.rules().otherwise()
    }

    /// The profile that the configuration chose.
    pub fn profile(&self) -> Option<&str> {
        text(&self.inner.settings, keys::PROFILE)
    }

    /// Whether recursive deletion of literal paths strictly inside the workspace is let through.
    pub fn delete_inside(&self) -> bool {
        flag(&self.inner.settings, keys::EXEC_DELETE_INSIDE)
    }

    /// How long an approval may hold at the most.
    pub fn longest_approval(&self) -> ApprovalLength {
        match text(&self.inner.settings, keys::CEILING_APPROVAL) {
            Some("once") => ApprovalLength::Once,
            Some("session") => ApprovalLength::Session,
            _ => ApprovalLength::Always,
        }
    }
}

/// Puts the profile and the workspace's own file into the settings and gathers the rules of all of them.
pub(super) fn gather(
    settings: &mut Settings,
    workspace: Option<&WorkspaceFile>,
    home: Option<&Path>,
) -> Result<Rules, ConfigError> {
    let of_profile = profiles::apply(settings, home)?;
    check_ceiling(settings)?;
    if let Some(file) = workspace {
        let mut collector = Collector::new(home);
        collector.text(&file.text, false, tighten::origin(&file.path));
        let problems = tighten::tighten(settings, &collector.finish()?);
        if !problems.is_empty() {
            return Err(ConfigError::all(problems));
        }
    }
    let mut rules = Vec::new();
    for key in [keys::CEILING_RULES, keys::RULES] {
        if let Some(Value::Rules(written)) = settings.get(key) {
            rules.extend(written.iter().cloned());
        }
    }
    rules.extend(of_profile);
    let verdict = |key| {
        text(settings, key).map(|word| match word {
            "allow" => Verdict::Allow,
            "ask" => Verdict::Ask,
            _ => Verdict::Deny,
        })
    };
    let rules =
        Rules::new(rules, verdict(keys::RULES_OTHERWISE)).stricter_bare(verdict(keys::RULES_OTHERWISE_BARE));
    // Those of the built-in profiles are held by a test.
    let problems = rules.example_problems(home, |rule| rule.origin.layer != Layer::Profile);
    if problems.is_empty() { Ok(rules) } else { Err(ConfigError::all(problems)) }
}

/// A later layer that goes past the machine's ceiling is an error that names both.
fn check_ceiling(settings: &Settings) -> Result<(), ConfigError> {
    let mut problems = Vec::new();
    let later: Vec<(&str, &Value, &Origin)> =
        settings.all_written().filter(|(.., origin)| origin.layer != Layer::System).collect();
    let mut past = |key: &str, origin: &Origin, ceiling: &Origin, wants: &str, by: &str, remedy: &str| {
        problems.push(format!("`{key}` in {origin}: {ceiling} {wants} (`{by}`); {remedy}"));
    };
    // Only a sandbox of Helve's own keeps the network closed.
    let sandbox = match (settings.written(keys::CEILING_SANDBOX), settings.written(keys::CEILING_NETWORK)) {
        (Some((Value::Bool(true), ceiling)), _) => Some((ceiling, keys::CEILING_SANDBOX)),
        (_, Some((Value::Bool(false), ceiling))) => Some((ceiling, keys::CEILING_NETWORK)),
        _ => None,
    };
    let closed = match settings.written(keys::CEILING_NETWORK) {
        Some((Value::Bool(false), ceiling)) => Some(ceiling),
        _ => None,
    };
    let filtered = match settings.written(keys::CEILING_SYSTEM_CALLS) {
        Some((Value::Bool(false), ceiling)) => Some(ceiling),
        _ => None,
    };
    let bounded = match settings.written(keys::CEILING_APPROVAL) {
        Some((Value::Text(word), ceiling)) if word != "always" => Some(ceiling),
        _ => None,
    };
    for (key, value, origin) in later {
        match (key, value) {
            (keys::SANDBOX, Value::Text(word)) if word == "none" => {
                if let Some((ceiling, by)) = sandbox {
                    past(key, origin, ceiling, "wants every command in a sandbox", by, "take the line out");
                }
            }
            (keys::EXEC_WRAPPER, Value::Text(template)) if !template.trim().is_empty() => {
                if let Some((ceiling, by)) = sandbox {
                    let wants = "wants every command in Helve's own sandbox";
                    past(key, origin, ceiling, wants, by, "take the line out");
                }
            }
            (keys::EXEC_NETWORK, Value::Bool(true)) => {
                if let Some(ceiling) = closed {
                    let wants = "keeps the network closed";
                    past(key, origin, ceiling, wants, keys::CEILING_NETWORK, "set it to false");
                }
            }
            (keys::EXEC_SYSTEM_CALLS, Value::List(groups)) if !groups.is_empty() => {
                if let Some(ceiling) = filtered {
                    let wants = "grants no system calls besides the usual ones";
                    past(key, origin, ceiling, wants, keys::CEILING_SYSTEM_CALLS, "set it to []");
                }
            }
            (key, Value::Text(word))
                if key.starts_with(server_keys::SERVERS) && key.ends_with(".network") =>
            {
                if let (true, Some(ceiling)) = (word == "host", closed) {
                    let wants = "keeps the network closed";
                    past(key, origin, ceiling, wants, keys::CEILING_NETWORK, "set it to \"none\"");
                }
            }
            (key, value) => {
                if let (true, Some(ceiling)) = (answers_for_ever(key, value), bounded) {
                    let wants = "lets no answer hold for ever";
                    past(key, origin, ceiling, wants, keys::CEILING_APPROVAL, "take the line out");
                }
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(ConfigError::all(problems)) }
}

/// Whether a setting answers every question of a kind in advance.
fn answers_for_ever(key: &str, value: &Value) -> bool {
    let of_tool = key.strip_prefix("tools.").and_then(|rest| rest.split_once('.'));
    match value {
        Value::Bool(true) => key == keys::AUTO_APPROVE,
        Value::Text(word) => {
            let of_server = key.starts_with(server_keys::SERVERS) && key.ends_with(".approval");
            word == "never" && (of_server || matches!(of_tool, Some((_, "approval"))))
        }
        Value::ServerTools(tools) => tools.values().any(|tool| tool.approval == Some(ApprovalNeed::Never)),
        _ => false,
    }
}
