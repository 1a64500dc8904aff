//! Calls in code: their names, their arguments, and what is written out in them.

use std::ops::Range;

use super::strings::{GAP, fill_format, push_gap};
use super::tokens::{Family, Kind, Quote, Token, cut};

/// How many tokens of one argument list are looked at.
const MAX_ARGUMENT_TOKENS: usize = 128;

/// Code that was cut into tokens, with its brackets paired.
pub(super) struct Code<'a> {
    pub(super) family: Family,
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    /// For an opening bracket the index of the token that closes it.
    closes: Vec<Option<usize>>,
    /// Libraries that the code names anywhere.
    pub(super) mentions: Mentions<'a>,
}

/// Which libraries code names, so that a short name can be taken for theirs.
#[derive(Debug, Default)]
pub(super) struct Mentions<'a> {
    pub(super) os: bool,
    pub(super) fs: bool,
    pub(super) child_process: bool,
    pub(super) subprocess: bool,
    /// The name that `import os as name` gives.
    pub(super) os_alias: &'a str,
    /// Other names, and what they stand for: `from shutil import rmtree as r`.
    aliases: Vec<(&'a str, &'a str)>,
}

/// So many other names are remembered.
const MAX_ALIASES: usize = 16;

/// A name with what it is given.
pub(super) struct Call<'a> {
    /// The last part of the name.
    pub(super) name: &'a str,
    /// The part before it: `os` in `os.remove`; empty if there is none or it is no plain name.
    pub(super) qualifier: &'a str,
    /// Whether something stands before the name: `x().name`.
    pub(super) is_method: bool,
    /// The index of the name's token.
    pub(super) token: usize,
    /// Whether it is called, not only named.
    pub(super) is_called: bool,
    /// The tokens of each positional argument.
    pub(super) arguments: Vec<Range<usize>>,
    /// The tokens of the whole argument list.
    pub(super) list: Range<usize>,
    /// The stretch of text.
    pub(super) span: Range<usize>,
}

impl<'a> Code<'a> {
    pub(super) fn new(family: Family, text: &'a str) -> Self {
        let tokens = cut(family, text);
        let mut closes = vec![None; tokens.len()];
        let mut open: Vec<(u8, usize)> = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            match token.kind {
                Kind::Mark(b'(') => open.push((b')', index)),
                Kind::Mark(b'[') => open.push((b']', index)),
                Kind::Mark(b'{') => open.push((b'}', index)),
                Kind::Mark(mark @ (b')' | b']' | b'}')) => {
                    if open.last().is_some_and(|(close, _)| *close == mark)
                        && let Some((_, start)) = open.pop()
                    {
                        closes[start] = Some(index);
                    }
                }
                _ => {}
            }
        }
        let mut code = Code { family, text, tokens, closes, mentions: Mentions::default() };
        code.mentions = code.find_mentions();
        code
    }

    fn find_mentions(&self) -> Mentions<'a> {
        let mut mentions = Mentions::default();
        for (index, token) in self.tokens.iter().enumerate() {
            let name = match token.kind {
                Kind::Word => self.word(index),
                Kind::Text(_) => self.text[token.inner.clone()].trim_start_matches("node:"),
                _ => continue,
            };
            if self.family == Family::Python
                && self.word(index + 1) == "as"
                && mentions.aliases.len() < MAX_ALIASES
            {
                mentions.aliases.push((self.word(index + 2), name));
            }
            match name {
                "os" => {
                    mentions.os = true;
                    if self.word(index + 1) == "as" {
                        mentions.os_alias = self.word(index + 2);
                    }
                }
                "fs" | "fs/promises" => mentions.fs = true,
                "child_process" => mentions.child_process = true,
                "subprocess" | "asyncio" => mentions.subprocess = true,
                _ => {}
            }
        }
        mentions
    }

    pub(super) fn kind(&self, index: usize) -> Option<Kind> {
        self.tokens.get(index).map(|token| token.kind)
    }

    /// The word at an index; empty if that is no word.
    pub(super) fn word(&self, index: usize) -> &'a str {
        match self.tokens.get(index) {
            Some(Token { kind: Kind::Word, span, .. }) => &self.text[span.clone()],
            _ => "",
        }
    }

    /// The call whose name is the word at an index.
    pub(super) fn call(&self, token: usize) -> Option<Call<'a>> {
        let written = self.word(token);
        let mark = |back: usize| token.checked_sub(back).and_then(|index| self.kind(index));
        let (is_method, before) = match (mark(1), mark(2)) {
            (Some(Kind::Mark(b'.')), Some(Kind::Mark(b'?'))) => (true, 3),
            (Some(Kind::Mark(b'.')), _) => (true, 2),
            (Some(Kind::Mark(b':')), Some(Kind::Mark(b':'))) => (true, 3),
            (Some(Kind::Mark(b'>')), Some(Kind::Mark(b'-'))) => (true, 3),
            (Some(Kind::Mark(b':')), _) if self.family == Family::Lua => (true, 2),
            _ => (false, 0),
        };
        let stands_for = self.mentions.aliases.iter().find(|(alias, _)| *alias == written);
        let name = stands_for.filter(|_| !is_method).map_or(written, |(_, name)| *name);
        let previous = token.checked_sub(1).map_or("", |index| self.word(index));
        if name.is_empty() || matches!(previous, "def" | "sub" | "function" | "import" | "class") {
            return None;
        }
        let qualifier =
            if before == 0 { "" } else { token.checked_sub(before).map_or("", |index| self.word(index)) };
        let (is_called, list) = match self.kind(token + 1) {
            Some(Kind::Mark(b'(')) => {
                let end = self.closes[token + 1].unwrap_or(self.tokens.len());
                (true, token + 2..end)
            }
            Some(Kind::Text(_) | Kind::Word) if self.takes_bare_arguments() => {
                (true, token + 1..self.statement_end(token + 1))
            }
            _ => (false, token + 1..token + 1),
        };
        let list = list.start..list.end.min(list.start + MAX_ARGUMENT_TOKENS);
        let end = self.tokens.get(list.end).map_or(self.text.len(), |token| token.span.start);
        let arguments = self.split(list.clone());
        let first = if qualifier.is_empty() { token } else { token - before };
        let span = self.tokens[first].span.start..self.close_of(&list, end);
        Some(Call { name, qualifier, is_method, token, is_called, arguments, list, span })
    }

    /// Where the text of a call ends: behind its bracket, or behind its last argument.
    fn close_of(&self, list: &Range<usize>, end: usize) -> usize {
        match self.tokens.get(list.end) {
            Some(Token { kind: Kind::Mark(b')'), span, .. }) => span.end,
            _ if list.is_empty() => self.tokens[list.start.saturating_sub(1)].span.end,
            _ => self.tokens.get(list.end - 1).map_or(end, |token| token.span.end),
        }
    }

    fn takes_bare_arguments(&self) -> bool {
        !matches!(self.family, Family::Python | Family::Node | Family::Php | Family::Awk | Family::Julia)
    }

    fn statement_end(&self, from: usize) -> usize {
        let mut at = from;
        while at < self.tokens.len() && at < from + MAX_ARGUMENT_TOKENS {
            match self.tokens[at].kind {
                Kind::Mark(b';' | b'\n' | b'}' | b')' | b']') => break,
                Kind::Mark(b'(' | b'[' | b'{') => at = self.closes[at].unwrap_or(at),
                Kind::Word
                    if at > from
                        && matches!(self.word(at), "if" | "unless" | "for" | "foreach" | "while") =>
                {
                    break;
                }
                _ => {}
            }
            at += 1;
        }
        at.min(self.tokens.len())
    }

    /// The tokens between commas that stand in no inner bracket, without named arguments.
    fn split(&self, list: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = list.start;
        let mut at = list.start;
        while at < list.end {
            match self.tokens[at].kind {
                Kind::Mark(b',') => {
                    parts.push(start..at);
                    start = at + 1;
                }
                Kind::Mark(b'(' | b'[' | b'{') => at = self.closes[at].unwrap_or(at).min(list.end),
                _ => {}
            }
            at += 1;
        }
        parts.push(start..list.end);
        parts.retain(|part| !part.is_empty() && !self.is_named(part));
        for part in &mut parts {
            while part.start < part.end && self.kind(part.start) == Some(Kind::Mark(b'\n')) {
                part.start += 1;
            }
        }
        parts
    }

    fn is_named(&self, part: &Range<usize>) -> bool {
        let named = match self.kind(part.start + 1) {
            Some(Kind::Mark(b'=')) => self.kind(part.start + 2) != Some(Kind::Mark(b'=')),
            Some(Kind::Mark(b':')) => self.family == Family::Ruby,
            _ => false,
        };
        part.len() > 2 && named && self.kind(part.start) == Some(Kind::Word)
    }

    /// What an argument says, with gaps where it shows only when the code runs; nothing if no part is written out.
    pub(super) fn value(&self, part: &Range<usize>) -> Option<String> {
        let mut out = String::new();
        let mut has_text = false;
        let mut is_formatted = false;
        let mut at = part.start;
        while at < part.end {
            let token = &self.tokens[at];
            match token.kind {
                Kind::Text(quote) => {
                    has_text = true;
                    self.decode(quote, &self.text[token.inner.clone()], &mut out);
                }
                Kind::Mark(b'+' | b'.' | b'~' | b'\n') => {}
                Kind::Mark(b'%') => {
                    is_formatted = true;
                    at = part.end;
                }
                Kind::Word if has_text && self.word(at) == "format" => {
                    is_formatted = true;
                    at = part.end;
                }
                Kind::Mark(b'(') if at == part.start => {}
                Kind::Mark(b')') => {}
                Kind::Mark(b'(' | b'[' | b'{') => {
                    at = self.closes[at].unwrap_or(at).min(part.end);
                    push_gap(&mut out);
                }
                _ => push_gap(&mut out),
            }
            at += 1;
        }
        if is_formatted {
            out = fill_format(&out);
        }
        has_text.then_some(out)
    }

    /// The items of a list that is written out: `['rm', '-rf', x]`, `qw(rm -rf x)`.
    pub(super) fn items(&self, part: &Range<usize>) -> Option<Vec<String>> {
        let first = self.tokens.get(part.start).filter(|_| !part.is_empty())?;
        match first.kind {
            Kind::Text(Quote::Words) => {
                let words = &self.text[first.inner.clone()];
                Some(words.split_ascii_whitespace().map(str::to_owned).collect())
            }
            Kind::Mark(b'[' | b'(' | b'{') => {
                let close = self.closes[part.start].unwrap_or(part.end).min(part.end);
                let items = self.split(part.start + 1..close);
                let words: Vec<Option<String>> = items.iter().map(|item| self.value(item)).collect();
                words
                    .iter()
                    .any(Option::is_some)
                    .then(|| words.into_iter().map(|word| word.unwrap_or_else(|| GAP.to_string())).collect())
            }
            _ => None,
        }
    }
}
