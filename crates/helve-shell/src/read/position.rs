//! What a word is to its command: keyword, assignment, name or argument.
//!
//! Only the words in front of a command's name need thought; the rest are arguments. Where a word may be a keyword in
//! one shell and a name in another, the word behind it is still taken for a name.

use super::Lexer;
use super::list::{End, ListReader};
use super::word::RawWord;
use crate::command::{Part, PartKind, Position};

/// The keywords after which the next words are read in their own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    None,
    Case,
    Coproc,
    Function,
    Time,
}

impl Lexer<'_> {
    /// True if the next word is a `{` or the next operator a `(`.
    fn group_follows(&self) -> bool {
        let behind_blanks = self.chars.get(self.pos..).unwrap_or_default();
        behind_blanks
            .iter()
            .find(|char| !matches!(char.ch, ' ' | '\t'))
            .is_some_and(|char| matches!(char.ch, '{' | '('))
    }
}

impl ListReader<'_, '_, '_> {
    /// The position of the next word of the segment.
    pub(super) fn position(&mut self, word: &RawWord) -> Position {
        let frame = &mut self.frame;
        let keyword = std::mem::replace(&mut frame.last_keyword, Keyword::None);
        match keyword {
            Keyword::Function => {
                self.out.defines_functions = true;
                return Position::FunctionName;
            }
            Keyword::Time if word.text.starts_with('-') => {
                frame.last_keyword = Keyword::Time;
                return Position::Keyword;
            }
            Keyword::Case if word.is_bare() && word.text == "in" && frame.named => return Position::Keyword,
            Keyword::Case => {
                frame.last_keyword = Keyword::Case;
                frame.named = true;
                return Position::Argument;
            }
            Keyword::Coproc if word.is_bare() && self.lexer.group_follows() => return Position::FunctionName,
            Keyword::Coproc | Keyword::Time | Keyword::None => {}
        }
        if frame.named {
            return Position::Argument;
        }
        if word.is_bare() {
            match word.text.as_str() {
                "if" | "then" | "else" | "elif" | "fi" | "while" | "until" | "do" | "done" | "!" => {
                    return Position::Keyword;
                }
                "{" => {
                    frame.braces += usize::from(self.end == End::Brace);
                    return Position::Keyword;
                }
                "}" => return Position::Keyword,
                "for" | "select" => {
                    frame.named = true;
                    return Position::Keyword;
                }
                "esac" => {
                    frame.cases = frame.cases.saturating_sub(1);
                    return Position::Keyword;
                }
                "coproc" => frame.last_keyword = Keyword::Coproc,
                "case" => frame.last_keyword = Keyword::Case,
                "function" => frame.last_keyword = Keyword::Function,
                "time" => frame.last_keyword = Keyword::Time,
                _ => {}
            }
            if frame.last_keyword != Keyword::None {
                return Position::Keyword;
            }
        }
        if is_assignment(word) {
            return Position::Assignment;
        }
        frame.named = true;
        Position::Name
    }
}

/// `NAME=…`, `NAME+=…` or `NAME[…]=…`, with everything up to the `=` written bare.
fn is_assignment(word: &RawWord) -> bool {
    let Some(Part { kind: PartKind::Bare, text, .. }) = word.parts.first() else { return false };
    let bare = word.text.get(text.clone()).unwrap_or_default();
    let Some((target, _)) = bare.split_once('=') else { return false };
    let target = target.strip_suffix('+').unwrap_or(target);
    let name = match target.split_once('[') {
        Some((name, rest)) if rest.ends_with(']') => name,
        Some(_) => return false,
        None => target,
    };
    let mut chars = name.chars();
    chars.next().is_some_and(|ch| ch.is_ascii_alphabetic() || ch == '_')
        && chars.all(|ch| ch.is_ascii_alphanumeric() || ch == '_')
}
