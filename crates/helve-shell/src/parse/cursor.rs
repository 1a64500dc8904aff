//! The cursor: bytes ahead, offsets behind, blanks and comments.
//!
//! A backslash before a newline is not there to the shell, in the middle of any token. So `peek` steps over it, and only
//! what reads raw text (single quotes, comments, here-documents) looks at the bytes themselves. All characters that mean
//! something to a shell are ASCII, so that a position next to one is always a character border. NUL is refused before
//! parsing starts; here it stands for the end of the text.

use super::{Parsed, Parser};
use crate::Span;
use crate::tree::{Fault, FaultReason};

/// Where the bytes of a text stand in the source.
#[derive(Clone, Copy)]
pub(super) enum Offsets<'a> {
    /// All of them this far behind.
    Shifted(usize),
    /// One entry for each byte, and one for the end.
    Table(&'a [u32]),
}

impl<'a> Offsets<'a> {
    /// The offset of the byte at `pos`.
    pub(super) fn of(self, pos: usize) -> usize {
        match self {
            Offsets::Shifted(by) => pos + by,
            Offsets::Table(table) => table.get(pos).or(table.last()).map_or(0, |at| *at as usize),
        }
    }

    /// The offsets of a part of the text.
    pub(super) fn part(self, from: usize, to: usize) -> Offsets<'a> {
        match self {
            Offsets::Shifted(by) => Offsets::Shifted(by + from),
            Offsets::Table(table) => Offsets::Table(table.get(from..=to).unwrap_or_default()),
        }
    }
}

impl<'a> Parser<'a, '_> {
    /// The byte at a position, 0 behind the end.
    pub(super) fn byte(&self, pos: usize) -> u8 {
        self.text.as_bytes().get(pos).copied().unwrap_or(0)
    }

    /// The next byte, 0 at the end; joined lines are stepped over.
    pub(super) fn peek(&mut self) -> u8 {
        self.pos = self.joined(self.pos);
        self.byte(self.pos)
    }

    /// The byte behind the next one.
    pub(super) fn peek_second(&mut self) -> u8 {
        self.peek();
        self.byte(self.joined(self.pos + 1))
    }

    /// The position behind any joined lines.
    pub(super) fn joined(&self, mut pos: usize) -> usize {
        while self.byte(pos) == b'\\' && self.byte(pos + 1) == b'\n' {
            pos += 2;
        }
        pos
    }

    /// Takes the ASCII byte at the cursor.
    pub(super) fn bump(&mut self) {
        self.pos = (self.pos + 1).min(self.text.len());
        self.done = self.pos;
    }

    /// Takes the byte if it comes next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        if found {
            self.bump();
        }
        found
    }

    /// Takes both bytes if they come next.
    pub(super) fn take_pair(&mut self, first: u8, second: u8) -> bool {
        let found = self.peek() == first && self.peek_second() == second;
        if found {
            self.bump();
            self.take(second);
        }
        found
    }

    /// Takes the bytes up to the first that stops the run, and gives them.
    pub(super) fn run(&mut self, stops: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let length = rest.bytes().position(stops).unwrap_or(rest.len());
        self.pos += length;
        self.done = self.pos;
        rest.get(..length).unwrap_or_default()
    }

    /// Takes one character, whatever it is.
    pub(super) fn character(&mut self) -> Option<char> {
        let ch = self.text.get(self.pos..)?.chars().next()?;
        self.pos += ch.len_utf8();
        self.done = self.pos;
        Some(ch)
    }

    /// The source offset of the cursor.
    pub(super) fn offset(&self) -> usize {
        self.offsets.of(self.pos)
    }

    /// The source offset behind the last byte of a token.
    pub(super) fn behind(&self) -> usize {
        match self.done.checked_sub(1) {
            Some(last) => self.offsets.of(last) + 1,
            None => self.offsets.of(0),
        }
    }

    /// From a source offset to behind the last token.
    pub(super) fn span_from(&self, start: usize) -> Span {
        Span { start, end: self.behind().max(start) }
    }

    /// Steps over blanks, and a comment, which may start wherever a token may.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                b' ' | b'\t' => self.pos += 1,
                b'#' => {
                    let rest = self.text.get(self.pos..).unwrap_or_default();
                    self.pos += rest.bytes().position(|byte| byte == b'\n').unwrap_or(rest.len());
                    return;
                }
                _ => return,
            }
        }
    }

    /// Steps over blanks, comments and newlines, reading the here-documents that start behind them.
    pub(super) fn newlines(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if self.peek() != b'\n' {
                return Ok(());
            }
            self.newline()?;
        }
    }

    /// Steps over one newline and the here-documents behind it.
    pub(super) fn newline(&mut self) -> Parsed<()> {
        self.pos += 1;
        self.here_documents()
    }

    /// A fault that reaches from a source offset to the cursor.
    pub(super) fn fault(&self, reason: FaultReason, start: usize) -> Fault {
        Fault { reason, span: Span { start, end: self.offset().max(start) } }
    }

    /// The fault that what stands at the cursor is not expected; at the end of the text, that more is.
    pub(super) fn unexpected(&mut self) -> Fault {
        let start = self.offset();
        let reason =
            if self.peek() == 0 { FaultReason::UnterminatedCommand } else { FaultReason::Unexpected };
        let length = self.text.get(self.pos..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let end = self.offsets.of((self.pos + length).saturating_sub(1)) + 1;
        Fault { reason, span: Span { start, end: if length == 0 { start } else { end.max(start) } } }
    }
}

/// Whether a byte ends a word wherever it stands outside quotes.
pub(super) fn is_meta(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}

pub(super) fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(super) fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
