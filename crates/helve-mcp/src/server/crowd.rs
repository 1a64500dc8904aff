//! Many clients at one door: how much of it each has, and who makes room.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio_util::sync::CancellationToken;

use super::face::lock;

/// How many of something each client has: requests and streams that are open, sessions that begin.
#[derive(Default)]
pub(super) struct Shares(Mutex<HashMap<String, usize>>);

/// One of them, until it is dropped.
pub(super) struct Share {
    of: Arc<Shares>,
    client: String,
}

impl Shares {
    /// One more for a client, if it has fewer than `most`.
    pub(super) fn take(self: &Arc<Self>, client: &str, most: usize) -> Option<Share> {
        let mut open = lock(&self.0);
        let count = open.entry(client.to_owned()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Share { of: Arc::clone(self), client: client.to_owned() })
    }

    /// How many there are of all.
    pub(super) fn count(&self) -> usize {
        lock(&self.0).values().sum()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut open = lock(&self.of.0);
        if let Some(count) = open.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.client);
            }
        }
    }
}

/// A connection that may not have shown a token yet.
#[derive(Default)]
pub(super) struct Stranger {
    known: AtomicBool,
    out: CancellationToken,
}

impl Stranger {
    /// It has shown a token.
    pub(super) fn is_known(&self) {
        self.known.store(true, Ordering::Relaxed);
    }

    /// Waits until it has to make room.
    pub(super) async fn turned_out(&self) {
        self.out.cancelled().await;
    }
}

/// The connections, the oldest first.
#[derive(Default)]
pub(super) struct Strangers(Mutex<VecDeque<Weak<Stranger>>>);

impl Strangers {
    /// A connection comes. Those that are gone or known are forgotten each time that it would have to grow.
    pub(super) fn comes(&self) -> Arc<Stranger> {
        let mut all = lock(&self.0);
        if all.len() == all.capacity() {
            all.retain(|one| stranger(one).is_some());
            let left = all.len();
            all.shrink_to(2 * left);
        }
        let new = Arc::new(Stranger::default());
        all.push_back(Arc::downgrade(&new));
        new
    }

    /// Makes the oldest stranger leave; says whether there was one.
    pub(super) fn turn_one_out(&self) -> bool {
        let mut all = lock(&self.0);
        while let Some(first) = all.pop_front() {
            if let Some(stranger) = stranger(&first) {
                stranger.out.cancel();
                return true;
            }
        }
        false
    }
}

fn stranger(one: &Weak<Stranger>) -> Option<Arc<Stranger>> {
    one.upgrade().filter(|one| !one.known.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_client_has_its_share_and_no_more() {
        let shares = Arc::new(Shares::default());
        let mut held: Vec<_> = (0..3).map(|_| shares.take("a", 2)).collect();
        assert_eq!(held.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        assert!(shares.take("b", 2).is_some());
        held.pop();
        held.pop();
        assert!(shares.take("a", 2).is_some());
        drop(held);
        assert_eq!(lock(&shares.0).len(), 0);
    }

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_who_is_known_stays() {
        let strangers = Strangers::default();
        let (known, gone, old, young) =
            (strangers.comes(), strangers.comes(), strangers.comes(), strangers.comes());
        known.is_known();
        drop(gone);
        assert!(strangers.turn_one_out());
        old.turned_out().await;
        assert!(!young.out.is_cancelled() && !known.out.is_cancelled());
        assert!(strangers.turn_one_out() && young.out.is_cancelled());
        assert!(!strangers.turn_one_out());
        // One that stays does not make the others stay.
        let _stays = strangers.comes();
        for _ in 0..1000 {
            strangers.comes();
        }
        assert!(lock(&strangers.0).len() <= 8);
    }
}
