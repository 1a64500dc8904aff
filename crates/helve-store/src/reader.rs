//! Reading a journal line by line in bounded memory, up to a length fixed beforehand.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take};

use crate::line::MAX_LINE_BYTES;

/// A line buffer that grew beyond this is given back.
const KEEP_BYTES: usize = 1024 * 1024;

/// What the next stretch of a journal is.
pub(crate) enum Piece<'a> {
    /// A whole line, its line end taken off.
    Line(&'a [u8]),
    /// A whole line longer than any entry may be; skipped.
    TooLong,
    /// Bytes without a line end before the end of the range.
    Torn,
}

/// Reads the pieces of one range of a file.
pub(crate) struct LineReader {
    input: BufReader<Take<File>>,
    line: Vec<u8>,
    /// Where the piece last returned starts.
    start: u64,
    /// Where the next piece starts.
    next: u64,
}

impl LineReader {
    /// Reads the bytes `from..to`; uses the file's cursor.
    pub(crate) fn new(mut file: File, from: u64, to: u64) -> io::Result<LineReader> {
        file.seek(SeekFrom::Start(from))?;
        let input = BufReader::with_capacity(64 * 1024, file.take(to.saturating_sub(from)));
        Ok(LineReader { input, line: Vec::new(), start: from, next: from })
    }

    /// Where the piece last returned starts.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Where the piece last returned ends, its line end included.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }

    /// The next piece; `None` at the end of the range.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.start = self.next;
        self.line.clear();
        self.line.shrink_to(KEEP_BYTES);
        let limit = MAX_LINE_BYTES as u64 + 1;
        let mut read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line)? as u64;
        if read == 0 {
            return Ok(None);
        }
        let whole = self.line.pop_if(|byte| *byte == b'\n').is_some();
        let too_long = !whole && read == limit;
        let ended = if too_long {
            self.line.clear();
            let (skipped, ended) = self.skip_line()?;
            read += skipped;
            ended
        } else {
            whole
        };
        self.next += read;
        Ok(Some(match (ended, too_long) {
            (false, _) => Piece::Torn,
            (true, true) => Piece::TooLong,
            (true, false) => Piece::Line(&self.line),
        }))
    }

    /// Passes over the rest of a line; says how many bytes it took and whether it had a line end.
    fn skip_line(&mut self) -> io::Result<(u64, bool)> {
        let mut skipped = 0;
        loop {
            let buffer = self.input.fill_buf()?;
            let found = buffer.iter().position(|&byte| byte == b'\n');
            let used = found.map_or(buffer.len(), |at| at + 1);
            self.input.consume(used);
            skipped += used as u64;
            if found.is_some() || used == 0 {
                return Ok((skipped, found.is_some()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_overlong_lines_and_torn_ends_are_told_apart() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\n\n").unwrap();
        file.write_all(&vec![b'x'; MAX_LINE_BYTES + 1]).unwrap();
        file.write_all(b"\ntwo\ntorn").unwrap();
        let end = file.metadata().unwrap().len();
        let mut reader = LineReader::new(file, 0, end).unwrap();
        let mut seen = Vec::new();
        while let Some(piece) = reader.next().unwrap() {
            seen.push(match piece {
                Piece::Line(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Piece::TooLong => "<long>".to_owned(),
                Piece::Torn => "<torn>".to_owned(),
            });
        }
        assert_eq!(seen, ["one", "", "<long>", "two", "<torn>"]);
        assert_eq!((reader.start(), reader.end()), (end, end));
    }
}
