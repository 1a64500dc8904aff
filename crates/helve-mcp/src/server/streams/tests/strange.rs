//! Clients that say what nobody can read, and those that begin with something else than they should.

use std::time::Duration;

use helve_core::Cancel;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::client::{Client, call, cancelled, stateless};

const LONE: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"say","arguments":{"text":"\ud83d"}}}"#;
const OF_A_WRONG_FORM: &str = r#"{"jsonrpc":"2.0","id":"x","method":"ping","params":[1]}"#;

impl Client {
    async fn says(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The id and the code of the next answer.
    async fn hears_of_an_error(&mut self) -> (Value, i64) {
        let answer = self.hear().await;
        (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap())
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_answered() {
    let mut client = Client::open().await;
    client.says(LONE).await;
    assert_eq!(client.hears_of_an_error().await, (json!(7), -32700));
    client.says(OF_A_WRONG_FORM).await;
    assert_eq!(client.hears_of_an_error().await, (json!("x"), -32600));
    client.says("hello").await;
    assert_eq!(client.hears_of_an_error().await, (Value::Null, -32700));
    // Neither is an empty line a message, nor is an answer owed to a notification.
    client.says("\r").await;
    client.says(r#"{"jsonrpc":"1.0","method":"notifications/initialized"}"#).await;
    client.say(&[call(json!(8), "say", "next")]).await;
    assert_eq!(client.hear().await["id"], 8);
}

#[tokio::test]
async fn whatever_comes_first_a_client_can_introduce_itself_after_it() {
    let long = call(json!(6), "say", &"x".repeat(20_000)).to_string();
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let refused = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m"}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let mut client = Client::stranger(Cancel::never());
    for line in [ready, cancelled(1), answer, refused] {
        client.says(&line.to_string()).await;
    }
    client.says(LONE).await;
    assert_eq!(client.hears_of_an_error().await, (json!(7), -32700));
    client.says(&long).await;
    assert_eq!(client.hears_of_an_error().await, (json!(6), -32600));
    client.says(r#"{"jsonrpc":"2.0","id":5,"method":"initialize","params":{}}"#).await;
    let why = client.hear().await["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(why, "The params of initialize cannot be read: missing field `protocolVersion`.");
    client.introduces_itself().await;
    client.say(&[call(json!(8), "say", "next")]).await;
    assert_eq!(client.hear().await["result"]["content"][0]["text"], "next");
}

#[tokio::test]
async fn a_client_of_the_newer_era_may_notify_once_it_has_asked() {
    let mut client = Client::stranger(Cancel::never());
    client.say(&[cancelled(1), call(json!(2), "say", "without a word of itself"), cancelled(2)]).await;
    assert_eq!(client.hears_of_an_error().await.0, 2);
    client.say(&[stateless(call(json!(3), "wait", "")), cancelled(3)]).await;
    client.hear_of_an_end().await;
    client.say(&[stateless(call(json!(4), "say", ""))]).await;
    assert_eq!(client.hear().await["id"], 4);
}

/// Says so much that there is no room for the answers, none of which is read.
async fn fills_the_way_out(client: &mut Client) {
    let text = "x".repeat(9_000);
    let all: Vec<Value> = (100..620).map(|id| call(json!(id), "say", &text)).collect();
    tokio::time::timeout(Duration::from_secs(60), client.say(&all)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_can_take_calls_back_and_end() {
    let mut client = Client::open().await;
    client.say(&[call(json!(1), "wait", ""), stateless(call(json!(2), "wait", ""))]).await;
    fills_the_way_out(&mut client).await;
    client.say(&[cancelled(1)]).await;
    client.hear_of_an_end().await;
    client.say(&[cancelled(2)]).await;
    client.hear_of_an_end().await;
    client.to.shutdown().await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), client.served).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn who_reads_late_gets_every_answer() {
    let mut client = Client::open().await;
    fills_the_way_out(&mut client).await;
    for id in 100..620 {
        assert_eq!(client.hear().await["id"], id);
    }
    client.say(&[call(json!(1), "say", "next")]).await;
    assert_eq!(client.hear().await["id"], 1);
}
