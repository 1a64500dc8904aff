//! Matching a shell pattern against text that is known, in time proportional to both lengths multiplied, at worst.

use crate::analysis::{Arg, ArgPart};

/// A pattern, ready to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    units: Vec<Unit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Unit {
    Literal(char),
    AnyOne,
    AnyRun,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// More work than this is not done: what the pattern matches is then unknown.
const MAX_WORK: usize = 1 << 20;

impl Pattern {
    /// Reads a pattern from an expanded word; none if a part of it is unknown.
    pub(crate) fn of(arg: &Arg) -> Option<Self> {
        let mut units = Vec::new();
        for part in &arg.parts {
            match part {
                ArgPart::Known(text) => units.extend(text.chars().map(Unit::Literal)),
                ArgPart::Glob(text) => read_active(text, &mut units),
                ArgPart::Unknown => return None,
            }
        }
        Some(Pattern { units })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Whether it matches the whole text.
    pub(crate) fn matches(&self, text: &[char]) -> bool {
        let (mut unit, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while at < text.len() {
            if self.units.get(unit) == Some(&Unit::AnyRun) {
                retry = Some((unit + 1, at));
                unit += 1;
            } else if self.units.get(unit).is_some_and(|candidate| candidate.takes(text[at])) {
                unit += 1;
                at += 1;
            } else if let Some((after, from)) = retry {
                retry = Some((after, from + 1));
                unit = after;
                at = from + 1;
            } else {
                return false;
            }
        }
        self.units[unit..].iter().all(|unit| *unit == Unit::AnyRun)
    }

    /// How long a match at the start is, shortest or longest; the outer none means that it costs too much to tell.
    pub(crate) fn prefix(&self, text: &[char], longest: bool) -> Option<Option<usize>> {
        if !self.has_run() {
            let length = self.units.len();
            return Some((length <= text.len() && self.matches(&text[..length])).then_some(length));
        }
        self.affordable(text)?;
        let mut lengths: Box<dyn Iterator<Item = usize>> =
            if longest { Box::new((0..=text.len()).rev()) } else { Box::new(0..=text.len()) };
        Some(lengths.find(|length| self.matches(&text[..*length])))
    }

    /// Where a match at the end starts, for the shortest or the longest match.
    pub(crate) fn suffix(&self, text: &[char], longest: bool) -> Option<Option<usize>> {
        if !self.has_run() {
            let length = self.units.len();
            return Some(text.len().checked_sub(length).filter(|start| self.matches(&text[*start..])));
        }
        self.affordable(text)?;
        let mut starts: Box<dyn Iterator<Item = usize>> =
            if longest { Box::new(0..=text.len()) } else { Box::new((0..=text.len()).rev()) };
        Some(starts.find(|start| self.matches(&text[*start..])))
    }

    fn has_run(&self) -> bool {
        self.units.contains(&Unit::AnyRun)
    }

    /// Trying every length costs the square of the text's length.
    fn affordable(&self, text: &[char]) -> Option<()> {
        (text.len().saturating_mul(text.len()).saturating_mul(self.units.len()) <= MAX_WORK).then_some(())
    }
}

impl Unit {
    fn takes(&self, character: char) -> bool {
        match self {
            Unit::Literal(own) => *own == character,
            Unit::AnyOne => true,
            Unit::AnyRun => false,
            Unit::Class { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&character)) != *negated
            }
        }
    }
}

fn read_active(text: &str, units: &mut Vec<Unit>) {
    let characters: Vec<char> = text.chars().collect();
    let last_closing = characters.iter().rposition(|character| *character == ']');
    let mut at = 0;
    while let Some(&character) = characters.get(at) {
        at += 1;
        match character {
            '*' => {
                if units.last() != Some(&Unit::AnyRun) {
                    units.push(Unit::AnyRun);
                }
            }
            '?' => units.push(Unit::AnyOne),
            '[' if last_closing.is_some_and(|closing| closing > at) => match read_class(&characters[at..]) {
                Some((class, length)) => {
                    units.push(class);
                    at += length;
                }
                None => units.push(Unit::Literal('[')),
            },
            _ => units.push(Unit::Literal(character)),
        }
    }
}

/// The class behind a `[`, and how many characters it takes with its `]`.
fn read_class(characters: &[char]) -> Option<(Unit, usize)> {
    let negated = matches!(characters.first(), Some('!' | '^'));
    let start = usize::from(negated);
    let mut ranges = Vec::new();
    let mut at = start;
    loop {
        let character = *characters.get(at)?;
        if character == ']' && at > start {
            return Some((Unit::Class { negated, ranges }, at + 1));
        }
        if character == '[' && characters.get(at + 1) == Some(&':') {
            let (class, length) = named_class(&characters[at + 2..])?;
            ranges.extend_from_slice(class);
            at += 2 + length;
        } else if characters.get(at + 1) == Some(&'-')
            && characters.get(at + 2).is_some_and(|end| *end != ']')
        {
            ranges.push((character, characters[at + 2]));
            at += 3;
        } else {
            ranges.push((character, character));
            at += 1;
        }
    }
}

type Ranges = &'static [(char, char)];

/// The characters of `alpha:]` and the like, as far as ASCII goes.
fn named_class(characters: &[char]) -> Option<(Ranges, usize)> {
    let classes: [(&str, Ranges); 8] = [
        ("alpha:]", &[('a', 'z'), ('A', 'Z')]),
        ("digit:]", &[('0', '9')]),
        ("alnum:]", &[('a', 'z'), ('A', 'Z'), ('0', '9')]),
        ("upper:]", &[('A', 'Z')]),
        ("lower:]", &[('a', 'z')]),
        ("space:]", &[(' ', ' '), ('\t', '\r')]),
        ("blank:]", &[(' ', ' '), ('\t', '\t')]),
        ("punct:]", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ];
    classes
        .iter()
        .find(|(name, _)| name.chars().eq(characters.iter().copied().take(name.len())))
        .map(|(name, ranges)| (*ranges, name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn pattern(text: &str) -> Pattern {
        let span = Span { start: 0, end: 0 };
        let arg = Arg { parts: vec![ArgPart::Glob(text.to_owned())], span, splits: false };
        Pattern::of(&arg).expect("a known pattern")
    }

    #[test]
    fn patterns_match_as_in_the_shell() {
        let rows = [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("?", "a", true),
            ("?", "", false),
            ("[abc]", "b", true),
            ("[!abc]", "b", false),
            ("[^a-c]x", "dx", true),
            ("[a-c]*[0-9]", "bxx7", true),
            ("[]]", "]", true),
            ("[[:digit:]]", "7", true),
            ("[[:digit:]]", "x", false),
            ("[", "[", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
        ];
        for (text, against, expected) in rows {
            let against: Vec<char> = against.chars().collect();
            assert_eq!(pattern(text).matches(&against), expected, "{text} {against:?}");
        }
    }

    #[test]
    fn ends_are_found_shortest_and_longest() {
        let text: Vec<char> = "a/b/c.tar.gz".chars().collect();
        assert_eq!(pattern("*/").prefix(&text, false), Some(Some(2)));
        assert_eq!(pattern("*/").prefix(&text, true), Some(Some(4)));
        assert_eq!(pattern(".*").suffix(&text, false), Some(Some(9)));
        assert_eq!(pattern(".*").suffix(&text, true), Some(Some(5)));
        assert_eq!(pattern("x*").prefix(&text, true), Some(None));
    }

    #[test]
    fn what_costs_too_much_is_not_computed() {
        let text = vec!['a'; 60_000];
        assert_eq!(pattern("*a*b").prefix(&text, true), None);
    }
}
