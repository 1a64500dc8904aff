//! `helve serve`, started and spoken to by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::{MODERN, modern_meta};
use crate::support::Place;

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl Server {
    pub(crate) fn start(place: &Place) -> Server {
        Server::with(place, &[])
    }

    pub(crate) fn with(place: &Place, options: &[&str]) -> Server {
        let mut command = place.helve();
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(options);
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

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Status, head and body of a request with these headers.
    pub(crate) fn request(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
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

    /// The same with the usual headers of a client that has this token, or others in their place, and more.
    pub(crate) fn say(
        &self,
        method: &str,
        token: &str,
        more: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
        let bearer = format!("Bearer {token}");
        let usual = [
            ("Host", "localhost"),
            ("Authorization", bearer.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        let is_given = |name: &str| more.iter().any(|(given, _)| *given == name);
        let mut headers: Vec<_> = usual.into_iter().filter(|(name, _)| !is_given(name)).collect();
        headers.extend_from_slice(more);
        self.request(method, &headers, body)
    }

    /// A call without a session, as a client of the newer era makes it.
    pub(crate) fn call(&self, token: &str, more: &[(&str, &str)], message: &str) -> (u16, String) {
        let mut headers =
            vec![("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
        headers.extend_from_slice(more);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"message": message}, "_meta": modern_meta(json!({})),
        }});
        let (status, _, body) = self.say("POST", token, &headers, &body.to_string());
        (status, body)
    }

    pub(crate) fn tell(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the exit code.
    pub(crate) fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn stop(self, signal: Signal) -> Option<i32> {
        self.tell(signal);
        self.ended()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many calls stand in the journals of a place.
pub(crate) fn calls(place: &Place) -> usize {
    place.run(&["log", "--json"]).stdout.lines().count()
}
