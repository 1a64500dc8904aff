//! Hooks from the command line: one program hears of calls from every face, the overview names it, and no workspace brings one.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{SESSION, World};

/// Calls whose journal is looked at.
const NOTED: &[&str] = &["--session", SESSION];

/// A configuration with one hook, a script that a shell reads.
fn hook(world: &World, on: &str, script: &str) -> String {
    let file = world.path("hook.sh");
    std::fs::write(&file, script).unwrap();
    let text = format!(
        "[[hooks]]\nname = \"mine\"\non = {on}\ntools = [\"echo\"]\nprogram = [\"/bin/sh\", {:?}, {:?}]\n",
        file.display(),
        world.path("").display()
    );
    world.configure(&text);
    text
}

#[test]
fn calls_and_batches_are_heard_of_and_the_log_tells() {
    let world = World::new();
    let script = "IFS= read -r line; case $line in *'\"no\"'*) echo '{\"verdict\":\"deny\",\"reason\":\"I say no\"}';; \
                  *loud*) echo '{\"args\":{\"message\":\"quiet\"},\"note\":\"hush\"}';; esac";
    hook(&world, "\"before_call\"", script);
    let denied = world.run_with(NOTED, &["call", "--json", "echo", r#"{"message":"no"}"#]);
    assert_eq!(denied.code, Some(3), "{denied:?}");
    let denied = denied.json();
    assert_eq!(
        (&denied["error"]["kind"], &denied["decision"]["rule"]),
        (&json!("blocked"), &json!("hooks.mine"))
    );
    let changed = world.run_with(NOTED, &["call", "echo", r#"{"message":"loud"}"#]);
    assert_eq!(changed.code, Some(0), "{changed:?}");
    assert_eq!(changed.stdout.trim_end(), "quiet\n[the owner's hook mine: hush]");
    let lines = "{\"id\":1,\"tool\":\"echo\",\"args\":{\"message\":\"yes\"}}\n{\"id\":2,\"tool\":\"echo\",\"args\":{\"message\":\"no\"}}\n";
    let batch = world.feed(&[NOTED, &["batch"]].concat(), lines);
    let ok: Vec<Value> = batch.lines().iter().map(|line| line["ok"].clone()).collect();
    assert_eq!(ok, [json!(true), json!(false)], "{batch:?}");
    let told = world.run(&["log", denied["call"].as_str().unwrap()]);
    assert!(told.stdout.contains("mine said deny I say no"), "{}", told.stdout);
    let mut said: Vec<Value> = world
        .journal()
        .iter()
        .filter(|entry| entry["type"] == "planned")
        .map(|entry| entry["body"]["hooks"][0]["said"].clone())
        .collect();
    // The two calls of the batch run beside each other.
    said[2..].sort_by_key(Value::to_string);
    assert_eq!(said, [json!("deny"), json!("rewrite"), json!("deny"), json!("nothing")]);
    assert_eq!(world.run(&["verify", SESSION]).code, Some(0));
}

#[test]
fn the_overview_names_hooks_and_what_is_wrong_with_them() {
    let world = World::new();
    hook(&world, "[\"before_call\", \"session_end\"]", "");
    let shown = world.run(&["config", "show"]);
    assert!(shown.stdout.contains("hooks = [{") && shown.stdout.contains("\"session_end\""), "{shown:?}");
    let doctor = world.run(&["doctor", "--json"]).json();
    let hook = &doctor["hooks"][0];
    assert_eq!((&hook["name"], &hook["problem"]), (&json!("mine"), &Value::Null), "{hook}");
    assert_eq!(hook["on"], json!(["before_call", "session_end"]));
    world.configure("[[hooks]]\non = 'before_call'\nprogram = ['/nowhere/check']\n");
    let told = world.run(&["doctor"]);
    let missing = "every call that it hears of is refused";
    assert!(told.stdout.contains("Hooks") && told.stdout.contains(missing), "{told:?}");
    let checked = world.run(&["config", "check"]);
    assert!(format!("{}{}", checked.stdout, checked.stderr).contains(missing), "{checked:?}");
}

/// What lies in a workspace runs nothing of its own: not before it is trusted, and it cannot be trusted with that.
#[test]
fn a_workspace_brings_no_hook() {
    let world = World::new();
    let mine = hook(&world, "[\"before_call\", \"after_call\"]", "touch \"$1/ran\"");
    world.configure("");
    std::fs::write(world.workspace().join("helve.toml"), mine).unwrap();
    let called = world.run(&["call", "echo", r#"{"message":"x"}"#]);
    assert_eq!(called.code, Some(0), "{called:?}");
    assert!(!world.path("ran").exists(), "a file that nobody trusts runs nothing");
    let trusted = world.run(&["trust"]);
    assert_eq!(trusted.code, Some(2), "{trusted:?}");
    assert!(trusted.stderr.contains("it cannot name a program that Helve runs"), "{trusted:?}");
    world.run(&["call", "echo", r#"{"message":"x"}"#]);
    assert!(!world.path("ran").exists());
}
