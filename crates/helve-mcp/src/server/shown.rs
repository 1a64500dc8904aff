//! Declarations and results as MCP has them.
//!
//! A client that finds `structuredContent` shows the model nothing else, so it carries the text beside the details, and the
//! published schema says so. What comes from a server behind Helve is passed on as it came, with that server's own schema.

use std::sync::Arc;

use helve_core::export::{Format, export};
use helve_core::output::{Content, join_text};
use helve_core::{CallResult, Decision, EmbeddedResource, ErrorKind, ToolError, ToolSpec};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents, Tool};
use serde_json::{Map, Value, json};

/// Where the result of a call has what only Helve knows of it.
pub(super) const META: &str = "helve/result";

/// The declaration of a tool; none where it does not fit the protocol's shape.
pub(super) fn tool(spec: &ToolSpec) -> Option<Tool> {
    let mut shown = export(spec, Format::Mcp);
    if spec.origin.is_none()
        && let Some(schema) = shown.get_mut("outputSchema")
    {
        publish(schema);
    }
    serde_json::from_value(shown).ok()
}

/// The schema of details as it is published: with the text, and with the error in the place of details that a failed call
/// does not have.
fn publish(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    members.insert("required".into(), json!(["text"]));
    let properties = members.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(
            "text".into(),
            json!({"type": "string", "description": "What the tool answered, as the model reads it."}),
        );
        properties.insert(
            "error".into(),
            json!({
                "type": "object",
                "description": "Why the call did not work.",
                "properties": {
                    "kind": {"type": "string", "enum": ErrorKind::ALL.map(ErrorKind::name)},
                    "message": {"type": "string"},
                    "hint": {"type": "string"},
                },
                "required": ["kind", "message"],
            }),
        );
    }
}

/// The result of a call. `declared` says whether the tool publishes a schema.
pub(super) fn result(result: CallResult, declared: bool) -> CallToolResult {
    let meta = meta(&result);
    let CallResult { ok, mut content, details, error, tainted, .. } = result;
    let structured = match (&tainted, &error) {
        (Some(_), _) => Some(details).filter(|details| !details.is_null()),
        (None, None) if details.is_null() && !declared => None,
        (None, error) => {
            let mut members = match details {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            if let Some(error) = error {
                members.insert("error".into(), json!(error));
            }
            members.entry("text").or_insert_with(|| Value::String(join_text(&content)));
            Some(Value::Object(members))
        }
    };
    if let Some(error) = &error
        && error.kind != ErrorKind::ToolFailed
    {
        content.push(Content::text(kind(error.kind)));
    }
    let blocks = content.into_iter().map(block).collect();
    let mut shown = if ok { CallToolResult::success(blocks) } else { CallToolResult::error(blocks) };
    shown.structured_content = structured;
    shown.meta = Some(meta);
    shown
}

/// A kind of error, as it stands behind what was said about it.
pub(super) fn kind(kind: ErrorKind) -> String {
    format!("[{}]", kind.name())
}

/// What only Helve knows of a call, as far as it is worth reading: some clients take longer to read one word of it than Helve takes
/// to write all. The journal has the rest, under the call's id.
fn meta(result: &CallResult) -> MetaObject {
    let CallResult { call, decision, sandbox, truncated, notes, tainted, cost, .. } = result;
    let mut own = Map::new();
    own.insert("call".into(), json!(call));
    let mut add = |name: &str, value: Value| {
        if !value.is_null() {
            own.insert(name.into(), value);
        }
    };
    add("decision", json!(told(decision.as_ref())));
    add("sandbox", json!(sandbox.as_ref().map(|sandbox| &sandbox.backend)));
    add("truncated", json!(truncated));
    add("tainted", json!(tainted));
    add("cost", json!(cost));
    if !notes.is_empty() {
        add("notes", json!(notes));
    }
    let mut meta = MetaObject::new();
    meta.insert(META.to_owned(), Value::Object(own));
    meta
}

/// A decision, where there is something to tell of it.
pub(super) fn told(decision: Option<&Decision>) -> Option<&Decision> {
    decision.filter(|decision| !decision.is_default())
}

pub(super) fn block(content: Content) -> ContentBlock {
    match content {
        Content::Text { text, about: None } => ContentBlock::text(text),
        Content::Image { data, mime_type, about: None } => ContentBlock::image(data, mime_type),
        // A block that cannot be put into the protocol's shape is shown as what it is.
        other => {
            let value = json!(other);
            serde_json::from_value(value.clone()).unwrap_or_else(|_| ContentBlock::text(value.to_string()))
        }
    }
}

/// The content of a resource.
pub(super) fn resource(content: EmbeddedResource) -> Option<ResourceContents> {
    serde_json::from_value(json!(content)).ok()
}

/// Values in the shape of MCP as its types; those that do not fit are left out.
pub(super) fn typed<T: serde::de::DeserializeOwned>(values: Vec<Value>) -> Vec<T> {
    values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// An error of the request itself, where there is no result that could carry it.
pub(super) fn refused(error: &ToolError) -> ErrorData {
    let mut message = error.message.clone();
    if let Some(hint) = &error.hint {
        message.push(' ');
        message.push_str(hint);
    }
    let data = Some(json!({"kind": error.kind}));
    match error.kind {
        ErrorKind::NotFound => ErrorData::resource_not_found(message, data),
        ErrorKind::InvalidParams | ErrorKind::UnknownTool | ErrorKind::TooLarge => {
            ErrorData::invalid_params(message, data)
        }
        _ => ErrorData::internal_error(message, data),
    }
}

/// The tools of a host as they are listed, made once for each version of them.
pub(super) struct Listing {
    pub(super) version: u64,
    pub(super) tools: Vec<Tool>,
}

impl Listing {
    pub(super) fn new(version: u64, specs: &[Arc<ToolSpec>]) -> Self {
        Listing { version, tools: specs.iter().filter_map(|spec| tool(spec)).collect() }
    }

    /// The tool of a name; the list is sorted.
    pub(super) fn get(&self, name: &str) -> Option<&Tool> {
        let at = self.tools.binary_search_by(|tool| (*tool.name).cmp(name)).ok()?;
        self.tools.get(at)
    }

    /// Whether the tool of a name publishes a schema of its results.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.get(name).is_some_and(|tool| tool.output_schema.is_some())
    }
}

/// So many items has a page of a list.
const PAGE: usize = 250;

/// One page of a list that is sorted by name, and the cursor of the next. A cursor is the name of the last item before it, so
/// that a list that changes meanwhile loses nothing.
pub(super) fn page<T: Clone>(
    items: &[T],
    cursor: Option<&str>,
    name: impl Fn(&T) -> &str,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let from = match cursor {
        None => 0,
        Some(cursor) => {
            let after = cursor.strip_prefix("after:").filter(|after| !after.is_empty());
            let after = after
                .ok_or_else(|| ErrorData::invalid_params("The cursor is none of this server's.", None))?;
            items.partition_point(|item| name(item) <= after)
        }
    };
    let until = items.len().min(from.saturating_add(PAGE));
    let next =
        (until < items.len()).then(|| items[..until].last().map(|last| format!("after:{}", name(last))));
    Ok((items[from..until].to_vec(), next.flatten()))
}

#[cfg(test)]
mod tests;
