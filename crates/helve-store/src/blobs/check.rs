//! Is a blob still what its name says?
//!
//! In: an id and the open file. Out: yes or no. Hashing a whole blob for every page that is read would be dear, so the
//! look of a file that was found sound is remembered, and its content is hashed again only when that look changes.
//! What changes between the check and the read that follows is not seen.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::PREFIX;
use crate::files;

/// Files that are remembered; when there are more, all are forgotten and checked again.
const MOST_REMEMBERED: usize = 1024;

/// The system's clock for files ticks every 10 ms or sooner. A file that changed as short a time ago as this could change
/// again and look the same, so its look is not remembered.
const CLOCK_TICK: Duration = Duration::from_millis(25);

/// What the system says about a file; any later write to it changes this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Look {
    fn at(file: &File) -> io::Result<Look> {
        let metadata = file.metadata()?;
        Ok(Look {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    fn is_settled(&self) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let changed =
            Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0));
        files::now().saturating_sub(changed) > CLOCK_TICK
    }
}

/// The blobs that were found sound.
#[derive(Debug, Default)]
pub(super) struct Checked(Mutex<HashMap<String, Look>>);

impl Checked {
    /// Whether the file has the content that the id names. Leaves the file at its start.
    pub(super) fn is_sound(&self, id: &str, file: &mut File) -> io::Result<bool> {
        let look = Look::at(file)?;
        if self.remembered(id) == Some(look) {
            return Ok(true);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&mut *file)?;
        file.rewind()?;
        let sound = id.strip_prefix(PREFIX) == Some(hasher.finalize().to_hex().as_str());
        if sound && look.is_settled() {
            self.remember(id, look);
        }
        Ok(sound)
    }

    fn remembered(&self, id: &str) -> Option<Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).copied()
    }

    fn remember(&self, id: &str, look: Look) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(id.to_owned(), look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_hashed_once_and_again_when_it_looks_different() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        file.rewind().unwrap();
        let id = format!("b3:{}", blake3::hash(b"hello").to_hex());
        let checked = Checked::default();
        assert!(checked.is_sound(&id, &mut file).unwrap());
        assert_eq!(checked.remembered(&id), None, "it was written just now");
        std::thread::sleep(2 * CLOCK_TICK);
        assert!(checked.is_sound(&id, &mut file).unwrap());
        let look = Look::at(&file).unwrap();
        assert_eq!(checked.remembered(&id), Some(look));

        // What is remembered is believed: another id with the same look is not hashed.
        checked.remember("b3:other", look);
        assert!(checked.is_sound("b3:other", &mut file).unwrap());
        checked.remember("b3:other", Look { changed: (0, 0), ..look });
        assert!(!checked.is_sound("b3:other", &mut file).unwrap());
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_blobs() {
        let checked = Checked::default();
        let look = Look::at(&tempfile::tempfile().unwrap()).unwrap();
        for number in 0..3 * MOST_REMEMBERED {
            checked.remember(&number.to_string(), look);
        }
        assert!(checked.0.lock().unwrap().len() <= MOST_REMEMBERED);
    }
}
