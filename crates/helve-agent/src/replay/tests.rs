//! Results that are the same, and results that differ.

use helve::{CallId, ErrorKind, WireError};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

static CALLS: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    HashMap::from([(CallId::from_parts(9, 9).to_string(), CallId::from_parts(8, 8).to_string())])
});

fn places() -> Places<'static> {
    Places { before: "/old/ws", after: "/new/ws", calls: &CALLS }
}

fn past(outcome: Option<Value>) -> PastCall {
    PastCall { call: "c_1".into(), seq: 1, planned: json!({"tool": "t", "args": {}}), outcome }
}

fn now(ok: bool, text: &str, details: Value) -> CallResult {
    let error = WireError { kind: ErrorKind::ToolFailed, message: "m".into(), hint: None, problems: vec![] };
    CallResult {
        ok,
        details,
        error: (!ok).then_some(error),
        duration_us: 77,
        ..CallResult::saying(CallId::from_parts(1, 2), "t", text)
    }
}

fn found(ok: bool, text: &str, details: Value, result: &CallResult) -> Option<Difference> {
    let mut outcome = json!({"ok": ok, "content": [{"type": "text", "text": text}], "details": details});
    if !ok {
        outcome["error"] = json!({"kind": "tool_failed"});
    }
    difference(&past(Some(outcome)), result, places())
}

#[test]
fn what_differs_by_nature_is_no_difference() {
    let id = CallId::from_parts(9, 9);
    let old = format!("{id} in /old/ws took 1.5 s at 2026-01-31 12:00:01 (12:00:01)");
    let new =
        format!("{} in /new/ws took 22 ms at 2027-02-01T13:00:02.5Z (13:00:02.1)", CallId::from_parts(8, 8));
    let details = |us: u64, path: &str| json!({"path": path, "wait_us": us, "pid": us, "a": [{"mtime": us}]});
    let result = now(true, &new, details(2, "/new/ws/a"));
    assert_eq!(found(true, &old, details(1, "/old/ws/a"), &result), None);
}

#[test]
fn the_first_difference_is_named_and_shown() {
    let show = |what, diff: &str| Some(Difference { what, diff: diff.to_owned() });
    assert_eq!(
        found(true, "a\nb\nc", json!({}), &now(true, "a\nx\nc", json!({}))),
        show("text", "-b\n+x\n c\n")
    );
    assert_eq!(
        found(true, "a", json!({}), &now(false, "b", json!({}))),
        show("outcome", "-ok\n+tool_failed\n-a\n+b\n")
    );
    let other = found(true, "a", json!({"n": 1}), &now(true, "a", json!({"n": 2}))).unwrap();
    assert_eq!((other.what, other.diff.as_str()), ("details", "-  \"n\": 1\n+  \"n\": 2\n }\n"));
    let cut = difference(&past(None), &now(true, "a", json!({})), places()).unwrap();
    assert_eq!(cut.what, "outcome");
    let long: String = (0..100).map(|line| format!("{line}\n")).collect();
    let shown = found(true, &long, json!({}), &now(true, "", json!({}))).unwrap().diff;
    assert_eq!(shown.lines().count(), MOST_LINES + 1, "{shown}");
}

#[test]
fn every_pattern_is_one() {
    assert_eq!(STEADY.len(), 4);
}

#[test]
fn arguments_move_with_the_workspace() {
    let args = json!({"path": "/old/ws/a", "list": ["b", "/old/ws"], "n": 1});
    assert_eq!(places().moved(&args), json!({"path": "/new/ws/a", "list": ["b", "/new/ws"], "n": 1}));
    let (old, new, other) = (CallId::from_parts(9, 9), CallId::from_parts(8, 8), CallId::from_parts(7, 7));
    let args = json!({"call": old, "pattern": format!("{old} {other}")});
    let here = Places { before: "/ws", after: "/ws", calls: &CALLS };
    assert_eq!(here.moved(&args), json!({"call": new, "pattern": format!("{new} {other}")}));
}
