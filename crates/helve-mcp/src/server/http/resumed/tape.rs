//! One stream: the newest of what was told of it, and what waits to be told.
//!
//! What has come is kept as the text that was sent. A parsed message takes many times the room, and none but the text could be counted;
//! only what somebody waits for is handed on as it came. What waits for a reader that is slow, or for none, has its bounds: beyond them
//! notices go, the oldest first, and the answer stays, as do questions, whose callers wait for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use rmcp::model::{
    CustomNotification, CustomRequest, CustomResult, JsonRpcMessage, ServerJsonRpcMessage,
    ServerNotification, ServerRequest, ServerResult,
};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use serde::Deserialize as _;

use super::super::place::PlaceOf;
use super::flight::Flight;
use super::numbers;

/// So many events of a stream that were told are kept, the newest.
pub(super) const MOST_EVENTS: usize = 16;
/// So many events of it may wait.
pub(super) const MOST_WAITING: usize = 256;
/// So many bytes of notices are kept, beside the newest.
pub(super) const MOST_OF_NOTICES: usize = 256 << 10;

/// A message whose parts are read as they stand, without asking what they mean.
type Plain = JsonRpcMessage<CustomRequest, CustomResult, CustomNotification>;

/// One stream.
pub(super) struct Tape {
    events: VecDeque<Event>,
    /// How long the notices among them are.
    of_notices: usize,
    /// The event that somebody was waiting for, as it came.
    fresh: Option<(u64, ServerSseMessage)>,
    /// The number of the event that is told next, at least.
    untold: u64,
    /// The number of the event that comes next, at least.
    next: u64,
    /// The stream's own number, which only those of requests have.
    stream: Option<u64>,
    /// Nothing more comes.
    pub(super) is_over: bool,
    /// Who reads it: the newest reader.
    pub(super) reader: u64,
    pub(super) waits: Option<Waker>,
    /// The request that it is for, until that is answered.
    flight: Option<Arc<Flight>>,
    pub(super) place: PlaceOf,
}

struct Event {
    number: u64,
    id: Option<String>,
    message: Option<Box<str>>,
    retry: Option<Duration>,
    is_notice: bool,
}

impl Tape {
    pub(super) fn of(flight: Option<Arc<Flight>>, place: PlaceOf) -> Tape {
        Tape {
            events: VecDeque::new(),
            of_notices: 0,
            fresh: None,
            untold: 0,
            next: 0,
            stream: None,
            is_over: false,
            reader: 0,
            waits: None,
            flight,
            place,
        }
    }

    /// Another one reads it, from this number on. Says which reader that is, and who waits no longer.
    pub(super) fn is_taken(&mut self, from: u64) -> (u64, Option<Waker>) {
        self.reader += 1;
        self.untold = from.min(self.next);
        self.fresh = None;
        (self.reader, self.waits.take())
    }

    /// A reader has gone. Says who waits no longer.
    pub(super) fn is_left(&mut self, reader: u64) -> Option<Waker> {
        if self.reader != reader {
            return None;
        }
        self.fresh = None;
        self.waits.take()
    }

    /// What is told next.
    pub(super) fn tell(&mut self) -> Option<ServerSseMessage> {
        let event = self.events.iter().find(|event| event.number >= self.untold)?;
        self.untold = event.number.saturating_add(1);
        let fresh = self.fresh.take().filter(|(number, _)| *number == event.number);
        Some(fresh.map_or_else(|| event.told(), |(_, event)| event))
    }

    /// Keeps an event that has come. Says the number of its stream if it is the first. With the answer the id of its request is free,
    /// before anybody can know of it.
    pub(super) fn keep(&mut self, event: ServerSseMessage) -> Option<u64> {
        let numbers = event.event_id.as_deref().and_then(numbers);
        let number = numbers.map_or(self.next, |(number, _)| number);
        let is_first = self.stream.is_none();
        self.stream = self.stream.or(numbers.map(|(_, stream)| stream));
        let message = event.message.as_deref();
        if let Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) = message {
            self.flight = None;
        }
        let is_notice = matches!(message, Some(JsonRpcMessage::Notification(_)));
        let text =
            message.and_then(|message| serde_json::to_string(message).ok()).map(String::into_boxed_str);
        let (id, retry) = (event.event_id.clone(), event.retry);
        self.make_room();
        if is_notice {
            self.of_notices += text.as_deref().map_or(0, str::len);
        }
        self.events.push_back(Event { number, id, message: text, retry, is_notice });
        self.next = number.saturating_add(1);
        self.fresh = self.waits.is_some().then_some((number, event));
        self.stream.filter(|_| is_first)
    }

    /// Room for one more: what was told goes first, then notices that wait, and then the oldest.
    fn make_room(&mut self) {
        while self.events.len() >= MOST_EVENTS
            && self.events.front().is_some_and(|oldest| oldest.number < self.untold)
        {
            self.remove(0);
        }
        while (self.events.len() >= MOST_WAITING || self.of_notices > MOST_OF_NOTICES)
            && let Some(at) = self.events.iter().position(|event| event.is_notice)
        {
            self.remove(at);
        }
        while self.events.len() >= MOST_WAITING {
            self.remove(0);
        }
    }

    fn remove(&mut self, at: usize) {
        if let Some(event) = self.events.remove(at)
            && event.is_notice
        {
            self.of_notices -= event.length();
        }
    }

    /// Nothing more comes. Says which stream it was, if that was ever told, and how long its messages are.
    pub(super) fn end(&mut self) -> Option<(u64, usize)> {
        self.flight = None;
        self.events.shrink_to_fit();
        Some((self.stream?, self.events.iter().map(Event::length).sum()))
    }
}

impl Event {
    fn length(&self) -> usize {
        self.message.as_deref().map_or(0, str::len)
    }

    /// As it came.
    fn told(&self) -> ServerSseMessage {
        let mut event = ServerSseMessage::default();
        event.event_id.clone_from(&self.id);
        event.message = self.message.as_deref().and_then(read).map(Arc::new);
        event.retry = self.retry;
        event
    }
}

/// A message of ours. It was written from values of the same depth, so none is too deep to be read.
fn read(text: &str) -> Option<ServerJsonRpcMessage> {
    let mut text = serde_json::Deserializer::from_str(text);
    text.disable_recursion_limit();
    Some(match Plain::deserialize(&mut text).ok()? {
        Plain::Request(asked) => {
            ServerJsonRpcMessage::request(ServerRequest::CustomRequest(asked.request), asked.id)
        }
        Plain::Response(answer) => {
            ServerJsonRpcMessage::response(ServerResult::CustomResult(answer.result), answer.id)
        }
        Plain::Notification(notice) => {
            ServerJsonRpcMessage::notification(ServerNotification::CustomNotification(notice.notification))
        }
        Plain::Error(error) => ServerJsonRpcMessage::Error(error),
    })
}
