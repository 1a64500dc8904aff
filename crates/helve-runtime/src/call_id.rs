//! Fresh call ids: the time, and bits that no other process is likely to draw.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::CallId;

thread_local! {
    /// The millisecond and the bits of the last id.
    static LAST: Cell<(u64, u128)> = const { Cell::new((0, 0)) };
}

/// A new id. Uniqueness is all that is asked of it; nothing trusts it to be unguessable. Within a millisecond the ids of a thread
/// count up, so that they sort as they were made.
pub(crate) fn fresh() -> CallId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(now.as_millis()).unwrap_or_default();
    let bits = match LAST.get() {
        (last, bits) if last == ms => bits.wrapping_add(1),
        _ => draw(now.subsec_nanos()),
    };
    LAST.set((ms, bits));
    CallId::from_parts(ms, bits)
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
}
