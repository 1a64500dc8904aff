//! Taking a call back: one end tells, the other is told.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// Tells a tool that its call was taken back. It fires when any of its sources does; one without sources never does. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Sources);

#[derive(Clone, Debug, Default)]
enum Sources {
    #[default]
    None,
    One(Arc<Source>),
    Many(Arc<[Arc<Source>]>),
}

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
        (CancelHandle(Arc::clone(&source)), Cancel(Sources::One(source)))
    }

    /// One that never fires.
    pub fn never() -> Cancel {
        Cancel::default()
    }

    fn sources(&self) -> &[Arc<Source>] {
        match &self.0 {
            Sources::None => &[],
            Sources::One(source) => std::slice::from_ref(source),
            Sources::Many(sources) => sources,
        }
    }

    /// One that fires when either does.
    #[must_use]
    pub fn or(self, other: &Cancel) -> Cancel {
        match (self.sources(), other.sources()) {
            (_, []) => self,
            ([], _) => other.clone(),
            (own, more) => Cancel(Sources::Many(own.iter().chain(more).cloned().collect())),
        }
    }

    /// Whether it has fired.
    pub fn is_cancelled(&self) -> bool {
        self.sources().iter().any(|source| source.fired.load(Ordering::Acquire))
    }

    /// Waits until it fires; for ever if it never does.
    pub async fn cancelled(&self) {
        // Few calls have more sources than these, which need no room of their own.
        let (few, more) = match self.sources() {
            [one, two, three, more @ ..] => ([Some(one), Some(two), Some(three)], more),
            [one, two] => ([Some(one), Some(two), None], &[][..]),
            [one] => ([Some(one), None, None], &[][..]),
            [] => ([None, None, None], &[][..]),
        };
        let [one, two, three] = few.map(fires);
        let (mut one, mut two, mut three) = (pin!(one), pin!(two), pin!(three));
        let mut more: Vec<_> = more.iter().map(|source| Box::pin(fires(Some(source)))).collect();
        std::future::poll_fn(|poller| {
            let done = one.as_mut().poll(poller).is_ready()
                || two.as_mut().poll(poller).is_ready()
                || three.as_mut().poll(poller).is_ready()
                || more.iter_mut().any(|source| source.as_mut().poll(poller).is_ready());
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Waits until a source fires; for ever if there is none.
async fn fires(source: Option<&Arc<Source>>) {
    let Some(source) = source else { return std::future::pending().await };
    // Whoever is told from here on is woken; what was told before shows.
    let told = source.waits.notified();
    if !source.fired.load(Ordering::Acquire) {
        told.await;
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
    async fn any_source_fires() {
        for many in 1..=6 {
            for which in 0..many {
                let (pairs, cancels): (Vec<_>, Vec<_>) = (0..many).map(|_| Cancel::pair()).unzip();
                let any = cancels.iter().fold(Cancel::never(), |any, one| any.or(one));
                assert!(!any.is_cancelled());
                let waits = tokio::spawn({
                    let any = any.clone();
                    async move { any.cancelled().await }
                });
                tokio::task::yield_now().await;
                assert!(!waits.is_finished());
                pairs[which].cancel();
                assert!(any.is_cancelled());
                tokio::time::timeout(Duration::from_secs(5), any.cancelled()).await.unwrap();
                tokio::time::timeout(Duration::from_secs(5), waits).await.unwrap().unwrap();
            }
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
