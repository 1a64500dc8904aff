//! Following a journal while it grows.
//!
//! In: a session and the byte offset to start from. Out: one record after the other; nothing when the end is reached,
//! and more when asked again later. Lines that are not finished yet wait for their end. Whether the chain holds is
//! not asked here; that is what `verify` is for.

use std::fs::File;
use std::io;

use crate::journal::JOURNAL;
use crate::line::{Line, Record};
use crate::reader::{LineReader, Piece};
use crate::{Home, StoreError, files};

/// A place in a session's journal from which records are read.
pub struct Tail {
    file: File,
    session: String,
    offset: u64,
    reader: Option<LineReader>,
}

impl Tail {
    /// Starts reading at a byte offset: 0, or what [`Tail::offset`] said before.
    pub fn open(home: &Home, session: &str, from_offset: u64) -> Result<Tail, StoreError> {
        let absent = || StoreError::NoSuchSession(session.to_owned());
        let dir = home.session_dir(session)?.ok_or_else(absent)?;
        let file = files::open_to_read(&dir, JOURNAL)
            .map_err(|error| StoreError::io("cannot open the journal", session, error))?
            .ok_or_else(absent)?;
        Ok(Tail { file, session: session.to_owned(), offset: from_offset, reader: None })
    }

    /// Starts reading behind the last finished line.
    pub fn open_at_end(home: &Home, session: &str) -> Result<Tail, StoreError> {
        let mut tail = Tail::open(home, session, 0)?;
        let end = tail.file.metadata().and_then(|metadata| last_line_end(&tail.file, metadata.len()));
        tail.offset = end.map_err(|error| tail.failed(error))?;
        Ok(tail)
    }

    /// The offset behind the last record that was returned.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How long the journal is now.
    pub fn length(&self) -> Result<u64, StoreError> {
        Ok(self.file.metadata().map_err(|error| self.failed(error))?.len())
    }

    /// The next record; `None` when there is none yet. Lines that are no entries are passed over.
    pub fn next_record(&mut self) -> Result<Option<Record>, StoreError> {
        loop {
            if self.reader.is_none() {
                let length = self.length()?;
                if length <= self.offset {
                    return Ok(None);
                }
                let file = self.file.try_clone().map_err(|error| self.failed(error))?;
                let reader = LineReader::new(file, self.offset, length);
                self.reader = Some(reader.map_err(|error| self.failed(error))?);
            }
            let Some(reader) = &mut self.reader else { continue };
            let piece = match reader.next() {
                Ok(piece) => piece,
                Err(error) => return Err(self.failed(error)),
            };
            let record = match piece {
                Some(Piece::Line(bytes)) => Line::parse(bytes).and_then(|line| line.record()),
                Some(Piece::TooLong) => None,
                // What was there is read; the next call looks whether more has come.
                Some(Piece::Torn) | None => {
                    let torn = piece.is_some();
                    self.reader = None;
                    if torn {
                        return Ok(None);
                    }
                    continue;
                }
            };
            self.offset = reader.end();
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::io("cannot read the journal", self.session.as_str(), error)
    }
}

/// The end of the last finished line in the first `length` bytes of a file, found from behind.
pub(crate) fn last_line_end(file: &File, length: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut chunk = [0_u8; 16 * 1024];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(chunk.len() as u64);
        let part = &mut chunk[..usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(part, start)?;
        if let Some(at) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
