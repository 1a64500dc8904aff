//! A tool's declaration in the shapes that model APIs want.

use serde_json::{Map, Value, json};

use crate::schema::without_annotations;
use crate::spec::{Lane, ToolSpec};

/// The shapes that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `{"type":"function","function":{…}}`
    OpenAi,
    /// `{"name":…,"description":…,"input_schema":…}`
    Anthropic,
    /// A function declaration with Gemini's subset of OpenAPI schemas.
    Gemini,
    /// An MCP tool, with annotations derived from the traits.
    Mcp,
}

/// The declaration in one of the shapes.
pub fn export(spec: &ToolSpec, format: Format) -> Value {
    match format {
        Format::OpenAi => openai(spec),
        Format::Anthropic => anthropic(spec),
        Format::Gemini => gemini(spec),
        Format::Mcp => mcp(spec),
    }
}

fn openai(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": without_annotations(&spec.parameters),
        },
    })
}

fn anthropic(spec: &ToolSpec) -> Value {
    json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": without_annotations(&spec.parameters),
    })
}

fn gemini(spec: &ToolSpec) -> Value {
    let mut declaration = Map::new();
    declaration.insert("name".into(), json!(spec.name));
    declaration.insert("description".into(), json!(spec.description));
    let has_parameters = spec.parameters["properties"].as_object().is_some_and(|p| !p.is_empty());
    // Gemini refuses an object schema without properties.
    if has_parameters {
        declaration.insert("parameters".into(), gemini_schema(&spec.parameters));
    }
    Value::Object(declaration)
}

/// What Gemini's Schema message knows; everything else in a schema is refused by its API.
const GEMINI_KEYS: &[&str] = &[
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "anyOf",
    "default",
];

fn gemini_schema(schema: &Value) -> Value {
    let Some(object) = schema.as_object() else {
        return json!({});
    };
    let mut out = Map::new();
    for (key, value) in object {
        match key.as_str() {
            "type" => gemini_type(value, &mut out),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let converted = properties.map(|(name, p)| (name.clone(), gemini_schema(p))).collect();
                out.insert(key.clone(), Value::Object(converted));
            }
            "items" => {
                out.insert(key.clone(), gemini_schema(value));
            }
            "anyOf" | "oneOf" => {
                let variants = value.as_array().into_iter().flatten().map(gemini_schema).collect();
                out.insert("anyOf".into(), Value::Array(variants));
            }
            "const" => {
                out.insert("enum".into(), json!([value]));
            }
            // Gemini has formats of its own, and refuses others.
            "format"
                if !matches!(value.as_str(), Some("int32" | "int64" | "float" | "double" | "date-time")) => {}
            key if GEMINI_KEYS.contains(&key) => {
                out.insert(key.into(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(out)
}

/// `["string","null"]` becomes `STRING` and `nullable`.
fn gemini_type(value: &Value, out: &mut Map<String, Value>) {
    let names: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    if names.contains(&"null") {
        out.insert("nullable".into(), json!(true));
    }
    let mut real = names.iter().filter(|name| **name != "null");
    if let Some(name) = real.next() {
        out.insert("type".into(), json!(name.to_uppercase()));
    }
}

fn mcp(spec: &ToolSpec) -> Value {
    let mut tool = json!({
        "name": spec.name,
        "description": spec.description,
        "inputSchema": without_annotations(&spec.parameters),
        "annotations": {
            "readOnlyHint": spec.read_only,
            "destructiveHint": spec.destructive.unwrap_or(!spec.read_only),
            "idempotentHint": spec.idempotent.unwrap_or(spec.read_only),
            "openWorldHint": spec.open_world.unwrap_or(matches!(spec.lane, Lane::Mcp | Lane::Wasm)),
        },
    });
    if let Some(title) = &spec.title {
        tool["title"] = json!(title);
    }
    if !spec.icons.is_empty() {
        tool["icons"] = json!(spec.icons);
    }
    if let Some(schema) = &spec.output_schema {
        tool["outputSchema"] = without_annotations(schema);
    }
    tool
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn spec() -> ToolSpec {
        ToolSpec::new(
            "t",
            "Does it.",
            json!({
                "type": "object",
                "properties": {
                    "n": {"type": ["integer", "null"], "format": "uint32", "minimum": 1, "x-clamp": true},
                    "x-aliases": {"type": "string", "x-aliases": ["alias"]},
                },
                "required": ["n"],
                "additionalProperties": false,
            }),
        )
    }

    #[test]
    fn annotations_stay_inside() {
        assert_eq!(
            export(&spec(), Format::OpenAi)["function"]["parameters"],
            json!({
                "type": "object",
                "properties": {
                    "n": {"type": ["integer", "null"], "format": "uint32", "minimum": 1},
                    "x-aliases": {"type": "string"},
                },
                "required": ["n"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn gemini_gets_its_subset() {
        assert_eq!(
            export(&spec(), Format::Gemini),
            json!({
                "name": "t",
                "description": "Does it.",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {
                        "n": {"type": "INTEGER", "nullable": true, "minimum": 1},
                        "x-aliases": {"type": "STRING"},
                    },
                    "required": ["n"],
                },
            })
        );
    }

    #[test]
    fn mcp_hints_follow_the_traits() {
        let tool = export(&spec().read_only(), Format::Mcp);
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
        assert_eq!(tool["annotations"]["destructiveHint"], false);
    }
}
