//! What holds when things go wrong: a batch that is killed, a journal that is tampered with, a command that prints
//! without end, a command that leaves processes behind.
//!
//! With `HELVE_TEST_SOAK=1` the batch is killed 200 times and the command prints 10 GiB.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and tell what they saw"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{
    BARE, Place, SESSION, json_lines, running_with, sandbox_works, text, unique_seconds, wait_for,
};

/// Calls in one batch.
const CALLS: usize = 1000;

fn soak() -> bool {
    std::env::var_os("HELVE_TEST_SOAK").is_some_and(|value| value == "1")
}

/// A batch of calls of both kinds. Some commands leave a process behind that `marker` tells from all others.
fn mixed_calls(marker: &str) -> String {
    let line = |id: usize| {
        let call = match id % 5 {
            0 => json!({"id": id, "tool": "exec", "args": {"command": format!("echo {id}")}}),
            1 => {
                json!({"id": id, "tool": "exec", "args": {"command": format!("sleep {marker} & setsid sleep {marker} & :")}})
            }
            2 => json!({"id": id, "tool": "exec", "args": {"command": "true"}}),
            _ => json!({"id": id, "tool": "echo", "args": {"message": format!("message {id}")}}),
        };
        format!("{call}\n")
    };
    (0..CALLS).map(line).collect()
}

fn start_batch(place: &Place, settings: &[&str]) -> Child {
    let mut command = place.helve();
    command.args(["batch", "--session", SESSION]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Starts a batch and kills it after a time; gives what it had printed.
fn kill_a_batch(place: &Place, settings: &[&str], calls: &str, after: Duration) -> String {
    let mut child = start_batch(place, settings);
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut printed = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(calls.as_bytes()).ok());
        scope.spawn(|| output.read_to_end(&mut printed).ok());
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    String::from_utf8(printed).unwrap()
}

/// The whole lines of the journal; a writer that was killed may have left a piece of one behind them.
fn whole_entries(place: &Place) -> Vec<Value> {
    let text = std::fs::read_to_string(place.journal_path()).unwrap_or_default();
    let end = text.rfind('\n').map_or(0, |at| at + 1);
    json_lines(&text[..end])
}

fn whole_lines(printed: &str) -> Vec<Value> {
    let end = printed.rfind('\n').map_or(0, |at| at + 1);
    json_lines(&printed[..end])
}

/// After a kill: what was printed is recorded, the journal is sound, cut calls are told, nothing is left running.
fn judge_after_kill(place: &Place, printed: &str, marker: &str) -> usize {
    let gone = wait_for(Duration::from_secs(10), || running_with(marker).is_empty());
    assert!(gone, "still running: {:?}", running_with(marker));

    if !place.journal_path().exists() {
        assert_eq!(printed, "", "printed before the first entry");
        return 0;
    }
    let entries = whole_entries(place);
    let of_kind = |kind: &str| {
        let entries = entries.iter().filter(|entry| entry["type"] == kind);
        entries.map(|entry| (entry["call"].as_str().unwrap(), &entry["body"])).collect::<BTreeMap<_, _>>()
    };
    let (planned, outcomes) = (of_kind("planned"), of_kind("outcome"));
    for result in whole_lines(printed) {
        let recorded = outcomes.get(result["call"].as_str().unwrap());
        assert_eq!(recorded, Some(&&result), "printed and not recorded as such");
    }
    let cut: BTreeSet<&str> = planned.keys().filter(|call| !outcomes.contains_key(*call)).copied().collect();

    let report = place.verify();
    assert_eq!(report.code, 0, "{:#}", report.result);
    let named: BTreeSet<&str> =
        report.result["cut_calls"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(named, cut, "verify names the cut calls");

    let log = place.run(&["log", "--json", "--session", SESSION, "--limit", "100000"]);
    let rows = json_lines(&log.stdout);
    let in_state = |state: &str| {
        let rows = rows.iter().filter(|row| row["state"] == state);
        rows.filter_map(|row| row["call"].as_str()).collect::<BTreeSet<_>>()
    };
    assert_eq!(in_state("cut"), cut, "the log shows the cut calls as cut");
    assert_eq!(in_state("running"), BTreeSet::new());
    assert_eq!(rows.len(), planned.len(), "every planned call is in the log");
    cut.len()
}

/// A batch of a thousand calls, killed at a random moment, again and again in the same session.
fn survive_kills(settings: &[&str], rounds: usize) {
    let marker = unique_seconds();
    let calls = mixed_calls(&marker);
    let mut place = Place::new();
    let mut cut = 0;
    for round in 0..rounds {
        // A journal that has seen many kills is as good as one that has seen two hundred.
        if round % 20 == 19 {
            place = Place::new();
            cut = 0;
        }
        let after = Duration::from_millis(RandomState::new().hash_one(round) % 1000);
        let printed = kill_a_batch(&place, settings, &calls, after);
        let cut_now = judge_after_kill(&place, &printed, &marker);
        println!(
            "round {round}: killed after {after:?}, {} lines printed, {cut_now} calls cut so far",
            printed.lines().count()
        );
        assert!(cut_now >= cut, "a call that was cut stays cut");
        cut = cut_now;
    }
}

#[test]
fn a_killed_batch_leaves_a_sound_journal_and_no_process() {
    survive_kills(BARE, if soak() { 100 } else { 3 });
}

#[test]
fn a_killed_batch_in_the_sandbox_leaves_a_sound_journal_and_no_process() {
    if sandbox_works() {
        survive_kills(&[], if soak() { 100 } else { 3 });
    }
}

/// A kill in the middle of a command: the call is cut, what came before it is whole.
#[test]
fn a_call_that_was_cut_is_shown_as_cut() {
    for settings in [BARE, &[]] {
        if settings.is_empty() && !sandbox_works() {
            continue;
        }
        let marker = unique_seconds();
        let place = Place::new();
        let calls = format!(
            "{}\n{}\n",
            json!({"id": 1, "tool": "echo", "args": {"message": "before"}}),
            json!({"id": 2, "tool": "exec", "args": {"command": format!("touch started; sleep {marker}")}}),
        );
        let mut child = start_batch(&place, settings);
        child.stdin.take().unwrap().write_all(calls.as_bytes()).unwrap();
        assert!(wait_for(Duration::from_secs(20), || place.has("started")));
        // While a process takes on another program, its command line is empty for a moment.
        assert!(wait_for(Duration::from_secs(5), || !running_with(&marker).is_empty()), "the command runs");
        child.kill().unwrap();
        let printed = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(whole_lines(&printed).len(), 1);
        assert_eq!(judge_after_kill(&place, &printed, &marker), 1);
        let shown = place.run(&["log"]).stdout;
        let line = shown.lines().find(|line| line.contains("touch started")).unwrap();
        assert!(line.contains("  cut  "), "{line}");
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A journal that was killed once and has gone on since, and copies of its state to tamper with.
struct Witnessed {
    original: Place,
}

impl Witnessed {
    fn new() -> Self {
        let original = Place::new();
        let marker = unique_seconds();
        let printed = kill_a_batch(&original, BARE, &mixed_calls(&marker), Duration::from_millis(400));
        judge_after_kill(&original, &printed, &marker);
        for n in 0..5 {
            original.call("echo", &json!({"message": format!("after {n}")})).good();
        }
        assert_eq!(original.verify().code, 0);
        Witnessed { original }
    }

    fn copy(&self) -> Place {
        let copy = Place::new();
        copy_dir(&self.original.home(), &copy.home());
        assert_eq!(copy.verify().code, 0);
        copy
    }

    /// A copy whose lines were changed behind Helve's back.
    fn changed(&self, change: impl FnOnce(&mut Vec<String>)) -> Place {
        let copy = self.copy();
        let text = std::fs::read_to_string(copy.journal_path()).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(copy.journal_path(), lines.join("\n") + "\n").unwrap();
        copy
    }
}

/// The kinds of problems that verify names, each with its entry; in words as well as for programs.
fn problems(place: &Place) -> Vec<(String, u64)> {
    let report = place.verify();
    assert_eq!((report.code, &report.result["ok"]), (1, &json!(false)), "{:#}", report.result);
    let problems = report.result["problems"].as_array().unwrap();
    let said = place.run(&["verify", SESSION]);
    assert_eq!(said.code, 1);
    for problem in problems {
        assert!(said.stdout.contains(problem["message"].as_str().unwrap()), "{}", said.stdout);
    }
    let named = |problem: &Value| {
        (problem["kind"].as_str().unwrap().to_owned(), problem["seq"].as_u64().unwrap_or_default())
    };
    problems.iter().map(named).collect()
}

#[test]
fn tampering_is_detected_and_named() {
    let journal = Witnessed::new();
    let count = journal.original.journal().len() as u64;
    assert!(count >= 12, "{count} entries are too few for this test");

    let cut = journal.changed(|lines| lines.truncate(lines.len() - 2));
    assert_eq!(problems(&cut), [("cut_tail".to_owned(), count - 1)]);

    let piece = journal.copy();
    let text = std::fs::read(piece.journal_path()).unwrap();
    std::fs::write(piece.journal_path(), &text[..text.len() - 10]).unwrap();
    assert_eq!(problems(&piece), [("cut_tail".to_owned(), count)]);

    let edited = journal.changed(|lines| {
        let line = lines.iter_mut().rev().find(|line| line.contains("after 2")).unwrap();
        *line = line.replace("after 2", "after 3");
    });
    let [(kind, seq)] = &problems(&edited)[..] else { unreachable!("one entry was edited") };
    assert_eq!(kind, "changed");
    assert!(*seq > count - 10 && *seq <= count, "entry {seq} of {count}");

    let swapped = journal.changed(|lines| lines.swap(5, 6));
    let named = problems(&swapped);
    assert!(named.iter().all(|(kind, seq)| kind == "reordered" && (6..=7).contains(seq)), "{named:?}");

    let removed = journal.changed(|lines| drop(lines.remove(5)));
    assert_eq!(problems(&removed), [("removed".to_owned(), 6)]);
}

/// Journal and head of an earlier moment, put back together: seen without any check in between, and not gone on with.
#[test]
fn a_restored_older_copy_is_detected_and_named() {
    let journal = Witnessed::new();
    let place = journal.copy();
    let old = place.root().join("old");
    let session = place.home().join("sessions").join(SESSION);
    copy_dir(&session, &old);
    place.call("echo", &json!({"message": "later"})).good();
    std::fs::remove_dir_all(&session).unwrap();
    copy_dir(&old, &session);
    let count = place.journal().len() as u64;
    let expected = [("older_copy".to_owned(), count + 2)];
    assert_eq!(problems(&place), expected);

    let answer = place.call_with("exec", &json!({"command": "touch ran"}), BARE);
    assert_eq!((&answer.result["ok"], place.has("ran")), (&json!(false), false), "nothing runs unrecorded");
    assert!(answer.text().contains("helve verify"), "{}", answer.text());
    assert_eq!((problems(&place), place.journal().len() as u64), (expected.to_vec(), count));
}

/// The most memory that a process had so far, in KiB; none once it has ended.
fn peak_memory(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// `yes | head -c SIZE`: memory stays small, the result has head, tail and the exact count of the rest.
#[test]
fn a_flood_of_output_needs_little_memory() {
    let (size, bytes) = if soak() { ("10G", 10 << 30) } else { ("200M", 200 << 20) };
    let place = Place::new();
    let sandbox = if sandbox_works() { &["auto_approve=false"] as &[&str] } else { BARE };
    let args = json!({"command": format!("yes | head -c {size}"), "timeout": 3600}).to_string();
    let mut command = place.helve();
    command.args(["call", "exec", &args, "--json", "--set", "limits.exec_timeout_max=3600"]);
    for setting in sandbox {
        command.args(["--set", setting]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    let mut looks = 0;
    while child.try_wait().unwrap().is_none() {
        if let Some(now) = peak_memory(&child) {
            peak = peak.max(now);
            looks += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert!(looks > 10, "looked {looks} times");
    println!("{size}: {peak} KiB at the most");
    assert!(peak < 64 * 1024, "{peak} KiB at the most");

    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left_out = bytes - 10_000_u64;
    let call = result["call"].as_str().unwrap();
    let half = "y\n".repeat(2500);
    let mark = format!(
        "\n\n... ({left_out} characters left out; call read_output with call \"{call}\" to see them) ...\n\n"
    );
    assert!(text(&result) == format!("{half}{mark}{half}"), "{}", text(&result).replace("y\n", ""));
    assert_eq!(result["details"]["stdout_bytes"], bytes);
    let truncated = &result["truncated"];
    assert_eq!((&truncated["chars"], &truncated["bytes"]), (&json!(left_out), &json!(left_out)));
    assert_eq!(truncated["blob_dropped"], bytes - (64 << 20), "what the blob does not have is counted");
}

/// A command whose processes go into the background, into sessions of their own, and deaf to signals.
#[test]
fn nothing_survives_a_timeout() {
    for settings in [BARE, &[]] {
        if settings.is_empty() && !sandbox_works() {
            continue;
        }
        for command in [
            "sleep N & setsid sleep N & sleep N",
            "(setsid sh -c 'sleep N & sleep N' &) ; sleep N",
            "trap '' TERM HUP INT; sleep N & setsid nohup sleep N & sleep N",
            "setsid sh -c \"trap '' TERM HUP INT; (sleep N &); sleep N\" & disown; exec sleep N",
        ] {
            let place = Place::new();
            let seconds = unique_seconds();
            let args = json!({"command": command.replace('N', &seconds), "timeout": 1});
            let start = Instant::now();
            let answer = place.call_with("exec", &args, settings);
            let took = start.elapsed();
            assert_eq!(answer.first_line(), "Error: Command timed out after 1 seconds", "{command}");
            assert!(took < Duration::from_secs(5), "{command}: {took:?}");
            let gone = wait_for(Duration::from_secs(2), || running_with(&seconds).is_empty());
            assert!(gone, "{command}: {:?}", running_with(&seconds));
        }
    }
}

/// The same for a command that ends by itself: what it left behind ends with it.
#[test]
fn nothing_survives_a_command_that_ends() {
    for settings in [BARE, &[]] {
        if settings.is_empty() && !sandbox_works() {
            continue;
        }
        let place = Place::new();
        let seconds = unique_seconds();
        let command = format!("sleep {seconds} & setsid sleep {seconds} >/dev/null 2>&1 & echo done");
        let answer = place.exec_with(&command, settings);
        assert!(answer.good().starts_with("done\n"), "{}", answer.text());
        let gone = wait_for(Duration::from_secs(2), || running_with(&seconds).is_empty());
        assert!(gone, "{:?}", running_with(&seconds));
    }
}
