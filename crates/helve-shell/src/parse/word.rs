//! Words outside quotes.

use super::cursor::is_meta;
use super::pieces::Pieces;
use super::quotes::Quoting;
use super::{Parsed, Parser};
use crate::tree::{PieceKind, Word};

/// Where a word stands, which decides what parentheses and `|` in it mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// Anywhere but in the places below.
    Plain,
    /// Right of `==`, `=` or `!=` in `[[ … ]]`: `@(a|b)` and its like are patterns.
    Pattern,
    /// Right of `=~`: parentheses and `|` belong to the expression.
    Regex,
}

impl Parser<'_, '_> {
    /// Whether a word starts at the cursor.
    pub(super) fn at_word(&mut self) -> bool {
        match self.peek() {
            // What is glued to a redirection is part of it.
            b'0'..=b'9' | b'{' => self.descriptor().is_none(),
            byte => !is_meta(byte) || self.at_process_substitution(byte),
        }
    }

    /// Whether `<(` or `>(` comes next, the first byte of which is given.
    pub(super) fn at_process_substitution(&mut self, byte: u8) -> bool {
        matches!(byte, b'<' | b'>') && self.is_bash() && self.peek_second() == b'('
    }

    /// Reads the word at the cursor; it has no pieces if none starts there.
    pub(super) fn word(&mut self, context: Context) -> Parsed<Word> {
        self.peek();
        let start = self.offset();
        self.word_from(Pieces::new(), start, context)
    }

    /// Reads the rest of a word whose first pieces are known.
    pub(super) fn word_from(&mut self, mut pieces: Pieces, start: usize, context: Context) -> Parsed<Word> {
        let mut end = start;
        loop {
            let byte = self.peek();
            match byte {
                b'\'' => self.single(&mut pieces)?,
                b'"' => self.double(&mut pieces)?,
                b'\\' => self.escaped(&mut pieces),
                b'$' => self.dollar(&mut pieces, Quoting::Bare)?,
                b'`' => self.backticks(&mut pieces, Quoting::Bare)?,
                b'(' if context == Context::Regex => self.group(&mut pieces)?,
                b'|' if context == Context::Regex => self.plain_byte(&mut pieces),
                b'?' | b'*' | b'+' | b'@' | b'!'
                    if context == Context::Pattern && self.peek_second() == b'(' =>
                {
                    self.plain_byte(&mut pieces);
                    self.group(&mut pieces)?;
                }
                _ if self.at_process_substitution(byte) => self.process_substitution(&mut pieces)?,
                _ if is_meta(byte) => break,
                _ => self.plain_text(&mut pieces, context),
            }
            end = self.behind();
        }
        Ok(Word { pieces: pieces.finish(), span: crate::Span { start, end: end.max(start) } })
    }

    /// Text up to the next byte that may mean something.
    fn plain_text(&mut self, pieces: &mut Pieces, context: Context) {
        let at = self.offset();
        let first = self.pos;
        let text = self.run(|byte| {
            is_meta(byte)
                || matches!(byte, b'\'' | b'"' | b'\\' | b'$' | b'`')
                || context == Context::Pattern && matches!(byte, b'?' | b'*' | b'+' | b'@' | b'!')
        });
        if self.pos == first {
            return self.plain_byte(pieces);
        }
        pieces.text(text, self.span_from(at));
    }

    /// The next ASCII byte as text.
    pub(super) fn plain_byte(&mut self, pieces: &mut Pieces) {
        let at = self.offset();
        let byte = self.peek();
        self.bump();
        pieces.text(char::from(byte).encode_utf8(&mut [0; 4]), self.span_from(at));
    }

    /// `( … )` inside a pattern or regular expression, as text with its expansions.
    fn group(&mut self, pieces: &mut Pieces) -> Parsed<()> {
        let start = self.offset();
        self.enter(start)?;
        self.plain_byte(pieces);
        self.balanced(pieces, start, super::arithmetic::PATTERN_GROUP)?;
        self.plain_byte(pieces);
        self.leave();
        Ok(())
    }

    /// `<( … )` or `>( … )`.
    pub(super) fn process_substitution(&mut self, pieces: &mut Pieces) -> Parsed<()> {
        let start = self.offset();
        let reads = self.take(b'<');
        if !reads {
            self.take(b'>');
        }
        let script = self.substitution(start)?;
        let kind = if reads { PieceKind::ProcessIn(script) } else { PieceKind::ProcessOut(script) };
        pieces.push(kind, self.span_from(start));
        Ok(())
    }
}

/// The text of a word as it is written, quotes removed and expansions left out.
pub(super) fn literal(word: &Word) -> String {
    let mut text = String::new();
    for piece in &word.pieces {
        match &piece.kind {
            PieceKind::Text(part) | PieceKind::Single(part) => text.push_str(part),
            PieceKind::Escaped(ch) => text.push(*ch),
            PieceKind::Double(inner) => {
                for piece in inner {
                    if let PieceKind::Text(part) = &piece.kind {
                        text.push_str(part);
                    }
                }
            }
            _ => {}
        }
    }
    text
}
