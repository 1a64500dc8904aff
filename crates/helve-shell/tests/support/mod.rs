//! What the test files share: reading case files, and showing results as short text.

#![allow(dead_code, clippy::panic, reason = "each test file uses its own part, and fails loudly")]

use helve_shell::{Command, Directory, Joint, PathRole, PathWord, Position, Redirect, Segment, Word};
use proptest::test_runner::Config;
use serde_json::{Value, json};

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

/// A command as the case files write it.
pub(crate) fn show_command(command: &Command) -> Value {
    let segments: Vec<Value> = command.segments.iter().map(show_segment).collect();
    match command.opaque {
        Some(opaque) => json!({ "segments": segments, "opaque": format!("{:?}", opaque.reason) }),
        None => json!({ "segments": segments }),
    }
}

fn show_segment(segment: &Segment) -> Value {
    let joint = match segment.joint {
        Joint::First => "",
        Joint::Sequence => ";",
        Joint::Background => "&",
        Joint::And => "&&",
        Joint::Or => "||",
        Joint::Pipe => "|",
    };
    let mut shown = vec![if segment.substituted { format!("{joint}$") } else { joint.to_owned() }];
    shown.extend(segment.words.iter().map(show_word));
    for document in &segment.here_documents {
        let kind = match (document.quoted, document.substitutes) {
            (true, false) => "quoted",
            (false, false) => "expanded",
            (false, true) => "substituted",
            (true, true) => panic!("nothing is substituted in a quoted here-document"),
        };
        shown.push(format!("here {kind} {}: {}", document.delimiter, document.body));
    }
    json!(shown)
}

fn show_word(word: &Word) -> String {
    let tag = match word.position {
        Position::Name => "name",
        Position::Argument => "arg",
        Position::Assignment => "set",
        Position::Keyword => "key",
        Position::Pattern => "pattern",
        Position::FunctionName => "function",
        Position::Redirect(operator) => match operator {
            Redirect::Read => "<",
            Redirect::Write => ">",
            Redirect::Append => ">>",
            Redirect::ReadWrite => "<>",
            Redirect::DuplicateIn => "<&",
            Redirect::DuplicateOut => ">&",
            Redirect::WriteBoth => "&>",
            Redirect::AppendBoth => "&>>",
            Redirect::HereString => "<<<",
        },
    };
    let known = if word.known { "" } else { "?" };
    let glob = if word.glob { "*" } else { "" };
    format!("{tag}{known}{glob} {}", word.text)
}

/// A path as the case files write it: `! ` program, `< ` and `> ` redirections, ` @DIR` where a relative one counts from.
pub(crate) fn show_path(path: &PathWord) -> String {
    let role = match path.role {
        PathRole::Program => "! ",
        PathRole::Argument => "",
        PathRole::RedirectRead => "< ",
        PathRole::RedirectWrite => "> ",
    };
    match &path.directory {
        Directory::Start => format!("{role}{}", path.text),
        Directory::Under(directory) => format!("{role}{} @{directory}", path.text),
        Directory::Unknown => format!("{role}{} @?", path.text),
    }
}
