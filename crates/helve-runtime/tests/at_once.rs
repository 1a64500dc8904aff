//! Calls of tools that are done at once, taken together.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::asking::{Scripted, once};
use common::{builder, fake, journal, says};
use helve_core::{
    BoxFuture, Call, CallResult, Cancel, Context, ErrorKind, InstantTool, Output, Tool, ToolError, ToolSpec,
};
use helve_runtime::{Approval, CallScope, Caller, Runtime, Stand, Waits};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::Notify;

const SECRET: &str = "hunter2-correct-horse";

/// Gives its text back, and does as some texts say.
struct Quick {
    spec: ToolSpec,
    runs: Arc<AtomicUsize>,
    state: PathBuf,
}

impl Quick {
    fn new(root: &Path) -> (Quick, Arc<AtomicUsize>) {
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {"text": text}, "required": ["text"]});
        let spec = ToolSpec::new("quick", "Says it.", schema).read_only();
        let runs = Arc::new(AtomicUsize::new(0));
        (Quick { spec, runs: Arc::clone(&runs), state: root.join("state/sessions") }, runs)
    }
}

impl InstantTool for Quick {
    fn now(&self, args: Value) -> Result<Output, ToolError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        match args["text"].as_str().unwrap_or_default() {
            "fail" => Err(ToolError::failed("it failed")),
            "crash" => unreachable!("a crash that was asked for"),
            "break" => {
                block(&self.state);
                Ok(Output::text("broken"))
            }
            text => Ok(Output::text(text).with_details(json!({"chars": text.chars().count()}))),
        }
    }
}

impl Tool for Quick {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn instant(&self) -> Option<&dyn InstantTool> {
        Some(self)
    }

    fn run<'a>(&'a self, args: Value, _ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { self.now(args) })
    }
}

/// Puts something in the place of the journals, so that none can be written.
fn block(sessions: &Path) {
    let _ = std::fs::remove_dir_all(sessions);
    std::fs::create_dir_all(sessions.parent().unwrap()).unwrap();
    std::fs::write(sessions, "").unwrap();
}

fn calls(texts: &[&str]) -> Vec<Call> {
    let call = |(at, text): (usize, &&str)| Call {
        id: Some(json!(at)),
        ..Call::new("quick", json!({ "text": text }))
    };
    texts.iter().enumerate().map(call).collect()
}

/// Takes calls together, as a caller of that name.
fn together(runtime: &Runtime, calls: Vec<Call>) -> Vec<Stand> {
    let caller = Some(Caller::Named("one".to_owned()));
    runtime.at_once(CallScope { caller, ..CallScope::default() }).calls(calls)
}

fn done(stand: Stand) -> CallResult {
    match stand {
        Stand::Done(result) => *result,
        Stand::Sent(_) | Stand::Waits(_) => unreachable!("it waits"),
    }
}

fn waits(stands: Vec<Stand>) -> Waits {
    match stands.into_iter().next() {
        Some(Stand::Waits(waits)) => waits,
        Some(Stand::Done(result)) => unreachable!("{result:?}"),
        Some(Stand::Sent(_)) | None => unreachable!("no call that waits"),
    }
}

fn kind(result: &CallResult) -> Option<ErrorKind> {
    result.error.as_ref().map(|error| error.kind)
}

/// A result without what differs from run to run.
fn told(result: &CallResult) -> Value {
    let text = serde_json::to_string(result).unwrap().replace(result.call.as_str(), "CALL");
    let mut told: Value = serde_json::from_str(&text).unwrap();
    assert!(told.as_object_mut().unwrap().remove("duration_us").is_some());
    told
}

/// The entries of a journal by kind and body, the same way, by the ids of the calls: what is refused is recorded at once.
fn entries(root: &Path) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = Vec::new();
    for line in journal(root).lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let text = line.replace(entry["call"].as_str().unwrap(), "CALL");
        let mut entry: Value = serde_json::from_str(&text).unwrap();
        let body = entry["body"].as_object_mut().unwrap();
        for name in ["duration_us", "workspace"] {
            body.remove(name);
        }
        all.push((entry["type"].as_str().unwrap().to_owned(), entry["body"].take()));
    }
    all.sort_by_key(|(kind, body)| (body["id"].to_string(), kind == "outcome"));
    all
}

#[tokio::test]
async fn calls_that_go_together_come_to_what_they_come_to_one_by_one() {
    let mut each: Vec<Call> =
        calls(&["a", "fail", "ü\u{1b}[31m", "crash", SECRET, &"long ".repeat(20_000), "b"]);
    each.insert(2, Call::new("quick", json!({"txet": 1})));
    each.insert(3, Call { id: Some(json!("text")), ..Call::new("quick", json!({"text": 7})) });
    let one = tempfile::tempdir().unwrap();
    let all = tempfile::tempdir().unwrap();
    let runtime = |root: &Path| {
        let secret = root.join("token");
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        let policy = format!("[[secrets]]\nfile = {:?}\n", secret.to_str().unwrap());
        builder(root, &policy).register(Quick::new(root).0).build().unwrap()
    };
    let (one_by_one, at_once) = (runtime(one.path()), runtime(all.path()));
    let mut expected = Vec::new();
    for call in each.clone() {
        let caller = Some(Caller::Named("one".to_owned()));
        expected.push(one_by_one.call_in(call, CallScope { caller, ..CallScope::default() }).await);
    }
    let results: Vec<CallResult> = together(&at_once, each).into_iter().map(done).collect();
    for (result, expected) in results.iter().zip(&expected) {
        assert_eq!(told(result), told(expected));
    }
    let oks: Vec<bool> = results.iter().map(|result| result.ok).collect();
    assert_eq!(oks, [true, false, false, false, true, false, true, true, true]);
    assert_eq!(entries(all.path()), entries(one.path()));
    assert!(!journal(all.path()).contains(SECRET));
}

#[tokio::test]
async fn all_are_planned_before_any_runs() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = builder(dir.path(), "").register(Quick::new(dir.path()).0).build().unwrap();
    together(&runtime, calls(&["a", "b", "c"]));
    let kinds: Vec<String> = journal(dir.path())
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["planned", "planned", "planned", "outcome", "outcome", "outcome"]);
}

#[tokio::test]
async fn nothing_runs_that_cannot_be_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (quick, runs) = Quick::new(dir.path());
    let runtime = builder(dir.path(), "").register(quick).build().unwrap();
    let sessions = dir.path().join("state/sessions");
    block(&sessions);
    for stand in together(&runtime, calls(&["a", "b"])) {
        let result = done(stand);
        assert_eq!(kind(&result), Some(ErrorKind::Internal), "{result:?}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    // When its cause is gone, it works again.
    std::fs::remove_file(&sessions).unwrap();
    assert!(together(&runtime, calls(&["a"])).into_iter().map(done).all(|result| result.ok));
}

#[tokio::test]
async fn an_outcome_that_cannot_be_recorded_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = builder(dir.path(), "").register(Quick::new(dir.path()).0).build().unwrap();
    for stand in together(&runtime, calls(&["a", "break", "b"])) {
        let result = done(stand);
        assert_eq!((result.ok, kind(&result)), (false, Some(ErrorKind::Internal)));
    }
}

#[tokio::test]
async fn a_call_about_which_somebody_must_be_asked_waits_for_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (quick, runs) = Quick::new(dir.path());
    let policy = "[tools.quick]\napproval = \"always\"\n";
    let runtime = builder(dir.path(), policy).register(quick).build().unwrap();
    for (answer, ok) in [(Approval::Once, true), (Approval::Denied { reason: "no".to_owned() }, false)] {
        runs.store(0, Ordering::SeqCst);
        let waits = waits(together(&runtime, calls(&["a"])));
        assert_eq!(runs.load(Ordering::SeqCst), 0, "nobody was asked yet");
        let approver = Scripted::new(move |_| answer.clone());
        let asked = Arc::clone(&approver);
        let scope = CallScope { approver: Some(approver), ..CallScope::default() };
        let result = waits.go_on(scope).await;
        assert_eq!((result.ok, asked.count()), (ok, 1), "{result:?}");
        assert_eq!(result.id, Some(json!(0)));
        assert!(entries(dir.path()).iter().all(|(kind, body)| kind != "planned" || body["caller"] == "one"));
        assert_eq!(runs.load(Ordering::SeqCst), usize::from(ok));
    }
    // One that nobody goes on with never ran.
    runs.store(0, Ordering::SeqCst);
    drop(waits(together(&runtime, calls(&["a"]))));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// A tool that ends when it is let go.
fn held(exclusive: bool) -> (common::Fake, Arc<Notify>, Arc<Notify>) {
    let (began, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let spec = ToolSpec::new("held", "", common::open_schema());
    let spec = if exclusive { spec.exclusive() } else { spec.read_only() };
    let (begins, ends) = (Arc::clone(&began), Arc::clone(&may_end));
    let tool = fake(spec, move |_, _| {
        let (begins, ends) = (Arc::clone(&begins), Arc::clone(&ends));
        Box::pin(async move {
            begins.notify_one();
            ends.notified().await;
            Ok(Output::text("held"))
        })
    });
    (tool, began, may_end)
}

#[tokio::test]
async fn a_call_waits_for_its_turn_and_for_a_worker() {
    for (exclusive, policy) in [(true, ""), (false, "limits.workers = 1\n")] {
        let dir = tempfile::tempdir().unwrap();
        let (quick, runs) = Quick::new(dir.path());
        let (tool, began, may_end) = held(exclusive);
        let runtime = builder(dir.path(), policy).register(quick).register(tool).build().unwrap();
        let before = tokio::spawn({
            let runtime = runtime.clone();
            async move { runtime.call(Call::new("held", json!({}))).await }
        });
        began.notified().await;
        let waits = waits(together(&runtime, calls(&["a"])));
        let goes_on = tokio::spawn(async move { waits.go_on(CallScope::default()).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!goes_on.is_finished() && runs.load(Ordering::SeqCst) == 0);
        may_end.notify_one();
        assert!(before.await.unwrap().ok);
        let result = tokio::time::timeout(Duration::from_secs(10), goes_on).await.unwrap().unwrap();
        assert!(result.ok, "{result:?}");
        // Neither its place nor its worker is kept.
        assert!(together(&runtime, calls(&["b"])).into_iter().map(done).all(|result| result.ok));
    }
}

#[tokio::test]
async fn a_call_that_waits_can_be_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (quick, runs) = Quick::new(dir.path());
    let policy = "[tools.quick]\napproval = \"always\"\n";
    let runtime = builder(dir.path(), policy).register(quick).build().unwrap();
    let waits = waits(together(&runtime, calls(&["a"])));
    let (handle, cancel) = Cancel::pair();
    handle.cancel();
    let approver = Some(Scripted::new(once) as Arc<dyn helve_runtime::Approver>);
    let scope = CallScope { approver, cancel: Some(cancel), ..CallScope::default() };
    let result = waits.go_on(scope).await;
    assert_eq!((kind(&result), runs.load(Ordering::SeqCst)), (Some(ErrorKind::Cancelled), 0));
}

#[tokio::test]
async fn a_runtime_that_was_taken_back_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (quick, runs) = Quick::new(dir.path());
    let (handle, cancel) = Cancel::pair();
    let runtime = builder(dir.path(), "").register(quick).cancel(cancel).build().unwrap();
    handle.cancel();
    let results: Vec<_> = together(&runtime, calls(&["a"])).into_iter().map(done).collect();
    assert_eq!(results.iter().map(kind).collect::<Vec<_>>(), [Some(ErrorKind::Cancelled)]);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn only_tools_of_which_nobody_hears_are_done_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = |policy: &str| {
        builder(dir.path(), policy)
            .register(Quick::new(dir.path()).0)
            .register(says("slow", "text"))
            .build()
            .unwrap()
    };
    let takes = |runtime: &Runtime, tool: &str| runtime.at_once(CallScope::default()).takes(tool);
    let plain = runtime("");
    assert_eq!(["quick", "slow", "nothing"].map(|tool| takes(&plain, tool)), [true, false, false]);
    let result =
        waits(together(&plain, vec![Call::new("slow", json!({}))])).go_on(CallScope::default()).await;
    assert!(result.ok, "{result:?}");
    for event in ["before_call", "after_call"] {
        let hook = |tool: &str| {
            format!(
                "[[hooks]]\nname = \"h\"\non = \"{event}\"\nprogram = [\"/bin/true\"]\ntools = [\"{tool}\"]\n"
            )
        };
        let heard = runtime(&hook("quick"));
        assert!(!takes(&heard, "quick"), "{event}");
        // Whoever takes it for one gets no further than to the hook.
        assert!(matches!(together(&heard, calls(&["a"]))[..], [Stand::Waits(_)]), "{event}");
        assert!(takes(&runtime(&hook("slow")), "quick"), "{event}");
    }
}
