//! Sees when a run goes in circles: the same calls with the same results, alone or in turns.
//!
//! In: what was called in a round and what came of it, as one hash. Out: whether that is still progress. It knows nothing of
//! any tool; a call that waits for something and sees it change goes on as long as it likes. What counts is rounds in a row:
//! to run the same test after each of many edits is work, not a circle.

use std::collections::VecDeque;

use serde_json::Value;

/// The longest circle that is seen: so many different rounds that come again and again.
const LONGEST: usize = 3;
/// So often in a row is still said nothing.
const WARN_AT: usize = 3;
/// So often in a row ends the run.
const STOP_AT: usize = 5;

/// What the guard thinks of the latest round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Something new, or nothing to speak of.
    Fine,
    /// The model should be told: these many rounds in turn, each so often.
    Circles { rounds: usize, times: usize },
    /// The model was told, and goes on all the same.
    Stuck { rounds: usize, times: usize },
}

/// What was done in the latest rounds.
#[derive(Default)]
pub(crate) struct Guard {
    rounds: VecDeque<blake3::Hash>,
}

impl Guard {
    /// Takes one more round.
    pub(crate) fn look(&mut self, round: blake3::Hash) -> Progress {
        self.rounds.push_back(round);
        if self.rounds.len() > LONGEST * STOP_AT {
            self.rounds.pop_front();
        }
        let circle =
            (1..=LONGEST).map(|rounds| (rounds, self.times(rounds))).max_by_key(|(rounds, times)| {
                // The shortest circle of those that came as often.
                (*times, LONGEST - rounds)
            });
        match circle {
            Some((rounds, times)) if times >= STOP_AT => Progress::Stuck { rounds, times },
            // Said once when it is seen, and not again with each round of the circle.
            Some((rounds, times)) if times == WARN_AT && self.ends_a_turn(rounds, times) => {
                Progress::Circles { rounds, times }
            }
            _ => Progress::Fine,
        }
    }

    /// How often the latest `rounds` rounds came in a row.
    fn times(&self, rounds: usize) -> usize {
        let latest: Vec<_> = self.rounds.iter().rev().collect();
        let Some(turn) = latest.get(..rounds) else { return 0 };
        latest.chunks_exact(rounds).take_while(|chunk| *chunk == turn).count()
    }

    /// Whether the round before the latest had not yet made the turn complete.
    fn ends_a_turn(&self, rounds: usize, times: usize) -> bool {
        let before = self.rounds.iter().rev().skip(1).collect::<Vec<_>>();
        let Some(turn) = before.get(..rounds) else { return true };
        before.chunks_exact(rounds).take_while(|chunk| *chunk == turn).count() < times
    }
}

/// One round as the guard sees it.
#[derive(Default)]
pub(crate) struct RoundHash(blake3::Hasher);

impl RoundHash {
    /// Adds a call. The order of members and spaces in the arguments do not count, nor does the call's own name in its result.
    pub(crate) fn add(&mut self, tool: &str, args: &str, result: &str, call: Option<&str>) {
        let unread = args.trim().as_bytes().to_vec();
        let parsed = serde_json::from_str::<Value>(args).ok();
        let args = parsed.and_then(|value| helve::store::canonical_json(&value).ok());
        // What is no JSON counts as it is.
        let args = args.unwrap_or(unread);
        let result = match call {
            Some(call) if result.contains(call) => result.replace(call, ""),
            _ => result.to_owned(),
        };
        for part in [tool.as_bytes(), &args, result.as_bytes()] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// The hash of the round.
    pub(crate) fn done(self) -> blake3::Hash {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the guard says after each round of a run, one letter a round.
    fn said(rounds: &str) -> Vec<Progress> {
        let mut guard = Guard::default();
        rounds.bytes().map(|round| guard.look(blake3::hash(&[round]))).collect()
    }

    fn first(said: &[Progress], wanted: impl Fn(&Progress) -> bool) -> Option<usize> {
        said.iter().position(wanted)
    }

    #[test]
    fn the_same_again_and_again_is_a_circle() {
        for (rounds, warned, stopped) in [
            ("aaaaa", Some(2), Some(4)),
            ("xaaaaa", Some(3), Some(5)),
            ("ababababab", Some(5), Some(9)),
            ("abcabcabcabcabc", Some(8), Some(14)),
            ("aabbaabb", None, None),
            ("aaxaaxbaax", None, None),
            ("abcdefgh", None, None),
            ("aabaabaabaabaab", Some(8), Some(14)),
            ("", None, None),
        ] {
            let said = said(rounds);
            let circles = |one: &Progress| matches!(one, Progress::Circles { .. });
            assert_eq!(first(&said, circles), warned, "{rounds}: {said:?}");
            assert_eq!(
                first(&said, |one| matches!(one, Progress::Stuck { .. })),
                stopped,
                "{rounds}: {said:?}"
            );
            assert!(said.iter().filter(|one| circles(one)).count() <= 1, "{rounds}: {said:?}");
        }
    }

    #[test]
    fn a_round_is_what_was_called_and_what_came() {
        let round = |args: &str, result: &str, call: Option<&str>| {
            let mut hash = RoundHash::default();
            hash.add("t", args, result, call);
            hash.done()
        };
        let one = round(r#"{"a":1,"b":2}"#, "see c_1", Some("c_1"));
        assert_eq!(one, round(r#"{ "b": 2, "a": 1 }"#, "see c_2", Some("c_2")));
        assert_ne!(one, round(r#"{"a":1,"b":3}"#, "see c_1", Some("c_1")));
        assert_ne!(one, round(r#"{"a":1,"b":2}"#, "saw c_1", Some("c_1")));
        assert_eq!(round("{oops", "x", None), round(" {oops ", "x", None));
    }
}
