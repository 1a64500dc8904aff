//! What a search found, as text.

use helve_core::Output;
use helve_core::files::{FileHits, HitLine, SearchMode, SearchRequest, Searched};
use helve_core::harmless::is_harmless;
use schemars::JsonSchema;
use serde::Serialize;

use crate::paths::{shown, unread_note};

/// What the details say.
#[derive(Serialize, JsonSchema)]
pub(super) struct Facts {
    /// How many lines matched in what is shown; with mode files, how many files.
    matches: u64,
    /// How many files are shown.
    files: usize,
    /// Whether there are more matches.
    more: bool,
    /// The `skip` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_skip: Option<usize>,
    /// How many files were searched.
    searched: u64,
    /// How many of them are binary and were passed over.
    binary: u64,
    /// How many files and directories could not be read.
    unread: u64,
}

/// `ignored` says that ignore files name something where nothing was found.
pub(super) fn output(found: &Searched, request: &SearchRequest, numbers: bool, ignored: bool) -> Output {
    let mut text = String::new();
    let lines = request.mode == SearchMode::Lines;
    let apart = lines && (request.before > 0 || request.after > 0);
    for (index, file) in found.files.iter().enumerate() {
        match request.mode {
            SearchMode::Files => text.push_str(&format!("{}\n", shown(&file.path))),
            SearchMode::Count => text.push_str(&format!("{}:{}\n", shown(&file.path), file.count)),
            SearchMode::Lines => {
                if apart && index > 0 {
                    text.push_str("--\n");
                }
                file_lines(file, apart, numbers, &mut text);
            }
        }
    }
    let matches: u64 = match request.mode {
        SearchMode::Files => found.files.len() as u64,
        SearchMode::Lines | SearchMode::Count => found.files.iter().map(|file| file.count).sum(),
    };
    let units = if lines { usize::try_from(matches).unwrap_or(usize::MAX) } else { found.files.len() };
    let next_skip = found.more.then(|| request.skip.saturating_add(units));
    if found.files.is_empty() {
        text.push_str(if request.skip > 0 { "No more matches.\n" } else { "No matches found\n" });
    }
    let ignored =
        ignored.then(|| "[What ignore files name was not searched; ignored=true searches it]".to_owned());
    for note in notes(found, request, matches, next_skip).into_iter().chain(ignored) {
        text.push_str(&format!("\n{note}\n"));
    }
    text.pop();
    let facts = Facts {
        matches,
        files: found.files.len(),
        more: found.more,
        next_skip,
        searched: found.searched,
        binary: found.binary,
        unread: found.unread_count,
    };
    Output::text(text).with_details(crate::details(&facts)).as_page()
}

/// The lines of one file; with `apart`, a `--` stands where some are left out between them.
fn file_lines(file: &FileHits, apart: bool, numbers: bool, text: &mut String) {
    let path = shown(&file.path);
    let mut last: Option<u64> = None;
    for line in &file.lines {
        if apart && last.is_some_and(|last| line.line > last + 1) {
            text.push_str("--\n");
        }
        last = Some(line.line);
        let sign = if line.matched { ':' } else { '-' };
        text.push_str(&path);
        text.push(sign);
        if numbers {
            text.push_str(&line.line.to_string());
            text.push(sign);
        }
        text.push(' ');
        hit(line, text);
        text.push('\n');
    }
}

/// The text of a line, with how much of it was cut off.
fn hit(line: &HitLine, text: &mut String) {
    let (front, behind) = line.cut;
    if front > 0 {
        text.push_str(&format!("[{front} characters] … "));
    }
    text.push_str(&line.text);
    if behind > 0 {
        text.push_str(&format!(" … [{behind} characters]"));
    }
}

fn notes(found: &Searched, request: &SearchRequest, matches: u64, next_skip: Option<usize>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(skip) = next_skip {
        notes.push(format!(
            "[More matches. Continue with the same arguments and skip={skip}, or make the pattern or path narrower.]"
        ));
    } else if request.mode == SearchMode::Count && !found.files.is_empty() {
        let (lines, files) =
            (plural(matches, "match", "matches"), plural(found.files.len() as u64, "file", "files"));
        notes.push(format!("[{lines} in {files}]"));
    }
    if found.files.is_empty() && found.binary > 0 {
        notes.push(format!("[{} passed over]", plural(found.binary, "binary file was", "binary files were")));
    }
    let hits = found.files.iter().flat_map(|file| &file.lines);
    if request.mode == SearchMode::Lines && hits.flat_map(|line| line.text.chars()).any(|c| !is_harmless(c)) {
        notes.push("[Some characters are shown as escapes. edit_file finds them so.]".to_owned());
    }
    notes.extend(unread_note(&found.unread, found.unread_count));
    notes
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests;
