//! `helve serve`, spoken to by hand.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::serve::{Server, calls};
use crate::support::{Place, wait_for};

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}})
}

#[test]
fn only_a_client_with_a_token_gets_in() {
    let place = Place::new();
    let server = Server::start(&place);
    let (status, body) = server.call(&server.token, &[], "hello");
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("hello"), "{body}");
    for token in ["", "wrong", &server.token[1..]] {
        assert_eq!(server.call(token, &[], "hello").0, 401);
    }
    assert_eq!(server.request("POST", &[("Host", "localhost")], "{}").0, 401);
    assert_eq!(server.stop(Signal::TERM), Some(0));
    assert_eq!(calls(&place), 1);
}

#[test]
fn a_page_from_elsewhere_cannot_reach_it() {
    let place = Place::new();
    let server = Server::start(&place);
    for header in [("Host", "evil.test"), ("Origin", "https://evil.test"), ("Origin", "null")] {
        let (status, _) = server.call(&server.token, &[header], "hello");
        assert_eq!(status, 403, "{header:?}");
    }
    assert_eq!(server.stop(Signal::INT), Some(130));
    assert_eq!(calls(&place), 0);
}

#[test]
fn what_is_too_long_or_never_comes_holds_nobody_up() {
    let place = Place::new();
    let server = Server::start(&place);
    let bearer = format!("Bearer {}", server.token);
    let headers = [("Host", "localhost"), ("Authorization", &bearer), ("Content-Type", "application/json")];
    let (status, ..) = server.request("POST", &headers, &"x".repeat(64 << 20));
    assert_eq!(status, 413);
    // More connections than the server takes, none of which says anything: the oldest make room.
    let silent: Vec<TcpStream> = (0..1100).map_while(|_| TcpStream::connect(server.address).ok()).collect();
    let from = Instant::now();
    let (status, body) = server.call(&server.token, &[], "hello");
    assert_eq!(status, 200, "beside {} silent ones: {body}", silent.len());
    assert!(from.elapsed() < Duration::from_secs(5), "{:?}", from.elapsed());
}

/// Sends a request in a session and breaks the connection off at the first event of its stream, whose id this is.
pub(crate) fn broken_off(server: &Server, session: &str, request: &Value) -> String {
    let (mut stream, body) = (server.connect(), request.to_string());
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nMcp-Session-Id: {session}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.token,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let (mut read, mut piece) = (String::new(), [0; 4096]);
    while !read.contains("\n\n") {
        let length = stream.read(&mut piece).unwrap();
        assert!(length > 0, "it ended with {read}");
        read.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    read.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().trim().to_owned()
}

/// A client whose connection breaks off comes again with the last event that it saw, before or after the answer.
#[test]
fn an_answer_is_had_again_where_its_stream_broke_off() {
    let place = Place::new();
    place.configure("sandbox = \"none\"\nauto_approve = true\n");
    let server = Server::start(&place);
    let (status, head, _) = server.say("POST", &server.token, &[], &hello().to_string());
    assert_eq!(status, 200, "{head}");
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    server.say("POST", &server.token, &[("Mcp-Session-Id", &session)], &ready);
    for (number, is_over) in [(2, false), (3, true)] {
        let done = format!("done-{number}");
        let command = format!("sleep 0.5; echo answer $((40 + {number})); touch {done}");
        let call = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
            "name": "exec", "arguments": {"command": command}}});
        let event = broken_off(&server, &session, &call);
        if is_over {
            assert!(wait_for(Duration::from_secs(20), || place.has(&done)));
            std::thread::sleep(Duration::from_millis(200));
        }
        let more = [("Mcp-Session-Id", session.as_str()), ("Last-Event-ID", &event)];
        let (status, _, body) = server.say("GET", &server.token, &more, "");
        assert!(status == 200 && body.contains(&format!("answer {}", 40 + number)), "{status} {body}");
        // Once more: it may have been lost again.
        let (_, _, body) = server.say("GET", &server.token, &more, "");
        assert!(body.contains(&format!("answer {}", 40 + number)), "{body}");
        let (status, _, body) =
            server.say("GET", &server.token, &[("Mcp-Session-Id", "guessed"), more[1]], "");
        assert!(status == 404 && !body.contains("answer"), "{status} {body}");
    }
}

#[test]
fn a_session_is_its_clients_own() {
    let place = Place::new();
    let server = Server::start(&place);
    let other = "f".repeat(64);
    let file = place.home().join("serve-tokens");
    let both = format!("{}other {other}\n", std::fs::read_to_string(&file).unwrap());
    assert_eq!(server.stop(Signal::TERM), Some(0));
    std::fs::write(&file, both).unwrap();
    let server = Server::start(&place);
    let post = |token: &str, session: Option<&str>, message: Value| {
        let session: Vec<(&str, &str)> =
            session.map(|session| ("Mcp-Session-Id", session)).into_iter().collect();
        server.say("POST", token, &session, &message.to_string())
    };
    let (status, head, _) = post(&server.token, None, hello());
    assert_eq!(status, 200, "{head}");
    let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    post(&server.token, Some(&session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"message": "mine"}}});
    let (status, _, body) = post(&server.token, Some(&session), call.clone());
    assert!(status == 200 && body.contains("mine"), "{status} {body}");
    assert_eq!(post(&other, Some(&session), call.clone()).0, 404, "another client's session");
    assert_eq!(post(&server.token, Some("guessed"), call).0, 404, "no session");
}
