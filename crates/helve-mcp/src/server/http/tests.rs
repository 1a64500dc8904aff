//! The door: who comes in, and how much of anything there may be, request by request and without a network.

use super::*;
use helve_core::{BoxFuture, CallId, CallResult, ToolError, ToolSpec};
use http::header::{ACCEPT, HOST, ORIGIN};
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::super::{Card, Host, HostCall};

mod lasting;
mod listens;
mod sessions;
mod stalled;

/// A host whose calls go on until they are taken back, and tell of their beginning and their end. Those of the tool `stays` go on
/// then too, those of `chatters` end once they have said much, and those of `changes` once the tools are others.
struct Empty(watch::Sender<u64>, mpsc::UnboundedSender<&'static str>);

impl Hosts for Empty {
    fn card(&self) -> Card {
        Card { name: "s".to_owned(), version: "1".to_owned(), ..Card::default() }
    }

    fn session(&self, _client: &str) -> Result<Arc<dyn Host>, ToolError> {
        Ok(Arc::new(Empty(watch::Sender::new(0), self.1.clone())))
    }

    fn standing(&self, client: &str) -> Result<Arc<dyn Host>, ToolError> {
        self.session(client)
    }
}

impl Host for Empty {
    fn tools(&self) -> Vec<Arc<ToolSpec>> {
        Vec::new()
    }

    /// One that somebody has had who has not looked.
    fn tools_version(&self) -> watch::Receiver<u64> {
        let mut version = self.0.subscribe();
        version.mark_changed();
        version
    }

    /// Not what the version says.
    fn tools_changes(&self) -> u64 {
        *self.0.borrow() + 7
    }

    fn call(&self, call: HostCall) -> BoxFuture<'_, Box<CallResult>> {
        Box::pin(async move {
            let _ = self.1.send("began");
            if call.call.tool == "changes" {
                self.0.send_modify(|version| *version += 1);
                return Box::new(CallResult::saying(CallId::from_parts(1, 2), call.call.tool, "changed"));
            }
            if call.call.tool == "chatters" {
                stalled::chatter(&call.line).await;
                let _ = self.1.send("ended");
                return Box::new(CallResult::saying(CallId::from_parts(1, 2), call.call.tool, "said"));
            }
            call.line.cancel.cancelled().await;
            if call.call.tool == "stays" {
                std::future::pending::<()>().await;
            }
            let _ = self.1.send("ended");
            let result = CallResult::saying(CallId::from_parts(1, 2), call.call.tool, "taken back");
            Box::new(CallResult { id: call.call.id, ..result })
        })
    }
}

fn face(change: impl FnOnce(&mut HttpOptions)) -> Arc<HttpFace> {
    told_face(change).0
}

/// The same, with what calls tell.
fn told_face(
    change: impl FnOnce(&mut HttpOptions),
) -> (Arc<HttpFace>, mpsc::UnboundedReceiver<&'static str>) {
    let (tell, told) = mpsc::unbounded_channel();
    let tokens = vec![Token::new("one", "first"), Token::new("two", "second")];
    let mut options = HttpOptions { gate: Gate::Tokens(tokens), body_bytes: 2_000, ..HttpOptions::default() };
    change(&mut options);
    (HttpFace::new(Arc::new(Empty(watch::Sender::new(0), tell)), options).unwrap(), told)
}

fn hello() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}})
    .to_string()
}

/// A request of the first client; a header that is named again is replaced.
fn request(more: &[(&str, &str)], body: String) -> Request<Full<Bytes>> {
    let mut request = Request::post("/mcp").body(Full::new(Bytes::from(body))).unwrap();
    let usual = [
        (HOST.as_str(), "localhost"),
        (AUTHORIZATION.as_str(), "Bearer first"),
        (ACCEPT.as_str(), "application/json, text/event-stream"),
        (CONTENT_TYPE.as_str(), "application/json"),
    ];
    for (name, value) in usual.iter().chain(more) {
        let name = http::HeaderName::try_from(*name).unwrap();
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    request
}

#[tokio::test]
async fn who_comes_in() {
    let cases: [(&[(&str, &str)], u16); 12] = [
        (&[], 200),
        (&[("authorization", "bearer second")], 200),
        (&[("authorization", "Bearer third")], 401),
        (&[("authorization", "Bearer ")], 401),
        (&[("authorization", "Basic first")], 401),
        (&[("host", "evil.test")], 403),
        (&[("host", "localhost.evil.test")], 403),
        (&[(ORIGIN.as_str(), "http://localhost:8080")], 200),
        (&[(ORIGIN.as_str(), "http://evil.test")], 403),
        (&[(ORIGIN.as_str(), "null")], 403),
        (&[("content-length", "2001")], 413),
        (&[(SESSION_ID, "guessed")], 404),
    ];
    for (headers, status) in cases {
        let answer = face(|_| ()).handle(request(headers, hello())).await;
        assert_eq!(answer.status().as_u16(), status, "{headers:?}");
    }
    for (name, value) in [(HOST, "evil.test"), (ORIGIN, "http://evil.test")] {
        let mut twice = request(&[(ORIGIN.as_str(), "http://localhost:8080")], hello());
        twice.headers_mut().append(&name, HeaderValue::from_static(value));
        let answer = face(|_| ()).handle(twice).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{name} twice");
    }
    let elsewhere = Request::post("/other").body(Full::new(Bytes::new())).unwrap();
    assert_eq!(face(|_| ()).handle(elsewhere).await.status(), StatusCode::NOT_FOUND);
    // The length of a body counts also where nothing is said of it.
    let long = format!("{}{}", hello(), " ".repeat(2_000));
    let refused = face(|_| ()).handle(request(&[], long)).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    // By us, before the whole of it is held, and not by the protocol's service behind.
    assert_eq!(refused.into_body().collect().await.unwrap().to_bytes(), "The body is too long.");
}

/// A page at another port of a host is another's page.
#[tokio::test]
async fn an_origin_has_one_port() {
    let allowed = [
        "https://app.example",
        "http://plain.example/",
        "https://own.example:8443",
        "http://any.example:*",
        "HTTP://[::1]",
    ];
    for (origin, status) in [
        ("https://app.example", 200),
        ("https://app.example:443", 200),
        ("https://app.example:9999", 403),
        ("http://app.example", 403),
        ("http://plain.example", 200),
        ("http://plain.example:80", 200),
        ("http://plain.example:8080", 403),
        ("https://own.example:8443", 200),
        ("https://own.example", 403),
        ("http://any.example", 200),
        ("http://any.example:9999", 200),
        ("http://[::1]", 200),
        ("http://[::1]:9999", 403),
    ] {
        let face = face(|options| options.origins = allowed.map(str::to_owned).to_vec());
        let answer = face.handle(request(&[(ORIGIN.as_str(), origin)], hello())).await;
        assert_eq!(answer.status().as_u16(), status, "{origin}");
    }
}

#[tokio::test]
async fn a_session_is_its_clients_own() {
    let face = face(|_| ());
    let answer = face.handle(request(&[], hello())).await;
    let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let mine = [(SESSION_ID, session.as_str())];
    let others = [(SESSION_ID, session.as_str()), ("authorization", "Bearer second")];
    assert_eq!(face.handle(request(&others, ready.clone())).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(face.handle(request(&mine, ready)).await.status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn only_so_many_sessions_begin() {
    let face = face(|options| options.sessions = 2);
    for _ in 0..2 {
        assert_eq!(face.handle(request(&[], hello())).await.status(), StatusCode::OK);
    }
    let refused = face.handle(request(&[], hello())).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key(RETRY_AFTER));
}

/// However it is written, and however many come at once.
#[tokio::test]
async fn no_spelling_begins_one_more_session() {
    let face = face(|options| (options.sessions, options.sessions_of_one) = (8, 3));
    let spelled = hello().replace("\"initialize\"", "\"\\u0069nitialize\"");
    let many = (0..8).map(|_| face.handle(request(&[], spelled.clone())));
    let answers = futures::future::join_all(many).await;
    let begun = answers.iter().filter(|answer| answer.status() == StatusCode::OK).count();
    assert_eq!((begun, face.manager.local.sessions.read().await.len()), (3, 3));
    // Room that was kept for one that did not begin is there again.
    let other = [("authorization", "Bearer second")];
    for _ in 0..8 {
        assert_ne!(face.handle(request(&other, "{".to_owned())).await.status(), StatusCode::OK);
    }
    assert_eq!(face.handle(request(&other, hello())).await.status(), StatusCode::OK);
    for (body, may) in [
        (r#"{"method":"initialize"}"#, true),
        (r#"{"m\u0065thod":"initialize"}"#, true),
        (r#"{"method":"tools/list","method":"initialize"}"#, true),
        (r#"[{"method":"initialize"}]"#, true),
        (r#"{"method":"tools/call","params":{"name":"initialize"}}"#, false),
        (r#"{"id":1,"result":{}}"#, false),
    ] {
        assert_eq!(may_start_a_session(body.as_bytes()), may, "{body}");
    }
}

#[tokio::test]
async fn only_so_many_answers_are_under_way() {
    let face = face(|options| options.streams = 1);
    let held = face.handle(request(&[], hello())).await;
    assert_eq!(held.status(), StatusCode::OK);
    assert_eq!(face.handle(request(&[], hello())).await.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(held);
    assert_eq!(face.handle(request(&[], hello())).await.status(), StatusCode::OK);
}

/// In a session a call goes on where its client hangs up.
#[tokio::test]
async fn who_hangs_up_makes_no_room_before_the_work_is_done() {
    let (face, mut told) = told_face(|options| (options.streams, options.streams_of_one) = (3, 2));
    let (session, mut one) = with_a_call(&face, &mut told).await;
    let event = first_event(&mut one).await;
    drop(one);
    let again =
        |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
    let mine = [(SESSION_ID, session.as_str())];
    drop(face.handle(request(&mine, again(3).to_string())).await);
    assert_eq!(next(&mut told).await, Some("began"));
    let refused = face.handle(request(&mine, again(4).to_string())).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    // Another client has its own, and a stream that is taken up again has that of its request.
    let other = [("authorization", "Bearer second")];
    assert_eq!(face.handle(request(&other, hello())).await.status(), StatusCode::OK);
    for _ in 0..3 {
        assert_eq!(face.handle(behind(&session, &event)).await.status(), StatusCode::OK);
    }
    assert_eq!(face.handle(behind(&session, "0")).await.status(), StatusCode::TOO_MANY_REQUESTS);
    // What is begun can be taken back and ended all the same, and nothing else comes in.
    let notice = |method: &str, more: &str| {
        let params = json!({"requestId": 2, "reason": more});
        let notice = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let length = notice.len().to_string();
        request(&[mine[0], ("content-length", &length)], notice)
    };
    let long = "x".repeat(4 << 10);
    for notice in [notice("notifications/progress", ""), notice("notifications/cancelled", &long)] {
        assert_eq!(face.handle(notice).await.status(), StatusCode::TOO_MANY_REQUESTS);
    }
    let cancel = face.handle(notice("notifications/cancelled", "")).await;
    assert_eq!((cancel.status(), next(&mut told).await), (StatusCode::ACCEPTED, Some("ended")));
    // Soon after the end of the call.
    let soon = async {
        while pinged(&face, &session, &json!(4)).await.contains("Too many") {}
        drop(face.handle(request(&mine, again(5).to_string())).await);
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), soon).await.is_ok());
    assert_eq!(next(&mut told).await, Some("began"));
    let ended = face.handle(end_of(&session, "Bearer first")).await.status();
    assert_eq!((ended, next(&mut told).await), (StatusCode::ACCEPTED, Some("ended")));
}

#[tokio::test]
async fn a_body_that_is_no_message_is_answered_as_one() {
    let lone = r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\ud83d"}}"#;
    let wrong = r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#;
    let halting =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    for (body, id, code) in [
        (lone, json!(7), -32700),
        (wrong, json!("x"), -32600),
        ("", json!(null), -32700),
        (halting, json!(1), -32602),
    ] {
        let answer = face(|_| ()).handle(request(&[], body.to_owned())).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
        let answer = answer.into_body().collect().await.unwrap().to_bytes();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{body}");
    }
    // A message of another kind of content is one all the same.
    let other = face(|_| ()).handle(request(&[("content-type", "text/plain")], hello())).await;
    assert_eq!(other.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn a_cursor_that_is_no_text_gives_no_first_page() {
    let face = face(|_| ());
    let answer = face.handle(request(&[], hello())).await;
    let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
    let mine = [(SESSION_ID, session.as_str())];
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(face.handle(request(&mine, ready)).await.status(), StatusCode::ACCEPTED);
    for (params, code) in [
        (r#"{"cursor": 4}"#, "-32602"),
        (r#"{"cursor": 4, "cursor": "after:z"}"#, "-32602"),
        (r#"{"cursor": null, "cursor": null}"#, "-32602"),
        (r#"{"cursor": null}"#, "\"tools\""),
        ("{}", "\"tools\""),
    ] {
        let list = format!(r#"{{"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {params}}}"#);
        let answer = face.handle(request(&mine, list)).await.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&answer).contains(code), "{params}: {answer:?}");
    }
}

/// What a call tells next; not for long.
async fn next(told: &mut mpsc::UnboundedReceiver<&'static str>) -> Option<&'static str> {
    tokio::time::timeout(Duration::from_secs(1), told.recv()).await.ok().flatten()
}

/// A session in which a call runs, and the answer to that.
async fn with_a_call(face: &HttpFace, told: &mut mpsc::UnboundedReceiver<&'static str>) -> (String, Answer) {
    with_a_call_of(face, told, "t").await
}

async fn with_a_call_of(
    face: &HttpFace,
    told: &mut mpsc::UnboundedReceiver<&'static str>,
    tool: &str,
) -> (String, Answer) {
    let answer = face.handle(request(&[], hello())).await;
    let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool}});
    let answer = face.handle(request(&[(SESSION_ID, &session)], call.to_string())).await;
    assert_eq!(next(told).await, Some("began"));
    (session, answer)
}

fn end_of(session: &str, token: &str) -> Request<Full<Bytes>> {
    let mut request = request(&[(SESSION_ID, session), ("authorization", token)], String::new());
    *request.method_mut() = Method::DELETE;
    request
}

#[tokio::test(start_paused = true)]
async fn a_session_that_its_client_ends_takes_its_calls_with_it_and_no_others() {
    let (face, mut told) = told_face(|_| ());
    let (one, _one) = with_a_call(&face, &mut told).await;
    let (two, _two) = with_a_call(&face, &mut told).await;
    assert_eq!(face.handle(end_of(&one, "Bearer second")).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(next(&mut told).await, None, "it is another client's");
    assert_eq!(face.handle(end_of(&one, "Bearer first")).await.status(), StatusCode::ACCEPTED);
    assert_eq!((next(&mut told).await, next(&mut told).await), (Some("ended"), None));
    assert_eq!(face.handle(end_of(&two, "Bearer first")).await.status(), StatusCode::ACCEPTED);
    assert_eq!(next(&mut told).await, Some("ended"));
    for gone in [&one, "guessed"] {
        assert_eq!(face.handle(end_of(gone, "Bearer first")).await.status(), StatusCode::NOT_FOUND);
    }
}

/// The stream behind this event.
fn behind(session: &str, event: &str) -> Request<Full<Bytes>> {
    let mut request = request(&[(SESSION_ID, session), (LAST_EVENT_ID, event)], String::new());
    *request.method_mut() = Method::GET;
    request
}

/// The id of the first event of a stream.
async fn first_event(answer: &mut Answer) -> String {
    let frame = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let frame = String::from_utf8(frame.to_vec()).unwrap();
    frame.lines().find_map(|line| line.strip_prefix("id: ").map(str::to_owned)).unwrap()
}

#[tokio::test]
async fn when_the_server_ends_calls_are_taken_back_and_answered() {
    for is_resumed in [false, true] {
        let (face, mut told) = told_face(|_| ());
        let (canceller, cancel) = Cancel::pair();
        let (session, mut answer) = with_a_call(&face, &mut told).await;
        if is_resumed {
            let event = first_event(&mut answer).await;
            drop(answer);
            answer = face.handle(behind(&session, &event)).await;
            assert_eq!(answer.status(), StatusCode::OK);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stop = face.stop.clone();
        let serving = tokio::spawn(async move { face.serve(listener, &cancel).await });
        canceller.cancel();
        assert_eq!(next(&mut told).await, Some("ended"));
        // However late its client reads on.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!stop.is_cancelled(), "the answer is under way; resumed: {is_resumed}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("taken back"), "{body:?}");
        serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_stream_of_notices_does_not_hold_up_the_end() {
    let (face, _told) = told_face(|_| ());
    let answer = face.handle(request(&[], hello())).await;
    let session = answer.headers()[SESSION_ID].to_str().unwrap().to_owned();
    drop(answer);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    drop(face.handle(request(&[(SESSION_ID, &session)], ready)).await);
    let notices = face.handle(behind(&session, "0")).await;
    assert_eq!(notices.status(), StatusCode::OK);
    assert!(tokio::time::timeout(Duration::from_secs(1), face.running.none()).await.is_ok());
    drop(notices);
}

/// All that is on a stream.
async fn whole(answer: Answer) -> String {
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// What a request of this id is answered with at once.
async fn pinged(face: &HttpFace, session: &str, id: &serde_json::Value) -> String {
    let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    whole(face.handle(request(&[(SESSION_ID, session)], ping.to_string())).await).await
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused_and_the_first_request_keeps_its_answer() {
    let (face, mut told) = told_face(|_| ());
    let (session, answer) = with_a_call(&face, &mut told).await;
    let (other, _other) = with_a_call(&face, &mut told).await;
    let refused = pinged(&face, &session, &json!(2)).await;
    assert!(refused.contains("-32600") && refused.contains("\"id\":2"), "{refused}");
    assert!(!pinged(&face, &session, &json!("2")).await.contains("error"), "it is another id");
    // As often as one likes where the one before is answered.
    for _ in 0..3 {
        assert!(!pinged(&face, &session, &json!(3)).await.contains("error"));
    }
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    let canceled = face.handle(request(&[(SESSION_ID, &other)], cancel.to_string())).await;
    assert_eq!(canceled.status(), StatusCode::ACCEPTED);
    assert_eq!(next(&mut told).await, Some("ended"), "that of the other session");
    face.running.take_back();
    assert_eq!(next(&mut told).await, Some("ended"));
    assert!(whole(answer).await.contains("taken back"));
    assert!(!pinged(&face, &session, &json!(2)).await.contains("error"));
}

/// Its answer would be taken for that of the next one.
#[tokio::test]
async fn an_id_that_was_taken_back_is_in_use_while_somebody_works_on_it() {
    for (tool, is_refused) in [("t", false), ("stays", true)] {
        let (face, mut told) = told_face(|_| ());
        let (session, answer) = with_a_call_of(&face, &mut told, tool).await;
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
        let canceled = face.handle(request(&[(SESSION_ID, &session)], cancel.to_string())).await;
        assert_eq!(canceled.status(), StatusCode::ACCEPTED);
        assert!(!whole(answer).await.contains("result"), "its stream ends without an answer");
        // Soon after the end of the call.
        let mut refused = true;
        for _ in 0..100 {
            refused = refused && pinged(&face, &session, &json!(2)).await.contains("-32600");
        }
        assert_eq!(refused, is_refused, "{tool}");
    }
}
