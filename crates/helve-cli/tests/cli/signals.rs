//! Ctrl-C and sudden death.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::world::{BARE, Ended, SESSION, World, wait_for_text, wait_until};

/// Starts `helve` with these arguments and waits until the call has made the file `started`.
fn start(world: &World, args: &[&str]) -> Child {
    let child =
        world.helve(&[&BARE, args].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the command runs", || world.workspace().join("started").exists());
    child
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn states(world: &World) -> Vec<Value> {
    world.run(&["log", "--json"]).lines().iter().map(|row| row["state"].clone()).collect()
}

#[test]
fn an_interrupt_takes_the_call_back_and_it_is_recorded() {
    for sent in [Signal::INT, Signal::TERM, Signal::HUP] {
        if sent == Signal::HUP && ignores_hangup() {
            println!("skipped: these tests run under nohup");
            continue;
        }
        let world = World::new();
        let start_time = Instant::now();
        let child = start(&world, &["run", "--json", "touch started; sleep 30"]);
        signal(&child, sent);
        let ended: Ended = child.wait_with_output().unwrap().into();
        assert!(start_time.elapsed() < Duration::from_secs(20));
        assert_eq!(ended.code, Some(130), "{ended:?}");
        assert_eq!(ended.json()["error"]["kind"], "cancelled");
        let row = world.run(&["log", "--json"]).json();
        assert_eq!((row["state"].as_str(), row["error_kind"].as_str()), (Some("done"), Some("cancelled")));
    }
}

/// Whether this process, and so what it starts, ignores SIGHUP.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() & 1 == 1
}

#[test]
fn under_nohup_a_hangup_ends_nothing() {
    let world = World::new();
    let mut command = std::process::Command::new("sh");
    let plain = world.helve(&[]);
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(BARE);
    command.args(["run", "--json", "touch started; until test -e go; do sleep 0.02; done; echo done"]);
    command.env_clear().current_dir(world.workspace());
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the command runs", || world.workspace().join("started").exists());
    signal(&child, Signal::HUP);
    std::fs::write(world.workspace().join("go"), "").unwrap();
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert_eq!((ended.code, &ended.json()["content"][0]["text"]), (Some(0), &Value::from("done\n")));
}

#[test]
fn an_interrupted_batch_ends_its_calls_and_takes_no_more() {
    let world = World::new();
    let calls = "{\"id\":1,\"tool\":\"exec\",\"args\":{\"command\":\"touch started; sleep 30\"}}\n\
                 {\"id\":2,\"tool\":\"exec\",\"args\":{\"command\":\"touch second\"}}\n";
    std::fs::write(world.workspace().join("calls.jsonl"), calls).unwrap();
    let child = start(&world, &["batch", "calls.jsonl"]);
    signal(&child, Signal::INT);
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(ended.lines()[0]["error"]["kind"], "cancelled");
    assert!(!world.workspace().join("second").exists());
    assert_eq!(world.run(&["verify"]).code, Some(0));
}

#[test]
fn a_second_interrupt_ends_helve_at_once() {
    let world = World::new();
    // Results that nobody reads fill the pipe: after the first interrupt the calls end, and helve waits to be read.
    let long = "x".repeat(9000);
    let mut calls = format!("{{\"tool\":\"echo\",\"args\":{{\"message\":\"{long}\"}}}}\n").repeat(20);
    calls.push_str("{\"tool\":\"exec\",\"args\":{\"command\":\"touch started; sleep 30\"}}\n");
    std::fs::write(world.workspace().join("calls.jsonl"), calls).unwrap();
    let mut child = start(&world, &["batch", "--session", SESSION, "calls.jsonl"]);
    signal(&child, Signal::INT);
    wait_for_text(&world.session().join("journal.jsonl"), "\"cancelled\"");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "helve waits for its reader");
    signal(&child, Signal::INT);
    let mut ended = None;
    wait_until("helve ends", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
    assert_eq!(world.run(&["verify"]).code, Some(0));
}

#[test]
fn a_killed_helve_leaves_a_sound_journal_and_a_cut_call() {
    let world = World::new();
    let mut child = start(&world, &["run", "--session", SESSION, "touch started; sleep 30"]);
    wait_for_text(&world.session().join("journal.jsonl"), "planned");
    assert_eq!(states(&world), ["running"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(states(&world), ["cut"]);
    let table = world.run(&["log"]).stdout;
    assert!(table.contains(" cut "), "{table}");
    let verified = world.run(&["verify", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert_eq!(verified.json()["cut_calls"].as_array().map(Vec::len), Some(1));
}
