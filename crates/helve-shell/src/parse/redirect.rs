//! Redirections.

use super::cursor::{continues_name, is_meta, starts_name};
use super::word::Context;
use super::{Parsed, Parser};
use crate::tree::{Descriptor, PieceKind, Redirect, RedirectOperator, RedirectTarget, Word};

impl Parser<'_, '_> {
    /// The redirections behind a compound command.
    pub(super) fn redirects(&mut self) -> Parsed<Vec<Redirect>> {
        let mut redirects = Vec::new();
        loop {
            let (pos, done) = (self.pos, self.done);
            self.blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => {
                    (self.pos, self.done) = (pos, done);
                    return Ok(redirects);
                }
            }
        }
    }

    /// Reads the redirection at the cursor, if there is one.
    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        if !self.redirect_follows() {
            return Ok(None);
        }
        let start = self.offset();
        let descriptor = self.descriptor().map(|(descriptor, end)| {
            self.pos = end;
            descriptor
        });
        let operator = self.redirect_operator();
        if operator == RedirectOperator::HereDocument {
            return self.here_document(descriptor, start).map(Some);
        }
        self.blanks();
        if !self.at_word() && !self.at_duplicated(operator) {
            return Err(self.unexpected());
        }
        let target = RedirectTarget::Word(self.word(Context::Plain)?);
        Ok(Some(Redirect { descriptor, operator, target, span: self.span_from(start) }))
    }

    /// Whether a redirection starts at the cursor.
    pub(super) fn redirect_follows(&mut self) -> bool {
        match self.peek() {
            byte @ (b'<' | b'>') => !self.at_process_substitution(byte),
            b'&' => self.is_bash() && self.peek_second() == b'>',
            b'0'..=b'9' | b'{' => self.descriptor().is_some(),
            _ => false,
        }
    }

    /// The descriptor at the cursor and the position behind it, if `<` or `>` follows at once.
    pub(super) fn descriptor(&self) -> Option<(Descriptor, usize)> {
        let mut pos = self.pos;
        let descriptor = if self.byte(pos) == b'{' {
            pos = self.joined(pos + 1);
            if !self.is_bash() || !starts_name(self.byte(pos)) {
                return None;
            }
            let mut name = String::new();
            while continues_name(self.byte(pos)) {
                name.push(char::from(self.byte(pos)));
                pos = self.joined(pos + 1);
            }
            if self.byte(pos) == b'[' {
                pos = self.plain_subscript(pos, &mut name)?;
            }
            if self.byte(pos) != b'}' {
                return None;
            }
            pos = self.joined(pos + 1);
            Descriptor::Name(name)
        } else {
            if !self.byte(pos).is_ascii_digit() {
                return None;
            }
            let mut number = 0_u32;
            let mut digits = 0_usize;
            while self.byte(pos).is_ascii_digit() {
                let digit = u32::from(self.byte(pos) - b'0');
                number = number.saturating_mul(10).saturating_add(digit);
                digits += 1;
                pos = self.joined(pos + 1);
            }
            if digits > 1 && !self.is_bash() {
                return None;
            }
            Descriptor::Number(number)
        };
        let opens = matches!(self.byte(pos), b'<' | b'>');
        // `2>(…)` is a word.
        let substitutes = self.is_bash() && self.byte(self.joined(pos + 1)) == b'(';
        (opens && !substitutes).then_some((descriptor, pos))
    }

    /// Takes `[subscript]` into the name of a descriptor and gives the position behind it, if nothing in it is quoted
    /// or expanded.
    fn plain_subscript(&self, mut pos: usize, name: &mut String) -> Option<usize> {
        let mut open = 0_usize;
        loop {
            let byte = self.byte(pos);
            match byte {
                b'[' => open += 1,
                b']' => open -= 1,
                b'$' | b'`' | b'\\' | b'\'' | b'"' => return None,
                _ if is_meta(byte) || !byte.is_ascii() => return None,
                _ => {}
            }
            name.push(char::from(byte));
            pos = self.joined(pos + 1);
            if open == 0 {
                return Some(pos);
            }
        }
    }

    /// Whether the word that ends at the cursor is no word but the name of a descriptor: `{name[$subscript]}>`.
    pub(super) fn names_descriptor(&mut self, word: &Word) -> bool {
        if !self.is_bash() || !matches!(self.peek(), b'<' | b'>') || self.peek_second() == b'(' {
            return false;
        }
        let (Some(first), Some(last)) = (word.pieces.first(), word.pieces.last()) else { return false };
        let (PieceKind::Text(first), PieceKind::Text(last)) = (&first.kind, &last.kind) else { return false };
        let name = first.strip_prefix('{').and_then(|rest| rest.split_once('['));
        last.ends_with("]}")
            && name.is_some_and(|(name, _)| crate::expand::is_name(name))
            && (word.pieces.len() > 1 || !first.is_ascii())
    }

    fn redirect_operator(&mut self) -> RedirectOperator {
        if self.take(b'&') {
            self.take(b'>');
            return if self.take(b'>') { RedirectOperator::AppendBoth } else { RedirectOperator::WriteBoth };
        }
        if self.take(b'>') {
            return match self.peek() {
                b'>' => self.took(RedirectOperator::Append),
                b'|' => self.took(RedirectOperator::Clobber),
                b'&' => self.took(RedirectOperator::DuplicateOut),
                _ => RedirectOperator::Write,
            };
        }
        self.take(b'<');
        match self.peek() {
            b'<' if self.is_bash() && self.peek_second() == b'<' => {
                self.bump();
                self.peek();
                self.took(RedirectOperator::HereString)
            }
            b'<' => self.took(RedirectOperator::HereDocument),
            b'>' => self.took(RedirectOperator::ReadWrite),
            b'&' => self.took(RedirectOperator::DuplicateIn),
            _ => RedirectOperator::Read,
        }
    }

    /// Whether a number follows `>&` or `<&`: it is a descriptor even where another redirection is glued to it.
    fn at_duplicated(&mut self, operator: RedirectOperator) -> bool {
        self.is_bash()
            && matches!(operator, RedirectOperator::DuplicateIn | RedirectOperator::DuplicateOut)
            && self.peek().is_ascii_digit()
    }

    fn took(&mut self, operator: RedirectOperator) -> RedirectOperator {
        self.bump();
        operator
    }
}
