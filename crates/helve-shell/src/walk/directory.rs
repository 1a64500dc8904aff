//! In which directories a command may find itself.
//!
//! `cd x && …` runs in `x` alone. After `cd x; …` the shell is in `x`, or where it was if there is no such directory:
//! reading takes the first for granted, changing files counts in both.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// So many directories are told apart.
const MAX_PLACES: usize = 8;
/// So many changes are as good as any number.
const MANY: usize = 2;
/// A longer path is not followed.
const MAX_PATH: usize = 1024;

/// Where a shell may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory {
    /// Where it is if every `cd` worked.
    here: Vec<Rc<Path>>,
    /// Where it is if an earlier `cd` failed.
    astray: Vec<Rc<Path>>,
    /// Where it is if the last `cd` failed.
    stayed: Vec<Rc<Path>>,
    /// Whether it may be anywhere.
    unknown: bool,
    /// Where it was before, if that is certain.
    previous: Option<Rc<Path>>,
    /// How many changes led here, as far as they are counted.
    changes: usize,
    /// Whether links on the way here were resolved, so that `..` leads elsewhere than the text says.
    resolved: bool,
    /// Where `popd` leads, the next one last; none if that is not certain.
    stack: Option<Vec<Rc<Path>>>,
    /// Whether the last change was a `pushd`.
    pushed: bool,
}

impl Directory {
    pub(crate) fn at(path: &Path) -> Self {
        let here = vec![Rc::from(normal(path).as_path())];
        let stack = Some(Vec::new());
        Directory { here, unknown: false, changes: 0, stack, ..Directory::unknown() }
    }

    pub(crate) fn unknown() -> Self {
        Directory {
            here: Vec::new(),
            astray: Vec::new(),
            stayed: Vec::new(),
            unknown: true,
            previous: None,
            changes: MANY,
            resolved: false,
            stack: None,
            pushed: false,
        }
    }

    /// The one directory where it is if all went well.
    pub(crate) fn single(&self) -> Option<&Path> {
        match self.here.as_slice() {
            [only] if !self.unknown => Some(only),
            _ => None,
        }
    }

    /// The one directory where it is, whatever failed.
    pub(crate) fn certain(&self) -> Option<&Path> {
        self.single().filter(|_| self.astray.is_empty() && self.stayed.is_empty())
    }

    pub(crate) fn previous(&self) -> Option<&Path> {
        self.previous.as_deref()
    }

    /// Whether the last change worked, whatever else failed.
    pub(crate) fn certainly_moved(&self) -> bool {
        self.stayed.is_empty()
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// The directories that count for reading.
    pub(crate) fn likely(&self) -> &[Rc<Path>] {
        &self.here
    }

    /// All directories that count for changing.
    pub(crate) fn possible(&self) -> impl Iterator<Item = &Rc<Path>> {
        self.here.iter().chain(&self.astray).chain(&self.stayed)
    }

    /// Where `cd target` leads; it may fail and stay, unless a failure ends the shell.
    pub(crate) fn changed(&self, target: &Path, ends_on_failure: bool) -> Self {
        if self.resolved && !target.is_absolute() && leads_up(target) {
            return Directory::unknown();
        }
        let to = |places: &mut dyn Iterator<Item = &Rc<Path>>| {
            let mut moved: Vec<Rc<Path>> = Vec::new();
            for place in places {
                add(&mut moved, &Rc::from(normal(&place.join(target)).as_path()));
            }
            moved
        };
        let here = if target.is_absolute() {
            vec![Rc::from(normal(target).as_path())]
        } else {
            to(&mut self.here.iter())
        };
        let mut astray = to(&mut self.astray.iter().chain(&self.stayed));
        let mut stayed = Vec::new();
        if !ends_on_failure {
            for place in self.possible() {
                add(&mut stayed, place);
            }
        }
        astray.retain(|place| !holds(&here, place));
        stayed.retain(|place| !holds(&here, place) && !holds(&astray, place));
        let unknown = self.unknown && !target.is_absolute();
        let previous = self.certain().map(Rc::from);
        let resolved = self.resolved && !target.is_absolute();
        let stack = if self.pushed && !self.stayed.is_empty() { None } else { self.stack.clone() };
        let changes = (self.changes + 1).min(MANY);
        Directory { here, astray, stayed, unknown, previous, changes, resolved, stack, pushed: false }
            .bounded()
    }

    /// The same for a change that follows links, as that of every program does and `cd -P`: behind one, `..` leads
    /// elsewhere than the text says.
    pub(crate) fn changed_physically(&self, target: &Path, ends_on_failure: bool) -> Self {
        let mut up = target.components().skip_while(|part| !matches!(part, Component::Normal(_)));
        let behind_name = up.any(|part| part == Component::ParentDir);
        if behind_name || (self.changes > 0 && !target.is_absolute() && leads_up(target)) {
            return Directory::unknown();
        }
        Directory { resolved: true, ..self.changed(target, ends_on_failure) }
    }

    /// Where `cd -` leads.
    pub(crate) fn returned(&self, ends_on_failure: bool) -> Self {
        match &self.previous {
            // If the last change failed, it would lead to where the shell was still earlier.
            Some(previous) if self.stayed.is_empty() || self.changes < MANY => {
                self.changed(previous, ends_on_failure)
            }
            _ => Directory::unknown(),
        }
    }

    /// Remembers for `popd` where a `pushd` leads away from; `self` is where it leads to.
    pub(crate) fn pushed_from(mut self, before: &Directory) -> Self {
        self.stack = match (self.stack, before.certain()) {
            (Some(mut stack), Some(place)) if stack.len() < MAX_PLACES => {
                stack.push(Rc::from(place));
                Some(stack)
            }
            _ => None,
        };
        self.pushed = true;
        self
    }

    /// Where `popd` leads.
    pub(crate) fn popped(&self, ends_on_failure: bool) -> Self {
        let mut stack = self.stack.clone().unwrap_or_default();
        let Some(top) = stack.pop() else { return Directory::unknown() };
        // If a first `pushd` failed, there is nothing to pop, and the shell is there already.
        if self.pushed && !self.stayed.is_empty() && !stack.is_empty() {
            return Directory::unknown();
        }
        Directory { stack: Some(stack), ..self.changed(&top, ends_on_failure) }
    }

    /// The same where nothing is known of earlier places.
    pub(crate) fn without_stack(&self) -> Self {
        Directory { stack: None, ..self.clone() }
    }

    /// The same where it is not known what `cd -` leads to.
    pub(crate) fn without_previous(&self) -> Self {
        Directory { previous: None, changes: MANY, ..self.clone() }
    }

    /// The same for another shell that starts there.
    pub(crate) fn inherited(&self) -> Self {
        Directory { previous: None, resolved: self.resolved || self.changes > 0, stack: None, ..self.clone() }
    }

    /// The same where the last `cd` certainly worked, and what was left out.
    pub(crate) fn after_success(&self) -> (Self, Vec<Rc<Path>>) {
        let mut narrowed = self.clone();
        let stayed = std::mem::take(&mut narrowed.stayed);
        (narrowed, stayed)
    }

    /// The same where the last `cd` may have failed after all.
    pub(crate) fn or_stayed(&self, stayed: &[Rc<Path>]) -> Self {
        let mut widened = self.clone();
        for place in stayed {
            if !holds(&widened.here, place) && !holds(&widened.astray, place) {
                add(&mut widened.stayed, place);
            }
        }
        widened.bounded()
    }

    /// Either of two.
    pub(crate) fn joined(&self, other: &Directory) -> Self {
        let mut joined = self.clone();
        other.here.iter().for_each(|place| add(&mut joined.here, place));
        other.astray.iter().for_each(|place| add(&mut joined.astray, place));
        other.stayed.iter().for_each(|place| add(&mut joined.stayed, place));
        joined.astray.retain(|place| !holds(&joined.here, place));
        joined.stayed.retain(|place| !holds(&joined.here, place) && !holds(&joined.astray, place));
        joined.unknown |= other.unknown;
        if joined.previous != other.previous {
            joined.previous = None;
        }
        joined.changes = joined.changes.max(other.changes);
        joined.resolved |= other.resolved;
        joined.pushed |= other.pushed;
        if joined.stack != other.stack {
            joined.stack = None;
        }
        joined.bounded()
    }

    fn bounded(self) -> Self {
        let long = |place: &Rc<Path>| place.as_os_str().len() > MAX_PATH;
        if self.possible().count() > MAX_PLACES || self.possible().any(long) {
            Directory::unknown()
        } else {
            self
        }
    }
}

fn leads_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Comparing text is enough: all of them are in their normal form.
fn holds(places: &[Rc<Path>], place: &Rc<Path>) -> bool {
    places.iter().any(|other| Rc::ptr_eq(other, place) || other.as_os_str() == place.as_os_str())
}

fn add(places: &mut Vec<Rc<Path>>, place: &Rc<Path>) {
    // One more than the bound is enough to see that it is passed.
    if places.len() <= MAX_PLACES && !holds(places, place) {
        places.push(Rc::clone(place));
    }
}

/// The same path in its normal form.
pub(crate) fn normalized(path: PathBuf) -> PathBuf {
    if is_normal(&path) { path } else { normal(&path) }
}

/// An absolute path without `.`, `..` and doubled slashes, by its text alone.
pub fn normal(path: &Path) -> PathBuf {
    if is_normal(path) {
        return path.to_path_buf();
    }
    let mut made = PathBuf::with_capacity(path.as_os_str().len());
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                made.pop();
            }
            other => made.push(other),
        }
    }
    made
}

/// Whether an absolute path is in its normal form already, as most are.
fn is_normal(path: &Path) -> bool {
    let mut parts = path.as_os_str().as_encoded_bytes().split(|byte| *byte == b'/');
    let is_plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    parts.next() == Some(b"") && parts.all(is_plain)
}

/// Whether a path is a directory or lies in it. Both are in their normal form, so that comparing text is enough.
pub(crate) fn lies_in(path: &Path, directory: &Path) -> bool {
    let (path, directory) = (path.as_os_str().as_encoded_bytes(), directory.as_os_str().as_encoded_bytes());
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places<'a>(places: impl Iterator<Item = &'a Rc<Path>>) -> Vec<&'a str> {
        places.map(|place| place.to_str().unwrap_or_default()).collect()
    }

    #[test]
    fn a_change_may_fail_until_it_is_known_to_have_worked() {
        let start = Directory::at(Path::new("/w"));
        let moved = start.changed(Path::new("a"), false);
        assert_eq!(places(moved.likely().iter()), ["/w/a"]);
        assert_eq!(places(moved.possible()), ["/w/a", "/w"]);
        let (sure, stayed) = moved.after_success();
        assert_eq!(places(sure.possible()), ["/w/a"]);
        assert_eq!(places(sure.or_stayed(&stayed).possible()), ["/w/a", "/w"]);
        assert_eq!(places(start.changed(Path::new("a"), true).possible()), ["/w/a"]);
        let twice = moved.changed(Path::new(".."), false);
        assert_eq!(places(twice.likely().iter()), ["/w"]);
        assert_eq!(places(twice.possible()), ["/w", "/", "/w/a"]);
    }

    #[test]
    fn the_way_back_is_known_where_it_is_certain() {
        let to = |directory: &Directory, path: &str| directory.changed(Path::new(path), false);
        let sure = |directory: Directory| directory.after_success().0;
        let single = |directory: &Directory| directory.single().map(|path| path.display().to_string());
        let at = |path: &str| Some(path.to_owned());
        let start = Directory::at(Path::new("/w"));
        assert_eq!(single(&start.returned(false)), None);
        assert_eq!(single(&to(&start, "a").returned(false)), at("/w"));
        let twice = sure(to(&sure(to(&start, "a")), "b"));
        assert_eq!(single(&twice.returned(false)), at("/w/a"));
        // If the last one failed, it leads to where the shell was before the first.
        assert_eq!(single(&to(&sure(to(&start, "a")), "b").returned(false)), None);
        assert_eq!(single(&twice.without_previous().returned(false)), None);
        assert_eq!(single(&twice.inherited().returned(false)), None);
    }

    #[test]
    fn a_stack_is_known_where_it_is_certain() {
        let push = |from: &Directory, path: &str| from.changed(Path::new(path), false).pushed_from(from);
        let sure = |directory: Directory| directory.after_success().0;
        let single = |directory: &Directory| directory.single().map(|path| path.display().to_string());
        let at = |path: &str| Some(path.to_owned());
        let start = Directory::at(Path::new("/w"));
        assert_eq!(single(&start.popped(false)), None);
        assert_eq!(single(&push(&start, "a").popped(false)), at("/w"));
        let moved = push(&start, "a").changed(Path::new("/b"), false);
        assert_eq!(single(&moved.popped(false)), None, "the first may have failed");
        let twice = push(&sure(push(&start, "a")), "b");
        assert_eq!(single(&twice.popped(false)), None, "the second may have failed");
        let back = sure(sure(twice).popped(false));
        assert_eq!((single(&back), single(&back.popped(false))), (at("/w/a"), at("/w")));
        assert_eq!(single(&back.inherited().popped(false)), None);
    }

    #[test]
    fn behind_a_link_that_is_followed_the_way_up_is_not_known() {
        let start = Directory::at(Path::new("/w"));
        let single = |directory: &Directory| directory.single().map(|path| path.display().to_string());
        let physically = |from: &Directory, path: &str| from.changed_physically(Path::new(path), true);
        assert_eq!(single(&physically(&start, "..")), Some("/".to_owned()));
        assert_eq!(single(&physically(&start, "a/..")), None);
        let link = physically(&start, "a");
        assert_eq!(single(&link), Some("/w/a".to_owned()));
        assert_eq!(single(&link.changed(Path::new("b"), true)), Some("/w/a/b".to_owned()));
        assert_eq!(single(&link.changed(Path::new("../b"), true)), None);
        assert_eq!(
            single(&link.changed(Path::new("/b"), true).changed(Path::new(".."), true)),
            Some("/".to_owned())
        );
        assert_eq!(single(&physically(&start.changed(Path::new("a"), true), "..")), None);
    }

    #[test]
    fn normal_paths_are_compared_as_text() {
        for (written, plain) in [
            ("/w", "/w"),
            ("/", "/"),
            ("/w/", "/w"),
            ("/w//a/./b/../c", "/w/a/c"),
            ("/..", "/"),
            ("//w", "/w"),
        ] {
            assert_eq!(normal(Path::new(written)), Path::new(plain), "{written}");
            assert_eq!(normal(Path::new(written)).as_os_str(), plain, "{written}");
        }
        for (path, directory, inside) in [
            ("/w/a", "/w", true),
            ("/w", "/w", true),
            ("/wa", "/w", false),
            ("/w", "/w/a", false),
            ("/a", "/", true),
            ("/", "/", true),
        ] {
            assert_eq!(lies_in(Path::new(path), Path::new(directory)), inside, "{path} {directory}");
        }
    }

    #[test]
    fn too_many_possibilities_are_unknown() {
        let mut directory = Directory::at(Path::new("/w"));
        for index in 0..10 {
            directory = directory.joined(&Directory::at(Path::new(&format!("/{index}"))));
        }
        assert!(directory.is_unknown());
        assert!(Directory::at(Path::new("/w")).changed(Path::new(&"a/".repeat(2000)), true).is_unknown());
    }
}
