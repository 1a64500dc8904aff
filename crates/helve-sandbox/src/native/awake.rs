//! Waiting awake for a command that is likely to be over in a moment.
//!
//! A processor without work sleeps, and to wake it takes about as long as a short command. So whoever called looks again and
//! again for a moment before it sleeps. Between two looks everybody else may run, tasks of the runtime and other processes
//! alike; where one of them does, the machine has better things to do, and for a while nobody looks. Nor does anybody look
//! after a command that took longer than that moment, until one was over sooner: what was called last is the best guess.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// For so long a call is waited for awake.
const MOMENT: Duration = Duration::from_millis(1);
/// Whoever was kept from looking for so long is not alone here.
const KEPT_OFF: Duration = Duration::from_micros(60);
/// For so long nobody looks then.
const REST: Duration = Duration::from_millis(20);

/// Knows whether it is worth to stay awake.
pub(super) struct Awake {
    born: Instant,
    /// Until when nobody looks, in microseconds since it was made.
    rests: AtomicU64,
    /// The last call took longer than anybody looks.
    long: AtomicBool,
    /// Where there is one processor, whoever looks is in the way of whom it waits for.
    can: OnceLock<bool>,
}

impl Awake {
    pub(super) fn new() -> Awake {
        Awake {
            born: Instant::now(),
            rests: AtomicU64::new(0),
            long: AtomicBool::new(false),
            can: OnceLock::new(),
        }
    }

    fn since(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.born).as_micros()).unwrap_or(u64::MAX)
    }

    /// Until when a call that begins now is waited for awake, if it is worth it.
    pub(super) fn begin(&self) -> Option<Instant> {
        let can = self.can.get_or_init(|| {
            rustix::thread::sched_getaffinity(None).is_ok_and(|processors| processors.count() > 1)
        });
        let now = Instant::now();
        let rested = self.since(now) >= self.rests.load(Ordering::Relaxed);
        (*can && rested && !self.long.load(Ordering::Relaxed)).then(|| now + MOMENT)
    }

    /// A call is over that took so long.
    pub(super) fn took(&self, time: Duration) {
        self.long.store(time > MOMENT, Ordering::Relaxed);
    }

    /// Lets everybody else run. Whether to look again afterwards.
    pub(super) async fn again(&self, until: Instant) -> bool {
        let before = Instant::now();
        if before >= until {
            return false;
        }
        std::thread::yield_now();
        tokio::task::yield_now().await;
        let now = Instant::now();
        if now.saturating_duration_since(before) < KEPT_OFF {
            return true;
        }
        self.rests.store(self.since(now + REST), Ordering::Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(can: bool) -> Awake {
        Awake { can: OnceLock::from(can), ..Awake::new() }
    }

    #[tokio::test]
    async fn who_waits_looks_again_for_a_moment() {
        let mut most = 0;
        // On a busy machine one that begins may be kept off at once.
        for _ in 0..1000 {
            let awake = with(true);
            let until = awake.begin().unwrap();
            let mut looks = 0;
            while awake.again(until).await {
                looks += 1;
            }
            assert!(Instant::now() >= until || awake.begin().is_none());
            most = most.max(looks);
            if most > 10 {
                return;
            }
        }
        panic!("it looked {most} times at most");
    }

    #[tokio::test]
    async fn whoever_is_kept_off_rests_for_a_while() {
        let awake = with(true);
        let until = Instant::now() + Duration::from_secs(60);
        let busy = tokio::spawn(async {
            loop {
                std::thread::sleep(KEPT_OFF * 2);
                tokio::task::yield_now().await;
            }
        });
        while awake.again(until).await {}
        busy.abort();
        assert_eq!(awake.begin(), None);
        std::thread::sleep(REST + Duration::from_millis(1));
        assert!(awake.begin().is_some());
    }

    #[test]
    fn after_a_long_call_nobody_looks_until_one_was_short() {
        let awake = with(true);
        awake.took(MOMENT * 2);
        assert_eq!(awake.begin(), None);
        awake.took(MOMENT / 2);
        assert!(awake.begin().is_some());
    }

    #[test]
    fn nobody_is_in_the_way_of_whom_it_waits_for() {
        assert_eq!(with(false).begin(), None);
    }
}
