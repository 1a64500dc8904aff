//! Schemas that unfold, nest or turn in circles, and those that only look so; the judge's own steps are counted.

use super::*;
use pretty_assertions::assert_eq;
use serde_json::json;

/// Definitions of which each holds the next one so often.
fn chain(length: usize, times: usize, keyword: &str) -> Value {
    let mut defs = serde_json::Map::new();
    for n in 0..length {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        defs.insert(format!("d{n}"), json!({keyword: vec![next; times]}));
    }
    defs.insert(format!("d{length}"), json!({"type": "string"}));
    json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})
}

#[test]
fn plain_schemas_reach_as_far_as_they_are_long() {
    let schema = json!({"type": "object", "$defs": {"s": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/s"}, "b%c": {"$ref": "#/$defs/s"}, "d": {"$ref": "#/properties/b%25c"}}});
    let reach = Reach::of(&schema).unwrap();
    assert!(!reach.is_cyclic && reach.parts < 30 && reach.levels < 8, "{reach:?}");
    assert_eq!(reach.effort(&json!({"a": 1})), Effort::Everything);
    assert!(Reach::of(&chain(10, 1, "allOf")).is_ok());
}

#[test]
fn what_unfolds_without_end_or_nests_without_end_is_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        assert!(Reach::of(&chain(40, 2, keyword)).unwrap_err().contains("unfolds"));
    }
    assert!(Reach::of(&chain(5_000, 1, "allOf")).unwrap_err().contains("levels deep"));
    let named = json!({"$defs": {"a": {"$anchor": "x", "allOf": [{"$ref": "#y"}, {"$ref": "#y"}]},
        "b": {"$anchor": "y", "type": "string"}}, "$ref": "#x"});
    assert!(!Reach::of(&named).unwrap().is_cyclic);
    for elsewhere in ["http://127.0.0.1/x", "file:///etc/passwd", "other.json", "#/not/there", "#nobody"] {
        assert!(Reach::of(&json!({"$ref": elsewhere})).unwrap_err().contains("not in it"), "{elsewhere}");
    }
}

#[test]
fn what_refers_to_itself_is_judged_as_far_as_that_goes() {
    let tree = json!({"$id": "https://example.com/tree", "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "https://example.com/tree#"}}});
    let reach = Reach::of(&tree).unwrap();
    assert!(reach.is_cyclic);
    let nested = |levels: usize| (0..levels).fold(json!(7), |inner, _| json!({"left": inner}));
    assert_eq!(reach.effort(&nested(3)), Effort::Everything);
    assert_eq!(reach.effort(&nested(60)), Effort::Verdict);
    assert_eq!(reach.effort(&nested(400)), Effort::Nothing);
}

/// Definitions of which each holds the next one twice, by this keyword.
fn doubling(levels: usize, keyword: &str, to: impl Fn(usize) -> String) -> serde_json::Map<String, Value> {
    let part = |n: usize| {
        let next = json!({keyword: to(n + 1)});
        let name = format!("n{n}");
        (format!("a{n}"), json!({"$dynamicAnchor": name, "allOf": [next, next]}))
    };
    let last = (format!("a{levels}"), json!({"$dynamicAnchor": format!("n{levels}")}));
    (0..levels).map(part).chain([last]).collect()
}

fn by_pointer(n: usize) -> String {
    format!("#/$defs/a{n}")
}

#[test]
fn dynamic_references_are_followed_like_others() {
    for keyword in ["$ref", "$dynamicRef"] {
        let defs = doubling(40, keyword, |n| format!("#n{n}"));
        let bomb = json!({"type": "object", "$defs": defs, "allOf": [{keyword: "#n0"}]});
        assert!(Reach::of(&bomb).unwrap_err().contains("unfolds"), "{keyword}");
    }
    let defs = doubling(4, "$dynamicRef", |n| format!("#n{n}"));
    assert!(!Reach::of(&json!({"$defs": defs, "allOf": [{"$dynamicRef": "#n0"}]})).unwrap().is_cyclic);
    let tree = json!({"$dynamicAnchor": "node", "properties": {"next": {"$dynamicRef": "#node"}}});
    assert!(Reach::of(&tree).unwrap().is_cyclic);
}

#[test]
fn a_name_that_several_bear_counts_as_the_worst_of_them() {
    let decoys = |anchor: &str| (0..=40).map(|n| json!({anchor: format!("n{n}")})).collect::<Vec<_>>();
    for (first, last) in [("$anchor", "$anchor"), ("$dynamicAnchor", "$anchor")] {
        let decoy = |name: &str, anchor: &str| (name.to_owned(), json!({"anyOf": decoys(anchor)}));
        let parts = doubling(40, "$ref", |n| format!("#n{n}"));
        let defs: serde_json::Map<String, Value> =
            [decoy("0", first)].into_iter().chain(parts).chain([decoy("z", last)]).collect();
        let bomb = json!({"$defs": defs, "properties": {"x": {"$ref": "#n0"}}});
        assert!(Reach::of(&bomb).unwrap_err().contains("unfolds"), "{first}");
    }
}

/// What the judge would read in another way than it was measured.
#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let decoys: serde_json::Map<String, Value> = (0..=40).map(|n| (format!("a{n}"), json!({}))).collect();
    let inner = json!({"$id": "urn:x:y", "$defs": doubling(40, "$ref", by_pointer), "$ref": "#/$defs/a0"});
    let nested = json!({"type": "object", "$defs": decoys, "properties": {"x": inner}});
    assert!(Reach::of(&nested).unwrap_err().contains("\"$id\" below its top"));

    let older =
        json!({"properties": {"x": {"$schema": "http://json-schema.org/draft-04/schema#", "id": "x"}}});
    assert!(Reach::of(&older).unwrap_err().contains("\"$schema\" below its top"));
    for alike in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"] {
        assert!(Reach::of(&json!({"properties": {"x": {"$schema": alike}}})).is_ok(), "{alike}");
    }

    for id in
        ["https://JSON-schema.org/x", "https://json%2dschema.org/x", "//json-schema.org", "urn:x#part", "#x"]
    {
        assert!(Reach::of(&json!({"$id": id})).unwrap_err().contains("address of its own"), "{id}");
    }
    for id in ["urn:x:y", "https://example.com/tool.json", "tool.json#"] {
        assert!(Reach::of(&json!({"$id": id})).is_ok(), "{id}");
    }
    // A name of theirs that leads back here, and a document that may be called like one of theirs.
    let standard = "https://json-schema.org/draft/2020-12/schema";
    assert!(Reach::of(&json!({"properties": {"x": {"$ref": standard}}})).unwrap().is_cyclic);
    for back in
        [json!({"$dynamicAnchor": "meta"}), json!({"$recursiveAnchor": true}), json!({"$id": "urn:x"})]
    {
        let mut schema = back.clone();
        schema["properties"] = json!({"x": {"$ref": standard}});
        assert!(Reach::of(&schema).unwrap_err().contains("not in it"), "{back}");
    }
    assert!(Reach::of(&json!({"$id": "urn:x", "$ref": "urn:x#/a#/b", "a#": {"b": {}}})).is_err());
}

/// A draft has its own word for names, and a name could lead a reference elsewhere than it was measured.
#[test]
fn what_older_drafts_call_names_is_refused_likewise() {
    let four = "http://json-schema.org/draft-04/schema#";
    let of = |mut schema: Value| {
        schema["$schema"] = json!(four);
        Reach::of(&schema)
    };
    for id in [four, "https://json%2Dschema.org/draft-04/schema", "urn:x#part", "#x"] {
        assert!(of(json!({"id": id})).unwrap_err().contains("address of its own"), "{id}");
    }
    let defs: serde_json::Map<String, Value> = (0..=40).map(|n| (format!("a{n}"), json!({}))).collect();
    let inner =
        json!({"id": "urn:x:y", "$defs": doubling(40, "$ref", by_pointer), "not": {"$ref": "#/$defs/a0"}});
    let nested = of(json!({"$defs": defs, "properties": {"x": inner}}));
    assert!(nested.unwrap_err().contains("\"id\" below its top"));
    // A parameter may be called so.
    assert!(of(json!({"id": "urn:x", "properties": {"id": {"$ref": "urn:x#/definitions/s"}}, "definitions": {"s": {}}})).is_ok());
    let anchor = json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$id": "#a"}},
        "$ref": "#a"});
    assert!(Reach::of(&anchor).unwrap_err().contains("\"$id\" below its top"));
    assert!(Reach::of(&json!({"items": {"$recursiveRef": "#/items"}})).unwrap_err().contains("is not \"#\""));
}

#[test]
fn a_pointer_is_read_as_the_judge_reads_it() {
    // The parts are at the decoded names, and decoys at the names as they are written.
    let mut defs = doubling(40, "$ref", |n| format!("#/$defs/%61{n}"));
    defs.extend((0..=40).map(|n| (format!("%61{n}"), json!({}))));
    let bomb = json!({"$defs": defs, "properties": {"x": {"$ref": "#/$defs/%610"}}});
    assert!(Reach::of(&bomb).unwrap_err().contains("unfolds"));
    let value = json!({"x~y": {"a/b": [{"type": "string"}]}});
    for (pointer, leads) in [
        ("#/x~0y/a~1b/0", true),
        ("#/x~0y/a~1b/+0", true),
        ("#/x~0y/a~1b/00", true),
        ("#/x%7E0y/a%7e1b/0", true),
        ("#/x~0y/a~1b/1", false),
        ("#/x~0y/a%2Fb/0", false),
        ("#/x~0y/%FF", false),
    ] {
        let schema = json!({"properties": {"p": {"$ref": pointer}}, "x~y": value["x~y"]});
        assert_eq!(Reach::of(&schema).is_ok(), leads, "{pointer}");
        assert_eq!(jsonschema::draft202012::new(&schema).is_ok(), leads, "{pointer}");
    }
}

#[test]
fn what_one_value_is_asked_comes_to_an_end() {
    let all_of_each_other = |count: usize| {
        let others = |n: usize| (0..count).filter(move |other| *other != n);
        let part = |n: usize| others(n).map(|n| json!({"$ref": by_pointer(n)})).collect::<Vec<_>>();
        let defs: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("a{n}"), json!({"allOf": part(n)}))).collect();
        json!({"$defs": defs, "properties": {"x": {"$ref": "#/$defs/a0"}}})
    };
    assert!(Reach::of(&all_of_each_other(6)).unwrap_err().contains("without going into the value"));
    assert!(Reach::of(&json!({"anyOf": [{"$ref": "#"}]})).is_err());
    assert!(Reach::of(&json!({"anyOf": [{"$recursiveRef": "#"}]})).is_err());
    assert!(
        Reach::of(&json!({"anyOf": [{"items": {"$ref": "#"}}, {"properties": {"not": {"$ref": "#"}}}]}))
            .is_ok()
    );

    let left_over = |levels: usize| {
        (0..levels).fold(json!({}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}))
    };
    assert!(Reach::of(&left_over(4)).is_ok());
    assert!(Reach::of(&left_over(30)).unwrap_err().contains("unfolds"));
}

mod bounded {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::super::draft_of;
    use jsonschema::Keyword;
    use proptest::prelude::*;

    use super::*;

    /// So many parts may be looked at for a small value under whatever goes through.
    const MOST: u64 = 5_000_000;

    /// A keyword that counts how often it is asked.
    struct Counter(Arc<AtomicU64>);

    impl Keyword<'_> for Counter {
        fn validate(&self, _: &Value) -> Result<(), jsonschema::ValidationError<'static>> {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) < MOST, "it does not come to an end");
            Ok(())
        }

        fn is_valid(&self, value: &Value) -> bool {
            self.validate(value).is_ok()
        }
    }

    const PARTS: usize = 8;

    /// A reference to one of the parts from this one on.
    fn reference(from: usize) -> impl Strategy<Value = Value> {
        (from.min(PARTS - 1)..PARTS).prop_flat_map(|n| {
            prop::sample::select(vec![
                json!({"$ref": format!("#/$defs/a{n}")}),
                json!({"$ref": format!("#/$defs/a%3{n}")}),
                json!({"$ref": format!("#n{n}")}),
                json!({"$dynamicRef": format!("#n{n}")}),
                json!({"$recursiveRef": "#"}),
                json!({"$ref": format!("#/$defs/a{n}"), "not": {"$ref": format!("#/$defs/a{n}")}}),
                json!({"x-step": true}),
            ])
        })
    }

    /// A part that mostly refers to those after it, and within the value to any.
    fn part(n: usize) -> impl Strategy<Value = Value> {
        let lists = prop::sample::select(vec!["allOf", "allOf", "anyOf", "oneOf", "prefixItems", "items"]);
        let list = prop_oneof![
            8 => prop::collection::vec(reference(n + 1), 1..6),
            1 => prop::collection::vec(reference(0), 3..6),
        ];
        let one = prop::sample::select(vec![
            "if",
            "items",
            "additionalItems",
            "unevaluatedProperties",
            "propertyNames",
            "contains",
            "not",
        ]);
        let name = prop_oneof![8 => Just(n), 1 => 0..PARTS];
        let id = prop::option::weighted(0.02, prop::sample::select(vec!["$id", "id"]));
        (lists, list, one, reference(n + 1), reference(0), name, any::<bool>(), id).prop_map(
            |(lists, list, keyword, one, below, name, is_dynamic, id)| {
                let anchor = if is_dynamic { "$dynamicAnchor" } else { "$anchor" };
                let mut part = json!({"x-step": true, lists: list, keyword: one, anchor: format!("n{name}"),
                    "dependencies": {"b": below.clone()}, "properties": {"a": below}});
                if let Some(id) = id {
                    part[id] = json!("urn:x:y");
                }
                part
            },
        )
    }

    fn draft() -> impl Strategy<Value = String> {
        let drafts = ["-04", "-06", "-07", "/2019-09", "/2020-12"];
        prop::sample::select(
            drafts.map(|draft| format!("http://json-schema.org/draft{draft}/schema")).to_vec(),
        )
    }

    fn parts() -> impl Strategy<Value = Vec<Value>> {
        (0..PARTS).map(|n| part(n).boxed()).collect::<Vec<_>>()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(800))]
        #[test]
        fn what_goes_through_is_judged_in_bounded_steps(parts in parts(), draft in draft()) {
            let defs: serde_json::Map<String, Value> =
                parts.into_iter().enumerate().map(|(n, part)| (format!("a{n}"), part)).collect();
            let schema = json!({"$schema": draft, "$defs": defs, "$ref": "#/$defs/a0"});
            if let Ok(reach) = Reach::of(&schema) {
                let count = Arc::new(AtomicU64::new(0));
                let counted = Arc::clone(&count);
                let options = jsonschema::options().with_draft(draft_of(&schema)).with_keyword("x-step", move |_, _, _| {
                    Ok(Box::new(Counter(Arc::clone(&counted))) as Box<dyn for<'i> Keyword<'i>>)
                });
                if let Ok(judge) = options.build(&schema) {
                    for value in [json!(null), json!([1, [2]]), json!({"a": {"a": {"b": []}}, "b": 1})] {
                        match reach.effort(&value) {
                            Effort::Everything => drop(judge.iter_errors(&value).take(20).count()),
                            Effort::Verdict => drop(judge.is_valid(&value)),
                            Effort::Nothing => {}
                        }
                    }
                }
            }
        }
    }
}
