//! The end of a server while calls run: they are taken back, recorded and answered before it goes.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, MODERN, modern_meta};
use crate::http::broken_off;
use crate::serve::Server;
use crate::support::{BARE, Place};
use crate::support_wait;

/// A call that goes on until it is taken back, and shows that it has begun.
fn long(name: &str) -> Value {
    json!({"name": "exec", "arguments": {"command": format!("touch {name}; sleep 60; touch late")}})
}

/// How each call of a place ended, as its journals say.
fn outcomes(place: &Place) -> Vec<(String, Value)> {
    let log = place.run(&["log", "--json"]);
    let lines = log.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|call| (call["state"].as_str().unwrap().to_owned(), call["error_kind"].clone())).collect()
}

fn taken_back() -> (String, Value) {
    ("done".to_owned(), json!("cancelled"))
}

/// A client of either era, and its call that runs.
fn with_a_call(place: &Place, is_modern: bool) -> (Client, u64) {
    let mut client = Client::start(place, BARE);
    match is_modern {
        true => client.meta = Some(modern_meta(json!({}))),
        false => drop(client.initialize(json!({}))),
    }
    let id = client.send("tools/call", long("started"));
    support_wait("the command runs", || place.has("started"));
    (client, id)
}

#[test]
fn a_signal_takes_calls_back_and_their_results_come() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        for is_modern in [false, true] {
            let place = Place::new();
            let (mut client, id) = with_a_call(&place, is_modern);
            client.tell(signal);
            let answer = client.wait(id);
            let kind = &answer["result"]["structuredContent"]["error"]["kind"];
            assert_eq!(kind, "cancelled", "{signal:?} {answer}");
            assert_eq!(client.end(), Some(130), "{signal:?}");
            assert_eq!(outcomes(&place), [taken_back()], "{signal:?}");
            assert!(!place.has("late"));
        }
    }
}

#[test]
fn the_end_of_input_leaves_no_call_without_its_end_on_record() {
    for is_modern in [false, true] {
        let place = Place::new();
        let (client, _) = with_a_call(&place, is_modern);
        assert_eq!(client.end(), Some(0));
        assert_eq!(outcomes(&place), [taken_back()]);
        assert!(!place.has("late"));
    }
}

/// A server over HTTP that runs commands bare.
fn server(place: &Place) -> Server {
    place.configure("sandbox = \"none\"\nauto_approve = true\n");
    Server::start(place)
}

/// Status, head and body of what a client with these headers besides the usual ones says.
fn say(server: &Server, method: &str, more: &[(&str, &str)], body: &str) -> (u16, String, String) {
    server.say(method, &server.token, more, body)
}

/// The name of a new session.
fn session(server: &Server) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}});
    let (_, head, _) = say(server, "POST", &[], &hello.to_string());
    head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned()
}

/// Calls in a session, until the answer ends.
fn call_in(server: &Server, session: &str, params: &Value) -> (u16, String, String) {
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    say(server, "POST", &[("Mcp-Session-Id", session)], &call.to_string())
}

/// Calls without a session, until the answer ends.
fn call_alone(server: &Server, mut params: Value) -> (u16, String, String) {
    params["_meta"] = modern_meta(json!({}));
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params});
    let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "exec")];
    say(server, "POST", &headers, &call.to_string())
}

#[test]
fn a_signal_ends_no_stream_before_its_result_is_on_it() {
    let place = Place::new();
    let server = server(&place);
    let (session, other) = (session(&server), session(&server));
    let call = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": long("three")});
    let event = broken_off(&server, &other, &call);
    let again = [("Mcp-Session-Id", other.as_str()), ("Last-Event-ID", &event)];
    std::thread::scope(|scope| {
        let calls = [
            scope.spawn(|| call_in(&server, &session, &long("one"))),
            scope.spawn(|| call_alone(&server, long("two"))),
            scope.spawn(|| say(&server, "GET", &again, "")),
        ];
        support_wait("all commands run", || ["one", "two", "three"].iter().all(|name| place.has(name)));
        std::thread::sleep(Duration::from_millis(300));
        server.tell(Signal::TERM);
        for call in calls {
            let (status, _, body) = call.join().unwrap();
            assert!(status == 200 && body.contains(r#""kind":"cancelled""#), "{status} {body}");
        }
    });
    assert_eq!(server.ended(), Some(0));
    assert_eq!(outcomes(&place), [taken_back(), taken_back(), taken_back()]);
    assert!(!place.has("late"));
}

/// A stream on which nothing comes any more holds nobody up.
#[test]
fn who_only_listens_is_not_waited_for_at_the_end() {
    let place = Place::new();
    let server = server(&place);
    let session = session(&server);
    std::thread::scope(|scope| {
        let listens = scope.spawn(|| say(&server, "GET", &[("Mcp-Session-Id", &session)], ""));
        std::thread::sleep(Duration::from_millis(300));
        let start = Instant::now();
        server.tell(Signal::TERM);
        assert_eq!(listens.join().unwrap().0, 200);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    });
    assert_eq!(server.ended(), Some(0));
}
