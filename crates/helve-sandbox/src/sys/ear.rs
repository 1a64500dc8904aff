//! A socket in the event loop of the async runtime.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the current runtime say when there is something to be read. Panics where that has no event loop, as everything of
/// tokio's does that waits for one.
pub(crate) fn hear(socket: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: whoever holds the shared descriptor keeps it open, and it is never exchanged for another.
    let heard = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    heard.map_err(io::Error::from)
}
