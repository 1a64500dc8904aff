//! Taking a call back: one end tells, the other is told.

use std::future::Future as _;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;

/// Tells a tool that its call was taken back. It fires when any of its sources does; one without sources never does.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Vec<watch::Receiver<bool>>);

/// The other end of a [`Cancel`]. Dropping it cancels nothing.
#[derive(Clone, Debug)]
pub struct CancelHandle(Arc<watch::Sender<bool>>);

impl Cancel {
    /// A new pair.
    pub fn pair() -> (CancelHandle, Cancel) {
        let (tx, rx) = watch::channel(false);
        (CancelHandle(Arc::new(tx)), Cancel(vec![rx]))
    }

    /// One that never fires.
    pub fn never() -> Cancel {
        Cancel::default()
    }

    /// One that fires when either does.
    #[must_use]
    pub fn or(mut self, other: &Cancel) -> Cancel {
        self.0.extend(other.0.iter().cloned());
        self
    }

    /// Whether it has fired.
    pub fn is_cancelled(&self) -> bool {
        self.0.iter().any(|source| *source.borrow())
    }

    /// Waits until it fires; for ever if it never does.
    pub async fn cancelled(&self) {
        let mut waiting: Vec<_> = self.0.iter().cloned().map(|source| Box::pin(fired(source))).collect();
        std::future::poll_fn(|poller| {
            let done = waiting.iter_mut().any(|source| source.as_mut().poll(poller).is_ready());
            if done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Waits until a source fires; for ever if its other end is gone.
async fn fired(mut source: watch::Receiver<bool>) {
    if source.wait_for(|fired| *fired).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl CancelHandle {
    /// Takes the call back.
    pub fn cancel(&self) {
        self.0.send_replace(true);
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
