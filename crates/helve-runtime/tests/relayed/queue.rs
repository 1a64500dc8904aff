//! Calls that are sent when their turn has come.

use pretty_assertions::assert_eq;

use super::*;

/// What the journal tells of calls, in its order.
fn story(root: &Path) -> Vec<(String, String)> {
    let entry = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let body = &entry["body"];
        let what = match of(&entry["type"]).as_str() {
            "planned" => of(&body["args"]["text"]),
            _ => of(&body["error"]["kind"]),
        };
        (of(&entry["type"]), what)
    };
    journal(root).lines().map(entry).collect()
}

fn told(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(kind, what)| ((*kind).to_owned(), (*what).to_owned())).collect()
}

#[tokio::test]
async fn a_call_of_a_server_that_may_change_something_waits_for_the_one_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "", Relay::new());
    let mut at_once = runtime.at_once(by_one());
    let numbers = numbers(at_once.calls(calls(&["hold", "b", "c"])));
    let waits = tokio::spawn(async move { results(&mut at_once, 3).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!((waits.is_finished(), server.texts()), (false, vec!["hold".to_owned()]));
    assert_eq!(story(dir.path()), told(&[("planned", "hold")]), "what waits was not begun");
    server.let_go();
    let results = waits.await.unwrap();
    assert!(results.iter().all(|(_, result)| result.ok), "{results:?}");
    assert_eq!(results.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers);
    let one_by_one = [
        ("planned", "hold"),
        ("outcome", ""),
        ("planned", "b"),
        ("outcome", ""),
        ("planned", "c"),
        ("outcome", ""),
    ];
    assert_eq!(story(dir.path()), told(&one_by_one));
}

#[tokio::test]
async fn one_that_waits_for_another_caller_is_woken() {
    let dir = tempfile::tempdir().unwrap();
    for policy in ["", "parallel = false\n", "limits.workers = 1\n"] {
        let tool = if policy.is_empty() { Relay::new() } else { Relay::read_only() };
        let (runtime, server) = runtime(dir.path(), policy, tool);
        let mut first = runtime.at_once(by_one());
        let two = CallScope { caller: Some(Caller::Named("two".to_owned())), ..CallScope::default() };
        let mut second = runtime.at_once(two);
        numbers(first.calls(calls(&["hold"])));
        numbers(second.calls(calls(&["b"])));
        assert!(!second.sees(), "its turn is not seen by looking: {policy}");
        let waits = tokio::spawn(async move { results(&mut second, 1).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!((waits.is_finished(), server.texts().len()), (false, 1), "{policy}");
        server.let_go();
        results(&mut first, 1).await;
        let results = tokio::time::timeout(Duration::from_secs(60), waits).await.unwrap().unwrap();
        assert!(results[0].1.ok, "{policy}");
    }
}

#[tokio::test]
async fn no_more_are_sent_than_there_are_workers() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "limits.workers = 2\n", Relay::read_only());
    let mut at_once = runtime.at_once(by_one());
    numbers(at_once.calls(calls(&["hold", "hold", "c"])));
    assert!(at_once.poll(&mut Poller::from_waker(Waker::noop())).is_empty());
    assert_eq!(server.texts().len(), 2);
    server.let_go();
    results(&mut at_once, 3).await;
    numbers(at_once.calls(calls(&["d", "e"])));
    assert_eq!(server.texts().len(), 5, "no worker is kept");
}

/// A worker that becomes free goes to who waits for one first, whether anybody still wants that or not.
#[tokio::test]
async fn one_that_is_taken_back_keeps_no_worker() {
    for also_waits in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, server) = runtime(dir.path(), "limits.workers = 1\n", Relay::read_only());
        let (mut first, mut second) = (runtime.at_once(by_one()), runtime.at_once(by_one()));
        numbers(first.calls(calls(&["hold"])));
        let waiting = numbers(second.calls(calls(&["b", "c"])));
        assert!(second.poll(&mut Poller::from_waker(Waker::noop())).is_empty());
        second.take_back(waiting[0]);
        if !also_waits {
            second.take_back(waiting[1]);
        }
        server.let_go();
        results(&mut first, 1).await;
        if also_waits {
            assert!(results(&mut second, 1).await[0].1.ok, "who came behind it");
        }
        numbers(first.calls(calls(&["d"])));
        assert_eq!(server.texts().last().unwrap(), "d", "the worker is free");
        assert!(results(&mut first, 1).await[0].1.ok);
    }
}

#[tokio::test]
async fn one_that_is_taken_back_while_it_waits_is_never_sent_and_is_recorded() {
    let cancelled = |root: &Path| {
        let story = story(root);
        story.into_iter().filter(|(kind, what)| kind == "outcome" && what == "cancelled").count()
    };
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "", Relay::new());
    let mut holds = runtime.at_once(by_one());
    numbers(holds.calls(calls(&["hold"])));
    let (handle, cancel) = Cancel::pair();
    let mut at_once = runtime.at_once(CallScope { cancel: Some(cancel), ..by_one() });
    let numbers = numbers(at_once.calls(calls(&["b", "c"])));
    at_once.take_back(numbers[0]);
    assert_eq!(cancelled(dir.path()), 1);
    // When the runtime is taken back, who waits hears it.
    let waits = tokio::spawn(async move { results(&mut at_once, 1).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waits.is_finished());
    handle.cancel();
    let (number, result) = waits.await.unwrap().remove(0);
    assert_eq!((number, kind(&result)), (numbers[1], Some(ErrorKind::Cancelled)));
    assert_eq!(cancelled(dir.path()), 2);
    // So is what nobody waits for any more.
    assert_eq!(holds.calls(calls(&["d"])).len(), 1);
    drop(holds);
    assert_eq!((server.texts(), cancelled(dir.path())), (vec!["hold".to_owned()], 4));
}
