//! A tree of files in memory.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;

use helve_core::files::{FileKind, FileStat};

use super::tree::{Listing, Loaded, Place, SMALL_FILE, Top, Tree};

/// What is at a path.
pub(crate) enum MemoryEntry<'a> {
    /// A directory. Those that hold something need no entry of their own.
    Directory,
    /// A file.
    File {
        /// Its content.
        bytes: &'a [u8],
        /// What is known of it.
        stat: FileStat,
    },
}

/// Files in memory by their paths, and the directory among them where a walk begins.
pub(crate) struct MemoryTree<'a> {
    entries: BTreeMap<&'a str, MemoryEntry<'a>>,
    base: String,
}

impl<'a> MemoryTree<'a> {
    /// A walk over these entries begins at `base`, empty for all of them.
    pub(crate) fn new(entries: BTreeMap<&'a str, MemoryEntry<'a>>, base: &str) -> Self {
        MemoryTree { entries, base: base.to_owned() }
    }

    /// The first entry at or after a path.
    fn first_from(&self, path: &str) -> Option<(&'a str, &MemoryEntry<'a>)> {
        let range = (Bound::Included(path), Bound::Unbounded);
        self.entries.range::<str, _>(range).next().map(|(path, entry)| (*path, entry))
    }

    fn file(&self, path: &str) -> io::Result<(&'a [u8], &FileStat)> {
        match self.entries.get(path) {
            Some(MemoryEntry::File { bytes, stat }) => Ok((bytes, stat)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn loaded(&self, path: &str, buffer: &mut Vec<u8>) -> io::Result<Loaded<&'a [u8]>> {
        let (bytes, _) = self.file(path)?;
        if bytes.len() > SMALL_FILE {
            return Ok(Loaded::Large(bytes));
        }
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Ok(Loaded::Small)
    }
}

/// A name in a directory, whose path is all that is needed.
fn path_of(dir: &str, name: &[u8]) -> io::Result<String> {
    let name = std::str::from_utf8(name).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") })
}

impl<'a> Tree for MemoryTree<'a> {
    type Dir = String;
    type Reader = &'a [u8];

    fn base(&self) -> &[u8] {
        self.base.as_bytes()
    }

    fn prefix(&self) -> &str {
        ""
    }

    fn top(&self) -> io::Result<Top<String>> {
        let mut above = Vec::new();
        if !self.base.is_empty() {
            let ends = self.base.match_indices('/').map(|(at, _)| at);
            above.extend(std::iter::once(0).chain(ends).map(|end| {
                let path = &self.base[..end];
                (path.to_owned(), path.as_bytes().to_vec())
            }));
        }
        Ok(Top { dir: self.base.clone(), above })
    }

    fn enter(&self, at: Place<'_, String>, name: &[u8]) -> io::Result<String> {
        path_of(at.dir, name)
    }

    fn list(&self, dir: &String, into: &mut Listing) -> io::Result<()> {
        let below = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let mut from = below.clone();
        // One look-up for each name: what lies deeper is passed over.
        while let Some((path, entry)) = self.first_from(&from) {
            let Some(rest) = path.strip_prefix(below.as_str()) else { break };
            match rest.split_once('/') {
                Some((name, _)) => {
                    into.push(name.as_bytes(), Some(FileKind::Directory))?;
                    // `0` follows `/`: the first path that is not in this directory.
                    from = format!("{below}{name}0");
                }
                None => {
                    let kind = match entry {
                        MemoryEntry::File { .. } => FileKind::File,
                        MemoryEntry::Directory => FileKind::Directory,
                    };
                    // A directory with an entry of its own and with content is met by its content.
                    let inside = format!("{below}{rest}/");
                    let has_content = kind == FileKind::Directory
                        && self.first_from(&inside).is_some_and(|(next, _)| next.starts_with(&inside));
                    if !rest.is_empty() && !has_content {
                        into.push(rest.as_bytes(), Some(kind))?;
                    }
                    from = format!("{path}\0");
                }
            }
        }
        Ok(())
    }

    fn stat(&self, at: Place<'_, String>, name: &[u8]) -> io::Result<FileStat> {
        let path = path_of(at.dir, name)?;
        if let Ok((_, stat)) = self.file(&path) {
            return Ok(stat.clone());
        }
        let below = format!("{path}/");
        let is_dir = self.entries.contains_key(path.as_str())
            || self.first_from(&below).is_some_and(|(next, _)| next.starts_with(&below));
        match is_dir {
            true => Ok(FileStat { kind: FileKind::Directory, len: 0, modified: None, mode: 0o755 }),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn links_to_file(&self, _: &[u8]) -> bool {
        false
    }

    fn head(&self, at: Place<'_, String>, name: &[u8], max: usize) -> Option<Vec<u8>> {
        let (bytes, _) = self.file(&path_of(at.dir, name).ok()?).ok()?;
        Some(bytes.get(..max).unwrap_or(bytes).to_vec())
    }

    fn load(&self, at: Place<'_, String>, name: &[u8], buffer: &mut Vec<u8>) -> io::Result<Loaded<&'a [u8]>> {
        self.loaded(&path_of(at.dir, name)?, buffer)
    }

    fn load_again(&self, path: &[u8], buffer: &mut Vec<u8>) -> io::Result<Loaded<&'a [u8]>> {
        self.loaded(&path_of("", path)?, buffer)
    }
}
