//! Clients that ask the protocol's loop for more than it may have at once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::super::MOST_CALLS;
use super::super::handed::MOST;
use super::client::{Client, call, cancelled};

fn reads(ids: std::ops::Range<usize>) -> String {
    let text = "x".repeat(1_000);
    let read = |id| json!({"jsonrpc": "2.0", "id": id, "method": "resources/read", "params": {"uri": text}});
    ids.map(|id| format!("{}\n", read(id))).collect()
}

#[tokio::test]
async fn who_does_not_read_what_the_loop_answers_is_not_read_either() {
    const MANY: usize = 5_000;
    let mut client = Client::open().await;
    let all = reads(1..MANY + 1);
    let mut says = Box::pin(client.to.write_all(all.as_bytes()));
    let mut before = 0;
    loop {
        let said = tokio::time::timeout(Duration::from_millis(500), &mut says).await;
        assert!(said.is_err(), "all of it is taken");
        let now = client.fake.read.load(Ordering::Relaxed);
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    assert!(before <= 2 * MOST, "{before}");
    let hears = async {
        let mut heard = std::collections::BTreeSet::new();
        for _ in 0..MANY {
            let answer: Value =
                serde_json::from_str(&client.from.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!(answer["result"]["contents"][0]["text"].as_str().unwrap().len(), 1_000);
            assert!(heard.insert(answer["id"].as_u64().unwrap()));
        }
    };
    let (said, ()) = tokio::join!(says, hears);
    said.unwrap();
    client.say(&[call(json!("s"), "say", "a")]).await;
    assert_eq!(client.hear().await["id"], "s");
}

#[tokio::test]
async fn at_the_end_of_input_what_had_to_wait_is_begun_and_answered() {
    const MANY: usize = MOST + 200;
    let mut client = Client::open().await;
    client.to.write_all(reads(1..MANY + 1).as_bytes()).await.unwrap();
    client.to.shutdown().await.unwrap();
    for _ in 0..MANY {
        assert!(client.hear().await["result"].is_object());
    }
    assert_eq!(client.from.next_line().await.unwrap(), None);
    client.served.await.unwrap().unwrap();
}

/// So many calls that go on that no more are begun, the last of them one that asks something; `first` comes behind them. The question's
/// id.
async fn crowd(client: &mut Client, first: Value) -> Value {
    // Calls that come with the introduction are the loop's.
    client.say(&[call(json!("f"), "say", "")]).await;
    assert_eq!(client.hear().await["id"], "f");
    for id in 0..MOST_CALLS + MOST - 1 {
        client.say(&[call(json!(id), "wait", "")]).await;
    }
    client.say(&[call(json!("a"), "asks", ""), first]).await;
    let asked = client.hear().await;
    assert_eq!(asked["method"], "roots/list");
    asked["id"].clone()
}

#[tokio::test]
async fn what_the_loop_waits_for_is_heard_before_more_is_begun() {
    let mut client = Client::open().await;
    let question = crowd(&mut client, call(json!("s"), "say", "")).await;
    let heard = tokio::time::timeout(Duration::from_millis(300), client.from.next_line()).await;
    assert!(heard.is_err(), "nothing more is begun: {heard:?}");
    let roots = json!({"roots": []});
    client.say(&[json!({"jsonrpc": "2.0", "id": question, "result": roots})]).await;
    let answer = client.hear().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!("a"), &json!(roots.to_string()))
    );
    assert_eq!(client.hear().await["id"], "s");
}

#[tokio::test]
async fn what_is_taken_back_makes_room_once_nobody_works_on_it() {
    let mut client = Client::open().await;
    crowd(&mut client, call(json!("s"), "say", "")).await;
    client.say(&[cancelled((MOST_CALLS + 1) as u64)]).await;
    client.hear_of_an_end().await;
    assert_eq!(client.hear().await["id"], "s");
}
