//! What the sandbox refuses, through the binary: each result names what, the rule and the smallest grant, and the grant does
//! what it says and nothing else.
//!
//! | file | rows |
//! |---|---|
//! | `denied/acts.jsonl` | acts that are refused; `grant` is what is printed (`*`: some lines), absent where nothing allows it |
//! | `denied/innocent.jsonl` | commands that speak of refusals and had none |
//! | `denied/swallowed.jsonl` | commands that end well in spite of one |
//! | `denied/act.py` | the acts that no program of the shell does |
//! | `denied/scene.rs` | the workspace, and what lies around it |
//!
//! Rows with `rare` are run without being watched closely, the others under `tools.exec.explain = "full"`: an interpreter reads
//! files of the system that really are not shown to it. The network is that of
//! this machine alone: its own address, at which the test listens.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

#[path = "denied/scene.rs"]
mod scene;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use pretty_assertions::assert_eq;
use scene::{Row, Scene, rows};
use serde_json::{Value, json};
use support::{Answer, Place, SESSION, is_installed, sandbox_works};

fn denied(answer: &Answer) -> &[Value] {
    answer.result["details"]["denied"].as_array().map_or(&[], Vec::as_slice)
}

fn is_like(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |start| text.starts_with(start))
}

/// The refusal that a row is about.
fn found<'a>(row: &Row, answer: &'a Answer) -> Option<&'a Value> {
    denied(answer).iter().find(|one| {
        one["act"] == row.act.as_str() && is_like(&row.subject, one["subject"].as_str().unwrap_or_default())
    })
}

/// Whether this machine lets anybody do an act at all.
fn works_outside(scene: &Scene, command: &str) -> bool {
    let mut outside = Command::new("sh");
    outside.args(["-c", command]).current_dir(scene.place.workspace());
    outside.output().is_ok_and(|output| output.status.success())
}

fn keys(lines: &[String]) -> BTreeSet<String> {
    lines.iter().filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned())).collect()
}

/// Whether the sandbox is the one that sees what it refuses.
fn sees() -> bool {
    if !sandbox_works() || !is_installed("python3") {
        return false;
    }
    let scene = Scene::new();
    let answer = scene.place.exec("true");
    let native = answer.result["sandbox"]["backend"] == "native";
    if !native {
        println!("skipped: only the sandbox native sees what it refuses: {:?}", answer.result["sandbox"]);
        assert!(std::env::var_os("HELVE_TEST_REQUIRE_SANDBOX").is_none());
    }
    native
}

#[test]
fn every_refused_act_names_what_the_rule_and_the_smallest_grant() {
    if !sees() {
        return;
    }
    let scene = Scene::new();
    let rows = rows(scene::ACTS, &scene);
    assert!(rows.len() >= 30);
    let (mut wrong, mut applied) = (Vec::new(), 0);
    for (at, row) in rows.iter().enumerate() {
        let mut answer = scene.run(row, &[]);
        for _ in 0..if row.shared { 5 } else { 0 } {
            if answer.result["ok"] == true {
                answer = scene.run(row, &[]);
            }
        }
        if answer.result["ok"] == true {
            wrong.push(format!("{}: it was not refused: {}", row.name, answer.result));
            continue;
        }
        let Some(said) = found(row, &answer) else {
            wrong.push(format!("{}: not reported: {}", row.name, answer.result));
            continue;
        };
        let (rule, grant) = (said["rule"].as_str().unwrap_or_default(), said["grant"].as_str());
        if !is_like(&row.rule, rule) {
            wrong.push(format!("{}: by the rule {rule:?}", row.name));
        }
        let in_text = answer.text().contains(said["subject"].as_str().unwrap()) || row.act == "limit";
        if !in_text {
            wrong.push(format!("{}: the text does not say it: {}", row.name, answer.text()));
        }
        match (&row.grant, grant) {
            (None, None) if said["note"].is_string() => continue,
            (Some(wanted), Some(grant)) if wanted == "*" || wanted == grant => {}
            (wanted, grant) => {
                wrong.push(format!("{}: granted by {grant:?}, not {wanted:?}", row.name));
                continue;
            }
        }
        let grant: Vec<String> = grant.unwrap().lines().map(str::to_owned).collect();
        let is_own = row.command.starts_with("python3 act.py") && row.act == "system_call";
        if is_own && !works_outside(&scene, &row.command) || row.act == "connect" && scene.address.is_none() {
            println!("skipped: nobody can do that here, granted or not: {}", row.name);
            continue;
        }
        let mut answer = scene.run(row, &grant);
        for _ in 0..if row.shared { 5 } else { 0 } {
            if answer.result["ok"] != true {
                answer = scene.run(row, &grant);
            }
        }
        if answer.result["ok"] != true {
            wrong.push(format!("{}: {grant:?} does not allow it: {}", row.name, answer.result));
        }
        applied += 1;
        // What is next to it in the table, as far as the grant is not about the same thing.
        let neighbours = rows.iter().cycle().skip(at + 1).take(rows.len() - 1);
        let neighbours = neighbours.filter(|other| {
            let beneath = |line: &String| {
                line.split('"').any(|part| part.starts_with('/') && other.subject.starts_with(part))
            };
            keys(&grant).is_disjoint(&keys(&other.settings))
                && other.grant != row.grant
                && !other.shared
                && !grant.iter().any(beneath)
        });
        for other in neighbours.take(3) {
            let answer = scene.run(other, &grant);
            if answer.result["ok"] == true {
                wrong.push(format!("{}: {grant:?} also allows: {}", row.name, other.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    println!("{} acts, {applied} granted", rows.len());
}

#[test]
fn what_a_command_says_of_refusals_is_no_refusal() {
    if !sees() {
        return;
    }
    let scene = Scene::new();
    for row in rows(include_str!("denied/innocent.jsonl"), &scene) {
        let answer = scene.run(&row, &[]);
        assert_eq!(answer.result["ok"], json!(false), "{}: {}", row.command, answer.result);
        assert_eq!(denied(&answer), [] as [Value; 0], "{}: {}", row.command, answer.text());
    }
}

#[test]
fn what_a_command_swallows_is_told() {
    if !sees() {
        return;
    }
    let scene = Scene::new();
    for row in rows(include_str!("denied/swallowed.jsonl"), &scene) {
        let answer = scene.run(&row, &[]);
        assert_eq!(answer.result["ok"], json!(true), "{}: {}", row.command, answer.result);
        assert!(found(&row, &answer).is_some(), "{}: {}", row.command, answer.result);
    }
}

#[test]
fn names_that_a_command_chose_are_made_harmless_and_bounded() {
    if !sees() {
        return;
    }
    let scene = Scene::new();
    let name = format!("{}/\u{1b}[31m{}", scene.place.outside().display(), "n".repeat(200));
    fs::write(&name, "x").unwrap();
    scene.place.put("name", &name);
    let row = Row {
        command: "cat \"$(cat name)\"; for i in $(seq 100); do cat \"$(cat name)$i\"; done".to_owned(),
        ..rows("{\"command\": \"\"}", &scene).remove(0)
    };
    for number in 1..=100 {
        fs::write(format!("{name}{number}"), "x").unwrap();
    }
    let answer = scene.run(&row, &[]);
    let refused = denied(&answer).iter().filter(|one| one["act"] == "read");
    assert!(refused.clone().count() <= 20 && refused.clone().count() > 5, "{}", answer.result);
    for one in refused {
        let subject = one["subject"].as_str().unwrap();
        assert!(!subject.contains('\u{1b}'), "{subject:?}");
    }
    assert!(answer.result["details"]["denied_more"].as_u64() > Some(0), "{}", answer.result["details"]);
    assert_eq!(answer.text().matches("Refused by the sandbox: read").count(), 5, "{}", answer.text());
    assert!(!answer.text().contains('\u{1b}'));
}

#[test]
fn the_journal_tells_what_was_refused_and_a_rerun_tells_all_and_changes_nothing() {
    if !sees() {
        return;
    }
    let scene = Scene::new();
    let place = &scene.place;
    let address = scene.fill("{address} {port}");
    let command = format!(
        "echo one >> words.txt; cat {}/secret.txt; python3 act.py connect {address}",
        place.outside().display()
    );
    let answer = place.exec(&command);
    let call = answer.result["call"].as_str().unwrap();
    let seen: Vec<&str> = denied(&answer).iter().filter_map(|one| one["act"].as_str()).collect();
    assert_eq!(seen, ["connect"], "files are not watched without being asked for: {}", answer.result);

    let told = place.run(&["why", call, "--json"]);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["denied"], answer.result["details"]["denied"]);
    let why = place.run(&["why", call]).stdout;
    let connect =
        scene.fill("refused: connect to {address} port {port}\n  rule   tools.exec.network = false");
    assert!(why.contains(&connect) && why.contains("  grant  tools.exec.network = true\n"), "{why}");
    let log = place.run(&["log", call]).stdout;
    assert!(
        log.contains(&scene.fill("connect to {address} port {port} (tools.exec.network = false)")),
        "{log}"
    );

    let before = fs::read_to_string(place.workspace().join("words.txt")).unwrap();
    let rerun = place.run(&["why", call, "--rerun", "--json", "--session", SESSION]);
    let rerun: Value = serde_json::from_str(&rerun.stdout).unwrap_or_else(|_| panic!("{rerun:?}"));
    let acts: Vec<&str> =
        rerun["denied"].as_array().unwrap().iter().filter_map(|one| one["act"].as_str()).collect();
    assert!(acts.contains(&"read") && acts.contains(&"connect"), "{rerun}");
    let secret = scene.fill("view.read_only = [\"{out}/secret.txt\"]");
    assert!(rerun["denied"].as_array().unwrap().iter().any(|one| one["grant"] == secret.as_str()), "{rerun}");
    assert_eq!(fs::read_to_string(place.workspace().join("words.txt")).unwrap(), before);
    assert_eq!(place.run(&["commit", "--list", "--json"]).stdout.trim(), "[]", "nothing waits");

    // Where the owner opened the network since, the rerun still has none, and does not speak of it.
    let open = place.run(&["why", call, "--rerun", "--json", "--set", "tools.exec.network=true"]);
    let open: Value = serde_json::from_str(&open.stdout).unwrap_or_else(|_| panic!("{open:?}"));
    assert!(!open["denied"].as_array().unwrap().iter().any(|one| one["act"] == "connect"), "{open}");
    assert_eq!(open["not_repeated"], json!([scene.fill("connect to {address} port {port}")]), "{open}");

    let told = place.run(&["why", call, "--rerun"]).stdout;
    assert!(told.contains(&scene.fill("refused: read {out}/secret.txt\n")), "{told}");
}

#[test]
fn a_rerun_runs_nothing_that_the_guard_refused_or_that_was_no_command() {
    let place = Place::new();
    let refused = place.exec("rm -rf /");
    let call = refused.result["call"].as_str().unwrap();
    let ran = place.run(&["why", call, "--rerun"]);
    assert!(ran.code == 2 && ran.stderr.contains("refused before anything ran"), "{ran:?}");
    let echoed = place.call("echo", &json!({"message": "x"}));
    let ran = place.run(&["why", echoed.result["call"].as_str().unwrap(), "--rerun"]);
    assert!(ran.code == 2 && ran.stderr.contains("ran no command"), "{ran:?}");
}

#[test]
fn the_owners_own_command_is_told_the_options_that_allow_it() {
    if !sees() {
        return;
    }
    let scene = Scene::new();
    let secret = scene.fill("{out}/secret.txt");
    let report = |options: &[&str]| -> Value {
        let words = [&["sandbox", "--json"], options, &["--", "cat", &secret]].concat();
        let ran = scene.place.run(&words);
        serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    let told = report(&["--set", "tools.exec.explain=full"]);
    let said = told["denied"].as_array().unwrap().iter().find(|one| one["act"] == "read");
    let said = said.unwrap_or_else(|| panic!("{told}"));
    assert_eq!(
        (said["subject"].as_str(), said["grant"].as_str()),
        (Some(&*secret), Some(&*format!("--ro {secret}")))
    );
    let granted = report(&["--ro", &secret]);
    assert_eq!((&granted["exit_code"], &granted["denied"]), (&json!(0), &json!([])));
}
