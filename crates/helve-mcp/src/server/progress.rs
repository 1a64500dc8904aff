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
    /// Whether it was said how far the call is, and not only that it goes on.
    is_measured: bool,
}

impl Steps {
    pub(super) fn new(token: ProgressToken) -> Steps {
        Steps { token, last: None, is_measured: false }
    }

    /// What it is told next; nothing where the note is not further than the one before, because clients take only what grows. A note
    /// that does not say how far the call is is one step further; where others have said that, the least step that there is, so that
    /// it neither stands for work that was not done nor passes over what is said next.
    pub(super) fn next(&mut self, note: ProgressNote) -> Option<ProgressNotificationParam> {
        let progress = match (note.done, self.last) {
            (Some(done), None) => done,
            (Some(done), Some(last)) => Some(done).filter(|done| *done > last)?,
            (None, None) => 0.0,
            (None, Some(last)) if self.is_measured => last.next_up(),
            (None, Some(last)) => last + 1.0,
        };
        // JSON has no other numbers.
        if !progress.is_finite() {
            return None;
        }
        self.is_measured |= note.done.is_some();
        self.last = Some(progress);
        let mut param = ProgressNotificationParam::new(self.token.clone(), progress);
        param.total = note.total.filter(|total| *total >= progress);
        param.message = Some(note.message).filter(|message| !message.is_empty());
        Some(param)
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
            if let Some(param) = self.steps.next(note) {
                outbox.put(|out| straight::notice(out, "notifications/progress", &param));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::CallId;
    use pretty_assertions::assert_eq;
    use rmcp::model::NumberOrString;

    /// What is told of notes that say so much.
    fn told<const N: usize>(done: [Option<f64>; N]) -> [Option<f64>; N] {
        let mut steps = Steps::new(ProgressToken(NumberOrString::Number(1)));
        done.map(|done| {
            let message = String::new();
            let note =
                ProgressNote { call: CallId::from_parts(1, 1), message, done, total: None, output: None };
            steps.next(note).map(|param| param.progress)
        })
    }

    #[test]
    fn progress_only_grows_and_no_number_is_made_up() {
        let bursts = [Some(1.0), Some(499.0), Some(128.0), Some(499.0), Some(500.0)];
        assert_eq!(told(bursts), [Some(1.0), Some(499.0), None, None, Some(500.0)]);
        assert_eq!(told([None, None, None]), [Some(0.0), Some(1.0), Some(2.0)]);
        // What says only that the call goes on does not pass over the next that says how far it is.
        let mixed = told([Some(0.5), None, None, Some(0.6)]);
        assert_eq!((mixed[0], mixed[3]), (Some(0.5), Some(0.6)));
        assert!(mixed[0] < mixed[1] && mixed[1] < mixed[2] && mixed[2] < mixed[3], "{mixed:?}");
        assert_eq!(
            told([Some(f64::NAN), Some(f64::MAX), None, Some(f64::INFINITY)]),
            [None, Some(f64::MAX), None, None]
        );
        assert_eq!(told([Some(-1.0), Some(-2.0)]), [Some(-1.0), None]);
    }
}
