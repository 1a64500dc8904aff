//! How far a call is, as its client hears it: under the client's own token, and only ever growing.

use std::task::{Context, Poll};

use helve_core::context::ProgressNote;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::mpsc;

use super::exchange::WAITING;
use super::output::Outbox;
use super::straight;

/// What a client was told of one call so far.
pub(super) struct Steps {
    token: ProgressToken,
    last: Option<f64>,
}

impl Steps {
    pub(super) fn new(token: ProgressToken) -> Steps {
        Steps { token, last: None }
    }

    /// What it is told next. Where a note says nothing of how far the call is, or less than the one before, it is one step further.
    pub(super) fn next(&mut self, note: ProgressNote) -> ProgressNotificationParam {
        let next = self.last.map_or(0.0, |last| last + 1.0);
        let progress = match (note.done, self.last) {
            (Some(done), None) => done,
            (Some(done), Some(last)) if done > last => done,
            _ => next,
        };
        self.last = Some(progress);
        let mut param = ProgressNotificationParam::new(self.token.clone(), progress);
        param.total = note.total.filter(|total| *total >= progress);
        param.message = Some(note.message).filter(|message| !message.is_empty());
        param
    }
}

/// What a call that was taken with others tells of itself until its answer goes out.
pub(super) struct Notes {
    steps: Steps,
    said: mpsc::Receiver<ProgressNote>,
}

impl Notes {
    /// Where the call tells it, and where it is heard.
    pub(super) fn pair(token: ProgressToken) -> (mpsc::Sender<ProgressNote>, Notes) {
        let (tells, said) = mpsc::channel(WAITING);
        (tells, Notes { steps: Steps::new(token), said })
    }

    /// Writes what was said, as far as there is room. Who polls is woken when there is more.
    pub(super) fn tell<W>(&mut self, outbox: &Outbox<W>, poller: &mut Context<'_>) {
        while !outbox.is_behind()
            && let Poll::Ready(Some(note)) = self.said.poll_recv(poller)
        {
            let param = self.steps.next(note);
            outbox.put(|out| straight::notice(out, "notifications/progress", &param));
        }
    }
}
