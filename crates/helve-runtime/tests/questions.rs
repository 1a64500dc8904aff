//! How questions are asked: what each answer becomes, how often, together, without secrets, and what is recorded.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::asking::{Place, Scripted, always, call, kind, once, planned};
use common::journal;
use helve_core::{BoxFuture, Cancel, ErrorKind};
use helve_runtime::{Answer, Approval, ApprovalRequest, Approver};
use helve_store::Home;
use pretty_assertions::assert_eq;
use serde_json::json;

#[tokio::test]
async fn every_answer_has_its_kind_of_error() {
    let place = Place::new();
    for (answer, wanted, text) in [
        (Approval::Denied { reason: "not today".into() }, ErrorKind::ApprovalDenied, "not today"),
        (Approval::Nobody, ErrorKind::ApprovalRequired, "Nobody is there"),
        (Approval::TimedOut, ErrorKind::ApprovalRequired, "in time"),
        (Approval::Cancelled, ErrorKind::Cancelled, "cancelled"),
    ] {
        let given = answer.clone();
        let result = place.runtime(&Scripted::new(move |_| given.clone())).call(call("cargo build")).await;
        assert_eq!(kind(&result), Some(wanted));
        assert!(result.text().contains(text), "{}", result.text());
        let note = &planned(place.dir.path()).pop().unwrap()["approval"];
        assert_eq!(note["by"], "test");
        assert_eq!(note["parts"][0]["text"], "cargo build");
    }
    assert_eq!(place.ran(), 0);
}

#[tokio::test]
async fn three_denials_in_a_row_end_the_questions() {
    let place = Place::new();
    let no = Scripted::new(|_| Approval::Denied { reason: "no".into() });
    let runtime = place.runtime(&no);
    for _ in 0..6 {
        assert_eq!(kind(&runtime.call(call("cargo build")).await), Some(ErrorKind::ApprovalDenied));
    }
    assert_eq!(no.count(), 3);
    assert_eq!(planned(place.dir.path()).last().unwrap()["approval"]["answer"], "stopped");
}

#[tokio::test]
async fn a_minute_has_a_most_of_questions() {
    let place = Place::new();
    let yes = Scripted::new(once);
    let runtime = place.builder("limits.prompts_per_minute = 2").approver(yes.clone()).build().unwrap();
    let mut kinds = Vec::new();
    for _ in 0..4 {
        kinds.push(kind(&runtime.call(call("cargo build")).await));
    }
    let refused = Some(ErrorKind::ApprovalRequired);
    assert_eq!((kinds, yes.count()), (vec![None, None, refused, refused], 2));
    let refused = runtime.batch(vec![call("cargo build"), call("cargo test")]).await;
    assert!(refused[0].text().contains("Too many questions"), "{}", refused[0].text());
}

#[tokio::test]
async fn a_batch_asks_at_once_and_keeps_its_order() {
    let place = Place::new();
    let some = Scripted::new(|request| match request.command.as_deref() {
        Some("cargo test") => Approval::Denied { reason: "no".into() },
        _ => Approval::Once,
    });
    let runtime = place.runtime(&some);
    let calls = ["cargo build", "rm -rf x", "cargo test", "cargo doc"].map(call).into();
    let kinds: Vec<_> = runtime.batch(calls).await.iter().map(kind).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::Blocked), Some(ErrorKind::ApprovalDenied), None]);
    assert_eq!(*some.rounds.lock().unwrap(), [3]);
    let texts: Vec<String> = planned(place.dir.path())
        .iter()
        .map(|body| body["args"]["command"].as_str().unwrap().into())
        .collect();
    assert_eq!(texts.len(), 4);
}

#[tokio::test]
async fn no_secret_reaches_a_question_a_grant_or_the_journal() {
    let place = Place::new();
    std::fs::write(place.path("token"), "hunter2-hunter2").unwrap();
    let policy = format!("secrets = [{{ file = \"{}\" }}]", place.path("token").display());
    let yes = Scripted::new(always);
    let runtime = place.builder(&policy).approver(yes.clone()).build().unwrap();
    for _ in 0..2 {
        assert!(runtime.call(call("cargo login hunter2-hunter2 && cargo build")).await.ok);
    }
    let request = yes.last();
    assert_eq!((yes.count(), request.parts[0].offer.clone(), request.parts[0].span), (2, None, None));
    let json = serde_json::to_string(&request).unwrap();
    assert!(!json.contains("hunter2"), "{json}");
    assert!(json.contains("cargo login"), "{json}");
    assert!(!journal(place.dir.path()).contains("hunter2"));
    assert!(place.approvals().list(true).unwrap().iter().all(|row| !row.granted.pattern.contains("hunter2")));
}

#[tokio::test]
async fn no_secret_reaches_a_refusal_or_a_place_that_it_moved() {
    let place = Place::new();
    std::fs::write(place.path("token"), "hunter2-hunter2").unwrap();
    let secrets = format!("secrets = [{{ file = \"{}\" }}]\n", place.path("token").display());
    let nobody = Scripted::new(|_| Approval::Nobody);
    let command = "cargo login hunter2-hunter2 && $X";
    for list in ["tools.exec.allow_patterns = ['^ls$']\n", "tools.exec.ask_patterns = ['log.n']\n", ""] {
        let policy = format!("{list}{secrets}");
        let runtime = place.builder(&policy).approver(nobody.clone()).build().unwrap();
        let result = runtime.call(call(command)).await;
        assert!(kind(&result).is_some(), "{list}");
        assert_eq!(result.decision.as_ref().unwrap().span, None, "{list}");
        let json = serde_json::to_string(&result).unwrap();
        assert!(!json.contains("hunter2-") && !json.contains("hunter2\\"), "{list}: {json}");
    }
    let request = nobody.last();
    let effects = request.effects.unwrap();
    assert!(!effects.opaque.is_empty());
    assert!(effects.opaque.iter().all(|part| part.span.is_none()), "{effects:?}");
    assert_eq!((request.decision.span, request.parts[0].span), (None, None));
    let journal = journal(place.dir.path());
    assert!(!journal.contains("hunter2-") && !journal.contains("hunter2\\"), "{journal}");
}

#[tokio::test]
async fn the_journal_says_who_answered_and_on_which_approval_a_call_went_ahead() {
    let place = Place::new();
    let yes = Scripted::new(always);
    let runtime = place.runtime(&yes);
    let first = runtime.call(call("cargo build")).await;
    let second = runtime.call(call("cargo build")).await;
    assert!(first.ok && second.ok);
    let row = place.approvals().list(false).unwrap().remove(0);
    assert_eq!(
        (row.granted.call.as_str(), row.granted.shown.as_str()),
        (first.call.as_str(), yes.last().shown.as_str())
    );
    let bodies = planned(place.dir.path());
    let note = &bodies[0]["approval"];
    assert_eq!(
        (&note["answer"], &note["by"], &note["ids"]),
        (&json!("always"), &json!("test"), &json!([row.id]))
    );
    assert_eq!((&note["rule"], &note["shown"]), (&json!("guard.bare"), &json!(row.granted.shown)));
    assert_eq!(bodies[1]["approval"]["answer"], "stored");
    assert_eq!(bodies[1]["approval"]["ids"], json!([row.id]));
    assert_eq!(bodies[1]["decision"]["rule"], format!("approval {}", row.id));
    assert_eq!(bodies[1]["effects"]["programs"], json!(["cargo"]));
}

#[tokio::test]
async fn a_damaged_store_of_approvals_is_told_and_the_owner_is_asked() {
    let place = Place::new();
    Home::open(&place.path("state")).unwrap();
    std::fs::write(place.path("state/approvals.sqlite"), "no database, but long enough to be looked at")
        .unwrap();
    let yes = Scripted::new(always);
    let result = place.runtime(&yes).call(call("cargo build")).await;
    assert_eq!((result.ok, yes.count()), (true, 1));
    let notes = result.notes.join("\n");
    assert!(notes.contains("were not looked at") && notes.contains("for this call only"), "{notes}");
}

/// An approver that never answers by itself.
struct Silent;

impl Approver for Silent {
    fn ask<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_does_not_wait_for_its_answer() {
    let place = Place::new();
    let (handle, cancel) = Cancel::pair();
    let runtime = place.builder("").approver(Arc::new(Silent)).cancel(cancel).build().unwrap();
    let waiting = tokio::spawn(async move { runtime.call(call("cargo build")).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    handle.cancel();
    let result = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    assert_eq!(kind(&result), Some(ErrorKind::Cancelled));
}
