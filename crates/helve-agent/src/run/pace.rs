//! The pace of whoever listens: while it is behind with what it was told, the loop waits.
//!
//! In: what [`Control::set_behind`] said, the time of the run, and whether it was stopped. Out: room for more. Where the run has
//! no more time or was stopped nothing is waited for, so that it always comes to its end; what it tells from then on is little.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::limits::Timer;
use crate::control::Control;

/// Waits for whoever listens to one run.
pub(super) struct Pace<'a> {
    control: &'a Control,
    timer: Timer,
}

impl<'a> Pace<'a> {
    /// For a run whose calls are taken back when this timer ends.
    pub(super) fn new(control: &'a Control, timer: Timer) -> Pace<'a> {
        Pace { control, timer }
    }

    /// Whether there is something to wait for.
    pub(super) fn is_full(&self) -> bool {
        self.control.is_behind() && !self.control.stopped().is_cancelled() && !self.timer.is_over()
    }

    /// Waits for room.
    pub(super) async fn room(&self) {
        if !self.is_full() {
            return;
        }
        tokio::select! {
            () = self.control.caught_up() => {}
            () = self.control.stopped().cancelled() => {}
            () = self.timer.over() => {}
        }
    }

    /// Does work that tells something, and stands still in it where there is no room.
    pub(super) async fn keep<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.room().await;
            let step = poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if self.is_full() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            if let Some(done) = step.await {
                return done;
            }
        }
    }
}
