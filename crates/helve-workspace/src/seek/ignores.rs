//! Which paths the ignore files of a directory and of those above it leave out.
//!
//! As ripgrep has it: `.ignore` before `.gitignore` before `.git/info/exclude`, the innermost that says anything wins,
//! and what lies above a repository says nothing about what is in it. No repository is needed for `.gitignore` to hold.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use helve_core::deny_read::nests_too_deep;
use helve_core::limits::fixed::{IGNORE_BYTES, IGNORE_PATTERNS};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::tree::{Marks, Place, Tree};

/// The ignore files of one directory, and the nearest above it that has some.
pub(super) struct Level {
    above: Option<Arc<Level>>,
    /// Where in a path relative to the root the part begins that is relative to this directory.
    at: usize,
    ignore: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    repository: bool,
    /// How many patterns hold here, with those above.
    patterns: usize,
}

impl Level {
    /// The level of a directory: its own, if it has anything of the kind, else the one above.
    pub(super) fn of<T: Tree>(
        tree: &T,
        dir: &T::Dir,
        path: &[u8],
        marks: Marks,
        above: Option<Arc<Level>>,
    ) -> Option<Arc<Level>> {
        if !(marks.ignore || marks.gitignore || marks.git) {
            return above;
        }
        let read = |there: bool, dir: &T::Dir, path: &[u8], name: &[u8]| {
            there.then(|| tree.head(Place { dir, path }, name, IGNORE_BYTES)).flatten()
        };
        let exclude = || {
            let git = tree.enter(Place { dir, path }, b".git").ok()?;
            let git_path = joined(path, b".git");
            let info = tree.enter(Place { dir: &git, path: &git_path }, b"info").ok()?;
            read(true, &info, &joined(&git_path, b"info"), b"exclude")
        };
        let mut patterns = above.as_ref().map_or(0, |above| above.patterns);
        Some(Arc::new(Level {
            above,
            at: if path.is_empty() { 0 } else { path.len() + 1 },
            ignore: compiled(read(marks.ignore, dir, path, b".ignore"), &mut patterns),
            git: compiled(read(marks.gitignore, dir, path, b".gitignore"), &mut patterns),
            exclude: compiled(marks.git.then(exclude).flatten(), &mut patterns),
            repository: marks.git,
            patterns,
        }))
    }

    /// Whether a path relative to the root is left out.
    pub(super) fn leaves_out(&self, path: &[u8], is_dir: bool) -> bool {
        let (mut git, mut exclude) = (None, None);
        let mut outside = false;
        let mut next = Some(self);
        while let Some(level) = next {
            let part = Path::new(OsStr::from_bytes(path.get(level.at..).unwrap_or_default()));
            if let Some(says) = says(&level.ignore, part, is_dir) {
                return says;
            }
            if !outside {
                git = git.or_else(|| says(&level.git, part, is_dir));
                exclude = exclude.or_else(|| says(&level.exclude, part, is_dir));
            }
            outside |= level.repository;
            next = level.above.as_deref();
        }
        git.or(exclude).unwrap_or(false)
    }
}

/// What the ignore files above a directory say.
pub(super) fn above<T: Tree>(tree: &T, above: Vec<(T::Dir, Vec<u8>)>) -> Option<Arc<Level>> {
    above
        .into_iter()
        .fold(None, |level, (dir, path)| Level::of(tree, &dir, &path, marks(tree, &dir, &path), level))
}

/// What they and those of the directory itself, where a walk would begin, say.
pub(super) fn at_start<T: Tree>(tree: &T) -> io::Result<Option<Arc<Level>>> {
    let top = tree.top()?;
    let path = tree.base();
    let marks = marks(tree, &top.dir, path);
    Ok(Level::of(tree, &top.dir, path, marks, above(tree, top.above)))
}

/// Which names that matter are there, without listing what else is.
fn marks<T: Tree>(tree: &T, dir: &T::Dir, path: &[u8]) -> Marks {
    let has = |name: &[u8]| tree.stat(Place { dir, path }, name).is_ok();
    Marks { ignore: has(b".ignore"), gitignore: has(b".gitignore"), git: has(b".git") }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

fn says(matcher: &Gitignore, path: &Path, is_dir: bool) -> Option<bool> {
    if matcher.is_empty() {
        return None;
    }
    match matcher.matched(path, is_dir) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

/// The patterns of a file, as far as there is room besides the `held` ones. A line that is none is passed over, as git does.
fn compiled(bytes: Option<Vec<u8>>, held: &mut usize) -> Gitignore {
    let Some(bytes) = bytes else { return Gitignore::empty() };
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new("");
    let lines = text.trim_start_matches('\u{feff}').lines().filter(|line| says_something(line));
    for line in lines.take(IGNORE_PATTERNS.saturating_sub(*held)) {
        *held += 1;
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Whether a line is a pattern that can be compiled.
fn says_something(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#') && !nests_too_deep(line)
}
