//! What two texts have in common when small differences do not count. One table for edits and patches.
//!
//! A line is folded for comparing only; what is written back is always the file's own bytes or the new text. The places
//! of a folded line lead back to the file's by [`unfold`], and only where a whole character as people see it
//! (a grapheme cluster) starts or ends: half of a ligature cannot be replaced.

use std::borrow::Cow;

use helve_core::limits::fixed::FOLDED_LINE;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_segmentation::UnicodeSegmentation;

use super::lines::{indent, trim_end};

/// Which differences do not count, each more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fold {
    /// None but line endings, which a line does not hold.
    #[default]
    Nothing,
    /// White space at the end of a line.
    Trailing,
    /// And typographic quotes, dashes, spaces and compatible forms of characters.
    Unicode,
    /// And the indentation.
    Indent,
}

/// A line without what does not count.
pub(crate) fn fold(line: &[u8], fold: Fold) -> Cow<'_, [u8]> {
    super::count_steps(line.len());
    match fold {
        Fold::Nothing => Cow::Borrowed(line),
        Fold::Trailing => Cow::Borrowed(trim_end(line)),
        Fold::Unicode => unicode(line),
        Fold::Indent => match unicode(line) {
            Cow::Borrowed(line) => Cow::Borrowed(line.trim_ascii_start()),
            Cow::Owned(line) => Cow::Owned(line.trim_ascii_start().to_vec()),
        },
    }
}

fn unicode(line: &[u8]) -> Cow<'_, [u8]> {
    if is_plain(line) {
        return Cow::Borrowed(trim_end(line));
    }
    let mut folded = Vec::with_capacity(line.len());
    for_segments(line, |_, text| folded.extend_from_slice(text));
    folded.truncate(trim_end(&folded).len());
    Cow::Owned(folded)
}

/// Whether folding changes nothing but the end of the line.
fn is_plain(line: &[u8]) -> bool {
    if line.is_ascii() || line.len() > FOLDED_LINE {
        return true;
    }
    line.utf8_chunks().all(|chunk| {
        let text = chunk.valid();
        text.chars().all(is_itself)
            || (is_nfc_quick(text.chars()) == IsNormalized::Yes
                && !text.chars().any(|c| plain_form(c) != c || is_another_form(c)))
    })
}

/// Whether a line cannot fold to `wanted`, by its first letters alone. Most lines are told apart so.
pub(crate) fn differs_at_once(line: &[u8], how: Fold, wanted: &[u8]) -> bool {
    let line = if how == Fold::Indent { &line[indent(line)..] } else { line };
    // The last one may be part of a character with what follows.
    let ascii = line.iter().take(wanted.len() + 1).take_while(|byte| byte.is_ascii()).count();
    let sure = trim_end(&line[..ascii.saturating_sub(1)]);
    !wanted.starts_with(sure)
}

/// Common characters that folding leaves as they are, and that stand alone.
fn is_itself(c: char) -> bool {
    matches!(c, '\t' | ' '..='~' | '\u{c0}'..='\u{ff}' | '\u{410}'..='\u{44f}' | '\u{3041}'..='\u{3096}'
        | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Characters that are never one with the next, if that is such a one too.
fn stands_alone(c: char) -> bool {
    is_itself(c)
        || matches!(c, '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{2000}'..='\u{200a}' | '\u{2010}'..='\u{2027}'
            | '\u{202f}'..='\u{205f}' | '\u{3000}'..='\u{3029}' | '\u{ff01}'..='\u{ff5e}')
}

/// The character of the keyboard that a typographic one stands for.
fn plain_form(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// Whether a character is others in another shape: wide, narrow, joined, or by its place in a word. What means something of its
/// own, such as a superscript, a fraction or a sign, is not.
fn is_another_form(c: char) -> bool {
    matches!(c, '\u{2024}'..='\u{2026}' | '\u{fb00}'..='\u{fb06}' | '\u{fb50}'..='\u{fbb1}' | '\u{fe70}'..='\u{fefc}'
        | '\u{ff01}'..='\u{ffe6}')
}

/// The characters of a cluster as they are compared.
fn folded_cluster(cluster: &str) -> impl Iterator<Item = char> {
    let plain = cluster.chars().flat_map(|c| {
        let (same, other) = if is_another_form(c) { (None, Some(c)) } else { (Some(c), None) };
        same.into_iter().chain(other.into_iter().nfkd())
    });
    plain.nfc().map(plain_form)
}

/// Calls `act` with the length of each character as people see it and what it is folded to.
fn for_segments(line: &[u8], mut act: impl FnMut(usize, &[u8])) {
    let mut text = String::new();
    let mut put = |cluster: &str, act: &mut dyn FnMut(usize, &[u8])| {
        text.clear();
        text.extend(folded_cluster(cluster));
        act(cluster.len(), text.as_bytes());
    };
    for chunk in line.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(first) = rest.chars().next() {
            // What follows is one with the first character only if it does not stand alone.
            let length = first.len_utf8();
            let more = rest[length..].find(stands_alone).unwrap_or(rest.len() - length);
            let (stretch, behind) = rest.split_at(length + more);
            rest = behind;
            if more > 0 || !stands_alone(first) {
                stretch.graphemes(true).for_each(|cluster| put(cluster, &mut act));
            } else if is_itself(first) {
                act(length, stretch.as_bytes());
            } else {
                let plain = plain_form(first);
                match plain.is_ascii() {
                    true if plain != first => act(length, &[plain as u8]),
                    _ => put(stretch, &mut act),
                }
            }
        }
        if !chunk.invalid().is_empty() {
            act(chunk.invalid().len(), chunk.invalid());
        }
    }
}

/// The places in `line` that `places` of its folded form come from, in ascending order in both. None for a place inside
/// of what one character became.
pub(crate) fn unfold(line: &[u8], how: Fold, places: &[usize]) -> Vec<Option<usize>> {
    super::count_steps(line.len());
    if how < Fold::Unicode || is_plain(line) {
        return places.iter().map(|place| Some(*place)).collect();
    }
    let mut found = Vec::with_capacity(places.len());
    let (mut source, mut folded) = (0, 0);
    let mut wanted = places.iter().copied().peekable();
    for_segments(line, |length, text| {
        while let Some(place) = wanted.next_if(|place| *place < folded + text.len() || *place == folded) {
            found.push((place == folded).then_some(source));
        }
        source += length;
        folded += text.len();
    });
    found.extend(wanted.map(|place| (place == folded).then_some(source)));
    found
}

/// The places at which both `line` and its folded form can be cut: in `line`, in the folded form.
pub(crate) fn cuts(line: &[u8]) -> Vec<(usize, usize)> {
    let mut all = vec![(0, 0)];
    let (mut source, mut folded) = (0, 0);
    for_segments(line, |length, text| {
        source += length;
        folded += text.len();
        all.push((source, folded));
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn folded(line: &str) -> String {
        String::from_utf8(fold(line.as_bytes(), Fold::Unicode).into_owned()).unwrap()
    }

    #[test]
    fn typography_is_folded_to_the_keyboard() {
        assert_eq!(folded("\u{201c}a\u{201d} \u{2014} b\u{a0}c\u{2019}s\u{3000}"), "\"a\" - b c's");
        assert_eq!(folded("\u{ff21}\u{ff22} \u{fb01}le"), "AB file");
        assert_eq!(folded("e\u{301}"), folded("\u{e9}"));
        assert_eq!(folded("a\u{2026} \u{ff76}\u{ff9e}"), "a... \u{30ac}");
        assert_eq!(fold(b"  a\xff\xfeb \t", Fold::Indent).as_ref(), b"a\xff\xfeb");
    }

    #[test]
    fn what_means_something_else_is_not_folded() {
        for text in [
            "x\u{b2}",
            "\u{2122}",
            "\u{bd}",
            "\u{2460}",
            "\u{2103}",
            "H\u{2082}O",
            "\u{3392}",
            "\u{1d400}",
            "\u{b4}",
        ] {
            assert_eq!(folded(text), text);
        }
    }

    #[test]
    fn the_short_ways_give_what_the_long_one_gives() {
        let common = "a \u{e9}\u{f7}\u{2d0}\u{2026}\u{201c}\u{a0}\u{bd}\u{ff21}\u{ac00}\u{4e00}\u{3042}\u{30ac}\u{2033}\u{3000}\u{b4}";
        let joining = "\u{301}\u{3099}\u{11a8}\u{200d}\u{fe0f}\u{9be}\u{1f468}";
        for first in common.chars().chain(joining.chars()) {
            for second in common.chars().chain(joining.chars()) {
                let text: String = [first, second, 'x'].iter().collect();
                let long: String = text
                    .graphemes(true)
                    .flat_map(|cluster| folded_cluster(cluster).collect::<Vec<_>>())
                    .collect();
                assert_eq!(folded(&text), long, "{text:?}");
                assert!(!differs_at_once(text.as_bytes(), Fold::Unicode, long.as_bytes()), "{text:?}");
            }
        }
        assert!(differs_at_once(b"  abc", Fold::Indent, b"ax"));
        assert!(!differs_at_once("ab \u{a0}".as_bytes(), Fold::Unicode, b"ab"));
    }

    #[test]
    fn places_lead_back_to_the_edges_of_characters_alone() {
        let line = "\u{fb01}le\u{a0}x".as_bytes();
        assert_eq!(
            unfold(line, Fold::Unicode, &[0, 1, 2, 4, 5, 6]),
            [Some(0), None, Some(3), Some(5), Some(7), Some(8)]
        );
        assert_eq!(unfold(b"abc", Fold::Unicode, &[1, 3]), [Some(1), Some(3)]);
    }
}
