//! `log`, `verify` and `gc`: what was done can be read, and what was changed is seen.

use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{BARE, SESSION, World, wait_for_text};

fn echoes(world: &World, count: usize) {
    let line = "{\"tool\":\"echo\",\"args\":{\"message\":\"a message\"}}\n";
    assert_eq!(world.feed(&["batch", "--session", SESSION], line.repeat(count)).code, Some(0));
}

#[test]
fn the_table_tells_what_was_called_and_filters_choose() {
    let world = World::new();
    let first = world.run(&["call", "echo", "message=first words", "--json"]).json();
    world.run(&["run", "rm -rf x"]);
    world.run(&["call", "nope"]);
    let table = world.run(&["log"]).quiet().1;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(rows[0].starts_with("TIME (UTC)"), "{table}");
    let call = first["call"].as_str().unwrap();
    for part in [call, " echo ", " ok ", " first words"] {
        assert!(rows[1].contains(part), "{part}: {table}");
    }
    assert!(rows[2].contains(" blocked ") && rows[2].contains("rm -rf x"), "{table}");

    let count = |args: &[&str]| world.run_with(&["log", "--json"], args).lines().len();
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--tool", "echo"]), 1);
    assert_eq!(count(&["--failed"]), 2);
    assert_eq!(count(&["--kind", "blocked"]), 1);
    assert_eq!(count(&["--call", call]), 1);
    assert_eq!(count(&["--since", "1h"]), 3);
    assert_eq!(count(&["--since", "2999-01-01"]), 0);
    assert_eq!(count(&["--limit", "2"]), 2);
    let newest: Vec<Value> = world.run(&["log", "--json", "--limit", "1"]).lines();
    assert_eq!(newest[0]["tool"], "nope", "the limit keeps the newest");
    assert_eq!(world.run(&["log", "--kind", "nonsense"]).code, Some(2));
    assert_eq!(world.run(&["log", "--since", "nonsense"]).code, Some(2));
}

#[test]
fn one_call_tells_its_whole_story() {
    let world = World::new();
    let result = world.run_with(&BARE, &["run", "--json", "echo out; exit 4"]).json();
    let call = result["call"].as_str().unwrap();
    let story = world.run(&["log", call]).quiet().1;
    let parts = [
        call,
        "echo out; exit 4",
        "allow by auto_approve",
        "tool_failed in ",
        "none (no layers)",
        "\nout\n\nExit code: 4\n",
    ];
    for part in parts {
        assert!(story.contains(part), "{part}: {story}");
    }
    let data = world.run(&["log", "--json", &call[..20]]).json();
    assert_eq!((&data["call"], &data["state"]), (&json!(call), &json!("done")));
    assert_eq!(data["planned"]["args"]["command"], "echo out; exit 4");
    assert_eq!(data["outcome"]["details"]["exit_code"], 4);
    assert_eq!(world.run(&["log", "c_NOSUCH"]).code, Some(1));
    world.run(&["call", "echo", "message=x"]);
    assert_eq!(world.run(&["log", "c_"]).code, Some(2), "ambiguous");
}

#[test]
fn log_says_that_a_journal_was_changed() {
    let world = World::new();
    world.run(&["call", "echo", "message=another session", "--session", "sound"]);
    let result = world.run(&["call", "echo", "message=was written", "--session", SESSION, "--json"]).json();
    let call = result["call"].as_str().unwrap().to_owned();
    let ways: [&[&str]; 4] = [&["log"], &["log", "--json"], &["log", &call], &["log", "--output", &call]];
    for way in ways {
        assert_eq!(world.run(way).quiet().0, Some(0), "{way:?}");
    }
    assert!(world.run(&["log", "--json"]).lines().iter().all(|row| row["verified"] == true));

    let journal = world.path("state/sessions").join(SESSION).join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replace("was written", "was changed")).unwrap();
    for way in ways {
        let ran = world.run(way);
        assert_eq!(ran.code, Some(1), "{way:?} {ran:?}");
        assert!(ran.stderr.contains(&format!("the journal of {SESSION} is not what was written")), "{ran:?}");
        assert!(ran.stderr.contains(&call) && !ran.stdout.is_empty(), "{ran:?}");
    }
    let rows = world.run(&["log", "--json"]).lines();
    let verified: Vec<(&str, &Value)> =
        rows.iter().map(|row| (row["session"].as_str().unwrap(), &row["verified"])).collect();
    assert_eq!(verified, [("sound", &json!(true)), (SESSION, &json!(false))]);
    assert_eq!(world.run(&["log", "--json", &call]).json()["verified"], false);
    assert_eq!(
        world.run(&["log", "--session", "sound"]).quiet().0,
        Some(0),
        "other sessions are not asked about"
    );
}

#[test]
fn the_whole_output_is_kept_and_printed_unchanged() {
    let world = World::new();
    let result = world.run_with(&BARE, &["run", "--json", "seq 1 20000"]).json();
    let call = result["call"].as_str().unwrap();
    assert!(result["truncated"]["blob"].as_str().unwrap().starts_with("b3:"), "{result}");
    let whole: String = (1..=20000).map(|n| format!("{n}\n")).collect();
    assert_eq!(world.run(&["log", "--output", call]).quiet(), (Some(0), whole));
    let short = world.run(&["call", "echo", "message=short", "--json"]).json();
    let output = world.run(&["log", "--output", short["call"].as_str().unwrap()]);
    assert_eq!(output.quiet(), (Some(0), "short".into()));

    let gc = world.run(&["gc", "--set", "limits.blob_store_bytes=0", "--json"]).json();
    assert_eq!(gc["blobs"], json!([]), "what is younger than a minute is kept");
    let blob = result["truncated"]["blob"].as_str().unwrap().split_at(3).1.to_owned();
    let (folder, file) = blob.split_at(2);
    std::fs::remove_file(world.path("state/blobs").join(folder).join(file)).unwrap();
    let gone = world.run(&["log", "--output", call]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(1), ""));
    assert!(gone.stderr.contains("not stored"), "{gone:?}");
}

#[test]
fn an_output_that_was_too_long_to_keep_says_so_once() {
    let world = World::new();
    let capped = [&BARE[..], &["--set", "limits.blob_bytes=20000", "run", "--json", "seq 1 20000"]].concat();
    let result = world.run(&capped).json();
    let dropped = result["truncated"]["blob_dropped"].as_u64().unwrap();
    let (code, output) = world.run(&["log", "--output", result["call"].as_str().unwrap()]).quiet();
    assert_eq!(code, Some(0));
    assert_eq!(output.matches(&dropped.to_string()).count(), 1, "{}", &output[19_900..]);
    assert!(output.lines().last().unwrap().contains(&dropped.to_string()), "{}", &output[19_900..]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = World::new();
    echoes(&world, 3000);
    let mut child = world
        .helve(&["log", "--limit", "3000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended: crate::world::Ended = child.wait_with_output().unwrap().into();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn following_prints_calls_as_they_end() {
    let world = World::new();
    world.run(&["call", "echo", "message=before"]);
    let mut child =
        world.helve(&["log", "--follow", "--json", "--tool", "echo"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["args"], r#"{"message":"before"}"#);
    world.run(&["call", "nope"]);
    world.run(&["call", "echo", "message=after"]);
    assert_eq!(next()["args"], r#"{"message":"after"}"#);
    world.run(&["call", "echo", "message=elsewhere", "--session", "other"]);
    assert_eq!(next()["args"], r#"{"message":"elsewhere"}"#);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What was found before says nothing about what came later.
#[test]
fn following_says_of_each_call_how_its_journal_stands_then() {
    let world = World::new();
    world.run(&["call", "echo", "message=before", "--session", SESSION]);
    let mut child = world
        .helve(&["log", "--follow", "--json", "--tool", "echo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["verified"], true);
    world.run(&["call", "echo", "message=sound", "--session", SESSION]);
    assert_eq!(next()["verified"], true);
    tamper(&world.session().join("journal.jsonl"), |lines| lines[0] = lines[0].replace("before", "behind"));
    for _ in 0..2 {
        world.run(&["call", "echo", "message=after", "--session", SESSION]);
        assert_eq!(next()["verified"], false);
    }
    world.run(&["call", "echo", "message=elsewhere", "--session", "other"]);
    assert_eq!(next()["verified"], true);
    child.kill().unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert_eq!(said.matches("is not what was written").count(), 1, "{said}");
}

#[test]
fn following_says_of_a_journal_that_was_cut_off_that_it_was() {
    let world = World::new();
    for text in ["message=one", "message=two"] {
        world.run(&["call", "echo", text, "--session", SESSION]);
    }
    let errors = world.path("errors");
    let mut child = world
        .helve(&["log", "--follow", "--json", "--limit", "1"])
        .stdout(Stdio::piped())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["args"], r#"{"message":"two"}"#);
    tamper(&world.session().join("journal.jsonl"), |lines| lines.truncate(2));
    wait_for_text(&errors, "is not what was written");
    // What stands in it was told, and what comes elsewhere is told as ever.
    world.run(&["call", "echo", "message=elsewhere", "--session", "other"]);
    let told = next();
    assert_eq!((&told["args"], &told["verified"]), (&json!(r#"{"message":"elsewhere"}"#), &json!(true)));
    std::fs::remove_dir_all(world.path("state/sessions/other")).unwrap();
    wait_for_text(&errors, "the whole journal is gone");
    child.kill().unwrap();
    child.wait().unwrap();
    let said = std::fs::read_to_string(&errors).unwrap();
    assert_eq!(said.matches("is not what was written").count(), 2, "{said}");
}

#[test]
fn following_a_session_that_is_gone_says_so() {
    let world = World::new();
    world.run(&["call", "echo", "message=x", "--session", SESSION]);
    std::fs::remove_dir_all(world.session()).unwrap();
    let errors = world.path("errors");
    let mut child = world
        .helve(&["log", "--follow", "--session", SESSION])
        .stdout(Stdio::null())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    wait_for_text(&errors, "the whole journal is gone");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn following_one_call_prints_no_other() {
    let world = World::new();
    let first = world.run(&["call", "--json", "echo", "message=one", "--session", SESSION]).json();
    let errors = world.path("errors");
    let mut child = world
        .helve(&["log", "--follow", "--json", "--call", first["call"].as_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(told["call"], first["call"]);
    world.run(&["call", "echo", "message=two", "--session", "other"]);
    // Once this is told, what came before it has been seen.
    tamper(&world.path("state/sessions").join(SESSION).join("journal.jsonl"), |lines| lines.truncate(1));
    wait_for_text(&errors, "is not what was written");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lines.map(Result::unwrap).collect::<Vec<_>>(), Vec::<String>::new());
}

/// The journal's lines as text, to be tampered with. It is never shorter than it becomes, whoever looks meanwhile.
fn tamper(journal: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let text = std::fs::read_to_string(journal).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    let text = lines.join("\n") + "\n";
    let mut journal = File::options().write(true).open(journal).unwrap();
    journal.write_all(text.as_bytes()).unwrap();
    journal.set_len(text.len() as u64).unwrap();
}

fn findings(world: &World) -> Vec<String> {
    let ended = world.run(&["verify", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = ended.json();
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    problems.iter().map(|problem| problem["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_sound_journal_is_sound_and_its_head_can_be_noted() {
    let world = World::new();
    assert_eq!(world.run(&["verify"]).code, Some(0), "no sessions yet");
    echoes(&world, 5);
    let report = world.run(&["verify", "--json"]).json();
    assert_eq!((&report["ok"], &report["entries"]), (&json!(true), &json!(10)));
    let head = report["head"].as_str().unwrap();
    let check = |head: &str| world.run(&["verify", "--json", "--head", head]);
    assert_eq!(check(head).json()["expected"], json!({"is": "equal"}));
    echoes(&world, 1);
    assert_eq!(check(head).json()["expected"], json!({"is": "grown_since", "seq": 10}));
    let foreign = check(&"0".repeat(64));
    assert_eq!((foreign.code, &foreign.json()["problems"][0]["kind"]), (Some(1), &json!("head_absent")));
    assert_eq!(check("nonsense").code, Some(2));
    assert_eq!(world.run(&["verify", "no-such-session"]).code, Some(2));
    let text = world.run(&["verify"]).quiet().1;
    assert!(text.contains(": sound, 12 entries, head "), "{text}");
}

#[test]
fn an_edited_line_is_named() {
    let world = World::new();
    echoes(&world, 5);
    tamper(&world.session().join("journal.jsonl"), |lines| {
        lines[3] = lines[3].replace("a message", "b message")
    });
    assert_eq!(findings(&world), ["changed"]);
    let text = world.run(&["verify"]);
    assert!(text.stdout.contains("NOT SOUND") && text.stdout.contains("line 4, entry 4"), "{text:?}");
}

#[test]
fn a_swapped_pair_is_seen() {
    let world = World::new();
    echoes(&world, 5);
    tamper(&world.session().join("journal.jsonl"), |lines| lines.swap(2, 5));
    let kinds = findings(&world);
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| kind == "reordered"), "{kinds:?}");
}

#[test]
fn a_removed_line_and_a_cut_tail_are_seen() {
    let world = World::new();
    echoes(&world, 5);
    let journal = world.session().join("journal.jsonl");
    let whole = std::fs::read(&journal).unwrap();
    tamper(&journal, |lines| drop(lines.remove(4)));
    assert_eq!(findings(&world), ["removed"]);
    std::fs::write(&journal, &whole).unwrap();
    tamper(&journal, |lines| lines.truncate(7));
    assert_eq!(findings(&world), ["cut_tail"]);
}

#[test]
fn a_restored_old_copy_is_seen_even_with_its_head() {
    let world = World::new();
    echoes(&world, 3);
    let session = world.session();
    let old = ["journal.jsonl", "head"].map(|name| (name, std::fs::read(session.join(name)).unwrap()));
    echoes(&world, 3);
    assert_eq!(world.run(&["verify"]).code, Some(0));
    for (name, bytes) in old {
        std::fs::write(session.join(name), bytes).unwrap();
    }
    assert_eq!(findings(&world), ["older_copy"]);
}

#[test]
fn sessions_are_named_by_date_by_option_and_by_policy() {
    let world = World::new();
    world.run(&["call", "echo", "message=x"]);
    let name = world.run(&["verify", "--json"]).json()["session"].as_str().unwrap().to_owned();
    let shape: String = name.chars().map(|ch| if ch.is_ascii_digit() { '0' } else { ch }).collect();
    assert_eq!(shape, "0000-00-00");
    world.configure("[journal]\nsession = \"by-policy\"\n");
    world.run(&["call", "echo", "message=x"]);
    world.run(&["call", "echo", "message=x", "--session", "by-option"]);
    let sessions = |args: &[&str]| -> Vec<String> {
        let reports = world.run_with(&["verify", "--json"], args).lines();
        reports.iter().map(|report| report["session"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(sessions(&["--all"]), [name.as_str(), "by-option", "by-policy"]);
    assert_eq!(sessions(&[]), ["by-policy"]);
    assert_eq!(sessions(&["by-option"]), ["by-option"]);
    assert_eq!(sessions(&["--session", "by-option"]), ["by-option"]);
}

#[test]
fn gc_says_what_it_would_do_and_removes_only_what_was_asked() {
    let world = World::new();
    world.run(&["call", "echo", "message=x", "--session", SESSION]);
    let dry = world.run(&["gc", "--dry-run", "--sessions-older-than", "0s"]);
    assert!(dry.stdout.contains("would remove session"), "{dry:?}");
    assert!(world.session().exists());
    assert_eq!(world.run(&["gc"]).code, Some(0));
    assert!(world.session().exists());
    let report = world.run(&["gc", "--sessions-older-than", "0s", "--json"]).json();
    assert_eq!(report["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(world.run(&["log", "--json"]).quiet(), (Some(0), String::new()));
    assert_eq!(world.run(&["gc", "--sessions-older-than", "soon"]).code, Some(2));
}

#[test]
fn a_session_that_was_removed_whole_is_missed() {
    let world = World::new();
    echoes(&world, 2);
    assert_eq!(world.run(&["verify", "--all"]).code, Some(0));
    std::fs::remove_dir_all(world.session()).unwrap();
    let after = world.run(&["verify", "--all"]);
    assert_eq!(after.code, Some(1), "{}", after.stdout);
}

#[test]
fn one_broken_session_hides_nothing_of_the_others() {
    let world = World::new();
    for session in ["a", "z"] {
        world.run(&["call", "echo", "message=x", "--session", session]);
    }
    let path = |name: &str| world.path("state/sessions").join(name);
    std::fs::create_dir(path("k")).unwrap();
    let empty = world.run(&["verify", "--all"]);
    assert_eq!(empty.code, Some(0), "nothing was ever in it: {empty:?}");
    assert!(empty.stderr.contains("k: there is no journal"), "{empty:?}");
    let log = world.run(&["log", "--session", "k"]);
    assert_eq!((log.code, log.stderr.as_str()), (Some(0), "note: no calls\n"));
    std::fs::create_dir_all(path("m/journal.jsonl")).unwrap();
    let journal = std::fs::read_to_string(path("z/journal.jsonl")).unwrap();
    std::fs::write(path("z/journal.jsonl"), journal.replacen("echo", "ohce", 1)).unwrap();

    let checked = world.run(&["verify", "--all", "--json"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let told: Vec<Value> = checked
        .lines()
        .iter()
        .map(|line| json!([line["session"], line["ok"], line["problems"][0]["kind"]]))
        .collect();
    assert_eq!(
        told,
        [json!(["a", true, null]), json!(["m", false, "unreadable"]), json!(["z", false, "changed"])]
    );
    let words = world.run(&["verify"]);
    assert_eq!(words.code, Some(1));
    assert!(words.stdout.contains("m: NOT CHECKED, ") && words.stdout.contains("z: NOT SOUND"), "{words:?}");
    assert_eq!(world.run(&["verify", ".."]).code, Some(2));

    let log = world.run(&["log", "--json"]);
    let verified: Vec<Value> = log.lines().into_iter().map(|row| row["verified"].clone()).collect();
    assert_eq!((log.code, verified), (Some(1), vec![json!(true), json!(false)]), "{log:?}");
    assert!(log.stderr.contains("note: a session is passed over: "), "{log:?}");
}

#[test]
fn what_fails_is_told_to_programs_on_standard_output() {
    let world = World::new();
    echoes(&world, 1);
    std::fs::write(world.workspace().join("more.toml"), "").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["verify", "absent"], 2, "not_found"),
        (&["verify", "--head", "nonsense"], 2, "invalid_params"),
        (&["log", "c_absent"], 1, "not_found"),
        (&["replay", "absent"], 2, "not_found"),
        (&["what-if", "absent", "--policy", "more.toml"], 2, "not_found"),
        (&["log", "--session", "absent"], 1, "not_found"),
        (&["replay", SESSION, "--seed", "7"], 2, "invalid_params"),
        (&["batch", "absent.jsonl"], 2, "invalid_params"),
        (&["batch", "--set", "nonsense=1"], 2, "invalid_params"),
        (&["demo", "--set", "nonsense=1"], 2, "invalid_params"),
    ];
    for (words, code, kind) in cases {
        let ended = world.run(&[*words, &["--json"]].concat());
        let told = ended.json();
        assert_eq!((&told["ok"], &told["error"]["kind"]), (&json!(false), &json!(kind)), "{words:?}");
        assert!(told["error"]["message"].is_string(), "{words:?}: {told}");
        assert_eq!(ended.quiet().0, Some(*code), "{words:?}");
        // People read it where they always did.
        let ended = world.run(words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(*code), ""), "{words:?}");
    }
    // An output is the call's own, byte for byte.
    let ended = world.run(&["log", "--output", "c_absent", "--json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("no call begins with"), "{ended:?}");
}
