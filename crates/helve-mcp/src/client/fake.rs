//! Servers for tests: a script that runs on the far ends of the pipes, in a thread instead of a sandbox.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve_core::call::CallId;
use helve_core::servers::{ServerMay, StdioServer, Transport, WorkspaceUse};
use helve_core::{
    Attach, BoxFuture, Cancel, Ended, Exit, OutputSink, Progress, SandboxReport, ServerCall, ServerSpec,
    ShellBackend, ShellJob, ToolError,
};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::{Fleet, FleetLimits, FleetParts, Hide, Launched, Pin, PinStore, ServerLog, TokenStore};

/// The far ends.
pub(super) struct Io {
    read: BufReader<File>,
    pub(super) write: File,
    pub(super) complain: File,
    /// Which start of the server this is, from 0.
    pub(super) start: usize,
}

impl Io {
    /// The next message; none at the end.
    pub(super) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.read.read_line(&mut line) {
            Ok(1..) => Some(serde_json::from_str(&line).unwrap()),
            _ => None,
        }
    }

    pub(super) fn say(&mut self, message: &Value) {
        let _ = self.write.write_all(format!("{message}\n").as_bytes());
    }

    pub(super) fn answer(&mut self, to: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": to["id"], "result": result}));
    }

    /// Answers what every server answers: the beginning in the older era, and the list of tools. Gives what is left.
    pub(super) fn next_call(&mut self, tools: &Value) -> Option<Value> {
        loop {
            let message = self.next_any()?;
            match message["method"].as_str().unwrap_or_default() {
                "tools/list" => self.answer(&message, json!({ "tools": tools })),
                _ => return Some(message),
            }
        }
    }

    /// The same without the list.
    pub(super) fn next_any(&mut self) -> Option<Value> {
        loop {
            let message = self.next()?;
            match message["method"].as_str().unwrap_or_default() {
                "server/discover" => self.say(&json!({"jsonrpc": "2.0", "id": message["id"],
                    "error": {"code": -32601, "message": "no such method"}})),
                "initialize" => self.answer(&message, json!({"protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {"listChanged": true}}, "serverInfo": {"name": "fake", "version": "1"}})),
                "notifications/initialized" => {}
                _ => return Some(message),
            }
        }
    }
}

/// The tools of most scripts.
pub(super) fn echo_tool(description: &str) -> Value {
    json!([{"name": "echo", "description": description, "inputSchema": {"type": "object"}}])
}

/// A result that is one text.
pub(super) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

type Script = Arc<dyn Fn(&mut Io) + Send + Sync>;

/// A sandbox that runs a script.
pub(super) struct Fake {
    script: Script,
    pub(super) starts: AtomicUsize,
}

fn report() -> SandboxReport {
    SandboxReport { backend: "fake".to_owned(), layers: Vec::new() }
}

impl ShellBackend for Fake {
    fn report(&self) -> SandboxReport {
        report()
    }

    fn contains(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        _job: ShellJob,
        _sink: Box<dyn OutputSink>,
        _cancel: Cancel,
    ) -> BoxFuture<'a, Result<Ended, ToolError>> {
        Box::pin(async { Err(ToolError::internal("a fake runs no commands")) })
    }

    fn attach<'a>(&'a self, program: Attach, cancel: Cancel) -> BoxFuture<'a, Result<Ended, ToolError>> {
        let [stdin, stdout, stderr] = program.streams;
        let start = self.starts.fetch_add(1, Ordering::SeqCst);
        let mut io =
            Io { read: BufReader::new(stdin.into()), write: stdout.into(), complain: stderr.into(), start };
        let script = Arc::clone(&self.script);
        Box::pin(async move {
            let (told, ended) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                script(&mut io);
                drop(io);
                let _ = told.send(());
            });
            tokio::select! {
                _ = ended => Ok(Ended::plain(Exit::Code(3), report())),
                () = cancel.cancelled() => Ok(Ended::plain(Exit::Cancelled, report())),
            }
        })
    }
}

/// Keeps everything in memory.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) pins: Mutex<Option<Vec<Pin>>>,
    pub(super) events: Mutex<Vec<String>>,
    pub(super) complaints: Mutex<Vec<u8>>,
}

impl PinStore for Memory {
    fn pins(&self, _server: &str) -> Result<Option<Vec<Pin>>, ToolError> {
        Ok(self.pins.lock().unwrap().clone())
    }

    fn pin(&self, _server: &str, pins: Vec<Pin>) -> Result<(), ToolError> {
        let mut all = self.pins.lock().unwrap();
        let all = all.get_or_insert_default();
        all.retain(|old| !pins.iter().any(|new| new.tool == old.tool));
        all.extend(pins);
        Ok(())
    }
}

impl TokenStore for Memory {
    fn get(&self, _key: &str) -> Result<Option<String>, ToolError> {
        Ok(None)
    }

    fn set(&self, _key: &str, _value: &str) -> Result<(), ToolError> {
        Ok(())
    }

    fn remove(&self, _key: &str) -> Result<(), ToolError> {
        Ok(())
    }
}

impl ServerLog for Memory {
    fn stderr(&self, _server: &str, bytes: &[u8]) {
        self.complaints.lock().unwrap().extend(bytes);
    }

    fn event(&self, _server: &str, kind: &'static str, text: &str) {
        self.events.lock().unwrap().push(format!("{kind}: {text}"));
    }
}

/// A server on standard streams.
pub(super) fn spec(name: &str) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        transport: Transport::Stdio(StdioServer {
            command: "fake".to_owned(),
            args: Vec::new(),
            working_dir: None,
            env: Default::default(),
            read: Vec::new(),
            write: Vec::new(),
            workspace: WorkspaceUse::Read,
            network: false,
        }),
        start_timeout: Duration::from_secs(5),
        call_timeout: Duration::from_secs(5),
        trusted: false,
        parallel: false,
        allow: None,
        deny: Vec::new(),
        off: Default::default(),
        approval: None,
        tool_approval: Default::default(),
        rate_limit: None,
        may: ServerMay::default(),
        origin: "test".to_owned(),
    }
}

/// What nobody is to see.
pub(super) const SECRET: &str = "geheim-4711";

pub(super) fn hide() -> Hide {
    Arc::new(|value| {
        let text = value.to_string();
        if text.contains(SECRET) {
            *value = serde_json::from_str(&text.replace(SECRET, "[hidden]")).unwrap();
        }
    })
}

/// A fleet of one server, what it keeps, and its sandbox.
pub(super) fn fleet(
    spec: ServerSpec,
    script: impl Fn(&mut Io) + Send + Sync + 'static,
) -> (Arc<Fleet>, Arc<Memory>, Arc<Fake>) {
    let memory = Arc::new(Memory::default());
    let fake = Arc::new(Fake { script: Arc::new(script), starts: AtomicUsize::new(0) });
    (fleet_with(vec![spec], &memory, &fake), memory, fake)
}

/// A fleet with a memory that may have been another's.
pub(super) fn fleet_with(specs: Vec<ServerSpec>, memory: &Arc<Memory>, fake: &Arc<Fake>) -> Arc<Fleet> {
    let backend = Arc::clone(fake);
    let parts = FleetParts {
        launch: Arc::new(move |_, _| Ok(Launched { backend: Arc::clone(&backend) as _, working_dir: None })),
        contains: true,
        pins: Arc::clone(memory) as _,
        tokens: Arc::clone(memory) as _,
        log: Arc::clone(memory) as _,
        hide: hide(),
        owner: None,
        workspace: None,
        limits: FleetLimits { frame_bytes: 1 << 20, tools: 100 },
    };
    Fleet::new(specs, parts)
}

/// A call of a tool.
pub(super) fn call(server: &str, tool: &str, args: Value) -> ServerCall {
    ServerCall {
        server: server.to_owned(),
        act: helve_core::ServerAct::CallTool,
        tool: tool.to_owned(),
        args,
        progress: Progress::new(CallId::from_parts(1, 1), None),
        cancel: Cancel::never(),
        peer: None,
    }
}

/// One request over HTTP: its head, and its body.
pub(super) async fn heard(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let head = loop {
        if let Some(at) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&read[..head]).into_owned();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + length.unwrap_or(0);
    while read.len() < end {
        stream.read_buf(&mut read).await.ok()?;
    }
    Some((text, read[head..end].to_vec()))
}
