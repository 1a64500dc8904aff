//! From the tables of `[[rules]]` to rules that need no further check.
//!
//! In comes the list as it was written, out come rules or every problem at once, each with what to change. Not here:
//! the examples of a rule, which need all of it.

use std::path::Path;

use helve_core::Verdict;

use super::effect::EffectName;
use super::moment;
use super::pattern::CommandPattern;
use super::place::{HostPattern, PathGlob};
use super::rule::{Examples, Matchers, Rule, Scope};
use crate::config::document::{Node, Raw};
use crate::config::layers::{Layer, Origin};
use crate::config::suggest::nearest;

/// The keys of a rule, in the order of the manual, with what they take.
const KEYS: &[(&str, &str)] = &[
    ("verdict", "\"allow\", \"ask\" or \"deny\"; required"),
    ("tool", "names of tools; without it any tool"),
    ("command", "command patterns such as \"git push *\" or \"npm run {test,build}\""),
    ("effect", "names of effects, such as \"network\" or \"deletes\""),
    ("path", "path globs; relative ones lie in the workspace, `{a,b}` is either"),
    ("host", "hosts such as \"example.org\" or \"*.example.org:443\""),
    ("name", "how decisions name the rule"),
    ("reason", "why it exists, in a sentence"),
    ("expires", "the last day on which it holds, or a moment"),
    ("workspace", "globs of absolute paths: the rule holds only in these workspaces"),
    ("session", "names of sessions: the rule holds only in these"),
    ("allows", "example commands that this rule allows, or leaves alone"),
    ("asks", "example commands that this rule asks about, or does not allow"),
    ("denies", "example commands that this rule denies, or does not allow"),
];

/// The keys of a rule, each with what it takes.
pub fn rule_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYS.iter().copied()
}

/// The most rules of one list, and entries of one matcher or list of examples.
const MAX_RULES: usize = 2000;
const MAX_ENTRIES: usize = 1000;

/// The longest name and reason, in bytes.
const MAX_NAME: usize = 100;
const MAX_REASON: usize = 500;

/// Names of decisions by Helve itself, whole or before a dot: a rule that took one would be taken for something else.
const RESERVED: &[&str] =
    &["approval", "auto_approve", "default", "guard", "rate_limit", "rules_otherwise", "sandbox"];

/// What such names, and those of rules without one of their own, start with before a dot or a bracket.
const RESERVED_STARTS: &[&str] =
    &["ceiling", "profile", "profiles", "rules", "set", "system", "tools", "view", "workspace"];

/// Where a list of rules stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The key of the list, such as `rules` or `profiles.mine.rules`.
    pub(crate) key: &'a str,
    pub(crate) origin: &'a Origin,
    /// How many rules of that key and layer there are already.
    pub(crate) before: usize,
    pub(crate) home: Option<&'a Path>,
}

impl Place<'_> {
    /// Whether the list belongs to the machine's ceiling.
    fn is_ceiling(&self) -> bool {
        self.key.starts_with("ceiling.")
    }

    /// Why rules that allow cannot stand here.
    fn may_not_allow(&self) -> Option<&'static str> {
        if self.is_ceiling() {
            Some("a ceiling only tightens: its rules ask or deny")
        } else if self.origin.layer == Layer::Workspace {
            Some("a workspace's own file may only tighten: its rules ask or deny")
        } else {
            None
        }
    }

    /// How findings name the rule at `index` unless it has a name.
    fn name(&self, index: usize) -> String {
        let key = match self.key.strip_prefix("profiles.") {
            Some(rest) => format!("profile.{rest}"),
            None => self.key.to_owned(),
        };
        let layer = match self.origin.layer {
            Layer::System if !self.is_ceiling() && !key.starts_with("profile.") => "system.",
            Layer::CommandLine => "set.",
            Layer::Workspace => "workspace.",
            _ => "",
        };
        format!("{layer}{key}[{index}]")
    }
}

/// Reads a list. Problems are whole sentences.
pub(crate) fn list(node: &Node, place: &Place<'_>) -> (Vec<Rule>, Vec<String>) {
    let wrong = |received: &Raw| {
        format!(
            "`{}` in {}: expected a list of tables, written as `[[{}]]`, received {}",
            place.key,
            place.origin,
            place.key,
            received.describe()
        )
    };
    let Raw::List(items) = &node.value else { return (Vec::new(), vec![wrong(&node.value)]) };
    if items.len() + place.before > MAX_RULES {
        let problem =
            format!("`{}` in {}: there are more than {MAX_RULES} rules; join some", place.key, place.origin);
        return (Vec::new(), vec![problem]);
    }
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        let Raw::Table(entries) = &item.value else {
            problems.push(wrong(&item.value));
            continue;
        };
        let origin = Origin { line: item.line.or(place.origin.line), ..place.origin.clone() };
        let mut reader = Reader { entries, home: place.home, problems: Vec::new() };
        let rule = reader.rule(place, place.name(place.before + index), origin.clone(), &item.value);
        let found = reader.problems.into_iter();
        problems.extend(found.map(|problem| format!("`{}[{index}]` in {origin}: {problem}", place.key)));
        rules.extend(rule);
    }
    (rules, problems)
}

struct Reader<'a> {
    entries: &'a [(String, Node)],
    home: Option<&'a Path>,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn rule(&mut self, place: &Place<'_>, name: String, origin: Origin, written: &Raw) -> Option<Rule> {
        for (key, _) in self.entries {
            if !KEYS.iter().any(|(known, _)| known == key) {
                self.problems.push(format!("unknown key `{key}` of a rule: {}", suggestion(key)));
            }
        }
        let verdict = self.verdict(place);
        let home = self.home;
        let matchers = Matchers {
            tools: self.texts("tool", tool_name),
            commands: self.texts("command", |text| command(text, verdict)),
            effects: self.texts("effect", |text| effect(text, verdict)),
            paths: self.globs("path", |text| PathGlob::parse_all(text, home)).map(|globs| match verdict {
                // What a link leads to is allowed only where it is written.
                Some(Verdict::Allow) => globs,
                _ => with_resolved(globs),
            }),
            hosts: self.texts("host", HostPattern::parse),
        };
        let given = ["tool", "command", "effect", "path", "host"].iter().any(|key| self.get(key).is_some());
        if !given {
            self.problems.push(
                "it has no matcher and would be about everything; add `command`, `effect`, `path`, `host` or `tool`"
                    .into(),
            );
        }
        let scope = Scope {
            expires: self.expires(),
            workspaces: self.globs("workspace", |text| workspace(text, home)).map(with_resolved),
            sessions: self.texts("session", |text| Ok(text.to_owned())),
        };
        let examples = Examples {
            allows: self.texts("allows", example).unwrap_or_default(),
            asks: self.texts("asks", example).unwrap_or_default(),
            denies: self.texts("denies", example).unwrap_or_default(),
        };
        let name = self.own_name().unwrap_or(name);
        let reason = self.line("reason", MAX_REASON);
        Some(Rule {
            verdict: verdict?,
            name,
            reason,
            matchers,
            scope,
            examples,
            ceiling: place.is_ceiling(),
            origin,
            written: written.to_json(),
        })
        .filter(|_| self.problems.is_empty())
    }

    fn get(&self, key: &str) -> Option<&Raw> {
        let (_, node) = self.entries.iter().find(|(known, _)| known == key)?;
        (node.value != Raw::Null).then_some(&node.value)
    }

    fn verdict(&mut self, place: &Place<'_>) -> Option<Verdict> {
        let (verdict, problem) = match self.get("verdict") {
            Some(Raw::Text(word)) if word == "allow" => (Some(Verdict::Allow), place.may_not_allow()),
            Some(Raw::Text(word)) if word == "ask" => (Some(Verdict::Ask), None),
            Some(Raw::Text(word)) if word == "deny" => (Some(Verdict::Deny), None),
            Some(_) | None => {
                let received = self.get("verdict").map_or("nothing".to_owned(), Raw::describe);
                let problem =
                    format!("`verdict`: expected \"allow\", \"ask\" or \"deny\", received {received}");
                self.problems.push(problem);
                (None, None)
            }
        };
        self.problems.extend(problem.map(str::to_owned));
        verdict
    }

    /// A string or a list of strings, each made into a value.
    fn texts<T>(&mut self, key: &str, make: impl Fn(&str) -> Result<T, String>) -> Option<Vec<T>> {
        let texts: Vec<Result<&str, String>> = match self.get(key)? {
            Raw::Text(text) => vec![Ok(text.as_str())],
            Raw::List(items) => items
                .iter()
                .map(|item| match &item.value {
                    Raw::Text(text) => Ok(text.as_str()),
                    other => Err(format!("expected a list of strings, received {} in it", other.describe())),
                })
                .collect(),
            other => {
                vec![Err(format!("expected a string or a list of strings, received {}", other.describe()))]
            }
        };
        let mut problems = Vec::new();
        if texts.is_empty() {
            problems
                .push(format!("`{key}`: an empty list matches nothing; name something, or take the key out"));
        }
        if texts.len() > MAX_ENTRIES {
            problems.push(format!("`{key}`: it has more than {MAX_ENTRIES} entries; write several rules"));
        }
        let mut values = Vec::new();
        for text in texts.into_iter().take(MAX_ENTRIES) {
            match text.and_then(&make) {
                Ok(value) => values.push(value),
                Err(problem) => problems.push(format!("`{key}`: {problem}")),
            }
        }
        self.problems.extend(problems);
        Some(values)
    }

    /// The same for texts that stand for several globs each.
    fn globs(
        &mut self,
        key: &str,
        make: impl Fn(&str) -> Result<Vec<PathGlob>, String>,
    ) -> Option<Vec<PathGlob>> {
        let globs = self.texts(key, make)?.concat();
        if globs.len() > MAX_ENTRIES {
            self.problems.push(format!(
                "`{key}`: its braces stand for more than {MAX_ENTRIES} paths; write several rules"
            ));
        }
        Some(globs)
    }

    fn expires(&mut self) -> Option<std::time::SystemTime> {
        let moment = match self.get("expires")? {
            Raw::Text(text) | Raw::Date(text) => moment::parse(text),
            other => Err(format!("expected a day or a moment, received {}", other.describe())),
        };
        match moment {
            Ok(moment) => Some(moment),
            Err(problem) => {
                self.problems.push(format!("`expires`: {problem}"));
                None
            }
        }
    }

    /// The name that the rule gives itself.
    fn own_name(&mut self) -> Option<String> {
        let name = self.line("name", MAX_NAME)?;
        let (first, alone) = match name.split_once(['.', '[']) {
            Some((first, _)) => (first.trim(), false),
            None => (name.trim(), true),
        };
        let is_in = |words: &[&str]| words.iter().any(|word| first.eq_ignore_ascii_case(word));
        if is_in(RESERVED) || !alone && is_in(RESERVED_STARTS) {
            self.problems.push(format!(
                "`name`: {name:?} looks like a decision of Helve's own, whose names start with {first:?}; choose another"
            ));
            return None;
        }
        Some(name)
    }

    /// One line of text.
    fn line(&mut self, key: &str, longest: usize) -> Option<String> {
        let text = match self.get(key)? {
            Raw::Text(text) if !text.trim().is_empty() && text.len() <= longest => text.clone(),
            other => {
                let received = other.describe();
                self.problems
                    .push(format!("`{key}`: expected 1 to {longest} bytes of text, received {received}"));
                return None;
            }
        };
        if text.chars().any(char::is_control) {
            self.problems.push(format!("`{key}`: it holds a control character; write one plain line"));
            return None;
        }
        Some(text)
    }
}

fn suggestion(key: &str) -> String {
    match nearest(key, KEYS.iter().map(|(known, _)| *known)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = KEYS.iter().map(|(known, _)| *known).collect();
            format!("the known keys are `{}`", known.join("`, `"))
        }
    }
}

fn tool_name(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected the name of a tool, received {text:?}"))
    }
}

fn command(text: &str, verdict: Option<Verdict>) -> Result<CommandPattern, String> {
    let pattern = CommandPattern::parse(text)?;
    if verdict == Some(Verdict::Allow) && !pattern.names_programs() {
        return Err(format!("{text:?} would allow any program; start it with the name of one"));
    }
    Ok(pattern)
}

fn effect(text: &str, verdict: Option<Verdict>) -> Result<EffectName, String> {
    let names = || EffectName::ALL.iter().map(|(name, ..)| *name);
    match EffectName::by_name(text) {
        Some(EffectName::Opaque) if verdict == Some(Verdict::Allow) => Err(
            "no rule can allow what is opaque: nobody knows what it does; allow the commands that are meant"
                .into(),
        ),
        Some(effect) => Ok(effect),
        None => Err(match nearest(text, names()) {
            Some(near) => format!("there is no effect {text:?}; did you mean \"{near}\"?"),
            None => {
                format!(
                    "there is no effect {text:?}; the effects are {}",
                    names().collect::<Vec<_>>().join(", ")
                )
            }
        }),
    }
}

fn workspace(text: &str, home: Option<&Path>) -> Result<Vec<PathGlob>, String> {
    if !text.starts_with(['/', '~']) {
        return Err(format!("expected a glob of absolute paths, received {text:?}"));
    }
    PathGlob::parse_all(text, home)
}

/// The globs, and those behind links among them once more as they are without.
fn with_resolved(mut globs: Vec<PathGlob>) -> Vec<PathGlob> {
    let resolved: Vec<PathGlob> = globs.iter().filter_map(PathGlob::resolved).collect();
    globs.extend(resolved);
    globs
}

fn example(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("an empty command is no example".into()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests;
