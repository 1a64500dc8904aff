//! The matches of one file: counted, or as lines that are cut around the match where they are long.

use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use helve_core::files::HitLine;

use super::answer::Hits;

/// What is wanted of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Whether it has a match.
    Any,
    /// How many lines match, counted up to so many.
    Count(u64),
    /// The lines, after so many of them that are passed over, until so many or so many bytes are there.
    Lines { skip: u64, most: u64, bytes: usize },
}

/// Takes what the searcher finds in one file.
pub(super) struct Collector<'a> {
    matcher: &'a RegexMatcher,
    want: Want,
    line_chars: usize,
    pub(super) hits: Hits,
}

impl<'a> Collector<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, want: Want, line_chars: usize) -> Self {
        Collector { matcher, want, line_chars, hits: Hits::default() }
    }

    fn keep(&mut self, number: Option<u64>, bytes: &[u8], matched: bool) {
        let line = without_end(bytes);
        let at = || match matched {
            true => self.matcher.find(line).ok().flatten().map(|found| (found.start(), found.end())),
            false => None,
        };
        let (text, cut) = shortened(line, self.line_chars, at);
        self.hits.bytes += text.len() + 1;
        self.hits.lines.push(HitLine { line: number.unwrap_or(0), text, matched, cut });
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        match self.want {
            Want::Any => {
                self.hits.count = 1;
                Ok(false)
            }
            Want::Count(most) => {
                self.hits.count += found.lines().count() as u64;
                Ok(self.hits.count < most)
            }
            Want::Lines { skip, most, bytes } => {
                for (line, number) in found.lines().zip(found.line_number().unwrap_or(1)..) {
                    let full = self.hits.count >= skip.saturating_add(most) || self.hits.bytes > bytes;
                    self.hits.count += 1;
                    if self.hits.count <= skip {
                        continue;
                    }
                    if full {
                        self.hits.cut = true;
                        return Ok(false);
                    }
                    self.keep(Some(number), line, true);
                }
                Ok(true)
            }
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if let Want::Lines { skip, .. } = self.want
            && self.hits.count >= skip
        {
            self.keep(context.line_number(), context.bytes(), false);
        }
        Ok(true)
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line as text of at most `most` characters with the match in it, and how many were cut off on both sides.
fn shortened(
    line: &[u8],
    most: usize,
    matched: impl FnOnce() -> Option<(usize, usize)>,
) -> (String, (u64, u64)) {
    if line.len() <= most || characters(line) as usize <= most {
        return (String::from_utf8_lossy(line).into_owned(), (0, 0));
    }
    let (from, to) = matched().unwrap_or((0, 0));
    // A quarter of the room stands before the match, or more where the match is short of the line's end.
    let start = back(line, from, most / 4);
    let mut end = forward(line, start, most);
    let mut start = if end == line.len() { back(line, end, most) } else { start };
    if end < to.min(forward(line, from, most)) && most > 0 {
        // The match is longer than the rest of the room: it is shown from its start.
        start = from;
        end = forward(line, start, most);
    }
    let text = String::from_utf8_lossy(&line[start..end]).into_owned();
    (text, (characters(&line[..start]), characters(&line[end..])))
}

/// How many characters begin in these bytes.
fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| begins(**byte)).count() as u64
}

/// Whether a character begins with this byte.
fn begins(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

/// So many characters before a place.
fn back(line: &[u8], mut at: usize, mut count: usize) -> usize {
    while at > 0 && (count > 0 || line.get(at).is_some_and(|byte| !begins(*byte))) {
        at -= 1;
        if begins(line[at]) {
            count = count.saturating_sub(1);
        }
    }
    at
}

/// So many characters behind a place.
fn forward(line: &[u8], mut at: usize, mut count: usize) -> usize {
    while at < line.len() {
        if begins(line[at]) {
            if count == 0 {
                break;
            }
            count -= 1;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn cut(line: &str, most: usize, word: &str) -> (String, (u64, u64)) {
        let at = line.find(word).map(|at| (at, at + word.len()));
        shortened(line.as_bytes(), most, || at)
    }

    #[test]
    fn a_short_line_stays_whole() {
        assert_eq!(cut("übergrößen", 10, "g"), ("übergrößen".into(), (0, 0)));
    }

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let line = format!("{}NEEDLE{}", "a".repeat(100), "b".repeat(100));
        let (text, cut_off) = cut(&line, 40, "NEEDLE");
        assert_eq!(text, format!("{}NEEDLE{}", "a".repeat(10), "b".repeat(24)));
        assert_eq!(cut_off, (90, 76));
    }

    #[test]
    fn a_match_at_the_end_has_more_in_front() {
        let line = format!("{}NEEDLE", "ä".repeat(100));
        assert_eq!(cut(&line, 20, "NEEDLE"), (format!("{}NEEDLE", "ä".repeat(14)), (86, 0)));
    }

    #[test]
    fn a_match_longer_than_the_room_is_shown_from_its_start() {
        let line = format!("{}{}", "x".repeat(50), "N".repeat(50));
        assert_eq!(cut(&line, 10, &"N".repeat(50)), ("N".repeat(10), (50, 40)));
    }

    proptest::proptest! {
        #[test]
        fn no_more_than_asked_for_and_nothing_lost(line in ".{0,60}", most in 1_usize..30, at in 0_usize..60) {
            let bytes = line.as_bytes();
            let from = (0..=at.min(bytes.len())).rev().find(|i| line.is_char_boundary(*i)).unwrap();
            let (text, (front, behind)) = shortened(bytes, most, || Some((from, bytes.len().min(from + 1))));
            let all = line.chars().count() as u64;
            proptest::prop_assert!(text.chars().count() <= most);
            proptest::prop_assert_eq!(front + behind + text.chars().count() as u64, all);
            let expected: String = line.chars().skip(front as usize).take(text.chars().count()).collect();
            proptest::prop_assert_eq!(text, expected);
        }
    }
}
