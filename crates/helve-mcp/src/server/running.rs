//! Requests under way, counted, and the end of all of them.
//!
//! In comes each request for as long as somebody works on it or is owed its answer; out comes when there is none. Whoever ends
//! a server takes all of them back and waits for that: what they did is recorded and answered before anything is closed.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use helve_core::{Cancel, CancelHandle};
use rmcp::RoleServer;
use rmcp::model::Extensions;
use rmcp::service::RequestContext;

/// How long requests that were taken back may take to end, to be recorded and to be answered.
pub(super) const TAKEN_BACK: Duration = Duration::from_secs(3);

/// The requests of one server. One waits for them at a time.
pub(super) struct Running {
    count: AtomicUsize,
    waits: AtomicWaker,
    canceller: CancelHandle,
    over: Cancel,
}

/// What fires when the session ends in which a request over HTTP comes.
#[derive(Clone)]
pub(super) struct InSession(pub(super) Cancel);

/// A request under way.
pub(super) struct Run(Arc<Running>);

impl Running {
    pub(super) fn new() -> Arc<Self> {
        let (canceller, over) = Cancel::pair();
        Arc::new(Running { count: AtomicUsize::new(0), waits: AtomicWaker::new(), canceller, over })
    }

    /// One more, until what comes back is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Run {
        self.count.fetch_add(1, Ordering::AcqRel);
        Run(Arc::clone(self))
    }

    /// Takes all of them back, also those that come later.
    pub(super) fn take_back(&self) {
        self.canceller.cancel();
        self.waits.wake();
    }

    /// What fires when all are taken back.
    pub(super) fn over(&self) -> &Cancel {
        &self.over
    }

    /// Waits until a request is taken back: by its client, with its session, or with all others.
    pub(super) fn taken_back(&self, of: &RequestContext<RoleServer>) -> impl Future<Output = ()> + use<> {
        let (by_client, over) = (of.ct.clone(), self.end_of(&of.extensions));
        async move {
            tokio::select! {
                () = by_client.cancelled() => {}
                () = over.cancelled() => {}
            }
        }
    }

    /// What fires when the session ends in which a message comes, or all of them.
    pub(super) fn end_of(&self, message: &Extensions) -> Cancel {
        let parts = message.get::<http::request::Parts>();
        let session = parts.and_then(|parts| parts.extensions.get::<InSession>());
        session.map_or_else(Cancel::never, |session| session.0.clone()).or(&self.over)
    }

    /// Whether all are taken back. Who polls is woken when they are.
    pub(super) fn poll_over(&self, poller: &Context<'_>) -> bool {
        self.waits.register(poller.waker());
        self.over.is_cancelled()
    }

    /// Whether there is none. Who polls is woken when that is so.
    pub(super) fn poll_none(&self, poller: &Context<'_>) -> bool {
        self.waits.register(poller.waker());
        self.count.load(Ordering::Acquire) == 0
    }

    /// Waits until there is none.
    pub(super) async fn none(&self) {
        poll_fn(|poller| if self.poll_none(poller) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.waits.wake();
        }
    }
}
