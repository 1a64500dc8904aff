//! Assignments: `NAME=value`, `NAME+=value`, `NAME[subscript]=value`, `NAME=(…)`.

use super::arithmetic::{SUBSCRIPT, found_when_run};
use super::cursor::{continues_name, starts_name};
use super::pieces::Pieces;
use super::word::Context;
use super::{Parsed, Parser};
use crate::tree::{AssignedValue, Assignment, FaultReason, Piece, PieceKind, Word};

/// A word at the start of a command.
pub(super) enum Leading {
    Assignment(Assignment),
    Word(Word),
}

impl Parser<'_, '_> {
    /// Reads an assignment or, if there is none, a word, where an assignment may stand.
    pub(super) fn assignment_or_word(&mut self) -> Parsed<Leading> {
        self.peek();
        let start = self.offset();
        let end = self.name_end();
        match self.byte(end) {
            b'=' if end > self.pos => {}
            b'+' if end > self.pos && self.is_bash() && self.byte(self.joined(end + 1)) == b'=' => {}
            b'[' if end > self.pos && self.is_bash() => {
                return self.subscripted(start);
            }
            _ => return Ok(Leading::Word(self.word(Context::Plain)?)),
        }
        let name = self.name();
        self.assigned(name, None, start).map(Leading::Assignment)
    }

    /// Behind `declare` and its like: an assignment of an array, or nothing.
    pub(super) fn array_argument(&mut self) -> Parsed<Option<Assignment>> {
        if !self.array_follows() {
            return Ok(None);
        }
        let start = self.offset();
        let name = self.name();
        self.assigned(name, None, start).map(Some)
    }

    /// Whether `NAME=(` or `NAME+=(` comes next.
    pub(super) fn array_follows(&mut self) -> bool {
        self.peek();
        let mut end = self.name_end();
        if end == self.pos {
            return false;
        }
        if self.byte(end) == b'+' {
            end = self.joined(end + 1);
        }
        self.byte(end) == b'=' && self.byte(self.joined(end + 1)) == b'('
    }

    /// Whether a name with a `[` behind it comes next.
    pub(super) fn subscript_follows(&mut self) -> bool {
        self.peek();
        let end = self.name_end();
        end > self.pos && self.byte(end) == b'['
    }

    /// The position behind the name at the cursor; the cursor itself if there is none.
    fn name_end(&self) -> usize {
        let mut pos = self.pos;
        if starts_name(self.byte(pos)) {
            while continues_name(self.byte(pos)) {
                pos = self.joined(pos + 1);
            }
        }
        pos
    }

    /// `NAME[…]`, which is a word of its own unless `=` follows.
    fn subscripted(&mut self, start: usize) -> Parsed<Leading> {
        let name = self.name();
        self.peek();
        let mut pieces = Pieces::new();
        self.plain(&mut pieces, &name, start);
        self.plain_byte(&mut pieces);
        let subscript = self.bracketed(start, SUBSCRIPT).map_err(found_when_run)?;
        if self.byte(self.joined(self.pos + 1)) == b'='
            || self.byte(self.joined(self.pos + 1)) == b'+'
                && self.byte(self.joined(self.joined(self.pos + 1) + 1)) == b'='
        {
            self.bump();
            return self.assigned(name, Some(subscript), start).map(Leading::Assignment);
        }
        pieces.append(subscript.pieces);
        self.plain_byte(&mut pieces);
        self.word_from(pieces, start, Context::Plain).map(Leading::Word)
    }

    /// `NAME[…]` and what follows it as one word.
    pub(super) fn subscripted_word(&mut self) -> Parsed<Word> {
        let start = self.offset();
        let name = self.name();
        let mut pieces = Pieces::new();
        self.plain(&mut pieces, &name, start);
        self.subscript_as_text(&mut pieces, start)?;
        self.word_from(pieces, start, Context::Plain)
    }

    /// `[…]` as a part of a word.
    fn subscript_as_text(&mut self, pieces: &mut Pieces, start: usize) -> Parsed<()> {
        self.peek();
        self.plain_byte(pieces);
        let subscript = self.bracketed(start, SUBSCRIPT).map_err(found_when_run)?;
        pieces.append(subscript.pieces);
        self.plain_byte(pieces);
        Ok(())
    }

    /// Behind the name and the subscript, where `=` or `+=` stands.
    fn assigned(&mut self, name: String, subscript: Option<Word>, start: usize) -> Parsed<Assignment> {
        let append = self.take(b'+');
        self.take(b'=');
        let value = if self.is_bash() && self.peek() == b'(' {
            AssignedValue::Array(self.elements()?)
        } else {
            self.value()?
        };
        Ok(Assignment { name, subscript, append, value, span: self.span_from(start) })
    }

    fn value(&mut self) -> Parsed<AssignedValue> {
        let at = self.behind();
        let (pos, done) = (self.pos, self.done);
        let word = self.word(Context::Plain)?;
        if word.pieces.is_empty() {
            // A joined line behind the `=` does not belong to the empty value.
            (self.pos, self.done) = (self.pos.max(pos), done);
            return Ok(AssignedValue::Word(Word {
                pieces: Vec::new(),
                span: crate::Span { start: at, end: at },
            }));
        }
        Ok(AssignedValue::Word(word))
    }

    /// `( … )`.
    fn elements(&mut self) -> Parsed<Vec<Word>> {
        let start = self.offset();
        self.enter(start)?;
        self.bump();
        let mut elements = Vec::new();
        loop {
            self.newlines()?;
            if self.take(b')') {
                self.leave();
                return Ok(elements);
            }
            if self.peek() == 0 {
                return Err(self.fault(FaultReason::UnterminatedCommand, start));
            }
            if !self.at_word() {
                return Err(self.unexpected());
            }
            let element = self.element()?;
            let is_escaped = |piece: &Piece| matches!(piece.kind, PieceKind::Escaped(_));
            if self.inside > 0 && element.pieces.iter().any(is_escaped) {
                // bash 5.2 forgets the backslash and reads the text again.
                return Err(self.fault(FaultReason::BadSubstitution, start));
            }
            elements.push(element);
        }
    }

    fn element(&mut self) -> Parsed<Word> {
        if self.peek() != b'[' {
            return self.word(Context::Plain);
        }
        let start = self.offset();
        let mut pieces = Pieces::new();
        self.subscript_as_text(&mut pieces, start)?;
        self.word_from(pieces, start, Context::Plain)
    }
}
