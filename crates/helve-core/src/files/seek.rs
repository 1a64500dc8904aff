//! What is below a directory: names and lines.

use serde::{Deserialize, Serialize};

use super::FileEntry;

/// Which kinds of entries a walk gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kinds {
    /// Files, directories and links.
    All,
    /// Files, and links to files.
    Files,
    /// Directories.
    Directories,
}

/// Which entries of one directory are wanted. What the policy closes to tools is never among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// The directory.
    pub path: String,
    /// Only names after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
    /// Whether names that begin with a dot count.
    pub hidden: bool,
    /// As in [`WalkRequest::obey_ignore`].
    pub obey_ignore: bool,
}

impl ListRequest {
    /// All entries of a directory, at most `limit`.
    pub fn all(path: &str, limit: usize) -> ListRequest {
        ListRequest { path: path.to_owned(), after: None, limit, hidden: true, obey_ignore: false }
    }
}

/// What a directory has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The entries, sorted by the bytes of their names.
    pub entries: Vec<FileEntry>,
    /// Whether there are more after the last one.
    pub more: bool,
    /// How many further entries were wanted and are left out because ignore files name them. What is closed to tools does
    /// not count. Where there are `more`, this is 0: names behind a full page are not judged.
    pub ignored: u64,
}

/// What to look for by name. Links are not followed. Answers are in the order of the bytes of their paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkRequest {
    /// The directory.
    pub path: String,
    /// Patterns as ripgrep's `--glob` has them, relative to the directory; a path must match one that is not negated
    /// with `!` and none that is. None at all means everything.
    pub globs: Vec<String>,
    /// Which kinds.
    pub kinds: Kinds,
    /// Whether names that begin with a dot count. `.git` itself is never entered.
    pub hidden: bool,
    /// Whether what `.gitignore`, `.ignore` and `.git/info/exclude` name is left out; also outside a repository.
    pub obey_ignore: bool,
    /// How deep; 1 is the directory's own entries.
    pub depth: Option<usize>,
    /// At most so many.
    pub limit: usize,
    /// Only paths after this one.
    pub after: Option<String>,
    /// Whether [`FileEntry::stat`] is wanted.
    pub stat: bool,
}

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walked {
    /// The entries.
    pub entries: Vec<FileEntry>,
    /// Whether there are more after the last one.
    pub more: bool,
    /// Directories and files that could not be read, at most a few, as `path: why`.
    pub unread: Vec<String>,
    /// How many could not be read.
    pub unread_count: u64,
}

/// How letters are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseMode {
    /// Upper and lower case differ.
    Sensitive,
    /// They do not.
    Insensitive,
    /// They differ if the pattern has an upper case letter.
    Smart,
}

/// What a search gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// Lines.
    Lines,
    /// Files that have one.
    Files,
    /// Files and how many lines they have.
    Count,
}

/// What to look for in files. Files are given in the order of the bytes of their paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// A directory, or one file.
    pub path: String,
    /// A regular expression that is matched in linear time, or a plain text.
    pub pattern: String,
    /// Whether it is a plain text.
    pub literal: bool,
    /// How letters are compared.
    pub case: CaseMode,
    /// Whether only whole words match.
    pub word: bool,
    /// Whether a match may span lines, and `.` matches a line's end.
    pub multiline: bool,
    /// As in [`WalkRequest::globs`].
    pub globs: Vec<String>,
    /// Names of ripgrep's file types: `rust`, `py`; all if empty.
    pub types: Vec<String>,
    /// As in [`WalkRequest::hidden`].
    pub hidden: bool,
    /// As in [`WalkRequest::obey_ignore`].
    pub obey_ignore: bool,
    /// Lines shown before a match.
    pub before: usize,
    /// Lines shown after it.
    pub after: usize,
    /// What is given.
    pub mode: SearchMode,
    /// At most so many matching lines, or files.
    pub limit: usize,
    /// So many of them are skipped first: the way to the next page.
    pub skip: usize,
    /// A longer line is cut around its match to so many characters.
    pub line_chars: usize,
    /// The answer ends before the line or the path with which its text would have more bytes; the first is always given.
    pub max_bytes: usize,
}

/// A line that a search gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitLine {
    /// Counted from 1.
    pub line: u64,
    /// Its text without its end, invalid bytes replaced, cut around the match if it is long.
    pub text: String,
    /// Whether it matched, or is shown as context.
    pub matched: bool,
    /// How many characters were cut off in front and behind.
    pub cut: (u64, u64),
}

/// What was found in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHits {
    /// The file's path relative to the workspace.
    pub path: String,
    /// How many lines matched: all of them in [`SearchMode::Count`], those that are given in [`SearchMode::Lines`], at least
    /// one in [`SearchMode::Files`].
    pub count: u64,
    /// The lines in [`SearchMode::Lines`].
    pub lines: Vec<HitLine>,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searched {
    /// The files with matches.
    pub files: Vec<FileHits>,
    /// Whether there are more beyond the limit.
    pub more: bool,
    /// How many files were searched.
    pub searched: u64,
    /// How many of them are binary and were passed over.
    pub binary: u64,
    /// Files that could not be read, at most a few, as `path: why`.
    pub unread: Vec<String>,
    /// How many could not be read.
    pub unread_count: u64,
}
