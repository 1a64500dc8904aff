//! `helve policy explain`: what a rule means, what it finds, what it lets pass, and how to change it. The built-in rules
//! are data, in `rules.jsonl`.

use std::fmt::Write as _;

use anstyle::Style;
use helve::{RuleShown, Setting};
use serde::{Deserialize, Serialize};

use crate::args::Global;
use crate::commands::approvals;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{setup, ui};

const RULES: &str = include_str!("rules.jsonl");

/// A rule of Helve's own, explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explained {
    /// The name under which decisions have it.
    pub(super) rule: String,
    /// What it says where nobody has changed it.
    pub(super) verdict: String,
    pub(super) means: String,
    /// Commands that it is about.
    pub(super) finds: Vec<String>,
    /// Commands that look alike and are not its business.
    pub(super) passes: Vec<String>,
    /// How to change it.
    pub(super) change: String,
}

/// All of them.
pub(super) fn built_in() -> Result<Vec<Explained>, Failure> {
    let read = |line: &str| serde_json::from_str(line).map_err(|error| Failure::internal(error.to_string()));
    RULES.lines().map(read).collect()
}

/// What explains a name.
enum Found {
    BuiltIn(Explained),
    /// A rule of the owner, or of a profile.
    Rule(RuleShown),
    Setting(Setting),
}

/// Explains one rule, or lists all.
pub(super) fn explain(global: &Global, name: Option<&str>) -> Result<(), Failure> {
    let rules = built_in()?;
    let Some(name) = name else { return list(global, &rules) };
    if let Some(id) = name.strip_prefix("approval ").or(Some(name)).filter(|id| id.starts_with("a_")) {
        return approvals::show(global, id);
    }
    match find(global, rules, name)? {
        Some(Found::BuiltIn(rule)) if global.json => ui::print_json(&rule),
        Some(Found::BuiltIn(rule)) => ui::print_styled(&told(&rule)),
        Some(Found::Rule(rule)) if global.json => ui::print_json(&rule),
        Some(Found::Rule(rule)) => ui::print_styled(&super::show::rule(&rule)),
        Some(Found::Setting(setting)) if global.json => ui::print_json(&setting),
        Some(Found::Setting(setting)) => ui::print_styled(&setting_told(&setting)),
        None => Err(Failure::not_found(format!(
            "no rule is called {}. `helve policy explain` lists Helve's own rules, `helve policy show` those in force",
            one_line(name, 80)
        ))),
    }
}

/// Whether there is an explanation of a rule that a decision names.
pub(super) fn is_explained(global: &Global, name: &str) -> bool {
    built_in().and_then(|rules| find(global, rules, name)).is_ok_and(|found| found.is_some())
}

fn find(global: &Global, rules: Vec<Explained>, name: &str) -> Result<Option<Found>, Failure> {
    let wanted = name.to_lowercase();
    let short = format!("guard.{wanted}");
    let named = |name: &str| rules.iter().find(|rule| rule.rule == name);
    if let Some(rule) = named(name).or_else(|| named(&wanted)).or_else(|| named(&short)) {
        return Ok(Some(Found::BuiltIn(rule.clone())));
    }
    let policy = setup::policy(global)?;
    if let Some(rule) = policy.rules_shown().into_iter().find(|rule| rule.name == name) {
        return Ok(Some(Found::Rule(rule)));
    }
    if let Some(setting) = policy.explain().into_iter().find(|setting| setting.key == setting_name(name)) {
        return Ok(Some(Found::Setting(setting)));
    }
    if let Some(rule) = rules.into_iter().find(|rule| is_one_of(&rule.rule, name)) {
        return Ok(Some(Found::BuiltIn(rule)));
    }
    Ok(of_other_profile(global, name).map(Found::Rule))
}

/// Whether a name is one of those that `NAME` in a built-in rule stands for: `tools.exec.enabled` of `tools.NAME.enabled`.
fn is_one_of(rule: &str, name: &str) -> bool {
    let Some((before, after)) = rule.split_once("NAME") else { return false };
    let middle = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    middle.is_some_and(|middle| !middle.is_empty())
}

/// A rule of a profile that is not the one in force: `profile.readonly.rules[0]`.
fn of_other_profile(global: &Global, name: &str) -> Option<RuleShown> {
    let (profile, _) = name.strip_prefix("profile.")?.rsplit_once(".rules[")?;
    let policy = setup::policy_with(global, vec![format!("profile={profile}")]).ok()?;
    policy.rules_shown().into_iter().find(|rule| rule.name == name)
}

/// A decision names an entry of a list as `tools.exec.deny_patterns[2]`.
fn setting_name(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

fn setting_told(setting: &Setting) -> String {
    let value = setting.toml().unwrap_or_else(|| "not set".to_owned());
    format!(
        "{}\n{}\nIn force: {}, from {}\n",
        ui::styled(ui::STRONG, &harmless(&setting.key)),
        harmless(&setting.doc),
        harmless(&value),
        harmless(&setting.origin.to_string()),
    )
}

fn list(global: &Global, rules: &[Explained]) -> Result<(), Failure> {
    if global.json {
        return ui::print_json(&rules);
    }
    let mut text = String::new();
    for rule in rules {
        let name = format!("{:34}", rule.rule);
        let means = rule.means.split(". ").next().unwrap_or_default().trim_end_matches('.');
        let _ = writeln!(text, "{}{:15}{means}", ui::styled(ui::STRONG, &name), rule.verdict);
    }
    ui::print_styled(&text)
}

fn told(rule: &Explained) -> String {
    let mut text = format!("{}: {}\n{}\n", ui::styled(ui::STRONG, &rule.rule), rule.verdict, rule.means);
    let mut examples = |style: Style, head: &str, commands: &[String]| {
        if !commands.is_empty() {
            let _ = writeln!(text, "{}", ui::styled(style, head));
        }
        for command in commands {
            let _ = writeln!(text, "  {command}");
        }
    };
    examples(ui::CAREFUL, "It is about", &rule.finds);
    examples(ui::GOOD, "It is not about", &rule.passes);
    let _ = writeln!(text, "To change it: {}", rule.change);
    text
}
