//! What a killed process left behind is found and removed at the next start.
//!
//! Temporary names carry the token of the workspace handle that made them. Before the first one is made in a directory,
//! that directory is noted in a file that has the token as its name, and that stays locked as long as the process lives.
//! Who finds such a file unlocked looks into the noted directories, and only there, for names with that token. A commit
//! that was under way is taken back before (`journal`).

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use helve_core::ToolError;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::resolve::open_beneath;
use super::sys::Sys;
use super::{errno, journal};

const PREFIX: &str = ".helve-";
const SUFFIX: &str = ".tmp";
/// A record has no more; what is beyond is not read.
const MAX_RECORD: u64 = 16 << 20;
/// Directories below a temporary one; deeper ones stay.
const MAX_DEPTH: usize = 256;

/// Which temporary names are hidden from who lists a directory: those of commits that are under way, not every file to which
/// somebody gave such a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hidden {
    token: String,
    /// Where live processes have their records; without, every such name is hidden.
    dir: Option<PathBuf>,
}

impl Hidden {
    /// Whether a name is one of them.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let Some(token) = token_of(name) else { return false };
        match &self.dir {
            None => true,
            Some(dir) => token == self.token.as_bytes() || dir.join(OsStr::from_bytes(token)).exists(),
        }
    }
}

/// Gives out temporary names and remembers where.
pub(super) struct Janitor {
    token: String,
    next: AtomicU64,
    dir: Option<PathBuf>,
    record: Mutex<Option<Record>>,
    /// Whether something could not be removed, so that the record must stay.
    left: AtomicBool,
}

struct Record {
    path: PathBuf,
    file: File,
    noted: HashSet<(PathBuf, String)>,
}

impl Janitor {
    /// Removes what dead processes left, and begins anew.
    pub(super) fn start(dir: Option<&Path>) -> Result<Janitor, ToolError> {
        if let Some(dir) = dir {
            clean_all(dir);
        }
        let random = std::hash::RandomState::new().build_hasher().finish();
        Ok(Janitor {
            token: format!("{random:016x}"),
            next: AtomicU64::new(1),
            dir: dir.map(Path::to_owned),
            record: Mutex::new(None),
            left: AtomicBool::new(false),
        })
    }

    /// Which names nobody is shown.
    pub(super) fn hidden(&self) -> Hidden {
        Hidden { token: self.token.clone(), dir: self.dir.clone() }
    }

    /// A name that nothing else has.
    pub(super) fn name(&self) -> String {
        format!("{PREFIX}{}-{:x}{SUFFIX}", self.token, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes that temporary names will be made in a directory.
    pub(super) fn note(&self, root: &Path, relative: &str) -> Result<(), ToolError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let mut record = self.record.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let cannot = |error: std::io::Error| {
            ToolError::failed(format!("Cannot note in {} where files are changed: {error}", dir.display()))
                .hint("Check the permissions and the space of Helve's state directory.")
        };
        if record.is_none() {
            *record = Some(Record::create(dir, &self.token).map_err(cannot)?);
        }
        match record.as_mut() {
            Some(record) => record.add(root, relative).map_err(cannot),
            None => Ok(()),
        }
    }

    /// A new name for the note of a commit's steps; none without a directory for it.
    pub(super) fn steps(&self) -> Result<Option<PathBuf>, Errno> {
        let Some(dir) = &self.dir else { return Ok(None) };
        std::fs::create_dir_all(dir).map_err(|error| errno(&error))?;
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Some(dir.join(format!("{}-{count:x}{}", self.token, journal::SUFFIX))))
    }

    /// Something could not be put back or removed: the record stays for the next start.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Removes a temporary file or directory; nothing there is fine.
    pub(super) fn remove(&self, sys: &Sys, dir: &OwnedFd, name: &str) {
        if sys.call("remove", || remove_tree(dir, name.as_bytes(), 0)).is_err() {
            self.leave();
        }
    }
}

/// A process that ends well has left nothing.
impl Drop for Janitor {
    fn drop(&mut self) {
        let record = self.record.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(record) = record
            && !self.left.load(Ordering::Relaxed)
        {
            let _ = std::fs::remove_file(&record.path);
        }
    }
}

impl Record {
    fn create(dir: &Path, token: &str) -> std::io::Result<Record> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(token);
        loop {
            let file = File::options().append(true).create_new(true).mode(0o600).open(&path)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            // Before it was locked, somebody else may have taken it for one of a dead process and removed it.
            if file.metadata()?.nlink() > 0 {
                return Ok(Record { path, file, noted: HashSet::new() });
            }
        }
    }

    fn add(&mut self, root: &Path, relative: &str) -> std::io::Result<()> {
        let entry = (root.to_owned(), relative.to_owned());
        if self.noted.contains(&entry) {
            return Ok(());
        }
        let mut line = root.as_os_str().as_bytes().to_vec();
        line.push(0);
        line.extend_from_slice(relative.as_bytes());
        line.push(0);
        self.file.write_all(&line)?;
        self.noted.insert(entry);
        Ok(())
    }
}

/// Whether a name looks like those that a commit makes for a moment.
pub(crate) fn is_temporary(name: &[u8]) -> bool {
    token_of(name).is_some()
}

/// The token in such a name.
fn token_of(name: &[u8]) -> Option<&[u8]> {
    let inner = name.strip_prefix(PREFIX.as_bytes())?.strip_suffix(SUFFIX.as_bytes())?;
    match inner.split_at_checked(16) {
        Some((token, [b'-', count @ ..])) if !count.is_empty() => {
            token.iter().chain(count).all(u8::is_ascii_hexdigit).then_some(token)
        }
        _ => None,
    }
}

/// Takes back and removes what the processes left whose records nobody holds.
pub(super) fn clean_all(dir: &Path) {
    let names = || {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    let is_steps = |name: &OsString| name.as_bytes().ends_with(journal::SUFFIX.as_bytes());
    let found = names();
    // What temporary names hold is needed to take a commit back, so that comes first.
    for name in found.iter().filter(|name| is_steps(name)) {
        journal::take_back(&dir.join(name));
    }
    for name in &found {
        let token = name.as_bytes();
        if token.len() != 16 || !token.iter().all(u8::is_ascii_hexdigit) {
            continue;
        }
        clean(&dir.join(name), token, || {
            names().iter().any(|one| is_steps(one) && one.as_bytes().starts_with(token))
        });
    }
}

/// Removes what one process left, unless a commit of it is still to be taken back.
fn clean(record: &Path, token: &[u8], is_under_way: impl Fn() -> bool) {
    let Ok(file) = File::open(record) else { return };
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    // Looked at when it is known that the process is dead.
    if is_under_way() {
        return;
    }
    let mut noted = Vec::new();
    if (&file).take(MAX_RECORD).read_to_end(&mut noted).is_err() {
        return;
    }
    let mut parts = noted.split(|byte| *byte == 0);
    let mut roots: HashMap<Vec<u8>, Option<OwnedFd>> = HashMap::new();
    let mut done = true;
    while let (Some(root), Some(relative)) = (parts.next(), parts.next()) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(root, flags, Mode::empty()).ok();
        let dir = roots.entry(root.to_vec()).or_insert_with(open);
        if let (Some(dir), Ok(relative)) = (dir, std::str::from_utf8(relative)) {
            done &= clean_dir(dir, relative, token);
        }
    }
    if done {
        let _ = std::fs::remove_file(record);
    }
}

/// Whether nothing with the token is left in a directory.
fn clean_dir(root: &OwnedFd, relative: &str, token: &[u8]) -> bool {
    let dir = match open_beneath(root.as_fd(), relative, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return true,
        Err(_) => return false,
    };
    let Ok(entries) = Dir::read_from(&dir) else { return false };
    let mine: Vec<Vec<u8>> = entries
        .flatten()
        .map(|entry| entry.file_name().to_bytes().to_vec())
        .filter(|name| is_temporary(name) && name[PREFIX.len()..].starts_with(token))
        .collect();
    mine.iter().all(|name| remove_tree(&dir, name, 0).is_ok())
}

/// Removes a file, or a directory with all that is in it, by descriptors; links are removed, never followed.
fn remove_tree(dir: &OwnedFd, name: &[u8], depth: usize) -> Result<(), Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) if depth < MAX_DEPTH => {}
        Err(error) => return Err(error),
    }
    let inner = open_to_empty(dir, name)?;
    for entry in Dir::read_from(&inner)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            remove_tree(&inner, name, depth + 1)?;
        }
    }
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
}

/// Opens a directory of ours whose entries are to go. One that is new may have bits already with which nothing goes.
fn open_to_empty(dir: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat(dir, name, flags | OFlags::PATH, Mode::empty())?;
    let mode = rustix::fs::fstat(&place)?.st_mode & 0o7777;
    if mode & 0o700 != 0o700 {
        // The link stands for the descriptor itself, not for a name. Where it may not be, removing says so.
        let link = format!("/proc/self/fd/{}", place.as_raw_fd());
        let _ = rustix::fs::chmod(link, Mode::from_raw_mode(mode | 0o700));
    }
    rustix::fs::openat(&place, ".", flags | OFlags::RDONLY, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What a process that died has noted, and what others have beside it.
    #[test]
    fn only_what_the_dead_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (ws, state) = (dir.path().join("ws"), dir.path().join("janitor"));
        fs::create_dir_all(ws.join("sub")).unwrap();
        let dead = Janitor::start(Some(&state)).unwrap();
        let alive = Janitor::start(Some(&state)).unwrap();
        let (of_dead, of_alive) = (dead.name(), alive.name());
        for janitor in [&dead, &alive] {
            janitor.note(&ws, "sub").unwrap();
        }
        let mine = ["sub/mine", "sub/.helve-mine.tmp", &of_dead];
        for name in mine.iter().copied().chain([&*format!("sub/{of_dead}"), &*format!("sub/{of_alive}")]) {
            fs::write(ws.join(name), "x").unwrap();
        }
        // Its lock goes with it, its record stays.
        dead.leave();
        drop(dead);
        clean_all(&state);
        let left = |name: &str| ws.join(name).exists();
        assert!(!left(&format!("sub/{of_dead}")), "what the dead left is gone");
        assert!(left(&format!("sub/{of_alive}")), "what somebody still uses stays");
        assert!(mine.iter().all(|name| left(name)), "and so does what was never noted");
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
    }
}
