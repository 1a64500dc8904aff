//! How tools and results are shown to a client.

use helve_core::{CallId, Decision, SandboxReport, WireError};
use pretty_assertions::assert_eq;

use super::*;

fn called(ok: bool, details: Value) -> CallResult {
    CallResult { ok, details, ..CallResult::saying(CallId::from_parts(1, 2), "t", "said") }
}

fn wire(shown: CallToolResult) -> Value {
    let mut wire = serde_json::to_value(shown).unwrap();
    wire.as_object_mut().unwrap().remove("_meta");
    wire
}

#[test]
fn structured_content_carries_the_text_too() {
    let shown = wire(result(called(true, json!({"n": 1})), true));
    assert_eq!(
        shown,
        json!({"resultType": "complete", "content": [{"type": "text", "text": "said"}],
            "structuredContent": {"n": 1, "text": "said"}, "isError": false})
    );
    let plain = wire(result(called(true, Value::Null), false));
    assert_eq!(plain.get("structuredContent"), None);
}

#[test]
fn an_error_has_its_kind_and_its_hint() {
    let mut refused = called(false, Value::Null);
    refused.error = Some(WireError {
        kind: ErrorKind::Blocked,
        message: "no".into(),
        hint: Some("ask".into()),
        problems: Vec::new(),
    });
    let shown = wire(result(refused, false));
    assert_eq!(shown["isError"], true);
    assert_eq!(shown["content"][1]["text"], "[blocked]");
    assert_eq!(
        shown["structuredContent"],
        json!({"error": {"kind": "blocked", "message": "no", "hint": "ask"}, "text": "said"})
    );
}

#[test]
fn what_a_server_said_is_passed_on_as_it_came() {
    let mut foreign = called(true, json!({"text": 7}));
    foreign.tainted = Some("mcp:a".into());
    assert_eq!(wire(result(foreign, true))["structuredContent"], json!({"text": 7}));
}

#[test]
fn what_helve_tells_of_an_ordinary_call_is_its_id_and_where_it_ran_and_of_others_why_too() {
    let told = |result: CallResult| {
        let mut wire = serde_json::to_value(super::result(result, false)).unwrap();
        wire["_meta"]["helve/result"].take()
    };
    let mut result = called(true, Value::Null);
    let call = json!(result.call);
    result.decision = Some(Decision::allow(Decision::DEFAULT));
    assert_eq!(told(result.clone()), json!({ "call": call }));
    let layers = vec!["userns".to_owned(), "seccomp".to_owned()];
    for backend in ["native", "none"] {
        let report = SandboxReport { backend: backend.to_owned(), layers: layers.clone() };
        result.sandbox = Some(report.into());
        assert_eq!(told(result.clone()), json!({ "call": call, "sandbox": backend }));
    }
    result.sandbox = None;
    result.decision = Some(Decision::allow("rules[0]"));
    let decision = json!({"verdict": "allow", "rule": "rules[0]"});
    assert_eq!(told(result.clone()), json!({ "call": call, "decision": decision }));
    result.decision = Some(Decision { grant: Some("g".to_owned()), ..Decision::allow(Decision::DEFAULT) });
    assert_eq!(told(result)["decision"]["grant"], "g");
}

#[test]
fn the_published_schema_takes_results_and_errors() {
    let spec = ToolSpec::new("t", "d", json!({"type": "object", "properties": {}})).output_schema(json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false,
    }));
    let shown = serde_json::to_value(tool(&spec).unwrap()).unwrap();
    let schema = &shown["outputSchema"];
    assert_eq!(schema["required"], json!(["text"]));
    assert_eq!(schema["properties"]["n"], json!({"type": "integer"}));
    assert!(schema["properties"]["error"].is_object() && schema["properties"]["text"].is_object());
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn pages_join_to_the_whole_list() {
    let items: Vec<String> = (0..601).map(|n| format!("t{n:04}")).collect();
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let (page, next) = page(&items, cursor.as_deref(), |item| item).unwrap();
        seen.extend(page);
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, items);
    assert!(page(&items, Some("elsewhere"), |item| item).is_err());
}
