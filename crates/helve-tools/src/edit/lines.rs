//! Lines of a file with their own endings: `\r\n`, `\n` and a lone `\r` each end one where texts are compared. Where lines
//! are counted a lone `\r` is text, as in what `read_file` and `grep` show.

use std::ops::Range;

use memchr::{memchr_iter, memchr2};

/// The mark at the head of some files. It belongs to no line.
pub(crate) const BOM: &str = "\u{feff}";

/// One line of a file, as places in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Where it starts.
    pub(crate) start: usize,
    /// Where its text ends.
    pub(crate) end: usize,
    /// Where the next line starts; `end` if there is none.
    pub(crate) next: usize,
}

impl Line {
    pub(crate) fn text(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.end]
    }
}

/// The lines of `range`. What ends in a line ending has an empty line after it, so there is always at least one line.
pub(crate) fn lines(bytes: &[u8], range: Range<usize>) -> Lines<'_> {
    Lines { bytes, at: Some(range.start), stop: range.end }
}

pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    at: Option<usize>,
    stop: usize,
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        let start = self.at?;
        let rest = &self.bytes[start..self.stop];
        let Some(found) = memchr2(b'\n', b'\r', rest) else {
            self.at = None;
            return Some(Line { start, end: self.stop, next: self.stop });
        };
        let length = if rest[found..].starts_with(b"\r\n") { 2 } else { 1 };
        let line = Line { start, end: start + found, next: start + found + length };
        self.at = Some(line.next);
        Some(line)
    }
}

/// The same with the number of each: after a lone `\r` it is still that of the line before.
pub(crate) fn numbered(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = (usize, Line)> + '_ {
    let mut number = 1;
    lines(bytes, range).map(move |line| {
        let this = (number, line);
        number += usize::from(bytes[line.end..line.next].ends_with(b"\n"));
        this
    })
}

/// Where the text of a file starts: behind its mark, if it has one.
pub(crate) fn body(bytes: &[u8]) -> usize {
    if bytes.starts_with(BOM.as_bytes()) { BOM.len() } else { 0 }
}

/// The number of the line, counted from 1, in which `at` lies.
pub(crate) fn line_of(bytes: &[u8], at: usize) -> usize {
    ends(&bytes[..at.min(bytes.len())]) + 1
}

/// How many lines end in `bytes`.
pub(crate) fn ends(bytes: &[u8]) -> usize {
    memchr_iter(b'\n', bytes).count()
}

/// White space at the ends of lines.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c)
}

pub(crate) fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

/// How many bytes of white space a line starts with.
pub(crate) fn indent(text: &[u8]) -> usize {
    text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn every_kind_of_ending_ends_a_line() {
        let bytes = b"a\r\nb\nc\rd";
        let all: Vec<(&[u8], &[u8])> = lines(bytes, 0..bytes.len())
            .map(|line| (line.text(bytes), &bytes[line.end..line.next]))
            .collect();
        assert_eq!(all, [(&b"a"[..], &b"\r\n"[..]), (b"b", b"\n"), (b"c", b"\r"), (b"d", b"")]);
        assert_eq!(lines(b"", 0..0).count(), 1);
        assert_eq!(lines(b"\n", 0..1).count(), 2);
        assert_eq!(line_of(bytes, 0), 1);
        assert_eq!(line_of(bytes, bytes.len()), 3);
        let numbers: Vec<usize> = numbered(bytes, 0..bytes.len()).map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 2, 3, 3]);
    }

    proptest! {
        #[test]
        fn the_lines_put_together_are_the_file(bytes in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..40)) {
            let mut all = Vec::new();
            for line in lines(&bytes, 0..bytes.len()) {
                all.extend_from_slice(&bytes[line.start..line.next]);
            }
            prop_assert_eq!(all, &bytes[..]);
            for at in 0..=bytes.len() {
                prop_assert_eq!(line_of(&bytes, at), numbered(&bytes, 0..at).last().map_or(0, |(number, _)| number));
            }
        }
    }
}
