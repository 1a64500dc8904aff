//! Zygotes that were ended: they are waited for, and then the control groups around them are removed.
//!
//! Both may take milliseconds, so a thread of its own does it, started when there is something to do.

use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cgroup::Groups;

/// How long the members of a dead zygote take to die, as a rule.
const DYING: Duration = Duration::from_millis(5);

/// What waits to be taken away.
#[derive(Debug, Default)]
pub(super) struct Graveyard {
    state: Mutex<State>,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<(Child, Option<Groups>)>,
    /// A thread is at it.
    busy: bool,
}

impl Graveyard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a process that was killed taken away, and then its groups.
    pub(super) fn bury(self: &Arc<Self>, child: Child, groups: Option<Groups>) {
        let mut state = self.state();
        state.waiting.push((child, groups));
        if state.busy {
            return;
        }
        let graveyard = Arc::clone(self);
        let dig = move || graveyard.dig();
        // Where no thread can be had, the next one takes this along.
        state.busy = std::thread::Builder::new().name("helve-bury".to_owned()).spawn(dig).is_ok();
    }

    fn dig(&self) {
        loop {
            let mut state = self.state();
            let Some((mut child, groups)) = state.waiting.pop() else {
                state.busy = false;
                drop(state);
                return self.emptied.notify_all();
            };
            drop(state);
            // An error means that somebody else has waited for it.
            let _ = child.wait();
            if groups.is_some() {
                // Its members die with it; then the groups can be removed.
                std::thread::sleep(DYING);
            }
        }
    }

    /// Waits until all of it is taken away.
    pub(super) fn empty(&self) {
        let mut state = self.state();
        if !state.busy {
            state.busy = true;
            drop(state);
            return self.dig();
        }
        while state.busy {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
