//! What servers tell beside their answers, over each of the ways that there are: all of it, in its order, before the answer.

use super::super::Fleet;
use super::super::failure::Broken;
use super::super::fake::{Io, Memory, call, echo_tool, fleet, heard, spec, text};
use super::super::frame::{Ending, Streams};
use super::super::questions::Underway;
use super::super::seat::Session;
use super::super::tests_http::fleet as fleet_at;
use super::*;
use helve_core::context::ProgressNote;
use helve_core::{
    BoxFuture, CallId, LogLevel, Peer, Progress, QuestionKind, ServerCall, Servers as _, ToolError,
};
use pretty_assertions::assert_eq;
use rmcp::model::{NumberOrString, ProgressToken, RequestId};
use rmcp::transport::Transport as _;
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// More than is heard at a time, many times over, and more than any buffer on the way holds.
const MANY: usize = 500;

/// Hears what is logged.
#[derive(Default)]
struct Listener(Mutex<Vec<Value>>);

impl Peer for Listener {
    fn takes(&self, _: QuestionKind) -> bool {
        false
    }

    fn ask<'a>(&'a self, _: &'a str, _: QuestionKind, _: Value) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async { Err(ToolError::internal("nothing is asked here")) })
    }

    fn log(&self, _: LogLevel, _: Option<&str>, data: Value) {
        self.0.lock().unwrap().push(data);
    }
}

/// A call that is listened to.
fn listened() -> (ServerCall, mpsc::Receiver<ProgressNote>, Arc<Listener>) {
    let (notes, told) = mpsc::channel(MANY);
    let listener = Arc::new(Listener::default());
    let mut asked = call("s", "echo", json!({}));
    asked.progress = Progress::new(CallId::from_parts(1, 1), Some(notes));
    asked.peer = Some(Arc::clone(&listener) as _);
    (asked, told, listener)
}

fn progress(token: &Value, step: usize) -> Value {
    let params =
        json!({"progressToken": token, "progress": step, "total": MANY, "message": step.to_string()});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn logged(step: usize) -> Value {
    let params = json!({"level": "info", "data": step.to_string()});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
}

/// All that is told on behalf of a call, and the answer to it.
fn story(asked: &Value) -> Vec<Value> {
    let token = &asked["params"]["_meta"]["progressToken"];
    let told = (0..MANY).flat_map(|step| [progress(token, step), logged(step)]);
    told.chain([json!({"jsonrpc": "2.0", "id": asked["id"], "result": text("done")})]).collect()
}

/// What was heard by when the answer is there.
async fn is_heard_in_order(fleet: &Fleet) {
    let (asked, mut told, listener) = listened();
    let reply = fleet.call(asked).await.unwrap();
    assert_eq!(helve_core::output::join_text(&reply.content), "done");
    let heard: Vec<f64> = std::iter::from_fn(|| told.try_recv().ok()?.done).collect();
    assert_eq!(heard, (0..MANY).map(|step| step as f64).collect::<Vec<_>>());
    let logged = listener.0.lock().unwrap().clone();
    assert_eq!(logged, (0..MANY).map(|step| Value::String(step.to_string())).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_process_is_heard_in_order() {
    let (fleet, memory, _) = fleet(spec("s"), |io: &mut Io| {
        while let Some(message) = io.next_call(&echo_tool("tells")) {
            if message["method"] == "tools/call" {
                // Written as one piece, so that much of it is read together.
                let lines: String = story(&message).iter().map(|line| format!("{line}\n")).collect();
                let _ = std::io::Write::write_all(&mut io.write, lines.as_bytes());
            }
        }
    });
    is_heard_in_order(&fleet).await;
    let events = memory.events.lock().unwrap().clone();
    let notes: Vec<&str> = events.iter().filter_map(|event| event.strip_prefix("note: ")).collect();
    assert_eq!(notes, (0..MANY).map(|step| step.to_string()).collect::<Vec<_>>());
}

/// A server at an address: in the older HTTP everything comes as events of one stream, in the newer in answer to each message.
async fn at_an_address(two_addresses: bool) -> Arc<Fleet> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (to_client, messages) = mpsc::channel::<Vec<Value>>(8);
    let messages = Arc::new(tokio::sync::Mutex::new(messages));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (to_client, messages) = (to_client.clone(), Arc::clone(&messages));
            tokio::spawn(async move {
                let events = |all: &[Value]| -> String {
                    all.iter().map(|message| format!("event: message\ndata: {message}\n\n")).collect()
                };
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
                while let Some((line, body)) = heard(&mut stream).await {
                    if line.starts_with("GET") && two_addresses {
                        let begin = format!("{head}\r\nevent: endpoint\ndata: /mcp\n\n");
                        stream.write_all(begin.as_bytes()).await.unwrap();
                        while let Some(all) = messages.lock().await.recv().await {
                            stream.write_all(events(&all).as_bytes()).await.unwrap();
                        }
                        return;
                    }
                    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let answer =
                        |result| vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": result})];
                    let said = match message["method"].as_str().unwrap_or_default() {
                        "initialize" => {
                            answer(json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "far", "version": "1"}}))
                        }
                        "tools/list" => answer(json!({"tools": echo_tool("tells")})),
                        "tools/call" => story(&message),
                        "server/discover" => vec![json!({"jsonrpc": "2.0", "id": message["id"],
                            "error": {"code": -32601, "message": "no such method"}})],
                        _ => Vec::new(),
                    };
                    let sent = if said.is_empty() || two_addresses {
                        "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned()
                    } else {
                        let body = events(&said);
                        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
                    };
                    stream.write_all(sent.as_bytes()).await.unwrap();
                    if two_addresses && !said.is_empty() {
                        to_client.send(said).await.unwrap();
                    }
                }
            });
        }
    });
    fleet_at(url, two_addresses)
}

#[tokio::test]
async fn a_server_at_an_address_is_heard_in_order() {
    is_heard_in_order(&*at_an_address(false).await).await;
}

#[tokio::test]
async fn a_server_at_two_addresses_is_heard_in_order() {
    is_heard_in_order(&*at_an_address(true).await).await;
}

/// Nobody has to wait for the loop, which is not there, and others have their turn meanwhile.
#[tokio::test]
async fn a_call_hears_what_it_reads_and_gives_others_their_turn() {
    let (mut server, ours) = tokio::io::duplex(1 << 20);
    let notices = Arc::new(Notices::new("s", Arc::new(Memory::default())));
    let streams =
        Streams::new(ours, tokio::io::sink(), 1 << 20, Ending::default()).telling(Arc::clone(&notices));
    let (call, mut told, _) = listened();
    let begin = |token, id| notices.calls().begin(token, id, Underway::of(&call, Session::default()));
    let mut asked = streams.straight().send(&call, begin).unwrap();
    let request = json!({"id": asked.id(), "params": {"_meta": {"progressToken": asked.token()}}});
    let lines: String = story(&request).iter().map(|line| format!("{line}\n")).collect();
    server.write_all(lines.as_bytes()).await.unwrap();
    let listens = async {
        for _ in 0..MANY {
            told.recv().await.unwrap();
        }
    };
    let mut turns = 0;
    let others = async {
        loop {
            tokio::task::yield_now().await;
            turns += 1;
        }
    };
    let answered = tokio::time::timeout(Duration::from_secs(10), async {
        tokio::select! {
            (answer, ()) = async { tokio::join!(asked.answer(), listens) } => answer.is_ok(),
            () = others => false,
        }
    });
    assert!(answered.await.unwrap());
    assert!(turns >= MANY / AT_A_TIME as usize, "others had {turns} turns");
}

/// The loop sends a request before who makes the call is told its number.
#[test]
fn what_comes_before_its_call_is_known_is_told_when_it_is() {
    let notices = Notices::new("s", Arc::new(Memory::default()));
    let hear = |message: Value| notices.hear(&serde_json::from_value(message).unwrap());
    for step in 0..3 {
        assert_eq!(hear(progress(&json!(7), step)), Heard::Done);
        assert_eq!(hear(progress(&json!("x".repeat(100_000)), step)), Heard::Done);
        assert_eq!(hear(progress(&json!(8), step)), Heard::Done);
    }
    let (call, mut told, _) = listened();
    let number = NumberOrString::Number(7);
    notices.calls().begin(
        ProgressToken(number.clone()),
        RequestId::from(number),
        Underway::of(&call, Session::default()),
    );
    hear(progress(&json!(7), 3));
    let heard: Vec<f64> = std::iter::from_fn(|| told.try_recv().ok()?.done).collect();
    assert_eq!(heard, [0.0, 1.0, 2.0, 3.0]);
    // Of what belongs to no call the last is kept, and no more of it than so much.
    for step in 0..1_000 {
        hear(progress(&json!(9), step));
    }
    let (call, mut told, _) = listened();
    let number = NumberOrString::Number(9);
    notices.calls().begin(
        ProgressToken(number.clone()),
        RequestId::from(number),
        Underway::of(&call, Session::default()),
    );
    let heard: Vec<f64> = std::iter::from_fn(|| told.try_recv().ok()?.done).collect();
    assert_eq!(heard, (936..1_000).map(f64::from).collect::<Vec<_>>());
}

/// Far too many end the connection, and until then cost no more than reading them.
#[tokio::test(start_paused = true)]
async fn a_flood_is_cut_and_then_ends_it() {
    let memory = Arc::new(Memory::default());
    let notices = Arc::new(Notices::new("s", Arc::clone(&memory) as _));
    let (mut server, ours) = tokio::io::duplex(1 << 16);
    let ending = Ending::default();
    let mut streams = Streams::new(ours, tokio::io::sink(), 1 << 20, ending.clone()).telling(notices);
    let floods = tokio::spawn(async move {
        let line = format!("{}\n", logged(1)).repeat(100);
        while server.write_all(line.as_bytes()).await.is_ok() {}
    });
    assert!(streams.receive().await.is_none());
    assert_eq!(ending.why(), Some(Broken::Flood));
    assert_eq!(memory.events.lock().unwrap().len(), 4096);
    drop(streams);
    floods.await.unwrap();
}
