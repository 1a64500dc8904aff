//! Fresh call ids: the time, and bits that no other process is likely to draw.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use helve_core::CallId;

/// A new id. Uniqueness is all that is asked of it; nothing trusts it to be unguessable.
pub(crate) fn fresh() -> CallId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = u64::try_from(now.as_millis()).unwrap_or_default();
    // The keys of a `RandomState` come from the operating system, once a thread, and differ with each one made.
    let state = RandomState::new();
    let draw = |salt: u32| {
        let mut hasher = state.build_hasher();
        hasher.write_u32(salt);
        hasher.write_u32(now.subsec_nanos());
        u128::from(hasher.finish())
    };
    CallId::from_parts(ms, (draw(0) << 64) | draw(1))
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
