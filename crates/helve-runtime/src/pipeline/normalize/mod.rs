//! Normalize: raw JSON in, canonical JSON out. Repairs what models habitually get wrong, where nothing is lost by it.
//!
//! | comes | becomes | where |
//! |---|---|---|
//! | text, or a JSON string that holds an object | the object | arguments as a whole |
//! | `{"arguments": {…}}` | what it wraps | unless the tool has such a parameter |
//! | an alias | the canonical key; if both are there, the canonical one wins | every object with declared properties |
//! | `description`, `title`, `reason` | nothing, with a note | keys that the tool does not know |
//! | any other unknown key | a refusal with the known keys and the nearest one | where the schema is closed |
//! | `"5"`, `5.0`, `"true"`, `"[1]"`, enum in another case | what the schema wants | [`coerce`] |
//! | text blocks | their text, where a string is wanted | [`blocks`] |
//! | one object, or JSON of one, for a list of objects | a list of one | [`coerce`] |
//! | `null` for an optional | nothing | where the schema does not allow null |
//! | nothing, for a property with a default | the default | every object with declared properties |
//! | a number out of range | the nearest in range, with a note | properties that say `x-clamp` |
//!
//! Normalizing twice gives the same as once (property test). Nothing is ever made into text by printing it.

mod blocks;
mod coerce;

use helve_core::{Args, ErrorKind, Limits, Problem, ToolError, schema, strict_json};
use serde_json::{Map, Value};

use super::resolve::Found;
use super::validate::{MAX_PROBLEMS, Validator, child, has_nul, push_step, refusal, shown};

/// Keys that models add to any call out of habit and that carry nothing.
const HABITS: &[&str] = &["description", "title", "reason"];
/// How far a `$ref` is followed.
const MAX_REFS: usize = 16;
/// So many parts of a schema are held against the arguments, beside one for each byte of them; what is left then stays as it
/// came.
const MOST_STEPS: usize = 100_000;
/// So many bytes that are copied count as one step.
const BYTES_A_STEP: u64 = 256;

/// Canonical arguments, and what was repaired.
#[derive(Debug, PartialEq)]
pub(crate) struct Normalized {
    pub(crate) args: Value,
    pub(crate) notes: Vec<String>,
}

/// The stage.
pub(crate) fn normalize(
    tool: &str,
    validator: &Validator,
    args: &Args,
    limits: &Limits,
) -> Result<Normalized, ToolError> {
    if let Args::Value(value) = args
        && is_normal(validator, value, limits)
    {
        return Ok(Normalized { args: value.clone(), notes: Vec::new() });
    }
    repair(tool, validator, args, limits)
}

/// The same for arguments in which there may be something to repair.
fn repair(tool: &str, validator: &Validator, args: &Args, limits: &Limits) -> Result<Normalized, ToolError> {
    let schema = validator.schema();
    let object = to_object(tool, schema, args, limits)?;
    let depth = usize::try_from(limits.args_depth).unwrap_or(usize::MAX);
    let mut args = Value::Object(object);
    let more = usize::try_from(weight(&args)).unwrap_or(usize::MAX);
    let mut walk = Walk { steps: MOST_STEPS.saturating_add(more), ..Walk::new(schema, depth) };
    walk.value(schema, &mut args, 0);
    let Walk { notes, problems, .. } = walk;
    if problems.is_empty() {
        Ok(Normalized { args, notes })
    } else {
        Err(collect(tool, validator, &args, problems))
    }
}

/// Whether there is nothing to repair in arguments, and they are not too large. A no says nothing.
fn is_normal(validator: &Validator, value: &Value, limits: &Limits) -> bool {
    let depth = usize::try_from(limits.args_depth).unwrap_or(usize::MAX);
    validator.takes_as_it_is(value)
        && !strict_json::deeper_than(value, depth)
        && weight(value) <= limits.args_bytes
}

/// Whether arguments are normal and valid as they came. Those in a dialect have to become ours first.
pub(crate) fn goes_on(found: Found<'_>, value: &Value, limits: &Limits) -> bool {
    let Found { entry, spoken } = found;
    // What is normal as it came fits the schema.
    spoken.is_none() && is_normal(&entry.arguments, value, limits) && !has_nul(value)
}

/// Unknown keys are found here, everything else by validate: say both at once.
fn collect(tool: &str, validator: &Validator, args: &Value, mut problems: Vec<Problem>) -> ToolError {
    let judged = validator.problems(args).unwrap_or_default();
    problems.extend(judged.into_iter().filter(|problem| !problem.expected.starts_with("only known keys")));
    problems.truncate(MAX_PROBLEMS);
    refusal(tool, validator.schema(), problems)
}

/// The outermost repairs: text, JSON in a string, a wrapping `arguments`.
fn to_object(
    tool: &str,
    schema: &Value,
    args: &Args,
    limits: &Limits,
) -> Result<Map<String, Value>, ToolError> {
    let depth = usize::try_from(limits.args_depth).unwrap_or(usize::MAX);
    let parse = |text: &str| {
        if text.len() as u64 > limits.args_bytes {
            return Err(too_large(tool, limits.args_bytes));
        }
        strict_json::read(text, depth).map_err(|malformed| {
            let problem = Problem::new("", "one strict JSON object", format!("malformed JSON: {malformed}"));
            refusal(tool, schema, vec![problem])
        })
    };
    let mut value = match args {
        Args::Text(text) if text.len() as u64 <= limits.args_bytes && text.trim().is_empty() => Value::Null,
        Args::Text(text) => parse(text)?,
        Args::Value(value) if strict_json::deeper_than(value, depth) => {
            let expected = format!("at most {} levels", limits.args_depth);
            return Err(refusal(tool, schema, vec![Problem::new("", expected, "deeper nesting")]));
        }
        Args::Value(value) if weight(value) > limits.args_bytes => {
            return Err(too_large(tool, limits.args_bytes));
        }
        Args::Value(value) => value.clone(),
    };
    // Each turn takes one layer off; two layers of wrapping and two of quoting are more than any model does.
    for _ in 0..4 {
        value = match value {
            Value::Null => return Ok(Map::new()),
            Value::String(text) if text.trim().is_empty() => return Ok(Map::new()),
            Value::String(text) if text.trim_start().starts_with(['{', '"']) => parse(&text)?,
            Value::Object(mut members) if wraps(schema, &members) => {
                members.remove("arguments").unwrap_or(Value::Null)
            }
            Value::Object(members) => return Ok(members),
            other => {
                let problem = Problem::new("", "a JSON object with the tool's parameters", shown(&other));
                return Err(refusal(tool, schema, vec![problem]));
            }
        };
    }
    let problem = Problem::new("", "a JSON object with the tool's parameters", "several layers of wrapping");
    Err(refusal(tool, schema, vec![problem]))
}

fn wraps(schema: &Value, members: &Map<String, Value>) -> bool {
    members.len() == 1
        && members
            .get("arguments")
            .is_some_and(|inner| inner.is_object() || inner.is_string() || inner.is_null())
        && schema["properties"].get("arguments").is_none()
}

fn too_large(tool: &str, limit: u64) -> ToolError {
    let message = format!("The arguments of '{tool}' are longer than the limit of {limit} bytes.");
    ToolError::new(ErrorKind::TooLarge, message)
        .hint("Send less in one call; only the owner can raise limits.args_bytes.")
}

/// About as many bytes as the value would take as text, for one that never was text.
pub(crate) fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<u64>() + 2,
        Value::Object(members) => {
            members.iter().map(|(k, v)| k.len() as u64 + 4 + weight(v)).sum::<u64>() + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

struct Walk<'s> {
    root: &'s Value,
    /// How deep JSON in a string may nest.
    depth: usize,
    notes: Vec<String>,
    problems: Vec<Problem>,
    pointer: String,
    /// How many steps are left.
    steps: usize,
}

impl<'s> Walk<'s> {
    fn new(root: &'s Value, depth: usize) -> Self {
        Walk { root, depth, notes: Vec::new(), problems: Vec::new(), pointer: String::new(), steps: 0 }
    }

    fn value(&mut self, schema: &'s Value, value: &mut Value, refs: usize) {
        if self.steps == 0 {
            return;
        }
        self.steps -= 1;
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            if let (Some(found), true) = (found, refs < MAX_REFS) {
                self.value(found, value, refs + 1);
            }
            return;
        }
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(part, value, refs);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(variants) = schema.get(keyword).and_then(Value::as_array) {
                self.variants(variants, value, refs);
            }
        }
        if let Some(note) = coerce::coerce(schema, value, self.depth) {
            self.note(note);
        }
        match value {
            Value::Object(members) => self.object(schema, members, refs),
            Value::Array(items) => {
                if let Some(inner) = schema.get("items") {
                    for (i, item) in items.iter_mut().enumerate() {
                        self.step(&i.to_string(), |walk| walk.value(inner, item, refs));
                    }
                }
            }
            _ => {}
        }
    }

    /// Repairs by the first variant that the value then fits; leaves it alone if there is none.
    fn variants(&mut self, variants: &'s [Value], value: &mut Value, refs: usize) {
        if variants.iter().any(|variant| fits_type(variant, value)) && !value.is_object() && !value.is_array()
        {
            return;
        }
        for variant in variants {
            // To copy a large value costs as much as many steps.
            let copied = usize::try_from(weight(value) / BYTES_A_STEP).unwrap_or(usize::MAX);
            let steps = self.steps.saturating_sub(copied);
            if steps == 0 {
                return;
            }
            let mut trial = value.clone();
            let mut walk = Walk { pointer: self.pointer.clone(), steps, ..Walk::new(self.root, self.depth) };
            walk.value(variant, &mut trial, refs);
            self.steps = walk.steps;
            if walk.problems.is_empty() && fits_type(variant, &trial) {
                *value = trial;
                self.notes.append(&mut walk.notes);
                return;
            }
        }
    }

    fn object(&mut self, schema: &'s Value, members: &mut Map<String, Value>, refs: usize) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            if let Some(rest @ Value::Object(_)) = schema.get("additionalProperties") {
                for (key, member) in members.iter_mut() {
                    let key = key.clone();
                    self.step(&key, |walk| walk.value(rest, member, refs));
                }
            }
            return;
        };
        self.rename_aliases(properties, members);
        self.unknown_keys(schema, properties, members);
        let required = |name: &str| {
            schema
                .get("required")
                .and_then(Value::as_array)
                .is_some_and(|keys| keys.iter().any(|k| k == name))
        };
        for (name, property) in properties {
            if members.get(name).is_some_and(Value::is_null) && !required(name) && !allows_null(property) {
                members.shift_remove(name);
            }
            match members.get_mut(name) {
                Some(member) => self.step(name, |walk| walk.value(property, member, refs)),
                None => {
                    if let Some(default) = property.get("default").filter(|default| !default.is_null()) {
                        members.insert(name.clone(), default.clone());
                    }
                }
            }
        }
    }

    fn rename_aliases(&mut self, properties: &Map<String, Value>, members: &mut Map<String, Value>) {
        if members.keys().all(|key| properties.contains_key(key)) {
            return;
        }
        for (name, property) in properties {
            for alias in schema::aliases(property) {
                if properties.contains_key(alias) {
                    continue;
                }
                let Some(value) = members.shift_remove(alias) else { continue };
                match members.get(name) {
                    None => {
                        members.insert(name.clone(), value);
                    }
                    Some(canonical) if *canonical == value => {}
                    Some(_) => {
                        self.note(format!("both '{name}' and its alias '{alias}' came; '{name}' was used"))
                    }
                }
            }
        }
    }

    fn unknown_keys(
        &mut self,
        schema: &Value,
        properties: &Map<String, Value>,
        members: &mut Map<String, Value>,
    ) {
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            return;
        }
        members.retain(|key, value| {
            if properties.contains_key(key) {
                return true;
            }
            if HABITS.contains(&key.as_str()) {
                self.note(format!("'{key}' is not a parameter of this tool and was left out"));
            } else if self.problems.len() < MAX_PROBLEMS {
                self.problems.push(self.unknown_key(properties, key, value));
            }
            false
        });
    }

    fn unknown_key(&self, properties: &Map<String, Value>, key: &str, value: &Value) -> Problem {
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let mut expected = format!("one of the known keys {}", known.join(", "));
        if let Some(nearest) = crate::nearest(key, known.iter().copied()) {
            expected.push_str(&format!(" (did you mean '{nearest}'?)"));
        }
        Problem::new(child(&self.pointer, key), expected, format!("unknown key, {}", shown(value)))
    }

    fn step(&mut self, step: &str, act: impl FnOnce(&mut Self)) {
        let before = self.pointer.len();
        push_step(&mut self.pointer, step);
        act(self);
        self.pointer.truncate(before);
    }

    fn note(&mut self, note: String) {
        if self.notes.len() >= MAX_PROBLEMS {
            return;
        }
        let place = if self.pointer.is_empty() { String::new() } else { format!("{}: ", self.pointer) };
        self.notes.push(format!("{place}{note}"));
    }
}

/// Whether a value is of a type that the schema names; true if it names none.
fn fits_type(schema: &Value, value: &Value) -> bool {
    let mut named = false;
    for name in schema::types(schema) {
        named = true;
        if coerce::is_type(name, value) {
            return coerce::in_enum(schema, value);
        }
    }
    !named && coerce::in_enum(schema, value)
}

fn allows_null(property: &Value) -> bool {
    let mut named = false;
    for name in schema::types(property) {
        named = true;
        if name == "null" {
            return true;
        }
    }
    let variants = ["anyOf", "oneOf"].into_iter().filter_map(|k| property.get(k)?.as_array()).flatten();
    let mut nested = variants.peekable();
    if nested.peek().is_some() {
        return nested.any(allows_null);
    }
    !named && property.get("enum").is_none_or(|e| e.as_array().is_some_and(|o| o.contains(&Value::Null)))
}

#[cfg(test)]
mod tests;
