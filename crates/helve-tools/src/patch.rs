//! Patches without files: a text in, what it wants of each file out, and that done to bytes.
//!
//! Two notations are read: Codex's envelope (`*** Begin Patch` … `*** End Patch`) and unified diffs as git, diff and models
//! write them. Both become the same [`Section`]s, and from there on nothing depends on the notation.
//!
//! | module | what it does |
//! |---|---|
//! | `wrapping` | takes a shell's here-document or a fence of Markdown off |
//! | `envelope` | reads Codex's envelope |
//! | `unified` | reads unified diffs; `names` reads the paths in them |
//! | `lines` | a file's bytes as lines with their endings |
//! | `locate` | finds the place of every hunk of a file; `scope` says where a hunk's headers lead, `numbers` what line numbers are worth |
//! | `apply` | makes the new bytes; every byte outside of what a hunk changes stays |
//! | `plan` | takes all sections over all files, in memory, to a list of changes |
//!
//! A hunk is found where its context and removed lines stand: exactly, else without white space at the ends of lines, else
//! with Unicode folded, else without indentation. The first of these with a hit decides, and what is hit twice is refused
//! unless line numbers, headers, the end of the file or the order of the hunks leave one place.
//!
//! Deliberately not here: reading and writing files, and how the outcome is told.

mod apply;
mod envelope;
mod lines;
mod locate;
mod names;
mod numbers;
mod plan;
mod scope;
mod unified;
mod wrapping;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use helve_core::Cancel;
use helve_core::files::ContentId;

pub(crate) use locate::{Level, Remark, Trouble};
pub(crate) use plan::{Fault, Inexact, Known, Plan, Planned, Problem, Why, plan, stored};

/// What a patch wants, file by file, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Patch<'p> {
    pub(crate) sections: Vec<Section<'p>>,
    /// What of the patch is left undone, such as a change of permissions.
    pub(crate) notes: Vec<String>,
}

/// What a patch wants of one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section<'p> {
    /// The line of the patch that names the file, counted from 1.
    pub(crate) line: usize,
    pub(crate) path: String,
    pub(crate) deed: Deed<'p>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deed<'p> {
    /// The file has this content. `replaces` says whether one may be there already.
    Add { content: String, replaces: bool },
    /// The file goes; hunks, where there are some, say what must be in it.
    Delete { hunks: Vec<Hunk<'p>> },
    /// The file changes, or gets another path, or both. `replaces` says whether a file may be at the other path already.
    Update { to: Option<String>, replaces: bool, hunks: Vec<Hunk<'p>> },
}

/// Lines that stand together in a file, and what becomes of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk<'p> {
    /// The line of the patch at which it starts, counted from 1.
    pub(crate) line: usize,
    /// Lines that stand somewhere above it, the outermost first.
    pub(crate) headers: Vec<&'p str>,
    /// How many lines of the file are before it, as the patch says.
    pub(crate) at: Option<usize>,
    /// Whether it reaches to the end of the file.
    pub(crate) at_end: bool,
    pub(crate) lines: Vec<Line<'p>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'p> {
    pub(crate) kind: Kind,
    /// Without its ending.
    pub(crate) text: &'p str,
    pub(crate) ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Keep,
    Remove,
    Add,
}

/// What a patch says of the ending of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing, and the file's first ending is meant: the envelope knows no endings.
    FileFirst,
    /// Nothing, and the ending of the lines beside it is meant.
    Beside,
    /// `\n`.
    Lf,
    /// `\r\n`.
    CrLf,
    /// None: the file ends with this line.
    Missing,
}

impl Hunk<'_> {
    /// The lines that must be in the file.
    fn old(&self) -> impl DoubleEndedIterator<Item = &Line<'_>> {
        self.lines.iter().filter(|line| line.kind != Kind::Add)
    }
}

/// Why a text is no patch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPatch {
    /// What is wrong and where, as a sentence.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: &'static str,
}

const FORMS: &str = "Send either '*** Begin Patch' … '*** End Patch' with sections '*** Add File: {path}', '*** Update File: \
                     {path}' and '*** Delete File: {path}', or a unified diff with '--- a/{path}', '+++ b/{path}' and '@@' \
                     hunks.";

impl BadPatch {
    fn new(message: impl Into<String>) -> Self {
        BadPatch { message: message.into(), hint: FORMS }
    }

    fn at(line: usize, message: impl std::fmt::Display) -> Self {
        BadPatch::new(format!("Invalid patch hunk at line {line}: {message}"))
    }
}

/// A line of the patch without its ending, and its number.
#[derive(Clone, Copy, Debug)]
struct Source<'p> {
    number: usize,
    text: &'p str,
}

/// Reads a patch in either notation. Of a path only its shortest spelling stays, so that a file has one name.
pub(crate) fn parse(text: &str) -> Result<Patch<'_>, BadPatch> {
    let mut patch = read(text)?;
    for section in &mut patch.sections {
        section.path = shortest(&section.path);
        if let Deed::Update { to: Some(to), .. } = &mut section.deed {
            *to = shortest(to);
        }
    }
    Ok(patch)
}

/// A path without `.` and doubled slashes. A `..` stays, for what it leaves may be a link.
fn shortest(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    match parts.join("/") {
        short if short.is_empty() => path.to_owned(),
        short => format!(
            "{}{short}{}",
            if path.starts_with('/') { "/" } else { "" },
            if path.ends_with('/') { "/" } else { "" }
        ),
    }
}

fn read(text: &str) -> Result<Patch<'_>, BadPatch> {
    let lines = wrapping::unwrapped(text);
    let Some(first) = lines.first() else { return Err(BadPatch::new("Provide a patch input.")) };
    if first.text.trim() != envelope::BEGIN {
        if unified::is_one(&lines) {
            return unified::parse(&lines);
        }
        return Err(BadPatch::new(format!("The first line of the patch must be '{}'", envelope::BEGIN)));
    }
    let inner = envelope::inside(&lines)?;
    // Some models put one notation into the other.
    let start = inner.iter().find(|line| !line.text.trim().is_empty());
    if start.is_some_and(|line| unified::starts_file(line.text)) {
        return unified::parse(inner);
    }
    envelope::parse(inner)
}

/// Reads a patch and takes it over a file called `f`; gives what is there afterwards, or nothing if the patch does not fit.
/// For fuzzing; a caller that means it uses the tool.
#[doc(hidden)]
pub fn try_patch(text: &str, file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let patch = parse(text).ok()?;
    let id = ContentId(String::new());
    let known = Known::File { bytes: Arc::new(file.to_vec()), id, stale: false, encoding: None };
    let known = HashMap::from([("f".to_owned(), known)]);
    let plan = plan(&patch, &known, &Cancel::never()).ok()?;
    Some(plan.files.into_iter().filter_map(|file| file.after).map(|bytes| bytes.to_vec()).collect())
}

/// What an error shows of a line.
pub(crate) fn shown(line: &str) -> String {
    const LONGEST: usize = 120;
    match line.char_indices().nth(LONGEST) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
