//! What can be done with a recorded session: the demo, replay, what-if, export, and a record in a model's place.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up must fail loudly")]

mod support;

use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Place, Ran, json_lines, sandbox_works};

/// Runs bare and unasked, so that a test does not depend on a sandbox.
const BARE: [&str; 4] = ["--set", "sandbox=none", "--set", "auto_approve=true"];
const DEMO: &str = "shown";

/// A place whose temporary files are its own.
fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.root().join("tmp")).unwrap();
    place
}

fn run(place: &Place, args: &[&str]) -> Ran {
    let mut command = place.helve();
    let output = command.env("TMPDIR", place.root().join("tmp")).args(args).args(BARE).output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn demo(place: &Place) {
    let ran = run(place, &["demo", "--session", DEMO]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn journal_path(place: &Place, session: &str) -> PathBuf {
    place.home().join("sessions").join(session).join("journal.jsonl")
}

fn journal(place: &Place, session: &str) -> Vec<Value> {
    json_lines(&std::fs::read_to_string(journal_path(place, session)).unwrap())
}

/// Helve's name of the call that the model calls so.
fn call_of(place: &Place, id: &str) -> String {
    let entries = journal(place, DEMO);
    let entry = entries.iter().find(|entry| entry["body"]["id"] == id).unwrap();
    entry["call"].as_str().unwrap().to_owned()
}

fn left_behind(place: &Place) -> usize {
    std::fs::read_dir(place.root().join("tmp")).unwrap().count()
}

#[test]
fn the_demo_mends_a_project_and_leaves_nothing_but_its_session() {
    let place = place();
    let ran = run(&place, &["demo", "--session", DEMO, "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let events = json_lines(&ran.stdout);
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["as_recorded"]), (&json!("demo"), &json!(true)));
    let result = |id: &str| {
        let found = events.iter().find(|event| event["event"] == "result" && event["id"] == id);
        found.unwrap()["result"].clone()
    };
    let (before, after) = (result("tests-before"), result("tests-after"));
    assert_eq!((&before["ok"], &before["details"]["exit_code"]), (&json!(false), &json!(1)), "red");
    assert_eq!((&after["ok"], &after["details"]["exit_code"]), (&json!(true), &json!(0)), "green");
    assert_eq!(left_behind(&place), 0);
    let record = include_str!("../src/commands/demo/record.jsonl");
    for output in ["FAILED", "45.00", "\"content\"", "10.60"] {
        assert!(!record.contains(output), "the record holds no output of a tool: {output}");
    }
    let verified = run(&place, &["verify", DEMO]);
    assert_eq!(verified.code, 0, "{verified:?}");

    let text = run(&place, &["demo", "--session", "for-people"]);
    assert!(text.stdout.starts_with("Done."), "{text:?}");
    for part in ["Task: ", "> exec sh tests/run.sh", "+    if [ \"$1\" -ge 5000 ]", "helve replay for-people"]
    {
        assert!(text.stderr.contains(part), "{part}: {text:?}");
    }
}

#[test]
fn the_demo_runs_in_the_sandbox() {
    if !sandbox_works() {
        return;
    }
    let place = place();
    let mut command = place.helve();
    let args = ["demo", "--session", DEMO, "--json"];
    let output = command.env("TMPDIR", place.root().join("tmp")).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let entries = journal(&place, DEMO);
    let commands: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["type"] == "outcome" && entry["body"]["tool"] == "exec")
        .map(|entry| &entry["body"]["sandbox"])
        .collect();
    assert_eq!(commands.len(), 3);
    for sandbox in commands {
        assert!(!sandbox["layers"].as_array().unwrap().is_empty(), "{sandbox}");
    }
}

#[test]
fn the_demo_fails_where_a_call_does_not_end_as_it_should() {
    let place = place();
    let ran = run(&place, &["demo", "--set", "tools.exec.enabled=false", "--session", DEMO]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("the call tests-before should have ended otherwise: blocked"), "{ran:?}");
    assert_eq!(left_behind(&place), 0);
    let kept = run(&place, &["demo", "--keep", "--session", "kept"]);
    assert_eq!((kept.code, left_behind(&place)), (0, 1), "{kept:?}");
}

#[test]
fn replay_finds_no_difference_and_names_the_call_that_a_seed_changes() {
    let place = place();
    demo(&place);
    let same = run(&place, &["replay", DEMO]);
    assert_eq!(same.code, 0, "{same:?}");
    assert!(same.stdout.ends_with("8 the same, 0 differ, 0 not made again\n"), "{same:?}");
    assert_eq!(left_behind(&place), 0);
    let other = run(&place, &["replay", DEMO, "--seed", "7", "--json"]);
    assert_eq!(other.code, 1, "{other:?}");
    let lines = json_lines(&other.stdout);
    let differ: Vec<&str> = lines
        .iter()
        .filter(|line| line["same"] == false)
        .map(|line| line["call"].as_str().unwrap())
        .collect();
    assert_eq!(differ, [call_of(&place, "receipt")]);
    let diff = lines.iter().find_map(|line| line["difference"]["diff"].as_str()).unwrap();
    assert!(diff.contains("-sum          50.00\n") && diff.contains("+sum          52.60\n"), "{diff}");
}

/// A line with the hash that its content asks for, as somebody who knows the format would write it.
fn with_fitting_hash(line: &str) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    value.as_object_mut().unwrap().remove("hash");
    let hash = blake3::hash(&helve::store::canonical_json(&value).unwrap()).to_hex().to_string();
    value["hash"] = json!(hash);
    String::from_utf8(helve::store::canonical_json(&value).unwrap()).unwrap()
}

#[test]
fn a_result_that_was_changed_by_hand_is_named_by_verify_and_replay() {
    // In place, so that only the hash tells; written anew by a program that has its own idea of spaces; and with a hash that
    // fits, so that only the entry after it tells.
    let ways: [fn(&str) -> String; 3] =
        [str::to_owned, |line| line.replace("\":", "\": "), with_fitting_hash];
    for way in ways {
        let place = place();
        demo(&place);
        let path = journal_path(&place, DEMO);
        let call = call_of(&place, "tests-after");
        let text = std::fs::read_to_string(&path).unwrap();
        let changed: Vec<String> = text
            .lines()
            .map(|line| match line.contains(&call) && line.contains("\"type\":\"outcome\"") {
                true => way(&line.replace("0 failed", "9 failed")),
                false => line.to_owned(),
            })
            .collect();
        assert_ne!(changed.join("\n"), text.trim_end());
        std::fs::write(&path, changed.join("\n") + "\n").unwrap();
        let verified = run(&place, &["verify", DEMO]);
        assert_eq!(verified.code, 1, "{verified:?}");
        assert!(verified.stdout.contains(&format!("it is of call {call}")), "{verified:?}");
        let replayed = run(&place, &["replay", DEMO]);
        assert_eq!(replayed.code, 1, "{replayed:?}");
        assert!(replayed.stdout.is_empty() && replayed.stderr.contains(&call), "{replayed:?}");
        let frozen = run(&place, &["replay", DEMO, "--frozen"]);
        assert!(frozen.code == 1 && frozen.stderr.contains(&call), "{frozen:?}");
    }
}

#[test]
fn a_frozen_session_is_told_byte_by_byte_the_same_and_needs_no_tools() {
    let place = place();
    demo(&place);
    let no_tools = ["tools.exec.enabled=false", "tools.read_file.enabled=false"];
    for json in [&[][..], &["--json"]] {
        let tell = |more: &[&str]| run(&place, &[&["replay", DEMO, "--frozen"], json, more].concat());
        let first = tell(&[]);
        assert_eq!((first.code, first.stderr.as_str()), (0, ""), "{first:?}");
        let again = tell(&["--set", no_tools[0], "--set", no_tools[1]]);
        assert_eq!(first.stdout, again.stdout);
        for part in ["A test of this project fails", "FAILED  the discount begins at 50.00", "Done. The test"]
        {
            assert!(first.stdout.contains(part), "{part}: {}", first.stdout);
        }
    }
}

/// What somebody wrote into a journal is told, and not carried out.
#[test]
fn nothing_is_called_from_a_journal_that_is_not_sound() {
    let place = place();
    assert_eq!(run(&place, &["run", "--session", "mine", "echo one"]).code, 0);
    let copy = place.root().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let path = journal_path(&place, "mine");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("echo one", "echo one > OWNED")).unwrap();
    let again = run(&place, &["replay", "mine", "--in", copy.to_str().unwrap(), "--json"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stderr.contains("the journal is not sound"), "{again:?}");
    let told: Value = serde_json::from_str(&again.stdout).unwrap();
    assert!(told["same"] == 0 && !told["problems"].as_array().unwrap().is_empty(), "{told}");
    assert_eq!(std::fs::read_dir(&copy).unwrap().count(), 0);
    assert_eq!(run(&place, &["replay", "mine", "--frozen"]).code, 1);
}

/// A call whose arguments could not be read stands in the journal as it came, and is not made from what is left of them.
#[test]
fn a_call_that_was_refused_unread_is_not_made_again() {
    let place = place();
    let twice = r#"{"command":"echo one","command":"touch RAN"}"#;
    let refused = run(&place, &["call", "--session", "mine", "exec", twice]);
    assert!(refused.code != 0, "{refused:?}");
    let planned = journal(&place, "mine").into_iter().find(|entry| entry["type"] == "planned").unwrap();
    assert_eq!(planned["body"]["args"], json!(twice));
    let copy = place.root().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let again = run(&place, &["replay", "mine", "--in", copy.to_str().unwrap()]);
    assert!(again.code == 0 && again.stdout.contains("0 differ, 1 not made again"), "{again:?}");
    assert!(!copy.join("RAN").exists() && !place.has("RAN"));
}

/// A call that names another one of the session names the one that was made in its place.
#[test]
fn replay_knows_the_calls_by_their_new_names() {
    let place = place();
    assert_eq!(run(&place, &["run", "--session", "mine", "seq 1 20000"]).code, 0);
    let entry = journal(&place, "mine").into_iter().find(|entry| entry["type"] == "outcome").unwrap();
    let args = json!({"call": entry["call"], "offset": 100}).to_string();
    let read = run(&place, &["call", "--session", "mine", "read_output", &args]);
    assert_eq!(read.code, 0, "{read:?}");
    let again = run(&place, &["replay", "mine", "--yes"]);
    assert!(again.code == 0 && again.stdout.contains("2 the same, 0 differ"), "{again:?}");
}

#[test]
fn a_session_without_calls_is_told_as_such_to_programs_too() {
    let place = place();
    let record = place.root().join("record.jsonl");
    let answer = json!({"agent": "answered", "answer": {"text": "Done."}});
    std::fs::write(&record, format!("{answer}\n")).unwrap();
    let model = format!("replay:{}", record.display());
    assert_eq!(run(&place, &["agent", "--session", "mine", "--model", &model, "x"]).code, 0);
    let ran = run(&place, &["replay", "mine", "--json"]);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &told["same"], &told["differ"]), (0, &json!(0), &json!(0)), "{ran:?}");
}

#[test]
fn replay_asks_before_it_works_in_a_workspace() {
    let place = place();
    place.put("count.sh", "n=$(cat n 2>/dev/null); n=$((n + 1)); echo $n > n; echo $n\n");
    let call = |command: &str| run(&place, &["run", "--session", "mine", command]).code;
    assert_eq!((call("sh count.sh"), call("date +%H:%M:%S"), call("exit 3")), (0, 0, 1));
    let refused = run(&place, &["replay", "mine"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert_eq!(std::fs::read_to_string(place.workspace().join("n")).unwrap(), "1\n");
    let again = run(&place, &["replay", "mine", "--yes"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(
        again.stdout.contains("-1\n       +2\n") && again.stdout.contains("2 the same, 1 differ"),
        "{again:?}"
    );
    let copy = place.root().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(place.workspace().join("count.sh"), copy.join("count.sh")).unwrap();
    let inside = run(&place, &["replay", "mine", "--in", copy.to_str().unwrap()]);
    assert_eq!(inside.code, 0, "{inside:?}");
    assert_eq!(run(&place, &["replay", "nobody"]).code, 2);
    assert_eq!(run(&place, &["replay", "mine", "--seed", "1"]).code, 2);
}

#[test]
fn what_if_lists_exactly_the_calls_that_would_change() {
    let place = place();
    demo(&place);
    let policy = |name: &str, text: &str| {
        let file = place.root().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let same = policy("same.toml", "");
    let nothing = run(&place, &["what-if", DEMO, "--policy", &same, "--json"]);
    let report: Value = serde_json::from_str(&nothing.stdout).unwrap();
    assert_eq!(
        (nothing.code, &report["decided"], &report["changed"]),
        (0, &json!(8), &json!([])),
        "{report}"
    );
    let sessions = || std::fs::read_dir(place.home().join("sessions")).unwrap().count();
    let before = (sessions(), journal(&place, DEMO).len());
    let strict = policy(
        "strict.toml",
        "[tools.edit_file]\nenabled = false\n[[rules]]\nname = \"no tests\"\ncommand = \"sh tests/run.sh\"\nverdict = \"deny\"\nreason = \"not now\"\n",
    );
    let ran = run(&place, &["what-if", DEMO, "--policy", &strict, "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let changed: Vec<(&str, &str, &str)> = report["changed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let word = |side: &str| one[side]["verdict"].as_str().unwrap();
            (one["call"].as_str().unwrap(), word("before"), word("after"))
        })
        .collect();
    let ids = ["tests-before", "mend", "tests-after"].map(|id| call_of(&place, id));
    let expected: Vec<(&str, &str, &str)> = ids.iter().map(|id| (id.as_str(), "allow", "deny")).collect();
    assert_eq!(changed, expected);
    assert_eq!((sessions(), journal(&place, DEMO).len()), before, "nothing is recorded");
    let text = run(&place, &["what-if", DEMO, "--policy", &strict]).stdout;
    assert!(
        text.contains("tools.edit_file.enabled")
            && text.ends_with("3 of 8 calls would be decided otherwise.\n"),
        "{text}"
    );
    assert_eq!(run(&place, &["what-if", DEMO, "--policy", "absent.toml"]).code, 2);
    assert_eq!(run(&place, &["what-if", "nobody", "--policy", &same]).code, 2);
}

#[test]
fn what_if_decides_what_deny_read_closes() {
    let place = place();
    place.put("a.txt", "a\n");
    place.put(".env", "K=1\n");
    std::os::unix::fs::symlink("a.txt", place.workspace().join("link")).unwrap();
    let call =
        |tool: &str, args: &[&str]| run(&place, &[&["call", "--session", "reads", tool], args].concat()).code;
    let codes = [
        call("read_file", &["path=a.txt"]),
        call("read_file", &["path=link"]),
        call("read_file", &["path=.env"]),
        call("list_dir", &["path=."]),
    ];
    assert_eq!(codes, [0, 0, 3, 0]);
    let what_if = |text: &str| {
        let file = place.root().join("other.toml");
        std::fs::write(&file, text).unwrap();
        let ran = run(&place, &["what-if", "reads", "--policy", file.to_str().unwrap(), "--json"]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let changed = report["changed"].as_array().unwrap().iter();
        let changed = changed.map(|one| {
            let word =
                |side: &str| format!("{} {}", one[side]["verdict"], one[side]["rule"]).replace('"', "");
            (one["args"]["path"].as_str().unwrap().to_owned(), word("before"), word("after"))
        });
        (ran.code, changed.collect::<Vec<_>>())
    };
    assert_eq!(what_if(""), (0, vec![]), "the same policy says the same");
    let (allow, deny) = ("allow default".to_owned(), "deny files.deny_read".to_owned());
    let stricter = what_if("files.deny_read = [\"a.txt\", \".env\"]");
    let expected = ["a.txt", "link"].map(|path| (path.to_owned(), allow.clone(), deny.clone())).to_vec();
    assert_eq!(stricter, (1, expected));
    let laxer = what_if("files.deny_read = []");
    assert_eq!(laxer, (1, vec![(".env".to_owned(), deny, allow)]));
}

#[test]
fn an_export_holds_the_session_and_no_secret() {
    let place = place();
    place.put("key", "hunter2-correct-horse\n");
    let key = place.root().join("secret");
    std::fs::write(&key, "hunter2-correct-horse\n").unwrap();
    let command = "echo token=ghp_abcdefghijklmnopqrstuvwxyz0123; seq 1 20000";
    assert_eq!(run(&place, &["run", "--session", "mine", command]).code, 0);
    // Written down before the owner named it a secret.
    assert_eq!(run(&place, &["call", "--session", "mine", "read_file", "path=key"]).code, 0);
    place.configure(&format!("[[secrets]]\nfile = {:?}\n", key.to_str().unwrap()));
    let folder = place.root().join("out");
    let ran = run(&place, &["export", "mine", folder.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&report["entries"], &report["blobs"], &report["left_out"]),
        (&json!(4), &json!(1), &json!([]))
    );
    let mut all = String::new();
    let mut files = Vec::new();
    for dir in [folder.clone(), folder.join("blobs")] {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                all.push_str(&std::fs::read_to_string(&path).unwrap());
                files.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    for name in ["README.md", "journal.jsonl", "versions.json", "doctor.json", "verify.json"] {
        assert!(files.iter().any(|file| file == name), "{name}: {files:?}");
    }
    assert!(!all.contains("hunter2") && !all.contains("ghp_"), "a secret is left");
    assert!(all.contains("\n19999\n"), "the whole output is there");
    let again = run(&place, &["export", "mine", folder.to_str().unwrap()]);
    assert_eq!(again.code, 2, "{again:?}");
    assert_eq!(run(&place, &["export", "nobody"]).code, 1);
}

#[test]
fn a_record_speaks_in_a_models_place() {
    let place = place();
    let record = concat!(
        r#"{"agent":"answered","answer":{"text":"look","calls":[{"id":"a","name":"echo","args":{"message":"hi"}}]}}"#,
        "\n",
        r#"{"agent":"answered","answer":{"text":"It said hi."}}"#,
        "\n"
    );
    place.put("talk.jsonl", record);
    let ran = run(&place, &["agent", "--model", "replay:./talk.jsonl", "--session", "one", "say hi"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It said hi.\n"), "{ran:?}");
    // A session is a record too, and a talk that goes on after its end has nothing more to hear.
    let again = run(&place, &["agent", "--model", "replay:one", "--session", "two", "say hi"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "It said hi.\n"), "{again:?}");
    let more = run(&place, &["agent", "--model", "replay:one", "--resume", "one", "and more"]);
    assert!(more.code == 1 && more.stderr.contains("has 2 answers"), "{more:?}");
    let frozen = |name: &str| {
        let told = run(&place, &["replay", name, "--frozen"]);
        assert_eq!(told.code, 0, "{told:?}");
        told.stdout
    };
    assert!(frozen("two").contains("> echo {\"message\":\"hi\"}: ok\n  | hi\n"), "{}", frozen("two"));
}

#[test]
fn an_output_is_read_by_its_id_where_a_call_of_the_session_has_it() {
    let place = Place::new();
    let long = place.exec_with("seq 1 20000", support::BARE);
    let mut ids = vec![long.result["truncated"]["blob"].as_str().unwrap().to_owned()];
    if sandbox_works() {
        // A file that was taken out of a protected place is kept as a blob too, of a call that failed as well.
        place.put("s.sh", "echo 9999 > .bashrc; exit $1\n");
        for code in [0, 1] {
            let left = place.exec(&format!("sh s.sh {code}"));
            assert!(left.text().contains("Protected file taken out: .bashrc"), "{}", left.text());
            let id = &left.result["details"]["taken_out"][0]["blob"];
            ids.push(id.as_str().unwrap().to_owned());
        }
    }
    for id in ids {
        let args = json!({"call": id, "grep": "^9999$"});
        let read = place.call("read_output", &args);
        assert!(read.good().contains("9999"), "{}", read.text());
        let elsewhere = place.run(&["call", "read_output", &format!("call={id}"), "--session", "other"]);
        assert_eq!(elsewhere.code, 1);
        assert!(elsewhere.stdout.contains("No call of this session has the output"), "{}", elsewhere.stdout);
    }
}
