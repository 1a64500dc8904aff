//! Which processors the helper uses while it prepares: not the one that Helve goes on with.

use std::io;

use rustix::thread::CpuSet;

/// The processors that this process may use, while it keeps away from one of them.
///
/// What the helper starts ahead is to run beside Helve, which goes on where it was. The kernel would often put a new process
/// behind it there, and leave another processor idle for longer than all of this takes.
pub(super) struct Processors(CpuSet);

impl Processors {
    /// Keeps this process, and what it starts, away from a processor. None if there is no other.
    pub(super) fn without(busy: usize) -> Option<Processors> {
        let all = rustix::thread::sched_getaffinity(None).ok()?;
        let mut others = all;
        others.unset(busy);
        if others.count() == 0 {
            return None;
        }
        rustix::thread::sched_setaffinity(None, &others).ok()?;
        Some(Processors(all))
    }

    /// Uses all of them again: what commands inherit.
    pub(super) fn restore(self) -> io::Result<()> {
        rustix::thread::sched_setaffinity(None, &self.0).map_err(io::Error::from)
    }
}
