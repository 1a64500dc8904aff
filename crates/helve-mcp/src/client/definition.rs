//! What a server says of one tool, read with care: bounded, cleaned, and either usable or left out with the reason.
//!
//! Words for the model lose characters that hide or reorder text, and say which server they come from. A schema with such
//! characters where they mean something (a key, a value that arguments are compared with) leaves its tool out. Nothing
//! that a schema refers to is ever fetched.

use helve_core::harmless::{harmless, is_harmless};
use helve_core::json_text::length;
use helve_core::servers::Transport;
use helve_core::{ApprovalNeed, ServerSpec, ToolSpec};
use serde_json::{Map, Value, json};

use super::fleet::Hide;
use super::pins::fingerprint;
use super::{failure, frame, names};

/// Bytes of one definition.
pub(crate) const BYTES: usize = 256 << 10;
/// How deep a definition may nest, and how many values it may hold.
const DEPTH: usize = 64;
const NODES: usize = 20_000;
/// Bytes of words for the model.
const DESCRIPTION: usize = 8 << 10;
/// Pictures of a tool, bytes of one, and the kinds of them.
const ICONS: usize = 8;
const ICON_BYTES: usize = 16 << 10;
const PICTURES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];
/// Keys of a schema whose values are words.
const WORDS: [&str; 3] = ["description", "title", "$comment"];

/// One tool, as its server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Its name at the server.
    pub tool: String,
    /// The name under which a model sees it.
    pub shown_as: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does, in the server's words, cleaned.
    pub description: String,
    /// The schema of its arguments.
    pub input: Value,
    /// The schema of `structuredContent`.
    pub output: Option<Value>,
    /// What it says of its own effects.
    pub hints: Hints,
    /// Pictures for people.
    pub icons: Vec<Value>,
    /// What the owner agrees to: name, words, schemas and hints as they came, and the pictures that are kept.
    pub pinned: Value,
    /// The fingerprint of that.
    pub hash: String,
}

/// What a tool says of its own effects. A hint may raise what is thought of it; it lowers that only where the owner trusts
/// the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy.
    pub destructive: Option<bool>,
    /// A second call changes nothing more.
    pub idempotent: Option<bool>,
    /// It reaches beyond.
    pub open_world: Option<bool>,
}

/// A tool that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its name, bounded and harmless.
    pub tool: String,
    /// Why.
    pub reason: String,
}

/// Reads what a server said of one tool.
pub fn read(server: &str, raw: &Value) -> Result<Definition, Rejected> {
    let name = raw.get("name").and_then(Value::as_str);
    let reject = |reason: String| Rejected { tool: short(name.unwrap_or("(no name)")), reason };
    let tool = name.ok_or_else(|| reject("it has no name".to_owned()))?;
    if let Some(fault) = names::fault(tool) {
        return Err(reject(fault));
    }
    if let Some(problem) = raw.get(frame::UNREADABLE).and_then(Value::as_str) {
        return Err(reject(format!("its definition cannot be read: {problem}")));
    }
    let mut nodes = 0;
    measure(raw, 0, &mut nodes).map_err(reject)?;
    let object = raw.as_object().ok_or_else(|| reject("it is not an object".to_owned()))?;
    let input = object_schema(object.get("inputSchema"), "inputSchema").map_err(reject)?;
    let output = match object.get("outputSchema") {
        None | Some(Value::Null) => None,
        Some(schema) => Some(cleaned_schema(schema, "outputSchema").map_err(reject)?),
    };
    let annotations = object.get("annotations").and_then(Value::as_object);
    let hint = |key: &str| annotations.and_then(|hints| hints.get(key)).and_then(Value::as_bool);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(cleaned);
    let title = text(object.get("title")).or_else(|| text(annotations.and_then(|hints| hints.get("title"))));
    let icons = safe_icons(object.get("icons"));
    let pinned = pinned(object, &icons);
    let size = length(&pinned);
    if size > BYTES {
        return Err(reject(format!("its definition has {size} bytes, more than {BYTES}")));
    }
    Ok(Definition {
        tool: tool.to_owned(),
        shown_as: names::shown_name(server, tool),
        title,
        description: text(object.get("description")).unwrap_or_default(),
        input,
        output,
        hints: Hints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        icons,
        hash: fingerprint(&pinned),
        pinned,
    })
}

/// The same without what is hidden. Its fingerprint is that of what the server said: what the owner knows as secret may be
/// another thing tomorrow.
pub(crate) fn read_hiding(server: &str, raw: &Value, hide: &Hide) -> Result<Definition, Rejected> {
    let mut seen = raw.clone();
    hide(&mut seen);
    let shown = read(server, &seen)?;
    if seen == *raw {
        return Ok(shown);
    }
    let reject = |reason: &str| Err(Rejected { tool: short(&shown.tool), reason: reason.to_owned() });
    match read(server, raw) {
        Ok(said) if said.tool == shown.tool => Ok(Definition { hash: said.hash, ..shown }),
        Ok(_) => reject("there is a secret in its name"),
        Err(_) => reject("there is a secret in its definition, which cannot be read"),
    }
}

/// What the owner agrees to.
fn pinned(object: &Map<String, Value>, icons: &[Value]) -> Value {
    let mut kept = Map::new();
    for key in ["name", "title", "description", "inputSchema", "outputSchema", "annotations"] {
        if let Some(value) = object.get(key).filter(|value| !value.is_null()) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    if !icons.is_empty() {
        kept.insert("icons".to_owned(), Value::Array(icons.to_vec()));
    }
    Value::Object(kept)
}

/// Pictures that are there in full, of kinds that hold nothing but a picture: nothing is fetched to show them.
fn safe_icons(icons: Option<&Value>) -> Vec<Value> {
    let icons = icons.and_then(Value::as_array).into_iter().flatten();
    icons.filter_map(safe_icon).take(ICONS).collect()
}

fn safe_icon(icon: &Value) -> Option<Value> {
    let source = icon.get("src").and_then(Value::as_str)?;
    let kind = PICTURES.iter().find(|kind| {
        let rest = source.strip_prefix("data:").and_then(|rest| rest.strip_prefix(**kind));
        rest.is_some_and(|rest| rest.starts_with([';', ',']))
    })?;
    if source.len() > ICON_BYTES || !source.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut kept = json!({"src": source, "mimeType": kind});
    let is_size =
        |size: &&Value| size.as_str().is_some_and(|size| size.len() <= 16 && size.chars().all(is_harmless));
    if let Some(sizes) = icon.get("sizes").and_then(Value::as_array) {
        kept["sizes"] = sizes.iter().filter(is_size).take(ICONS).cloned().collect();
    }
    if let Some(theme) = icon.get("theme").filter(|theme| *theme == "light" || *theme == "dark") {
        kept["theme"] = theme.clone();
    }
    Some(kept)
}

fn object_schema(schema: Option<&Value>, what: &str) -> Result<Value, String> {
    let schema = schema.ok_or_else(|| format!("it has no {what}"))?;
    let mut schema = cleaned_schema(schema, what)?;
    let Some(object) = schema.as_object_mut() else { return Err(format!("its {what} is not an object")) };
    match object.get("type") {
        None => {
            object.insert("type".to_owned(), json!("object"));
        }
        Some(kind) if kind == "object" => {}
        Some(_) => return Err(format!("its {what} does not describe an object")),
    }
    if !object.contains_key("properties") {
        object.insert("properties".to_owned(), json!({}));
    }
    Ok(schema)
}

/// A schema with its words cleaned.
fn cleaned_schema(schema: &Value, what: &str) -> Result<Value, String> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(format!("its {what} is not a schema"));
    }
    clean(schema, false).map_err(|text| format!("its {what} holds hidden characters in {:?}", short(&text)))
}

fn clean(value: &Value, is_words: bool) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) if text.chars().all(is_harmless) => value.clone(),
        Value::String(text) if is_words => Value::String(harmless(text)),
        Value::String(text) => return Err(text.clone()),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| clean(item, false)).collect::<Result<_, _>>()?)
        }
        Value::Object(object) => {
            let mut kept = Map::new();
            for (key, value) in object {
                if !key.chars().all(is_harmless) {
                    return Err(key.clone());
                }
                kept.insert(key.clone(), clean(value, WORDS.contains(&key.as_str()))?);
            }
            Value::Object(kept)
        }
        other => other.clone(),
    })
}

fn measure(value: &Value, depth: usize, nodes: &mut usize) -> Result<(), String> {
    *nodes += 1;
    if depth > DEPTH {
        return Err(format!("its definition nests more than {DEPTH} levels deep"));
    }
    if *nodes > NODES {
        return Err(format!("its definition holds more than {NODES} values"));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| measure(item, depth + 1, nodes)),
        Value::Object(object) => object.values().try_for_each(|item| measure(item, depth + 1, nodes)),
        _ => Ok(()),
    }
}

pub(crate) fn cleaned(text: &str) -> String {
    failure::bounded(text, DESCRIPTION)
}

/// The beginning of a text, harmless.
pub(crate) fn short(text: &str) -> String {
    let start: String = text.chars().take(64).collect();
    let mut shown = harmless(&start);
    if start.len() < text.len() {
        shown.push('…');
    }
    shown
}

impl Definition {
    /// The declaration that the pipeline works with. `contained` says that the sandbox holds the server.
    pub(crate) fn spec(&self, server: &ServerSpec, contained: bool) -> ToolSpec {
        let words = match self.description.is_empty() {
            true => "It does not say what it does.",
            false => &self.description,
        };
        let description = format!("[Tool of the MCP server '{}', in its words.] {words}", server.name);
        let mut spec = ToolSpec::new(&self.shown_as, description, self.input.clone())
            .origin(&server.name, &self.tool)
            .approval(self.approval(server, contained));
        let read_only = server.trusted && self.hints.read_only == Some(true);
        if read_only {
            spec = spec.read_only();
        }
        spec.concurrency_safe = server.parallel.then_some(true);
        spec.rate_limit = server.rate_limit.or(spec.rate_limit);
        spec.title.clone_from(&self.title);
        spec.icons.clone_from(&self.icons);
        spec.destructive =
            if server.trusted { self.hints.destructive } else { raised(self.hints.destructive) };
        spec.open_world = if server.trusted { self.hints.open_world } else { raised(self.hints.open_world) };
        spec.idempotent = self.hints.idempotent.filter(|_| server.trusted);
        spec.output_schema.clone_from(&self.output);
        // The deadline is the lane's own, and this one only for a lane that does not answer; questions to a person take
        // their time.
        spec.timeout = Some(patience(server));
        spec
    }

    /// What the owner set, or else what follows from where the server runs and what the tool says of itself.
    fn approval(&self, server: &ServerSpec, contained: bool) -> ApprovalNeed {
        let need = server.tool_approval.get(&self.tool).copied();
        need.unwrap_or_else(|| self.hints.approval(server, contained))
    }
}

impl Hints {
    /// The same where nothing is set for the single tool.
    pub(crate) fn approval(&self, server: &ServerSpec, contained: bool) -> ApprovalNeed {
        if let Some(need) = server.approval {
            return need;
        }
        let held = contained
            && matches!(&server.transport, Transport::Stdio(stdio) if !stdio.network && stdio.write.is_empty());
        let harmless = server.trusted && self.read_only == Some(true);
        match (held, self.destructive == Some(true)) {
            _ if harmless => ApprovalNeed::Never,
            (true, false) => ApprovalNeed::Never,
            (true, true) | (false, false) => ApprovalNeed::UnlessAutoApproved,
            (false, true) if server.trusted => ApprovalNeed::UnlessAutoApproved,
            (false, true) => ApprovalNeed::Always,
        }
    }
}

/// How long the pipeline waits for a server's lane.
pub(crate) fn patience(server: &ServerSpec) -> std::time::Duration {
    server.start_timeout + server.call_timeout.saturating_mul(2) + std::time::Duration::from_secs(600)
}

/// A hint of a server that nobody vouches for counts only where it makes the tool look worse.
fn raised(hint: Option<bool>) -> Option<bool> {
    hint.filter(|worse| *worse)
}

#[cfg(test)]
mod tests;
