//! The client as it is seen from calls that were sent, which have no request of their own that speaks for them: on two streams
//! everything that is said to it goes the same way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::Context;

use futures::task::AtomicWaker;
use helve_core::{BoxFuture, LogLevel, Peer, QuestionKind, ToolError};
use rmcp::RoleServer;
use rmcp::model::LoggingMessageNotificationParam;
use serde_json::Value;

use super::exchange::{Takes, WAITING, ask, message, not_taken};
use super::face::{Face, lock};
use super::output::Outbox;
use super::straight;

/// The client beside all requests.
pub(super) struct Aside {
    face: Arc<Face>,
    peer: rmcp::Peer<RoleServer>,
    takes: Takes,
    /// What was logged and is not told yet.
    logged: Mutex<VecDeque<LoggingMessageNotificationParam>>,
    waits: AtomicWaker,
}

impl Aside {
    pub(super) fn new(face: Arc<Face>, peer: rmcp::Peer<RoleServer>, takes: Takes) -> Aside {
        Aside { face, peer, takes, logged: Mutex::default(), waits: AtomicWaker::new() }
    }

    /// Writes what was logged, as far as there is room. Who polls is woken when there is more.
    pub(super) fn tell<W>(&self, outbox: &Outbox<W>, poller: &Context<'_>) {
        self.waits.register(poller.waker());
        while !outbox.is_behind()
            && let Some(params) = lock(&self.logged).pop_front()
        {
            outbox.put(|out| straight::notice(out, "notifications/message", &params));
        }
    }
}

impl Peer for Aside {
    fn takes(&self, kind: QuestionKind) -> bool {
        self.takes.takes(kind)
    }

    fn ask<'a>(
        &'a self,
        _key: &'a str,
        kind: QuestionKind,
        params: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            match self.takes(kind) {
                true => ask(&self.peer, kind, params).await,
                false => Err(not_taken(kind)),
            }
        })
    }

    /// A client that does not listen holds nothing up: what finds no room is dropped.
    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        if level < *lock(&self.face.least) {
            return;
        }
        let mut logged = lock(&self.logged);
        if logged.len() < WAITING {
            logged.push_back(message(level, logger.map(str::to_owned), data));
            drop(logged);
            self.waits.wake();
        }
    }
}
