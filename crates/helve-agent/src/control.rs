//! How a running loop is told something from outside: stop a tool, stop altogether, hear one more word, or wait for whoever
//! listens to it.
//!
//! In: what whoever hears Ctrl-C or reads the keyboard wants, and whether whoever takes the events keeps up. Out: nothing by
//! itself; the loop looks here between its steps and waits for it while it waits for anything else. One [`Control`] belongs to one run: a run that was stopped stays so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve::{Cancel, CancelHandle};
use tokio::sync::watch;

/// The owner's hand on a run. Cheap to clone; every clone is the same hand.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    stop: CancelHandle,
    stopped: Cancel,
    /// Whether whoever listens is behind.
    behind: watch::Sender<bool>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// What takes the running calls back.
    calls: Option<CancelHandle>,
    steering: VecDeque<String>,
}

impl Control {
    /// For a new run.
    pub fn new() -> Control {
        let (stop, stopped) = Cancel::pair();
        Control(Arc::new(Inner { stop, stopped, behind: watch::Sender::new(false), now: Mutex::default() }))
    }

    /// Takes the running calls back; the run goes on with what they had. Where none runs, nothing happens.
    pub fn stop_tool(&self) {
        if let Some(calls) = &self.now().calls {
            calls.cancel();
        }
    }

    /// Whether calls run that [`Control::stop_tool`] would take back.
    pub fn has_calls(&self) -> bool {
        self.now().calls.is_some()
    }

    /// Ends the run at once, its calls too.
    pub fn stop_run(&self) {
        self.0.stop.cancel();
    }

    /// Says something to the model before it is asked the next time.
    pub fn steer(&self, text: String) {
        self.now().steering.push_back(text);
    }

    /// Says whether whoever listens is behind with what the run told. As long as that is so the run tells little more: it
    /// begins nothing new and takes no more of an answer. Calls that run go on. It waits no longer than its time, and not
    /// after it was stopped.
    pub fn set_behind(&self, behind: bool) {
        self.0.behind.send_replace(behind);
    }

    /// What was said too late for the run: it ended without hearing it.
    pub fn unheard(&self) -> Vec<String> {
        self.now().steering.drain(..).collect()
    }

    /// What fires when the run is stopped.
    pub(crate) fn stopped(&self) -> &Cancel {
        &self.0.stopped
    }

    /// Whether whoever listens is behind.
    pub(crate) fn is_behind(&self) -> bool {
        *self.0.behind.borrow()
    }

    /// Waits until whoever listens has caught up.
    pub(crate) async fn caught_up(&self) {
        // There is a sender as long as there is a control.
        let _ = self.0.behind.subscribe().wait_for(|behind| !behind).await;
    }

    /// Calls begin: what takes them back, for as long as the guard lives.
    pub(crate) fn calls(&self) -> (Running<'_>, Cancel) {
        let (handle, cancel) = Cancel::pair();
        self.now().calls = Some(handle);
        (Running(self), cancel.or(&self.0.stopped))
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Control {
    fn default() -> Self {
        Control::new()
    }
}

/// Calls run as long as it lives.
pub(crate) struct Running<'a>(&'a Control);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.now().calls = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_running_calls_are_taken_back() {
        let control = Control::new();
        control.stop_tool();
        let (running, cancel) = control.calls();
        assert!(!cancel.is_cancelled(), "a stop before the calls is not theirs");
        control.clone().stop_tool();
        assert!(cancel.is_cancelled());
        assert!(!control.stopped().is_cancelled());
        drop(running);
        let (_running, cancel) = control.calls();
        assert!(!cancel.is_cancelled());
        control.stop_run();
        assert!(cancel.is_cancelled());
    }
}
