//! The lines of an output that match a regular expression.

use std::collections::VecDeque;

use helve_core::ToolError;
use regex::bytes::{Regex, RegexBuilder};

use super::lines::{Lines, Piece, whole_characters};
use super::{Facts, Page};

/// Bytes that a compiled pattern may take.
const PATTERN_BYTES: usize = 1 << 20;
/// Bytes of one line that are shown.
const SHOWN: usize = 1_000;

/// The pattern, in linear time whatever it is.
pub(super) fn compile(pattern: &str) -> Result<Regex, ToolError> {
    let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build();
    built.map_err(|error| {
        ToolError::failed(format!("The pattern in grep cannot be used: {error}")).hint(
            "It is a regular expression without look-around and back-references. Put a backslash before \
             . * + ? ( ) [ ] { } | ^ $ \\ to search for the character itself.",
        )
    })
}

/// At most `limit` matching lines and `budget` bytes, with `around` lines before and after each.
pub(super) async fn page(
    mut lines: Lines<'_>,
    pattern: &Regex,
    limit: u64,
    around: usize,
    budget: usize,
) -> Result<Page, ToolError> {
    // Two lines always fit, so that every page shows at least one match.
    let shown = SHOWN.min(budget / 4);
    let mut found = Found { text: String::new(), bytes: 0, budget, last: None };
    let mut before: VecDeque<(Mark, Entry)> = VecDeque::new();
    let mut after = 0;
    let mut matches = 0;
    let mut has_parts = false;
    let mut facts = Facts::default();
    // Where the next page starts, if this one is full.
    let mut next = None;
    while let Some(piece) = lines.next().await? {
        let mark = Mark { line: piece.line, start: piece.start, is_piece: !(piece.opens && piece.closes) };
        has_parts |= mark.is_piece;
        let hit = pattern.find(piece.bytes).map(|hit| hit.range());
        let is_hit = hit.is_some();
        let full = matches == limit && (is_hit || after == 0);
        if full {
            next = Some((mark, piece.opens));
            break;
        }
        if is_hit {
            let entry = entry(&mark, ':', &piece, hit, shown);
            if matches > 0 && !found.fits(&entry) {
                next = Some((mark, piece.opens));
                break;
            }
            found.push_before(&before, &entry);
            before.clear();
            found.push(&mark, &entry);
            facts.first_line = facts.first_line.or(piece.line);
            facts.last_line = piece.line;
            matches += 1;
            after = around;
        } else if after > 0 {
            let entry = entry(&mark, '-', &piece, None, shown);
            if !found.fits(&entry) {
                next = Some((mark, piece.opens));
                break;
            }
            found.push(&mark, &entry);
            after -= 1;
        } else if around > 0 {
            if before.len() == around {
                before.pop_front();
            }
            let entry = entry(&mark, '-', &piece, None, shown);
            before.push_back((mark, entry));
        }
    }
    facts.matches = Some(matches);
    if let Some((mark, opens)) = &next {
        facts.next_byte_offset = Some(mark.start);
        facts.next_offset = mark.line.filter(|_| *opens);
    }
    let how = match (facts.next_offset, facts.next_byte_offset) {
        (Some(line), _) => format!("next: offset={line}"),
        (None, Some(byte)) => format!("next: byte_offset={byte}"),
        (None, None) => "end".to_owned(),
    };
    let what = if matches == 1 { "match" } else { "matches" };
    let parts = match has_parts {
        true => format!("; lines longer than {} bytes are searched in parts", lines.longest()),
        false => String::new(),
    };
    let text = format!("{}({matches} {what}{parts}; {how})", found.text);
    Ok(Page { text, shown: found.bytes, facts })
}

/// Which line an entry stands for.
struct Mark {
    line: Option<u64>,
    start: u64,
    /// It is a part of a line that is too long to be looked at whole.
    is_piece: bool,
}

/// One line of the page.
struct Entry {
    text: String,
    /// Bytes of the blob in it.
    bytes: usize,
}

struct Found {
    text: String,
    /// Bytes of the blob in the text.
    bytes: u64,
    budget: usize,
    /// The line of the last entry.
    last: Option<u64>,
}

impl Found {
    /// Whether `entry`, and a line that separates it, still fit.
    fn fits(&self, entry: &Entry) -> bool {
        self.text.len() + entry.text.len() + "--\n".len() <= self.budget
    }

    /// The lines before a match, as many of the nearest as leave room for it.
    fn push_before(&mut self, before: &VecDeque<(Mark, Entry)>, entry: &Entry) {
        let mut room = self.budget.saturating_sub(self.text.len() + entry.text.len() + "--\n".len());
        let mut from = before.len();
        while from > 0 && before[from - 1].1.text.len() <= room {
            from -= 1;
            room -= before[from].1.text.len();
        }
        for (mark, entry) in before.iter().skip(from) {
            self.push(mark, entry);
        }
    }

    fn push(&mut self, mark: &Mark, entry: &Entry) {
        let follows = match (self.last, mark.line) {
            (Some(last), Some(line)) => line <= last + 1,
            _ => true,
        };
        if !follows {
            self.text.push_str("--\n");
        }
        self.text.push_str(&entry.text);
        self.bytes += entry.bytes as u64;
        self.last = mark.line;
    }
}

/// `12:text` for a match, `12-text` for a line around one. What stands alone in a long line has its byte.
fn entry(
    mark: &Mark,
    sign: char,
    piece: &Piece<'_>,
    hit: Option<std::ops::Range<usize>>,
    shown: usize,
) -> Entry {
    let hit = hit.unwrap_or(0..0);
    let (from, to) = window(piece.bytes, &hit, shown);
    let text = String::from_utf8_lossy(&piece.bytes[from..to]);
    let left = if from > 0 { "…" } else { "" };
    let right = if to < piece.bytes.len() { "…" } else { "" };
    let is_part = mark.is_piece || from > 0 || to < piece.bytes.len();
    let byte = mark.start + hit.start as u64;
    let text = match (mark.line, is_part) {
        (Some(line), false) => format!("{line}{sign}{text}\n"),
        (Some(line), true) => format!("{line} (byte {byte}){sign}{left}{text}{right}\n"),
        (None, _) => format!("byte {byte}{sign}{left}{text}{right}\n"),
    };
    Entry { text, bytes: to - from }
}

/// At most `shown` bytes around `hit`, whole characters; a line that fits is shown whole.
fn window(bytes: &[u8], hit: &std::ops::Range<usize>, shown: usize) -> (usize, usize) {
    if bytes.len() <= shown {
        return (0, bytes.len());
    }
    let wanted = hit.len().min(shown);
    let from = hit.start.saturating_sub((shown - wanted) / 2).min(bytes.len() - shown);
    let cut = bytes[from..].iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count();
    let from = if from > 0 { from + cut } else { from };
    let to = (from + shown).min(bytes.len());
    (from, from + whole_characters(&bytes[from..to]))
}
