//! What a place held, in memory, bounded; and whether it holds the same now.

use std::collections::BTreeMap;
use std::io;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::others::milliseconds;
use super::tree::{self, Identity, Tree, identity, join, kind, split};

/// The largest file whose content is remembered or kept.
pub(super) const FILE_BYTES: u64 = 1024 * 1024;
/// How much content of one place is remembered.
const PLACE_BYTES: u64 = 8 * FILE_BYTES;
/// How many entries of one place are remembered.
const MOST_ENTRIES: usize = 2048;
/// How deep.
const MOST_DEPTH: usize = 16;

/// What was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A file with its permissions and content.
    File { mode: u32, content: Vec<u8> },
    /// A file too large to remember, or that this user may not read.
    Large(Stamp),
    /// A link and where it led.
    Link(Vec<u8>),
    /// A directory.
    Directory { mode: u32, entries: BTreeMap<Vec<u8>, Held> },
    /// Something that is not looked into: a device, a socket, what is too deep or too much.
    Unknown,
}

/// What tells a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    pub(super) size: i64,
    pub(super) written: (i64, u64),
    /// A second name that comes or goes changes it too.
    pub(super) changed: (i64, u64),
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Stamp {
        Stamp {
            identity: identity(stat),
            size: stat.st_size,
            written: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// What was at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) identity: Identity,
    pub(super) held: Held,
    /// Whether a file in it has a second name, through which it can be changed around any mount.
    pub(super) shared: bool,
    pub(super) is_directory: bool,
    /// When the last of it changed, in milliseconds of the clock. Nobody can set that.
    pub(super) changed: i64,
}

/// What is left of the bounds of one snapshot.
struct Budget {
    bytes: u64,
    entries: usize,
    shared: bool,
    changed: i64,
}

impl Snapshot {
    /// Looks at a path; none if there is nothing. `wanted` says which entries of the place itself count.
    pub(super) fn of(
        tree: &Tree,
        path: &[u8],
        wanted: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<Option<Snapshot>> {
        let Some(stat) = tree.stat(path)? else { return Ok(None) };
        let mut budget = Budget { bytes: PLACE_BYTES, entries: MOST_ENTRIES, shared: false, changed: 0 };
        let held = budget.look(tree, path, &stat, MOST_DEPTH, wanted)?;
        let is_directory = kind(&stat) == FileType::Directory;
        let Budget { shared, changed, .. } = budget;
        Ok(Some(Snapshot { identity: identity(&stat), held, shared, is_directory, changed }))
    }

    /// What is at a path without a look into it; none if there is nothing.
    pub(super) fn outline(tree: &Tree, path: &[u8]) -> io::Result<Option<Snapshot>> {
        let Some(stat) = tree.stat(path)? else { return Ok(None) };
        let held = match kind(&stat) {
            FileType::Symlink => {
                let (directory, name) = split(path);
                let target = rustix::fs::readlinkat(tree.directory(directory)?, name, Vec::new())?;
                Held::Link(target.into_bytes())
            }
            _ => Held::Unknown,
        };
        let is_directory = kind(&stat) == FileType::Directory;
        let changed = changed(&stat);
        Ok(Some(Snapshot { identity: identity(&stat), held, shared: false, is_directory, changed }))
    }

    /// Whether a mount can keep it as it is: links lead elsewhere and are not mounted over.
    pub(super) fn can_be_mounted(&self) -> bool {
        !matches!(self.held, Held::Link(_))
    }
}

impl Held {
    /// Whether something else is there now. Of what was not looked into before that cannot be said; what cannot be
    /// looked into now is something else.
    pub(super) fn differs(&self, now: &Held) -> bool {
        match (self, now) {
            (Held::Unknown, _) => false,
            (
                Held::Directory { mode: before, entries: mine },
                Held::Directory { mode: now, entries: theirs },
            ) => {
                before != now
                    || mine.len() != theirs.len()
                    || mine
                        .iter()
                        .any(|(name, held)| theirs.get(name).is_none_or(|other| held.differs(other)))
            }
            (one, other) => one != other,
        }
    }

    /// Whether something below it would be missed or told from another: it is remembered, or would be new there.
    pub(super) fn keeps<'n>(&self, mut below: impl Iterator<Item = &'n [u8]>) -> bool {
        match (self, below.next()) {
            (Held::Directory { entries, .. }, Some(name)) => {
                entries.get(name).is_none_or(|held| held.keeps(below))
            }
            (held, None) => *held != Held::Unknown,
            (_, Some(_)) => false,
        }
    }

    /// The content of a file.
    pub(super) fn content(&self) -> Option<&[u8]> {
        match self {
            Held::File { content, .. } => Some(content),
            _ => None,
        }
    }
}

fn changed(stat: &Stat) -> i64 {
    milliseconds(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0))
}

impl Budget {
    fn look(
        &mut self,
        tree: &Tree,
        path: &[u8],
        stat: &Stat,
        depth: usize,
        wanted: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<Held> {
        let (directory, name) = split(path);
        self.changed = self.changed.max(changed(stat));
        if self.entries == 0 || depth == 0 {
            return Ok(Held::Unknown);
        }
        self.entries -= 1;
        Ok(match kind(stat) {
            FileType::RegularFile => {
                self.shared |= stat.st_nlink > 1;
                let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
                let most = FILE_BYTES.min(self.bytes);
                let content = match size <= most {
                    true => tree::read_in(&tree.directory(directory)?, name, FILE_BYTES)?,
                    false => None,
                };
                match content {
                    Some(content) => {
                        self.bytes = self.bytes.saturating_sub(content.len() as u64);
                        Held::File { mode: stat.st_mode & 0o7777, content }
                    }
                    None => Held::Large(Stamp::of(stat)),
                }
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(tree.directory(directory)?, name, Vec::new())?;
                Held::Link(target.into_bytes())
            }
            FileType::Directory => self.look_inside(tree, path, stat, depth, wanted)?,
            _ => Held::Unknown,
        })
    }

    fn look_inside(
        &mut self,
        tree: &Tree,
        path: &[u8],
        stat: &Stat,
        depth: usize,
        wanted: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<Held> {
        let mut names = Vec::new();
        let directory = match tree.directory(path) {
            Err(Errno::ACCESS | Errno::XDEV | Errno::NAMETOOLONG) => return Ok(Held::Unknown),
            directory => directory?,
        };
        tree::list(&directory, |name, _| {
            if wanted(name.to_bytes()) {
                names.push(name.to_bytes().to_vec());
            }
            names.len() <= MOST_ENTRIES
        })?;
        drop(directory);
        if names.len() > self.entries {
            return Ok(Held::Unknown);
        }
        let mut entries = BTreeMap::new();
        for name in names {
            let below = join(path, &name);
            let Some(stat) = tree.stat(&below)? else { continue };
            entries.insert(name, self.look(tree, &below, &stat, depth - 1, &|_| true)?);
        }
        Ok(Held::Directory { mode: stat.st_mode & 0o7777, entries })
    }
}
