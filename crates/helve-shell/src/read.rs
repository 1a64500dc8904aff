//! Reading the text of a command: one pass from left to right, no guessing, no failure.
//!
//! ```text
//! text ─ characters with their offsets ─ list (segments) ─ word (quotes) ─ expansion ($…, backticks) ─ list …
//! ```
//!
//! A substitution is read by the same list reader one level deeper; the depth is bounded, everything else is a loop.
//! Characters carry their source offset, so that text inside backticks can be unescaped and still be pointed at.
//! Where bash and a POSIX shell differ, the reading is the one that sees more commands. When something is never
//! closed or too deep, reading stops and the command is opaque.
//!
//! Not here: `[[ … ]]` and `(( … ))` as grammar (they are read like commands and subshells, which is what a POSIX shell
//! does with them), aliases, and what any command does.

mod ansi;
mod expansion;
mod heredoc;
mod list;
mod position;
mod word;

use crate::Span;
use crate::command::{Command, Entry, Opaque, OpaqueReason, Scope, Segment};

/// The longest text that is read, in bytes.
pub const MAX_LENGTH: usize = 64 * 1024;

/// How deep substitutions may be nested.
pub const MAX_DEPTH: usize = 16;

/// Reads a shell command. Never fails: what cannot be read is marked opaque.
///
/// ```
/// let command = helve_shell::read(r#"cd src && grep -n 'a b' "x y".rs > out"#);
/// assert_eq!(command.segments.len(), 2);
/// assert_eq!(command.segments[1].name().map(|word| word.text.as_str()), Some("grep"));
/// assert_eq!(command.opaque, None);
/// ```
pub fn read(text: &str) -> Command {
    let mut out = Output {
        segments: Vec::new(),
        scopes: vec![Scope { parent: 0, entry: Entry::Substitution }],
        defines_functions: false,
        unclosed: None,
    };
    let stopped = check(text).err().or_else(|| {
        let chars: Vec<Char> = text.char_indices().map(|(at, ch)| Char { ch, at }).collect();
        Lexer::new(&chars, text.len(), 0).list(&mut out, list::End::Input, 0, false).err()
    });
    Command {
        text: text.to_owned(),
        segments: out.segments,
        opaque: stopped.or(out.unclosed),
        scopes: out.scopes,
        defines_functions: out.defines_functions,
    }
}

/// Refuses what must not even be looked at.
fn check(text: &str) -> Result<(), Opaque> {
    if text.len() > MAX_LENGTH {
        return Err(Opaque { reason: OpaqueReason::TooLong, span: Span { start: 0, end: text.len() } });
    }
    match text.find('\0') {
        Some(at) => Err(Opaque { reason: OpaqueReason::Nul, span: Span { start: at, end: at + 1 } }),
        None => Ok(()),
    }
}

/// A character and the byte offset at which it stands in the source.
#[derive(Debug, Clone, Copy)]
struct Char {
    ch: char,
    at: usize,
}

/// What the readers of all levels add to.
struct Output {
    segments: Vec<Segment>,
    scopes: Vec<Scope>,
    defines_functions: bool,
    /// The first here-document without an end line.
    unclosed: Option<Opaque>,
}

/// A cursor over characters, at one level of nesting.
struct Lexer<'a> {
    chars: &'a [Char],
    pos: usize,
    /// Source offset after the last character.
    end: usize,
    depth: usize,
}

impl<'a> Lexer<'a> {
    fn new(chars: &'a [Char], end: usize, depth: usize) -> Self {
        Lexer { chars, pos: 0, end, depth }
    }

    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.pos + ahead).map(|char| char.ch)
    }

    /// The source offset of the cursor.
    fn offset(&self) -> usize {
        self.offset_of(self.pos)
    }

    fn offset_of(&self, pos: usize) -> usize {
        self.chars.get(pos).map_or(self.end, |char| char.at)
    }

    /// The source offset after the character before the cursor.
    fn offset_behind(&self) -> usize {
        match self.pos.checked_sub(1).and_then(|pos| self.chars.get(pos)) {
            Some(char) => char.at + char.ch.len_utf8(),
            None => self.offset(),
        }
    }

    /// Steps over every backslash-newline at the cursor: to the shell they are not there.
    fn join_lines(&mut self) {
        while self.peek() == Some('\\') && self.peek_at(1) == Some('\n') {
            self.pos += 2;
        }
    }

    /// Takes the character if it comes next.
    fn take(&mut self, expected: char) -> bool {
        self.join_lines();
        let found = self.peek() == Some(expected);
        if found {
            self.pos += 1;
        }
        found
    }

    fn opaque(&self, reason: OpaqueReason, start: usize) -> Opaque {
        let end = self.offset_behind().max(start);
        Opaque { reason, span: Span { start, end } }
    }

    /// One level deeper, or the refusal to go there.
    fn deeper(&self, start: usize) -> Result<usize, Opaque> {
        if self.depth >= MAX_DEPTH {
            return Err(self.opaque(OpaqueReason::TooDeep, start));
        }
        Ok(self.depth + 1)
    }
}
