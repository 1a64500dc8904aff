//! Questions of servers: only what the owner allows, and not too many.

use super::*;
use helve_core::call::CallId;
use helve_core::{BoxFuture, LogLevel};
use pretty_assertions::assert_eq;

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl ServerLog for Told {
    fn stderr(&self, _server: &str, _bytes: &[u8]) {}

    fn event(&self, _server: &str, kind: &'static str, text: &str) {
        self.0.lock().unwrap().push(format!("{kind}: {text}"));
    }
}

struct Yes;

impl Peer for Yes {
    fn takes(&self, kind: QuestionKind) -> bool {
        kind != QuestionKind::Url
    }

    fn ask<'a>(
        &'a self,
        key: &'a str,
        _kind: QuestionKind,
        _params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move { Ok(json!({"key": key})) })
    }

    fn log(&self, _level: LogLevel, _logger: Option<&str>, _data: Value) {}
}

fn call(peer: Option<Arc<dyn Peer>>) -> Underway {
    of_session(1, peer)
}

fn of_session(session: u64, peer: Option<Arc<dyn Peer>>) -> Underway {
    let progress = Progress::new(CallId::from_parts(1, 1), None);
    Underway { progress, peer, asking: Arc::default(), session: Session(session) }
}

fn questions(may: ServerMay, log: &Arc<Told>) -> Questions {
    Questions::new(
        "s".to_owned(),
        may,
        Some(PathBuf::from("/work space")),
        Arc::clone(log) as Arc<dyn ServerLog>,
    )
}

#[tokio::test]
async fn nothing_is_answered_that_the_owner_does_not_allow() {
    let log = Arc::new(Told::default());
    let questions = questions(ServerMay::default(), &log);
    let call = call(Some(Arc::new(Yes)));
    for kind in [QuestionKind::Form, QuestionKind::Url, QuestionKind::Sample, QuestionKind::Roots] {
        let refused = questions.answer("1", kind, Value::Null, Some(&call)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::METHOD_NOT_FOUND);
    }
    assert_eq!(log.0.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn what_is_allowed_reaches_the_caller_at_a_rate() {
    let log = Arc::new(Told::default());
    let may = ServerMay { sample: true, roots: true, elicit: true };
    let questions = questions(may, &log);
    let call = call(Some(Arc::new(Yes)));
    let roots = questions.answer("0", QuestionKind::Roots, Value::Null, None).await.unwrap();
    assert_eq!(roots, json!({"roots": [{"uri": "file:///work%20space", "name": "workspace"}]}));
    let mut answered = 1;
    for n in 0..100 {
        match questions.answer(&n.to_string(), QuestionKind::Sample, json!({}), Some(&call)).await {
            Ok(answer) => {
                assert_eq!(answer, json!({"key": format!("mcp/s/{n}")}));
                answered += 1;
            }
            Err(error) => assert!(error.message.contains("too many questions"), "{error:?}"),
        }
    }
    assert_eq!(answered, AT_ONCE);
}

/// A person who was asked before, and whose answers came with the call.
struct Answered;

impl Peer for Answered {
    fn takes(&self, _kind: QuestionKind) -> bool {
        true
    }

    fn ask<'a>(
        &'a self,
        key: &'a str,
        _kind: QuestionKind,
        _params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move { Ok(json!({"key": key})) })
    }

    fn has_answer(&self, key: &str) -> bool {
        key == "mcp/s/1"
    }

    fn log(&self, _level: LogLevel, _logger: Option<&str>, _data: Value) {}
}

#[tokio::test]
async fn an_answer_that_came_with_the_call_is_no_further_question() {
    let log = Arc::new(Told::default());
    let questions = questions(ServerMay { sample: true, roots: true, elicit: true }, &log);
    let call = call(Some(Arc::new(Answered)));
    let mut answered = [0, 0];
    for key in ["1", "2"] {
        for _ in 0..=AT_ONCE {
            let answer = questions.answer(key, QuestionKind::Sample, json!({}), Some(&call)).await;
            answered[usize::from(key == "2")] += u32::from(answer.is_ok());
        }
    }
    assert_eq!(answered, [AT_ONCE + 1, AT_ONCE]);
}

#[tokio::test]
async fn without_a_call_or_a_caller_who_takes_it_nobody_is_asked() {
    let log = Arc::new(Told::default());
    let may = ServerMay { sample: true, roots: true, elicit: true };
    let questions = questions(may, &log);
    assert!(questions.answer("1", QuestionKind::Form, Value::Null, None).await.is_err());
    assert!(questions.answer("1", QuestionKind::Form, Value::Null, Some(&call(None))).await.is_err());
    let yes = call(Some(Arc::new(Yes)));
    assert!(questions.answer("1", QuestionKind::Url, Value::Null, Some(&yes)).await.is_err());
}

#[test]
fn one_callers_question_is_not_anothers() {
    let id = |n: i64| RequestId::Number(n);
    let token = |n: i64| ProgressToken(RequestId::Number(n));
    let (one, two): (Arc<dyn Peer>, Arc<dyn Peer>) = (Arc::new(Yes), Arc::new(Yes));
    let mut calls = Calls::default();
    assert!(calls.of_question(None).is_none());
    calls.begin(token(1), id(1), call(Some(Arc::clone(&one))));
    assert!(calls.of_question(None).is_some());
    calls.begin(token(2), id(2), call(Some(Arc::clone(&one))));
    assert!(calls.of_question(None).is_none(), "whose time would not pass?");
    assert!(calls.of_all().is_some());
    calls.begin(token(3), id(3), call(Some(Arc::clone(&two))));
    assert!(calls.of_question(None).is_none() && calls.of_all().is_none());
    let named = calls.of_question(Some(&id(3))).unwrap();
    assert!(Arc::ptr_eq(&named.peer.unwrap(), &two));
    calls.end(&id(3));
    assert!(calls.of_all().is_some());
}

/// A server may come back to a call that it has answered, and cannot say so where nothing names calls.
#[tokio::test(start_paused = true)]
async fn what_is_asked_soon_after_a_call_of_another_session_is_nobodys() {
    let (id, token) = (RequestId::Number, |n: i64| ProgressToken(RequestId::Number(n)));
    let begin = |calls: &mut Calls, n: i64, session: u64| {
        calls.begin(token(n), id(n), of_session(session, Some(Arc::new(Yes))));
    };
    let is_known = |calls: &Calls| [calls.of_question(None).is_some(), calls.of_all().is_some()];
    let mut calls = Calls::default();
    begin(&mut calls, 1, 1);
    calls.end(&id(1));
    begin(&mut calls, 2, 1);
    assert_eq!(is_known(&calls), [true, true], "all calls are of one session");
    begin(&mut calls, 3, 2);
    assert_eq!(is_known(&calls), [false, false]);
    calls.end(&id(3));
    assert_eq!(is_known(&calls), [false, false], "is it about the call that is over?");
    assert!(calls.of_question(Some(&id(2))).is_some(), "this one is named");
    tokio::time::advance(LINGERS).await;
    assert_eq!(is_known(&calls), [true, true]);
    for session in 10..1_000 {
        begin(&mut calls, session, session.unsigned_abs());
        calls.end(&id(session));
        tokio::time::advance(LINGERS / 10).await;
    }
    assert!(calls.over.len() <= 11, "{} are remembered", calls.over.len());
}

/// A person who does not answer.
struct Thinks;

impl Peer for Thinks {
    fn takes(&self, _kind: QuestionKind) -> bool {
        true
    }

    fn ask<'a>(
        &'a self,
        _key: &'a str,
        _kind: QuestionKind,
        _params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(std::future::pending())
    }

    fn log(&self, _level: LogLevel, _logger: Option<&str>, _data: Value) {}
}

#[tokio::test]
async fn nobody_is_asked_any_longer_for_a_call_that_is_over() {
    let log = Arc::new(Told::default());
    let questions = questions(ServerMay { sample: true, roots: true, elicit: true }, &log);
    let call = call(Some(Arc::new(Thinks)));
    let asking = Arc::clone(&call.asking);
    let asked =
        tokio::spawn(async move { questions.answer("1", QuestionKind::Form, json!({}), Some(&call)).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    asking.end();
    let answer = tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap().unwrap();
    assert!(answer.unwrap_err().message.contains("is over"));
}
