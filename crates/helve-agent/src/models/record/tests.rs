//! Records that fit the talk, and records that do not.

use pretty_assertions::assert_eq;

use super::*;
use crate::talk::{Stop, ToolAnswer};

const BY_HAND: &str = r#"
{"agent":"said","message":{"text":"go"}}
{"agent":"answered","answer":{"text":"first","calls":[{"id":"a","name":"exec","args":{"command":"ls"},"ok":false},{"id":"b","name":"echo","args":"{}"}]}}
{"agent":"answered","answer":{"text":"done"}}
"#;

fn by_hand() -> Recorded {
    Recorded::parse("r", BY_HAND).unwrap()
}

async fn ask(model: &Recorded, messages: &[Message]) -> (Result<Answer, ModelError>, Vec<Piece>) {
    let request =
        Request { system: "", tools: &[], messages, may_call: true, max_output: None, temperature: None };
    let mut pieces = Vec::new();
    let answer = model.answer(request, &mut |piece| pieces.push(piece), &Cancel::never()).await;
    (answer, pieces)
}

/// The talk behind so many answers.
fn talk(model: &Recorded, answers: usize) -> Vec<Message> {
    let mut talk = vec![Message::User(model.task().unwrap().clone())];
    for answer in model.answers.iter().take(answers) {
        let results = answer.message.calls.iter().map(|call| ToolAnswer::new(call, None, true, &[]));
        let results: Vec<ToolAnswer> = results.collect();
        talk.push(Message::Model(answer.message.clone()));
        if !results.is_empty() {
            talk.push(Message::Results { results });
        }
    }
    talk
}

#[tokio::test]
async fn the_answers_come_one_after_the_other() {
    let model = by_hand();
    let (first, pieces) = ask(&model, &talk(&model, 0)).await;
    let first = first.unwrap();
    assert_eq!((first.message.text.as_str(), first.stop), ("first", Stop::Calls));
    let args: Vec<&str> = first.message.calls.iter().map(|call| call.args.as_str()).collect();
    assert_eq!(args, [r#"{"command":"ls"}"#, "{}"]);
    assert_eq!(pieces.len(), 5);
    let (second, _) = ask(&model, &talk(&model, 1)).await;
    assert_eq!(second.unwrap().stop, Stop::Done);
    let (third, _) = ask(&model, &talk(&model, 2)).await;
    let error = third.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Record);
    assert!(error.message.contains("has 2 answers"), "{error}");
    assert_eq!((model.should_end_well("a"), model.should_end_well("b")), (Some(false), None));
}

#[tokio::test]
async fn a_talk_that_was_made_shorter_is_known_by_its_calls_and_another_is_not() {
    let model = by_hand();
    let mut shorter = talk(&model, 1);
    shorter.insert(1, Message::Model(ModelMessage { text: "a summary".into(), ..ModelMessage::default() }));
    assert_eq!(ask(&model, &shorter).await.0.unwrap().message.text, "done");
    let mut other = talk(&model, 1);
    if let Some(Message::Model(said)) = other.get_mut(1) {
        said.calls[0].id = "z".into();
    }
    let error = ask(&model, &other).await.0.unwrap_err();
    assert!(error.message.contains("z, b"), "{error}");
}

#[test]
fn what_is_no_record_is_refused_by_line() {
    for (text, part) in [
        ("", "holds no answer"),
        ("{\"agent\":\"said\",\"message\":{\"text\":\"x\"}}", "holds no answer"),
        ("nonsense", "Line 1 of the record r is not JSON"),
        ("\n{\"agent\":\"sung\"}", "Line 2 of the record r is no chapter"),
        ("{\"agent\":\"answered\"}", "has no answer"),
        ("7", "is no chapter"),
    ] {
        let error = Recorded::parse("r", text).unwrap_err();
        assert!(error.message.contains(part), "{text}: {error}");
    }
    let twice = BY_HAND.replace("\"b\"", "\"a\"");
    assert!(Recorded::parse("r", &twice).unwrap_err().message.contains("two calls with the id \"a\""));
}

#[test]
fn a_journal_is_a_record_too() {
    let line = |kind: &str, body: &str| {
        format!(
            "{{\"at_us\":1,\"body\":{body},\"hash\":\"\",\"prev\":\"\",\"seq\":1,\"type\":\"{kind}\",\"v\":1}}\n"
        )
    };
    let chapters: Vec<&str> = BY_HAND.trim().lines().collect();
    let text = line("note", chapters[0])
        + &line("note", "{\"of\":\"another program\"}")
        + &line("note", chapters[1])
        + &line("planned", "{\"id\":\"b\"}")
        + &line("outcome", "{\"id\":\"b\",\"ok\":true,\"content\":[]}")
        + &line("note", chapters[2]);
    let model = Recorded::parse("r", &text).unwrap();
    assert_eq!(model.answers, by_hand().answers);
    assert_eq!(model.should_end_well("b"), Some(true));
}

#[test]
fn a_name_is_a_file_or_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("talk.jsonl");
    std::fs::write(&file, BY_HAND).unwrap();
    assert_eq!(open(file.to_str().unwrap()).unwrap().card().provider, "replay");
    let absent = dir.path().join("absent");
    assert_eq!(open(absent.to_str().unwrap()).err().unwrap().kind, ModelErrorKind::Record);
    assert_eq!(open(dir.path().to_str().unwrap()).err().unwrap().kind, ModelErrorKind::Record);
}
