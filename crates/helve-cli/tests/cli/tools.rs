//! `tools` and `completions`.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::World;

/// Every tool, sorted by name.
const ALL: &[&str] = &[
    "apply_patch",
    "echo",
    "edit_file",
    "exec",
    "glob",
    "grep",
    "json",
    "list_dir",
    "read_file",
    "read_output",
    "time",
    "write_file",
];

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn the_list_shows_enabled_tools_with_their_traits() {
    let world = World::new();
    let list = world.run(&["tools"]).quiet().1;
    let exec = list.lines().find(|line| line.starts_with("exec ")).unwrap();
    assert!(exec.contains("sandbox, writes, alone"), "{list}");
    let json = world.run(&["tools", "--json"]).json();
    assert_eq!(names(&json["tools"]), ALL);
    assert_eq!(json["quarantined"], serde_json::json!([]));
    let without = world.run(&["tools", "--json", "--set", "tools.exec.enabled=false"]).json();
    assert_eq!(
        names(&without["tools"]),
        ALL.iter().filter(|name| **name != "exec").copied().collect::<Vec<_>>()
    );
}

#[test]
fn one_tool_is_shown_by_name_or_alias() {
    let world = World::new();
    for name in ["exec", "bash"] {
        let text = world.run(&["tools", name]).quiet().1;
        assert!(text.starts_with("exec ") && text.contains("command (required)"), "{text}");
    }
    let unknown = world.run(&["tools", "nope"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("echo, edit_file, exec"), "{unknown:?}");
}

#[test]
fn every_format_declares_every_tool() {
    let world = World::new();
    for (format, name) in
        [("openai", "/function/name"), ("anthropic", "/name"), ("gemini", "/name"), ("mcp", "/name")]
    {
        let tools = world.run(&["tools", "--format", format]).json();
        let names: Vec<&str> = tools
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool.pointer(name).unwrap().as_str().unwrap())
            .collect();
        assert_eq!(names, ALL, "{format}");
        assert!(!tools.to_string().contains("x-aliases"), "{format}");
    }
    let one = world.run(&["tools", "echo", "--format", "mcp"]).json();
    assert_eq!(names(&one), ["echo"]);
}

#[test]
fn the_manual_is_printed_or_written() {
    let world = World::new();
    let printed = world.run(&["tools", "--manual"]).quiet().1;
    for part in ["## exec", "## edit_file", "# Files", "output_chars", "undo_store_bytes"] {
        assert!(printed.contains(part), "{part}");
    }
    assert_eq!(world.run(&["tools", "--manual", "TOOLS.md"]).quiet(), (Some(0), String::new()));
    assert_eq!(std::fs::read_to_string(world.workspace().join("TOOLS.md")).unwrap(), printed);
    assert_eq!(world.run(&["tools", "--manual", "--json"]).json(), json!({"manual": printed}));
    let written = world.run(&["tools", "--manual", "more.md", "--json"]).json();
    assert_eq!(written, json!({"file": "more.md"}));
    let limited = world.run(&["tools", "--manual", "--set", "limits.output_chars=1234"]).stdout;
    assert!(limited.contains("1234"), "the limits in force are shown");
}

#[test]
fn completions_are_made_for_every_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.run(&["completions", shell]).quiet().1;
        assert!(script.contains("helve") && script.contains("batch"), "{shell}");
    }
}

#[test]
fn nothing_is_coloured_outside_a_terminal() {
    let world = World::new();
    world.run(&["call", "echo", "message=x"]);
    for args in [&["tools"] as &[&str], &["log"], &["verify"], &["check", "rm -rf x"], &["config", "show"]] {
        assert!(!world.run(args).stdout.contains('\u{1b}'), "{args:?}");
    }
    let refused = world.run(&["call", "echo", "@absent"]);
    assert!(!refused.stderr.contains('\u{1b}'), "{refused:?}");
}
