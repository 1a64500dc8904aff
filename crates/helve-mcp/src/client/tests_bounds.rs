//! Servers that send more than anybody needs.

use std::io::Write as _;

use helve_core::servers::ServerMay;
use helve_core::{ServerAct, ServerCall, ServerSpec, Servers, ToolError};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::fake::{call, echo_tool, fleet, spec};

#[tokio::test]
async fn a_tool_that_is_too_large_is_left_out_and_the_next_page_is_read() {
    let (fleet, _, _) = fleet(spec("s"), |io| {
        let large =
            json!([{"name": "large", "description": "x".repeat(300_000), "inputSchema": {"type": "object"}}]);
        while let Some(message) = io.next_any() {
            match (message["method"].as_str().unwrap_or_default(), message["params"]["cursor"].as_str()) {
                ("tools/list", None) => io.answer(&message, json!({"tools": large, "nextCursor": "2"})),
                ("tools/list", Some(_)) => io.answer(&message, json!({"tools": echo_tool("small")})),
                _ => {}
            }
        }
    });
    let look = fleet.look("s").await.unwrap();
    assert_eq!(look.tools.iter().map(|look| look.definition.tool.as_str()).collect::<Vec<_>>(), ["echo"]);
    assert_eq!(look.rejected.len(), 1);
    assert_eq!(look.rejected[0].tool, "large");
    assert!(look.rejected[0].reason.contains("more than 262144"), "{}", look.rejected[0].reason);
}

#[tokio::test]
async fn pages_of_large_tools_come_to_an_end() {
    let patient = ServerSpec { start_timeout: std::time::Duration::from_secs(120), ..spec("s") };
    let (fleet, _, _) = fleet(patient, |io| {
        let mut page = 0;
        while let Some(message) = io.next_any() {
            if message["method"] == "tools/list" {
                page += 1;
                let tool = json!({"name": format!("t{page}"), "description": "x".repeat(900_000), "inputSchema": {"type": "object"}});
                io.answer(&message, json!({"tools": [tool], "nextCursor": page.to_string()}));
            }
        }
    });
    let error = fleet.look("s").await.unwrap_err();
    assert_eq!(error.message, "The MCP server 's' lists more than 33554432 bytes of tools.");
}

/// The work is done, and who is told of a refusal would ask for it again.
#[tokio::test]
async fn an_answer_that_cannot_be_read_is_no_refusal() {
    let (fleet, _, _) = fleet(spec("s"), |io| {
        while let Some(message) = io.next_call(&echo_tool("nests")) {
            let (open, close) = ("[".repeat(2_000), "]".repeat(2_000));
            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"a":{open}{close}}}}}"#, message["id"]);
            let _ = io.write.write_all(format!("{answer}\n").as_bytes());
        }
    });
    let error = fleet.call(call("s", "echo", json!({}))).await.unwrap_err();
    let said = "The MCP server 's' answered 'echo' with something that cannot be read: ";
    assert!(error.message.starts_with(said) && error.message.contains("recursion limit"), "{error:?}");
    assert!(error.hint.unwrap().contains("may have done"));
}

#[tokio::test]
async fn only_so_many_questions_are_taken_at_a_time() {
    let asks = ServerSpec { may: ServerMay { elicit: true, ..ServerMay::default() }, ..spec("s") };
    let (fleet, _, _) = fleet(asks, |io| {
        while let Some(message) = io.next() {
            match message["method"].as_str().unwrap_or_default() {
                "server/discover" => io.answer(
                    &message,
                    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
                ),
                "tools/list" => io.answer(
                    &message,
                    json!({"resultType": "complete", "tools": echo_tool("asks"), "ttlMs": 0, "cacheScope": "private"}),
                ),
                "tools/call" => {
                    let question = json!({"method": "roots/list"});
                    let questions: serde_json::Map<_, _> =
                        (0..17).map(|n| (format!("q{n}"), question.clone())).collect();
                    io.answer(&message, json!({"resultType": "input_required", "inputRequests": questions}));
                }
                _ => {}
            }
        }
    });
    let error = fleet.call(call("s", "echo", json!({}))).await.unwrap_err();
    assert_eq!(error.message, "The MCP server 's' asks 17 questions at a time, more than 16.");
}

/// Nothing is known of what a tool would do that could not be made known.
#[test]
fn what_stands_for_an_unknown_tool_asks_no_server() {
    let (fleet, _, fake) = fleet(spec("s"), |_| {});
    let stands = fleet.stand_in("mcp__s__gone", ToolError::failed("it is down")).unwrap();
    assert_eq!(stands.spec().origin.as_ref().unwrap().tool, "gone");
    assert!(stands.relay().is_none());
    assert_eq!(fake.starts.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert!(fleet.stand_in("mcp__other__gone", ToolError::failed("it is down")).is_none());
}

/// A server of a protocol that nobody here knows is not guessed at, whether it is older or newer.
#[tokio::test]
async fn a_protocol_that_is_not_known_is_refused() {
    for (version, says) in
        [("1999-01-01", "none that is known"), ("2025-07-01", "none that is known"), ("2031-01-01", "newer")]
    {
        let (fleet, _, _) = fleet(spec("s"), move |io| {
            while let Some(message) = io.next() {
                match message["method"].as_str().unwrap_or_default() {
                    "server/discover" => io.say(&json!({"jsonrpc": "2.0", "id": message["id"],
                        "error": {"code": -32601, "message": "no such method"}})),
                    "initialize" => io.answer(
                        &message,
                        json!({"protocolVersion": version,
                        "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}),
                    ),
                    "tools/list" => io.answer(&message, json!({"tools": echo_tool("odd")})),
                    _ => {}
                }
            }
        });
        let error = fleet.look("s").await.unwrap_err();
        assert!(error.message.contains(version) && error.message.contains(says), "{error}");
        assert!(error.message.contains("2025-11-25"), "it says what is known: {error}");
    }
}

/// What was refused is named, also where that is no tool.
#[tokio::test]
async fn a_refusal_names_what_was_asked_for() {
    let (fleet, _, _) = fleet(spec("s"), |io| {
        while let Some(message) = io.next_call(&echo_tool("shy")) {
            io.say(
                &json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no"}}),
            );
        }
    });
    for (act, args, says) in [
        (ServerAct::CallTool, json!({}), "refused the call of 'echo': no"),
        (ServerAct::GetPrompt, json!({"name": "greet"}), "refused the prompt 'greet': no"),
        (ServerAct::ReadResource, json!({"uri": "demo://a"}), "refused the resource 'demo://a': no"),
    ] {
        let tool = if act.is_call() { "echo" } else { "" };
        let error = fleet.call(ServerCall { act, ..call("s", tool, args) }).await.unwrap_err();
        assert!(error.message.contains(says), "{error}");
    }
}
