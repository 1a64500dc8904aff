//! Telling `((` that starts arithmetic from two parentheses around commands.
//!
//! The shells pair the parentheses first, with quotes and `$(…)` in mind but not `${…}`, and look at what stands directly
//! behind the parenthesis that closes the inner one. So does this. What is between them is parsed only afterwards, and must end
//! at the same place. A pairing is remembered by its offset, so that nested ones are not looked for again; and since a
//! pairing may reach far beyond what is then parsed, the sum of their lengths is bounded.

use std::collections::HashMap;

use super::pieces::Pieces;
use super::quotes::Quoting;
use super::{Parsed, Parser};
use crate::tree::FaultReason;

/// How often the text may be looked at by pairings, on average, beyond `FREE_LENGTH`.
const MOST_LOOKS: usize = 16;

/// How much of the text may be looked at by pairings in any case, in bytes.
const FREE_LENGTH: usize = 1 << 16;

/// The pairings of a text.
#[derive(Default)]
pub(super) struct Pairings {
    /// By the source offset of the first parenthesis, with positions counted from it.
    known: HashMap<usize, Pairing>,
    /// The sum of their lengths.
    total: usize,
}

/// Where the parentheses of a `((` are closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairing {
    /// The position of the one that closes the inner one.
    pub(super) inner: usize,
    /// The position of the one that closes the outer one, if it was looked for or follows at once.
    pub(super) outer: Option<usize>,
    /// Whether it follows at once, so that this is arithmetic.
    pub(super) arithmetic: bool,
}

impl Parser<'_, '_> {
    /// Pairs the `((` at the cursor, on request to its very end; nothing is taken.
    pub(super) fn pairing(&mut self, start: usize, to_the_end: bool) -> Parsed<Pairing> {
        self.peek();
        let (pos, done, noted) = (self.pos, self.done, self.noted);
        let key = self.offset();
        let mut found = match self.pairings.known.get(&key) {
            Some(known) if known.outer.is_some() || !to_the_end => *known,
            _ => {
                self.enter(start)?;
                let found = self.pair(start, to_the_end)?;
                self.leave();
                self.pairings.total += self.pos - pos;
                if self.pairings.total > FREE_LENGTH + MOST_LOOKS * self.text.len() {
                    return Err(self.fault(FaultReason::TooDeep, start));
                }
                self.pairings.known.insert(key, found);
                found
            }
        };
        (self.pos, self.done, self.noted) = (pos, done, noted);
        found.inner += pos;
        found.outer = found.outer.map(|outer| outer + pos);
        Ok(found)
    }

    fn pair(&mut self, start: usize, to_the_end: bool) -> Parsed<Pairing> {
        let from = self.pos;
        self.bump();
        self.take(b'(');
        self.skip_to_parenthesis(start)?;
        let inner = self.pos - from;
        self.bump();
        let arithmetic = self.peek() == b')';
        if to_the_end {
            self.skip_to_parenthesis(start)?;
        }
        let outer = (arithmetic || to_the_end).then_some(self.pos - from);
        Ok(Pairing { inner, outer, arithmetic })
    }

    /// Steps to the parenthesis that closes one which is open.
    fn skip_to_parenthesis(&mut self, start: usize) -> Parsed<()> {
        let mut level = 0_usize;
        loop {
            let mut skipped = Pieces::new();
            match self.peek() {
                0 => return Err(self.fault(FaultReason::UnterminatedCommand, start)),
                b')' if level == 0 => return Ok(()),
                b')' => {
                    level -= 1;
                    self.bump();
                }
                b'(' => {
                    level += 1;
                    self.bump();
                }
                b'\\' => self.escaped(&mut skipped),
                b'\'' => self.single(&mut skipped)?,
                b'"' => self.double(&mut skipped)?,
                b'`' => self.backticks(&mut skipped, Quoting::Double)?,
                b'$' if matches!(self.peek_second(), b'(' | b'\'') => {
                    self.dollar(&mut skipped, Quoting::Bare)?
                }
                b'$' => self.bump(),
                _ => {
                    self.run(|byte| matches!(byte, b'(' | b')' | b'\\' | b'\'' | b'"' | b'`' | b'$'));
                }
            }
        }
    }
}
