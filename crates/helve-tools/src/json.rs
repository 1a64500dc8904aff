//! `json`: reads, queries, writes and checks JSON.
//!
//! In comes `data`, a JSON value or JSON text; out goes JSON text, or what is wrong with it and where. [`read`] is the
//! strict reader, [`path`] finds places in a document. Key order is kept everywhere.
//!
//! Deliberately not here: JSON Schema. `validate` says whether a text is well-formed.

mod path;
mod read;

use std::io;

use helve_core::typed::schema_of;
use helve_core::{ErrorKind, Output, Problem, ToolError, ToolSpec, TypedInstantTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use path::Found;

pub(crate) struct Json;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Parse,
    Query,
    Stringify,
    Validate,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    #[schemars(
        description = "parse: read JSON text strictly and print it indented. query: print what is at path. stringify: \
        write data as JSON text. validate: say whether data is well-formed JSON."
    )]
    operation: Operation,
    #[schemars(
        description = "JSON text in a string, or any JSON value. stringify takes a string that starts with { or [ as \
        JSON text and quotes every other string."
    )]
    #[schemars(extend("x-aliases" = ["json", "input"]))]
    data: Value,
    #[schemars(
        description = "For query: a JSON Pointer (/items/0/name), plain names (items[0].name), or JSONPath \
        ($.items[*].name, $..[?@.price < 10]), which gives an array of all matches."
    )]
    #[schemars(length(max = path::MAX_LENGTH), extend("x-aliases" = ["query"]))]
    path: Option<String>,
    /// Spaces for each level; 0 writes everything on one line.
    #[serde(default = "default_indent")]
    #[schemars(range(min = 0, max = 8), extend("x-clamp" = true))]
    indent: u8,
}

fn default_indent() -> u8 {
    2
}

#[derive(Serialize, JsonSchema)]
struct Facts {
    /// What was done.
    operation: Operation,
    /// The type of the value: object, array, string, number, boolean or null.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// Members of the object, elements of the array or characters of the string.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
    /// For a JSONPath query: how many values it found.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<usize>,
    /// For validate: whether the text is well-formed.
    #[serde(skip_serializing_if = "Option::is_none")]
    valid: Option<bool>,
    /// Where it is not well-formed, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The character in that line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

impl TypedInstantTool for Json {
    type Args = Args;

    fn declare(&self, parameters: Value) -> ToolSpec {
        ToolSpec::new(
            "json",
            "Parses, queries, writes and validates JSON. Duplicate keys and integers that would lose digits are \
             errors; what is wrong is told with line and column.",
            parameters,
        )
        .title("Read JSON")
        .read_only()
        .output_schema(schema_of::<Facts>())
    }

    fn answer(&self, args: Args) -> Result<Output, ToolError> {
        answer(args)
    }
}

fn answer(args: Args) -> Result<Output, ToolError> {
    match args.operation {
        Operation::Parse => {
            let value = read_data(args.data)?;
            Ok(Output::text(written(&value, args.indent)?).with_details(facts_of(args.operation, &value)))
        }
        Operation::Stringify => {
            let value = match args.data {
                Value::String(text) if text.trim_start().starts_with(['{', '[']) => read_text(&text)?,
                value => value,
            };
            Ok(Output::text(written(&value, args.indent)?).with_details(facts_of(args.operation, &value)))
        }
        Operation::Query => {
            let Some(path) = args.path else {
                let expected = "a JSON Pointer, JSONPath or plain names such as items[0].name";
                return Err(ToolError::invalid("json", vec![Problem::new("/path", expected, "nothing")]));
            };
            let value = read_data(args.data)?;
            match path::find(&value, path.trim())? {
                Found::One(found) => {
                    Ok(Output::text(written(found, args.indent)?)
                        .with_details(facts_of(args.operation, found)))
                }
                Found::Many(found) => {
                    let facts = Facts { matches: Some(found.len()), ..Facts::new(args.operation) };
                    Ok(Output::text(written(&found, args.indent)?).with_details(crate::details(&facts)))
                }
            }
        }
        Operation::Validate => Ok(validate(&args.data)),
    }
}

fn read_data(data: Value) -> Result<Value, ToolError> {
    match data {
        Value::String(text) => read_text(&text),
        value => Ok(value),
    }
}

fn read_text(text: &str) -> Result<Value, ToolError> {
    read::read(text).map_err(|bad| ToolError::failed(format!("Invalid JSON: {bad}")))
}

fn validate(data: &Value) -> Output {
    let parsed;
    let value = match data {
        Value::String(text) => match read::read(text) {
            Ok(value) => {
                parsed = value;
                &parsed
            }
            Err(bad) => {
                let facts = Facts {
                    valid: Some(false),
                    line: Some(bad.line),
                    column: Some(bad.column),
                    ..Facts::new(Operation::Validate)
                };
                return Output::text(format!("Invalid JSON: {bad}")).with_details(crate::details(&facts));
            }
        },
        value => value,
    };
    let facts = Facts { valid: Some(true), ..Facts::of(Operation::Validate, value) };
    Output::text(format!("Valid JSON: {}.", described(value))).with_details(crate::details(&facts))
}

fn described(value: &Value) -> String {
    let plural = |count: usize, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    match value {
        Value::Object(object) => format!("an object with {}", plural(object.len(), "key")),
        Value::Array(array) => format!("an array with {}", plural(array.len(), "element")),
        Value::String(text) => format!("a string with {}", plural(text.chars().count(), "character")),
        other => kind(other).to_owned(),
    }
}

/// The type of a value, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

impl Facts {
    fn new(operation: Operation) -> Facts {
        Facts { operation, kind: None, size: None, matches: None, valid: None, line: None, column: None }
    }

    fn of(operation: Operation, value: &Value) -> Facts {
        let size = match value {
            Value::Object(object) => Some(object.len()),
            Value::Array(array) => Some(array.len()),
            Value::String(text) => Some(text.chars().count()),
            _ => None,
        };
        let words = kind(value);
        Facts { kind: words.rsplit(' ').next(), size, ..Facts::new(operation) }
    }
}

fn facts_of(operation: Operation, value: &Value) -> Value {
    crate::details(&Facts::of(operation, value))
}

/// The most text that a call writes: indenting and overlapping matches can make much of little.
const MAX_TEXT: usize = 16 << 20;

fn written<T: Serialize>(value: &T, indent: u8) -> Result<String, ToolError> {
    let mut text = Bounded(Vec::new());
    let spaces = " ".repeat(usize::from(indent.min(8)));
    let done = if indent == 0 {
        serde_json::to_writer(&mut text, value)
    } else {
        let style = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, style))
    };
    let text = done.ok().and_then(|()| String::from_utf8(text.0).ok());
    text.ok_or_else(|| {
        ToolError::new(ErrorKind::TooLarge, format!("The result would be larger than {MAX_TEXT} bytes."))
            .hint("Query a smaller part, or use indent 0.")
    })
}

/// A buffer that refuses to grow beyond [`MAX_TEXT`].
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_TEXT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
