//! Writes a program of the classic BPF machine from its end to its beginning, because its jumps only lead forward: when an
//! instruction is written, everything that it can jump to is there.
//!
//! What costs is how many instructions there are and how many are taken for one call: the kernel compiles them, and runs
//! them once for every call that exists, each time a filter is installed. So the numbers are found by a balanced tree, and
//! every answer stands in few places.

use libc::sock_filter;

use super::Data;

const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Where the kernel puts the number of the call.
pub(super) const NUMBER: u32 = 0;
/// Where it puts the machine's architecture.
pub(super) const ARCHITECTURE: u32 = 4;

/// Where it puts the lower half of an argument. No upper half matters to a rule.
pub(super) const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Where it puts the upper half.
pub(super) const fn upper(index: u32) -> u32 {
    argument(index) + 4
}

/// The value that a program loads from there.
fn value(data: &Data, offset: u32) -> u32 {
    match offset {
        NUMBER => data.number,
        ARCHITECTURE => data.architecture,
        _ => {
            let index = offset.wrapping_sub(argument(0)) / 8;
            let whole = data.arguments.get(index as usize).copied().unwrap_or_default();
            if offset % 8 == 4 { (whole >> 32) as u32 } else { whole as u32 }
        }
    }
}

/// What a program answers; 0, which ends whoever calls, where it is none of [`Code`]'s.
pub(super) fn run(program: &[sock_filter], data: &Data) -> u32 {
    let (mut loaded, mut rest) = (0, program);
    while let Some((one, after)) = rest.split_first() {
        let jump = |holds: bool| usize::from(if holds { one.jt } else { one.jf });
        let skipped = match one.code {
            LOAD => {
                loaded = value(data, one.k);
                0
            }
            JUMP => one.k as usize,
            JUMP_EQUAL => jump(loaded == one.k),
            JUMP_AT_LEAST => jump(loaded >= one.k),
            JUMP_ANY_BIT => jump(loaded & one.k != 0),
            RETURN => return one.k,
            _ => return 0,
        };
        rest = after.get(skipped..).unwrap_or_default();
    }
    0
}

/// An instruction that is written: how many come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

/// The numbers from the first on, up to the next span, and what is done for them.
type Span = (u32, Place);

/// A program that grows at its front.
#[derive(Default)]
pub(super) struct Code {
    backwards: Vec<sock_filter>,
}

/// How far a test jumps at most. The machine's own limit is 255.
const FARTHEST: usize = 250;

impl Code {
    fn push(&mut self, code: u16, jt: u8, jf: u8, k: u32) -> Place {
        self.backwards.push(sock_filter { code, jt, jf, k });
        Place(self.backwards.len() - 1)
    }

    /// How many instructions lie between the next one and `place`.
    fn distance(&self, place: Place) -> usize {
        self.backwards.len() - 1 - place.0
    }

    /// Ends the program with an answer. The first place of each answer serves everybody.
    pub(super) fn answer(&mut self, answer: u32) -> Place {
        let known = self.backwards.iter().position(|one| one.code == RETURN && one.k == answer);
        known.map_or_else(|| self.push(RETURN, 0, 0, answer), Place)
    }

    /// The same instructions at a place that a test can jump to: the nearest copy of an answer, or a jump.
    fn near(&mut self, place: Place) -> Place {
        if self.distance(place) <= FARTHEST {
            return place;
        }
        let Some(sock_filter { code: RETURN, k: answer, .. }) = self.backwards.get(place.0).copied() else {
            let offset = u32::try_from(self.distance(place)).unwrap_or(u32::MAX);
            return self.push(JUMP, 0, 0, offset);
        };
        let copy = self.backwards.iter().rposition(|one| one.code == RETURN && one.k == answer).map(Place);
        match copy.filter(|copy| self.distance(*copy) <= FARTHEST) {
            Some(copy) => copy,
            None => self.push(RETURN, 0, 0, answer),
        }
    }

    fn test(&mut self, code: u16, operand: u32, yes: Place, no: Place) -> Place {
        let yes = self.near(yes);
        let no = self.near(no);
        // The bound leaves room for what the second line wrote, so both fit.
        let offset = |place| u8::try_from(self.distance(place)).unwrap_or(u8::MAX);
        let (yes, no) = (offset(yes), offset(no));
        self.push(code, yes, no, operand)
    }

    /// Whether the loaded value is this one.
    pub(super) fn equal(&mut self, value: u32, yes: Place, no: Place) -> Place {
        self.test(JUMP_EQUAL, value, yes, no)
    }

    /// Whether the loaded value has one of these bits.
    pub(super) fn any_bit(&mut self, bits: u32, yes: Place, no: Place) -> Place {
        self.test(JUMP_ANY_BIT, bits, yes, no)
    }

    /// Loads a value, then goes on at `then`.
    pub(super) fn load(&mut self, offset: u32, then: Place) -> Place {
        if self.distance(then) > 0 {
            let offset = u32::try_from(self.distance(then)).unwrap_or(u32::MAX);
            self.push(JUMP, 0, 0, offset);
        }
        self.push(LOAD, 0, 0, offset)
    }

    /// Finds the span of the loaded value. The spans are sorted and begin with 0; where two begin alike, the later counts.
    pub(super) fn tree(&mut self, spans: &[Span]) -> Place {
        let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            while merged.last().is_some_and(|last| last.0 == span.0) {
                merged.pop();
            }
            if merged.last().is_none_or(|last| last.1 != span.1) {
                merged.push(*span);
            }
        }
        self.branch(&merged)
    }

    fn branch(&mut self, spans: &[Span]) -> Place {
        match spans {
            [] => self.answer(0),
            [(_, place)] => *place,
            // Single numbers in one answer: a test for each.
            [(_, rest), (one, found), (after, last)] if *after == one + 1 && rest == last => {
                self.equal(*one, *found, *rest)
            }
            [(_, rest), (one, first), (after, between), (two, second), (end, last)]
                if *after == one + 1 && *end == two + 1 && rest == between && rest == last =>
            {
                let other = self.equal(*two, *second, *rest);
                self.equal(*one, *first, other)
            }
            _ => {
                let (low, high) = spans.split_at(spans.len() / 2);
                let from = high.first().map_or(0, |span| span.0);
                let (high, low) = (self.branch(high), self.branch(low));
                self.test(JUMP_AT_LEAST, from, high, low)
            }
        }
    }

    /// The program from its beginning.
    pub(super) fn finish(mut self) -> Vec<sock_filter> {
        self.backwards.reverse();
        self.backwards
    }
}
