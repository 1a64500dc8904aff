//! Finding lines without decoding them: forwards by counting, backwards from the end. Memory is one block.

use std::io;

use helve_core::Cancel;

use super::coding::Coding;
use super::detect::Text;
use super::index::{Known, Place};
use super::read_full;
use crate::source::Source;

/// Bytes that are read at once to count lines in.
const COUNTED: usize = 256 << 10;
/// Bytes that are read at once to look backwards in.
const BACKWARDS: u64 = 64 << 10;

/// A file that is text, read block by block.
pub(super) struct Scan<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) text: Text,
    /// The length that the file had when it was opened; less if it turns out to be shorter by now.
    pub(super) len: u64,
    pub(super) cancel: &'a Cancel,
    buffer: Vec<u8>,
    /// Which bytes the buffer holds: from where, how many.
    held: (u64, usize),
}

/// Where lines were counted to.
pub(super) enum Reached {
    /// The wanted line's start.
    Line(Place),
    /// The end; how many lines there are is known now.
    End,
}

impl<'a> Scan<'a> {
    /// What `buffer` holds does not matter; it only need not be made anew.
    pub(super) fn new(source: &'a dyn Source, text: Text, cancel: &'a Cancel, buffer: Vec<u8>) -> Self {
        Scan { source, text, len: source.len(), cancel, buffer, held: (0, 0) }
    }

    /// The buffer, for the next one.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    pub(super) fn coding(&self) -> Coding {
        self.text.coding
    }

    /// The start of line 1.
    pub(super) fn first(&self) -> Place {
        Place { line: 1, cursor: 0, offset: self.text.mark.min(self.len) }
    }

    /// At most `size` bytes at `at`, and whether they reach the end of the file. They end between two units, and not
    /// between the two halves of a `\r\n`. None at the end.
    pub(super) fn block(&mut self, at: u64, size: usize) -> io::Result<(&[u8], bool)> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("the call was taken back"));
        }
        let size = usize::try_from(self.len.saturating_sub(at)).unwrap_or(size).min(size);
        let (from, held) = self.held;
        let start = match usize::try_from(at.wrapping_sub(from)) {
            // What was found from the end is not read again.
            Ok(start) if start <= held && size <= held - start => start,
            _ => {
                self.fill(at, size)?;
                0
            }
        };
        let mut count = size.min(self.held.1 - start);
        if count < size {
            self.len = at + count as u64;
        }
        let last = at + count as u64 >= self.len;
        let bytes = &self.buffer[start..start + count];
        if !last {
            let unit = self.coding().unit();
            count -= count % unit;
            if count > unit && self.coding().unit_at(bytes, count - unit) == Some(0x0d) {
                count -= unit;
            }
        }
        Ok((&self.buffer[start..start + count], last))
    }

    /// Reads `size` bytes, or what there is of them.
    fn fill(&mut self, at: u64, size: usize) -> io::Result<()> {
        self.held = (0, 0);
        if self.buffer.len() < size {
            self.buffer.resize(size, 0);
        }
        self.held = (at, read_full(self.source, &mut self.buffer[..size], at)?);
        Ok(())
    }

    /// Counts from a known place to the start of a later line, remembering places on the way.
    pub(super) fn forward(&mut self, from: Place, line: u64, known: &mut Known) -> io::Result<Reached> {
        let coding = self.coding();
        let mut here = from;
        // Whether something of the present line was passed.
        let mut open = from.cursor > 0;
        loop {
            let (block, last) = self.block(here.offset, COUNTED)?;
            let size = block.len();
            let (count, after_last) = coding.count_ends(block);
            if count > 0 && here.line.saturating_add(count) >= line {
                let mut at = 0;
                while here.line < line {
                    let Some(end) = coding.next_end(block, at) else { break };
                    at = end.next;
                    here.line += 1;
                }
                here = Place { line: here.line, cursor: 0, offset: here.offset + at as u64 };
                if last && at == size {
                    // The line would begin where the file ends.
                    known.total(here.line - 1);
                    return Ok(Reached::End);
                }
                known.pass(here);
                return Ok(Reached::Line(here));
            }
            if count > 0 {
                let offset = here.offset + after_last as u64;
                known.pass(Place { line: here.line + count, cursor: 0, offset });
                here.line += count;
            }
            if size > 0 {
                open = after_last < size;
            }
            here.offset += size as u64;
            if last || size == 0 {
                known.total(if open { here.line } else { here.line - 1 });
                return Ok(Reached::End);
            }
        }
    }

    /// The number of the line that starts at `offset`.
    pub(super) fn number(&mut self, offset: u64, known: &mut Known) -> io::Result<u64> {
        let coding = self.coding();
        let mut here = known.not_behind(offset).unwrap_or_else(|| self.first());
        while here.offset < offset {
            let room = usize::try_from(offset - here.offset).unwrap_or(COUNTED).min(COUNTED);
            let (block, _) = self.block(here.offset, room)?;
            if block.is_empty() {
                return Err(shorter());
            }
            let (size, (count, after_last)) = (block.len() as u64, coding.count_ends(block));
            if count > 0 {
                let line = here.line + count;
                known.pass(Place { line, cursor: 0, offset: here.offset + after_last as u64 });
                here.line = line;
            }
            here.offset += size;
        }
        Ok(here.line)
    }

    /// The start of the line that is `lines` before the end, and whether that is the first line.
    pub(super) fn backward(&mut self, lines: u64) -> io::Result<(u64, bool)> {
        let begin = self.first().offset;
        let coding = self.coding();
        let unit = coding.unit();
        // Units are counted from the start, so that half a unit at the end does not shift them.
        let mut stop = self.len - (self.len - begin) % unit as u64;
        let mut wanted = lines.max(1);
        while stop > begin {
            let start = stop.saturating_sub(BACKWARDS).max(begin);
            let size = (stop - start) as usize;
            if self.cancel.is_cancelled() {
                return Err(io::Error::other("the call was taken back"));
            }
            self.fill(start, size)?;
            if self.held.1 < size {
                return Err(shorter());
            }
            let block = &self.buffer[..size];
            // The end of the last line is not the start of another one.
            let upper = if stop == self.len && last_end(coding, block) == Some(size - unit) {
                size - unit
            } else {
                size
            };
            match coding {
                Coding::Utf16 { .. } => {
                    let mut upper = upper;
                    while let Some(at) = last_end(coding, &block[..upper]) {
                        wanted -= 1;
                        if wanted == 0 {
                            return Ok((start + (at + unit) as u64, false));
                        }
                        upper = at;
                    }
                }
                _ => {
                    let mut ends = memchr::memrchr_iter(b'\n', &block[..upper]);
                    match (1..=wanted).zip(&mut ends).last() {
                        Some((count, at)) if count == wanted => return Ok((start + at as u64 + 1, false)),
                        Some((count, _)) => wanted -= count,
                        None => {}
                    }
                }
            }
            stop = start;
        }
        Ok((begin, true))
    }
}

fn shorter() -> io::Error {
    io::Error::other("the file became shorter while it was read; read it again")
}

/// The last `\n` of a block.
fn last_end(coding: Coding, block: &[u8]) -> Option<usize> {
    match coding {
        Coding::Utf16 { .. } => (0..block.len() / 2)
            .rev()
            .map(|unit| unit * 2)
            .find(|at| coding.unit_at(block, *at) == Some(0x0a)),
        _ => memchr::memrchr(b'\n', block),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use helve_core::files::{PageRequest, PageStart};
    use pretty_assertions::assert_eq;

    use super::super::view;
    use super::*;
    use crate::page::detect::{Found, detect};

    /// Counts what is read of it.
    struct Counted<'a>(&'a [u8], Cell<usize>);

    impl Source for Counted<'_> {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
            let count = self.0.read_at(buffer, at)?;
            self.1.set(self.1.get() + count);
            Ok(count)
        }
    }

    #[test]
    fn a_long_line_near_the_end_costs_one_look_at_the_file() {
        for (before, after) in [(2_000_000, 20 << 20), (20_000, 30 << 20), (5_000_000, 1 << 20)] {
            let mut bytes = b"short\r\n".repeat(before);
            bytes.resize(bytes.len() + after, b'x');
            bytes.extend(b"\nthe last but one\nlast");
            let source = Counted(&bytes, Cell::new(0));
            let Found::Text(text) = detect(&source).unwrap() else { panic!("it is text") };
            let start = PageStart::FromEnd { lines: 3 };
            let request = PageRequest { path: "f".to_owned(), start, max_lines: 10, max_bytes: 1000 };
            let mut known = Known::default();
            let view = view(&source, text, &request, &Cancel::never(), &mut known).unwrap();
            let lines = before as u64 + 3;
            assert_eq!((view.first_line, known.total_lines), (Some(lines - 2), Some(lines)));
            assert_eq!(view.window.text, "x".repeat(1000));
            let read = source.1.get();
            assert!(read < bytes.len() + (1 << 20), "{read} of {} bytes were read", bytes.len());
        }
    }
}
