//! A window as text, with what it says about the rest of the file.

use std::fmt::Write;

use helve_core::Output;
use helve_core::files::{Page, PageEnd, PageStart};

use super::ask::Ask;
use super::facts::{Bound, Continuation, Facts, Kind, Truncation};

/// The result for a window.
pub(super) fn output(page: &Page, ask: &Ask, mut facts: Facts) -> Output {
    let mut text = match nothing_to_show(page, ask) {
        Some(sentence) => sentence,
        None if ask.line_numbers => with_numbers(page, ask),
        None => page.text.clone(),
    };
    if let Some((notice, continuation, bound)) = goes_on(page, ask) {
        if facts.kind == Kind::Text {
            facts.kind = Kind::Truncated;
        }
        facts.truncation = Some(Truncation {
            truncated_by: bound,
            output_bytes: page.text.len() as u64,
            last_line_partial: matches!(page.end, PageEnd::Inside { .. }),
            max_lines: ask.max_lines,
            max_bytes: ask.max_bytes,
        });
        facts.continuation = Some(continuation);
        text.push_str("\n\n");
        text.push_str(&notice);
    }
    // What was made from a document is not what edit_file finds in it.
    if matches!(facts.kind, Kind::Text | Kind::Truncated) {
        for note in notes(&facts) {
            text.push_str("\n\n");
            text.push_str(&note);
        }
    }
    Output::text(text).with_details(crate::details(&facts))
}

/// What cannot be seen of the text and counts where it is changed.
fn notes(facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    match facts.line_endings {
        Some("crlf") => notes.push("[Its lines end with CRLF.]".to_owned()),
        Some(_) => notes.push("[Some of its lines end with CRLF, others with LF.]".to_owned()),
        None => {}
    }
    match facts.escaped {
        0 => {}
        1 => notes.push("[1 character is shown as an escape. edit_file finds it so; write_file writes the letters.]".to_owned()),
        count => notes.push(format!(
            "[{count} characters are shown as escapes. edit_file finds them so; write_file writes the letters.]"
        )),
    }
    if facts.replaced > 0 {
        let encoding = facts.encoding.as_deref().unwrap_or("UTF-8");
        notes.push(match facts.replaced {
            1 => format!("[1 character is shown as U+FFFD: bytes there are no {encoding}, or are this character.]"),
            count => format!(
                "[{count} characters are shown as U+FFFD: bytes there are no {encoding}, or are this character.]"
            ),
        });
    }
    notes
}

/// What stands in for a text without any visible character, if that is so.
fn nothing_to_show(page: &Page, ask: &Ask) -> Option<String> {
    let from_start = matches!(ask.start, PageStart::Line { cursor: 0, .. } | PageStart::FromEnd { .. });
    if page.lines == 0 {
        let total = page.total_lines.unwrap_or(0);
        return Some(match (total, page.stat.len) {
            (0, 0) => "File is empty (0 bytes).".to_owned(),
            (0, len) => format!("File holds nothing but a byte order mark ({len} bytes)."),
            (total, _) => {
                let offset = page.first_line.unwrap_or(0);
                let s = plural(total);
                format!(
                    "Offset {offset} is beyond end of file ({total} line{s} total). Retry with offset <= {total}."
                )
            }
        });
    }
    if let (PageStart::Line { line, cursor: passed @ 1.. }, 1, "") =
        (ask.start, page.lines, page.text.as_str())
    {
        return Some(format!("Line {line} has at most {passed} characters: nothing is behind them."));
    }
    let is_blank = page.text.bytes().all(|byte| byte == b'\n');
    let is_all = page.first_line == Some(1) && page.end == PageEnd::End && from_start;
    (is_blank && is_all).then(|| format!("File contains {} blank line{}.", page.lines, plural(page.lines)))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The sentence that says how to go on, the arguments for it, and which bound ended the page.
fn goes_on(page: &Page, ask: &Ask) -> Option<(String, Continuation, Bound)> {
    let size = size(ask.max_bytes);
    let first = page.first_line.unwrap_or(1);
    let last = first + page.lines.saturating_sub(1);
    let bound = if page.lines >= ask.max_lines { Bound::Lines } else { Bound::Bytes };
    let limited = if bound == Bound::Bytes { format!(" ({size} limit)") } else { String::new() };
    Some(match page.end {
        PageEnd::End => return None,
        PageEnd::Line(next) => {
            let go = Continuation { offset: i64::try_from(next).unwrap_or(i64::MAX), cursor: None };
            let text = match (ask.limit, page.total_lines) {
                (Some(_), Some(total)) if bound == Bound::Lines => {
                    let more = total.saturating_sub(last);
                    format!("[{more} more line{} in file. Use offset={next} to continue.]", plural(more))
                }
                (Some(_), None) if bound == Bound::Lines => {
                    format!("[More lines in file. Use offset={next} to continue.]")
                }
                (_, Some(total)) => {
                    format!(
                        "[Showing lines {first}-{last} of {total}{limited}. Use offset={next} to continue.]"
                    )
                }
                (_, None) => format!(
                    "[Showing lines {first}-{last} of a file of {}{limited}. Use offset={next} to continue.]",
                    self::size(page.stat.len)
                ),
            };
            (text, go, bound)
        }
        PageEnd::Inside { line, cursor } => {
            let go = Continuation { offset: i64::try_from(line).unwrap_or(i64::MAX), cursor: Some(cursor) };
            let text = format!(
                "[Showing part of line {line} ({size} limit). Use read_file with offset={line}, cursor={cursor} to \
                 continue.]"
            );
            (text, go, Bound::Bytes)
        }
        PageEnd::More => {
            let PageStart::FromEnd { lines: asked } = ask.start else { return None };
            let rest = asked.saturating_sub(page.lines);
            let go =
                Continuation { offset: i64::try_from(rest).map_or(i64::MIN, |rest| -rest), cursor: None };
            let shown = page.lines;
            let text = format!(
                "[Showing {shown} of the last {asked} lines{limited}. Use offset=-{rest} to continue.]"
            );
            (text, go, bound)
        }
    })
}

/// The lines, each after its number; after how far it is from the end where its number is not known.
fn with_numbers(page: &Page, ask: &Ask) -> String {
    let mut text = String::with_capacity(page.text.len() + page.text.len() / 4);
    let mut number = match (page.first_line, ask.start) {
        (Some(first), _) => i64::try_from(first).unwrap_or(i64::MAX),
        (None, PageStart::FromEnd { lines }) => i64::try_from(lines).map_or(i64::MIN, |lines| -lines),
        (None, PageStart::Line { .. }) => 1,
    };
    for (at, line) in page.text.split('\n').enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let _ = write!(text, "{number:>6}\t{line}");
        number = number.saturating_add(1);
    }
    text
}

/// A size the way people read it: `50.0KB`.
pub(super) fn size(bytes: u64) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    for (shift, unit) in units {
        let one = 1u64 << shift;
        if bytes >= one {
            // The whole part exactly, one digit of the rest.
            let tenths = bytes % one * 10 / one;
            return format!("{}.{tenths}{unit}", bytes / one);
        }
    }
    format!("{bytes}B")
}
