//! What changed in the workspace since the last look, by inotify: a question that costs one system call when the answer
//! is "nothing".
//!
//! Every directory is watched for entries that come and go, git directories and protected places for changes of content
//! too. Files at protected places are watched themselves, because a command may change them through a second name. A
//! watch belongs to an inode; its path is the one under which the last walk saw it. A directory that was moved is walked again where it is now, so a stale path is only a look too many.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::places::Names;
use super::tree::{Tree, join, split};

/// The most watches, whatever the system allows.
const MOST_WATCHES: usize = 65_536;
/// How much of what the system allows to one user is left to his editors.
const SHARE: usize = 4;

const ENTRIES: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::MOVED_FROM).union(WatchFlags::DELETE);
/// A write through a mapping is told only when the file is closed.
const CONTENT: WatchFlags =
    WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ATTRIB).union(WatchFlags::MOVE_SELF);

/// Watches on a workspace.
#[derive(Debug)]
pub(super) struct Watch {
    inotify: OwnedFd,
    nodes: HashMap<i32, Node>,
    most: usize,
}

/// What a watch is on.
#[derive(Debug)]
enum Node {
    /// A directory with this path.
    Directory(Vec<u8>),
    /// A place, or a directory in one: then any event means a look at the directory with this path, which holds it.
    Place(Vec<u8>),
}

/// What is to be looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Too much happened to tell: everything.
    pub(super) all: bool,
    /// Directories to be listed, with the directories that are new in them.
    pub(super) directories: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
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
        Ok(Watch { inotify, nodes: HashMap::new(), most: MOST_WATCHES.min(allowed / SHARE) })
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
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::XDEV) => return Ok(()),
            opened => opened?,
        };
        let flags = if git { ENTRIES.union(CONTENT) } else { ENTRIES };
        let number = self.add(&opened, flags)?;
        self.nodes.insert(number, Node::Directory(path.to_vec()));
        Ok(())
    }

    /// Watches a place and, of a directory, all directories in it.
    pub(super) fn place(&mut self, tree: &Tree, path: &[u8], directories: &[Vec<u8>]) -> io::Result<()> {
        let holder = split(path).0;
        for path in std::iter::once(path).chain(directories.iter().map(Vec::as_slice)) {
            let (directory, name) = split(path);
            let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = tree.directory(directory);
            let opened =
                opened.and_then(|directory| rustix::fs::openat(&directory, name, how, Mode::empty()));
            let Ok(opened) = opened else { continue };
            match self.add(&opened, ENTRIES.union(CONTENT)) {
                Ok(number) => drop(self.nodes.insert(number, Node::Place(holder.to_vec()))),
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
                    (Some(Node::Place(holder)), _) => {
                        changes.directories.entry(holder.clone()).or_default();
                    }
                    (Some(Node::Directory(path)), Some(name)) => {
                        note(&mut changes, names, path, name.to_bytes(), what);
                    }
                    _ => {}
                }
            }
        }
        for number in ended {
            self.nodes.remove(&number);
        }
        Ok(changes)
    }
}

/// What one event in an ordinary directory means.
fn note(changes: &mut Changes, names: &Names, path: &[u8], name: &[u8], what: ReadFlags) {
    let directory = what.contains(ReadFlags::ISDIR);
    if directory && what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        changes.directories.entry(path.to_vec()).or_default().insert(name.to_vec());
        return;
    }
    if directory && what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        changes.gone.insert(join(path, name));
    }
    if names.is_relevant(name) {
        changes.directories.entry(path.to_vec()).or_default();
    }
}
