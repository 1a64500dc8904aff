//! Taking a call back: one end tells, the other is told.

use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// Tells a tool that its call was taken back. It fires when any of its sources does; one without sources never does. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Option<Arc<[Arc<Source>]>>);

/// The other end of a [`Cancel`]. Dropping it cancels nothing.
#[derive(Clone, Debug)]
pub struct CancelHandle(Arc<Source>);

#[derive(Debug, Default)]
struct Source {
    fired: AtomicBool,
    waits: Notify,
}

impl Cancel {
    /// A new pair.
    pub fn pair() -> (CancelHandle, Cancel) {
        let source = Arc::new(Source::default());
        (CancelHandle(Arc::clone(&source)), Cancel(Some(Arc::new([source]))))
    }

    /// One that never fires.
    pub fn never() -> Cancel {
        Cancel::default()
    }

    fn sources(&self) -> &[Arc<Source>] {
        self.0.as_deref().unwrap_or_default()
    }

    /// One that fires when either does.
    #[must_use]
    pub fn or(self, other: &Cancel) -> Cancel {
        match (self.sources(), other.sources()) {
            (_, []) => self,
            ([], _) => other.clone(),
            (own, more) => Cancel(Some(own.iter().chain(more).cloned().collect())),
        }
    }

    /// Whether it has fired.
    pub fn is_cancelled(&self) -> bool {
        self.sources().iter().any(|source| source.fired.load(Ordering::Acquire))
    }

    /// Waits until it fires; for ever if it never does.
    pub async fn cancelled(&self) {
        let mut waiting: Vec<_> = self.sources().iter().map(|source| Box::pin(source.fires())).collect();
        std::future::poll_fn(|poller| {
            let done = waiting.iter_mut().any(|source| source.as_mut().poll(poller).is_ready());
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Source {
    async fn fires(&self) {
        // Whoever is told from here on is woken; what was told before shows.
        let told = self.waits.notified();
        if !self.fired.load(Ordering::Acquire) {
            told.await;
        }
    }
}

impl CancelHandle {
    /// Takes the call back.
    pub fn cancel(&self) {
        self.0.fired.store(true, Ordering::Release);
        self.0.waits.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn either_source_fires() {
        for which in [0, 1] {
            let (pairs, cancels): (Vec<_>, Vec<_>) = (0..2).map(|_| Cancel::pair()).unzip();
            let both = cancels[0].clone().or(&cancels[1]);
            assert!(!both.is_cancelled());
            pairs[which].cancel();
            assert!(both.is_cancelled());
            tokio::time::timeout(Duration::from_secs(5), both.cancelled()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_dropped_end_cancels_nothing() {
        let (handle, cancel) = Cancel::pair();
        drop(handle);
        let both = cancel.or(&Cancel::never());
        assert!(tokio::time::timeout(Duration::from_millis(20), both.cancelled()).await.is_err());
    }
}
