//! Commands to try rules on: those of a file, else those that the journal remembers.

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

/// The commands that the journal remembers, each once, the newest first; all, or those that went well.
pub(super) fn from_journal(
    global: &Global,
    since: Option<u64>,
    went_well: bool,
) -> Result<Vec<Seen>, Failure> {
    let home = setup::home()?;
    let mut index = Index::open(&home)?;
    index.sync()?;
    let filter = Filter {
        session: global.session.clone(),
        ok: went_well.then_some(true),
        since_us: since,
        limit: Some(MOST_CALLS),
        newest_first: true,
        ..Filter::default()
    };
    let command = |args: &str| {
        let args: Value = serde_json::from_str(args).ok()?;
        args["command"].as_str().map(str::to_owned)
    };
    let rows = index.query(&filter)?;
    Ok(counted(rows.iter().filter_map(|row| command(row.args.as_deref()?)).collect()))
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
