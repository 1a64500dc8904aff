//! Fresh call ids: the time, and bits that no other process is likely to draw.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::CallId;

/// How far apart two states are: odd, so that all of them are gone through.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

thread_local! {
    /// Where the numbers of a thread stand. Where they begin comes from the operating system.
    static STATE: Cell<[u64; 2]> = Cell::new([0, 1].map(|salt: u64| RandomState::new().hash_one(salt)));
}

/// A new id. Uniqueness is all that is asked of it; nothing trusts it to be unguessable.
pub(crate) fn fresh() -> CallId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(now.as_millis()).unwrap_or_default();
    let [high, low] = STATE.get();
    STATE.set([high, low].map(|state| state.wrapping_add(STEP)));
    CallId::from_parts(ms, (u128::from(stirred(high)) << 64) | u128::from(stirred(low)))
}

/// A number that shows nothing of the one before it (SplitMix64), and is another one for every state.
fn stirred(state: u64) -> u64 {
    let one = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let two = (one ^ (one >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    two ^ (two >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_id_comes_twice_in_whatever_thread() {
        let draw = || (0..10_000).map(|_| fresh()).collect::<Vec<CallId>>();
        let all: Vec<CallId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}
