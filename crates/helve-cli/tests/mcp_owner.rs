//! The owner's side of MCP: servers in the configuration, and Helve in the configuration of other programs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panicking")]

mod support;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Place, good, json_of};

const MINE: &str = "# mine\nparallel = false # why\n\n[limits]\nworkers = 2\n";

fn config(place: &Place) -> PathBuf {
    place.root().join("config/helve/helve.toml")
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_server_is_added_shown_replaced_and_removed_and_the_rest_of_the_file_stays() {
    let place = Place::new();
    place.configure(MINE);
    let add = ["mcp", "add", "git", "--env", "TOKEN=s3cret-value", "--pass-env", "ABSENT", "--network"];
    let words: Vec<&str> =
        add.into_iter().chain(["--yes", "--", "mcp-server-git", "--repository", "."]).collect();
    let ran = good(&place, &words);
    assert!(ran.stdout.contains("[mcp.servers.git]") && !ran.stdout.contains("s3cret-value"), "{ran:?}");
    let text = read(config(&place));
    assert_eq!(
        text,
        format!(
            "{MINE}\n[mcp.servers.git]\ncommand = \"mcp-server-git\"\nargs = [\"--repository\", \".\"]\n\
             env = {{ TOKEN = \"s3cret-value\" }}\npass_env = [\"ABSENT\"]\nnetwork = \"host\"\n"
        )
    );
    assert_eq!(read(place.root().join("config/helve/helve.toml.bak")), MINE);

    let list = json_of(&place, &["mcp", "list", "--json"]);
    assert_eq!(list[0]["name"], "git");
    assert_eq!(list[0]["reach"]["command"], "mcp-server-git");
    assert_eq!((&list[0]["unset"], &list[0]["pinned"]), (&json!(["ABSENT"]), &Value::Null));
    for shown in [&["mcp", "list"][..], &["config", "show"], &["config", "show", "--json"]] {
        let ran = good(&place, shown);
        assert!(ran.stdout.contains("git") && !ran.stdout.contains("s3cret-value"), "{ran:?}");
    }

    let again = ["mcp", "add", "git", "--yes", "--", "other"];
    let ran = place.run(&again);
    assert!(ran.code == 2 && ran.stderr.contains("--replace"), "{ran:?}");
    assert_eq!(read(config(&place)), text);
    good(&place, &["mcp", "add", "git", "--replace", "--yes", "--", "other"]);
    assert!(read(config(&place)).ends_with("[mcp.servers.git]\ncommand = \"other\"\n"));

    let ran = good(&place, &["mcp", "remove", "git", "--yes", "--json"]);
    assert!(ran.stdout.contains("\"removed\":\"git\""), "{ran:?}");
    assert_eq!(read(config(&place)).trim_end(), MINE.trim_end());
    assert_eq!(place.run(&["mcp", "remove", "git", "--yes"]).code, 1);
}

#[test]
fn nothing_is_written_without_a_yes_or_if_it_would_not_load() {
    let place = Place::new();
    place.configure(MINE);
    let ran = place.run(&["mcp", "add", "a", "--", "x"]);
    assert!(ran.code == 2 && ran.stderr.contains("--yes"), "{ran:?}");
    for (words, part) in [
        (vec!["mcp", "add", "a b", "--yes", "--", "x"], "no name for a server"),
        (vec!["mcp", "add", "a", "--url", "http://example.com", "--yes"], "this machine"),
        (vec!["mcp", "add", "a", "--yes"], "how the server is reached"),
        (vec!["mcp", "add", "a", "--pass-env", "HELVE_HOME", "--yes", "--", "x"], "configures Helve itself"),
        (vec!["mcp", "add", "--from", "absent.json", "--yes"], "no such file"),
    ] {
        let ran = place.run(&words);
        assert!(ran.code == 2 && ran.stderr.contains(part), "{words:?}: {ran:?}");
        let json = place.run(&[&["--json"], words.as_slice()].concat());
        assert!(json.stdout.starts_with("{\"ok\":false,"), "{json:?}");
    }
    assert_eq!(read(config(&place)), MINE);
    assert!(!place.root().join("config/helve/helve.toml.bak").exists());
    // What is written in another form is left to its owner.
    place.configure("mcp.servers.a.command = 'x'\n");
    let ran = place.run(&["mcp", "remove", "a", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("by hand"), "{ran:?}");
}

#[test]
fn servers_are_taken_from_files_of_other_programs() {
    let place = Place::new();
    place.put(
        ".mcp.json",
        r#"{"mcpServers": {"one": {"command": "npx", "args": ["-y", "x"], "env": {"API_KEY": "${API_KEY}"}, "alwaysAllow": ["t"]},
            "two": {"type": "http", "url": "https://x.test/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
            "three": {"command": "${HOME}/x"}}}"#,
    );
    let ran = place.run(&["mcp", "add", "--from", ".mcp.json", "three", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("cannot be taken over"), "{ran:?}");
    let ran = good(&place, &["mcp", "add", "--from", ".mcp.json", "--yes"]);
    for part in ["three is left out", "`alwaysAllow` is not taken over", "no network"] {
        assert!(ran.stderr.contains(part), "{ran:?}");
    }
    assert_eq!(
        read(config(&place)),
        "[mcp.servers.one]\ncommand = \"npx\"\nargs = [\"-y\", \"x\"]\npass_env = [\"API_KEY\"]\n\n\
         [mcp.servers.two]\nurl = \"https://x.test/mcp\"\nbearer_token_env = \"TOKEN\"\n"
    );
    assert_eq!(std::fs::metadata(config(&place)).unwrap().mode() & 0o777, 0o600);
    let names: Vec<Value> = json_of(&place, &["mcp", "list", "--json"])
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["name"].clone())
        .collect();
    assert_eq!(names, ["one", "two"]);
}

/// A repository brings servers in every form that other programs know, and a `.env` that would move the configuration.
#[test]
fn mc_006_nothing_of_a_repository_is_started_before_consent() {
    let place = Place::new();
    let marker = place.workspace().join("started");
    let evil = place.script("evil", &format!("touch {}", marker.display())).join("evil");
    let server = json!({"command": evil, "args": []});
    for (file, key) in [
        (".mcp.json", "mcpServers"),
        (".vscode/mcp.json", "servers"),
        (".cursor/mcp.json", "mcpServers"),
        (".gemini/settings.json", "mcpServers"),
        (".zed/settings.json", "context_servers"),
    ] {
        let path = place.workspace().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, json!({key: {"evil": server}}).to_string()).unwrap();
    }
    let own = format!("[mcp.servers.evil]\ncommand = \"{}\"\n", evil.display());
    let inside = place.workspace().join("conf/helve");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(inside.join("helve.toml"), &own).unwrap();
    place.put(
        ".env",
        &format!("XDG_CONFIG_HOME={0}/conf\nHELVE_HOME={0}/state\n", place.workspace().display()),
    );
    place.put("helve.toml", &own);

    assert_eq!(json_of(&place, &["mcp", "list", "--json"]), json!([]));
    good(&place, &["call", "echo", "message=hi"]);
    good(&place, &["tools"]);
    place.run(&["doctor"]);
    let ran = place.run(&["trust"]);
    assert!(ran.code == 2 && ran.stderr.contains("may only tighten"), "{ran:?}");
    assert_eq!(json_of(&place, &["mcp", "list", "--json"]), json!([]));
    // Not even the consent starts it.
    good(&place, &["mcp", "add", "--from", ".mcp.json", "--yes"]);
    good(&place, &["call", "echo", "message=hi"]);
    assert!(!marker.exists());
    assert!(!place.workspace().join("state").exists());
}

#[test]
fn what_was_never_started_has_no_pins_and_no_log() {
    let place = Place::new();
    place.configure("[mcp.servers.a]\ncommand = 'x'\n");
    assert_eq!(json_of(&place, &["mcp", "pins", "--json"]), json!([]));
    assert_eq!(json_of(&place, &["mcp", "logs", "a", "--json"]), json!([]));
    let ran = place.run(&["mcp", "logs", "b"]);
    assert!(ran.code == 1 && ran.stderr.contains("there are a"), "{ran:?}");
    assert!(!place.home().exists(), "to look makes no state");
}

/// How the programs read their files, as far as a server on standard streams goes.
mod readers {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Server {
        pub(super) command: String,
        #[serde(default)]
        pub(super) args: Vec<String>,
        #[serde(default)]
        pub(super) env: BTreeMap<String, String>,
    }

    /// Claude Code, Cursor and VS Code: by their type.
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(tag = "type", rename_all = "lowercase")]
    pub(super) enum Typed {
        Stdio(Server),
    }

    /// Zed.
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(tag = "source", rename_all = "lowercase")]
    pub(super) enum Sourced {
        Custom(Server),
    }

    #[derive(Debug, Deserialize)]
    pub(super) struct Codex {
        pub(super) mcp_servers: BTreeMap<String, Server>,
    }
}

/// The server of a client's file, as that client reads it.
fn reader(client: &str, text: &str, name: &str) -> readers::Server {
    let plain = || serde_json::from_str::<Value>(&helve::text::plain_json(text)).unwrap();
    let member = |key: &str| plain()[key][name].clone();
    let typed = |value: Value| {
        let readers::Typed::Stdio(server) = serde_json::from_value(value).unwrap();
        server
    };
    match client {
        "claude" | "cursor" => typed(member("mcpServers")),
        "vscode" => typed(member("servers")),
        "zed" => {
            let readers::Sourced::Custom(server) = serde_json::from_value(member("context_servers")).unwrap();
            server
        }
        "codex" => toml::from_str::<readers::Codex>(text).unwrap().mcp_servers.remove(name).unwrap(),
        _ => serde_json::from_value(member("mcpServers")).unwrap(),
    }
}

const CLIENTS: [(&str, &str); 8] = [
    ("claude", "user/.claude.json"),
    ("codex", "user/.codex/config.toml"),
    ("cursor", "ws/.cursor/mcp.json"),
    ("vscode", "ws/.vscode/mcp.json"),
    ("gemini", "user/.gemini/settings.json"),
    ("windsurf", "user/.codeium/windsurf/mcp_config.json"),
    ("zed", "config/zed/settings.json"),
    ("claude-desktop", "config/Claude/claude_desktop_config.json"),
];

#[test]
fn each_program_finds_helve_where_it_looks() {
    let place = Place::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_helve")).canonicalize().unwrap().display().to_string();
    let workspace = place.workspace().display().to_string();
    for (client, file) in CLIENTS {
        let path = place.root().join(file);
        let printed = good(&place, &["mcp", "install", client, "--print"]);
        let is_fixed = ["windsurf", "claude-desktop"].contains(&client);
        assert_eq!(printed.stderr.contains("always works in"), is_fixed, "{printed:?}");
        assert!(!path.exists(), "--print only shows");
        let refused = place.run(&["mcp", "install", client]);
        assert!(refused.code == 2 && !path.exists() && refused.stdout.contains("+"), "{refused:?}");
        let ran = good(&place, &["mcp", "install", client, "--yes"]);
        assert!(ran.stdout.contains("helve"), "the change is shown: {ran:?}");
        let server = reader(client, &read(&path), "helve");
        assert_eq!(server, reader(client, &printed.stdout, "helve"), "{client}");
        let args: Vec<&str> = server.args.iter().map(String::as_str).collect();
        match client {
            "cursor" | "vscode" => assert_eq!(args, ["mcp", "--workspace", "${workspaceFolder}"]),
            "windsurf" | "claude-desktop" => assert_eq!(args, ["mcp", "--workspace", &workspace]),
            _ => assert_eq!(args, ["mcp"]),
        }
        assert_eq!(server.command, binary);
        let in_project = file.starts_with("ws/");
        assert_eq!(!server.env.contains_key("HELVE_HOME"), in_project, "{client}");
        let mode = std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, if in_project { 0o644 } else { 0o600 }, "{client}");
        let before = read(&path);
        let again = good(&place, &["mcp", "install", client]);
        assert!(again.stderr.contains("has Helve already"), "{again:?}");
        assert_eq!(read(&path), before);
        let bak = format!("{}.bak", path.display());
        assert!(!Path::new(&bak).exists(), "there was nothing to keep");
    }
}

/// Programs write their files anew in their own way: what says the same is not written again, and nothing is kept of it.
#[test]
fn what_says_the_same_in_other_words_is_not_written() {
    let place = Place::new();
    for (client, file) in CLIENTS {
        let path = place.root().join(file);
        good(&place, &["mcp", "install", client, "--yes"]);
        let written = read(&path);
        let other = match client {
            "codex" => format!("# mine\n{}\n[tui]\n", written.replace(" = ", "=")),
            _ => serde_json::from_str::<Value>(&written).unwrap().to_string(),
        };
        std::fs::write(&path, &other).unwrap();
        let again = good(&place, &["mcp", "install", client, "--yes"]);
        assert!(again.stderr.contains("has Helve already"), "{again:?}");
        let report = json_of(&place, &["mcp", "install", client, "--yes", "--json"]);
        assert_eq!((&report[0]["changed"], &report[0]["backup"]), (&json!(false), &Value::Null));
        assert_eq!(read(&path), other, "{client}");
        assert!(!Path::new(&format!("{}.bak", path.display())).exists(), "{client}");
    }
    let add = ["mcp", "add", "one", "--replace", "--yes", "--", "true"];
    good(&place, &add);
    let again = good(&place, &add);
    assert!(again.stderr.contains("says this already"), "{again:?}");
    assert!(!Path::new(&format!("{}.bak", config(&place).display())).exists());
}

/// The three lines of the README, as they stand there.
#[test]
fn the_lines_of_the_readme_give_three_programs_helve() {
    let readme = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md"));
    let (_, section) = readme.split_once("## Give your agent Helve's tools").unwrap();
    let place = Place::new();
    let mut given = Vec::new();
    for line in section.lines().filter(|line| line.starts_with("helve mcp install ")).take(3) {
        let words = line.split_whitespace().skip(1).take_while(|word| *word != "#");
        let words: Vec<&str> = words.chain(["--yes"]).collect();
        good(&place, &words);
        let client = CLIENTS.iter().find(|(client, _)| words.contains(client)).unwrap();
        reader(client.0, &read(place.root().join(client.1)), "helve");
        given.push(client.0);
    }
    assert_eq!(given, ["claude", "codex", "cursor"]);
}

#[test]
fn what_stands_in_the_files_of_other_programs_stays() {
    let place = Place::new();
    let json = "{\n  // mine\n  \"theme\": \"dark\",\n  \"KEY\": {\n    \"other\": { \"command\": \"x\" }, // last\n  },\n  \"n\": 1.50\n}\n";
    let toml = "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"\n\n[tui]\ntheme = \"dark\"\n";
    for (client, file) in CLIENTS {
        let path = place.root().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let key = match client {
            "vscode" => "servers",
            "zed" => "context_servers",
            _ => "mcpServers",
        };
        let before = if client == "codex" { toml.to_owned() } else { json.replace("KEY", key) };
        std::fs::write(&path, &before).unwrap();
        let ran = good(&place, &["mcp", "install", client, "--yes", "--json"]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((&report[0]["client"], &report[0]["changed"]), (&json!(client), &json!(true)));
        let after = read(&path);
        let kept: Vec<&str> =
            before.lines().filter(|line| !after.contains(line.trim_end_matches(','))).collect();
        assert_eq!(kept, Vec::<&str>::new(), "{after}");
        reader(client, &after, "helve");
        assert_eq!(read(format!("{}.bak", path.display())), before);
        if ["cursor", "vscode"].contains(&client) {
            continue;
        }
        // Another name is another entry, and one more backup.
        let workspace = place.workspace().display().to_string();
        let more =
            "--yes --user --name second --dialect claude --profile coding --gateway --with-own --workspace";
        let words: Vec<&str> = ["mcp", "install", client]
            .into_iter()
            .chain(more.split(' '))
            .chain([workspace.as_str()])
            .collect();
        good(&place, &words);
        let server = reader(client, &read(&path), "second");
        let options = ["--dialect", "claude", "--profile", "coding", "--gateway", "--with-own"];
        assert_eq!(server.args, [&["mcp", "--workspace", &workspace], &options[..]].concat());
        assert!(Path::new(&format!("{}.bak.1", path.display())).exists());
    }
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone() {
    let place = Place::new();
    for (client, file) in CLIENTS {
        let path = place.root().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        for broken in ["{ \"a\": ", "[1, 2", "= = ="] {
            std::fs::write(&path, broken).unwrap();
            let ran = place.run(&["mcp", "install", client, "--yes"]);
            assert!(ran.code == 2 && ran.stderr.contains("is left alone"), "{client}: {ran:?}");
            assert!(ran.stderr.contains("helve"), "it says what to add: {ran:?}");
            good(&place, &["mcp", "install", client, "--print"]);
            assert_eq!(read(&path), broken);
        }
    }
    let ran = place.run(&["mcp", "install", "windsurf", "--project", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("leave --project out"), "{ran:?}");
}

/// Dotfiles are often links into a repository of dotfiles: the link stays.
#[test]
fn a_link_stays_a_link() {
    let place = Place::new();
    let real = place.outside().join("claude.json");
    std::fs::write(&real, "{}\n").unwrap();
    let link = place.root().join("user/.claude.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    good(&place, &["mcp", "install", "claude", "--yes"]);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    reader("claude", &read(&real), "helve");
}

/// One that leads nowhere is left alone as well.
#[test]
fn a_link_to_nothing_is_said() {
    let place = Place::new();
    let link = place.root().join("user/.claude.json");
    std::os::unix::fs::symlink("gone/claude.json", &link).unwrap();
    let ran = place.run(&["mcp", "install", "claude", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("gone/claude.json, where nothing is"), "{ran:?}");
    assert!(link.symlink_metadata().unwrap().is_symlink());
}

#[test]
fn lines_end_as_they_did() {
    let place = Place::new();
    for (client, file) in [("claude", "user/.claude.json"), ("codex", "user/.codex/config.toml")] {
        let path = place.root().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text =
            if client == "codex" { "# a\r\n[x]\r\ny = 1\r\n" } else { "\u{feff}{\r\n  \"a\": 1\r\n}\r\n" };
        std::fs::write(&path, text).unwrap();
        good(&place, &["mcp", "install", client, "--yes"]);
        let after = read(&path);
        assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "{after:?}");
        assert_eq!(after.starts_with('\u{feff}'), text.starts_with('\u{feff}'), "{after:?}");
        reader(client, &after.replace('\u{feff}', ""), "helve");
    }
}

/// Where one of several programs cannot be given Helve, none is.
#[test]
fn several_programs_are_written_together_or_not_at_all() {
    let place = Place::new();
    let ran = place.run(&["mcp", "install", "claude", "windsurf", "--project", "--yes", "--json"]);
    assert!(ran.code == 2 && !place.has(".mcp.json"), "{ran:?}");
    let ran = place.run(&["mcp", "install", "claude", "gemini"]);
    assert!(ran.code == 2 && ran.stdout.contains(".gemini/settings.json"), "all of it is shown: {ran:?}");
    let reports = json_of(&place, &["mcp", "install", "gemini", "claude", "--yes", "--json"]);
    assert!(reports.as_array().unwrap().iter().all(|report| report["changed"] == true), "{reports}");
    assert_eq!(reports.as_array().unwrap().len(), 2);
}

/// The program finds the same configuration as its owner, and nothing is written that would not start.
#[test]
fn what_is_written_starts_under_the_same_policy() {
    let place = Place::new();
    good(&place, &["mcp", "install", "codex", "--yes"]);
    let server = reader("codex", &read(place.root().join("user/.codex/config.toml")), "helve");
    assert_eq!(server.env["XDG_CONFIG_HOME"], place.root().join("config").display().to_string());
    for words in [
        &["--profile", "nosuch"][..],
        &["--set", "nosuch.key=1"],
        &["--name", "a b"],
        &["--name", ""],
        &["--name", "a\nb"],
    ] {
        let ran = place.run(&[&["mcp", "install", "claude", "--yes"], words].concat());
        assert!(ran.code == 2 && !place.root().join("user/.claude.json").exists(), "{words:?}: {ran:?}");
    }
}

#[test]
fn of_a_file_with_servers_that_do_not_fit_the_others_are_taken() {
    let place = Place::new();
    place.put(
        "servers.json",
        r#"{"mcpServers": {"a b": {"command": "x", "timeout": 30000}, "a.b": {"command": "y"}, "far": {"url": "http://example.com"},
            "near": {"url": "http://127.0.0.1:1/mcp"}}}"#,
    );
    let ran = good(&place, &["mcp", "add", "--from", "servers.json", "--yes"]);
    for part in ["a.b is left out: another one", "far is left out"] {
        assert!(ran.stderr.contains(part), "{ran:?}");
    }
    let text = read(config(&place));
    assert!(text.contains("[mcp.servers.a_b]\ncommand = \"x\"\ncall_timeout = 30\n"), "{text}");
    let ran = place.run(&["mcp", "add", "--from", "servers.json", "far", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("far cannot be taken over"), "{ran:?}");
    assert_eq!(place.run(&["mcp", "pins", "nosuch"]).code, 1);
    let script = place.outside().join("s.py").display().to_string();
    std::fs::write(&script, "").unwrap();
    let ran = good(&place, &["mcp", "add", "p", "--yes", "--", "/usr/bin/env", "python3", &script]);
    let dir = place.outside().display().to_string();
    assert!(ran.stderr.contains(&format!("does not see {script}; --read {dir} ")), "{ran:?}");
    let ran = good(&place, &["mcp", "add", "o", "--read", &dir, "--yes", "--", "/usr/bin/env", &script]);
    assert!(!ran.stderr.contains("does not see"), "{ran:?}");
    let ran = place.run(&["mcp", "test", "near"]);
    assert!(ran.code == 1 && ran.stderr.contains("http://127.0.0.1:1/mcp: Connection refused"), "{ran:?}");
    assert!(ran.stderr.contains("whether the server runs") && !ran.stderr.contains("rmcp"), "{ran:?}");
}
