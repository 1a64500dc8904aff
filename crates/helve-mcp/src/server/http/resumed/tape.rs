//! One stream: what is still to come of it, and the newest of what has come.
//!
//! What has come is kept as the text that was sent. A parsed message takes many times the room, and none but the text could be counted.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures::Stream;
use rmcp::model::{
    CustomNotification, CustomRequest, CustomResult, JsonRpcMessage, ServerJsonRpcMessage,
    ServerNotification, ServerRequest, ServerResult,
};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use serde::Deserialize as _;

use super::flight::Flight;

/// So many events of a stream are kept, the newest.
pub(super) const MOST_EVENTS: usize = 16;

/// A message whose parts are read as they stand, without asking what they mean.
type Plain = JsonRpcMessage<CustomRequest, CustomResult, CustomNotification>;

/// One stream.
pub(super) struct Tape {
    /// What is still to come; none after the end.
    pub(super) rest: Option<Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>>,
    /// The newest events.
    events: VecDeque<Event>,
    /// Who reads it: the newest reader.
    pub(super) reader: u64,
    pub(super) waits: Option<Waker>,
    /// The request that it is for, until that is answered.
    flight: Option<Arc<Flight>>,
}

struct Event {
    number: u64,
    stream: u64,
    message: Option<Box<str>>,
    retry: Option<Duration>,
}

impl Tape {
    pub(super) fn of(
        rest: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
        flight: Option<Arc<Flight>>,
    ) -> Tape {
        Tape { rest: Some(Box::pin(rest)), events: VecDeque::new(), reader: 0, waits: None, flight }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The first event that is kept from this number on.
    pub(super) fn at_least(&self, number: u64) -> Option<(u64, ServerSseMessage)> {
        let event = self.events.iter().find(|event| event.number >= number)?;
        Some((event.number, event.told()))
    }

    /// Keeps an event with its number and that of the stream.
    pub(super) fn keep(&mut self, (number, stream): (u64, u64), event: &ServerSseMessage) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        let message = event.message.as_deref().and_then(|message| serde_json::to_string(message).ok());
        let message = message.map(String::into_boxed_str);
        self.events.push_back(Event { number, stream, message, retry: event.retry });
    }

    /// This is told next: with the answer the id of its request is free, before anybody can know of it.
    pub(super) fn tells(&mut self, event: &ServerSseMessage) {
        if let Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) = event.message.as_deref() {
            self.flight = None;
        }
    }

    /// Nothing more comes. Says which stream it was, if that was ever told.
    pub(super) fn end(&mut self) -> Option<u64> {
        self.rest = None;
        self.flight = None;
        self.events.shrink_to_fit();
        self.events.back().map(|event| event.stream)
    }

    /// How long its messages are.
    pub(super) fn bytes(&self) -> usize {
        self.events.iter().filter_map(|event| event.message.as_deref()).map(str::len).sum()
    }
}

impl Event {
    /// As it was told first.
    fn told(&self) -> ServerSseMessage {
        let mut event = ServerSseMessage::default();
        event.event_id = Some(format!("{}/{}", self.number, self.stream));
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
