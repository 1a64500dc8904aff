//! Where the results of a session's calls differ when they are made again.
//!
//! In: a call of the past and the result that it has now. Out: the first difference, as a short diff. What differs by nature
//! is left out on both sides: names of calls, times, lengths of time, process ids, and the path of the workspace, which may
//! be another one now.
//!
//! Deliberately not here: making the calls (that is the pipeline's), and asking the owner whether they may be made.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use helve::CallResult;
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use crate::record::PastCall;

/// So many lines of a diff are shown.
const MOST_LINES: usize = 12;
/// So much of a line is shown.
const MOST_CHARS: usize = 200;

/// How a call came out another time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs: `outcome`, `text`, `content` or `details`.
    pub what: &'static str,
    /// The first place where it does, as a diff of a few lines.
    pub diff: String,
}

/// What is named otherwise in the past and now.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The workspace of the past.
    pub before: &'a str,
    /// The workspace of now.
    pub after: &'a str,
    /// What the calls of the past are called now.
    pub calls: &'a HashMap<String, String>,
}

impl Places<'_> {
    /// The same value with paths into the old workspace as paths into the new one, and with the calls as they are called now.
    pub fn moved(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.moved_text(text)),
            Value::Array(list) => list.iter().map(|value| self.moved(value)).collect(),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(key, value)| (key.clone(), self.moved(value))).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

impl Places<'_> {
    fn moved_text(&self, text: &str) -> String {
        let moved = match self.before == self.after || self.before.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(text.replace(self.before, self.after)),
        };
        let Some((names, _)) = STEADY.first() else { return moved.into_owned() };
        let now = |found: &regex::Captures<'_>| {
            self.calls.get(&found[0]).map_or_else(|| found[0].to_owned(), String::clone)
        };
        names.replace_all(&moved, now).into_owned()
    }
}

/// Where the result of a call differs from the one in the journal; none if it does not.
pub fn difference(past: &PastCall, now: &CallResult, places: Places<'_>) -> Option<Difference> {
    let now = serde_json::to_value(now).unwrap_or(Value::Null);
    let Some(before) = &past.outcome else {
        return Some(Difference {
            what: "outcome",
            diff: format!("-(the journal has no outcome)\n+{}\n", ending(&now)),
        });
    };
    let (was, is) = (ending(before), ending(&now));
    if was != is {
        let text = |value| first_lines(&steady(&text(value), places));
        let diff = format!("-{was}\n+{is}\n{}", short_diff(&text(before), &text(&now)).unwrap_or_default());
        return Some(Difference { what: "outcome", diff });
    }
    let of = |what, before: String, after: String| {
        let (before, after) = (steady(&before, places), steady(&after, places));
        (before != after).then(|| {
            let diff = short_diff(&before, &after);
            Difference { what, diff: diff.unwrap_or_else(|| "(too long to show)\n".to_owned()) }
        })
    };
    let member = |value: &Value, name: &str| {
        let value = value.get(name).map(without_volatile).unwrap_or(Value::Null);
        serde_json::to_string_pretty(&sorted(&value)).unwrap_or_default()
    };
    of("text", text(before), text(&now))
        .or_else(|| of("content", member(before, "content"), member(&now, "content")))
        .or_else(|| of("details", member(before, "details"), member(&now, "details")))
}

/// How a call ended, in a word.
fn ending(outcome: &Value) -> String {
    match outcome["error"]["kind"].as_str() {
        _ if outcome["ok"] == true => "ok".to_owned(),
        Some(kind) => kind.to_owned(),
        None => "failed".to_owned(),
    }
}

fn text(outcome: &Value) -> String {
    let blocks = outcome["content"].as_array().map_or(&[][..], Vec::as_slice);
    let texts =
        blocks.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Members in one order, whoever wrote them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Without the members that say when or how long.
fn without_volatile(value: &Value) -> Value {
    let is_volatile = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["_us", "_ms"].iter().any(|end| name.ends_with(end))
            || ["duration", "elapsed", "modified", "mtime", "time", "pid"].contains(&name.as_str())
    };
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !is_volatile(key));
            Value::Object(kept.map(|(key, value)| (key.clone(), without_volatile(value))).collect())
        }
        Value::Array(list) => list.iter().map(without_volatile).collect(),
        other => other.clone(),
    }
}

/// What stands for what, in this order; the names of calls first.
static STEADY: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let pairs = [
        (r"\bc_[0-9A-HJKMNP-TV-Z]{26}\b", "(call)"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC|[+-]\d\d:?\d\d)\b)?", "(time)"),
        (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "(time)"),
        (r"\b\d+(\.\d+)? ?(ns|µs|us|ms|s|secs?|seconds?)\b", "(length of time)"),
    ];
    pairs.into_iter().filter_map(|(pattern, word)| Some((Regex::new(pattern).ok()?, word))).collect()
});

/// A text without what differs by nature.
fn steady(text: &str, places: Places<'_>) -> String {
    let mut steady = text.to_owned();
    for place in [places.before, places.after] {
        if !place.is_empty() {
            steady = steady.replace(place, "(workspace)");
        }
    }
    for (pattern, word) in STEADY.iter() {
        steady = pattern.replace_all(&steady, *word).into_owned();
    }
    steady
}

fn first_lines(text: &str) -> String {
    text.lines().take(MOST_LINES / 2).collect::<Vec<_>>().join("\n")
}

/// The first lines of the diff between two texts; none if there is none, or it would be too long to make.
fn short_diff(before: &str, after: &str) -> Option<String> {
    let ended = |text: &str| format!("{}\n", text.trim_end_matches('\n'));
    let whole = helve::unified_diff("result", ended(before).as_bytes(), ended(after).as_bytes());
    let whole = whole?;
    // The names of the files say nothing here.
    let lines: Vec<&str> = whole.lines().skip_while(|line| !line.starts_with("@@")).skip(1).collect();
    let first = lines.iter().position(|line| line.starts_with(['-', '+']))?;
    let mut shown: Vec<String> = lines.iter().skip(first).take(MOST_LINES).map(|line| cut(line)).collect();
    let left = lines.len().saturating_sub(first + MOST_LINES);
    if left > 0 {
        shown.push(format!(" … {left} more lines"));
    }
    Some(shown.join("\n") + "\n")
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
