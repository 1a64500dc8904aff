//! The view's rules as real paths, resolved once, and refused where a command could change what they mean.
//!
//! bwrap is given names on every call. So no part of a name may be the command's to rename or to replace by a link: a
//! rule inside a writable directory must name an entry of that directory itself. There it is a mount point, which the
//! kernel lets nobody rename or remove (`EBUSY`), while a directory above it could be moved away and another put in its
//! place for the next call.
//!
//! In: a [`View`]. Out: [`Rules`]. Not here: what is mounted for a rule.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use helve_core::{DenyRead, ErrorKind, ToolError, View};

/// How many links one path may lead through; the kernel's own limit.
const MOST_LINKS: u32 = 40;

/// One path of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// As the view names it.
    pub(crate) given: PathBuf,
    /// Without links.
    pub(crate) real: PathBuf,
}

/// Every path of the view.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) workspace: Rule,
    pub(crate) read_only: Vec<Rule>,
    pub(crate) read_write: Vec<Rule>,
    pub(crate) hidden: Vec<Rule>,
    /// What of the workspace nobody may read.
    pub(crate) denied: DenyRead,
}

/// Resolves the rules of a view, or says which of them cannot hold.
pub(crate) fn resolve(view: &View) -> Result<Rules, ToolError> {
    let roots = std::iter::once(&view.workspace).chain(&view.read_write);
    let writable: Vec<PathBuf> = roots.filter_map(|path| path.canonicalize().ok()).collect();
    let one = |path: &PathBuf| {
        let real = real_path(path, &writable)?;
        if real == Path::new("/") {
            let message = "The root directory / cannot be a path of the view: it holds everything.";
            return Err(ToolError::new(ErrorKind::SandboxUnavailable, message)
                .hint("Name the directories that commands need, and another workspace than /."));
        }
        Ok(Rule { given: path.clone(), real })
    };
    let all = |paths: &[PathBuf]| paths.iter().map(one).collect::<Result<Vec<_>, _>>();
    let rules = Rules {
        workspace: one(&view.workspace)?,
        read_only: all(&view.read_only)?,
        read_write: all(&view.read_write)?,
        hidden: all(&view.hidden)?,
        denied: DenyRead::new(&view.deny_read)?,
    };
    if rules.hidden.iter().any(|rule| rule.real == rules.workspace.real) {
        let message = format!("The workspace {} is hidden by the view.", view.workspace.display());
        return Err(ToolError::new(ErrorKind::Blocked, message)
            .hint("Take it out of view.hidden, or choose another workspace."));
    }
    rules.all().try_for_each(|rule| rules.check_place(rule))?;
    Ok(rules)
}

impl Rules {
    /// The paths of the view.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Rule> {
        std::iter::once(&self.workspace).chain(&self.read_write).chain(&self.read_only).chain(&self.hidden)
    }

    /// Whether the view hides a real path: a hidden directory hides all of itself, except a workspace inside it.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        let workspace = &self.workspace.real;
        let in_workspace = path.starts_with(workspace);
        self.hidden
            .iter()
            .any(|rule| path.starts_with(&rule.real) && !(in_workspace && workspace.starts_with(&rule.real)))
    }

    /// Whether a path lies in what commands can write.
    pub(crate) fn in_writable(&self, path: &Path) -> bool {
        let mut roots = std::iter::once(&self.workspace).chain(&self.read_write);
        roots.any(|rule| path.starts_with(&rule.real) || path.starts_with(&rule.given))
    }

    /// Whether a command can add, rename and remove entries at this place of the view.
    fn is_writable(&self, place: &Path) -> bool {
        let among = |rules: &[Rule]| rules.iter().any(|rule| rule.real == place);
        let shown = self.workspace.real == place || among(&self.read_write);
        shown && !among(&self.read_only) && !among(&self.hidden)
    }

    /// The nearest place above a path that a rule names.
    fn place_above<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().skip(1).find(|above| self.all().any(|rule| rule.real == *above))
    }

    fn check_place(&self, rule: &Rule) -> Result<(), ToolError> {
        let Some(above) = self.place_above(&rule.real) else { return Ok(()) };
        if !self.is_writable(above) || rule.real.parent() == Some(above) {
            return Ok(());
        }
        let (path, root) = (rule.given.display(), above.display());
        let entry = rule.real.strip_prefix(above).ok().and_then(|inside| inside.components().next());
        let entry = entry.map(|entry| above.join(entry)).unwrap_or_default();
        let message = format!(
            "The view cannot keep its rule for {path}: it lies deep inside {root}, which commands can write, so a \
             command could move {} away and put another in its place.",
            entry.display()
        );
        Err(ToolError::new(ErrorKind::Blocked, message).hint(format!(
            "Make the rule for {} instead, or move what it protects out of {root}.",
            entry.display()
        )))
    }

    /// Checks again, for one call, the entries of writable directories: what was not there when the rules were resolved
    /// may have been made since, as a link to anywhere.
    pub(crate) fn check_entries(&self) -> Result<(), ToolError> {
        let exposed =
            self.all().filter(|rule| rule.real.parent().is_some_and(|parent| self.is_writable(parent)));
        for rule in exposed {
            if rule.real.is_symlink() {
                return Err(link_in_writable(&rule.given, &rule.real));
            }
        }
        Ok(())
    }
}

/// The real path, also of what does not exist yet. A link in a directory that commands can write is refused: they could
/// lead it elsewhere.
fn real_path(path: &Path, writable: &[PathBuf]) -> Result<PathBuf, ToolError> {
    let names = |path: &Path| path.components().filter_map(step).collect::<VecDeque<_>>();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut ahead = names(&absolute);
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(step) = ahead.pop_front() {
        let name = match step {
            Step::Root => {
                real = PathBuf::from("/");
                continue;
            }
            Step::Up => {
                real.pop();
                continue;
            }
            Step::Into(name) => name,
        };
        real.push(name);
        let Ok(target) = real.read_link() else { continue };
        if writable.iter().any(|root| real.starts_with(root)) {
            return Err(link_in_writable(path, &real));
        }
        links += 1;
        if links > MOST_LINKS {
            let message = format!("A path of the view leads through too many links: {}", path.display());
            return Err(ToolError::new(ErrorKind::SandboxUnavailable, message)
                .hint("Name the directory itself instead of a link to it."));
        }
        real.pop();
        let mut next = names(&target);
        next.append(&mut ahead);
        ahead = next;
    }
    Ok(real)
}

/// One step along a path.
enum Step {
    Root,
    Up,
    Into(OsString),
}

fn step(component: Component<'_>) -> Option<Step> {
    match component {
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
        Component::ParentDir => Some(Step::Up),
        Component::RootDir | Component::Prefix(_) => Some(Step::Root),
        Component::CurDir => None,
    }
}

fn link_in_writable(given: &Path, link: &Path) -> ToolError {
    let message = format!(
        "The view cannot keep its rule for {}: {} is a symbolic link in a directory that commands can write, so they \
         could lead it elsewhere.",
        given.display(),
        link.display()
    );
    ToolError::new(ErrorKind::Blocked, message)
        .hint("Put a real file or directory in the link's place, or name in the view what it leads to.")
}

#[cfg(test)]
mod tests;
