//! Taking a call back: one end tells, the other is told.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells a tool that its call was taken back.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Receiver<bool>);

/// The other end of a [`Cancel`]. Dropping it cancels nothing.
#[derive(Clone, Debug)]
pub struct CancelHandle(Arc<watch::Sender<bool>>);

impl Cancel {
    /// A new pair.
    pub fn pair() -> (CancelHandle, Cancel) {
        let (tx, rx) = watch::channel(false);
        (CancelHandle(Arc::new(tx)), Cancel(rx))
    }

    /// One that never fires.
    pub fn never() -> Cancel {
        Cancel::pair().1
    }

    /// Whether it has fired.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it fires; for ever if it never does.
    pub async fn cancelled(&self) {
        let mut rx = self.0.clone();
        if rx.wait_for(|fired| *fired).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// One that never fires.
impl Default for Cancel {
    fn default() -> Self {
        Cancel::never()
    }
}

impl CancelHandle {
    /// Takes the call back.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}
