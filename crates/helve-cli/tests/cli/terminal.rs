//! What only happens on a terminal: a question (`prompt.rs` has the rest of it), and output that must not reach it raw.
//! The terminal is made by `script` of util-linux; where that is missing, these tests say so and pass, or fail if `HELVE_TEST_PEERS` is 1.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use helve::store::{Blobs, Entry, EntryKind, Home, Journal, JournalOptions};
use serde_json::json;

use crate::world::{SESSION, World, wait_until};

/// Starts a command on a terminal.
fn start(world: &World, command: &str) -> Option<Child> {
    if Command::new("script").arg("--version").output().is_err() {
        let required = std::env::var_os("HELVE_TEST_PEERS").is_some_and(|value| value == "1");
        assert!(!required, "`script` is not installed, and HELVE_TEST_PEERS is 1");
        println!("skipped: `script` is not installed");
        return None;
    }
    let binary = env!("CARGO_BIN_EXE_helve");
    let plain = world.helve(&[]);
    let mut child = Command::new("script");
    child.args(["-qec", &format!("'{binary}' {command}"), "/dev/null"]).env_clear();
    for (name, value) in plain.get_envs() {
        child.env(name, value.unwrap());
    }
    child.env("SHELL", "/bin/sh").env("NO_COLOR", "1").current_dir(world.workspace());
    Some(child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
}

/// Runs a command on a terminal, answers its question if there is one, and gives its exit code and everything that the
/// terminal showed.
fn on_terminal(world: &World, command: &str, answer: Option<&str>) -> Option<(Option<i32>, String)> {
    let mut child = start(world, command)?;
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    let mut unanswered = answer;
    loop {
        let read = output.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        shown.extend_from_slice(&piece[..read]);
        if String::from_utf8_lossy(&shown).contains("[?]")
            && let Some(answer) = unanswered.take()
        {
            input.write_all(answer.as_bytes()).unwrap();
        }
    }
    let code = child.wait().unwrap().code();
    assert!(unanswered.is_none(), "nothing was asked: {}", String::from_utf8_lossy(&shown));
    Some((code, String::from_utf8(shown).unwrap().replace("\r\n", "\n")))
}

const BARE_RUN: &str = "run --set sandbox=none 'touch made; echo done'";

#[test]
fn a_key_at_the_terminal_lets_the_call_happen() {
    let world = World::new();
    let Some((code, shown)) = on_terminal(&world, BARE_RUN, Some("o")) else { return };
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("allowed once: touch made; echo done\n") && shown.ends_with("\ndone\n"),
        "{shown}"
    );
    assert!(world.workspace().join("made").exists());
}

#[test]
fn an_interrupt_at_the_question_cancels() {
    let world = World::new();
    let Some((code, shown)) = on_terminal(&world, &format!("{BARE_RUN} --json"), Some("\u{3}")) else {
        return;
    };
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains(r#""error":{"kind":"cancelled""#), "{shown}");
    assert_eq!(world.run(&["log", "--json"]).json()["error_kind"], "cancelled");
    assert!(!world.workspace().join("made").exists());
}

#[test]
fn ctrl_c_at_the_terminal_takes_the_call_back() {
    let world = World::new();
    let command =
        "call exec 'command=touch started; sleep 30; touch ended' --set sandbox=none --set auto_approve=true";
    let Some(mut child) = start(&world, command) else { return };
    wait_until("the command runs", || world.workspace().join("started").exists());
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let row = world.run(&["log", "--json"]).json();
    assert_eq!((row["state"].as_str(), row["error_kind"].as_str()), (Some("done"), Some("cancelled")));
    assert!(!world.workspace().join("ended").exists());
}

#[test]
fn a_command_cannot_paint_over_the_question() {
    let world = World::new();
    let command = "run --set sandbox=none \"$(printf 'touch x\\033[2K\\r')\"";
    let Some((code, shown)) = on_terminal(&world, command, Some("\u{3}")) else { return };
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("touch x\\x1b[2K\\r"), "{shown}");
    assert!(!shown.contains("\u{1b}[2K"), "{shown}");
}

/// Records a call whose output is these bytes, as they are, which the pipeline never does.
fn record_raw(world: &World, call: &str, output: &[u8]) {
    let home = Home::open(&world.path("state")).unwrap();
    let mut blob = Blobs::open(&home, u64::MAX).unwrap().writer();
    blob.write(output).unwrap();
    let body = json!({"tool": "raw", "ok": true, "truncated": {"blob": blob.finish().unwrap().id}});
    let journal = Journal::open(&home, SESSION, JournalOptions::default()).unwrap();
    for kind in [EntryKind::Planned, EntryKind::Outcome] {
        journal.append(&Entry { kind, call: Some(call.to_owned()), at_us: 1, body: body.clone() }).unwrap();
    }
}

#[test]
fn kept_output_reaches_a_terminal_harmless() {
    let world = World::new();
    record_raw(&world, "c_1", b"a\x1b[31mb\xffc\n");
    let Some((code, shown)) = on_terminal(&world, "log --output c_1", None) else { return };
    assert_eq!((code, shown.as_str()), (Some(0), "a\\x1b[31mb\u{fffd}c\n"));
    // A long line is read in pieces; its characters stay whole wherever the pieces end.
    let long_line = format!("a{}\n", "€".repeat(50_000));
    record_raw(&world, "c_2", long_line.as_bytes());
    let Some((code, shown)) = on_terminal(&world, "log --output c_2", None) else { return };
    assert_eq!(code, Some(0));
    assert!(shown == long_line, "{} characters of {}", shown.chars().count(), long_line.chars().count());
    let Some((code, shown)) = on_terminal(&world, "log c_1", None) else { return };
    assert_eq!(code, Some(0), "{shown}");
}
