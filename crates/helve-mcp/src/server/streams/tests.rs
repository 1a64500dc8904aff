//! A client on two streams: calls beside each other, taken back, and at the end of input.

mod client;
mod crowd;
mod ends;
mod progress;
mod strange;

use std::sync::atomic::Ordering;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use client::{Client, call, cancelled, stateless};

use super::*;

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
async fn an_id_that_was_taken_back_is_free_also_before_its_call_has_ended() {
    let mut client = Client::open().await;
    client.say(&[call(json!(2), "lingers", "a"), cancelled(2), call(json!(2), "wait", "b")]).await;
    client.say(&[call(json!(3), "say", "c")]).await;
    assert_eq!(client.hear().await["id"], 3);
    assert_eq!(*client.fake.began.lock().unwrap(), ["a", "b", "c"]);
    client.fake.lets_go.notify_one();
    client.hear_of_an_end().await;
    client.say(&[call(json!(4), "say", "d")]).await;
    assert_eq!(client.hear().await["id"], 4, "the first has no answer");
    client.say(&[cancelled(2)]).await;
    client.hear_of_an_end().await;
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

/// Whoever runs the first: this transport or the loop.
#[tokio::test]
async fn an_id_that_is_in_use_is_refused_and_the_first_request_keeps_its_answer() {
    for of_the_loop in [false, true] {
        let mut client = Client::open().await;
        client.say(&[call(json!("s"), "say", "")]).await;
        assert_eq!(client.hear().await["id"], "s");
        let era = |call| if of_the_loop { stateless(call) } else { call };
        client.say(&[era(call(json!(1), "lingers", ""))]).await;
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let others = [ping.clone(), call(json!(1), "say", ""), stateless(call(json!(1), "say", ""))];
        client.say(&others).await;
        for _ in &others {
            let refused = client.hear().await;
            assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32600)));
        }
        client.say(&[call(json!("1"), "say", ""), era(call(json!(2), "wait", "")), cancelled(2)]).await;
        assert_eq!(client.hear().await["id"], "1", "it is another id");
        client.hear_of_an_end().await;
        // It is free once nobody works on it.
        client.say(&[era(call(json!(2), "say", ""))]).await;
        assert_eq!(client.hear().await["id"], 2);
        assert_eq!(client.fake.began.lock().unwrap().len(), 5);
        client.fake.lets_go.notify_one();
        client.served.abort();
    }
}

/// A first request that is answered late has its answer.
#[tokio::test]
async fn an_id_is_free_as_soon_as_its_answer_is_out() {
    let mut client = Client::open().await;
    for era in [|call| call, stateless] {
        for _ in 0..50 {
            client.say(&[era(call(json!(1), "later", "a"))]).await;
            assert_eq!(client.hear().await["result"]["content"][0]["text"], "a");
        }
    }
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
    client.say(&[call(json!(1), "quick", "again"), call(json!(5), "quick", "5")]).await;
    let refused = client.hear().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32600)));
    assert_eq!(answers(&mut client, 1).await, [(5, "5".to_owned())]);
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
