//! Ctrl-C, a polite request to end, and a terminal that goes away: the first takes the running calls back, so that their
//! processes end and their outcomes are recorded; the second ends Helve at once.

use std::sync::atomic::{AtomicBool, Ordering};

use helve::CancelHandle;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::approve;
use crate::failure::{CANCELLED, Failure};

/// Whether SIGTERM came.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Signals that do nothing any more but wait to be heard.
pub(crate) struct Caught(Signals);

/// Catches the signals.
pub(crate) fn catch() -> Result<Caught, Failure> {
    let cannot = |error: std::io::Error| Failure::internal(format!("signals cannot be caught: {error}"));
    let signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    // Under `nohup` the work goes on without its terminal.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP).map_err(cannot)?;
    }
    Ok(Caught(signals))
}

impl Caught {
    /// Hears them, those of before too, on a thread of its own, so that it works while everything else is busy. Where there
    /// is no thread to be had, nothing may run: it could not be taken back.
    pub(crate) fn listen(self, canceller: CancelHandle) {
        let Caught(mut signals) = self;
        let own = canceller.clone();
        let listen = move || {
            for (count, signal) in signals.forever().enumerate() {
                ASKED.fetch_or(signal == SIGTERM, Ordering::Relaxed);
                if count > 0 {
                    approve::restore();
                    std::process::exit(i32::from(CANCELLED));
                }
                canceller.cancel();
            }
        };
        if std::thread::Builder::new().name("signals".to_owned()).spawn(listen).is_err() {
            own.cancel();
        }
    }
}

impl Caught {
    /// Hears them on a thread of its own, for a command that has more than one thing to stop.
    pub(crate) fn hear(self, mut hear: impl FnMut(Heard) + Send + 'static) -> Result<(), Failure> {
        let Caught(mut signals) = self;
        let listen = move || {
            for signal in signals.forever() {
                ASKED.fetch_or(signal == SIGTERM, Ordering::Relaxed);
                hear(if signal == SIGINT { Heard::CtrlC } else { Heard::End });
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(listen);
        thread.map(drop).map_err(|error| Failure::internal(format!("signals cannot be heard: {error}")))
    }
}

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Ctrl-C.
    CtrlC,
    /// A request to end, or a terminal that went away.
    End,
}

/// Whether the end came as a polite request, which is how a server is stopped, and not from a keyboard.
pub(crate) fn was_asked_to_end() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Whether whoever started Helve has it ignore a signal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
