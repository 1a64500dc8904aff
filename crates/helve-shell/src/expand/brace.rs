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
    Words(Vec<Vec<Piece>>),
    /// Too many to write them down.
    TooMany,
}

#[derive(Clone)]
enum Atom<'a> {
    Character(char),
    Piece(&'a Piece),
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
    let mut size = 0;
    let Some(words) = sequence(&atoms, &partners, 0, atoms.len(), 0, &mut size) else {
        return Braces::TooMany;
    };
    if words.len() == 1 && words[0].len() == atoms.len() {
        return Braces::None;
    }
    let span = word.span;
    let pieces = |atoms: Vec<Atom<'_>>| {
        let mut made: Vec<Piece> = Vec::new();
        for atom in atoms {
            match atom {
                Atom::Piece(piece) => made.push(piece.clone()),
                Atom::Character(character) => match made.last_mut() {
                    Some(Piece { kind: PieceKind::Text(text), .. }) => text.push(character),
                    _ => made.push(Piece { kind: PieceKind::Text(character.to_string()), span }),
                },
            }
        }
        made
    };
    Braces::Words(words.into_iter().map(pieces).collect())
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

/// The words that the atoms from `start` to `end` make; none if there are too many.
fn sequence<'a>(
    atoms: &[Atom<'a>],
    partners: &[Option<usize>],
    start: usize,
    end: usize,
    depth: usize,
    size: &mut usize,
) -> Option<Vec<Vec<Atom<'a>>>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut words: Vec<Vec<Atom<'a>>> = vec![Vec::new()];
    let mut at = start;
    while at < end {
        let inside = match (&atoms[at], partners[at]) {
            (Atom::Character('{'), Some(close)) if close < end => {
                alternatives(atoms, partners, at + 1, close, depth, size)?.map(|made| (made, close + 1))
            }
            _ => None,
        };
        match inside {
            Some((made, after)) => {
                if words.len() * made.len() > MAX_WORDS {
                    return None;
                }
                let mut product = Vec::with_capacity(words.len() * made.len());
                for word in &words {
                    for tail in &made {
                        *size += word.len() + tail.len();
                        if *size > MAX_SIZE {
                            return None;
                        }
                        product.push(word.iter().chain(tail).cloned().collect());
                    }
                }
                words = product;
                at = after;
            }
            None => {
                if words.len() > 1 {
                    *size += words.len();
                    if *size > MAX_SIZE {
                        return None;
                    }
                }
                for word in &mut words {
                    word.push(atoms[at].clone());
                }
                at += 1;
            }
        }
    }
    Some(words)
}

/// What stands between one pair of braces; the inner none means that these braces are plain text.
fn alternatives<'a>(
    atoms: &[Atom<'a>],
    partners: &[Option<usize>],
    start: usize,
    end: usize,
    depth: usize,
    size: &mut usize,
) -> Option<Option<Vec<Vec<Atom<'a>>>>> {
    let mut borders = vec![start];
    let mut at = start;
    while at < end {
        match (&atoms[at], partners[at]) {
            (Atom::Character('{'), Some(close)) if close < end => at = close,
            (Atom::Character(','), _) => borders.push(at + 1),
            _ => {}
        }
        at += 1;
    }
    if borders.len() == 1 {
        return match range(&atoms[start..end]) {
            Some(Some(texts)) => {
                let words = texts.into_iter().map(|text| text.chars().map(Atom::Character).collect());
                Some(Some(words.collect()))
            }
            Some(None) => Some(None),
            None => None,
        };
    }
    if borders.len() > MAX_WORDS {
        return None;
    }
    borders.push(end + 1);
    let mut made = Vec::new();
    for pair in borders.windows(2) {
        made.extend(sequence(atoms, partners, pair[0], pair[1] - 1, depth + 1, size)?);
        if made.len() > MAX_WORDS {
            return None;
        }
    }
    Some(Some(made))
}

/// `1..5`, `a..e`, `1..9..2`: the inner none means that it is no range, the outer one that it is too long.
fn range(atoms: &[Atom<'_>]) -> Option<Option<Vec<String>>> {
    if atoms.len() > 64 {
        return Some(None);
    }
    let text: Option<String> = atoms
        .iter()
        .map(|atom| if let Atom::Character(character) = atom { Some(*character) } else { None })
        .collect();
    let Some(text) = text else { return Some(None) };
    let mut parts = text.split("..");
    let (Some(from), Some(to), step, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Some(None);
    };
    let step = match step.map(str::parse::<i64>) {
        None => 1,
        Some(Ok(step)) => step.saturating_abs().max(1),
        Some(Err(_)) => return Some(None),
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
        _ => match (single(from), single(to)) {
            (Some(first), Some(last)) => (first, last, true),
            _ => return Some(None),
        },
    };
    let distance = last.checked_sub(first)?.checked_abs()?;
    if usize::try_from(distance / step).ok()? >= MAX_WORDS {
        return None;
    }
    let padded =
        |text: &str| text.trim_start_matches('-').starts_with('0') && text.trim_start_matches('-').len() > 1;
    let width = if padded(from) || padded(to) { from.len().max(to.len()) } else { 0 };
    let mut texts = Vec::new();
    let mut done = 0;
    while done <= distance {
        let value = if last >= first { first + done } else { first - done };
        texts.push(match u8::try_from(value) {
            Ok(letter) if letters => char::from(letter).to_string(),
            _ => format!("{value:0width$}"),
        });
        done = done.checked_add(step)?;
    }
    Some(Some(texts))
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
                let one = |pieces: Vec<Piece>| {
                    let text = |piece: Piece| match piece.kind {
                        PieceKind::Text(text) => text,
                        other => panic!("{other:?}"),
                    };
                    pieces.into_iter().map(text).collect::<String>()
                };
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
            ("{a,}", "a "),
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
    fn too_many_words_are_not_written_down() {
        for text in ["{a,b}".repeat(20), "{1..100000}".to_owned(), "{a,".repeat(5000) + &"}".repeat(5000)] {
            assert_eq!(shown(&text), None, "{text:.40}");
        }
    }
}
