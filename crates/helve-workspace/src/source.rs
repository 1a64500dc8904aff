//! Bytes that can be read at any place: an open file, or memory; and bytes that are read only as long as the call stands.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use helve_core::Cancel;

/// What a window or a search reads from.
pub(crate) trait Source {
    /// How many bytes there are; a file may change while it is read.
    fn len(&self) -> u64;
    /// Reads some bytes at `at`; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// A file with the length that it had when it was opened.
pub(crate) struct FileSource<'a> {
    pub(crate) file: &'a File,
    pub(crate) len: u64,
}

impl Source for FileSource<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }
}

impl Source for &[u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Ends reading when the call is taken back.
pub(crate) struct Watched<'a, R> {
    pub(crate) reader: R,
    pub(crate) cancel: &'a Cancel,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("the call was taken back"));
        }
        self.reader.read(buffer)
    }
}
