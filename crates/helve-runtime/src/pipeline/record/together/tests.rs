//! Entries that are written together.

use std::path::Path;

use helve_core::CallId;
use helve_store::{EntryKind, Home, Tail};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn recorder(home: &Path) -> Recorder {
    Recorder::new(home.to_owned(), "s".into(), "/w".into(), false)
}

fn entry(recorder: &Recorder, number: u128, alone: bool) -> Recorded<'_> {
    let call = CallId::from_parts(1, number);
    let put = |batch: &mut Batch| {
        batch.put(EntryKind::Note, Some(call.as_str()), 1, &json!(number as u64)).unwrap();
        Ok(())
    };
    Recorded::new(recorder, put, alone)
}

/// An entry of a call that is not the only one.
fn call(recorder: &Recorder, number: u128) -> Recorded<'_> {
    entry(recorder, number, false)
}

/// Looks at it once.
fn look(call: &mut Recorded<'_>) -> Option<Result<(), ToolError>> {
    match Pin::new(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(written) => Some(written),
        Poll::Pending => None,
    }
}

fn written(home: &Path) -> Vec<u64> {
    let home = Home::open(home).unwrap();
    if !home.sessions().unwrap().contains(&"s".to_owned()) {
        return Vec::new();
    }
    let mut tail = Tail::open(&home, "s", 0).unwrap();
    let mut all = Vec::new();
    while let Some(record) = tail.next_record().unwrap() {
        all.push(record.body.as_u64().unwrap());
    }
    all
}

#[test]
fn the_first_waits_for_who_is_ready_and_writes_for_all() {
    let home = tempfile::tempdir().unwrap();
    let recorder = recorder(home.path());
    let mut calls: Vec<_> = (0..3).map(|number| call(&recorder, number)).collect();
    for call in &mut calls {
        assert_eq!(look(call), None);
        assert_eq!(written(home.path()), [] as [u64; 0], "nobody goes on before it is written");
    }
    let mut others = calls.split_off(1);
    assert_eq!(look(&mut others[0]), None, "nor does who follows write");
    assert_eq!(look(&mut calls[0]), Some(Ok(())));
    assert_eq!(written(home.path()), [0, 1, 2]);
    for other in &mut others {
        assert_eq!(look(other), Some(Ok(())));
    }
    let mut alone = entry(&recorder, 9, true);
    assert_eq!(look(&mut alone), Some(Ok(())), "alone it waits for nobody");
    assert_eq!(written(home.path()), [0, 1, 2, 9]);
}

#[test]
fn who_leads_and_is_dropped_leaves_nobody_waiting() {
    let home = tempfile::tempdir().unwrap();
    let recorder = recorder(home.path());
    let mut leads = call(&recorder, 0);
    let mut follows = call(&recorder, 1);
    assert_eq!((look(&mut leads), look(&mut follows)), (None, None));
    drop(leads);
    assert_eq!(look(&mut follows), Some(Ok(())));
    assert_eq!(written(home.path()), [0, 1]);
}

#[test]
fn who_is_dropped_before_anybody_looked_leaves_nobody_waiting() {
    let home = tempfile::tempdir().unwrap();
    let recorder = recorder(home.path());
    let leads = call(&recorder, 0);
    let mut follows = call(&recorder, 1);
    drop(leads);
    assert_eq!(look(&mut follows), Some(Ok(())));
    assert_eq!(written(home.path()), [0, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_is_written_before_it_is_said_to_be() {
    let home = tempfile::tempdir().unwrap();
    let recorder = Arc::new(recorder(home.path()));
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (recorder, home) = (Arc::clone(&recorder), home.path().to_owned());
        calls.spawn(async move {
            call(&recorder, number).await.unwrap();
            assert!(written(&home).contains(&(number as u64)));
        });
    }
    calls.join_all().await;
    let mut all = written(home.path());
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<u64>>());
}

#[test]
fn all_of_a_round_hear_that_it_was_not_written() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "").unwrap();
    let recorder = recorder(&home.path().join("file/beneath"));
    let mut calls: Vec<_> = (0..2).map(|number| call(&recorder, number)).collect();
    for call in &mut calls {
        assert_eq!(look(call), None);
    }
    for call in &mut calls {
        let error = look(call).unwrap().unwrap_err();
        assert!(error.hint.unwrap().starts_with("Nothing runs unrecorded."));
    }
}
