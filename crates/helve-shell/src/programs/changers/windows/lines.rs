//! Text for PowerShell and `cmd`, cut into commands and words.

use std::ops::Range;

/// The most words of one command that are kept.
const MAX_WORDS: usize = 256;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Line {
    /// Its name and arguments.
    pub(super) words: Vec<Word>,
}

impl Line {
    /// Where it stands.
    pub(super) fn range(&self) -> Range<usize> {
        let start = self.words.first().map_or(0, |word| word.range.start);
        start..self.words.last().map_or(start, |word| word.range.end)
    }
}

/// A word without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// With its quotes.
    pub(super) range: Range<usize>,
}

/// What differs between the two languages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    PowerShell,
    Cmd,
}

pub(super) fn powershell(text: &str) -> Vec<Line> {
    cut(text, Language::PowerShell)
}

pub(super) fn cmd(text: &str) -> Vec<Line> {
    cut(text, Language::Cmd)
}

fn cut(text: &str, language: Language) -> Vec<Line> {
    let mut cutter = Cutter { text, language, lines: Vec::new(), line: Line::default(), word: None };
    let mut at = 0;
    while let Some(ch) = text[at..].chars().next() {
        at = cutter.step(at, ch);
    }
    cutter.end_line(text.len());
    cutter.lines
}

struct Cutter<'a> {
    text: &'a str,
    language: Language,
    lines: Vec<Line>,
    line: Line,
    /// The word that is being read, and where it starts.
    word: Option<(usize, String)>,
}

impl Cutter<'_> {
    /// Reads from `at` and says where to go on.
    fn step(&mut self, at: usize, ch: char) -> usize {
        let rest = &self.text[at..];
        let is_powershell = self.language == Language::PowerShell;
        let escape = if is_powershell { '`' } else { '^' };
        match ch {
            _ if ch == escape => {
                let escaped = rest.chars().nth(1);
                // A line end behind it goes on with the same command.
                if let Some(escaped) = escaped.filter(|escaped| !matches!(escaped, '\n' | '\r')) {
                    self.push(at, escaped);
                }
                at + 1 + escaped.map_or(0, char::len_utf8)
            }
            '#' if is_powershell && self.word.is_none() => at + rest.find('\n').unwrap_or(rest.len()),
            '<' if is_powershell && rest.starts_with("<#") => {
                at + rest.find("#>").map_or(rest.len(), |end| end + 2)
            }
            '@' if is_powershell && (rest.starts_with("@'") || rest.starts_with("@\"")) => {
                let close = if rest.starts_with("@'") { "'@" } else { "\"@" };
                let end = rest[2..].find(close).map_or(rest.len(), |end| end + 2);
                self.push_text(at, &rest[2..end]);
                at + (end + 2).min(rest.len())
            }
            '\'' if is_powershell => self.quoted(at, '\''),
            '"' => self.quoted(at, '"'),
            ';' | ',' if !is_powershell => self.end_word(at),
            ',' => self.end_word(at),
            ' ' | '\t' | '\r' => self.end_word(at),
            '\n' | '|' | '&' | '(' | ')' | ';' => self.end_line(at),
            '{' | '}' if is_powershell => self.end_line(at),
            _ => {
                self.push(at, ch);
                at + ch.len_utf8()
            }
        }
    }

    fn push(&mut self, at: usize, ch: char) {
        self.word.get_or_insert_with(|| (at, String::new())).1.push(ch);
    }

    fn push_text(&mut self, at: usize, text: &str) {
        self.word.get_or_insert_with(|| (at, String::new())).1.push_str(text);
    }

    /// A quoted part from the quote at `at` on; a doubled quote is one.
    fn quoted(&mut self, at: usize, quote: char) -> usize {
        self.push_text(at, "");
        let mut chars = self.text[at + 1..].char_indices().peekable();
        while let Some((offset, ch)) = chars.next() {
            if ch == quote {
                if self.language == Language::PowerShell
                    && chars.next_if(|(_, next)| *next == quote).is_some()
                {
                    self.push(at, quote);
                    continue;
                }
                return at + 1 + offset + 1;
            }
            if ch == '`' && quote == '"' && self.language == Language::PowerShell {
                if let Some((_, escaped)) = chars.next() {
                    self.push(at, escaped);
                }
                continue;
            }
            self.push(at, ch);
        }
        self.text.len()
    }

    fn end_word(&mut self, at: usize) -> usize {
        if let Some((start, text)) = self.word.take()
            && self.line.words.len() < MAX_WORDS
        {
            self.add(Word { text, range: start..at });
        }
        at + 1
    }

    /// Adds a word; `rd/s/q` is a name with its switches.
    fn add(&mut self, word: Word) {
        if self.line.words.is_empty() && self.language == Language::Cmd {
            let text = word.text.trim_start_matches('@');
            let at = word.range.start + (word.text.len() - text.len());
            if let Some((name, _)) = text.split_once('/')
                && matches!(name.to_ascii_lowercase().as_str(), "del" | "erase" | "rd" | "rmdir" | "format")
            {
                let switches = text[name.len()..].to_owned();
                self.line.words.push(Word { text: name.to_owned(), range: at..at + name.len() });
                self.line.words.push(Word { text: switches, range: at + name.len()..word.range.end });
                return;
            }
            self.line.words.push(Word { text: text.to_owned(), range: at..word.range.end });
            return;
        }
        self.line.words.push(word);
    }

    fn end_line(&mut self, at: usize) -> usize {
        self.end_word(at);
        let line = std::mem::take(&mut self.line);
        let is_comment = self.language == Language::Cmd
            && line
                .words
                .first()
                .is_some_and(|word| word.text.eq_ignore_ascii_case("rem") || word.text.starts_with("::"));
        if !line.words.is_empty() && !is_comment {
            self.lines.push(line);
        }
        at + 1
    }
}
