//! Full outputs, kept under the hash of their content.
//!
//! In: bytes as they stream. Out: an id (`b3:` and the BLAKE3 hash) under which they can be read again. A blob is
//! written to a temporary file and renamed into place, so a blob that has a name is whole; equal contents share one
//! file. Memory stays at one buffer however much is written, and disk at the cap and one line: a blob that hit its cap
//! ends with a mark that says how much is missing, so that whoever reads only the blob knows.
//!
//! A blob whose content no longer has the hash in its name is not served (`check`), and is written anew when the same
//! bytes are kept again.
//!
//! Deciding which outputs are worth keeping is the runtime's business; removing old ones is `gc`'s.

mod check;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};

use self::check::Checked;
use crate::files::{self, Lock, modified};
use crate::gc::is_fresh;
use crate::line::parse_hash;
use crate::{Home, StoreError};

pub(crate) const BLOBS: &str = "blobs";
pub(crate) const TEMPORARY: &str = "tmp";
const PREFIX: &str = "b3:";

/// Bytes gathered before a file is made or written to.
const BUFFER_BYTES: usize = 64 * 1024;

static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// The blobs of one state directory. Clones share it.
#[derive(Debug, Clone)]
pub struct Blobs {
    dir: Arc<OwnedFd>,
    checked: Arc<Checked>,
    cap: u64,
    fsync: bool,
}

/// A finished blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// `b3:` and the hash of what is in the file.
    pub id: String,
    /// Bytes in the file, the mark of a blob that hit its cap included.
    pub bytes: u64,
    /// Bytes beyond the cap, which were not kept.
    pub dropped: u64,
}

impl Blobs {
    /// Opens the blobs of a state directory. No blob keeps more than `cap_bytes_per_blob` of what is written to it.
    pub fn open(home: &Home, cap_bytes_per_blob: u64) -> Result<Blobs, StoreError> {
        let dir = files::make_dir(home.dir(), BLOBS)
            .map_err(|error| StoreError::io("cannot open the blob directory", BLOBS, error))?;
        Ok(Blobs::new(dir, cap_bytes_per_blob))
    }

    /// The blobs that there are, for reading only; `None` when none was ever kept.
    pub(crate) fn open_to_read(home: &Home) -> Result<Option<Blobs>, StoreError> {
        let dir = files::open_dir(home.dir(), BLOBS)
            .map_err(|error| StoreError::io("cannot open the blob directory", BLOBS, error))?;
        Ok(dir.map(|dir| Blobs::new(dir, 0)))
    }

    /// Blobs of another directory, whole whatever their size.
    pub(crate) fn within(dir: OwnedFd) -> Blobs {
        Blobs::new(dir, u64::MAX)
    }

    pub(crate) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    fn new(dir: OwnedFd, cap: u64) -> Blobs {
        Blobs { dir: Arc::new(dir), checked: Arc::default(), cap, fsync: false }
    }

    /// Waits for the disk when a blob is finished, so that it survives power loss.
    pub fn with_fsync(self, fsync: bool) -> Blobs {
        Blobs { fsync, ..self }
    }

    /// The id that a content has, wherever it is kept.
    pub fn id_of(content: &[u8]) -> String {
        id_from_hash(blake3::hash(content))
    }

    /// Starts a blob. Nothing is made on disk before there are bytes to write.
    pub fn writer(&self) -> BlobWriter {
        BlobWriter {
            blobs: self.clone(),
            hasher: blake3::Hasher::new(),
            buffer: Vec::new(),
            temporary: None,
            bytes: 0,
            dropped: 0,
        }
    }

    /// Whether a content of this length is kept under this id already, and sound. It counts as new again then, as if it
    /// had been written once more.
    pub fn renew(&self, id: &str, len: u64) -> Result<bool, StoreError> {
        let (first, rest) = parse_id(id)?;
        let renew = || {
            let Some(dir) = files::open_dir(&self.dir, first)? else { return Ok(false) };
            let own = files::make_dir(&self.dir, ".")?;
            let _lock = Lock::shared(&own)?;
            self.renew_in(id, len, &dir, rest)
        };
        renew().map_err(|error| StoreError::io("cannot look for the blob", id, error))
    }

    /// The same with its directory open and gc kept out. What cannot be read, or is something else, is not kept.
    fn renew_in(&self, id: &str, len: u64, dir: &OwnedFd, name: &str) -> io::Result<bool> {
        let Ok(Some(mut file)) = files::open_to_read(dir, name) else { return Ok(false) };
        let stat = rustix::fs::fstat(&file)?;
        let is_kept =
            stat.st_size.cast_unsigned() == len && self.checked.is_sound(id, &mut file).unwrap_or(false);
        // One that is new enough is left alone, so that it still looks as it did when it was checked.
        if is_kept && !is_fresh(modified(&stat)) {
            touch(dir, name)?;
        }
        Ok(is_kept)
    }

    /// Opens a blob for reading and seeking. Fails when its content is not what was kept; that is checked once, and
    /// again whenever the file looks different from then.
    pub fn open_blob(&self, id: &str) -> Result<File, StoreError> {
        let mut file = self.open_unchecked(id)?;
        let sound = self.checked.is_sound(id, &mut file);
        if sound.map_err(|error| StoreError::io("cannot read the blob", id, error))? {
            Ok(file)
        } else {
            Err(StoreError::BlobChanged(id.to_owned()))
        }
    }

    fn open_unchecked(&self, id: &str) -> Result<File, StoreError> {
        let (first, rest) = parse_id(id)?;
        let open = || match files::open_dir(&self.dir, first)? {
            Some(dir) => files::open_to_read(dir, rest),
            None => Ok(None),
        };
        open()
            .map_err(|error| StoreError::io("cannot open the blob", id, error))?
            .ok_or_else(|| StoreError::NoSuchBlob(id.to_owned()))
    }

    /// Up to `len` bytes from `offset`; fewer when the blob ends before.
    pub fn read_range(&self, id: &str, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let failed = |error| StoreError::io("cannot read the blob", id, error);
        let file = self.open_blob(id)?;
        let left = file.metadata().map_err(failed)?.len().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes)
    }

    /// The size of a blob's file. Its content is not looked at; reading it does that.
    pub fn len(&self, id: &str) -> Result<u64, StoreError> {
        let file = self.open_unchecked(id)?;
        Ok(file.metadata().map_err(|error| StoreError::io("cannot read the blob", id, error))?.len())
    }
}

/// Splits an id into directory and file name.
fn parse_id(id: &str) -> Result<(&str, &str), StoreError> {
    let digits = hash_from_id(id).and_then(|_| id.strip_prefix(PREFIX));
    digits
        .and_then(|digits| digits.split_at_checked(2))
        .ok_or_else(|| StoreError::BadBlobId(id.chars().take(80).collect()))
}

/// The hash in an id; `None` when it is not an id.
pub(crate) fn hash_from_id(id: &str) -> Option<blake3::Hash> {
    parse_hash(id.strip_prefix(PREFIX)?.as_bytes())
}

/// The id of the content with this hash.
pub(crate) fn id_from_hash(hash: blake3::Hash) -> String {
    format!("{PREFIX}{}", hash.to_hex())
}

/// The id of the blob that lies under these two names; `None` when they are not a blob's.
pub(crate) fn id_from_names(first: &str, rest: &str) -> Option<String> {
    let id = format!("{PREFIX}{first}{rest}");
    parse_id(&id).is_ok_and(|names| names == (first, rest)).then_some(id)
}

/// A blob being written. Dropping it without [`BlobWriter::finish`] leaves nothing behind.
#[derive(Debug)]
pub struct BlobWriter {
    blobs: Blobs,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    temporary: Option<Temporary>,
    bytes: u64,
    dropped: u64,
}

impl BlobWriter {
    /// Adds bytes; those beyond the cap are counted and dropped.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let room = usize::try_from(self.blobs.cap - self.bytes).unwrap_or(usize::MAX);
        let (kept, dropped) = bytes.split_at(room.min(bytes.len()));
        self.dropped += dropped.len() as u64;
        self.append(kept).map_err(cannot_write)
    }

    fn append(&mut self, kept: &[u8]) -> io::Result<()> {
        self.bytes += kept.len() as u64;
        self.hasher.update(kept);
        if self.buffer.len() + kept.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if kept.len() > BUFFER_BYTES {
            self.temporary()?.file.write_all(kept)
        } else {
            self.buffer.extend_from_slice(kept);
            Ok(())
        }
    }

    /// Puts the blob in its place, with a mark at its end if the cap was hit.
    pub fn finish(mut self) -> Result<BlobRef, StoreError> {
        if self.dropped > 0 {
            self.append(mark(self.dropped).as_bytes()).map_err(cannot_write)?;
        }
        let id = id_from_hash(self.hasher.finalize());
        let (first, rest) = parse_id(&id)?;
        self.place(&id, first, rest).map_err(cannot_write)?;
        Ok(BlobRef { bytes: self.bytes, dropped: self.dropped, id })
    }

    fn place(&mut self, id: &str, first: &str, rest: &str) -> io::Result<()> {
        let dir = files::make_dir(&self.blobs.dir, first)?;
        // While this lock is held, gc does not remove the blob that is found or put here. It is taken on an open of
        // its own, because writers in other threads share `blobs.dir` and would release each other's lock.
        let own = files::make_dir(&self.blobs.dir, ".")?;
        let _lock = Lock::shared(&own)?;
        if self.blobs.renew_in(id, self.bytes, &dir, rest)? {
            return Ok(());
        }
        self.flush()?;
        let fsync = self.blobs.fsync;
        let temporary = self.temporary()?;
        if fsync {
            temporary.file.sync_data()?;
        }
        rustix::fs::renameat(&temporary.dir, &temporary.name, &dir, rest)?;
        temporary.placed = true;
        if fsync {
            rustix::fs::fsync(&dir)?;
            rustix::fs::fsync(&own)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let buffer = std::mem::take(&mut self.buffer);
            self.temporary()?.file.write_all(&buffer)?;
            self.buffer = buffer;
            self.buffer.clear();
        }
        Ok(())
    }

    fn temporary(&mut self) -> io::Result<&mut Temporary> {
        match &mut self.temporary {
            Some(temporary) => Ok(temporary),
            empty => Ok(empty.insert(Temporary::new(&self.blobs.dir)?)),
        }
    }
}

/// The last line of a blob that hit its cap.
fn mark(dropped: u64) -> String {
    format!("\n[helve: {dropped} more bytes were not kept]\n")
}

fn cannot_write(error: io::Error) -> StoreError {
    StoreError::io("cannot keep the output as a blob", BLOBS, error)
}

fn touch(dir: impl AsFd, name: &str) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(rustix::fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// A file without a lasting name, removed unless it was put in its place.
#[derive(Debug)]
struct Temporary {
    dir: OwnedFd,
    name: String,
    file: File,
    placed: bool,
}

impl Temporary {
    fn new(blobs: &OwnedFd) -> io::Result<Temporary> {
        let dir = files::make_dir(blobs, TEMPORARY)?;
        let number = NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}-{}", std::process::id(), files::now().as_nanos());
        let file = files::make_new(&dir, &name)?;
        Ok(Temporary { dir, name, file, placed: false })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            // What cannot be removed now is stale in an hour, and gc removes it then.
            let _ = files::remove_file(&self.dir, &self.name);
        }
    }
}

#[cfg(test)]
mod tests;
