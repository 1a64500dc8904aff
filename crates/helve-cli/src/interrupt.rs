//! Ctrl-C and a polite request to end: the first takes the running calls back, so that their processes end and their
//! outcomes are recorded; the second ends Helve at once.

use helve::CancelHandle;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{CANCELLED, Failure};

/// Listens on a thread of its own, so that it works while everything else is busy.
pub(crate) fn cancel_on_interrupt(canceller: CancelHandle) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::internal(format!("signals cannot be caught: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot)?;
    let listen = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(i32::from(CANCELLED));
            }
            canceller.cancel();
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map(|_| ()).map_err(cannot)
}
