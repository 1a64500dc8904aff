//! `config`: layers with their origins, errors that name the remedy, and a file to start from.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::World;

fn setting(shown: &Value, key: &str) -> Value {
    let found = shown.as_array().unwrap().iter().find(|setting| setting["key"] == key);
    found.unwrap_or_else(|| panic!("{key} is not shown")).clone()
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let world = World::new();
    let file = world.configure("parallel = false\n\n[tools.exec]\ntimeout = 9\n");
    let shown = world.run(&["config", "show", "--json", "--set", "tools.exec.timeout=7"]).json();
    let origin = |key: &str| setting(&shown, key)["origin"].clone();
    assert_eq!(origin("sandbox"), json!({"layer": "built_in"}));
    assert_eq!(origin("parallel"), json!({"layer": "user", "file": file, "line": 1}));
    assert_eq!(origin("tools.exec.timeout")["layer"], "command_line");
    assert_eq!(setting(&shown, "tools.exec.timeout")["value"], 7);
    let text = world.run(&["config", "show"]).quiet().1;
    assert!(text.contains(&format!("tools.exec.timeout = 9  # {} line 4\n", file.display())), "{text}");
    assert!(text.contains("sandbox = \"auto\"  # the built-in default\n"), "{text}");
}

#[test]
fn what_show_prints_is_a_configuration() {
    let world = World::new();
    let shown = world.run(&["config", "show"]).quiet().1;
    let copy = world.path("copy.toml");
    std::fs::write(&copy, &shown).unwrap();
    let again = world.run(&["config", "check", "--config", copy.to_str().unwrap()]);
    assert_eq!(again.code, Some(0), "{again:?}");
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest_for_every_command() {
    let world = World::new();
    let file = world.configure("\n[tools.exec]\ntimout = 5\n");
    for args in [
        &["config", "check"] as &[&str],
        &["config", "show"],
        &["call", "echo", "message=x"],
        &["run", "true"],
        &["batch"],
        &["tools"],
        &["check", "ls"],
        &["gc"],
    ] {
        let ended = world.run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}");
        for part in ["timout", "timeout", "line 3", file.to_str().unwrap()] {
            assert!(ended.stderr.contains(part), "{args:?} {part}: {}", ended.stderr);
        }
    }
    let version = world.run(&["--version"]);
    assert_eq!(version.quiet(), (Some(0), format!("helve {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn a_named_file_stands_in_for_the_users_and_must_exist() {
    let world = World::new();
    world.configure("nonsense = 1\n");
    let other = world.path("other.toml");
    std::fs::write(&other, "parallel = false\n").unwrap();
    let other = other.to_str().unwrap();
    let shown = world.run(&["config", "show", "--json", "--config", other]).json();
    assert_eq!(setting(&shown, "parallel")["value"], false);
    assert_eq!(world.run(&["config", "check", "--config", "absent.toml"]).code, Some(2));
    assert_eq!(world.run(&["config", "path", "--config", other]).quiet(), (Some(0), format!("{other}\n")));
}

#[test]
fn a_rule_for_no_tool_and_a_secret_that_is_not_there_are_no_sound_configuration() {
    let world = World::new();
    for (text, part) in [
        ("[tools.exce]\nenabled = false\n", "did you mean 'exec'"),
        ("[tools.bash]\nenabled = false\n", "write [tools.exec]"),
        ("[[secrets]]\nfile = \"/no/such/file\"\n", "/no/such/file"),
    ] {
        world.configure(text);
        let ended = world.run(&["config", "check"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{text}: {ended:?}");
        assert!(ended.stderr.contains(part), "{text}: {ended:?}");
    }
}

#[test]
fn what_is_hardly_meant_is_noted() {
    let world = World::new();
    let file = world.configure("[view]\nread_only = [\"/no/such/directory\"]\n");
    let text = world.run(&["config", "check"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stderr.starts_with("note: ") && text.stderr.contains("/no/such/directory"), "{text:?}");
    let data = world.run(&["config", "check", "--json"]).json();
    assert_eq!((&data["ok"], &data["files"]), (&json!(true), &json!([file])));
    assert!(data["warnings"][0].as_str().unwrap().contains("/no/such/directory"), "{data}");
    world.configure("parallel = false\n");
    let sound = world.run(&["config", "check", "--json"]).json();
    assert!(!sound["warnings"].to_string().contains("/no/such"), "{sound}");
}

#[test]
fn with_json_an_error_stands_in_the_place_of_the_answer() {
    let world = World::new();
    world.configure("timout = 5\n");
    for args in [
        &["call", "echo", "message=x"] as &[&str],
        &["run", "true"],
        &["check", "ls"],
        &["config", "check"],
        &["batch"],
        &["verify"],
        &["call", "echo", "--nonsense"],
    ] {
        let ended = world.run_with(&["--json"], args);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        let answer = ended.json();
        assert_eq!((&answer["ok"], &answer["error"]["kind"]), (&json!(false), &json!("invalid_params")));
        let wrong = if args.contains(&"--nonsense") { "--nonsense" } else { "timout" };
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(wrong) && !message.contains('\u{1b}'), "{args:?}: {message}");
    }
    // Without it, a program that reads lines of results must not take an error for one.
    for args in [&["batch"] as &[&str], &["log", "--kind", "x"], &["verify"]] {
        let ended = world.run(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
    }
    assert_eq!(world.run(&["--json", "--version"]).code, Some(0));
}

#[test]
fn a_configuration_is_never_waited_for() {
    let world = World::new();
    let pipe = world.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for file in [pipe.to_str().unwrap(), "/dev/zero"] {
        let ended = world.run_in_time(&["config", "check", "--config", file]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{file}: {ended:?}");
        assert!(ended.stderr.contains("not a regular file"), "{file}: {ended:?}");
    }
    assert_eq!(world.run(&["config", "check", "--config", "/dev/null"]).code, Some(0));
    let fed = world.feed(&["config", "show", "--json", "--config", "/dev/stdin"], "parallel = false\n");
    assert_eq!(setting(&fed.json(), "parallel")["value"], false);
}

#[test]
fn nothing_is_read_from_the_workspace() {
    let world = World::new();
    std::fs::write(world.workspace().join("helve.toml"), "sandbox = \"none\"\nauto_approve = true\n")
        .unwrap();
    let shown = world.run(&["config", "show", "--json"]).json();
    assert_eq!(setting(&shown, "sandbox")["value"], "auto");
}

#[test]
fn a_file_that_no_call_would_take_is_a_warning() {
    let world = World::new();
    std::fs::write(world.workspace().join("own.toml"), "").unwrap();
    let inside = world.run(&["config", "check", "--json", "--config", "own.toml"]).json();
    let warning = inside["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("own.toml lies in the workspace") && warning.contains("--workspace"),
        "{inside}"
    );
    assert_eq!(world.run(&["call", "--config", "own.toml", "list_dir", "path=."]).code, Some(3));
    let elsewhere = ["config", "check", "--json", "--config", "own.toml", "--workspace", "../user"];
    assert_eq!(world.run(&elsewhere).json()["warnings"], json!([]));
}

#[test]
fn a_state_directory_that_depends_on_where_helve_is_started_is_refused() {
    let world = World::new();
    for args in [
        &["call", "echo", "message=x"] as &[&str],
        &["log"],
        &["config", "path", "--json"],
        &["mcp", "install", "cursor", "--print"],
    ] {
        let ended = world.helve(args).env("HELVE_HOME", "../state").output().unwrap();
        let said = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("../state") && said.contains("begins with /"), "{args:?}: {said}");
    }
    assert!(!world.path("state").exists());
}

#[test]
fn init_writes_a_sound_file_once() {
    let world = World::new();
    let ended = world.run(&["config", "init"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
    let file = world.path("config/helve/helve.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("sandbox = \"auto\"") && text.contains("limits"), "{text}");
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
    assert_eq!(world.run(&["config", "check"]).code, Some(0));
    std::fs::write(&file, "parallel = false\n").unwrap();
    let again = world.run(&["config", "init"]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("--force"), "{again:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "parallel = false\n");
    let forced = world.run(&["config", "init", "--force", "--json"]);
    assert_eq!(
        (forced.code, forced.json()),
        (Some(0), json!({"file": world.path("config/helve/helve.toml")}))
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn path_names_every_place() {
    let world = World::new();
    let places = world.run(&["config", "path", "--json"]).json();
    assert_eq!(places["user"], json!({"path": world.path("config/helve/helve.toml"), "exists": false}));
    assert_eq!(places["state"], json!({"path": world.path("state"), "exists": false}));
}

#[test]
fn looking_at_the_configuration_makes_nothing() {
    let world = World::new();
    for args in
        [&["config", "show"] as &[&str], &["config", "check"], &["config", "path"], &["tools"], &["--help"]]
    {
        assert_eq!(world.run(args).code, Some(0), "{args:?}");
    }
    assert!(!world.path("state").exists() && !world.path("config/helve").exists());
}
