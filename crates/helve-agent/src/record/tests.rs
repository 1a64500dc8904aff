//! The talk told again, whatever a journal holds.

use helve::store::{Entry, Journal, JournalOptions};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::Answer;
use crate::talk::{Stop, Usage};

/// A record as a journal would have it; its place in the chain is not looked at here.
fn record(kind: EntryKind, body: Value) -> Record {
    let hash = String::new();
    Record { seq: 0, at_us: 0, kind, call: None, prev: hash.clone(), hash, body }
}

fn note(chapter: &Chapter) -> Record {
    record(EntryKind::Note, serde_json::to_value(chapter).unwrap())
}

fn said(text: &str) -> Record {
    note(&Chapter::Said { message: user(text) })
}

fn user(text: &str) -> UserMessage {
    UserMessage { text: text.into(), ..UserMessage::default() }
}

fn wants(text: &str, ids: &[&str]) -> ModelMessage {
    let call = |id: &&str| ToolUse { id: (*id).into(), name: "echo".into(), args: "{}".into() };
    ModelMessage { text: text.into(), calls: ids.iter().map(call).collect(), kept: None }
}

fn answered(round: u64, message: ModelMessage) -> Record {
    let answer = Answer { message, stop: Stop::Calls, usage: Usage::default(), model: "m".into() };
    note(&Chapter::Answered { round, answer: Box::new(answer) })
}

fn begin(goes_on: bool) -> Record {
    let text = String::new;
    note(&Chapter::Begin { provider: text(), model: text(), system: text(), tools: text(), goes_on })
}

fn outcome(id: &str, text: &str, ok: bool) -> Record {
    record(EntryKind::Outcome, json!({"id": id, "call": "c_1", "ok": ok, "content": [Content::text(text)]}))
}

fn result(id: &str, text: &str, is_error: bool, ran: bool) -> ToolAnswer {
    let call = ran.then(|| serde_json::from_value(json!("c_1")).unwrap());
    ToolAnswer { id: id.into(), name: "echo".into(), text: text.into(), images: Vec::new(), is_error, call }
}

#[test]
fn results_stand_behind_their_calls_in_call_order() {
    let records = [
        begin(false),
        said("do it"),
        answered(1, wants("first", &["a", "b", "c"])),
        outcome("b", "second", false),
        said("by the way"),
        outcome("a", "one", true),
        outcome("z", "of another program", true),
        answered(2, wants("done", &[])),
    ];
    let results = vec![
        result("a", "one", false, true),
        result("b", "second", true, true),
        result("c", WAS_CUT, true, false),
    ];
    assert_eq!(
        messages(&records),
        [
            Message::User(user("do it")),
            Message::Model(wants("first", &["a", "b", "c"])),
            Message::Results { results },
            Message::User(user("by the way")),
            Message::Model(wants("done", &[])),
        ]
    );
}

#[test]
fn an_id_that_comes_again_has_its_own_result_each_time() {
    let records = [
        said("go"),
        answered(1, wants("", &["a", "a"])),
        outcome("a", "1", true),
        outcome("a", "2", true),
        answered(2, wants("", &["a"])),
        outcome("a", "3", true),
    ];
    let texts: Vec<String> = messages(&records)
        .into_iter()
        .filter_map(|message| match message {
            Message::Results { results } => Some(results),
            _ => None,
        })
        .flatten()
        .map(|result| result.text)
        .collect();
    assert_eq!(texts, ["1", "2", "3"]);
}

#[test]
fn a_new_run_begins_anew_and_a_resumed_one_goes_on() {
    let talk = |goes_on| messages(&[begin(false), said("one"), begin(goes_on), said("two")]).len();
    assert_eq!((talk(false), talk(true)), (1, 2));
}

#[test]
fn a_shorter_talk_stands_for_all_before_it() {
    let kept = vec![Message::User(user("what was")), Message::Model(wants("x", &["q"]))];
    let records = [
        said("long ago"),
        answered(1, wants("", &[])),
        note(&Chapter::Shortened { round: 2, messages: kept }),
        said("now"),
    ];
    assert_eq!(
        messages(&records),
        [
            Message::User(user("what was")),
            Message::Model(wants("x", &["q"])),
            Message::Results { results: vec![result("q", WAS_CUT, true, false)] },
            Message::User(user("now")),
        ]
    );
}

#[test]
fn a_journal_on_disk_is_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let journal = Journal::open(&home, "s", JournalOptions::default()).unwrap();
    let body = serde_json::to_value(Chapter::Said { message: user("hello") }).unwrap();
    journal.append(&Entry { kind: EntryKind::Note, call: None, at_us: 1, body }).unwrap();
    assert_eq!(messages(&records(&home, "s").unwrap()), [Message::User(user("hello"))]);
    assert!(matches!(records(&home, "other"), Err(StoreError::NoSuchSession(_))));
    // One that is too large is not read first.
    let file = dir.path().join("sessions/s/journal.jsonl");
    std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(MOST_BYTES + 1).unwrap();
    assert!(matches!(records(&home, "s"), Err(StoreError::SessionTooLarge { .. })));
}

/// Anything that a journal may hold, ours or not.
fn any_record() -> impl Strategy<Value = Record> {
    let ids = || proptest::collection::vec("[abc]", 0..4);
    let message = || {
        let wanted = ids()
            .prop_map(|ids| Message::Model(wants("t", &ids.iter().map(String::as_str).collect::<Vec<_>>())));
        let told = ids().prop_map(|ids| Message::Results {
            results: ids.iter().map(|id| result(id, "r", false, false)).collect(),
        });
        prop_oneof![Just(Message::User(user("u"))), wanted, told]
    };
    prop_oneof![
        Just(said("s")),
        any::<bool>().prop_map(begin),
        ids().prop_map(|ids| answered(1, wants("t", &ids.iter().map(String::as_str).collect::<Vec<_>>()))),
        ("[abc]", any::<bool>()).prop_map(|(id, ok)| outcome(&id, "out", ok)),
        proptest::collection::vec(message(), 0..5)
            .prop_map(|messages| note(&Chapter::Shortened { round: 1, messages })),
        Just(record(EntryKind::Outcome, json!({"id": "a", "content": [{"type": "strange"}, 7], "ok": "no"}))),
        Just(record(EntryKind::Outcome, json!(["a"]))),
        Just(record(EntryKind::Note, json!({"agent": "answered", "round": -1}))),
        Just(record(EntryKind::Planned, json!({"id": "a"}))),
    ]
}

proptest! {
    #[test]
    fn every_call_has_one_result_whatever_the_journal_holds(
        records in proptest::collection::vec(any_record(), 0..30),
    ) {
        let talk = messages(&records);
        prop_assert!(matches!(talk.first(), None | Some(Message::User(_))));
        for (place, message) in talk.iter().enumerate() {
            let before = place.checked_sub(1).and_then(|place| talk.get(place));
            match message {
                Message::User(_) => {}
                Message::Model(said) => {
                    let next = talk.get(place + 1);
                    prop_assert_eq!(!said.calls.is_empty(), matches!(next, Some(Message::Results { .. })));
                }
                Message::Results { results } => {
                    let Some(Message::Model(said)) = before else {
                        return Err(TestCaseError::fail("results behind no calls"));
                    };
                    let ids = |ids: Vec<&String>| ids.into_iter().cloned().collect::<Vec<_>>();
                    prop_assert_eq!(
                        ids(results.iter().map(|result| &result.id).collect()),
                        ids(said.calls.iter().map(|call| &call.id).collect())
                    );
                }
            }
        }
        prop_assert_eq!(sound(talk.clone()), talk);
    }
}
