//! Files through the binary: what one process saw the next one of the session knows, what a call changed can be shown and
//! undone, and what the owner closed stays closed.
//!
//! Long file: each test is a story of a few calls by itself, and they share one way of asking.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Answer, Place, Ran, SESSION};

/// Every file and directory below a directory, with mode and content.
fn tree(dir: &Path) -> BTreeMap<String, (u32, Option<Vec<u8>>)> {
    fn gather(top: &Path, dir: &Path, found: &mut BTreeMap<String, (u32, Option<Vec<u8>>)>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let mode = entry.metadata().unwrap().permissions().mode();
            let name = path.strip_prefix(top).unwrap().display().to_string();
            let content = if path.is_dir() { None } else { Some(fs::read(&path).unwrap()) };
            if path.is_dir() {
                gather(top, &path, found);
            }
            found.insert(name, (mode, content));
        }
    }
    let mut found = BTreeMap::new();
    gather(dir, dir, &mut found);
    found
}

fn write(place: &Place, path: &str, content: &str) -> Answer {
    place.call("write_file", &json!({"path": path, "content": content}))
}

fn helve(place: &Place, words: &[&str]) -> Ran {
    let words: Vec<&str> = words.iter().copied().chain(["--session", SESSION]).collect();
    place.run(&words)
}

fn undo(place: &Place, words: &[&str]) -> Ran {
    helve(place, &[&["undo"], words].concat())
}

fn id(answer: &Answer) -> String {
    answer.result["call"].as_str().unwrap().to_owned()
}

#[test]
fn what_a_call_changed_is_shown_and_put_back() {
    let place = Place::new();
    place.put("a.txt", "one\ntwo\n");
    fs::set_permissions(place.workspace().join("a.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    let before = tree(&place.workspace());
    place.call("edit_file", &json!({"path": "a.txt", "oldText": "two", "newText": "three"})).good();
    let middle = tree(&place.workspace());
    let made = write(&place, "new/deep/b.txt", "b\n");
    made.good();
    let after = tree(&place.workspace());

    let shown = helve(&place, &["diff"]).stdout;
    assert!(shown.contains("made new/deep/b.txt") && shown.contains("+b\n"), "{shown}");
    let first = helve(&place, &["diff", "--json"]);
    let first: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!(first["call"], json!(id(&made)));

    assert_eq!(undo(&place, &[]).code, 0);
    assert_eq!(tree(&place.workspace()), middle);
    // The next one goes further back.
    let ran = undo(&place, &[]);
    assert!(ran.stdout.contains("restored a.txt"), "{ran:?}");
    assert_eq!(tree(&place.workspace()), before);
    let nothing = undo(&place, &[]);
    assert_eq!(nothing.code, 1, "{nothing:?}");
    assert!(nothing.stderr.contains("no call has changed files"), "{nothing:?}");

    // An undo can be undone, and then the call is in force again.
    let list: Value = serde_json::from_str(&undo(&place, &["--list", "--json"]).stdout).unwrap();
    let undos: Vec<&str> =
        list.as_array().unwrap().iter().filter(|one| one["tool"] == "undo").map(call).collect();
    assert_eq!(undos.len(), 2);
    for call in undos {
        assert_eq!(undo(&place, &[call]).code, 0);
    }
    assert_eq!(tree(&place.workspace()), after);
    assert_eq!(undo(&place, &[]).code, 0);
    assert_eq!(tree(&place.workspace()), middle);
    assert_eq!(place.verify().code, 0);
}

fn call(entry: &Value) -> &str {
    entry["call"].as_str().unwrap()
}

#[test]
fn a_file_that_changed_since_is_not_put_back_unless_forced() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    let call = id(&write(&place, "a.txt", "two\n"));
    place.put("a.txt", "mine\n");
    let refused = undo(&place, &[&call]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stdout.contains("Changed since") && refused.stdout.contains("--force"), "{refused:?}");
    assert!(refused.stdout.contains("-two") && refused.stdout.contains("+mine"), "{refused:?}");
    assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "mine\n");
    let forced = undo(&place, &["--force", &call]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "one\n");
}

#[test]
fn a_directory_in_which_something_else_lies_stays() {
    let place = Place::new();
    write(&place, "made/a.txt", "a").good();
    place.put("made/mine.txt", "mine");
    let ran = undo(&place, &[]);
    assert!(ran.stdout.contains("removed made/a.txt") && ran.stdout.contains("left made"), "{ran:?}");
    assert!(place.has("made/mine.txt") && !place.has("made/a.txt"));
}

#[test]
fn the_journal_names_what_changed_and_the_undo() {
    let place = Place::new();
    let call = id(&write(&place, "a.txt", "two\n"));
    undo(&place, &[]);
    let outcomes: Vec<Value> =
        place.journal().into_iter().filter(|entry| !entry["body"]["changes"].is_null()).collect();
    let [made, back] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!(made["body"]["changes"][0]["path"], "a.txt");
    assert!(made["body"]["changes"][0]["after"].as_str().unwrap().starts_with("b3:"));
    assert_eq!(made["body"]["changes"][0]["before"], Value::Null);
    assert_eq!(back["body"]["tool"], "undo");
    assert_eq!(back["body"]["details"]["undoes"], json!(call));
    assert_eq!(back["body"]["changes"][0]["before"], made["body"]["changes"][0]["after"]);
}

#[test]
fn two_processes_of_one_session_know_what_was_seen() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    let read = place.call("read_file", &json!({"path": "a.txt"}));
    assert_eq!((read.good(), &read.result["details"]["path"]), ("one", &json!("a.txt")));
    place.put("a.txt", "somebody else's\n");
    let refused = write(&place, "a.txt", "two\n");
    assert_eq!(refused.kind(), Some("conflict"), "{:#}", refused.result);
    assert!(refused.text().contains("somebody else"), "{}", refused.text());
    assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "somebody else's\n");
    // Another session has not seen it.
    let other = place.run(&["call", "write_file", "path=a.txt", "content=x", "--session", "other"]);
    assert_eq!(other.code, 0, "{other:?}");
    // What the owner puts back the session has not seen either.
    place.call("read_file", &json!({"path": "a.txt"})).good();
    let place_undo = place.run(&["undo", "--session", "other"]);
    assert_eq!(place_undo.code, 0, "{place_undo:?}");
    assert_eq!(write(&place, "a.txt", "three\n").kind(), Some("conflict"));
}

#[test]
fn protected_paths_are_asked_about_and_nobody_is_there() {
    let place = Place::new();
    for path in [".vscode/tasks.json", "helve.toml", ".git/hooks/pre-commit"] {
        let answer = write(&place, path, "x");
        assert_eq!((answer.kind(), answer.code), (Some("approval_required"), 4), "{:#}", answer.result);
        assert_eq!(answer.result["decision"]["rule"], "view.protected");
        assert!(!place.has(path));
    }
    // What is closed to file tools is no question: whoever is there, the answer is no.
    let closed = write(&place, "sub/.envrc", "x");
    assert_eq!((closed.kind(), closed.code), (Some("blocked"), 3), "{:#}", closed.result);
    assert_eq!(closed.result["decision"]["rule"], "files.deny_read");
    assert!(!place.has("sub/.envrc"));
    let answer = place.call_with(
        "write_file",
        &json!({"path": ".vscode/tasks.json", "content": "x"}),
        &["view.protected=['.git']"],
    );
    answer.good();
}

#[test]
fn an_owner_who_agrees_lets_one_call_write_what_is_protected() {
    let place = Place::new();
    let hook = place.script("agree", "read question; echo '{\"answer\":\"once\"}'").join("agree");
    let setting = format!("approval.hook=['{}']", hook.display());
    let args = json!({"path": ".vscode/tasks.json", "content": "{}"});
    let answer = place.call_with("write_file", &args, &[&setting]);
    answer.good();
    assert!(place.has(".vscode/tasks.json"));
    assert_eq!(write(&place, ".vscode/tasks.json", "x").kind(), Some("approval_required"));
    // The owner's own undo asks nobody.
    assert_eq!(undo(&place, &[]).code, 0);
    assert!(!place.has(".vscode/tasks.json"));
}

#[test]
fn what_nobody_reads_no_tool_shows_or_replaces() {
    let place = Place::new();
    place.put(".env", "TOKEN=hunter-2\n");
    place.put("server.key", "hunter-2\n");
    place.put(".env.example", "TOKEN=\n");
    for (tool, args) in [
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": "./server.key"})),
        ("write_file", json!({"path": ".env", "content": "x"})),
        ("edit_file", json!({"path": ".env", "oldText": "TOKEN", "newText": "X"})),
        ("grep", json!({"pattern": "hunter", "path": ".env"})),
    ] {
        let answer = place.call(tool, &args);
        assert_eq!(answer.kind(), Some("blocked"), "{tool}: {:#}", answer.result);
        assert!(!answer.result.to_string().contains("hunter-2"), "{tool}");
    }
    for args in [json!({"ignored": true}), json!({"ignored": true, "depth": 3})] {
        let listed = place.call("list_dir", &args);
        assert!(listed.good().contains(".env.example"), "{}", listed.text());
        assert!(
            listed.text().lines().all(|name| name != ".env" && name != "server.key"),
            "{}",
            listed.text()
        );
    }
    let wrong = place.call("read_file", &json!({"path": "server.kex"}));
    assert!(!wrong.result.to_string().contains("server.key"), "{:#}", wrong.result);
    let found = place.call("grep", &json!({"pattern": "TOKEN|hunter", "hidden": true}));
    assert!(!found.result.to_string().contains("hunter-2"), "{:#}", found.result);
    assert!(found.text().contains(".env.example"), "{}", found.text());
    place.call("read_file", &json!({"path": ".env.example"})).good();
    let open = place.call_with("read_file", &json!({"path": ".env"}), &["files.deny_read=[]"]);
    assert!(open.good().contains("hunter-2"));
}

#[test]
fn what_may_not_be_deleted_is_not_deleted_by_a_patch() {
    let place = Place::new();
    let patch = |what: &str| json!({"input": format!("*** Begin Patch\n*** {what}\n*** End Patch\n")});
    let deletes = [
        "Delete File: a.txt",
        "Update File: a.txt\n*** Move to: b.txt",
        "Update File: a.txt\n@@\n-one\n+two\n*** Delete File: a.txt",
    ];
    let rule = |verdict: &str, more: &str| format!("rules=[{{verdict='{verdict}',effect='deletes'{more}}}]");
    for what in deletes {
        for (rule, kind) in [
            (rule("deny", ""), "blocked"),
            (rule("deny", ",path='a.txt'"), "blocked"),
            (rule("ask", ""), "approval_required"),
        ] {
            place.put("a.txt", "one\n");
            let refused = place.call_with("apply_patch", &patch(what), &[&rule]);
            assert_eq!(refused.result["error"]["kind"], kind, "{what}, {rule}: {:#}", refused.result);
            assert!(place.has("a.txt"), "{what}, {rule}");
        }
    }
    let changes = patch("Update File: a.txt\n@@\n-one\n+two");
    place.call_with("apply_patch", &changes, &[&rule("deny", "")]).good();
    place.call_with("apply_patch", &patch(deletes[0]), &[&rule("deny", ",path='b.txt'")]).good();
}

#[test]
fn the_profile_readonly_reads_and_changes_nothing() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    let only = ["profile=readonly"];
    place.call_with("read_file", &json!({"path": "a.txt"}), &only).good();
    for (tool, args) in [
        ("write_file", json!({"path": "a.txt", "content": "x"})),
        ("edit_file", json!({"path": "a.txt", "oldText": "one", "newText": "x"})),
    ] {
        let answer = place.call_with(tool, &args, &only);
        assert_eq!(answer.kind(), Some("blocked"), "{:#}", answer.result);
        assert_eq!(answer.result["decision"]["rule"], "profile.readonly.rules[0]");
    }
    let guarded = place.call_with("write_file", &json!({"path": "b", "content": "x"}), &["profile=guarded"]);
    assert_eq!(guarded.kind(), Some("approval_required"), "{:#}", guarded.result);
}

#[test]
fn another_directory_is_open_where_the_owner_says_so() {
    let place = Place::new();
    fs::write(place.outside().join("lib.txt"), "outside\n").unwrap();
    let path = place.outside().join("lib.txt").display().to_string();
    let args = json!({"path": path});
    assert_eq!(place.call("read_file", &args).kind(), Some("blocked"));
    let read_only = format!("files.read_only=['{}']", place.outside().display());
    assert!(place.call_with("read_file", &args, &[&read_only]).good().contains("outside"));
    let change = json!({"path": path, "content": "new\n"});
    assert_eq!(place.call_with("write_file", &change, &[&read_only]).kind(), Some("blocked"));
    let read_write = format!("files.read_write=['{}']", place.outside().display());
    place.call_with("write_file", &change, &[&read_write]).good();
    assert_eq!(undo(&place, &["--set", &read_write]).code, 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "outside\n");
}

#[test]
fn what_is_too_large_to_keep_is_told_and_not_put_back() {
    let place = Place::new();
    place.put("a.txt", &"x".repeat(5000));
    let answer =
        place.call_with("write_file", &json!({"path": "a.txt", "content": "y"}), &["limits.undo_bytes=1000"]);
    answer.good();
    assert!(answer.result["notes"].to_string().contains("cannot be put back"), "{:#}", answer.result);
    let ran = undo(&place, &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("is not kept: a.txt"), "{ran:?}");
}

/// Makes a call's record what a process leaves that is killed between noting what it replaces and being done.
fn cut(place: &Place, call: &str) {
    let undo = place.home().join("undo");
    fs::rename(undo.join(format!("done/{call}.json")), undo.join(format!("begun/{call}.json"))).unwrap();
}

#[test]
fn a_call_that_died_in_the_middle_is_told_once_and_can_be_undone() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    place.put("b.txt", "one\n");
    let edit = |path: &str| json!({"path": path, "action": "replace", "old_text": "one", "new_text": "two"});
    let args = json!({"edits": [edit("a.txt"), edit("b.txt")]});
    let call = id(&place.call("apply_patch", &args));
    cut(&place, &call);
    place.put("b.txt", "one\n");
    let next = place.call("read_file", &json!({"path": "a.txt"}));
    assert!(next.result["notes"].to_string().contains(&format!("helve undo {call}")), "{:#}", next.result);
    let again = place.call("read_file", &json!({"path": "a.txt"}));
    assert!(!again.result["notes"].to_string().contains("helve undo"), "{:#}", again.result);
    let list = undo(&place, &["--list"]).stdout;
    assert!(list.contains("cut"), "{list}");
    assert_eq!(undo(&place, &[&call]).code, 0);
    assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "one\n");
}

#[test]
fn what_became_of_a_call_that_died_is_seen_by_the_files() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    let call = id(&write(&place, "a.txt", "two\n"));
    cut(&place, &call);
    let listed = undo(&place, &["--list"]);
    assert!(listed.stderr.contains("all its changes are there"), "{listed:?}");
    assert!(listed.stdout.contains("done") && !listed.stdout.contains("cut"), "{listed:?}");
    cut(&place, &call);
    place.put("a.txt", "one\n");
    let nothing = undo(&place, &[]);
    assert!(nothing.stderr.contains(&format!("{call} died")), "{nothing:?}");
    assert!(nothing.stderr.contains("nothing of it is left"), "{nothing:?}");
    assert_eq!(nothing.code, 1, "there is nothing to undo: {nothing:?}");
}

#[test]
fn the_log_says_what_can_be_undone_and_undo_which_it_takes() {
    let place = Place::new();
    let first = id(&write(&place, "a.txt", "one\n"));
    let second = id(&write(&place, "b.txt", "two\n"));
    place.call("read_file", &json!({"path": "a.txt"})).good();
    let can_undo = |place: &Place| {
        let lines = support::json_lines(&place.run(&["log", "--json"]).stdout);
        let calls = lines.into_iter().filter(|row| row["can_undo"] == true);
        calls.map(|row| row["call"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(can_undo(&place), [first.clone(), second.clone()]);
    let table = place.run(&["log"]);
    let marks: Vec<bool> = table.stdout.lines().skip(1).map(|line| line.contains("  yes ")).collect();
    assert_eq!(marks, [true, true, false], "{table:?}");
    assert!(table.stderr.contains("helve undo CALL"), "{table:?}");
    let story = place.run(&["log", &first]).stdout;
    assert!(story.contains(&format!("helve undo {first}")), "{story}");
    let listed = undo(&place, &["--list"]);
    assert!(listed.stderr.contains(&format!("`helve undo` takes {second}")), "{listed:?}");
    let undone = undo(&place, &[]);
    assert!(undone.stderr.contains(&format!("the last call is {second}: write_file")), "{undone:?}");
    let back = can_undo(&place);
    assert!(back.contains(&first) && !back.contains(&second) && back.len() == 2, "{back:?}");
    let story = place.run(&["log", &second]).stdout;
    assert!(!story.contains("helve undo"), "{story}");
}

/// A patch over 100 files: most change, some are new, moved and gone.
fn patch_of_100(place: &Place) -> String {
    let mut patch = String::from("*** Begin Patch\n");
    for number in 0..100 {
        let path = format!("d{}/f{number}.txt", number % 7);
        if number % 10 == 3 {
            patch.push_str(&format!("*** Add File: new{}/{path}\n+made {number}\n", number % 3));
            continue;
        }
        fs::create_dir_all(place.workspace().join(format!("d{}", number % 7))).unwrap();
        let filler = "x".repeat(2_000);
        place.put(&path, &format!("head\nold {number}\n{filler}\n"));
        let mode = if number % 4 == 0 { 0o600 } else { 0o755 };
        fs::set_permissions(place.workspace().join(&path), fs::Permissions::from_mode(mode)).unwrap();
        let (deed, to) = match number % 10 {
            5 => ("Delete", String::new()),
            7 => ("Update", format!("*** Move to: moved/{path}\n")),
            _ => ("Update", String::new()),
        };
        patch.push_str(&format!("*** {deed} File: {path}\n{to}"));
        if deed == "Update" {
            patch.push_str(&format!("@@\n head\n-old {number}\n+new {number}\n"));
        }
    }
    patch.push_str("*** End Patch\n");
    patch
}

#[test]
fn a_patch_over_100_files_is_undone_to_the_byte_and_a_failing_one_changes_nothing() {
    let place = Place::new();
    let patch = patch_of_100(&place);
    let before = tree(&place.workspace());
    let failing = patch.replace("-old 99\n", "-wrong 99\n");
    let refused = place.call("apply_patch", &json!({"input": failing}));
    assert_eq!(refused.kind(), Some("tool_failed"), "{:#}", refused.result);
    assert_eq!(tree(&place.workspace()), before);
    place.call("apply_patch", &json!({"input": patch})).good();
    let after = tree(&place.workspace());
    assert!(after != before && after.contains_key("moved/d0/f7.txt"), "{:?}", after.keys());
    let undone = undo(&place, &[]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(tree(&place.workspace()), before);
}

#[test]
fn a_patch_over_100_files_whose_process_is_killed_has_happened_or_has_not() {
    let rounds = if std::env::var("HELVE_TEST_SOAK").is_ok_and(|soak| soak == "1") { 200 } else { 20 };
    let place = Place::new();
    let patch = patch_of_100(&place);
    let before = tree(&place.workspace());
    let patch_file = place.root().join("patch.json");
    fs::write(&patch_file, json!({"input": patch}).to_string()).unwrap();
    let call = || {
        let args = format!("@{}", patch_file.display());
        let mut command = place.helve();
        command.args(["call", "apply_patch", &args, "--json", "--session", SESSION]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let start = std::time::Instant::now();
    assert!(call().wait().unwrap().success());
    let whole = start.elapsed();
    let after = tree(&place.workspace());
    assert_eq!(undo(&place, &[]).code, 0);
    assert_eq!(tree(&place.workspace()), before);
    let (mut mixed, mut old, mut new) = (0, 0, 0);
    for round in 0..rounds {
        let mut child = call();
        // From before the first to after the last change, evenly.
        std::thread::sleep(whole.mul_f64(1.5 * f64::from(round) / f64::from(rounds)));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = tree(&place.workspace());
        mixed += u32::from(found != before && found != after);
        let next = place.call("list_dir", &json!({"ignored": true}));
        next.good();
        let found = tree(&place.workspace());
        if found == before {
            old += 1;
            assert!(!next.result["notes"].to_string().contains("helve undo"), "{:#}", next.result);
            continue;
        }
        assert!(found == after, "round {round}: neither before nor after");
        new += 1;
        assert_eq!(undo(&place, &[]).code, 0, "round {round}");
        assert_eq!(tree(&place.workspace()), before, "round {round}");
    }
    println!("{mixed} of {rounds} kills left a mixture until the next start; then {old} old, {new} new");
    assert_eq!(place.verify().code, 0);
}

#[test]
fn every_tool_counts_lines_alike_and_a_lone_carriage_return_is_text() {
    let place = Place::new();
    place.put("log", "progress 1\rprogress 2\r\nsecond \"needle\"\rmore\nthird\n");
    let found = place.call("grep", &json!({"pattern": "needle"}));
    assert!(found.good().contains("2:") && found.text().contains("needle"), "{}", found.text());
    let page = place.call("read_file", &json!({"path": "log", "offset": 2, "limit": 1}));
    assert!(page.good().starts_with("second"), "{}", page.text());
    assert_eq!(page.result["details"]["totalLines"], 3, "{:#}", page.result);
    let edit = json!({"path": "log", "oldText": "second “needle”", "newText": "found"});
    let edited = place.call("edit_file", &edit);
    assert!(edited.good().contains("at line 2"), "{}", edited.text());
    assert_eq!(edited.result["details"]["firstChangedLine"], 2);
}

#[test]
fn nanobots_models_patch_texts_in_several_files() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    let edits = r#"{"edits":[{"path":"a.txt","action":"replace","old_text":"one","new_text":"two"},{"path":"new/b.txt","action":"add","new_text":"made"}]}"#;
    let call = |args: &str| place.run(&["call", "--dialect", "nanobot", "apply_patch", args]);
    let ran = call(edits);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(place.workspace().join("a.txt")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(place.workspace().join("new/b.txt")).unwrap(), "made\n");
    let before = tree(&place.workspace());
    let again = call(edits);
    assert_eq!(again.code, 1, "one text is not there, so nothing is added either: {again:?}");
    assert_eq!(tree(&place.workspace()), before);
    let shown = place.run(&["tools", "--dialect", "nanobot", "--json"]).stdout;
    assert!(shown.contains("\"apply_patch\"") && shown.contains("\"old_text\""), "{shown}");
}

#[test]
fn nothing_is_undone_in_another_workspace() {
    let place = Place::new();
    let call = id(&write(&place, "a.txt", "x"));
    fs::create_dir(place.root().join("ws2")).unwrap();
    let other = place.root().join("ws2").display().to_string();
    let ran = place.run(&["undo", &call, "--workspace", &other]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("--workspace"), "{ran:?}");
    assert_eq!(place.run(&["undo", "c_nothing"]).code, 1);
}

#[test]
fn gc_brings_undo_records_under_their_budget() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    write(&place, "a.txt", "two\n").good();
    let ran = place.run(&["gc", "--set", "limits.undo_store_bytes=0"]);
    assert!(ran.stdout.contains("removed the undo record of c_"), "{ran:?}");
    assert_eq!(undo(&place, &[]).code, 1);
}

#[test]
fn file_tools_inside_the_sandbox_do_the_same() {
    if !support::sandbox_works() {
        return;
    }
    let place = Place::new();
    place.put("a.txt", "one\n");
    place.put(".env", "hunter-2");
    let inside = ["files.bridge=sandbox"];
    assert!(place.call_with("read_file", &json!({"path": "a.txt"}), &inside).good().contains("one"));
    let answer = place.call_with("write_file", &json!({"path": "new/b.txt", "content": "b\n"}), &inside);
    assert!(answer.good().contains("sandbox:new/b.txt"), "{:#}", answer.result);
    assert_eq!(answer.result["details"]["sandbox"], true);
    let denied = place.call_with("read_file", &json!({"path": ".env"}), &inside);
    assert_eq!(denied.kind(), Some("blocked"), "{:#}", denied.result);
    let listed = place.call_with("list_dir", &json!({}), &inside);
    assert_eq!(listed.good(), "a.txt\nnew/");
    place.put("a.txt", "somebody else's\n");
    let refused = place.call_with("write_file", &json!({"path": "a.txt", "content": "x"}), &inside);
    assert_eq!(refused.kind(), Some("conflict"), "{:#}", refused.result);
    let ran = undo(&place, &["--set", inside[0]]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!place.has("new"));
}
