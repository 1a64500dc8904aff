//! Validate: canonical JSON in, valid arguments out, or every problem at once with pointer, expected and received.
//!
//! The judge is the `jsonschema` crate (the draft that the schema names, else 2020-12; no remote or file references). Its first compile costs milliseconds a
//! process, so it is made only when it is needed: [`quick`] accepts the ordinary cases of ordinary schemas without it,
//! and whatever `quick` does not accept goes to the judge. A schema may come from elsewhere: `reach` says how much the judge
//! may be asked by it.

mod quick;
mod reach;

use std::sync::OnceLock;

use helve_core::{Problem, ToolError};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, PatternOptions};
use serde_json::Value;

use quick::Quick;
use reach::{Effort, Reach};

/// So many problems help a model; more only cost it.
pub(crate) const MAX_PROBLEMS: usize = 20;
/// So much of a key is shown.
const MAX_KEY_CHARS: usize = 80;

/// So often may a pattern go back in a text before it counts as not matching, and so large may it be.
const MOST_STEPS_BACK: usize = 20_000;
const PATTERN_BYTES: usize = 1 << 20;

/// A schema that is compiled at most once, and only when needed.
pub(crate) struct Validator {
    schema: Value,
    quick: OnceLock<Option<Quick>>,
    plain: OnceLock<bool>,
    full: OnceLock<Result<Judge, String>>,
}

/// The judge, and how much it may be asked.
struct Judge {
    judge: jsonschema::Validator,
    reach: Reach,
}

/// The draft by which a schema is judged: the one that it names, or the newest.
fn draft_of(schema: &Value) -> Draft {
    let named = schema.get("$schema").and_then(Value::as_str).map(Draft::from_schema_uri);
    named.filter(|draft| *draft != Draft::Unknown).unwrap_or_default()
}

impl Judge {
    fn new(schema: &Value) -> Result<Judge, String> {
        let reach = Reach::of(schema)?;
        let patterns =
            PatternOptions::fancy_regex().backtrack_limit(MOST_STEPS_BACK).size_limit(PATTERN_BYTES);
        // What a format means is left to the tool in all drafts; some would judge by it.
        let options = jsonschema::options().with_draft(draft_of(schema)).should_validate_formats(false);
        let judge = options.with_pattern_options(patterns).build(schema);
        Ok(Judge { judge: judge.map_err(|error| error.to_string())?, reach })
    }

    fn problems(&self, value: &Value) -> Vec<Problem> {
        let one = |expected: &str| vec![Problem::new("", expected, shown(value))];
        match self.reach.effort(value) {
            Effort::Everything => {
                self.judge.iter_errors(value).flat_map(|error| describe(&error)).take(MAX_PROBLEMS).collect()
            }
            Effort::Verdict if self.judge.is_valid(value) => Vec::new(),
            Effort::Verdict => one("a value that fits the schema"),
            Effort::Nothing => one("a value that nests less deep"),
        }
    }
}

impl Validator {
    pub(crate) fn new(schema: Value) -> Self {
        Validator { schema, quick: OnceLock::new(), plain: OnceLock::new(), full: OnceLock::new() }
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether `value` is valid and there is nothing in it that normalize would change. A no says nothing.
    pub(crate) fn takes_as_it_is(&self, value: &Value) -> bool {
        let Some(members) = value.as_object() else { return false };
        // A key that the schema does not have may be another word for one that it has.
        let known = self.schema.get("properties").and_then(Value::as_object);
        let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
        *self.plain.get_or_init(|| quick::is_plain(&self.schema))
            && members.iter().all(|(name, member)| is_known(name) && !member.is_f64())
            && self.is_quick(value)
    }

    fn is_quick(&self, value: &Value) -> bool {
        let quick = self.quick.get_or_init(|| Quick::compile(&self.schema));
        quick.as_ref().is_some_and(|quick| quick.accepts(value))
    }

    /// Every problem of `value`; empty if it is valid. The outer error is a schema that does not compile.
    pub(crate) fn problems(&self, value: &Value) -> Result<Vec<Problem>, String> {
        if self.is_quick(value) {
            return Ok(Vec::new());
        }
        let full = self.full.get_or_init(|| Judge::new(&self.schema));
        Ok(full.as_ref().map_err(Clone::clone)?.problems(value))
    }
}

/// The stage: refuses arguments that do not fit.
pub(crate) fn validate(tool: &str, validator: &Validator, args: &Value) -> Result<(), ToolError> {
    let mut problems = validator
        .problems(args)
        .map_err(|error| ToolError::internal(format!("The schema of '{tool}' does not compile: {error}")))?;
    nul_bytes(args, &mut String::new(), &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(refusal(tool, validator.schema(), problems)) }
}

/// An `invalid_params` with a hint that names the known keys.
pub(crate) fn refusal(tool: &str, schema: &Value, problems: Vec<Problem>) -> ToolError {
    let known: Vec<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(k, _)| k.as_str()).collect();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut hint = format!("Correct the listed parameters and call '{tool}' again.");
    if !known.is_empty() {
        hint.push_str(&format!(" Parameters: {}.", known.join(", ")));
    }
    if !required.is_empty() {
        hint.push_str(&format!(" Required: {}.", required.join(", ")));
    }
    ToolError::invalid(tool, problems).hint(hint)
}

/// Whether a NUL character stands anywhere.
pub(crate) fn has_nul(value: &Value) -> bool {
    let in_text = |text: &str| text.as_bytes().contains(&0);
    match value {
        Value::String(text) => in_text(text),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(key, member)| in_text(key) || has_nul(member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// NUL cannot stand in a path, a command or an environment variable; in any other text it is a mistake as well.
fn nul_bytes(value: &Value, pointer: &mut String, problems: &mut Vec<Problem>) {
    if problems.len() >= MAX_PROBLEMS {
        return;
    }
    match value {
        Value::String(text) if text.contains('\0') => {
            problems.push(Problem::new(pointer.as_str(), "text without a NUL character", shown(value)));
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let before = pointer.len();
                push_step(pointer, &i.to_string());
                nul_bytes(item, pointer, problems);
                pointer.truncate(before);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                if key.contains('\0') {
                    let received = Value::String(key.clone());
                    problems.push(Problem::new(
                        pointer.as_str(),
                        "keys without a NUL character",
                        shown(&received),
                    ));
                }
                let before = pointer.len();
                push_step(pointer, key);
                nul_bytes(member, pointer, problems);
                pointer.truncate(before);
            }
        }
        _ => {}
    }
}

/// Adds a step to a JSON pointer; truncate it to its former length to go back.
pub(crate) fn push_step(pointer: &mut String, step: &str) {
    pointer.push('/');
    if step.chars().nth(MAX_KEY_CHARS).is_some() {
        pointer.extend(step.chars().take(MAX_KEY_CHARS));
        pointer.push('…');
        return;
    }
    if step.contains(['~', '/']) {
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(step);
    }
}

/// The pointer one step further.
pub(crate) fn child(pointer: &str, step: &str) -> String {
    let mut pointer = pointer.to_owned();
    push_step(&mut pointer, step);
    pointer
}

fn describe(error: &jsonschema::ValidationError<'_>) -> Vec<Problem> {
    let pointer = error.instance_path().to_string();
    let received = shown(error.instance());
    let one = |expected: String| vec![Problem::new(pointer.clone(), expected, received.clone())];
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![Problem::new(child(&pointer, name), "a value (required)", "nothing")]
        }
        ValidationErrorKind::Type { kind } => one(match kind {
            TypeKind::Single(kind) => kind.to_string(),
            // An optional parameter allows null; nobody has to be told to send it.
            TypeKind::Multiple(kinds) => {
                let names = kinds.iter().map(|kind| kind.to_string()).filter(|name| name != "null");
                names.collect::<Vec<_>>().join(" or ")
            }
        }),
        ValidationErrorKind::Enum { options } => one(format!("one of {options}")),
        ValidationErrorKind::Constant { expected_value } => one(expected_value.to_string()),
        ValidationErrorKind::Minimum { limit } => one(format!("at least {limit}")),
        ValidationErrorKind::Maximum { limit } => one(format!("at most {limit}")),
        ValidationErrorKind::ExclusiveMinimum { limit } => one(format!("more than {limit}")),
        ValidationErrorKind::ExclusiveMaximum { limit } => one(format!("less than {limit}")),
        ValidationErrorKind::MinLength { limit } => one(format!("at least {limit} characters")),
        ValidationErrorKind::MaxLength { limit } => one(format!("at most {limit} characters")),
        ValidationErrorKind::MinItems { limit } => one(format!("at least {limit} items")),
        ValidationErrorKind::MaxItems { limit } => one(format!("at most {limit} items")),
        ValidationErrorKind::Pattern { pattern } => one(format!("text that matches {pattern}")),
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            one(format!("only known keys, not {}", unexpected.join(", ")))
        }
        _ => one(error.to_string()),
    }
}

/// A value as an error shows it: its type, and its beginning.
pub(crate) fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(b) => return format!("boolean {b}"),
        Value::Number(n) => return format!("number {n}"),
        Value::String(s) if s.chars().count() <= 60 => return format!("string {value}"),
        Value::String(s) => {
            let start: String = s.chars().take(60).collect();
            return format!("string {}… ({} characters)", Value::String(start), s.chars().count());
        }
        Value::Array(items) => format!("array of {} items", items.len()),
        Value::Object(members) => format!("object with {} keys", members.len()),
    };
    let json = value.to_string();
    if json.len() <= 60 { format!("{text} {json}") } else { text }
}

#[cfg(test)]
mod tests;
