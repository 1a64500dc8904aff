//! Questions to a client without a session: the call ends with them, and comes again with the answers.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::ASKS;
use crate::client::{Client, modern_meta};
use crate::support::{BARE, Place};

#[test]
fn a_client_without_a_session_is_asked_by_coming_again() {
    let place = Place::new();
    place.configure(ASKS);
    let mut client = Client::start(&place, BARE);
    client.meta = Some(modern_meta(json!({"elicitation": {}})));
    let params = json!({"name": "exec", "arguments": {"command": "touch here"}});
    let first = client.request("tools/call", params.clone());
    assert_eq!(first["resultType"], "input_required", "{first}");
    assert!(!place.has("here"));
    let (key, question) = first["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let again = |state: &Value, command: &str| {
        let mut params = params.clone();
        params["arguments"]["command"] = json!(command);
        params["requestState"] = state.clone();
        params["inputResponses"] = json!({key: {"action": "accept", "content": {"answer": "once"}}});
        params
    };
    let other = client.response("tools/call", again(&first["requestState"], "touch there"));
    assert_eq!(other["error"]["code"], -32602, "an answer counts for what was asked: {other}");
    let done = client.request("tools/call", again(&first["requestState"], "touch here"));
    assert_eq!(done["isError"], false, "{done}");
    assert!(place.has("here") && !place.has("there"));
    let replayed = client.response("tools/call", again(&first["requestState"], "touch here"));
    assert_eq!(replayed["error"]["code"], -32602, "and once: {replayed}");
}

/// A call that comes again with the answer asks nothing new: it is not among the questions that a minute or a no too many ends.
#[test]
fn an_answer_that_comes_with_the_call_is_no_further_question() {
    let place = Place::new();
    place.configure(ASKS);
    let settings = [BARE, &["limits.prompts_per_minute=4"]].concat();
    let mut client = Client::start(&place, &settings);
    client.meta = Some(modern_meta(json!({"elicitation": {}})));
    let of = |name: &str| json!({"name": "exec", "arguments": {"command": format!("touch {name}")}});
    let names = ["a", "b", "c", "d"];
    let asked = names.map(|name| client.request("tools/call", of(name)));
    let further = client.request("tools/call", of("e"));
    assert_eq!(further["structuredContent"]["error"]["kind"], "approval_required", "{further}");
    // Three times no ends the questions, and the fourth was asked before.
    for (name, (asked, answer)) in names.iter().zip(asked.iter().zip(["deny", "deny", "deny", "once"])) {
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let mut params = of(name);
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({key: {"action": "accept", "content": {"answer": answer}}});
        let done = client.request("tools/call", params);
        let expected = if answer == "once" { Value::Null } else { json!("approval_denied") };
        assert_eq!(done["structuredContent"]["error"]["kind"], expected, "{name}: {done}");
    }
    assert_eq!(names.map(|name| place.has(name)), [false, false, false, true]);
}
