//! A client on two streams, as the protocol's loop sees it.
//!
//! Lines come in; calls of tools among them are run here and answered straight, once the client has introduced itself, and
//! everything else goes to the loop. The loop polls this, so that no call is handed from task to task, and what is answered
//! together goes out in one write. Calls run beside each other; who waits for a question to the client holds nobody up. What the loop
//! has not answered is bounded (`handed`): a client that does not read its answers is not read either. How a client ends: `end`.

mod end;
mod handed;

use std::collections::HashMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use helve_core::{BoxFuture, Cancel, CancelHandle};
use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncWrite, Empty};
use tokio::time::Sleep;

use super::awake::Awake;
use super::door::{Answered, Door, Sent};
use super::input::{self, Lines, Next};
use super::message::{self, Read};
use super::output::Outbox;
use super::running::Running;
use super::straight::{self, Asked};
use crate::ends::Source;
use handed::Handed;

/// So many calls are begun before those under way are looked at: they are recorded and answered together, while the client
/// reads what came before.
const TOGETHER: usize = 16;
/// So many calls run here at once. More go to the loop, which takes as many again.
const MOST_CALLS: usize = 256;
/// Each time that it was polled so often, nothing is kept at hand.
const OPEN_HANDED: u8 = 8;

/// Keeps at hand what calls need, for as long as it lives.
struct Staying(Arc<Door>);

impl Drop for Staying {
    fn drop(&mut self) {
        self.0.stays(false);
    }
}

/// The two streams of a client.
pub(super) struct Streams<R, W: AsyncWrite + Unpin> {
    lines: Lines<R>,
    outbox: Outbox<W>,
    /// Writes what the loop says.
    general: AsyncRwTransport<RoleServer, Empty, Outbox<W>>,
    /// What is on its way to the loop.
    read: Option<Box<RxJsonRpcMessage<RoleServer>>>,
    /// The requests that it has.
    handed: Handed,
    /// Whether the loop takes more than requests.
    is_open: bool,
    door: Arc<OnceLock<Arc<Door>>>,
    /// Calls that are taken together and have come together.
    group: Vec<Asked>,
    /// Those of them that were sent to somebody, or will be when their turn has come.
    sent: Vec<Sent>,
    calls: FuturesUnordered<BoxFuture<'static, Answered>>,
    /// Those of them that the client wants an answer to, each with its serial and what takes it back. A client that has taken one
    /// back may use its id again before it has ended.
    under_way: HashMap<RequestId, (u64, CancelHandle)>,
    /// How many calls ran by themselves.
    serial: u64,
    /// The requests that the loop runs.
    running: Arc<Running>,
    /// Until when the last calls may go on, and then until when they may take to end.
    patience: Option<Pin<Box<Sleep>>>,
    is_taken_back: bool,
    awake: Awake,
    /// Whether the loop has something to do, as far as is known.
    handed_on: bool,
    /// How often this was polled.
    polls: u8,
}

impl<R, W> Streams<R, W>
where
    R: Source,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// `door` is opened by whoever knows that the client has introduced itself, and that it has a session. When what is `running` is
    /// taken back, so is every call here, and nothing more is read.
    pub(super) fn new(
        lines: Lines<R>,
        output: W,
        door: Arc<OnceLock<Arc<Door>>>,
        running: Arc<Running>,
    ) -> Self {
        let outbox = Outbox::new(output);
        let general = AsyncRwTransport::new(tokio::io::empty(), outbox.clone());
        let (read, handed, is_open) = (None, Handed::default(), false);
        let (group, sent) = (Vec::new(), Vec::new());
        let (calls, under_way) = (FuturesUnordered::new(), HashMap::new());
        let (serial, patience, is_taken_back, awake) = (0, None, false, Awake::new());
        let (handed_on, polls) = (false, 0);
        Streams {
            lines,
            outbox,
            general,
            read,
            handed,
            is_open,
            door,
            group,
            sent,
            calls,
            under_way,
            serial,
            running,
            patience,
            is_taken_back,
            awake,
            handed_on,
            polls,
        }
    }

    fn poll_receive(&mut self, poller: &mut Context<'_>) -> Poll<Option<RxJsonRpcMessage<RoleServer>>> {
        let _given_back = self.stay();
        self.poll_next(poller)
    }

    /// What calls need may stay at hand while nothing is done but to look for them and for answers. Now and then it does not, so
    /// that others get it who wait for it.
    fn stay(&mut self) -> Option<Staying> {
        self.polls = self.polls.wrapping_add(1);
        let may = self.calls.is_empty() && !self.polls.is_multiple_of(OPEN_HANDED);
        let door = self.door.get().filter(|_| may)?;
        door.stays(true);
        Some(Staying(Arc::clone(door)))
    }

    fn rest(&self) {
        if let Some(door) = self.door.get() {
            door.stays(false);
        }
    }

    /// Whether looking sees all that may come, without the runtime and whoever it would run.
    fn sees(&self) -> bool {
        let sees_answers = || self.sent.is_empty() || self.door.get().is_some_and(|door| door.sees());
        self.calls.is_empty() && !self.handed_on && self.lines.is_seen() && sees_answers()
    }

    fn poll_next(&mut self, poller: &mut Context<'_>) -> Poll<Option<RxJsonRpcMessage<RoleServer>>> {
        loop {
            if let Some(message) = self.read.take() {
                self.handed_on = true;
                return Poll::Ready(Some(*message));
            }
            let (was_full, was_behind) = (self.is_full(poller), self.outbox.is_behind());
            let has_more = was_full || self.begin();
            if !self.calls.is_empty() {
                self.rest();
            }
            while let Poll::Ready(Some(answered)) = self.calls.poll_next_unpin(poller) {
                self.ended(answered);
            }
            let door = self.door.get();
            let answered = door.filter(|door| door.poll_sent(&mut self.sent, &self.outbox, poller));
            let sent = self.outbox.poll_send(poller);
            if let Some(door) = answered {
                door.settle();
                self.awake.happened();
            }
            let is_full = self.is_full(poller);
            // What was said meanwhile beside answers waits for room, too.
            if (has_more && !is_full) || (was_behind && !self.outbox.is_behind()) {
                continue;
            }
            if self.read.is_some() || (is_full && self.overhears()) {
                continue;
            }
            if self.lines.is_over() {
                return self.poll_end(sent.is_ready(), poller);
            }
            if (is_full && !self.lines.has_room()) || self.lines.poll_more(poller).is_pending() {
                let seen = sent.is_ready() && self.sees();
                if !is_full && self.awake.looks_again(seen, poller) {
                    continue;
                }
                if self.running.poll_over(poller) {
                    self.lines.end();
                    continue;
                }
                return Poll::Pending;
            }
            self.awake.happened();
        }
    }

    /// Whether there is no room for more answers. Who polls is woken when there may be.
    fn is_full(&mut self, poller: &Context<'_>) -> bool {
        self.outbox.is_full() || self.handed.is_full(poller)
    }

    /// Looks for calls that are taken back, and for answers that somebody may wait for, among what was read while there is no room for
    /// ours. All of it is begun, or handed on, when there is. Whether the loop has to hear of one, which may be its own.
    fn overhears(&mut self) -> bool {
        while let Some(at) = self.lines.overhear() {
            let line = self.lines.bytes(at);
            let taken_back = straight::taken_back(line);
            if taken_back.is_none() && !message::is_answer(line) {
                continue;
            }
            let read = message::read(line);
            if let Some(id) = taken_back {
                self.take_back(&id);
            }
            if let (true, Read::Message(message)) = (self.is_open, read) {
                self.read = Some(message);
                return true;
            }
        }
        false
    }

    /// Begins the calls of lines that were read, and hands on what is something else. Whether there may be more.
    fn begin(&mut self) -> bool {
        let has_more = self.begin_each();
        self.answer_group();
        has_more
    }

    fn begin_each(&mut self) -> bool {
        for _ in 0..TOGETHER {
            if self.read.is_some() {
                return true;
            }
            match self.lines.next() {
                None => return false,
                Some(Next::TooLong(id)) => {
                    let refused = input::too_long(self.lines.limit);
                    self.outbox.put(|out| straight::refusal(out, &id, refused));
                }
                Some(Next::Line(at)) => match self.call(at.clone()) {
                    // What came after a call that runs by itself does not overtake it.
                    Some((door, asked)) if self.calls.is_empty() && self.is_at_once(&door, &asked) => {
                        self.group.push(asked);
                    }
                    Some((door, asked)) => {
                        let is_first = self.under_way.is_empty() && self.group.is_empty();
                        let beside = !is_first || self.lines.has_more();
                        let (serial, cancel) = self.begins(&asked.id);
                        self.calls.push(Box::pin(door.answer(asked, cancel, beside, serial)));
                    }
                    None => {
                        self.answer_group();
                        self.read(at);
                    }
                },
            }
        }
        true
    }

    /// Whether a call is taken with others, as the one before it was if that is of the same tool.
    fn is_at_once(&self, door: &Door, asked: &Asked) -> bool {
        let is_like = |one: &Asked| one.tool == asked.tool;
        self.group.last().is_some_and(is_like) || door.is_at_once(asked)
    }

    /// Reads a line that asks for no call, for the loop. What cannot be read is answered here.
    fn read(&mut self, at: Range<usize>) {
        let line = self.lines.bytes(at);
        if line.trim_ascii().is_empty() {
            return;
        }
        let has_calls = !(self.under_way.is_empty() && self.sent.is_empty() && self.handed.is_empty());
        let taken_back = if has_calls { straight::taken_back(line) } else { None };
        match message::read(line) {
            Read::Refused(refused) if refused.is_owed => {
                self.outbox.put(|out| straight::write(out, &refused.answer));
            }
            Read::Refused(_) => {}
            Read::Message(message) if let Some(id) = self.id_in_use(&message) => {
                self.outbox.put(|out| straight::refusal(out, &id, message::in_use()));
            }
            Read::Message(mut message) => {
                let takes = self.is_open || matches!(*message, JsonRpcMessage::Request(_));
                self.is_open |= message::opens(&message);
                self.handed.hand(&mut message);
                self.read = takes.then_some(message);
            }
        }
        if let Some(id) = taken_back {
            self.take_back(&id);
        }
    }

    /// The call that a line asks for, if it is run here.
    fn call(&self, at: Range<usize>) -> Option<(Arc<Door>, Asked)> {
        let door = self.door.get()?;
        let asked = straight::call(self.lines.bytes(at))?;
        let is_free = !self.is_in_use(&asked.id);
        (self.calls.len() + self.sent.len() < MOST_CALLS && is_free).then(|| (Arc::clone(door), asked))
    }

    /// Whether a request has this id that is not answered yet.
    fn is_in_use(&self, id: &RequestId) -> bool {
        self.under_way.contains_key(id)
            || self.group.iter().any(|one| one.id == *id)
            || self.sent.iter().any(|one| one.id == *id)
            || self.handed.has(id)
    }

    /// The id of a request that another one has: the loop would take the answer to one for that to the other.
    fn id_in_use(&self, message: &RxJsonRpcMessage<RoleServer>) -> Option<RequestId> {
        let JsonRpcMessage::Request(request) = message else { return None };
        self.is_in_use(&request.id).then(|| request.id.clone())
    }

    /// The client wants no answer to a call any more.
    fn take_back(&mut self, id: &RequestId) {
        if let Some((_, handle)) = self.under_way.remove(id) {
            handle.cancel();
        } else if let (Some(at), Some(door)) =
            (self.sent.iter().position(|one| one.id == *id), self.door.get())
        {
            door.take_back(&self.sent.remove(at));
        } else {
            self.handed.take_back(id);
        }
    }

    /// Runs the calls that are taken together. Those that have to wait all the same run beside the others.
    fn answer_group(&mut self) {
        let (false, Some(door)) = (self.group.is_empty(), self.door.get()) else { return };
        let door = Arc::clone(door);
        let (sent, waiting) = door.answer_all(self.group.drain(..), &self.outbox);
        self.sent.extend(sent);
        for waiting in waiting {
            let (serial, cancel) = self.begins(&waiting.id);
            self.calls.push(Box::pin(Arc::clone(&door).answer_later(waiting, cancel, serial)));
        }
        self.handed_on = false;
        self.awake.happened();
    }

    /// Notes a call that runs, with what takes it back.
    fn begins(&mut self, id: &RequestId) -> (u64, (CancelHandle, Cancel)) {
        let (handle, cancel) = Cancel::pair();
        self.serial += 1;
        self.under_way.insert(id.clone(), (self.serial, handle.clone()));
        (self.serial, (handle, cancel))
    }

    /// A call that ran has ended. It is answered if the client still wants that.
    fn ended(&mut self, answered: Answered) {
        match self.under_way.remove(&answered.id) {
            Some((serial, _)) if serial == answered.serial => answered.write(&self.outbox),
            // A later call of this id.
            Some(other) => drop(self.under_way.insert(answered.id, other)),
            None => {}
        }
        self.awake.happened();
    }
}

impl<R, W> Transport<RoleServer> for Streams<R, W>
where
    R: Source + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answer = self.handed.answered(&message);
        let sent = self.general.send(message);
        async move {
            let sent = sent.await;
            drop(answer);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        std::future::poll_fn(|poller| self.poll_receive(poller)).await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.outbox.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
