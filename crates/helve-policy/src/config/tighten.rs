//! What a workspace's own file may do: make the policy stricter, nothing else.
//!
//! In come the settings in force and those of the file, out come the settings with what is stricter put in, or every key
//! that would loosen something. Whether the owner trusts the file is decided elsewhere.

use helve_core::ApprovalNeed;

use super::keys;
use super::layers::{Origin, Settings};
use super::value::Value;
use super::{container_keys, model_keys, server, server_keys};
use crate::rules::Rule;

/// Limits whose smaller values make the policy stricter and lose nothing that is kept for the owner.
pub(crate) const LIMITS: [&str; 34] = [
    "limits.output_chars",
    "limits.page_chars",
    "limits.args_bytes",
    "limits.args_depth",
    "limits.batch_calls",
    "limits.details_bytes",
    "limits.image_bytes",
    "limits.workers",
    "limits.command_bytes",
    "limits.exec_timeout_default",
    "limits.tool_timeout",
    "limits.exec_open_files",
    "limits.exec_file_bytes",
    "limits.exec_memory_bytes",
    "limits.exec_processes",
    "limits.exec_cpu_seconds",
    "limits.exec_disk_bytes",
    "limits.exec_tmp_bytes",
    "limits.exec_layer_bytes",
    "limits.file_bytes",
    "limits.read_bytes",
    "limits.read_bytes_max",
    "limits.read_lines",
    "limits.image_file_bytes",
    "limits.image_pixels",
    "limits.image_side",
    "limits.image_base64_bytes",
    "limits.notebook_bytes",
    "limits.pdf_bytes",
    "limits.pdf_unpacked_bytes",
    "limits.document_text_bytes",
    "limits.search_bytes",
    "limits.search_line_chars",
    "limits.read_output_bytes",
];

/// Limits that only the owner's own files lower: less would be kept for the owner, or more be asked of a person's time.
pub(crate) const OWNERS: [&str; 9] = [
    "limits.blob_bytes",
    "limits.blob_store_bytes",
    "limits.raw_bytes",
    "limits.batch_line_bytes",
    "limits.exec_timeout_max",
    "limits.mcp_log_bytes",
    "limits.prompts_per_minute",
    "limits.undo_bytes",
    "limits.undo_store_bytes",
];

/// Puts the file's settings into `settings` where they are stricter. Gives what is wrong with it.
pub(crate) fn tighten(settings: &mut Settings, file: &Settings) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, value, origin) in file.all_written() {
        match stricter(settings, name, value) {
            Outcome::Set(value) => settings.insert(name, value, origin.clone()),
            Outcome::Keep => {}
            Outcome::Looser(allowed) => problems.push(format!(
                "`{name}` in {origin}: a workspace's own file may only tighten: {allowed}; take the line out, or write it \
                 into your own configuration"
            )),
        }
    }
    problems
}

enum Outcome {
    /// It is stricter, or adds to what is there.
    Set(Value),
    /// What is in force is as strict.
    Keep,
    /// It could loosen something; what would be in order.
    Looser(&'static str),
}

fn stricter(settings: &Settings, name: &str, value: &Value) -> Outcome {
    let in_force = settings.get(name);
    match (name, value) {
        // Their verdicts were checked when they were read.
        (keys::RULES, Value::Rules(rules)) => Outcome::Set(Value::Rules(added(in_force, rules))),
        (keys::RULES_OTHERWISE, Value::Text(word)) => match (word.as_str(), in_force) {
            ("deny", _) => Outcome::Set(value.clone()),
            ("ask", Some(Value::Text(other))) if other != "allow" => Outcome::Keep,
            ("ask", _) => Outcome::Set(value.clone()),
            _ => Outcome::Looser("`rules_otherwise` may be \"ask\" or \"deny\" here"),
        },
        (keys::RULES_OTHERWISE_BARE, Value::Text(word)) if word == "deny" => Outcome::Set(value.clone()),
        (keys::SANDBOX, Value::Text(word)) => sandbox(settings, word),
        (
            keys::EXEC_DELETE_INSIDE | keys::EXEC_NETWORK | keys::AUTO_APPROVE | keys::PARALLEL,
            Value::Bool(false),
        ) => Outcome::Set(value.clone()),
        (keys::EXEC_MODE, Value::Text(word)) if word == "preview" => Outcome::Set(value.clone()),
        (keys::RESTRICT | keys::EXEC_RESTRICT | keys::EXEC_CHECKPOINT | keys::FSYNC, Value::Bool(true)) => {
            Outcome::Set(value.clone())
        }
        (keys::EXEC_SYSTEM_CALLS, Value::List(groups)) => {
            match groups.iter().all(|group| listed(in_force).contains(group)) {
                true => Outcome::Set(value.clone()),
                false => Outcome::Looser("`tools.exec.system_calls` may only take some away here"),
            }
        }
        (keys::FILES_DENY_READ, Value::List(patterns)) if patterns.iter().any(|one| one.starts_with('!')) => {
            Outcome::Looser("`files.deny_read` may only add patterns here, none with `!`")
        }
        (keys::VIEW_PROTECTED, Value::List(names)) => {
            let known = listed(in_force);
            let more = names.iter().filter(|name| !known.contains(name));
            Outcome::Set(Value::List(known.iter().chain(more).cloned().collect()))
        }
        // The last pattern that matches decides, so what is added stands at the end even if it is there already.
        (keys::FILES_DENY_READ, Value::List(patterns)) => {
            Outcome::Set(Value::List(listed(in_force).iter().chain(patterns).cloned().collect()))
        }
        (keys::FILES_HARD_LINKS, Value::Text(word)) if word == "refuse" => Outcome::Set(value.clone()),
        (keys::FILES_BRIDGE, Value::Text(word)) if word == "sandbox" => Outcome::Set(value.clone()),
        (keys::EXEC_TIMEOUT, Value::Count(number)) => {
            smaller(*number, in_force.or_else(|| settings.get("limits.exec_timeout_default")))
        }
        (name, Value::Count(number)) if LIMITS.contains(&name) => smaller(*number, in_force),
        ("limits.exec_timeout_max", _) => {
            Outcome::Looser("this limit is the owner's alone, but `tools.exec.timeout` may be smaller here")
        }
        (name, _) if OWNERS.contains(&name) => Outcome::Looser(
            "this limit is the owner's alone, since with a smaller one less is kept for the owner or more is asked",
        ),
        (keys::HOOKS, _) => Outcome::Looser("it cannot name a program that Helve runs"),
        (name, _) if name.starts_with(container_keys::CONTAINER) => {
            Outcome::Looser("it cannot choose an image or an engine")
        }
        (name, _) if name.starts_with(model_keys::MODEL) => {
            Outcome::Looser("it cannot choose a model, an address or a key")
        }
        (model_keys::ROUNDS | model_keys::TIME | model_keys::TOKENS, Value::Count(number)) => {
            smaller(*number, in_force)
        }
        (model_keys::COST, Value::Millionths(number)) => match in_force {
            Some(Value::Millionths(other)) if other <= number => Outcome::Keep,
            _ => Outcome::Set(value.clone()),
        },
        (model_keys::TOOLSET, Value::Text(word)) => {
            let width = |word: &str| model_keys::TOOLSETS.iter().position(|known| *known == word);
            match in_force {
                Some(Value::Text(other)) if width(other) <= width(word) => Outcome::Keep,
                _ => Outcome::Set(value.clone()),
            }
        }
        (name, value) if name.starts_with(server_keys::SERVERS) => of_server(settings, name, value),
        (name, value) => match (name.strip_prefix("tools.").and_then(|rest| rest.split_once('.')), value) {
            (Some((_, "enabled")), Value::Bool(false)) => Outcome::Set(value.clone()),
            (Some((_, "approval")), Value::Text(word)) if word == "always" => Outcome::Set(value.clone()),
            _ => Outcome::Looser(
                "it may hold `[[rules]]` that ask or deny, `rules_otherwise`, smaller limits, and switch restrictions on",
            ),
        },
    }
}

/// What is said of a server that the owner has: that it, or some of its tools, can do less. One that the owner does not
/// have is none of the file's business: it cannot add it.
fn of_server(settings: &Settings, name: &str, value: &Value) -> Outcome {
    let in_force = settings.get(name).or_else(|| server_keys::default(name));
    let Some((server, key)) = name.strip_prefix(server_keys::SERVERS).and_then(|rest| rest.split_once('.'))
    else {
        return Outcome::Keep;
    };
    let has = |key: &str| settings.written(&format!("{}{server}.{key}", server_keys::SERVERS)).is_some();
    let outcome = match (key, value) {
        (
            "enabled" | "trusted" | "parallel" | "may_sample" | "may_elicit" | "may_read_roots" | "oauth",
            Value::Bool(false),
        ) => Outcome::Set(value.clone()),
        ("deny", Value::List(names)) => {
            Outcome::Set(Value::List(listed(in_force).iter().chain(names).cloned().collect()))
        }
        ("approval", Value::Text(word)) if word == "always" => Outcome::Set(value.clone()),
        ("network", Value::Text(word)) if word == "none" => Outcome::Set(value.clone()),
        ("workspace", Value::Text(word)) if word == "hidden" => Outcome::Set(value.clone()),
        ("workspace", Value::Text(word)) if word == "read" => match in_force {
            Some(Value::Text(other)) if other == "hidden" => Outcome::Keep,
            _ => Outcome::Set(value.clone()),
        },
        ("per_minute" | "per_hour" | "start_timeout" | "call_timeout", Value::Count(number)) => {
            let shared = match key {
                "start_timeout" => settings.get(server_keys::START_TIMEOUT),
                "call_timeout" => settings.get(server_keys::CALL_TIMEOUT),
                _ => None,
            };
            smaller(*number, in_force.or(shared))
        }
        ("tools", Value::ServerTools(tools))
            if tools.values().all(|tool| {
                tool.enabled != Some(true) && tool.approval.is_none_or(|need| need == ApprovalNeed::Always)
            }) =>
        {
            Outcome::Set(server::merge(in_force.cloned(), value.clone()))
        }
        _ => {
            return Outcome::Looser(
                "of an MCP server it may say `enabled = false`, more `deny`, `approval = \"always\"`, the same of single \
                 `tools`, `network = \"none\"`, less of the workspace, smaller numbers, and no to what it `may_…`",
            );
        }
    };
    if has("command") || has("url") { outcome } else { Outcome::Keep }
}

/// A sandbox in place of another counts if it holds everything that the other holds. Bare runs stay what the owner made
/// them: each is asked about, and a sandbox would take those questions away.
fn sandbox(settings: &Settings, word: &str) -> Outcome {
    let in_force = match settings.get(keys::SANDBOX) {
        Some(Value::Text(in_force)) => in_force.as_str(),
        _ => "auto",
    };
    let wrapped =
        matches!(settings.get(keys::EXEC_WRAPPER), Some(Value::Text(text)) if !text.trim().is_empty());
    match (in_force, word) {
        (_, "none") => {}
        (in_force, word) if in_force == word => return Outcome::Keep,
        ("native", "auto") => return Outcome::Keep,
        ("auto" | "landlock" | "bwrap", "native") | ("landlock", "auto") if !wrapped => {
            return Outcome::Set(Value::Text(word.to_owned()));
        }
        _ => {}
    }
    Outcome::Looser(
        "`sandbox` may only be one that holds all that yours holds, as \"native\" does for every other",
    )
}

fn smaller(number: u64, in_force: Option<&Value>) -> Outcome {
    match in_force {
        Some(Value::Count(other)) if *other <= number => Outcome::Keep,
        _ => Outcome::Set(Value::Count(number)),
    }
}

fn listed(in_force: Option<&Value>) -> &[String] {
    match in_force {
        Some(Value::List(known)) => known,
        _ => &[],
    }
}

fn added(in_force: Option<&Value>, rules: &[Rule]) -> Vec<Rule> {
    let known = match in_force {
        Some(Value::Rules(known)) => known.as_slice(),
        _ => &[],
    };
    [known, rules].concat()
}

/// The origin of a workspace's own file.
pub(crate) fn origin(path: &std::path::Path) -> Origin {
    Origin { layer: super::layers::Layer::Workspace, file: Some(path.to_owned()), line: None }
}
