//! Calls on their way to a server that reads, reads slowly, or does not.

use super::super::fake::call;
use super::super::frame::{Ending, Streams};
use super::*;
use helve_core::{CallId, Progress};
use pretty_assertions::assert_eq;
use rmcp::transport::Transport as _;
use serde_json::{Value, json};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream};

#[test]
fn a_request_is_what_the_protocol_has() {
    let (heard, _listens) = tokio::sync::mpsc::channel(1);
    for (name, args) in [("t", json!({"a": [1, "\n"]})), ("q\"\u{1}", json!({})), ("none", Value::Null)] {
        for progress in [None, Some(heard.clone())] {
            let mut call = call("s", name, args.clone());
            call.progress = Progress::new(CallId::from_parts(1, 1), progress);
            let mut expected =
                json!({"jsonrpc": "2.0", "id": FIRST, "method": "tools/call", "params": {"name": name}});
            if call.progress.is_heard() {
                expected["params"]["_meta"] = json!({"progressToken": FIRST});
            }
            if args.is_object() {
                expected["params"]["arguments"] = args.clone();
            }
            let line = String::from_utf8(line(FIRST, &call).unwrap()).unwrap();
            let text = line.strip_suffix('\n').filter(|text| !text.contains('\n')).unwrap();
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn lines_stay_whole_and_in_their_order_where_the_server_reads_slowly() {
    let ((_said, ours), (server, to)) = (tokio::io::duplex(64), tokio::io::duplex(7));
    let streams = Streams::new(ours, to, 1 << 20, Ending::default());
    let send = |number: i64| {
        let call = call("s", "t", json!({"number": number, "text": "x".repeat(200)}));
        streams.straight().send(&call, |_, _| ()).unwrap()
    };
    let _under_way: Vec<Asked> = (0..20).map(send).collect();
    streams.straight().flush();
    let mut lines = BufReader::new(server).lines();
    for number in 0..20 {
        let line = lines.next_line().await.unwrap().unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["params"]["arguments"]["number"], number);
    }
}

/// A server that says and reads nothing, and how its connection ends.
fn deaf(patience: Duration) -> ([DuplexStream; 2], Streams, Ending) {
    let ((server, to), (says, ours)) = (tokio::io::duplex(7), tokio::io::duplex(64));
    let ending = Ending::default();
    let streams = Streams::new(ours, to, 1 << 20, ending.clone()).patient(patience);
    ([server, says], streams, ending)
}

/// A call that has so many bytes.
fn ask(streams: &Streams, name: &str, bytes: usize) -> Asked {
    let call = call("s", name, json!({"text": "x".repeat(bytes)}));
    let asked = streams.straight().send(&call, |_, _| ()).unwrap();
    streams.straight().flush();
    asked
}

#[tokio::test]
async fn what_waits_for_a_server_that_does_not_read_is_bounded() {
    let (_server, streams, _) = deaf(Duration::from_secs(600));
    let mut asked: Vec<Asked> = (0..20).map(|_| ask(&streams, "t", 1 << 20)).collect();
    let mut poller = Context::from_waker(Waker::noop());
    let refused = asked.iter_mut().filter_map(|asked| match asked.poll_answer(&mut poller) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    });
    let refused: Vec<Answered> = refused.collect();
    assert_eq!(refused.len(), 13);
    for answer in refused {
        let Err(ServiceError::McpError(error)) = answer else { panic!("{answer:?}") };
        assert!(error.message.contains("bytes wait"), "{error:?}");
    }
}

#[tokio::test]
async fn a_call_that_was_given_up_before_it_was_sent_is_not_sent() {
    let ([server, _says], streams, _) = deaf(Duration::from_secs(600));
    let first = ask(&streams, "first", 100);
    drop(ask(&streams, "given up", 100));
    let withdrawn = ask(&streams, "withdrawn", 100);
    assert!(streams.straight().withdraw(withdrawn.number), "nothing of it was written");
    assert!(!streams.straight().withdraw(withdrawn.number), "it is gone");
    assert!(!streams.straight().withdraw(first.number), "some of it was");
    let _last = ask(&streams, "last", 100);
    let mut lines = BufReader::new(server).lines();
    for name in ["first", "last"] {
        let line = lines.next_line().await.unwrap().unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["params"]["name"], name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_for_too_long_is_given_up() {
    let (_server, mut streams, ending) = deaf(Duration::from_secs(5));
    let (mut first, mut second) = (ask(&streams, "t", 100), ask(&streams, "t", 100));
    let all = async { tokio::join!(first.answer(), second.answer(), streams.receive()) };
    let (first, second, end) = tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    assert!(matches!(first, Err(ServiceError::TransportClosed)), "{first:?}");
    assert!(matches!(second, Err(ServiceError::TransportClosed)), "{second:?}");
    assert!(end.is_none());
    assert_eq!(ending.why(), Some(Broken::Unread));
    assert!(streams.straight().send(&call("s", "t", json!({})), |_, _| ()).is_err());
}

#[tokio::test(start_paused = true)]
async fn so_is_one_to_which_the_loop_writes() {
    let (_server, mut streams, ending) = deaf(Duration::from_secs(5));
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let sent = streams.send(serde_json::from_value(note).unwrap());
    let sent = tokio::time::timeout(Duration::from_secs(60), sent).await.unwrap();
    assert!(sent.is_err());
    assert!(streams.receive().await.is_none());
    assert_eq!(ending.why(), Some(Broken::Unread));
}

/// A server's standard input that counts the writes.
struct Counted(DuplexStream, Arc<AtomicUsize>);

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        poller: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(poller, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(poller)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(poller)
    }
}

#[tokio::test]
async fn calls_that_are_made_before_anybody_waits_go_out_in_one_write() {
    let ((_said, ours), (server, to)) = (tokio::io::duplex(64), tokio::io::duplex(1 << 20));
    let count = Arc::new(AtomicUsize::new(0));
    let streams = Streams::new(ours, Counted(to, Arc::clone(&count)), 1 << 20, Ending::default());
    let send = |number: usize, bytes: usize| {
        let call = call("s", "t", json!({"number": number, "text": "x".repeat(bytes)}));
        streams.straight().send(&call, |_, _| ()).unwrap()
    };
    let mut poller = Context::from_waker(Waker::noop());
    let mut asked: Vec<Asked> = (0..8).map(|number| send(number, 10)).collect();
    drop(asked.remove(3));
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert!(asked.iter_mut().all(|asked| asked.poll_answer(&mut poller).is_pending()));
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // What is too long for one write is not copied for it.
    let mut long: Vec<Asked> = (8..10).map(|number| send(number, TOGETHER)).collect();
    assert!(long[1].poll_answer(&mut poller).is_pending());
    assert_eq!(count.load(Ordering::Relaxed), 3);
    let mut lines = BufReader::new(server).lines();
    for number in [0, 1, 2, 4, 5, 6, 7, 8, 9] {
        let line = lines.next_line().await.unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["params"]["arguments"]["number"], number);
    }
}
