use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn exec_like() -> Validator {
    Validator::new(json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1},
            "working_dir": {"type": ["string", "null"]},
            "timeout": {"type": "integer", "minimum": 1, "maximum": 600},
        },
        "required": ["command"],
        "additionalProperties": false,
    }))
}

#[test]
fn every_problem_at_once_with_pointer_expected_and_received() {
    let error = validate("exec", &exec_like(), &json!({"timeout": "soon", "working_dir": 5})).unwrap_err();
    let mut problems = error.problems.clone();
    problems.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    assert_eq!(
        problems,
        [
            Problem::new("/command", "a value (required)", "nothing"),
            Problem::new("/timeout", "integer", "string \"soon\""),
            Problem::new("/working_dir", "string", "number 5"),
        ]
    );
    assert!(error.message.starts_with("Invalid parameters for tool 'exec':"), "{}", error.message);
    assert!(error.hint.unwrap().contains("command, working_dir, timeout"));
}

#[test]
fn what_is_told_of_nul_is_found() {
    for (value, has) in [
        (json!("x"), false),
        (json!("\u{0}"), true),
        (json!({"a": ["b", {"c": "d\u{0}"}]}), true),
        (json!({"a": {"b\u{0}": 1}}), true),
        (json!([null, true, 0, {"": []}]), false),
    ] {
        let mut problems = Vec::new();
        nul_bytes(&value, &mut String::new(), &mut problems);
        assert_eq!((has_nul(&value), !problems.is_empty()), (has, has), "{value}");
    }
}

#[test]
fn nul_is_refused_wherever_it_stands() {
    let free = Validator::new(json!({"type": "object", "properties": {"data": {}}}));
    let error = validate("t", &free, &json!({"data": {"a/b": ["x\u{0}"]}})).unwrap_err();
    assert_eq!(error.problems[0].pointer, "/data/a~1b/0");
}

#[test]
fn full_json_schema_is_in_force() {
    let schema = Validator::new(json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/small"}, "b": {"type": "string", "pattern": "^x+$"}},
        "if": {"required": ["b"]}, "then": {"required": ["a"]},
        "$defs": {"small": {"type": "integer", "exclusiveMaximum": 10}},
    }));
    assert!(validate("t", &schema, &json!({"a": 9, "b": "xx"})).is_ok());
    assert_eq!(validate("t", &schema, &json!({"a": 10, "b": "y"})).unwrap_err().problems.len(), 2);
    assert_eq!(validate("t", &schema, &json!({"b": "x"})).unwrap_err().problems[0].pointer, "/a");
}

/// Schemas are judged by the draft that they name; of those that name none, or one that nobody knows, by the newest.
#[test]
fn a_schema_is_judged_by_the_draft_that_it_names() {
    let drafts = ["draft-04/schema#", "draft-06/schema#", "draft-07/schema", "draft/2019-09/schema"];
    let named = |draft: &str, mut schema: Value| {
        schema["$schema"] = json!(draft);
        Validator::new(schema)
    };
    let count = |validator: &Validator, value: Value| validator.problems(&value).map(|all| all.len());
    for draft in drafts.map(|draft| format!("http://json-schema.org/{draft}")) {
        let tuple = json!({"type": "object", "properties": {"a": {"type": "array",
            "items": [{"type": "string"}, {"$ref": "#/definitions/n"}], "additionalItems": false}},
            "definitions": {"n": {"type": "integer"}}});
        let tuple = named(&draft, tuple);
        for (value, wrong) in
            [(json!(["x"]), 0), (json!(["x", 1]), 0), (json!([1, "x"]), 2), (json!(["x", 1, 2]), 1)]
        {
            assert_eq!(count(&tuple, json!({"a": value})), Ok(wrong), "{draft}: {value}");
        }
        // A format says nothing that is judged, in none of them and whoever judges.
        let date = json!({"type": "object", "properties": {"d": {"type": "string", "format": "date", "pattern": "^x"}}});
        assert_eq!(count(&named(&draft, date), json!({"d": "xmas"})), Ok(0), "{draft}");
    }
    let four = json!({"type": "object", "properties": {"n": {"minimum": 1, "exclusiveMinimum": true}}});
    assert_eq!(
        count(&named("http://json-schema.org/draft-04/schema#", four.clone()), json!({"n": 1})),
        Ok(1)
    );
    // The newest knows no such schema.
    for newest in ["https://json-schema.org/draft/2020-12/schema", "https://example.com/own"] {
        assert!(named(newest, four.clone()).problems(&json!({"n": 1})).is_err(), "{newest}");
    }
    // Beside a reference the older drafts look at nothing.
    let beside = json!({"type": "object", "properties": {"a": {"$ref": "#/definitions/s", "maxLength": 1}},
        "definitions": {"s": {"type": "string"}}});
    for (draft, wrong) in [("draft-07/schema#", 0), ("draft/2019-09/schema#", 1)] {
        let draft = format!("https://json-schema.org/{draft}");
        assert_eq!(count(&named(&draft, beside.clone()), json!({"a": "xx"})), Ok(wrong), "{draft}");
    }
    let tree = json!({"$recursiveAnchor": true, "type": "object", "properties": {"n": {"$recursiveRef": "#"}},
        "additionalProperties": false});
    let tree = named("https://json-schema.org/draft/2019-09/schema", tree);
    assert_eq!(count(&tree, json!({"n": {"n": {}}})), Ok(0));
    assert_eq!(count(&tree, json!({"n": {"n": {"m": 1}}})), Ok(1));
}

#[test]
fn the_ordinary_case_never_wakes_the_judge() {
    let validator = exec_like();
    validate("exec", &validator, &json!({"command": "ls", "timeout": 5})).unwrap();
    assert!(validator.full.get().is_none());
    validate("exec", &validator, &json!({"command": ""})).unwrap_err();
    assert!(validator.full.get().is_some());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-12i64..12).prop_map(Value::from),
        (-12i64..12).prop_map(|n| json!(n as f64)),
        (-120i64..120).prop_map(|n| json!(n as f64 / 8.0)),
        any::<u64>().prop_map(Value::from),
        "[abä]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let types = prop::sample::subsequence(
        vec!["null", "boolean", "integer", "number", "string", "array", "object"],
        1..4,
    );
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        types.prop_map(|t| json!({"type": t})),
        (0u64..4, 0u64..4)
            .prop_map(|(a, b)| json!({"minLength": a, "maxLength": b, "minItems": a, "maxItems": b})),
        (-9i64..9, -9i64..9).prop_map(|(a, b)| json!({"minimum": a, "maximum": b as f64 + 0.5})),
        Just(json!({"enum": ["a", "b", null, true]})),
        Just(json!({"const": "ab", "description": "x", "x-clamp": true})),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|s| json!({"items": s})),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, rest)| {
                json!({"properties": {"a": a, "b": b}, "required": ["a"], "additionalProperties": rest})
            }),
            prop::collection::vec(inner, 1..3).prop_map(|v| json!({"anyOf": v})),
        ]
    })
}

proptest! {
    #[test]
    fn a_quick_answer_is_the_judges_answer(
        mut schema in any_schema(),
        value in any_value(),
        draft in prop::sample::select(vec![None, Some("http://json-schema.org/draft-07/schema#"),
            Some("https://json-schema.org/draft/2019-09/schema"), Some("https://json-schema.org/draft/2020-12/schema")]),
    ) {
        if let (Some(draft), Some(keywords)) = (draft, schema.as_object_mut()) {
            keywords.insert("$schema".to_owned(), json!(draft));
        }
        let quick = Quick::compile(&schema).expect("the generator stays inside the subset");
        let judge = Judge::new(&schema).unwrap().judge;
        prop_assert_eq!(quick.accepts(&value), judge.is_valid(&value), "{} {}", schema, value);
    }
}

/// The longest chain of references and the deepest value that are let through, on the stack of a thread as calls have it.
#[test]
fn what_a_schema_from_elsewhere_may_ask_for_is_bounded() {
    let mut defs = serde_json::Map::new();
    for n in 0..30 {
        defs.insert(format!("d{n}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}]}));
    }
    defs.insert("d30".to_owned(), json!({"type": "string"}));
    let chain = json!({"type": "object", "$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}});
    assert_eq!(Validator::new(chain).problems(&json!({"a": 7})).unwrap().len(), 1);

    let wide = vec![json!({"properties": {"a": {"$ref": "#"}}}); 50];
    let tree = Validator::new(json!({"type": "object", "allOf": wide}));
    for levels in [1, 20, 80] {
        let value = (0..levels).fold(json!(7), |inner, _| json!({"a": inner}));
        assert!(!tree.problems(&value).unwrap().is_empty(), "{levels}");
        let value = (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        assert_eq!(tree.problems(&value).unwrap(), [], "{levels}");
    }
    let deep = (0..300).fold(json!({}), |inner, _| json!({"a": inner}));
    assert_eq!(tree.problems(&deep).unwrap()[0].expected, "a value that nests less deep");
    let slow = Validator::new(json!({"type": "string", "pattern": "^(a*)*(?=b)\\1c$"}));
    let text = json!("a".repeat(50));
    assert!(!slow.problems(&text).unwrap().is_empty());
    for elsewhere in ["http://127.0.0.1:9/x", "file:///etc/passwd"] {
        assert!(Validator::new(json!({"$ref": elsewhere})).problems(&json!(1)).is_err());
    }
}
