//! Files that were fetched from a network, by their paths and by the variables that hold paths which nobody knows.

use std::path::{Path, PathBuf};

use crate::Span;
use crate::analysis::{Arg, Target};

use super::Walker;

/// So many paths are remembered.
const MAX_PATHS: usize = 1024;
/// So many that only variables name.
const MAX_NAMED: usize = 16;
/// Longer names of them are not.
const MAX_LENGTH: usize = 256;
/// Deeper directories are not looked for.
const MAX_DEPTH: usize = 32;

/// A path of which it is known how it is written: a variable, and what stands behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    variable: String,
    behind: String,
}

impl Named {
    /// `"$f"`, `${d}/x.sh`.
    fn read(written: &str) -> Option<Self> {
        if written.len() > MAX_LENGTH {
            return None;
        }
        let plain = written.replace('"', "");
        let name = plain.strip_prefix('$')?;
        let (variable, behind) = match name.strip_prefix('{') {
            Some(name) => name.split_once('}')?,
            None => {
                let ends = |character: char| !(character.is_ascii_alphanumeric() || character == '_');
                name.split_at(name.find(ends).unwrap_or(name.len()))
            }
        };
        let certain = crate::expand::is_name(variable) && !behind.contains(['$', '`', '\\', '\'']);
        certain.then(|| Named { variable: variable.to_owned(), behind: behind.to_owned() })
    }

    /// Whether it is that path, or one below it.
    fn lies_in(&self, other: &Named) -> bool {
        let below = self.behind.strip_prefix(&other.behind);
        self.variable == other.variable
            && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }
}

impl Walker<'_> {
    /// Remembers files that were fetched, and directories into which something was.
    pub(super) fn downloaded_to(&mut self, paths: &[PathBuf]) {
        if self.downloaded.len() < MAX_PATHS {
            self.downloaded.extend(paths.iter().cloned());
        }
        if paths.iter().any(|path| self.pipes.get(path) == Some(&true)) {
            self.runs_download(None);
        }
    }

    /// Remembers a named pipe.
    pub(super) fn makes_pipe(&mut self, path: &Path) {
        if self.pipes.len() < MAX_NAMED {
            self.pipes.insert(path.to_path_buf(), false);
        }
    }

    /// A shell runs what comes out of a file. Out of a named pipe comes what is written later.
    pub(super) fn runs_from(&mut self, target: &Target) {
        if let Target::Path { path, .. } = target
            && let Some(runs) = self.pipes.get_mut(path)
        {
            *runs = true;
        }
    }

    /// Remembers that something was fetched to a path which nobody knows: the word that names it.
    pub(super) fn downloaded_to_unknown(&mut self, word: Span) {
        if self.downloaded_unknown.len() < MAX_NAMED {
            self.downloaded_unknown.extend(self.source.get(word.range()).and_then(Named::read));
        }
    }

    /// A variable gets another value, perhaps that of a variable which names what was fetched: `g=$f`. Inside conditions and
    /// loops it may keep the one that it has.
    pub(super) fn names_another(&mut self, variable: &str, assignment: Span) {
        if self.downloaded_unknown.is_empty() {
            return;
        }
        let value = self.source.get(assignment.range()).and_then(|written| written.split_once('='));
        let same = value
            .and_then(|(_, value)| Named::read(value))
            .is_some_and(|named| self.downloaded_unknown.iter().any(|other| named.lies_in(other)));
        if self.conditional == 0 {
            self.downloaded_unknown.retain(|named| named.variable != variable);
        }
        if same && self.downloaded_unknown.len() < MAX_NAMED {
            self.downloaded_unknown.push(Named { variable: variable.to_owned(), behind: String::new() });
        }
    }

    /// Whether a path was fetched before in the same script, or lies in a directory into which something was.
    pub(super) fn is_downloaded(&self, target: &Target, word: Span) -> bool {
        match target {
            Target::Path { path, .. } if !self.downloaded.is_empty() => {
                path.ancestors().take(MAX_DEPTH).any(|path| self.downloaded.contains(path))
            }
            Target::Unknown if !self.downloaded_unknown.is_empty() => {
                let named = self.source.get(word.range()).and_then(Named::read);
                named.is_some_and(|named| self.downloaded_unknown.iter().any(|other| named.lies_in(other)))
            }
            _ => false,
        }
    }

    /// Whether an argument names what was fetched before.
    pub(super) fn names_download(&self, arg: &Arg) -> bool {
        let any = !(self.downloaded.is_empty() && self.downloaded_unknown.is_empty());
        any && self.targets(arg, 0, false).iter().any(|target| self.is_downloaded(target, arg.span))
    }
}
