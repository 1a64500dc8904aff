//! A blob as a stream of lines, read in chunks. A line that is too long comes in pieces.

use helve_core::{BlobRef, Blobs, Cancel, ErrorKind, ToolError};

/// Bytes that one read asks for.
const CHUNK: usize = 64 << 10;

/// Where to begin.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// At a line, counted from 1.
    Line(u64),
    /// At a byte; line numbers are then not known.
    Byte(u64),
}

/// A line, or a piece of one that is too long.
pub(super) struct Piece<'b> {
    /// The line's number, if the stream began at a line.
    pub(super) line: Option<u64>,
    /// The byte of the blob at which it starts.
    pub(super) start: u64,
    /// Its text without the newline.
    pub(super) bytes: &'b [u8],
    /// Whether the line starts here.
    pub(super) opens: bool,
    /// Whether the line ends here.
    pub(super) closes: bool,
    /// The byte of the blob after it and its newline.
    pub(super) end: u64,
}

/// The stream.
pub(super) struct Lines<'a> {
    blobs: &'a dyn Blobs,
    id: &'a str,
    total: u64,
    cancel: &'a Cancel,
    /// The longest piece.
    longest: usize,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are already given.
    used: usize,
    /// The byte of the blob at which the buffer starts.
    base: u64,
    at_end: bool,
    line: Option<u64>,
    opens: bool,
}

impl<'a> Lines<'a> {
    /// Opens the blob at `start`. No piece is longer than `longest` or a chunk.
    pub(super) async fn open(
        blobs: &'a dyn Blobs,
        blob: &'a BlobRef,
        start: Start,
        longest: usize,
        cancel: &'a Cancel,
    ) -> Result<Lines<'a>, ToolError> {
        let (base, line) = match start {
            Start::Line(_) => (0, Some(1)),
            Start::Byte(byte) => (byte, None),
        };
        let mut lines = Lines {
            blobs,
            id: &blob.id,
            total: blob.bytes,
            cancel,
            longest: longest.clamp(16, CHUNK),
            buffer: Vec::new(),
            used: 0,
            base,
            at_end: false,
            line,
            opens: true,
        };
        match start {
            Start::Line(wanted) => lines.skip_to(wanted).await?,
            Start::Byte(byte) => lines.align(byte).await?,
        }
        Ok(lines)
    }

    async fn skip_to(&mut self, wanted: u64) -> Result<(), ToolError> {
        while self.line.is_some_and(|line| line < wanted) {
            if self.next().await?.is_none() {
                break;
            }
        }
        if self.total == 0 || !self.is_at_end().await? {
            return Ok(());
        }
        let count = self.count_of_lines();
        Err(ToolError::not_found(format!("The output has {count} lines; there is no line {wanted}."))
            .hint(format!("Use an offset from 1 to {count}.")))
    }

    /// Moves to the next start of a character, if `byte` is inside one.
    async fn align(&mut self, byte: u64) -> Result<(), ToolError> {
        if byte > 0 && byte >= self.total {
            return Err(ToolError::not_found(format!(
                "The output has {} bytes; there is no byte {byte}.",
                self.total
            ))
            .hint(format!("Use a byte_offset below {}.", self.total)));
        }
        self.opens = byte == 0;
        while self.used < 3 {
            if self.used == self.buffer.len() && !self.fill().await? {
                break;
            }
            if self.buffer[self.used] & 0xC0 != 0x80 {
                break;
            }
            self.used += 1;
        }
        Ok(())
    }

    /// Lines that have been given; those of the whole blob once the end is reached.
    fn count_of_lines(&self) -> u64 {
        self.line.map_or(0, |line| line - u64::from(self.opens))
    }

    /// Reads one more chunk; false at the end.
    async fn fill(&mut self) -> Result<bool, ToolError> {
        if self.cancel.is_cancelled() {
            return Err(ToolError::new(ErrorKind::Cancelled, "The call was taken back."));
        }
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.base += self.used as u64;
            self.used = 0;
        }
        let chunk = self.blobs.read(self.id, self.base + self.buffer.len() as u64, CHUNK).await?;
        self.at_end = chunk.is_empty();
        self.buffer.extend_from_slice(&chunk);
        Ok(!self.at_end)
    }

    /// Bytes of the blob.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The longest piece in which a line comes.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The byte of the blob that comes next.
    pub(super) fn position(&self) -> u64 {
        self.base + self.used as u64
    }

    /// Whether nothing is left.
    async fn is_at_end(&mut self) -> Result<bool, ToolError> {
        while self.used == self.buffer.len() && !self.at_end {
            self.fill().await?;
        }
        Ok(self.used == self.buffer.len())
    }

    /// The next line, or the next piece of a long one.
    pub(super) async fn next(&mut self) -> Result<Option<Piece<'_>>, ToolError> {
        // Bytes already searched are not searched again after another chunk came in.
        let mut searched = 0;
        let (len, newline) = loop {
            let open = &self.buffer[self.used..];
            let window = &open[..open.len().min(self.longest)];
            if let Some(at) = window[searched..].iter().position(|byte| *byte == b'\n') {
                break (searched + at, true);
            }
            if open.len() >= self.longest {
                break (whole_characters(window), false);
            }
            if self.at_end {
                if open.is_empty() {
                    return Ok(None);
                }
                break (open.len(), false);
            }
            searched = window.len();
            self.fill().await?;
        };
        let from = self.used;
        let start = self.position();
        self.used += len + usize::from(newline);
        let closes = newline || (self.at_end && self.used == self.buffer.len());
        let piece = Piece {
            line: self.line,
            start,
            bytes: &self.buffer[from..from + len],
            opens: self.opens,
            closes,
            end: start + len as u64 + u64::from(newline),
        };
        self.opens = closes;
        if closes {
            self.line = self.line.map(|line| line + 1);
        }
        Ok(Some(piece))
    }

    /// The number of lines of the whole blob, if the stream began at a line and less than `most` bytes are left.
    pub(super) async fn count_rest(mut self, most: u64) -> Result<Option<u64>, ToolError> {
        let Some(mut line) = self.line else { return Ok(None) };
        if self.total.saturating_sub(self.position()) > most {
            return Ok(None);
        }
        let mut opens = self.opens;
        loop {
            let rest = &self.buffer[self.used..];
            line += rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            if let Some(last) = rest.last() {
                opens = *last == b'\n';
            }
            self.used = self.buffer.len();
            if !self.fill().await? {
                return Ok(Some(line - u64::from(opens)));
            }
        }
    }
}

/// The length of `bytes` without a character that is cut at its end.
pub(super) fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.iter().rev().take(3).position(|byte| byte & 0xC0 != 0x80).unwrap_or(3);
    let Some(first) = bytes.len().checked_sub(tail + 1).and_then(|at| bytes.get(at).map(|byte| (at, *byte)))
    else {
        return bytes.len();
    };
    let (at, byte) = first;
    let wanted = match byte {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if tail + 1 < wanted && at > 0 { at } else { bytes.len() }
}

/// The longest start of `bytes` whose text, with replacements for what is not UTF-8, has at most `room` bytes.
pub(super) fn fitting(bytes: &[u8], room: usize) -> &[u8] {
    let shorter = &bytes[..bytes.len().min(room)];
    let cut = &shorter[..whole_characters(shorter)];
    // A replacement takes three bytes for one.
    if std::str::from_utf8(cut).is_ok() { cut } else { &bytes[..bytes.len().min(room / 3)] }
}
