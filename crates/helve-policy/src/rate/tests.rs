use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn limit(per_minute: u32, per_hour: u32) -> RateLimit {
    RateLimit { per_minute, per_hour }
}

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn the_window_ends_exactly_after_its_length() {
    let (limiter, start) = (RateLimiter::new(), Instant::now());
    let reserve = |at| limiter.reserve("a", "exec", limit(1, 10), start + at).map(|_| ()).map_err(|r| r.0);
    assert_eq!(reserve(seconds(0)), Ok(()));
    assert_eq!(reserve(seconds(60) - Duration::from_nanos(1)), Err(Duration::from_nanos(1)));
    assert_eq!(reserve(seconds(60)), Ok(()));
}

#[test]
fn the_hour_counts_what_the_minute_forgot() {
    let (limiter, start) = (RateLimiter::new(), Instant::now());
    let reserve = |at| limiter.reserve("a", "exec", limit(2, 3), start + at).map(|_| ()).map_err(|r| r.0);
    assert_eq!(reserve(seconds(0)), Ok(()));
    assert_eq!(reserve(seconds(100)), Ok(()));
    assert_eq!(reserve(seconds(200)), Ok(()));
    assert_eq!(reserve(seconds(300)), Err(seconds(3300)));
    assert_eq!(reserve(seconds(3600)), Ok(()));
}

#[test]
fn callers_and_tools_are_counted_apart() {
    let (limiter, now) = (RateLimiter::new(), Instant::now());
    for (caller, tool) in [("a", "x"), ("a", "y"), ("b", "x")] {
        assert!(limiter.reserve(caller, tool, limit(1, 1), now).is_ok());
        assert!(limiter.reserve(caller, tool, limit(1, 1), now).is_err());
    }
}

#[test]
fn a_refund_frees_the_place_and_the_memory() {
    let (limiter, now) = (RateLimiter::new(), Instant::now());
    let ticket = limiter.reserve("a", "x", limit(1, 1), now).unwrap();
    assert!(limiter.reserve("a", "x", limit(1, 1), now).is_err());
    ticket.refund();
    assert_eq!(limiter.counted_pairs(), 0);
    assert!(limiter.reserve("a", "x", limit(1, 1), now).is_ok());
}

#[test]
fn a_ticket_whose_place_is_anothers_by_now_gives_nothing_back() {
    let (limiter, start) = (RateLimiter::new(), Instant::now());
    let old = limiter.reserve("a", "x", limit(1, 1), start).unwrap();
    let later = start + HOUR;
    // The log of the first is forgotten, and its place taken.
    let _kept = limiter.reserve("b", "y", limit(1, 1), later).unwrap();
    old.refund();
    assert!(limiter.reserve("b", "y", limit(1, 1), later).is_err());
    assert_eq!(limiter.counted_pairs(), 1);
}

#[test]
fn a_dropped_ticket_stays_counted() {
    let (limiter, now) = (RateLimiter::new(), Instant::now());
    drop(limiter.reserve("a", "x", limit(1, 1), now));
    assert!(limiter.reserve("a", "x", limit(1, 1), now).is_err());
}

#[test]
fn a_limit_of_zero_refuses_and_keeps_nothing() {
    let (limiter, now) = (RateLimiter::new(), Instant::now());
    assert!(limiter.reserve("a", "x", limit(0, 5), now).is_err());
    assert!(limiter.reserve("a", "x", limit(5, 0), now).is_err());
    assert_eq!(limiter.counted_pairs(), 0);
}

#[test]
fn pairs_are_bounded_and_quiet_ones_forgotten() {
    let (limiter, start) = (RateLimiter::new(), Instant::now());
    for n in 0..MAX_LOGS {
        drop(limiter.reserve(&n.to_string(), "x", limit(1, 1), start));
    }
    assert_eq!(limiter.reserve("one more", "x", limit(1, 1), start).map(|_| ()), Err(RetryAfter(HOUR)));
    assert!(limiter.reserve("one more", "x", limit(1, 1), start + HOUR).is_ok());
    assert_eq!(limiter.counted_pairs(), 1);
}

#[test]
fn threads_share_one_count() {
    let (limiter, now) = (RateLimiter::new(), Instant::now());
    let granted: usize = std::thread::scope(|scope| {
        let try_many =
            || (0..100).filter(|_| limiter.reserve("a", "x", limit(50, 1000), now).is_ok()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(try_many)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(granted, 50);
}

#[test]
fn the_message_rounds_up() {
    assert_eq!(RetryAfter(Duration::from_millis(1500)).to_string(), "too many calls: try again in 2 seconds");
}

/// The definition itself: all granted calls are kept, and windows are counted by looking at each of them.
struct Model {
    granted: Vec<Duration>,
}

impl Model {
    fn free(&self, now: Duration, limit: RateLimit) -> bool {
        let count = |window: Duration| self.granted.iter().filter(|at| now - **at < window).count();
        count(MINUTE) < limit.per_minute as usize && count(HOUR) < limit.per_hour as usize
    }
}

proptest! {
    #[test]
    fn it_grants_exactly_what_the_definition_grants(
        steps in prop::collection::vec((prop_oneof![0u64..5, 50u64..70, 1000u64..4000], any::<bool>()), 1..80),
        per_minute in 1u32..5,
        per_hour in 1u32..8,
    ) {
        let (limiter, start) = (RateLimiter::new(), Instant::now());
        let limit = limit(per_minute, per_hour);
        let mut model = Model { granted: Vec::new() };
        let mut now = Duration::ZERO;
        for (step, refund) in steps {
            now += seconds(step);
            let expected = model.free(now, limit);
            match limiter.reserve("a", "x", limit, start + now) {
                Ok(ticket) => {
                    prop_assert!(expected);
                    if refund { ticket.refund() } else { model.granted.push(now) }
                }
                Err(RetryAfter(wait)) => {
                    prop_assert!(!expected);
                    prop_assert!(!model.free(now + wait - Duration::from_nanos(1), limit), "not a moment too late");
                    prop_assert!(model.free(now + wait, limit), "not a moment too early");
                }
            }
        }
    }
}
