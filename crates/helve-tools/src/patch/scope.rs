//! Where the headers of a hunk lead: `@@ class A` and `@@ def f` narrow the place of a hunk down to the block that such a
//! line opens, or else to what comes after it.

use super::lines::Lines;
use crate::edit::lines::{indent, trim_end};

/// Where a hunk may start.
pub(super) struct Scope {
    /// The blocks that the last header opens, by their first line and the line behind them, ascending.
    blocks: Vec<(usize, usize)>,
    /// The first line behind the first place of the last header; its own line may begin the hunk too.
    after: usize,
}

impl Scope {
    /// The blocks below headers at these lines, inside of `outer` where any of them is, else behind its first header.
    /// None if no line is left.
    pub(super) fn new(headers: &[usize], ends: &[u32], outer: Option<&Scope>) -> Option<Scope> {
        let within = match outer {
            None => headers.to_vec(),
            Some(outer) => outer.narrowed(headers),
        };
        let first = *within.first()?;
        let blocks = within.iter().map(|line| (line + 1, ends[*line] as usize)).collect();
        Some(Scope { blocks, after: first + 1 })
    }

    /// Those of some places of a hunk, ascending, that are in the blocks; if none is, those that show the header itself; if
    /// none of those is either, those after the first header. Also whether they are outside of blocks that the headers open.
    pub(super) fn places(&self, lines: &Lines<'_>, starts: &[usize]) -> (Vec<usize>, bool) {
        let inside = self.inside(starts);
        if !inside.is_empty() {
            return (inside, false);
        }
        let headers = self.on_headers(starts);
        if !headers.is_empty() {
            return (headers, false);
        }
        let after = self.after(starts);
        let outside = !after.is_empty() && self.opens_something(lines);
        (after, outside)
    }

    /// Whether a line of the blocks says something. Blocks lie in one another, and each line is looked at once.
    fn opens_something(&self, lines: &Lines<'_>) -> bool {
        let mut reached = 0;
        self.blocks.iter().any(|(from, to)| {
            let mut fresh = reached.max(*from)..*to;
            reached = reached.max(*to);
            fresh.any(|line| says_something(trim_end(lines.text(line))))
        })
    }

    /// Those of some headers, ascending, that are in the blocks; if none is, those after the first header; if none of those
    /// is either, a line that is the header itself.
    fn narrowed(&self, headers: &[usize]) -> Vec<usize> {
        let rungs = [Self::inside, Self::after, Self::on_headers];
        rungs.iter().map(|rung| rung(self, headers)).find(|lines| !lines.is_empty()).unwrap_or_default()
    }

    fn on_headers(&self, lines: &[usize]) -> Vec<usize> {
        let is_header = |line: &usize| self.blocks.binary_search_by_key(line, |(from, _)| from - 1).is_ok();
        lines.iter().copied().filter(is_header).collect()
    }

    fn after(&self, lines: &[usize]) -> Vec<usize> {
        lines.iter().copied().filter(|line| *line >= self.after).collect()
    }

    fn inside(&self, lines: &[usize]) -> Vec<usize> {
        let mut reach = 0;
        let mut blocks = self.blocks.iter().peekable();
        let mut inside = Vec::new();
        for line in lines {
            while let Some((_, to)) = blocks.next_if(|(from, _)| from <= line) {
                reach = reach.max(*to);
            }
            if *line < reach {
                inside.push(*line);
            }
        }
        inside
    }

    /// The only place right below a header, for lines that are added there.
    pub(super) fn only(&self) -> Option<usize> {
        match self.blocks[..] {
            [(from, _)] => Some(from),
            _ => None,
        }
    }

    /// The lines of the headers, counted from 0.
    pub(super) fn headers(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().map(|(from, _)| from - 1)
    }
}

/// For each line the one behind the block that it opens: the next line that is not indented deeper and is more than
/// closing or opening brackets. Blank lines end nothing.
pub(super) fn block_ends(lines: &Lines<'_>) -> Vec<u32> {
    let count = lines.len();
    let mut ends = vec![u32::try_from(count).unwrap_or(u32::MAX); count];
    let mut open: Vec<(usize, usize)> = Vec::new();
    for line in 0..count {
        let text = trim_end(lines.text(line));
        let depth = indent(text);
        if !says_something(text) {
            continue;
        }
        while let Some((_, opener)) = open.pop_if(|(open_depth, _)| *open_depth >= depth) {
            ends[opener] = u32::try_from(line).unwrap_or(u32::MAX);
        }
        open.push((depth, line));
    }
    ends
}

fn says_something(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)
}
