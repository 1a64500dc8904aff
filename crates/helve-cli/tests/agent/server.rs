//! A server that speaks as OpenAI's does, on this machine, with answers that a test wrote down.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What the server was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) authorization: Option<String>,
    /// What it was sent in any header in which a provider wants its key.
    pub(crate) keys: String,
    pub(crate) body: Value,
}

/// One answer.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Words, in pieces.
    Text(Vec<&'static str>),
    /// A call: its id, the tool, the arguments.
    Call(&'static str, &'static str, Value),
    /// The beginning of an answer, and then nothing for a long time.
    Silence,
    /// One event, as it stands.
    Event(Value),
    /// A status and a message.
    Fails(u16, &'static str),
}

/// The server; it ends with the test program.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers in this order, and with the last one from then on.
    pub(crate) fn start(replies: Vec<Reply>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, replies) = (Arc::clone(&seen), replies.clone());
                std::thread::spawn(move || serve(stream, &seen, &replies));
            }
        });
        Server { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request on one connection. Whoever hangs up is not answered.
fn serve(stream: TcpStream, seen: &Mutex<Vec<Asked>>, replies: &[Reply]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut authorization, mut keys, mut length) = (None, String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => {
                authorization = Some(value.to_owned());
                keys.push_str(value);
            }
            "x-api-key" | "x-goog-api-key" => keys.push_str(value),
            "content-length" => length = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let count = {
        let mut seen = seen.lock().unwrap();
        seen.push(Asked { authorization, keys, body });
        seen.len()
    };
    let reply = replies.get(count - 1).or(replies.last()).unwrap();
    let _ = answer(stream, reply);
}

fn answer(mut stream: TcpStream, reply: &Reply) -> std::io::Result<()> {
    if let Reply::Fails(status, message) = reply {
        let body = json!({"error": {"message": message}}).to_string();
        return write!(
            stream,
            "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
    }
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    let mut event = |delta: Value, finish: Option<&str>| {
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "model": "served",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        write!(stream, "data: {chunk}\n\n").and_then(|()| stream.flush())
    };
    match reply {
        Reply::Text(pieces) => {
            for piece in pieces {
                event(json!({"role": "assistant", "content": piece}), None)?;
            }
            event(json!({}), Some("stop"))?;
        }
        Reply::Call(id, name, args) => {
            let function = json!({"name": name, "arguments": args.to_string()});
            let call = json!({"index": 0, "id": id, "type": "function", "function": function});
            event(json!({"role": "assistant", "tool_calls": [call]}), None)?;
            event(json!({}), Some("tool_calls"))?;
        }
        Reply::Silence => {
            event(json!({"role": "assistant", "content": "Wait"}), None)?;
            std::thread::sleep(Duration::from_secs(60));
        }
        Reply::Event(told) => write!(stream, "data: {told}\n\n")?,
        Reply::Fails(..) => {}
    }
    let usage = json!({"id": "x", "object": "chat.completion.chunk", "model": "served", "choices": [],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}});
    write!(stream, "data: {usage}\n\ndata: [DONE]\n\n")
}
