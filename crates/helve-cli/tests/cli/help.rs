//! `--help` teaches by examples; every one of them runs as it is written.

use std::process::Command;

use pretty_assertions::assert_eq;

use crate::world::{BARE, World};

/// Examples that do not end with 0, by how they begin, and why.
const OTHER_ENDS: &[(&str, i32)] = &[
    ("helve check 'rm -rf build'", 3),
    ("helve check --json 'git push --force'", 4),
    ("helve check --set tools.restrict_to_workspace=true", 3),
    // Nobody has made this call.
    ("helve log c_", 1),
    ("helve log --output c_", 1),
    ("helve why c_", 1),
    ("helve approvals revoke a_", 1),
    ("helve undo c_", 1),
    ("helve undo --force c_", 1),
    ("helve diff c_", 1),
    // No changes wait here.
    ("helve commit --list", 0),
    ("helve commit", 1),
    ("helve discard", 1),
    // No model is configured, and nobody has talked here.
    ("helve agent --resume", 1),
    ("helve agent", 2),
    ("git diff | helve agent", 2),
    ("helve chat --resume", 1),
    ("helve chat", 2),
    // Nobody has configured this server.
    ("helve call mcp__", 2),
];

/// These run until they are stopped, and have tests of their own.
const ENDLESS: &[&str] = &["helve log --follow", "helve serve"];
/// These ask a model, which is not here.
const ASKS: &str = "--model ";
/// What begins like one of them and ends all the same.
const ENDING: &str = "helve serve --print-token";

fn commands(world: &World) -> Vec<String> {
    let help = world.run(&["--help"]).quiet().1;
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // What is said of a command may go on in the next line, further in.
    list.take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect()
}

/// The lines of the last paragraph that its heading names.
fn examples(help: &str, heading: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    lines.take_while(|line| !line.is_empty()).map(|line| line.trim().to_owned()).collect()
}

/// What the examples expect to find: files, a session and its head.
fn furnished() -> World {
    let world = World::new();
    let file = |name: &str, text: &str| std::fs::write(world.workspace().join(name), text).unwrap();
    std::fs::create_dir(world.workspace().join("src")).unwrap();
    std::fs::create_dir(world.path("copy-of-the-project")).unwrap();
    std::fs::create_dir(world.path("tmp")).unwrap();
    file("calls.jsonl", "{\"id\":1,\"tool\":\"echo\",\"args\":{\"message\":\"hi\"}}\n");
    file("arguments.json", "{\"command\":\"echo hi\"}");
    file("cases.jsonl", "{\"command\":\"ls\",\"verdict\":\"allow\"}\n");
    file("commands.txt", "ls -la\ngit push\n");
    file("stricter.toml", "[[rules]]\nverdict = \"ask\"\ncommand = \"git push *\"\n");
    file("src/main.rs", "fn main() {}\n");
    file("words.txt", "two words\n");
    file("AGENTS.md", "Run the tests.\n");
    file("helve.toml", "[limits]\nworkers = 2\n");
    file(".mcp.json", "{\"mcpServers\": {\"git\": {\"command\": \"mcp-server-git\"}}}");
    let session = "2026-01-31";
    assert_eq!(world.run(&["call", "echo", "message=hi", "--session", session]).code, Some(0));
    assert_eq!(world.run(&["call", "write_file", "path=notes.md", "content=hi"]).code, Some(0));
    file("noted-head", world.run(&["verify", session, "--json"]).json()["head"].as_str().unwrap());
    world
}

fn run_as_written(example: &str) {
    let world = furnished();
    let helve = std::path::Path::new(env!("CARGO_BIN_EXE_helve"));
    let path = std::env::join_paths(
        std::iter::once(helve.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    if example == "helve trust --revoke" {
        assert_eq!(world.run(&["trust"]).code, Some(0));
    }
    if !example.contains("helve config init") {
        world.configure("sandbox = \"none\"\nauto_approve = true\n");
    }
    let plain = world.helve(&[]);
    let mut shell = Command::new("bash");
    shell.args(["-c", example]).env_clear().current_dir(world.workspace());
    for (name, value) in plain.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell.env("PATH", path.unwrap()).env("EDITOR", "cat").env("TMPDIR", world.path("tmp"));
    let output = shell.output().unwrap();
    let other = OTHER_ENDS.iter().find(|(start, _)| example.starts_with(start));
    assert_eq!(output.status.code(), Some(other.map_or(0, |(_, code)| *code)), "{example}: {output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("command not found") && !told.contains("panicked"), "{example}: {told}");
}

#[test]
fn every_example_runs_as_written() {
    let world = World::new();
    let mut count = 0;
    for command in commands(&world) {
        let examples = examples(&world.run(&[&command, "--help"]).quiet().1, "Examples:");
        assert!(examples.len() >= 2, "{command} lacks examples");
        let ends = |example: &&String| {
            example.starts_with(ENDING) || !ENDLESS.iter().any(|endless| example.starts_with(endless))
        };
        for example in examples.iter().filter(ends) {
            // Each shell's script is for that shell.
            if example.contains("completions zsh")
                || example.contains("completions fish")
                || example.contains(ASKS)
            {
                continue;
            }
            run_as_written(example);
            count += 1;
        }
    }
    for step in examples(&world.run(&["--help"]).quiet().1, "First steps:") {
        run_as_written(step.split("   ").next().unwrap());
        count += 1;
    }
    assert!(count > 25, "{count} examples were found");
}

#[test]
fn help_is_also_a_command() {
    let world = World::new();
    for (words, options) in
        [(&["help"] as &[&str], &["--help"] as &[&str]), (&["help", "call"], &["call", "--help"])]
    {
        assert_eq!(world.run(words).quiet(), world.run(options).quiet(), "{words:?}");
    }
    assert_eq!(world.run(&["help", "config", "show"]).code, Some(0));
    assert_eq!(world.run(&["help", "nonsense"]).code, Some(2));
}

#[test]
fn batch_says_that_a_line_that_is_no_call_is_not_recorded() {
    let world = World::new();
    let help = world.run(&["batch", "--help"]).quiet().1.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("nothing of it is in the journal"), "{help}");
    let ended = world.feed(&[&BARE[..], &["batch"]].concat(), "nonsense\n");
    assert_eq!(ended.json()["error"]["kind"], "invalid_params");
    assert_eq!(world.run(&["log", "--json"]).quiet(), (Some(0), String::new()));
}
