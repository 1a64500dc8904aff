//! How often a person may be asked. A question too many teaches people to say yes, so there is a most a minute; and
//! whoever said no again and again is left alone for a while, then asked one question, and so on until a yes comes.
//!
//! Counted for each caller: the answers of one person, behind one client, say nothing about those of another. Memory is bounded by
//! [`MAX_CALLERS`]; callers that were quiet for a rest are forgotten first, unless they still wait for a yes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Approval;

const MINUTE: Duration = Duration::from_secs(60);
/// So many denials in a row end the questions.
const IN_A_ROW: usize = 3;
/// So many denials among the last answers end them too.
const AMONG_LAST: usize = 10;
const LAST: usize = 50;
/// So long nobody is asked after that.
const REST: Duration = Duration::from_secs(10 * 60);

/// So many callers are counted at once. Nobody is asked for further ones until one of them was quiet.
const MAX_CALLERS: usize = 10_000;

/// Counts the questions and answers of each caller. Clones share one count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker {
    callers: Arc<Mutex<HashMap<String, State>>>,
}

#[derive(Debug, Default)]
struct State {
    /// When questions were asked in the last minute.
    asked: VecDeque<Instant>,
    /// The last answers, the newest at the end: whether each was a no.
    denied: VecDeque<bool>,
    /// When the last no came, or the one question after a rest was asked.
    rests_since: Option<Instant>,
}

/// Why a question is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// There were too many in the last minute; one may be asked after this long.
    TooMany(Duration),
    /// The owner said no too often; one may be asked after this long.
    Denied(Duration),
}

impl Breaker {
    /// Counts a question for a caller that is about to be asked.
    pub(crate) fn ask(&self, caller: &str, per_minute: u64, now: Instant) -> Result<(), Stop> {
        let mut callers = self.callers();
        if !callers.contains_key(caller) {
            if callers.len() >= MAX_CALLERS {
                callers.retain(|_, state| !state.is_quiet(now));
            }
            if callers.len() >= MAX_CALLERS {
                return Err(Stop::TooMany(MINUTE));
            }
        }
        let state = callers.entry(caller.to_owned()).or_default();
        if state.is_broken() {
            let rested = state.rests_since.map_or(REST, |since| now.saturating_duration_since(since));
            if rested < REST {
                return Err(Stop::Denied(REST - rested));
            }
        }
        while state.asked.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
            state.asked.pop_front();
        }
        if state.asked.len() as u64 >= per_minute {
            let first = state.asked.front().map_or(MINUTE, |at| now.duration_since(*at));
            return Err(Stop::TooMany(MINUTE.saturating_sub(first)));
        }
        state.asked.push_back(now);
        if state.is_broken() {
            state.rests_since = Some(now);
        }
        Ok(())
    }

    /// Notes what came back. Where nobody was there, nobody was bothered either.
    pub(crate) fn answered(&self, caller: &str, approval: &Approval, now: Instant) {
        let mut callers = self.callers();
        let Some(state) = callers.get_mut(caller) else { return };
        match approval {
            Approval::Once | Approval::Session { .. } | Approval::Always { .. } => {
                // A yes says that somebody is there who wants to be asked.
                if state.is_broken() {
                    state.denied.clear();
                }
                state.note(false);
            }
            Approval::Denied { .. } => {
                state.note(true);
                state.rests_since = Some(now);
            }
            Approval::Nobody => {
                state.asked.pop_back();
            }
            Approval::Cancelled | Approval::TimedOut => {}
        }
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, denied: bool) {
        self.denied.push_back(denied);
        if self.denied.len() > LAST {
            self.denied.pop_front();
        }
    }

    /// Whether nothing is lost if it is forgotten.
    fn is_quiet(&self, now: Instant) -> bool {
        let asked = self.asked.back().is_some_and(|at| now.saturating_duration_since(*at) < REST);
        !asked && !self.is_broken()
    }

    fn is_broken(&self) -> bool {
        let in_a_row = self.denied.iter().rev().take_while(|denied| **denied).count();
        in_a_row >= IN_A_ROW || self.denied.iter().filter(|denied| **denied).count() >= AMONG_LAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no() -> Approval {
        Approval::Denied { reason: String::new() }
    }

    #[test]
    fn a_minute_has_a_most_and_what_nobody_saw_does_not_count() {
        let breaker = Breaker::default();
        let start = Instant::now();
        for second in 0..5 {
            assert_eq!(breaker.ask("c", 3, start + Duration::from_secs(second)), Ok(()));
            breaker.answered("c", &Approval::Nobody, start);
        }
        for second in 0..3 {
            assert_eq!(breaker.ask("c", 3, start + Duration::from_secs(second)), Ok(()));
            breaker.answered("c", &Approval::Once, start);
        }
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(breaker.ask("c", 3, after(10)), Err(Stop::TooMany(Duration::from_secs(50))));
        assert_eq!(breaker.ask("c", 3, after(60)), Ok(()));
        assert_eq!(breaker.ask("c", 3, after(60)), Err(Stop::TooMany(Duration::from_secs(1))));
    }

    #[test]
    fn three_denials_in_a_row_end_the_questions_until_a_yes_comes_in() {
        let breaker = Breaker::default();
        let now = Instant::now();
        for answer in [no(), no(), Approval::Once, no(), no(), Approval::TimedOut] {
            assert_eq!(breaker.ask("c", 100, now), Ok(()));
            breaker.answered("c", &answer, now);
        }
        assert_eq!(breaker.ask("c", 100, now), Ok(()), "two in a row, and a timeout is no answer");
        breaker.answered("c", &no(), now);
        assert_eq!(breaker.ask("c", 100, now), Err(Stop::Denied(REST)));
        // A question that was open meanwhile.
        breaker.answered("c", &Approval::Session { grants: Vec::new() }, now);
        assert_eq!(breaker.ask("c", 100, now), Ok(()));
    }

    #[test]
    fn ten_denials_among_the_last_fifty_end_them_too() {
        let breaker = Breaker::default();
        let now = Instant::now();
        for round in 0..10 {
            assert_eq!(breaker.ask("c", 1000, now), Ok(()), "{round}");
            breaker.answered("c", &Approval::Once, now);
            breaker.answered("c", &no(), now);
        }
        assert_eq!(breaker.ask("c", 1000, now), Err(Stop::Denied(REST)));
        let patient = Breaker::default();
        for _ in 0..40 {
            assert_eq!(patient.ask("c", 1000, now), Ok(()));
            patient.answered("c", &no(), now);
            for _ in 0..5 {
                patient.answered("c", &Approval::Once, now);
            }
        }
        assert_eq!(patient.ask("c", 1000, now), Ok(()), "nine among the last fifty");
    }

    #[test]
    fn after_a_rest_one_question_is_asked_and_a_yes_opens_the_rest() {
        let breaker = Breaker::default();
        let start = Instant::now();
        for _ in 0..IN_A_ROW {
            assert_eq!(breaker.ask("c", 100, start), Ok(()));
            breaker.answered("c", &no(), start);
        }
        let minute = Duration::from_secs(60);
        assert_eq!(breaker.ask("c", 100, start + minute), Err(Stop::Denied(REST - minute)));
        let rested = start + REST;
        assert_eq!(breaker.ask("c", 100, rested), Ok(()));
        assert_eq!(breaker.ask("c", 100, rested), Err(Stop::Denied(REST)), "one alone");
        breaker.answered("c", &no(), rested + minute);
        assert_eq!(breaker.ask("c", 100, rested + REST), Err(Stop::Denied(minute)));
        assert_eq!(breaker.ask("c", 100, rested + minute + REST), Ok(()));
        breaker.answered("c", &Approval::Once, rested + minute + REST);
        for _ in 0..3 {
            assert_eq!(breaker.ask("c", 100, rested + minute + REST), Ok(()));
        }
    }

    #[test]
    fn each_caller_has_a_count_of_its_own_that_all_clones_share() {
        let breaker = Breaker::default();
        let (other, now) = (breaker.clone(), Instant::now());
        for _ in 0..IN_A_ROW {
            assert_eq!(breaker.ask("one", 100, now), Ok(()));
            breaker.answered("one", &no(), now);
        }
        assert_eq!(other.ask("one", 100, now), Err(Stop::Denied(REST)));
        assert_eq!(other.ask("two", 1, now), Ok(()));
        assert_eq!(breaker.ask("two", 1, now), Err(Stop::TooMany(MINUTE)));
    }

    #[test]
    fn so_many_callers_are_counted_and_the_quiet_ones_make_room() {
        let breaker = Breaker::default();
        let now = Instant::now();
        for _ in 0..IN_A_ROW {
            assert_eq!(breaker.ask("denied", 100, now), Ok(()));
            breaker.answered("denied", &no(), now);
        }
        for caller in 1..MAX_CALLERS {
            assert_eq!(breaker.ask(&caller.to_string(), 100, now), Ok(()));
        }
        assert_eq!(breaker.ask("more", 100, now), Err(Stop::TooMany(MINUTE)));
        assert_eq!(breaker.ask("1", 100, now), Ok(()), "who is counted goes on");
        assert_eq!(breaker.ask("more", 100, now + REST), Ok(()));
        assert_eq!(breaker.callers().len(), 2, "a no is not forgotten");
    }
}
