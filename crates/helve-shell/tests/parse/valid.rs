//! Which texts are complete and correct: the installed shells are the judges.
//!
//! `bash -n` and `dash -n` read a text without running anything. A text that a shell takes and the parser does not is only
//! opaque, so a few are allowed; a text that the shell refuses and the parser takes is a mistake.

use std::process::{Command, Stdio};

use helve_shell::parse;
use helve_shell::tree::Dialect;
use serde_json::Value;

use crate::rows;

/// Whether the shell takes the text; nothing if the shell is not installed.
pub(crate) fn accepts(shell: &str, text: &str) -> Option<bool> {
    let output = Command::new(shell)
        .args(["-n", "-c", "--", text])
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    // bash ends with 0 after some errors in `[[`, and says so on standard error only.
    let errors = String::from_utf8_lossy(&output.stderr);
    Some(output.status.success() && errors.lines().all(|line| line.contains("warning:")))
}

fn shell_of(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Bash => "bash",
        Dialect::Posix => "dash",
    }
}

/// Compares the parser with the shell; gives how many texts were compared and those on which they differ.
fn differences<'a>(
    dialect: Dialect,
    texts: impl Iterator<Item = &'a str>,
    verdict: impl Fn(&str) -> Option<bool>,
) -> Option<(usize, Vec<String>)> {
    let mut count = 0;
    let mut differences = Vec::new();
    for text in texts {
        let theirs = verdict(text)?;
        let fault = parse(text, dialect).fault;
        count += 1;
        if theirs != fault.is_none() {
            differences.push(format!("{text:?}: the shell {theirs}, the parser {fault:?}"));
        }
        assert!(theirs || fault.is_some(), "{} refuses {text:?}", shell_of(dialect));
    }
    Some((count, differences))
}

fn corpus() -> Vec<Value> {
    rows(include_str!("../cases/parse_valid.jsonl"))
}

#[test]
fn the_corpus_is_judged_as_the_shells_judge_it() {
    let corpus = corpus();
    assert!(corpus.len() >= 300);
    for (dialect, key) in [(Dialect::Bash, "bash"), (Dialect::Posix, "dash")] {
        for row in &corpus {
            let text = row["text"].as_str().unwrap();
            let stricter = row["stricter"].as_array().is_some_and(|all| all.iter().any(|one| one == key));
            let expected = row[key].as_bool().unwrap() && !stricter;
            let fault = parse(text, dialect).fault;
            assert_eq!(fault.is_none(), expected, "{key} {text:?}: {fault:?}");
        }
    }
}

#[test]
fn the_corpus_says_what_the_installed_shells_say() {
    for (shell, key) in [("bash", "bash"), ("dash", "dash")] {
        for row in corpus() {
            let text = row["text"].as_str().unwrap();
            let Some(accepted) = accepts(shell, text) else {
                eprintln!("skipped: {shell} is not installed");
                break;
            };
            assert_eq!(accepted, row[key].as_bool().unwrap(), "{shell} {text:?}");
        }
    }
}

#[test]
fn real_commands_are_judged_as_the_shells_judge_them() {
    let Some(data) = std::env::var_os("HELVE_SHARED_DATA") else {
        eprintln!("skipped: HELVE_SHARED_DATA is not set");
        return;
    };
    let text = std::fs::read_to_string(std::path::Path::new(&data).join("commands.txt")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    // What dash takes for good and then cannot expand costs a little more.
    for (dialect, most) in [(Dialect::Bash, 0.005), (Dialect::Posix, 0.01)] {
        let shell = shell_of(dialect);
        let Some((count, differences)) =
            differences(dialect, lines.iter().copied(), |text| accepts(shell, text))
        else {
            eprintln!("skipped: {shell} is not installed");
            continue;
        };
        for difference in &differences {
            eprintln!("{shell}: {difference}");
        }
        eprintln!("{shell}: {count} commands, {} differences", differences.len());
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let share = differences.len() as f64 / count as f64;
        assert!(share <= most, "{shell} differs on {} of {count}", differences.len());
    }
}
