//! Trying again where somebody else was faster. Each conflict means that another change went through, so those that lose take
//! turns; pauses of different length keep them from meeting again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use helve_core::{ErrorKind, ToolError};

/// So often a change is tried.
const MOST: u32 = 40;
/// The longest pause between two tries.
const LONGEST: Duration = Duration::from_millis(60);

/// How often a change was tried.
#[derive(Default)]
pub(crate) struct Tries(u32);

impl Tries {
    /// Whether to try again after an outcome, and waits until then.
    pub(crate) async fn again<T>(&mut self, outcome: &Result<T, ToolError>) -> bool {
        let is_conflict = outcome.as_ref().is_err_and(|error| error.kind == ErrorKind::Conflict);
        if !is_conflict || self.0 + 1 >= MOST {
            return false;
        }
        self.0 += 1;
        // The first is free: most often the other is done.
        if self.0 > 1 {
            let longest = LONGEST.min(Duration::from_millis(4) * self.0);
            let part = u32::try_from(RandomState::new().hash_one(self.0) % 256).unwrap_or(255);
            tokio::time::sleep(longest * (part + 1) / 256).await;
        }
        true
    }
}
