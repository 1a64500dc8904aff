//! Where the pieces of a word become fields: splitting, quote removal, patterns.

use crate::Span;
use crate::analysis::{Arg, ArgPart};

use super::text::Text;

/// How a word is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A word of a command: unquoted expansions are split, patterns are active.
    Fields,
    /// An assigned value or a redirection: one field, nothing is split, no pattern is active.
    One,
    /// A pattern of `case` or `${x#…}`: one field, patterns are active.
    Pattern,
}

/// Collects fields.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    done: &'a mut Vec<Arg>,
    parts: Vec<ArgPart>,
    started: bool,
    splits: bool,
    span: Span,
    mode: Mode,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(done: &'a mut Vec<Arg>, span: Span, mode: Mode) -> Self {
        Fields { done, parts: Vec::new(), started: false, splits: false, span, mode }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Text whose every character stands for itself.
    pub(crate) fn quoted(&mut self, text: &str) {
        self.started = true;
        self.literal(text);
    }

    /// Unquoted text of the script: patterns are active, but it is not split.
    pub(crate) fn plain(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.started = true;
        if self.mode == Mode::One {
            self.literal(text);
            return;
        }
        if let (Some(ArgPart::Glob(open)), true) = (self.parts.last_mut(), self.mode != Mode::One) {
            open.push_str(text);
            return;
        }
        match first_active(text) {
            Some(at) => {
                self.literal(&text[..at]);
                self.parts.push(ArgPart::Glob(text[at..].to_owned()));
                self.splits |= self.mode == Mode::Fields;
            }
            None => self.literal(text),
        }
    }

    /// The value of an expansion.
    pub(crate) fn value(&mut self, text: &Text, quoted: bool, separators: &str) {
        if quoted {
            self.started = true;
        }
        for part in text.parts() {
            match part {
                // A pattern inside a value stands for the names that it matched before.
                ArgPart::Glob(_) => {
                    self.started = true;
                    self.parts.push(part.clone());
                }
                ArgPart::Known(known) => {
                    if quoted {
                        self.literal(known);
                    } else if self.mode == Mode::Fields {
                        self.split(known, separators);
                    } else {
                        self.plain(known);
                    }
                }
                ArgPart::Unknown => self.unknown(quoted),
            }
        }
    }

    /// A stretch that cannot be known.
    pub(crate) fn unknown(&mut self, quoted: bool) {
        self.started |= quoted;
        self.splits |= !quoted && self.mode == Mode::Fields;
        if self.parts.last() != Some(&ArgPart::Unknown) {
            self.parts.push(ArgPart::Unknown);
        }
    }

    /// Any number of fields, of which nothing is known.
    pub(crate) fn unknown_fields(&mut self) {
        self.unknown(self.mode != Mode::Fields);
        self.splits |= self.mode == Mode::Fields;
    }

    /// Ends a field where the shell ends one whatever the quotes say: between the elements of `"$@"`.
    pub(crate) fn next(&mut self) {
        if self.mode == Mode::Fields {
            self.finish_field();
        } else {
            self.literal(" ");
        }
    }

    /// Ends the word. A word of which nothing is left is no field, except where one is always made.
    pub(crate) fn finish(mut self) {
        if self.mode != Mode::Fields && self.parts.is_empty() {
            self.started = true;
        }
        self.finish_field();
    }

    fn finish_field(&mut self) {
        if self.started || !self.parts.is_empty() {
            let mut parts = std::mem::take(&mut self.parts);
            if parts.is_empty() {
                parts.push(ArgPart::Known(String::new()));
            }
            self.done.push(Arg { parts, span: self.span, splits: self.splits });
        }
        self.started = false;
        self.splits = false;
    }

    fn split(&mut self, text: &str, separators: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let length = rest.find(|character| separators.contains(character)).unwrap_or(rest.len());
            self.plain(&rest[..length]);
            rest = &rest[length..];
            if rest.is_empty() {
                break;
            }
            // One delimiter is any whitespace with at most one other separator in it.
            let blanks = |text: &str| -> usize {
                let end = text
                    .find(|character: char| !(character.is_whitespace() && separators.contains(character)));
                end.unwrap_or(text.len())
            };
            rest = &rest[blanks(rest)..];
            if let Some(other) = rest.chars().next().filter(|next| separators.contains(*next)) {
                self.started = true;
                rest = &rest[other.len_utf8()..];
                rest = &rest[blanks(rest)..];
            }
            self.finish_field();
        }
    }

    fn literal(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(ArgPart::Known(last)) = self.parts.last_mut() {
            last.push_str(text);
        } else {
            self.parts.push(ArgPart::Known(text.to_owned()));
        }
    }
}

/// Where the first active character of unquoted text stands. A bracket needs its partner.
pub(crate) fn first_active(text: &str) -> Option<usize> {
    let closing = text.rfind(']');
    text.char_indices().find_map(|(at, character)| match character {
        '*' | '?' => Some(at),
        '[' if closing.is_some_and(|closing| closing > at + 1) => Some(at),
        _ => None,
    })
}
