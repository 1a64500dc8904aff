//! Where in a document: JSON Pointer (`/a/0`), JSONPath (`$.a[*]`), or plain names (`a.b[0]`).
//!
//! A path that names one place is walked here, so that a miss can say where the way ends. Everything else is JSONPath
//! (RFC 9535) and may find any number of values; its cost is bounded before it runs, because a short path such as
//! `$..*..*..*` can ask for more values than a memory holds.

use helve_core::{ErrorKind, ToolError};
use serde_json::Value;
use serde_json_path::JsonPath;

/// The longest path.
pub(super) const MAX_LENGTH: usize = 1_000;
/// The deepest nesting of brackets in a path: its reader is recursive.
const MAX_NESTING: usize = 8;
/// The most steps that one query may take, as far as they can be told before.
const MAX_STEPS: u64 = 4_000_000;

/// What a path found.
#[derive(Debug, PartialEq)]
pub(super) enum Found<'a> {
    /// The one value at the place that the path names.
    One(&'a Value),
    /// Every value that the path selects, in document order.
    Many(Vec<&'a Value>),
}

/// Looks for `path` in `value`.
pub(super) fn find<'a>(value: &'a Value, path: &str) -> Result<Found<'a>, ToolError> {
    if path.len() > MAX_LENGTH {
        return Err(ToolError::failed(format!("The path is longer than {MAX_LENGTH} bytes."))
            .hint("Query in several steps."));
    }
    if let Some(steps) = pointer(path)?.or_else(|| plain(path)) {
        return walk(value, &steps).map(Found::One);
    }
    let full = match path.as_bytes() {
        [b'$', ..] => path.to_owned(),
        [b'[', ..] => format!("${path}"),
        _ => format!("$.{path}"),
    };
    let shape = Shape::of(&full);
    if shape.nesting > MAX_NESTING {
        return Err(ToolError::failed(format!(
            "The path nests its brackets deeper than {MAX_NESTING} levels."
        ))
        .hint("Query in several steps."));
    }
    let query = JsonPath::parse(&full).map_err(|error| {
        ToolError::failed(format!("The path '{path}' is not valid JSONPath: {error}.")).hint(
            "Use a JSON Pointer (/items/0/name), plain names (items[0].name), or JSONPath: $.items[*].name, \
             $.items[?@.price < 10], $..name. Of functions there are length, count and value.",
        )
    })?;
    if shape.steps(value, full.len()) > MAX_STEPS {
        return Err(ToolError::new(ErrorKind::TooLarge, format!("The path '{path}' could take too many steps."))
            .hint("Use fewer '..', lists in brackets and '$' inside filters, or query a part of the document first."));
    }
    Ok(Found::Many(query.query(value).all()))
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A key of an object, or an index of an array in decimal digits.
    Name(String),
    /// An index of an array; a negative one counts from its end.
    Index(i64),
}

/// The steps of a JSON Pointer; none if it is not one.
fn pointer(path: &str) -> Result<Option<Vec<Step>>, ToolError> {
    if !path.is_empty() && !path.starts_with('/') {
        return Ok(None);
    }
    let mut steps = Vec::new();
    for token in path.split('/').skip(1) {
        let bad_escape = token.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']));
        if bad_escape {
            return Err(ToolError::failed(format!(
                "The JSON Pointer '{path}' has a '~' that is not '~0' or '~1'."
            ))
            .hint("In a JSON Pointer write '~' as '~0' and '/' inside a key as '~1'."));
        }
        steps.push(Step::Name(token.replace("~1", "/").replace("~0", "~")));
    }
    Ok(Some(steps))
}

/// The steps of `$.a.b[0]['c d']` or the same without `$`; none if the path is anything else.
fn plain(path: &str) -> Option<Vec<Step>> {
    let dotted;
    let mut rest = match path.strip_prefix('$') {
        Some(rest) => rest,
        None if path.starts_with('[') => path,
        None => {
            dotted = format!(".{path}");
            &dotted
        }
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, next) = after.split_at(end);
            let odd = |c: char| c.is_whitespace() || "*?,:()@$'\"]\\<>=!&|".contains(c);
            if name.is_empty() || name.contains(odd) {
                return None;
            }
            steps.push(Step::Name(name.to_owned()));
            rest = next;
        } else {
            let (inner, next) = rest.strip_prefix('[')?.split_once(']')?;
            steps.push(bracketed(inner)?);
            rest = next;
        }
    }
    Some(steps)
}

fn bracketed(inner: &str) -> Option<Step> {
    if let Ok(index) = inner.parse() {
        return Some(Step::Index(index));
    }
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let name = inner.strip_prefix(quote)?.strip_suffix(quote)?;
    (!name.contains([quote, '\\'])).then(|| Step::Name(name.to_owned()))
}

fn walk<'a>(value: &'a Value, steps: &[Step]) -> Result<&'a Value, ToolError> {
    let mut here = value;
    let mut place = String::new();
    for step in steps {
        let next = match (here, step) {
            (Value::Object(object), Step::Name(name)) => object.get(name),
            (Value::Array(array), Step::Name(name)) => array_index(name).and_then(|index| array.get(index)),
            (Value::Array(array), Step::Index(index)) => {
                let from_end = usize::try_from(index.unsigned_abs()).ok();
                let index =
                    if *index < 0 { from_end.and_then(|n| array.len().checked_sub(n)) } else { from_end };
                index.and_then(|index| array.get(index))
            }
            _ => None,
        };
        let Some(next) = next else { return Err(miss(here, step, &place)) };
        place.push('/');
        match step {
            Step::Name(name) => place.push_str(&name.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => place.push_str(&index.to_string()),
        }
        here = next;
    }
    Ok(here)
}

/// Digits without a leading zero, as RFC 6901 has it.
fn array_index(name: &str) -> Option<usize> {
    let plain = name == "0" || !name.starts_with(['0', '+']);
    plain.then(|| name.parse().ok()).flatten()
}

/// Keys that a miss lists at the most.
const SHOWN_KEYS: usize = 20;

fn miss(here: &Value, step: &Step, place: &str) -> ToolError {
    let wanted = match step {
        Step::Name(name) => format!("key '{name}'"),
        Step::Index(index) => format!("index {index}"),
    };
    let place = if place.is_empty() { "the top of the document".to_owned() } else { format!("'{place}'") };
    let (is, hint) = match here {
        Value::Object(object) if object.is_empty() => ("an empty object", String::new()),
        Value::Object(object) => {
            let keys: Vec<String> =
                object.keys().take(SHOWN_KEYS).map(|key| key.chars().take(60).collect()).collect();
            let more = if object.len() > SHOWN_KEYS { ", …" } else { "" };
            ("an object", format!("Its {} keys: {}{more}.", object.len(), keys.join(", ")))
        }
        Value::Array(array) if array.is_empty() => ("an empty array", String::new()),
        Value::Array(array) => ("an array", format!("Its indexes are 0 to {}.", array.len() - 1)),
        other => (super::kind(other), "It has no parts.".to_owned()),
    };
    let error = ToolError::not_found(format!("No {wanted} at {place}, which is {is}."));
    if hint.is_empty() { error } else { error.hint(hint) }
}

/// What makes a path costly.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    nesting: usize,
    /// `..`
    descents: u32,
    /// In how many ways the selectors of all brackets combine.
    branches: u64,
    /// `$` inside a filter, which looks at the document once for each candidate.
    roots: u32,
}

impl Shape {
    /// Reads the characters outside quotes; counts too much rather than too little.
    fn of(path: &str) -> Shape {
        let mut shape = Shape { nesting: 0, descents: 0, branches: 1, roots: 0 };
        let mut open: Vec<u64> = Vec::new();
        let mut chars = path.chars().skip(1).peekable();
        while let Some(c) = chars.next() {
            match c {
                '\'' | '"' => {
                    while let Some(inner) = chars.next() {
                        match inner {
                            '\\' => drop(chars.next()),
                            inner if inner == c => break,
                            _ => {}
                        }
                    }
                }
                '[' | '(' => {
                    open.push(1);
                    shape.nesting = shape.nesting.max(open.len());
                }
                ']' | ')' => shape.branches = shape.branches.saturating_mul(open.pop().unwrap_or(1)),
                ',' => open.iter_mut().last().into_iter().for_each(|count| *count += 1),
                '.' if chars.peek() == Some(&'.') => {
                    chars.next();
                    shape.descents += 1;
                }
                '$' => shape.roots += 1,
                _ => {}
            }
        }
        shape
    }

    /// An upper bound on the values that the query looks at.
    fn steps(&self, value: &Value, path_length: usize) -> u64 {
        let mut size = Size::default();
        size.measure(value, 1);
        // The first descent meets each value once, every further one once for each value above it.
        let descents = size.depth.saturating_pow(self.descents.saturating_sub(1));
        let roots = size.values.saturating_pow(self.roots);
        // A filter may name the same thing many times over.
        let terms = 1 + path_length as u64 / 64;
        [descents, roots, self.branches, terms].into_iter().fold(size.values, u64::saturating_mul)
    }
}

#[derive(Default)]
struct Size {
    /// Values, long strings counted as several.
    values: u64,
    depth: u64,
}

impl Size {
    fn measure(&mut self, value: &Value, depth: u64) {
        self.values += 1;
        self.depth = self.depth.max(depth);
        match value {
            Value::String(text) => self.values += text.len() as u64 / 64,
            Value::Array(items) => items.iter().for_each(|item| self.measure(item, depth + 1)),
            Value::Object(members) => members.values().for_each(|member| self.measure(member, depth + 1)),
            _ => {}
        }
    }
}
