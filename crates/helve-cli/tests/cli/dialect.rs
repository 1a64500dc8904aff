//! `--dialect`: the tools under the names and parameters that another agent has for them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{BARE, World};

#[test]
fn tools_are_declared_in_the_dialect() {
    let world = World::new();
    let tools = world.run(&["tools", "--dialect", "claude", "--format", "anthropic"]).json();
    let find = |name: &str| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name);
    let bash = find("Bash").unwrap();
    assert_eq!(bash["input_schema"]["required"], json!(["command"]));
    assert!(
        bash["input_schema"]["properties"]["timeout"]["description"].to_string().contains("milliseconds")
    );
    assert!(find("Edit").is_some() && find("echo").is_some());
    assert!(find("exec").is_none() && find("edit_file").is_none());
    let own = world.run(&["tools", "--dialect", "helve", "--json"]).json();
    assert_eq!(own, world.run(&["tools", "--json"]).json());
    let text = world.run(&["tools", "--dialect", "codex", "shell"]).quiet().1;
    assert!(text.starts_with("shell ") && text.contains("timeout_ms"), "{text}");
    let unknown = world.run(&["tools", "--dialect", "latin"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("openclaw"), "{unknown:?}");
}

#[test]
fn a_call_in_a_dialect_does_what_ours_does() {
    let world = World::new();
    let ended = world.run(&["call", "--dialect", "claude", "Write", "file_path=a.txt", "content=x"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "Successfully wrote 1 bytes to a.txt\n"),
        "{ended:?}"
    );
    assert_eq!(std::fs::read_to_string(world.workspace().join("a.txt")).unwrap(), "x");
    let slow =
        [&BARE[..], &["call", "--dialect", "claude", "Bash", "command=sleep 9", "timeout:=200", "--json"]];
    let slow = world.run(&slow.concat()).json();
    assert_eq!((&slow["tool"], &slow["error"]["kind"]), (&json!("exec"), &json!("timeout")));
    assert_eq!(slow["error"]["message"], "Command timed out after 1 seconds");
    let wrong = world.run(&["call", "--dialect", "claude", "Write", "content=x"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stdout.contains("/file_path: expected a value (required)"), "{wrong:?}");
}

#[test]
fn a_batch_in_a_dialect_is_written_in_it() {
    let world = World::new();
    let input = r#"{"id":1,"tool":"write","args":{"path":"a","content":"one"}}
{"id":2,"tool":"edit","args":{"path":"a","edits":[{"oldText":"one","newText":"two"}]}}
{"id":3,"tool":"nope"}
"#;
    let ended = world.feed(&["batch", "--dialect", "openclaw"], input.to_owned());
    let gist: Vec<Value> =
        ended.lines().iter().map(|line| json!([line["id"], line["tool"], line["error"]["kind"]])).collect();
    assert_eq!(
        gist,
        [json!([1, "write_file", null]), json!([2, "edit_file", null]), json!([3, "nope", "unknown_tool"])]
    );
    assert_eq!(std::fs::read_to_string(world.workspace().join("a")).unwrap(), "two");
}
