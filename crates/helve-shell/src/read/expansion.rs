//! Reading what starts with `$` or a backtick, and the commands inside it.
//!
//! Commands in a substitution become segments of the output, in a scope of their own, one level deeper.
//! The text of the expansion itself is not interpreted: what it gives is known only when it runs.

use super::list::End;
use super::word::RawWord;
use super::{Char, Lexer, Output};
use crate::command::{Entry, Opaque, OpaqueReason, PartKind, Scope, Span};

impl Lexer<'_> {
    /// Reads an expansion; nothing if the `$` stands for itself, in which case only the `$` is taken.
    pub(super) fn expansion(
        &mut self,
        out: &mut Output,
        scope: usize,
        in_double: bool,
    ) -> Result<Option<PartKind>, Opaque> {
        let start = self.offset();
        if self.peek() == Some('`') {
            self.backticks(out, scope, in_double)?;
            return Ok(Some(PartKind::Expansion));
        }
        self.pos += 1;
        let behind_dollar = self.pos;
        self.join_lines();
        match self.peek() {
            Some('(') => {
                self.pos += 1;
                match self.arithmetic_end() {
                    Some(end) => self.arithmetic(out, scope, start, end)?,
                    None => self.commands(out, scope, start)?,
                }
                Ok(Some(PartKind::Expansion))
            }
            Some('{') => {
                self.pos += 1;
                self.braced(out, scope, in_double, start).map(Some)
            }
            Some('[') => {
                // bash's old `$[…]`: what is inside is read on as part of the word.
                self.pos += 1;
                Ok(Some(PartKind::Expansion))
            }
            Some(ch) if ch.is_ascii_alphabetic() || ch == '_' => {
                self.variable_name();
                Ok(Some(PartKind::Variable))
            }
            Some('0'..='9' | '?' | '$' | '!' | '#' | '@' | '*' | '-') => {
                self.pos += 1;
                Ok(Some(PartKind::Expansion))
            }
            _ => {
                self.pos = behind_dollar;
                Ok(None)
            }
        }
    }

    /// Reads the commands up to the `)` that closes the substitution which began at `start`.
    pub(super) fn commands(&mut self, out: &mut Output, scope: usize, start: usize) -> Result<(), Opaque> {
        self.nested(out, scope, start, End::Paren)
    }

    fn nested(&mut self, out: &mut Output, scope: usize, start: usize, end: End) -> Result<(), Opaque> {
        self.depth = self.deeper(start)?;
        out.scopes.push(Scope { parent: scope, entry: Entry::Substitution });
        self.list(out, end, out.scopes.len() - 1, true).map_err(|mut opaque| {
            if opaque.reason == OpaqueReason::UnterminatedSubstitution {
                opaque.span.start = opaque.span.start.min(start);
            }
            opaque
        })?;
        self.depth -= 1;
        Ok(())
    }

    /// Takes the characters of a variable's name.
    fn variable_name(&mut self) {
        while self.peek().is_some_and(|ch| ch.is_ascii_alphanumeric() || ch == '_') {
            self.pos += 1;
        }
    }

    /// Reads `${…}` from behind its `{`.
    fn braced(
        &mut self,
        out: &mut Output,
        scope: usize,
        in_double: bool,
        start: usize,
    ) -> Result<PartKind, Opaque> {
        if matches!(self.peek(), Some(' ' | '\t' | '\n' | '|')) {
            // `${ command; }` runs the command.
            if self.peek() == Some('|') {
                self.pos += 1;
            }
            self.nested(out, scope, start, End::Brace)?;
            return Ok(PartKind::Expansion);
        }
        let from = self.pos;
        self.variable_name();
        if self.pos > from && self.peek() == Some('}') {
            self.pos += 1;
            return Ok(PartKind::Variable);
        }
        self.depth = self.deeper(start)?;
        // Single quotes quote in `${x}`, `${x#'…'}`, `"${x#'…'}"`, but not in `"${x:-'…'}"`.
        let mut operator = None;
        loop {
            let Some(ch) = self.peek() else {
                return Err(self.opaque(OpaqueReason::UnterminatedSubstitution, start));
            };
            if operator.is_none()
                && self.pos > from
                && matches!(ch, '-' | '=' | '?' | '+' | '#' | '%' | '/' | '^' | ',')
            {
                operator = Some(ch);
            }
            let literal_quote = in_double && matches!(operator, None | Some('-' | '=' | '?' | '+'));
            match ch {
                '}' => {
                    self.pos += 1;
                    self.depth -= 1;
                    return Ok(PartKind::Expansion);
                }
                '\\' => self.pos = (self.pos + 2).min(self.chars.len()),
                '\'' if !literal_quote => {
                    self.single()?;
                }
                '"' => {
                    let mut ignored = RawWord::empty();
                    self.double(out, scope, &mut ignored)?;
                }
                '$' | '`' => {
                    self.expansion(out, scope, in_double)?;
                }
                '<' | '>' if !in_double && self.peek_at(1) == Some('(') => {
                    let at = self.offset();
                    self.pos += 2;
                    self.commands(out, scope, at)?;
                }
                _ => self.pos += 1,
            }
        }
    }

    /// Behind `$(`: the position of the `))` if this is arithmetic and not a substitution that begins with `(`.
    ///
    /// Text with quotes counts as commands: that reading sees more.
    fn arithmetic_end(&self) -> Option<usize> {
        if self.peek() != Some('(') {
            return None;
        }
        let mut open = 0_usize;
        let mut pos = self.pos + 1;
        while let Some(char) = self.chars.get(pos) {
            match char.ch {
                '(' => open += 1,
                ')' => match open.checked_sub(1) {
                    Some(less) => open = less,
                    None => return (self.chars.get(pos + 1)?.ch == ')').then_some(pos),
                },
                '\'' | '"' | '\\' | '#' if char.ch != '#' || self.starts_comment(pos) => return None,
                _ => {}
            }
            pos += 1;
        }
        None
    }

    fn starts_comment(&self, pos: usize) -> bool {
        pos.checked_sub(1)
            .and_then(|pos| self.chars.get(pos))
            .is_none_or(|before| before.ch.is_ascii_whitespace())
    }

    /// Reads the expansions inside `$((…))`, whose `))` stands at `end`.
    fn arithmetic(&mut self, out: &mut Output, scope: usize, start: usize, end: usize) -> Result<(), Opaque> {
        let depth = self.deeper(start)?;
        let inner = self.chars.get(self.pos + 1..end).unwrap_or_default();
        Lexer::new(inner, self.offset_of(end), depth).expansions(out, scope)?;
        self.pos = end + 2;
        Ok(())
    }

    /// Reads all expansions up to the end of the characters, everything else being literal.
    pub(super) fn expansions(&mut self, out: &mut Output, scope: usize) -> Result<(), Opaque> {
        while let Some(ch) = self.peek() {
            match ch {
                '\\' => self.pos = (self.pos + 2).min(self.chars.len()),
                '$' | '`' => {
                    self.expansion(out, scope, true)?;
                }
                _ => self.pos += 1,
            }
        }
        Ok(())
    }

    /// Reads `` `…` ``: one layer of backslashes is taken off before the commands inside are read.
    fn backticks(&mut self, out: &mut Output, scope: usize, in_double: bool) -> Result<(), Opaque> {
        let start = self.offset();
        let depth = self.deeper(start)?;
        self.pos += 1;
        let mut inner: Vec<Char> = Vec::new();
        loop {
            let Some(&char) = self.chars.get(self.pos) else {
                return Err(self.opaque(OpaqueReason::UnterminatedSubstitution, start));
            };
            self.pos += 1;
            if char.ch == '`' {
                break;
            }
            if char.ch == '\\'
                && let Some(&next) = self.chars.get(self.pos)
            {
                self.pos += 1;
                let unescaped = matches!(next.ch, '$' | '`' | '\\') || in_double && next.ch == '"';
                if !unescaped {
                    inner.push(char);
                }
                inner.push(next);
            } else {
                inner.push(char);
            }
        }
        let end = self.offset_of(self.pos - 1);
        out.scopes.push(Scope { parent: scope, entry: Entry::Substitution });
        Lexer::new(&inner, end, depth).list(out, End::Input, out.scopes.len() - 1, true)
    }
}

impl RawWord {
    /// A word that only collects what nobody keeps.
    fn empty() -> Self {
        RawWord {
            text: String::new(),
            known: true,
            glob: false,
            span: Span { start: 0, end: 0 },
            parts: Vec::new(),
        }
    }
}
