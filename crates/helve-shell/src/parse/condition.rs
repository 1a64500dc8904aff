//! `[[ … ]]`: the grammar is checked as bash checks it, the result is a list of words.

use super::cursor::is_meta;
use super::word::Context;
use super::{Parsed, Parser};
use crate::tree::{CommandKind, FaultReason, Piece, PieceKind, Word};

/// The letters of operators that take one operand.
const UNARY: &[u8] = b"abcdefghknoprstuvwxzGLNORS";

/// The operators between two operands that are written as words.
const BINARY: [&str; 13] =
    ["=", "==", "!=", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];

impl Parser<'_, '_> {
    /// Behind `[[`.
    pub(super) fn test(&mut self, start: usize) -> Parsed<CommandKind> {
        let mut words = Vec::new();
        self.alternatives(&mut words, start)?;
        self.blanks();
        if !self.at_end_of_test() {
            return Err(self.unclosed(start));
        }
        self.bump();
        self.peek();
        self.bump();
        Ok(CommandKind::Test(words))
    }

    /// Operands joined by `&&` and `||`.
    fn alternatives(&mut self, words: &mut Vec<Word>, start: usize) -> Parsed<()> {
        loop {
            self.operand_of_test(words, start)?;
            self.blanks();
            let at = self.offset();
            let text = if self.take_pair(b'&', b'&') {
                "&&"
            } else if self.take_pair(b'|', b'|') {
                "||"
            } else {
                return Ok(());
            };
            self.operator(words, text, at);
        }
    }

    fn operator(&self, words: &mut Vec<Word>, text: &str, at: usize) {
        let span = self.span_from(at);
        words.push(Word { pieces: vec![Piece { kind: PieceKind::Text(text.to_owned()), span }], span });
    }

    fn operand_of_test(&mut self, words: &mut Vec<Word>, start: usize) -> Parsed<()> {
        loop {
            self.newlines()?;
            let at = self.offset();
            if self.take(b'(') {
                self.operator(words, "(", at);
                self.enter(start)?;
                self.alternatives(words, start)?;
                self.leave();
                self.newlines()?;
                let at = self.offset();
                if !self.take(b')') {
                    return Err(self.unclosed(start));
                }
                self.operator(words, ")", at);
                return Ok(());
            }
            if self.peek() == b'!' && is_meta(self.peek_second()) {
                self.bump();
                self.operator(words, "!", at);
                continue;
            }
            return self.comparison(words, start);
        }
    }

    fn comparison(&mut self, words: &mut Vec<Word>, start: usize) -> Parsed<()> {
        let left = self.test_word(Context::Plain, start)?;
        let unary = bare(&left).is_some_and(is_unary);
        words.push(left);
        self.blanks();
        if unary {
            words.push(self.test_word(Context::Plain, start)?);
            return Ok(());
        }
        let at = self.offset();
        let comparison = match self.peek() {
            b'<' if !self.at_process_substitution(b'<') => "<",
            b'>' if !self.at_process_substitution(b'>') => ">",
            b')' => return Ok(()),
            b'&' if self.peek_second() == b'&' => return Ok(()),
            b'|' if self.peek_second() == b'|' => return Ok(()),
            _ if self.at_end_of_test() => return Ok(()),
            _ => {
                let operator = self.test_word(Context::Plain, start)?;
                let context = match bare(&operator) {
                    Some("=~") => Context::Regex,
                    Some("=" | "==" | "!=") => Context::Pattern,
                    Some(text) if BINARY.contains(&text) => Context::Plain,
                    _ => return Err(self.fault(FaultReason::Unexpected, operator.span.start)),
                };
                words.push(operator);
                self.blanks();
                words.push(self.test_word(context, start)?);
                return Ok(());
            }
        };
        self.bump();
        self.operator(words, comparison, at);
        self.blanks();
        words.push(self.test_word(Context::Plain, start)?);
        Ok(())
    }

    /// A word that is not the `]]` at the end.
    fn test_word(&mut self, context: Context, start: usize) -> Parsed<Word> {
        let starts = self.at_word() || context == Context::Regex && matches!(self.peek(), b'(' | b'|');
        if !starts || self.at_end_of_test() {
            return Err(self.unclosed(start));
        }
        self.word(context)
    }

    /// Whether `]]` comes next as a word.
    fn at_end_of_test(&mut self) -> bool {
        self.keyword() == Some(super::keyword::Keyword::CloseTest)
    }
}

/// The text of a word without quotes or expansions in it.
fn bare(word: &Word) -> Option<&str> {
    match word.pieces.as_slice() {
        [Piece { kind: PieceKind::Text(text), .. }] => Some(text),
        _ => None,
    }
}

fn is_unary(text: &str) -> bool {
    matches!(text.as_bytes(), [b'-', letter] if UNARY.contains(letter))
}
