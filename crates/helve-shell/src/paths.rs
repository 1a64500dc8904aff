//! Which words of a command look like file paths, and from which directory they count.
//!
//! In comes a [`Command`], out goes a list of [`PathWord`]s: absolute and home paths, paths with a `..`, values such as
//! `--out=/x`, redirect targets, `file:` URLs, and the same inside the code given to a shell or an interpreter.
//! Left out on purpose: plain relative arguments, URLs, `host:/path`, search patterns and programs of `grep`, `sed`,
//! `awk` and `jq`, text that is only printed, and the harmless devices such as `/dev/null`.
//!
//! Not here: whether a path exists, what it resolves to, and whether it may be used. A command can name files in ways
//! that no reading finds; this list explains and catches mistakes, it does not confine.

mod directories;
mod purpose;
mod spelling;

use std::sync::Arc;

use crate::command::{Command, Position, Redirect, Segment, Span, Word};
use directories::Directories;
use purpose::Purpose;
use spelling::Spelled;

/// How often code inside code is looked at: `sh -c "sh -c '…'"` is two.
const MAX_CODE_DEPTH: usize = 4;

/// How many bytes of code inside code are read in all. Code that stands in nested substitutions is part of the text of
/// each of them, so without a bound it would be read once for each way through them.
const MAX_CODE: usize = 2 * crate::MAX_LENGTH;

/// What looks like a file path in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathWords {
    /// The paths, in the order in which they stand.
    pub found: Vec<PathWord>,
    /// The first code inside the command that was not looked at, because it is nested too deep or is too much in all.
    pub unread: Option<Span>,
}

impl IntoIterator for PathWords {
    type Item = PathWord;
    type IntoIter = std::vec::IntoIter<PathWord>;

    fn into_iter(self) -> Self::IntoIter {
        self.found.into_iter()
    }
}

/// A word, or a part of one, that looks like a file path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathWord {
    /// The path. A home directory is always spelled `~` or `~user`, whichever way the command writes it.
    pub text: String,
    /// The word in which it stands.
    pub span: Span,
    /// What it is to the command.
    pub role: PathRole,
    /// The directory from which a relative path counts.
    pub directory: Directory,
}

/// What a path is to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRole {
    /// The program that is run.
    Program,
    /// An argument, an assignment's value, or a path inside code.
    Argument,
    /// A file that a redirection reads.
    RedirectRead,
    /// A file that a redirection writes.
    RedirectWrite,
}

/// The directory in which a part of the command runs, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directory {
    /// Where the command starts.
    Start,
    /// Where a literal `cd` leads: a path relative to the start, an absolute one, or one under `~`.
    Under(Arc<str>),
    /// Not known: a `..` counted from here may lead anywhere.
    Unknown,
}

/// Lists what looks like a file path. A path behind a `cd` that may or may not have happened is listed once for each
/// directory from which it may count.
///
/// ```
/// let command = helve_shell::read("cd src && cat ../README.md > /srv/out 2>/dev/null");
/// let paths: Vec<_> = helve_shell::path_words(&command).into_iter().map(|path| path.text).collect();
/// assert_eq!(paths, ["../README.md", "/srv/out"]);
/// ```
pub fn path_words(command: &Command) -> PathWords {
    let mut search = Search { words: PathWords { found: Vec::new(), unread: None }, left: MAX_CODE };
    search.collect(command, &[Directory::Start], None, 0);
    search.words
}

/// One search, through all the code inside the command.
struct Search {
    words: PathWords,
    /// How many more bytes of code inside code are read.
    left: usize,
}

impl Search {
    /// Finds the paths of a command that starts in one of `starts`. Inside code, `place` is where that code stands.
    fn collect(&mut self, command: &Command, starts: &[Directory], place: Option<Span>, depth: usize) {
        let mut directories = Directories::new(command, starts);
        let printed = purpose::of_printed(command);
        for (index, segment) in command.segments.iter().enumerate() {
            let here = directories.enter(segment);
            let mut reporter = Reporter { directories: &here, depth, place, search: self };
            let purposes = purpose::of(segment, printed);
            for (word, purpose) in segment.words.iter().zip(purposes) {
                reporter.word(word, purpose);
            }
            reporter.here_documents(segment);
            if let Some(word) = directories.leave(index, segment) {
                reporter.add(Spelled::home(), word.span, PathRole::Argument);
            }
        }
    }
}

struct Reporter<'a> {
    directories: &'a [Directory],
    depth: usize,
    place: Option<Span>,
    search: &'a mut Search,
}

impl Reporter<'_> {
    fn word(&mut self, word: &Word, purpose: Purpose) {
        let role = match word.position {
            Position::Name => PathRole::Program,
            Position::Argument | Position::Assignment => PathRole::Argument,
            Position::Redirect(Redirect::HereString) => {
                return if purpose == Purpose::ShellCode {
                    self.shell_code(&word.text, word.span)
                };
            }
            Position::Redirect(operator) => return self.redirect(word, operator),
            Position::Keyword | Position::Pattern | Position::FunctionName => return,
        };
        match purpose {
            Purpose::File => {}
            Purpose::Text => return,
            Purpose::ShellCode => return self.shell_code(&word.text, word.span),
            Purpose::Code => return self.code(&word.text, word.span),
        }
        for path in spelling::paths(word) {
            self.add(path, word.span, role);
        }
    }

    fn redirect(&mut self, word: &Word, operator: Redirect) {
        let role = match operator {
            Redirect::Read | Redirect::DuplicateIn | Redirect::HereString => PathRole::RedirectRead,
            _ => PathRole::RedirectWrite,
        };
        let duplicates = matches!(operator, Redirect::DuplicateIn | Redirect::DuplicateOut);
        let descriptor = word.text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        if duplicates && descriptor {
            return;
        }
        match spelling::whole(word) {
            Some(path) => self.add(path, word.span, role),
            // The shell takes the whole target as one path, whatever characters it holds.
            None if word.known => self.add(spelling::relative(word), word.span, role),
            None => {}
        }
    }

    fn here_documents(&mut self, segment: &Segment) {
        if segment.here_documents.is_empty() {
            return;
        }
        let purpose = purpose::of_input(segment);
        for document in &segment.here_documents {
            match purpose {
                Purpose::ShellCode => self.shell_code(&document.body, document.span),
                Purpose::Code => self.code(&document.body, document.span),
                Purpose::File | Purpose::Text => {}
            }
        }
    }

    /// Text that another shell will read. Its paths are reported with the span of the text.
    fn shell_code(&mut self, text: &str, span: Span) {
        let place = self.place.unwrap_or(span);
        let left = self.search.left.checked_sub(text.len()).filter(|_| self.depth < MAX_CODE_DEPTH);
        let Some(left) = left else {
            self.search.words.unread.get_or_insert(place);
            return;
        };
        self.search.left = left;
        self.search.collect(&crate::read(text), self.directories, Some(place), self.depth + 1);
    }

    /// A program in another language: paths stand in its string literals.
    fn code(&mut self, text: &str, span: Span) {
        for path in spelling::literals(text) {
            self.add(path, span, PathRole::Argument);
        }
    }

    fn add(&mut self, path: Spelled, span: Span, role: PathRole) {
        let Spelled { text, anchored } = path;
        if is_harmless_device(&text) {
            return;
        }
        let span = self.place.unwrap_or(span);
        let found = &mut self.search.words.found;
        if text.starts_with(['/', '~']) {
            return found.push(PathWord { text, span, role, directory: Directory::Start });
        }
        let directories = if anchored { self.directories } else { &[Directory::Unknown] };
        for directory in directories {
            found.push(PathWord { text: text.clone(), span, role, directory: directory.clone() });
        }
    }
}

/// Devices that give nothing away and keep nothing.
fn is_harmless_device(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/dev/") else { return false };
    match name.strip_prefix("fd/") {
        Some(number) => !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()),
        None => matches!(
            name,
            "null" | "zero" | "full" | "random" | "urandom" | "stdin" | "stdout" | "stderr" | "tty"
        ),
    }
}
