//! Finds a text in a file at one level of the ladder, in one pass over the file's lines.
//!
//! A text of several lines is the end of one line, then whole lines, then the start of one. The whole lines are
//! found as a sequence (Knuth, Morris and Pratt), so that a file of a million equal lines costs one pass too. Memory is
//! bounded by the text that is looked for and by [`MAX_HITS`], never by the file.

use std::collections::VecDeque;
use std::ops::Range;

use memchr::{memmem, memrchr2};

use super::fold::{Fold, differs_at_once, fold, unfold};
use super::indent;
use super::lines::{Line, body, ends, is_space, lines, numbered, trim_end};

/// So many places are kept; beyond them only the count goes on.
pub(crate) const MAX_HITS: usize = 1_000_000;

/// A text to look for, cut into lines.
pub(crate) struct Needle<'a> {
    /// The lines as given.
    pub(crate) raw: Vec<&'a str>,
    /// The lines as compared.
    folded: Vec<Vec<u8>>,
    how: Fold,
    /// The last line lost white space at its end, so it must end where the file's line does.
    to_line_end: bool,
}

impl<'a> Needle<'a> {
    /// None if nothing would be left to compare.
    pub(crate) fn new(text: &'a str, how: Fold) -> Option<Needle<'a>> {
        let bytes = text.as_bytes();
        let raw: Vec<&str> = lines(bytes, 0..bytes.len()).map(|line| &text[line.start..line.end]).collect();
        let mut folded: Vec<Vec<u8>> =
            raw.iter().map(|line| fold(line.as_bytes(), how).into_owned()).collect();
        if how > Fold::Nothing && folded.iter().all(Vec::is_empty) {
            return None;
        }
        let last = raw.last().map_or(&b""[..], |line| line.as_bytes());
        let to_line_end =
            how > Fold::Nothing && !last.is_empty() && last.last().is_some_and(|b| is_space(*b));
        // White space alone after the last line ending is the start of a line that the text does not show.
        let blank_end = to_line_end && folded.last().is_some_and(Vec::is_empty);
        if blank_end
            && how < Fold::Indent
            && let Some(last) = folded.last_mut()
        {
            last.extend_from_slice(raw.last().map_or(&b""[..], |line| line.as_bytes()));
        }
        Some(Needle { raw, folded, how, to_line_end: to_line_end && !blank_end })
    }

    fn ends_line(&self, line: &[u8]) -> bool {
        let first = &self.folded[0];
        // A letter at the end is what it is.
        let last = trim_end(line).last();
        if self.how > Fold::Nothing
            && let (Some(one), Some(other)) = (last, first.last())
            && one.is_ascii()
            && one != other
        {
            return false;
        }
        let line = fold(line, self.how);
        if self.how == Fold::Indent && !first.is_empty() { *line == **first } else { line.ends_with(first) }
    }

    fn starts_line(&self, line: &[u8], folded: &[u8]) -> bool {
        let last = &self.folded[self.folded.len() - 1];
        if self.to_line_end || (self.how == Fold::Indent && !last.is_empty()) {
            return folded == &last[..];
        }
        folded.starts_with(last) || (last.iter().all(|b| is_space(*b)) && line.starts_with(last))
    }
}

/// One place of a text in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The bytes that it takes.
    pub(crate) span: Range<usize>,
    /// The number of its first line.
    pub(crate) line: usize,
}

/// The places of a text in a file.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) hits: Vec<Hit>,
    /// How many there are, without overlap.
    pub(crate) count: usize,
    /// The line of a second place that overlaps with the only other one.
    pub(crate) met: Option<usize>,
    /// The line of a place that starts or ends inside a character.
    pub(crate) torn: Option<usize>,
    end: usize,
}

impl Found {
    fn add(&mut self, span: Range<usize>, line: usize) {
        if span.start < self.end || span.is_empty() {
            return;
        }
        self.end = span.end;
        self.count += 1;
        if self.hits.len() < MAX_HITS {
            self.hits.push(Hit { span, line });
        }
    }
}

/// The places with exactly these bytes. None if one of them would tear a `\r\n` apart.
pub(crate) fn exact(file: &[u8], text: &str) -> Option<Found> {
    let mut found = Found::default();
    let (mut counted, mut line) = (0, 1);
    for start in memmem::find_iter(file, text.as_bytes()) {
        let end = start + text.len();
        let torn = |at: usize| at > 0 && file[at - 1] == b'\r' && file.get(at) == Some(&b'\n');
        if torn(start) || torn(end) {
            return None;
        }
        line += ends(&file[counted..start]);
        counted = start;
        found.add(start..end, line);
    }
    if let (1, Some(hit)) = (found.count, found.hits.first()) {
        let behind = hit.span.start + 1;
        let second = memmem::find(&file[behind..], text.as_bytes()).map(|at| behind + at);
        found.met = second.map(|second| hit.line + ends(&file[hit.span.start..second]));
    }
    Some(found)
}

/// The places where the text is, but for what `needle` does not count.
pub(crate) fn find(file: &[u8], needle: &Needle<'_>) -> Found {
    match needle.folded.len() {
        1 => within_lines(file, needle),
        _ => over_lines(file, needle),
    }
}

fn within_lines(file: &[u8], needle: &Needle<'_>) -> Found {
    let text = &needle.folded[0];
    let finder = memmem::Finder::new(text);
    let mut found = Found::default();
    for (number, line) in Likely::new(file, &finder, needle.how) {
        let folded = fold(line.text(file), needle.how);
        if needle.how == Fold::Indent {
            if *folded == **text {
                found.add(line.start..line.end, number);
            }
            continue;
        }
        if needle.to_line_end {
            if folded.ends_with(text) {
                match unfold(line.text(file), needle.how, &[folded.len() - text.len()])[..] {
                    [Some(start)] => found.add(line.start + start..line.end, number),
                    _ => found.torn = found.torn.or(Some(number)),
                }
            }
            continue;
        }
        let mut places: Vec<usize> = Vec::new();
        for start in finder.find_iter(&folded).take(MAX_HITS) {
            places.extend([start, start + text.len()]);
        }
        if places.is_empty() {
            continue;
        }
        if let [start, _] = places[..]
            && folded.get(start + 1..).is_some_and(|rest| memmem::find(rest, text).is_some())
        {
            found.met = found.met.or(Some(number));
        }
        for pair in unfold(line.text(file), needle.how, &places).chunks_exact(2) {
            match pair {
                [Some(start), Some(end)] => found.add(line.start + start..line.start + end, number),
                _ => found.torn = found.torn.or(Some(number)),
            }
        }
    }
    found
}

/// The lines that can fold to one with a text in it, with their numbers: those that have it as it is, and where
/// characters are folded those that are not ASCII. The others are passed over many bytes at a time.
struct Likely<'a> {
    file: &'a [u8],
    finder: &'a memmem::Finder<'a>,
    how: Fold,
    /// Where the next line to look at starts, and its number.
    at: usize,
    number: usize,
    /// The next place of the text, and the next byte that is not ASCII; the file's length if there is none.
    text: usize,
    odd: usize,
}

impl<'a> Likely<'a> {
    fn new(file: &'a [u8], finder: &'a memmem::Finder<'a>, how: Fold) -> Likely<'a> {
        let at = body(file);
        Likely { file, finder, how, at, number: 1, text: at, odd: at }
    }

    /// The next byte that makes a line worth a look.
    fn reason(&mut self) -> Option<usize> {
        let (from, end) = (self.at, self.file.len());
        if self.text <= from && from < end {
            self.text = self.finder.find(&self.file[from..]).map_or(end, |at| from + at);
        }
        if self.odd <= from && from < end {
            self.odd = if self.how < Fold::Unicode { end } else { next_odd(self.file, from) };
        }
        Some(self.text.min(self.odd)).filter(|reason| *reason < end && from < end)
    }
}

impl Iterator for Likely<'_> {
    type Item = (usize, Line);

    fn next(&mut self) -> Option<(usize, Line)> {
        let reason = self.reason()?;
        let passed = &self.file[self.at..reason];
        let start = memrchr2(b'\n', b'\r', passed).map_or(self.at, |end| self.at + end + 1);
        let number = self.number + ends(&self.file[self.at..start]);
        let line = lines(self.file, start..self.file.len()).next()?;
        (self.at, self.number) = (line.next, number + ends(&self.file[line.end..line.next]));
        Some((number, line))
    }
}

/// Where the next byte that is not ASCII is, or the end.
fn next_odd(file: &[u8], from: usize) -> usize {
    let mut at = from;
    for block in file[from..].chunks(256) {
        if !block.is_ascii() {
            return at + block.iter().position(|byte| !byte.is_ascii()).unwrap_or(0);
        }
        at += block.len();
    }
    at
}

/// Whether a text cannot be anywhere, by its longest line alone, which some line of the file would have to hold.
fn is_nowhere(file: &[u8], needle: &Needle<'_>) -> bool {
    let Some(longest) = needle.folded.iter().max_by_key(|line| line.len()) else { return true };
    let as_it_is = needle.how < Fold::Unicode || file[body(file)..].is_ascii();
    as_it_is && memmem::find(file, longest).is_none()
}

fn over_lines(file: &[u8], needle: &Needle<'_>) -> Found {
    if is_nowhere(file, needle) {
        return Found::default();
    }
    let last = needle.folded.len() - 1;
    let middle = &needle.folded[1..last];
    let fallback = failures(middle);
    let mut found = Found::default();
    // The lines back to the one in which the text would start.
    let mut recent: VecDeque<(usize, Line)> = VecDeque::with_capacity(needle.folded.len());
    let (mut matched, mut expecting_last) = (0, false);
    let mut patience = Patience::new(file.len());
    for (number, line) in numbered(file, body(file)..file.len()) {
        if recent.len() > last {
            recent.pop_front();
        }
        recent.push_back((number, line));
        let text = line.text(file);
        let could_be = |wanted: &Vec<u8>| !differs_at_once(text, needle.how, wanted);
        if !expecting_last && matched == 0 && middle.first().is_some_and(|first| !could_be(first)) {
            continue;
        }
        let folded = fold(text, needle.how);
        if expecting_last
            && let Some((number, first)) = recent.front().copied()
            && needle.starts_line(text, &folded)
        {
            match span(file, needle, first, line, &folded) {
                Some(span) if span.start < found.end => {
                    let asks = found.count == 1 && found.met.is_none();
                    if asks && (needle.how < Fold::Indent || patience.fits(file, needle, &recent)) {
                        found.met = Some(number);
                    }
                }
                Some(span) => {
                    if needle.how < Fold::Indent || patience.fits(file, needle, &recent) {
                        found.add(span, number);
                    }
                }
                None => found.torn = found.torn.or(Some(number)),
            }
        }
        while matched > 0 && (matched == middle.len() || middle[matched][..] != *folded) {
            matched = fallback[matched - 1];
        }
        if middle.get(matched).is_some_and(|next| next[..] == *folded) {
            matched += 1;
        }
        expecting_last = matched == middle.len()
            && recent.len() > middle.len()
            && needle.ends_line(recent[recent.len() - 1 - middle.len()].1.text(file));
    }
    found
}

/// How far a match of lines falls back when the next one differs.
fn failures(lines: &[Vec<u8>]) -> Vec<usize> {
    let mut table = vec![0; lines.len()];
    let mut matched = 0;
    for i in 1..lines.len() {
        while matched > 0 && lines[i] != lines[matched] {
            matched = table[matched - 1];
        }
        if lines[i] == lines[matched] {
            matched += 1;
        }
        table[i] = matched;
    }
    table
}

/// From where in `first` to where in `last` the text is.
fn span(file: &[u8], needle: &Needle<'_>, first: Line, last: Line, folded: &[u8]) -> Option<Range<usize>> {
    let (head, tail) = (&needle.folded[0], &needle.folded[needle.folded.len() - 1]);
    let start = match needle.how {
        Fold::Indent if head.is_empty() => first.end,
        Fold::Indent => first.start,
        how => {
            let text = first.text(file);
            let at = fold(text, how).len() - head.len();
            // An empty head starts at the line's ending, behind white space that does not count.
            if head.is_empty() { first.end } else { first.start + unfold(text, how, &[at])[0]? }
        }
    };
    let end = match needle.how {
        _ if tail.is_empty() => last.start,
        Fold::Indent => last.end,
        _ if needle.to_line_end => last.end,
        how if folded.starts_with(tail) => last.start + unfold(last.text(file), how, &[tail.len()])[0]?,
        _ => last.start + tail.len(),
    };
    Some(start..end)
}

/// How much work the comparison of indentations may still be. Every line of the file can be looked at a few times;
/// a file that is made to need more is not matched at this level.
struct Patience(usize);

impl Patience {
    fn new(bytes: usize) -> Self {
        Patience(bytes.saturating_mul(2).saturating_add(4096))
    }

    fn fits(&mut self, file: &[u8], needle: &Needle<'_>, recent: &VecDeque<(usize, Line)>) -> bool {
        let Some(left) = self.0.checked_sub(recent.len()) else { return false };
        self.0 = left;
        super::count_steps(recent.len());
        let found = recent.iter().map(|(_, line)| line.text(file));
        indent::Shift::between(needle.raw.iter().map(|line| line.as_bytes()).zip(found)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    fn spans(file: &str, text: &str, how: Fold) -> Vec<(usize, usize)> {
        let needle = Needle::new(text, how).unwrap();
        find(file.as_bytes(), &needle).hits.into_iter().map(|hit| (hit.span.start, hit.span.end)).collect()
    }

    #[test]
    fn a_text_of_lines_is_found_whatever_the_endings() {
        assert_eq!(spans("a\r\nb\nc\rd", "a\nb\nc\nd", Fold::Nothing), [(0, 8)]);
        assert_eq!(spans("xa\r\nbx", "a\nb", Fold::Nothing), [(1, 5)]);
        assert_eq!(spans("a\r\nb\r\na\r\n", "a\n", Fold::Nothing), [(0, 3), (6, 9)]);
        assert_eq!(spans("a\r\n\r\nb", "\n", Fold::Nothing), [(1, 3), (3, 5)]);
        assert_eq!(spans("x\ny\ny\ny\nz\n", "y\ny\n", Fold::Nothing), [(2, 6)]);
    }

    #[test]
    fn trailing_space_counts_for_nothing_and_is_taken_where_the_text_had_some() {
        assert_eq!(spans("a  \nb \n", "a\nb", Fold::Trailing), [(0, 5)]);
        assert_eq!(spans("a\nb \t\n", "a\nb  ", Fold::Trailing), [(0, 5)]);
        assert_eq!(spans("x = 5\nx =\n", "x =  ", Fold::Trailing), [(6, 9)]);
        assert!(Needle::new("  \n\t", Fold::Trailing).is_none());
    }

    #[test]
    fn indentation_counts_for_nothing_where_it_is_shifted_alike() {
        assert_eq!(spans("\tif x:\n\t\ty()\n", "if x:\n    y()", Fold::Indent), [(0, 12)]);
        assert_eq!(spans("\tif x:\n\ty()\n", "if x:\n    y()", Fold::Indent), []);
        assert_eq!(spans("  a\n", "\ta", Fold::Indent), [(0, 3)]);
    }

    proptest! {
        #[test]
        fn no_line_that_could_hold_the_text_is_passed_over(
            file in "\u{feff}?([ab \"\u{201c}\u{fb01}]{0,4}(\n|\r\n|\r)){0,12}[ab]{0,2}", text in "[ab \"]{1,3}",
        ) {
            for how in [Fold::Nothing, Fold::Trailing, Fold::Unicode, Fold::Indent] {
                let finder = memmem::Finder::new(&text);
                let likely: Vec<(usize, Line)> = Likely::new(file.as_bytes(), &finder, how).collect();
                for (number, line) in numbered(file.as_bytes(), body(file.as_bytes())..file.len()) {
                    let held = memmem::find(&fold(line.text(file.as_bytes()), how), text.as_bytes()).is_some();
                    prop_assert!(!held || likely.contains(&(number, line)), "{:?}", line);
                }
            }
        }
    }

    #[test]
    fn the_same_as_a_plain_search_when_nothing_is_folded() {
        for file in ["a\nb\na\nb\na", "b\nb\nb\nb\n", "ab\nab\nab", "\n\n\n\n"] {
            for text in ["a\nb", "b\nb", "b\na", "\n\n", "b\nb\nb\n", "a"] {
                let plain: Vec<(usize, usize)> =
                    memmem::find_iter(file.as_bytes(), text).map(|at| (at, at + text.len())).collect();
                assert_eq!(spans(file, text, Fold::Nothing), plain, "{file:?} {text:?}");
            }
        }
    }
}
