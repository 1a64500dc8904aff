//! The types that a key may have, and the check of one written value against them.
//!
//! In comes a [`Node`] of a file, out goes a [`Value`] that needs no further check, or what was expected and what came.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use helve_core::{DenyRead, Verdict};
use helve_shell::Template;

use super::document::{Node, Raw};
use super::hook::Hook;
use super::server::{self, ServerTool};
use crate::guard::Pattern;
use crate::rules::Rule;
use crate::secrets::SecretSource;

/// The longest time that can be configured: a year, which no clock arithmetic overflows.
const MAX_SECONDS: u64 = 366 * 24 * 3600;

/// The largest number that TOML can write.
const MAX_COUNT: u64 = i64::MAX.unsigned_abs();

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number, this or more.
    AtLeast(u64),
    /// A number of calls from 1 on.
    Calls,
    /// A whole number of seconds from 1 to a year.
    Seconds,
    /// A number from 0 to this, with at most six digits that count behind the point.
    Decimal(u64),
    /// A model: `provider:name`.
    ModelName,
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of some of these words.
    Words(&'static [&'static str]),
    /// What is refused: a list of regular expressions and names of built-in rules, searched anywhere and in any case.
    DenyPatterns,
    /// What is asked about: the same kind of list.
    AskPatterns,
    /// A list of regular expressions that have to match a whole command.
    WholePatterns,
    /// A list of absolute paths; `~` stands for the home directory.
    Paths,
    /// A list of names of environment variables.
    VariableNames,
    /// A list of names of files.
    FileNames,
    /// A list of patterns of paths, as in a `.gitignore` file.
    PathPatterns,
    /// The name of a shell or the absolute path of one.
    Shell,
    /// A command template with `{command}`.
    Template,
    /// The name of a session.
    SessionName,
    /// A program with its arguments: a list whose first element is an absolute path.
    Program,
    /// A list of any strings.
    Texts,
    /// A list of names of tools, in which `*` stands for any characters.
    ToolPatterns,
    /// A table of environment variables, whose values are not shown.
    Variables,
    /// A table of headers, whose values are not shown.
    Headers,
    /// A table of headers, each with the variable that holds its value.
    HeaderVariables,
    /// The name of an environment variable.
    VariableName,
    /// An address: `https:`, or `http:` to this machine.
    Url,
    /// A table of tools of a server, each a table with `enabled` and `approval`.
    ServerTools,
    /// A list of tables, each with `env` or `file`.
    Secrets,
    /// A list of tables, each a rule; those of later layers are added to those of earlier ones.
    Rules,
    /// A list of tables, each a program that hears of calls or sessions; those of later layers are added.
    Hooks,
}

impl Kind {
    /// What an error message says was expected.
    pub fn expected(self) -> String {
        match self {
            Kind::Bool => "true or false".into(),
            Kind::AtLeast(least) => format!("a whole number, {least} or more, at most {MAX_COUNT}"),
            Kind::Calls => format!(
                "a whole number of calls from 1 to {} (to forbid a tool, write `enabled = false`)",
                crate::rate::MAX_CALLS_PER_HOUR
            ),
            Kind::Seconds => format!("a whole number of seconds from 1 to {MAX_SECONDS}"),
            Kind::Decimal(most) => format!("a number from 0 to {most}"),
            Kind::ModelName => "a model as \"provider:name\", such as \"ollama:qwen3\"".into(),
            Kind::Text => "a string".into(),
            Kind::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                quoted.join(" or ")
            }
            Kind::Words(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                format!("a list of {}", quoted.join(", "))
            }
            Kind::DenyPatterns | Kind::AskPatterns => {
                "a list of regular expressions and names of built-in rules".into()
            }
            Kind::WholePatterns => "a list of regular expressions".into(),
            Kind::Paths => "a list of absolute paths".into(),
            Kind::VariableNames => "a list of names of environment variables".into(),
            Kind::FileNames => "a list of names of files, without `/`".into(),
            Kind::PathPatterns => {
                "a list of patterns as in a .gitignore file, such as \".env\" or \"*.pem\"".into()
            }
            Kind::Shell => "the name of a shell, such as \"bash\", or the absolute path of one".into(),
            Kind::Template => "a command template that holds {command}".into(),
            Kind::SessionName => "1 to 100 letters, digits, `.`, `_` or `-`, not starting with `.`".into(),
            Kind::Program => "a list of strings: the absolute path of a program and its arguments".into(),
            Kind::Texts => "a list of strings".into(),
            Kind::ToolPatterns => "a list of names of tools, in which `*` stands for any characters".into(),
            Kind::Variables => "a table of variables, each a string".into(),
            Kind::Headers => "a table of headers, each a string".into(),
            Kind::HeaderVariables => "a table of headers, each with the name of a variable".into(),
            Kind::VariableName => "the name of an environment variable".into(),
            Kind::Url => "an address such as \"https://example.com\"".into(),
            Kind::ServerTools => "a table of tools, each a table with `enabled` or `approval`".into(),
            Kind::Secrets => "a list of tables, each with one of `env` and `file`".into(),
            Kind::Rules => "a list of tables, each a rule".into(),
            Kind::Hooks => "a list of tables, each with `on` and `program`".into(),
        }
    }

    /// Whether a bare word on the command line is meant as text even where TOML reads something else.
    fn is_text(self) -> bool {
        matches!(
            self,
            Kind::Text
                | Kind::Choice(_)
                | Kind::Shell
                | Kind::Template
                | Kind::SessionName
                | Kind::ModelName
                | Kind::VariableName
                | Kind::Url
        )
    }
}

/// A checked value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Bool(bool),
    Count(u64),
    /// A decimal number, in millionths.
    Millionths(u64),
    Text(String),
    List(Vec<String>),
    Patterns(Vec<Pattern>),
    Secrets(Vec<SecretSource>),
    Rules(Vec<Rule>),
    Hooks(Vec<Hook>),
    /// A table whose values are not shown.
    Hidden(BTreeMap<String, String>),
    Names(BTreeMap<String, String>),
    ServerTools(BTreeMap<String, ServerTool>),
}

/// What stands in the place of a value that is not shown.
pub(crate) const HIDDEN: &str = "(hidden)";

impl Value {
    /// The value as `helve config show` prints it.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Bool(value) => (*value).into(),
            Value::Count(number) => (*number).into(),
            Value::Millionths(number) => serde_json::from_str(&decimal(*number)).unwrap_or_default(),
            Value::Text(text) => text.clone().into(),
            Value::List(items) => items.clone().into(),
            Value::Patterns(patterns) => patterns.iter().map(Pattern::source).collect(),
            Value::Secrets(sources) => sources.iter().map(SecretSource::to_json).collect(),
            Value::Rules(rules) => rules.iter().map(|rule| rule.written.clone()).collect(),
            Value::Hooks(hooks) => hooks.iter().map(Hook::to_json).collect(),
            Value::Hidden(table) => {
                table.keys().map(|name| (name.clone(), serde_json::Value::from(HIDDEN))).collect()
            }
            Value::Names(table) => table
                .iter()
                .map(|(name, text)| (name.clone(), serde_json::Value::from(text.as_str())))
                .collect(),
            Value::ServerTools(tools) => {
                tools.iter().map(|(name, tool)| (name.clone(), tool.to_json())).collect()
            }
        }
    }
}

/// A number of millionths as a decimal, without zeros that say nothing.
pub(crate) fn decimal(millionths: u64) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Checks one value. The error is a sentence of its own that says what was expected and what came.
pub(crate) fn check(kind: Kind, node: &Node, home: Option<&Path>) -> Result<Value, String> {
    let wrong = || format!("expected {}, received {}", kind.expected(), node.value.describe());
    if let (true, Some(text)) = (kind.is_text(), &node.spelled) {
        return check_text(kind, text);
    }
    match (kind, &node.value) {
        (Kind::Bool, Raw::Bool(value)) => Ok(Value::Bool(*value)),
        (Kind::AtLeast(_) | Kind::Calls | Kind::Seconds, Raw::Integer(number)) => {
            let range = match kind {
                Kind::AtLeast(least) => least..=MAX_COUNT,
                Kind::Calls => 1..=u64::from(crate::rate::MAX_CALLS_PER_HOUR),
                Kind::Seconds => 1..=MAX_SECONDS,
                _ => 1..=MAX_COUNT,
            };
            let number = u64::try_from(*number).ok().filter(|number| range.contains(number));
            number.map(Value::Count).ok_or_else(wrong)
        }
        (Kind::Decimal(most), Raw::Integer(_) | Raw::Number(_)) => {
            let number = match &node.value {
                Raw::Integer(number) => Some(*number as f64),
                Raw::Number(written) => written.parse().ok(),
                _ => None,
            };
            let number = number.filter(|number: &f64| (0.0..=most as f64).contains(number));
            number.map(|number| Value::Millionths((number * 1e6).round() as u64)).ok_or_else(wrong)
        }
        (kind, Raw::Text(text)) if kind.is_text() => check_text(kind, text),
        (
            Kind::DenyPatterns
            | Kind::AskPatterns
            | Kind::WholePatterns
            | Kind::Paths
            | Kind::VariableNames
            | Kind::FileNames
            | Kind::PathPatterns
            | Kind::Words(_)
            | Kind::Program,
            Raw::List(items),
        ) => {
            let texts = items.iter().map(|item| match &item.value {
                Raw::Text(text) => Ok(text.as_str()),
                other => Err(format!("expected {}, received {} in it", kind.expected(), other.describe())),
            });
            check_list(kind, &texts.collect::<Result<Vec<_>, _>>()?, home)
        }
        (
            Kind::Texts
            | Kind::ToolPatterns
            | Kind::Variables
            | Kind::Headers
            | Kind::HeaderVariables
            | Kind::ServerTools,
            _,
        ) => server::check(kind, node),
        (Kind::Secrets, Raw::List(items)) => {
            let sources = items.iter().map(|item| secret(&item.value, home)).collect::<Result<_, _>>()?;
            Ok(Value::Secrets(sources))
        }
        _ => Err(wrong()),
    }
}

fn check_text(kind: Kind, text: &str) -> Result<Value, String> {
    let wrong = || Err(format!("expected {}, received the string {text:?}", kind.expected()));
    if text.contains('\0') {
        return Err("a NUL character cannot stand here; remove it".into());
    }
    match kind {
        Kind::Choice(words) if !words.contains(&text) => return wrong(),
        Kind::VariableName if !is_variable_name(text) => return wrong(),
        Kind::Url => server::check_url(text)?,
        Kind::ModelName => match text.split_once(':') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() && text.len() <= 1024 => {}
            _ => return wrong(),
        },
        Kind::Shell if text.is_empty() || (text.contains('/') && !text.starts_with('/')) => return wrong(),
        Kind::SessionName => {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
            if text.is_empty() || text.len() > 100 || text.starts_with('.') || !text.bytes().all(plain) {
                return wrong();
            }
        }
        // The seeds' empty template means "none".
        Kind::Template if !text.trim().is_empty() => {
            Template::parse(text).map_err(|error| error.to_string())?;
        }
        _ => {}
    }
    Ok(Value::Text(text.to_owned()))
}

fn check_list(kind: Kind, items: &[&str], home: Option<&Path>) -> Result<Value, String> {
    let patterns = |make: fn(&str) -> Result<Pattern, String>| {
        let patterns: Result<_, String> = items
            .iter()
            .enumerate()
            .map(|(i, item)| make(item).map_err(|error| format!("element {i}: {error}")))
            .collect();
        patterns.map(Value::Patterns)
    };
    match kind {
        Kind::DenyPatterns => patterns(|source| Pattern::anywhere(source, Verdict::Deny)),
        Kind::AskPatterns => patterns(|source| Pattern::anywhere(source, Verdict::Ask)),
        Kind::WholePatterns => patterns(Pattern::whole),
        Kind::Paths => {
            let paths = items.iter().map(|item| match absolute(item, home)? {
                root if root == "/" => Err(
                    "/ is everything, Helve's own files and every secret included; name a smaller directory"
                        .to_owned(),
                ),
                path => Ok(path),
            });
            Ok(Value::List(paths.collect::<Result<_, _>>()?))
        }
        Kind::PathPatterns => {
            let empty =
                |item: &&&str| item.trim().is_empty() || item.starts_with('#') || item.contains(['\0', '\n']);
            if let Some(item) = items.iter().find(empty) {
                return Err(format!("{item:?} is no pattern; take it out"));
            }
            DenyRead::new(items).map_err(|error| error.message)?;
            Ok(Value::List(items.iter().map(|item| (*item).to_owned()).collect()))
        }
        Kind::Program => {
            let Some((program, args)) = items.split_first() else {
                return Err(format!("expected {}, received an empty list", kind.expected()));
            };
            if args.iter().any(|arg| arg.contains('\0')) {
                return Err("a NUL character cannot stand here; remove it".into());
            }
            let words =
                [absolute(program, home)?].into_iter().chain(args.iter().map(|arg| (*arg).to_owned()));
            Ok(Value::List(words.collect()))
        }
        _ => {
            let is_right = |item: &str| match kind {
                Kind::Words(words) => words.contains(&item),
                Kind::FileNames => is_file_name(item),
                _ => is_variable_name(item),
            };
            match items.iter().find(|item| !is_right(item)) {
                Some(item) => Err(format!("expected {}, received {item:?} in it", kind.expected())),
                None => Ok(Value::List(items.iter().map(|item| (*item).to_owned()).collect())),
            }
        }
    }
}

/// An absolute path without `.` and `..`, with `~` put in place.
fn absolute(text: &str, home: Option<&Path>) -> Result<String, String> {
    let path = match (text.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        (Some(_), None) => {
            return Err(format!("{text:?} needs a home directory and HOME is not set; write the whole path"));
        }
        _ => PathBuf::from(text),
    };
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(plain) || text.contains('\0') {
        return Err(format!("expected an absolute path without `..`, received {text:?}"));
    }
    // Components drop doubled and trailing slashes.
    let clean: PathBuf = path.components().collect();
    clean.into_os_string().into_string().map_err(|_| format!("the path {text:?} is not valid UTF-8"))
}

/// Whether the text names an entry of a directory.
fn is_file_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['/', '\0']) && !matches!(text, "." | "..")
}

/// Whether a shell could take the text as the name of a variable.
pub(crate) fn is_variable_name(text: &str) -> bool {
    text.bytes()
        .enumerate()
        .all(|(i, b)| b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit()))
        && !text.is_empty()
        && text.len() <= 256
}

fn secret(value: &Raw, home: Option<&Path>) -> Result<SecretSource, String> {
    let wrong = || {
        format!(
            "expected a table with one of `env = \"NAME\"` and `file = \"/path\"`, received {}",
            value.describe()
        )
    };
    let Raw::Table(entries) = value else { return Err(wrong()) };
    let [(key, node)] = entries.as_slice() else { return Err(wrong()) };
    match (key.as_str(), &node.value) {
        ("env", Raw::Text(name)) if is_variable_name(name) => Ok(SecretSource::Env(name.clone())),
        ("env", other) => {
            Err(format!("`env`: expected the name of a variable, received {}", other.describe()))
        }
        ("file", Raw::Text(path)) => Ok(SecretSource::File(absolute(path, home)?.into())),
        ("file", other) => Err(format!("`file`: expected an absolute path, received {}", other.describe())),
        (other, _) => Err(format!("unknown key `{other}` in it; the known keys are `env` and `file`")),
    }
}
