//! An MCP client over standard streams, as plain as can be.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::Place;

pub(crate) const MODERN: &str = "2026-07-28";

/// What each request of the newer era carries.
pub(crate) fn modern_meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    })
}

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    next: u64,
    /// Goes into each request.
    pub(crate) meta: Option<Value>,
    answers: HashMap<u64, Value>,
    others: Vec<Value>,
}

impl Client {
    pub(crate) fn start(place: &Place, settings: &[&str]) -> Client {
        Client::with(place, &[], settings)
    }

    pub(crate) fn with(place: &Place, options: &[&str], settings: &[&str]) -> Client {
        let mut command = place.helve();
        command.arg("mcp").args(options);
        for setting in settings {
            command.args(["--set", setting]);
        }
        Client::of(command)
    }

    /// The client of a server that this command starts.
    pub(crate) fn of(mut command: Command) -> Client {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (to, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Standard output carries the protocol and nothing else.
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
                if to.send(message).is_err() {
                    return;
                }
            }
        });
        let (answers, others) = (HashMap::new(), Vec::new());
        Client { input: child.stdin.take(), child, lines, next: 0, meta: None, answers, others }
    }

    pub(crate) fn raw(&mut self, line: &str) {
        // In one write.
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        self.raw(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}).to_string());
        self.next
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.raw(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    pub(crate) fn answer(&mut self, id: &Value, result: Value) {
        self.raw(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }

    fn receive(&mut self) {
        let message = self.lines.recv_timeout(Duration::from_secs(30)).unwrap();
        match message["id"].as_u64().filter(|_| message.get("method").is_none()) {
            Some(id) => {
                assert!(self.answers.insert(id, message).is_none(), "two answers to {id}");
            }
            None => self.others.push(message),
        }
    }

    /// The whole response to a request.
    pub(crate) fn wait(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            self.receive();
        }
    }

    /// The next request of the server's own.
    pub(crate) fn asked(&mut self, method: &str) -> Value {
        loop {
            let found =
                self.others.iter().position(|other| other["method"] == method && other.get("id").is_some());
            if let Some(at) = found {
                return self.others.remove(at);
            }
            self.receive();
        }
    }

    /// Waits for a notification.
    pub(crate) fn told(&mut self, method: &str) {
        while self.notifications(method).is_empty() {
            self.receive();
        }
    }

    /// The notifications that came so far.
    pub(crate) fn notifications(&self, method: &str) -> Vec<Value> {
        self.others.iter().filter(|other| other["method"] == method).cloned().collect()
    }

    pub(crate) fn response(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.wait(id)
    }

    /// The result of a request that has one.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.response(method, params);
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    pub(crate) fn initialize(&mut self, capabilities: Value) -> Value {
        let hello = self.request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": {"name": "tests", "version": "1"}}),
        );
        self.notify("notifications/initialized", json!({}));
        hello
    }

    pub(crate) fn call(&mut self, tool: &str, args: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": args}))
    }

    /// The response to a call, once the server behind it is there.
    pub(crate) fn call_when_started(&mut self, tool: &str, args: &Value) -> Value {
        loop {
            let response = self.response("tools/call", json!({"name": tool, "arguments": args}));
            if !response.to_string().contains("is still being started") {
                return response;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// All pages of the list of tools.
    pub(crate) fn tools(&mut self) -> Vec<Value> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        loop {
            let mut page = self.request("tools/list", params);
            tools.append(page["tools"].as_array_mut().unwrap());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return tools,
            }
        }
    }

    /// Everything that came and is no answer.
    pub(crate) fn others(&self) -> &[Value] {
        &self.others
    }

    /// The number of the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the server a signal.
    pub(crate) fn tell(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Kills the server.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the input and waits for the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
