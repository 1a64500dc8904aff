//! A client on two streams: calls beside each other, taken back, and at the end of input.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helve_core::{Call, CallId, CallResult, LogLevel, Peer, ToolError, ToolSpec};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::{mpsc, watch};

use crate::server::{AtOnce, Card, Host, HostCall, Hosts, Stand, serve_streams};

use super::*;

/// `say` answers at once with the text that it is given, `later` when it is looked at again, `wait` when it is taken back.
/// `quick` is taken together with others, and has to wait all the same where its text says so.
struct Fake {
    version: watch::Sender<u64>,
    beside: mpsc::UnboundedSender<bool>,
    ended: mpsc::UnboundedSender<()>,
    /// The texts of calls, in the order in which they began.
    began: Arc<Mutex<Vec<String>>>,
    /// How many calls were taken together, each time.
    groups: Arc<Mutex<Vec<usize>>>,
    /// Whether something is kept at hand for the next call.
    stays: Arc<AtomicBool>,
    /// Whether something was when a call came.
    stayed: Arc<AtomicBool>,
    /// Whether results were given out after which nobody has settled.
    unsettled: Arc<AtomicBool>,
}

/// Takes the calls of `quick`.
struct Group {
    began: Arc<Mutex<Vec<String>>>,
    groups: Arc<Mutex<Vec<usize>>>,
    stays: Arc<AtomicBool>,
    stayed: Arc<AtomicBool>,
    unsettled: Arc<AtomicBool>,
    peer: Arc<dyn Peer>,
    /// Calls that were sent, by their numbers. Those that say `log` log something and are done when they are polled.
    sent: Vec<(u64, Box<CallResult>)>,
    next: u64,
    taken_back: mpsc::UnboundedSender<()>,
}

impl AtOnce for Group {
    fn takes(&self, tool: &str) -> bool {
        tool == "quick"
    }

    fn calls(&mut self, calls: Vec<Call>) -> Vec<Stand> {
        self.stayed.fetch_or(self.stays.load(Ordering::Relaxed), Ordering::Relaxed);
        self.groups.lock().unwrap().push(calls.len());
        let stand = |call: Call| {
            let text = text_of(&call);
            self.began.lock().unwrap().push(text.clone());
            let result = said(call.id, call.tool, &text);
            match &*text {
                "wait" => Stand::Waits(Box::new(move |line| {
                    Box::pin(async move {
                        line.cancel.cancelled().await;
                        result
                    })
                })),
                "later" => Stand::Waits(Box::new(move |_| {
                    Box::pin(async move {
                        tokio::task::yield_now().await;
                        result
                    })
                })),
                "sent" | "log" | "chatter" => {
                    self.next += 1;
                    self.sent.push((self.next, result));
                    Stand::Sent(self.next)
                }
                _ => Stand::Done(result),
            }
        };
        calls.into_iter().map(stand).collect()
    }

    fn poll(&mut self, poller: &mut Context<'_>) -> Vec<(u64, Box<CallResult>)> {
        if self.sent.iter().any(|(_, result)| result.text() == "chatter") {
            for _ in 0..64 {
                self.peer.log(LogLevel::Error, None, json!("x".repeat(2_000)));
            }
            poller.waker().wake_by_ref();
        }
        let is_done = |(_, result): &mut (u64, Box<CallResult>)| result.text() == "log";
        let mut all = Vec::new();
        // The last comes first: answers come in any order.
        while let Some(at) = self.sent.iter_mut().rposition(is_done) {
            self.peer.log(LogLevel::Warning, Some("server"), json!("before"));
            self.peer.log(LogLevel::Info, Some("server"), json!("too little"));
            all.push(self.sent.remove(at));
            self.unsettled.store(true, Ordering::Relaxed);
        }
        all
    }

    fn settle(&mut self) {
        self.unsettled.store(false, Ordering::Relaxed);
    }

    fn take_back(&mut self, number: u64) {
        self.sent.retain(|(own, _)| *own != number);
        let _ = self.taken_back.send(());
    }

    fn stay(&mut self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    fn rest(&mut self) {
        self.stays.store(false, Ordering::Relaxed);
    }
}

fn text_of(call: &Call) -> String {
    let helve_core::Args::Value(args) = &call.args else { panic!("text") };
    args["text"].as_str().unwrap_or_default().to_owned()
}

fn said(id: Option<Value>, tool: String, text: &str) -> Box<CallResult> {
    Box::new(CallResult { id, ..CallResult::saying(CallId::from_parts(1, 2), tool, text) })
}

struct Fakes(Arc<Fake>);

impl Host for Fake {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        Vec::new()
    }

    fn tools_version(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn call(&self, call: HostCall) -> BoxFuture<'_, Box<CallResult>> {
        Box::pin(async move {
            let HostCall { call, line, beside, .. } = call;
            let _ = self.beside.send(beside);
            let text = text_of(&call);
            self.began.lock().unwrap().push(text.clone());
            assert!(!self.stays.load(Ordering::Relaxed), "a call that runs by itself may want it");
            match &*call.tool {
                "wait" => {
                    line.cancel.cancelled().await;
                    let _ = self.ended.send(());
                }
                "later" => tokio::task::yield_now().await,
                _ => {}
            }
            said(call.id, call.tool, &text)
        })
    }

    fn at_once(&self, client: &str, peer: Arc<dyn Peer>) -> Option<Box<dyn AtOnce>> {
        assert_eq!(client, "c");
        Some(Box::new(Group {
            began: Arc::clone(&self.began),
            groups: Arc::clone(&self.groups),
            stays: Arc::clone(&self.stays),
            stayed: Arc::clone(&self.stayed),
            unsettled: Arc::clone(&self.unsettled),
            peer,
            sent: Vec::new(),
            next: 0,
            taken_back: self.ended.clone(),
        }))
    }
}

impl Hosts for Fakes {
    fn card(&self) -> Card {
        Card::default()
    }

    fn session(&self, _client: &str) -> Result<Arc<dyn Host>, ToolError> {
        Ok(Arc::clone(&self.0) as Arc<dyn Host>)
    }

    fn standing(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        self.session(client)
    }
}

/// A client that has introduced itself.
struct Client {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    beside: mpsc::UnboundedReceiver<bool>,
    ended: mpsc::UnboundedReceiver<()>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
    fake: Arc<Fake>,
}

impl Client {
    async fn open() -> Client {
        let (near, far) = tokio::io::duplex(64 << 10);
        let ((tell_beside, beside), (tell_ended, ended)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let fake = Fake {
            version: watch::Sender::new(0),
            beside: tell_beside,
            ended: tell_ended,
            began: Arc::default(),
            groups: Arc::default(),
            stays: Arc::default(),
            stayed: Arc::default(),
            unsettled: Arc::default(),
        };
        let fake = Arc::new(fake);
        let host = Arc::clone(&fake);
        let served = tokio::spawn(async move {
            let (input, output) = tokio::io::split(far);
            serve_streams(Arc::new(Fakes(host)), input, output, 10_000, &Cancel::never()).await
        });
        let (from, to) = tokio::io::split(near);
        let mut client = Client { to, from: BufReader::new(from).lines(), beside, ended, served, fake };
        let who = json!({"name": "c", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who});
        client.say(&[json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})]).await;
        assert_eq!(client.hear().await["id"], 0);
        client.say(&[json!({"jsonrpc": "2.0", "method": "notifications/initialized"})]).await;
        client
    }

    /// Says all of it at once.
    async fn say(&mut self, messages: &[Value]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.to.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until a call that was taken back has ended.
    async fn hear_of_an_end(&mut self) {
        tokio::time::timeout(Duration::from_secs(60), self.ended.recv()).await.unwrap().unwrap();
    }

    /// Wants to hear of nothing less.
    async fn hears_warnings(&mut self) {
        let params = json!({"level": "warning"});
        self.say(&[json!({"jsonrpc": "2.0", "id": "l", "method": "logging/setLevel", "params": params})])
            .await;
        assert_eq!(self.hear().await["id"], "l");
    }

    async fn hear(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(10), self.from.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }
}

fn call(id: Value, tool: &str, text: &str) -> Value {
    let params = json!({"name": tool, "arguments": {"text": text}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn calls_that_come_together_are_all_answered_and_know_of_each_other() {
    let mut client = Client::open().await;
    let many: Vec<Value> = (1..=30).map(|id| call(json!(id), "say", &format!("text {id}"))).collect();
    client.say(&many).await;
    let mut answered = std::collections::BTreeMap::new();
    for _ in 0..30 {
        let answer = client.hear().await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(answered.insert(answer["id"].as_u64().unwrap(), text), None);
    }
    assert_eq!(answered, (1..=30).map(|id| (id, format!("text {id}"))).collect());
    let beside: Vec<bool> = std::iter::from_fn(|| client.beside.try_recv().ok()).collect();
    assert!(beside.iter().filter(|beside| **beside).count() >= 20, "{beside:?}");
    client.say(&[call(json!(40), "say", "alone")]).await;
    client.hear().await;
    assert_eq!(client.beside.recv().await, Some(false));
}

#[tokio::test]
async fn what_is_kept_for_the_next_call_is_given_back_before_anything_else_runs() {
    let mut client = Client::open().await;
    let stays = Arc::clone(&client.fake.stays);
    for (id, tool) in ["quick", "say", "quick", "later", "quick"].into_iter().enumerate() {
        client.say(&[call(json!(id), tool, "text")]).await;
        client.hear().await;
        // The test and the server take turns on one thread.
        assert!(!stays.load(Ordering::Relaxed), "{tool}");
    }
    assert_eq!(client.fake.groups.lock().unwrap().len(), 3);
    assert!(client.fake.stayed.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_call_that_is_taken_back_ends_and_is_not_answered_and_others_go_on() {
    let mut client = Client::open().await;
    client.say(&[call(json!("w"), "wait", ""), call(json!(1), "say", "a")]).await;
    assert_eq!(client.hear().await["id"], 1, "nobody waits for one that goes on");
    let notice = json!({"requestId": "w", "reason": "r"});
    client.say(&[json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": notice})]).await;
    client.hear_of_an_end().await;
    client.say(&[call(json!(2), "say", "b")]).await;
    assert_eq!(client.hear().await["id"], 2, "the one that was taken back has no answer");
}

#[tokio::test]
async fn a_message_over_the_limit_is_answered_and_the_next_is_read() {
    let mut client = Client::open().await;
    client.say(&[call(json!(1), "say", &"x".repeat(20_000)), call(json!(2), "say", "b")]).await;
    let (one, other) = (client.hear().await, client.hear().await);
    let of = |id: u64| if one["id"] == id { &one } else { &other };
    assert!(of(1)["error"]["message"].as_str().unwrap().contains("10000 bytes"));
    assert_eq!(of(2)["result"]["content"][0]["text"], "b");
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_input_what_is_done_is_answered_and_what_goes_on_is_taken_back() {
    let mut client = Client::open().await;
    client.say(&[call(json!(1), "wait", ""), call(json!(2), "say", "b")]).await;
    client.to.shutdown().await.unwrap();
    assert_eq!(client.hear().await["id"], 2);
    client.hear_of_an_end().await;
    client.served.await.unwrap().unwrap();
}

/// So many calls of a tool at once.
fn crowd(tool: &str, many: usize) -> Vec<Value> {
    (0..many).map(|id| call(json!(id), tool, &format!("text {id}"))).collect()
}

fn texts(many: usize) -> Vec<String> {
    (0..many).map(|id| format!("text {id}")).collect()
}

#[tokio::test]
async fn a_crowd_is_begun_in_its_order_and_each_is_answered_once() {
    let mut client = Client::open().await;
    for _ in 0..20 {
        client.say(&crowd("later", 100)).await;
        let mut answered = std::collections::BTreeMap::new();
        for _ in 0..100 {
            let answer = client.hear().await;
            let text = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
            assert_eq!(answered.insert(answer["id"].as_u64().unwrap(), text), None);
        }
        // An id may come again once it was answered.
        assert_eq!(answered.into_values().collect::<Vec<_>>(), texts(100));
        assert_eq!(std::mem::take(&mut *client.fake.began.lock().unwrap()), texts(100));
    }
}

#[tokio::test]
async fn one_of_a_crowd_can_be_taken_back() {
    let mut client = Client::open().await;
    let mut many = crowd("wait", 40);
    many.push(call(json!("s"), "say", "a"));
    client.say(&many).await;
    assert_eq!(client.hear().await["id"], "s", "nobody waits for those that go on");
    for id in 0..40 {
        let params = json!({"requestId": id});
        client.say(&[json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})]).await;
        client.hear_of_an_end().await;
    }
    client.say(&[call(json!(0), "say", "b")]).await;
    assert_eq!(client.hear().await["id"], 0, "those that were taken back have no answer");
}

/// The ids and texts of so many answers, sorted.
async fn answers(client: &mut Client, count: usize) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    for _ in 0..count {
        let answer = client.hear().await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        all.push((answer["id"].as_i64().unwrap(), text.to_owned()));
    }
    all.sort();
    all
}

#[tokio::test]
async fn calls_that_are_done_at_once_are_taken_together() {
    let mut client = Client::open().await;
    let mut many: Vec<Value> = (1..=8).map(|id| call(json!(id), "quick", &id.to_string())).collect();
    many.insert(5, call(json!(20), "later", "20"));
    client.say(&many).await;
    let expected: Vec<(i64, String)> = (1..=8).chain([20]).map(|id| (id, id.to_string())).collect();
    assert_eq!(answers(&mut client, 9).await, expected);
    assert_eq!(*client.fake.groups.lock().unwrap(), [5], "what came after another call goes after it");
    let began: Vec<String> = client.fake.began.lock().unwrap().clone();
    assert_eq!(began, ["1", "2", "3", "4", "5", "20", "6", "7", "8"]);
    assert!(client.beside.recv().await.unwrap(), "the other one knows of them");
    // What is no call is heard in its order.
    let ping = json!({"jsonrpc": "2.0", "id": 30, "method": "ping"});
    client.say(&[call(json!(31), "quick", "31"), ping, call(json!(32), "quick", "32")]).await;
    assert_eq!(client.hear().await["id"], 31);
    assert_eq!(answers(&mut client, 2).await.len(), 2);
}

#[tokio::test]
async fn a_call_that_wants_to_hear_of_its_progress_is_taken_by_itself() {
    let mut client = Client::open().await;
    let mut asks = call(json!(1), "quick", "1");
    asks["params"]["_meta"] = json!({"progressToken": 1});
    client.say(&[asks]).await;
    assert_eq!(answers(&mut client, 1).await, [(1, "1".to_owned())]);
    assert_eq!(*client.fake.groups.lock().unwrap(), [] as [usize; 0]);
}

#[tokio::test]
async fn calls_taken_together_that_have_to_wait_hold_nobody_up_and_can_be_taken_back() {
    let mut client = Client::open().await;
    let texts = ["1", "wait", "later", "4"];
    let many: Vec<Value> = (1..).zip(texts).map(|(id, text)| call(json!(id), "quick", text)).collect();
    client.say(&many).await;
    let expected = [(1, "1"), (3, "later"), (4, "4")].map(|(id, text)| (id, text.to_owned()));
    assert_eq!(answers(&mut client, 3).await, expected);
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    client.say(&[notice, call(json!(5), "quick", "5")]).await;
    assert_eq!(answers(&mut client, 1).await, [(5, "5".to_owned())], "what was taken back is not answered");
}

#[tokio::test]
async fn a_request_whose_id_another_has_is_not_lost() {
    let mut client = Client::open().await;
    client.say(&[call(json!(1), "quick", "a"), call(json!(1), "quick", "b")]).await;
    assert_eq!(answers(&mut client, 2).await, [(1, "a".to_owned()), (1, "b".to_owned())]);
}

#[tokio::test]
async fn calls_that_were_sent_hold_nobody_up_and_what_is_logged_goes_before_the_answer() {
    let mut client = Client::open().await;
    client.hears_warnings().await;
    let texts = ["sent", "log", "3", "log"];
    let many: Vec<Value> = (1..).zip(texts).map(|(id, text)| call(json!(id), "quick", text)).collect();
    client.say(&many).await;
    assert_eq!(client.hear().await["id"], 3);
    for _ in 0..2 {
        let logged = client.hear().await;
        let params = json!({"level": "warning", "logger": "server", "data": "before"});
        assert_eq!((&logged["method"], &logged["params"]), (&json!("notifications/message"), &params));
    }
    let logs = ["log", "log"].map(str::to_owned);
    assert_eq!(answers(&mut client, 2).await, [2, 4].into_iter().zip(logs).collect::<Vec<_>>());
    assert!(!client.fake.unsettled.load(Ordering::Relaxed));
    // An id that is still in use is another's call, which the loop reads.
    client.say(&[call(json!(1), "quick", "again"), call(json!(5), "quick", "5")]).await;
    assert_eq!(answers(&mut client, 2).await, [(1, "again".to_owned()), (5, "5".to_owned())]);
}

#[tokio::test]
async fn a_call_that_was_sent_can_be_taken_back() {
    let mut client = Client::open().await;
    client.say(&[call(json!(1), "quick", "sent"), call(json!(2), "quick", "sent")]).await;
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    client.say(&[notice, call(json!(3), "quick", "3")]).await;
    client.hear_of_an_end().await;
    assert_eq!(answers(&mut client, 1).await, [(3, "3".to_owned())], "what was taken back is not answered");
    // So is every other when the client goes.
    client.served.abort();
    client.hear_of_an_end().await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_were_sent_are_waited_for_at_the_end_of_input_and_not_for_ever() {
    let mut client = Client::open().await;
    client.hears_warnings().await;
    client.say(&[call(json!(1), "quick", "sent"), call(json!(2), "quick", "log")]).await;
    client.to.shutdown().await.unwrap();
    assert_eq!(client.hear().await["params"]["data"], "before");
    assert_eq!(client.hear().await["id"], 2);
    client.hear_of_an_end().await;
    client.served.await.unwrap().unwrap();
}

/// What a server logs is held up to a limit; what finds no room is dropped.
#[tokio::test]
async fn a_server_that_logs_without_end_fills_nothing_where_the_client_does_not_read() {
    let mut client = Client::open().await;
    client.say(&[call(json!(1), "quick", "chatter")]).await;
    let polls = || *client.fake.groups.lock().unwrap().first().unwrap_or(&0);
    let from = std::time::Instant::now();
    while polls() == 0 || from.elapsed() < Duration::from_millis(300) {
        tokio::task::yield_now().await;
    }
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    client.say(&[notice, call(json!(2), "quick", "2")]).await;
    let mut logged = 0;
    while client.hear().await["id"] != 2 {
        logged += 1;
        assert!(logged < 5_000, "the client is held up by what nobody asked for");
    }
    assert!(logged > 0);
}
