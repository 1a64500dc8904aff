use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::line::genesis;
use crate::{MAX_DEPTH, canonical_json};

/// The line of an entry as it is written down at the top of `line`: the tree of it, its hash, and then that again with the hash.
fn line(entry: &Entry, seq: u64, prev: Hash) -> (Vec<u8>, Hash) {
    let mut tree = json!({
        "at_us": entry.at_us, "body": entry.body, "prev": prev.to_hex().as_str(), "seq": seq,
        "type": entry.kind.as_str(), "v": 1,
    });
    if let Some(call) = &entry.call {
        tree["call"] = json!(call);
    }
    let hash = blake3::hash(&canonical_json(&tree).unwrap());
    tree["hash"] = json!(hash.to_hex().as_str());
    let mut line = canonical_json(&tree).unwrap();
    line.push(b'\n');
    (line, hash)
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let kind = prop::sample::select(vec![EntryKind::Planned, EntryKind::Outcome, EntryKind::Note]);
    let body = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(|n| json!({"b": n, "a": [n]})),
        (0_usize..1500).prop_map(|length| Value::from("x".repeat(length)))
    ];
    (kind, prop::option::of("[a-zA-Z0-9_.:-]{1,30}"), any::<u64>(), body)
        .prop_map(|(kind, call, at_us, body)| Entry { kind, call, at_us, body })
}

proptest! {
    #[test]
    fn a_batch_is_the_lines_of_its_entries(
        entries in prop::collection::vec(any_entry(), 0..40), split in 0_usize..40, count in 0_u64..1_000_000,
    ) {
        let (mut expected, mut places, mut last) = (Vec::new(), Vec::new(), genesis("s"));
        for (entry, seq) in entries.iter().zip(count + 1..) {
            let (bytes, hash) = line(entry, seq, last);
            expected.extend(bytes);
            places.push((seq, hash));
            last = hash;
        }
        // One batch or two, one behind the other, it is the same.
        let (one, other) = entries.split_at(split.min(entries.len()));
        let mut batch = Batch::all(one).unwrap();
        batch.append(&mut Batch::all(other).unwrap());
        let (mut out, mut placed) = (Vec::new(), Vec::new());
        let end = batch.seal(count, genesis("s"), &mut out, |seq, hash| placed.push((seq, hash)));
        prop_assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(expected).unwrap());
        prop_assert_eq!(placed, places);
        prop_assert_eq!(end, (count + entries.len() as u64, last));
    }
}

#[test]
fn a_body_that_writes_its_members_is_the_same() {
    let (mut by_hand, mut by_serde) = (Batch::default(), Batch::default());
    let body = json!({"a": "ü\n", "b": 7, "c": null, "d": {"x": "1", "y": true}, "e": [{"x": ""}], "f": {"z": [], "a": 1.5}});
    let put = by_hand.put_members(EntryKind::Note, Some("c_1"), 5, |members| {
        members.text(key!("a"), "ü\n");
        members.number(key!("b"), 7);
        members.json(key!("c"), "null");
        members.members(key!("d"), |inner| {
            inner.text(key!("x"), "1");
            inner.json(key!("y"), "true");
        });
        members.list_of_one(key!("e"), |inner| inner.text(key!("x"), ""));
        members.some(key!("f"), Some(&body["f"]))?;
        members.some(key!("g"), None::<&Value>)
    });
    put.unwrap();
    by_serde.put(EntryKind::Note, Some("c_1"), 5, &body).unwrap();
    assert_eq!(String::from_utf8(by_hand.starts), String::from_utf8(by_serde.starts));
}

#[test]
fn a_body_that_writes_its_members_nests_no_deeper() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    for (levels, fits) in [(MAX_DEPTH - 1, true), (MAX_DEPTH, false)] {
        let mut batch = Batch::default();
        let value = nested(levels);
        let put = batch.put_members(EntryKind::Note, None, 1, |members| members.any(key!("a"), &value));
        assert_eq!(put.is_ok(), fits);
        assert_eq!(batch.put(EntryKind::Note, None, 1, &json!({ "a": value })).is_ok(), fits);
    }
}

#[test]
fn what_cannot_be_written_leaves_the_others() {
    let mut batch = Batch::default();
    batch.put(EntryKind::Note, None, 1, &"one").unwrap();
    assert!(matches!(batch.put(EntryKind::Note, Some("c 1"), 2, &"bad"), Err(StoreError::BadCall(_))));
    assert!(matches!(batch.put(EntryKind::Note, None, 2, &f64::NAN), Err(StoreError::NotJson(_))));
    batch.put(EntryKind::Note, None, 3, &"two").unwrap();
    let (mut out, mut alone) = (Vec::new(), Vec::new());
    batch.seal(0, genesis("s"), &mut out, |_, _| {});
    let entry = |at_us, body: &str| Entry { kind: EntryKind::Note, call: None, at_us, body: json!(body) };
    Batch::all(&[entry(1, "one"), entry(3, "two")]).unwrap().seal(0, genesis("s"), &mut alone, |_, _| {});
    assert_eq!(String::from_utf8(out), String::from_utf8(alone));
    batch.clear();
    assert!(batch.is_empty());
}
