//! Whose sessions are, and which of them give way.

use std::task::Poll;

use super::*;
use pretty_assertions::assert_eq;

/// A session that its client does not end.
async fn left(face: &HttpFace) -> String {
    face.handle(request(&[], hello())).await.headers()[SESSION_ID].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn sessions_left_behind_do_not_lock_out_their_client_and_those_in_use_stay() {
    let (face, mut told) = told_face(|options| options.sessions_of_one = 3);
    let (working, answer) = with_a_call(&face, &mut told).await;
    // Its client has hung up, and its work goes on.
    drop(answer);
    let listening = left(&face).await;
    let mut notices = request(&[(SESSION_ID, &listening)], String::new());
    *notices.method_mut() = Method::GET;
    let notices = face.handle(notices).await;
    assert_eq!(notices.status(), StatusCode::OK);
    for _ in 0..100 {
        left(&face).await;
    }
    assert_eq!(face.manager.local.sessions.read().await.len(), 3);
    for session in [&working, &listening] {
        assert!(pinged(&face, session, &json!("p")).await.contains("result"));
    }
    assert_eq!(next(&mut told).await, None, "the call goes on");
    // Where all are used, nothing gives way.
    let idle = left(&face).await;
    let begun = face.handle(request(&[], hello())).await;
    assert_eq!(begun.status(), StatusCode::OK);
    assert_eq!(face.handle(request(&[(SESSION_ID, &idle)], hello())).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(face.handle(request(&[], hello())).await.status(), StatusCode::TOO_MANY_REQUESTS);
    // Another client's are its own.
    let other = [("authorization", "Bearer second")];
    assert_eq!(face.handle(request(&other, hello())).await.status(), StatusCode::OK);
    drop((notices, begun));
}

#[tokio::test]
async fn where_all_clients_have_all_sessions_one_gives_up_its_own_and_no_others() {
    let face = face(|options| (options.sessions, options.sessions_of_one) = (2, 1));
    let other = [("authorization", "Bearer second")];
    let others =
        face.handle(request(&other, hello())).await.headers()[SESSION_ID].to_str().unwrap().to_owned();
    let first = left(&face).await;
    let second = left(&face).await;
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
    let status = async |headers: &[(&str, &str)]| face.handle(request(headers, ping.clone())).await.status();
    assert_eq!(status(&[(SESSION_ID, &first)]).await, StatusCode::NOT_FOUND);
    assert_eq!(status(&[(SESSION_ID, &second)]).await, StatusCode::OK);
    assert_eq!(status(&[other[0], (SESSION_ID, &others)]).await, StatusCode::OK);
}

/// Who leaves before it knows its session has it all the same, and nobody else.
#[tokio::test]
async fn a_session_is_its_clients_as_soon_as_there_is_one() {
    let (mut is_whole, mut halves) = (false, 0);
    for polls in 1..100 {
        let face = face(|_| ());
        let mut answer = Box::pin(face.handle(request(&[], hello())));
        for _ in 0..polls {
            is_whole =
                std::future::poll_fn(|poller| Poll::Ready(answer.as_mut().poll(poller).is_ready())).await;
            if is_whole {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(answer);
        let sessions: Vec<String> = {
            let sessions = face.manager.local.sessions.read().await;
            sessions.keys().map(|session| session.to_string()).collect()
        };
        assert_eq!(face.manager.owners.count("one"), sessions.len(), "{polls}");
        assert!(sessions.iter().all(|session| face.manager.owners.keeps_out(session, "two")));
        assert_eq!(face.starting.count(), 0);
        if is_whole {
            break;
        }
        halves += sessions.len();
    }
    assert!(is_whole && halves > 0, "{halves}");
}

/// Whoever ends it.
#[tokio::test(start_paused = true)]
async fn a_session_that_has_ended_is_nobodys() {
    let face = face(|options| options.idle = Duration::from_secs(60));
    let ended = left(&face).await;
    left(&face).await;
    assert_eq!(face.handle(end_of(&ended, "Bearer first")).await.status(), StatusCode::ACCEPTED);
    assert_eq!(face.manager.owners.count("one"), 1);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!((face.manager.owners.count("one"), face.manager.local.sessions.read().await.len()), (0, 0));
}
