//! A tree on this machine, by descriptors.
//!
//! A name is opened from its parent's descriptor with `O_NOFOLLOW`, so that whatever is swapped meanwhile, nothing above
//! the start is reached. Directories wait with their descriptor open until all in them is visited; where very many wait,
//! as in a very deep tree, they wait without one, and what is in them is opened beneath the start without links.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use helve_core::ToolError;
use helve_core::files::{FileKind, FileStat};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};

use super::Start;
use super::tree::{Listing, Loaded, Place, SMALL_FILE, Top, Tree};
use super::unread;
use crate::beneath;
use crate::host::Hidden;
use crate::rules::Rules;

/// Directories that may wait with an open descriptor at a time, in this process.
const WAITING: usize = 192;

static OPEN: AtomicUsize = AtomicUsize::new(0);

pub(super) struct HostTree {
    root: Arc<OwnedFd>,
    start: OwnedFd,
    base: String,
    prefix: String,
    temporary: Hidden,
    /// Whether files with several names are searched.
    hard_links: bool,
    /// Whether reading leaves no trace in the time of last access; files of others refuse that.
    no_atime: AtomicBool,
}

pub(super) struct HostDir(Option<Handle>);

/// A descriptor that is counted.
struct Handle(OwnedFd);

impl Handle {
    fn new(fd: OwnedFd) -> Handle {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Handle(fd)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

impl HostTree {
    pub(super) fn new(start: Start, rules: &Rules) -> Result<HostTree, ToolError> {
        // A descriptor of its own: the one that was given may share its position, or have been opened as a path only.
        let own = rustix::fs::openat(&start.dir, c".", DIRECTORY, Mode::empty()).map_err(|error| {
            ToolError::failed(format!(
                "The directory '{}' cannot be read: {}",
                if start.shown.is_empty() { "." } else { &start.shown },
                unread::reason(&error.into())
            ))
        })?;
        Ok(HostTree {
            root: start.root,
            start: own,
            base: start.shown,
            prefix: start.prefix,
            temporary: start.temporary,
            hard_links: rules.given().hard_links,
            no_atime: AtomicBool::new(true),
        })
    }

    /// Opens a name in a directory, or a path beneath the start where the directory has no descriptor at the moment.
    fn open_in(&self, at: &Place<'_, HostDir>, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        match &at.dir.0 {
            Some(handle) => rustix::fs::openat(&handle.0, name, flags, Mode::empty()),
            None => {
                let mut path = at.path.to_vec();
                path.push(b'/');
                path.extend_from_slice(name);
                self.open_beneath(&path, flags)
            }
        }
    }

    /// Opens a path relative to the root, which lies below the start, without following any link.
    fn open_beneath(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut rest = path.get(self.base.len()..).unwrap_or_default();
        while let [b'/', tail @ ..] = rest {
            rest = tail;
        }
        beneath::open(self.start.as_fd(), rest, flags)
    }

    /// Opens a file without touching its time of last access, where that is allowed.
    fn open_file(&self, open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<OwnedFd> {
        if self.no_atime.load(Ordering::Relaxed) {
            match open(FILE | OFlags::NOATIME) {
                Err(rustix::io::Errno::PERM) => self.no_atime.store(false, Ordering::Relaxed),
                other => return other,
            }
        }
        open(FILE)
    }

    fn load_from(&self, fd: OwnedFd, buffer: &mut Vec<u8>) -> io::Result<Loaded<File>> {
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::NotFound.into());
        }
        if stat.st_nlink > 1 && !self.hard_links {
            return Err(io::Error::other("it has several names (hard links)"));
        }
        let len = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        if len > SMALL_FILE {
            return Ok(Loaded::Large(File::from(fd)));
        }
        buffer.clear();
        // One more than it has: a file that says 0 may have some, one that grows meanwhile is read on.
        buffer.resize(len + 1, 0);
        let mut filled = 0;
        loop {
            let Some(space) = buffer.get_mut(filled..).filter(|space| !space.is_empty()) else {
                // It has grown. Whoever searches it reads it as a stream from its start.
                let file = File::from(fd);
                rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
                return Ok(Loaded::Large(file));
            };
            let read = match rustix::io::read(&fd, space) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            filled += read;
            if read == 0 || filled == len {
                buffer.truncate(filled);
                return Ok(Loaded::Small);
            }
        }
    }
}

/// The kernel asks to try again where a rename ran beside it.
fn retried<T>(mut act: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let mut result = act();
    for _ in 0..64 {
        if !matches!(result, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)) {
            break;
        }
        result = act();
    }
    result
}

impl Tree for HostTree {
    type Dir = HostDir;
    type Reader = File;

    fn base(&self) -> &[u8] {
        self.base.as_bytes()
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn top(&self) -> io::Result<Top<HostDir>> {
        let again = |fd: &OwnedFd| rustix::fs::openat(fd, c".", DIRECTORY, Mode::empty());
        let mut above = Vec::new();
        if !self.base.is_empty() {
            // Where a name on the way is a link by now, or cannot be read, no more is known of what lies above.
            let mut at = again(&self.root)?;
            let mut path = Vec::new();
            for name in self.base.split('/') {
                let next = rustix::fs::openat(&at, name, DIRECTORY, Mode::empty());
                above.push((HostDir(Some(Handle::new(at))), path.clone()));
                let Ok(next) = next else { break };
                at = next;
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.as_bytes());
            }
        }
        Ok(Top { dir: HostDir(Some(Handle::new(again(&self.start)?))), above })
    }

    fn enter(&self, at: Place<'_, HostDir>, name: &[u8]) -> io::Result<HostDir> {
        Ok(HostDir(Some(Handle::new(self.open_in(&at, name, DIRECTORY)?))))
    }

    fn list(&self, dir: &HostDir, into: &mut Listing) -> io::Result<()> {
        let Some(handle) = &dir.0 else { return Ok(()) };
        let mut buffer = [MaybeUninit::<u8>::uninit(); 32 << 10];
        let mut entries = RawDir::new(handle.0.as_fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let name = entry.file_name().to_bytes();
            if !self.temporary.has(name) {
                into.push(name, kind(entry.file_type()))?;
            }
        }
        Ok(())
    }

    fn listed(&self, dir: HostDir) -> HostDir {
        if OPEN.load(Ordering::Relaxed) > WAITING { HostDir(None) } else { dir }
    }

    fn stat(&self, at: Place<'_, HostDir>, name: &[u8]) -> io::Result<FileStat> {
        let stat = match &at.dir.0 {
            Some(handle) => rustix::fs::statat(&handle.0, name, AtFlags::SYMLINK_NOFOLLOW)?,
            None => {
                let dir = self.open_beneath(at.path, DIRECTORY)?;
                rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?
            }
        };
        Ok(file_stat(&stat))
    }

    fn links_to_file(&self, path: &[u8]) -> bool {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        retried(|| rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve))
            .and_then(rustix::fs::fstat)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    fn head(&self, at: Place<'_, HostDir>, name: &[u8], max: usize) -> Option<Vec<u8>> {
        let file = File::from(self.open_in(&at, name, FILE).ok()?);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(max as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn load(&self, at: Place<'_, HostDir>, name: &[u8], buffer: &mut Vec<u8>) -> io::Result<Loaded<File>> {
        let fd = self.open_file(|flags| self.open_in(&at, name, flags))?;
        self.load_from(fd, buffer)
    }

    fn load_again(&self, path: &[u8], buffer: &mut Vec<u8>) -> io::Result<Loaded<File>> {
        let fd = self.open_file(|flags| self.open_beneath(path, flags))?;
        self.load_from(fd, buffer)
    }
}

fn kind(of: FileType) -> Option<FileKind> {
    Some(match of {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Unknown => return None,
        _ => FileKind::Other,
    })
}

fn file_stat(stat: &Stat) -> FileStat {
    let seconds = u64::try_from(stat.st_mtime).ok();
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    FileStat {
        kind: kind(FileType::from_raw_mode(stat.st_mode)).unwrap_or(FileKind::Other),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified: seconds
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))),
        mode: stat.st_mode & 0o7777,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use helve_core::files::PathRules;

    /// A walk knows names from a list. By the time it opens them they may be something else, so each case is a name that has
    /// become a link or a pipe since, once below an open directory and once by its path alone.
    #[test]
    fn a_name_that_has_changed_since_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir_all(inside.join("a/sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "CANARY").unwrap();
        fs::write(inside.join("a/file"), "inside").unwrap();
        symlink("../../out", inside.join("a/link")).unwrap();
        symlink("../../out/secret", inside.join("a/leaf")).unwrap();
        symlink("file", inside.join("a/near")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, inside.join("a/pipe"), 0o600.into()).unwrap();
        let open = |path: &std::path::Path| OwnedFd::from(File::open(path).unwrap());
        let start = Start {
            root: Arc::new(open(&inside)),
            dir: open(&inside),
            shown: String::new(),
            prefix: String::new(),
            temporary: Hidden::default(),
        };
        let tree = HostTree::new(start, &Rules::new(PathRules::default()).unwrap()).unwrap();
        let mut buffer = Vec::new();
        for dir in [HostDir(Some(Handle::new(open(&inside.join("a"))))), HostDir(None)] {
            let at = || Place { dir: &dir, path: b"a" };
            assert!(tree.enter(at(), b"sub").is_ok() && tree.load(at(), b"file", &mut buffer).is_ok());
            assert_eq!(buffer, b"inside");
            for name in [&b"link"[..], b"file", b"near"] {
                assert!(tree.enter(at(), name).is_err(), "{}", name.escape_ascii());
            }
            for name in [&b"leaf"[..], b"near", b"pipe", b"sub", b"link"] {
                let name = (name, name.escape_ascii());
                assert!(tree.load(at(), name.0, &mut buffer).is_err(), "{}", name.1);
                assert_eq!(tree.head(at(), name.0, 9), None, "{}", name.1);
            }
            assert_eq!(tree.stat(at(), b"leaf").unwrap().kind, FileKind::Link);
        }
        assert!(tree.load_again(b"a/file", &mut buffer).is_ok());
        for path in [&b"a/link/secret"[..], b"a/leaf", b"../out/secret", b"a/pipe"] {
            assert!(tree.load_again(path, &mut buffer).is_err(), "{}", path.escape_ascii());
        }
        assert!(tree.links_to_file(b"a/near"));
        assert!(!tree.links_to_file(b"a/leaf") && !tree.links_to_file(b"a/link/secret"));
    }
}
