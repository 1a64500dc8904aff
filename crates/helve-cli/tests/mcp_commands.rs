//! What the commands about MCP servers and clients refuse, and what they say of what would not work.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panicking")]

mod support;

use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Place, good, is_installed, json_of, sandbox_works};

/// A place with a server of this kind, `s`; none where it cannot run.
fn with_server(kind: &str, more: &str) -> Option<Place> {
    if !sandbox_works() || !is_installed("python3") {
        return None;
    }
    let place = Place::new();
    place.put("servers.py", include_str!("mcp/servers.py"));
    place.configure(&format!(
        "[mcp.servers.s]\ncommand = 'python3'\nargs = ['servers.py', '{kind}']\n{more}\n"
    ));
    Some(place)
}

/// A repository comes from elsewhere: no link of it leads what is written for a project out of the workspace.
#[test]
fn a_link_of_the_project_leads_no_configuration_out_of_it() {
    let place = Place::new();
    let theirs = place.outside().join("mcp.json");
    std::fs::write(&theirs, "{}\n").unwrap();
    // The directory, the file, and a file that would be new.
    symlink(place.outside(), place.workspace().join(".cursor")).unwrap();
    std::fs::create_dir(place.workspace().join(".vscode")).unwrap();
    symlink("../../outside/mcp.json", place.workspace().join(".vscode/mcp.json")).unwrap();
    symlink(place.outside(), place.workspace().join(".gemini")).unwrap();
    for words in [&["cursor"][..], &["vscode"], &["gemini", "--project"]] {
        for more in [&[][..], &["--yes"]] {
            let ran = place.run(&[&["mcp", "install"], words, more].concat());
            let leads = format!("is a link that leads to {}", place.outside().display());
            assert!(ran.code == 2 && ran.stderr.contains(&leads), "{words:?}: {ran:?}");
            assert!(ran.stderr.contains("outside the workspace") && ran.stderr.contains("--user"), "{ran:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "{}\n");
    let outside: Vec<_> = std::fs::read_dir(place.outside()).unwrap().collect();
    assert_eq!(outside.len(), 1, "nothing new is there");
}

/// Within the workspace a link is followed, and what is shown is what is written.
#[test]
fn the_real_file_is_shown() {
    let place = Place::new();
    std::fs::create_dir(place.workspace().join("shared")).unwrap();
    symlink("shared", place.workspace().join(".cursor")).unwrap();
    let real = place.workspace().join("shared/mcp.json");
    let shown = place.run(&["mcp", "install", "cursor"]);
    assert!(shown.stdout.contains("ws/shared/mcp.json") && !shown.stdout.contains(".cursor"), "{shown:?}");
    let report = json_of(&place, &["mcp", "install", "cursor", "--yes", "--json"]);
    assert_eq!(report[0]["file"], real.display().to_string());
    assert!(std::fs::read_to_string(&real).unwrap().contains("mcpServers"));

    let owners = place.outside().join("claude.json");
    std::fs::write(&owners, "{}\n").unwrap();
    symlink(&owners, place.root().join("user/.claude.json")).unwrap();
    let shown = good(&place, &["mcp", "install", "claude", "--yes"]);
    assert!(shown.stdout.contains("outside/claude.json"), "{shown:?}");
    assert!(shown.stderr.contains(&format!("{} is written", owners.display())), "{shown:?}");
}

/// A tool that calls do not find is not said to be on.
#[test]
fn what_is_kept_out_of_calls_is_said_to_be() {
    let Some(place) = with_server("Schemas", "") else { return };
    let shown = good(&place, &["mcp", "test", "s"]);
    let line = |tool: &str| {
        let mut lines = shown.stdout.lines().map(str::trim);
        lines.find(|line| line.split_whitespace().any(|word| word == tool)).unwrap_or_default().to_owned()
    };
    assert!(line("doubling").starts_with("kept out") && line("doubling").contains("unfolds"), "{shown:?}");
    assert!(line("doubling_seven").contains("unfolds"), "{shown:?}");
    assert!(line("fine").starts_with("on ") && line("tuple").starts_with("on "), "{shown:?}");
    assert!(
        shown.stderr.contains("tools kept out of calls: the author has to correct the schema"),
        "{shown:?}"
    );
    let told = json_of(&place, &["mcp", "test", "s", "--json"]);
    let of = |tool: &str| told["tools"].as_array().unwrap().iter().find(|one| one["tool"] == tool).unwrap();
    assert!(of("doubling")["kept_out"].as_str().unwrap().contains("unfolds"));
    assert!(of("tuple").get("kept_out").is_none());
    let kept_out =
        told["tools"].as_array().unwrap().iter().filter(|one| one.get("kept_out").is_some()).count();
    assert_eq!(json_of(&place, &["mcp", "list", "--json"])[0]["kept_out"], kept_out);
    for shown in [&["mcp", "list"][..], &["doctor"]] {
        let ran = place.run(shown);
        let said = format!("{kept_out} tools kept out of calls: `helve mcp test s` says why");
        assert!(ran.stdout.contains(&said), "{ran:?}");
    }
    // What is said to be on can be called, and is judged by its own draft.
    let call = |tool: &str, list: serde_json::Value| {
        let args = json!({ "list": list }).to_string();
        let ran = place.run(&["call", &format!("mcp__s__{tool}"), &args, "--json"]);
        ran.stdout
    };
    assert!(call("tuple", json!(["x"])).contains("\"ok\":true"), "{}", call("tuple", json!(["x"])));
    for wrong in [json!([1]), json!(["x", "y"])] {
        assert!(call("tuple", wrong.clone()).contains("invalid_params"), "{wrong}");
    }
    let gone = call("doubling", json!("x"));
    assert!(gone.contains("is kept out: ") && gone.contains("followed."), "{gone}");
}

/// A server that says nothing of how it is reached is a mistake and no comment.
#[test]
fn a_server_with_an_empty_table_is_refused() {
    let place = Place::new();
    for text in
        ["[mcp.servers.a]\n", "[mcp.servers]\na = {}\n", "[mcp.servers.a]\n[mcp.servers.b]\ncommand = 'x'\n"]
    {
        place.configure(text);
        let ran = place.run(&["mcp", "list"]);
        assert!(
            ran.code == 2 && ran.stderr.contains("`mcp.servers.a` has neither a `command`"),
            "{text}: {ran:?}"
        );
    }
    // It may be written in another layer.
    place.configure("[mcp.servers.a]\n");
    good(&place, &["mcp", "list", "--set", "mcp.servers.a.command=x"]);
}

#[test]
fn a_whole_command_line_is_no_program() {
    if !sandbox_works() {
        return;
    }
    let place = Place::new();
    place.configure("[mcp.servers.a]\ncommand = 'npx -y foo'\nargs = ['x y']\n[mcp.servers.b]\ncommand = 'nosuch-program'\n");
    let ran = place.run(&["mcp", "test", "a"]);
    let says = r#"write `command = "npx"` and `args = ["-y","foo","x y"]` in [mcp.servers.a]."#;
    assert!(ran.code == 1 && ran.stderr.contains(says), "{ran:?}");
    let ran = place.run(&["mcp", "test", "b"]);
    assert!(ran.code == 1 && ran.stderr.contains("Install it") && !ran.stderr.contains("args"), "{ran:?}");
}

#[test]
fn what_a_server_cannot_read_because_it_is_not_there_is_said() {
    let Some(place) = with_server("Plain", "read = ['/nope/none', '/usr']") else { return };
    let list = good(&place, &["mcp", "list"]);
    assert!(list.stdout.contains("not there, so not shown to it: /nope/none (`read`)"), "{list:?}");
    assert_eq!(json_of(&place, &["mcp", "list", "--json"])[0]["not_there"], json!(["/nope/none"]));
    let tested = good(&place, &["mcp", "test", "s"]);
    assert!(tested.stderr.contains("s: not there, so not shown to it: /nope/none (`read`)"), "{tested:?}");
}

/// The command is there to write the file, so the file need not be there before.
#[test]
fn a_server_is_added_to_a_file_that_is_new() {
    let place = Place::new();
    let file = place.outside().join("new/helve.toml");
    let path = file.display().to_string();
    let add = ["mcp", "add", "a", "--config", &path, "--yes", "--", "mcp-server"];
    good(&place, &add);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[mcp.servers.a]\ncommand = \"mcp-server\"\n");
    assert!(!place.root().join("config/helve/helve.toml").exists());
    // Everywhere else a file that is named has to be there.
    let gone = place.outside().join("gone.toml").display().to_string();
    let ran = place.run(&["mcp", "list", "--config", &gone]);
    assert!(ran.code == 2 && ran.stderr.contains("cannot be read"), "{ran:?}");
}
