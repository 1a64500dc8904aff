//! What is written by hand against the canonical form of the same.

use helve_core::{CallId, CallResult, Cost, ErrorKind, SandboxReport, Truncated, WireError};
use helve_store::{Batch, EntryKind, canonical_json};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::approval::EffectSummary;
use crate::approval::note::ApprovalNote;
use crate::files::FileChanged;
use crate::hooks::HookNote;
use crate::pipeline::record::Beside;

/// A batch of one entry with this body.
fn entry(write: impl FnOnce(&mut Members<'_>) -> Written) -> String {
    let mut batch = Batch::default();
    batch.put_members(EntryKind::Note, None, 1, write).unwrap();
    format!("{batch:?}")
}

/// The same with a tree of which only what is there is told.
fn of_tree(tree: Value, optional: &[&str]) -> String {
    let Value::Object(mut members) = tree else { unreachable!() };
    let nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    members.retain(|name, value| !(optional.contains(&name.as_str()) && nothing(value)));
    let mut batch = Batch::default();
    batch.put(EntryKind::Note, None, 1, &members).unwrap();
    format!("{batch:?}")
}

fn any_text() -> impl Strategy<Value = String> {
    "(\\PC|[\u{0}-\u{20}\"\\\\\u{7f}]){0,8}"
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
        prop::collection::vec((any_text(), any_text()), 0..4).prop_map(|members| Value::Object(
            members.into_iter().map(|(name, value)| (name, json!([value]))).collect::<Map<_, _>>()
        )),
    ]
}

fn any_decision() -> impl Strategy<Value = Decision> {
    let verdict = prop::sample::select(vec![Verdict::Allow, Verdict::Ask, Verdict::Deny]);
    let optional = || prop::option::of(any_text());
    (verdict, any_text(), optional(), prop::option::of((0_usize..9, 0_usize..9)), optional())
        .prop_map(|(verdict, rule, reason, span, grant)| Decision { verdict, rule, reason, span, grant })
}

fn any_hooks() -> impl Strategy<Value = Vec<HookNote>> {
    let note = any_text().prop_map(|hook| HookNote { hook, said: "allow", ..HookNote::default() });
    prop::collection::vec(note, 0..3)
}

fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![
        3 => any_text().prop_map(Content::text),
        1 => any_text().prop_map(|data| Content::Image { data, mime_type: "image/png".into(), about: None }),
    ]
}

prop_compose! {
    fn any_result()(
        (ok, id, details) in (any::<bool>(), prop::option::of(any_value()), any_value()),
        (tool, notes, raw) in (any_text(), prop::collection::vec(any_text(), 0..3), prop::option::of(any_text())),
        content in prop::collection::vec(any_content(), 0..3),
        decision in prop::option::of(any_decision()),
        (message, tainted) in (prop::option::of(any_text()), prop::option::of(any_text())),
        sandbox in prop::option::of((any_text(), prop::collection::vec(any_text(), 0..3))),
        (truncated, cost) in (any::<bool>(), any::<bool>()),
        duration_us in any::<u64>(),
    ) -> (CallResult, Option<String>) {
        let error = |message| WireError { kind: ErrorKind::ToolFailed, message, hint: None, problems: Vec::new() };
        let result = CallResult {
            id, call: CallId::from_parts(1, 2), tool, ok, content, details, error: message.map(error), notes, decision,
            sandbox: sandbox.map(|(backend, layers)| SandboxReport { backend, layers }.into()), tainted, truncated: truncated.then(Truncated::default),
            cost: cost.then(|| Cost { micros: 1, currency: "EUR".into() }), duration_us,
        };
        (result, raw)
    }
}

proptest! {
    #[test]
    fn a_plan_is_canonical(
        (id, args, decision) in (prop::option::of(any_value()), any_value(), prop::option::of(any_decision())),
        (caller, tool, workspace) in (any_text(), any_text(), any_text()),
        (called, client, tainted) in
            (prop::option::of(any_text()), prop::option::of(any_text()), prop::option::of(any_text())),
        (hooks, more) in (any_hooks(), any::<bool>()),
    ) {
        let approval = ApprovalNote {
            answer: "once", by: None, ids: Vec::new(), parts: Vec::new(), reason: None, rule: "r".into(), shown: "s".into(),
        };
        let (approval, effects) = (more.then_some(&approval), EffectSummary::default());
        let planned = Planned {
            approval, args: &args, call: &CallId::from_parts(1, 2), called: called.as_deref(), caller: &caller,
            client: client.as_deref(), decision: decision.as_ref(), effects: more.then_some(&effects), hooks: &hooks, id: id.as_ref(),
            lane: more.then_some("host"), tainted: tainted.as_deref(), tool: &tool, workspace: &workspace,
        };
        let mut tree = json!({
            "args": args, "caller": caller, "tool": tool, "workspace": workspace, "approval": approval, "called": called,
            "decision": decision, "effects": more.then_some(&effects), "hooks": hooks, "lane": more.then_some("host"),
            "client": client, "tainted": tainted,
        });
        let optional = ["approval", "called", "client", "decision", "effects", "hooks", "lane", "tainted"];
        if let Some(id) = &id {
            tree["id"] = id.clone();
        }
        prop_assert_eq!(entry(|out| planned.write(out)), of_tree(tree, &optional));
    }

    /// The journal has the result as the wire has it, and what only the journal keeps.
    #[test]
    fn an_outcome_is_canonical((result, raw) in any_result(), hooks in any_hooks(), changed in any::<bool>()) {
        let change = FileChanged { after: Some("a".into()), before: None, path: "p".into() };
        let changes = if changed { vec![change] } else { Vec::new() };
        let beside = Beside { raw: raw.as_deref(), changes: &changes, hooks: &hooks };
        let mut tree = serde_json::to_value(&result).unwrap();
        tree["raw"] = json!(raw);
        tree["changes"] = json!(changes);
        tree["hooks"] = json!(hooks);
        let written = entry(|out| Outcome::new(&result, beside).write(out));
        prop_assert_eq!(written, of_tree(tree, &["raw", "changes", "hooks"]));
    }
}

#[test]
fn a_tree_is_written_as_it_is() {
    // What the others are held against.
    let mut batch = Batch::default();
    batch.put(EntryKind::Note, None, 1, &json!({"b": 1, "a": null})).unwrap();
    assert_eq!(of_tree(json!({"b": 1, "a": null, "c": []}), &["c"]), format!("{batch:?}"));
    assert_eq!(canonical_json(&json!({"b": 1, "a": null})).unwrap(), br#"{"a":null,"b":1}"#);
}
