//! The cases of `tests/cases/time.jsonl`, at one fixed moment, and what holds for every input.

use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

const NOW: &str = "2026-03-04T05:06:07.5Z";

fn ask(args: Value) -> Result<Output, ToolError> {
    answer(&serde_json::from_value(args).unwrap(), NOW.parse().unwrap())
}

#[test]
fn the_cases() {
    let cases = include_str!("../../tests/cases/time.jsonl");
    crate::testing::run_cases(cases, ask);
    assert!(cases.lines().count() > 30);
}

#[tokio::test]
async fn the_tool_reads_the_clock() {
    let before = Timestamp::now().as_second();
    let output = crate::testing::run("time", json!({}), crate::testing::Fake::default()).await.unwrap();
    let unix = output.details["unix"].as_i64().unwrap();
    assert!((before..=Timestamp::now().as_second()).contains(&unix));
}

#[test]
fn the_machines_own_zone_can_be_asked_for() {
    let answer = ask(json!({"timezone": "local"}));
    match TimeZone::try_system() {
        Ok(zone) => {
            let point = NOW.parse::<Timestamp>().unwrap().to_zoned(zone);
            assert_eq!(answer.unwrap().details["iso"], iso(&point));
        }
        Err(_) => assert!(answer.unwrap_err().message.contains("of this machine is not known")),
    }
}

proptest! {
    #[test]
    fn any_input_is_answered_without_a_panic(input in any::<String>(), zone in "[A-Za-z/+:0-9 _-]{0,12}") {
        let _ = ask(json!({"operation": "parse", "input": input, "timezone": zone}));
        let _ = ask(json!({"operation": "format", "input": "now", "format": input}));
    }

    #[test]
    fn what_is_written_is_read_back(second in -62_000_000_000i64..250_000_000_000, zone in "[+-](0[0-9]|1[0-4]):[0-5][0-9]") {
        let point = Timestamp::from_second(second).unwrap().to_zoned(zones::find(&zone).unwrap());
        let again = ask(json!({"operation": "parse", "input": iso(&point)})).unwrap();
        prop_assert_eq!(&again.details["unix"], &json!(second));
        prop_assert_eq!(&again.details["iso"], &json!(iso(&point)));
    }

    #[test]
    fn unix_milliseconds_are_exact(millis in 100_000_000_000i64..250_000_000_000_000) {
        for input in [json!(millis), json!(millis.to_string())] {
            let output = ask(json!({"operation": "parse", "input": input})).unwrap();
            prop_assert_eq!(&output.details["unix_millis"], &json!(millis));
        }
    }
}
