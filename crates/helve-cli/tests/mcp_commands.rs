//! What the commands about MCP servers and clients refuse, and what they say of what would not work.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panicking")]

mod support;

use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use support::{Place, good, json_of};

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
