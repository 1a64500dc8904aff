//! Talks that become shorter: what stays, and that no call loses its result.

use helve::CallId;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::talk::{ModelMessage, Picture, ToolUse};

fn user(text: &str) -> Message {
    Message::User(UserMessage { text: text.into(), ..UserMessage::default() })
}

fn wants(id: &str, args: &str) -> Message {
    let call = ToolUse { id: id.into(), name: "t".into(), args: args.into() };
    Message::Model(ModelMessage { text: "so".into(), calls: vec![call], kept: None })
}

fn result(id: &str, text: &str) -> Message {
    let call = Some(CallId::from_parts(1, 2));
    let images = vec![Picture { mime: "image/png".into(), data: "AA==".into() }];
    let result =
        ToolAnswer { id: id.into(), name: "t".into(), text: text.into(), images, is_error: false, call };
    Message::Results { results: vec![result] }
}

fn rounds(count: usize, bytes: usize) -> Vec<Message> {
    let mut talk = vec![user("do it")];
    for round in 0..count {
        talk.push(wants(&round.to_string(), "{}"));
        talk.push(result(&round.to_string(), &"ä".repeat(bytes / 2)));
    }
    talk
}

#[test]
fn the_oldest_results_shrink_first_and_say_where_the_whole_is() {
    let mut talk = rounds(4, 10_000);
    let all: u64 = talk.iter().map(weight).sum();
    assert!(shrink(&mut talk, 2, all - 9_000));
    let texts: Vec<usize> = talk
        .iter()
        .filter_map(|message| match message {
            Message::Results { results } => Some(results[0].text.len()),
            _ => None,
        })
        .collect();
    assert!(texts[0] < 1_000 && texts[1..] == [10_000, 10_000, 10_000], "{texts:?}");
    let Message::Results { results } = &talk[2] else { panic!() };
    assert!(results[0].text.contains("read_output with call \"c_"), "{}", results[0].text);
    assert!(results[0].images.is_empty());
    let before = talk.clone();
    assert!(shrink(&mut talk, 2, 0), "the second goes too");
    assert_eq!(talk[5..], before[5..], "the latest two are spared");
    let again = talk.clone();
    assert!(!shrink(&mut talk, 2, 0));
    assert_eq!(talk, again, "what is short stays so");
    assert!(shrink(&mut talk, 0, 0), "where it must be, nothing is spared");
}

#[test]
fn a_result_that_nobody_can_read_again_stays() {
    let mut talk = rounds(1, 10_000);
    let Message::Results { results } = &mut talk[2] else { panic!() };
    results[0].call = None;
    results[0].images.clear();
    assert!(!shrink(&mut talk, 0, 0));
}

#[test]
fn arguments_stay_json() {
    assert_eq!(short_args(r#"{"a":1}"#), None);
    let long = "x".repeat(5_000);
    let args = json!({"path": "a.rs", "content": long, "list": [long]}).to_string();
    let short: Value = serde_json::from_str(&short_args(&args).unwrap()).unwrap();
    assert_eq!(short["path"], "a.rs");
    assert!(short["content"].as_str().unwrap().contains("characters left out"));
    for odd in
        [format!("{{broken{long}"), json!(vec![1; 5_000]).to_string(), json!(vec!["ab"; 9_000]).to_string()]
    {
        let short = short_args(&odd).unwrap();
        assert!(short.len() < 200 && serde_json::from_str::<Value>(&short).unwrap().is_object(), "{short}");
    }
}

#[test]
fn a_cut_parts_no_call_from_its_result() {
    let talk = rounds(10, 1_000);
    let place = cut(&talk, 3_500).unwrap();
    assert!(matches!(talk[place], Message::Model(_)));
    assert!(talk[place..].iter().map(weight).sum::<u64>() <= 3_500 + 12_000);
    assert_eq!(cut(&talk, 0), Some(19), "the latest round stays, whatever it weighs");
    assert_eq!(cut(&rounds(1, 100), 0), None);
    assert_eq!(cut(&[user("a")], 0), None);
    assert_eq!(cut(&[], 0), None);
}

#[test]
fn the_owners_words_stay() {
    let long = "x".repeat(100_000);
    assert!(opening([long.as_str()].into_iter(), &long, 6_000).text.len() < 5_000);
    let opening = opening(["first\nline", "second"].into_iter(), "the summary", 10_000);
    for part in ["> first\n> line", "> second", "the summary", OPENING] {
        assert!(opening.text.contains(part), "{}", opening.text);
    }
    assert!(opening.from_loop);
    let plain = plain_summary(&rounds(2, 10));
    assert_eq!(plain.matches("- t c_").count(), 2, "{plain}");
}

proptest! {
    #[test]
    fn texts_are_cut_between_characters(text in "\\PC{0,3000}", keep in 0_usize..800) {
        if let Some(short) = middle_out(&text, keep, |_| "…".to_owned()) {
            prop_assert!(short.len() <= 2 * keep + 8);
        }
    }

    #[test]
    fn a_transcript_keeps_its_bound(count in 0_usize..20, bytes in 0_usize..5_000, bound in 0_usize..9_000) {
        let text = transcript(&rounds(count, bytes), bound);
        prop_assert!(text.len() <= bound + 500);
    }
}
