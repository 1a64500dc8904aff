//! What is kept for as long as a client is there, which is not much.

use super::*;
use pretty_assertions::assert_eq;

use super::super::super::message::LONGEST_LASTING;

fn hello_of(title: String) -> String {
    let mut hello: serde_json::Value = serde_json::from_str(&hello()).unwrap();
    hello["params"]["clientInfo"]["title"] = json!(title);
    hello.to_string()
}

#[tokio::test]
async fn who_says_too_much_of_itself_is_refused_in_a_session_and_without() {
    let face = face(|options| options.body_bytes = 1 << 20);
    let (short, long) = ("x".repeat(LONGEST_LASTING / 2), "x".repeat(LONGEST_LASTING));
    let answer = face.handle(request(&[], hello_of(short))).await;
    let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
    for headers in [&[][..], &[(SESSION_ID, session.as_str())]] {
        let answer = face.handle(request(headers, hello_of(long.clone()))).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let answer = whole(answer).await;
        assert!(
            answer.contains("initialize may have 65536 bytes") && answer.contains("\"id\":1"),
            "{answer}"
        );
    }
    assert_eq!(face.manager.local.sessions.read().await.len(), 1);
    // What is done with and gone may be longer.
    let read = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": long}});
    let answer = whole(face.handle(request(&[(SESSION_ID, &session)], read.to_string())).await).await;
    assert!(answer.contains("There is no resource"), "{answer}");
}

#[tokio::test]
async fn an_address_that_is_subscribed_to_is_not_longer_than_addresses_are() {
    let face = face(|options| options.body_bytes = 1 << 20);
    let answer = face.handle(request(&[], hello())).await;
    let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
    for (bytes, part) in [(2_000, "\"result\":{}"), (2_001, "at most 2000 bytes")] {
        let params = json!({"uri": "x".repeat(bytes)});
        let subscribe = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": params});
        let answer =
            whole(face.handle(request(&[(SESSION_ID, &session)], subscribe.to_string())).await).await;
        assert!(answer.contains(part), "{bytes}: {answer}");
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn nobody_goes_on_telling_a_session_that_its_client_has_ended() {
    let (face, before) = (face(|_| ()), tasks());
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let answer = face.handle(request(&[], hello())).await;
    let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
    drop(answer);
    let mut busy = Vec::new();
    for id in 2..12 {
        drop(face.handle(request(&[(SESSION_ID, &session)], ready.clone())).await);
        assert!(pinged(&face, &session, &json!(id)).await.contains("result"));
        busy.push(tasks());
    }
    assert!(busy.iter().max() <= busy.iter().min().map(|least| least + 3).as_ref(), "{busy:?}");
    assert_eq!(face.handle(end_of(&session, "Bearer first")).await.status(), StatusCode::ACCEPTED);
    let all_end = async {
        while tasks() > before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), all_end).await.is_ok(), "{} > {before}", tasks());
}
