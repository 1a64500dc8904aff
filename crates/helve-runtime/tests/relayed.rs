//! Calls that servers work on, sent together and answered when that is done.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

mod common;
#[path = "relayed/queue.rs"]
mod queue;
#[path = "relayed/stay.rs"]
mod stay;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll, Waker};
use std::time::Duration;

use common::{builder, journal};
use helve_core::access::Resource;
use helve_core::context::ProgressNote;
use helve_core::{
    Access, BoxFuture, Call, CallResult, Cancel, Content, Context, ErrorKind, Output, RelayTool,
    SandboxReport, SentCall, ServerCall, ServerReply, Servers, Tool, ToolError, ToolSpec,
};
use helve_runtime::{AtOnce, CallScope, Caller, Runtime, Stand, Taken};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A server's tool. It says what the server said, and crashes where that is `crash`.
struct Relay(ToolSpec);

impl Relay {
    fn new() -> Relay {
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {"text": text}, "required": ["text"]});
        Relay(ToolSpec::new("mcp__a__t", "Says it.", schema).origin("a", "t"))
    }

    fn read_only() -> Relay {
        Relay(Relay::new().0.read_only())
    }
}

impl RelayTool for Relay {
    fn told(&self, reply: ServerReply) -> Result<Output, ToolError> {
        let output = Output { content: reply.content, ..Output::default() };
        match output.content.first() {
            Some(Content::Text { text, .. }) if text == "crash" => {
                unreachable!("a crash that was asked for")
            }
            _ if reply.is_error => Err(ToolError::failed("it failed").with_output(output)),
            _ => Ok(output),
        }
    }
}

impl Tool for Relay {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self, _args: &Value) -> Access {
        let (mut access, key) = (Access::default(), Resource::Key("mcp:a".to_owned()));
        if self.0.read_only {
            access.reads.push(key)
        } else {
            access.writes.push(key)
        }
        access
    }

    fn relay(&self) -> Option<&dyn RelayTool> {
        Some(self)
    }

    fn run<'a>(&'a self, args: Value, ctx: &'a Context) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let call = ServerCall {
                server: "a".to_owned(),
                act: helve_core::ServerAct::CallTool,
                tool: "t".to_owned(),
                args,
                progress: ctx.progress().clone(),
                cancel: ctx.cancelled().clone(),
                peer: ctx.peer().cloned(),
            };
            self.told(ctx.servers()?.call(call).await?)
        })
    }
}

/// A server that does as the texts say. `hold` is answered when it is let go, `slow` never and has five seconds.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// What was sent, with what the journal had by then.
    sent: Vec<(String, usize)>,
    given_up: usize,
    /// How many calls somebody holds.
    held: usize,
    is_let_go: bool,
    waker: Option<Waker>,
    home: std::path::PathBuf,
}

struct Sent {
    of: Server,
    text: String,
    until: Option<Instant>,
    is_done: bool,
}

fn reply(text: &str) -> Result<ServerReply, ToolError> {
    if text == "gone" {
        return Err(ToolError::failed("the server is gone"));
    }
    Ok(ServerReply {
        content: vec![Content::text(text)],
        structured: None,
        is_error: text == "fail",
        sandbox: Some(SandboxReport { backend: "test".to_owned(), ..SandboxReport::default() }.into()),
    })
}

impl Servers for Server {
    fn call(&self, call: ServerCall) -> BoxFuture<'_, Result<ServerReply, ToolError>> {
        Box::pin(async move { reply(call.args["text"].as_str().unwrap_or_default()) })
    }

    fn send(self: Arc<Self>, call: ServerCall) -> Box<dyn SentCall> {
        assert_eq!((&*call.server, &*call.tool), ("a", "t"));
        let text = call.args["text"].as_str().unwrap_or_default().to_owned();
        call.progress.step(1.0, Some(2.0), format!("{text} is begun"));
        let mut kept = self.0.lock().unwrap();
        let lines = if kept.home.as_os_str().is_empty() { 0 } else { journal(&kept.home).lines().count() };
        kept.sent.push((text.clone(), lines));
        kept.held += 1;
        drop(kept);
        let until = (text == "slow").then(|| Instant::now() + Duration::from_secs(5));
        Box::new(Sent { of: (*self).clone(), text, until, is_done: false })
    }
}

impl SentCall for Sent {
    fn poll_reply(&mut self, poller: &mut Poller<'_>) -> Poll<Result<ServerReply, ToolError>> {
        assert!(self.text != "poll-crash", "a crash that was asked for");
        let mut kept = self.of.0.lock().unwrap();
        match &*self.text {
            "slow" if self.left() == Some(Duration::ZERO) => {
                self.is_done = true;
                Poll::Ready(Err(ToolError::new(ErrorKind::Timeout, "the server is slow")))
            }
            "slow" | "never" => Poll::Pending,
            "look" => {
                self.is_done = true;
                let journal = kept.home.join("state/sessions/test/journal.jsonl");
                Poll::Ready(reply(&stay::is_free(&journal).to_string()))
            }
            "hold" if !kept.is_let_go => {
                kept.waker = Some(poller.waker().clone());
                Poll::Pending
            }
            text => {
                self.is_done = true;
                Poll::Ready(reply(text))
            }
        }
    }

    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Ok(mut kept) = self.of.0.lock() {
            kept.given_up += usize::from(!self.is_done);
            kept.held -= 1;
        }
    }
}

impl Server {
    fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().sent.iter().map(|(text, _)| text.clone()).collect()
    }

    fn given_up(&self) -> usize {
        self.0.lock().unwrap().given_up
    }

    fn held(&self) -> usize {
        self.0.lock().unwrap().held
    }

    fn let_go(&self) {
        let mut kept = self.0.lock().unwrap();
        kept.is_let_go = true;
        if let Some(waker) = kept.waker.take() {
            waker.wake();
        }
    }
}

fn runtime(root: &Path, policy: &str, tool: Relay) -> (Runtime, Server) {
    let server = Server::default();
    let builder = builder(root, policy).register(tool).servers(Arc::new(server.clone()));
    (builder.build().unwrap(), server)
}

fn by_one() -> CallScope {
    CallScope { caller: Some(Caller::Named("one".to_owned())), ..CallScope::default() }
}

fn calls(texts: &[&str]) -> Vec<Call> {
    let call = |(at, text): (usize, &&str)| Call {
        id: Some(json!(at)),
        ..Call::new("mcp__a__t", json!({ "text": text }))
    };
    texts.iter().enumerate().map(call).collect()
}

fn numbers(stands: Vec<Stand>) -> Vec<u64> {
    let number = |stand| match stand {
        Stand::Sent(number) => number,
        Stand::Done(result) => unreachable!("{result:?}"),
        Stand::Waits(_) => unreachable!("it waits"),
    };
    stands.into_iter().map(number).collect()
}

/// The results of so many calls, by their numbers.
async fn results(at_once: &mut AtOnce, count: usize) -> Vec<(u64, CallResult)> {
    let mut all = Vec::new();
    let wait = std::future::poll_fn(|poller| {
        all.extend(at_once.poll(poller).into_iter().map(|(number, result)| (number, *result)));
        if all.len() < count { Poll::Pending } else { Poll::Ready(()) }
    });
    tokio::time::timeout(Duration::from_secs(600), wait).await.unwrap();
    all.sort_by_key(|(number, _)| *number);
    all
}

fn kind(result: &CallResult) -> Option<ErrorKind> {
    result.error.as_ref().map(|error| error.kind)
}

/// What differs from run to run goes.
fn told(mut value: Value, call: &str) -> Value {
    for name in ["duration_us", "workspace"] {
        value.as_object_mut().unwrap().remove(name);
    }
    serde_json::from_str(&value.to_string().replace(call, "CALL")).unwrap()
}

fn entries(root: &Path) -> Vec<(String, Value)> {
    let entry = |line: &str| {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        let call = entry["call"].as_str().unwrap().to_owned();
        (entry["type"].as_str().unwrap().to_owned(), told(entry["body"].take(), &call))
    };
    let mut all: Vec<_> = journal(root).lines().map(entry).collect();
    all.sort_by_key(|(kind, body)| (body["id"].to_string(), kind == "outcome"));
    all
}

#[tokio::test]
async fn calls_that_are_sent_come_to_what_they_come_to_when_they_are_waited_for() {
    let texts = ["a", "fail", "gone", "ü\u{1b}[31m", "crash", "b"];
    let (one, all) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (waited, _) = runtime(one.path(), "", Relay::read_only());
    let mut expected = Vec::new();
    for call in calls(&texts) {
        expected.push(waited.call_in(call, by_one()).await);
    }
    let (sent, server) = runtime(all.path(), "", Relay::read_only());
    server.0.lock().unwrap().home = all.path().to_owned();
    let mut at_once = sent.at_once(by_one());
    assert!(at_once.takes("mcp__a__t"));
    let numbers = numbers(at_once.calls(calls(&texts)));
    let lines: Vec<usize> = server.0.lock().unwrap().sent.iter().map(|(_, lines)| *lines).collect();
    assert_eq!(lines, [texts.len(); 6], "all were planned before any was sent");
    let results = results(&mut at_once, texts.len()).await;
    assert_eq!(results.iter().map(|(number, _)| *number).collect::<Vec<_>>(), numbers);
    for ((_, result), expected) in results.iter().zip(&expected) {
        let told = |result: &CallResult| told(serde_json::to_value(result).unwrap(), result.call.as_str());
        assert_eq!(told(result), told(expected));
        assert_eq!(result.tainted.as_deref(), Some("mcp:a"));
    }
    let oks: Vec<bool> = results.iter().map(|(_, result)| result.ok).collect();
    assert_eq!(oks, [true, false, false, true, false, true]);
    assert_eq!(entries(all.path()), entries(one.path()));
}

#[tokio::test]
async fn nothing_is_sent_that_cannot_be_recorded_or_was_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "", Relay::read_only());
    let (handle, cancel) = Cancel::pair();
    let mut at_once = runtime.at_once(CallScope { cancel: Some(cancel), ..by_one() });
    let sessions = dir.path().join("state/sessions");
    std::fs::create_dir_all(sessions.parent().unwrap()).unwrap();
    std::fs::write(&sessions, "").unwrap();
    let kinds = |stands: Vec<Stand>| -> Vec<_> {
        let kind = |stand| match stand {
            Stand::Done(result) => kind(&result),
            Stand::Sent(_) | Stand::Waits(_) => None,
        };
        stands.into_iter().map(kind).collect()
    };
    assert_eq!(kinds(at_once.calls(calls(&["a", "b"]))), [Some(ErrorKind::Internal); 2]);
    std::fs::remove_file(&sessions).unwrap();
    handle.cancel();
    assert_eq!(kinds(at_once.calls(calls(&["a"]))), [Some(ErrorKind::Cancelled)]);
    assert_eq!(server.texts(), [] as [&str; 0]);
}

#[tokio::test]
async fn an_answer_that_cannot_be_recorded_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "", Relay::read_only());
    let mut at_once = runtime.at_once(by_one());
    numbers(at_once.calls(calls(&["hold"])));
    let sessions = dir.path().join("state/sessions");
    std::fs::remove_dir_all(&sessions).unwrap();
    std::fs::write(&sessions, "").unwrap();
    server.let_go();
    let (_, result) = results(&mut at_once, 1).await.remove(0);
    assert_eq!((result.ok, kind(&result)), (false, Some(ErrorKind::Internal)));
}

#[tokio::test]
async fn who_waits_is_woken_and_a_crash_touches_no_other_call() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "", Relay::read_only());
    let mut at_once = runtime.at_once(by_one());
    numbers(at_once.calls(calls(&["hold", "poll-crash", "a"])));
    let early = results(&mut at_once, 2).await;
    assert_eq!(early.iter().map(|(_, one)| kind(one)).collect::<Vec<_>>(), [Some(ErrorKind::Internal), None]);
    let late = tokio::spawn(async move { results(&mut at_once, 1).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.let_go();
    assert!(late.await.unwrap()[0].1.ok);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_when_its_time_is_up() {
    for (text, policy, after) in [("slow", "", 5), ("never", "limits.tool_timeout = 7\n", 7)] {
        let dir = tempfile::tempdir().unwrap();
        let (runtime, server) = runtime(dir.path(), policy, Relay::read_only());
        let mut at_once = runtime.at_once(by_one());
        // One that is due sooner than the one before it is not forgotten.
        numbers(at_once.calls(calls(&["hold"])));
        assert!(at_once.poll(&mut Poller::from_waker(Waker::noop())).is_empty());
        numbers(at_once.calls(calls(&[text])));
        let from = Instant::now();
        let (_, result) = results(&mut at_once, 1).await.pop().unwrap();
        let took = from.elapsed().as_secs();
        assert_eq!((kind(&result), took), (Some(ErrorKind::Timeout), after), "{result:?}");
        // All have the same time where it is the tool's.
        assert_eq!(server.given_up(), if text == "never" { 2 } else { 0 });
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_is_recorded_and_the_server_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "", Relay::read_only());
    let outcomes = || -> Vec<Value> {
        let of = |(kind, body): (String, Value)| (kind == "outcome").then(|| body["error"]["kind"].clone());
        entries(dir.path()).into_iter().filter_map(of).collect()
    };
    let (handle, cancel) = Cancel::pair();
    let mut at_once = runtime.at_once(CallScope { cancel: Some(cancel), ..by_one() });
    let numbers = numbers(at_once.calls(calls(&["never", "never", "never"])));
    at_once.take_back(numbers[1]);
    assert_eq!((server.given_up(), outcomes()), (1, vec![json!("cancelled")]));
    // When the runtime is taken back, who waits hears it.
    let waits = tokio::spawn(async move { (results(&mut at_once, 2).await, at_once) });
    tokio::time::sleep(Duration::from_millis(20)).await;
    handle.cancel();
    let (results, at_once) = waits.await.unwrap();
    assert!(results.iter().all(|(_, result)| kind(result) == Some(ErrorKind::Cancelled)), "{results:?}");
    assert_eq!((server.given_up(), outcomes()), (3, vec![json!("cancelled"); 3]));
    drop(at_once);
    // So is what nobody waits for any more.
    let mut gone = runtime.at_once(by_one());
    assert_eq!(gone.calls(calls(&["never"])).len(), 1);
    drop(gone);
    assert_eq!((server.given_up(), outcomes()), (4, vec![json!("cancelled"); 4]));
}

/// That takes a moment, which nobody should have to wait for who waits for a result.
#[tokio::test]
async fn a_call_is_let_go_of_once_its_result_was_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let (runtime, server) = runtime(dir.path(), "", Relay::read_only());
    let mut at_once = runtime.at_once(by_one());
    let held_after = |at_once: &mut AtOnce, text: &'static str| {
        numbers(at_once.calls(calls(&[text])));
        assert_eq!(at_once.poll(&mut Poller::from_waker(Waker::noop())).len(), 1);
        server.held()
    };
    assert_eq!(held_after(&mut at_once, "a"), 0, "who does not stay may never come back");
    at_once.stay();
    assert_eq!(held_after(&mut at_once, "a"), 1);
    assert_eq!(held_after(&mut at_once, "a"), 1, "those before it are let go of");
    at_once.settle();
    assert_eq!(server.held(), 0);
    assert_eq!(held_after(&mut at_once, "a"), 1);
    at_once.rest();
    assert_eq!(server.held(), 0);
    at_once.stay();
    assert_eq!(held_after(&mut at_once, "gone"), 0, "what did not come to its end is taken back at once");
    assert_eq!(held_after(&mut at_once, "a"), 1);
    drop(at_once);
    assert_eq!(server.held(), 0);
}

#[tokio::test]
async fn what_every_call_is_held_to_holds_for_those_that_are_sent() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "hunter2-correct-horse\n").unwrap();
    let secret = format!("[[secrets]]\nfile = {:?}\n", dir.path().join("token").to_str().unwrap());
    let hook = "[[hooks]]\nname = 'h'\non = 'before_call'\nprogram = ['/bin/true']\ntools = ['mcp__a__t']\n";
    // A hook hears of it, or somebody has to be asked: each goes the way of every other call.
    for (policy, takes) in [(hook, false), ("[tools.mcp__a__t]\napproval = 'always'\n", true)] {
        let (runtime, server) = runtime(dir.path(), policy, Relay::read_only());
        let mut at_once = runtime.at_once(by_one());
        assert_eq!(at_once.takes("mcp__a__t"), takes, "{policy}");
        let stands = at_once.calls(calls(&["a", "b"]));
        assert!(stands.iter().all(|stand| matches!(stand, Stand::Waits(_))), "{policy}");
        assert_eq!(server.texts().len(), 0, "{policy}");
    }
    let limited = "[tools.mcp__a__t]\nper_minute = 1\n";
    let (limits, server) = runtime(dir.path(), limited, Relay::read_only());
    let mut at_once = limits.at_once(by_one());
    let stands = at_once.calls(calls(&["a", "b"]));
    let Stand::Done(refused) = &stands[1] else { unreachable!("it is sent") };
    assert_eq!((kind(refused), server.texts().len()), (Some(ErrorKind::RateLimited), 1));
    // What a server says is governed.
    let (governed, _) = runtime(dir.path(), &secret, Relay::read_only());
    let mut at_once = governed.at_once(by_one());
    numbers(at_once.calls(calls(&["it is hunter2-correct-horse"])));
    let (_, result) = results(&mut at_once, 1).await.remove(0);
    assert!(result.ok && !result.text().contains("hunter2"), "{result:?}");
    assert!(!journal(dir.path()).contains("hunter2"));
}

#[tokio::test]
async fn each_call_tells_its_own_listener_how_far_it_is_and_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "hunter2-correct-horse\n").unwrap();
    let secret = format!("[[secrets]]\nfile = {:?}\n", dir.path().join("token").to_str().unwrap());
    let (runtime, _) = runtime(dir.path(), &secret, Relay::read_only());
    let ((to_all, mut all), (to_one, mut one)) = (mpsc::channel(8), mpsc::channel(8));
    let mut at_once = runtime.at_once(CallScope { progress: Some(to_all), ..by_one() });
    let listeners = [None, Some(to_one), None];
    let taken = |(call, progress)| Taken { call, progress };
    let texts = ["a", "hunter2-correct-horse", "c"];
    numbers(at_once.calls(calls(&texts).into_iter().zip(listeners).map(taken)));
    let said = |notes: &mut mpsc::Receiver<ProgressNote>| -> Vec<String> {
        std::iter::from_fn(|| notes.try_recv().ok()).map(|note| note.message).collect()
    };
    assert_eq!(said(&mut all), ["a is begun", "c is begun"]);
    let own = said(&mut one).remove(0);
    assert!(own.ends_with(" is begun") && !own.contains("hunter2"), "{own}");
    let results = results(&mut at_once, 3).await;
    assert!(results.iter().all(|(_, result)| result.ok));
    assert!(one.is_closed(), "nobody tells anything of a call that is over");
}
