//! `${…}`.

use super::arithmetic::{OFFSET, SUBSCRIPT, found_when_run};
use super::cursor::starts_name;
use super::dollar::{is_special, word_of};
use super::keyword::Keyword;
use super::pieces::Pieces;
use super::quotes::Quoting;
use super::word::literal;
use super::{Parsed, Parser};
use crate::tree::{Fault, FaultReason, Operation, Parameter, PieceKind, Replaced, Word};

/// How the text behind an operator is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// A word that may stand in the place of the value; inside double quotes it is quoted too.
    Replacement,
    /// A pattern, in which quotes count even inside double quotes.
    Pattern,
    /// A pattern that a `/` may end.
    PatternBeforeSlash,
}

impl Parser<'_, '_> {
    /// Reads `${…}`, the cursor at the `{`.
    pub(super) fn braces(&mut self, start: usize, quoting: Quoting) -> Parsed<PieceKind> {
        self.bump();
        if self.is_bash() && matches!(self.peek(), b' ' | b'\t' | b'\n' | b'|') {
            // Newer versions of bash run the commands in here, older ones find no parameter.
            self.take(b'|');
            let fault = self.fault(FaultReason::BadSubstitution, start);
            self.noted.get_or_insert(fault);
            let script = self.enclosed(start, |parser| parser.take_keyword(Keyword::CloseBrace));
            return script.map(PieceKind::Command).map_err(found_when_run);
        }
        self.enter(start)?;
        let parameter = self.parameter(start, quoting)?;
        if !self.take(b'}') {
            return Err(self.bad_substitution(start));
        }
        self.leave();
        Ok(PieceKind::Parameter(Box::new(parameter)))
    }

    fn bad_substitution(&mut self, start: usize) -> Fault {
        let reason = match self.peek() {
            0 => FaultReason::UnterminatedSubstitution,
            _ => FaultReason::BadSubstitution,
        };
        self.fault(reason, start)
    }

    fn parameter(&mut self, start: usize, quoting: Quoting) -> Parsed<Parameter> {
        let second = self.peek_second();
        let first = self.peek();
        let third = self.byte(self.joined(self.joined(self.pos + 1) + 1));
        let names = starts_name(second) || second.is_ascii_digit();
        let length =
            first == b'#' && (names || is_special(second) && third == b'}' || matches!(second, b'@' | b'*'));
        let indirect =
            first == b'!' && self.is_bash() && (names || matches!(second, b'@' | b'*' | b'#' | b'$' | b'!'));
        if length || indirect {
            self.bump();
            self.peek();
        }
        let Some(name) = self.parameter_name() else { return Err(self.bad_substitution(start)) };
        let subscript = if self.is_bash() && self.peek() == b'[' {
            self.bump();
            let subscript = self.bracketed(start, SUBSCRIPT).map_err(found_when_run)?;
            self.bump();
            Some(subscript)
        } else {
            None
        };
        let operation = if length {
            Operation::Length
        } else {
            let lists = indirect
                && subscript.as_ref().is_some_and(|word| matches!(literal(word).as_str(), "@" | "*"));
            match self.operation(start, quoting, indirect)? {
                Operation::Value if lists => Operation::Names,
                operation => operation,
            }
        };
        Ok(Parameter { name, subscript, indirect, operation })
    }

    fn parameter_name(&mut self) -> Option<String> {
        let byte = self.peek();
        if starts_name(byte) {
            return Some(self.name());
        }
        if byte.is_ascii_digit() {
            let mut digits = String::new();
            while self.peek().is_ascii_digit() {
                digits.push_str(self.run(|byte| !byte.is_ascii_digit()));
            }
            return Some(digits);
        }
        is_special(byte).then(|| {
            self.bump();
            char::from(byte).to_string()
        })
    }

    fn operation(&mut self, start: usize, quoting: Quoting, indirect: bool) -> Parsed<Operation> {
        let byte = self.peek();
        let second = self.peek_second();
        let bash = self.is_bash();
        match byte {
            b'}' => Ok(Operation::Value),
            b':' if matches!(second, b'-' | b'=' | b'?' | b'+') => {
                self.bump();
                self.default(start, quoting, true)
            }
            b'-' | b'=' | b'?' | b'+' => self.default(start, quoting, false),
            b'#' | b'%' => {
                self.bump();
                let longest = self.take(byte);
                let pattern = self.operand(start, quoting, Operand::Pattern)?;
                Ok(match byte {
                    b'#' => Operation::RemovePrefix { longest, pattern },
                    _ => Operation::RemoveSuffix { longest, pattern },
                })
            }
            b':' if bash => {
                self.bump();
                let offset = self.bracketed(start, OFFSET).map_err(found_when_run)?;
                let length = if self.take(b':') {
                    Some(self.bracketed(start, OFFSET).map_err(found_when_run)?)
                } else {
                    None
                };
                Ok(Operation::Substring { offset, length })
            }
            b'/' if bash => self.replace(start, quoting),
            b'^' | b',' | b'~' if bash => {
                self.bump();
                let all = self.take(byte);
                let pattern = self.operand(start, quoting, Operand::Pattern)?;
                Ok(Operation::ChangeCase { to: char::from(byte), all, pattern })
            }
            b'*' | b'@' if indirect && second == b'}' => {
                self.bump();
                Ok(Operation::Names)
            }
            b'@' if bash && second.is_ascii_alphabetic() => {
                self.bump();
                self.peek();
                self.bump();
                Ok(Operation::Transform(char::from(second)))
            }
            _ => Err(self.bad_substitution(start)),
        }
    }

    /// `-w`, `=w`, `?w` or `+w`.
    fn default(&mut self, start: usize, quoting: Quoting, colon: bool) -> Parsed<Operation> {
        let operator = self.peek();
        self.bump();
        let word = self.operand(start, quoting, Operand::Replacement)?;
        Ok(match operator {
            b'-' => Operation::Default { colon, word },
            b'=' => Operation::Assign { colon, word },
            b'?' => Operation::Error { colon, word },
            _ => Operation::Alternative { colon, word },
        })
    }

    /// `/p/w` and its variants.
    fn replace(&mut self, start: usize, quoting: Quoting) -> Parsed<Operation> {
        self.bump();
        let which = match self.peek() {
            b'/' => Replaced::All,
            b'#' => Replaced::Start,
            b'%' => Replaced::End,
            _ => Replaced::First,
        };
        if which != Replaced::First {
            self.bump();
        }
        let pattern = self.operand(start, quoting, Operand::PatternBeforeSlash)?;
        self.take(b'/');
        let with = self.operand(start, quoting, Operand::Pattern)?;
        Ok(Operation::Replace { which, pattern, with })
    }

    /// Reads an operand up to the `}`, which is not taken.
    fn operand(&mut self, start: usize, quoting: Quoting, kind: Operand) -> Parsed<Word> {
        let quoted = quoting != Quoting::Bare;
        let transparent = quoted && kind == Operand::Replacement;
        let inside = if quoting == Quoting::Double { Quoting::Operand } else { quoting };
        let mut pieces = Pieces::new();
        self.done = self.pos;
        self.peek();
        let at = self.offset();
        // A slash right at the start belongs to the pattern.
        let mut first = true;
        loop {
            let byte = self.peek();
            match byte {
                0 => return Err(self.fault(FaultReason::UnterminatedSubstitution, start)),
                b'}' => break,
                b'/' if kind == Operand::PatternBeforeSlash && !first => break,
                b'\\' if transparent => self.quoted_escape(&mut pieces, b"$`\"\\}"),
                b'\\' => self.escaped(&mut pieces),
                b'\'' if !transparent => self.single(&mut pieces)?,
                b'\'' if self.is_bash() && quoting != Quoting::Here => {
                    self.transparent_single(&mut pieces)?
                }
                b'"' => self.double(&mut pieces)?,
                b'$' => self.dollar(&mut pieces, inside)?,
                b'`' => self.backticks(&mut pieces, inside)?,
                _ if self.at_process_substitution(byte) => {
                    self.process_substitution(&mut pieces).map_err(found_when_run)?
                }
                b'\'' | b'/' | b'<' | b'>' => self.plain_byte(&mut pieces),
                _ => {
                    let at = self.offset();
                    let text = self.run(|byte| {
                        matches!(byte, b'}' | b'/' | b'\\' | b'\'' | b'"' | b'$' | b'`' | b'<' | b'>')
                    });
                    pieces.text(text, self.span_from(at));
                }
            }
            first = false;
        }
        Ok(word_of(pieces, self.span_from(at)))
    }
}
