//! What a server on standard streams says, read by whoever waits for it.
//!
//! That is the protocol's loop, or a call that waits for its answer: the answer then goes nowhere else first, where the loop
//! would be woken to read it only to wake the call. One reads for all. How far a call is and what the server logs is heard at once
//! ([`Notices`]), whoever reads it. Else a call reads answers to calls alone; at anything else it leaves the rest to the loop, so that
//! nothing overtakes what was said before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use rmcp::model::ServerJsonRpcMessage;

use super::failure::Broken;
use super::frame::{EMPTY_LINES, Ending, Lines, NO_MESSAGES, Next, Said, read};
use super::notices::{AT_A_TIME, Heard, Notices};
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
    /// Who hears notices where they are read; none while they are the loop's.
    notices: Option<Arc<Notices>>,
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
    /// The next message that is not heard here; none at the end.
    fn poll_message(&mut self, poller: &mut Context<'_>) -> Poll<Option<Message>> {
        let cap = self.lines.cap();
        let mut heard = 0;
        let broken = loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            match ready!(self.lines.poll_next(poller)) {
                Next::Line(line) => match read(line) {
                    Said::Message(message) => {
                        (self.garbage, self.empty) = (0, 0);
                        match self.hear(&message) {
                            Heard::Not => return Poll::Ready(Some(message)),
                            Heard::Done => heard += 1,
                            Heard::Flood => break Broken::Flood,
                        }
                        if heard == AT_A_TIME {
                            poller.waker().wake_by_ref();
                            return Poll::Pending;
                        }
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

    fn hear(&self, message: &ServerJsonRpcMessage) -> Heard {
        self.notices.as_ref().map_or(Heard::Not, |notices| notices.hear(message))
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
        let (kept, notices, is_over) = (None, None, false);
        let reading = Mutex::new(Reading { lines, kept, garbage: 0, empty: 0, is_over, ending, notices });
        let readers = Arc::new(Readers::default());
        let wakes = Waker::from(Arc::clone(&readers));
        Inlet { reading, readers, wakes, waiting, told: AtomicU64::new(0) }
    }

    /// From now on notices are heard where they are read.
    pub(super) fn tell(&self, notices: Arc<Notices>) {
        lock(&self.reading).notices = Some(notices);
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
mod tests;
