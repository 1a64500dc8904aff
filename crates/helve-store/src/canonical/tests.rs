use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn text(value: &Value) -> String {
    String::from_utf8(canonical_json(value).unwrap()).unwrap()
}

#[test]
fn every_case_of_the_table_has_its_bytes() {
    let table = include_str!("../../tests/cases/canonical.jsonl");
    for line in table.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let input = match case.get("double") {
            Some(bits) => {
                let bits = u64::from_str_radix(bits.as_str().unwrap(), 16).unwrap();
                Value::from(f64::from_bits(bits))
            }
            None => serde_json::from_str(case["input"].as_str().unwrap()).unwrap(),
        };
        assert_eq!(text(&input), case["canonical"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(canonical_json(&nested(MAX_DEPTH)).is_ok());
    assert!(matches!(canonical_json(&nested(MAX_DEPTH + 1)), Err(StoreError::TooDeep(_))));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\u{0}-\u{1f}\"\\\\\u{7f}\u{2028}\u{e000}\u{10000}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same value with every object's members in the opposite order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn reading_back_and_writing_again_gives_the_same_bytes(value in any_json()) {
        let once = text(&value);
        let back: Value = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(text(&back), once);
    }

    #[test]
    fn strings_and_integers_survive_exactly(a in any::<String>(), b in any::<u64>(), c in any::<i64>()) {
        let value = json!({"text": a, "big": b, "signed": c});
        let back: Value = serde_json::from_str(&text(&value)).unwrap();
        prop_assert_eq!(back, value);
    }

    #[test]
    fn doubles_keep_their_value(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        let back: f64 = serde_json::from_str(&text(&json!(number))).unwrap();
        prop_assert_eq!(back, number);
    }

    #[test]
    fn the_order_of_members_does_not_matter(value in any_json()) {
        prop_assert_eq!(text(&reversed(&value)), text(&value));
    }

    #[test]
    fn keys_are_ordered_by_utf16_units(a in any::<String>(), b in any::<String>()) {
        let expected = a.encode_utf16().cmp(b.encode_utf16());
        prop_assert_eq!(utf16_order(a.as_bytes(), b.as_bytes()), expected);
    }

    #[test]
    fn keys_around_the_surrogate_gap_are_ordered_by_utf16_units(
        a in "[a\u{d7ff}\u{e000}\u{f8ff}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
        b in "[a\u{d7ff}\u{e000}\u{f8ff}\u{ffff}\u{10000}\u{10ffff}]{0,4}",
    ) {
        prop_assert_eq!(utf16_order(a.as_bytes(), b.as_bytes()), a.encode_utf16().cmp(b.encode_utf16()));
    }
}

#[test]
fn few_and_many_short_and_long_members_come_into_order() {
    for count in 0..12_usize {
        for long in [1, 100] {
            let member = |n: usize| (format!("k{n:02}"), json!("x".repeat(n * long % 251)));
            let sorted: Vec<(String, Value)> = (0..count).map(member).collect();
            let expected = serde_json::to_string(&Value::Object(sorted.iter().cloned().collect())).unwrap();
            for step in 0..count {
                let mut members = sorted.clone();
                members.rotate_left(step);
                members.swap(0, step / 2);
                assert_eq!(text(&Value::Object(members.into_iter().collect())), expected);
            }
        }
    }
}

#[derive(serde::Serialize)]
enum Kind {
    Unit,
    New(i8),
    Tuple(u16, char),
    Struct { z: f32, a: Option<()> },
}

#[derive(serde::Serialize)]
struct Everything {
    zebra: Vec<Kind>,
    apple: std::collections::BTreeMap<u8, bool>,
    middle: (i64, &'static str),
}

#[test]
fn a_typed_value_is_written_like_its_tree() {
    let value = Everything {
        zebra: vec![Kind::Unit, Kind::New(-3), Kind::Tuple(7, 'ä'), Kind::Struct { z: 0.5, a: None }],
        apple: [(10, true), (9, false)].into(),
        middle: (i64::MIN, "a\"b"),
    };
    let tree = serde_json::to_value(&value).unwrap();
    assert_eq!(canonical_json(&value).unwrap(), canonical_json(&tree).unwrap());
    assert!(matches!(canonical_json(&f64::NAN), Err(StoreError::NotJson(_))));
}
