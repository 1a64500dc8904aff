//! Ctrl-C while a model works: the first stops the running calls, the second the run, the third Helve itself. Where nothing
//! runs that could be stopped by itself, the first stops the run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_agent::control::Control;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::{CANCELLED, Failure};
use crate::interrupt::{self, Heard};
use crate::{approve, ui};

/// A second Ctrl-C within this time means the run.
const AGAIN: Duration = Duration::from_secs(2);

/// Whoever presses Ctrl-C, and what it stops.
#[derive(Clone, Default)]
pub(crate) struct Hands(Arc<Mutex<Now>>);

#[derive(Default)]
struct Now {
    /// The run that goes on.
    control: Option<Control>,
    /// When calls were stopped last.
    pressed: Option<Instant>,
    /// Whether the run was told to stop.
    stopping: bool,
    /// When it was told so by a request to end.
    ending: Option<Instant>,
    /// How the terminal was at the beginning.
    terminal: Option<Termios>,
}

/// A run goes on as long as it lives.
pub(crate) struct Holding<'a>(&'a Hands);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        let mut now = self.0.now();
        (now.control, now.stopping, now.pressed) = (None, false, None);
    }
}

impl Hands {
    /// From now on signals are heard.
    pub(crate) fn listen() -> Result<Hands, Failure> {
        let hands = Hands::default();
        hands.now().terminal = tcgetattr(std::io::stdin()).ok();
        let own = hands.clone();
        interrupt::catch()?.hear(move |heard| match heard {
            Heard::CtrlC => own.press(),
            Heard::End => own.end(),
        })?;
        Ok(hands)
    }

    /// A run begins, and this is what stops it.
    pub(crate) fn hold(&self, control: &Control) -> Holding<'_> {
        let mut now = self.now();
        (now.control, now.stopping, now.pressed) = (Some(control.clone()), false, None);
        Holding(self)
    }

    /// Whether Helve was told to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.now().ending.is_some()
    }

    /// Ctrl-C.
    pub(crate) fn press(&self) {
        let mut now = self.now();
        let Some(control) = now.control.clone().filter(|_| !now.stopping) else {
            drop(now);
            return self.quit();
        };
        let again = now.pressed.is_some_and(|at| at.elapsed() < AGAIN);
        if control.has_calls() && !again {
            now.pressed = Some(Instant::now());
            drop(now);
            control.stop_tool();
            ui::note("the running calls are stopped; Ctrl-C again stops the run");
        } else {
            now.stopping = true;
            drop(now);
            control.stop_run();
        }
    }

    /// A request to end.
    fn end(&self) {
        let mut now = self.now();
        // `timeout` and others send one request to the process and one to its group: these are one.
        if now.ending.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        match now.control.clone().filter(|_| !now.stopping) {
            Some(control) => {
                (now.stopping, now.ending) = (true, Some(Instant::now()));
                drop(now);
                control.stop_run();
            }
            None => {
                drop(now);
                self.quit();
            }
        }
    }

    /// Ends Helve at once, the terminal as it was.
    fn quit(&self) {
        approve::restore();
        ui::status("");
        if let Some(was) = &self.now().terminal {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, was);
        }
        std::process::exit(i32::from(CANCELLED));
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
