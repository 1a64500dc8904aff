//! Calls of other keepers, in this process or another, in the same workspace.
//!
//! What is new since one of them began may be its command's doing, which it takes away when it ends: whoever begins
//! meanwhile must not take it for the owner's and put it back. So each keeper says by a lock on the workspace's directory
//! that a call is running, and by the lock's place since when. A lock ends with its process, however that ends, and leaves
//! nothing behind. Where a file system has no locks nobody is seen. A command can take such a lock too: so what is in doubt is
//! told when it changes, and what the owner is known to have had is never in doubt.

use std::os::fd::OwnedFd;

use rustix::time::{ClockId, clock_gettime};

use crate::sys::locks;

/// How many calls of others are looked at.
const MOST_OTHERS: usize = 64;

/// Calls of one keeper that are running. Dropping it says that they have ended.
#[derive(Debug)]
pub(super) struct Running(OwnedFd);

impl Running {
    /// Says that a call begins; `workspace` is opened for nobody else.
    pub(super) fn begin(workspace: OwnedFd) -> Running {
        // By the clock that files are stamped with.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let _ = locks::share(&workspace, milliseconds(now.tv_sec, now.tv_nsec));
        Running(workspace)
    }

    /// Since when calls of others are running, in milliseconds of the clock.
    pub(super) fn others_since(&self) -> Option<i64> {
        let mut first = None;
        for _ in 0..MOST_OTHERS {
            match locks::found(&self.0, first.unwrap_or(0)) {
                Ok(Some(at)) => first = Some(at),
                _ => break,
            }
            if first == Some(0) {
                break;
            }
        }
        first
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A copy of the descriptor in a process that is being started would keep it.
        let _ = locks::release(&self.0);
    }
}

/// A moment in milliseconds.
pub(super) fn milliseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}
