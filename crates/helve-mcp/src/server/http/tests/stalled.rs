//! Clients that ask, and do not read.

use super::*;
use helve_core::LogLevel;
use helve_core::context::ProgressNote;
use pretty_assertions::assert_eq;

use super::super::super::Line;

/// So often a call says how far it is, and logs something.
const NOTES: u64 = 400;

/// For so long nobody is held up, on however slow a machine.
const LONG: Duration = Duration::from_secs(60);

pub(super) async fn chatter(line: &Line) {
    for number in 0..NOTES {
        line.peer.log(LogLevel::Warning, None, json!("x".repeat(100)));
        if let Some(progress) = &line.progress {
            let (message, done) = (number.to_string(), Some(number as f64));
            let note =
                ProgressNote { call: CallId::from_parts(1, 2), message, done, total: None, output: None };
            let _ = progress.send(note).await;
        }
    }
}

/// A call of `chatters` whose client wants to hear of its progress.
fn call(session: &str) -> Request<Full<Bytes>> {
    let params = json!({"name": "chatters", "_meta": {"progressToken": "p"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    request(&[(SESSION_ID, session)], call.to_string())
}

#[tokio::test]
async fn a_stream_that_is_not_read_holds_up_no_other_of_its_session() {
    let (face, mut told) = told_face(|_| ());
    let session = face.handle(request(&[], hello())).await.headers()[SESSION_ID].to_str().unwrap().to_owned();
    let mut notices = request(&[(SESSION_ID, &session)], String::new());
    *notices.method_mut() = Method::GET;
    let notices = face.handle(notices).await;
    assert_eq!(notices.status(), StatusCode::OK);
    let answer = face.handle(call(&session)).await;
    let both = async { (told.recv().await, told.recv().await) };
    let both = tokio::time::timeout(LONG, both).await;
    assert_eq!(both.ok(), Some((Some("began"), Some("ended"))));
    let ping = tokio::time::timeout(LONG, pinged(&face, &session, &json!(3))).await;
    assert!(ping.is_ok_and(|ping| ping.contains("result")));
    // Who reads late has the answer, and notices.
    let answer = whole(answer).await;
    assert!(answer.contains("\"said\""), "{answer}");
    let told = |what: &str| answer.matches(what).count();
    assert!(told("notifications/progress") > 50, "{answer}");
    // Also what the call has logged.
    assert!(told("notifications/message") > 16, "{answer}");
    let ended = tokio::time::timeout(LONG, face.handle(end_of(&session, "Bearer first"))).await;
    assert_eq!(ended.unwrap().status(), StatusCode::ACCEPTED);
    let notices = whole(notices).await;
    assert_eq!(notices.matches("notifications/").count(), 0, "{notices}");
}
