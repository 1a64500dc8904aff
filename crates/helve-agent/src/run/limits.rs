//! What a run has used, and whether it may go on.

use std::time::{Duration, Instant};

use helve::AskClock;

use super::pace::Pace;
use crate::control::Control;
use crate::events::{Bound, Bounds, Event};
use crate::guard::Guard;
use crate::model::Price;
use crate::talk::Usage;

/// Where time is up, so much longer may an answer take that is on its way, and as long the last words: a quarter, and at least
/// this.
const GRACE: Duration = Duration::from_secs(5);
/// Where no end is set, one that never comes.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// One run.
pub(super) struct Run<'a> {
    pub(super) control: &'a Control,
    watch: &'a mut (dyn FnMut(Event) + Send),
    pub(super) guard: Guard,
    bounds: Bounds,
    started: Instant,
    /// Counts the time in which a person is asked.
    pub(super) asked: AskClock,
    /// Where the talk was when it began.
    first: u64,
    before: Usage,
    /// When the last words were asked for.
    last: Option<Duration>,
    /// What answers had whose provider did not count them, about.
    uncounted: Usage,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        control: &'a Control,
        watch: &'a mut (dyn FnMut(Event) + Send),
        bounds: Bounds,
        first: u64,
        before: Usage,
    ) -> Run<'a> {
        let (guard, asked) = (Guard::default(), AskClock::default());
        Run {
            control,
            watch,
            guard,
            bounds,
            started: Instant::now(),
            asked,
            first,
            before,
            last: None,
            uncounted: Usage::default(),
        }
    }

    /// Tells whoever listens.
    pub(super) fn tell(&mut self, event: Event) {
        (self.watch)(event);
    }

    /// The pace at which whoever listens takes what it is told.
    pub(super) fn pace(&self) -> Pace<'a> {
        Pace::new(self.control, self.timer(false))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.control.stopped().is_cancelled()
    }

    /// How many rounds there were, where the talk has had so many.
    pub(super) fn rounds(&self, rounds: u64) -> u64 {
        rounds.saturating_sub(self.first)
    }

    /// What was used, where the talk has used so much.
    pub(super) fn used(&self, usage: &Usage) -> Usage {
        Usage {
            input: usage.input.saturating_sub(self.before.input),
            written: usage.written.saturating_sub(self.before.written),
            cached: usage.cached.saturating_sub(self.before.cached),
            output: usage.output.saturating_sub(self.before.output),
        }
    }

    /// An answer came, or a part of one, for which its provider counted nothing; it had about so many tokens.
    pub(super) fn uncounted(&mut self, tokens: Usage) {
        self.uncounted += tokens;
    }

    /// What nobody counted, about.
    pub(super) fn not_counted(&self) -> Usage {
        self.uncounted
    }

    /// What was used with what nobody counted, and whether there is such.
    pub(super) fn about(&self, usage: &Usage) -> (Usage, bool) {
        let mut all = self.used(usage);
        all += self.uncounted;
        (all, !self.uncounted.is_nothing())
    }

    /// How long it takes so far, without the time in which a person was asked.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.asked.waited())
    }

    /// The bound that is reached, if one is.
    pub(super) fn bound(&self, rounds: u64, usage: &Usage, price: Option<Price>) -> Option<Bound> {
        let spent = self.spent(usage, price);
        if spent == Some(Bound::Cost) {
            return spent;
        }
        if self.bounds.time.is_some_and(|most| self.elapsed() >= most) {
            return Some(Bound::Time);
        }
        spent.or_else(|| (self.rounds(rounds) >= self.bounds.rounds).then_some(Bound::Rounds))
    }

    /// The same of the bounds on what may be spent.
    pub(super) fn spent(&self, usage: &Usage, price: Option<Price>) -> Option<Bound> {
        let (used, _) = self.about(usage);
        let cost = price.map_or(0, |price| price.of(&used));
        if self.bounds.cost.is_some_and(|most| cost >= most) {
            return Some(Bound::Cost);
        }
        self.bounds.tokens.is_some_and(|most| used.total() >= most).then_some(Bound::Tokens)
    }

    /// What the bound says, in words.
    pub(super) fn bound_in_words(&self, bound: Bound) -> String {
        match bound {
            Bound::Rounds => format!("it may take {} rounds, and did", self.bounds.rounds),
            Bound::Time => {
                let most = self.bounds.time.unwrap_or_default().as_secs();
                format!("it may take {most} seconds, and did")
            }
            Bound::Tokens => {
                format!("it may use {} tokens, and did", self.bounds.tokens.unwrap_or_default())
            }
            Bound::Cost => {
                let dollars = self.bounds.cost.unwrap_or_default() as f64 / 1e6;
                format!("it may cost {dollars} US dollars, and did")
            }
        }
    }

    /// The time at which calls are taken back.
    fn end(&self) -> Duration {
        self.bounds.time.unwrap_or(NEVER)
    }

    /// The time beyond which nothing more is waited for.
    fn late(&self) -> Duration {
        let from = |most: Duration| self.last.unwrap_or(most).max(most);
        self.bounds.time.map_or(NEVER, |most| from(most).saturating_add(GRACE.max(most / 4)))
    }

    /// The last words are asked for now.
    pub(super) fn asks_for_last_words(&mut self) {
        self.last = Some(self.elapsed());
    }

    /// What waits for the end of the time, without borrowing the run.
    pub(super) fn timer(&self, late: bool) -> Timer {
        let end = if late { self.late() } else { self.end() };
        Timer { started: self.started, asked: self.asked.clone(), end }
    }
}

/// Waits for the end of the time of a run.
pub(super) struct Timer {
    started: Instant,
    asked: AskClock,
    end: Duration,
}

impl Timer {
    /// Waits until the time is over. While a person is asked it does not go on.
    pub(super) async fn over(&self) {
        // Looked at again from time to time, because a question may have begun or ended.
        while let Some(left) = self.left() {
            tokio::time::sleep(left.max(Duration::from_millis(10))).await;
        }
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.left().is_none()
    }

    /// How much of it is left; none if it is over.
    fn left(&self) -> Option<Duration> {
        let elapsed = self.started.elapsed().saturating_sub(self.asked.waited());
        self.end.checked_sub(elapsed).filter(|left| !left.is_zero())
    }
}
