//! Here-documents: their bodies start on the line behind the command.
//!
//! A redirection is made when its operator is read, its body when the line ends. In between the redirection holds the
//! number of its body; `fill` puts the bodies in their places when the script around them is complete.

use super::arithmetic::found_when_run;
use super::cursor::Offsets;
use super::word::{Context, literal};
use super::{Parsed, Parser};
use crate::Span;
use crate::tree::{
    Command, CommandKind, Descriptor, FaultReason, Piece, PieceKind, Redirect, RedirectOperator,
    RedirectTarget, Statement, Word,
};

/// A here-document whose body has not been reached.
pub(super) struct Pending {
    number: usize,
    delimiter: String,
    strip_tabs: bool,
    quoted: bool,
    /// Source offset of its operator.
    start: usize,
}

impl Parser<'_, '_> {
    /// Reads what stands behind `<<`.
    pub(super) fn here_document(&mut self, descriptor: Option<Descriptor>, start: usize) -> Parsed<Redirect> {
        let strip_tabs = self.take(b'-');
        self.blanks();
        if !self.at_word() {
            return Err(self.unexpected());
        }
        let from = self.pos;
        let word = self.word(Context::Plain)?;
        let is_plain = |piece: &Piece| matches!(piece.kind, PieceKind::Text(_));
        let quoted = !word.pieces.iter().all(|piece| is_plain(piece) || is_expansion(piece));
        let delimiter = if word.pieces.iter().any(is_expansion) {
            // Nothing is expanded in a delimiter: it is what is written.
            self.text.get(from..self.done).unwrap_or_default().to_owned()
        } else {
            literal(&word)
        };
        if delimiter.contains('\n') || quoted && word.pieces.iter().any(is_expansion) {
            return Err(self.fault(FaultReason::AmbiguousHereDocument, start));
        }
        let number = self.bodies.len();
        self.bodies.push(None);
        self.pending.push(Pending { number, delimiter, strip_tabs, quoted, start });
        let span = self.span_from(start);
        let placeholder = Word { pieces: Vec::new(), span: Span { start: number, end: number } };
        Ok(Redirect {
            descriptor,
            operator: RedirectOperator::HereDocument,
            target: RedirectTarget::HereDocument { body: placeholder, quoted },
            span,
        })
    }

    /// Reads the bodies of all pending here-documents, the cursor standing at the start of a line.
    pub(super) fn here_documents(&mut self) -> Parsed<()> {
        for pending in std::mem::take(&mut self.pending) {
            let body = self.here_body(&pending)?;
            if let Some(place) = self.bodies.get_mut(pending.number) {
                *place = Some(body);
            }
        }
        Ok(())
    }

    fn here_body(&mut self, pending: &Pending) -> Parsed<Word> {
        let from = self.pos;
        let to = self.here_lines(pending)?;
        let span = Span { start: self.offsets.of(from), end: self.offsets.of(to) };
        let raw = self.text.get(from..to).unwrap_or_default();
        let mut stripped = String::new();
        let mut table = Vec::new();
        let (text, offsets) = if pending.strip_tabs {
            let mut pos = from;
            let mut joined = false;
            for line in raw.split_inclusive('\n') {
                let kept = if joined { line } else { line.trim_start_matches('\t') };
                let first = pos + line.len() - kept.len();
                stripped.push_str(kept);
                table.extend((first..pos + line.len()).map(|pos| self.table_entry(pos)));
                joined = !pending.quoted && ends_in_backslash(line);
                pos += line.len();
            }
            table.push(self.table_entry(to));
            (stripped.as_str(), Offsets::Table(&table))
        } else {
            (raw, self.offsets.part(from, to))
        };
        if pending.quoted {
            let pieces = match text {
                "" => Vec::new(),
                _ => vec![Piece { kind: PieceKind::Single(text.to_owned()), span }],
            };
            return Ok(Word { pieces, span });
        }
        let inside = self.inner(text, offsets, pending.start).and_then(|mut parser| parser.rest_as_quoted());
        match inside {
            Ok(pieces) => Ok(Word { pieces: pieces.finish(), span }),
            Err(fault) => {
                // A shell finds this out only when it expands the body.
                self.noted.get_or_insert(found_when_run(fault));
                Ok(Word { pieces: Vec::new(), span })
            }
        }
    }

    /// Steps over the lines of a body and its end line; gives the position at which the body ends.
    fn here_lines(&mut self, pending: &Pending) -> Parsed<usize> {
        loop {
            if self.pos >= self.text.len() {
                // A shell only warns, takes the rest as the body and goes on.
                let fault = self.fault(FaultReason::UnterminatedHereDocument, pending.start);
                self.noted.get_or_insert(fault);
                return Ok(self.pos);
            }
            let start = self.pos;
            if self.here_line(pending)? {
                return Ok(start);
            }
        }
    }

    /// Steps over one line, with those that a backslash joins to it; true if it is the end line.
    fn here_line(&mut self, pending: &Pending) -> Parsed<bool> {
        let start = self.offset();
        let mut joined = false;
        let mut matched = Some(pending.delimiter.as_str());
        if pending.strip_tabs {
            while self.byte(self.pos) == b'\t' {
                self.pos += 1;
            }
        }
        loop {
            let rest = self.text.get(self.pos..).unwrap_or_default();
            let length = rest.bytes().position(|byte| byte == b'\n').unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or_default();
            self.pos = (self.pos + length + 1).min(self.text.len());
            if !pending.quoted
                && length < rest.len()
                && ends_in_backslash(rest.get(..=length).unwrap_or_default())
            {
                joined = true;
                let part = line.get(..length - 1).unwrap_or_default();
                matched = matched.and_then(|wanted| wanted.strip_prefix(part));
                continue;
            }
            let Some(wanted) = matched else { return Ok(false) };
            if line == wanted && !joined {
                return Ok(true);
            }
            let closes = self.inside > 0 && line.strip_prefix(wanted).is_some_and(|rest| rest.contains(')'));
            if line == wanted || closes {
                return Err(self.fault(FaultReason::AmbiguousHereDocument, start));
            }
            return Ok(false);
        }
    }
}

fn is_expansion(piece: &Piece) -> bool {
    match &piece.kind {
        PieceKind::Text(_) | PieceKind::Escaped(_) | PieceKind::Single(_) => false,
        PieceKind::Double(pieces) => pieces.iter().any(is_expansion),
        _ => true,
    }
}

/// Whether a line that ends in a newline has an unescaped backslash before it.
fn ends_in_backslash(line: &str) -> bool {
    let Some(line) = line.strip_suffix('\n') else { return false };
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Puts the bodies into the redirections of these statements, not into those of substitutions, which have theirs.
pub(super) fn fill(statements: &mut [Statement], bodies: &mut [Option<Word>]) {
    if bodies.is_empty() {
        return;
    }
    for statement in statements {
        for (_, pipeline) in &mut statement.pipelines {
            for command in &mut pipeline.commands {
                fill_command(command, bodies);
            }
        }
    }
}

fn fill_command(command: &mut Command, bodies: &mut [Option<Word>]) {
    for redirect in &mut command.redirects {
        if let RedirectTarget::HereDocument { body, .. } = &mut redirect.target {
            let end = redirect.span.end;
            let found = bodies.get_mut(body.span.start).and_then(Option::take);
            *body = found.unwrap_or(Word { pieces: Vec::new(), span: Span { start: end, end } });
        }
    }
    match &mut command.kind {
        CommandKind::Simple(_) | CommandKind::Test(_) | CommandKind::Arithmetic(_) => {}
        CommandKind::Subshell(body) | CommandKind::Group(body) => fill(body, bodies),
        CommandKind::If { branches, otherwise } => {
            for (condition, body) in branches {
                fill(condition, bodies);
                fill(body, bodies);
            }
            fill(otherwise, bodies);
        }
        CommandKind::Loop { condition, body } => {
            fill(condition, bodies);
            fill(body, bodies);
        }
        CommandKind::For { body, .. } | CommandKind::ArithmeticFor { body, .. } => fill(body, bodies),
        CommandKind::Case { branches, .. } => {
            for (_, body) in branches {
                fill(body, bodies);
            }
        }
        CommandKind::Function { body, .. } | CommandKind::Coproc(body) => fill_command(body, bodies),
    }
}
