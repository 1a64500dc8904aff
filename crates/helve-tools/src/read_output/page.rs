//! One page of consecutive lines.

use helve_core::ToolError;

use super::lines::{Lines, fitting};
use super::{Facts, Page};

/// Bytes beyond a page that are read only to count their lines.
const COUNTED_AHEAD: u64 = 64 << 20;

/// At most `limit` lines and `budget` bytes from where `lines` stands.
pub(super) async fn page(mut lines: Lines<'_>, limit: u64, budget: usize) -> Result<Page, ToolError> {
    let from = lines.position();
    let mut text = String::new();
    let mut facts = Facts::default();
    let mut taken = 0;
    // Where the next page starts: a byte, and the line if it starts one.
    let mut end = from;
    let mut next_line = None;
    let mut is_cut = false;
    while taken < limit {
        let Some(piece) = lines.next().await? else { break };
        let room = budget - text.len();
        let shown = String::from_utf8_lossy(piece.bytes);
        if shown.len() + 1 > room {
            if piece.opens && !text.is_empty() {
                next_line = piece.line;
            } else {
                let part = fitting(piece.bytes, room);
                text.push_str(&String::from_utf8_lossy(part));
                end = piece.start + part.len() as u64;
                facts.first_line = facts.first_line.or(piece.line);
                facts.last_line = piece.line;
                is_cut = true;
            }
            break;
        }
        text.push_str(&shown);
        end = piece.end;
        facts.first_line = facts.first_line.or(piece.line);
        facts.last_line = piece.line;
        next_line = piece.line.map(|line| line + u64::from(piece.closes));
        if piece.closes {
            text.push('\n');
            taken += 1;
        }
    }
    let is_last = end >= lines.total();
    if !is_last {
        facts.next_byte_offset = Some(end);
        facts.next_offset = if is_cut { None } else { next_line };
    }
    facts.lines = lines.count_rest(COUNTED_AHEAD).await?;
    if text.is_empty() {
        text.push_str("(the output is empty)");
    } else {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&footer(&facts, from, end, is_cut));
    }
    Ok(Page { text, shown: end - from, facts })
}

/// Where the page stands and how to go on.
fn footer(facts: &Facts, from: u64, end: u64, is_cut: bool) -> String {
    let place = match (facts.first_line, facts.last_line, facts.lines) {
        (Some(first), Some(last), Some(all)) => format!("lines {first}-{last} of {all}"),
        (Some(first), Some(last), None) => format!("lines {first}-{last}"),
        _ => format!("bytes {from}-{end}"),
    };
    let cut = match facts.last_line.filter(|_| is_cut) {
        Some(line) => format!("; line {line} is longer than a page and cut here"),
        None => String::new(),
    };
    let next = match (facts.next_offset, facts.next_byte_offset) {
        (Some(line), _) => format!("next: offset={line}"),
        (None, Some(byte)) => format!("next: byte_offset={byte}"),
        (None, None) => "end".to_owned(),
    };
    format!("({place}{cut}; {next})")
}
