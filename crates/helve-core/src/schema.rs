//! Annotations that Helve reads in a tool's schema, beside what JSON Schema says. They are left out of every export.
//!
//! With schemars: `#[schemars(extend("x-aliases" = ["cmd"]))]` on a field.

use serde_json::{Map, Value};

/// Other names of a property: an array of strings.
pub const ALIASES: &str = "x-aliases";
/// `true`: a number beyond `minimum` or `maximum` is set to it, with a note, instead of refused.
pub const CLAMP: &str = "x-clamp";

/// The other names of a property.
pub fn aliases(property: &Value) -> impl Iterator<Item = &str> {
    property.get(ALIASES).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a property's number is clamped.
pub fn clamps(property: &Value) -> bool {
    property.get(CLAMP).and_then(Value::as_bool).unwrap_or(false)
}

/// A copy without Helve's annotations, for the world outside.
pub fn without_annotations(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => Value::Object(
            object
                .iter()
                .filter(|(key, value)| !is_annotation(key, value))
                .map(|(key, value)| (key.clone(), without_annotations(value)))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_annotations).collect()),
        other => other.clone(),
    }
}

/// A property may itself be called `x-aliases`; then its value is a schema, not a list.
fn is_annotation(key: &str, value: &Value) -> bool {
    (key == ALIASES && value.is_array()) || (key == CLAMP && value.is_boolean())
}

/// The types that a schema allows, as written: `"type": "x"` or `"type": ["x", "null"]`; empty if it does not say.
pub fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let (one, many) = match schema.get("type") {
        Some(Value::String(name)) => (Some(name.as_str()), None),
        Some(Value::Array(names)) => (None, Some(names)),
        _ => (None, None),
    };
    one.into_iter().chain(many.into_iter().flatten().filter_map(Value::as_str))
}
