//! The workspace on this machine: an open directory, and others that the policy adds.
//!
//! In come paths as text; out go descriptors and what can be done with them. [`Workspace`] holds the open roots and the
//! compiled rules, `Handle` is what one call gets. All work is blocking and is done on tokio's blocking threads.
//!
//! | module | does |
//! |---|---|
//! | `resolve` | from the text of a path to a descriptor |
//! | `list`, `look` | the entries of one directory; pages, walks and searches |
//! | `world` | what is there, for the planner of a commit |
//! | `recall` | what the call has read, so that it need not be read again |
//! | `stage`, `attributes` | new content beside the old, with the same mode, owner and attributes |
//! | `apply` | the old exchanged for the new, and back if anything fails |
//! | `turn` | paths that become something else as a whole: what a command did in a layer |
//! | `journal` | the steps of a commit, noted so that a start after a kill takes them back |
//! | `janitor` | what a killed process left behind |
//! | `sys` | the system calls of a commit, each of which can be made to fail in a test |

mod apply;
mod attributes;
mod janitor;
mod journal;
mod list;
mod look;
mod recall;
mod resolve;
mod stage;
mod sys;
#[cfg(test)]
mod tests;
mod turn;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use helve_core::files::{
    Attributes, Change, Changed, ContentId, FileContent, FileKind, FileStat, Files, FilesBridge, FilesPlace,
    FilesScope, Is, ListRequest, Listed, Page, PageRequest, PathRules, SearchRequest, Searched, Seen, Turned,
    Turns, WalkRequest, Walked, Was,
};
use helve_core::{BoxFuture, ToolError};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::commit::{self, Judge, Key, Original, Plan, There};
use crate::page::Index;
use crate::refuse;
use crate::rules::Rules;
use crate::source::Watched;
pub(crate) use janitor::{Hidden, is_temporary};

use attributes::{attributes_of, owner_of};
use janitor::Janitor;
use recall::Recall;
use stage::Staging;
use sys::Sys;
use world::{HostWorld, Identity};

/// How a workspace is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a change waits until the disk has it, so that it also survives a loss of power.
    pub fsync: bool,
    /// A directory of Helve's own in which is noted where temporary files are made, so that the next start can remove
    /// what a killed process left. Without one nothing is removed.
    pub janitor: Option<PathBuf>,
}

/// Durable, and without a janitor.
impl Default for Options {
    fn default() -> Self {
        Options { fsync: true, janitor: None }
    }
}

/// Opens a directory as a workspace.
pub fn open(dir: &Path, rules: PathRules) -> Result<Arc<Workspace>, ToolError> {
    open_with(dir, rules, Options::default())
}

/// Opens a directory as a workspace, and removes what a killed process left behind.
pub fn open_with(dir: &Path, rules: PathRules, options: Options) -> Result<Arc<Workspace>, ToolError> {
    let workspace = Root::open(dir, None, true);
    if let Err(why) = &workspace.dir {
        return Err(ToolError::failed(format!("The workspace {} {why}.", dir.display()))
            .hint("Give an existing directory with --workspace."));
    }
    let mut roots = vec![workspace];
    for extra in &rules.roots {
        let shown = extra.path.to_string_lossy().into_owned();
        roots.push(Root::open(&extra.path, Some(shown), extra.write));
    }
    let host = Host {
        roots,
        rules: Rules::new(rules)?,
        janitor: Janitor::start(options.janitor.as_deref())?,
        sys: Sys::real(options.fsync),
        pages: Index::default(),
        commits: Mutex::new(()),
    };
    host.root(0)?;
    Ok(Arc::new(Workspace(Arc::new(host))))
}

/// Takes back and removes what killed processes left behind, as opening a workspace with this janitor does.
pub fn recover(janitor: &Path) {
    janitor::clean_all(janitor);
}

/// A workspace on this machine. See [`open`].
pub struct Workspace(Arc<Host>);

/// What all handles of a workspace share.
struct Host {
    /// The workspace itself, then the others.
    roots: Vec<Root>,
    rules: Rules,
    janitor: Janitor,
    sys: Sys,
    /// Where lines begin in files that were paged through.
    pages: Index,
    /// One commit at a time, so that two calls of this process do not find each other's half-done work.
    commits: Mutex<()>,
}

/// An open directory below which files are used.
struct Root {
    /// Its descriptor, or why there is none.
    dir: Result<Arc<OwnedFd>, String>,
    /// Its absolute path as it was given and as it really is.
    names: Vec<PathBuf>,
    /// What paths in it are shown with; none for the workspace, whose paths are relative.
    shown: Option<String>,
    write: bool,
}

impl Root {
    fn open(path: &Path, shown: Option<String>, write: bool) -> Root {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty());
        let mut names: Vec<PathBuf> = std::path::absolute(path).into_iter().collect();
        names.extend(std::fs::canonicalize(path));
        names.dedup();
        let dir = dir.map(Arc::new).map_err(|error| format!("cannot be opened: {error}"));
        Root { dir, names, shown, write }
    }
}

impl FilesBridge for Workspace {
    fn place(&self) -> FilesPlace {
        FilesPlace::Host
    }

    fn scoped(&self, scope: FilesScope) -> Arc<dyn Files> {
        Arc::new(Handle { host: Arc::clone(&self.0), scope: Arc::new(scope), recall: Arc::default() })
    }
}

/// What one call uses.
#[derive(Clone)]
struct Handle {
    host: Arc<Host>,
    /// Shared, because what the owner agreed to may be many paths and each act has a handle of its own.
    scope: Arc<FilesScope>,
    /// What the call has read.
    recall: Arc<Recall>,
}

impl Files for Handle {
    fn place(&self) -> FilesPlace {
        FilesPlace::Host
    }

    fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Option<FileStat>, ToolError>> {
        let (this, path) = (self.clone(), path.to_owned());
        blocking(move || Ok(this.host.find(&path)?.map(|found| stat_of(&found.stat))))
    }

    fn read<'a>(&'a self, path: &'a str, max: u64) -> BoxFuture<'a, Result<FileContent, ToolError>> {
        let (this, path) = (self.clone(), path.to_owned());
        blocking(move || this.read_whole(&path, max))
    }

    fn page<'a>(&'a self, request: &'a PageRequest) -> BoxFuture<'a, Result<Page, ToolError>> {
        let (this, request) = (self.clone(), request.clone());
        blocking(move || this.read_page(&request))
    }

    fn list<'a>(&'a self, request: &'a ListRequest) -> BoxFuture<'a, Result<Listed, ToolError>> {
        let (this, request) = (self.clone(), request.clone());
        blocking(move || this.host.list(&request))
    }

    fn walk<'a>(&'a self, request: &'a WalkRequest) -> BoxFuture<'a, Result<Walked, ToolError>> {
        let (this, request) = (self.clone(), request.clone());
        blocking(move || this.host.walk(&request, &this.scope))
    }

    fn search<'a>(&'a self, request: &'a SearchRequest) -> BoxFuture<'a, Result<Searched, ToolError>> {
        let (this, request) = (self.clone(), request.clone());
        blocking(move || this.host.search(&request, &this.scope))
    }

    fn commit(&self, changes: Vec<Change>, rehearse: bool) -> BoxFuture<'_, Result<Vec<Changed>, ToolError>> {
        let this = self.clone();
        blocking(move || this.commit_now(changes, rehearse))
    }

    fn now<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Is, ToolError>> {
        let (this, path) = (self.clone(), path.to_owned());
        blocking(move || this.now_at(&path))
    }

    fn turn(&self, turns: Turns) -> BoxFuture<'_, Result<Turned, ToolError>> {
        let this = self.clone();
        blocking(move || this.turn_now(&turns))
    }

    fn last_seen(&self, path: &str) -> Option<Seen> {
        self.scope.seen.as_ref()?.last(&self.named(path)?)
    }

    fn former<'a>(&'a self, path: &'a str, now: &'a ContentId, max: u64) -> BoxFuture<'a, Option<Vec<u8>>> {
        let (named, seen, now) = (self.named(path), self.scope.seen.clone(), now.clone());
        let work = blocking(move || Ok(named.and_then(|path| seen?.former(&path, &now, max))));
        Box::pin(async move { work.await.ok().flatten() })
    }

    fn saw_last(&self, path: &str, seen: &Seen) {
        if let Some(path) = self.named(path) {
            self.saw(&path, Some(&seen.id), seen.content.as_deref());
        }
    }
}

/// Does blocking work off the async threads. Once begun it goes on to its end, also when nobody waits for it any more.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> BoxFuture<'static, Result<T, ToolError>> {
    let work = tokio::task::spawn_blocking(work);
    Box::pin(async move {
        work.await
            .unwrap_or_else(|error| Err(ToolError::internal(format!("Work on files ended early: {error}"))))
    })
}

impl Handle {
    /// The name under which it is kept what the session saw of a path.
    fn named(&self, path: &str) -> Option<String> {
        let (root, relative) = self.host.locate(path).ok()?;
        let key = Key::new(root, &crate::names::parts(&relative)?);
        Some(self.host.shown(&key))
    }

    fn read_whole(&self, path: &str, max: u64) -> Result<FileContent, ToolError> {
        let found = self.host.find(path)?.ok_or_else(|| refuse::missing(path))?;
        let file = self.host.open_file(path, &found)?;
        let len = found.stat.st_size.cast_unsigned();
        if len > max {
            return Err(refuse::too_large(path, len, max));
        }
        let bytes = self
            .host
            .sys
            .read_to_end(&file, len, max)
            .map_err(|error| refuse::system("read", path, error))?;
        if bytes.len() as u64 > max {
            return Err(refuse::too_large(path, bytes.len() as u64, max));
        }
        let original = Original::of(&bytes);
        let id = original.id.clone();
        if let Ok(now) = rustix::fs::fstat(&file)
            && Identity::of(&now) == Identity::of(&found.stat)
        {
            self.recall.note(&found.key, Identity::of(&now), original);
        }
        self.saw(&self.host.shown(&found.key), Some(&id), Some(&bytes));
        let mut stat = stat_of(&found.stat);
        // It may have grown since it was found.
        stat.len = bytes.len() as u64;
        Ok(FileContent { bytes, id, stat, path: self.host.shown(&found.named) })
    }

    /// Plans, stages, keeps what was, and makes the changes.
    fn commit_now(&self, changes: Vec<Change>, rehearse: bool) -> Result<Vec<Changed>, ToolError> {
        if self.scope.cancel.is_cancelled() {
            return Err(refuse::cancelled());
        }
        let host = &*self.host;
        let _one_at_a_time = host.commits.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut world = HostWorld::new(host, &self.recall, &self.scope.cancel);
        let plan = commit::plan(changes, &mut world, self)?;
        if rehearse {
            return Ok(plan.changed());
        }
        if plan.differing().next().is_none() {
            world.confirm(&BTreeSet::new())?;
        } else {
            let (mut staging, kept) = self.stage_and_keep(&world, &plan)?;
            let outcome = kept.and_then(|()| match self.scope.cancel.is_cancelled() {
                true => Err(refuse::cancelled()),
                false => apply::apply(&mut staging),
            });
            self.tell(&staging, outcome.is_ok());
            outcome?;
        }
        if let Some(seen) = &self.scope.seen {
            plan.tell(&**seen, self);
        }
        Ok(plan.changed())
    }

    /// Stages the new content and waits until the disk has it. Beside that what was there is kept and looked at once more,
    /// in a thread of its own where there is something to wait for.
    ///
    /// That thread keeps, and this one waits for the disk: a new thread may have to wait until this one has nothing to do.
    fn stage_and_keep<'a>(
        &'a self,
        world: &'a HostWorld<'a>,
        plan: &'a Plan,
    ) -> Result<(Staging<'a>, Result<(), ToolError>), ToolError> {
        if !self.host.sys.syncs() {
            let staging = Staging::of(&self.host, world, plan)?;
            let kept = self.look_ahead(world, plan).and_then(|()| self.keep(world, plan, &staging.modes));
            return Ok((staging, kept));
        }
        std::thread::scope(|scope| {
            let (staged, wait) = std::sync::mpsc::channel::<BTreeMap<Key, u32>>();
            let work = move || {
                self.look_ahead(world, plan)?;
                match wait.recv() {
                    Ok(modes) => self.keep(world, plan, &modes),
                    // It could not be staged, and why is told already.
                    Err(_) => Ok(()),
                }
            };
            let keeping = std::thread::Builder::new().spawn_scoped(scope, work);
            let staging = Staging::of(&self.host, world, plan)?;
            // Fails where there is no thread, and where one has ended with an error.
            let _ = staged.send(staging.modes.clone());
            let flushed = staging.flush();
            let kept = match keeping {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|_| Err(ToolError::internal("A commit ended early.")))
                }
                Err(_) => self.look_ahead(world, plan).and_then(|()| self.keep(world, plan, &staging.modes)),
            };
            Ok((staging, kept.and(flushed)))
        })
    }

    /// Does what takes long and needs nothing that is staged: takes the old content into the store, and makes sure that it
    /// is what was planned for.
    fn look_ahead(&self, world: &HostWorld<'_>, plan: &Plan) -> Result<(), ToolError> {
        let mut confirmed = BTreeSet::new();
        for (key, entry) in plan.differing() {
            if let (Some(undo), There::File(original)) = (&self.scope.undo, &entry.was) {
                let file = world.open_original(key)?;
                let content = &mut Watched { reader: &file, cancel: &self.scope.cancel }.take(original.len);
                undo.ahead(&original.id, content, original.len)?;
                // Who reads the content also looks at its hash.
                if original.len > 0 && content.limit() == 0 {
                    confirmed.insert(key.clone());
                }
                world.check(key, &file)?;
            }
        }
        world.confirm(&confirmed)
    }

    /// Gives what was there to the call's undo record.
    fn keep(&self, world: &HostWorld<'_>, plan: &Plan, modes: &BTreeMap<Key, u32>) -> Result<(), ToolError> {
        let Some(undo) = &self.scope.undo else { return Ok(()) };
        for (key, entry) in plan.differing() {
            let will_be = entry.will_be(modes.get(key).copied());
            let shown = self.host.shown(key);
            match &entry.was {
                There::Absent => undo.before(&shown, Was::Absent, &will_be)?,
                There::Directory => undo.before(&shown, Was::Directory, &will_be)?,
                There::File(original) => {
                    let file = world.open_original(key)?;
                    let stat =
                        rustix::fs::fstat(&file).map_err(|error| refuse::system("read", &shown, error))?;
                    let (id, len, mode) = (&original.id, original.len, stat.st_mode & 0o7777);
                    let content = &mut Watched { reader: &file, cancel: &self.scope.cancel }.take(len);
                    // What stays keeps them itself.
                    let goes = matches!(will_be, Is::Absent);
                    let attributes = if goes { attributes_of(&file, &shown)? } else { Attributes::NONE };
                    undo.before(&shown, Was::File { id, content, len, mode, attributes }, &will_be)?;
                    if goes {
                        undo.owned(&shown, owner_of(&stat));
                    }
                    world.check(key, &file)?;
                }
            }
        }
        undo.ready()
    }

    /// Tells the call's undo record what came of a commit.
    fn tell(&self, staging: &Staging<'_>, happened: bool) {
        let Some(undo) = self.scope.undo.as_ref().filter(|_| !staging.stuck) else { return };
        for (key, what) in staging.lacks.iter().filter(|_| happened) {
            undo.lacks(&self.host.shown(key), what);
        }
        undo.done(happened);
    }

    fn saw(&self, path: &str, id: Option<&ContentId>, bytes: Option<&[u8]>) {
        if let Some(seen) = &self.scope.seen {
            seen.saw(path, id, bytes);
        }
    }
}

impl Judge for Handle {
    fn locate(&self, path: &str) -> Result<(usize, String), ToolError> {
        self.host.locate(path)
    }

    fn shown(&self, key: &Key) -> String {
        self.host.shown(key)
    }

    fn check_write(&self, key: &Key) -> Result<(), ToolError> {
        let shown = self.host.shown(key);
        if !self.host.is_writable(key) {
            return Err(refuse::read_only(&shown));
        }
        self.host.rules.check_write(&key.path, &shown, &self.scope.agreed)
    }

    fn may_name(&self, key: &Key) -> bool {
        let open = |is_dir| self.host.rules.check_read(&key.path, &key.path, is_dir).is_ok();
        open(false) && open(true)
    }

    fn may_change_git(&self, key: &Key) -> bool {
        self.host.rules.may_change_git(&self.host.shown(key), &self.scope.agreed)
    }

    fn last_seen(&self, shown: &str) -> Option<ContentId> {
        Some(self.scope.seen.as_ref()?.last(shown)?.id)
    }
}

/// What the rest of Helve is told of a file.
fn stat_of(stat: &Stat) -> FileStat {
    let seconds = stat.st_mtime;
    let modified = match u64::try_from(seconds) {
        Ok(seconds) => SystemTime::UNIX_EPOCH
            .checked_add(Duration::new(seconds, u32::try_from(stat.st_mtime_nsec).unwrap_or_default())),
        Err(_) => SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    FileStat {
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        len: stat.st_size.cast_unsigned(),
        modified,
        mode: stat.st_mode & 0o7777,
    }
}

/// How many names a file has.
#[allow(clippy::useless_conversion, reason = "the number is narrower on some machines")]
fn links(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}

fn kind_of(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    }
}

/// The number behind an error of the standard library.
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
