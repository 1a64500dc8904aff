//! Words that are still being said hold no secret either, in whatever pieces they come.

use helve_agent::events::Event;
use helve_agent::model::Piece;
use helve_agent::talk::{Kept, Message, ToolUse, Usage};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::{Parrot, Place, SECRET, Says, run};

/// All that was told of an answer while it came, each stream by itself.
fn streamed(events: &[Event]) -> [String; 3] {
    let mut all = [String::new(), String::new(), String::new()];
    for event in events {
        match event {
            Event::Piece(Piece::Text { text }) => all[0].push_str(text),
            Event::Piece(Piece::Thought { text }) => all[1].push_str(text),
            Event::Piece(Piece::Args { text, .. }) => all[2].push_str(text),
            _ => {}
        }
    }
    all
}

#[tokio::test]
async fn a_secret_in_pieces_is_not_told() {
    let place = Place::new();
    let runtime = place.builder("").build().unwrap();
    for size in [1, 2, 5, 1_000] {
        let words = format!("The key is {SECRET}, keep it. Or hunter2-cor");
        let args = json!({"message": SECRET}).to_string();
        let cut = |text: &str| -> Vec<String> {
            text.as_bytes().chunks(size).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
        };
        let mut pieces = Vec::new();
        // The streams are told in turn, as a provider may send them.
        let (texts, args_of) = (cut(&words), cut(&args));
        for at in 0..texts.len().max(args_of.len()) {
            if let Some(text) = texts.get(at) {
                pieces.push(Piece::Thought { text: text.clone() });
                pieces.push(Piece::Text { text: text.clone() });
            }
            if let Some(text) = args_of.get(at) {
                pieces.push(Piece::Args { index: 0, text: text.clone() });
            }
        }
        pieces.push(Piece::Call { index: 0, name: SECRET.to_owned() });
        let calls = vec![ToolUse { id: format!("c{size}"), name: "echo".into(), args }];
        let model = Parrot::new(vec![Says { pieces, text: words, calls, ..Says::default() }]);
        let mut agent = place.agent(&runtime, &model);
        let (_, events) = run(&mut agent, "go", &mut |_| {}).await;
        let clean = "The key is [REDACTED:token], keep it. Or hunter2-cor";
        let first_answer = events.iter().position(|event| matches!(event, Event::Answer { .. })).unwrap();
        let expected = [clean, clean, r#"{"message":"[REDACTED:token]"}"#];
        assert_eq!(streamed(&events[..first_answer]), expected, "in pieces of {size}");
        let all = serde_json::to_string(&events).unwrap();
        assert!(!all.contains(SECRET), "in pieces of {size}: {all}");
    }
}

/// What came before an answer was asked for again does not count, and what was held back of it is not told later.
#[tokio::test]
async fn what_does_not_count_any_more_is_forgotten() {
    let place = Place::new();
    let runtime = place.builder("").build().unwrap();
    let text = |text: &str| Piece::Text { text: text.to_owned() };
    let usage = Usage { input: 100, output: 7, ..Usage::default() };
    let again = Piece::Again { after: std::time::Duration::ZERO, why: format!("it said {SECRET}"), usage };
    let pieces = vec![text("Well, hunter2"), again, text("-correct-horse-battery it is")];
    let says = Says { pieces, text: "-correct-horse-battery it is".into(), ..Says::default() };
    let mut agent = place.agent(&runtime, &Parrot::new(vec![says]));
    let (_, events) = run(&mut agent, "go", &mut |_| {}).await;
    assert_eq!(streamed(&events)[0], "Well, -correct-horse-battery it is");
    // What it cost counts all the same.
    let Some(Event::End { usage: all, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!(*all, usage);
    assert!(!serde_json::to_string(&events).unwrap().contains(SECRET));
}

/// What a provider wants back has to fit into the talk, each time that it is sent or recorded.
#[tokio::test]
async fn very_much_is_not_given_back() {
    let place = Place::new();
    let runtime = place.builder("").build().unwrap();
    for (size, stays) in [(1_000, true), (2 << 20, false)] {
        let kept = Kept { provider: "test".into(), value: json!({"thought": "m".repeat(size)}) };
        let says = Says { kept: Some(kept), ..Says::words(&["Hello."]) };
        let mut agent = place.agent(&runtime, &Parrot::new(vec![says]));
        run(&mut agent, "go", &mut |_| {}).await;
        let Some(Message::Model(said)) = agent.messages().last() else { panic!("{:?}", agent.messages()) };
        assert_eq!(said.kept.is_some(), stays, "{size}");
    }
}

/// A person reads along: what cannot be a secret is told at once.
#[tokio::test]
async fn other_words_are_told_as_they_come() {
    let place = Place::new();
    let runtime = place.builder("").build().unwrap();
    let words = ["Hel", "lo, wor", "ld. ", "h", "ello."];
    let mut agent = place.agent(&runtime, &Parrot::new(vec![Says::words(&words)]));
    let (_, events) = run(&mut agent, "go", &mut |_| {}).await;
    let told: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::Piece(Piece::Text { text }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["Hel", "lo, wor", "ld. ", "hello."]);
}
