//! The Inspector before Helve: over standard streams and over HTTP, with a session and without.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::programs::{Programs, result};
use crate::row::Row;
use crate::support::{Place, json_lines};

/// The names of the tools, by Helve's own word.
fn names(place: &Place) -> Vec<Value> {
    let ran = place.run(&["tools", "--json"]);
    let tools = json_lines(&ran.stdout).remove(0);
    tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect()
}

/// Asks for everything that the Inspector knows to ask for. `at` is a fresh Inspector that knows where Helve is.
fn asks_for_everything(place: &Place, era: &str, at: &dyn Fn(&[&str]) -> Command) {
    place.put("note.txt", "one\ntwo\n");
    let ask = |words: &[&str]| result(&mut at(&[&["--protocol-era", era], words].concat()));
    let listed = ask(&["--method", "tools/list"]);
    let listed: Vec<Value> =
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(listed, names(place));
    let call = |tool: &str, args: Value| {
        let args = args.to_string();
        ask(&["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &args])
    };
    let echoed = call("echo", json!({"message": "hello"}));
    assert_eq!(echoed["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!((&echoed["structuredContent"]["text"], &echoed["isError"]), (&json!("hello"), &json!(false)));
    let read = call("read_file", json!({"path": "note.txt"}));
    assert!(read["structuredContent"]["text"].as_str().unwrap().contains("two"), "{read}");
    let wrong = call("read_file", json!({"path": "absent.txt"}));
    assert_eq!(
        (&wrong["isError"], &wrong["structuredContent"]["error"]["kind"]),
        (&json!(true), &json!("not_found"))
    );

    let resources = ask(&["--method", "resources/list"]);
    let uris: Vec<&Value> =
        resources["resources"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
    assert!(
        uris.contains(&&json!("helve://manual")) && uris.contains(&&json!("helve://journal")),
        "{uris:?}"
    );
    let manual = ask(&["--method", "resources/read", "--uri", "helve://manual"]);
    assert!(manual["contents"][0]["text"].as_str().unwrap().contains("read_file"), "{manual}");
    assert_eq!(ask(&["--method", "prompts/list"])["prompts"], json!([]));
    let templates = ask(&["--method", "resources/templates/list"]);
    assert!(templates["resourceTemplates"].is_array(), "{templates}");
}

fn over_standard_streams(era: &str) {
    let Some(programs) = Programs::installed() else { return };
    let mut row = Row::new(format!("Inspector: helve mcp, {era}"));
    let place = Place::new();
    let at = |words: &[&str]| {
        let mut command = programs.inspector(&place);
        for (name, dir) in [("HELVE_HOME", place.home()), ("XDG_CONFIG_HOME", place.root().join("config"))] {
            command.args(["-e", &format!("{name}={}", dir.display())]);
        }
        command.args(words).args(["--", env!("CARGO_BIN_EXE_helve"), "mcp"]);
        command
    };
    asks_for_everything(&place, era, &at);
    // What a declaration should not say because not every model can be told it.
    let strict = at(&["--method", "tools/list", "--strict"]).output().unwrap();
    assert!(strict.status.success(), "{strict:?}");
    row.seen = "tools, calls, resources, templates, prompts".to_owned();
}

/// `helve serve`; ends with this.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(place: &Place) -> Served {
        let mut command = place.helve();
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Served { child, url: said["url"].as_str().unwrap().to_owned() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn over_http(era: &str) {
    let Some(programs) = Programs::installed() else { return };
    let mut row = Row::new(format!("Inspector: helve serve, {era}"));
    let place = Place::new();
    let served = Served::start(&place);
    let token = place.run(&["serve", "--print-token"]).stdout;
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let at = |words: &[&str]| {
        let mut command = programs.inspector(&place);
        command.args(words).args(["--transport", "http", "--server-url", &served.url, "--stored-auth-only"]);
        command
    };
    asks_for_everything(&place, era, &|words| at(&[words, &["--header", &bearer]].concat()));
    for header in [&[][..], &["--header", "Authorization: Bearer guessed"]] {
        let words = [&["--protocol-era", era, "--method", "tools/list"], header].concat();
        let refused = at(&words).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("auth_required"), "{refused:?}");
    }
    row.seen = "the same; without the token and with a wrong one: refused".to_owned();
}

#[test]
fn inspector_stdio_legacy() {
    over_standard_streams("legacy");
}

#[test]
fn inspector_stdio_modern() {
    over_standard_streams("modern");
}

#[test]
fn inspector_http_legacy() {
    over_http("legacy");
}

#[test]
fn inspector_http_modern() {
    over_http("modern");
}
