//! Streams that break off, are read again, and are kept for a time.

use super::kept::{EACH, KEPT_FOR, MOST, MOST_OF_ONE};
use super::tape::{MOST_EVENTS, MOST_OF_NOTICES, MOST_WAITING};
use super::*;
use futures::channel::mpsc;
use pretty_assertions::assert_eq;
use serde_json::json;
use std::time::Duration;

fn event(number: u64, text: &str) -> ServerSseMessage {
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
    ServerSseMessage::new(format!("{number}/7"), serde_json::from_value(message).unwrap())
}

type Shared = Arc<Mutex<Kept>>;
type Source = mpsc::UnboundedSender<ServerSseMessage>;

/// What is kept of these sessions.
fn kept(sessions: &[&str]) -> Shared {
    let kept = Shared::default();
    sessions.iter().for_each(|session| lock(&kept).open((*session).into()));
    kept
}

fn stream(kept: &Shared, session: &str) -> (Source, Reader) {
    let (from, rest) = mpsc::unbounded();
    (from, Reader::first(Arc::clone(kept), session.into(), rest, Default::default()))
}

/// The stream 7 of a session, behind this event.
fn again(kept: &Shared, session: &str, last: u64) -> Option<Reader> {
    let tape = Kept::stream(kept, &session.into(), 7)?;
    Some(Reader::after(tape, last + 1))
}

/// A stream that ended with messages of so many bytes.
fn ended(kept: &Shared, session: &str, number: u64, bytes: usize) {
    let tape = Arc::new(Mutex::new(Tape::of(None, PlaceOf::default())));
    lock(kept).add(&session.into(), number, &tape);
    Kept::end(kept, &session.into(), number, bytes);
}

/// A notice of so many bytes, and somewhat more.
fn notice(number: u64, bytes: usize) -> ServerSseMessage {
    let params = json!({"level": "info", "data": "x".repeat(bytes)});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
    ServerSseMessage::new(format!("{number}/7"), serde_json::from_value(message).unwrap())
}

fn question(number: u64) -> ServerSseMessage {
    let message = json!({"jsonrpc": "2.0", "id": number, "method": "roots/list"});
    ServerSseMessage::new(format!("{number}/7"), serde_json::from_value(message).unwrap())
}

/// Until all that was said was read.
async fn settled() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// Which of these streams are kept.
fn which(kept: &Shared, session: &str, of: std::ops::Range<u64>) -> Vec<u64> {
    of.filter(|number| Kept::stream(kept, &session.into(), *number).is_some()).collect()
}

async fn ids(reader: Reader) -> Vec<String> {
    let all = tokio::time::timeout(Duration::from_secs(10), reader.collect::<Vec<_>>()).await.unwrap();
    all.into_iter().filter_map(|event| event.event_id).collect()
}

#[tokio::test]
async fn what_came_while_nobody_read_is_told_to_who_comes_again() {
    let kept = kept(&["s"]);
    let (from, mut reader) = stream(&kept, "s");
    from.unbounded_send(event(0, "")).unwrap();
    assert_eq!(reader.next().await.unwrap().event_id.as_deref(), Some("0/7"));
    drop(reader);
    from.unbounded_send(event(1, "one")).unwrap();
    let reader = again(&kept, "s", 0).unwrap();
    from.unbounded_send(event(2, "two")).unwrap();
    drop(from);
    assert_eq!(ids(reader).await, ["1/7", "2/7"]);
    // Also after its end, from any event on.
    assert_eq!(ids(again(&kept, "s", 1).unwrap()).await, ["2/7"]);
    assert_eq!(ids(again(&kept, "s", 2).unwrap()).await, Vec::<String>::new());
}

#[tokio::test]
async fn who_comes_again_takes_the_stream() {
    let kept = kept(&["s"]);
    let (from, mut first) = stream(&kept, "s");
    from.unbounded_send(event(0, "")).unwrap();
    assert!(first.next().await.is_some());
    let first = tokio::spawn(ids(first));
    tokio::task::yield_now().await;
    let second = again(&kept, "s", 0).unwrap();
    assert_eq!(first.await.unwrap(), Vec::<String>::new());
    from.unbounded_send(event(1, "one")).unwrap();
    drop(from);
    assert_eq!(ids(second).await, ["1/7"]);
}

#[tokio::test]
async fn only_so_much_is_kept() {
    let kept = kept(&["s"]);
    let (from, mut reader) = stream(&kept, "s");
    for number in 0..100 {
        from.unbounded_send(notice(number, 0)).unwrap();
        assert_eq!(reader.next().await.unwrap().event_id, Some(format!("{number}/7")));
    }
    from.unbounded_send(event(100, "")).unwrap();
    drop(from);
    assert_eq!(ids(reader).await, ["100/7"]);
    assert_eq!(ids(again(&kept, "s", 0).unwrap()).await.len(), MOST_EVENTS);
}

/// A session says nothing more on any of its streams while what it says on one is not read.
#[tokio::test]
async fn a_stream_is_read_though_its_client_does_not_and_loses_notices_alone() {
    const MANY: u64 = 10_000;
    for bytes in [0, 10_000] {
        let kept = kept(&["s"]);
        // No more room than the SDK has.
        let (from, rest) = tokio::sync::mpsc::channel(16);
        let rest = stream::unfold(rest, async |mut rest| Some((rest.recv().await?, rest)));
        let reader = Reader::first(Arc::clone(&kept), "s".into(), rest, Default::default());
        let said = async {
            from.send(question(0)).await.unwrap();
            for number in 1..MANY {
                from.send(notice(number, bytes)).await.unwrap();
            }
            from.send(question(MANY)).await.unwrap();
            from.send(event(MANY + 1, "answer")).await.unwrap();
        };
        assert!(tokio::time::timeout(Duration::from_secs(60), said).await.is_ok(), "nobody is held up");
        drop(from);
        let told: Vec<ServerSseMessage> = reader.collect().await;
        let notices = told
            .iter()
            .filter(|event| matches!(event.message.as_deref(), Some(ServerJsonRpcMessage::Notification(_))));
        let most = MOST_OF_NOTICES.checked_div(bytes).map_or(MOST_WAITING, |most| most + 2);
        let count = notices.count();
        assert!(count > 8 && count <= most, "{count}");
        let told: Vec<_> = told.into_iter().filter_map(|event| event.event_id).collect();
        let last: Vec<String> = [MANY - 1, MANY, MANY + 1].map(|number| format!("{number}/7")).into();
        assert_eq!((&told[0], &told[told.len() - 3..]), (&"0/7".to_owned(), &*last));
    }
}

/// Whoever asks beyond all measure: what waits stays bounded.
#[tokio::test]
async fn also_questions_wait_in_bounds() {
    let kept = kept(&["s"]);
    let (from, reader) = stream(&kept, "s");
    (0..1_000).for_each(|number| from.unbounded_send(question(number)).unwrap());
    from.unbounded_send(event(1_000, "answer")).unwrap();
    drop(from);
    settled().await;
    let told = ids(reader).await;
    assert_eq!((told.len(), told.last().map(String::as_str)), (MOST_WAITING, Some("1000/7")));
}

#[tokio::test]
async fn a_stream_of_one_reader_ends_with_it() {
    let (from, rest) = mpsc::unbounded();
    let mut reader = Reader::only(rest);
    let mut event = notice(0, 0);
    event.event_id = Some("5".to_owned());
    from.unbounded_send(event).unwrap();
    assert_eq!(reader.next().await.unwrap().event_id.as_deref(), Some("5"));
    for number in 0..1_000 {
        let mut event = notice(0, 0);
        event.event_id = Some((6 + number).to_string());
        from.unbounded_send(event).unwrap();
    }
    settled().await;
    assert_eq!(reader.next().await.unwrap().event_id, Some((1_006 - MOST_WAITING).to_string()));
    drop(reader);
    settled().await;
    assert!(from.is_closed(), "another one can have it");
}

/// An event that nobody waited for comes from its text.
#[tokio::test]
async fn who_comes_again_with_an_event_that_there_is_not_yet_hears_what_comes() {
    let kept = kept(&["s"]);
    let (from, mut first) = stream(&kept, "s");
    from.unbounded_send(event(0, "")).unwrap();
    assert!(first.next().await.is_some());
    let second = again(&kept, "s", 1_000).unwrap();
    from.unbounded_send(event(1, "one")).unwrap();
    drop(from);
    assert_eq!(ids(second).await, ["1/7"]);
}

#[tokio::test]
async fn what_one_session_does_pushes_out_nothing_of_another() {
    let kept = kept(&["one", "two"]);
    ended(&kept, "one", 0, 100);
    for number in 0..1_000 {
        ended(&kept, "two", number, 10);
    }
    assert_eq!(which(&kept, "two", 0..1_000).len(), 1_000);
    for number in 1_000..1_004 {
        ended(&kept, "two", number, MOST_OF_ONE / 3);
    }
    assert_eq!(which(&kept, "two", 0..1_004), [1_002, 1_003]);
    assert_eq!(which(&kept, "one", 0..1), [0]);
}

#[tokio::test]
async fn what_is_longer_than_all_there_is_room_for_pushes_out_nothing() {
    let kept = kept(&["s"]);
    ended(&kept, "s", 0, 100);
    ended(&kept, "s", 1, MOST_OF_ONE);
    assert_eq!(which(&kept, "s", 0..2), [0]);
}

#[tokio::test]
async fn where_all_is_full_the_session_gives_way_that_has_most() {
    let names = ["a", "b", "c", "d", "e"];
    let kept = kept(&names);
    ended(&kept, "a", 0, MOST_OF_ONE / 3);
    for name in &names[1..] {
        for number in 0..4 {
            ended(&kept, name, number, MOST_OF_ONE / 4 - 2 * EACH);
        }
    }
    assert!(lock(&kept).bytes() <= MOST);
    assert_eq!(which(&kept, "a", 0..4), [0]);
    let left: usize = names[1..].iter().map(|name| which(&kept, name, 0..4).len()).sum();
    assert_eq!(left, 14);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_goes_in_time_though_nobody_comes() {
    let kept = kept(&["s"]);
    ended(&kept, "s", 0, 100);
    tokio::time::sleep(KEPT_FOR / 2).await;
    ended(&kept, "s", 1, 100);
    tokio::time::sleep(KEPT_FOR / 2).await;
    assert_eq!(which(&kept, "s", 0..2), [1]);
    tokio::time::sleep(KEPT_FOR).await;
    assert_eq!(lock(&kept).bytes(), 0);
    // Also what comes later.
    ended(&kept, "s", 2, 100);
    assert!(lock(&kept).bytes() > 0);
    tokio::time::sleep(KEPT_FOR * 2).await;
    assert_eq!(lock(&kept).bytes(), 0);
}

#[tokio::test]
async fn a_session_that_closes_takes_its_streams_with_it() {
    let kept = kept(&["one", "two"]);
    ended(&kept, "one", 0, 100);
    ended(&kept, "two", 0, 100);
    let (from, mut goes_on) = stream(&kept, "one");
    from.unbounded_send(event(0, "")).unwrap();
    assert!(goes_on.next().await.is_some());
    Kept::close(&kept, &"one".into());
    from.unbounded_send(event(1, "late")).unwrap();
    drop(from);
    assert_eq!(ids(goes_on).await, ["1/7"]);
    ended(&kept, "one", 1, 100);
    assert_eq!((which(&kept, "one", 0..8), which(&kept, "two", 0..8)), (vec![], vec![0]));
    Kept::close(&kept, &"two".into());
    assert_eq!(lock(&kept).bytes(), 0);
}

#[tokio::test]
async fn streams_of_one_number_are_their_sessions_own() {
    let kept = kept(&["one", "two"]);
    let (one, mut of_one) = stream(&kept, "one");
    let (two, mut of_two) = stream(&kept, "two");
    for from in [&one, &two] {
        from.unbounded_send(event(0, "")).unwrap();
    }
    assert!(of_one.next().await.is_some() && of_two.next().await.is_some());
    one.unbounded_send(event(1, "of one")).unwrap();
    two.unbounded_send(event(2, "of two")).unwrap();
    drop((of_one, of_two, one, two));
    let (of_one, of_two) = (again(&kept, "one", 0).unwrap(), again(&kept, "two", 0).unwrap());
    assert_eq!((ids(of_one).await, ids(of_two).await), (vec!["1/7".to_owned()], vec!["2/7".to_owned()]));
    assert!(again(&kept, "three", 0).is_none());
}

#[tokio::test]
async fn what_ends_without_an_answer_is_not_kept() {
    let kept = kept(&["s"]);
    let (from, reader) = stream(&kept, "s");
    from.unbounded_send(ServerSseMessage::priming("0/7", Duration::from_secs(3))).unwrap();
    drop(from);
    assert_eq!(ids(reader).await, ["0/7"]);
    assert!(again(&kept, "s", 0).is_none());
}

/// A parsed message takes many times the room of its text.
#[tokio::test]
async fn what_is_kept_is_the_text_of_messages_and_counts_as_that() {
    let kept = kept(&["s"]);
    let (from, reader) = stream(&kept, "s");
    let event = event(0, "a \"text\"");
    let parsed = Arc::downgrade(event.message.as_ref().unwrap());
    let length = serde_json::to_string(event.message.as_ref().unwrap()).unwrap().len();
    from.unbounded_send(event).unwrap();
    drop(from);
    assert_eq!(ids(reader).await, ["0/7"]);
    assert!(Kept::stream(&kept, &"s".into(), 7).is_some());
    assert_eq!(lock(&kept).bytes(), length + EACH);
    assert!(parsed.upgrade().is_none());
}

#[tokio::test]
async fn what_is_told_again_is_what_was_told() {
    let deep = (0..200).fold(json!(0.1), |inner, _| json!([inner]));
    let messages = [
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 2.5}}),
        json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": {"message": "m", "requestedSchema":
            {"type": "object", "properties": {}}, "_meta": {"a": 1}}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": -32000, "message": "m", "data": {"z": [1]}}}),
        json!({"jsonrpc": "2.0", "id": "x", "result": {"content": [{"type": "text", "text": "\u{1}é\n"}],
            "structuredContent": {"z": u64::MAX, "a": 1.000_000_000_000_000_2, "m": deep}, "isError": false}}),
    ];
    let kept = kept(&["s"]);
    let (from, mut reader) = stream(&kept, "s");
    let told = |event: ServerSseMessage| {
        let message = event.message.map(|message| serde_json::to_value(message).unwrap());
        (event.event_id, message, event.retry)
    };
    let mut first = Vec::new();
    let messages = messages.map(|message| serde_json::from_value::<ServerJsonRpcMessage>(message).unwrap());
    for (number, message) in (0..).zip(messages) {
        let sent = Arc::new(message);
        let mut event = ServerSseMessage::priming(format!("{number}/7"), Duration::from_secs(3));
        event.message = Some(Arc::clone(&sent));
        // Who waits gets it as it came.
        let (said, heard) = tokio::join!(async { from.unbounded_send(event) }, reader.next());
        said.unwrap();
        let heard = heard.unwrap();
        assert!(Arc::ptr_eq(heard.message.as_ref().unwrap(), &sent));
        first.push(told(heard));
    }
    from.unbounded_send(ServerSseMessage::priming("4/7", Duration::from_secs(3))).unwrap();
    drop(from);
    first.extend(reader.map(told).collect::<Vec<_>>().await);
    let second: Vec<_> = again(&kept, "s", 4).unwrap().map(told).collect().await;
    assert_eq!(second, []);
    let tape = Kept::stream(&kept, &"s".into(), 7).unwrap();
    assert_eq!(Reader::after(tape, 0).map(told).collect::<Vec<_>>().await, first);
}

/// Whoever was woken for the last time: a connection that has ended takes no room.
#[tokio::test]
async fn who_has_read_a_stream_is_not_held_by_it() {
    struct Nobody;
    impl std::task::Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    let kept = kept(&["s"]);
    let (from, mut reader) = stream(&kept, "s");
    let nobody = Arc::new(Nobody);
    let woken = Arc::downgrade(&nobody);
    let waker = nobody.into();
    let mut poller = Context::from_waker(&waker);
    from.unbounded_send(event(0, "")).unwrap();
    settled().await;
    assert!(reader.poll_next_unpin(&mut poller).is_ready());
    assert!(reader.poll_next_unpin(&mut poller).is_pending());
    drop(from);
    settled().await;
    assert!(matches!(reader.poll_next_unpin(&mut poller), Poll::Ready(None)));
    drop((reader, waker));
    assert!(Kept::stream(&kept, &"s".into(), 7).is_some());
    assert!(woken.upgrade().is_none());
}

/// A reader that waits, and tells whether all was locked when it went.
struct Tells(Shared, Arc<Mutex<Vec<bool>>>);

impl std::task::Wake for Tells {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Tells {
    fn drop(&mut self) {
        lock(&self.1).push(self.0.try_lock().is_err());
    }
}

/// What is let go may be much, and others wait meanwhile.
#[tokio::test(start_paused = true)]
async fn what_is_let_go_goes_while_nobody_waits_for_it() {
    let kept = kept(&["one", "two"]);
    let told = Arc::default();
    let ends = |session: &str, number, bytes| {
        let tape = Arc::new(Mutex::new(Tape::of(None, PlaceOf::default())));
        lock(&tape).waits = Some(Arc::new(Tells(Arc::clone(&kept), Arc::clone(&told))).into());
        lock(&kept).add(&session.into(), number, &tape);
        drop(tape);
        Kept::end(&kept, &session.into(), number, bytes);
    };
    // Without an answer, too long, pushed out.
    ends("one", 0, 0);
    ends("one", 1, MOST_OF_ONE);
    ends("one", 2, MOST_OF_ONE / 2);
    ends("one", 3, MOST_OF_ONE / 2);
    // Its session closes, its time is up.
    ends("two", 0, 100);
    Kept::close(&kept, &"one".into());
    tokio::time::sleep(KEPT_FOR * 2).await;
    assert_eq!(*lock(&told), [false; 5]);
}
