//! Finds forms in a text that comes in pieces, each byte looked at once, also where line breaks stand in a form, or what is
//! not seen ([`super::unseen`]).
//!
//! One automaton knows all forms and is in up to two states: over the text as it is, and over the text without its line
//! breaks (and the indentation behind them) and without what is not seen. Behind a break the two soon come to the same state, unless a form goes on there.
//! So ordinary text costs one step a byte. The depth of a state is how much of the text may be the beginning of a form: that
//! much, and nothing else, is not yet certain.

use std::collections::{HashMap, VecDeque};

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind, PatternID};

use super::forms::Form;
use super::unseen::{Known, Letter, Sequence};

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
    /// The escape sequence of a terminal that is left out.
    sequence: Sequence,
    /// A character that may turn out not to be seen, where it began, and the state there.
    letter: Option<(Letter, StateID, usize)>,
}

struct Seam {
    /// Its place in the text without breaks.
    at: usize,
    end: usize,
    length: usize,
    /// Whether a line breaks there, or nothing is seen there.
    breaks: bool,
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
        let joined = Joined {
            state: self.start,
            skipped: 0,
            seams: VecDeque::new(),
            in_seam: false,
            escape: None,
            sequence: Sequence::No,
            letter: None,
        };
        Place { at: 0, raw: self.start, apart: false, joined, hits: VecDeque::new() }
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        let mut place = self.begin();
        self.feed(&mut place, text.as_bytes());
        !place.hits.is_empty()
    }

    pub(super) fn feed(&self, place: &mut Place, bytes: &[u8]) {
        for byte in bytes {
            if !place.apart && !parts(*byte) {
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
            let letter = joined.letter.map(|(_, state, from)| (state, from));
            for (state, from) in joined.escape.into_iter().chain(letter) {
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
            _ if joined.is_in_sequence(byte) => joined.skip(at, place.at, false),
            (b'\n' | b'\r', _) => joined.skip(at, place.at, true),
            (b' ' | b'\t', _) if joined.in_seam => joined.skip(at, place.at, true),
            (b'n' | b'r', Some((state, from))) => {
                joined.state = state;
                joined.skip(from, place.at, true);
            }
            _ if let Some((state, from)) = joined.unseen_letter(byte, at) => {
                joined.state = state;
                joined.skip(from, place.at, false);
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
        // If these backslashes belong to a break, or this letter is not seen, the search goes on from where they began.
        let from = joined.escape.map_or(place.at, |(_, from)| from);
        let from = joined.letter.map_or(from, |(.., begun)| from.min(begun));
        joined.forget(from, self.longest);
        let differs = joined.state != place.raw
            || joined.escape.is_some()
            || joined.letter.is_some()
            || joined.sequence != Sequence::No;
        place.apart = differs && joined.seams.back().is_none_or(|seam| seam.length <= WIDEST_SEAM);
    }

    #[cold]
    fn found_raw(&self, place: &mut Place) {
        if let Some((form, length)) = self.longest_at(place.raw, |_, _| true) {
            place.add(place.at - length, form, length);
        }
    }

    #[cold]
    fn found_joined(&self, place: &mut Place) {
        let (joined, end) = (&place.joined, place.at);
        let counts = |form: usize, length: usize| {
            self.may_break.get(form).is_some_and(|may| *may) || !joined.breaks_within(end, length)
        };
        if let Some((form, length)) = self.longest_at(joined.state, counts) {
            place.add(place.joined.start(place.at, length), form, length);
        }
    }

    /// The longest form that ends in a state.
    fn longest_at(&self, state: StateID, counts: impl Fn(usize, usize) -> bool) -> Option<(usize, usize)> {
        let ending = (0..self.nfa.match_len(state)).map(|nth| self.nfa.match_pattern(state, nth));
        let sized = |form: PatternID| (form.as_usize(), self.nfa.pattern_len(form));
        ending.map(sized).filter(|(form, length)| counts(*form, *length)).max_by_key(|(_, length)| *length)
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
        self.sequence = Sequence::No;
        self.letter = None;
    }

    /// Whether a byte belongs to the sequence that is there, or begins one.
    fn is_in_sequence(&mut self, byte: u8) -> bool {
        let next = self.sequence.step(byte).or_else(|| Sequence::No.step(byte));
        self.sequence = next.unwrap_or_default();
        next.is_some()
    }

    /// Where a character that is not seen began and the state there, if this is its last byte.
    fn unseen_letter(&mut self, byte: u8, at: usize) -> Option<(StateID, usize)> {
        let known = self.letter.as_mut().map(|(letter, ..)| letter.push(byte));
        match known {
            Some(Known::Open) => None,
            Some(Known::Unseen) => self.letter.take().map(|(_, state, from)| (state, from)),
            Some(Known::Other) | None => {
                self.letter = Letter::begin(byte).map(|letter| (letter, self.state, at));
                None
            }
        }
    }

    /// Leaves a piece of the text out, because a line breaks there or nothing is seen there.
    fn skip(&mut self, from: usize, end: usize, breaks: bool) {
        self.in_seam |= breaks;
        self.escape = None;
        self.letter = None;
        match self.seams.back_mut().filter(|seam| seam.end == from) {
            Some(seam) => {
                seam.end = end;
                seam.length += end - from;
                seam.breaks |= breaks;
            }
            None => self.seams.push_back(Seam { at: from - self.skipped, end, length: end - from, breaks }),
        }
        self.skipped += end - from;
    }

    /// Where in the text something begins of which `length` bytes besides breaks stand before `end`.
    fn start(&self, end: usize, length: usize) -> usize {
        let start = (end - self.skipped).saturating_sub(length);
        let within = self.seams.iter().rev().take_while(|seam| seam.at > start);
        (end - length).saturating_sub(within.map(|seam| seam.length).sum())
    }

    /// Whether a line breaks within the `length` bytes besides breaks that stand before `end`.
    fn breaks_within(&self, end: usize, length: usize) -> bool {
        let start = (end - self.skipped).saturating_sub(length);
        self.seams.iter().rev().take_while(|seam| seam.at > start).any(|seam| seam.breaks)
    }

    /// Forgets breaks before which nothing begins any more.
    fn forget(&mut self, at: usize, longest: usize) {
        while self.seams.front().is_some_and(|seam| seam.at + longest < at - self.skipped) {
            self.seams.pop_front();
        }
    }
}

/// Whether the two searches may part at a byte: a break, a backslash, a control character, or the first byte of a character
/// that may not be seen.
fn parts(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0a..=0x1f | b'\\' | 0x7f | 0xc2..=0xf4)
}
