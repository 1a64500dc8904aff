//! What looks like a path: a table of cases.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail loudly")]

mod support;

use helve_shell::{path_words, read};
use pretty_assertions::assert_eq;

#[test]
fn cases() {
    for row in support::rows(include_str!("cases/paths.jsonl")) {
        let text = row["command"].as_str().unwrap();
        let found: Vec<String> = path_words(&read(text)).found.iter().map(support::show_path).collect();
        let expected: Vec<&str> =
            row["paths"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_path_in_code_points_at_the_code() {
    let text = "sh -c 'cat /srv/x' y";
    let spans: Vec<&str> =
        path_words(&read(text)).found.iter().map(|path| &text[path.span.range()]).collect();
    assert_eq!(spans, ["'cat /srv/x'"]);
}

#[test]
fn code_in_code_is_followed_to_a_bounded_depth() {
    let mut text = "cat /srv/x".to_owned();
    for level in 1..=6 {
        text = format!("sh -c {}", helve_shell::quote(&text));
        let words = path_words(&read(&text));
        let seen = level <= 4;
        assert_eq!((words.found.len(), words.unread.is_none()), (usize::from(seen), seen), "{level} levels");
    }
}

/// Each level of substitution holds all the code below it.
#[test]
fn code_in_nested_substitutions_is_read_up_to_a_bound() {
    let text = format!("{}x{}", "sh -c \"$(".repeat(16), ")\"".repeat(16));
    let padded = |length: usize| text.replace('x', &"x".repeat(length));
    assert_eq!(path_words(&read(&padded(1))).unread.map(|span| span.start), Some(6), "too deep");
    let start = std::time::Instant::now();
    let words = path_words(&read(&padded(60_000)));
    assert!(words.unread.is_some());
    assert!(start.elapsed().as_secs_f64() < 2.0, "took {:?}", start.elapsed());
}
