//! What a parameter schema must look like before a model is shown it.
//!
//! Top level is an object with `properties`; every key of `required` is a property; nested objects likewise; arrays
//! say what their items are; a property without a type is free.

use helve_core::schema;
use serde_json::Value;

use crate::pipeline::validate::Validator;

/// Deep enough for any real tool, shallow enough for any stack.
const MAX_DEPTH: usize = 32;
/// The same for the JSON of a schema from elsewhere, where one level of a value takes two of the schema.
const MAX_FOREIGN_DEPTH: usize = 96;

/// Every violation, with its place. Empty means that the schema is fine.
pub(crate) fn check(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        found.push("(top): \"type\" must be \"object\"".to_owned());
    }
    match schema.get("properties") {
        Some(Value::Object(_)) => {}
        Some(_) => found.push("(top): \"properties\" must be an object".to_owned()),
        None => {
            found.push("(top): \"properties\" is missing; write {} for a tool without parameters".to_owned())
        }
    }
    check_node(schema, "", 0, &mut found);
    found
}

/// What the schema of a tool from elsewhere must be: one that can be walked and compiled. Its author writes it as JSON Schema
/// allows; nothing is fetched to resolve it.
pub(crate) fn check_foreign(schema: &Value, arguments: bool) -> Vec<String> {
    if !is_shallow(schema, 0) {
        return vec![format!("(top): nested more than {MAX_FOREIGN_DEPTH} levels deep")];
    }
    let mut found = Vec::new();
    if arguments && schema.get("type").and_then(Value::as_str) != Some("object") {
        found.push("(top): \"type\" must be \"object\"".to_owned());
    }
    if schema.get("properties").is_some_and(|properties| !properties.is_object()) {
        found.push("(top): \"properties\" must be an object".to_owned());
    }
    if found.is_empty()
        && let Err(error) = Validator::new(schema.clone()).problems(&Value::Null)
    {
        found.push(format!("(top): it does not compile: {error}"));
    }
    found
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    if depth > MAX_FOREIGN_DEPTH {
        return false;
    }
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, depth + 1)),
        Value::Object(members) => members.values().all(|member| is_shallow(member, depth + 1)),
        _ => true,
    }
}

fn check_node(schema: &Value, place: &str, depth: usize, found: &mut Vec<String>) {
    let Some(node) = schema.as_object() else {
        if !schema.is_boolean() {
            found.push(format!("{}: a schema must be an object or a boolean", shown(place)));
        }
        return;
    };
    if depth > MAX_DEPTH {
        found.push(format!("{}: nested more than {MAX_DEPTH} levels deep", shown(place)));
        return;
    }
    let properties = node.get("properties").and_then(Value::as_object);
    if place.is_empty() || schema::types(schema).any(|t| t == "object") {
        if !place.is_empty() && node.get("properties").is_some_and(|p| !p.is_object()) {
            found.push(format!("{}: \"properties\" must be an object", shown(place)));
        }
        check_required(node.get("required"), properties, place, found);
    }
    if schema::types(schema).any(|t| t == "array")
        && !node.contains_key("items")
        && !node.contains_key("prefixItems")
    {
        found.push(format!("{}: an array must say what its \"items\" are", shown(place)));
    }
    for (name, property) in properties.into_iter().flatten() {
        check_node(property, &format!("{place}/{name}"), depth + 1, found);
    }
    if let Some(items) = node.get("items") {
        check_node(items, &format!("{place}/[]"), depth + 1, found);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        match node.get(keyword) {
            Some(Value::Array(variants)) => {
                for (i, variant) in variants.iter().enumerate() {
                    check_node(variant, &format!("{place}/{keyword}[{i}]"), depth + 1, found);
                }
            }
            Some(_) => found.push(format!("{}: \"{keyword}\" must be an array", shown(place))),
            None => {}
        }
    }
}

fn check_required(
    required: Option<&Value>,
    properties: Option<&serde_json::Map<String, Value>>,
    place: &str,
    found: &mut Vec<String>,
) {
    let Some(required) = required else { return };
    let Some(keys) = required.as_array() else {
        found.push(format!("{}: \"required\" must be an array", shown(place)));
        return;
    };
    for key in keys {
        let known = key.as_str().is_some_and(|k| properties.is_some_and(|p| p.contains_key(k)));
        if !known {
            found.push(format!("{}: required key {key} is not in \"properties\"", shown(place)));
        }
    }
}

fn shown(place: &str) -> &str {
    if place.is_empty() { "(top)" } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn a_sound_schema_has_nothing_to_say() {
        let schema = json!({
            "type": "object",
            "properties": {
                "free": {},
                "list": {"type": "array", "items": {"type": "string"}},
                "nested": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            },
            "required": ["list"],
        });
        assert_eq!(check(&schema), Vec::<String>::new());
    }

    #[test]
    fn every_fault_is_named_with_its_place() {
        let schema = json!({
            "type": "array",
            "properties": {
                "list": {"type": "array"},
                "nested": {"type": "object", "properties": {}, "required": ["gone"]},
                "either": {"anyOf": {"type": "string"}},
            },
            "required": ["missing"],
        });
        assert_eq!(
            check(&schema),
            [
                "(top): \"type\" must be \"object\"",
                "(top): required key \"missing\" is not in \"properties\"",
                "(top): an array must say what its \"items\" are",
                "/list: an array must say what its \"items\" are",
                "/nested: required key \"gone\" is not in \"properties\"",
                "/either: \"anyOf\" must be an array",
            ]
        );
    }

    #[test]
    fn a_schema_from_elsewhere_may_say_less() {
        let loose = json!({
            "type": "object",
            "$defs": {"a": {"type": "array"}},
            "properties": {"list": {"$ref": "#/$defs/a"}},
            "required": ["unlisted"],
        });
        assert_eq!(check_foreign(&loose, true), Vec::<String>::new());
        assert_eq!(check_foreign(&json!({"type": "object"}), true), Vec::<String>::new());
        assert_eq!(check_foreign(&json!({"type": "string"}), false), Vec::<String>::new());
        for broken in [
            json!({"type": "array"}),
            json!({"type": "object", "properties": {"a": {"type": 7}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.invalid/schema"}}}),
        ] {
            assert!(!check_foreign(&broken, true).is_empty(), "{broken}");
        }
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"not": deep});
        }
        assert!(check_foreign(&deep, false)[0].contains("levels deep"));
    }

    #[test]
    fn a_bottomless_schema_is_refused_and_not_walked() {
        let mut schema = json!({"type": "string"});
        for _ in 0..200 {
            schema = json!({"type": "object", "properties": {"a": schema}});
        }
        assert!(check(&schema).iter().any(|reason| reason.contains("levels deep")));
    }
}
