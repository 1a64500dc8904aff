//! Keywords: which word at the cursor is one.

use super::Parser;
use super::cursor::is_meta;

/// A word that means something to the grammar where a command may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    Bang,
    Case,
    Coproc,
    Do,
    Done,
    Elif,
    Else,
    Esac,
    Fi,
    For,
    Function,
    If,
    In,
    CloseBrace,
    CloseTest,
    OpenBrace,
    OpenTest,
    Select,
    Then,
    Time,
    Until,
    While,
}

/// The length of the longest keyword.
const LONGEST: usize = 8;

impl Keyword {
    fn of(word: &[u8], bash: bool) -> Option<Keyword> {
        Some(match word {
            b"!" => Keyword::Bang,
            b"case" => Keyword::Case,
            b"do" => Keyword::Do,
            b"done" => Keyword::Done,
            b"elif" => Keyword::Elif,
            b"else" => Keyword::Else,
            b"esac" => Keyword::Esac,
            b"fi" => Keyword::Fi,
            b"for" => Keyword::For,
            b"if" => Keyword::If,
            b"in" => Keyword::In,
            b"then" => Keyword::Then,
            b"until" => Keyword::Until,
            b"while" => Keyword::While,
            b"{" => Keyword::OpenBrace,
            b"}" => Keyword::CloseBrace,
            b"coproc" if bash => Keyword::Coproc,
            b"function" if bash => Keyword::Function,
            b"select" if bash => Keyword::Select,
            b"time" if bash => Keyword::Time,
            b"[[" if bash => Keyword::OpenTest,
            b"]]" if bash => Keyword::CloseTest,
            _ => return None,
        })
    }

    /// Whether a compound command starts with it.
    pub(super) fn opens(self) -> bool {
        matches!(
            self,
            Keyword::Case
                | Keyword::For
                | Keyword::If
                | Keyword::OpenBrace
                | Keyword::OpenTest
                | Keyword::Select
                | Keyword::Until
                | Keyword::While
        )
    }

    /// Whether a list ends before it.
    pub(super) fn closes(self) -> bool {
        matches!(
            self,
            Keyword::Do
                | Keyword::Done
                | Keyword::Elif
                | Keyword::Else
                | Keyword::Esac
                | Keyword::Fi
                | Keyword::CloseBrace
                | Keyword::Then
        )
    }
}

impl Parser<'_, '_> {
    /// The keyword at the cursor, if the word there is one, and the position behind it.
    fn find_keyword(&mut self) -> Option<(Keyword, usize)> {
        let first = self.peek();
        if !(first.is_ascii_lowercase() || matches!(first, b'!' | b'{' | b'}' | b'[' | b']')) {
            return None;
        }
        let mut word = [0; LONGEST];
        let mut length = 0;
        let mut pos = self.pos;
        loop {
            let byte = self.byte(pos);
            if is_meta(byte) {
                if matches!(byte, b'<' | b'>') && self.is_bash() && self.byte(self.joined(pos + 1)) == b'(' {
                    // The word goes on with a process substitution.
                    return None;
                }
                let keyword = Keyword::of(word.get(..length)?, self.is_bash())?;
                return Some((keyword, pos));
            }
            *word.get_mut(length)? = byte;
            length += 1;
            pos = self.joined(pos + 1);
        }
    }

    /// The keyword at the cursor.
    pub(super) fn keyword(&mut self) -> Option<Keyword> {
        self.find_keyword().map(|(keyword, _)| keyword)
    }

    /// Takes the keyword if it comes next.
    pub(super) fn take_keyword(&mut self, expected: Keyword) -> bool {
        match self.find_keyword() {
            Some((keyword, end)) if keyword == expected => {
                self.pos = end;
                self.done = end;
                true
            }
            _ => false,
        }
    }
}
