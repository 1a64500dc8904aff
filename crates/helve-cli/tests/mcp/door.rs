//! Clients that should not get in, and clients that want all of it, before `helve serve`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{MODERN, modern_meta};
use crate::serve::{Server, calls};
use crate::support::Place;

const HEADERS: [(&str, &str); 8] = [
    ("Host", "localhost"),
    ("Authorization", "Bearer @TOKEN@"),
    ("Accept", "application/json, text/event-stream"),
    ("Content-Type", "application/json"),
    ("MCP-Protocol-Version", MODERN),
    ("Mcp-Method", "tools/call"),
    ("Mcp-Name", "echo"),
    ("Connection", "close"),
];

/// Sends one request of the table; then another client is served, and the call of the first has not run unless it should.
pub(crate) fn knock(case: &Value) -> Result<(), String> {
    let place = Place::new();
    let server = Server::start(&place);
    let (status, answer) = send(&server, case);
    let wanted: Vec<u16> = case["status"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| u16::try_from(code.as_u64().unwrap()).unwrap())
        .collect();
    if !wanted.contains(&status) {
        return Err(format!("{status}: {answer}"));
    }
    if let Some(part) = case["says"].as_str()
        && !answer.contains(part)
    {
        return Err(format!("it does not say {part:?}: {answer}"));
    }
    if answer.to_lowercase().contains("access-control-allow") {
        return Err(format!("a page elsewhere may read it: {answer}"));
    }
    let (status, other) = server.call(&server.token, &[], "another");
    if status != 200 || !other.contains("another") {
        return Err(format!("another client is not served: {status} {other}"));
    }
    server.stop(Signal::TERM);
    let ran = usize::from(case["runs"] == true) + 1;
    if calls(&place) != ran {
        return Err(format!("{} calls ran, not {ran}", calls(&place)));
    }
    Ok(())
}

fn send(server: &Server, case: &Value) -> (u16, String) {
    let fill = |text: &str| filled(&text.replace("@TOKEN@", &server.token));
    let body = match case["body"].as_str() {
        Some(body) => fill(body),
        None => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"message": "knock"}, "_meta": modern_meta(json!({}))}})
        .to_string(),
    };
    let mut head = format!("{}\r\n", fill(case["line"].as_str().unwrap_or("POST /mcp HTTP/1.1")));
    for (name, value) in HEADERS {
        match case["set"].get(name) {
            None => head.push_str(&format!("{name}: {}\r\n", fill(value))),
            Some(Value::String(other)) => head.push_str(&format!("{name}: {}\r\n", fill(other))),
            Some(_) => {}
        }
    }
    for line in case["add"].as_array().into_iter().flatten() {
        head.push_str(&format!("{}\r\n", fill(line.as_str().unwrap())));
    }
    let mut stream = server.connect();
    if case["chunked"] == true {
        let _ = stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
        let sent = body.as_bytes().chunks(1 << 20).try_for_each(|chunk| {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
            stream.write_all(chunk)?;
            stream.write_all(b"\r\n")
        });
        let _ = sent.and_then(|()| stream.write_all(b"0\r\n\r\n"));
    } else {
        let length = match case["add"].to_string().contains("Content-Length") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let _ = stream.write_all(format!("{head}{length}\r\n{body}").as_bytes());
    }
    if case["half_open"] == true {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0), answer)
}

/// Replaces `@FILL(n)@` by so many letters, `@DEEP(n)@` by so many brackets, `@HEADERS(n)@` by so many header lines.
fn filled(text: &str) -> String {
    let mut text = text.to_owned();
    for (word, with) in [("FILL", "x"), ("DEEP", "["), ("HEADERS", "X-More: x\r\n")] {
        let start = format!("@{word}(");
        while let Some((before, rest)) = text.split_once(&start) {
            let (number, after) = rest.split_once(")@").unwrap();
            text = format!("{before}{}{after}", with.repeat(number.parse().unwrap()));
        }
    }
    text
}

/// A client of the older era, with a session of its own.
struct Session<'s> {
    server: &'s Server,
    token: String,
    id: String,
}

impl<'s> Session<'s> {
    fn open(server: &'s Server, token: &str) -> Result<Session<'s>, u16> {
        let mut session = Session { server, token: token.to_owned(), id: String::new() };
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}});
        let (status, head, _) = session.post(&hello);
        let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).ok_or(status)?;
        session.id = id.to_owned();
        session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        Ok(session)
    }

    fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![
            ("Host".to_owned(), "localhost".to_owned()),
            ("Authorization".to_owned(), format!("Bearer {}", self.token)),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("Content-Type".to_owned(), "application/json".to_owned()),
        ];
        if !self.id.is_empty() {
            headers.push(("Mcp-Session-Id".to_owned(), self.id.clone()));
        }
        headers
    }

    fn send(&self, method: &str, body: &str) -> (u16, String, String) {
        let headers = self.headers();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.server.request(method, &headers, body)
    }

    fn post(&self, message: &Value) -> (u16, String, String) {
        self.send("POST", &message.to_string())
    }

    fn request(&self, id: u64, method: &str, params: Value) -> (u16, String) {
        let (status, _, body) =
            self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        (status, body)
    }

    fn echo(&self, id: u64, message: &str) -> (u16, String) {
        self.request(id, "tools/call", json!({"name": "echo", "arguments": {"message": message}}))
    }

    /// A stream of what the server says by itself; what was answered so far.
    fn listen(&self) -> (TcpStream, String) {
        let mut stream = self.server.connect();
        let mut head = "GET /mcp HTTP/1.1\r\n".to_owned();
        for (name, value) in self.headers() {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let mut answer = [0; 512];
        let count = stream.read(&mut answer).unwrap_or(0);
        (stream, String::from_utf8_lossy(&answer[..count]).into_owned())
    }
}

/// A server that knows three clients.
fn with_clients(place: &Place) -> (Server, [String; 3]) {
    let server = Server::start(place);
    let first = server.token.clone();
    let [second, third] = ["a", "b"].map(|letter| letter.repeat(64));
    let file = place.home().join("serve-tokens");
    let all = format!("{}second {second}\nthird {third}\n", std::fs::read_to_string(&file).unwrap());
    server.stop(Signal::TERM);
    std::fs::write(&file, all).unwrap();
    (Server::start(place), [first, second, third])
}

#[test]
fn mc_018_two_clients_see_only_their_own() {
    let place = Place::new();
    let (server, [one, two, _]) = with_clients(&place);
    let sessions = [Session::open(&server, &one).unwrap(), Session::open(&server, &two).unwrap()];
    std::thread::scope(|scope| {
        for (index, session) in sessions.iter().enumerate() {
            scope.spawn(move || {
                for id in 2..25 {
                    let own = format!("client {index} number {id}");
                    let (status, body) = session.echo(id, &own);
                    assert!(status == 200 && body.contains(&own), "{status} {body}");
                    assert!(!body.contains(&format!("client {} ", 1 - index)), "{body}");
                    let (_, body) = server_call(session, &format!("client {index} without a session {id}"));
                    assert!(body.contains(&format!("client {index} without")), "{body}");
                }
            });
        }
    });
    for (index, session) in sessions.iter().enumerate() {
        let (_, journal) = session.request(90, "resources/read", json!({"uri": "helve://journal"}));
        assert!(journal.contains(&format!("client {index} number 2")), "{journal}");
        assert!(!journal.contains(&format!("client {} ", 1 - index)), "{journal}");
    }
    // Neither by its name nor by guessing does one get at the other's session.
    let stolen = Session { server: &server, token: two, id: sessions[0].id.clone() };
    assert_eq!(stolen.echo(91, "mine now").0, 404);
    assert_eq!(stolen.send("DELETE", "").0, 404);
    assert!(stolen.listen().1.starts_with("HTTP/1.1 404"));
    assert_eq!(sessions[0].echo(92, "still mine").0, 200);
}

fn server_call(session: &Session<'_>, message: &str) -> (u16, String) {
    session.server.call(&session.token, &[], message)
}

#[test]
fn mc_020_streams_and_half_open_connections_are_counted() {
    let place = Place::new();
    let (server, [one, two, three]) = with_clients(&place);
    // One client opens streams until it is told to stop.
    let mut streams = Vec::new();
    let refused = (0..2000).find_map(|_| {
        let session = Session::open(&server, &one).ok()?;
        streams.push(session.listen());
        let (_, answer) = streams.last()?;
        answer.starts_with("HTTP/1.1 429").then_some(())
    });
    let opened = streams.len();
    assert!(refused.is_some() || Session::open(&server, &one).is_err(), "{opened} streams were opened");
    // Another one does not notice.
    let other =
        Session::open(&server, &two).unwrap_or_else(|status| panic!("{status} after {opened} streams"));
    assert!(other.echo(2, "served").1.contains("served"));
    // Connections that say nothing, or half of it, give way to one that does.
    let silent: Vec<TcpStream> = (0..1500)
        .map_while(|number| {
            let mut stream = TcpStream::connect(server.address).ok()?;
            if number % 2 == 0 {
                let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: loc");
            }
            if number % 3 == 0 {
                let _ = stream.shutdown(Shutdown::Write);
            }
            Some(stream)
        })
        .collect();
    let from = Instant::now();
    let (status, body) = server.call(&three, &[], "served too");
    assert!(
        status == 200 && body.contains("served too"),
        "beside {} silent ones: {status} {body}",
        silent.len()
    );
    assert!(from.elapsed() < Duration::from_secs(5), "{:?}", from.elapsed());
    assert!(other.echo(3, "still served").1.contains("still served"));
    drop((silent, streams));
}

#[test]
fn sessions_that_were_left_behind_lock_nobody_out() {
    let place = Place::new();
    let (server, [one, two, _]) = with_clients(&place);
    let other = Session::open(&server, &two).unwrap();
    let oldest = Session::open(&server, &one).unwrap();
    let listening = Session::open(&server, &one).unwrap();
    let (_stream, begun) = listening.listen();
    assert!(begun.starts_with("HTTP/1.1 200"), "{begun}");
    // More than one client may have.
    for number in 0..80 {
        let session = Session::open(&server, &one);
        assert!(session.is_ok(), "{number}: {:?}", session.err());
    }
    let last = Session::open(&server, &one).unwrap();
    assert_eq!(oldest.echo(2, "gone").0, 404);
    for session in [&listening, &last, &other] {
        assert!(session.echo(2, "still mine").1.contains("still mine"));
    }
    assert_eq!((last.send("DELETE", "").0, last.send("DELETE", "").0), (202, 404));
}

#[test]
fn a_body_that_comes_in_drops_holds_up_nobody() {
    let place = Place::new();
    let (server, [one, two, _]) = with_clients(&place);
    let mut slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = server.connect();
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {one}\r\nContent-Length: 100000\r\n\r\n{{"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    for stream in &mut slow {
        let _ = stream.write_all(b" ");
    }
    let (status, body) = server.call(&two, &[], "served");
    assert!(status == 200 && body.contains("served"), "{status} {body}");
}
