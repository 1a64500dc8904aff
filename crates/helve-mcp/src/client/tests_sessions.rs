//! Several sessions of one client before one server.

use std::sync::Arc;

use helve_core::servers::ServerMay;
use helve_core::{BoxFuture, LogLevel, Peer, QuestionKind, ServerCall, ServerSpec, Servers as _, ToolError};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::fake::{Io, call, fleet, spec, text};

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
