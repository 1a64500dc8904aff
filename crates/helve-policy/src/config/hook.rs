//! The tables `[[hooks]]`: programs of the owner's that hear of calls and of sessions.
//!
//! In comes a list of tables of one layer, out go [`Hook`]s, or every problem. Those of all layers add up, and none can take
//! one of another layer away. Not here: how a hook is run and what its answer is worth.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::document::{Node, Raw};
use super::layers::Origin;
use super::value::{self, Kind, Value};

/// What a table may hold, and what each key takes.
const KEYS: &[(&str, &str)] = &[
    (
        "on",
        "when it is run, a list of \"before_call\", \"after_call\", \"session_start\" and \"session_end\"; one of them may stand alone",
    ),
    ("program", "the absolute path of a program and its arguments; nothing of it may lie in a workspace"),
    (
        "tools",
        "the tools whose calls it hears of, by name, `*` for any characters; without it those of all tools",
    ),
    ("timeout", "how many seconds it may take; without it 30"),
    (
        "name",
        "how it is called in errors and in the journal; without it as the file of the program. No two have the same",
    ),
];
/// As many hooks may stand in all layers together.
const MOST: usize = 64;
/// How long a hook may take that does not say.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest name.
const MAX_NAME: usize = 64;

/// When a hook is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// A call was authorized, or would be if somebody agreed, and has not begun.
    BeforeCall,
    /// A call ended.
    AfterCall,
    /// A session of an agent or a client begins.
    SessionStart,
    /// It ends.
    SessionEnd,
}

impl HookEvent {
    const ALL: [HookEvent; 4] =
        [HookEvent::BeforeCall, HookEvent::AfterCall, HookEvent::SessionStart, HookEvent::SessionEnd];

    /// Its name in the configuration, and in what a hook is told.
    pub fn name(self) -> &'static str {
        match self {
            HookEvent::BeforeCall => "before_call",
            HookEvent::AfterCall => "after_call",
            HookEvent::SessionStart => "session_start",
            HookEvent::SessionEnd => "session_end",
        }
    }
}

/// A program of the owner's that hears of calls or sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// How errors and the journal call it.
    pub name: String,
    /// When it is run; at least one.
    pub on: Vec<HookEvent>,
    /// Its program, an absolute path, and the arguments.
    pub program: Vec<String>,
    /// Patterns of the tools whose calls it hears of; none for all tools.
    pub tools: Option<Vec<String>>,
    /// How long it may take.
    pub timeout: Duration,
    /// Where it was written.
    pub origin: Origin,
}

impl Hook {
    /// Whether it hears of a session when this happens.
    pub fn hears(&self, event: HookEvent) -> bool {
        self.on.contains(&event)
    }

    /// Whether it hears of calls of a tool when this happens.
    pub fn hears_of(&self, event: HookEvent, tool: &str) -> bool {
        let of_tool = |patterns: &Vec<String>| patterns.iter().any(|pattern| matches(pattern, tool));
        self.hears(event) && self.tools.as_ref().is_none_or(of_tool)
    }

    /// The table as it could be written.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let on: Vec<&str> = self.on.iter().map(|event| event.name()).collect();
        let mut table = json!({
            "name": self.name, "on": on, "program": self.program, "timeout": self.timeout.as_secs()
        });
        if let Some(tools) = &self.tools {
            table["tools"] = json!(tools);
        }
        table
    }
}

/// The keys of one table, with what each takes.
pub(crate) fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYS.iter().copied()
}

/// Whether a whole name fits a pattern in which `*` stands for any characters. Linear in the name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some(at) = name.find(piece) else { return false };
        name = &name[at + piece.len()..];
    }
    name.ends_with(last)
}

/// Adds the hooks of one list to those that are known. Problems are whole sentences.
pub(crate) fn add(
    known: &mut Vec<Hook>,
    node: &Node,
    key: &str,
    origin: &Origin,
    home: Option<&Path>,
) -> Vec<String> {
    let wrong = |received: &Raw| {
        format!(
            "`{key}` in {origin}: expected {}, written as `[[{key}]]`, received {}",
            Kind::Hooks.expected(),
            received.describe()
        )
    };
    let Raw::List(items) = &node.value else { return vec![wrong(&node.value)] };
    let mut problems = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Raw::Table(entries) = &item.value else {
            problems.push(wrong(&item.value));
            continue;
        };
        let origin = Origin { line: item.line.or(origin.line), ..origin.clone() };
        let place = format!("`{key}[{index}]` in {origin}");
        match hook(entries, origin, home) {
            Err(problem) => problems.push(format!("{place}: {problem}")),
            Ok(hook) if known.iter().any(|other| other.name == hook.name) => problems.push(format!(
                "{place}: another hook is called {:?} already; give one of them a `name`",
                hook.name
            )),
            Ok(_) if known.len() >= MOST => {
                problems.push(format!("{place}: there may be at most {MOST} hooks"))
            }
            Ok(hook) => known.push(hook),
        }
    }
    problems
}

fn hook(entries: &[(String, Node)], origin: Origin, home: Option<&Path>) -> Result<Hook, String> {
    if let Some((unknown, _)) = entries.iter().find(|(key, _)| !KEYS.iter().any(|(known, _)| known == key)) {
        let known: Vec<String> = KEYS.iter().map(|(key, _)| format!("`{key}`")).collect();
        return Err(format!("unknown key `{unknown}`; the known keys are {}", known.join(", ")));
    }
    let written = |key: &str| {
        let node = entries.iter().find(|(name, _)| name == key).map(|(_, node)| node);
        node.filter(|node| node.value != Raw::Null)
    };
    let checked = |key: &str, kind: Kind| {
        let value = written(key).map(|node| value::check(kind, node, home));
        value.transpose().map_err(|problem| format!("`{key}`: {problem}"))
    };
    let program = match checked("program", Kind::Program)? {
        Some(Value::List(words)) => words,
        _ => return Err("`program` is missing; name the program and its arguments".to_owned()),
    };
    let on = written("on").ok_or("`on` is missing; say when it is run")?;
    let tools = match checked("tools", Kind::ToolPatterns)? {
        Some(Value::List(tools)) if tools.is_empty() => {
            return Err(
                "`tools` is empty, so it would never be run; take the line out for all tools".to_owned()
            );
        }
        Some(Value::List(tools)) => Some(tools),
        _ => None,
    };
    let timeout = match checked("timeout", Kind::Seconds)? {
        Some(Value::Count(seconds)) => Duration::from_secs(seconds),
        _ => TIMEOUT,
    };
    let name = match checked("name", Kind::Text)? {
        Some(Value::Text(name)) => name,
        _ => Path::new(&program[0]).file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(format!(
            "`name`: expected 1 to {MAX_NAME} letters, digits, `.`, `_` or `-`, received {name:?}"
        ));
    }
    Ok(Hook { name, on: events(on)?, program, tools, timeout, origin })
}

/// When it is run: one word, or a list of them.
fn events(node: &Node) -> Result<Vec<HookEvent>, String> {
    let wrong = |received: &Raw| {
        let names: Vec<String> = HookEvent::ALL.iter().map(|event| format!("{:?}", event.name())).collect();
        format!("`on`: expected {}, or a list of them, received {}", names.join(" or "), received.describe())
    };
    let event = |value: &Raw| match value {
        Raw::Text(word) => {
            HookEvent::ALL.into_iter().find(|event| event.name() == word).ok_or_else(|| wrong(value))
        }
        other => Err(wrong(other)),
    };
    let mut on: Vec<HookEvent> = Vec::new();
    match &node.value {
        Raw::List(items) if items.is_empty() => return Err("`on` is empty; say when it is run".to_owned()),
        Raw::List(items) => {
            for item in items {
                let event = event(&item.value)?;
                if !on.contains(&event) {
                    on.push(event);
                }
            }
        }
        one => on.push(event(one)?),
    }
    Ok(on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn policy(text: &str) -> Result<Policy, String> {
        Policy::from_toml(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_hook_says_when_what_and_how_long() {
        let text = "[[hooks]]\non = 'before_call'\nprogram = ['/opt/check', '-x']\n\
                    [[hooks]]\nname = 'audit'\non = ['after_call', 'session_end', 'after_call']\n\
                    program = ['/opt/check']\ntools = ['exec', 'mcp__*']\ntimeout = 5";
        let policy = policy(text).unwrap();
        let [check, audit] = policy.hooks() else { panic!("{:?}", policy.hooks()) };
        assert_eq!((check.name.as_str(), check.timeout, &check.tools), ("check", TIMEOUT, &None));
        assert_eq!(check.program, ["/opt/check", "-x"]);
        assert!(check.hears_of(HookEvent::BeforeCall, "any") && !check.hears_of(HookEvent::AfterCall, "any"));
        assert_eq!(audit.on, [HookEvent::AfterCall, HookEvent::SessionEnd]);
        assert_eq!((audit.timeout, audit.origin.line), (Duration::from_secs(5), Some(4)));
        let heard = |tool: &str| audit.hears_of(HookEvent::AfterCall, tool);
        assert_eq!(["exec", "exec2", "mcp__a__b", "read_file"].map(heard), [true, false, true, false]);
        assert!(audit.hears(HookEvent::SessionEnd) && !audit.hears(HookEvent::SessionStart));
        let shown = policy.explain().into_iter().find(|setting| setting.key == "hooks").unwrap();
        let again = Policy::from_toml(&format!("hooks = {}", shown.toml().unwrap())).unwrap();
        let plain = |policy: &Policy| policy.hooks().iter().map(Hook::to_json).collect::<Vec<_>>();
        assert_eq!(plain(&again), plain(&policy), "what is shown can be written");
    }

    #[test]
    fn what_is_no_hook_is_an_error_that_says_what_to_change() {
        for (text, told) in [
            ("on = 'before_call'", "`program` is missing"),
            ("program = ['/x']", "`on` is missing"),
            ("on = []\nprogram = ['/x']", "`on` is empty"),
            ("on = 'before'\nprogram = ['/x']", "\"before_call\" or \"after_call\""),
            ("on = ['before_call', 3]\nprogram = ['/x']", "received the number 3"),
            ("on = 'before_call'\nprogram = ['x']", "absolute path"),
            ("on = 'before_call'\nprogram = '/x'", "a list of strings"),
            ("on = 'before_call'\nprogram = ['/x']\ntools = []", "would never be run"),
            ("on = 'before_call'\nprogram = ['/x']\ntimeout = 0", "a whole number of seconds"),
            ("on = 'before_call'\nprogram = ['/x']\nname = 'a b'", "letters, digits"),
            ("on = 'before_call'\nprogram = ['/x']\nargs = []", "unknown key `args`"),
        ] {
            let error = policy(&format!("[[hooks]]\n{text}")).unwrap_err();
            assert!(error.contains(told) && error.contains("`hooks[0]`"), "{text}: {error}");
        }
        for text in ["hooks = 3", "hooks = ['/x']", "[hooks]\non = 'before_call'"] {
            assert!(policy(text).unwrap_err().contains("`[[hooks]]`"), "{text}");
        }
        let one = "[[hooks]]\non = 'before_call'\nprogram = ['/x']\n";
        assert!(policy(&one.repeat(2)).unwrap_err().contains("another hook is called \"x\""));
    }

    /// Whoever can change a hook decides about calls.
    #[test]
    fn the_files_of_hooks_are_guarded() {
        let text = "[[hooks]]\non = 'after_call'\nprogram = ['/opt/x/check', '/opt/y/rules.json']";
        let policy = policy(text).unwrap();
        assert_eq!(
            policy.guarded_files(),
            ["/opt/x/check", "/opt/y/rules.json"].map(std::path::PathBuf::from)
        );
        assert_eq!(policy.check_text("cp x /opt/y/rules.json", "/w".as_ref()).rule, "guard.protected-write");
        let error = Policy::from_toml(&format!("{text}\n[view]\nread_write = ['/opt/y']")).unwrap_err();
        assert!(error.to_string().contains("`hooks`"), "{error}");
    }

    proptest! {
        #[test]
        fn a_pattern_fits_what_its_regular_expression_fits(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
            let expression = format!("^{}$", pattern.replace('*', ".*"));
            let expected = regex::Regex::new(&expression).unwrap().is_match(&name);
            prop_assert_eq!(matches(&pattern, &name), expected, "{} {}", pattern, name);
        }
    }
}
