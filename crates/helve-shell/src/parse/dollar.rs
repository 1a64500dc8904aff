//! What starts with `$` or a backtick.

use super::arithmetic::found_when_run;
use super::cursor::{Offsets, continues_name, starts_name};
use super::keyword::Keyword;
use super::pieces::Pieces;
use super::quotes::Quoting;
use super::{Parsed, Parser, heredoc};
use crate::tree::{FaultReason, Operation, Parameter, PieceKind, Script, Word};

impl Parser<'_, '_> {
    /// Reads the expansion at the cursor; a `$` that starts none is text.
    pub(super) fn dollar(&mut self, pieces: &mut Pieces, quoting: Quoting) -> Parsed<()> {
        let start = self.offset();
        self.bump();
        let kind = match self.peek() {
            b'\'' if self.is_bash() && matches!(quoting, Quoting::Bare | Quoting::Operand) => {
                return self.ansi(pieces, start, quoting);
            }
            b'"' if self.is_bash() && quoting == Quoting::Bare => return self.double_from(pieces, start),
            b'(' if self.peek_second() == b'(' => self.dollar_parentheses(start)?,
            b'(' => PieceKind::Command(self.substitution(start)?),
            b'{' => self.braces(start, quoting)?,
            b'[' if self.is_bash() => self.dollar_bracket(start)?,
            byte if starts_name(byte) => named(self.name()),
            byte if byte.is_ascii_digit() || is_special(byte) => {
                self.bump();
                named(char::from(byte).to_string())
            }
            _ => {
                self.plain(pieces, "$", start);
                return Ok(());
            }
        };
        pieces.push(kind, self.span_from(start));
        Ok(())
    }

    /// The name at the cursor, which may be spread over joined lines.
    pub(super) fn name(&mut self) -> String {
        let mut name = String::new();
        while continues_name(self.peek()) {
            name.push_str(self.run(|byte| !continues_name(byte)));
        }
        name
    }

    /// The script in `( … )`, the cursor at the `(`.
    pub(super) fn substitution(&mut self, start: usize) -> Parsed<Script> {
        self.peek();
        // Where a second parenthesis follows, the shells have paired them before they look at the commands.
        let doubled = self.is_bash() && self.peek_second() == b'(';
        let paired = if doubled { self.pairing(start, true)?.outer } else { None };
        self.bump();
        let script = self.enclosed(start, |parser| parser.take(b')'));
        match paired {
            None => script,
            Some(outer) if script.is_err() || outer + 1 == self.pos => script.map_err(found_when_run),
            Some(_) => Err(self.fault(FaultReason::BadSubstitution, start)),
        }
    }

    /// A script up to what `close` takes.
    pub(super) fn enclosed(&mut self, start: usize, close: impl Fn(&mut Self) -> bool) -> Parsed<Script> {
        self.blanks();
        // bash takes this first word for a program's name until it runs the script.
        let timed = self.keyword() == Some(Keyword::Time);
        let script = self.list_until(start, close);
        if timed { script.map_err(found_when_run) } else { script }
    }

    fn list_until(&mut self, start: usize, close: impl Fn(&mut Self) -> bool) -> Parsed<Script> {
        self.enter(start)?;
        let pending = std::mem::take(&mut self.pending);
        let inside = std::mem::replace(&mut self.inside, self.depth);
        self.opened = Some(self.pos);
        let mut statements = Vec::new();
        self.statements(&mut statements)?;
        if !self.pending.is_empty() {
            return Err(self.fault(FaultReason::AmbiguousHereDocument, start));
        }
        if !close(self) {
            return Err(match self.peek() {
                0 => self.fault(FaultReason::UnterminatedSubstitution, start),
                _ => self.unexpected(),
            });
        }
        self.pending = pending;
        self.inside = inside;
        self.leave();
        heredoc::fill(&mut statements, &mut self.bodies);
        Ok(Script { statements, fault: None })
    }

    /// `` `…` ``: one layer of backslashes is taken off, then the rest is a script.
    pub(super) fn backticks(&mut self, pieces: &mut Pieces, quoting: Quoting) -> Parsed<()> {
        let start = self.offset();
        self.bump();
        let mut text = String::new();
        let mut table = Vec::new();
        loop {
            let from = self.pos;
            let run = self.run(|byte| matches!(byte, b'`' | b'\\'));
            text.push_str(run);
            table.extend((from..self.pos).map(|pos| self.table_entry(pos)));
            match self.byte(self.pos) {
                b'`' => break,
                b'\\' => {
                    let next = self.byte(self.pos + 1);
                    let unescaped = matches!(next, b'$' | b'`' | b'\\')
                        || next == b'"' && matches!(quoting, Quoting::Double | Quoting::Operand);
                    if !unescaped {
                        text.push('\\');
                        table.push(self.table_entry(self.pos));
                    }
                    self.bump();
                    if unescaped {
                        text.push(char::from(next));
                        table.push(self.table_entry(self.pos));
                        self.bump();
                    }
                }
                _ => return Err(self.fault(FaultReason::UnterminatedSubstitution, start)),
            }
        }
        table.push(self.table_entry(self.pos));
        let script = self.inner(&text, Offsets::Table(&table), start)?.script();
        self.bump();
        if !self.is_bash()
            && let Some(fault) = script.fault
        {
            // dash reads these commands together with the rest.
            return Err(fault);
        }
        pieces.push(PieceKind::Command(script), self.span_from(start));
        Ok(())
    }

    /// Texts are shorter than 4 GiB: see [`crate::MAX_TEXT`].
    #[expect(clippy::cast_possible_truncation, reason = "offsets are below MAX_TEXT")]
    pub(super) fn table_entry(&self, pos: usize) -> u32 {
        self.offsets.of(pos) as u32
    }
}

fn named(name: String) -> PieceKind {
    PieceKind::Parameter(Box::new(Parameter {
        name,
        subscript: None,
        indirect: false,
        operation: Operation::Value,
    }))
}

/// Whether `$` and this byte are a parameter.
pub(super) fn is_special(byte: u8) -> bool {
    matches!(byte, b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')
}

/// A word made of these pieces.
pub(super) fn word_of(pieces: Pieces, span: crate::Span) -> Word {
    Word { pieces: pieces.finish(), span }
}
