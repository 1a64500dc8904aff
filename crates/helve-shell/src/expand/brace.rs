//! Brace expansion: `{a,b}`, `{1..5}`, nested, and always before anything else in a word is expanded.

use crate::tree::{Piece, PieceKind, Word};

/// More words than this are not made out of one.
const MAX_WORDS: usize = 256;
/// More than this is not written in all of them together, in characters and pieces.
const MAX_SIZE: usize = 1 << 16;
/// Deeper braces are not followed.
const MAX_DEPTH: usize = 24;

/// What braces make out of a word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Braces {
    /// The word has none.
    None,
    /// These words.
    Words(Vec<Made>),
    /// Too many to write them down.
    TooMany,
}

/// A word that braces made: stretches of pieces, and between each two of them any number of a range that is too long to
/// write it down.
pub(crate) type Made = Vec<Vec<Piece>>;

#[derive(Clone, Copy)]
enum Atom<'a> {
    Character(char),
    Piece(&'a Piece),
    /// Any number of a long range.
    Number,
}

/// Expands the braces of a word.
pub(crate) fn expand(word: &Word) -> Braces {
    let plain = |wanted: char| {
        word.pieces.iter().any(|piece| matches!(&piece.kind, PieceKind::Text(text) if text.contains(wanted)))
    };
    if !plain('{') || !plain('}') {
        return Braces::None;
    }
    let mut atoms = Vec::new();
    for piece in &word.pieces {
        match &piece.kind {
            PieceKind::Text(text) => atoms.extend(text.chars().map(Atom::Character)),
            _ => atoms.push(Atom::Piece(piece)),
        }
    }
    let partners = partners(&atoms);
    // Where all numbers are too many words, one word stands for those of a range.
    let made = [MAX_WORDS, 1].into_iter().find_map(|longest| {
        let mut expansion = Expansion { atoms: &atoms, partners: &partners, longest, size: 0 };
        expansion.sequence(0, atoms.len(), 0, true)
    });
    let Some(words) = made else { return Braces::TooMany };
    if words.len() == 1 && words[0].len() == atoms.len() {
        return Braces::None;
    }
    Braces::Words(words.into_iter().map(|atoms| pieces(atoms, word)).collect())
}

/// The atoms of a word put together.
fn pieces(atoms: Vec<Atom<'_>>, word: &Word) -> Made {
    let mut made = Vec::new();
    let mut stretch: Vec<Piece> = Vec::new();
    for atom in atoms {
        match atom {
            Atom::Number => made.push(std::mem::take(&mut stretch)),
            Atom::Piece(piece) => stretch.push(piece.clone()),
            Atom::Character(character) => match stretch.last_mut() {
                Some(Piece { kind: PieceKind::Text(text), .. }) => text.push(character),
                _ => stretch.push(Piece { kind: PieceKind::Text(character.to_string()), span: word.span }),
            },
        }
    }
    made.push(stretch);
    made
}

/// For each `{` the place of its `}`.
fn partners(atoms: &[Atom<'_>]) -> Vec<Option<usize>> {
    let mut partners = vec![None; atoms.len()];
    let mut open = Vec::new();
    for (at, atom) in atoms.iter().enumerate() {
        match atom {
            Atom::Character('{') => open.push(at),
            Atom::Character('}') => {
                if let Some(start) = open.pop() {
                    partners[start] = Some(at);
                }
            }
            _ => {}
        }
    }
    partners
}

/// A word that is being expanded.
struct Expansion<'e, 'a> {
    atoms: &'e [Atom<'a>],
    partners: &'e [Option<usize>],
    /// Ranges of more numbers are not written down.
    longest: usize,
    /// How much was written down.
    size: usize,
}

impl<'a> Expansion<'_, 'a> {
    /// The words that the atoms from `start` to `end` make; none if there are too many. `whole` says that nothing else is in
    /// the word: those that are empty are then no words.
    fn sequence(
        &mut self,
        start: usize,
        end: usize,
        depth: usize,
        whole: bool,
    ) -> Option<Vec<Vec<Atom<'a>>>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut words: Vec<Vec<Atom<'a>>> = vec![Vec::new()];
        let mut at = start;
        while at < end {
            let inside = match (&self.atoms[at], self.partners[at]) {
                (Atom::Character('{'), Some(close)) if close < end => {
                    let alone = whole && at == start && close + 1 == end;
                    self.alternatives(at + 1, close, depth, alone)?.map(|made| (made, close + 1))
                }
                _ => None,
            };
            match inside {
                Some((made, after)) => {
                    words = self.product(&words, &made)?;
                    at = after;
                }
                None => {
                    if words.len() > 1 {
                        self.grows(words.len())?;
                    }
                    for word in &mut words {
                        word.push(self.atoms[at]);
                    }
                    at += 1;
                }
            }
        }
        Some(words)
    }

    /// Every word with every tail.
    fn product(&mut self, words: &[Vec<Atom<'a>>], tails: &[Vec<Atom<'a>>]) -> Option<Vec<Vec<Atom<'a>>>> {
        if words.len() * tails.len() > MAX_WORDS {
            return None;
        }
        let mut product = Vec::with_capacity(words.len() * tails.len());
        for word in words {
            for tail in tails {
                self.grows(word.len() + tail.len())?;
                product.push(word.iter().chain(tail).copied().collect());
            }
        }
        Some(product)
    }

    /// Counts what is written down; none if it is too much.
    fn grows(&mut self, by: usize) -> Option<()> {
        self.size += by;
        (self.size <= MAX_SIZE).then_some(())
    }

    /// What stands between one pair of braces; the inner none means that these braces are plain text.
    fn alternatives(
        &mut self,
        start: usize,
        end: usize,
        depth: usize,
        whole: bool,
    ) -> Option<Option<Vec<Vec<Atom<'a>>>>> {
        let mut borders = vec![start];
        let mut at = start;
        while at < end {
            match (&self.atoms[at], self.partners[at]) {
                (Atom::Character('{'), Some(close)) if close < end => at = close,
                (Atom::Character(','), _) => borders.push(at + 1),
                _ => {}
            }
            at += 1;
        }
        if borders.len() == 1 {
            return Some(range(&self.atoms[start..end], self.longest));
        }
        borders.push(end + 1);
        let mut made = Vec::new();
        for pair in borders.windows(2) {
            let (from, to) = (pair[0], pair[1] - 1);
            if whole && from == to {
                continue;
            }
            made.extend(self.sequence(from, to, depth + 1, whole)?);
            if made.len() > MAX_WORDS {
                return None;
            }
        }
        Some(Some(made))
    }
}

/// `1..5`, `a..e`, `1..9..2`; none if it is no range. More than so many numbers are any number.
fn range<'a>(atoms: &[Atom<'_>], longest: usize) -> Option<Vec<Vec<Atom<'a>>>> {
    if atoms.len() > 64 {
        return None;
    }
    let text: Option<String> = atoms
        .iter()
        .map(|atom| if let Atom::Character(character) = atom { Some(*character) } else { None })
        .collect();
    let text = text?;
    let mut parts = text.split("..");
    let (Some(from), Some(to), step, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let step = match step.map(str::parse::<i64>) {
        None => 1,
        Some(step) => step.ok()?.saturating_abs().max(1),
    };
    let single = |text: &str| {
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) if character.is_ascii_alphabetic() => {
                Some(i64::from(u32::from(character)))
            }
            _ => None,
        }
    };
    let (first, last, letters) = match (from.parse::<i64>(), to.parse::<i64>()) {
        (Ok(first), Ok(last)) => (first, last, false),
        _ => (single(from)?, single(to)?, true),
    };
    let distance = last.checked_sub(first).and_then(i64::checked_abs);
    let steps = distance.and_then(|distance| usize::try_from(distance / step).ok());
    let Some((distance, _)) = distance.zip(steps).filter(|(_, steps)| letters || *steps < longest) else {
        return Some(vec![vec![Atom::Number]]);
    };
    let padded =
        |text: &str| text.trim_start_matches('-').starts_with('0') && text.trim_start_matches('-').len() > 1;
    let width = if padded(from) || padded(to) { from.len().max(to.len()) } else { 0 };
    let mut words = Vec::new();
    let mut done = 0;
    while done <= distance {
        let value = if last >= first { first + done } else { first - done };
        let text = match u8::try_from(value) {
            Ok(letter) if letters => char::from(letter).to_string(),
            _ => format!("{value:0width$}"),
        };
        words.push(text.chars().map(Atom::Character).collect());
        done = done.checked_add(step)?;
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn shown(text: &str) -> Option<Vec<String>> {
        let span = Span { start: 0, end: text.len() };
        let word = Word { pieces: vec![Piece { kind: PieceKind::Text(text.to_owned()), span }], span };
        match expand(&word) {
            Braces::None => Some(vec![text.to_owned()]),
            Braces::TooMany => None,
            Braces::Words(words) => {
                let text = |piece: Piece| match piece.kind {
                    PieceKind::Text(text) => text,
                    other => panic!("{other:?}"),
                };
                let stretch = |pieces: Vec<Piece>| pieces.into_iter().map(text).collect::<String>();
                let one = |made: Made| made.into_iter().map(stretch).collect::<Vec<_>>().join("#");
                Some(words.into_iter().map(one).collect())
            }
        }
    }

    #[test]
    fn braces_expand_as_in_bash() {
        let rows = [
            ("a{b,c}d", "abd acd"),
            ("{a,b}{c,d}", "ac ad bc bd"),
            ("{a,{b,c}}", "a b c"),
            ("{a,}", "a"),
            ("{,,a,,{,b,{,}},}", "a b"),
            ("x{a,}", "xa x"),
            ("{a,}{,b}", "a ab  b"),
            ("{a}", "{a}"),
            ("{}", "{}"),
            ("a{b", "a{b"),
            ("a}b{c,d}", "a}bc a}bd"),
            ("{1..4}", "1 2 3 4"),
            ("{4..1..2}", "4 2"),
            ("{01..03}", "01 02 03"),
            ("{-1..1}", "-1 0 1"),
            ("{a..c}", "a b c"),
            ("{r..r}m", "rm"),
            ("{1..a}", "{1..a}"),
            ("{{a,b}", "{a {b"),
            ("x{a,b{1..2}}", "xa xb1 xb2"),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(text).map(|words| words.join(" ")).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn one_word_stands_for_the_numbers_of_a_long_range() {
        let rows = [
            ("{1..100000}", "#"),
            ("{1..9223372036854775807}", "#"),
            ("{-9223372036854775808..9223372036854775807}", "#"),
            ("a{001..500}.txt", "a#.txt"),
            ("{a,b}/{1..500}", "a/# b/#"),
            ("{1..100}{1..100}", "##"),
            ("{a..c}{1..100}", "a# b# c#"),
            ("{rm,-rf,{1..1000}}", "rm -rf #"),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(text).map(|words| words.join(" ")).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn empty_words_do_not_count() {
        let many = ",".repeat(10_000);
        assert_eq!(shown(&format!("{{rm,-rf,x{many}}}")), Some(vec!["rm".into(), "-rf".into(), "x".into()]));
        assert_eq!(shown(&format!("{{a{many},{{{many}}}}}")), Some(vec!["a".into()]));
        assert_eq!(shown(&format!("{{{many}}}")), Some(Vec::new()));
    }

    #[test]
    fn too_many_words_are_not_written_down() {
        let many = ",".repeat(300);
        for text in [
            "{a,b}".repeat(20),
            "{r,m}".to_owned() + &"{,}".repeat(18),
            "{a..z}{a..z}".to_owned(),
            format!("x{{a{many}}}"),
            format!("{{a{}}}", ",a".repeat(300)),
            "{a,".repeat(5000) + &"}".repeat(5000),
        ] {
            assert_eq!(shown(&text), None, "{text:.40}");
        }
    }
}
