//! What `list_dir`, `glob` and `grep` share: paths as text, globs as arguments, and the notes below an answer.

use helve_core::files::{FileEntry, FileKind, Files, ListRequest};
pub(crate) use helve_core::harmless::shown;
use helve_core::{ErrorKind, ToolError};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

// One text or several. No documentation: a field that has this type has its own, which models read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    /// The texts, split at commas that stand outside `{}` and `[]`; blank ones are left out.
    pub(crate) fn split(self) -> Vec<String> {
        let given = match self {
            // A list that came as text.
            OneOrMore::One(text) => match serde_json::from_str::<Vec<String>>(&text) {
                Ok(texts) => texts,
                Err(_) => vec![text],
            },
            OneOrMore::More(texts) => texts,
        };
        let mut parts = Vec::new();
        for text in given {
            let mut depth = 0_usize;
            let mut escape = false;
            let mut part = String::new();
            for c in text.chars() {
                match c {
                    _ if escape => escape = false,
                    '\\' => escape = true,
                    '{' | '[' => depth += 1,
                    '}' | ']' => depth = depth.saturating_sub(1),
                    ',' if depth == 0 => {
                        parts.push(std::mem::take(&mut part));
                        continue;
                    }
                    _ => {}
                }
                part.push(c);
            }
            parts.push(part);
        }
        parts.retain(|part| !part.trim().is_empty());
        parts
    }
}

/// Refuses a glob with a part `..`: no path below the directory that is searched has one.
pub(crate) fn check_below(globs: &[String]) -> Result<(), ToolError> {
    let leads_up = |glob: &&String| !glob.starts_with('!') && glob.split('/').any(|part| part == "..");
    let Some(glob) = globs.iter().find(leads_up) else { return Ok(()) };
    let message = format!(
        "The pattern '{}' has a part '..', and only what is below the directory is searched.",
        shown(glob)
    );
    Err(ToolError::new(ErrorKind::InvalidParams, message)
        .hint("Name the directory in path, and in the pattern what is below it. Nothing outside the workspace is found."))
}

/// The workspace, where the call names no directory.
pub(crate) fn here() -> String {
    ".".to_owned()
}

/// An entry as one line: its path, a `/` behind a directory, an `@` behind a link; with its type, size and time in front
/// if asked for.
pub(crate) fn entry_line(entry: &FileEntry, long: bool) -> String {
    let mark = match entry.kind {
        FileKind::Directory => "/",
        FileKind::Link => "@",
        FileKind::File | FileKind::Other => "",
    };
    let path = shown(&entry.path);
    let Some(stat) = entry.stat.as_ref().filter(|_| long) else {
        return format!("{path}{mark}");
    };
    let kind = match stat.kind {
        FileKind::File => "file",
        FileKind::Directory => "dir",
        FileKind::Link => "link",
        FileKind::Other => "other",
    };
    let time = stat.modified.and_then(|time| Timestamp::try_from(time).ok());
    let time = time.map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    format!("{kind:<5} {:>12} {time:<20} {path}{mark}", stat.len)
}

/// As many lines as fit into so many bytes; the first always does.
pub(crate) fn fitting(lines: &[String], bytes: usize) -> usize {
    let mut room = bytes;
    for (index, line) in lines.iter().enumerate() {
        let Some(left) = room.checked_sub(line.len() + 1) else { return index.max(1) };
        room = left;
    }
    lines.len()
}

/// A note about what could not be read; nothing if all could.
pub(crate) fn unread_note(unread: &[String], count: u64) -> Option<String> {
    let told: Vec<String> = unread.iter().map(|line| shown(line)).collect();
    let rest = count.saturating_sub(told.len() as u64);
    let more = if rest > 0 { format!("; and {rest} more") } else { String::new() };
    (count > 0).then(|| format!("[{count} could not be read: {}{more}]", told.join("; ")))
}

/// Of a directory with more entries than these it is not asked whether ignore files name others.
const LOOKED_AT: usize = 10_000;

/// Whether ignore files name something in a directory, for those that have only walked it; `false` where that cannot be
/// said.
pub(crate) async fn leaves_out(files: &dyn Files, path: &str, hidden: bool) -> bool {
    let request = ListRequest { hidden, obey_ignore: true, ..ListRequest::all(path, LOOKED_AT) };
    files.list(&request).await.is_ok_and(|listed| listed.ignored > 0)
}

/// So many entries that ignore files name are told as a number.
const IGNORED: u64 = 99;

/// A note that some entries are left out because ignore files name them; nothing if none is.
pub(crate) fn ignored_note(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some("[1 entry that ignore files name is not shown; ignored=true shows it]".to_owned()),
        count if count > IGNORED => Some(format!(
            "[More than {IGNORED} entries that ignore files name are not shown; ignored=true shows them]"
        )),
        count => {
            Some(format!("[{count} entries that ignore files name are not shown; ignored=true shows them]"))
        }
    }
}

/// A value as an argument is written.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn one_text_may_hold_several_globs() {
        let split = |text: &str| OneOrMore::One(text.into()).split();
        assert_eq!(split("*.rs"), ["*.rs"]);
        assert_eq!(split("*.ts,*.{js,jsx}, a[,]b"), ["*.ts", "*.{js,jsx}", " a[,]b"]);
        assert_eq!(split(r#"["*.a","*.b,*.c"]"#), ["*.a", "*.b", "*.c"]);
        assert_eq!(split("[ab]*"), ["[ab]*"]);
        assert_eq!(split(r"a\,b"), [r"a\,b"]);
        assert_eq!(split(" , "), Vec::<String>::new());
        assert_eq!(OneOrMore::More(vec!["a".into(), "b".into()]).split(), ["a", "b"]);
    }

    #[test]
    fn lines_that_fit() {
        let lines: Vec<String> = ["aaaa", "bbbb", "cccc"].map(str::to_owned).into();
        assert_eq!([0, 5, 9, 10, 15].map(|bytes| fitting(&lines, bytes)), [1, 1, 1, 2, 3]);
        assert_eq!(fitting(&[], 0), 0);
    }

    #[test]
    fn what_could_not_be_read_is_told() {
        assert_eq!(unread_note(&[], 0), None);
        let note = unread_note(&["a: permission denied".into()], 3).unwrap();
        assert_eq!(note, "[3 could not be read: a: permission denied; and 2 more]");
    }

    #[test]
    fn what_is_left_out_is_told_up_to_a_number() {
        let told = [0, 1, 99, 100].map(ignored_note);
        let told: Vec<&str> = told.iter().map(|note| note.as_deref().unwrap_or_default()).collect();
        assert_eq!(
            told,
            [
                "",
                "[1 entry that ignore files name is not shown; ignored=true shows it]",
                "[99 entries that ignore files name are not shown; ignored=true shows them]",
                "[More than 99 entries that ignore files name are not shown; ignored=true shows them]",
            ]
        );
    }
}
