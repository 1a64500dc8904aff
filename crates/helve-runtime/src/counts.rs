//! What is counted of callers: their calls, for rate limits, and the questions about these with their answers.
//!
//! A runtime counts for itself unless it is given counts. A program that makes several runtimes for the same callers, such as one
//! for each session, gives all of them the same, so that nobody starts from nothing with the next.

use helve_policy::RateLimiter;

use crate::approval::breaker::Breaker;

/// Counts of calls and questions, by the caller's name. Clones share one count.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub(crate) limiter: RateLimiter,
    pub(crate) breaker: Breaker,
}
