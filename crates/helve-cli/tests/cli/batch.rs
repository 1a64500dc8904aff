//! `batch`: order, ids, arrays, bad lines, and that nothing is held back.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{BARE, SESSION, World};

/// Id, text and kind of error of each result.
fn gist(lines: &[Value]) -> Vec<Value> {
    let one = |line: &Value| json!([line["id"], line["content"][0]["text"], line["error"]["kind"]]);
    lines.iter().map(one).collect()
}

#[test]
fn results_come_in_order_with_their_ids() {
    let world = World::new();
    let mut input = String::new();
    for n in 0..500 {
        if n == 3 {
            input.push_str("{\"id\":3,\"tool\":\"exec\",\"args\":{\"command\":\"sleep 0.2; echo 3\"}}\n");
        } else {
            let _ = writeln!(input, "{{\"id\":{n},\"tool\":\"echo\",\"args\":{{\"message\":\"{n}\\n\"}}}}");
        }
    }
    let ended = world.feed(&[&BARE[..], &["batch"]].concat(), input);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let expected: Vec<Value> = (0..500).map(|n| json!([n, format!("{n}\n"), null])).collect();
    assert_eq!(gist(&ended.lines()), expected);
}

#[test]
fn ids_of_every_kind_are_echoed() {
    let world = World::new();
    let ids = ["null", "7", "-1.5", r#""x""#, r#"{"a":[1]}"#];
    let mut input = String::new();
    for id in ids {
        let _ = writeln!(input, r#"{{"id":{id},"tool":"echo","args":{{"message":"m"}}}}"#);
    }
    input.push_str(r#"{"tool":"echo","args":{"message":"m"}}"#);
    let lines = world.feed(&["batch"], input).lines();
    for (line, id) in lines.iter().zip(ids) {
        assert_eq!(line.get("id"), Some(&serde_json::from_str(id).unwrap()));
    }
    assert_eq!((lines.len(), lines[5].get("id")), (6, None), "no id, no key");
}

#[test]
fn an_array_is_one_batch_and_gives_a_line_for_each() {
    let world = World::new();
    let input = r#"[{"id":"a","tool":"echo","args":{"message":"1"}},{"id":"b"},{"id":"c","tool":"nope"},{"id":"d","tool":"echo","args":{"message":"2"}}]
[]
{"id":"e","tool":"echo","args":{"message":"3"}}"#;
    let lines = world.feed(&["batch"], input).lines();
    let kinds: Vec<Value> = lines.iter().map(|line| json!([line["id"], line["error"]["kind"]])).collect();
    assert_eq!(
        kinds,
        [
            json!(["a", null]),
            json!(["b", "invalid_params"]),
            json!(["c", "unknown_tool"]),
            json!(["d", null]),
            json!(["e", null])
        ]
    );
}

#[test]
fn a_bad_line_is_answered_and_the_work_goes_on() {
    let world = World::new();
    let long = "x".repeat(2000);
    let mut input = b"\n  \nnonsense\n{\"tool\":5}\n\"text\"\n\xff\xfe\n".to_vec();
    let good = r#"{"id":1,"tool":"echo","args":{"message":"good"}}"#;
    input.extend(format!("{{\"tool\":\"echo\",\"args\":{{\"message\":\"{long}\"}}}}\n{good}").as_bytes());
    let ended = world.feed(&["batch", "--set", "limits.batch_line_bytes=1000"], input);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let lines = ended.lines();
    let (good, bad) = lines.split_last().unwrap();
    assert_eq!(gist(std::slice::from_ref(good)), [json!([1, "good", null])]);
    assert_eq!(bad.len(), 5);
    for (line, place) in bad.iter().zip(["Line 3", "Line 4", "Line 5", "Line 6", "Line 7"]) {
        assert_eq!((&line["id"], &line["ok"]), (&Value::Null, &json!(false)), "{line}");
        assert_eq!(line["error"]["kind"], "invalid_params");
        assert!(line["error"]["message"].as_str().unwrap().starts_with(place), "{line}");
    }
}

#[test]
fn what_is_no_object_is_no_call() {
    let world = World::new();
    let input = r#"[[null,"exec",{"command":"touch made"}]]
[null,"exec",{"command":"touch made"}]"#;
    let lines = world.feed(&[&BARE[..], &["batch"]].concat(), input).lines();
    assert_eq!(lines.len(), 4, "one for each element: {lines:?}");
    assert!(lines.iter().all(|line| line["error"]["kind"] == "invalid_params"), "{lines:?}");
    assert!(!world.workspace().join("made").exists());
}

#[test]
fn an_id_that_would_come_back_changed_is_refused() {
    let world = World::new();
    let call = |id: &str| format!("{{\"id\":{id},\"tool\":\"echo\",\"args\":{{\"message\":\"m\"}}}}\n");
    let input = call("12345678901234567890123") + &call("\"12345678901234567890123\"");
    let lines = world.feed(&["batch"], input).lines();
    assert_eq!(
        gist(&lines)[1],
        json!(["12345678901234567890123", "m", null]),
        "what the refusal advises works"
    );
    assert_eq!((&lines[0]["id"], &lines[0]["error"]["kind"]), (&Value::Null, &json!("invalid_params")));
    assert!(lines[0]["error"]["message"].as_str().unwrap().contains("quote it"), "{}", lines[0]);
}

#[test]
fn an_array_of_too_many_calls_gives_one_error_and_makes_none() {
    let world = World::new();
    let call = r#"{"tool":"echo","args":{"message":"m"}}"#;
    let input = format!("[{call},{call},{call}]\n[{call},{call}]\n");
    let lines = world.feed(&["batch", "--set", "limits.batch_calls=2"], input).lines();
    let kinds: Vec<&Value> = lines.iter().map(|line| &line["error"]["kind"]).collect();
    assert_eq!(kinds, [&json!("too_large"), &Value::Null, &Value::Null]);
    assert_eq!(world.run(&["log", "--json"]).lines().len(), 2);
}

#[test]
fn duplicate_keys_in_arguments_are_seen() {
    let world = World::new();
    let ended = world.feed(&["batch"], r#"{"id":1,"tool":"echo","args":{"message":"a","m\u0065ssage":"b"}}"#);
    assert_eq!(ended.json()["error"]["kind"], "invalid_params", "{ended:?}");
}

#[test]
fn the_policys_rate_limit_holds_across_lines() {
    let world = World::new();
    let input = "{\"tool\":\"echo\",\"args\":{\"message\":\"m\"}}\n".repeat(3);
    let lines = world.feed(&["batch", "--set", "tools.echo.per_minute=2"], input).lines();
    let kinds: Vec<Value> = lines.iter().map(|line| line["error"]["kind"].clone()).collect();
    assert_eq!(kinds, [json!(null), json!(null), json!("rate_limited")]);
}

#[test]
fn a_file_is_read_like_standard_input_and_an_absent_one_is_bad_usage() {
    let world = World::new();
    std::fs::write(world.workspace().join("calls.jsonl"), r#"{"id":1,"tool":"echo","args":{"message":"m"}}"#)
        .unwrap();
    assert_eq!(gist(&world.run(&["batch", "calls.jsonl"]).lines()), [json!([1, "m", null])]);
    assert_eq!(world.run(&["batch", "absent.jsonl"]).code, Some(2));
    assert_eq!(world.run(&["batch", "."]).code, Some(2), "a directory cannot be read");
    assert_eq!(world.run(&["batch"]).quiet(), (Some(0), String::new()), "nothing in, nothing out");
}

#[test]
fn a_result_does_not_wait_for_the_next_line() {
    let world = World::new();
    let mut child = world.helve(&["batch", "--session", SESSION]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for n in 0..20 {
        writeln!(input, r#"{{"id":{n},"tool":"echo","args":{{"message":"m"}}}}"#).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let result: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(result["id"], n);
        let call = result["call"].as_str().unwrap();
        let recorded =
            world.journal().iter().any(|entry| entry["call"] == call && entry["type"] == "outcome");
        assert!(recorded, "a printed result is in the journal");
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn later_lines_are_taken_in_while_an_earlier_one_runs() {
    let world = World::new();
    let input = "{\"id\":1,\"tool\":\"exec\",\"args\":{\"command\":\"sleep 1\"}}\n{\"id\":2,\"tool\":\"no_such_tool\"}\n";
    let ended = world.feed(&[&BARE[..], &["batch", "--session", SESSION]].concat(), input);
    let ids: Vec<Value> = ended.lines().iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids, [1, 2], "results keep the order of the lines");
    let outcomes: Vec<Value> = world
        .journal()
        .iter()
        .filter(|entry| entry["type"] == "outcome")
        .map(|entry| entry["body"]["id"].clone())
        .collect();
    assert_eq!(outcomes, [2, 1], "the second was refused while the first ran");
}

#[test]
fn a_reader_that_goes_away_cancels_the_batch_quietly() {
    let world = World::new();
    let mut child = world
        .helve(&["batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        // Endless, until nobody takes it any more.
        while writeln!(input, r#"{{"tool":"echo","args":{{"message":"m"}}}}"#).is_ok() {}
    });
    let ended: crate::world::Ended = child.wait_with_output().unwrap().into();
    feeder.join().unwrap();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(130), ""));
    assert_eq!(world.run(&["verify"]).code, Some(0));
}
