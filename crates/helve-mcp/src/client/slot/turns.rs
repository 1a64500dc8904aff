//! The order of calls at a server that takes one at a time. Each session keeps an order of its own calls; the server has those of
//! several.

use std::sync::Arc;

use helve_core::ServerCall;
use tokio::sync::OwnedSemaphorePermit;

use super::{Slot, lock};

/// More than ever run beside each other.
pub(super) const ALL: u32 = 1 << 20;

/// A call's turn, until this is dropped.
#[derive(Default)]
pub(crate) struct Turn {
    _held: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// The turn of a call that may run at once; none if it has to wait for others.
    pub(super) fn turn_now(&self, call: &ServerCall) -> Option<Turn> {
        let Some(part) = self.part(call) else { return Some(Turn::default()) };
        let held = Arc::clone(&self.turns).try_acquire_many_owned(part).ok()?;
        Some(Turn { _held: Some(held) })
    }

    /// The turn of a call; waits for all that came before it.
    pub(super) async fn turn(&self, call: &ServerCall) -> Turn {
        let Some(part) = self.part(call) else { return Turn::default() };
        Turn { _held: Arc::clone(&self.turns).acquire_many_owned(part).await.ok() }
    }

    /// How much of the server a call takes, where its calls do not all run beside each other: one that only reads leaves room for
    /// others that do.
    fn part(&self, call: &ServerCall) -> Option<u32> {
        if self.spec.parallel {
            return None;
        }
        let only_reads = self.spec.trusted && (!call.act.is_call() || self.is_read_only(&call.tool));
        Some(if only_reads { 1 } else { ALL })
    }

    fn is_read_only(&self, tool: &str) -> bool {
        let catalog = lock(&self.catalog);
        catalog.tools.get(tool).is_some_and(|look| look.definition.hints.read_only == Some(true))
    }
}
