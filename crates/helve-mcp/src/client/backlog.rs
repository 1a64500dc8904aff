//! What waits to be read by a server on standard streams. It is bounded, and a server that reads nothing for too long is given up.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Bytes that may wait. One line alone may have more.
const MOST: usize = 8 << 20;
/// How long a server may read nothing, unless it is said.
const PATIENCE: Duration = Duration::from_secs(60);

/// What waits for one server.
#[derive(Debug)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    patience: Duration,
}

/// Bytes that wait until this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    of: Arc<Backlog>,
    bytes: usize,
}

impl Default for Backlog {
    fn default() -> Backlog {
        Backlog::new(PATIENCE)
    }
}

impl Backlog {
    pub(super) fn new(patience: Duration) -> Backlog {
        Backlog { bytes: AtomicUsize::new(0), patience }
    }

    /// Room for a line; else how many bytes wait already.
    pub(super) fn room(self: &Arc<Self>, bytes: usize) -> Result<Room, usize> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let room = Room { of: Arc::clone(self), bytes };
        if before > 0 && before.saturating_add(bytes) > MOST { Err(before) } else { Ok(room) }
    }

    /// Writes all of it; an error of the kind `TimedOut` where the server reads nothing for too long.
    pub(super) async fn put(&self, way: &mut (impl AsyncWrite + Unpin), mut line: &[u8]) -> io::Result<()> {
        while !line.is_empty() {
            let count = tokio::time::timeout(self.patience, way.write(line)).await??;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            line = line.get(count..).unwrap_or_default();
        }
        tokio::time::timeout(self.patience, way.flush()).await?
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_much_and_for_one_line_whatever_it_has() {
        let backlog = Arc::new(Backlog::default());
        let large = backlog.room(2 * MOST).unwrap();
        assert_eq!(backlog.room(1).unwrap_err(), 2 * MOST);
        drop(large);
        let held: Vec<Room> = (0..8).map(|_| backlog.room(MOST / 8).unwrap()).collect();
        assert_eq!(backlog.room(1).unwrap_err(), MOST);
        drop(held);
        assert_eq!(backlog.bytes.load(Ordering::Relaxed), 0);
    }
}
