//! What is remembered of files between calls: places whose line numbers are known, so that the next page does not count
//! from the start again. Bounded: a few files, a few hundred places each.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Stat;

use super::detect::Found;

/// How many files are remembered.
const FILES: usize = 32;
/// How many places of a file, between which the distance grows with it.
const PLACES: usize = 512;
/// The least distance of two places in bytes.
const STRIDE: u64 = 1 << 20;

/// A file that has not changed since: the same inode with the same length and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileKey {
    /// The key of a file.
    pub(crate) fn of(stat: &Stat) -> FileKey {
        FileKey {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: stat.st_size.cast_unsigned(),
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
        }
    }
}

/// A byte, the line that it is in, and how many characters of that line come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) cursor: u64,
    pub(super) offset: u64,
}

/// What is known of one file.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) found: Option<Found>,
    pub(super) total_lines: Option<u64>,
    /// Sorted.
    places: Vec<Place>,
    stride: u64,
    /// Where windows ended, the newest last.
    ends: Vec<Place>,
    /// Not known of the file, but what it is read into.
    pub(super) buffer: Vec<u8>,
}

impl Default for Known {
    fn default() -> Self {
        let (places, ends, buffer) = Default::default();
        Known { found: None, total_lines: None, places, stride: STRIDE, ends, buffer }
    }
}

impl Known {
    /// The last known place that is not after character `cursor` of `line`.
    pub(super) fn before(&self, line: u64, cursor: u64) -> Option<Place> {
        let target = (line, cursor);
        let fits = |place: &&Place| (place.line, place.cursor) <= target;
        let count = self.places.partition_point(|place| fits(&place));
        let regular = count.checked_sub(1).and_then(|last| self.places.get(last)).copied();
        regular.max(self.ends.iter().filter(fits).max().copied())
    }

    /// The last regular place that is not behind a byte.
    pub(super) fn not_behind(&self, offset: u64) -> Option<Place> {
        let count = self.places.partition_point(|place| place.offset <= offset);
        count.checked_sub(1).and_then(|last| self.places.get(last)).copied()
    }

    /// Remembers a place that was passed, if it is far enough from the others.
    pub(super) fn pass(&mut self, place: Place) {
        let at = self.places.partition_point(|known| known.offset < place.offset);
        let far = |other: Option<&Place>| {
            other.is_none_or(|other| other.offset.abs_diff(place.offset) >= self.stride)
        };
        if !far(self.places.get(at)) || !far(at.checked_sub(1).and_then(|at| self.places.get(at))) {
            return;
        }
        self.places.insert(at, place);
        if self.places.len() > PLACES {
            let mut number = 0;
            self.places.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.stride *= 2;
        }
    }

    /// Remembers how many lines the file has.
    pub(super) fn total(&mut self, lines: u64) {
        self.total_lines = Some(lines);
    }

    /// Remembers where a window ended: the next one is likely to begin there.
    pub(super) fn end(&mut self, place: Place) {
        self.ends.retain(|other| *other != place);
        if self.ends.len() >= 8 {
            self.ends.remove(0);
        }
        self.ends.push(place);
    }
}

/// The files that were read last.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The most recent one last.
    files: Mutex<Vec<(FileKey, Arc<Known>)>>,
    /// The buffer that was used last.
    spare: Mutex<Vec<u8>>,
}

impl Index {
    /// What is known of a file.
    pub(super) fn known(&self, key: &FileKey) -> Known {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let found = files.iter().find(|(other, _)| other == key).map(|(_, known)| Arc::clone(known));
        drop(files);
        let mut known = found.map(|known| Known::clone(&known)).unwrap_or_default();
        known.buffer = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        known
    }

    /// Keeps what is known of a file now.
    pub(super) fn keep(&self, key: FileKey, mut known: Known) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut known.buffer);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // An older state of the same file is of no use any more.
        files.retain(|(other, _)| (other.device, other.inode) != (key.device, key.inode));
        if files.len() >= FILES {
            files.remove(0);
        }
        files.push((key, Arc::new(known)));
    }
}
