//! `helve serve`, spoken to by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::{MODERN, modern_meta};
use crate::support::Place;

struct Server {
    child: Child,
    address: SocketAddr,
    token: String,
}

impl Server {
    fn start(place: &Place) -> Server {
        let mut command = place.helve();
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        assert!(said["token_file"].is_string() && !line.contains("\"token\""), "{line}");
        let address =
            said["url"].as_str().unwrap().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let token = place.run(&["serve", "--print-token"]).stdout.trim().to_owned();
        Server { child, address: address.parse().unwrap(), token }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Status, head and body of a request with these headers.
    fn request(&self, method: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut stream = self.connect();
        let mut head =
            format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // A server that refuses may close before it has read everything.
        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (status, head.to_lowercase(), body.to_owned())
    }

    /// A call without a session, as a client of the newer era makes it.
    fn call(&self, token: &str, more: &[(&str, &str)], message: &str) -> (u16, String) {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", MODERN),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "echo"),
        ];
        headers.extend_from_slice(more);
        if !more.iter().any(|(name, _)| *name == "Host") {
            headers.push(("Host", "localhost"));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"message": message}, "_meta": modern_meta(json!({})),
        }});
        let (status, _, body) = self.request("POST", &headers, &body.to_string());
        (status, body)
    }

    fn stop(mut self, signal: Signal) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn calls(place: &Place) -> usize {
    place.run(&["log", "--json"]).stdout.lines().count()
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
    // More connections than the server takes, none of which says anything.
    let silent: Vec<TcpStream> = (0..1100).map_while(|_| TcpStream::connect(server.address).ok()).collect();
    let mut refused = silent.last().unwrap();
    refused.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = String::new();
    let _ = refused.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    drop(silent);
    let until = Instant::now() + Duration::from_secs(20);
    while server.call(&server.token, &[], "hello").0 != 200 {
        assert!(Instant::now() < until, "others are served again");
        std::thread::sleep(Duration::from_millis(50));
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
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            ("Host", "localhost"),
            ("Authorization", bearer.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        server.request("POST", &headers, &message.to_string())
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}});
    let (status, head, _) = post(&server.token, None, hello);
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
