use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Batch, StoreError, canonical_json};

fn sealed(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    Batch::of(entry).unwrap().seal(6, genesis("s"), &mut out, |_, _| {});
    assert_eq!(out.pop(), Some(b'\n'));
    out
}

fn entry(call: Option<&str>, body: Value) -> Entry {
    Entry { kind: EntryKind::Planned, call: call.map(str::to_owned), at_us: 12, body }
}

#[test]
fn a_line_is_canonical_json_and_its_hash_is_that_of_the_rest() {
    let line = sealed(&entry(Some("c_1"), json!({"z": 1, "a": "ü\n"})));
    let mut value: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(canonical_json(&value).unwrap(), line);
    let hash = value.as_object_mut().unwrap().remove("hash").unwrap();
    assert_eq!(blake3::hash(&canonical_json(&value).unwrap()).to_hex().as_str(), hash.as_str().unwrap());
    assert_eq!(value["prev"], genesis("s").to_hex().as_str());
    assert_eq!((&value["v"], &value["seq"], &value["type"]), (&json!(1), &json!(7), &json!("planned")));
}

#[test]
fn bodies_that_look_like_the_envelope_are_read_back_as_they_were() {
    for body in [
        json!(",\"call\":\"c_2"),
        json!({"call": "c_2"}),
        json!({"x": ",\"call\":\"c_2\""}),
        json!(null),
        json!([]),
        json!("\\"),
        json!("\",\"hash\":\""),
    ] {
        for call in [None, Some("c_1")] {
            let bytes = sealed(&entry(call, body.clone()));
            let line = Line::parse(&bytes).unwrap();
            assert_eq!((line.parse_body(), line.call), (Some(body.clone()), call));
            assert!(line.is_intact());
        }
    }
}

#[test]
fn every_changed_byte_is_seen() {
    let good = sealed(&entry(Some("c_1"), json!({"tool": "echo", "args": {"n": 10}})));
    for index in 0..good.len() {
        for flip in [1_u8, 0x20, 0x80] {
            let mut bad = good.clone();
            bad[index] ^= flip;
            let accepted = Line::parse(&bad).is_some_and(|line| line.is_intact());
            assert!(!accepted, "byte {index} xor {flip:#x} was not noticed");
        }
    }
}

#[test]
fn what_cannot_be_a_line_is_refused_before_it_is_written() {
    for id in ["", "a b", "ü", "\"", &"x".repeat(129)] {
        let refused = Batch::of(&entry(Some(id), json!(1)));
        assert!(matches!(refused, Err(StoreError::BadCall(_))), "{id:?}");
    }
    let huge = entry(None, json!("x".repeat(MAX_LINE_BYTES)));
    assert!(matches!(Batch::of(&huge), Err(StoreError::TooLarge { .. })));
}

#[test]
fn a_body_nested_beyond_the_limit_is_not_parsed() {
    let levels = 200_000;
    let body = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let good = String::from_utf8(sealed(&entry(None, json!("BODY")))).unwrap();
    let line = good.replace("\"BODY\"", &body);
    assert_eq!(Line::parse(line.as_bytes()).unwrap().parse_body(), None);

    let deep = (0..MAX_DEPTH).fold(json!("]["), |inner, _| json!([inner]));
    let bytes = sealed(&entry(None, deep.clone()));
    assert_eq!(Line::parse(&bytes).unwrap().parse_body(), Some(deep));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(line) = Line::parse(&bytes) {
            prop_assert!(!line.is_intact());
        }
    }

    #[test]
    fn pieces_of_lines_are_read_without_panic(cut in 0_usize..400, keep_end in any::<bool>()) {
        let good = sealed(&entry(Some("c_1"), json!({"a": [1, "two"]})));
        let cut = cut.min(good.len() - 1);
        let part = if keep_end { &good[cut + 1..] } else { &good[..cut] };
        prop_assert!(Line::parse(part).is_none());
    }

    #[test]
    fn what_goes_in_comes_out(
        call in prop::option::of("[A-Za-z0-9_.:-]{1,128}"), at_us in any::<u64>(), text in any::<String>(),
    ) {
        let entry = Entry { kind: EntryKind::Outcome, call, at_us, body: json!({"ok": true, "text": text}) };
        let bytes = sealed(&entry);
        let record = Line::parse(&bytes).unwrap().record().unwrap();
        prop_assert_eq!((record.kind, record.seq, record.at_us), (entry.kind, 7, entry.at_us));
        prop_assert_eq!((record.call, record.body), (entry.call, entry.body));
    }
}
