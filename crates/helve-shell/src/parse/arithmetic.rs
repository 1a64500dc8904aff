//! Arithmetic, subscripts and other text in brackets: not parsed further, but the expansions in it count.

use super::dollar::word_of;
use super::pieces::Pieces;
use super::quotes::Quoting;
use super::{Parsed, Parser};
use crate::tree::{Fault, FaultReason, PieceKind, Word};

/// What kind of text stands between brackets.
#[derive(Clone, Copy)]
pub(super) struct Brackets {
    open: u8,
    close: u8,
    /// Where the text ends, if not at `close`.
    end: u8,
    /// Whether a `:` that belongs to no `?` ends it too.
    colon: bool,
    /// Whether single quotes keep their text from being expanded.
    quotes: bool,
    /// Whether `<(` starts a process substitution.
    processes: bool,
}

/// `(…)` in a pattern.
pub(super) const PATTERN_GROUP: Brackets =
    Brackets { open: b'(', close: b')', end: b')', colon: false, quotes: true, processes: false };

/// `((…))`.
const EXPRESSION: Brackets =
    Brackets { open: b'(', close: b')', end: b')', colon: false, quotes: false, processes: false };

/// `$[…]`.
const BRACKET: Brackets =
    Brackets { open: b'[', close: b']', end: b']', colon: false, quotes: false, processes: false };

/// `a[…]`.
pub(super) const SUBSCRIPT: Brackets =
    Brackets { open: b'[', close: b']', end: b']', colon: false, quotes: false, processes: true };

/// The offset in `${x:offset:length}`.
pub(super) const OFFSET: Brackets =
    Brackets { open: b'(', close: b')', end: b'}', colon: true, quotes: false, processes: true };

impl Parser<'_, '_> {
    /// Reads text up to the end of the brackets, which is not taken.
    pub(super) fn balanced(&mut self, pieces: &mut Pieces, start: usize, kind: Brackets) -> Parsed<()> {
        let mut level = 0_usize;
        let mut questions = 0_usize;
        loop {
            let byte = self.peek();
            match byte {
                0 => return Err(self.fault(FaultReason::UnterminatedSubstitution, start)),
                _ if byte == kind.end && (level == 0 || kind.end != kind.close) => return Ok(()),
                b':' if kind.colon && level == 0 && questions == 0 => return Ok(()),
                b'\\' => self.escaped(pieces),
                b'\'' if kind.quotes => self.single(pieces)?,
                b'\'' if self.is_bash() => self.transparent_single(pieces)?,
                b'"' => self.double(pieces)?,
                b'$' => self.dollar(pieces, if kind.quotes { Quoting::Bare } else { Quoting::Operand })?,
                b'`' => self.backticks(pieces, Quoting::Double)?,
                b'<' | b'>' if kind.processes && self.peek_second() == b'(' => {
                    self.process_substitution(pieces).map_err(found_when_run)?
                }
                b'<' | b'>' => self.plain_byte(pieces),
                b':' | b'?' | b'\'' => {
                    questions = if byte == b'?' { questions + 1 } else { questions.saturating_sub(1) };
                    self.plain_byte(pieces);
                }
                _ if byte == kind.open || byte == kind.close => {
                    level = if byte == kind.open { level + 1 } else { level.saturating_sub(1) };
                    self.plain_byte(pieces);
                }
                _ => {
                    let at = self.offset();
                    let text = self.run(|byte| {
                        matches!(byte, b'\\' | b'\'' | b'"' | b'$' | b'`' | b':' | b'?' | b'<' | b'>')
                            || byte == kind.open
                            || byte == kind.close
                            || byte == kind.end
                    });
                    pieces.text(text, self.span_from(at));
                }
            }
        }
    }

    /// The word that `balanced` reads, one level deeper.
    pub(super) fn bracketed(&mut self, start: usize, kind: Brackets) -> Parsed<Word> {
        self.enter(start)?;
        self.peek();
        let at = self.offset();
        let mut pieces = Pieces::new();
        self.done = self.pos;
        self.balanced(&mut pieces, start, kind)?;
        self.leave();
        Ok(word_of(pieces, self.span_from(at)))
    }

    /// `$[…]`, the cursor at the `[`.
    pub(super) fn dollar_bracket(&mut self, start: usize) -> Parsed<PieceKind> {
        self.bump();
        let expression = self.bracketed(start, BRACKET).map_err(found_when_run)?;
        self.bump();
        Ok(PieceKind::Arithmetic(Box::new(expression)))
    }

    /// `$((…))`, or `$(` and a subshell, the cursor at the first `(`.
    pub(super) fn dollar_parentheses(&mut self, start: usize) -> Parsed<PieceKind> {
        let pairing = self.pairing(start, true)?;
        if pairing.arithmetic {
            let expression = self.expression(start, pairing.inner)?;
            return Ok(PieceKind::Arithmetic(Box::new(expression)));
        }
        if !self.is_bash() {
            // dash takes no commands here.
            return Err(self.fault(FaultReason::UnterminatedSubstitution, start));
        }
        Ok(PieceKind::Command(self.substitution(start)?))
    }

    /// `((…))`, the cursor at the first `(`; nothing if these are two subshells, and then nothing is taken.
    pub(super) fn arithmetic_command(&mut self) -> Parsed<Option<Word>> {
        let start = self.offset();
        let pairing = self.pairing(start, false)?;
        if !pairing.arithmetic {
            return Ok(None);
        }
        self.expression(start, pairing.inner).map(Some)
    }

    /// The expression in the `((…))` at the cursor, whose first closing parenthesis must stand at `end`.
    fn expression(&mut self, start: usize, end: usize) -> Parsed<Word> {
        self.bump();
        self.take(b'(');
        let expression = self.bracketed(start, EXPRESSION).map_err(found_when_run)?;
        if self.pos != end {
            return Err(self.fault(FaultReason::BadSubstitution, start));
        }
        self.bump();
        self.take(b')');
        Ok(expression)
    }
}

/// The fault as it is where the shell has found the end already, so that it runs what stands before.
pub(super) fn found_when_run(fault: Fault) -> Fault {
    match fault.reason {
        FaultReason::UnterminatedQuote
        | FaultReason::UnterminatedSubstitution
        | FaultReason::UnterminatedCommand
        | FaultReason::Unexpected => Fault { reason: FaultReason::BadSubstitution, ..fault },
        _ => fault,
    }
}

/// How many `;` the header of an arithmetic `for` has.
pub(super) fn semicolons(header: &Word) -> usize {
    let in_text = |piece: &crate::tree::Piece| match &piece.kind {
        PieceKind::Text(text) => text.matches(';').count(),
        _ => 0,
    };
    header.pieces.iter().map(in_text).sum()
}
