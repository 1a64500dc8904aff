//! A patch over all its files, in memory: what each file is afterwards, and the changes that make it so.
//!
//! A file that several sections touch is taken from one to the next. Nothing is decided before all sections were tried,
//! so that every hunk that fails is told at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use encoding_rs::Encoding;
use helve_core::files::{Act, Change, ContentId, Expect};
use helve_core::{Cancel, ToolError};

use super::apply::{Applied, apply};
use super::locate::{Level, Remark, Trouble};
use super::{Deed, Hunk, Kind, Patch, Section};
use crate::coding;
use crate::edit::near::{Looks, Near};

/// What is known of a path before the patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// No file is there.
    Absent,
    /// A file with this content is there. `stale` says that whoever calls saw another content last. Where there is an
    /// `encoding`, the bytes are its text as UTF-8.
    File { bytes: Arc<Vec<u8>>, id: ContentId, stale: bool, encoding: Option<&'static Encoding> },
    /// It cannot be read: why.
    Unreadable(String),
}

/// What a patch does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    /// Each file that differs afterwards, in the order in which the patch names them first.
    pub(crate) files: Vec<Planned>,
    /// Files that the patch names and that stay as they are.
    pub(crate) unchanged: Vec<String>,
    /// Hunks that were not found exactly.
    pub(crate) inexact: Vec<Inexact>,
    /// Files that were there and have another content as a whole.
    pub(crate) replaced: Vec<String>,
}

/// What happens to one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) path: String,
    /// Where it was before.
    pub(crate) from: Option<String>,
    /// Its content before; none if it was not there.
    pub(crate) before: Option<Arc<Vec<u8>>>,
    /// Its content afterwards; none if it is gone.
    pub(crate) after: Option<Arc<Vec<u8>>>,
}

/// A hunk that was found in spite of some difference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inexact {
    pub(crate) path: String,
    /// The line of the patch.
    pub(crate) hunk: usize,
    /// The line of the file.
    pub(crate) line: usize,
    pub(crate) why: Why,
}

/// What of a hunk did not hold where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its text, in what did not count at this level.
    Text(Level),
    /// What the patch says of its place.
    Place(Remark),
}

/// What is wrong with one section.
#[derive(Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) path: String,
    /// The line of the patch.
    pub(crate) line: usize,
    pub(crate) fault: Fault,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// There is no such file.
    Missing,
    /// The path cannot be read, for this reason.
    Unreadable(String),
    /// A file is there already.
    Exists,
    /// The file would go or be replaced as a whole, and it is not what the caller saw of it.
    Stale,
    /// The diff says what is in the file, and there is more.
    NotAll,
    /// A hunk has no place. `expected` are the lines that it wants, `near` what the file has instead.
    Hunk { trouble: Trouble, expected: String, near: Vec<Near> },
}

/// A file on its way through the sections.
struct Walking<'k> {
    known: &'k Known,
    now: Option<Arc<Vec<u8>>>,
    /// The path that it was moved here from.
    from: Option<String>,
    /// How its text is stored, if not as UTF-8.
    encoding: Option<&'static Encoding>,
    /// Whether it stands in the place of another that was here.
    replaces: bool,
}

impl Walking<'_> {
    /// Whether it is as it was found, and the caller saw another content.
    fn is_stale(&self) -> bool {
        match (self.known, &self.now) {
            (Known::File { bytes, stale, .. }, Some(now)) => *stale && Arc::ptr_eq(bytes, now),
            _ => false,
        }
    }
}

/// Takes the patch over the files. `known` has every path that the patch names, by the same text. Where the call is taken
/// back, it ends early, with whatever problems: nobody waits for them.
pub(crate) fn plan(
    patch: &Patch<'_>,
    known: &HashMap<String, Known>,
    cancel: &Cancel,
) -> Result<Plan, Vec<Problem>> {
    let mut walk = Walk {
        files: HashMap::new(),
        order: Vec::new(),
        known,
        inexact: Vec::new(),
        looks: Looks::default(),
        cancel,
    };
    let mut problems = Vec::new();
    for section in &patch.sections {
        walk.section(section, &mut problems);
    }
    if problems.is_empty() { Ok(walk.finish()) } else { Err(problems) }
}

struct Walk<'k> {
    files: HashMap<String, Walking<'k>>,
    order: Vec<String>,
    known: &'k HashMap<String, Known>,
    inexact: Vec<Inexact>,
    /// How much may still be looked for what is near to a hunk.
    looks: Looks,
    cancel: &'k Cancel,
}

impl<'k> Walk<'k> {
    fn at(&mut self, path: &str) -> &mut Walking<'k> {
        const NOWHERE: &Known = &Known::Absent;
        if !self.files.contains_key(path) {
            self.order.push(path.to_owned());
        }
        let known = self.known.get(path).unwrap_or(NOWHERE);
        self.files.entry(path.to_owned()).or_insert_with(|| {
            let (now, encoding) = match known {
                Known::File { bytes, encoding, .. } => (Some(Arc::clone(bytes)), *encoding),
                Known::Absent | Known::Unreadable(_) => (None, None),
            };
            Walking { known, now, from: None, encoding, replaces: false }
        })
    }

    fn section(&mut self, section: &Section<'_>, problems: &mut Vec<Problem>) {
        let problem = |path: &str, fault| Problem { path: path.to_owned(), line: section.line, fault };
        let path = section.path.as_str();
        let file = self.at(path);
        if let (None, Known::Unreadable(why)) = (&file.now, file.known) {
            problems.push(problem(path, Fault::Unreadable(why.clone())));
            return;
        }
        let now = file.now.clone();
        match (&section.deed, now) {
            (Deed::Add { replaces: false, .. }, Some(_)) => problems.push(problem(path, Fault::Exists)),
            (Deed::Add { .. }, _) if file.is_stale() => problems.push(problem(path, Fault::Stale)),
            (Deed::Add { content, .. }, now) => {
                (file.now, file.from) = (Some(Arc::new(content.clone().into_bytes())), None);
                (file.encoding, file.replaces) = (None, now.is_some());
            }
            (Deed::Delete { .. } | Deed::Update { .. }, None) => problems.push(problem(path, Fault::Missing)),
            (Deed::Delete { hunks }, _) if hunks.is_empty() && file.is_stale() => {
                problems.push(problem(path, Fault::Stale));
            }
            (Deed::Delete { hunks }, Some(now)) => match self.applied(section, hunks, &now, problems) {
                Some(rest) if !hunks.is_empty() && !rest.is_empty() => {
                    problems.push(problem(path, Fault::NotAll));
                }
                Some(_) => self.at(path).now = None,
                None => {}
            },
            (Deed::Update { to, replaces, hunks }, Some(now)) => {
                // A file whose hunk fails stays as it was, so that later sections are tried all the same.
                let Some(bytes) = self.applied(section, hunks, &now, problems) else { return };
                let file = self.at(path);
                if let Err(error) = stored(&bytes, file.encoding) {
                    problems.push(problem(path, Fault::Unreadable(error.message)));
                    return;
                }
                let Some(to) = to.as_deref().filter(|to| *to != path) else {
                    file.now = Some(bytes);
                    return;
                };
                let origin = file.from.take().unwrap_or_else(|| path.to_owned());
                file.now = None;
                let encoding = file.encoding;
                let target = self.at(to);
                match (&target.now, target.known) {
                    (Some(_), _) if !replaces => problems.push(problem(to, Fault::Exists)),
                    (Some(_), _) if target.is_stale() => problems.push(problem(to, Fault::Stale)),
                    (None, Known::Unreadable(why)) => {
                        problems.push(problem(to, Fault::Unreadable(why.clone())))
                    }
                    _ => {
                        target.replaces = target.now.is_some();
                        (target.now, target.from) = (Some(bytes), Some(origin));
                        target.encoding = encoding;
                    }
                }
            }
        }
    }

    /// The file after the hunks of a section; none if one of them has no place.
    fn applied(
        &mut self,
        section: &Section<'_>,
        hunks: &[Hunk<'_>],
        now: &Arc<Vec<u8>>,
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<Vec<u8>>> {
        if hunks.is_empty() {
            return Some(Arc::clone(now));
        }
        match apply(now, hunks, self.cancel) {
            Ok(Applied { bytes, places }) => {
                for (hunk, place) in hunks.iter().zip(places) {
                    let text = (place.level > Level::Nothing).then_some(Why::Text(place.level));
                    let all = text.into_iter().chain(place.remarks.into_iter().map(Why::Place));
                    let (path, hunk, line) = (&section.path, hunk.line, place.start + 1);
                    self.inexact.extend(all.map(|why| Inexact { path: path.clone(), hunk, line, why }));
                }
                Some(Arc::new(bytes))
            }
            Err(misses) => {
                for miss in misses {
                    let Some(hunk) = hunks.get(miss.hunk) else { continue };
                    let expected = expected(hunk);
                    let near = match miss.trouble {
                        Trouble::Nowhere if !self.cancel.is_cancelled() => self.looks.look(now, &expected).0,
                        _ => Vec::new(),
                    };
                    problems.push(Problem {
                        path: section.path.clone(),
                        line: hunk.line,
                        fault: Fault::Hunk { trouble: miss.trouble, expected, near },
                    });
                }
                None
            }
        }
    }

    fn finish(mut self) -> Plan {
        let mut plan = Plan { inexact: std::mem::take(&mut self.inexact), ..Plan::default() };
        // A file that came from a path that is now empty is moved, and keeps its mode and owner.
        let gone = |path: &str| self.files.get(path).is_some_and(|file| file.now.is_none());
        let mut moved: HashMap<&str, &str> = HashMap::new();
        let mut sources: HashSet<&str> = HashSet::new();
        for path in &self.order {
            let Some(file) = self.files.get(path) else { continue };
            if let (Known::Absent, Some(_), Some(from)) = (file.known, &file.now, &file.from)
                && gone(from)
                && sources.insert(from)
            {
                moved.insert(path, from);
            }
        }
        for path in &self.order {
            if let Some(file) = self.files.get(path).filter(|_| !sources.contains(path.as_str())) {
                plan.take(path, file, moved.get(path.as_str()).copied(), self.known);
            }
        }
        plan
    }
}

impl Plan {
    fn take(&mut self, path: &str, file: &Walking<'_>, from: Option<&str>, known: &HashMap<String, Known>) {
        let (before, id) = match file.known {
            Known::File { bytes, id, .. } => (Some(Arc::clone(bytes)), Some(id.clone())),
            Known::Absent | Known::Unreadable(_) => (None, None),
        };
        if before == file.now {
            if before.is_some() {
                self.unchanged.push(path.to_owned());
            }
            return;
        }
        let after = file.now.clone();
        // That each text can be stored was found out where it was made.
        let bytes_of = |text: &Arc<Vec<u8>>| stored(text, file.encoding).unwrap_or_else(|_| Arc::clone(text));
        if let Some(from) = from
            && let Some(Known::File { bytes, id, .. }) = known.get(from)
        {
            let content =
                after.as_ref().filter(|after| *after != bytes).map(|after| bytes_of(after).to_vec());
            let act = Act::Move { to: path.to_owned(), content };
            self.changes.push(Change { path: from.to_owned(), act, expect: Expect::Content(id.clone()) });
            let before = Some(Arc::clone(bytes));
            self.files.push(Planned { path: path.to_owned(), from: Some(from.to_owned()), before, after });
            return;
        }
        let act = after.as_ref().map_or(Act::Remove, |after| Act::Put(bytes_of(after)));
        if file.replaces && before.is_some() && after.is_some() {
            self.replaced.push(path.to_owned());
        }
        let expect = id.map_or(Expect::Absent, Expect::Content);
        self.changes.push(Change { path: path.to_owned(), act, expect });
        self.files.push(Planned { path: path.to_owned(), from: None, before, after });
    }
}

/// A text as the bytes of its file.
pub(crate) fn stored(
    text: &Arc<Vec<u8>>,
    encoding: Option<&'static Encoding>,
) -> Result<Arc<Vec<u8>>, ToolError> {
    match encoding {
        None => Ok(Arc::clone(text)),
        Some(encoding) => coding::encoded(encoding, &String::from_utf8_lossy(text)).map(Arc::new),
    }
}

/// The lines that a hunk wants in the file.
fn expected(hunk: &Hunk<'_>) -> String {
    let mut text = String::new();
    for line in hunk.lines.iter().filter(|line| line.kind != Kind::Add) {
        text.push_str(line.text);
        text.push('\n');
    }
    text
}
