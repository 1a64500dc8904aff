//! One configuration file as a tree of values with line numbers, the same for TOML and JSON.
//!
//! In comes text, out goes a [`Node`]. Not here: which keys exist and what they mean.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and the line on which it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Raw,
    /// Counted from 1; absent in JSON, whose reader does not tell.
    pub(crate) line: Option<usize>,
    /// The text as typed, where a shell has already removed the quotes: on the command line.
    pub(crate) spelled: Option<String>,
}

impl Node {
    fn new(value: Raw) -> Self {
        Node { value, line: None, spelled: None }
    }
}

/// A value of any type that TOML or JSON can hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    /// JSON's null: as if the key were not written.
    Null,
    Bool(bool),
    Integer(i64),
    /// Any other number, as written.
    Number(String),
    Text(String),
    Date(String),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Raw {
    /// The value as an error message names it, cut to a length that stays readable.
    pub(crate) fn describe(&self) -> String {
        match self {
            Raw::Null => "null".into(),
            Raw::Bool(b) => format!("the boolean {b}"),
            Raw::Integer(n) => format!("the number {n}"),
            Raw::Number(n) => format!("the number {}", shorten(n)),
            Raw::Text(t) => format!("the string {:?}", shorten(t)),
            Raw::Date(d) => format!("the date {}", shorten(d)),
            Raw::List(_) => "a list".into(),
            Raw::Table(_) => "a table".into(),
        }
    }

    /// The value in JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Raw::Null => serde_json::Value::Null,
            Raw::Bool(value) => (*value).into(),
            Raw::Integer(number) => (*number).into(),
            Raw::Number(text) | Raw::Text(text) | Raw::Date(text) => text.clone().into(),
            Raw::List(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Raw::Table(entries) => {
                entries.iter().map(|(key, node)| (key.clone(), node.value.to_json())).collect()
            }
        }
    }
}

fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// What is wrong with the text, and on which line.
#[derive(Debug, PartialEq)]
pub(crate) struct SyntaxError {
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
}

/// Reads a whole file. JSON if `json` says so or the text starts with `{`, which no TOML file does.
pub(crate) fn parse(text: &str, json: bool) -> Result<Node, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if json || text.trim_start().starts_with('{') { parse_json(text) } else { parse_toml(text) }
}

/// Reads `a.b=value` of the command line, or `a.b = value` as it stands in a file: the value as TOML, else as a string.
pub(crate) fn parse_assignment(text: &str) -> Result<Node, String> {
    let wrong = || format!("expected key=value, such as `tools.exec.timeout=30`, received {text:?}");
    let (key, spelled) = text.split_once('=').ok_or_else(wrong)?;
    let parsed =
        DeValue::parse(spelled.trim()).ok().map(|value| from_toml(value.get_ref(), &Lines::new("")).value);
    let value = parsed.unwrap_or_else(|| Raw::Text(spelled.to_owned()));
    let mut node = Node { value, line: None, spelled: Some(spelled.to_owned()) };
    if let Raw::Text(text) = &node.value {
        node.spelled = Some(text.clone());
    }
    let parts: Vec<&str> = key.split('.').map(str::trim).collect();
    if parts.iter().any(|part| part.is_empty()) || parts.len() > MAX_KEY_PARTS {
        return Err(wrong());
    }
    for part in parts.iter().rev() {
        node = Node::new(Raw::Table(vec![((*part).to_owned(), node)]));
    }
    Ok(node)
}

/// No key has more parts.
const MAX_KEY_PARTS: usize = 16;

fn parse_toml(text: &str) -> Result<Node, SyntaxError> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| SyntaxError {
        line: error.span().map(|span| lines.number(span.start)),
        message: error.message().to_owned(),
    })?;
    Ok(Node::new(from_table(table.get_ref(), &lines)))
}

fn from_table(table: &DeTable<'_>, lines: &Lines) -> Raw {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let mut node = from_toml(value.get_ref(), lines);
        node.line = Some(lines.number(key.span().start));
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        (key.to_string(), node)
    };
    Raw::Table(table.iter().map(entry).collect())
}

fn from_toml(value: &DeValue<'_>, lines: &Lines) -> Node {
    let element = |item: &Spanned<DeValue<'_>>| {
        let mut node = from_toml(item.get_ref(), lines);
        node.line = Some(lines.number(item.span().start));
        node
    };
    let value = match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Integer(number),
            Err(_) => Raw::Number(number.to_string()),
        },
        DeValue::Float(number) => Raw::Number(number.to_string()),
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Datetime(date) => Raw::Date(date.to_string()),
        DeValue::Array(items) => Raw::List(items.iter().map(element).collect()),
        DeValue::Table(table) => from_table(table, lines),
    };
    Node::new(value)
}

fn parse_json(text: &str) -> Result<Node, SyntaxError> {
    let value: Raw = serde_json::from_str(text)
        .map_err(|error| SyntaxError { line: Some(error.line()), message: error.to_string() })?;
    match value {
        Raw::Table(_) => Ok(Node::new(value)),
        other => Err(SyntaxError {
            line: None,
            message: format!("expected an object at the top, received {}", other.describe()),
        }),
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(i64::try_from(value).map_or_else(|_| Raw::Number(value.to_string()), Raw::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = items.next_element()? {
            list.push(Node::new(value));
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut table = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some((key, value)) = entries.next_entry::<String, Raw>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("the key `{key}` is written twice")));
            }
            table.push((key, Node::new(value)));
        }
        Ok(Raw::Table(table))
    }
}

/// Where the lines of a text start, to turn offsets into line numbers.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Lines(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    fn number(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset) + 1
    }
}
