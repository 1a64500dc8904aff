//! The threads of a walk and their jobs.
//!
//! A job is a directory to enter, or a part of one that was listed: large directories are shared between threads, and
//! the directories in them are queued part by part. Threads take the job with the smallest path, so that what comes first
//! in the answer is found first and the rest need not be visited.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use helve_core::files::FileKind;
use helve_core::{Cancel, ToolError};

use super::filter::Filter;
use super::ignores::{self, Level};
use super::tree::{Listing, PATH_BYTES, Place, Top, Tree};
use super::unread::{Unread, locked};

/// Entries of a listed directory that are one job.
const PART: usize = 256;
/// More threads than this gain nothing.
const THREADS: usize = 8;

/// How many threads work at a time.
pub(super) fn threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get).clamp(1, THREADS))
}

/// An entry of a directory.
pub(super) struct Found<'a, D> {
    pub(super) at: Place<'a, D>,
    pub(super) name: &'a [u8],
    /// Relative to the root.
    pub(super) path: &'a [u8],
    pub(super) kind: FileKind,
}

/// What is done with the entries.
pub(super) trait Visitor<T: Tree>: Sync {
    /// What one thread has.
    type Own;
    fn begin(&self) -> Self::Own;
    /// Whether entries of this kind, which is not a directory, are of use.
    fn takes(&self, kind: FileKind) -> bool;
    /// Such an entry, which passed the filter.
    fn leaf(&self, own: &mut Self::Own, found: &Found<'_, T::Dir>);
    /// A directory that the filter admits, whether or not it is asked for or entered.
    fn dir(&self, own: &mut Self::Own, found: &Found<'_, T::Dir>);
    /// Whether nothing at this path or after it is of use any more.
    fn is_behind(&self, own: &mut Self::Own, path: &[u8]) -> bool;
    /// Whether nothing up to and below this path, which ends in `/`, is of use.
    fn is_before(&self, dir: &[u8]) -> bool;
    /// The thread has no more to do.
    fn end(&self, own: Self::Own);
}

/// A directory that was listed.
struct Folder<D> {
    dir: D,
    path: Vec<u8>,
    level: Option<Arc<Level>>,
    depth: usize,
}

/// The key of a directory is its path and `/`: all that is in it comes after that, and after nothing else.
struct Job<D> {
    key: Vec<u8>,
    what: What<D>,
}

enum What<D> {
    Enter { parent: Arc<Folder<D>>, name_at: usize },
    Part { folder: Arc<Folder<D>>, listing: Arc<Listing>, range: Range<usize> },
}

impl<D> PartialEq for Job<D> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<D> Eq for Job<D> {}

impl<D> PartialOrd for Job<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The smallest path is the greatest job.
impl<D> Ord for Job<D> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

struct Queue<D> {
    state: Mutex<State<D>>,
    wake: Condvar,
}

struct State<D> {
    jobs: BinaryHeap<Job<D>>,
    working: usize,
    waiting: usize,
}

impl<D> Queue<D> {
    fn push(&self, jobs: &mut Vec<Job<D>>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = locked(&self.state);
        let several = jobs.len() > 1;
        state.jobs.extend(jobs.drain(..));
        let waiting = state.waiting > 0;
        drop(state);
        if waiting && several {
            self.wake.notify_all();
        } else if waiting {
            self.wake.notify_one();
        }
    }

    /// The next job; none when all is done.
    fn take(&self) -> Option<(Job<D>, Working<'_, D>)> {
        let mut state = locked(&self.state);
        loop {
            if let Some(job) = state.jobs.pop() {
                state.working += 1;
                return Some((job, Working(self)));
            }
            if state.working == 0 {
                return None;
            }
            state.waiting += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    fn clear(&self) {
        locked(&self.state).jobs.clear();
    }

    /// Gives up what waits behind `key`. What comes before it may have been queued since that was the first.
    fn cut(&self, key: &[u8]) {
        locked(&self.state).jobs.retain(|job| job.key.as_slice() < key);
    }
}

/// A job is being done; also given up when its thread dies, so that no other waits for it for ever.
struct Working<'a, D>(&'a Queue<D>);

impl<D> Drop for Working<'_, D> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.working -= 1;
        if state.working == 0 && state.jobs.is_empty() {
            drop(state);
            self.0.wake.notify_all();
        }
    }
}

/// Everything that one walk shares.
struct Crew<'a, T: Tree, V> {
    tree: &'a T,
    filter: &'a Filter<'a>,
    visitor: &'a V,
    unread: &'a Unread,
    cancel: &'a Cancel,
    queue: Queue<T::Dir>,
}

/// Walks everything below the tree's start.
pub(super) fn run<T: Tree, V: Visitor<T>>(
    tree: &T,
    filter: &Filter<'_>,
    visitor: &V,
    unread: &Unread,
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let unreadable = |error: std::io::Error| super::unread::unreadable(&error);
    let Top { dir, above } = tree.top().map_err(unreadable)?;
    let mut listing = Listing::default();
    let level = if filter.obey_ignore { ignores::above(tree, above) } else { None };
    tree.list(&dir, &mut listing).map_err(unreadable)?;
    let queue = Queue {
        state: Mutex::new(State { jobs: BinaryHeap::new(), working: 0, waiting: 0 }),
        wake: Condvar::new(),
    };
    let crew = Crew { tree, filter, visitor, unread, cancel, queue };
    let mut first = Worker { crew: &crew, own: visitor.begin(), listing, path: Vec::new(), jobs: Vec::new() };
    first.visit(dir, tree.base().to_vec(), level, 0);
    let helpers = if locked(&crew.queue.state).jobs.is_empty() { 0 } else { threads() - 1 };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| Worker::new(&crew).work());
        }
        first.work();
    });
    if cancel.is_cancelled() { Err(super::cancelled()) } else { Ok(()) }
}

/// One thread.
struct Worker<'a, T: Tree, V: Visitor<T>> {
    crew: &'a Crew<'a, T, V>,
    own: V::Own,
    listing: Listing,
    path: Vec<u8>,
    jobs: Vec<Job<T::Dir>>,
}

impl<'a, T: Tree, V: Visitor<T>> Worker<'a, T, V> {
    fn new(crew: &'a Crew<'a, T, V>) -> Self {
        let own = crew.visitor.begin();
        Worker { crew, own, listing: Listing::default(), path: Vec::new(), jobs: Vec::new() }
    }

    fn work(mut self) {
        let crew = self.crew;
        while let Some((job, _working)) = crew.queue.take() {
            if crew.cancel.is_cancelled() {
                crew.queue.clear();
                continue;
            }
            if crew.visitor.is_behind(&mut self.own, &job.key) {
                crew.queue.cut(&job.key);
                continue;
            }
            match job.what {
                What::Enter { parent, name_at } => self.enter(parent, job.key, name_at),
                What::Part { folder, listing, range } => self.part(&folder, &listing, range),
            }
        }
        crew.visitor.end(self.own);
    }

    fn enter(&mut self, parent: Arc<Folder<T::Dir>>, mut key: Vec<u8>, name_at: usize) {
        key.pop();
        let name = key.get(name_at..).unwrap_or_default();
        let entered = self.crew.tree.enter(Place { dir: &parent.dir, path: &parent.path }, name);
        let (level, depth) = (parent.level.clone(), parent.depth + 1);
        // The parent's descriptor is not kept for the sake of its last child.
        drop(parent);
        let listed = entered.and_then(|dir| {
            self.listing.clear();
            self.crew.tree.list(&dir, &mut self.listing)?;
            Ok(dir)
        });
        match listed {
            Ok(dir) => self.visit(dir, key, level, depth),
            Err(error) => self.crew.unread.note(&key, &error),
        }
    }

    /// Does a directory whose names are in the thread's listing, or shares it out if it is large.
    fn visit(&mut self, dir: T::Dir, path: Vec<u8>, level: Option<Arc<Level>>, depth: usize) {
        let level = match self.crew.filter.obey_ignore {
            true => Level::of(self.crew.tree, &dir, &path, self.listing.marks, level),
            false => None,
        };
        self.listing.sort();
        let dir = self.crew.tree.listed(dir);
        let folder = Arc::new(Folder { dir, path, level, depth });
        let count = self.listing.len();
        if count <= PART {
            let listing = std::mem::take(&mut self.listing);
            self.part(&folder, &listing, 0..count);
            self.listing = listing;
            return;
        }
        let listing = Arc::new(std::mem::take(&mut self.listing));
        for from in (0..count).step_by(PART) {
            let name = listing.get(from).map(|(name, _)| name).unwrap_or_default();
            self.jobs.push(Job {
                key: joined(&folder.path, name),
                what: What::Part {
                    folder: folder.clone(),
                    listing: listing.clone(),
                    range: from..count.min(from + PART),
                },
            });
        }
        self.crew.queue.push(&mut self.jobs);
    }

    fn part(&mut self, folder: &Arc<Folder<T::Dir>>, listing: &Listing, range: Range<usize>) {
        let crew = self.crew;
        self.path.clear();
        self.path.extend_from_slice(&folder.path);
        if !folder.path.is_empty() {
            self.path.push(b'/');
        }
        let name_at = self.path.len();
        // Directories first, so that other threads have something to do while this one looks at the files.
        for directories in [true, false] {
            for index in range.clone() {
                let Some((name, kind)) = listing.get(index) else { break };
                if kind.is_some_and(|kind| (kind == FileKind::Directory) != directories) {
                    continue;
                }
                self.path.truncate(name_at);
                self.path.extend_from_slice(name);
                if crew.visitor.is_behind(&mut self.own, &self.path) {
                    break;
                }
                let at = || Place { dir: &folder.dir, path: &folder.path };
                let kind = match kind {
                    Some(kind) => kind,
                    None => match crew.tree.stat(at(), name) {
                        Ok(stat) if (stat.kind == FileKind::Directory) == directories => stat.kind,
                        Ok(_) => continue,
                        Err(error) => {
                            if directories {
                                crew.unread.note(&self.path, &error);
                            }
                            continue;
                        }
                    },
                };
                // What is asked for by name is mostly few: so that is looked at first.
                let wanted = directories || (crew.visitor.takes(kind) && crew.filter.wants(&self.path));
                if !wanted || !crew.filter.admits(&self.path, name, directories, folder.level.as_deref()) {
                    continue;
                }
                if directories {
                    let found = Found { at: at(), name, path: &self.path, kind };
                    crew.visitor.dir(&mut self.own, &found);
                    self.queue_dir(folder, name, name_at);
                } else {
                    if crew.cancel.is_cancelled() {
                        return;
                    }
                    let found = Found { at: at(), name, path: &self.path, kind };
                    crew.visitor.leaf(&mut self.own, &found);
                }
            }
            if directories {
                crew.queue.push(&mut self.jobs);
            }
        }
    }

    /// Queues the directory at `self.path`, if it is to be entered.
    fn queue_dir(&mut self, folder: &Arc<Folder<T::Dir>>, name: &[u8], name_at: usize) {
        let crew = self.crew;
        if folder.depth + 1 >= crew.filter.depth || !crew.filter.enters(&self.path, name) {
            return;
        }
        if self.path.len() >= PATH_BYTES {
            crew.unread.note(&self.path, &std::io::Error::other("its path is too long"));
            return;
        }
        self.path.push(b'/');
        let behind = crew.visitor.is_behind(&mut self.own, &self.path);
        if !behind && !crew.visitor.is_before(&self.path) {
            self.jobs
                .push(Job { key: self.path.clone(), what: What::Enter { parent: folder.clone(), name_at } });
        }
        self.path.pop();
    }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}
