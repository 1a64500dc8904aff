//! Decisions of the past, from the journal alone.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{BARE, World};

fn last_call(world: &World) -> String {
    let lines = world.run(&["log", "--json"]).lines();
    lines.last().unwrap()["call"].as_str().unwrap().to_owned()
}

#[test]
fn a_refusal_is_explained_whatever_the_configuration_says_now() {
    let world = World::new();
    assert_eq!(world.run_with(&BARE, &["run", "ls; rm -rf x"]).code, Some(3));
    world.configure("[tools.exec]\ndeny_patterns = []\n");
    let call = last_call(&world);
    let told = world.run(&["why", &call]).quiet().1;
    for part in
        ["  | ls; rm -rf x\n  |     ^^^^^^^^\n", "deny: guard.rm-recursive\n", "What would have allowed it: "]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = world.run(&["why", &call[..12], "--json"]).json();
    assert_eq!((&told["verdict"], &told["rule"]), (&json!("deny"), &json!("guard.rm-recursive")));
    assert_eq!(
        (&told["span"], &told["command"], &told["error"]),
        (&json!([4, 12]), &json!("ls; rm -rf x"), &json!("blocked"))
    );
}

#[test]
fn a_question_that_nobody_could_answer_is_explained() {
    let world = World::new();
    assert_eq!(world.run(&["run", "--set", "sandbox=none", "touch x"]).code, Some(4));
    let told = world.run(&["why", &last_call(&world), "--json"]).json();
    assert_eq!((&told["verdict"], &told["error"]), (&json!("ask"), &json!("approval_required")));
    assert_eq!(told["approval"]["answer"], "nobody");
    let told = world.run(&["why", &last_call(&world)]).quiet().1;
    assert!(told.contains("there was nobody to answer"), "{told}");
}

#[test]
fn a_call_about_which_no_rule_decided_says_so() {
    let world = World::new();
    assert_eq!(world.run(&["call", "echo"]).code, Some(2));
    let told = world.run(&["why", &last_call(&world)]).quiet().1;
    assert!(told.contains("No rule decided about this call. It ended before one: invalid_params."), "{told}");
    assert_eq!(world.run(&["why", "c_nothing"]).code, Some(1));
}

#[test]
fn a_call_that_was_allowed_and_refused_where_it_looked_says_so() {
    let world = World::new();
    std::fs::write(world.workspace().join(".env"), "A=b\n").unwrap();
    for (path, said, by) in [
        (
            ".env",
            "ended in an error all the same: blocked by files.deny_read: '.env' is closed",
            Some("files.deny_read"),
        ),
        ("/etc/passwd", "ended in an error all the same: blocked: ", None),
        ("absent", "ended in an error all the same: not_found: ", None),
    ] {
        assert_ne!(world.run(&["call", "read_file", &format!("path={path}")]).code, Some(0), "{path}");
        let told = world.run(&["why", &last_call(&world)]).quiet().1;
        assert!(told.contains("allow: default\n") && told.contains(said), "{told}");
        assert_eq!(told.contains("`helve policy explain files.deny_read`"), by.is_some(), "{told}");
        let told = world.run(&["why", &last_call(&world), "--json"]).json();
        assert_eq!((&told["verdict"], &told["refused_by"]), (&json!("allow"), &json!(by)), "{told}");
        assert!(told["error_message"].as_str().is_some_and(|message| !message.is_empty()), "{told}");
    }
    assert_eq!(world.run(&["call", "list_dir"]).code, Some(0));
    let told = world.run(&["why", &last_call(&world)]).quiet().1;
    assert!(!told.contains("all the same"), "{told}");
}

/// What is advised works: an explanation is only named where there is one.
#[test]
fn the_explanation_that_is_named_is_there() {
    let world = World::new();
    world.configure("[[rules]]\nname = \"no push\"\nverdict = \"deny\"\ncommand = \"git push *\"\n");
    let profile = ["--set", "profile=readonly"];
    let off = ["--set", "tools.exec.enabled=false"];
    let asks = ["--set", "tools.exec.approval=always"];
    let calls: [(&[&str], &[&str], &str); 5] = [
        (&[], &["run", "git push"], "'no push'"),
        (&profile, &["run", "touch x"], "'profile.readonly.rules[0]'"),
        (&off, &["run", "ls"], "tools.exec.enabled"),
        (&asks, &["run", "ls"], "tools.exec.approval"),
        (&[], &["run", "rm -rf x"], "guard.rm-recursive"),
    ];
    for (options, call, rule) in calls {
        assert_ne!(world.run_with(options, call).code, Some(0), "{call:?}");
        let told = world.run(&["why", &last_call(&world)]).quiet().1;
        assert!(
            told.contains(&format!("`helve policy explain {rule}` says what the rule means.")),
            "{rule}: {told}"
        );
        let explained = world.run(&["policy", "explain", rule.trim_matches('\'')]);
        assert_eq!(explained.code, Some(0), "{explained:?}");
    }
    for rule in ["owner", "taint", "approval.fetch", "hooks.mine", "tools.fetch.enabled"] {
        assert_eq!(world.run(&["policy", "explain", rule]).code, Some(0), "{rule}");
    }
    // Of a rule that is gone nothing can be said.
    assert_eq!(world.run(&["run", "git push"]).code, Some(3));
    world.configure("");
    let told = world.run(&["why", &last_call(&world)]).quiet().1;
    assert!(told.contains("deny: no push\n") && !told.contains("policy explain"), "{told}");
}
