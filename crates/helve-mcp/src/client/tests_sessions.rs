//! Several sessions of one client before one server.

use std::sync::Arc;
use std::time::Duration;

use helve_core::servers::ServerMay;
use helve_core::{
    BoxFuture, Cancel, ErrorKind, LogLevel, Peer, QuestionKind, ServerCall, ServerSpec, Servers, ToolError,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Fleet;
use super::fake::{Io, call, fleet, spec, text};

/// How long it is looked whether a call waits.
const LOOKS: Duration = Duration::from_millis(300);

/// Two tools, of which one says that it only reads. What is to be held has no answer.
fn holds(io: &mut Io) {
    let tool = |name: &str, reads: bool| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": reads}});
    let tools = json!([tool("write", false), tool("read", true)]);
    while let Some(message) = io.next_call(&tools) {
        if message["method"] == "tools/call" && message["params"]["arguments"]["say"] != "hold" {
            io.answer(&message, text("done"));
        }
    }
}

/// A fleet whose server has started.
async fn started(spec: ServerSpec) -> Arc<Fleet> {
    let (fleet, ..) = fleet(spec, holds);
    fleet.call(call("s", "write", json!({}))).await.unwrap();
    fleet
}

/// Sends a call and waits for the answer.
async fn sent(seat: Arc<dyn Servers>, call: ServerCall, quickly: bool) -> Result<(), ToolError> {
    if !quickly {
        return seat.call(call).await.map(drop);
    }
    let mut sent = seat.send(call);
    std::future::poll_fn(|poller| sent.poll_reply(poller)).await.map(drop)
}

#[tokio::test]
async fn a_server_that_takes_one_call_at_a_time_does_so_for_all_sessions() {
    let cases = [
        (spec("s"), "write", "write", true),
        (spec("s"), "read", "read", true),
        (ServerSpec { trusted: true, ..spec("s") }, "read", "read", false),
        (ServerSpec { trusted: true, ..spec("s") }, "read", "write", true),
        (ServerSpec { trusted: true, ..spec("s") }, "write", "read", true),
        (ServerSpec { parallel: true, ..spec("s") }, "write", "write", false),
    ];
    for (spec, first, second, waits) in cases {
        for quickly in [true, false] {
            let what = format!("{second} behind {first}, trusted {}, {quickly}", spec.trusted);
            let fleet = started(spec.clone()).await;
            let hold = call("s", first, json!({"say": "hold"}));
            let held = tokio::spawn(sent(fleet.seat(), hold, quickly));
            tokio::time::sleep(Duration::from_millis(50)).await;
            let next = tokio::spawn(sent(fleet.seat(), call("s", second, json!({})), quickly));
            tokio::time::sleep(LOOKS).await;
            assert_eq!(!next.is_finished(), waits, "{what}");
            held.abort();
            timeout(Duration::from_secs(5), next).await.expect(&what).unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn who_waits_for_another_session_can_be_taken_back_and_loses_no_time() {
    let fleet = started(ServerSpec { call_timeout: Duration::from_secs(1), ..spec("s") }).await;
    let hold = || call("s", "write", json!({"say": "hold"}));
    let held = tokio::spawn(sent(fleet.seat(), hold(), false));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (canceller, cancel) = Cancel::pair();
    let taken_back = tokio::spawn(sent(fleet.seat(), ServerCall { cancel, ..hold() }, false));
    let behind = tokio::spawn(sent(fleet.seat(), call("s", "write", json!({})), false));
    tokio::time::sleep(Duration::from_millis(50)).await;
    canceller.cancel();
    let error = timeout(LOOKS, taken_back).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
    assert!(!behind.is_finished());
    assert_eq!(held.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
    behind.await.unwrap().unwrap();
}

/// Agrees to everything.
struct Agrees;

impl Peer for Agrees {
    fn takes(&self, _: QuestionKind) -> bool {
        true
    }

    fn ask<'a>(&'a self, _: &'a str, _: QuestionKind, _: Value) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async { Ok(json!({"action": "accept", "content": {}})) })
    }

    fn log(&self, _: LogLevel, _: Option<&str>, _: Value) {}
}

/// Asks while a call is under way, without saying for which it does. Its answer is what it heard.
fn asks(io: &mut Io) {
    let tools = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
    let form =
        json!({"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form});
    let mut asking = Value::Null;
    while let Some(message) = io.next_call(&tools) {
        if message["id"] == "q" {
            io.answer(&asking, text(&message.to_string()));
        } else if message["params"]["arguments"]["say"] == "ask" {
            asking = message;
            io.say(&question);
        } else if message["method"] == "tools/call" {
            io.answer(&message, text("done"));
        }
    }
}

#[tokio::test]
async fn a_question_that_may_be_about_another_sessions_call_is_not_asked() {
    let spec = ServerSpec { may: ServerMay { elicit: true, ..ServerMay::default() }, ..spec("s") };
    for is_same in [true, false] {
        let (fleet, ..) = fleet(spec.clone(), asks);
        let seat = fleet.seat();
        seat.call(call("s", "t", json!({}))).await.unwrap();
        let asked = ServerCall { peer: Some(Arc::new(Agrees)), ..call("s", "t", json!({"say": "ask"})) };
        let seat = if is_same { seat } else { fleet.seat() };
        let heard = seat.call(asked).await.unwrap();
        let heard = helve_core::output::join_text(&heard.content);
        assert_eq!(heard.contains("accept"), is_same, "{heard}");
        assert_eq!(heard.contains("belongs to no call"), !is_same, "{heard}");
    }
}
