//! The real terminal: taken while Helve is in its foreground, and put back as it was on every way out.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetpgrp, tcsetattr};

/// How it was, until it is put back for good.
static REAL: Mutex<Option<Real>> = Mutex::new(None);

struct Real {
    tty: OwnedFd,
    was: Termios,
    raw: bool,
}

fn real() -> MutexGuard<'static, Option<Real>> {
    REAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers how it is.
pub(super) fn keep(tty: OwnedFd, was: Termios) {
    *real() = Some(Real { tty, was, raw: false });
}

/// Puts it back as it was, for good. Does nothing where it is not taken.
pub(in super::super) fn restore() {
    give_back();
    *real() = None;
}

/// Takes it: keys come one by one and as they are. Whether it is taken; not where another job has it, or where it was put
/// back for good.
pub(super) fn take() -> bool {
    let mut real = real();
    let Some(real) = real.as_mut() else { return false };
    if real.raw || !is_in_foreground(&real.tty) {
        return real.raw;
    }
    let mut modes = real.was.clone();
    modes.make_raw();
    real.raw = tcsetattr(&real.tty, OptionalActions::Drain, &modes).is_ok();
    real.raw
}

/// Puts it back as it was, for a while.
pub(super) fn give_back() {
    if let Some(real) = real().as_mut()
        && std::mem::take(&mut real.raw)
    {
        let _ = tcsetattr(&real.tty, OptionalActions::Drain, &real.was);
    }
}

/// Somebody else has put it back.
pub(super) fn was_given_back() {
    if let Some(real) = real().as_mut() {
        real.raw = false;
    }
}

/// Whether this process may use it: a shell stops jobs in the background that try. Where it is not the controlling
/// terminal there are no jobs.
fn is_in_foreground(tty: &impl AsFd) -> bool {
    tcgetpgrp(tty).map_or(true, |group| group == rustix::process::getpgrp())
}
