//! What changed in the workspace since the last look, by inotify: a question that costs one system call when the answer
//! is "nothing".
//!
//! Every directory is watched for entries that come and go, git directories and protected places for changes of content
//! too. Files at protected places are watched themselves where a command may change them through a second name. A
//! watch belongs to an inode; its path is the one under which the last walk saw it. A directory that was moved is walked
//! again where it is now, so a stale path is only a look too many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::places::{Names, holds_nothing};
use super::tree::{Tree, join, split};

/// The most watches, whatever the system allows.
const MOST_WATCHES: usize = 65_536;
/// How much of what the system allows to one user is left to his editors.
const SHARE: usize = 4;

const ENTRIES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    // A directory that could not be watched may be opened to this user.
    .union(WatchFlags::ATTRIB);
/// A write through a mapping is told only when the file is closed.
const CONTENT: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::MOVE_SELF);

/// Watches on a workspace.
#[derive(Debug)]
pub(super) struct Watch {
    inotify: OwnedFd,
    nodes: HashMap<i32, Node>,
    /// Which watch is on which ordinary directory.
    paths: HashMap<Vec<u8>, i32>,
    most: usize,
}

/// What a watch is on.
#[derive(Debug)]
enum Node {
    /// A directory with this path.
    Directory(Vec<u8>),
    /// A place, or something in one: then any event means a look at the directory that holds the place.
    Place { path: Vec<u8>, holder: Vec<u8> },
}

/// What is to be looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Too much happened to tell: everything.
    pub(super) all: bool,
    /// Directories to be listed, with the directories that are new in them.
    pub(super) directories: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// Directories in protected places that are new.
    pub(super) fresh: BTreeSet<Vec<u8>>,
    /// Directories that are gone from their place.
    pub(super) gone: BTreeSet<Vec<u8>>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

impl Watch {
    /// Watches nothing yet.
    pub(super) fn new() -> io::Result<Watch> {
        let allowed = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches")?;
        let allowed: usize = allowed.trim().parse().unwrap_or(0);
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Watch {
            inotify,
            nodes: HashMap::new(),
            paths: HashMap::new(),
            most: MOST_WATCHES.min(allowed / SHARE),
        })
    }

    /// Watches an open file or directory.
    fn add(&self, opened: &OwnedFd, flags: WatchFlags) -> io::Result<i32> {
        if self.nodes.len() >= self.most {
            return Err(Errno::NOSPC.into());
        }
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        Ok(inotify::add_watch(&self.inotify, path.as_str(), flags)?)
    }

    /// Watches a directory.
    pub(super) fn directory(&mut self, tree: &Tree, path: &[u8], git: bool) -> io::Result<()> {
        let opened = match tree.directory(path) {
            Err(errno) if holds_nothing(errno) => return Ok(()),
            opened => opened?,
        };
        let flags = if git { ENTRIES.union(CONTENT) } else { ENTRIES };
        let number = self.add(&opened, flags)?;
        self.set(number, Node::Directory(path.to_vec()));
        Ok(())
    }

    /// Says what a watch is on.
    fn set(&mut self, number: i32, node: Node) {
        let added = if let Node::Directory(path) = &node { Some(path.clone()) } else { None };
        if let Some(Node::Directory(path)) = self.nodes.insert(number, node) {
            self.forget_path(&path, number);
        }
        if let Some(path) = added {
            self.paths.insert(path, number);
        }
    }

    fn forget_path(&mut self, path: &[u8], number: i32) {
        if self.paths.get(path) == Some(&number) {
            self.paths.remove(path);
        }
    }

    /// Whether an ordinary directory is watched under this path.
    pub(super) fn follows(&self, path: &[u8]) -> bool {
        self.paths.contains_key(path)
    }

    /// Watches a place and what is named in it.
    pub(super) fn place(&mut self, tree: &Tree, path: &[u8], inner: &[Vec<u8>]) -> io::Result<()> {
        let holder = split(path).0;
        for path in std::iter::once(path).chain(inner.iter().map(Vec::as_slice)) {
            let (directory, name) = split(path);
            let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = tree.directory(directory);
            let opened =
                opened.and_then(|directory| rustix::fs::openat(&directory, name, how, Mode::empty()));
            let Ok(opened) = opened else { continue };
            match self.add(&opened, ENTRIES.union(CONTENT)) {
                Ok(number) => {
                    self.set(number, Node::Place { path: path.to_vec(), holder: holder.to_vec() });
                }
                // What this user cannot read is not watched, and not read by his programs.
                Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forgets every path, because all of them are about to be told again.
    pub(super) fn forget(&mut self) {
        self.nodes.clear();
        self.paths.clear();
    }

    /// Whether no event waits.
    pub(super) fn is_quiet(&self) -> bool {
        rustix::io::ioctl_fionread(&self.inotify).is_ok_and(|bytes| bytes == 0)
    }

    /// Takes every event that waits.
    pub(super) fn changes(&mut self, names: &Names) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let mut ended = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let what = event.events();
            if what.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
                changes.all = true;
            } else if what.contains(ReadFlags::IGNORED) {
                ended.push(event.wd());
            } else {
                match (self.nodes.get(&event.wd()), event.file_name()) {
                    (Some(Node::Place { path, holder }), name) => {
                        changes.directories.entry(holder.clone()).or_default();
                        if let Some(name) = name.filter(|_| what.contains(ReadFlags::ISDIR)) {
                            note_inner(&mut changes, join(path, name.to_bytes()), what);
                        }
                    }
                    (Some(Node::Directory(path)), Some(name)) => {
                        let name = name.to_bytes();
                        let follows = |path: &[u8]| self.paths.contains_key(path);
                        note(&mut changes, names, path, name, what, &follows);
                    }
                    _ => {}
                }
            }
        }
        for number in ended {
            if let Some(Node::Directory(path)) = self.nodes.remove(&number) {
                self.forget_path(&path, number);
            }
        }
        Ok(changes)
    }
}

/// What an event of a directory in a place means: there may be ordinary directories in it.
fn note_inner(changes: &mut Changes, path: Vec<u8>, what: ReadFlags) {
    if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        changes.fresh.insert(path);
    } else if what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        changes.gone.insert(path);
    }
}

/// What one event in an ordinary directory means.
fn note(
    changes: &mut Changes,
    names: &Names,
    path: &[u8],
    name: &[u8],
    what: ReadFlags,
    follows: &dyn Fn(&[u8]) -> bool,
) {
    let directory = what.contains(ReadFlags::ISDIR);
    let opened = || what.contains(ReadFlags::ATTRIB) && !follows(&join(path, name));
    if directory && (what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) || opened()) {
        changes.directories.entry(path.to_vec()).or_default().insert(name.to_vec());
        return;
    }
    if directory && what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        changes.gone.insert(join(path, name));
    }
    // Of a directory whose mode is widened for a look this process itself is told, too.
    if names.is_relevant(path, name) && !(directory && what.contains(ReadFlags::ATTRIB)) {
        changes.directories.entry(path.to_vec()).or_default();
    }
}
