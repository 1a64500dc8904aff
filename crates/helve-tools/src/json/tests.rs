//! The cases of `tests/cases/json.jsonl`, hostile documents and paths, and what holds for every document.

use std::time::{Duration, Instant};

use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

fn ask(args: Value) -> Result<Output, ToolError> {
    answer(serde_json::from_value(args).unwrap())
}

#[test]
fn the_cases() {
    let cases = include_str!("../../tests/cases/json.jsonl");
    crate::testing::run_cases(cases, ask);
    assert!(cases.lines().count() > 40);
}

#[tokio::test]
async fn the_tool_answers_through_a_context() {
    let args = json!({"operation": "parse", "data": "[1]", "indent": 0});
    let output = crate::testing::run("json", args, crate::testing::Fake::default()).await.unwrap();
    assert_eq!(output.joined_text(), "[1]");
    assert_eq!(output.details, json!({"operation": "parse", "type": "array", "size": 1}));
}

#[test]
fn data_is_free_of_a_type_and_the_operation_is_one_of_four() {
    let json = crate::testing::tool("json", &helve_core::Limits::default());
    let parameters = &json.spec().parameters;
    assert_eq!(parameters["properties"]["data"].get("type"), None);
    assert_eq!(
        parameters["properties"]["operation"]["enum"],
        json!(["parse", "query", "stringify", "validate"])
    );
    assert_eq!(parameters["required"], json!(["operation", "data"]));
}

#[test]
fn deep_nesting_is_a_clear_error() {
    for data in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
        let error = ask(json!({"operation": "parse", "data": data})).unwrap_err();
        assert_eq!(error.kind, ErrorKind::ToolFailed);
        assert!(error.message.contains("recursion limit"), "{}", error.message);
        assert!(error.message.len() < 300);
    }
}

#[test]
fn a_large_document_is_read_in_linear_time() {
    let members: Vec<String> = (0..200_000).map(|n| format!("\"key{n}\":{n}")).collect();
    let data = format!("{{{}}}", members.join(","));
    let from = Instant::now();
    let output = ask(json!({"operation": "query", "data": data, "path": "/key199999"})).unwrap();
    assert_eq!(output.joined_text(), "199999");
    assert!(from.elapsed() < Duration::from_secs(10));
}

#[test]
fn paths_that_could_take_for_ever_are_refused() {
    let deep = format!("{}{}{}", "[".repeat(60), vec!["1"; 1_000].join(","), "]".repeat(60));
    let many_roots = "$[?$..*]".to_owned();
    for path in [
        "$..*..*..*..*".to_owned(),
        format!("${}", "[0,0]".repeat(60)),
        format!("$..[?count(@{}) > 1]", "..*".repeat(4)),
        "$..[?$..*].a[?$..*]".to_owned(),
        many_roots.repeat(2).replace("]$", "]"),
    ] {
        let from = Instant::now();
        let error = ask(json!({"operation": "query", "data": deep, "path": path})).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge, "{path}: {}", error.message);
        assert!(from.elapsed() < Duration::from_secs(5), "{path}");
    }
    for path in [format!("$[?{}@.a", "(".repeat(400)), format!("$[?{}", "!(".repeat(300)), "$[?@".repeat(200)]
    {
        let error = ask(json!({"operation": "query", "data": [1], "path": path})).unwrap_err();
        assert!(error.message.contains("nests its brackets deeper"), "{path}: {}", error.message);
    }
    let from = Instant::now();
    let nested = format!("$[?{}@.a{}]", "(".repeat(7), ")".repeat(7));
    let output = ask(json!({"operation": "query", "data": [{"a": 1}], "path": nested, "indent": 0})).unwrap();
    assert_eq!(output.joined_text(), "[{\"a\":1}]");
    assert!(from.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_result_that_indenting_blows_up_is_refused() {
    let data = format!("{}{}{}", "[".repeat(120), vec!["1"; 200_000].join(","), "]".repeat(120));
    let error = ask(json!({"operation": "parse", "data": data, "indent": 8})).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(ask(json!({"operation": "parse", "data": data, "indent": 0})).is_ok());
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map("[a-z~/ ]{0,4}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn pointers(value: &Value, here: &str, out: &mut Vec<String>) {
    out.push(here.to_owned());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{here}/{index}"), out);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                pointers(member, &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(document in documents(), indent in 0u8..=8) {
        let text = ask(json!({"operation": "parse", "data": document.to_string(), "indent": indent})).unwrap();
        prop_assert_eq!(read::read(&text.joined_text()).unwrap(), document);
    }

    #[test]
    fn every_pointer_finds_what_serde_json_finds(document in documents()) {
        let mut all = Vec::new();
        pointers(&document, "", &mut all);
        for pointer in all {
            prop_assert_eq!(path::find(&document, &pointer).unwrap(), Found::One(document.pointer(&pointer).unwrap()));
        }
    }

    #[test]
    fn any_text_and_any_path_are_answered_without_a_panic(text in any::<String>(), path in "[$.\\[\\]*?@'\"a0-9,:()/~ ]{0,30}") {
        let _ = ask(json!({"operation": "parse", "data": text}));
        let _ = ask(json!({"operation": "query", "data": {"a": [1, {"a": 2}]}, "path": path}));
    }

    #[test]
    fn an_error_points_into_the_text(text in "[\\[\\]{}:,\"a0\\né ]{0,40}") {
        if let Err(bad) = read::read(&text) {
            let lines: Vec<&str> = text.split('\n').collect();
            prop_assert!(bad.line >= 1 && bad.line <= lines.len());
            prop_assert!(bad.column >= 1 && bad.column <= lines[bad.line - 1].chars().count() + 1);
        }
    }
}
