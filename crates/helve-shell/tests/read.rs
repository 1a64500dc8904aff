//! Reading commands: a table of cases, the real shells as judges, and any text at all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

mod support;

use std::process::Command as Process;
use std::time::{Duration, Instant};

use helve_shell::{Command, MAX_DEPTH, MAX_LENGTH, OpaqueReason, path_words, read};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::Value;

#[test]
fn cases() {
    let rows = support::rows(include_str!("cases/read.jsonl"));
    assert!(rows.len() >= 60);
    for mut row in rows {
        let text = row["command"].as_str().unwrap().to_owned();
        row.as_object_mut().unwrap().remove("command");
        assert_eq!(support::show_command(&read(&text)), row, "{text}");
    }
}

#[test]
fn spans_point_at_the_words() {
    let text = "é=1 ls 'a b'\\ c \"$x\"y `echo \\`date\\``>>o\\\nut";
    let command = read(text);
    let spans: Vec<&str> = command.words().map(|word| &text[word.span.range()]).collect();
    assert_eq!(
        spans,
        ["é=1", "ls", "'a b'\\ c", "\"$x\"y", "`echo \\`date\\``", "o\\\nut", "echo", "`date\\`", "date"]
    );
    assert_eq!(&text[command.segments[0].span.range()], text);
}

#[test]
fn limits_are_exact() {
    let nested =
        |depth: usize| read(&("$(".repeat(depth) + "x" + &")".repeat(depth))).opaque.map(|it| it.reason);
    assert_eq!(nested(MAX_DEPTH), None);
    assert_eq!(nested(MAX_DEPTH + 1), Some(OpaqueReason::TooDeep));
    assert_eq!(read(&"x".repeat(MAX_LENGTH)).opaque, None);
    let too_long = read(&"x".repeat(MAX_LENGTH + 1));
    assert_eq!(too_long.opaque.map(|opaque| opaque.reason), Some(OpaqueReason::TooLong));
    assert_eq!(too_long.segments, []);
}

fn time_to_read(text: &str) -> Duration {
    let start = Instant::now();
    let paths = path_words(&read(text)).found.len();
    assert!(paths <= 5 * text.len());
    start.elapsed()
}

#[test]
fn hostile_input_is_read_in_linear_time() {
    let pieces = [
        "(",
        ")",
        "$(",
        "$((",
        "((",
        "${",
        "${x:-",
        "`",
        "\\`",
        "'",
        "\"",
        "\\",
        "<<",
        "<<a ",
        "<<a\n",
        "<(",
        "{",
        "{,",
        "a=(",
        "case x in ",
        "x)",
        ";;",
        "$((a) ",
        "\"$(",
        "\"${x:-\"",
        "&&",
        "|",
        "\n",
        "#",
        "=",
        ":/",
        "/:",
        "'/",
        "../",
        "$x",
        "cd a&&",
        "cd a;",
        "cd ../../..&&",
        "(cd a;",
        "sh -c '",
        "<<<x ",
        "~",
        "@",
        "--a=",
        "*",
        "$'\\",
        "cat <<E\n$(a)\nE\n",
        "r /",
        "a\\b",
        "-",
        "file://%",
        "echo ",
    ];
    for piece in pieces {
        for prefix in ["", "sh -c \"", "X=", "python3 -c '", "sed '", "bash <<E\n", "cd ..;"] {
            let text = prefix.to_owned() + &piece.repeat((60 * 1024 - prefix.len()) / piece.len());
            // The best of three, since other work may share the machine.
            let quickest = (0..3).map(|_| time_to_read(&text)).find(|time| *time < Duration::from_secs(1));
            assert!(quickest.is_some(), "{prefix}{piece}… takes more than a second");
        }
    }
}

/// What the shell makes of the words, or nothing if it does not like them.
fn arguments(shell: &str, words: &str) -> Option<Vec<String>> {
    // Outside of printf nothing runs: the words hold neither operators nor expansions.
    let script = format!("printf '%s\\0' {words}");
    let output = Process::new(shell).args(["-c", &script]).env_clear().current_dir("/").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.split_terminator('\0').map(str::to_owned).collect())
}

/// The words of one plain command whose text is fully known.
fn known_words(command: &Command) -> Option<Vec<String>> {
    let plain = command.opaque.is_none() && command.words().all(|word| word.known && !word.glob);
    let [segment] = &command.segments[..] else { return None };
    plain.then(|| segment.words.iter().skip(2).map(|word| word.text.clone()).collect())
}

fn has(shell: &str) -> bool {
    Process::new(shell).args(["-c", ":"]).status().is_ok_and(|status| status.success())
}

proptest! {
    #![proptest_config(support::proptest_config(300))]

    #[test]
    fn words_are_those_of_sh(words in r#"[ab é'"\\\n =~{}!%^+,.:@/-]{0,16}"#) {
        if let Some(ours) = known_words(&read(&format!("printf '%s\\0' {words}"))).filter(|it| !it.is_empty()) {
            let tilde = ours.iter().any(|word| word.contains('~'));
            if let Some(theirs) = arguments("sh", &words).filter(|_| !tilde) {
                prop_assert_eq!(ours, theirs);
            }
        }
    }

    #[test]
    fn words_are_those_of_bash(words in r#"[ab'"\\$xuU0-9a-fntce ]{0,16}"#) {
        let words = words.replace('$', "$'");
        if let Some(ours) = known_words(&read(&format!("printf '%s\\0' {words}"))).filter(|it| !it.is_empty())
            && has("bash")
            && let Some(theirs) = arguments("bash", &words)
        {
            prop_assert_eq!(ours, theirs);
        }
    }
}

fn check_any(text: &str) {
    let command = read(text);
    let inside = |start: usize, end: usize| {
        assert!(start <= end && text.get(start..end).is_some(), "{start}..{end} in {text:?}");
    };
    for segment in &command.segments {
        inside(segment.span.start, segment.span.end);
        for document in &segment.here_documents {
            inside(document.span.start, document.span.end);
        }
    }
    for word in command.words() {
        inside(word.span.start, word.span.end);
        let mut covered = 0;
        for part in &word.parts {
            inside(part.span.start, part.span.end);
            assert_eq!(part.text.start, covered, "{text:?}");
            covered = part.text.end;
        }
        assert_eq!(covered, word.text.len(), "{text:?}");
    }
    if let Some(opaque) = command.opaque {
        inside(opaque.span.start, opaque.span.end);
    }
    for path in path_words(&command) {
        inside(path.span.start, path.span.end);
    }
}

proptest! {
    #![proptest_config(support::proptest_config(2000))]

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        check_any(&text);
    }

    #[test]
    fn shell_like_text_is_read(
        text in prop::collection::vec(prop::sample::select(vec![
            "$(", ")", "(", "`", "\\", "'", "\"", "${", "}", "{", ",", "<<", "<<-", "E", "\n", "\t", " ", ";", ";;", "&",
            "|", ">", "<", "$'", "$", "#", "=", "~", "/", "..", "case", "in", "esac", "cd", "sh -c", "é", "x", ":", "*",
            "$((", "))", "@", "file:", "%4", "function", "time", "-", "1", "eval", "sed", "a=(",
        ]), 0..40)
    ) {
        check_any(&text.concat());
    }
}

#[test]
fn real_commands_are_read() {
    let Some(file) = std::env::var_os("HELVE_SHARED_DATA") else {
        println!("skipped: HELVE_SHARED_DATA does not name a file with one command a line");
        return;
    };
    let text = std::fs::read_to_string(file).unwrap();
    let opaque: Vec<Value> = text
        .lines()
        .inspect(|line| check_any(line))
        .filter(|line| read(line).opaque.is_some())
        .map(Value::from)
        .collect();
    println!("{} of {} lines are opaque:", opaque.len(), text.lines().count());
    for line in &opaque {
        println!("{line}");
    }
    assert!(opaque.len() * 100 < text.lines().count(), "more than one in a hundred real commands is opaque");
}
