//! Servers that say what the owner keeps secret: what they say of themselves and of what they have is shown and kept without it.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::fake::{SECRET, fleet, fleet_with, spec};
use super::{Listed, Standing, fingerprint};

fn tools() -> Value {
    json!([
        {"name": "tell", "title": format!("tells {SECRET}"), "description": format!("uses {SECRET}"),
            "inputSchema": {"type": "object", "properties": {"token": {"type": "string", "default": SECRET}}}},
        {"name": SECRET, "inputSchema": {"type": "object"}},
    ])
}

fn resources() -> Value {
    json!([
        {"uri": "demo://a", "name": SECRET, "description": format!("of {SECRET}")},
        {"uri": format!("demo://{SECRET}"), "name": "b"},
    ])
}

#[tokio::test]
async fn what_a_server_says_of_itself_is_without_secrets_and_pinned_as_it_was_said() {
    let server = |io: &mut super::fake::Io| {
        while let Some(message) = io.next() {
            match message["method"].as_str().unwrap_or_default() {
                "server/discover" => io.say(&json!({"jsonrpc": "2.0", "id": message["id"],
                    "error": {"code": -32601, "message": "no such method"}})),
                "initialize" => io.answer(
                    &message,
                    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}},
                        "serverInfo": {"name": "fake", "version": SECRET}, "instructions": format!("say {SECRET}")}),
                ),
                "tools/list" => io.answer(&message, json!({"tools": tools()})),
                "resources/list" => io.answer(&message, json!({"resources": resources()})),
                _ => {}
            }
        }
    };
    let (fleet, memory, fake) = fleet(spec("s"), server);
    let look = fleet.look("s").await.unwrap();
    assert_eq!(look.instructions.as_deref(), Some("say [hidden]"));
    let tool = &look.tools[0].definition;
    assert_eq!((look.tools.len(), tool.description.as_str()), (1, "uses [hidden]"));
    assert_eq!(tool.hash, fingerprint(&tools()[0]));
    assert_eq!(look.rejected[0].reason, "there is a secret in its name");
    let listed = fleet.more(Listed::Resources, std::time::Duration::from_secs(5)).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let specs: Vec<_> = fleet.tools().iter().map(|tool| format!("{:?}", tool.spec())).collect();
    let shown = format!("{look:?} {listed:?} {specs:?} {:?}", memory.pins.lock().unwrap());
    assert!(!shown.contains(SECRET), "{shown}");

    // It is what the owner agreed to, and stays that: also where that was kept as it was said.
    for kept in [None, Some(tools()[0].clone())] {
        if let Some(kept) = kept {
            memory.pins.lock().unwrap().as_mut().unwrap()[0].definition = kept;
        }
        let other = fleet_with(vec![spec("s")], &memory, &fake);
        other.recall().await;
        assert!(other.tools()[0].spec().description.ends_with("uses [hidden]"));
        let look = other.look("s").await.unwrap();
        assert_eq!(look.tools[0].standing, Standing::On);
    }
}

#[tokio::test]
async fn why_a_server_could_not_be_started_is_told_without_secrets() {
    let (fleet, _, _) = fleet(spec("s"), |io| {
        while let Some(message) = io.next() {
            let why = format!("{SECRET} is wrong");
            io.say(
                &json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": why}}),
            );
        }
    });
    let error = fleet.look("s").await.unwrap_err();
    assert!(error.message.contains("[hidden] is wrong"), "{error:?}");
}
