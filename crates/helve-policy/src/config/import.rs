//! Servers as other programs write them down, in the words of `helve.toml`.
//!
//! In comes the text of a file: the `mcpServers` of Claude Desktop, Claude Code, Cursor, Windsurf and Gemini, the `servers`
//! of VS Code, the `context_servers` of Zed, or the `mcp_servers` of Codex. Out come drafts, each with notes on what could
//! not be taken over. Nothing is looked up and nothing is run: a reference to a variable becomes the wish to pass that
//! variable on. What would open something (a server that is trusted, calls that are never asked about) is not taken over:
//! that is for the owner to say.

use serde_json::{Map, Value};

use super::document;
use super::jsonc;
use super::layers::{PLAIN_NAME, is_plain_name};
use super::server_keys;
use super::show;
use super::value::{HIDDEN, is_variable_name};

/// A server that could be written into `helve.toml`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerDraft {
    /// Its name in the configuration.
    pub name: String,
    /// Its keys, in the words of `helve.toml`.
    pub settings: Map<String, Value>,
    /// What could not be taken over, and what to do about it.
    pub notes: Vec<String>,
}

impl ServerDraft {
    /// The server of this name that a configuration has, as it is written there. Fails where the text cannot be read.
    pub fn of(text: &str, name: &str) -> Result<Option<ServerDraft>, String> {
        let settings = super::edit::table(text, &["mcp", "servers", name])?;
        Ok(settings.map(|settings| ServerDraft { name: name.to_owned(), settings, notes: Vec::new() }))
    }

    /// The lines below the header of its table.
    pub fn toml(&self) -> String {
        self.lines(Value::clone)
    }

    /// The same for people: values of variables and headers are hidden.
    pub fn shown(&self) -> String {
        self.lines(|value| match value {
            Value::Object(members) => {
                members.keys().map(|name| (name.clone(), Value::from(HIDDEN))).collect()
            }
            other => other.clone(),
        })
    }

    fn lines(&self, table: impl Fn(&Value) -> Value) -> String {
        // In the order of the manual, which has keys for all servers beside those of one.
        let known = server_keys::keys();
        let names =
            known.iter().filter_map(|key| key.name.strip_prefix(server_keys::SERVERS)?.split_once('.'));
        let line = |name: &str| {
            let value = self.settings.get(name)?;
            let value = if matches!(name, "env" | "headers") { table(value) } else { value.clone() };
            Some(format!("{name} = {}\n", show::to_toml(&value)))
        };
        names.filter_map(|(_, name)| line(name)).collect()
    }
}

/// A server of the file: its name there, and what becomes of it or why it cannot be taken over.
pub type Imported = (String, Result<ServerDraft, String>);

/// The servers in the text of another program's file.
pub fn import_servers(text: &str) -> Result<Vec<Imported>, String> {
    let value = if text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '/']) {
        let plain = jsonc::plain(text);
        serde_json::from_str::<Value>(&plain).map_err(|error| format!("it is not JSON: {error}"))?
    } else {
        let parsed = document::parse(text, false);
        parsed
            .map_err(|error| format!("it is neither JSON nor TOML: {}", error.message.trim_end()))?
            .value
            .to_json()
    };
    let places: [&[&str]; 6] = [
        &["mcpServers"],
        &["servers"],
        &["mcp", "servers"],
        &["context_servers"],
        &["mcp_servers"],
        &["mcp", "mcpServers"],
    ];
    let found = places.iter().find_map(|path| {
        path.iter().try_fold(&value, |value, part| value.get(part)).and_then(Value::as_object)
    });
    let Some(servers) = found else {
        return Err(
            "there is no `mcpServers`, `servers`, `context_servers` or `mcp_servers` in it".to_owned()
        );
    };
    let sse_by_url = value.get("mcpServers").is_some_and(|servers| {
        servers.as_object().into_iter().flatten().any(|(_, server)| server.get("httpUrl").is_some())
    });
    Ok(servers.iter().map(|(name, server)| (name.clone(), draft(name, server, sse_by_url))).collect())
}

fn draft(name: &str, server: &Value, sse_by_url: bool) -> Result<ServerDraft, String> {
    let members = server.as_object().ok_or("it is not an object")?;
    let mut draft = ServerDraft { name: plain_name(name)?, ..ServerDraft::default() };
    if draft.name != name {
        draft.notes.push(format!("it is called {} here", draft.name));
    }
    for (key, value) in members {
        member(&mut draft, key, value)?;
    }
    if draft.settings.contains_key("url") {
        let kind = members.get("type").or_else(|| members.get("transport")).and_then(Value::as_str);
        match kind.map(str::to_ascii_lowercase).as_deref() {
            Some("sse") => set(&mut draft, "transport", "sse".into()),
            // Gemini calls the newer transport `httpUrl` and the older one `url`.
            None if sse_by_url && !members.contains_key("httpUrl") => {
                set(&mut draft, "transport", "sse".into())
            }
            _ => {}
        }
    }
    match (draft.settings.contains_key("command"), draft.settings.contains_key("url")) {
        (true, false) | (false, true) => Ok(draft),
        (true, true) => Err("it has a command and an address; which one counts cannot be told".to_owned()),
        (false, false) => Err("it has neither a command nor an address".to_owned()),
    }
}

fn set(draft: &mut ServerDraft, key: &str, value: Value) {
    draft.settings.insert(key.to_owned(), value);
}

fn member(draft: &mut ServerDraft, key: &str, value: &Value) -> Result<(), String> {
    match key {
        "command" => match value {
            // Zed's older form.
            Value::Object(_) => {
                for (from, to) in [("path", "command"), ("args", "args"), ("env", "env")] {
                    if let Some(value) = value.get(from) {
                        member(draft, to, value)?;
                    }
                }
            }
            _ => {
                let command = written_out(key, value, &mut draft.notes)?;
                set(draft, "command", command.into());
            }
        },
        "args" => {
            let items = value.as_array().ok_or("`args` is not a list")?;
            let notes = &mut draft.notes;
            let items: Result<Vec<String>, String> =
                items.iter().map(|item| written_out(key, item, notes)).collect();
            set(draft, "args", items?.into());
        }
        "cwd" => {
            let cwd = written_out(key, value, &mut draft.notes)?;
            set(draft, "cwd", cwd.into());
        }
        "env" => variables(draft, value)?,
        "env_vars" => {
            for name in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                pass(draft, name);
            }
        }
        "url" | "serverUrl" | "httpUrl" => {
            let url = written_out(key, value, &mut draft.notes)?;
            set(draft, "url", url.into());
        }
        "headers" | "http_headers" => headers(draft, value)?,
        "env_http_headers" => {
            let named = value.as_object().cloned().unwrap_or_default();
            set(draft, "headers_from_env", named.into());
        }
        "bearer_token_env_var" => set(draft, "bearer_token_env", value.clone()),
        "disabled" if value == true => set(draft, "enabled", false.into()),
        "enabled" if value == false => set(draft, "enabled", false.into()),
        "includeTools" | "enabled_tools" => set(draft, "allow", value.clone()),
        "excludeTools" | "disabled_tools" | "disabledTools" => set(draft, "deny", value.clone()),
        "startup_timeout_sec" | "tool_timeout_sec" => {
            if let Some(seconds) = value.as_f64().filter(|seconds| (1.0..1e6).contains(seconds)) {
                let to = if key == "tool_timeout_sec" { "call_timeout" } else { "start_timeout" };
                set(draft, to, (seconds.ceil() as u64).into());
            }
        }
        "timeout" => {
            // Where others use it, it is in milliseconds.
            if let Some(milliseconds) = value.as_u64().filter(|number| (1..1_000_000_000).contains(number)) {
                set(draft, "call_timeout", milliseconds.div_ceil(1000).into());
            }
        }
        // Read elsewhere, or of no meaning here.
        "type" | "transport" | "source" | "description" | "disabled" | "enabled" | "name" => {}
        "alwaysAllow" | "autoApprove" | "trust" => draft.notes.push(format!(
            "`{key}` is not taken over: which calls nobody is asked about is for you to say (`approval`)"
        )),
        other => draft.notes.push(format!("`{other}` is not taken over: it has no meaning here")),
    }
    Ok(())
}

/// Variables: a reference becomes the wish to pass it on, anything else is written down.
fn variables(draft: &mut ServerDraft, value: &Value) -> Result<(), String> {
    let mut fixed = Map::new();
    for (name, value) in value.as_object().ok_or("`env` is not an object")? {
        if !is_variable_name(name) {
            return Err(format!("`env` names {name:?}, which is not the name of a variable"));
        }
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => continue,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return Err(format!("`env.{name}` is not a string")),
        };
        match reference(&text) {
            None if text.contains("${") => {
                return Err(format!("`env.{name}` mixes text and references, which cannot be taken over"));
            }
            None => drop(fixed.insert(name.clone(), text.into())),
            Some(wish) => {
                if wish.name != *name {
                    draft.notes.push(format!(
                        "the server's {name} comes from {} there; here it gets {name} of your environment, so set that",
                        wish.said
                    ));
                } else if let Some(default) = wish.default {
                    draft.notes.push(format!(
                        "{name} is {default:?} there where it is not set; here it is then absent"
                    ));
                }
                pass(draft, name);
            }
        }
    }
    if !fixed.is_empty() {
        draft.notes.push("values of variables are written down as they are; to keep them out of the file, name the variables in `pass_env` instead".to_owned());
        set(draft, "env", fixed.into());
    }
    Ok(())
}

fn pass(draft: &mut ServerDraft, name: &str) {
    let passed = draft.settings.entry("pass_env").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(names) = passed
        && !names.iter().any(|known| known == name)
    {
        names.push(name.into());
        names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
}

fn headers(draft: &mut ServerDraft, value: &Value) -> Result<(), String> {
    let mut fixed = Map::new();
    let mut named = Map::new();
    for (name, value) in value.as_object().ok_or("`headers` is not an object")? {
        let text = value.as_str().ok_or_else(|| format!("`headers.{name}` is not a string"))?;
        let bearer = text.strip_prefix("Bearer ").filter(|_| name.eq_ignore_ascii_case("authorization"));
        if let Some(wish) = bearer.and_then(|token| reference(token.trim())) {
            set(draft, "bearer_token_env", wish.name.into());
        } else if let Some(wish) = reference(text) {
            named.insert(name.clone(), wish.name.into());
        } else if text.contains("${") {
            return Err(format!("`headers.{name}` mixes text and references, which cannot be taken over"));
        } else {
            fixed.insert(name.clone(), text.into());
        }
    }
    if !fixed.is_empty() {
        draft.notes.push("values of headers are written down as they are; to keep them out of the file, use `headers_from_env` or `bearer_token_env` instead".to_owned());
        set(draft, "headers", fixed.into());
    }
    if !named.is_empty() {
        set(draft, "headers_from_env", named.into());
    }
    Ok(())
}

/// A reference to a variable.
struct Reference {
    name: String,
    default: Option<String>,
    said: String,
}

/// Whether a text is one reference and nothing else: `${NAME}`, `${env:NAME}`, `${NAME:-default}`, `$NAME`, and VS Code's
/// `${input:id}`, which asks a person there.
fn reference(text: &str) -> Option<Reference> {
    let said = text.to_owned();
    let inner = match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) => inner,
        None => text.strip_prefix('$').filter(|name| is_variable_name(name))?,
    };
    let inner = inner.strip_prefix("env:").unwrap_or(inner);
    if let Some(id) = inner.strip_prefix("input:") {
        let name: String = id
            .chars()
            .map(|ch| if ch.is_ascii_alphanumeric() { ch.to_ascii_uppercase() } else { '_' })
            .collect();
        return is_variable_name(&name).then_some(Reference { name, default: None, said });
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (inner, None),
    };
    is_variable_name(name).then(|| Reference { name: name.to_owned(), default, said })
}

/// A text in which the workspace is put in place and that refers to nothing else.
fn written_out(key: &str, value: &Value, notes: &mut Vec<String>) -> Result<String, String> {
    let text = value.as_str().ok_or_else(|| format!("`{key}` is not a string"))?;
    let mut out = text.to_owned();
    for place in
        ["${workspaceFolder}", "${workspaceRoot}", "${CLAUDE_PROJECT_DIR:-.}", "${CLAUDE_PROJECT_DIR}"]
    {
        if out.contains(place) {
            out = out.replace(place, ".");
            let note = format!("{place} in `{key}` is the directory where the server starts");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    if out.contains("${") {
        return Err(format!(
            "`{key}` refers to a variable ({out:?}); write it out and add the server by hand"
        ));
    }
    Ok(out)
}

/// A name that the configuration takes.
fn plain_name(name: &str) -> Result<String, String> {
    let plain = |ch: char| if ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-') { ch } else { '_' };
    let out: String = name.chars().take(65).map(plain).collect();
    if is_plain_name(&out) { Ok(out) } else { Err(format!("its name is none of {PLAIN_NAME}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn only(text: &str) -> ServerDraft {
        let mut found = import_servers(text).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).1.unwrap()
    }

    fn settings(text: &str) -> Value {
        Value::Object(only(text).settings)
    }

    #[test]
    fn the_shape_of_claude_desktop() {
        let text = r#"{"mcpServers": {"file system": {"command": "npx", "args": ["-y", "server", "${workspaceFolder}"],
            "env": {"TOKEN": "${TOKEN}", "KEY": "${env:KEY}", "MODE": "fast", "X": "${Y:-1}"}, "disabled": true}}}"#;
        let draft = only(text);
        assert_eq!(draft.name, "file_system");
        let expected = json!({"command": "npx", "args": ["-y", "server", "."], "env": {"MODE": "fast"},
            "pass_env": ["KEY", "TOKEN", "X"], "enabled": false});
        assert_eq!(Value::Object(draft.settings.clone()), expected);
        let notes = draft.notes.join("\n");
        for part in ["called file_system", "X of your environment", "written down as they are"] {
            assert!(notes.contains(part), "{notes}");
        }
        let lines = "enabled = false\ncommand = \"npx\"\nargs = [\"-y\", \"server\", \".\"]\nenv = { MODE = \"fast\" }\n\
                     pass_env = [\"KEY\", \"TOKEN\", \"X\"]\n";
        assert_eq!(draft.toml(), lines);
        assert_eq!(draft.shown(), lines.replace("\"fast\"", "\"(hidden)\""));
    }

    #[test]
    fn the_shape_of_vs_code_with_comments_and_inputs() {
        let text = r#"// of the team
        {"inputs": [{"id": "api-key", "type": "promptString"}], /* here */
         "servers": {"far": {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${input:api-key}", "X-A": "${env:A}",},},}}"#;
        let expected = json!({"url": "https://x.test/mcp", "bearer_token_env": "API_KEY", "headers_from_env": {"X-A": "A"}});
        assert_eq!(settings(text), expected);
    }

    #[test]
    fn the_shapes_of_the_others() {
        let zed = r#"{"context_servers": {"a": {"source": "custom", "command": {"path": "x", "args": ["y"], "env": {}}}}}"#;
        assert_eq!(settings(zed), json!({"command": "x", "args": ["y"]}));
        let windsurf = r#"{"mcpServers": {"a": {"serverUrl": "https://x.test/sse", "type": "sse"}}}"#;
        assert_eq!(settings(windsurf), json!({"url": "https://x.test/sse", "transport": "sse"}));
        let gemini = r#"{"mcpServers": {"a": {"httpUrl": "https://x.test", "timeout": 1500, "trust": true, "includeTools": ["t"]}, "b": {"url": "https://y.test"}}}"#;
        let found = import_servers(gemini).unwrap();
        let of = |at: usize| Value::Object(found[at].1.clone().unwrap().settings);
        assert_eq!(of(0), json!({"url": "https://x.test", "call_timeout": 2, "allow": ["t"]}));
        assert_eq!(of(1), json!({"url": "https://y.test", "transport": "sse"}));
        let none = r#"{"mcpServers": {"a": {"command": "x", "includeTools": []}}}"#;
        assert_eq!(settings(none), json!({"command": "x", "allow": []}));
        assert!(found[0].1.clone().unwrap().notes.join("").contains("`trust` is not taken over"));
        let codex = "[mcp_servers.a]\ncommand = 'x'\nenv_vars = ['T']\nstartup_timeout_sec = 20\n[mcp_servers.a.env]\nB = '1'\n";
        let expected = json!({"command": "x", "pass_env": ["T"], "start_timeout": 20, "env": {"B": "1"}});
        assert_eq!(settings(codex), expected);
    }

    #[test]
    fn what_cannot_be_taken_over_is_said_for_each_server() {
        let text = r#"{"mcpServers": {"a": {}, "b": 1, "c": {"command": "${HOME}/x"}, "d": {"command": "x", "url": "https://y"},
            "e": {"command": "x", "env": {"A": "x${B}"}}, "f": {"command": "fine"}}}"#;
        let found = import_servers(text).unwrap();
        let good: Vec<&str> =
            found.iter().filter(|(_, draft)| draft.is_ok()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(good, ["f"]);
        for text in ["", "{}", "[]", "{\"mcpServers\": []}", "nonsense"] {
            assert!(import_servers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_imported_is_a_configuration() {
        let json = r#"{"mcpServers": {"a": {"command": "x", "timeout": 30000, "env": {"A": "quote \" and \n"}},
            "b": {"url": "https://x.test", "headers": {"X.Y": "z"}, "excludeTools": ["t"]}}}"#;
        let codex = "[mcp_servers.c]\ncommand = 'x'\nstartup_timeout_sec = 20\ntool_timeout_sec = 9.5\n";
        for (name, draft) in [json, codex].iter().flat_map(|text| import_servers(text).unwrap()) {
            let draft = draft.unwrap();
            let toml = format!("[mcp.servers.{name}]\n{}", draft.toml());
            assert!(crate::Policy::from_toml(&toml).is_ok(), "{toml}");
            let read = ServerDraft::of(&toml, &name).unwrap().unwrap();
            assert_eq!(read, ServerDraft { notes: Vec::new(), ..draft }, "nothing is left out");
            assert_eq!(ServerDraft::of(&toml, "other"), Ok(None));
        }
        assert!(ServerDraft::of("a = [", "a").is_err());
    }
}
