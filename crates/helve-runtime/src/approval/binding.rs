//! What a grant is bound to: the directory in which a run works, the content of the scripts of the workspace that it
//! executes, and of the files that say what its tasks do. A file is read through an open handle of the workspace, so that
//! no link leads out of it.
//!
//! A [`Binder`] looks at one command. What lists are searched for is put in order once, files are read once, and how much
//! is read is bounded, so that binding all runs of a command costs no more than reading it.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use helve_shell::Span;
use helve_shell::analysis::{Analysis, EffectKind, OpaqueReason, Target};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Script, pattern, tasks};

/// The largest file that a grant can be bound to.
const MAX_BYTES: u64 = 1 << 20;
/// So many files of one command are looked at, and so much is read of them together.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 16 << 20;
/// So many files of one run are bound.
const MOST: usize = 16;
/// With more writes beside a run, its files are not safe from them.
const MOST_WRITES: usize = 256;

/// What a run is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) run: usize,
    /// Where it works, without links.
    pub(crate) directory: PathBuf,
    /// The scripts that it executes and the files that say what its tasks do, sorted by path.
    pub(crate) scripts: Vec<Script>,
    /// Its argv, where it executes a script of known content that nothing else reaches.
    pub(crate) exact: Option<String>,
}

/// Binds the runs of one command.
pub(crate) struct Binder<'a> {
    analysis: &'a Analysis,
    workspace: &'a Path,
    /// The targets of what each run executes.
    executed: Vec<Vec<&'a Target>>,
    /// Where something opaque lies that is no script.
    hidden: Spans,
    seen: RefCell<Seen>,
    writes: OnceCell<Option<Vec<Writes>>>,
}

/// What was read already.
#[derive(Default)]
struct Seen {
    directories: HashMap<PathBuf, Option<PathBuf>>,
    files: HashMap<PathBuf, Content>,
    bytes: u64,
}

/// What is known of a file.
#[derive(Clone)]
enum Content {
    Hash(String),
    Absent,
    /// It cannot be read, is too large, or is no regular file below the workspace.
    Unknown,
}

/// A path that one run, or none, creates, changes or deletes.
struct Writes {
    run: Option<usize>,
    path: PathBuf,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(analysis: &'a Analysis, workspace: &'a Path) -> Self {
        let mut executed = vec![Vec::new(); analysis.runs.len()];
        for effect in analysis.effects.iter().filter(|effect| effect.kind == EffectKind::Execute) {
            if let Some(list) = effect.run.and_then(|run| executed.get_mut(run)) {
                list.push(&effect.target);
            }
        }
        let opaque = analysis.opaque.iter().filter(|part| part.reason != OpaqueReason::Script);
        let hidden = Spans::new(opaque.map(|part| part.span).collect());
        let (seen, writes) = (RefCell::default(), OnceCell::new());
        Binder { analysis, workspace, executed, hidden, seen, writes }
    }

    /// What a run is bound to; none if a part of that is not known, and then the run can be allowed only once.
    pub(crate) fn bind(&self, index: usize) -> Option<Bound> {
        let run = self.analysis.runs.get(index)?;
        let directory = self.real(run.directory.as_deref()?)?;
        let mut scripts = Vec::new();
        for target in self.executed.get(index)? {
            let Target::Path { path, .. } = target else { return None };
            // A program outside the workspace is the system's or the owner's: no hash says what it does.
            if let Ok(below) = path.strip_prefix(self.workspace) {
                scripts.push(self.script(below)??);
            }
        }
        let exact = if scripts.is_empty() { None } else { pattern::exact_script(run) };
        let exact = exact.filter(|_| !self.hidden.touch(run.span));
        if let Some(tasks) = tasks::of(run) {
            // Outside the workspace nothing can be vouched for.
            let below = directory.strip_prefix(self.workspace).ok()?;
            if tasks.may_lead_elsewhere(run) {
                return None;
            }
            for directory in below.ancestors() {
                for file in tasks.files {
                    scripts.extend(self.script(&directory.join(file))?);
                }
            }
        }
        scripts.sort();
        scripts.dedup();
        (scripts.len() <= MOST).then_some(Bound { run: index, directory, scripts, exact })
    }

    /// Whether nothing else in the command can change what the run is bound to before it starts. Beside a script not even
    /// something of which reading cannot tell what it writes is let through: its content was promised.
    pub(crate) fn is_steady(&self, bound: &Bound) -> bool {
        let files = bound.scripts.iter().map(|script| self.workspace.join(&script.path));
        let files: Vec<PathBuf> =
            files.flat_map(|file| file.canonicalize().ok().into_iter().chain([file])).collect();
        if files.is_empty() {
            return true;
        }
        let Some(writes) = self.writes.get_or_init(|| self.writes()) else { return false };
        let hits =
            |one: &Writes| one.run != Some(bound.run) && files.iter().any(|file| file.starts_with(&one.path));
        !writes.iter().any(hits) && (bound.exact.is_none() || self.is_plain_beside(bound.run))
    }

    fn is_plain_beside(&self, index: usize) -> bool {
        let Some(run) = self.analysis.runs.get(index) else { return false };
        let mut others = self.analysis.runs.iter().enumerate().filter(|(at, _)| *at != index);
        let within = |span: Span| run.span.start <= span.start && span.end <= run.span.end;
        others.all(|(_, other)| other.understood) && self.analysis.opaque.iter().all(|part| within(part.span))
    }

    /// All that the command writes, by what is written and where it leads; none if that is not known or too much.
    fn writes(&self) -> Option<Vec<Writes>> {
        let mut writes = Vec::new();
        for effect in &self.analysis.effects {
            if !matches!(effect.kind, EffectKind::Write | EffectKind::Delete | EffectKind::DeleteTree) {
                continue;
            }
            let path = match &effect.target {
                Target::Path { path, .. } => path,
                Target::Glob { under, .. } => under,
                Target::Host(_) | Target::Machine => continue,
                Target::Unknown => return None,
            };
            if writes.len() >= 2 * MOST_WRITES {
                return None;
            }
            writes.push(Writes { run: effect.run, path: path.clone() });
            if let Some(path) = real_place(path) {
                writes.push(Writes { run: effect.run, path });
            }
        }
        Some(writes)
    }

    /// A directory without links; none if it is not there.
    fn real(&self, directory: &Path) -> Option<PathBuf> {
        let mut seen = self.seen.borrow_mut();
        if let Some(known) = seen.directories.get(directory) {
            return known.clone();
        }
        let real = directory.canonicalize().ok().filter(|_| seen.directories.len() < MOST_FILES);
        seen.directories.insert(directory.to_owned(), real.clone());
        real
    }

    /// A file below the workspace with its hash; none inside if there is no such file, none outside if it cannot be bound.
    fn script(&self, below: &Path) -> Option<Option<Script>> {
        let known = self.seen.borrow().files.get(below).cloned();
        let content = match known {
            Some(content) => content,
            None => self.read(below),
        };
        match content {
            Content::Hash(hash) => Some(Some(Script { path: below.to_str()?.to_owned(), hash })),
            Content::Absent => Some(None),
            Content::Unknown => None,
        }
    }

    fn read(&self, below: &Path) -> Content {
        let mut seen = self.seen.borrow_mut();
        if seen.files.len() >= MOST_FILES || seen.bytes >= MOST_BYTES {
            return Content::Unknown;
        }
        let content = match content(self.workspace, below) {
            Ok(Some(bytes)) => {
                seen.bytes += bytes.len() as u64;
                Content::Hash(blake3::hash(&bytes).to_hex().to_string())
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Content::Absent,
            Ok(None) | Err(_) => Content::Unknown,
        };
        seen.files.insert(below.to_owned(), content.clone());
        content
    }
}

/// Where a path leads, itself if it is there, else by its directory.
fn real_place(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)))
}

/// The content of a regular file below the workspace; none if it is something else or too large.
fn content(workspace: &Path, below: &Path) -> Result<Option<Vec<u8>>, Errno> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let workspace = rustix::fs::openat(CWD, workspace, directory, Mode::empty())?;
    // NONBLOCK keeps a pipe from holding the open until somebody writes to it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&workspace, below, flags, Mode::empty(), within)?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut content = Vec::new();
    if std::fs::File::from(file).take(MAX_BYTES + 1).read_to_end(&mut content).is_err() {
        return Ok(None);
    }
    Ok((content.len() as u64 <= MAX_BYTES).then_some(content))
}

/// Stretches of a text, sorted and without overlaps.
pub(crate) struct Spans(Vec<Span>);

impl Spans {
    pub(crate) fn new(mut spans: Vec<Span>) -> Self {
        spans.sort();
        let mut apart: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match apart.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => apart.push(span),
            }
        }
        Spans(apart)
    }

    /// Whether one of them and `span` have a place in common.
    pub(crate) fn touch(&self, span: Span) -> bool {
        let first = self.0.partition_point(|one| one.end < span.start);
        self.0.get(first).is_some_and(|one| one.start <= span.end)
    }
}

#[cfg(test)]
mod tests;
