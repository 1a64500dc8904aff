//! What a server tells besides its answers: how far its calls are, and what it logs.
//!
//! It is heard where it is read, one after the other. The protocol's loop would hand each to a task of its own, and those run in
//! any order, and after the answer that came behind them. So nothing here waits: what finds no room at the caller's is dropped.

#![expect(deprecated, reason = "logging is still spoken by servers of both eras")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    JsonRpcMessage, LoggingMessageNotificationParam, ProgressNotificationParam, ServerJsonRpcMessage,
    ServerNotification,
};
use serde_json::Value;

use super::failure::words;
use super::keep::ServerLog;
use super::questions::Calls;
use super::rate::Bucket;
use crate::levels;

/// How many may be left out before the connection ends.
const LEFT_OUT: u32 = 100_000;
/// So many are heard before everybody else has a turn: whoever passes them on has room for a few times as many.
pub(super) const AT_A_TIME: u32 = 8;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something else.
    Not,
    /// One of these; it was heard, or left out.
    Done,
    /// One of far too many.
    Flood,
}

/// Hears what one server tells at one connection.
pub(crate) struct Notices {
    server: String,
    log: Arc<dyn ServerLog>,
    calls: Mutex<Calls>,
    rate: Mutex<Rate>,
}

struct Rate {
    bucket: Bucket,
    left_out: u32,
}

impl Notices {
    pub(crate) fn new(server: &str, log: Arc<dyn ServerLog>) -> Notices {
        let rate = Rate { bucket: Bucket::new(4096, 1024.0), left_out: 0 };
        Notices { server: server.to_owned(), log, calls: Mutex::default(), rate: Mutex::new(rate) }
    }

    /// The calls under way.
    pub(crate) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears a message, if it is one of these.
    pub(super) fn hear(&self, message: &ServerJsonRpcMessage) -> Heard {
        let JsonRpcMessage::Notification(told) = message else { return Heard::Not };
        let hear: &dyn Fn() = match &told.notification {
            ServerNotification::ProgressNotification(note) => &|| self.progress(&note.params),
            ServerNotification::LoggingMessageNotification(note) => &|| self.logged(&note.params),
            _ => return Heard::Not,
        };
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.bucket.take(1) {
            drop(rate);
            hear();
            return Heard::Done;
        }
        rate.left_out += 1;
        if rate.left_out > LEFT_OUT { Heard::Flood } else { Heard::Done }
    }

    fn progress(&self, note: &ProgressNotificationParam) {
        let message = note.message.as_deref().map(words).unwrap_or_default();
        self.calls().tell(&note.progress_token, note.progress, note.total, message);
    }

    fn logged(&self, message: &LoggingMessageNotificationParam) {
        let text = match &message.data {
            Value::String(text) => words(text),
            other => words(&other.to_string()),
        };
        let call = self.calls().of_all();
        self.log.event(&self.server, "note", &text);
        if let Some(peer) = call.and_then(|call| call.peer) {
            let logger = message.logger.as_deref().map(words);
            peer.log(levels::ours(message.level), logger.as_deref(), Value::String(text));
        }
    }
}

#[cfg(test)]
mod tests;
