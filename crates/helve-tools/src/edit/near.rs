//! What is nearest to a text that is not in a file, anywhere in it, and how it differs.
//!
//! One pass over the file scores each line by how many of its three-byte pieces the text has as well; the
//! windows of lines with the best sums are candidates, and only those are compared letter by letter. Long lines are
//! scored in pieces. Memory and work beyond the one pass are bounded.

mod differ;

use std::collections::VecDeque;
use std::ops::Range;

use super::fold::{Fold, fold};
use super::lines::{Line, body, lines, numbered};

/// So many lines of the text are looked at.
const MAX_TEXT_LINES: usize = 48;
/// And so many bytes of each.
const MAX_TEXT_LINE: usize = 160;
/// A longer line of the file is scored in pieces of this many bytes.
const PIECE: usize = 512;
/// So many windows are compared letter by letter.
const CANDIDATES: usize = 6;
/// So many are told.
const TOLD: usize = 3;
/// What has less in common, in percent, is not near.
const MIN_PERCENT: usize = 45;
/// So many characters of the file are shown.
const SHOWN_CHARS: usize = 800;
/// So many bytes before and behind a window are looked at.
const REACH: usize = 16 << 10;
/// Bits of the table of pieces.
const TABLE_BITS: u32 = 16;

/// For so many texts of one call what is near is looked for.
const MAX_LOOKS: usize = 16;
/// And so many bytes of files are gone through for all of them: nobody can stop it once it has begun.
const MAX_LOOKED: usize = 64 << 20;

/// How much one call may still look for what is near.
pub(crate) struct Looks {
    left: usize,
    bytes: usize,
}

/// As much as a call may.
impl Default for Looks {
    fn default() -> Looks {
        Looks { left: MAX_LOOKS, bytes: MAX_LOOKED }
    }
}

impl Looks {
    /// [`look`], where that is still possible.
    pub(crate) fn look(&mut self, file: &[u8], text: &str) -> (Vec<Near>, Option<Region>) {
        match (self.left.checked_sub(1), self.bytes.checked_sub(file.len())) {
            (Some(left), Some(bytes)) => {
                *self = Looks { left, bytes };
                look(file, text)
            }
            _ => (Vec::new(), None),
        }
    }
}

/// A text of the file that is near to the one that was looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// The number of the first line that differs.
    pub line: usize,
    /// How much they have in common.
    pub percent: usize,
    /// The line of the text that differs; cut if it is long.
    pub expected: String,
    /// The line of the file.
    pub found: String,
    /// How they differ.
    pub difference: String,
    lines: Range<usize>,
}

/// A part of the file to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The number of its first line.
    pub first_line: usize,
    /// Its text, every line ending as `\n`.
    pub text: String,
    /// Whether there is more before it.
    pub more_before: bool,
    /// Whether there is more behind it.
    pub more_behind: bool,
}

/// The nearest texts, the best first, and the part of the file around the best.
fn look(file: &[u8], text: &str) -> (Vec<Near>, Option<Region>) {
    let wanted: Vec<&str> = text.lines().take(MAX_TEXT_LINES).collect();
    let first = wanted.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
    let wanted = &wanted[first.min(wanted.len())..];
    let mut near: Vec<Near> = candidates(file, wanted)
        .into_iter()
        .filter_map(|candidate| compare(file, wanted, &candidate))
        .filter(|near| near.percent >= MIN_PERCENT)
        .collect();
    near.sort_by_key(|near| (std::cmp::Reverse(near.percent), near.line));
    near.dedup_by_key(|near| near.line);
    near.truncate(TOLD);
    let around = near.first().map_or(1..1, |best| best.lines.clone());
    (near, region(file, around))
}

/// A window of lines, or pieces of lines, that shares much with the text.
#[derive(Clone, Debug)]
struct Candidate {
    score: usize,
    /// The number of its first line.
    line: usize,
    /// The bytes of its lines.
    units: Vec<Line>,
}

/// The pieces of a text that a line may share with it.
struct Pieces {
    size: usize,
    table: Vec<u64>,
}

impl Pieces {
    fn new(wanted: &[&str]) -> Pieces {
        // As it is and folded: the file's lines are not folded for this.
        let lines: Vec<Vec<u8>> = wanted
            .iter()
            .map(|line| cut_bytes(line.as_bytes()))
            .flat_map(|line| [line.trim_ascii().to_vec(), plain(line)])
            .collect();
        let longest = lines.iter().map(Vec::len).max().unwrap_or(0);
        let size = longest.clamp(1, 3);
        let mut pieces = Pieces { size, table: vec![0; 1 << (TABLE_BITS - 6)] };
        for piece in lines.iter().flat_map(|line| line.windows(size)) {
            let slot = slot(piece.iter().fold(0, |value, byte| followed(value, *byte)));
            pieces.table[slot / 64] |= 1 << (slot % 64);
        }
        pieces
    }

    /// Twice how many pieces of the line the text has, less those that it has not.
    fn score(&self, line: &[u8]) -> usize {
        super::count_steps(line.len());
        let mut common = 0;
        let (head, rest) = line.split_at(line.len().min(self.size - 1));
        // The last bytes, one behind the other: each piece is the one before it without its first byte and with the next.
        let mut value = head.iter().fold(0, |value, byte| followed(value, *byte));
        let mask = u32::MAX >> (32 - 8 * self.size);
        for byte in rest {
            value = followed(value, *byte) & mask;
            let slot = slot(value);
            common += (self.table[slot / 64] >> (slot % 64) & 1) as usize;
        }
        let total = (line.len() + 1).saturating_sub(self.size);
        (common * 3).saturating_sub(total)
    }
}

/// What each byte counts as: the kind of quotation mark and the case of a letter are differences to tell, not ones to
/// stumble over.
const COUNTS_AS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < table.len() {
        let byte = at as u8;
        table[at] = if matches!(byte, b'\'' | b'`') { b'"' } else { byte.to_ascii_lowercase() };
        at += 1;
    }
    table
};

/// A piece with one more byte behind it.
fn followed(value: u32, byte: u8) -> u32 {
    value << 8 | u32::from(COUNTS_AS[usize::from(byte)])
}

/// Where a piece stands in the table.
fn slot(value: u32) -> usize {
    (value.wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS)) as usize
}

/// A line for comparing: folded, without indentation.
fn plain(line: &[u8]) -> Vec<u8> {
    fold(line, Fold::Indent).into_owned()
}

fn cut_bytes(line: &[u8]) -> &[u8] {
    &line[..line.len().min(MAX_TEXT_LINE)]
}

/// Lines, the long ones in pieces, with the number of their line.
fn units(file: &[u8]) -> impl Iterator<Item = (usize, Line)> + '_ {
    numbered(file, body(file)..file.len()).flat_map(|(number, line)| {
        let count = (line.end - line.start).div_ceil(PIECE).max(1);
        (0..count).map(move |i| {
            let start = line.start + i * PIECE;
            let end = if i + 1 == count { line.end } else { start + PIECE };
            (number, Line { start, end, next: end })
        })
    })
}

fn candidates(file: &[u8], wanted: &[&str]) -> Vec<Candidate> {
    let pieces = Pieces::new(wanted);
    let size = wanted.len().max(1);
    let mut best: Vec<Candidate> = Vec::new();
    let mut window: VecDeque<(usize, usize, Line)> = VecDeque::with_capacity(size);
    let mut sum = 0;
    for (number, unit) in units(file) {
        if window.len() == size
            && let Some((score, ..)) = window.pop_front()
        {
            sum -= score;
        }
        let score = pieces.score(unit.text(file).trim_ascii());
        sum += score;
        window.push_back((score, number, unit));
        // A window is worth a look where its last line adds to it.
        if score > 0 {
            offer(&mut best, sum, &window);
        }
    }
    best
}

/// Keeps the best windows that do not overlap.
fn offer(best: &mut Vec<Candidate>, score: usize, window: &VecDeque<(usize, usize, Line)>) {
    let weakest = best.iter().map(|candidate| candidate.score).min().unwrap_or(0);
    if best.len() == CANDIDATES && score <= weakest {
        return;
    }
    let Some((_, line, first)) = window.front().copied() else { return };
    let overlapping =
        best.iter().position(|known| known.units.last().is_some_and(|last| last.end > first.start));
    if let Some(index) = overlapping {
        if best[index].score >= score {
            return;
        }
        best.remove(index);
    } else if best.len() == CANDIDATES {
        let weakest = best.iter().position(|candidate| candidate.score == weakest);
        weakest.map(|index| best.remove(index));
    }
    best.push(Candidate { score, line, units: window.iter().map(|(.., unit)| *unit).collect() });
}

/// How a window differs from the text, line by line.
fn compare(file: &[u8], wanted: &[&str], candidate: &Candidate) -> Option<Near> {
    let (units, line) = aligned(file, wanted, candidate);
    let (mut distance, mut total) = (0, 0);
    let mut first: Option<(usize, &str, String)> = None;
    for (i, expected) in wanted.iter().enumerate() {
        let found = units.get(i).map_or(String::new(), |unit| lossy(unit.text(file)));
        let (a, b) = (short(expected.trim()), short(found.trim()));
        total += a.chars().count().max(b.chars().count());
        if a != b {
            distance += strsim::levenshtein(&a, &b);
        }
        if first.is_none() && differ::differs(expected, &found) {
            first = Some((i, expected, found));
        }
    }
    let percent = 100 - (distance * 100).div_ceil(total.max(1)).min(100);
    let (index, expected, found, difference) = match first {
        Some((index, expected, found)) => {
            let difference = differ::describe(expected, &found);
            (index, expected, found, difference)
        }
        None => {
            let line = *wanted.first()?;
            (0, line, line.to_owned(), "this line matches; what is around it differs".to_owned())
        }
    };
    let number = line + distinct_lines(file, &units[..index.min(units.len())]);
    let last = line + distinct_lines(file, &units);
    let (expected, found) = differ::cut_both(expected, &found);
    Some(Near { line: number, percent, expected, found, difference, lines: line..last + 1 })
}

fn distinct_lines(file: &[u8], units: &[Line]) -> usize {
    let ends = |unit: &&Line| {
        let rest = file.get(unit.end..).unwrap_or_default();
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    };
    units.iter().filter(ends).count()
}

/// The lines of a window, moved to where most of them are the text's, and the number of the first. The window may have been
/// found by one line of many, so as many lines are looked at before and behind it.
fn aligned(file: &[u8], wanted: &[&str], candidate: &Candidate) -> (Vec<Line>, usize) {
    let size = wanted.len();
    let (Some(first), Some(last)) = (candidate.units.first(), candidate.units.last()) else {
        return (Vec::new(), candidate.line);
    };
    let mut all = before(file, first.start, size);
    let lead = all.len();
    all.extend_from_slice(&candidate.units);
    let behind = candidate.units.len() + size;
    if matches!(file.get(last.end), Some(b'\n' | b'\r')) {
        let rest = lines(file, last.end..file.len().min(last.end + REACH)).skip(1);
        all.extend(rest.take(behind).map(|line| Line { next: line.end, ..line }));
    }
    let found: Vec<Vec<u8>> = all.iter().map(|unit| plain(cut_bytes(unit.text(file)))).collect();
    let wanted: Vec<Vec<u8>> = wanted.iter().map(|line| plain(cut_bytes(line.as_bytes()))).collect();
    let alike = |start: usize| {
        let pairs = wanted.iter().zip(&found[start..]);
        pairs.filter(|(a, b)| a == b && !a.is_empty()).map(|(a, _)| a.len()).sum::<usize>()
    };
    // Where nothing tells the places apart, the window stays where it was found.
    let best = (0..found.len()).max_by_key(|start| (alike(*start), std::cmp::Reverse(start.abs_diff(lead))));
    let start = best.unwrap_or(lead);
    let line = match start.checked_sub(lead) {
        Some(down) => candidate.line + distinct_lines(file, &all[lead..lead + down]),
        None => candidate.line - distinct_lines(file, &all[start..lead]),
    };
    let end = (start + size).min(all.len());
    (all[start..end].to_vec(), line)
}

/// Up to so many lines before a place, as far as they are near.
fn before(file: &[u8], at: usize, count: usize) -> Vec<Line> {
    let from = at.saturating_sub(REACH).max(body(file).min(at));
    let all: Vec<Line> = lines(file, from..at).collect();
    // The last one is where the window starts, and the first may be cut.
    let whole = all.len().saturating_sub(1);
    let cut = usize::from(from > body(file)).min(whole);
    let skip = whole.saturating_sub(count).max(cut);
    if !matches!(at.checked_sub(1).and_then(|at| file.get(at)), Some(b'\n' | b'\r')) {
        return Vec::new();
    }
    all[skip..whole].iter().map(|line| Line { next: line.end, ..*line }).collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT_LINE).collect()
}

/// The file, or the part of it around some lines.
fn region(file: &[u8], around: Range<usize>) -> Option<Region> {
    let start = body(file);
    if start == file.len() {
        return None;
    }
    let from = if file.len() <= SHOWN_CHARS { 1 } else { around.start.saturating_sub(3).max(1) };
    let (mut text, mut left) = (String::new(), SHOWN_CHARS);
    let mut more_behind = false;
    let shown = numbered(file, start..file.len()).skip_while(|(number, _)| *number < from);
    for (index, (_, line)) in shown.enumerate() {
        let whole = lossy(&file[line.start..line.end.min(line.start + 4 * SHOWN_CHARS)]);
        if index > 0 && left > 0 {
            text.push('\n');
            left -= 1;
        }
        let part: String = whole.chars().take(left).collect();
        left -= part.chars().count();
        more_behind = part.len() < whole.len() || line.end - line.start > 4 * SHOWN_CHARS;
        text.push_str(&part);
        if left == 0 {
            more_behind |= line.next < file.len();
            break;
        }
    }
    Some(Region { first_line: from, text, more_before: from > 1, more_behind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_looks_only_so_often_and_through_so_much() {
        let file = b"let answer = 42;\n";
        let finds = |looks: &mut Looks| !looks.look(file, "let answer = 43;").0.is_empty();
        let mut few = Looks { left: 2, bytes: 1_000 };
        assert_eq!([finds(&mut few), finds(&mut few), finds(&mut few)], [true, true, false]);
        let mut short = Looks { left: 9, bytes: 2 * file.len() - 1 };
        assert_eq!([finds(&mut short), finds(&mut short)], [true, false]);
        assert_eq!(Looks::default().bytes, 64 << 20, "a file of the usual limit is looked through once");
    }
}
