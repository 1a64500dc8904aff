//! Zygotes that were ended: they are waited for, and then the control groups around them are removed.
//!
//! Both may take milliseconds, so a thread of its own does it, started when there is something to do; at the very end the
//! reactor's does.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::helper::Process;
use crate::cgroup::Groups;

/// What waits to be taken away.
#[derive(Debug, Default)]
pub(super) struct Graveyard {
    state: Mutex<State>,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<(Process, Option<Groups>)>,
    digger: Digger,
}

/// Who takes them away.
#[derive(Debug, Default, PartialEq, Eq)]
enum Digger {
    /// Nobody is at it.
    #[default]
    None,
    /// A thread is at it.
    Thread,
    /// Somebody will be, with [`Graveyard::empty`].
    Promised,
}

impl Graveyard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a process that was killed taken away, and then its groups.
    pub(super) fn bury(self: &Arc<Self>, process: Process, groups: Option<Groups>) {
        let mut state = self.state();
        state.waiting.push((process, groups));
        if state.digger != Digger::None {
            return;
        }
        let graveyard = Arc::clone(self);
        let dig = move || graveyard.dig();
        // Where no thread can be had, the next one takes this along.
        if std::thread::Builder::new().name("helve-bury".to_owned()).spawn(dig).is_ok() {
            state.digger = Digger::Thread;
        }
    }

    /// Promises that [`Graveyard::empty`] follows, so that no thread is started for what is buried until then.
    pub(super) fn close(&self) {
        let mut state = self.state();
        if state.digger == Digger::None {
            state.digger = Digger::Promised;
        }
    }

    fn dig(&self) {
        loop {
            let mut state = self.state();
            let Some((process, groups)) = state.waiting.pop() else {
                state.digger = Digger::None;
                drop(state);
                return self.emptied.notify_all();
            };
            drop(state);
            process.wait();
            // Its members die with it; then the groups can be removed.
            drop(groups);
        }
    }

    /// Waits until all of it is taken away.
    pub(super) fn empty(&self) {
        let mut state = self.state();
        if state.digger != Digger::Thread {
            state.digger = Digger::Thread;
            drop(state);
            return self.dig();
        }
        while state.digger == Digger::Thread {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
