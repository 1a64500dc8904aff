//! The end: of input, and of the server.

use std::sync::Arc;

use helve_core::Cancel;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::client::{Client, Fakes, call, stateless};
use crate::server::serve_streams;

#[tokio::test(start_paused = true)]
async fn at_the_end_of_input_what_is_done_is_answered_and_what_goes_on_is_taken_back() {
    let mut client = Client::open().await;
    client.say(&[call(json!(1), "wait", ""), call(json!(2), "say", "b")]).await;
    client.to.shutdown().await.unwrap();
    assert_eq!(client.hear().await["id"], 2);
    client.hear_of_an_end().await;
    assert_eq!(client.hear().await["id"], 1, "also what was taken back is answered");
    client.served.await.unwrap().unwrap();
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
    assert_eq!(client.hear().await["id"], 1, "also what was taken back is answered");
    client.served.await.unwrap().unwrap();
}

/// Calls that run by themselves, that were taken with others and wait, and that the protocol's loop runs.
fn long_calls() -> Vec<Value> {
    vec![call(json!(1), "quick", "wait"), call(json!(2), "wait", ""), stateless(call(json!(3), "wait", ""))]
}

#[tokio::test(start_paused = true)]
async fn when_the_server_ends_calls_are_taken_back_and_answered_before_it_does() {
    let (canceller, cancel) = Cancel::pair();
    let mut client = Client::stranger(cancel);
    client.introduces_itself().await;
    client.say(&long_calls()).await;
    client.say(&[call(json!(9), "say", "")]).await;
    assert_eq!(client.hear().await["id"], 9, "all have begun");
    canceller.cancel();
    let mut answered = Vec::new();
    for _ in 0..3 {
        let answer = client.hear().await;
        assert!(answer["result"].is_object(), "{answer}");
        answered.push(answer["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3]);
    client.served.await.unwrap().unwrap();
    assert_eq!(client.from.next_line().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_ends_also_where_a_call_does_not() {
    let (canceller, cancel) = Cancel::pair();
    let mut client = Client::stranger(cancel);
    client.introduces_itself().await;
    client.say(&[call(json!(1), "never", ""), call(json!(2), "say", "")]).await;
    assert_eq!(client.hear().await["id"], 2);
    canceller.cancel();
    client.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_ends_before_its_client_has_introduced_itself() {
    let (canceller, cancel) = Cancel::pair();
    let client = Client::stranger(cancel);
    tokio::task::yield_now().await;
    canceller.cancel();
    client.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_any_more_is_told_of_in_plain_words() {
    let (mut client, input) = tokio::io::duplex(1 << 10);
    let (gone, output) = tokio::io::duplex(1);
    drop(gone);
    client.write_all(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}\n").await.unwrap();
    let served = serve_streams(Arc::new(Fakes::new()), input, output, 10_000, &Cancel::never()).await;
    assert_eq!(served.unwrap_err().to_string(), "the client does not read any more");
}
