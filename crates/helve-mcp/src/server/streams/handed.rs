//! The requests that the protocol's loop was handed, until their answers are with the client.
//!
//! The loop takes what it is given, and its answers wait one behind the other, outside the way out. So no more are handed to it than
//! there may be at once. One that its client has taken back has no answer, and is with the loop until nobody works on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Context;

use futures::task::AtomicWaker;
use rmcp::RoleServer;
use rmcp::model::{GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;

/// So many may be with the loop.
pub(super) const MOST: usize = 256;

#[derive(Default)]
pub(super) struct Handed {
    /// Those without an answer.
    requests: HashMap<RequestId, Request>,
    answers: Arc<Answers>,
}

struct Request {
    work: Weak<Work>,
    is_taken_back: bool,
}

/// Goes with the last who works on a request.
struct Work(Arc<Answers>);

/// Answers on their way.
#[derive(Default)]
struct Answers {
    count: AtomicUsize,
    waits: AtomicWaker,
}

/// One of them.
pub(super) struct Answer(Arc<Answers>);

impl Request {
    fn is_over(&self) -> bool {
        self.is_taken_back && self.work.strong_count() == 0
    }
}

impl Handed {
    /// Whether there is none that has no answer.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether it has a request of this id.
    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.requests.get(id).is_some_and(|request| !request.is_over())
    }

    /// Whether there is no room for more. Who polls is woken when there may be.
    pub(super) fn is_full(&mut self, poller: &Context<'_>) -> bool {
        if self.count() < MOST {
            return false;
        }
        self.answers.waits.register(poller.waker());
        self.requests.retain(|_, request| !request.is_over());
        self.count() >= MOST
    }

    fn count(&self) -> usize {
        self.requests.len() + self.answers.count.load(Ordering::Acquire)
    }

    /// A message goes to the loop.
    pub(super) fn hand(&mut self, message: &mut RxJsonRpcMessage<RoleServer>) {
        let JsonRpcMessage::Request(request) = message else { return };
        let work = Arc::new(Work(Arc::clone(&self.answers)));
        let handed = Request { work: Arc::downgrade(&work), is_taken_back: false };
        request.request.extensions_mut().insert(work);
        self.requests.insert(request.id.clone(), handed);
    }

    /// The client wants no answer any more.
    pub(super) fn take_back(&mut self, id: &RequestId) {
        if let Some(request) = self.requests.get_mut(id) {
            request.is_taken_back = true;
        }
    }

    /// A message comes from the loop. If it is an answer, it is on its way for as long as what comes back.
    pub(super) fn answered(&mut self, message: &ServerJsonRpcMessage) -> Option<Answer> {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => error.id.as_ref()?,
            _ => return None,
        };
        self.requests.remove(id)?;
        self.answers.count.fetch_add(1, Ordering::AcqRel);
        Some(Answer(Arc::clone(&self.answers)))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.waits.wake();
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.waits.wake();
    }
}
