//! What a hostile client may write to the server face: no panic, it ends with its input, and whatever it answers is one
//! JSON-RPC message a line.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::task::Context;

use helve_core::call::CallId;
use helve_core::context::ProgressNote;
use helve_core::{Args, BoxFuture, Call, CallResult, Cancel, LogLevel, Peer, ToolError, ToolSpec};
use helve_mcp::server::{AtOnce, Card, Host, HostCall, Hosts, Stand, Taken, serve_streams};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

/// Lines that begin a session, so that what follows is looked at.
const BEGINNING: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

struct One {
    version: watch::Sender<u64>,
}

impl Hosts for One {
    fn card(&self) -> Card {
        Card {
            name: "s".to_owned(),
            version: "1".to_owned(),
            prompts: true,
            completions: true,
            ..Card::default()
        }
    }

    fn session(&self, _client: &str) -> Result<Arc<dyn Host>, ToolError> {
        Ok(Arc::new(One { version: watch::Sender::new(0) }))
    }

    fn standing(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        self.session(client)
    }
}

impl Host for One {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        static TOOL: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
            let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
            Arc::new(ToolSpec::new("t", "A tool.", schema))
        });
        vec![Arc::clone(&TOOL)]
    }

    fn tools_version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn call(&self, call: HostCall) -> BoxFuture<'_, Box<CallResult>> {
        Box::pin(async move { done(call.call) })
    }

    fn at_once(&self, _client: &str, peer: Arc<dyn Peer>) -> Option<Box<dyn AtOnce>> {
        Some(Box::new(Together { peer, sent: Vec::new(), next: 0 }))
    }
}

/// Takes every other tool, lets calls without arguments wait, and sends those with one, which tell how far they are and are done when
/// they are polled.
struct Together {
    peer: Arc<dyn Peer>,
    sent: Vec<(u64, Box<CallResult>)>,
    next: u64,
}

impl AtOnce for Together {
    fn takes(&self, tool: &str) -> bool {
        tool.len() % 2 == 1
    }

    fn calls(&mut self, calls: Vec<Taken>) -> Vec<Stand> {
        let stand = |Taken { call, progress }| match &call.args {
            Args::Value(Value::Object(args)) if args.is_empty() => {
                Stand::Waits(Box::new(|_| Box::pin(async { done(call) })))
            }
            Args::Value(Value::Object(args)) if args.len() == 1 => {
                self.next += 1;
                if let Some(progress) = progress {
                    let (message, call) = (call.tool.clone(), CallId::from_parts(1, 1));
                    let note = ProgressNote { call, message, done: Some(1.0), total: None, output: None };
                    let _ = progress.try_send(note);
                }
                self.sent.push((self.next, done(call)));
                Stand::Sent(self.next)
            }
            _ => Stand::Done(done(call)),
        };
        calls.into_iter().map(stand).collect()
    }

    fn poll(&mut self, _poller: &mut Context<'_>) -> Vec<(u64, Box<CallResult>)> {
        if !self.sent.is_empty() {
            self.peer.log(LogLevel::Info, None, json!("done"));
        }
        std::mem::take(&mut self.sent)
    }

    fn settle(&mut self) {}

    fn take_back(&mut self, number: u64) {
        self.sent.retain(|(own, _)| *own != number);
    }
}

fn done(call: Call) -> Box<CallResult> {
    Box::new(CallResult { id: call.id, ..CallResult::saying(CallId::from_parts(1, 1), call.tool, "done") })
}

fuzz_target!(|input: (bool, &[u8])| {
    let (begins, bytes) = input;
    let mut said = if begins { BEGINNING.to_vec() } else { Vec::new() };
    said.extend_from_slice(bytes);
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let answers = executor.block_on(async {
        let (mut to_server, input) = tokio::io::duplex(1 << 12);
        let (output, mut from_server) = tokio::io::duplex(1 << 12);
        let hosts = Arc::new(One { version: watch::Sender::new(0) });
        let never = Cancel::never();
        let serving = serve_streams(hosts, input, output, 1 << 16, &never);
        let writing = async move {
            let _ = to_server.write_all(&said).await;
        };
        let reading = async {
            let mut answers = Vec::new();
            let _ = from_server.read_to_end(&mut answers).await;
            answers
        };
        let (_, (), answers) = tokio::join!(serving, writing, reading);
        answers
    });
    for line in answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let answer: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(answer["jsonrpc"], "2.0");
    }
});
