//! Pages and searches over blobs that a fake store gives in reads of any size.

use helve_core::{Cancel, ErrorKind, Limits, Output, ToolError};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::{BLOB, Fake, run};

async fn read(bytes: impl Into<Vec<u8>>, args: Value) -> Result<Output, ToolError> {
    with(Fake::blob(bytes), args).await
}

async fn with(fake: Fake, mut args: Value) -> Result<Output, ToolError> {
    args["call"] = "c_1".into();
    run("read_output", args, fake).await
}

fn page_of(bytes: u64) -> Limits {
    Limits { read_output_bytes: bytes, ..Limits::default() }
}

fn numbers(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn a_short_output_is_one_page() {
    let output = read("one\ntwo\n", json!({})).await.unwrap();
    assert_eq!(output.joined_text(), "one\ntwo\n(lines 1-2 of 2; end)");
    assert_eq!(
        output.details,
        json!({"blob": BLOB, "bytes": 8, "lines": 2, "first_line": 1, "last_line": 2})
    );
    let output = read("one\ntwo", json!({})).await.unwrap();
    assert_eq!(output.joined_text(), "one\ntwo\n(lines 1-2 of 2; end)");
}

#[tokio::test]
async fn a_page_says_how_to_go_on() {
    let output = read(numbers(1_000), json!({"offset": 11, "limit": 2})).await.unwrap();
    assert_eq!(output.joined_text(), "line 11\nline 12\n(lines 11-12 of 1000; next: offset=13)");
    assert_eq!(output.details["next_offset"], 13);
    let truncated = output.truncated.unwrap();
    assert_eq!((truncated.bytes, truncated.blob.as_deref()), (numbers(1_000).len() as u64 - 16, Some(BLOB)));
    let output = read(numbers(1_000), json!({"offset": 999})).await.unwrap();
    assert_eq!(output.joined_text(), "line 999\nline 1000\n(lines 999-1000 of 1000; end)");
}

#[tokio::test]
async fn a_page_holds_whole_lines_up_to_its_limit() {
    let fake = Fake { limits: page_of(300), ..Fake::blob(numbers(1_000)) };
    let output = with(fake, json!({})).await.unwrap();
    let text = output.joined_text();
    assert!(text.ends_with("line 38\n(lines 1-38 of 1000; next: offset=39)"), "{text}");
}

#[tokio::test]
async fn a_line_longer_than_a_page_is_read_on_by_bytes() {
    let blob = format!("{}\nlast\n", "é".repeat(10_000));
    let fake = || Fake { limits: page_of(1_000), ..Fake::blob(blob.as_str()) };
    let output = with(fake(), json!({})).await.unwrap();
    let expected = "é".repeat(500);
    assert_eq!(
        output.joined_text(),
        format!(
            "{expected}\n(lines 1-1 of 2; line 1 is longer than a page and cut here; next: byte_offset=1000)"
        )
    );
    assert_eq!(
        (&output.details["next_byte_offset"], &output.details["next_offset"]),
        (&json!(1_000), &Value::Null)
    );
    let output = with(fake(), json!({"byte_offset": 19_999})).await.unwrap();
    assert_eq!(output.joined_text(), "\nlast\n(bytes 20000-20006; end)");
    let output = with(fake(), json!({"offset": 2})).await.unwrap();
    assert_eq!(output.joined_text(), "last\n(lines 2-2 of 2; end)");
}

#[tokio::test]
async fn places_past_the_end_say_what_there_is() {
    for (args, message) in [
        (json!({"offset": 4}), "The output has 3 lines; there is no line 4."),
        (json!({"offset": 400}), "The output has 3 lines; there is no line 400."),
        (json!({"byte_offset": 21}), "The output has 21 bytes; there is no byte 21."),
    ] {
        let error = read(numbers(3), args).await.unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::NotFound, message));
    }
    let output = read("", json!({})).await.unwrap();
    assert_eq!(output.joined_text(), "(the output is empty)");
}

#[tokio::test]
async fn the_mark_of_a_blob_that_hit_its_cap_is_its_last_line() {
    let fake = || Fake { kept: Some(5), stdout: "12345".into(), ..Fake::blob("a\nb\n[mark: 5 missing]\n") };
    let first = with(fake(), json!({"limit": 1})).await.unwrap();
    assert_eq!(first.joined_text(), "a\n(lines 1-1 of 3; next: offset=2)");
    let second = with(fake(), json!({"offset": 2})).await.unwrap();
    assert_eq!(second.joined_text(), "b\n[mark: 5 missing]\n(lines 2-3 of 3; end)");
    assert_eq!(second.truncated.unwrap().blob_dropped, 5);
}

#[tokio::test]
async fn an_unknown_call_is_not_found() {
    let error = run("read_output", json!({"call": "x_1"}), Fake::blob("a")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let output = run("read_output", json!({"call": format!(" {BLOB} ")}), Fake::blob("a")).await.unwrap();
    assert_eq!(output.joined_text(), "a\n(lines 1-1 of 1; end)");
}

#[tokio::test]
async fn a_call_that_was_taken_back_stops() {
    let (handle, cancel) = Cancel::pair();
    handle.cancel();
    let error = with(Fake { cancel, ..Fake::blob("a\n") }, json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
}

#[tokio::test]
async fn grep_shows_matching_lines_with_their_numbers() {
    let output = read(numbers(30), json!({"grep": "line (7|8|2.)$"})).await.unwrap();
    let text = output.joined_text();
    assert!(text.starts_with("7:line 7\n8:line 8\n--\n20:line 20\n21:line 21\n"), "{text}");
    assert!(text.ends_with("29:line 29\n(12 matches; end)"), "{text}");
    assert_eq!(output.details["matches"], 12);
    let output = read(numbers(3), json!({"grep": "(?i)NOTHING"})).await.unwrap();
    assert_eq!(output.joined_text(), "(0 matches; end)");
}

#[tokio::test]
async fn grep_shows_lines_around_a_match_once() {
    let output = read(numbers(20), json!({"grep": "line (3|5|15)$", "context": 1})).await.unwrap();
    assert_eq!(
        output.joined_text(),
        "2-line 2\n3:line 3\n4-line 4\n5:line 5\n6-line 6\n--\n14-line 14\n15:line 15\n16-line 16\n(3 matches; end)"
    );
}

#[tokio::test]
async fn grep_goes_on_where_its_page_is_full() {
    let output = read(numbers(20), json!({"grep": "line", "limit": 2, "offset": 5})).await.unwrap();
    assert_eq!(output.joined_text(), "5:line 5\n6:line 6\n(2 matches; next: offset=7)");
    assert_eq!(output.details["next_offset"], 7);
}

#[tokio::test]
async fn grep_shows_a_part_of_a_long_line_and_where_it_is() {
    let blob = format!("short\n{}needle{}\n", "a".repeat(100_000), "b".repeat(100_000));
    let output = read(blob.as_str(), json!({"grep": "needle"})).await.unwrap();
    let text = output.joined_text();
    assert!(text.starts_with("2 (byte 100006):…aaa"), "{}", &text[..40]);
    assert!(text.contains("aneedleb") && text.len() < 1_200, "{}", text.len());
    assert!(text.ends_with("(1 match; lines longer than 65536 bytes are searched in parts; end)"), "{text}");
    let output = read(blob.as_str(), json!({"byte_offset": 100_006, "grep": "needle"})).await.unwrap();
    assert!(output.joined_text().starts_with("byte 100006:needlebbb"));
}

#[tokio::test]
async fn a_bad_or_huge_pattern_is_told() {
    for pattern in ["(", "a(?=b)", r"\w{500}{500}"] {
        let error = read("a", json!({"grep": pattern})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ToolFailed);
        assert!(error.message.starts_with("The pattern in grep cannot be used"), "{}", error.message);
        assert!(error.hint.unwrap().contains("regular expression"));
    }
}

#[tokio::test]
async fn a_pattern_that_backtracking_would_choke_on_is_linear() {
    let output = read("a".repeat(200_000) + "\n", json!({"grep": "^(a+)+$|(a|aa)+b"})).await.unwrap();
    // Each part of the long line matches on its own.
    assert_eq!(output.details["matches"], 4);
}

/// Follows the pages to the end and joins what they show, without the lines that say where a page stands.
async fn follow(blob: &[u8], read_size: usize, budget: u64, limit: u64) -> (Vec<u8>, usize) {
    let mut whole = Vec::new();
    let mut args = json!({"limit": limit});
    for pages in 1.. {
        let fake = Fake { limits: page_of(budget), read_size, ..Fake::blob(blob) };
        let output = with(fake, args.clone()).await.unwrap();
        let text = output.joined_text();
        let (body, _) = text.rsplit_once("\n(").unwrap();
        whole.extend_from_slice(body.as_bytes());
        match (&output.details["next_offset"], &output.details["next_byte_offset"]) {
            (Value::Null, Value::Null) => return (whole, pages),
            (Value::Null, byte) => args = json!({"limit": limit, "byte_offset": byte}),
            (offset, byte) => {
                whole.push(b'\n');
                let offset = offset.as_u64().unwrap();
                let lines =
                    blob[..usize::try_from(byte.as_u64().unwrap()).unwrap()].split(|b| *b == b'\n').count();
                assert_eq!(offset, lines as u64);
                args = json!({"limit": limit, "offset": offset});
            }
        }
        assert!(pages < 2_000, "the pages do not end");
    }
    unreachable!()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_pages_together_are_the_output(
        lines in prop::collection::vec("[a-cé€😀]{0,40}|[xé]{300,900}", 1..20),
        read_size in 1usize..200,
        budget in 256u64..600,
        limit in 1u64..10,
    ) {
        let blob = lines.join("\n") + "\n";
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (whole, _) = runtime.block_on(follow(blob.as_bytes(), read_size, budget, limit));
        // A page that is cut inside a line starts a line of its own, so newlines are compared apart.
        let without = |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().filter(|b| *b != b'\n').collect() };
        prop_assert_eq!(String::from_utf8(without(&whole)).unwrap(), String::from_utf8(without(blob.as_bytes())).unwrap());
    }

    #[test]
    fn any_bytes_are_paged_to_their_end_within_the_limit(
        blob in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(0xFF)], 1..3_000),
        byte in 0u64..3_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut at = byte % blob.len() as u64;
        loop {
            let fake = Fake { limits: page_of(256), read_size: 7, ..Fake::blob(blob.clone()) };
            let output = runtime.block_on(with(fake, json!({"byte_offset": at}))).unwrap();
            prop_assert!(output.joined_text().len() < 256 + 100);
            match output.details["next_byte_offset"].as_u64() {
                Some(next) => {
                    prop_assert!(next > at);
                    at = next;
                }
                None => break,
            }
        }
    }

    #[test]
    fn grep_finds_what_filtering_finds(
        lines in prop::collection::vec("[ab]{0,6}", 1..60),
        limit in 1u64..8,
        context in 0u8..3,
        budget in 256u64..400,
        read_size in 1usize..50,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let blob = lines.join("\n") + "\n";
        let expected: Vec<u64> =
            (1u64..).zip(&lines).filter(|(_, line)| line.contains("ab")).map(|(number, _)| number).collect();
        let mut found = Vec::new();
        let mut offset = 1;
        loop {
            let fake = Fake { limits: page_of(budget), read_size, ..Fake::blob(blob.clone()) };
            let args = json!({"grep": "ab", "limit": limit, "context": context, "offset": offset});
            let output = runtime.block_on(with(fake, args)).unwrap();
            let text = output.joined_text();
            let numbers = text.lines().filter_map(|line| line.split_once(':')?.0.parse::<u64>().ok());
            found.extend(numbers);
            match output.details["next_offset"].as_u64() {
                Some(next) => {
                    prop_assert!(next > offset);
                    offset = next;
                }
                None => break,
            }
        }
        prop_assert_eq!(found, expected);
    }
}
