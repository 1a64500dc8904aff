//! What is named and not there is said by every command in the same words, with what to do.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::{SESSION, World};

/// Runs a command as people and as programs do; what it says is wrong, which has to be the same.
fn said(world: &World, args: &[&str]) -> (Option<i32>, String) {
    let ran = world.run(args);
    assert_eq!(ran.stdout, "", "{args:?}: {ran:?}");
    let message = ran.stderr.lines().find_map(|line| line.strip_prefix("error: ")).map(str::to_owned);
    let message = message.unwrap_or_else(|| panic!("{args:?}: {ran:?}"));
    if args[0] != "sandbox" {
        let told = world.run_with(&["--json"], args);
        let line = told.lines().pop().unwrap_or_else(|| panic!("{args:?}: {told:?}"));
        assert_eq!((&line["ok"], &line["error"]["message"]), (&json!(false), &json!(message)));
        assert_eq!(told.code, ran.code, "{args:?}");
    }
    (ran.code, message)
}

#[test]
fn a_session_that_is_not_there() {
    let world = World::new();
    let commands: [(&[&str], i32); 10] = [
        (&["verify", "absent"], 2),
        (&["log", "--session", "absent"], 1),
        (&["replay", "absent", "--frozen"], 2),
        (&["what-if", "absent", "--policy", "more.toml"], 2),
        (&["export", "absent"], 1),
        (&["undo", "--session", "absent"], 1),
        (&["undo", "--list", "--session", "absent"], 1),
        (&["diff", "--session", "absent"], 1),
        (&["agent", "--resume", "absent", "x"], 1),
        (&["chat", "--resume", "absent"], 1),
    ];
    std::fs::write(world.workspace().join("more.toml"), "").unwrap();
    let expected = format!(
        "there is no session \"absent\" in {}. `helve verify --all` lists the sessions",
        world.path("state").display()
    );
    for has_others in [false, true] {
        for (args, code) in commands {
            assert_eq!(said(&world, args), (Some(code), expected.clone()), "{args:?}, others: {has_others}");
        }
        world.run(&["call", "--session", SESSION, "echo", "message=x"]);
    }
    let (code, message) = said(&world, &["log", SESSION]);
    let expected =
        format!("\"{SESSION}\" is a session and no call. `helve log --session {SESSION}` lists its calls");
    assert_eq!((code, message), (Some(1), expected));
    let (code, message) = said(&world, &["chat", "--resume", SESSION]);
    assert!(code == Some(1) && message.contains("no talk in the session"), "{message}");
}

/// It was there: that is no mistake in its name, and no sound record.
#[test]
fn a_session_whose_journal_is_gone() {
    let world = World::new();
    std::fs::write(world.workspace().join("more.toml"), "").unwrap();
    let commands: [&[&str]; 5] = [
        &["replay", SESSION, "--frozen"],
        &["replay", SESSION, "--in", "."],
        &["what-if", SESSION, "--policy", "more.toml"],
        &["export", SESSION],
        &["agent", "--resume", SESSION, "x"],
    ];
    world.run(&["call", "--session", SESSION, "echo", "message=x"]);
    let session = world.session();
    for is_all in [false, true] {
        match is_all {
            false => std::fs::remove_file(session.join("journal.jsonl")).unwrap(),
            true => std::fs::remove_dir_all(&session).unwrap(),
        }
        assert_eq!(world.run(&["verify", SESSION]).code, Some(1));
        let expected = format!(
            "the journal of the session \"{SESSION}\" is gone. `helve verify {SESSION}` says what is known of it"
        );
        for args in commands {
            assert_eq!(said(&world, args), (Some(1), expected.clone()), "{args:?}, all: {is_all}");
        }
        for args in [&["log", "--session", SESSION] as &[&str], &["log", "--session", SESSION, "--json"]] {
            let ran = world.run(args);
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{args:?}: {ran:?}");
            assert!(ran.stderr.contains("is not what was written"), "{args:?}: {ran:?}");
        }
    }
}

#[test]
fn a_workspace_that_is_not_there() {
    let world = World::new();
    let file = world.workspace().join("file");
    std::fs::write(&file, "").unwrap();
    let commands: [&[&str]; 22] = [
        &["call", "echo", "message=x"],
        &["run", "true"],
        &["sandbox", "--", "true"],
        &["batch"],
        &["agent", "x"],
        &["chat"],
        &["check", "ls"],
        &["why", "c_1"],
        &["policy", "explain", "x"],
        &["approvals", "list"],
        &["trust"],
        &["tools"],
        &["log"],
        &["diff"],
        &["undo"],
        &["commit"],
        &["discard"],
        &["verify"],
        &["doctor"],
        &["gc"],
        &["config", "check"],
        &["mcp", "list"],
    ];
    for (place, why) in [
        (world.path("absent"), "there is no such directory"),
        (file.clone(), "it is a file and no directory"),
        (file.join("below"), "a part of its path is no directory"),
    ] {
        let place = place.display().to_string();
        let expected = format!(
            "the workspace {place} cannot be used: {why}. Name an existing directory with --workspace DIR"
        );
        for args in commands {
            let code = if args[0] == "sandbox" { 125 } else { 2 };
            let args = [args, &["--workspace", &place]].concat();
            // Behind `--` they would be words of the command.
            let args = match args[0] {
                "sandbox" => vec!["sandbox", "--workspace", &place, "--", "true"],
                _ => args,
            };
            assert_eq!(said(&world, &args), (Some(code), expected.clone()), "{args:?}");
        }
        world.run(&["call", "--session", SESSION, "echo", "message=x"]);
        let (code, message) = said(&world, &["replay", SESSION, "--in", &place]);
        let expected =
            format!("the directory {place} cannot be used: {why}. Name an existing directory with --in DIR");
        assert_eq!((code, message), (Some(2), expected));
    }
}
