//! Helve before MCP clients: `helve mcp` over standard streams and `helve serve` over HTTP, spoken to by hand, so that no
//! library of the protocol stands between the test and the bytes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "mcp/client.rs"]
mod client;
#[path = "mcp/clients.rs"]
mod clients;
#[path = "mcp/ending.rs"]
mod ending;
#[path = "mcp/http.rs"]
mod http;
#[path = "mcp/rounds.rs"]
mod rounds;
#[path = "mcp/scene.rs"]
mod scene;
#[path = "mcp/serve.rs"]
mod serve;
mod support;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use client::{Client, MODERN};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{BARE, Place};

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// A client with a session that runs commands bare.
fn bare(place: &Place, capabilities: Value) -> Client {
    let mut client = Client::start(place, BARE);
    client.initialize(capabilities);
    client
}

#[test]
fn a_client_with_a_session_lists_and_calls_tools() {
    let place = Place::new();
    let mut client = Client::start(&place, &[]);
    let hello = client.initialize(json!({}));
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(hello["serverInfo"]["name"], "helve");
    let tools = client.request("tools/list", json!({}));
    let tools = tools["tools"].as_array().unwrap();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(find("read_file")["annotations"]["readOnlyHint"], true);
    assert_eq!(find("exec")["annotations"]["destructiveHint"], true);
    assert_eq!(find("exec")["outputSchema"]["required"], json!(["text"]));

    let echoed = client.call("echo", json!({"message": "hello"}));
    assert_eq!((text(&echoed), &echoed["isError"]), ("hello", &json!(false)));
    place.put("a.txt", "one\ntwo\n");
    let read = client.call("read_file", json!({"path": "a.txt"}));
    assert_eq!(read["structuredContent"]["text"], json!(text(&read)), "{read}");
    let wrong = client.call("read_file", json!({"path": 7, "limit": "x"}));
    assert_eq!(wrong["isError"], true);
    assert_eq!(wrong["structuredContent"]["error"]["kind"], "invalid_params");
    let unknown = client.response("tools/call", json!({"name": "ech", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("Did you mean 'echo'?"), "{unknown}");
    assert_eq!(client.end(), Some(0));
    let log = place.run(&["log", "--json"]);
    assert!(log.stdout.contains("\"mcp:local/tests\""), "{}", log.stdout);
    let call = echoed["_meta"]["helve/result"]["call"].as_str().unwrap();
    let story = place.run(&["log", call]);
    assert!(story.stdout.contains("client"), "{}", story.stdout);
}

/// What the C library keeps of freed memory is the server's own affair, and nobody's who has said something else of it.
#[test]
fn memory_is_kept_at_hand_where_nobody_says_otherwise() {
    let place = Place::new();
    let told = |said: Option<&str>| {
        let mut command = place.helve();
        command.arg("mcp").args(BARE.iter().flat_map(|setting| ["--set", setting]));
        command.envs(said.map(|said| ("GLIBC_TUNABLES", said)));
        let mut client = Client::of(command);
        client.initialize(json!({}));
        let environment = std::fs::read_to_string(format!("/proc/{}/environ", client.pid())).unwrap();
        let inside = client.call("exec", json!({"command": "echo [$GLIBC_TUNABLES]"}));
        assert_eq!(text(&inside).trim(), "[]", "a command does not see it");
        let told = environment.split('\0').find_map(|line| line.strip_prefix("GLIBC_TUNABLES="));
        told.map(str::to_owned)
    };
    if cfg!(target_env = "gnu") {
        assert_eq!(told(None).unwrap(), "glibc.malloc.tcache_count=64");
    }
    assert_eq!(told(Some("glibc.malloc.check=0")).unwrap(), "glibc.malloc.check=0");
}

#[test]
fn a_client_has_its_limit_under_all_the_names_that_it_gives_itself() {
    let place = Place::new();
    let mut client = Client::start(&place, &["tools.echo.per_minute=3"]);
    let refused: Vec<Value> = ["one", "two", "three", "four", "five"]
        .map(|name| {
            let mut meta = client::modern_meta(json!({}));
            meta["io.modelcontextprotocol/clientInfo"]["name"] = json!(name);
            client.meta = Some(meta);
            client.call("echo", json!({"message": name}))["isError"].clone()
        })
        .to_vec();
    assert_eq!(refused, [false, false, false, true, true]);
    assert_eq!(client.end(), Some(0));
    let log = place.run(&["log", "--json"]);
    assert_eq!(log.stdout.matches("\"mcp:local/one\"").count(), 5, "{}", log.stdout);
}

#[test]
fn a_client_without_a_session_says_everything_with_each_request() {
    let place = Place::new();
    let mut client = Client::start(&place, &[]);
    client.meta = Some(client::modern_meta(json!({})));
    let found = client.request("server/discover", json!({}));
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)), "{found}");
    let listed = client.request("tools/list", json!({}));
    assert_eq!(listed["resultType"], "complete");
    assert!(listed["ttlMs"].is_number());
    let echoed = client.call("echo", json!({"message": "hello"}));
    assert_eq!((text(&echoed), &echoed["resultType"]), ("hello", &json!("complete")));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn names_and_rules_can_be_chosen() {
    let place = Place::new();
    let mut client = Client::with(&place, &["--dialect", "claude", "--profile", "readonly"], &[]);
    client.initialize(json!({}));
    let tools = client.request("tools/list", json!({}));
    let names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    assert!(names.contains(&"Read"), "{names:?}");
    let refused = client.call("Write", json!({"file_path": "a.txt", "content": "x"}));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(!place.has("a.txt"));
}

#[test]
fn a_hundred_calls_at_once_all_have_their_answers() {
    let place = Place::new();
    let mut client = Client::start(&place, &["tools.echo.per_minute=1000"]);
    client.initialize(json!({}));
    let sent: Vec<u64> = (0..100)
        .map(|n| {
            client.send("tools/call", json!({"name": "echo", "arguments": {"message": format!("m{n}")}}))
        })
        .collect();
    for (n, id) in sent.into_iter().enumerate() {
        assert_eq!(text(&client.wait(id)["result"]), format!("m{n}"));
    }
}

/// A session's first words, and so many calls.
fn words(calls: u64) -> String {
    let who = json!({"name": "tests", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who});
    let mut lines = vec![
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    lines.extend((1..=calls).map(|id| {
        let params = json!({"name": "echo", "arguments": {"message": format!("text {id}")}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    }));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn check(answer: &str, calls: u64) -> u64 {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let id = answer["id"].as_u64().unwrap();
    assert!(id == 0 || text(&answer["result"]) == format!("text {id}"), "{answer}");
    assert!(id <= calls);
    id
}

/// Programs on Node give sockets to those whom they start. One for both ways is the most that can be asked.
#[test]
fn a_client_may_give_its_server_a_socket() {
    let place = Place::new();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let end = || OwnedFd::from(theirs.try_clone().unwrap());
    let mut child = place.helve().arg("mcp").stdin(end()).stdout(end()).spawn().unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answers = BufReader::new(ours.try_clone().unwrap()).lines();
    let mut ids: Vec<u64> = Vec::new();
    ours.write_all(words(0).as_bytes()).unwrap();
    ids.push(check(&answers.next().unwrap().unwrap(), 0));
    // Once the first is answered, so that all are of a session.
    let calls = words(2_000);
    let calls: String = calls.lines().skip(2).map(|line| format!("{line}\n")).collect();
    let writer = std::thread::spawn(move || ours.write_all(calls.as_bytes()).map(|()| ours));
    ids.extend((0..2_000).map(|_| check(&answers.next().unwrap().unwrap(), 2_000)));
    ids.sort_unstable();
    assert_eq!(ids, (0..=2_000).collect::<Vec<u64>>());
    let flags = rustix::fs::fcntl_getfl(&theirs).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "it is not ours alone");
    writer.join().unwrap().unwrap().shutdown(Shutdown::Write).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_client_may_give_its_server_files() {
    let place = Place::new();
    place.put("words", &words(20));
    let path = |name: &str| place.workspace().join(name);
    let (input, output) = (File::open(path("words")).unwrap(), File::create(path("answers")).unwrap());
    assert!(place.helve().arg("mcp").stdin(input).stdout(output).status().unwrap().success());
    let answers = std::fs::read_to_string(path("answers")).unwrap();
    let mut ids: Vec<u64> = answers.lines().map(|line| check(line, 20)).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=20).collect::<Vec<u64>>());
}

#[test]
fn progress_and_output_come_while_a_command_runs() {
    let place = Place::new();
    let mut client = bare(&place, json!({}));
    let params = json!({
        "name": "exec",
        "arguments": {"command": "echo first; sleep 0.3; echo second"},
        "_meta": {"progressToken": "p"},
    });
    let id = client.send("tools/call", params);
    let answer = client.wait(id);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let notes = client.notifications("notifications/progress");
    let said: String = notes.iter().filter_map(|note| note["params"]["message"].as_str()).collect();
    assert!(said.contains("first\n") && said.contains("second\n"), "{notes:?}");
    let steps: Vec<f64> = notes.iter().filter_map(|note| note["params"]["progress"].as_f64()).collect();
    assert!(steps.is_sorted_by(|one, other| one < other), "{steps:?}");
}

#[test]
fn a_call_that_is_taken_back_ends_with_its_processes() {
    let place = Place::new();
    let mut client = bare(&place, json!({}));
    let start = Instant::now();
    let id = client
        .send("tools/call", json!({"name": "exec", "arguments": {"command": "touch started; sleep 60"}}));
    support_wait("the command runs", || place.has("started"));
    client.notify("notifications/cancelled", json!({"requestId": id}));
    // A command runs alone, so this one waits until the other is gone.
    let next = client.call("exec", json!({"command": "echo next"}));
    assert!(text(&next).starts_with("next"), "{next}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(client.end(), Some(0));
}

#[test]
fn a_server_that_cannot_begin_says_so_in_the_form_that_was_asked_for() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = place.run(&["serve", "--json", "--listen", &address]);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &told["ok"]), (2, &json!(false)), "{ran:?}");
}

/// What an output leaves behind can be read from then on, and whoever wants to know hears that.
#[test]
fn a_client_hears_of_a_new_resource() {
    let place = Place::new();
    let mut client = Client::start(&place, &[]);
    client.initialize(json!({}));
    let count = |client: &mut Client| {
        client.request("resources/list", json!({}))["resources"].as_array().unwrap().len()
    };
    let before = count(&mut client);
    client.call("echo", json!({"message": "x".repeat(1 << 20)}));
    client.told("notifications/resources/list_changed");
    assert_eq!(count(&mut client), before + 1);
}

/// Clients of the newer era listen for as long as they live, and wait for their server when they end.
#[test]
fn a_client_that_listens_is_not_waited_for() {
    let place = Place::new();
    let mut client = Client::start(&place, &[]);
    client.meta = Some(client::modern_meta(json!({})));
    client.request("server/discover", json!({}));
    client.send("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    client.told("notifications/subscriptions/acknowledged");
    client.request("tools/list", json!({}));
    let start = Instant::now();
    assert_eq!(client.end(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn a_message_that_is_too_long_is_answered() {
    let place = Place::new();
    for is_modern in [false, true] {
        let mut client = Client::start(&place, &[]);
        match is_modern {
            true => client.meta = Some(client::modern_meta(json!({}))),
            false => drop(client.initialize(json!({}))),
        }
        client.request("tools/list", json!({}));
        let args = json!({"message": "x".repeat(9 << 20)});
        let refused = client.response("tools/call", json!({"name": "echo", "arguments": args}));
        assert_eq!(refused["error"]["code"], -32600, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("may have"), "{refused}");
        assert_eq!(text(&client.call("echo", json!({"message": "next"}))), "next");
        let unknown = client.response("helve/unknown", json!({}));
        assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    }
}

#[test]
fn the_end_of_input_ends_what_runs() {
    let place = Place::new();
    let mut client = bare(&place, json!({}));
    client.send(
        "tools/call",
        json!({"name": "exec", "arguments": {"command": "touch started; sleep 60; touch late"}}),
    );
    support_wait("the command runs", || place.has("started"));
    let start = Instant::now();
    client.end();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(!place.has("late"));
}

const ASKS: &str = "[[rules]]\nverdict = \"ask\"\ncommand = \"touch *\"\n";

#[test]
fn the_person_behind_the_client_is_asked_with_the_rule() {
    let place = Place::new();
    place.configure(ASKS);
    let mut client = bare(&place, json!({"elicitation": {}}));
    for (answer, ok, kind) in [("once", true, Value::Null), ("deny", false, json!("approval_denied"))] {
        let id = client
            .send("tools/call", json!({"name": "exec", "arguments": {"command": format!("touch {answer}")}}));
        let question = client.asked("elicitation/create");
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("touch {answer}")) && message.contains("Rule: "), "{message}");
        let choices = &question["params"]["requestedSchema"]["properties"]["answer"]["enum"];
        assert!(choices.as_array().unwrap().contains(&json!("deny")), "{choices}");
        client.answer(&question["id"], json!({"action": "accept", "content": {"answer": answer}}));
        let result = &client.wait(id)["result"];
        assert_eq!(
            (&result["isError"], &result["structuredContent"]["error"]["kind"]),
            (&json!(!ok), &kind),
            "{result}"
        );
        assert_eq!(place.has(answer), ok);
    }
}

#[test]
fn calls_that_are_done_at_once_come_under_every_rule() {
    let place = Place::new();
    place.configure("tools.echo.approval = \"always\"\n[tools.time]\nper_minute = 3\n");
    let mut client = bare(&place, json!({"elicitation": {}}));
    for (answer, kind) in [("once", Value::Null), ("deny", json!("approval_denied"))] {
        let asks = client.send("tools/call", json!({"name": "echo", "arguments": {"message": answer}}));
        let question = client.asked("elicitation/create");
        // Who waits for an answer holds nobody up.
        let parsed = client.call("json", json!({"data": "[1]", "operation": "parse"}));
        assert_eq!(parsed["isError"], false, "{parsed}");
        client.answer(&question["id"], json!({"action": "accept", "content": {"answer": answer}}));
        let result = &client.wait(asks)["result"];
        assert_eq!(result["structuredContent"]["error"]["kind"], kind, "{result}");
    }
    let ids: Vec<u64> =
        (0..5).map(|_| client.send("tools/call", json!({"name": "time", "arguments": {}}))).collect();
    let refused: Vec<bool> =
        ids.into_iter().map(|id| client.wait(id)["result"]["isError"] == json!(true)).collect();
    assert_eq!(refused, [false, false, false, true, true]);
    assert_eq!(client.end(), Some(0));
    let log = place.run(&["log", "--json"]);
    assert_eq!(log.stdout.matches("\"mcp:local/tests\"").count(), 9, "{}", log.stdout);
    let verified = place.run(&["verify"]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
}

#[test]
fn a_client_that_takes_no_questions_gets_the_refusal() {
    let place = Place::new();
    place.configure(ASKS);
    let mut client = bare(&place, json!({}));
    let refused = client.call("exec", json!({"command": "touch here"}));
    assert_eq!(refused["structuredContent"]["error"]["kind"], "approval_required", "{refused}");
    assert!(!place.has("here"));
}

#[test]
fn the_session_is_there_to_be_read_and_files_are_not() {
    let place = Place::new();
    let mut client = bare(&place, json!({}));
    std::fs::write(place.outside().join("secret.txt"), "CANARY").unwrap();
    let long = client.call("exec", json!({"command": "seq 1 20000"}));
    let blob = long["_meta"]["helve/result"]["truncated"]["blob"].as_str().unwrap();
    let listed = client.request("resources/list", json!({}));
    let uris: Vec<&str> =
        listed["resources"].as_array().unwrap().iter().filter_map(|r| r["uri"].as_str()).collect();
    let address = format!("helve://blob/{blob}");
    for uri in ["helve://manual", "helve://journal", &address] {
        assert!(uris.contains(&uri), "{uris:?}");
        let read = client.request("resources/read", json!({"uri": uri}));
        assert!(!read["contents"][0]["text"].as_str().unwrap().is_empty(), "{uri}");
    }
    let whole = client.request("resources/read", json!({"uri": address}));
    assert!(whole["contents"][0]["text"].as_str().unwrap().contains("\n10000\n"));
    let secret = place.outside().join("secret.txt");
    for uri in [
        format!("file://{}", secret.display()),
        "file://x/..%2f..%2foutside/secret.txt".to_owned(),
        format!("helve://blob/../../{}", secret.display()),
        format!("helve://blob/b3:{}", "0".repeat(64)),
        "helve://journal/x".to_owned(),
    ] {
        let refused = client.response("resources/read", json!({"uri": uri}));
        assert!(refused["error"]["code"].is_number(), "{refused}");
        assert!(!refused.to_string().contains("CANARY"));
    }
}

#[test]
fn broken_messages_break_nothing() {
    let place = Place::new();
    let mut client = bare(&place, json!({}));
    for line in ["{", "[]", "7", "{\"id\":1}", "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":7}", "\u{0}", ""] {
        client.raw(line);
    }
    client.raw(&format!("\"{}\"", "x".repeat(20 << 20)));
    assert_eq!(text(&client.call("echo", json!({"message": "still here"}))), "still here");
}

#[test]
fn a_cursor_that_is_no_text_is_refused() {
    let place = Place::new();
    let mut client = bare(&place, json!({}));
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        for cursor in [json!(4), json!(["after:a"]), json!({}), json!(false), json!("4")] {
            let refused = client.response(method, json!({"cursor": cursor}));
            assert_eq!(refused["error"]["code"], -32602, "{method} {cursor}: {refused}");
        }
        for params in [json!({}), json!({"cursor": null})] {
            assert!(client.response(method, params)["result"].is_object(), "{method}");
        }
    }
    client.raw(r#"{"jsonrpc":"2.0","id":900,"method":"tools/l\u0069st","params":{"cursor":4}}"#);
    assert_eq!(client.wait(900)["error"]["code"], -32602);
}

fn support_wait(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
