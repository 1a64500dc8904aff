//! Commands to try rules on: those of a file, else those of this workspace that the journal remembers.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use helve::store::{Filter, Index};
use serde::Deserialize;
use serde_json::Value;

use crate::args::Global;
use crate::failure::Failure;
use crate::setup;

/// So many calls of the past are looked at, the newest.
const MOST_CALLS: u64 = 20_000;

/// A file of commands longer than this is not meant.
const MAX_LINES: usize = 200_000;

/// A command and how often it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) command: String,
    pub(super) count: u64,
}

/// One line of a file of commands: a JSON object, a JSON text, or the command itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Object { command: String },
    Text(String),
}

/// The commands of a file, each once, in the order of their first places.
pub(super) fn from_file(file: &Path) -> Result<Vec<Seen>, Failure> {
    let name = file.display();
    let wrong = |why: String| Failure::usage(format!("{name} cannot be read as commands: {why}"));
    let opened = File::open(file).map_err(|error| wrong(error.to_string()))?;
    let mut seen = Vec::new();
    for (at, line) in BufReader::new(opened).lines().enumerate() {
        let line = line.map_err(|error| wrong(error.to_string()))?;
        if at >= MAX_LINES {
            return Err(wrong(format!("it has more than {MAX_LINES} lines")));
        }
        if line.trim().is_empty() {
            continue;
        }
        seen.push(match serde_json::from_str(&line) {
            Ok(Line::Object { command }) if line.starts_with('{') => command,
            Ok(Line::Text(command)) if line.starts_with('"') => command,
            _ => line,
        });
    }
    Ok(counted(seen))
}

/// What went well in this workspace, by how it came to be allowed.
#[derive(Default)]
pub(super) struct Allowed {
    /// By the policy, or by an answer that holds for longer than a call.
    pub(super) lasting: Vec<Seen>,
    /// By somebody who was asked and said yes to that one call.
    pub(super) once: Vec<Seen>,
}

/// The commands of this workspace that the journal remembers, each once, the newest first.
pub(super) fn from_journal(global: &Global) -> Result<Vec<Seen>, Failure> {
    let calls = calls(global, &Filter::default())?;
    Ok(counted(calls.into_iter().map(|(command, _)| command).collect()))
}

/// The same of those that went well.
pub(super) fn allowed(global: &Global, since: Option<u64>) -> Result<Allowed, Failure> {
    let calls = calls(global, &Filter { ok: Some(true), since_us: since, ..Filter::default() })?;
    let is_once = |planned: &Value| planned["approval"]["answer"] == "once";
    let (once, lasting): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(_, planned)| is_once(planned));
    let commands =
        |calls: Vec<(String, Value)>| counted(calls.into_iter().map(|(command, _)| command).collect());
    Ok(Allowed { lasting: commands(lasting), once: commands(once) })
}

/// Commands of this workspace with what the journal has about how each was planned, the newest first.
fn calls(global: &Global, filter: &Filter) -> Result<Vec<(String, Value)>, Failure> {
    let workspace = setup::workspace(global)?;
    let Some(home) = setup::existing_home()? else { return Ok(Vec::new()) };
    let mut index = Index::open(&home)?;
    index.sync()?;
    let filter = Filter {
        session: global.session.clone(),
        limit: Some(MOST_CALLS),
        newest_first: true,
        ..filter.clone()
    };
    let command = |args: &str| {
        let args: Value = serde_json::from_str(args).ok()?;
        args["command"].as_str().map(str::to_owned)
    };
    let mut found = Vec::new();
    for row in index.query(&filter)? {
        let Some(command) = row.args.as_deref().and_then(command) else { continue };
        let Some(story) = index.story(&row.call)? else { continue };
        if story.planned["workspace"].as_str().map(Path::new) == Some(&workspace) {
            found.push((command, story.planned));
        }
    }
    Ok(found)
}

fn counted(commands: Vec<String>) -> Vec<Seen> {
    let mut places = std::collections::HashMap::new();
    let mut seen: Vec<Seen> = Vec::new();
    for command in commands {
        let place = *places.entry(command.clone()).or_insert(seen.len());
        match seen.get_mut(place) {
            Some(known) => known.count += 1,
            None => seen.push(Seen { command, count: 1 }),
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_file_holds_commands_in_three_notations() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("commands");
        std::fs::write(
            &file,
            "ls -la\n\n{ ls; }\n{\"command\":\"ls -la\",\"id\":1}\n\"a\\nb\"\n[ -e x ]\n7\n",
        )
        .unwrap();
        let seen = |command: &str, count| Seen { command: command.into(), count };
        assert_eq!(
            from_file(&file).unwrap(),
            [seen("ls -la", 2), seen("{ ls; }", 1), seen("a\nb", 1), seen("[ -e x ]", 1), seen("7", 1)]
        );
        assert!(from_file(&dir.path().join("absent")).is_err());
    }
}
