//! A glob for one part of a path: `*`, `?`, `[a-z]`, `[!x]`, and backslashes.

use crate::rules::braces::Mark;

/// No file system has a name that is longer, in bytes.
const LONGEST_NAME: usize = 4096;

/// The most pairs of parts of two globs that are held against each other.
const MAX_MEETING: usize = 1 << 14;

/// A glob for one part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartGlob(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
    Class { not: bool, ranges: Vec<(char, char)> },
}

impl Token {
    fn takes(&self, ch: char) -> bool {
        match self {
            Token::Char(own) => *own == ch,
            Token::One | Token::Many => true,
            Token::Class { not, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&ch)) != *not
            }
        }
    }

    /// Whether one character may fit both.
    fn may_meet(&self, other: &Token) -> bool {
        match (self, other) {
            (Token::Char(ch), token) | (token, Token::Char(ch)) => token.takes(*ch),
            _ => true,
        }
    }
}

impl PartGlob {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut chars = text.chars();
        while let Some(ch) = chars.next() {
            let token = match ch {
                '*' if tokens.last() == Some(&Token::Many) => continue,
                '*' => Token::Many,
                '?' => Token::One,
                '\\' => Token::Char(
                    chars.next().ok_or_else(|| format!("{text:?} ends in a backslash; double it"))?,
                ),
                '[' => class(&mut chars).ok_or_else(|| {
                    format!("a `[` in {text:?} is never closed; close it, or put a backslash before it")
                })?,
                ch => Token::Char(ch),
            };
            tokens.push(token);
        }
        Ok(PartGlob(tokens))
    }

    /// What stands for one name.
    pub(super) fn of(name: &str) -> Self {
        PartGlob(name.chars().map(Token::Char).collect())
    }

    /// Whether the whole name fits.
    pub(super) fn matches(&self, name: &str) -> bool {
        if name.len() > LONGEST_NAME {
            return false;
        }
        let tokens = self.0.as_slice();
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut token) = (0, 0);
        // Where to go on when what follows the last star does not fit.
        let mut star: Option<(usize, usize)> = None;
        while at < name.len() {
            match (tokens.get(token), name.get(at)) {
                (Some(Token::Many), _) => {
                    star = Some((token + 1, at));
                    token += 1;
                }
                (Some(own), Some(ch)) if own.takes(*ch) => {
                    token += 1;
                    at += 1;
                }
                _ => match star {
                    Some((after, from)) => {
                        star = Some((after, from + 1));
                        (token, at) = (after, from + 1);
                    }
                    None => return false,
                },
            }
        }
        tokens.get(token..).unwrap_or_default().iter().all(|token| *token == Token::Many)
    }

    /// Whether a part of a shell's pattern and this glob can have a name in common.
    pub(super) fn may_share(&self, pattern: &str) -> bool {
        match (self.literal(), PartGlob::parse(pattern)) {
            // The shell's `*` and `?` leave out names that start with a dot.
            (Some(name), Ok(_)) if name.starts_with('.') && pattern.starts_with(['*', '?', '[']) => false,
            (Some(name), Ok(other)) => other.matches(&name),
            (None, Ok(other)) => match other.literal() {
                Some(name) => self.matches(&name),
                // Shells may have further words in patterns, as in `@(a|b*)`.
                None => pattern.contains(['(', '|', ')', '\\']) || self.may_meet(&other),
            },
            (_, Err(_)) => self.matches(pattern),
        }
    }

    /// Whether a name may fit both. Long ones are taken to have one, and so are two classes.
    pub(super) fn may_meet(&self, other: &PartGlob) -> bool {
        let (own, others) = (self.0.as_slice(), other.0.as_slice());
        if own.len().saturating_mul(others.len()) > MAX_MEETING {
            return true;
        }
        // Which first parts of the other fit what the first part of this one does.
        let mut met = vec![false; others.len() + 1];
        if let Some(none) = met.first_mut() {
            *none = true;
        }
        let pass_many = |met: &mut [bool]| {
            for (at, token) in others.iter().enumerate() {
                if *token == Token::Many && met.get(at) == Some(&true) {
                    met.iter_mut().skip(at + 1).take(1).for_each(|next| *next = true);
                }
            }
        };
        pass_many(&mut met);
        for token in own {
            let mut next = vec![false; met.len()];
            for (at, reached) in met.iter().enumerate() {
                let other = others.get(at);
                if *token == Token::Many {
                    // It stands for nothing, or for what the other has next as well.
                    let behind = next.get(at.wrapping_sub(1)) == Some(&true);
                    next.iter_mut().skip(at).take(1).for_each(|next| *next = *reached || behind);
                } else if *reached && let Some(other) = other {
                    let to = if *other == Token::Many { at } else { at + 1 };
                    let meets = token.may_meet(other);
                    next.iter_mut().skip(to).take(1).for_each(|next| *next |= meets);
                }
            }
            pass_many(&mut next);
            met = next;
        }
        met.last() == Some(&true)
    }

    /// The same in the words of a `.gitignore` file; a class that cannot be said there is any one character.
    pub(super) fn to_ignore_pattern(&self) -> String {
        let plain = |ch: char| !"\\[]!^-".contains(ch);
        let mut text = String::new();
        for token in &self.0 {
            match token {
                Token::Char(ch) => {
                    if "*?[]{}\\! ".contains(*ch) {
                        text.push('\\');
                    }
                    text.push(*ch);
                }
                Token::Many => text.push('*'),
                Token::Class { not, ranges }
                    if ranges.iter().all(|(a, b)| plain(*a) && plain(*b) && a <= b) =>
                {
                    text.push_str(if *not { "[!" } else { "[" });
                    text.extend(ranges.iter().flat_map(|(from, to)| [*from, '-', *to]));
                    text.push(']');
                }
                Token::One | Token::Class { .. } => text.push('?'),
            }
        }
        text
    }

    /// The one name that it stands for.
    pub(super) fn literal(&self) -> Option<String> {
        let plain = |token: &Token| match token {
            Token::Char(ch) => Some(*ch),
            _ => None,
        };
        self.0.iter().map(plain).collect()
    }
}

/// The characters of a glob, and whether braces and commas among them may mean something: not behind a backslash, nor in
/// a class.
pub(super) fn marked(text: &str) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut chars = text.chars();
    while let Some(ch) = chars.next() {
        marks.push((ch, true));
        let before = chars.clone();
        let skipped = match ch {
            '\\' => chars.next().map_or(0, char::len_utf8),
            '[' if class(&mut chars).is_some() => before.as_str().len() - chars.as_str().len(),
            _ => 0,
        };
        marks.extend(before.as_str().get(..skipped).unwrap_or_default().chars().map(|ch| (ch, false)));
    }
    marks
}

/// The rest of `[…]` after its bracket.
fn class(chars: &mut std::str::Chars<'_>) -> Option<Token> {
    let mut ahead = chars.clone();
    let mut next = ahead.next()?;
    let not = matches!(next, '!' | '^');
    if not {
        next = ahead.next()?;
    }
    let mut ranges = Vec::new();
    loop {
        let from = if next == '\\' { ahead.next()? } else { next };
        let mut peek = ahead.clone();
        match (peek.next(), peek.next()) {
            (Some('-'), Some(to)) if to != ']' => {
                ranges.push((from, to));
                ahead = peek;
            }
            _ => ranges.push((from, from)),
        }
        next = ahead.next()?;
        if next == ']' {
            *chars = ahead;
            return Some(Token::Class { not, ranges });
        }
    }
}
