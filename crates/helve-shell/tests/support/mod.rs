//! What the test files share.

#![allow(dead_code, clippy::panic, reason = "each test file uses its own part, and fails loudly")]

use proptest::test_runner::Config;
use serde_json::Value;

/// The rows of a case file. A line is a JSON object; empty lines and lines that start with `#` are for people.
pub(crate) fn rows(text: &str) -> Vec<Value> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
        .collect()
}

/// A number of random cases; a failure prints its input, which belongs into a case file.
pub(crate) fn proptest_config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}
