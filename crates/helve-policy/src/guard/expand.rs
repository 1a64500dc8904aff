//! Words as the shell makes them, as far as the command's own text says: `{a,b}`, `$IFS`, and variables that the same
//! command sets to a text that is written out.
//!
//! In comes a word as it is written, out go the words that it becomes. What stays unknown (`$(…)`, a variable of the
//! environment) is left as it is written and marked so. Everything that is made is paid for from the caller's budget.
//!
//! Not here: ranges such as `{1..3}`, arrays, branches (the last assignment in the text counts).

use std::borrow::Cow;
use std::collections::HashMap;

use helve_shell::{Part, PartKind, Position, Word};

/// How deep one `{…,…}` stands in another.
const MAX_DEPTH: usize = 8;

/// The budget is used up.
#[derive(Debug)]
pub(super) struct TooMuch;

/// The texts of variables that the command has set so far.
#[derive(Debug, Default)]
pub(super) struct Variables(HashMap<String, String>);

/// A character of a word on its way.
#[derive(Clone, Copy)]
enum Sign {
    /// Written bare: a brace or a comma may mean something.
    Bare(char),
    /// Quoted, or the text of a variable.
    Plain(char),
    /// Where an unquoted variable ends a word.
    Gap,
}

/// Whether bash makes several words of it: `{a,b}` or `{1..3}` with bare braces.
pub(super) fn has_braces(word: &Word) -> bool {
    let bare = |signs: &[&str]| {
        let mut parts = word.parts.iter().filter(|part| part.kind == PartKind::Bare);
        parts.any(|part| signs.iter().any(|sign| text(word, part).contains(sign)))
    };
    bare(&["{"]) && bare(&["}"]) && bare(&[",", ".."])
}

impl Variables {
    /// Notes `NAME=value` and `NAME+=value`; `source` is the text in which the word stands.
    pub(super) fn assign(&mut self, word: &Word, source: &str, left: &mut usize) -> Result<(), TooMuch> {
        let Some((target, _)) = word.text.split_once('=') else { return Ok(()) };
        let (name, appends) = match target.strip_suffix('+') {
            Some(name) => (name, true),
            None => (target, false),
        };
        let (signs, known) = self.signs(word, source, left)?;
        let characters = signs.iter().map(|sign| match sign {
            Sign::Bare(ch) | Sign::Plain(ch) => *ch,
            Sign::Gap => ' ',
        });
        let value: String = characters.skip(target.chars().count() + 1).collect();
        match self.0.get_mut(name) {
            _ if !known => {
                self.0.remove(name);
            }
            Some(before) if appends => before.push_str(&value),
            None if appends => {}
            _ => {
                self.0.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// The words that one word becomes; itself where nothing in it can be told.
    pub(super) fn words<'w>(
        &self,
        word: &'w Word,
        source: &str,
        left: &mut usize,
    ) -> Result<Vec<Cow<'w, Word>>, TooMuch> {
        let mut variables = word.parts.iter().filter(|part| part.kind == PartKind::Variable);
        let braces = has_braces(word);
        if !braces && !variables.any(|part| self.value(text(word, part)).is_some()) {
            return Ok(vec![Cow::Borrowed(word)]);
        }
        let (signs, known) = self.signs(word, source, left)?;
        let groups = if braces { groups(&signs) } else { HashMap::new() };
        let all = Braces { signs: &signs, groups: &groups }.expand(0, signs.len(), 0, left)?;
        let quoted = |part: &Part| !matches!(part.kind, PartKind::Bare | PartKind::Variable);
        let keeps_empty = word.parts.iter().any(quoted);
        let mut words = Vec::new();
        for signs in all {
            for field in signs.split(|sign| matches!(sign, Sign::Gap)) {
                let text: String = field
                    .iter()
                    .filter_map(|sign| match sign {
                        Sign::Bare(ch) | Sign::Plain(ch) => Some(*ch),
                        Sign::Gap => None,
                    })
                    .collect();
                if text.is_empty() && !keeps_empty {
                    continue;
                }
                let position = if words.is_empty() { word.position } else { Position::Argument };
                words.push(Cow::Owned(Word { text, known, position, parts: Vec::new(), ..word.clone() }));
            }
        }
        Ok(words)
    }

    /// The characters of a word with its variables put in, and whether all of it is known.
    fn signs(&self, word: &Word, source: &str, left: &mut usize) -> Result<(Vec<Sign>, bool), TooMuch> {
        let mut signs = Vec::new();
        let mut known = true;
        let mut quotes = Quotes { source, at: word.span.start, inside: false };
        for part in &word.parts {
            let quoted = quotes.before(part);
            let written = text(word, part);
            match (part.kind, self.value(written)) {
                (PartKind::Variable, Some(value)) => {
                    spend(left, value.len())?;
                    let blank = |ch: char| !quoted && matches!(ch, ' ' | '\t' | '\n');
                    signs.extend(value.chars().map(|ch| if blank(ch) { Sign::Gap } else { Sign::Plain(ch) }));
                }
                (PartKind::Bare, _) => signs.extend(written.chars().map(Sign::Bare)),
                (kind, _) => {
                    known &= !matches!(kind, PartKind::Variable | PartKind::Expansion);
                    signs.extend(written.chars().map(Sign::Plain));
                }
            }
        }
        spend(left, signs.len())?;
        Ok((signs, known))
    }

    /// The text of `$NAME` or `${NAME}`.
    fn value(&self, written: &str) -> Option<&str> {
        let name = written.strip_prefix('$')?.trim_start_matches('{').trim_end_matches('}');
        let set = self.0.get(name).map(String::as_str);
        set.or_else(|| (name == "IFS").then_some(" "))
    }
}

fn text<'w>(word: &'w Word, part: &Part) -> &'w str {
    word.text.get(part.text.clone()).unwrap_or_default()
}

fn spend(left: &mut usize, cost: usize) -> Result<(), TooMuch> {
    *left = left.checked_sub(cost).ok_or(TooMuch)?;
    Ok(())
}

/// Follows the double quotes of a word: they stand between its parts, or at the ends of the literal ones.
struct Quotes<'s> {
    source: &'s str,
    at: usize,
    inside: bool,
}

impl Quotes<'_> {
    /// Whether the part stands in double quotes.
    fn before(&mut self, part: &Part) -> bool {
        self.pass(part.span.start);
        let quoted = self.inside;
        match part.kind {
            PartKind::Double => self.pass(part.span.end),
            _ => self.at = self.at.max(part.span.end),
        }
        quoted
    }

    fn pass(&mut self, to: usize) {
        let mut escaped = false;
        for byte in self.source.get(self.at..to).unwrap_or_default().bytes() {
            self.inside ^= byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
        }
        self.at = self.at.max(to);
    }
}

/// A `{…,…}`: its commas, and its `}` last.
type Group = Vec<usize>;

/// Every `{…,…}` by the place of its `{`.
fn groups(signs: &[Sign]) -> HashMap<usize, Group> {
    let mut open: Vec<(usize, Group)> = Vec::new();
    let mut found = HashMap::new();
    for (at, sign) in signs.iter().enumerate() {
        match sign {
            Sign::Bare('{') => open.push((at, Vec::new())),
            Sign::Bare(',') => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            Sign::Bare('}') => {
                if let Some((start, mut ends)) = open.pop().filter(|(_, commas)| !commas.is_empty()) {
                    ends.push(at);
                    found.insert(start, ends);
                }
            }
            _ => {}
        }
    }
    found
}

struct Braces<'s> {
    signs: &'s [Sign],
    groups: &'s HashMap<usize, Group>,
}

impl Braces<'_> {
    /// Every text that the signs from `from` to `to` stand for.
    fn expand(
        &self,
        from: usize,
        to: usize,
        depth: usize,
        left: &mut usize,
    ) -> Result<Vec<Vec<Sign>>, TooMuch> {
        if depth > MAX_DEPTH {
            return Err(TooMuch);
        }
        let mut all: Vec<Vec<Sign>> = vec![Vec::new()];
        let mut at = from;
        while at < to {
            let Some(ends) = self.groups.get(&at) else {
                spend(left, all.len())?;
                if let Some(sign) = self.signs.get(at) {
                    all.iter_mut().for_each(|made| made.push(*sign));
                }
                at += 1;
                continue;
            };
            let mut choices = Vec::new();
            for end in ends {
                choices.extend(self.expand(at + 1, *end, depth + 1, left)?);
                at = *end;
            }
            at += 1;
            let mut product = Vec::new();
            for before in &all {
                for choice in &choices {
                    spend(left, 1 + before.len() + choice.len())?;
                    product.push([before.as_slice(), choice.as_slice()].concat());
                }
            }
            all = product;
        }
        Ok(all)
    }
}
