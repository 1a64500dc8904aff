//! Two clients before one `helve serve`, each with a token of its own: neither has what is the other's, whatever it calls itself.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::client::{MODERN, modern_meta};
use crate::serve::Server;
use crate::support::{Place, is_installed, sandbox_works};
use crate::{ASKS, scene};

/// Runs commands bare, and asks about some.
const BARE: &str = "sandbox = \"none\"\nauto_approve = true\n";

/// A server of two clients, and their tokens.
struct Two {
    server: Server,
    one: String,
    other: String,
}

impl Two {
    fn start(place: &Place) -> Two {
        Two::with(place, &[])
    }

    fn with(place: &Place, options: &[&str]) -> Two {
        let (one, other) = ("1".repeat(64), "2".repeat(64));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place.home()).unwrap();
        let file = place.home().join("serve-tokens");
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).unwrap();
        writeln!(file, "one {one}\nother {other}").unwrap();
        Two { server: Server::with(place, options), one, other }
    }

    /// Sends a message and gives back the head of the answer, and the answer.
    fn post(&self, token: &str, more: &[(&str, &str)], message: &Value) -> (String, Value) {
        let (status, head, body) = self.server.say("POST", token, more, &message.to_string());
        assert!((200..300).contains(&status), "{status} {body}");
        // The answer is the body, or the last event of it that says something.
        let said = |line: &str| {
            let json = line.strip_prefix("data:").unwrap_or(line).trim().to_owned();
            serde_json::from_str::<Value>(&json).ok().filter(Value::is_object)
        };
        let answer = body.lines().rev().find_map(said).unwrap_or_default();
        (head, answer)
    }

    /// The result of a request without a session, by a client that calls itself so.
    fn result(&self, token: &str, calls_itself: &str, method: &str, mut params: Value) -> Value {
        let mut meta = modern_meta(json!({"elicitation": {}}));
        meta["io.modelcontextprotocol/clientInfo"]["name"] = json!(calls_itself);
        params["_meta"] = meta;
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)];
        if !name.is_empty() {
            headers.push(("Mcp-Name", &name));
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, mut answer) = self.post(token, &headers, &message);
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].take()
    }

    fn call(&self, token: &str, calls_itself: &str, tool: &str, args: Value) -> Value {
        self.result(token, calls_itself, "tools/call", json!({"name": tool, "arguments": args}))
    }

    /// Calls a tool and answers the question about it.
    fn answered(&self, token: &str, tool: &str, args: Value, answer: &str) -> Value {
        let mut params = json!({"name": tool, "arguments": args});
        let asked = self.result(token, "tests", "tools/call", params.clone());
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
        params["inputResponses"] = json!({key: {"action": "accept", "content": {"answer": answer}}});
        params["requestState"] = asked["requestState"].clone();
        self.result(token, "tests", "tools/call", params)
    }

    /// A session of a client that calls itself so and takes no questions.
    fn session(&self, token: &str, calls_itself: &str) -> String {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": calls_itself, "version": "1"}}});
        let (head, _) = self.post(token, &[], &hello);
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(token, &[("Mcp-Session-Id", &session)], &ready);
        session
    }

    /// The result of a call in a session.
    fn call_in(&self, token: &str, session: &str, tool: &str, args: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": tool, "arguments": args}});
        let (_, mut answer) = self.post(token, &[("Mcp-Session-Id", session)], &message);
        answer["result"].take()
    }
}

fn kind(result: &Value) -> &Value {
    &result["structuredContent"]["error"]["kind"]
}

#[test]
fn what_was_granted_to_one_is_not_granted_to_who_calls_itself_the_same() {
    let place = Place::new();
    place.configure(&format!("{BARE}{ASKS}"));
    let two = Two::start(&place);
    let touch = json!({"command": "touch here"});
    let granted = two.answered(&two.one, "exec", touch.clone(), "always");
    assert_eq!(granted["isError"], false, "{granted}");
    // It holds for the token, under any name and in any session.
    let again = two.call(&two.one, "another", "exec", touch.clone());
    assert_eq!(again["isError"], false, "{again}");
    let session = two.session(&two.one, "third");
    let again = two.call_in(&two.one, &session, "exec", touch.clone());
    assert_eq!(again["isError"], false, "{again}");
    let asked = two.call(&two.other, "tests", "exec", touch.clone());
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    for name in ["tests", "one", "mcp:one"] {
        let session = two.session(&two.other, name);
        let refused = two.call_in(&two.other, &session, "exec", touch.clone());
        assert_eq!(kind(&refused), "approval_required", "{name}: {refused}");
    }
    let kept = place.run(&["approvals", "list"]);
    assert!(kept.stdout.contains("mcp:one"), "{}", kept.stdout);
    let log = place.run(&["log", "--json"]);
    assert!(log.stdout.contains("mcp:other") && !log.stdout.contains("mcp:tests"), "{}", log.stdout);
}

#[test]
fn another_session_and_another_name_bring_no_more_calls() {
    let place = Place::new();
    place.configure("[tools.echo]\nper_minute = 3\n");
    let two = Two::start(&place);
    let hello = json!({"message": "hello"});
    for name in ["a", "b"] {
        let echoed = two.call(&two.one, name, "echo", hello.clone());
        assert_eq!(echoed["isError"], false, "{echoed}");
    }
    let told = |token: &str, name: &str| {
        let session = two.session(token, name);
        kind(&two.call_in(token, &session, "echo", hello.clone())).clone()
    };
    assert_eq!(told(&two.one, "c"), Value::Null);
    assert_eq!(told(&two.one, "d"), "rate_limited");
    assert_eq!(kind(&two.call(&two.one, "e", "echo", hello.clone())), "rate_limited");
    assert_eq!(told(&two.other, "a"), Value::Null, "another client has its own");
}

#[test]
fn who_said_no_too_often_is_not_asked_in_another_session_either() {
    let place = Place::new();
    place.configure(&format!("{BARE}{ASKS}"));
    let two = Two::start(&place);
    for number in 0..3 {
        let denied = two.answered(&two.one, "exec", json!({"command": format!("touch {number}")}), "deny");
        assert_eq!(kind(&denied), "approval_denied", "{denied}");
    }
    let more = json!({"command": "touch more"});
    let session = two.session(&two.one, "another");
    let stopped = two.call_in(&two.one, &session, "exec", more.clone());
    assert_eq!(kind(&stopped), "approval_denied", "{stopped}");
    assert!(stopped.to_string().contains("no so often"), "{stopped}");
    let asked = two.call(&two.other, "tests", "exec", more);
    assert_eq!(asked["resultType"], "input_required", "another client's person has said nothing: {asked}");
}

#[test]
fn an_output_is_read_by_its_id_only_in_its_own_session() {
    let place = Place::new();
    place.configure(BARE);
    let two = Two::start(&place);
    let long = two.call(&two.one, "tests", "exec", json!({"command": "seq 1 20000"}));
    let blob = long["_meta"]["helve/result"]["truncated"]["blob"].as_str().unwrap();
    let whole = json!({"call": blob, "offset": 9_999, "limit": 2});
    let own = two.call(&two.one, "tests", "read_output", whole.clone());
    assert!(own["content"][0]["text"].as_str().unwrap().contains("10000"), "{own}");
    let refused = two.call(&two.other, "tests", "read_output", whole.clone());
    assert_eq!(kind(&refused), "not_found", "{refused}");
    assert!(refused.to_string().contains("No call of this session"), "{refused}");
    let listed = two.result(&two.other, "tests", "resources/list", json!({}));
    assert!(!listed.to_string().contains(blob), "{listed}");
    // Naming it in a call does not make it the session's either.
    two.call(&two.other, "tests", "echo", json!({"message": blob}));
    two.call(&two.other, "tests", "exec", json!({"command": format!("echo {blob}")}));
    assert_eq!(kind(&two.call(&two.other, "tests", "read_output", whole)), "not_found");
}

/// What a server keeps in memory of one client, and what it says without naming a call, cannot reach another.
#[test]
fn each_has_processes_of_servers_that_are_its_own() {
    if !sandbox_works() || !is_installed("python3") {
        return;
    }
    let place = scene::place();
    place.configure(&scene::server("s", &["Useful".to_owned(), "s".to_owned()], ""));
    let two = Two::with(&place, &["--gateway"]);
    let own = |token: &str, session: &str| {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let said = two.call_in(token, session, "mcp__s__own", json!({}));
            if said["isError"] == false {
                return said["content"][0]["text"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < until, "{said}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let [one, again] = [0; 2].map(|_| own(&two.one, &two.session(&two.one, "tests")));
    let other = own(&two.other, &two.session(&two.other, "tests"));
    assert_eq!(one, again, "all sessions of a client have the same");
    assert_ne!(one, other);
    let alone = two.call(&two.other, "tests", "mcp__s__own", json!({}));
    assert_eq!(alone["content"][0]["text"], json!(other), "and what it asks without one");
}
