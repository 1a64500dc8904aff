//! Paths that lead outside the workspace, by their text alone.
//!
//! Nothing is looked up: a link inside the workspace may lead anywhere, and only the sandbox stops that. What this
//! catches is the plain mistake, and it says so before anything runs.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use helve_core::Decision;
use helve_shell::{Command, Directory, PathWord, path_words};

use super::{Guard, assignment, bytes};
use crate::config::keys::{EXEC_RESTRICT, VIEW_READ_ONLY};

/// The rule that keeps a call's working directory inside the view.
pub(crate) const WORKING_DIR: &str = "view.working_dir";

/// Refuses a command that names a path outside the workspace, where the owner wants that.
pub(super) fn judge_paths(
    guard: &Guard,
    command: &Command,
    workspace: &Path,
    directory: &Path,
) -> Option<Decision> {
    if guard.restricted_by.is_empty() {
        return None;
    }
    let lift: Vec<String> = guard.restricted_by.iter().map(|key| format!("{key} = false")).collect();
    let lift = lift.join("\n");
    if let Some(opaque) = command.opaque {
        let reason = format!("its paths cannot be checked: {}", opaque.reason);
        return Some(Decision::deny(EXEC_RESTRICT, reason).at(bytes(opaque.span)).grant(lift));
    }
    let mut bases = Bases::new(directory);
    let words = path_words(command);
    let leads_outside = |word: &PathWord| match bases.resolve(word) {
        Some(path) => !guard.opened_or_inside(&path, workspace),
        None => true,
    };
    let outside: Vec<PathWord> = words.found.into_iter().filter(leads_outside).collect();
    let Some(first) = outside.first() else {
        let reason = "its paths cannot be checked: commands inside commands are nested too deep or too often; put them \
                      into a script and run that";
        return words.unread.map(|span| Decision::deny(EXEC_RESTRICT, reason).at(bytes(span)).grant(lift));
    };
    let reason = match first.text.as_str() {
        home if home.starts_with('~') => format!("{home} is in a home directory, outside the workspace"),
        path if path.starts_with('/') => format!("{path} is outside the workspace {}", workspace.display()),
        path => format!("{path} leads above the workspace {}", workspace.display()),
    };
    // A path that is written out can be opened alone; anything else only by lifting the restriction.
    let absolute = |word: &PathWord| {
        let path = word.text.starts_with('/').then(|| normal(Path::new(&word.text)))?;
        path.into_os_string().into_string().ok()
    };
    let absolute: Option<Vec<String>> = outside.iter().map(absolute).collect();
    let decision = Decision::deny(EXEC_RESTRICT, reason).at(bytes(first.span));
    let grant = match absolute {
        Some(mut paths) => {
            paths.dedup();
            guard.opening(&paths.iter().map(String::as_str).collect::<Vec<_>>())
        }
        None => Some(lift),
    };
    Some(match grant {
        Some(grant) => decision.grant(grant),
        None => decision,
    })
}

impl Guard {
    fn opened_or_inside(&self, path: &Path, workspace: &Path) -> bool {
        let opened = self.opened.read_only.iter().chain(&self.opened.read_write);
        path.starts_with(workspace) || opened.into_iter().any(|root| path.starts_with(root))
    }

    /// The line that opens more paths and keeps those that are open; none if a path would open too much.
    fn opening(&self, more: &[&str]) -> Option<String> {
        if more.iter().any(|path| self.is_too_much(Path::new(path))) {
            return None;
        }
        let open = self.opened.read_only.iter().filter_map(|path| path.to_str());
        Some(assignment(VIEW_READ_ONLY, &open.chain(more.iter().copied()).collect::<Vec<_>>()))
    }

    /// Whether a path should not be opened for one command's sake: everything, a home directory or what holds some, and
    /// what leads to the kernel and to services.
    fn is_too_much(&self, path: &Path) -> bool {
        let is_home = path.parent() == Some(Path::new("/home"));
        let holds_home = |home: &Path| home.starts_with(path);
        let is_interface = ["/proc", "/sys", "/dev", "/run"].iter().any(|root| path.starts_with(root));
        is_home
            || is_interface
            || [Path::new("/home"), Path::new("/root")]
                .into_iter()
                .chain(self.home.as_deref())
                .any(holds_home)
    }
}

/// Refuses a working directory outside the view, whatever else is set. `usual` is what is visible without being
/// asked for.
pub(crate) fn judge_working_dir(
    guard: &Guard,
    directory: &Path,
    workspace: &Path,
    usual: &[PathBuf],
    hidden: &[PathBuf],
) -> Option<Decision> {
    let shown =
        guard.opened_or_inside(directory, workspace) || usual.iter().any(|root| directory.starts_with(root));
    if shown && !hidden.iter().any(|root| directory.starts_with(root)) {
        return None;
    }
    let reason = format!(
        "working_dir {} is outside what commands may see; use a directory inside {}",
        directory.display(),
        workspace.display()
    );
    let decision = Decision::deny(WORKING_DIR, reason);
    let grant = directory.to_str().filter(|_| !shown).and_then(|path| guard.opening(&[path]));
    Some(match grant {
        Some(grant) => decision.grant(grant),
        None => decision,
    })
}

/// The directories from which the paths of one command count. Each may be long and be meant by every word, so the last
/// few are kept in their normal form.
struct Bases<'a> {
    start: &'a Path,
    kept: VecDeque<(Directory, PathBuf)>,
}

/// How many are kept; more than one word may count from.
const BASES_KEPT: usize = 8;

impl<'a> Bases<'a> {
    /// `start` is where the command starts, in its normal form.
    fn new(start: &'a Path) -> Self {
        Bases { start, kept: VecDeque::new() }
    }

    /// Where a path leads, without looking; none if that cannot be told or it is a home directory.
    fn resolve(&mut self, word: &PathWord) -> Option<PathBuf> {
        if word.text.starts_with('~') {
            return None;
        }
        let base = match &word.directory {
            _ if word.text.starts_with('/') => self.start,
            Directory::Start => self.start,
            Directory::Under(base) if base.starts_with('~') => return None,
            Directory::Under(base) => self.under(&word.directory, base),
            // From an unknown place a path without `..` is as good or bad as the place, which was judged by its own
            // word.
            Directory::Unknown if is_traversal(&word.text) => return None,
            Directory::Unknown => self.start,
        };
        Some(follow(base.to_owned(), Path::new(&word.text)))
    }

    fn under(&mut self, directory: &Directory, base: &str) -> &Path {
        let known = self.kept.iter().position(|(kept, _)| kept == directory);
        let at = known.unwrap_or_else(|| {
            self.kept.truncate(BASES_KEPT - 1);
            self.kept.push_front((directory.clone(), follow(self.start.to_owned(), Path::new(base))));
            0
        });
        self.kept.get(at).map_or(self.start, |(_, path)| path)
    }
}

/// Whether a relative path goes up.
pub(super) fn is_traversal(text: &str) -> bool {
    !text.starts_with(['/', '~'])
        && text.split(['/', '\\', ' ', '"', '\'', '=', ':']).any(|part| part == "..")
}

/// The path without `.` and `..`, by its text alone.
pub(crate) fn normal(path: &Path) -> PathBuf {
    follow(PathBuf::new(), path)
}

/// Where a path leads from a directory in its normal form, by its text alone.
fn follow(mut from: PathBuf, path: &Path) -> PathBuf {
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                from.pop();
            }
            part => from.push(part),
        }
    }
    from
}
