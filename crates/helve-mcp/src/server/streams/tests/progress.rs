//! Calls that were taken together and tell of their progress.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::client::{Client, call, cancelled, note};

/// A call of `quick` that wants to hear of its progress under this token.
fn asks(id: u64, text: &str, token: Value) -> Value {
    let mut asks = call(json!(id), "quick", text);
    asks["params"]["_meta"] = json!({ "progressToken": token });
    asks
}

/// The next that is heard: the progress that it tells, or the id that it answers.
async fn heard(client: &mut Client) -> Value {
    let mut heard = client.hear().await;
    match heard["method"].as_str() {
        None => heard["id"].take(),
        Some(method) => {
            assert_eq!((method, &heard["jsonrpc"]), ("notifications/progress", &json!("2.0")));
            heard["params"].take()
        }
    }
}

#[tokio::test]
async fn it_goes_before_the_answer_each_under_its_own_token_and_only_grows() {
    let mut client = Client::open().await;
    client.say(&[asks(1, "tell", json!("a")), asks(2, "tell", json!(7)), asks(3, "3", json!(9))]).await;
    assert_eq!(heard(&mut client).await, 3);
    for token in [json!("a"), json!(7)] {
        let steps = [
            json!({"progressToken": token, "progress": 0.0, "message": "begins"}),
            json!({"progressToken": token, "progress": 5.0, "total": 10.0, "message": "half"}),
        ];
        for step in steps {
            assert_eq!(heard(&mut client).await, step);
        }
    }
    let mut answered = [heard(&mut client).await, heard(&mut client).await];
    answered.sort_by_key(Value::to_string);
    assert_eq!(answered, [json!(1), json!(2)]);
    assert_eq!(*client.fake.groups.lock().unwrap(), [3], "they are taken together");
}

#[tokio::test]
async fn it_comes_while_the_call_goes_on_and_nobody_listens_once_that_is_taken_back() {
    let mut client = Client::open().await;
    client.say(&[asks(1, "sent", json!("t")), asks(2, "2", json!("u"))]).await;
    assert_eq!(heard(&mut client).await, 2);
    let tells = client.fake.tells.lock().unwrap().pop().unwrap();
    for step in [1.0, 2.0] {
        tells.send(note("on", Some(step), None)).await.unwrap();
        let told = json!({"progressToken": "t", "progress": step, "message": "on"});
        assert_eq!(heard(&mut client).await, told);
    }
    client.say(&[cancelled(1)]).await;
    client.hear_of_an_end().await;
    assert!(tells.is_closed());
}

#[tokio::test]
async fn it_comes_also_where_the_call_has_to_wait() {
    let mut client = Client::open().await;
    client.say(&[asks(1, "later", json!("t"))]).await;
    let told = json!({"progressToken": "t", "progress": 0.0, "message": "goes on"});
    assert_eq!(heard(&mut client).await, told);
    assert_eq!(heard(&mut client).await, 1);
    assert_eq!(*client.fake.groups.lock().unwrap(), [1]);
}

/// What a call says of its progress is held up to a limit; what finds no room is dropped, and what was held comes once there is room.
#[tokio::test]
async fn a_client_that_does_not_read_holds_nothing_up_and_hears_what_was_held() {
    let mut client = Client::open().await;
    client.say(&[asks(1, "sent", json!("t")), asks(2, "2", json!("u"))]).await;
    assert_eq!(heard(&mut client).await, 2);
    let tells = client.fake.tells.lock().unwrap().pop().unwrap();
    let mut said = 0;
    for _ in 0..20_000 {
        said += usize::from(tells.try_send(note(&"x".repeat(2_000), None, None)).is_ok());
        tokio::task::yield_now().await;
    }
    assert!((100..1_000).contains(&said), "{said} were taken");
    for _ in 0..said {
        assert_eq!(heard(&mut client).await["progressToken"], "t");
    }
    client.say(&[call(json!(3), "quick", "3")]).await;
    assert_eq!(heard(&mut client).await, 3);
}
