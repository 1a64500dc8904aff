//! What is said of a patch: that it was applied, or everything that is wrong with it.

use std::fmt::Write as _;

use helve_core::{ErrorKind, Problem as Invalid, ToolError};

use super::{Facts, kind};
use crate::patch::{BadPatch, Fault, Level, Problem, Remark, Trouble, Why, shown};

/// So many problems are told.
const TOLD: usize = 20;
/// So many files are listed.
const LISTED: usize = 200;
/// So many lines of what a hunk wants are shown.
const LINES: usize = 12;
/// So many hunks that were found in spite of a difference are told.
const NOTED: usize = 10;

pub(super) fn bad_patch(bad: BadPatch) -> ToolError {
    let problem = Invalid::new("/input", "a patch", bad.message.clone());
    let error = ToolError::new(ErrorKind::InvalidParams, bad.message).hint(bad.hint);
    ToolError { problems: vec![problem], ..error }
}

/// Neither a patch nor edits, or both.
pub(super) fn one_of_both(both: bool) -> ToolError {
    let came = if both { "both" } else { "nothing" };
    let problem = Invalid::new("/input", "a patch as input, or edits", came);
    ToolError::invalid("apply_patch", vec![problem])
}

pub(super) fn too_much(path: &str, limit: u64) -> ToolError {
    let message = format!(
        "The files of the patch up to {path} are together larger than the limit of {limit} bytes. Nothing was changed."
    );
    ToolError::new(ErrorKind::TooLarge, message).hint("Send the patch in several parts.")
}

/// A file that was there and is another one now, or would be.
pub(super) fn replaced(path: &str, dry_run: bool) -> String {
    match dry_run {
        true => format!("{path} is there already and would be replaced as a whole."),
        false => format!("{path} was there already and was replaced as a whole."),
    }
}

/// A file that nobody may write by its mode.
pub(super) fn read_only(path: &str, dry_run: bool) -> String {
    match dry_run {
        true => format!("{path} is marked read-only; it would be changed all the same."),
        false => format!("{path} was marked read-only; it was changed all the same."),
    }
}

/// What did not hold, or did not count, where a hunk was found.
pub(super) fn ignored(why: Why) -> &'static str {
    match why {
        Why::Text(Level::Nothing) => "nothing",
        Why::Text(Level::Trailing) => "trailing_space",
        Why::Text(Level::Unicode) => "unicode",
        Why::Text(Level::Indent) => "indentation",
        Why::Place(Remark::Header) => "header",
        Why::Place(Remark::End) => "end_of_file",
        Why::Place(Remark::Number) => "line_number",
    }
}

/// The answer to a patch that was applied, or could be.
pub(super) fn told(facts: &Facts, notes: &[String]) -> String {
    let summary = &facts.summary;
    let moved = summary.moved.iter().map(|moved| format!("M {} (moved from {})", moved.to, moved.from));
    let letter = |letter: &'static str| move |path: &String| format!("{letter} {path}");
    let lines: Vec<String> = (summary.added.iter().map(letter("A")))
        .chain(summary.modified.iter().map(letter("M")))
        .chain(moved)
        .chain(summary.deleted.iter().map(letter("D")))
        .collect();
    let mut text = match (lines.is_empty(), facts.dry_run) {
        (true, _) => format!("No changes made to {}.", listed(&facts.unchanged)),
        (false, false) => "Success. Updated the following files:".to_owned(),
        (false, true) => {
            "Dry run: nothing was changed. The patch would update the following files:".to_owned()
        }
    };
    for line in lines.iter().take(LISTED) {
        text.push('\n');
        text.push_str(line);
    }
    if lines.len() > LISTED {
        let _ = write!(text, "\n… and {} more", lines.len() - LISTED);
    }
    if !facts.inexact.is_empty() {
        text.push('\n');
    }
    for found in facts.inexact.iter().take(NOTED) {
        let what = match found.ignored {
            "trailing_space" => "ignoring white space at the ends of lines",
            "unicode" => "ignoring quotes, dashes and forms of characters",
            "header" => "outside of the block that its '@@' line names; check that this place was meant",
            "end_of_file" => "which is not the end of the file; check that this place was meant",
            "line_number" => {
                "as far from its line number as the hunks beside it; check that this place was meant"
            }
            _ => "ignoring indentation",
        };
        let _ = write!(
            text,
            "\nThe hunk at line {} of the patch was found at {}:{}, {what}.",
            found.patch_line, found.path, found.line
        );
    }
    if facts.inexact.len() > NOTED {
        let _ = write!(text, "\n… and {} more hunks so", facts.inexact.len() - NOTED);
    }
    for note in notes.iter().take(NOTED) {
        let _ = write!(text, "\n{note}");
    }
    text
}

fn listed(paths: &[String]) -> String {
    let mut text = paths.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    if paths.len() > LISTED {
        let _ = write!(text, " and {} more", paths.len() - LISTED);
    }
    if text.is_empty() { "any file".to_owned() } else { text }
}

/// Everything that is wrong with a patch.
pub(super) fn refusal(problems: &[Problem]) -> ToolError {
    let mut text = format!(
        "The patch was not applied and nothing was changed: {}.",
        match problems.len() {
            1 => "there is a problem".to_owned(),
            count => format!("there are {count} problems"),
        }
    );
    for problem in problems.iter().take(TOLD) {
        text.push_str("\n\n");
        explain(&mut text, problem);
    }
    if problems.len() > TOLD {
        let _ = write!(text, "\n\n… and {} more.", problems.len() - TOLD);
    }
    ToolError::new(kind(problems), text).hint("Correct these and send the whole patch again.")
}

fn explain(text: &mut String, problem: &Problem) {
    let Problem { path, line, fault } = problem;
    let _ = write!(text, "{path} (line {line} of the patch): ");
    match fault {
        Fault::Missing => text.push_str("there is no such file. '*** Add File:' makes one."),
        Fault::Unreadable(why) => text.push_str(why),
        Fault::Exists => {
            text.push_str("a file is there already. Change it with an update, or delete it first.")
        }
        Fault::Stale => text.push_str(
            "the file is not what you last saw of it: somebody changed it. Read it, then decide whether it may go.",
        ),
        Fault::NotAll => {
            text.push_str("the diff deletes the file but does not show all of its lines. Read it, then show them all.")
        }
        Fault::Hunk { trouble, expected, near } => {
            self::trouble(text, path, trouble, expected);
            for near in near {
                let _ = write!(
                    text,
                    "\nNear at line {} ({}% alike; {}):\n  expected: {}\n  found:    {}",
                    near.line, near.percent, near.difference, near.expected, near.found
                );
            }
        }
    }
}

fn trouble(text: &mut String, path: &str, trouble: &Trouble, expected: &str) {
    match trouble {
        Trouble::Nowhere => {
            let _ = write!(text, "Failed to find expected lines in {path}:");
            for line in expected.lines().take(LINES) {
                let _ = write!(text, "\n  {}", shown(line));
            }
            let more = expected.lines().count().saturating_sub(LINES);
            if more > 0 {
                let _ = write!(text, "\n  … {more} more lines");
            }
        }
        Trouble::Ambiguous { lines, count } => {
            let _ = write!(
                text,
                "Found {count} occurrences of these lines in {path}, at lines {}. The place must be unique: show more lines \
                 around the change, or name the block with '@@ …'.",
                numbers(lines, *count)
            );
        }
        Trouble::NoHeader(header) => {
            let header = shown(header);
            let _ = write!(
                text,
                "Failed to find context '{header}' in {path}. Write a line of the file behind '@@'."
            );
        }
        Trouble::ManyHeaders { header, lines, count } => {
            let _ = write!(
                text,
                "Found {count} occurrences of context '{}' in {path}, at lines {}. The context must be unique: show lines \
                 around what is added.",
                shown(header),
                numbers(lines, *count)
            );
        }
        Trouble::Overlap { other } => {
            let _ = write!(
                text,
                "this hunk changes lines that the hunk at line {other} of the patch changes too. Make one of them."
            );
        }
        Trouble::Beyond { line, lines } => {
            let _ = write!(
                text,
                "this hunk adds lines after line {line}, and the file has {lines}. Show the lines around them."
            );
        }
        Trouble::Adrift { line, before, behind } => {
            let _ = write!(
                text,
                "this hunk adds lines after line {line} and shows none around them. The hunk before it is {before:+} lines from \
                 where the patch says, the one behind it {behind:+}, so its place is not known. Show the lines around them."
            );
        }
        Trouble::NotTheEnd => text
            .push_str("the patch says that the file ends after a line it adds, and more lines follow there."),
        Trouble::TooMuch => text.push_str(
            "the lines of this hunk occur too often in a file of this size. Show lines that are unique.",
        ),
    }
}

fn numbers(lines: &[usize], count: usize) -> String {
    let mut text = lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if count > lines.len() {
        text.push_str(", …");
    }
    text
}
