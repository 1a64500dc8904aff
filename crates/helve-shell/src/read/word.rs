//! Reading one word: bare text, backslashes, and the three kinds of quotes.
//!
//! In comes a cursor at the first character of a word, out goes its text without quotes and the parts that it is made of.
//! Expansions are left to the expansion reader and stand in the text as they are written.

use super::{Lexer, Output, ansi};
use crate::command::{Opaque, OpaqueReason, Part, PartKind, Span};

/// A word before its place in the command is known.
pub(super) struct RawWord {
    pub(super) text: String,
    pub(super) known: bool,
    pub(super) glob: bool,
    pub(super) span: Span,
    pub(super) parts: Vec<Part>,
}

impl RawWord {
    pub(super) fn is_bare(&self) -> bool {
        self.parts.iter().all(|part| part.kind == PartKind::Bare)
    }

    /// Lengthens the last part if it is of the same kind and touches, else starts a new one.
    fn add(&mut self, kind: PartKind, text: &str, span: Span) {
        let from = self.text.len();
        self.text.push_str(text);
        let to = self.text.len();
        match self.parts.last_mut() {
            Some(last) if last.kind == kind && kind.merges() && last.span.end == span.start => {
                last.text.end = to;
                last.span.end = span.end;
            }
            _ => self.parts.push(Part { kind, text: from..to, span }),
        }
    }

    fn add_char(&mut self, kind: PartKind, ch: char, span: Span) {
        self.add(kind, ch.encode_utf8(&mut [0; 4]), span);
    }
}

impl PartKind {
    /// Quotes that touch are still two pairs of quotes.
    fn merges(self) -> bool {
        matches!(self, PartKind::Bare | PartKind::Escaped)
    }
}

/// Characters that end a word when they stand unquoted.
fn ends_word(ch: char) -> bool {
    matches!(ch, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

impl Lexer<'_> {
    /// True if a word starts at the cursor.
    pub(super) fn at_word(&self) -> bool {
        match self.peek() {
            None => false,
            Some('<' | '>') => self.peek_at(1) == Some('('),
            Some(ch) => !ends_word(ch),
        }
    }

    /// Reads one word. The commands inside its substitutions start in `scope`.
    pub(super) fn word(&mut self, out: &mut Output, scope: usize) -> Result<RawWord, Opaque> {
        let start = self.offset();
        let mut word = RawWord {
            text: String::new(),
            known: true,
            glob: false,
            span: Span { start, end: start },
            parts: Vec::new(),
        };
        let mut braces = Braces::default();
        let mut bracket = false;
        while let Some(ch) = self.peek() {
            let at = self.offset();
            match ch {
                '\\' if self.peek_at(1) == Some('\n') => {
                    self.pos += 2;
                    continue;
                }
                '\\' => {
                    self.pos += 1;
                    // A backslash at the very end stands for itself.
                    let escaped = self.peek().unwrap_or('\\');
                    self.pos = (self.pos + 1).min(self.chars.len());
                    word.add_char(PartKind::Escaped, escaped, Span { start: at, end: self.offset_behind() });
                }
                '\'' => {
                    let text = self.single()?;
                    word.add(PartKind::Single, &text, Span { start: at, end: self.offset_behind() });
                }
                '"' => self.double(out, scope, &mut word)?,
                '$' | '`' => self.expand_into(out, scope, &mut word, false)?,
                '<' | '>' if self.peek_at(1) == Some('(') => {
                    let from = self.pos;
                    self.pos += 2;
                    self.commands(out, scope, at)?;
                    self.add_expansion(&mut word, PartKind::Expansion, from, at);
                }
                _ if ends_word(ch) => break,
                _ => {
                    self.pos += 1;
                    bracket |= ch == '[';
                    word.glob |= matches!(ch, '*' | '?') || bracket && ch == ']';
                    braces.see(ch);
                    word.add_char(PartKind::Bare, ch, Span { start: at, end: self.offset_behind() });
                }
            }
        }
        word.known &= !braces.expand;
        word.span.end = word.parts.last().map_or(start, |part| part.span.end);
        Ok(word)
    }

    /// Reads `'…'` and gives what is between the quotes.
    pub(super) fn single(&mut self) -> Result<String, Opaque> {
        let start = self.offset();
        self.pos += 1;
        let mut text = String::new();
        while let Some(ch) = self.peek() {
            self.pos += 1;
            if ch == '\'' {
                return Ok(text);
            }
            text.push(ch);
        }
        Err(self.opaque(OpaqueReason::UnterminatedQuote, start))
    }

    /// Reads `"…"` into the word.
    pub(super) fn double(
        &mut self,
        out: &mut Output,
        scope: usize,
        word: &mut RawWord,
    ) -> Result<(), Opaque> {
        let start = self.offset();
        self.pos += 1;
        let mut from = start;
        let mut text = String::new();
        let mut empty = true;
        loop {
            self.join_lines();
            let Some(ch) = self.peek() else {
                return Err(self.opaque(OpaqueReason::UnterminatedQuote, start));
            };
            match ch {
                '"' => {
                    self.pos += 1;
                    if !text.is_empty() || empty {
                        word.add(PartKind::Double, &text, Span { start: from, end: self.offset_behind() });
                    }
                    return Ok(());
                }
                '\\' if matches!(self.peek_at(1), Some('$' | '`' | '"' | '\\')) => {
                    text.extend(self.peek_at(1));
                    self.pos += 2;
                }
                '$' | '`' => {
                    if !text.is_empty() {
                        word.add(PartKind::Double, &text, Span { start: from, end: self.offset() });
                        text.clear();
                    }
                    let parts = word.parts.len();
                    self.expand_into(out, scope, word, true)?;
                    empty &= word.parts.len() == parts;
                    from = self.offset();
                }
                _ => {
                    text.push(ch);
                    self.pos += 1;
                }
            }
        }
    }

    /// Reads `$'…'` into the word, the cursor standing on the `$`.
    fn ansi_c(&mut self, word: &mut RawWord) -> Result<(), Opaque> {
        let start = self.offset();
        self.pos += 2;
        let mut raw = String::new();
        while let Some(ch) = self.peek() {
            self.pos += 1;
            match ch {
                '\'' => {
                    let (text, exact) = ansi::decode(&raw);
                    word.known &= exact;
                    word.add(PartKind::AnsiC, &text, Span { start, end: self.offset_behind() });
                    return Ok(());
                }
                '\\' => {
                    raw.push(ch);
                    raw.extend(self.peek());
                    self.pos = (self.pos + 1).min(self.chars.len());
                }
                _ => raw.push(ch),
            }
        }
        Err(self.opaque(OpaqueReason::UnterminatedQuote, start))
    }

    /// Reads what starts with `$` or a backtick into the word.
    fn expand_into(
        &mut self,
        out: &mut Output,
        scope: usize,
        word: &mut RawWord,
        in_double: bool,
    ) -> Result<(), Opaque> {
        let (from, start) = (self.pos, self.offset());
        if !in_double && self.peek() == Some('$') {
            match self.peek_at(1) {
                Some('\'') => return self.ansi_c(word),
                Some('"') => {
                    // `$"…"` is a double-quoted text in the user's language.
                    self.pos += 1;
                    return self.double(out, scope, word);
                }
                _ => {}
            }
        }
        match self.expansion(out, scope, in_double)? {
            Some(kind) => self.add_expansion(word, kind, from, start),
            None => {
                let kind = if in_double { PartKind::Double } else { PartKind::Bare };
                word.add(kind, "$", Span { start, end: self.offset_behind() });
            }
        }
        Ok(())
    }

    /// Puts the characters from `from` to the cursor into the word as they are written.
    fn add_expansion(&self, word: &mut RawWord, kind: PartKind, from: usize, start: usize) {
        let text: String =
            self.chars.get(from..self.pos).unwrap_or_default().iter().map(|char| char.ch).collect();
        word.known = false;
        word.add(kind, &text, Span { start, end: self.offset_behind() });
    }
}

/// Notices `{a,b}` and `{1..3}`, which bash replaces by several words.
#[derive(Default)]
struct Braces {
    open: usize,
    listed: bool,
    last: char,
    expand: bool,
}

impl Braces {
    fn see(&mut self, ch: char) {
        match ch {
            '{' => self.open += 1,
            ',' => self.listed |= self.open > 0,
            '.' => self.listed |= self.open > 0 && self.last == '.',
            '}' => self.expand |= self.listed && self.open > 0,
            _ => {}
        }
        self.last = ch;
    }
}
