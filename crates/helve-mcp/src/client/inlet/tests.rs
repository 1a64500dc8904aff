//! A server's answers and everything else that it says, read by calls and by the loop.

use super::super::fake::{call, text};
use super::super::frame::Streams;
use super::super::straight::{Asked, Straight};
use super::*;
use pretty_assertions::assert_eq;
use rmcp::transport::Transport as _;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt as _, DuplexStream};

struct Rig {
    server: DuplexStream,
    streams: Streams,
    straight: Straight,
}

fn rig() -> Rig {
    let (server, ours) = tokio::io::duplex(1 << 16);
    let streams = Streams::new(ours, tokio::io::sink(), 1 << 20, Ending::default());
    let straight = streams.straight();
    Rig { server, streams, straight }
}

impl Rig {
    fn ask(&self) -> Asked {
        self.straight.send(&call("s", "echo", json!({})), |_, _| ()).unwrap()
    }

    async fn say(&mut self, messages: &[Value]) {
        let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.server.write_all(lines.as_bytes()).await.unwrap();
    }
}

fn answer(to: &Asked, said: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": to.id(), "result": text(said)})
}

/// Something that is the loop's.
fn note(text: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": text}})
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what).await.expect("nobody was woken")
}

async fn is_pending(what: impl Future) -> bool {
    tokio::time::timeout(Duration::from_millis(20), what).await.is_err()
}

async fn said(asked: &mut Asked) -> String {
    let answer = soon(asked.answer()).await.unwrap();
    serde_json::to_value(answer).unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn one_call_reads_for_all_and_needs_no_loop() {
    let mut rig = rig();
    let (mut one, mut two) = (rig.ask(), rig.ask());
    rig.say(&[answer(&two, "two"), answer(&one, "one")]).await;
    assert_eq!([said(&mut one).await, said(&mut two).await], ["one", "two"]);
    let mut three = rig.ask();
    assert!(is_pending(three.answer()).await);
    rig.say(&[answer(&three, "three")]).await;
    assert_eq!(said(&mut three).await, "three");
}

#[tokio::test]
async fn no_answer_overtakes_what_was_said_before_it() {
    let mut rig = rig();
    let mut asked = rig.ask();
    rig.say(&[note("a"), note("b"), answer(&asked, "c"), note("d")]).await;
    for before in ["a", "b"] {
        assert!(is_pending(asked.answer()).await, "it waits for the loop");
        let heard = soon(rig.streams.receive()).await.unwrap();
        assert_eq!(serde_json::to_value(heard).unwrap(), note(before));
    }
    assert_eq!(said(&mut asked).await, "c");
    let heard = soon(rig.streams.receive()).await.unwrap();
    assert_eq!(serde_json::to_value(heard).unwrap(), note("d"));
}

/// The loop hands what it is told to a task, as the SDK does with questions, and the call reads on before
/// that has run.
#[tokio::test]
async fn what_was_said_before_an_answer_is_heard_before_it() {
    let mut rig = rig();
    let mut asked = rig.ask();
    rig.say(&[note("a"), answer(&asked, "b")]).await;
    assert!(is_pending(asked.answer()).await, "it waits for the loop");
    soon(rig.streams.receive()).await.unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let hears = Arc::clone(&heard);
    tokio::spawn(async move { hears.fetch_add(1, Ordering::Relaxed) });
    assert_eq!(said(&mut asked).await, "b");
    assert_eq!(heard.load(Ordering::Relaxed), 1);
}

/// What a call leaves unread wakes the loop, however the call ends.
#[tokio::test]
async fn the_loop_reads_on_where_a_call_ends() {
    for woken in [false, true] {
        let Rig { mut server, mut streams, straight } = rig();
        let mut asked = straight.send(&call("s", "echo", json!({})), |_, _| ()).unwrap();
        let in_loop = tokio::spawn(async move { streams.receive().await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(is_pending(asked.answer()).await);
        let line = format!("{}\n", note("n"));
        if woken {
            // The wake goes to the call, which never comes to read.
            server.write_all(line.as_bytes()).await.unwrap();
            drop(asked);
        } else {
            drop(asked);
            server.write_all(line.as_bytes()).await.unwrap();
        }
        let heard = soon(in_loop).await.unwrap().unwrap();
        assert_eq!(serde_json::to_value(heard).unwrap(), note("n"), "{woken}");
    }
}

/// Whoever polls a call has its answer before what comes behind it is read, and holds nobody up once the call is dropped.
#[tokio::test]
async fn what_comes_behind_an_answer_is_read_when_its_call_is_dropped() {
    for woken in [false, true] {
        let mut rig = rig();
        let mut asked = rig.ask();
        let line = format!("{}\n", answer(&asked, "a"));
        let mut streams = rig.streams;
        let mut in_loop = tokio::spawn(async move { streams.receive().await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(is_pending(std::future::poll_fn(|poller| asked.poll_answer(poller))).await);
        rig.server.write_all(line.as_bytes()).await.unwrap();
        soon(std::future::poll_fn(|poller| asked.poll_answer(poller))).await.unwrap();
        let line = format!("{}\n", note("n"));
        if woken {
            rig.server.write_all(line.as_bytes()).await.unwrap();
            drop(asked);
        } else {
            drop(asked);
            assert!(is_pending(&mut in_loop).await, "there is nothing to hear yet");
            rig.server.write_all(line.as_bytes()).await.unwrap();
        }
        let heard = soon(in_loop).await.unwrap().unwrap();
        assert_eq!(serde_json::to_value(heard).unwrap(), note("n"), "{woken}");
    }
}

/// Nor does a server that never stops talking, also where no runtime gives others a turn.
#[test]
fn who_leaves_does_not_listen_for_ever() {
    let first = json!({"jsonrpc": "2.0", "id": 1 << 30, "result": text("a")});
    let source = AsyncReadExt::chain(std::io::Cursor::new(format!("{first}\n")), tokio::io::repeat(b'\n'));
    let streams = Streams::new(source, tokio::io::sink(), 1 << 20, Ending::default());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut asked = streams.straight().send(&call("s", "echo", json!({})), |_, _| ()).unwrap();
        let answer = asked.poll_answer(&mut Context::from_waker(Waker::noop()));
        drop(asked);
        done.send(answer.is_ready())
    });
    assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(true));
}

/// Who waits beside it does not have to wait for that.
#[tokio::test]
async fn nothing_is_left_unread_where_another_call_waits() {
    let mut rig = rig();
    let (mut one, mut two) = (rig.ask(), rig.ask());
    rig.say(&[answer(&one, "one")]).await;
    soon(std::future::poll_fn(|poller| one.poll_answer(poller))).await.unwrap();
    rig.say(&[answer(&two, "two")]).await;
    let answer = soon(std::future::poll_fn(|poller| two.poll_answer(poller))).await;
    assert!(answer.is_ok());
    drop(one);
}

#[tokio::test]
async fn the_end_is_heard_by_whoever_waits() {
    let Rig { server, mut streams, straight } = rig();
    let ask = || straight.send(&call("s", "echo", json!({})), |_, _| ());
    let mut asked = ask().unwrap();
    let in_loop = tokio::spawn(async move { streams.receive().await.is_none() });
    assert!(is_pending(asked.answer()).await);
    drop(server);
    assert!(soon(asked.answer()).await.is_err());
    assert!(soon(in_loop).await.unwrap());
    assert!(ask().is_err());
}
