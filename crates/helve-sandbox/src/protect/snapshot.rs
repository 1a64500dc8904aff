//! What a place held, in memory, bounded; and whether it holds the same now.

use std::collections::BTreeMap;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

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
    /// A file too large to remember, told by its time of change and its size.
    Large { identity: Identity, changed: (i64, u64), size: i64 },
    /// A link and where it led.
    Link(Vec<u8>),
    /// A directory.
    Directory { mode: u32, entries: BTreeMap<Vec<u8>, Held> },
    /// Something that is not looked into: a device, a socket, what is too deep or too much.
    Unknown,
}

/// What was at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) identity: Identity,
    pub(super) held: Held,
}

/// What is left of the bounds of one snapshot.
struct Budget {
    bytes: u64,
    entries: usize,
}

impl Snapshot {
    /// Looks at a path; none if there is nothing. `wanted` says which entries of the place itself count.
    pub(super) fn of(
        tree: &Tree,
        path: &[u8],
        wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Snapshot>, Errno> {
        let Some(stat) = tree.stat(path)? else { return Ok(None) };
        let mut budget = Budget { bytes: PLACE_BYTES, entries: MOST_ENTRIES };
        let held = budget.look(tree, path, &stat, MOST_DEPTH, wanted)?;
        Ok(Some(Snapshot { identity: identity(&stat), held }))
    }

    /// Whether a mount can keep it as it is: links lead elsewhere and are not mounted over.
    pub(super) fn can_be_mounted(&self) -> bool {
        !matches!(self.held, Held::Link(_))
    }
}

impl Held {
    /// Whether two are known to differ.
    pub(super) fn differs(&self, other: &Held) -> bool {
        match (self, other) {
            (Held::Unknown, _) | (_, Held::Unknown) => false,
            (Held::Directory { entries: mine, .. }, Held::Directory { entries: theirs, .. }) => {
                mine.len() != theirs.len()
                    || mine
                        .iter()
                        .any(|(name, held)| theirs.get(name).is_none_or(|other| held.differs(other)))
            }
            (one, other) => one != other,
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

impl Budget {
    fn look(
        &mut self,
        tree: &Tree,
        path: &[u8],
        stat: &Stat,
        depth: usize,
        wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Held, Errno> {
        let (directory, name) = split(path);
        if self.entries == 0 || depth == 0 {
            return Ok(Held::Unknown);
        }
        self.entries -= 1;
        Ok(match kind(stat) {
            FileType::RegularFile => {
                let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
                let most = FILE_BYTES.min(self.bytes);
                let content = match size <= most {
                    true => tree::read_in(&tree.directory(directory)?, name, FILE_BYTES),
                    false => None,
                };
                match content {
                    Some(content) => {
                        self.bytes = self.bytes.saturating_sub(content.len() as u64);
                        Held::File { mode: stat.st_mode & 0o7777, content }
                    }
                    None => Held::Large {
                        identity: identity(stat),
                        changed: (stat.st_ctime, stat.st_ctime_nsec),
                        size: stat.st_size,
                    },
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
    ) -> Result<Held, Errno> {
        let mut names = Vec::new();
        let directory = match tree.directory(path) {
            Err(Errno::ACCESS | Errno::XDEV) => return Ok(Held::Unknown),
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
