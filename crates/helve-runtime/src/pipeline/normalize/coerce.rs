//! One value towards one schema: lossless or not at all.

use helve_core::{schema, strict_json};
use serde_json::{Number, Value};

use super::blocks;

/// Integers up to here survive the way through `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Repairs `value` in place where the schema says so and nothing is lost. Gives a note where a person may want to know.
pub(super) fn coerce(schema: &Value, value: &mut Value, depth: usize) -> Option<String> {
    to_type(schema, value, depth);
    enum_case(schema, value).or_else(|| clamp(schema, value))
}

pub(super) fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

pub(super) fn in_enum(schema: &Value, value: &Value) -> bool {
    let listed = schema.get("enum").and_then(Value::as_array).is_none_or(|options| options.contains(value));
    listed && schema.get("const").is_none_or(|only| only == value)
}

fn to_type(schema: &Value, value: &mut Value, depth: usize) {
    let mut wanted = schema::types(schema).peekable();
    if wanted.peek().is_none() || schema::types(schema).any(|name| is_type(name, value)) {
        return;
    }
    if let Some(better) = wanted.find_map(|name| convert(schema, name, value, depth)) {
        *value = better;
    }
}

fn convert(schema: &Value, wanted: &str, value: &Value, depth: usize) -> Option<Value> {
    match (wanted, value) {
        ("integer", Value::String(text)) => integer(&number(text)?),
        ("integer", Value::Number(number)) => integer(number),
        ("number", Value::String(text)) => number(text).map(Value::Number),
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" => Some(Value::Bool(true)),
            "false" | "no" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        ("array", Value::String(text)) if text.trim_start().starts_with('[') => {
            strict_json::read(text, depth).ok()
        }
        ("array", Value::String(text)) if text.trim_start().starts_with('{') && lists_objects(schema) => {
            strict_json::read(text, depth).ok().map(|one| Value::Array(vec![one]))
        }
        ("array", Value::Object(_)) if lists_objects(schema) => Some(Value::Array(vec![value.clone()])),
        ("object", Value::String(text)) if text.trim_start().starts_with('{') => {
            strict_json::read(text, depth).ok()
        }
        ("string", Value::Array(_) | Value::Object(_)) => blocks::text(value).map(Value::String),
        _ => None,
    }
}

/// One object where a list of objects is wanted is a list of one.
fn lists_objects(schema: &Value) -> bool {
    schema.get("items").is_some_and(|items| schema::types(items).eq(["object"]))
}

/// A number in a string, if it can be held exactly.
fn number(text: &str) -> Option<Number> {
    match strict_json::read(text.trim(), 0).ok()? {
        Value::Number(number) => Some(number),
        _ => None,
    }
}

fn integer(number: &Number) -> Option<Value> {
    if number.is_i64() || number.is_u64() {
        return Some(Value::Number(number.clone()));
    }
    let n = number.as_f64()?;
    // A cast of a whole number below 2^53 is exact.
    (n.fract() == 0.0 && n.abs() < EXACT).then(|| Value::from(n as i64))
}

fn enum_case(schema: &Value, value: &mut Value) -> Option<String> {
    let options = schema.get("enum").and_then(Value::as_array)?;
    let Value::String(text) = value else { return None };
    if options.iter().any(|option| option == text.as_str()) {
        return None;
    }
    let wanted = text.trim().to_lowercase();
    let mut alike = options.iter().filter(|o| o.as_str().is_some_and(|o| o.to_lowercase() == wanted));
    let (Some(only), None) = (alike.next(), alike.next()) else { return None };
    *value = only.clone();
    None
}

fn clamp(schema: &Value, value: &mut Value) -> Option<String> {
    if !schema::clamps(schema) {
        return None;
    }
    let n = value.as_f64()?;
    // A fraction where an integer is wanted is another mistake than being out of range.
    if n.fract() != 0.0 && !schema::types(schema).any(|name| name == "number") {
        return None;
    }
    let bound = |keyword: &str, beyond: fn(f64, f64) -> bool| {
        schema.get(keyword).filter(|limit| limit.as_f64().is_some_and(|limit| beyond(n, limit)))
    };
    let limit = bound("minimum", |n, limit| n < limit).or_else(|| bound("maximum", |n, limit| n > limit))?;
    let note = format!("{value} is out of range and was set to {limit}");
    *value = limit.clone();
    Some(note)
}
