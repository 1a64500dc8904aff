//! A file's bytes as lines with their endings. Nothing is copied; a line costs four bytes.

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The lines of a file of less than 4 GiB.
pub(super) struct Lines<'f> {
    bytes: &'f [u8],
    /// Where each line starts, and at last where the file ends.
    starts: Vec<u32>,
    lone_cr: bool,
}

impl<'f> Lines<'f> {
    /// Cuts at `\n`, and with `lone_cr` also at a `\r` without one. None if the file is too large to number its bytes.
    pub(super) fn new(bytes: &'f [u8], lone_cr: bool) -> Option<Self> {
        let end = u32::try_from(bytes.len()).ok()?;
        // A byte order mark is part of no line.
        let first = if bytes.starts_with(BOM) { 3 } else { 0 };
        let mut starts = vec![first];
        for (at, byte) in (0..end).zip(bytes) {
            let cuts =
                *byte == b'\n' || (lone_cr && *byte == b'\r' && bytes.get(at as usize + 1) != Some(&b'\n'));
            if cuts && at + 1 < end {
                starts.push(at + 1);
            }
        }
        if end > first {
            starts.push(end);
        }
        Some(Lines { bytes, starts, lone_cr })
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Where a line starts; the end of the file for the one behind the last.
    pub(super) fn start(&self, line: usize) -> usize {
        self.starts.get(line).map_or(self.bytes.len(), |start| *start as usize)
    }

    /// The bytes of some lines with their endings.
    pub(super) fn between(&self, from: usize, to: usize) -> &'f [u8] {
        &self.bytes[self.start(from)..self.start(to)]
    }

    /// What is before the first line.
    pub(super) fn bom(&self) -> &'f [u8] {
        &self.bytes[..self.start(0).min(self.bytes.len())]
    }

    /// How a line ends; nothing for a last line without an ending.
    pub(super) fn ending(&self, line: usize) -> &'f [u8] {
        let whole = self.between(line, line + 1);
        let length = match whole {
            [.., b'\r', b'\n'] => 2,
            [.., b'\n'] => 1,
            // Lines are cut at it where one stands before another line, or where they would be.
            [.., b'\r'] if self.lone_cr => 1,
            _ => 0,
        };
        &whole[whole.len() - length..]
    }

    /// A line without its ending.
    pub(super) fn text(&self, line: usize) -> &'f [u8] {
        let whole = self.between(line, line + 1);
        &whole[..whole.len() - self.ending(line).len()]
    }

    /// The file's first ending.
    pub(super) fn first_ending(&self) -> &'f [u8] {
        let first = if self.len() == 0 { b"" } else { self.ending(0) };
        if first.is_empty() { b"\n" } else { first }
    }
}
