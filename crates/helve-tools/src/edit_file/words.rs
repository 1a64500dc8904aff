//! What is said about edits: which did not fit and why, and which fitted only with forbearance.

use helve_core::{ErrorKind, ToolError};

use super::{Applied, Cleaning, Edit, Level, Miss};
use crate::edit::{Near, Reason, Region};

/// So many failed edits are explained.
const MAX_EXPLAINED: usize = 12;
/// More than so many, and only the nearest text is shown for each.
const MANY: usize = 3;

pub(super) fn unreadable(error: ToolError) -> ToolError {
    match error.kind {
        ErrorKind::NotFound if error.hint.is_none() => error.hint("Use write_file to make a new file."),
        _ => error,
    }
}

pub(super) fn all_absent(misses: &[Miss]) -> bool {
    misses.iter().all(|miss| matches!(miss.reason, Reason::Absent { .. }))
}

/// What is added to a success: nothing for one exact replacement.
pub(super) fn notes(applied: &[Applied], places: usize) -> String {
    let mut notes = String::new();
    if places > applied.len() {
        notes.push_str(&format!("\nReplaced at {places} places."));
    }
    for (i, one) in applied.iter().enumerate() {
        let forgiven = match one.level {
            Level::Exact if one.cleaned.is_none() => continue,
            Level::Exact => None,
            Level::LineEndings => Some("line endings"),
            Level::TrailingSpace => Some("white space at the ends of lines"),
            Level::Unicode => Some("typographic characters"),
            Level::Indentation => Some("indentation, which was taken from the file"),
        };
        let cleaned = match one.cleaned {
            None => "",
            Some(Cleaning::LineNumbers) => " without its line numbers",
            Some(Cleaning::Escapes) => " without its escapes",
            Some(Cleaning::Shown) => " with the characters that its escapes stand for",
            Some(Cleaning::LastEnding) => " without its last line ending, which the file does not have",
        };
        let which = if applied.len() == 1 { "oldText".to_owned() } else { format!("edits[{i}].oldText") };
        let line = one.lines.first().copied().unwrap_or(1);
        notes.push_str(&format!("\n{which} was found at line {line}{cleaned}"));
        match forgiven {
            Some(forgiven) => notes.push_str(&format!(", apart from {forgiven}.")),
            None => notes.push('.'),
        }
        if matches!(one.cleaned, Some(Cleaning::Escapes | Cleaning::Shown)) {
            let which = which.replace("oldText", "newText");
            let became = if one.renewed { "was changed in the same way" } else { "was taken as it is" };
            notes.push_str(&format!(" {which} {became}."));
        }
    }
    notes
}

/// The error for edits of which at least one does not fit.
pub(crate) fn refusal(path: &str, edits: &[Edit], misses: &[Miss]) -> ToolError {
    let many = edits.len() > 1;
    let mut message = String::new();
    for (i, miss) in misses.iter().take(MAX_EXPLAINED).enumerate() {
        if i > 0 {
            message.push('\n');
        }
        message.push_str(&explained(path, miss, many, misses.len() > MANY));
    }
    if let Some(more) = misses.len().checked_sub(MAX_EXPLAINED).filter(|more| *more > 0) {
        message.push_str(&format!("\n{more} more edits do not fit."));
    }
    if many {
        message.push_str(&format!(
            "\nNothing was changed: {} of {} edits do not fit.",
            misses.len(),
            edits.len()
        ));
    }
    let first_region = misses.iter().find_map(|miss| match &miss.reason {
        Reason::Absent { region: Some(region), .. } => Some(region),
        _ => None,
    });
    if let Some(region) = first_region {
        message.push_str(&contents(region));
    }
    let kind = match misses {
        [Miss { reason: Reason::TooLong { .. }, .. }] => ErrorKind::TooLarge,
        _ => ErrorKind::ToolFailed,
    };
    ToolError::new(kind, message).hint(hint(misses))
}

fn hint(misses: &[Miss]) -> String {
    let ambiguous = misses.iter().any(|miss| matches!(miss.reason, Reason::Ambiguous { .. }));
    let absent = misses.iter().any(|miss| matches!(miss.reason, Reason::Absent { .. }));
    if misses.iter().any(|miss| matches!(miss.reason, Reason::TooLong { .. })) {
        return "Replace fewer places at once, or with a shorter text.".to_owned();
    }
    match (absent, ambiguous) {
        (true, _) => "Copy oldText from the file as it is now (read_file), without line numbers.".to_owned(),
        (false, true) => {
            "Add lines before or after to oldText until only one place fits, or set replace_all.".to_owned()
        }
        _ => "Correct the edits that are named and send all of them again.".to_owned(),
    }
}

fn explained(path: &str, miss: &Miss, many: bool, short: bool) -> String {
    let which = format!("edits[{}]", miss.edit);
    match &miss.reason {
        Reason::Empty if many => format!("{which}.oldText must not be empty in {path}."),
        Reason::Empty => format!("oldText must not be empty in {path}."),
        Reason::Absent { near, region } => {
            let what = if many { which } else { "the exact text".to_owned() };
            let mut text = format!(
                "Could not find {what} in {path}. The old text must match exactly including all whitespace and newlines."
            );
            if region.is_none() && near.is_empty() {
                text.push_str(" The file is empty.");
            }
            for near in near.iter().take(if short { 1 } else { usize::MAX }) {
                text.push_str(&nearest(near));
            }
            text
        }
        Reason::Ambiguous { count, level, lines } => {
            let what = if many { which } else { "the text".to_owned() };
            let unique = if many { "Each oldText must be unique." } else { "The text must be unique." };
            let apart = match level {
                Level::Exact => "",
                Level::LineEndings => ", line endings apart,",
                Level::TrailingSpace => ", trailing white space apart,",
                Level::Unicode => ", typography apart,",
                Level::Indentation => ", indentation apart,",
            };
            format!(
                "Found {count} occurrences of {what}{apart} in {path}. {unique} \
                 Please provide more context to make it unique. They start at {}.",
                numbers(lines, *count)
            )
        }
        Reason::TooMany { count } => {
            format!("{which}.oldText is at {count} places of {path}, more than can be replaced in one call.")
        }
        Reason::TooLong { most } => {
            format!("{path} would become longer than {most} bytes (limits.file_bytes) with {which}.")
        }
        Reason::InsideCharacter { line } => format!(
            "The only place of {} in {path}, line {line}, starts or ends inside a character that stands for several. \
             Copy the characters from the file as they are.",
            if many { which } else { "the text".to_owned() }
        ),
        Reason::GivenUp => "The call was taken back.".to_owned(),
        Reason::Overlap { with, line } => format!(
            "edits[{with}] and {which} overlap in {path} at line {line}. Merge them into one edit or target disjoint regions."
        ),
    }
}

fn numbers(lines: &[usize], count: usize) -> String {
    let told: Vec<String> = lines.iter().map(usize::to_string).collect();
    let more = count - told.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("line{} {}{more}", if count == 1 { "" } else { "s" }, told.join(", "))
}

fn nearest(near: &Near) -> String {
    let Near { line, percent, expected, found, difference, .. } = near;
    let same = expected.chars().zip(found.chars()).take_while(|(a, b)| a == b);
    // The marker stands below the two lines as they are shown, quoted.
    let column: usize = same.map(|(c, _)| quoted(&c.to_string()).chars().count() - 2).sum();
    format!(
        "\nnear line {line} ({percent}% match): {difference}\n  expected: {}\n  found:    {}\n            {}^",
        quoted(expected),
        quoted(found),
        " ".repeat(column + 1)
    )
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// The part of the file where the text is most likely meant to be.
fn contents(region: &Region) -> String {
    let mut text = String::from("\nCurrent file contents:\n");
    if region.more_before {
        text.push_str(&format!("... (from line {})\n", region.first_line));
    }
    text.push_str(&region.text);
    if region.more_behind {
        text.push_str("\n... (truncated)");
    }
    text
}
