//! Finds forms in a text that comes in pieces, each byte looked at once, also where line breaks stand in a form.
//!
//! One automaton knows all forms and is in up to two states: over the text as it is, and over the text without its line
//! breaks (and the indentation behind them). Behind a break the two soon come to the same state, unless a form goes on there.
//! So ordinary text costs one step a byte. The depth of a state is how much of the text may be the beginning of a form: that
//! much, and nothing else, is not yet certain.

use std::collections::{HashMap, VecDeque};

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind, PatternID};

use super::forms::Form;

/// A gap of more bytes is no line break within a form.
const WIDEST_SEAM: usize = 128;

/// All forms, compiled.
#[derive(Debug)]
pub(super) struct Automaton {
    nfa: NFA,
    start: StateID,
    /// For each form whether it may have line breaks in it.
    may_break: Vec<bool>,
    /// For each state how many bytes led to it.
    depths: HashMap<StateID, usize>,
    longest: usize,
}

/// A form in the text, by bytes from its beginning. Those that overlap are one, under the name of the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) form: usize,
    length: usize,
}

/// How far a search is.
pub(super) struct Place {
    /// So many bytes were read.
    pub(super) at: usize,
    raw: StateID,
    /// Whether the two searches are in different states.
    apart: bool,
    joined: Joined,
    pub(super) hits: VecDeque<Hit>,
}

/// The search over the text without line breaks, while it is elsewhere than that over the text as it is.
struct Joined {
    state: StateID,
    /// So many bytes of the text were left out since this began, and where.
    skipped: usize,
    seams: VecDeque<Seam>,
    in_seam: bool,
    /// Where backslashes began that may belong to a break that is written as `\n`, and the state there. It moves on in a run
    /// that is too long for a break, so that no run makes everything uncertain.
    escape: Option<(StateID, usize)>,
}

struct Seam {
    /// Its place in the text without breaks.
    at: usize,
    end: usize,
    length: usize,
}

impl Automaton {
    pub(super) fn new(forms: &[Form]) -> Option<Automaton> {
        let longest = forms.iter().map(|form| form.bytes.len()).max()?;
        let patterns = forms.iter().map(|form| &form.bytes);
        let nfa = NFA::builder().match_kind(MatchKind::Standard).build(patterns).ok()?;
        let start = nfa.start_state(Anchored::No).ok()?;
        let mut depths = HashMap::new();
        for form in forms {
            let mut state = start;
            for (depth, byte) in (1..).zip(&form.bytes) {
                state = nfa.next_state(Anchored::No, state, *byte);
                depths.insert(state, depth);
            }
        }
        let may_break = forms.iter().map(|form| form.may_break).collect();
        Some(Automaton { nfa, start, may_break, depths, longest })
    }

    pub(super) fn begin(&self) -> Place {
        let joined =
            Joined { state: self.start, skipped: 0, seams: VecDeque::new(), in_seam: false, escape: None };
        Place { at: 0, raw: self.start, apart: false, joined, hits: VecDeque::new() }
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        let mut place = self.begin();
        self.feed(&mut place, text.as_bytes());
        !place.hits.is_empty()
    }

    pub(super) fn feed(&self, place: &mut Place, bytes: &[u8]) {
        for byte in bytes {
            if !place.apart && !matches!(byte, b'\n' | b'\r' | b'\\') {
                place.raw = self.nfa.next_state(Anchored::No, place.raw, *byte);
                place.at += 1;
                if self.nfa.is_match(place.raw) {
                    self.found_raw(place);
                }
            } else {
                self.step_both(place, *byte);
            }
        }
    }

    /// How much of the text is certain while more may come.
    pub(super) fn certain(&self, place: &Place) -> usize {
        let mut certain = place.at - self.depth(place.raw);
        if place.apart {
            let joined = &place.joined;
            certain = certain.min(joined.start(place.at, self.depth(joined.state)));
            if let Some((state, from)) = joined.escape {
                certain = certain.min(joined.start(from, self.depth(state)));
            }
        }
        certain
    }

    fn depth(&self, state: StateID) -> usize {
        self.depths.get(&state).copied().unwrap_or(0)
    }

    fn step_both(&self, place: &mut Place, byte: u8) {
        if !place.apart {
            place.joined.part_from(place.raw);
        }
        let at = place.at;
        place.at += 1;
        place.raw = self.nfa.next_state(Anchored::No, place.raw, byte);
        if self.nfa.is_match(place.raw) {
            self.found_raw(place);
        }
        let joined = &mut place.joined;
        match (byte, joined.escape) {
            (b'\n' | b'\r', _) => joined.skip(at, place.at),
            (b' ' | b'\t', _) if joined.in_seam => joined.skip(at, place.at),
            (b'n' | b'r', Some((state, from))) => {
                joined.state = state;
                joined.skip(from, place.at);
            }
            _ => {
                if byte != b'\\' {
                    joined.escape = None;
                } else if joined.escape.is_none_or(|(_, from)| at - from > WIDEST_SEAM) {
                    joined.escape = Some((joined.state, at));
                }
                joined.in_seam = false;
                joined.state = self.nfa.next_state(Anchored::No, joined.state, byte);
                if self.nfa.is_match(joined.state) {
                    self.found_joined(place);
                }
            }
        }
        let joined = &mut place.joined;
        // If these backslashes belong to a break, the search goes on from where they began.
        let from = joined.escape.map_or(place.at, |(_, from)| from);
        joined.forget(from, self.longest);
        let differs = joined.state != place.raw || joined.escape.is_some();
        place.apart = differs && joined.seams.back().is_none_or(|seam| seam.length <= WIDEST_SEAM);
    }

    #[cold]
    fn found_raw(&self, place: &mut Place) {
        if let Some((form, length)) = self.longest_at(place.raw, |_| true) {
            place.add(place.at - length, form, length);
        }
    }

    #[cold]
    fn found_joined(&self, place: &mut Place) {
        let may_break = |form: usize| self.may_break.get(form).is_some_and(|may| *may);
        if let Some((form, length)) = self.longest_at(place.joined.state, may_break) {
            place.add(place.joined.start(place.at, length), form, length);
        }
    }

    /// The longest form that ends in a state.
    fn longest_at(&self, state: StateID, counts: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        let ending = (0..self.nfa.match_len(state)).map(|nth| self.nfa.match_pattern(state, nth));
        let sized = |form: PatternID| (form.as_usize(), self.nfa.pattern_len(form));
        ending.map(sized).filter(|(form, _)| counts(*form)).max_by_key(|(_, length)| *length)
    }
}

impl Place {
    fn add(&mut self, start: usize, form: usize, length: usize) {
        let mut hit = Hit { start, end: self.at, form, length };
        while let Some(last) = self.hits.pop_back_if(|last| last.end > hit.start) {
            if last.length > hit.length {
                (hit.form, hit.length) = (last.form, last.length);
            }
            hit.start = hit.start.min(last.start);
        }
        self.hits.push_back(hit);
    }
}

impl Joined {
    /// Begins where the other search is.
    fn part_from(&mut self, state: StateID) {
        self.state = state;
        self.skipped = 0;
        self.seams.clear();
        self.in_seam = false;
        self.escape = None;
    }

    /// Leaves a piece of the text out.
    fn skip(&mut self, from: usize, end: usize) {
        self.in_seam = true;
        self.escape = None;
        match self.seams.back_mut().filter(|seam| seam.end == from) {
            Some(seam) => {
                seam.end = end;
                seam.length += end - from;
            }
            None => self.seams.push_back(Seam { at: from - self.skipped, end, length: end - from }),
        }
        self.skipped += end - from;
    }

    /// Where in the text something begins of which `length` bytes besides breaks stand before `end`.
    fn start(&self, end: usize, length: usize) -> usize {
        let start = (end - self.skipped).saturating_sub(length);
        let within = self.seams.iter().rev().take_while(|seam| seam.at > start);
        (end - length).saturating_sub(within.map(|seam| seam.length).sum())
    }

    /// Forgets breaks before which nothing begins any more.
    fn forget(&mut self, at: usize, longest: usize) {
        while self.seams.front().is_some_and(|seam| seam.at + longest < at - self.skipped) {
            self.seams.pop_front();
        }
    }
}
