//! A workspace's own file: ignored until it is trusted, then in force as it was trusted, and never able to loosen anything.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::world::World;

const STRICT: &str =
    "[[rules]]\nverdict = \"deny\"\ncommand = \"touch *\"\nreason = \"No new files here.\"\n";

fn put(world: &World, text: &str) {
    std::fs::write(world.workspace().join("helve.toml"), text).unwrap();
}

#[test]
fn only_what_was_trusted_counts() {
    let world = World::new();
    put(&world, STRICT);
    let ignored = world.run(&["config", "check"]);
    assert_eq!(ignored.code, Some(0));
    assert!(ignored.stderr.contains("is not trusted and ignored. `helve trust`"), "{ignored:?}");
    assert!(!world.path("state").exists(), "asking makes no state directory");

    let trusted = world.run(&["trust"]);
    assert_eq!((trusted.code, trusted.stderr.as_str()), (Some(0), ""), "{trusted:?}");
    for part in ["  | command = \"touch *\"\n", "It tightens\n", "denies", "No new files here."] {
        assert!(trusted.stdout.contains(part), "{part}: {}", trusted.stdout);
    }
    let denied = world.run(&["check", "--json", "ls; touch x"]);
    assert_eq!((denied.code, denied.stderr.as_str()), (Some(3), ""), "{denied:?}");
    assert_eq!(denied.json()["reason"], "No new files here.");
    let quiet = world.run(&["config", "check"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""));
    let listed = world.run(&["trust", "--list", "--json"]).json();
    assert_eq!(listed[0]["path"], json!(world.workspace().join("helve.toml")));

    assert_eq!(world.run(&["trust", "--revoke", "--json"]).code, Some(0));
    assert!(world.run(&["config", "check"]).stderr.contains("is not trusted"));
    assert_eq!(world.run(&["check", "ls; touch x"]).code, Some(0));
    assert_eq!(world.run(&["trust", "--revoke"]).code, Some(1));
}

#[test]
fn what_was_trusted_stays_in_force_whatever_becomes_of_the_file() {
    let world = World::new();
    let file = world.workspace().join("helve.toml");
    put(&world, STRICT);
    assert_eq!(world.run(&["trust"]).code, Some(0));
    let stays = |how: &str| {
        let checked = world.run(&["config", "check", "--json"]);
        let note = "What was trusted stays in force";
        assert!(checked.stderr.contains(how) && checked.stderr.contains(note), "{checked:?}");
        assert_eq!(checked.json()["files"], json!([file]), "it is among the files that count");
        assert_eq!(world.run(&["check", "ls; touch x"]).code, Some(3), "{how}");
        let listed = world.run(&["trust", "--list"]);
        assert!(listed.stdout.contains(how), "{listed:?}");
    };
    put(&world, "parallel = false\n");
    stays("has changed since it was trusted");
    put(&world, "nonsense");
    stays("has changed since it was trusted");
    std::fs::remove_file(&file).unwrap();
    stays("is gone");
    std::fs::create_dir(&file).unwrap();
    stays("cannot be read: it is not a regular file");
    std::fs::remove_dir(&file).unwrap();

    put(&world, "parallel = false\n");
    let again = world.run(&["trust"]);
    for part in ["  | parallel = false\n", "It replaces what was trusted before\n  | [[rules]]\n"] {
        assert!(again.stdout.contains(part), "{part}: {again:?}");
    }
    assert_eq!(world.run(&["check", "ls; touch x"]).code, Some(0));
    let quiet = world.run(&["config", "check"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""));
    assert!(quiet.stdout.contains(&file.display().to_string()), "{quiet:?}");
}

#[test]
fn what_would_loosen_or_cannot_be_read_is_not_trusted() {
    let world = World::new();
    assert_eq!(world.run(&["trust"]).code, Some(1), "there is no file");
    for wrong in [
        "sandbox = \"none\"\n",
        "auto_approve = true\n",
        "[[rules]]\nverdict = \"allow\"\ncommand = \"ls\"\n",
        "x",
    ] {
        put(&world, wrong);
        let refused = world.run(&["trust"]);
        assert_eq!(refused.code, Some(2), "{wrong}: {refused:?}");
        assert_eq!(world.run(&["trust", "--list", "--json"]).json(), json!([]), "{wrong}");
    }
    std::fs::remove_file(world.workspace().join("helve.toml")).unwrap();
    let pipe = world.workspace().join("helve.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(world.run_in_time(&["trust"]).code, Some(2));
    let checked = world.run_in_time(&["config", "check"]);
    assert!(checked.stderr.contains("is ignored: it is not a regular file"), "{checked:?}");
}

#[test]
fn a_file_that_the_owner_names_is_the_owners() {
    let world = World::new();
    put(&world, "parallel = false\n");
    let checked = world.run(&["config", "check", "--config", "helve.toml"]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""), "{checked:?}");
}
