use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "x-aliases": ["cmd"]},
            "timeout": {"type": "integer", "minimum": 1, "maximum": 600, "default": 60, "x-clamp": true,
                        "x-aliases": ["timeoutSeconds"]},
            "loud": {"type": "boolean"},
            "ratio": {"type": "number"},
            "mode": {"type": "string", "enum": ["Read", "write"]},
            "edits": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "oldText": {"type": "string", "x-aliases": ["old_string"]},
                    "n": {"type": "integer"},
                },
                "required": ["oldText"],
                "additionalProperties": false,
            }},
            "maybe": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "data": {},
        },
        "required": ["command"],
        "additionalProperties": false,
    })
}

fn run(args: impl Into<Args>) -> Result<Normalized, ToolError> {
    normalize("t", &Validator::new(schema()), &args.into(), &Limits::default())
}

fn args(value: Value) -> Value {
    run(value).unwrap().args
}

/// The one way in which a table row is wrong is enough: every row is checked against its whole result.
#[test]
fn repairs_without_loss() {
    let with = |extra: Value| {
        let mut all = json!({"command": "x", "timeout": 60});
        all.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        all
    };
    for (raw, wanted) in [
        (json!({"cmd": "x"}), json!({})),
        (json!({"command": "x", "timeout": "5"}), json!({"timeout": 5})),
        (json!({"command": "x", "timeout": " 5.0 "}), json!({"timeout": 5})),
        (json!({"command": "x", "timeout": 5.0}), json!({"timeout": 5})),
        (json!({"command": "x", "timeoutSeconds": 9000}), json!({"timeout": 600})),
        (json!({"command": "x", "timeout": -1}), json!({"timeout": 1})),
        (json!({"command": "x", "loud": "TRUE"}), json!({"loud": true})),
        (json!({"command": "x", "ratio": "1e3"}), json!({"ratio": 1000.0})),
        (json!({"command": "x", "mode": "READ"}), json!({"mode": "Read"})),
        (json!({"command": [{"type": "text", "text": "x"}]}), json!({})),
        (
            json!({"command": "x", "edits": "[{\"old_string\":\"a\",\"n\":\"2\"}]"}),
            json!({"edits": [{"oldText": "a", "n": 2}]}),
        ),
        (json!({"command": "x", "edits": {"old_string": "a"}}), json!({"edits": [{"oldText": "a"}]})),
        (
            json!({"command": "x", "edits": "{\"old_string\":{\"type\":\"text\",\"text\":\"a\"}}"}),
            json!({"edits": [{"oldText": "a"}]}),
        ),
        (json!({"command": "x", "edits": ["{\"old_string\":\"a\"}"]}), json!({"edits": [{"oldText": "a"}]})),
        (
            json!({"command": "x", "edits": [{"old_string": [{"type": "text", "text": "a"}], "oldText": "b"}]}),
            json!({"edits": [{"oldText": "b"}]}),
        ),
        (json!({"command": "x", "loud": null, "maybe": null}), json!({"maybe": null})),
        (json!({"command": "x", "either": "7"}), json!({"either": 7})),
        (json!({"command": "x", "either": null, "data": null}), json!({"either": null, "data": null})),
        (json!({"arguments": {"command": "x"}}), json!({})),
        (json!({"arguments": "{\"command\":\"x\"}"}), json!({})),
        (json!("{\"command\":\"x\"}"), json!({})),
        (json!({"command": "x", "description": "why"}), json!({})),
    ] {
        assert_eq!(args(raw.clone()), with(wanted), "{raw}");
    }
}

#[test]
fn leaves_alone_what_it_cannot_repair_without_loss() {
    for raw in [
        json!({"command": ["ls", "-la"], "timeout": 5}),
        json!({"command": {"a": 1}, "timeout": 5}),
        json!({"command": 5, "timeout": 5}),
        json!({"command": "x", "timeout": 5.7}),
        json!({"command": "x", "timeout": "soon"}),
        json!({"command": "x", "timeout": "0x10"}),
        json!({"command": "x", "timeout": 0.5}),
        json!({"command": "x", "timeout": 700.5}),
        json!({"command": "x", "timeout": 5, "ratio": "12345678901234567890123"}),
        json!({"command": "x", "timeout": true}),
        json!({"command": "x", "timeout": 5, "loud": 1}),
        json!({"command": "x", "timeout": 5, "edits": "[{\"oldText\":\"a\",\"oldText\":\"b\"}]"}),
    ] {
        assert_eq!(args(raw.clone()), raw);
    }
}

#[test]
fn unknown_keys_are_refused_with_the_known_and_the_nearest() {
    let error = run(json!({"comand": "x", "edits": [{"oldText": "a", "sandbox": false}]})).unwrap_err();
    let pointers: Vec<&str> = error.problems.iter().map(|p| p.pointer.as_str()).collect();
    assert_eq!(pointers, ["/comand", "/edits/0/sandbox", "/command"]);
    assert!(error.problems[0].expected.contains("did you mean 'command'"), "{}", error.problems[0].expected);
}

#[test]
fn the_canonical_key_wins_over_its_alias_with_a_note() {
    let done = run(json!({"cmd": "a", "command": "b"})).unwrap();
    assert_eq!(done.args["command"], "b");
    assert_eq!(done.notes, ["both 'command' and its alias 'cmd' came; 'command' was used"]);
}

#[test]
fn clamping_and_dropping_are_noted() {
    let done = run(json!({"command": "x", "timeout": 9000, "title": "t"})).unwrap();
    assert_eq!(
        done.notes,
        [
            "'title' is not a parameter of this tool and was left out",
            "/timeout: 9000 is out of range and was set to 600",
        ]
    );
}

#[test]
fn what_is_not_an_object_is_refused() {
    for raw in
        ["[1,2]", "5", "\"ls\"", "{\"command\":1,\"command\":2}", "{", "{} {}", "{\"command\":\"\\ud800\"}"]
    {
        let error = run(Args::Text(raw.into())).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidParams, "{raw}");
        assert_eq!(error.problems[0].pointer, "");
    }
    let deep = format!("{{\"data\":{}1{}}}", "[".repeat(100), "]".repeat(100));
    assert_eq!(run(Args::Text(deep)).unwrap_err().kind, ErrorKind::InvalidParams);
    let long = Args::Text(format!("{{\"command\":\"{}\"}}", "x".repeat(5 << 20)));
    assert_eq!(run(long).unwrap_err().kind, ErrorKind::TooLarge);
}

#[test]
fn a_tool_with_a_parameter_called_arguments_keeps_it() {
    let schema = json!({"type": "object", "properties": {"arguments": {"type": "object"}}});
    let raw = json!({"arguments": {"a": 1}});
    let done = normalize("t", &Validator::new(schema.clone()), &Args::Value(raw.clone()), &Limits::default())
        .unwrap();
    assert_eq!(done.args, raw);
}

#[test]
fn local_references_are_followed_and_loops_end() {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/n"}, "l": {"$ref": "#/$defs/l"}},
        "$defs": {"n": {"type": "integer"}, "l": {"$ref": "#/$defs/l"}},
    });
    let done = normalize(
        "t",
        &Validator::new(schema.clone()),
        &Args::Value(json!({"n": "5", "l": 1})),
        &Limits::default(),
    )
    .unwrap();
    assert_eq!(done.args, json!({"n": 5, "l": 1}));
}

fn any_args() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-700i64..700).prop_map(Value::from),
        (-70i64..70).prop_map(|n| json!(n as f64 / 2.0)),
        prop_oneof![
            "5",
            "text",
            "5.0",
            "true",
            "read",
            "WRITE",
            "[1]",
            "\\{\"oldText\":\"a\"\\}",
            "[a-z\"\\[{]{0,5}"
        ]
        .prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(
                prop_oneof!["oldText", "old_string", "n", "type", "text", "content", "parts", "kind"],
                inner,
                0..3
            )
            .prop_map(|m| json!(m)),
        ]
    });
    let keys = prop_oneof![
        "command",
        "cmd",
        "timeout",
        "timeoutSeconds",
        "loud",
        "ratio",
        "mode",
        "edits",
        "maybe",
        "either",
        "data",
        "description",
        "arguments"
    ];
    prop::collection::btree_map(keys, value, 0..6).prop_map(|m| json!(m))
}

proptest! {
    #[test]
    fn twice_is_once(raw in any_args()) {
        if let Ok(once) = run(raw) {
            let twice = run(once.args.clone()).unwrap();
            prop_assert_eq!(&twice.args, &once.args);
        }
    }

    #[test]
    fn what_is_taken_as_it_is_has_nothing_to_repair(
        args in prop::collection::btree_map("[a-e]|text|description|arguments", any_value(), 0..4),
        required in prop::collection::vec("[a-d]", 0..2),
        more in prop::sample::select(vec![None, Some(false), Some(true)]),
    ) {
        let mut schema = json!({"type": "object", "required": required, "properties": {
            "a": {"type": "string", "x-aliases": ["text"]},
            "b": {"type": "integer", "minimum": -3, "maximum": 3, "x-clamp": true},
            "c": {"type": "boolean"},
            "d": {"type": "string", "enum": ["One", "two"]},
        }});
        if let Some(more) = more {
            schema["additionalProperties"] = json!(more);
        }
        let (validator, args) = (Validator::new(schema), Value::Object(args.into_iter().collect()));
        if validator.takes_as_it_is(&args) {
            let repaired = repair("t", &validator, &Args::Value(args.clone()), &Limits::default()).unwrap();
            prop_assert_eq!(repaired, Normalized { args, notes: Vec::new() });
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,40}") {
        let _ = run(Args::Text(text));
    }
}

/// Values of every kind, near what a schema may say.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-5i64..5).prop_map(Value::from),
        (-5i64..5).prop_map(|whole| json!(whole as f64)),
        Just(json!(0.5)),
        "|1|true|One|one|two|\\{\"a\":1\\}|\\[1\\]".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"type": "text", "text": "x"})),
    ]
}

#[test]
fn only_a_schema_with_nothing_to_repair_is_taken_for_one() {
    let plain =
        json!({"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}});
    let takes = |schema: &Value| Validator::new(schema.clone()).takes_as_it_is(&json!({"a": "x"}));
    assert!(takes(&plain));
    let draft = json!("http://json-schema.org/draft-07/schema#");
    let of_server = json!({"$schema": draft, "type": "object", "properties": {"a": {"type": "string"}}});
    assert!(takes(&of_server));
    let other = Validator::new(of_server).takes_as_it_is(&json!({"a": "x", "b": 1}));
    assert!(!other, "another key may be another word for one that is known");
    for (pointer, member) in [
        ("", json!({"additionalProperties": {"type": "string"}})),
        ("", json!({"$schema": "http://json-schema.org/draft-04/schema#"})),
        ("/properties/a", json!({"$schema": "http://json-schema.org/draft-07/schema#"})),
        ("", json!({"anyOf": [{}]})),
        ("/properties/a", json!({"default": "y"})),
        ("/properties/a", json!({"anyOf": [{"type": "string"}]})),
        ("/properties/a", json!({"type": ["string", "array"]})),
        ("/properties", json!({"b": {"type": "object"}})),
        ("/properties", json!({"b": {"type": "string", "default": "y"}})),
    ] {
        let mut schema = plain.clone();
        let place = schema.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap();
        place.extend(member.as_object().unwrap().clone());
        assert!(!takes(&schema), "{schema}");
    }
}

#[test]
fn very_many_unknown_keys_are_refused_quickly_and_briefly() {
    let keys: Vec<String> = (0..150_000).map(|n| format!("\"key{n}\":1")).collect();
    let error = run(Args::Text(format!("{{{}}}", keys.join(",")))).unwrap_err();
    assert!(error.problems.len() <= MAX_PROBLEMS && error.message.len() < 10_000, "{}", error.message.len());
    let long = run(json!({"k".repeat(100_000): 1})).unwrap_err();
    assert!(long.message.len() < 2_000, "{}", long.message.len());
}

#[test]
fn a_value_that_never_was_text_has_the_same_limit() {
    let error = run(json!({"command": "x".repeat(5 << 20)})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}
