//! What the owner agrees to: shown before, also to who reads JSON. Changes of the configuration, and tools of servers, which are
//! pinned at first sight.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panicking")]

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Place, good, is_installed, json_of, sandbox_works};

/// A server that says what it is told in a file beside it, and writes to standard error.
const SERVER: &str = r#"
import json, os, sys
print("hello from the server, my token is", os.environ.get("API_TOKEN"), file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, result = message["method"], None
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "test", "version": "1"}}
    elif method == "tools/call":
        sys.exit(9)
    elif method == "tools/list":
        result = {"tools": json.load(open("tools.json"))}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        answer["error"] = {"code": -32601, "message": "no such method"}
    else:
        answer["result"] = result
    print(json.dumps(answer), flush=True)
"#;

fn say(place: &Place, tools: &[(&str, &str)]) {
    let tools: Vec<Value> = tools
        .iter()
        .map(|(name, about)| json!({"name": name, "description": about, "inputSchema": {"type": "object", "properties": {}}}))
        .collect();
    place.put("tools.json", &json!(tools).to_string());
}

/// How each tool stands by the word of `helve mcp test`.
#[track_caller]
fn standing(place: &Place) -> Vec<(String, String)> {
    let report = json_of(place, &["mcp", "test", "s", "--json"]);
    assert_eq!((&report["ok"], &report["server"]), (&json!(true), &json!("s")), "{report}");
    assert_ne!(report["sandbox"]["layers"], json!([]), "{report}");
    let word = |tool: &Value, key: &str| tool[key].as_str().unwrap().to_owned();
    report["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (word(tool, "tool"), word(tool, "standing")))
        .collect()
}

fn pair(tool: &str, standing: &str) -> (String, String) {
    (tool.to_owned(), standing.to_owned())
}

/// Started in the sandbox, pinned at first sight, switched off when it changes, on again after the owner has seen how.
#[test]
fn mc_002_a_changed_tool_is_off_until_the_owner_agrees_again() {
    if !sandbox_works() || !is_installed("python3") {
        return;
    }
    let place = Place::new();
    place.put("server.py", SERVER);
    say(&place, &[("one", "Does one thing."), ("two", "Does two things.")]);
    place.configure(
        "[mcp.servers.s]\ncommand = 'python3'\nargs = ['server.py']\nenv = { API_TOKEN = 's3cret-value' }\ndeny = ['two']\n\
         [mcp.servers.broken]\ncommand = 'false'\n",
    );
    assert_eq!(standing(&place), [pair("one", "on"), pair("two", "denied")]);
    let listed = json_of(&place, &["tools", "--servers", "--json"]);
    let of_servers: Vec<&Value> =
        listed["tools"].as_array().unwrap().iter().filter(|tool| !tool["origin"].is_null()).collect();
    assert_eq!(of_servers.len(), 1, "the other is denied: {of_servers:?}");
    assert_eq!(of_servers[0]["origin"], json!({"server": "s", "tool": "one"}));
    assert!(!good(&place, &["tools"]).stdout.contains("mcp__"));
    let shown = good(&place, &["tools", "mcp__s__one"]);
    assert!(shown.stdout.contains("of the MCP server s, which calls it one"), "{shown:?}");
    assert!(shown.stderr.contains("helve mcp test broken"), "{shown:?}");
    let pins = json_of(&place, &["mcp", "pins", "--json"]);
    assert_eq!((&pins[0]["server"], &pins[0]["tool"]), (&json!("s"), &json!("one")));
    assert_eq!(pins[0]["definition"]["description"], "Does one thing.");
    let logs = good(&place, &["mcp", "logs", "s"]);
    assert!(logs.stdout.contains("hello from the server") && logs.stdout.contains("started"), "{logs:?}");
    assert!(
        logs.stdout.contains("[redacted:API_TOKEN]") && !logs.stdout.contains("s3cret-value"),
        "{logs:?}"
    );

    say(&place, &[("one", "Sends your keys away."), ("two", "x"), ("three", "Is new.")]);
    assert_eq!(standing(&place), [pair("one", "changed"), pair("three", "new"), pair("two", "denied")]);
    let refused = place.run(&["mcp", "trust", "s"]);
    assert!(refused.code == 2, "{refused:?}");
    for part in ["Does one thing.", "Sends your keys away.", "three is new", "b3:"] {
        assert!(refused.stdout.contains(part), "{part}: {refused:?}");
    }
    assert_eq!(standing(&place)[0], pair("one", "changed"));
    good(&place, &["mcp", "trust", "s", "--tool", "three", "--yes"]);
    assert_eq!(standing(&place), [pair("one", "changed"), pair("three", "on"), pair("two", "denied")]);
    assert_eq!(place.run(&["mcp", "trust", "s", "--tool", "none", "--yes"]).code, 1);
    good(&place, &["mcp", "trust", "s", "--yes"]);
    assert_eq!(standing(&place)[0], pair("one", "on"));

    // Pins that were damaged switch everything off, and there is a way out.
    std::fs::write(place.home().join("mcp/s/pins.jsonl"), "{\"tool\":").unwrap();
    let damaged = place.run(&["mcp", "test", "s"]);
    assert!(damaged.code != 0 && damaged.stderr.contains("helve mcp trust s --anew"), "{damaged:?}");
    good(&place, &["mcp", "trust", "s", "--anew", "--yes"]);
    assert_eq!(standing(&place)[0], pair("one", "on"));

    let broken = place.run(&["mcp", "test", "broken"]);
    assert!(broken.code == 1 && broken.stderr.contains("helve mcp logs broken"), "{broken:?}");
    let live = json_of(&place, &["mcp", "list", "--live", "--json"]);
    assert_eq!((&live[0]["name"], &live[0]["live"]["ok"]), (&json!("broken"), &json!(false)));
    assert_eq!((&live[1]["name"], &live[1]["live"]["ok"]), (&json!("s"), &json!(true)));
    let doctor = json_of(&place, &["doctor", "--json"]);
    assert!(doctor["mcp_servers"][0]["last_error"].is_object(), "{doctor}");
    assert_eq!(doctor["mcp_servers"][1]["pinned"], 3, "{doctor}");
    assert!(good(&place, &["doctor"]).stdout.contains("MCP servers"));
    assert!(good(&place, &["mcp", "list"]).stdout.contains("last start"));

    good(&place, &["mcp", "remove", "s", "--yes"]);
    assert_eq!(json_of(&place, &["mcp", "pins", "--json"]), json!([]));
}

/// How many tools wait, by `mcp list` and the doctor.
#[track_caller]
fn waiting(place: &Place) -> Value {
    let list = json_of(place, &["mcp", "list", "--json"]);
    let doctor = json_of(place, &["doctor", "--json"]);
    assert_eq!(list[0]["waiting"], doctor["mcp_servers"][0]["waiting"]);
    list[0]["waiting"].clone()
}

/// Nobody is asked to agree to what was not shown, and whoever looks later sees what waits.
#[test]
fn what_waits_is_said_everywhere() {
    if !sandbox_works() || !is_installed("python3") {
        return;
    }
    let place = Place::new();
    place.put("server.py", SERVER);
    say(&place, &[("one", "Does one thing."), ("two", "Does two things.")]);
    place.configure("[mcp.servers.s]\ncommand = 'python3'\nargs = ['server.py']\napproval = 'never'\n");
    assert_eq!(standing(&place), [pair("one", "on"), pair("two", "on")]);
    assert_eq!(waiting(&place), 0);

    say(&place, &[("one", "Sends your keys away."), ("two", "Does other things.")]);
    let ran = good(&place, &["mcp", "test", "s"]);
    assert!(ran.stderr.contains("2 tools off until you agree: `helve mcp trust s`"), "{ran:?}");
    assert_eq!(waiting(&place), 2);
    for words in [["mcp", "list"].as_slice(), &["doctor"]] {
        let ran = good(&place, words);
        assert!(ran.stdout.contains("2 tools off: `helve mcp trust s` shows why"), "{ran:?}");
    }
    // A program gets JSON; whoever could agree is shown the same as without.
    let refused = place.run(&["mcp", "trust", "s", "--json"]);
    assert!(refused.code == 2 && refused.stdout.starts_with("{\"ok\":false"), "{refused:?}");
    assert!(refused.stderr.contains("Sends your keys away."), "{refused:?}");
    assert_eq!(waiting(&place), 2, "looking at it changes nothing");

    let told = json_of(&place, &["mcp", "trust", "s", "--tool", "one", "--yes", "--json"]);
    assert_eq!(told["pinned"][0]["before"]["description"], "Does one thing.");
    assert_eq!(told["pinned"][0]["definition"]["description"], "Sends your keys away.");
    assert_eq!((&told["seen_before"], &told["waiting"]), (&json!(true), &json!([])));
    assert_eq!(waiting(&place), 1);
    good(&place, &["mcp", "trust", "s", "--yes"]);
    assert_eq!(waiting(&place), 0);

    assert_eq!(json_of(&place, &["mcp", "list", "--json"])[0]["last_error"], Value::Null);
    assert_ne!(place.run(&["call", "mcp__s__one", "{}"]).code, 0);
    let list = json_of(&place, &["mcp", "list", "--json"]);
    assert_eq!(list[0]["last_error"]["kind"], "ended", "{list}");
    assert_eq!(list[0]["reach"]["workspace"], "read");
}

/// Who has agreed gets it done, whether somebody reads on or not.
#[test]
fn a_reader_that_is_gone_takes_nothing_back() {
    let place = Place::new();
    for (words, file) in [
        (&["mcp", "install", "claude", "--yes"][..], "user/.claude.json"),
        (&["mcp", "add", "x", "--yes", "--", "cat"], "config/helve/helve.toml"),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = place.helve().args(words).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(0), "{words:?}");
        assert!(place.root().join(file).exists(), "{words:?}");
    }
}

#[test]
fn what_a_replaced_server_loses_is_shown() {
    let place = Place::new();
    place.configure(
        "[mcp.servers.q]\ncommand = 'cat'\ndeny = ['rm']\napproval = 'always'\nenv = { K = 's3cret-value' }\n",
    );
    let ran = place.run(&["mcp", "add", "q", "--replace", "--", "cat"]);
    assert!(ran.code == 2, "{ran:?}");
    for part in ["-deny = [\"rm\"]", "-approval = \"always\"", " command = \"cat\""] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    assert!(!ran.stdout.contains("s3cret-value"), "{ran:?}");
    let json = place.run(&["mcp", "add", "q", "--replace", "--json", "--", "cat"]);
    assert!(
        json.code == 2 && json.stderr.contains("-deny") && json.stdout.starts_with("{\"ok\":false"),
        "{json:?}"
    );
    let ran = place.run(&["mcp", "remove", "q"]);
    assert!(
        ran.code == 2 && ran.stdout.contains("approval") && !ran.stdout.contains("s3cret-value"),
        "{ran:?}"
    );

    place.configure("a = [");
    let ran = place.run(&["mcp", "add", "q", "--yes", "--", "cat"]);
    assert!(ran.code == 2 && ran.stderr.contains("line 1"), "{ran:?}");
    place.configure("{\"parallel\": true}");
    let ran = place.run(&["mcp", "add", "q", "--yes", "--", "cat"]);
    assert!(ran.code == 2 && ran.stderr.contains("JSON"), "{ran:?}");
}
