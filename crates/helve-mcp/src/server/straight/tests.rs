//! The straight way against the general one: what it reads and what it writes come to the same.

use helve_core::output::About;
use helve_core::{
    CallId, CallResult, Content, Cost, Decision, EmbeddedResource, ErrorKind, SandboxReport, Truncated,
    Verdict, WireError,
};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage};
use serde_json::json;

use super::super::shown;
use super::*;

/// What the protocol's loop reads in a line, where that is a call of the older era that brings no answers along.
fn generally(line: &[u8]) -> Option<Asked> {
    let JsonRpcMessage::Request(mut request) = serde_json::from_slice::<ClientJsonRpcMessage>(line).ok()?
    else {
        return None;
    };
    let meta = std::mem::take(request.request.get_meta_mut());
    let ClientRequest::CallToolRequest(call) = request.request else { return None };
    let params = call.params;
    assert!(meta.protocol_version().is_none() && params.request_state.is_none());
    assert!(params.input_responses.is_none());
    Some(Asked {
        id: request.id,
        tool: params.name.into_owned(),
        args: params.arguments.unwrap_or_default(),
        token: meta.get_progress_token(),
    })
}

#[test]
fn calls_are_read() {
    for (params, token) in [
        (
            json!({"name": "echo", "arguments": {"message": "a\"\u{1F600}", "n": [1, -2.5, 1e300, null, {}]}}),
            None,
        ),
        (json!({"name": "a\"b\\c", "arguments": null}), None),
        (json!({"name": "echo", "_meta": {"progressToken": "t", "other": {"x": 1}}}), Some(json!("t"))),
        (json!({"name": "echo", "_meta": {"progressToken": 7}}), Some(json!(7))),
        (json!({"name": "echo", "_meta": null}), None),
    ] {
        for id in [json!(1), json!(-1), json!("a\nb"), json!(i64::MAX)] {
            let line =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
            let asked = call(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(asked.token.as_ref().map(|token| json!(token)), token);
            assert_eq!(Some(asked), generally(line.as_bytes()));
        }
    }
}

#[test]
fn what_is_more_or_less_than_a_call_goes_the_general_way() {
    let params = json!({"name": "echo", "arguments": {}});
    for line in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}),
        json!({"jsonrpc": "1.0", "id": 1, "method": "tools/call", "params": params}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": params}),
        json!({"jsonrpc": "2.0", "id": null, "method": "tools/call", "params": params}),
        json!({"jsonrpc": "2.0", "id": 1.5, "method": "tools/call", "params": params}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, "more": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": []}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "task": {}}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "requestState": "s"}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "inputResponses": {}}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "_meta": [1]}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a",
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a",
            "_meta": {"progressToken": {}}}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!([]),
    ] {
        assert_eq!(call(line.to_string().as_bytes()), None, "{line}");
    }
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#;
    for line in ["", "{", "\u{feff}{}", twice, "\"tools/call\""] {
        assert_eq!(call(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn lines_as_clients_write_them_are_plain() {
    for line in [
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"message":"\u00fc"}}}"#,
        r#"{"method": "tools/call", "params": {"arguments": {}, "name": "ü"}, "jsonrpc": "2.0", "id": 0}"#,
        r#"{"jsonrpc":"2.0","id":123456789012345678,"method":"tools/call","params":{"name":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"progressToken":4}}}"#,
        &format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"t":"{}"}}}}}}"#,
            "{[".repeat(200)
        ),
    ] {
        let asked = plain::call(line.as_bytes());
        assert!(asked.is_some(), "{line}");
        assert_eq!(asked, call_in_full(line.as_bytes()));
    }
}

#[test]
fn what_a_line_has_twice_is_not_chosen_from() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"a"}}"#,
        r#"{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{}}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\u{c}",
    ] {
        assert_eq!(call(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn a_call_is_taken_back_by_its_id() {
    let notice =
        |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let id = |params| taken_back(notice(params).to_string().as_bytes());
    assert_eq!(id(json!({"requestId": 3, "reason": "r"})), Some(RequestId::Number(3)));
    assert_eq!(id(json!({"requestId": "3"})), Some(RequestId::String("3".into())));
    assert_eq!(id(json!({})), None);
    let other = r#"{"jsonrpc":"2.0","method":"notifications/other","params":{"requestId":3}}"#;
    assert_eq!(taken_back(other.as_bytes()), None);
}

/// A line that is nearly a plain call: its members in any order, some twice or missing, with space here and there.
fn nearly_plain() -> impl Strategy<Value = String> {
    let id = prop_oneof!["0|[1-9][0-9]{0,19}", "-1|01|1.5|1e2|\"a\"|null"];
    let name = prop_oneof!["[a-z_]{1,8}", "\\PC{0,4}", Just("a\\\\nb".to_owned())];
    let args = prop_oneof![
        any_value().prop_map(|value| json!({"k": value}).to_string()),
        any_value().prop_map(|value| value.to_string()),
        (95_usize..135).prop_map(|depth| format!("{{\"k\":{}{}}}", "[".repeat(depth), "]".repeat(depth))),
    ];
    let params =
        (name, prop::option::of(args), any::<bool>(), 0..4_usize).prop_map(|(name, args, turned, more)| {
            let mut members = vec![format!("\"name\":\"{name}\"")];
            members.extend(args.map(|args| format!("\"arguments\":{args}")));
            members.extend((more == 0).then(|| "\"_meta\":{\"progressToken\":1}".to_owned()));
            if turned {
                members.reverse();
            }
            format!("{{{}}}", members.join(if more == 1 { ", " } else { "," }))
        });
    let member = prop_oneof![
        4 => Just("\"jsonrpc\":\"2.0\"".to_owned()),
        4 => id.prop_map(|id| format!("\"id\":{id}")),
        4 => Just("\"method\":\"tools/call\"".to_owned()),
        4 => params.clone().prop_map(|params| format!("\"params\": {params}")),
        1 => Just("\"method\":\"tools/list\"".to_owned()),
        1 => Just("\"jsonrpc\":\"1.0\"".to_owned()),
        1 => Just("\"more\":1".to_owned()),
    ];
    let right = (plain_id(), params).prop_map(|(id, params)| {
        vec![
            "\"jsonrpc\":\"2.0\"".to_owned(),
            format!("\"id\":{id}"),
            "\"method\":\"tools/call\"".to_owned(),
            format!("\"params\":{params}"),
        ]
    });
    let members = prop_oneof![3 => right.prop_shuffle(), 1 => prop::collection::vec(member, 3..6)];
    (members, prop::sample::select(vec!["", " ", "\n", "\t\r\n", "\u{c}", " x"]))
        .prop_map(|(members, end)| format!("{{{}}}{end}", members.join(",")))
}

fn plain_id() -> impl Strategy<Value = String> {
    "0|[1-9][0-9]{0,17}"
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}|[\"\\\\\n\u{0}-\u{1f}]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            members(inner).prop_map(Value::Object),
        ]
    })
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("text|error|[a-z\"]{0,3}", value), 0..4).prop_map(|all| all.into_iter().collect())
}

fn any_content() -> impl Strategy<Value = Content> {
    let about = || {
        prop::option::of(any::<u8>())
            .prop_map(|number| About::some(number.map(|number| json!({"priority": number})), None))
    };
    prop_oneof![
        ("\\PC{0,8}", about()).prop_map(|(text, about)| Content::Text { text, about }),
        about().prop_map(|about| Content::Image {
            data: "AA==".into(),
            mime_type: "image/png".into(),
            about
        }),
        about().prop_map(|about| Content::Audio {
            data: "AA==".into(),
            mime_type: "audio/wav".into(),
            about
        }),
        "\\PC{0,8}".prop_map(|text| {
            let (uri, text) = ("t://x".to_owned(), Some(text));
            Content::resource(EmbeddedResource { uri, text, ..EmbeddedResource::default() })
        }),
    ]
}

prop_compose! {
    fn any_decision()(
        verdict in prop::sample::select(vec![Verdict::Allow, Verdict::Ask, Verdict::Deny]),
        (rule, reason, grant) in ("default|.{0,8}", prop::option::of(".{0,8}"), prop::option::of(".{0,8}")),
        span in prop::option::of(any::<(usize, usize)>()),
    ) -> Decision {
        Decision { verdict, rule, reason, span, grant }
    }
}

prop_compose! {
    fn any_result()(
        (ok, kind, problem) in (any::<bool>(), prop::option::of(prop::sample::select(ErrorKind::ALL.to_vec())), ".{0,8}"),
        content in prop::collection::vec(any_content(), 0..4),
        details in any_value(),
        notes in prop::collection::vec(".{0,8}", 0..3),
        decision in prop::option::of(prop_oneof!["default|.{0,8}".prop_map(Decision::allow), any_decision()]),
        sandbox in prop::option::of((".{0,8}", prop::collection::vec(".{0,8}", 0..3))),
        (truncated, cost) in (any::<bool>(), any::<bool>()),
        tainted in prop::option::of("mcp:[a-z]{1,4}"),
        duration_us in any::<u64>(),
    ) -> CallResult {
        CallResult {
            id: Some(json!(1)),
            call: CallId::from_parts(1, 2),
            tool: "t".into(),
            ok,
            content,
            details,
            error: kind.map(|kind| WireError { kind, message: problem, hint: None, problems: Vec::new() }),
            notes,
            decision,
            sandbox: sandbox.map(|(backend, layers)| SandboxReport { backend, layers }.into()),
            tainted,
            truncated: truncated.then(Truncated::default),
            cost: cost.then(|| Cost { micros: 1, currency: "EUR".into() }),
            duration_us,
        }
    }
}

proptest! {
    #[test]
    fn a_call_is_read_as_the_general_way_reads_it(
        id in any_value(),
        name in prop_oneof!["\\PC{0,8}".prop_map(Value::from), any_value()],
        args in prop::option::of(prop_oneof![members(any_value()).prop_map(Value::Object), any_value()]),
        meta in prop::option::of(prop_oneof![members(any_value()).prop_map(Value::Object), any_value()]),
        token in prop::option::of(any_value()),
        method in "tools/call|tools/list",
        spaces in any::<bool>(),
    ) {
        let mut params = json!({ "name": name });
        if let Some(args) = args {
            params["arguments"] = args;
        }
        if let Some(mut meta) = meta {
            if let (Some(meta), Some(token)) = (meta.as_object_mut(), token) {
                meta.insert("progressToken".into(), token);
            }
            params["_meta"] = meta;
        }
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = if spaces { serde_json::to_string_pretty(&frame).unwrap() } else { frame.to_string() };
        if let Some(asked) = call(line.as_bytes()) {
            prop_assert_eq!(Some(asked), generally(line.as_bytes()));
        }
    }

    #[test]
    fn a_plain_line_is_read_as_in_full(line in nearly_plain()) {
        if let Some(asked) = plain::call(line.as_bytes()) {
            prop_assert_eq!(Some(asked), call_in_full(line.as_bytes()));
        }
    }

    #[test]
    fn a_result_is_written_as_the_general_way_shows_it(
        id in prop_oneof![any::<i64>().prop_map(RequestId::Number), ".{0,8}".prop_map(|id| RequestId::String(id.into()))],
        result in any_result(),
        declared in any::<bool>(),
    ) {
        let mut line = b"before\n".to_vec();
        answer(&mut line, &id, &result, declared);
        let line = std::str::from_utf8(&line).unwrap().strip_prefix("before\n").unwrap();
        prop_assert!(line.ends_with('\n') && !line.trim_end_matches('\n').contains('\n'));
        let written: Value = serde_json::from_str(line).unwrap();
        let mut shown = shown::result(result, declared);
        shown.result_type = None;
        // Both from text: reading a number may round it.
        let shown: Value = serde_json::from_str(&serde_json::to_string(&shown).unwrap()).unwrap();
        prop_assert_eq!(written, json!({"jsonrpc": "2.0", "id": id, "result": shown}));
    }
}
