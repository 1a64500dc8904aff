//! Finds the place of every hunk of a file.
//!
//! Every level of the ladder costs one pass over the lines of the file: the lines that hunks ask for get numbers, the file
//! becomes a row of numbers, and a hunk is looked for in it from its rarest line, or by Knuth, Morris and Pratt where even
//! that is common. Work is counted, so that a patch that asks for too much is refused and never runs for minutes.

use std::collections::HashMap;

use super::lines::Lines;
use helve_core::Cancel;
use helve_core::limits::fixed::{PATCH_PLACES, PATCH_WORK};

use super::scope::{Scope, block_ends};
use super::{Hunk, Kind, numbers};
use crate::edit::fold::{Fold, fold};

/// The differences that did not count where a hunk was found.
pub(crate) type Level = Fold;

const LEVELS: [Level; 4] = [Fold::Nothing, Fold::Trailing, Fold::Unicode, Fold::Indent];
/// No line of any hunk.
const OTHER: u32 = u32::MAX;

/// Something else that the patch says of a hunk's place and that did not hold there, or that alone decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    /// It is outside of the block that its header opens.
    Header,
    /// It is not at the end of the file.
    End,
    /// It is as far from its line number as the hunks beside it, and nothing else tells its place from others.
    Number,
}

/// Where a hunk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Lines of the file before it.
    pub(crate) start: usize,
    /// How many of its lines count: the last one does not where it is empty and stands for the file's last ending.
    pub(crate) old_len: usize,
    pub(crate) level: Level,
    pub(crate) remarks: Vec<Remark>,
}

/// A hunk that could not be placed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Miss {
    /// Which of the hunks.
    pub(crate) hunk: usize,
    pub(crate) trouble: Trouble,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The lines are nowhere.
    Nowhere,
    /// They are at each of these lines, counted from 1; at most a few of `count`.
    Ambiguous { lines: Vec<usize>, count: usize },
    /// A header is nowhere.
    NoHeader(String),
    /// Lines are to be added below a header that stands at each of these lines.
    ManyHeaders { header: String, lines: Vec<usize>, count: usize },
    /// It changes lines that another hunk changes: that one's line of the patch.
    Overlap { other: usize },
    /// It adds lines after a line that the file does not have.
    Beyond { line: usize, lines: usize },
    /// It adds lines after a line that the patch only numbers, and the hunks around it are so far from their numbers.
    Adrift { line: usize, before: isize, behind: isize },
    /// The patch says that the file ends here, and it does not.
    NotTheEnd,
    /// Looking for it would take too long.
    TooMuch,
}

/// Ambiguous places that are told.
const TOLD: usize = 8;

/// The lines of a hunk that change, without the context around them.
pub(super) fn core(hunk: &Hunk<'_>, place: &Place) -> (usize, usize) {
    core_at(hunk, place.start, place.old_len)
}

fn core_at(hunk: &Hunk<'_>, start: usize, old_len: usize) -> (usize, usize) {
    let lead = hunk.lines.iter().take_while(|line| line.kind == Kind::Keep).count().min(old_len);
    let tail = hunk.lines.iter().rev().take_while(|line| line.kind == Kind::Keep).count();
    // What the place leaves out of the hunk is part of its tail.
    let left_out = hunk.old().count() - old_len;
    let tail = tail.saturating_sub(left_out).min(old_len - lead);
    (start + lead, start + old_len - tail)
}

/// The place of every hunk, or what is wrong with each that has none.
pub(super) fn locate(
    lines: &Lines<'_>,
    hunks: &[Hunk<'_>],
    cancel: &Cancel,
) -> Result<Vec<Place>, Vec<Miss>> {
    let mut search = Search { lines, hunks, ends: None, work: 0, cancel };
    let mut found: Vec<Option<Result<Hits, Trouble>>> =
        hunks.iter().map(|hunk| search.where_it_says(hunk).map(Ok)).collect();
    let stated: Vec<usize> = (0..hunks.len()).filter(|at| found[*at].is_some()).collect();
    for level in LEVELS {
        if cancel.is_cancelled() {
            break;
        }
        let searched = |at: &usize| found[*at].is_none() && !numbers::is_all(&hunks[*at]);
        let pending: Vec<usize> = (0..hunks.len()).filter(searched).collect();
        if pending.is_empty() {
            break;
        }
        search.level(level, &pending, &mut found);
    }
    // Where one number does not hold any more, the others prove nothing by themselves.
    if !stated.is_empty() && numbers::are_off(hunks, &found) {
        search.level(Fold::Nothing, &stated, &mut found);
    }
    numbers::choose(hunks, &mut found, lines.len());
    let (mut hits, mut misses) = (Vec::new(), Vec::new());
    for (at, outcome) in found.into_iter().enumerate() {
        match outcome.unwrap_or(Err(Trouble::Nowhere)) {
            Ok(one) => hits.push(one),
            Err(trouble) => misses.push(Miss { hunk: at, trouble }),
        }
    }
    if misses.is_empty() { settle(hunks, &hits) } else { Err(misses) }
}

/// The places that a hunk can have at the first level that has any.
#[derive(Default)]
pub(super) struct Hits {
    pub(super) starts: Vec<usize>,
    pub(super) old_len: usize,
    pub(super) level: Level,
    pub(super) remarks: Vec<Remark>,
}

impl Hits {
    fn place(&self, start: usize) -> Place {
        Place { start, old_len: self.old_len, level: self.level, remarks: self.remarks.clone() }
    }

    fn core(&self, hunk: &Hunk<'_>, start: usize) -> (usize, usize) {
        core_at(hunk, start, self.old_len)
    }
}

/// One place for each hunk: there must be only one way to place them all in their order without overlap.
fn settle(hunks: &[Hunk<'_>], hits: &[Hits]) -> Result<Vec<Place>, Vec<Miss>> {
    let leftmost = in_order(hunks, hits);
    let places = match (leftmost, from_behind(hunks, hits)) {
        (Some(left), Some(right)) => {
            let unsure = (0..hunks.len()).filter(|at| left[*at] != right[*at]);
            let misses: Vec<Miss> = unsure.map(|at| ambiguous(at, &hits[at])).collect();
            if !misses.is_empty() {
                return Err(misses);
            }
            left
        }
        // Not in the order of the file: then each must have one place.
        _ => {
            let unsure = (0..hunks.len()).filter(|at| hits[*at].starts.len() > 1);
            let misses: Vec<Miss> = unsure.map(|at| ambiguous(at, &hits[at])).collect();
            if !misses.is_empty() {
                return Err(misses);
            }
            hits.iter().map(|hits| hits.place(hits.starts[0])).collect()
        }
    };
    no_overlap(hunks, &places)?;
    Ok(places)
}

fn ambiguous(hunk: usize, hits: &Hits) -> Miss {
    let lines = hits.starts.iter().take(TOLD).map(|start| start + 1).collect();
    Miss { hunk, trouble: Trouble::Ambiguous { lines, count: hits.starts.len() } }
}

fn in_order(hunks: &[Hunk<'_>], hits: &[Hits]) -> Option<Vec<Place>> {
    let mut reached = 0;
    let mut places = Vec::with_capacity(hunks.len());
    for (hunk, hits) in hunks.iter().zip(hits) {
        // All places of a hunk have the same shape, so the first that starts late enough is found by halving.
        let from = hits.starts.partition_point(|start| hits.core(hunk, *start).0 < reached);
        let place = hits.place(*hits.starts.get(from)?);
        reached = core(hunk, &place).1;
        places.push(place);
    }
    Some(places)
}

fn from_behind(hunks: &[Hunk<'_>], hits: &[Hits]) -> Option<Vec<Place>> {
    let mut reached = usize::MAX;
    let mut places = Vec::with_capacity(hunks.len());
    for (hunk, hits) in hunks.iter().zip(hits).rev() {
        let to = hits.starts.partition_point(|start| hits.core(hunk, *start).1 <= reached);
        let place = hits.place(*hits.starts.get(to.checked_sub(1)?)?);
        reached = core(hunk, &place).0;
        places.push(place);
    }
    places.reverse();
    Some(places)
}

fn no_overlap(hunks: &[Hunk<'_>], places: &[Place]) -> Result<(), Vec<Miss>> {
    let mut order: Vec<usize> = (0..hunks.len()).collect();
    order.sort_by_key(|at| core(&hunks[*at], &places[*at]));
    for pair in order.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        if core(&hunks[second], &places[second]).0 < core(&hunks[first], &places[first]).1 {
            let (early, late) = (first.min(second), first.max(second));
            let trouble = Trouble::Overlap { other: hunks[early].line };
            return Err(vec![Miss { hunk: late, trouble }]);
        }
    }
    Ok(())
}

struct Search<'s, 'f> {
    lines: &'s Lines<'f>,
    hunks: &'s [Hunk<'s>],
    ends: Option<Vec<u32>>,
    work: u64,
    cancel: &'s Cancel,
}

impl<'s> Search<'s, '_> {
    /// A hunk that stands exactly where its line number says.
    fn where_it_says(&self, hunk: &Hunk<'_>) -> Option<Hits> {
        let start = hunk.at?;
        let old: Vec<&str> = hunk.old().map(|line| line.text).collect();
        let fits = start.checked_add(old.len()).is_some_and(|end| end <= self.lines.len());
        let is_end = !hunk.at_end || start + old.len() == self.lines.len();
        let same = |(i, text): (usize, &&str)| self.lines.text(start + i) == text.as_bytes();
        let is_there = fits && is_end && !old.is_empty() && old.iter().enumerate().all(same);
        is_there.then(|| Hits { starts: vec![start], old_len: old.len(), ..Hits::default() })
    }

    fn level(&mut self, level: Level, pending: &[usize], found: &mut [Option<Result<Hits, Trouble>>]) {
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut number = |text: &str| {
            let next = u32::try_from(numbers.len()).unwrap_or(OTHER);
            *numbers.entry(fold(text.as_bytes(), level).into_owned()).or_insert(next)
        };
        let wanted: Vec<(Vec<u32>, Vec<u32>)> = pending
            .iter()
            .map(|at| {
                let hunk = &self.hunks[*at];
                let headers = hunk.headers.iter().map(|header| number(header)).collect();
                (hunk.old().map(|line| number(line.text)).collect(), headers)
            })
            .collect();
        let row: Vec<u32> = (0..self.lines.len())
            .map(|line| numbers.get(&*fold(self.lines.text(line), level)).copied().unwrap_or(OTHER))
            .collect();
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); numbers.len()];
        for (line, number) in (0u32..).zip(&row) {
            if let Some(lines) = places.get_mut(*number as usize) {
                lines.push(line);
            }
        }
        let index = Index { row, places };
        for (at, (old, headers)) in pending.iter().zip(wanted) {
            found[*at] = match self.hunk(&index, &self.hunks[*at], &old, &headers, level) {
                // A header may be there at the next level.
                Err(Trouble::NoHeader(_)) if level != Fold::Indent => None,
                outcome => outcome.transpose(),
            };
        }
    }

    fn hunk(
        &mut self,
        index: &Index,
        hunk: &Hunk<'_>,
        old: &[u32],
        headers: &[u32],
        level: Level,
    ) -> Result<Option<Hits>, Trouble> {
        let count = self.lines.len();
        let scope = self.scope(index, hunk, headers)?;
        if old.is_empty() {
            let start = match &scope {
                Some(scope) => scope.only().ok_or_else(|| many_headers(hunk, scope))?,
                None => count,
            };
            return Ok(Some(Hits { starts: vec![start], level, ..Hits::default() }));
        }
        let mut len = old.len();
        let mut starts = self.starts(index, old)?;
        // The last empty line may stand for the ending of the file's last line.
        let last_is_empty =
            hunk.old().next_back().is_some_and(|line| line.text.is_empty() && line.kind == Kind::Keep);
        if starts.is_empty() && len > 1 && last_is_empty {
            len -= 1;
            starts = self.starts(index, &old[..len])?;
            starts.retain(|start| start + len == count);
        }
        let mut remarks = Vec::new();
        if let Some(scope) = &scope {
            let outside;
            (starts, outside) = scope.places(self.lines, &starts);
            remarks.extend(outside.then_some(Remark::Header));
        }
        if hunk.at_end && !starts.is_empty() {
            if starts.last().is_some_and(|start| start + len == count) {
                starts.drain(..starts.len() - 1);
            } else {
                remarks.push(Remark::End);
            }
        }
        Ok((!starts.is_empty()).then_some(Hits { starts, old_len: len, level, remarks }))
    }

    fn scope(&mut self, index: &Index, hunk: &Hunk<'_>, headers: &[u32]) -> Result<Option<Scope>, Trouble> {
        let mut scope: Option<Scope> = None;
        for (text, number) in hunk.headers.iter().zip(headers) {
            let lines: Vec<usize> = index.lines_of(*number).iter().map(|line| *line as usize).collect();
            self.work(lines.len())?;
            let ends = self.ends.get_or_insert_with(|| block_ends(self.lines));
            let next = Scope::new(&lines, ends, scope.as_ref());
            scope = Some(next.ok_or_else(|| Trouble::NoHeader((*text).to_owned()))?);
        }
        Ok(scope)
    }

    fn work(&mut self, steps: usize) -> Result<(), Trouble> {
        self.work += steps as u64;
        if self.work > PATCH_WORK as u64 || self.cancel.is_cancelled() {
            Err(Trouble::TooMuch)
        } else {
            Ok(())
        }
    }

    /// Every place of these lines, ascending.
    fn starts(&mut self, index: &Index, old: &[u32]) -> Result<Vec<usize>, Trouble> {
        let rarest = old.iter().enumerate().min_by_key(|(_, number)| index.lines_of(**number).len());
        let Some((at, number)) = rarest else { return Ok(Vec::new()) };
        let lines = index.lines_of(*number);
        let by_rarest = lines.len().saturating_mul(old.len());
        let by_row = index.row.len() + old.len();
        self.work(by_rarest.min(by_row))?;
        let starts: Vec<usize> = if by_rarest <= by_row {
            let candidates = lines.iter().filter_map(|line| (*line as usize).checked_sub(at));
            candidates.filter(|start| index.row.get(*start..start + old.len()) == Some(old)).collect()
        } else {
            sequence(&index.row, old)
        };
        if starts.len() > PATCH_PLACES { Err(Trouble::TooMuch) } else { Ok(starts) }
    }
}

fn many_headers(hunk: &Hunk<'_>, scope: &Scope) -> Trouble {
    Trouble::ManyHeaders {
        header: hunk.headers.last().map_or_else(String::new, |header| (*header).to_owned()),
        lines: scope.headers().take(TOLD).map(|line| line + 1).collect(),
        count: scope.headers().count(),
    }
}

/// The file as numbers, and where each number is.
struct Index {
    row: Vec<u32>,
    places: Vec<Vec<u32>>,
}

impl Index {
    fn lines_of(&self, number: u32) -> &[u32] {
        self.places.get(number as usize).map_or(&[], Vec::as_slice)
    }
}

/// Every start of `needle` in `row`, in one pass.
fn sequence(row: &[u32], needle: &[u32]) -> Vec<usize> {
    let mut back = vec![0; needle.len()];
    let mut matched = 0;
    for at in 1..needle.len() {
        while matched > 0 && needle[at] != needle[matched] {
            matched = back[matched - 1];
        }
        matched += usize::from(needle[at] == needle[matched]);
        back[at] = matched;
    }
    let mut starts = Vec::new();
    let mut matched = 0;
    for (at, number) in row.iter().enumerate() {
        while matched > 0 && (matched == needle.len() || *number != needle[matched]) {
            matched = back[matched - 1];
        }
        matched += usize::from(needle.get(matched) == Some(number));
        if matched == needle.len() {
            starts.push(at + 1 - needle.len());
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sequence_is_found_wherever_it_is(row in prop::collection::vec(0u32..3, 0..60), needle in prop::collection::vec(0u32..3, 1..6)) {
            let naive: Vec<usize> = row.windows(needle.len()).enumerate().filter(|(_, part)| *part == needle).map(|(at, _)| at).collect();
            prop_assert_eq!(sequence(&row, &needle), naive);
        }
    }
}
