//! Servers at an address: the older HTTP with two addresses, bodies without end, and redirects that lead away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use helve_core::servers::{HttpServer, Transport};
use helve_core::{ErrorKind, ServerSpec, Servers};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};

use super::fake::{Memory, call, echo_tool, heard, hide, spec, text};
use super::{Era, Fleet, FleetLimits, FleetParts};

/// One request: its line in small letters, and its body.
async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (head, body) = heard(stream).await?;
    Some((head.lines().next().unwrap_or_default().to_lowercase(), body))
}

fn answer(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"}}),
        "tools/list" => json!({"tools": echo_tool("says it again")}),
        "tools/call" => text(message["params"]["arguments"]["say"].as_str().unwrap_or_default()),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

pub(super) fn fleet(url: String, sse: bool) -> Arc<Fleet> {
    let memory = Arc::new(Memory::default());
    let server = ServerSpec {
        transport: Transport::Http(HttpServer {
            url,
            headers: Default::default(),
            bearer: Some("a token".to_owned()),
            oauth: false,
            oauth_client: None,
            sse,
        }),
        ..spec("s")
    };
    let parts = FleetParts {
        launch: Arc::new(|_, _| Err(helve_core::ToolError::internal("nothing is started here"))),
        contains: true,
        pins: Arc::clone(&memory) as _,
        tokens: Arc::clone(&memory) as _,
        log: memory as _,
        hide: hide(),
        owner: None,
        workspace: None,
        limits: FleetLimits { frame_bytes: 1 << 20, tools: 100 },
    };
    Fleet::new(vec![server], parts)
}

#[tokio::test]
async fn the_older_http_with_two_addresses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let to_client: Arc<Mutex<Option<mpsc::Sender<Value>>>> = Arc::default();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let to_client = Arc::clone(&to_client);
            tokio::spawn(async move {
                while let Some((line, body)) = request(&mut stream).await {
                    if line.starts_with("get /sse") {
                        let (send, mut messages) = mpsc::channel::<Value>(8);
                        *to_client.lock().await = Some(send);
                        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /post?s=1\n\n";
                        stream.write_all(head.as_bytes()).await.unwrap();
                        while let Some(message) = messages.recv().await {
                            let event = format!("event: message\ndata: {message}\n\n");
                            stream.write_all(event.as_bytes()).await.unwrap();
                        }
                        return;
                    }
                    assert!(line.starts_with("post /post?s=1"), "{line}");
                    stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await.unwrap();
                    if let Some(answer) = answer(&serde_json::from_slice(&body).unwrap()) {
                        let _ = to_client.lock().await.as_ref().unwrap().send(answer).await;
                    }
                }
            });
        }
    });
    let fleet = fleet(url, true);
    let reply = fleet.call(call("s", "echo", json!({"say": "over two addresses"}))).await.unwrap();
    assert_eq!(helve_core::output::join_text(&reply.content), "over two addresses");
    let look = fleet.look("s").await.unwrap();
    assert_eq!((look.era, look.version.as_str()), (Era::Stateful, "2024-11-05"));
}

#[tokio::test]
async fn a_second_address_of_another_origin_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: http://127.0.0.1:1/steal\n\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let _ = request(&mut stream).await;
    });
    let error = fleet(url, true).look("s").await.unwrap_err();
    assert!(error.message.contains("another origin"), "{error}");
}

#[tokio::test]
async fn a_body_without_end_is_given_up_at_the_cap() {
    for kind in ["application/json", "text/event-stream"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    request(&mut stream).await;
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\ndata: ");
                    let _ = stream.write_all(head.as_bytes()).await;
                    let chunk = vec![b'x'; 1 << 16];
                    while stream.write_all(&chunk).await.is_ok() {
                        count.fetch_add(chunk.len(), Ordering::Relaxed);
                    }
                });
            }
        });
        let from = Instant::now();
        let error = fleet(url, false).look("s").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
        assert!(from.elapsed() < Duration::from_secs(15), "{kind}");
        // Some attempts, each of which reads its megabyte and what the machine holds on the way.
        assert!(sent.load(Ordering::Relaxed) < 64 << 20, "{kind}: {sent:?}");
    }
}

/// What a server does with the one call that is made.
#[derive(Clone, Copy)]
enum Odd {
    EndlessEvent,
    EndlessBody,
    Garbage,
    /// An answer with very many values, in an event or as a body.
    Values {
        event: bool,
    },
}

/// A server in either HTTP that answers everything but calls; gives what a call comes to.
async fn odd(how: Odd, sse: bool) -> helve_core::ToolError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (send, events) = mpsc::channel::<Option<Value>>(8);
    let events = Arc::new(Mutex::new(events));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (send, events) = (send.clone(), Arc::clone(&events));
            tokio::spawn(async move {
                while let Some((line, body)) = request(&mut stream).await {
                    if line.starts_with("get") && sse {
                        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /post\n\n";
                        stream.write_all(head.as_bytes()).await.unwrap();
                        let mut events = events.lock().await;
                        while let Some(Some(message)) = events.recv().await {
                            stream.write_all(format!("data: {message}\n\n").as_bytes()).await.unwrap();
                        }
                        return pour(&mut stream, how).await;
                    }
                    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let is_call = message["method"] == "tools/call";
                    let answer = answer(&message).filter(|_| !is_call);
                    if sse {
                        if answer.is_some() || is_call {
                            let _ = send.send(answer).await;
                        }
                        let head = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
                        stream.write_all(head).await.unwrap();
                    } else if is_call {
                        let kind = match how {
                            Odd::EndlessBody | Odd::Values { event: false } => "application/json",
                            Odd::EndlessEvent | Odd::Garbage | Odd::Values { event: true } => {
                                "text/event-stream"
                            }
                        };
                        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
                        stream.write_all(head.as_bytes()).await.unwrap();
                        return pour(&mut stream, how).await;
                    } else {
                        let body = answer.map(|answer| answer.to_string()).unwrap_or_default();
                        let status = match (body.is_empty(), message["method"].as_str()) {
                            (false, _) => "200 OK",
                            (true, Some("notifications/initialized")) => "202 Accepted",
                            (true, _) => "405 Method Not Allowed",
                        };
                        let length = body.len();
                        let head = format!(
                            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
                        );
                        stream.write_all(head.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    fleet(url, sse).call(call("s", "echo", json!({}))).await.unwrap_err()
}

async fn pour(stream: &mut TcpStream, how: Odd) {
    if let Odd::Values { event } = how {
        let (before, behind) = if event { ("data: ", "\n\n") } else { ("", "") };
        let values = "0,".repeat(510_000);
        let body = format!(
            r#"{before}{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{{"a":[{values}0]}}}}}}{behind}"#
        );
        let _ = stream.write_all(body.as_bytes()).await;
        return;
    }
    let (first, more) = match how {
        Odd::EndlessEvent => ("data: ", "x".repeat(1 << 16)),
        Odd::EndlessBody => ("", " ".repeat(1 << 16)),
        Odd::Garbage | Odd::Values { .. } => ("", "data: garbage\n\n".repeat(100)),
    };
    let _ = stream.write_all(first.as_bytes()).await;
    while stream.write_all(more.as_bytes()).await.is_ok() {}
}

#[tokio::test]
async fn an_answer_without_end_is_told_as_too_large() {
    for (how, sse) in [(Odd::EndlessEvent, true), (Odd::EndlessEvent, false), (Odd::EndlessBody, false)] {
        let error = odd(how, sse).await;
        assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    }
}

/// It would take many times its bytes.
#[tokio::test]
async fn an_answer_with_very_many_values_is_not_read() {
    let error = odd(Odd::Values { event: false }, false).await;
    assert!(error.message.contains("values"), "{error}");
    for sse in [true, false] {
        let error = odd(Odd::Values { event: true }, sse).await;
        assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    }
}

#[tokio::test]
async fn events_that_are_no_messages_end_the_older_http() {
    let error = odd(Odd::Garbage, true).await;
    assert!(error.message.contains("does not speak the protocol"), "{error}");
}

#[tokio::test]
async fn no_token_goes_where_a_redirect_leads() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = other.local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            request(&mut stream).await;
            let head = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{away}/mcp?key=hunter2\r\nContent-Length: 0\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).await;
        }
    });
    let error = fleet(url, false).look("s").await.unwrap_err();
    let said = format!("HTTP 307 Temporary Redirect: it leads to http://{away}/mcp, which is not followed");
    assert!(error.message.contains(&said) && !error.message.contains("hunter"), "{error}");
    assert!(error.hint.unwrap().contains("as the `url`"));
    let knocked = tokio::time::timeout(Duration::from_millis(100), other.accept()).await;
    assert!(knocked.is_err());
}

/// A redirect that would turn a message into a mere request for a page is none for us.
#[tokio::test]
async fn no_redirect_makes_another_request_of_a_message() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some((line, _)) = request(&mut stream).await else { continue };
            log.lock().await.push(line);
            let head =
                "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
        }
    });
    let error = fleet(url, false).look("s").await.unwrap_err();
    assert!(error.message.contains("302"), "{error}");
    let asked = asked.lock().await;
    assert!(!asked.is_empty() && asked.iter().all(|line| line.starts_with("post /mcp ")), "{asked:?}");
}

/// A session that nobody ends stays with the server.
#[tokio::test]
async fn who_needs_a_server_no_more_ends_the_session_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let ended = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&ended);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                while let Some((head, body)) = heard(&mut stream).await {
                    let head = head.to_lowercase();
                    if head.starts_with("delete") {
                        log.lock().await.push(head.contains("mcp-session-id: one"));
                    }
                    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let body = answer(&message).map(|answer| answer.to_string()).unwrap_or_default();
                    let status = match (body.is_empty(), head.starts_with("get")) {
                        (false, _) => "200 OK",
                        (true, false) => "202 Accepted",
                        (true, true) => "405 Method Not Allowed",
                    };
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status}\r\nMcp-Session-Id: one\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
                    );
                    stream.write_all(head.as_bytes()).await.unwrap();
                }
            });
        }
    });
    let fleet = fleet(url, false);
    fleet.look("s").await.unwrap();
    assert_eq!(ended.lock().await.len(), 0);
    fleet.close().await;
    assert_eq!(*ended.lock().await, [true]);
    // It can be used again, and one that does not listen holds nobody up for long.
    fleet.look("s").await.unwrap();
    let deaf = ended.lock().await;
    tokio::time::timeout(Duration::from_secs(5), fleet.close()).await.unwrap();
    drop(deaf);
}
