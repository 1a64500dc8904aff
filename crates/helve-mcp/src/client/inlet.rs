//! What a server on standard streams says, read by whoever waits for it.
//!
//! That is the protocol's loop, or a call that waits for its answer: the answer then goes nowhere else first, where the loop
//! would be woken to read it only to wake the call. One reads for all. A call reads answers to calls alone; at anything else it
//! leaves the rest to the loop, so that nothing overtakes what was said before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use rmcp::model::ServerJsonRpcMessage;

use super::failure::Broken;
use super::frame::{EMPTY_LINES, Ending, Lines, NO_MESSAGES, Next, Said, read};
use super::straight::{Handed, Message, Waiting};
use crate::ends::Source;

/// The stream of what a server says.
pub(super) struct Inlet {
    reading: Mutex<Reading>,
    readers: Arc<Readers>,
    /// Wakes whoever reads.
    wakes: Waker,
    waiting: Arc<Waiting>,
    /// How many messages the loop was told.
    told: AtomicU64,
}

struct Reading {
    lines: Lines<Box<dyn Source>>,
    /// Read by a call, and the loop's.
    kept: Option<Message>,
    /// Lines since the last message that were none, and empty ones.
    garbage: u32,
    empty: u32,
    is_over: bool,
    ending: Ending,
}

/// Who reads: a call, if there is one that does, else the loop.
#[derive(Default)]
struct Readers(Mutex<Wakers>);

#[derive(Default)]
struct Wakers {
    of_loop: Option<Waker>,
    of_call: Option<Reader>,
}

/// A call that reads for all.
struct Reader {
    number: i64,
    /// None once it was used.
    waker: Option<Waker>,
    /// It has its answer, and has not looked what stands behind that.
    is_answered: bool,
}

/// What comes after what was read.
enum Rest {
    /// Nothing yet.
    Nothing,
    /// What nobody has looked at.
    Unread,
    /// Something that is the loop's.
    OfTheLoop,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for Readers {
    fn wake(self: Arc<Self>) {
        let waker = {
            let mut wakers = lock(&self.0);
            let of_call = wakers.of_call.as_mut().and_then(|reader| reader.waker.take());
            // Where a call that was woken has not come yet, the loop need not wait for it.
            of_call.or_else(|| wakers.of_loop.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Readers {
    fn wake_loop(&self) {
        let waker = lock(&self.0).of_loop.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Makes a call the one that reads, if there is none yet.
    fn enter(&self, number: i64, waker: &Waker) -> bool {
        let mut wakers = lock(&self.0);
        match &mut wakers.of_call {
            Some(other) if other.number != number => false,
            of_call => {
                *of_call = Some(Reader { number, waker: Some(waker.clone()), is_answered: false });
                true
            }
        }
    }

    /// A call that reads has its answer.
    fn answered(&self, number: i64) {
        if let Some(reader) = lock(&self.0).of_call.as_mut().filter(|reader| reader.number == number) {
            reader.is_answered = true;
        }
    }

    /// Whether a call is the one that reads, and has left something unread.
    fn has_unread(&self, number: i64) -> bool {
        lock(&self.0).of_call.as_ref().is_some_and(|reader| reader.number == number && reader.is_answered)
    }

    /// A call does not read any more. If there may be something to read, the loop does.
    fn leave(&self, number: i64, may_be_more: bool) {
        let mut wakers = lock(&self.0);
        if let Some(reader) = wakers.of_call.take_if(|reader| reader.number == number)
            && (may_be_more || reader.waker.is_none())
        {
            drop(wakers);
            self.wake_loop();
        }
    }
}

impl Reading {
    /// The next message; none at the end.
    fn poll_message(&mut self, poller: &mut Context<'_>) -> Poll<Option<Message>> {
        let cap = self.lines.cap();
        let broken = loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            match ready!(self.lines.poll_next(poller)) {
                Next::Line(line) => match read(line) {
                    Said::Message(message) => {
                        (self.garbage, self.empty) = (0, 0);
                        return Poll::Ready(Some(message));
                    }
                    Said::Nothing => {
                        self.empty += 1;
                        if self.empty > EMPTY_LINES {
                            break Broken::Garbage("empty lines and nothing else".to_owned());
                        }
                    }
                    Said::Garbage(why) => {
                        self.garbage += 1;
                        if self.garbage > NO_MESSAGES {
                            break Broken::Garbage(why);
                        }
                    }
                },
                Next::TooLong => break Broken::FrameTooLong(cap),
                Next::End => break Broken::Ended,
            }
        };
        self.is_over = true;
        self.ending.because(broken);
        Poll::Ready(None)
    }
}

impl Inlet {
    pub(super) fn new(
        read: impl Source + 'static,
        cap: usize,
        ending: Ending,
        waiting: Arc<Waiting>,
    ) -> Inlet {
        let lines = Lines::new(Box::new(read) as Box<dyn Source>, cap);
        let reading = Mutex::new(Reading { lines, kept: None, garbage: 0, empty: 0, is_over: false, ending });
        let readers = Arc::new(Readers::default());
        let wakes = Waker::from(Arc::clone(&readers));
        Inlet { reading, readers, wakes, waiting, told: AtomicU64::new(0) }
    }

    /// The next message for the loop; answers to calls go to whoever waits for them. None at the end.
    pub(super) fn poll_next(&self, poller: &Context<'_>) -> Poll<Option<ServerJsonRpcMessage>> {
        lock(&self.readers.0).of_loop = Some(poller.waker().clone());
        let mut reading = lock(&self.reading);
        if let Some(kept) = reading.kept.take() {
            self.told.fetch_add(1, Ordering::Relaxed);
            return Poll::Ready(Some(*kept));
        }
        let mut by_reader = Context::from_waker(&self.wakes);
        loop {
            match ready!(reading.poll_message(&mut by_reader)) {
                None => {
                    self.waiting.end();
                    return Poll::Ready(None);
                }
                Some(message) => {
                    if let Handed::Back(message) = self.waiting.hand(message, None) {
                        self.told.fetch_add(1, Ordering::Relaxed);
                        return Poll::Ready(Some(*message));
                    }
                }
            }
        }
    }

    /// Reads for a call, unless somebody does; its answer, if that was there. Where nobody else waits, what may stand behind the
    /// answer can wait until that is on its way: the call reads on when it [leaves](Inlet::leave), which is soon.
    pub(super) fn read_for(&self, number: i64, poller: &Context<'_>) -> Option<Message> {
        if !self.readers.enter(number, poller.waker()) {
            return None;
        }
        let (own, rest) = self.read_on(number);
        match rest {
            Rest::OfTheLoop => self.readers.leave(number, true),
            Rest::Nothing if own.is_some() => self.readers.leave(number, false),
            Rest::Nothing => {}
            Rest::Unread => self.readers.answered(number),
        }
        own
    }

    /// Reads what is there: the answer of the call that reads, and what comes after that.
    fn read_on(&self, number: i64) -> (Option<Message>, Rest) {
        let mut own = None;
        let mut reading = lock(&self.reading);
        let mut by_reader = Context::from_waker(&self.wakes);
        loop {
            if reading.kept.is_some() {
                return (own, Rest::OfTheLoop);
            }
            if own.is_some() && !reading.lines.has_line() && self.waiting.is_idle() {
                return (own, Rest::Unread);
            }
            match reading.poll_message(&mut by_reader) {
                Poll::Pending => return (own, Rest::Nothing),
                Poll::Ready(None) => return (own, Rest::OfTheLoop),
                Poll::Ready(Some(message)) => match self.waiting.hand(message, Some(number)) {
                    Handed::Own(answer) => own = Some(answer),
                    Handed::Over => {}
                    Handed::Back(message) => reading.kept = Some(message),
                },
            }
        }
    }

    /// Whether nothing is the loop's to take before calls can read on.
    pub(super) fn is_free(&self) -> bool {
        lock(&self.reading).kept.is_none()
    }

    /// How many messages the loop was told so far.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// A call waits no longer. If it left something unread, it is looked whether there is anything; what has come is the loop's, and
    /// what comes later wakes it.
    pub(super) fn leave(&self, number: i64) {
        let mut may_be_more = false;
        if self.readers.has_unread(number) {
            let mut by_reader = Context::from_waker(&self.wakes);
            may_be_more = lock(&self.reading).lines.poll_more(&mut by_reader).is_ready();
        }
        self.readers.leave(number, may_be_more);
    }

    /// Nothing more is taken from the server, for this reason: the loop hears that, and whoever waits.
    pub(super) fn end(&self, broken: Broken) {
        {
            let mut reading = lock(&self.reading);
            reading.is_over = true;
            reading.ending.because(broken);
        }
        self.waiting.end();
        self.readers.wake_loop();
    }

    /// Nobody reads any more, and whoever waits hears that.
    pub(super) fn close(&self) {
        let mut reading = lock(&self.reading);
        reading.is_over = true;
        reading.lines = Lines::new(Box::new(tokio::io::empty()), 0);
        self.waiting.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{call, text};
    use super::super::frame::Streams;
    use super::super::straight::{Asked, Straight};
    use super::*;
    use pretty_assertions::assert_eq;
    use rmcp::transport::Transport as _;
    use serde_json::{Value, json};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt as _, DuplexStream};

    struct Rig {
        server: DuplexStream,
        streams: Streams,
        straight: Straight,
    }

    fn rig() -> Rig {
        let (server, ours) = tokio::io::duplex(1 << 16);
        let streams = Streams::new(ours, tokio::io::sink(), 1 << 20, Ending::default());
        let straight = streams.straight();
        Rig { server, streams, straight }
    }

    impl Rig {
        fn ask(&self) -> Asked {
            self.straight.send(&call("s", "echo", json!({})), |_, _| ()).unwrap()
        }

        async fn say(&mut self, messages: &[Value]) {
            let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
            self.server.write_all(lines.as_bytes()).await.unwrap();
        }
    }

    fn answer(to: &Asked, said: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": to.id(), "result": text(said)})
    }

    fn note(text: &str) -> Value {
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}})
    }

    async fn soon<T>(what: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(10), what).await.expect("nobody was woken")
    }

    async fn is_pending(what: impl Future) -> bool {
        tokio::time::timeout(Duration::from_millis(20), what).await.is_err()
    }

    async fn said(asked: &mut Asked) -> String {
        let answer = soon(asked.answer()).await.unwrap();
        serde_json::to_value(answer).unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn one_call_reads_for_all_and_needs_no_loop() {
        let mut rig = rig();
        let (mut one, mut two) = (rig.ask(), rig.ask());
        rig.say(&[answer(&two, "two"), answer(&one, "one")]).await;
        assert_eq!([said(&mut one).await, said(&mut two).await], ["one", "two"]);
        let mut three = rig.ask();
        assert!(is_pending(three.answer()).await);
        rig.say(&[answer(&three, "three")]).await;
        assert_eq!(said(&mut three).await, "three");
    }

    #[tokio::test]
    async fn no_answer_overtakes_what_was_said_before_it() {
        let mut rig = rig();
        let mut asked = rig.ask();
        rig.say(&[note("a"), note("b"), answer(&asked, "c"), note("d")]).await;
        for before in ["a", "b"] {
            assert!(is_pending(asked.answer()).await, "it waits for the loop");
            let heard = soon(rig.streams.receive()).await.unwrap();
            assert_eq!(serde_json::to_value(heard).unwrap(), note(before));
        }
        assert_eq!(said(&mut asked).await, "c");
        let heard = soon(rig.streams.receive()).await.unwrap();
        assert_eq!(serde_json::to_value(heard).unwrap(), note("d"));
    }

    /// The loop hands what it is told to a task, as the SDK does with questions and what is logged, and the call reads on before
    /// that has run.
    #[tokio::test]
    async fn what_was_said_before_an_answer_is_heard_before_it() {
        let mut rig = rig();
        let mut asked = rig.ask();
        rig.say(&[note("a"), answer(&asked, "b")]).await;
        assert!(is_pending(asked.answer()).await, "it waits for the loop");
        soon(rig.streams.receive()).await.unwrap();
        let heard = Arc::new(AtomicU64::new(0));
        let hears = Arc::clone(&heard);
        tokio::spawn(async move { hears.fetch_add(1, Ordering::Relaxed) });
        assert_eq!(said(&mut asked).await, "b");
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }

    /// What a call leaves unread wakes the loop, however the call ends.
    #[tokio::test]
    async fn the_loop_reads_on_where_a_call_ends() {
        for woken in [false, true] {
            let Rig { mut server, mut streams, straight } = rig();
            let mut asked = straight.send(&call("s", "echo", json!({})), |_, _| ()).unwrap();
            let in_loop = tokio::spawn(async move { streams.receive().await });
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(is_pending(asked.answer()).await);
            let line = format!("{}\n", note("n"));
            if woken {
                // The wake goes to the call, which never comes to read.
                server.write_all(line.as_bytes()).await.unwrap();
                drop(asked);
            } else {
                drop(asked);
                server.write_all(line.as_bytes()).await.unwrap();
            }
            let heard = soon(in_loop).await.unwrap().unwrap();
            assert_eq!(serde_json::to_value(heard).unwrap(), note("n"), "{woken}");
        }
    }

    /// Whoever polls a call has its answer before what comes behind it is read, and holds nobody up once the call is dropped.
    #[tokio::test]
    async fn what_comes_behind_an_answer_is_read_when_its_call_is_dropped() {
        for woken in [false, true] {
            let mut rig = rig();
            let mut asked = rig.ask();
            let line = format!("{}\n", answer(&asked, "a"));
            let mut streams = rig.streams;
            let mut in_loop = tokio::spawn(async move { streams.receive().await });
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(is_pending(std::future::poll_fn(|poller| asked.poll_answer(poller))).await);
            rig.server.write_all(line.as_bytes()).await.unwrap();
            soon(std::future::poll_fn(|poller| asked.poll_answer(poller))).await.unwrap();
            let line = format!("{}\n", note("n"));
            if woken {
                rig.server.write_all(line.as_bytes()).await.unwrap();
                drop(asked);
            } else {
                drop(asked);
                assert!(is_pending(&mut in_loop).await, "there is nothing to hear yet");
                rig.server.write_all(line.as_bytes()).await.unwrap();
            }
            let heard = soon(in_loop).await.unwrap().unwrap();
            assert_eq!(serde_json::to_value(heard).unwrap(), note("n"), "{woken}");
        }
    }

    /// Nor does a server that never stops talking, also where no runtime gives others a turn.
    #[test]
    fn who_leaves_does_not_listen_for_ever() {
        let first = json!({"jsonrpc": "2.0", "id": 1 << 30, "result": text("a")});
        let source =
            AsyncReadExt::chain(std::io::Cursor::new(format!("{first}\n")), tokio::io::repeat(b'\n'));
        let streams = Streams::new(source, tokio::io::sink(), 1 << 20, Ending::default());
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut asked = streams.straight().send(&call("s", "echo", json!({})), |_, _| ()).unwrap();
            let answer = asked.poll_answer(&mut Context::from_waker(Waker::noop()));
            drop(asked);
            done.send(answer.is_ready())
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(true));
    }

    /// Who waits beside it does not have to wait for that.
    #[tokio::test]
    async fn nothing_is_left_unread_where_another_call_waits() {
        let mut rig = rig();
        let (mut one, mut two) = (rig.ask(), rig.ask());
        rig.say(&[answer(&one, "one")]).await;
        soon(std::future::poll_fn(|poller| one.poll_answer(poller))).await.unwrap();
        rig.say(&[answer(&two, "two")]).await;
        let answer = soon(std::future::poll_fn(|poller| two.poll_answer(poller))).await;
        assert!(answer.is_ok());
        drop(one);
    }

    #[tokio::test]
    async fn the_end_is_heard_by_whoever_waits() {
        let Rig { server, mut streams, straight } = rig();
        let ask = || straight.send(&call("s", "echo", json!({})), |_, _| ());
        let mut asked = ask().unwrap();
        let in_loop = tokio::spawn(async move { streams.receive().await.is_none() });
        assert!(is_pending(asked.answer()).await);
        drop(server);
        assert!(soon(asked.answer()).await.is_err());
        assert!(soon(in_loop).await.unwrap());
        assert!(ask().is_err());
    }
}
