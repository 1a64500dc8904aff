//! An exit code that is an answer holds whether or not somebody reads what is printed beside it.

use pretty_assertions::assert_eq;

use crate::world::{BARE, SESSION, World};

/// The exit code where standard output is a pipe that nobody reads.
fn unread(world: &World, args: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    world.helve(args).stdout(writer).status().unwrap().code()
}

#[test]
fn an_answer_holds_though_nobody_reads_it() {
    let world = World::new();
    let cases: &[(&[&str], i32)] = &[
        (&["check", "echo hi"], 0),
        (&["check", "rm -rf /"], 3),
        (&["check", "--json", "rm -rf /"], 3),
        (&["check", "--set", "profile=guarded", "touch x"], 4),
        (&["run", "rm -rf /"], 3),
        (&["run", "--json", "rm -rf /"], 3),
        (&["call", "no_such_tool"], 2),
        (&["config", "check", "--set", "profile=guarded"], 0),
        (&["config", "check", "--set", "no.such=key"], 2),
        (&["policy", "explain", "no.such.rule"], 1),
    ];
    for (args, code) in cases {
        assert_eq!(world.run(args).code, Some(*code), "read: {args:?}");
        assert_eq!(unread(&world, args), Some(*code), "{args:?}");
    }
    assert_eq!(unread(&world, &[&BARE[..], &["run", "echo hi; exit 7"]].concat()), Some(1));
}

#[test]
fn what_a_policys_tests_and_a_damaged_journal_say_holds_too() {
    let world = World::new();
    std::fs::write(
        world.workspace().join("cases.jsonl"),
        "{\"command\":\"rm -rf /\",\"verdict\":\"allow\"}\n",
    )
    .unwrap();
    world.run(&["call", "--session", SESSION, "echo", "message=some words"]);
    let path = world.session().join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("some words", "same words")).unwrap();
    let cases: &[&[&str]] = &[
        &["policy", "test", "cases.jsonl"],
        &["policy", "test", "cases.jsonl", "--json"],
        &["verify", "--all"],
        &["verify", "--all", "--json"],
        &["replay", SESSION, "--frozen"],
        &["replay", SESSION, "--json"],
    ];
    for args in cases {
        assert_eq!(world.run(args).code, Some(1), "read: {args:?}");
        assert_eq!(unread(&world, args), Some(1), "{args:?}");
    }
}

#[test]
fn what_is_listed_of_a_changed_journal_ends_with_that() {
    let world = World::new();
    let text = format!("message={}", "some words ".repeat(10_000));
    let call = world.run(&["call", "--json", "--session", SESSION, "echo", &text]).json();
    let path = world.session().join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("some words", "same words", 1)).unwrap();
    let call = call["call"].as_str().unwrap();
    let cases: &[&[&str]] = &[
        &["log"],
        &["log", "--json"],
        &["log", call],
        &["log", "--output", call],
        &["log", "--session", SESSION],
    ];
    for args in cases {
        assert_eq!(world.run(args).code, Some(1), "read: {args:?}");
        assert_eq!(unread(&world, args), Some(1), "{args:?}");
    }
    for args in [&["log", "--follow"] as &[&str], &["log", "--follow", "--json"]] {
        assert_eq!(unread(&world, args), Some(1), "{args:?}");
    }
}

#[test]
fn what_is_only_shown_ends_well_without_a_reader() {
    let world = World::new();
    world.run(&["call", "echo", "message=m"]);
    for args in [&["log"] as &[&str], &["log", "--json"], &["tools"], &["completions", "bash"]] {
        assert_eq!(unread(&world, args), Some(0), "{args:?}");
    }
}
