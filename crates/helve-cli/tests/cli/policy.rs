//! The commands about rules: what is shown is in force, what is explained is so, what is tested can fail.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::World;

const RULES: &str = r#"
[[rules]]
name = "no-push"
verdict = "ask"
command = ["git push *"]
reason = "Others see it."
asks = ["git push origin main"]
"#;

#[test]
fn the_rules_in_force_are_shown_with_their_places() {
    let world = World::new();
    let file = world.configure(RULES);
    let shown = world.run(&["policy", "show"]).quiet().1;
    for part in [
        "ask    no-push\n",
        "command = [\"git push *\"]",
        "reason = \"Others see it.\"",
        "the built-in default",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains(&format!("# {} line 2", file.display())), "{shown}");
    let shown = world.run(&["policy", "show", "--json"]).json();
    assert_eq!((&shown["rules"][0]["name"], &shown["otherwise"]), (&json!("no-push"), &json!("allow")));
    let profile = world.run(&["policy", "show", "--json", "--set", "profile=guarded"]).json();
    assert_eq!((&profile["profile"], &profile["otherwise"]), (&json!("guarded"), &json!("ask")));
}

#[test]
fn what_the_explanations_say_is_so() {
    let world = World::new();
    let rules = world.run(&["policy", "explain", "--json"]).json();
    let mut examples = 0;
    for rule in rules.as_array().unwrap() {
        let name = rule["rule"].as_str().unwrap();
        let bare = rule["verdict"] == "ask when bare";
        let verdict = if bare { "ask" } else { rule["verdict"].as_str().unwrap() };
        let options: &[&str] = if bare { &["--set", "sandbox=none"] } else { &[] };
        let check = |command: &Value| {
            world.run_with(options, &["check", "--json", "--", command.as_str().unwrap()]).json()
        };
        for command in rule["finds"].as_array().unwrap() {
            let decision = check(command);
            assert_eq!(
                (&decision["rule"], &decision["verdict"]),
                (&json!(name), &json!(verdict)),
                "{command}"
            );
            examples += 1;
        }
        for command in rule["passes"].as_array().unwrap() {
            let decision = check(command);
            assert!(decision["rule"] != name || decision["verdict"] == "allow", "{command}: {decision}");
            examples += 1;
        }
        let told = world.run(&["policy", "explain", name]).quiet().1;
        assert!(told.starts_with(&format!("{name}: ")) && told.contains("To change it: "), "{told}");
    }
    assert!(examples > 40, "{examples}");
    assert!(
        world.run(&["policy", "explain", "rm-recursive"]).stdout.starts_with("guard.rm-recursive: deny\n")
    );
}

#[test]
fn every_built_in_rule_is_explained() {
    let world = World::new();
    let rules = world.run(&["policy", "explain", "--json"]).json();
    let explained: Vec<&str> =
        rules.as_array().unwrap().iter().filter_map(|rule| rule["rule"].as_str()).collect();
    let settings = world.run(&["config", "show", "--json"]).json();
    let mut listed = 0;
    for setting in settings.as_array().unwrap() {
        if !matches!(setting["key"].as_str(), Some("tools.exec.deny_patterns" | "tools.exec.ask_patterns")) {
            continue;
        }
        for rule in setting["value"].as_array().unwrap() {
            assert!(explained.contains(&rule.as_str().unwrap()), "{rule} is not explained");
            listed += 1;
        }
    }
    assert!(listed > 10, "{listed}");
}

#[test]
fn rules_and_settings_of_the_owner_are_explained_too() {
    let world = World::new();
    world.configure(RULES);
    assert!(world.run(&["policy", "explain", "no-push"]).quiet().1.contains("Others see it."));
    let list = world.run(&["policy", "explain", "tools.exec.deny_patterns[2]"]).quiet().1;
    assert!(list.starts_with("tools.exec.deny_patterns\n"), "{list}");
    assert_eq!(world.run(&["policy", "explain", "nonsense"]).code, Some(1));
}

#[test]
fn a_case_that_comes_out_otherwise_is_told() {
    let world = World::new();
    world.configure(RULES);
    let good = world.run(&["policy", "test"]);
    assert_eq!(good.quiet(), (Some(0), "ok: all 1 cases come out as they should.\n".into()));
    let cases = world.workspace().join("cases.jsonl");
    std::fs::write(
        &cases,
        "# comment\n{\"command\":\"git push\",\"verdict\":\"ask\",\"rule\":\"no-push\"}\n\
         {\"command\":\"rm -rf x\",\"verdict\":\"allow\"}\n",
    )
    .unwrap();
    let bad = world.run(&["policy", "test", "cases.jsonl"]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    for part in ["wrong  rm -rf x\n", "expected allow, received deny", "guard.rm-recursive", "1 of 3 cases"] {
        assert!(bad.stdout.contains(part), "{part}: {}", bad.stdout);
    }
    let bad = world.run(&["policy", "test", "cases.jsonl", "--json"]);
    assert_eq!((bad.code, &bad.json()["ok"], &bad.json()["cases"]), (Some(1), &json!(false), &json!(3)));
    std::fs::write(&cases, "{\"command\":\"ls\",\"verdict\":\"maybe\"}\n").unwrap();
    let unreadable = world.run(&["policy", "test", "cases.jsonl"]);
    assert_eq!(unreadable.code, Some(2));
    assert!(
        unreadable.stderr.contains("line 1") && unreadable.stderr.contains("allow|ask|deny"),
        "{unreadable:?}"
    );
}

#[test]
fn a_change_of_rules_is_shown_by_what_it_changes() {
    let world = World::new();
    let file = |name: &str, text: &str| std::fs::write(world.workspace().join(name), text).unwrap();
    file("a.toml", "parallel = false\n");
    file("b.toml", RULES);
    file("commands.txt", "git push\nls\ngit push\n");
    let told = world.run(&["policy", "diff", "a.toml", "b.toml", "--commands", "commands.txt"]).quiet().1;
    for part in ["parallel\n  - false\n  + true\n", "git push (stricter)\n", "no-push", "1 of 2 commands"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let back = world.run(&["policy", "diff", "b.toml", "a.toml", "--commands", "commands.txt"]).quiet().1;
    assert!(back.contains("git push (laxer)\n"), "{back}");
    let changes = world.run(&["policy", "diff", "a.toml", "b.toml", "--json"]).json();
    assert!(changes.as_array().unwrap().iter().any(|change| change["key"] == "parallel"), "{changes}");
    assert!(changes.as_array().unwrap().iter().all(|change| change["kind"] == "setting"), "an empty journal");
    assert_eq!(world.run(&["policy", "diff", "a.toml", "absent.toml"]).code, Some(2));
}

#[test]
fn rules_are_learned_from_what_was_run_and_written_only_when_told() {
    let world = World::new();
    let bare = ["--set", "sandbox=none", "--set", "auto_approve=true"];
    for _ in 0..2 {
        assert_eq!(world.run_with(&bare, &["run", "sort words | uniq -c"]).code, Some(0));
    }
    assert_eq!(world.run_with(&bare, &["run", "bash -c true"]).code, Some(0));
    assert_eq!(world.run_with(&bare, &["run", "cat absent"]).code, Some(1), "what failed teaches nothing");
    let proposed = world.run(&["policy", "learn"]).quiet().1;
    for part in ["[[rules]]\n", "verdict = \"allow\"\n", "# seen 2 times\n", "command = \"uniq -c"] {
        assert!(proposed.contains(part), "{part}: {proposed}");
    }
    assert!(!proposed.contains("bash") && !proposed.contains("absent"), "{proposed}");
    let file = world.path("config/helve/helve.toml");
    assert!(!file.exists(), "nothing is written unless that is asked for");

    world.configure("parallel = false\n");
    let unasked = world.run(&["policy", "learn", "--write"]);
    assert_eq!((unasked.code, unasked.stdout.as_str()), (Some(2), ""), "nobody can be asked: {unasked:?}");
    assert!(unasked.stderr.contains("add --yes"), "{unasked:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "parallel = false\n");
    let written = world.run(&["policy", "learn", "--write", "--yes"]);
    assert_eq!(written.code, Some(0), "{written:?}");
    assert!(written.stdout.contains("[[rules]]") && written.stderr.contains("are added to"), "{written:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("parallel = false\n") && text.contains("[[rules]]"), "{text}");
    let rules = world.run(&["policy", "show", "--json"]).json();
    assert!(!rules["rules"].as_array().unwrap().is_empty(), "{rules}");

    let json = world.run(&["policy", "learn", "--json", "--since", "1h"]).json();
    assert_eq!(json["commands"], json!(2), "{json}");
    assert_eq!(
        world.run(&["policy", "learn", "--json", "--since", "2100-01-01"]).json()["proposed"],
        json!([])
    );
    let nothing = world.run(&["policy", "learn", "--since", "2100-01-01"]).quiet().1;
    assert!(
        nothing.contains("from 0 different commands") && nothing.contains("# There were none"),
        "{nothing}"
    );
    world.configure("{\"parallel\": false}");
    assert_eq!(
        world.run(&["policy", "learn", "--write", "--yes"]).code,
        Some(2),
        "TOML cannot be added to JSON"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"parallel\": false}");
}

#[test]
fn nothing_is_learned_from_another_workspace() {
    let world = World::new();
    let other = world.path("other");
    std::fs::create_dir(&other).unwrap();
    let there =
        ["--set", "sandbox=none", "--set", "auto_approve=true", "--workspace", other.to_str().unwrap()];
    assert_eq!(world.run_with(&there, &["run", "touch theirs"]).code, Some(0));
    let bare = ["--set", "sandbox=none", "--set", "auto_approve=true"];
    assert_eq!(world.run_with(&bare, &["run", "touch ours"]).code, Some(0));
    let learned = world.run(&["policy", "learn"]).quiet().1;
    assert!(learned.contains("touch ours") && !learned.contains("theirs"), "{learned}");
    let empty = world.path("empty.toml");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    assert!(world.run(&["policy", "diff", empty, empty]).quiet().1.contains("of 1 commands"));
}

#[test]
fn to_look_makes_no_state_directory() {
    let world = World::new();
    for looks in [["policy", "learn"], ["approvals", "list"], ["trust", "--list"]] {
        let looked = world.run(&looks);
        assert_eq!(looked.code, Some(0), "{looked:?}");
    }
    assert_eq!(world.run(&["approvals", "revoke", "a_0000000000"]).code, Some(1));
    assert_eq!(world.run(&["approvals", "revoke", "--all"]).code, Some(0));
    assert_eq!(world.run(&["policy", "explain", "approval:a_0000000000"]).code, Some(1));
    assert!(!world.path("state").exists());
}
