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
const STRETCH: Duration = Duration::from_micros(250);
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

    /// Whether whoever has found nothing looks again right away, as is of use where all that may come is `seen` by that. Where it
    /// does not, its task is polled again soon if that is worth it; before that the runtime has looked for what came.
    pub(super) fn looks_again(&mut self, seen: bool, poller: &mut Context<'_>) -> bool {
        if !self.can {
            return false;
        }
        let now = Instant::now();
        let turn = *self.turn.get_or_insert(now + STRETCH);
        let is_over = !seen || now >= turn;
        self.turn.take_if(|_| is_over);
        if self.rests.is_some_and(|rests| now < rests) || now >= *self.until.get_or_insert(now + MOMENT) {
            self.turn = None;
            return false;
        }
        std::thread::yield_now();
        if now.elapsed() > KEPT_OFF {
            let rest = (2 * self.rest).clamp(REST, LONGEST_REST);
            (self.turn, self.rests, self.rest, self.looks) = (None, Some(now + KEPT_OFF + rest), rest, 0);
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

    /// How often a task that waits is polled until it sleeps, and how often after that.
    async fn polls(mut awake: Awake) -> (u32, u32) {
        let count = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&count);
        let waits = tokio::spawn(std::future::poll_fn(move |poller| {
            counts.fetch_add(1, Ordering::Relaxed);
            while awake.looks_again(true, poller) {}
            Poll::<()>::Pending
        }));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = count.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
        waits.abort();
        (before, count.load(Ordering::Relaxed) - before)
    }

    #[tokio::test]
    async fn who_waits_looks_again_for_a_moment_and_then_sleeps() {
        let mut most = 0;
        // On a busy machine one that begins may be kept off at once.
        for _ in 0..100 {
            let (before, after) = polls(Awake { can: true, ..Awake::new() }).await;
            assert_eq!(after, 0, "it sleeps");
            most = most.max(before);
            if most > 1 {
                break;
            }
        }
        assert!(most > 1, "it looked once");
    }

    #[tokio::test]
    async fn nobody_is_in_the_way_of_whom_it_waits_for() {
        assert_eq!(polls(Awake { can: false, ..Awake::new() }).await, (1, 0));
        let rests = Some(Instant::now() + Duration::from_secs(60));
        assert_eq!(polls(Awake { rests, can: true, ..Awake::new() }).await, (1, 0));
    }
}
