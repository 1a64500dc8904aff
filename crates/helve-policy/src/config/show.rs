//! The configuration for people: `helve config show` and the starter file of `helve config init`.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value as Json;

use super::keys::{self, ANY_PROFILE, ANY_SERVER, ANY_TOOL, ANY_VARIABLE, keys};
use super::layers::{Layer, Origin, Settings};
use super::value::Value;
use super::{hook, server_keys};
use crate::rules::{effect_names, rule_keys};

/// One value in force, with the place that it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The dotted name.
    pub key: String,
    /// The value; null where nothing is set.
    pub value: Json,
    /// The place that it came from.
    pub origin: Origin,
    /// What the key does.
    pub doc: String,
    /// Whether values stand in it that are not shown, so that what is shown is not what counts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

impl Setting {
    /// The value in TOML notation; none where nothing is set.
    pub fn toml(&self) -> Option<String> {
        (!self.value.is_null()).then(|| to_toml(&self.value))
    }
}

/// Every key with the value in force; keys for any tool or variable only where they were set.
pub(crate) fn explain(settings: &Settings) -> Vec<Setting> {
    let mut shown = Vec::new();
    for key in keys() {
        let mut push = |name: &str, value: Json, hidden: bool, origin: &Origin| {
            shown.push(Setting {
                key: name.to_owned(),
                value,
                origin: origin.clone(),
                doc: key.doc.to_string(),
                hidden,
            });
        };
        if key.parts().any(keys::is_any) {
            let same_shape = |name: &str| {
                name.split('.').count() == key.parts().count()
                    && name
                        .split('.')
                        .zip(key.parts())
                        .all(|(part, pattern)| part == pattern || keys::is_any(pattern))
                    && !keys().iter().any(|other| other.name == name)
            };
            for (name, value, origin) in settings.all_written().filter(|(name, ..)| same_shape(name)) {
                push(name, value.to_json(), matches!(value, Value::Hidden(_)), origin);
            }
            continue;
        }
        match settings.written(&key.name) {
            Some((value, origin)) => push(&key.name, value.to_json(), false, origin),
            None => {
                let origin = Origin { layer: Layer::BuiltIn, file: None, line: None };
                push(&key.name, key.default_json(), false, &origin);
            }
        }
    }
    shown
}

/// A starter file: every key that a user's file may hold with its default and what it does, all commented out.
pub fn starter() -> String {
    let mut out = String::from(
        "# Helve's configuration. Every line is commented out and shows the default;\n\
         # `helve config show` prints what is in force and where it comes from.\n",
    );
    let mut section = String::new();
    // The machine's file alone may hold a ceiling; what is shown here is for any.
    for key in keys().iter().filter(|key| !keys::is_ceiling(&key.name)) {
        let (table, last) = key.name.rsplit_once('.').unwrap_or(("", key.name.as_ref()));
        // A server is either here or elsewhere.
        let server = if server_keys::OF_ADDRESS.contains(&last) { "elsewhere" } else { "here" };
        let table = table.replace(ANY_TOOL, "echo").replace(ANY_PROFILE, "mine").replace(ANY_SERVER, server);
        if table != section {
            let _ = write!(out, "\n# [{table}]\n");
            section = table;
        }
        let example = match key.default_json() {
            Json::Null => example(&key.name).to_owned(),
            value => to_toml(&value),
        };
        let last = last.replace(ANY_VARIABLE, "EDITOR");
        let _ = write!(out, "\n## {}\n", key.doc);
        if key.name == keys::RULES {
            out.push_str(&rule_help());
        }
        if key.name == keys::HOOKS {
            out.push_str(&hook_help());
        }
        let _ = writeln!(out, "# {last} = {example}");
    }
    out
}

/// What a rule may hold, as comments.
fn rule_help() -> String {
    let mut out = String::new();
    for (key, takes) in rule_keys() {
        let _ = writeln!(out, "##   {key}: {takes}");
    }
    let effects: Vec<&str> = effect_names().map(|(name, _)| name).collect();
    let _ = writeln!(out, "##   The effects are {}.", effects.join(", "));
    out.push_str(
        "## Such as: [[rules]] verdict = \"ask\", command = \"git push *\", reason = \"others see it\"\n",
    );
    out
}

/// What a hook may hold, as comments.
fn hook_help() -> String {
    let mut out = String::new();
    for (key, takes) in hook::keys() {
        let _ = writeln!(out, "##   {key}: {takes}");
    }
    out.push_str("## Such as: [[hooks]] on = \"before_call\", program = [\"/usr/local/bin/check-call\"]\n");
    out
}

/// A value for keys that have no default.
pub(super) fn example(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("timeout" | "start_timeout" | "call_timeout") => "60",
        Some("use") => r#""ollama:qwen3""#,
        Some("base_url") => r#""http://localhost:8080/v1""#,
        Some("key_env") => r#""OPENAI_API_KEY""#,
        Some("key_command") => r#"["/usr/bin/pass", "show", "openai"]"#,
        Some("context_window") => "200000",
        Some("max_output") => "8192",
        Some("temperature") => "0.2",
        Some("price_input") => "3",
        Some("price_cached") => "0.3",
        Some("price_output") => "15",
        Some("time") => "3600",
        Some("tokens") => "2000000",
        Some("cost") => "5",
        Some("image") => r#""debian:bookworm-slim""#,
        Some("engine") => r#""podman""#,
        Some("socket") => r#""/run/podman/podman.sock""#,
        Some("cpus") => "2",
        Some("transport") => r#""stdio""#,
        Some("command") => r#""mcp-server""#,
        Some("url") => r#""https://example.com/mcp""#,
        Some("oauth_client_id") => r#""helve""#,
        Some("oauth_metadata_url") => r#""https://example.com/helve.json""#,
        Some("bearer_token_env" | "oauth_client_secret_env") => r#""EXAMPLE_TOKEN""#,
        Some("model_context_window_tokens") => "200000",
        Some("per_minute") => "60",
        Some("per_hour") => "1000",
        Some("allow_patterns") => r#"["git (status|diff|log).*"]"#,
        Some("working_dir") => r#""src""#,
        Some("shell") => r#""bash""#,
        Some("approval") => r#""unless_auto_approved""#,
        Some("session") => r#""work""#,
        Some("hook") => r#"["/usr/local/bin/ask-me"]"#,
        Some("profile" | "extends") => r#""coding""#,
        Some("rules_otherwise") => r#""ask""#,
        Some("rules_otherwise_bare") => r#""deny""#,
        _ => r#""""#,
    }
}

pub(super) fn toml_key(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { to_toml(&Json::from(key)) }
}

/// A JSON value in TOML notation.
pub fn to_toml(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(to_toml).collect::<Vec<_>>().join(", ")),
        Json::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{} = {}", toml_key(key), to_toml(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        // A JSON string is a TOML string, but for this one character.
        Json::String(_) => value.to_string().replace('\u{7f}', "\\u007f"),
        other => other.to_string(),
    }
}
