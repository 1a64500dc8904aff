//! Quotes: `\x`, `'…'`, `$'…'`, `"…"`, and text that is read as if it stood in `"…"`.

use super::pieces::Pieces;
use super::{Parsed, Parser, ansi};
use crate::Span;
use crate::tree::{FaultReason, PieceKind};

/// The quotes around an expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// None.
    Bare,
    /// `"…"`.
    Double,
    /// A here-document.
    Here,
    /// Arithmetic, or the operand of a `${…}` inside `"…"`: `$'…'` is decoded, and then expanded as if in `"…"`.
    Operand,
}

impl Parser<'_, '_> {
    /// A backslash outside quotes and the character behind it.
    pub(super) fn escaped(&mut self, pieces: &mut Pieces) {
        let start = self.offset();
        self.bump();
        // At the end of the text the backslash stands for itself.
        let ch = self.character().unwrap_or('\\');
        pieces.push(PieceKind::Escaped(ch), self.span_from(start));
    }

    /// `'…'`.
    pub(super) fn single(&mut self, pieces: &mut Pieces) -> Parsed<()> {
        let start = self.offset();
        self.bump();
        let text = self.run(|byte| byte == b'\'').to_owned();
        self.close_quote(start)?;
        pieces.push(PieceKind::Single(text), self.span_from(start));
        Ok(())
    }

    /// Takes the single quote at the cursor.
    fn close_quote(&mut self, start: usize) -> Parsed<()> {
        if self.byte(self.pos) != b'\'' {
            return Err(self.fault(FaultReason::UnterminatedQuote, start));
        }
        self.bump();
        Ok(())
    }

    /// `$'…'`, the cursor behind the `$`.
    pub(super) fn ansi(&mut self, pieces: &mut Pieces, start: usize, quoting: Quoting) -> Parsed<()> {
        self.bump();
        let first = self.pos;
        loop {
            self.run(|byte| matches!(byte, b'\'' | b'\\'));
            if self.byte(self.pos) != b'\\' {
                break;
            }
            self.bump();
            self.character();
        }
        let raw = self.text.get(first..self.pos).unwrap_or_default();
        self.close_quote(start)?;
        let text = ansi::decode(raw);
        if quoting == Quoting::Operand && text.contains(['$', '`', '\\', '"']) {
            // What the shell makes of this when it expands the decoded text is not read here.
            return Err(self.fault(FaultReason::BadSubstitution, start));
        }
        pieces.push(PieceKind::Single(text), self.span_from(start));
        Ok(())
    }

    /// `"…"`.
    pub(super) fn double(&mut self, pieces: &mut Pieces) -> Parsed<()> {
        let start = self.offset();
        self.double_from(pieces, start)
    }

    /// `"…"`, or the same behind a `$` at `start`.
    pub(super) fn double_from(&mut self, pieces: &mut Pieces, start: usize) -> Parsed<()> {
        self.bump();
        let mut inside = Pieces::new();
        loop {
            match self.peek() {
                0 => return Err(self.fault(FaultReason::UnterminatedQuote, start)),
                b'"' => break,
                _ => self.quoted_text(&mut inside, Quoting::Double)?,
            }
        }
        self.bump();
        pieces.push(PieceKind::Double(inside.finish()), self.span_from(start));
        Ok(())
    }

    /// Everything up to the end, read as in `"…"` but with `"` as an ordinary character.
    pub(super) fn rest_as_quoted(&mut self) -> Parsed<Pieces> {
        let mut pieces = Pieces::new();
        while self.peek() != 0 {
            if self.byte(self.pos) == b'"' {
                self.plain_byte(&mut pieces);
            } else {
                self.quoted_text(&mut pieces, Quoting::Here)?;
            }
        }
        Ok(pieces)
    }

    /// One step inside double quotes: an expansion, an escaped character, or a stretch of text.
    fn quoted_text(&mut self, pieces: &mut Pieces, quoting: Quoting) -> Parsed<()> {
        match self.peek() {
            b'$' => self.dollar(pieces, quoting),
            b'`' => self.backticks(pieces, quoting),
            b'\\' => {
                let here = quoting == Quoting::Here;
                self.quoted_escape(pieces, if here { b"$`\\" } else { b"$`\"\\" });
                Ok(())
            }
            _ => {
                let at = self.offset();
                let text = self.run(|byte| matches!(byte, b'"' | b'$' | b'`' | b'\\'));
                pieces.text(text, self.span_from(at));
                Ok(())
            }
        }
    }

    /// A backslash inside double quotes: it stays, unless a character follows that it can escape.
    pub(super) fn quoted_escape(&mut self, pieces: &mut Pieces, escapable: &[u8]) {
        let start = self.offset();
        self.bump();
        let next = self.byte(self.pos);
        if !escapable.contains(&next) {
            pieces.text("\\", self.span_from(start));
        }
        if next == 0 || !next.is_ascii() {
            return;
        }
        self.bump();
        pieces.text(char::from(next).encode_utf8(&mut [0; 4]), self.span_from(start));
    }

    /// `'…'` where the shell pairs the quotes but expands what is between them: in arithmetic, and in the operand of a
    /// `${…}` inside double quotes.
    pub(super) fn transparent_single(&mut self, pieces: &mut Pieces) -> Parsed<()> {
        let start = self.offset();
        self.plain_byte(pieces);
        let from = self.pos;
        let text = self.run(|byte| byte == b'\'');
        let to = self.pos;
        if self.byte(to) != b'\'' {
            return Err(self.fault(FaultReason::UnterminatedQuote, start));
        }
        if text.contains('"') {
            // Whether this quote pairs with one behind the single quotes depends on when it is looked at.
            return Err(self.fault(FaultReason::BadSubstitution, start));
        }
        let offsets = self.offsets.part(from, to);
        let inside = self.inner(text, offsets, start)?.rest_as_quoted()?;
        pieces.append(inside.finish());
        self.plain_byte(pieces);
        Ok(())
    }

    /// Text that stands at one place and means something else there.
    pub(super) fn plain(&self, pieces: &mut Pieces, text: &str, start: usize) {
        let Span { start, end } = self.span_from(start);
        pieces.text(text, Span { start, end });
    }
}
