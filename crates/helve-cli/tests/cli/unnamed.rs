//! Paths that are not UTF-8: every command that prints JSON prints JSON, and none fails for them after its work is done.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::world::World;

/// Every command that says where something is, in an order in which each has something to say.
const COMMANDS: &[&[&str]] = &[
    &["config", "init"],
    &["config", "path"],
    &["config", "show"],
    &["config", "check"],
    &["tools"],
    &["mcp", "add", "t", "--yes", "--", "true"],
    &["mcp", "add", "t", "--yes", "--", "true"],
    &["mcp", "list"],
    &["mcp", "remove", "t", "--yes"],
    &["mcp", "install", "cursor", "--print"],
    &["mcp", "install", "cursor", "--yes"],
    &["call", "echo", "message=x"],
    &["call", "write_file", "path=a", "content=b"],
    &["trust"],
    &["trust", "AGENTS.md"],
    &["trust", "--list"],
    &["trust", "--revoke"],
    &["log"],
    &["verify", "--all"],
    &["check", "cat a"],
    &["approvals", "list"],
    &["undo", "--list"],
    &["diff"],
    &["undo"],
    &["gc"],
];

fn strange(world: &World, name: &str) -> PathBuf {
    let path = world.path("").join(OsStr::from_bytes(&[name.as_bytes(), b"\xff"].concat()));
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn a_path_that_is_not_text_is_shown_as_well_as_it_can_be() {
    let world = World::new();
    let [home, config, workspace] = ["home", "configuration", "ws"].map(|name| strange(&world, name));
    for place in [world.workspace(), workspace.clone()] {
        std::fs::write(place.join("helve.toml"), "").unwrap();
        std::fs::write(place.join("AGENTS.md"), "").unwrap();
    }
    type Change<'a> = &'a dyn Fn(&mut std::process::Command);
    let changes: [(&str, Change<'_>); 4] = [
        ("home", &|helve| _ = helve.env("HELVE_HOME", &home)),
        ("configuration", &|helve| _ = helve.env("XDG_CONFIG_HOME", &config)),
        ("workspace", &|helve| _ = helve.current_dir(&workspace)),
        ("file", &|helve| _ = helve.args([OsStr::new("--config"), config.join("own.toml").as_os_str()])),
    ];
    for (what, change) in changes {
        for args in COMMANDS {
            let mut helve = world.helve(&["--json"]);
            change(&mut helve);
            let ended = helve.args(*args).output().unwrap();
            assert!(is_answer(&ended), "{what}: {args:?}: {ended:?}");
        }
    }
    let manual = world.path("").join(OsStr::from_bytes(b"manual\xff"));
    let ended = world.helve(&["--json", "tools", "--manual"]).arg(&manual).output().unwrap();
    assert!(is_answer(&ended) && ended.status.success() && manual.exists(), "{ended:?}");
}

#[test]
fn a_server_says_where_its_token_is_also_where_that_is_not_text() {
    let world = World::new();
    let mut helve = world.helve(&["--json", "serve", "--listen", "127.0.0.1:0"]);
    helve.env("HELVE_HOME", strange(&world, "home")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut serving = helve.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    serving.kill().unwrap();
    serving.wait().unwrap();
    let said: Value = serde_json::from_str(&line).unwrap_or_default();
    assert!(said["token_file"].as_str().is_some_and(|file| file.contains("home\u{fffd}")), "{line}");
}

/// Whether it said in JSON what it did or what is wrong, and Helve itself did not fail.
fn is_answer(ended: &Output) -> bool {
    let lines = ended.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let answers = lines.map(serde_json::from_slice::<Value>).collect::<Result<Vec<_>, _>>();
    // Only a list may be empty.
    answers.is_ok() && !matches!(ended.status.code(), None | Some(70 | 101))
}
