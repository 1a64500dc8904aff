//! MCP servers on this machine, where the environment names a proxy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use support::Place;

/// Listens, notes the head of every request, and answers each of them with the same; gives its address and the notes.
fn listen(answer: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut read = BufReader::new(stream.unwrap());
            let head: Vec<String> =
                read.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            notes.lock().unwrap().push(head.join("\n"));
            let _ = read.get_mut().write_all(answer.as_bytes());
        }
    });
    (address, heads)
}

/// What goes to this machine goes there, and tells the proxy nothing: neither a token nor what a sign-in needs.
#[test]
fn no_proxy_hears_of_a_server_on_this_machine() {
    const NO: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const SIGN_IN: &str = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (settings, says, asked) in [
        ("bearer_token_env = \"TOKEN\"", NO, "POST /mcp"),
        ("bearer_token_env = \"TOKEN\"\ntransport = \"sse\"", NO, "GET /mcp"),
        ("oauth = true", SIGN_IN, "POST /register"),
    ] {
        let (proxy, proxied) = listen(NO);
        let (server, heard) = listen(says);
        let place = Place::new();
        place.configure(&format!("[mcp.servers.s]\nurl = \"http://{server}/mcp\"\n{settings}\n"));
        let mut helve = place.helve();
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            helve.env(name, format!("http://{proxy}"));
        }
        helve.env("TOKEN", "a-secret-token").args(["mcp", "test", "s"]).output().unwrap();
        assert_eq!(*proxied.lock().unwrap(), Vec::<String>::new(), "{settings}");
        let heard = heard.lock().unwrap();
        assert!(heard.iter().any(|head| head.starts_with(asked)), "{settings}: {heard:?}");
    }
}
