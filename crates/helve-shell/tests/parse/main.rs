//! The parser: a table of cases, the real shells as judges, hostile input, and any text at all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

mod anything;
mod limits;
mod printed;
mod show;
mod soak;
mod valid;

use helve_shell::parse;
use helve_shell::tree::Dialect;
use pretty_assertions::assert_eq;
use serde_json::Value;

const DIALECTS: [Dialect; 2] = [Dialect::Bash, Dialect::Posix];

/// The rows of a case file. A line is a JSON object; lines that start with `#` are for people.
fn rows(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))).collect()
}

#[test]
fn cases() {
    let rows = rows(include_str!("../cases/parse.jsonl"));
    assert!(rows.len() >= 150);
    for row in rows {
        let text = row["text"].as_str().unwrap();
        let dialect = match row["dialect"].as_str() {
            None => Dialect::Bash,
            Some("posix") => Dialect::Posix,
            Some(other) => panic!("no such dialect: {other}"),
        };
        assert_eq!(show::script(&parse(text, dialect)), row["tree"].as_str().unwrap(), "{text}");
    }
}
