//! Fresh call ids: the time, and bits that no other process is likely to draw.
//!
//! What can be undone is undone in the order of its ids, so a clock that went back must not make an id that sorts before
//! those of earlier changes: ids then count on from the latest one, in this process and over processes
//! ([`not_before`]).

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::CallId;

/// Threads that read the clock at the same time may come here in another order. More than this is a clock that went back.
const SLACK_MS: u64 = 1_000;

/// The latest millisecond of an id.
static LATEST_MS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The millisecond and the bits of the last id.
    static LAST: Cell<(u64, u128)> = const { Cell::new((0, 0)) };
}

/// A new id. Uniqueness is all that is asked of it; nothing trusts it to be unguessable. Within a millisecond the ids of a thread
/// count up, so that they sort as they were made.
pub(crate) fn fresh() -> CallId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = onward(&LATEST_MS, u64::try_from(now.as_millis()).unwrap_or_default());
    let bits = match LAST.get() {
        (last, bits) if last == ms => bits.wrapping_add(1),
        _ => draw(now.subsec_nanos()),
    };
    LAST.set((ms, bits));
    CallId::from_parts(ms, bits)
}

/// Ids from now on sort behind this one, which another process may have made when the clock was ahead.
pub(crate) fn not_before(call: &str) {
    if let Some(ms) = CallId::unix_ms(call) {
        LATEST_MS.fetch_max(ms, Ordering::Relaxed);
    }
}

/// The time, or where the clock went back the next millisecond behind the latest.
fn onward(latest: &AtomicU64, now_ms: u64) -> u64 {
    let before = latest.fetch_max(now_ms, Ordering::Relaxed);
    match before.saturating_sub(now_ms) > SLACK_MS {
        true => latest.fetch_add(1, Ordering::Relaxed) + 1,
        false => now_ms,
    }
}

fn draw(nanos: u32) -> u128 {
    // The keys of a `RandomState` come from the operating system, once a thread, and differ with each one made.
    let state = RandomState::new();
    let half = |salt: u32| {
        let mut hasher = state.build_hasher();
        hasher.write_u32(salt);
        hasher.write_u32(nanos);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_id_comes_twice_in_whatever_thread() {
        let draw = || {
            let ids: Vec<CallId> = (0..10_000).map(|_| fresh()).collect();
            assert!(ids.is_sorted(), "they sort as they were made");
            ids
        };
        let all: Vec<CallId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn a_clock_that_went_back_leaves_the_order_as_it_is() {
        let latest = AtomicU64::new(0);
        let clock = [5_000, 5_000, 4_990, 90_000, 6_000, 6_001, 89_500, 90_005];
        let ms: Vec<u64> = clock.into_iter().map(|now| onward(&latest, now)).collect();
        assert_eq!(ms, [5_000, 5_000, 4_990, 90_000, 90_001, 90_002, 89_500, 90_005]);
    }
}
