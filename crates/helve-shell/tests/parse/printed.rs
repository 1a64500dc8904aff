//! What bash understands: a function that holds the text is defined, never called, and printed by bash. The printed form must
//! hold the same simple commands.

use std::process::{Command, Stdio};

use helve_shell::parse;
use helve_shell::tree::Dialect;

use crate::{rows, show};

/// The text as bash prints it; nothing if bash is not installed or does not take it in a function.
fn printed(text: &str) -> Option<String> {
    let script = format!("f () {{\n{text}\n}}\ndeclare -f f");
    let output = Command::new("bash")
        .args(["-c", "--", &script])
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let shown = String::from_utf8(output.stdout).ok()?;
    let body = shown.strip_prefix("f () \n{ \n")?.trim_end().strip_suffix('}')?;
    output.stderr.is_empty().then(|| body.to_owned())
}

/// The simple commands of a tree as they are shown, in the order of the text: everything between `[` and `]`.
fn simple_commands(text: &str) -> Vec<String> {
    let shown = show::script(&parse(text, Dialect::Bash));
    let mut found = Vec::new();
    let mut open = Vec::new();
    for (at, ch) in shown.char_indices() {
        match ch {
            '[' => open.push(at),
            ']' => {
                let start = open.pop().unwrap();
                found.push(shown[start..=at].to_owned());
            }
            _ => {}
        }
    }
    found
}

#[test]
fn bash_prints_the_same_commands() {
    // bash prints these in another form that means the same.
    let rewritten =
        ["|&", "$'", "[[", "coproc", "select", "[", ">&", "<&", "((", "&>", "1>", "for x do", "for x;"];
    let corpus = rows(include_str!("../cases/parse_valid.jsonl"));
    let mut compared = 0;
    for row in &corpus {
        let text = row["text"].as_str().unwrap();
        let complete = row["bash"] == true && parse(text, Dialect::Bash).fault.is_none();
        if !complete || text.ends_with('\\') || rewritten.iter().any(|form| text.contains(form)) {
            continue;
        }
        let Some(printed) = printed(text) else { continue };
        assert_eq!(simple_commands(&printed), simple_commands(text), "{text:?} is printed as {printed:?}");
        compared += 1;
    }
    if compared == 0 {
        eprintln!("skipped: bash is not installed");
    }
}
