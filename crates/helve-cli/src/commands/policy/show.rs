//! `helve policy show`: the rules in force, each with the place that it came from.

use std::fmt::Write as _;

use helve::{RuleShown, Setting};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::harmless::{harmless, one_line};
use crate::{setup, ui, verdict};

/// The settings that decide about commands.
const SETTINGS: [&str; 12] = [
    "profile",
    "sandbox",
    "auto_approve",
    "rules_otherwise",
    "tools.restrict_to_workspace",
    "tools.exec.restrict_to_workspace",
    "tools.exec.delete_inside",
    "tools.exec.approval",
    "tools.exec.allow_patterns",
    "tools.exec.ask_patterns",
    "tools.exec.deny_patterns",
    "tools.exec.network",
];

pub(super) fn show(global: &Global) -> Result<(), Failure> {
    let policy = setup::policy(global)?;
    let rules = policy.rules_shown();
    let settings: Vec<Setting> = policy
        .explain()
        .into_iter()
        .filter(|setting| SETTINGS.contains(&setting.key.as_str()) || is_written_ceiling(setting))
        .collect();
    if global.json {
        return ui::print_json(&json!({
            "profile": policy.profile(),
            "otherwise": policy.rules_otherwise(),
            "rules": rules,
            "settings": settings,
        }));
    }
    let mut text = String::new();
    for setting in &settings {
        let Some(value) = setting.toml() else { continue };
        let origin = ui::styled(ui::FAINT, &format!("# {}", harmless(&setting.origin.to_string())));
        let _ = writeln!(text, "{} = {}  {origin}", harmless(&setting.key), harmless(&value));
    }
    let _ = writeln!(text);
    for shown in &rules {
        text.push_str(&rule(shown));
    }
    let rest = match rules.is_empty() {
        true => "There are no rules of the owner's".to_owned(),
        false => format!("What no rule is about: {}", verdict::word(policy.rules_otherwise())),
    };
    let _ = writeln!(text, "{rest}. `helve policy explain` lists Helve's own rules.");
    ui::print_styled(&text)
}

fn is_written_ceiling(setting: &Setting) -> bool {
    setting.key.starts_with("ceiling.")
        && setting.key != "ceiling.rules"
        && setting.origin.layer != helve::Layer::BuiltIn
}

/// One rule: what it says of what, then why and where it is written.
pub(super) fn rule(rule: &RuleShown) -> String {
    let mut text = format!("{}  {}", verdict::column(rule.verdict), harmless(&rule.name));
    if rule.ceiling {
        text.push_str("  (ceiling: nothing lifts it)");
    }
    text.push('\n');
    for (key, value) in rule.rule.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "verdict" | "name") {
            let _ = writeln!(text, "       {} = {}", harmless(key), one_line(&in_toml(value), usize::MAX));
        }
    }
    let _ = writeln!(
        text,
        "       {}",
        ui::styled(ui::FAINT, &format!("# {}", harmless(&rule.origin.to_string())))
    );
    text
}

/// A value of a rule: texts, lists of texts and dates are written alike in JSON and TOML.
fn in_toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(in_toml).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}
