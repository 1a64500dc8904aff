//! A fast yes for ordinary schemas. It never says no: what it does not accept is judged by `jsonschema`.
//!
//! [`Quick::compile`] gives none for a schema with a keyword that it does not know, so that a yes always means what
//! `jsonschema` would say. A property test holds the two against each other.

use serde_json::{Map, Value};

/// Integers up to here are exact as `f64`, so comparing either way gives the same answer.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) enum Quick {
    /// The schema `true`.
    Anything,
    /// The schema `false`.
    Nothing,
    Node(Box<Node>),
}

#[derive(Default)]
pub(super) struct Node {
    types: Option<Types>,
    options: Option<Vec<Value>>,
    any_of: Option<Vec<Quick>>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    items: Option<Quick>,
    properties: Vec<(String, Quick)>,
    required: Vec<String>,
    additional: Option<Quick>,
}

#[derive(Default)]
struct Types {
    null: bool,
    boolean: bool,
    integer: bool,
    number: bool,
    string: bool,
    array: bool,
    object: bool,
}

impl Types {
    fn compile(value: &Value) -> Option<Types> {
        let mut types = Types::default();
        let names: Vec<&str> = match value {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
            _ => return None,
        };
        for name in names {
            match name {
                "null" => types.null = true,
                "boolean" => types.boolean = true,
                "integer" => types.integer = true,
                "number" => types.number = true,
                "string" => types.string = true,
                "array" => types.array = true,
                "object" => types.object = true,
                _ => return None,
            }
        }
        Some(types)
    }

    fn allow(&self, value: &Value) -> bool {
        match value {
            Value::Null => self.null,
            Value::Bool(_) => self.boolean,
            Value::Number(n) => {
                self.number || (self.integer && (n.is_i64() || n.is_u64() || whole(n.as_f64())))
            }
            Value::String(_) => self.string,
            Value::Array(_) => self.array,
            Value::Object(_) => self.object,
        }
    }
}

fn whole(n: Option<f64>) -> bool {
    n.is_some_and(|n| n.fract() == 0.0)
}

impl Quick {
    /// A whole schema.
    pub(super) fn compile(schema: &Value) -> Option<Quick> {
        Quick::compile_at(schema, true)
    }

    /// A schema within another.
    fn part(schema: &Value) -> Option<Quick> {
        Quick::compile_at(schema, false)
    }

    fn compile_at(schema: &Value, at_root: bool) -> Option<Quick> {
        match schema {
            Value::Bool(true) => Some(Quick::Anything),
            Value::Bool(false) => Some(Quick::Nothing),
            Value::Object(keywords) => {
                Node::compile(keywords, at_root).map(|node| Quick::Node(Box::new(node)))
            }
            _ => None,
        }
    }

    pub(super) fn accepts(&self, value: &Value) -> bool {
        match self {
            Quick::Anything => true,
            Quick::Nothing => false,
            Quick::Node(node) => node.accepts(value),
        }
    }
}

impl Node {
    fn compile(keywords: &Map<String, Value>, at_root: bool) -> Option<Node> {
        let mut node = Node::default();
        for (keyword, value) in keywords {
            match keyword.as_str() {
                "type" => node.types = Some(Types::compile(value)?),
                "enum" => node.options = Some(comparable(value.as_array()?)?),
                "const" => node.options = Some(comparable(std::slice::from_ref(value))?),
                "anyOf" => {
                    node.any_of = Some(value.as_array()?.iter().map(Quick::part).collect::<Option<_>>()?)
                }
                "minimum" => node.minimum = Some(exact(value)?),
                "maximum" => node.maximum = Some(exact(value)?),
                "minLength" => node.min_length = Some(value.as_u64()?),
                "maxLength" => node.max_length = Some(value.as_u64()?),
                "minItems" => node.min_items = Some(value.as_u64()?),
                "maxItems" => node.max_items = Some(value.as_u64()?),
                "items" => node.items = Some(Quick::part(value)?),
                "additionalProperties" => node.additional = Some(Quick::part(value)?),
                "properties" => {
                    for (name, property) in value.as_object()? {
                        node.properties.push((name.clone(), Quick::part(property)?));
                    }
                }
                "required" => {
                    for name in value.as_array()? {
                        node.required.push(name.as_str()?.to_owned());
                    }
                }
                // Annotations assert nothing; so does `format` unless it is asked to.
                "title" | "description" | "default" | "examples" | "format" | "deprecated" | "readOnly"
                | "writeOnly" | "$comment" => {}
                // By these drafts the judge says the same; within a schema one could change what the rest of it means.
                "$schema" if at_root && is_known(value) => {}
                name if name.starts_with("x-") => {}
                _ => return None,
            }
        }
        Some(node)
    }

    fn accepts(&self, value: &Value) -> bool {
        self.types.as_ref().is_none_or(|types| types.allow(value))
            && self.options.as_ref().is_none_or(|options| options.contains(value))
            && self.any_of.as_ref().is_none_or(|variants| variants.iter().any(|v| v.accepts(value)))
            && match value {
                Value::Number(n) => n.as_f64().is_some_and(|n| self.in_range(n)),
                Value::String(text) => self.fits(text),
                Value::Array(items) => self.holds(items),
                Value::Object(members) => self.knows(members),
                Value::Null | Value::Bool(_) => true,
            }
    }

    fn in_range(&self, n: f64) -> bool {
        self.minimum.is_none_or(|min| n >= min) && self.maximum.is_none_or(|max| n <= max)
    }

    fn fits(&self, text: &str) -> bool {
        if self.min_length.is_none() && self.max_length.is_none() {
            return true;
        }
        let chars = text.chars().count() as u64;
        self.min_length.is_none_or(|min| chars >= min) && self.max_length.is_none_or(|max| chars <= max)
    }

    fn holds(&self, items: &[Value]) -> bool {
        let count = items.len() as u64;
        self.min_items.is_none_or(|min| count >= min)
            && self.max_items.is_none_or(|max| count <= max)
            && self.items.as_ref().is_none_or(|schema| items.iter().all(|item| schema.accepts(item)))
    }

    fn knows(&self, members: &Map<String, Value>) -> bool {
        self.required.iter().all(|name| members.contains_key(name))
            && members.iter().all(|(name, value)| {
                match self.properties.iter().find(|(known, _)| known == name) {
                    Some((_, schema)) => schema.accepts(value),
                    None => self.additional.as_ref().is_none_or(|schema| schema.accepts(value)),
                }
            })
    }
}

/// Drafts in which what is understood here means the same.
fn is_known(draft: &Value) -> bool {
    const KNOWN: [&str; 3] = [
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ];
    draft.as_str().is_some_and(|draft| KNOWN.contains(&draft.trim_end_matches('#')))
}

/// Whether there is nothing to repair in arguments that fit and have no other keys than those of the schema: each value is of
/// one kind that nothing is made into, and nothing is put in where it is absent.
pub(super) fn is_plain(schema: &Value) -> bool {
    let scalar = |name: &Value| matches!(name.as_str(), Some("string" | "boolean" | "integer"));
    let plain = |property: &Value| {
        let typed = property.get("type").is_some_and(scalar);
        typed && ["default", "anyOf"].iter().all(|keyword| property.get(keyword).is_none())
    };
    schema.get("type").is_some_and(|name| name == "object")
        && schema.get("additionalProperties").is_none_or(|more| more.is_boolean())
        && schema.get("anyOf").is_none()
        && schema.get("properties").and_then(Value::as_object).is_some_and(|all| all.values().all(plain))
}

/// JSON Schema holds 1 and 1.0 to be equal, `serde_json` does not: leave numbers to the judge.
fn comparable(options: &[Value]) -> Option<Vec<Value>> {
    let plain = |v: &Value| v.is_string() || v.is_boolean() || v.is_null();
    options.iter().all(plain).then(|| options.to_vec())
}

fn exact(limit: &Value) -> Option<f64> {
    limit.as_f64().filter(|n| n.abs() < EXACT)
}
