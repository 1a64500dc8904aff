//! Cutting code into words, strings and marks, so that a name inside a string or a comment is not taken for a call.
//!
//! One scanner serves all languages; a [`Family`] says which comments and quotes it knows. It is no parser: it keeps
//! what a reader of calls needs and forgets the rest. Time is linear, the number of tokens is bounded.

use std::ops::Range;

/// The most tokens that are kept; what follows is not looked at.
const MAX_TOKENS: usize = 1 << 16;

/// Languages that are cut in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Python,
    Perl,
    Ruby,
    Node,
    Php,
    Lua,
    Awk,
    AppleScript,
    Julia,
    Tcl,
    Other,
}

impl Family {
    /// The family of a language that is neither PowerShell nor cmd.
    pub(super) fn of(language: &str) -> Family {
        match language {
            "python" => Family::Python,
            "perl" => Family::Perl,
            "ruby" => Family::Ruby,
            "node" | "javascript" | "deno" | "bun" => Family::Node,
            "php" => Family::Php,
            "lua" => Family::Lua,
            "awk" => Family::Awk,
            "osascript" | "applescript" => Family::AppleScript,
            "julia" => Family::Julia,
            "tcl" => Family::Tcl,
            _ => Family::Other,
        }
    }

    fn has_hash_comments(self) -> bool {
        !matches!(self, Family::Node | Family::Lua | Family::AppleScript)
    }

    fn has_slash_comments(self) -> bool {
        matches!(self, Family::Node | Family::Php)
    }

    fn has_dash_comments(self) -> bool {
        matches!(self, Family::Lua | Family::AppleScript)
    }

    fn has_patterns(self) -> bool {
        matches!(self, Family::Node | Family::Perl | Family::Ruby | Family::Awk)
    }

    fn ends_strings_at_line_ends(self) -> bool {
        matches!(self, Family::Python | Family::Node | Family::Lua | Family::Awk)
    }
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a number, with its sigil.
    Word,
    /// A string.
    Text(Quote),
    /// Text that the language itself hands to a shell: backquotes, `qx()`, `%x()`.
    Command,
    /// A pattern between slashes, and what belongs to it.
    Pattern,
    /// Any other character; a line end is one too.
    Mark(u8),
}

/// How the characters of a string are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    /// As they stand, but for a quoted quote.
    Plain,
    /// As they stand, a list of words.
    Words,
    /// With escapes.
    Escaped,
    /// With escapes and `{expressions}`.
    Formatted,
    /// With escapes and `${expressions}` or `#{expressions}`.
    Template,
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// With quotes.
    pub(super) span: Range<usize>,
    /// Without quotes.
    pub(super) inner: Range<usize>,
}

/// The tokens of a text.
pub(super) fn cut(family: Family, text: &str) -> Vec<Token> {
    let mut cutter =
        Cutter { family, bytes: text.as_bytes(), at: 0, tokens: Vec::new(), no_pattern_before: 0 };
    while cutter.at < cutter.bytes.len() && cutter.tokens.len() < MAX_TOKENS {
        cutter.step();
    }
    cutter.tokens
}

struct Cutter<'a> {
    family: Family,
    bytes: &'a [u8],
    at: usize,
    tokens: Vec<Token>,
    /// A slash before this offset starts no pattern: the line was searched for its end in vain.
    no_pattern_before: usize,
}

impl Cutter<'_> {
    fn step(&mut self) {
        let byte = self.peek(0);
        match byte {
            b' ' | b'\t' | b'\r' => self.at += 1,
            b'#' if self.family.has_hash_comments() => self.skip_line(),
            b'/' if self.family.has_slash_comments() && self.peek(1) == b'/' => self.skip_line(),
            b'/' if self.family.has_slash_comments() && self.peek(1) == b'*' => self.skip_past(2, b"*/"),
            b'-' if self.family.has_dash_comments() && self.peek(1) == b'-' => {
                if self.family == Family::Lua && self.long_bracket(2).is_some() {
                    self.at += 2;
                    self.lua_text(false);
                } else {
                    self.skip_line();
                }
            }
            b'[' if self.family == Family::Lua && self.long_bracket(0).is_some() => self.lua_text(true),
            b'"' | b'\'' => self.quoted(Quote::Escaped),
            b'`' => self.backquoted(),
            b'/' if self.family.has_patterns() && self.pattern_may_start() => self.pattern(),
            b'%' if self.family == Family::Ruby && (self.value_may_start() || self.hugs_its_right()) => {
                self.ruby_percent();
            }
            byte if is_word_start(byte) => self.word(),
            byte => self.push(Kind::Mark(byte), self.at..self.at + 1, self.at..self.at + 1),
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: Kind, span: Range<usize>, inner: Range<usize>) {
        self.at = span.end;
        self.tokens.push(Token { kind, span, inner });
    }

    fn skip_line(&mut self) {
        while self.at < self.bytes.len() && self.bytes[self.at] != b'\n' {
            self.at += 1;
        }
    }

    fn skip_past(&mut self, from: usize, end: &[u8]) {
        let start = (self.at + from).min(self.bytes.len());
        let found = self.bytes[start..].windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.bytes.len(), |found| start + found + end.len());
    }

    fn word(&mut self) {
        let start = self.at;
        let mut end = start + 1;
        while end < self.bytes.len() && is_word_part(self.bytes[end]) {
            end += 1;
        }
        let word = &self.bytes[start..end];
        let next = self.bytes.get(end).copied().unwrap_or(0);
        if self.family == Family::Python && matches!(next, b'"' | b'\'') && is_python_prefix(word) {
            self.at = end;
            let has = |letter: u8| word.iter().any(|byte| byte.eq_ignore_ascii_case(&letter));
            self.quoted(match (has(b'f'), has(b'r')) {
                (true, _) => Quote::Formatted,
                (false, true) => Quote::Plain,
                (false, false) => Quote::Escaped,
            });
            return;
        }
        if self.family == Family::Perl && self.perl_quote_follows(word, next) {
            let word = word.to_vec();
            self.at = end;
            self.perl_quote(&word);
            return;
        }
        // A length such as `$#list` is one word, no comment.
        if self.family == Family::Perl && word == b"$" && next == b'#' {
            end += 1;
        }
        self.push(Kind::Word, start..end, start..end);
    }

    /// A string in single or double quotes, or in three of them.
    fn quoted(&mut self, quote: Quote) {
        let mark = self.peek(0);
        let triple = matches!(self.family, Family::Python | Family::Julia)
            && self.peek(1) == mark
            && self.peek(2) == mark;
        let quote = match (self.family, mark) {
            (Family::Perl | Family::Php | Family::Ruby, b'\'') => Quote::Plain,
            (Family::Ruby, _) => Quote::Template,
            _ => quote,
        };
        let width = if triple { 3 } else { 1 };
        let start = self.at;
        let mut end = start + width;
        while end < self.bytes.len() {
            match self.bytes[end] {
                b'\\' => end += 1,
                b'\n' if !triple && self.family.ends_strings_at_line_ends() => break,
                byte if byte == mark && !triple => break,
                byte if byte == mark && self.bytes[end..].starts_with(&[mark, mark, mark]) => break,
                _ => {}
            }
            end += 1;
        }
        let inner_end = end.min(self.bytes.len());
        let closed = inner_end < self.bytes.len() && self.bytes[inner_end] == mark;
        let span_end = if closed { inner_end + width } else { inner_end };
        let inner_start = (start + width).min(inner_end);
        self.push(Kind::Text(quote), start..span_end, inner_start..inner_end);
    }

    fn backquoted(&mut self) {
        let kind = match self.family {
            Family::Node => Kind::Text(Quote::Template),
            Family::Perl | Family::Ruby | Family::Php | Family::Julia => Kind::Command,
            _ => Kind::Mark(b'`'),
        };
        if let Kind::Mark(_) = kind {
            self.push(kind, self.at..self.at + 1, self.at..self.at + 1);
        } else {
            let start = self.at;
            let end = self.find_end(start + 1, b'`', b'`');
            self.push(kind, start..(end + 1).min(self.bytes.len()), start + 1..end);
        }
    }

    /// The offset of the byte that closes what opened just before `from`; the end of the text if nothing does.
    fn find_end(&self, from: usize, open: u8, close: u8) -> usize {
        let mut depth = 0usize;
        let mut at = from;
        while at < self.bytes.len() {
            let byte = self.bytes[at];
            if byte == b'\\' {
                at += 1;
            } else if byte == close {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
            } else if byte == open {
                depth += 1;
            }
            at += 1;
        }
        self.bytes.len()
    }

    /// Whether a value, not an operator, can stand here.
    fn value_may_start(&self) -> bool {
        match self.tokens.last().map(|token| token.kind) {
            Some(Kind::Word) => {
                let word = &self.bytes[self.tokens[self.tokens.len() - 1].span.clone()];
                matches!(
                    word,
                    b"return"
                        | b"if"
                        | b"unless"
                        | b"and"
                        | b"or"
                        | b"not"
                        | b"when"
                        | b"split"
                        | b"grep"
                        | b"puts"
                        | b"print"
                        | b"eval"
                        | b"case"
                        | b"typeof"
                        | b"in"
                        | b"of"
                        | b"while"
                )
            }
            Some(Kind::Text(_) | Kind::Command | Kind::Pattern) => false,
            Some(Kind::Mark(mark)) => !matches!(mark, b')' | b']' | b'}'),
            None => true,
        }
    }

    /// Whether a blank stands before this character and none behind it, by which Ruby tells `x %w(a)` from `x % w`.
    fn hugs_its_right(&self) -> bool {
        let blank_before = self.at.checked_sub(1).is_some_and(|at| self.bytes[at] == b' ');
        blank_before && !self.peek(1).is_ascii_whitespace()
    }

    fn pattern_may_start(&self) -> bool {
        self.at >= self.no_pattern_before
            && (self.value_may_start()
                || self.tokens.last().is_some_and(|token| token.kind == Kind::Mark(b'}')))
    }

    fn pattern(&mut self) {
        let start = self.at;
        let mut end = start + 1;
        let mut in_class = false;
        while end < self.bytes.len() && self.bytes[end] != b'\n' {
            match self.bytes[end] {
                b'\\' => end += 1,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => {
                    self.push(Kind::Pattern, start..end + 1, start + 1..end);
                    return;
                }
                _ => {}
            }
            end += 1;
        }
        self.no_pattern_before = end;
        self.push(Kind::Mark(b'/'), start..start + 1, start..start + 1);
    }

    /// `%x(…)`, `%q(…)`, `%w[…]` and their like in Ruby.
    fn ruby_percent(&mut self) {
        let letter = self.peek(1);
        let skip = if letter.is_ascii_alphabetic() { 2 } else { 1 };
        let open = self.peek(skip);
        let usable =
            open.is_ascii_punctuation() && open != b'=' && (skip == 1 || b"xqQwWiIrs".contains(&letter));
        if !usable {
            self.push(Kind::Mark(b'%'), self.at..self.at + 1, self.at..self.at + 1);
            return;
        }
        let start = self.at;
        let inner = start + skip + 1;
        let end = self.find_end(inner, open, closing(open));
        let kind = match letter {
            b'x' if skip == 2 => Kind::Command,
            b'r' if skip == 2 => Kind::Pattern,
            b'q' if skip == 2 => Kind::Text(Quote::Plain),
            b'w' | b'W' | b'i' | b'I' if skip == 2 => Kind::Text(Quote::Words),
            _ => Kind::Text(Quote::Template),
        };
        self.push(kind, start..(end + 1).min(self.bytes.len()), inner..end);
    }

    /// Whether a word of Perl is a quoting operator here, and no name, key or method.
    fn perl_quote_follows(&self, word: &[u8], next: u8) -> bool {
        let operator = matches!(word, b"q" | b"qq" | b"qx" | b"qw" | b"qr" | b"m" | b"s" | b"y" | b"tr");
        let after_arrow = matches!(
            self.tokens.last().map(|token| token.kind),
            Some(Kind::Mark(b'>' | b'$' | b'@' | b'%' | b'&'))
        );
        operator
            && !after_arrow
            && next.is_ascii_punctuation()
            && !matches!(next, b',' | b';' | b')' | b'}' | b'=' | b'_')
    }

    fn perl_quote(&mut self, word: &[u8]) {
        let open = self.peek(0);
        let start = self.at;
        let end = self.find_end(start + 1, open, closing(open));
        let mut span_end = (end + 1).min(self.bytes.len());
        let kind = match word {
            b"q" => Kind::Text(Quote::Plain),
            b"qw" => Kind::Text(Quote::Words),
            b"qq" => Kind::Text(Quote::Escaped),
            b"qx" => Kind::Command,
            _ => Kind::Pattern,
        };
        if matches!(word, b"s" | b"y" | b"tr") {
            let mut second = span_end;
            if closing(open) != open {
                while second < self.bytes.len() && self.bytes[second].is_ascii_whitespace() {
                    second += 1;
                }
                second += 1;
            }
            span_end = (self.find_end(second, open, closing(open)) + 1).min(self.bytes.len());
        }
        self.push(kind, start..span_end, (start + 1).min(end)..end);
    }

    /// How many `=` stand in the long bracket of Lua that starts so many bytes ahead.
    fn long_bracket(&self, ahead: usize) -> Option<usize> {
        let level = self.bytes.get(self.at + ahead + 1..)?.iter().take_while(|byte| **byte == b'=').count();
        (self.peek(ahead) == b'[' && self.peek(ahead + 1 + level) == b'[').then_some(level)
    }

    fn lua_text(&mut self, keep: bool) {
        let level = self.long_bracket(0).unwrap_or(0);
        let start = self.at;
        let inner = start + level + 2;
        let mut close = vec![b'='; level + 2];
        close[0] = b']';
        close[level + 1] = b']';
        self.skip_past(level + 2, &close);
        let closed = self.bytes[inner.min(self.at)..self.at].ends_with(&close);
        let end = if closed { self.at - close.len() } else { self.at };
        if keep {
            self.push(Kind::Text(Quote::Plain), start..self.at, inner.min(end)..end);
        }
    }
}

fn closing(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        b'<' => b'>',
        other => other,
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'@') || byte >= 0x80
}

fn is_word_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_python_prefix(word: &[u8]) -> bool {
    word.len() <= 2 && word.iter().all(|byte| b"rRbBfFuUtT".contains(byte))
}
