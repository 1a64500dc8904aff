//! Waiting awake: for a moment after something has happened, whoever serves a client looks again instead of going to sleep.
//!
//! A processor without work sleeps, and to wake it takes longer than most calls do. So the next request of a client that asks
//! one thing after the other, and the answer of a server that is quick, find somebody who looks. Between two looks every other
//! program may run, and where one does so for long, this one sleeps as ever: on a machine that is busy nothing is won. After
//! each stretch of looks the rest of this program has its turn.

use std::pin::pin;
use std::task::Context;
use std::time::{Duration, Instant};

/// For so long it is looked again.
const MOMENT: Duration = Duration::from_micros(100);
/// So long it is looked at a stretch.
const STRETCH: Duration = Duration::from_millis(1);
/// Whoever was kept from looking for so long is not alone here.
const KEPT_OFF: Duration = Duration::from_millis(1);
/// For so long nobody tries again then: at first, and each time twice as long, up to the longest.
const REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(256);
/// So many looks in a row from which nobody was kept show that one is alone after all.
const ALONE: u32 = 1_000;

/// Knows whether it is worth to stay awake.
pub(super) struct Awake {
    until: Option<Instant>,
    /// When the others have their turn.
    turn: Option<Instant>,
    rests: Option<Instant>,
    /// How long the last rest was, and the looks since then.
    rest: Duration,
    looks: u32,
    /// Where there is one processor, whoever looks is in the way of whom it waits for.
    can: bool,
}

impl Awake {
    pub(super) fn new() -> Awake {
        let can = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        Awake { until: None, turn: None, rests: None, rest: Duration::ZERO, looks: 0, can }
    }

    /// Something happened, so that more may.
    pub(super) fn happened(&mut self) {
        self.until = None;
    }

    fn kept_off(&mut self, now: Instant) {
        self.rest = (2 * self.rest).clamp(REST, LONGEST_REST);
        (self.turn, self.rests, self.looks) = (None, Some(now + self.rest), 0);
    }

    /// Whether whoever has found nothing looks again right away, as is of use where all that may come is `seen` by that. Where it
    /// does not, its task is polled again soon if that is worth it; before that the runtime has looked for what came.
    pub(super) fn looks_again(&mut self, seen: bool, poller: &mut Context<'_>) -> bool {
        if !self.can {
            return false;
        }
        let now = Instant::now();
        let turn = *self.turn.get_or_insert(now + STRETCH);
        let is_over = !seen || now >= turn || !tokio::task::coop::has_budget_remaining();
        self.turn.take_if(|_| is_over);
        if self.rests.is_some_and(|rests| now < rests) || now >= *self.until.get_or_insert(now + MOMENT) {
            self.turn = None;
            return false;
        }
        std::thread::yield_now();
        if now.elapsed() > KEPT_OFF {
            self.kept_off(Instant::now());
            return false;
        }
        self.looks += 1;
        if self.looks >= ALONE {
            (self.rest, self.looks) = (Duration::ZERO, 0);
        }
        if is_over {
            // Its first poll asks to be polled again.
            let _ = pin!(tokio::task::yield_now()).poll(poller);
        }
        !is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;

    /// How often a task that waits looks until it sleeps, how often it is polled for that, and whether that goes on.
    async fn looks(mut awake: Awake, seen: bool) -> (u32, u32, bool) {
        let count = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let counts = Arc::clone(&count);
        let waits = tokio::spawn(std::future::poll_fn(move |poller| {
            counts.1.fetch_add(1, Ordering::Relaxed);
            loop {
                counts.0.fetch_add(1, Ordering::Relaxed);
                if !awake.looks_again(seen, poller) {
                    return Poll::<()>::Pending;
                }
            }
        }));
        let now = || (count.0.load(Ordering::Relaxed), count.1.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = now();
        tokio::time::sleep(Duration::from_millis(50)).await;
        waits.abort();
        (before.0, before.1, now() != before)
    }

    fn able() -> Awake {
        Awake { can: true, ..Awake::new() }
    }

    #[tokio::test]
    async fn who_waits_looks_again_for_a_moment_and_then_sleeps() {
        for seen in [false, true] {
            let (mut most, mut polls) = (0, 0);
            // On a busy machine one that begins may be kept off at once.
            for _ in 0..100 {
                let (looked, polled, goes_on) = looks(able(), seen).await;
                assert!(!goes_on, "it sleeps");
                (most, polls) = (most.max(looked), polls.max(polled));
                if most > 2 {
                    break;
                }
            }
            assert!(most > 2, "it looked {most} times");
            assert_eq!(
                polls == most,
                !seen,
                "where not all is seen, the runtime looks each time: {polls} of {most}"
            );
        }
    }

    #[tokio::test]
    async fn nobody_is_in_the_way_of_whom_it_waits_for() {
        assert_eq!(looks(Awake { can: false, ..able() }, true).await, (1, 1, false));
        let rests = Some(Instant::now() + Duration::from_secs(60));
        assert_eq!(looks(Awake { rests, ..able() }, true).await, (1, 1, false));
    }

    #[tokio::test]
    async fn the_rest_of_the_program_has_its_turn_whatever_happens() {
        let stretch = std::future::poll_fn(|poller| {
            let (mut awake, from) = (able(), Instant::now());
            while awake.looks_again(true, poller) {
                awake.happened();
                assert!(from.elapsed() < Duration::from_secs(10), "it never ends");
            }
            Poll::Ready(())
        });
        stretch.await;
    }

    #[tokio::test]
    async fn who_is_kept_off_again_and_again_rests_longer_each_time() {
        let mut awake = able();
        let mut rests = Vec::new();
        for _ in 0..12 {
            awake.kept_off(Instant::now());
            rests.push(awake.rest);
        }
        assert_eq!(rests[..3], [REST, 2 * REST, 4 * REST]);
        assert_eq!(rests[11], LONGEST_REST);
        (awake.rests, awake.looks) = (None, ALONE - 1);
        let looked = std::future::poll_fn(|poller| Poll::Ready(awake.looks_again(true, poller)));
        // It is alone after all, unless it was kept off this very time.
        assert!(!looked.await || awake.rest.is_zero());
    }
}
