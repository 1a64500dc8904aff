//! How many members stand ready, of which kind. Pure sizes and times: who makes and drops them is [`super::engine`].
//!
//! Nothing is made for a first call, and nothing after it until the process has lived on for a moment: a program that
//! runs one command and ends pays for no pool. Then the pool has its ordinary size, grows while calls find it empty,
//! shrinks when they pause, and is given up when they stop. In a crowd, where calls come side by side and find it empty,
//! nothing is made beforehand: there is no time that nobody needs, and to make a member for a call takes less of it. It
//! lasts as long as they come so.

use std::time::{Duration, Instant};

/// How many members of the native sandbox stand ready while commands come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Shells that have already started.
    pub warm: usize,
    /// Sandboxes that wait for any program.
    pub parked: usize,
}

impl Default for PoolSize {
    fn default() -> Self {
        PoolSize { warm: 2, parked: 1 }
    }
}

impl PoolSize {
    /// No pool: each command waits for a sandbox of its own to be made.
    pub const NONE: PoolSize = PoolSize { warm: 0, parked: 0 };
}

/// The most that stand ready of one kind, however many calls come.
const MOST: usize = 6;
/// A call that began within this time, and is still under way, makes a crowd with one that finds nothing ready.
const YOUNG: Duration = Duration::from_millis(5);
/// For so long after it found nothing ready nothing is made.
const CROWD: Duration = Duration::from_millis(10);
/// How long after a first call nothing is made yet.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// After this long without a call the pool has its ordinary size again.
const SHRINK_AFTER: Duration = Duration::from_secs(2);
/// After this long without a call nothing stands ready.
const EMPTY_AFTER: Duration = Duration::from_secs(30);
/// After this long without a call the zygote ends too.
const CLOSE_AFTER: Duration = Duration::from_secs(300);

/// What is wanted at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// So many members.
    pub(super) size: PoolSize,
    /// Whether none is made, however few there are.
    pub(super) crowded: bool,
    /// Whether the zygote is kept.
    pub(super) zygote: bool,
    /// Whether more commands are to be expected, so that what takes a while pays.
    pub(super) more: bool,
    /// When to ask again although nothing has happened; never if absent.
    pub(super) again: Option<Instant>,
}

/// No member, but a zygote.
const NOTHING: Wanted =
    Wanted { size: PoolSize::NONE, crowded: false, zygote: true, more: false, again: None };

/// The pool's size over time.
#[derive(Debug)]
pub(super) struct Sizing {
    base: PoolSize,
    grown: PoolSize,
    calls: u64,
    last: Instant,
    /// When calls began that are under way: the young ones are among them, and perhaps older ones.
    under_way: Vec<Instant>,
    crowded_until: Instant,
}

impl Sizing {
    pub(super) fn new(base: PoolSize, now: Instant) -> Sizing {
        Sizing { base, grown: base, calls: 0, last: now, under_way: Vec::new(), crowded_until: now }
    }

    /// A call has begun. One more beside others keeps a crowd together.
    pub(super) fn began(&mut self, now: Instant) {
        self.under_way.retain(|began| now.saturating_duration_since(*began) < YOUNG);
        if self.is_crowded(now) && !self.under_way.is_empty() {
            self.crowded_until = now + CROWD;
        }
        self.under_way.push(now);
    }

    /// A call has ended that began then.
    pub(super) fn ended(&mut self, began: Option<Instant>, now: Instant) {
        self.under_way.retain(|other| Some(*other) != began);
        self.calls = self.calls.saturating_add(1);
        self.last = now;
    }

    /// A call that is about to begin found nothing ready. Whether that began a crowd.
    pub(super) fn found_nothing(&mut self, now: Instant) -> bool {
        let is_young = |began: &Instant| now.saturating_duration_since(*began) < YOUNG;
        if !self.under_way.iter().any(is_young) {
            return false;
        }
        let was = self.is_crowded(now);
        self.crowded_until = now + CROWD;
        !was
    }

    /// Whether nothing is made beforehand.
    pub(super) fn is_crowded(&self, now: Instant) -> bool {
        now < self.crowded_until
    }

    /// A call wanted a warm shell and none was ready.
    pub(super) fn missed_warm(&mut self) {
        if self.base.warm > 0 {
            self.grown.warm = grow(self.grown.warm, self.base.warm);
        }
    }

    /// A call wanted a parked member and none was ready.
    pub(super) fn missed_parked(&mut self) {
        if self.base.parked > 0 {
            self.grown.parked = grow(self.grown.parked, self.base.parked);
        }
    }

    /// What should stand ready now. `running` says whether a call is under way.
    pub(super) fn wanted(&mut self, now: Instant, running: bool) -> Wanted {
        let wanted = self.wanted_without_a_crowd(now, running);
        if !self.is_crowded(now) {
            return wanted;
        }
        // Calls that end in a crowd leave it at that, so whatever is wanted otherwise, it is asked again when it is over.
        let again = wanted.again.map_or(self.crowded_until, |again| again.min(self.crowded_until));
        Wanted { crowded: true, again: Some(again), ..wanted }
    }

    fn wanted_without_a_crowd(&mut self, now: Instant, running: bool) -> Wanted {
        let again = |after: Duration| Some(self.last + after);
        let quiet = now.saturating_duration_since(self.last);
        if self.calls == 0 {
            return NOTHING;
        }
        if self.calls == 1 && quiet < FIRST_PAUSE {
            return Wanted { again: again(FIRST_PAUSE), ..NOTHING };
        }
        if running || quiet < SHRINK_AFTER {
            let again = if running { Some(now + SHRINK_AFTER) } else { again(SHRINK_AFTER) };
            return Wanted { size: self.grown, more: true, again, ..NOTHING };
        }
        if quiet < EMPTY_AFTER {
            let again = again(EMPTY_AFTER);
            self.grown = self.base;
            return Wanted { size: self.base, more: true, again, ..NOTHING };
        }
        if quiet < CLOSE_AFTER {
            return Wanted { again: again(CLOSE_AFTER), ..NOTHING };
        }
        // The next zygote begins as the first one did.
        self.calls = 0;
        Wanted { zygote: false, ..NOTHING }
    }
}

fn grow(size: usize, base: usize) -> usize {
    size.saturating_add(1).min(MOST.max(base))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn a_single_call_has_no_pool_until_the_process_lives_on() {
        let start = Instant::now();
        let mut sizing = Sizing::new(PoolSize::default(), start);
        assert_eq!(sizing.wanted(start, true).size, PoolSize::NONE);
        sizing.ended(None, start);
        let wanted = sizing.wanted(start + MILLI, false);
        assert_eq!(wanted, Wanted { again: Some(start + FIRST_PAUSE), ..NOTHING });
        assert_eq!(sizing.wanted(start + FIRST_PAUSE, false).size, PoolSize::default());
        sizing.ended(None, start + MILLI);
        assert_eq!(sizing.wanted(start + MILLI, false).size, PoolSize::default());
    }

    #[test]
    fn it_grows_to_a_bound_while_calls_miss_and_shrinks_when_they_pause() {
        let start = Instant::now();
        let mut sizing = Sizing::new(PoolSize::default(), start);
        sizing.ended(None, start);
        sizing.ended(None, start);
        for _ in 0..20 {
            sizing.missed_warm();
        }
        sizing.missed_parked();
        assert_eq!(sizing.wanted(start, false).size, PoolSize { warm: MOST, parked: 2 });
        let wanted = sizing.wanted(start + SHRINK_AFTER, false);
        assert_eq!(
            wanted,
            Wanted { size: PoolSize::default(), more: true, again: Some(start + EMPTY_AFTER), ..NOTHING }
        );
        let wanted = sizing.wanted(start + EMPTY_AFTER, false);
        assert_eq!(wanted, Wanted { again: Some(start + CLOSE_AFTER), ..NOTHING });
        let wanted = sizing.wanted(start + CLOSE_AFTER, false);
        assert_eq!(wanted, Wanted { zygote: false, ..NOTHING });
        assert_eq!(sizing.wanted(start + CLOSE_AFTER, false).again, None);
    }

    #[test]
    fn in_a_crowd_nothing_is_made_beforehand() {
        let start = Instant::now();
        let mut sizing = Sizing::new(PoolSize::default(), start);
        sizing.ended(None, start);
        sizing.ended(None, start);
        // One after the other is no crowd, nor is one beside a call that takes long.
        assert!(!sizing.found_nothing(start));
        sizing.began(start);
        assert!(!sizing.found_nothing(start + YOUNG));
        sizing.ended(Some(start), start + YOUNG);
        sizing.began(start + YOUNG);
        sizing.ended(Some(start + YOUNG), start + YOUNG + MILLI);
        assert!(!sizing.found_nothing(start + YOUNG + MILLI));
        assert!(!sizing.wanted(start + YOUNG + MILLI, false).crowded);
        // One beside another that has just begun is.
        let crowd = start + YOUNG * 2;
        sizing.began(crowd);
        assert!(sizing.found_nothing(crowd + MILLI));
        assert!(!sizing.found_nothing(crowd + MILLI), "it began already");
        let until = crowd + MILLI + CROWD;
        let wanted = sizing.wanted(until - MILLI, true);
        assert_eq!((wanted.crowded, wanted.again), (true, Some(until)));
        assert_eq!(wanted.size, PoolSize::default(), "what stands ready stays");
        assert!(!sizing.wanted(until, true).crowded);
    }

    #[test]
    fn a_crowd_lasts_as_long_as_calls_come_side_by_side() {
        let start = Instant::now();
        let mut sizing = Sizing::new(PoolSize::default(), start);
        sizing.began(start);
        assert!(sizing.found_nothing(start));
        let (mut now, mut last) = (start, start);
        for _ in 0..20 {
            now += MILLI * 2;
            sizing.began(now);
            sizing.ended(Some(last), now);
            last = now;
        }
        assert!(sizing.is_crowded(now + CROWD - MILLI));
        assert!(!sizing.is_crowded(now + CROWD));
        // One after the other they are none: it ends when it would have ended.
        sizing.ended(Some(last), now);
        for _ in 0..4 {
            now += MILLI * 3;
            sizing.began(now);
            sizing.ended(Some(now), now);
        }
        assert!(!sizing.is_crowded(now));
    }

    /// Nobody else asks: the calls that end meanwhile do not.
    #[test]
    fn a_crowd_of_first_calls_is_asked_about_again_too() {
        let start = Instant::now();
        let mut sizing = Sizing::new(PoolSize::default(), start);
        sizing.began(start);
        assert!(sizing.found_nothing(start + MILLI));
        let until = start + MILLI + CROWD;
        assert_eq!(
            sizing.wanted(start + MILLI, true),
            Wanted { crowded: true, again: Some(until), ..NOTHING }
        );
        sizing.ended(Some(start), start + MILLI);
        assert_eq!(sizing.wanted(start + MILLI, true).again, Some(until));
    }

    #[test]
    fn a_long_call_is_no_pause() {
        let start = Instant::now();
        let mut sizing = Sizing::new(PoolSize::default(), start);
        sizing.ended(None, start);
        sizing.ended(None, start);
        let wanted = sizing.wanted(start + EMPTY_AFTER * 2, true);
        let again = Some(start + EMPTY_AFTER * 2 + SHRINK_AFTER);
        assert_eq!(wanted, Wanted { size: PoolSize::default(), more: true, again, ..NOTHING });
    }

    #[test]
    fn no_pool_stays_none_and_a_large_one_stays_large() {
        let start = Instant::now();
        for (base, grown) in [
            (PoolSize::NONE, PoolSize::NONE),
            (PoolSize { warm: 9, parked: 0 }, PoolSize { warm: 9, parked: 0 }),
        ] {
            let mut sizing = Sizing::new(base, start);
            sizing.ended(None, start);
            sizing.ended(None, start);
            sizing.missed_warm();
            sizing.missed_parked();
            assert_eq!(sizing.wanted(start, false).size, grown);
        }
    }
}
