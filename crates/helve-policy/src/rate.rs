//! How often a caller may call a tool: a sliding log of the calls of the last hour for each (caller, tool).
//!
//! A place is reserved before the call and given back only if the call's lane was never entered. In comes the time,
//! so that tests need no clock. Exact: a call made at `t` counts until `t + 60 s` and `t + 3,600 s`, that instant
//! excluded. Memory is bounded by [`MAX_LOGS`] logs of at most [`MAX_CALLS_PER_HOUR`] calls, and logs whose calls
//! are all older than an hour are dropped.
//!
//! Not here: which limit holds for which tool and caller.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helve_core::RateLimit;

/// How many (caller, tool) pairs are counted at once. Further pairs are refused until one has been quiet for an hour.
pub const MAX_LOGS: usize = 10_000;

/// The most calls an hour that can be counted; a larger limit counts as this one.
pub const MAX_CALLS_PER_HOUR: u32 = 100_000;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// How long to wait before the next call of this tool can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many calls: try again in {} seconds", .0.as_secs() + u64::from(.0.subsec_nanos() > 0))]
pub struct RetryAfter(pub Duration);

/// Counts calls. Clones share one count.
#[derive(Clone, Debug, Default)]
pub struct RateLimiter {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the log of a tool is, by caller and tool: a call that is counted already finds it without a copy of either name.
    places: HashMap<String, HashMap<String, usize>>,
    logs: Vec<Log>,
    /// Places of `logs` that are nobody's.
    free: Vec<usize>,
    next: u64,
    swept: Option<Instant>,
}

/// The calls of one pair, oldest first.
#[derive(Debug, Default)]
struct Log {
    caller: String,
    tool: String,
    calls: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    number: u64,
}

/// One reserved call. Dropping it keeps the call counted.
#[derive(Debug)]
#[must_use = "a ticket that is not refunded stays counted; bind it until the lane is entered"]
pub struct Ticket {
    state: Arc<Mutex<State>>,
    /// Where its log is. Where that has become another pair's, no call there has this number.
    place: usize,
    number: u64,
}

impl RateLimiter {
    /// A limiter that has seen no call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a call of `tool` by `caller` at `now`, or says how long to wait. A limit of zero refuses always.
    pub fn reserve(
        &self,
        caller: &str,
        tool: &str,
        limit: RateLimit,
        now: Instant,
    ) -> Result<Ticket, RetryAfter> {
        let mut state = lock(&self.state);
        state.sweep(now);
        let known = state.places.get(caller).and_then(|tools| tools.get(tool));
        let place = match known {
            Some(place) => *place,
            None if state.counted() >= MAX_LOGS => return Err(RetryAfter(state.first_quiet(now))),
            None => state.add(caller, tool),
        };
        let number = state.next;
        let Some(Log { calls, .. }) = state.logs.get_mut(place) else { return Err(RetryAfter(MINUTE)) };
        forget_old(calls, now);
        // Threads take the time before the lock, so it may run backwards a little here; the log stays sorted.
        let now = calls.back().map_or(now, |last| last.at.max(now));
        let hourly = limit.per_hour.min(MAX_CALLS_PER_HOUR);
        let wait = wait(calls, limit.per_minute, MINUTE, now).max(wait(calls, hourly, HOUR, now));
        if let Some(wait) = wait {
            state.remove_if_empty(place);
            return Err(RetryAfter(wait));
        }
        calls.push_back(Entry { at: now, number });
        state.next += 1;
        drop(state);
        Ok(Ticket { state: Arc::clone(&self.state), place, number })
    }

    /// How many (caller, tool) pairs are counted at the moment.
    #[cfg(test)]
    fn counted_pairs(&self) -> usize {
        lock(&self.state).counted()
    }
}

impl Ticket {
    /// Gives the place back: the call never entered its lane.
    pub fn refund(self) {
        let mut state = lock(&self.state);
        let Some(Log { calls, .. }) = state.logs.get_mut(self.place) else { return };
        if let Ok(at) = calls.binary_search_by_key(&self.number, |entry| entry.number) {
            calls.remove(at);
            state.remove_if_empty(self.place);
        }
    }
}

impl State {
    /// How many pairs have a log.
    fn counted(&self) -> usize {
        self.logs.len() - self.free.len()
    }

    /// A log for a pair that has none; its place.
    fn add(&mut self, caller: &str, tool: &str) -> usize {
        let log = Log { caller: caller.to_owned(), tool: tool.to_owned(), calls: VecDeque::new() };
        let place = self.free.pop().unwrap_or(self.logs.len());
        match self.logs.get_mut(place) {
            Some(free) => *free = log,
            None => self.logs.push(log),
        }
        self.places.entry(caller.to_owned()).or_default().insert(tool.to_owned(), place);
        place
    }

    /// Gives a log's place back if no call is in it.
    fn remove_if_empty(&mut self, place: usize) {
        let Some(log) = self.logs.get_mut(place).filter(|log| log.calls.is_empty()) else { return };
        let Log { caller, tool, .. } = std::mem::take(log);
        if let Some(tools) = self.places.get_mut(&caller)
            && tools.get(&tool) == Some(&place)
        {
            tools.remove(&tool);
            self.free.push(place);
            if tools.is_empty() {
                self.places.remove(&caller);
            }
        }
    }

    /// Drops quiet logs, at most once a minute so that a call stays cheap.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|last| now.saturating_duration_since(last) < MINUTE) {
            return;
        }
        self.swept = Some(now);
        for place in 0..self.logs.len() {
            if let Some(log) = self.logs.get_mut(place) {
                forget_old(&mut log.calls, now);
            }
            self.remove_if_empty(place);
        }
    }

    /// After how long the first of the logs will have been quiet for an hour.
    fn first_quiet(&self, now: Instant) -> Duration {
        let quiet = |log: &Log| log.calls.back().map(|last| (last.at + HOUR).saturating_duration_since(now));
        // A log may have gone quiet since the last sweep; the next one comes within a minute.
        self.logs.iter().filter_map(quiet).min().unwrap_or(MINUTE).max(Duration::from_secs(1))
    }
}

/// How long until fewer than `limit` calls lie in the window that ends then; none if that is so now.
fn wait(log: &VecDeque<Entry>, limit: u32, window: Duration, now: Instant) -> Option<Duration> {
    let limit = limit as usize;
    // The call that has to leave the window; with a limit of zero no call ever does.
    let Some(blocking) = log.get(log.len().checked_sub(limit)?) else { return Some(window) };
    let left = (blocking.at + window).saturating_duration_since(now);
    (!left.is_zero()).then_some(left)
}

fn forget_old(log: &mut VecDeque<Entry>, now: Instant) {
    while log.front().is_some_and(|entry| now.saturating_duration_since(entry.at) >= HOUR) {
        log.pop_front();
    }
}

/// The state stays consistent between statements, so a panic elsewhere does not spoil it.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
