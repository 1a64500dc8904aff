//! The text of a window: decoded from a known place on, until a bound or the end of the file.

use std::io;

use helve_core::files::Endings;
use memchr::{memchr, memchr_iter};

use super::coding::{Coding, Then};
use super::index::{Known, Place};
use super::scan::Scan;

/// Bytes that are read at once.
const READ: usize = 64 << 10;

/// What a window holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) text: String,
    pub(super) lines: u64,
    pub(super) endings: Endings,
    pub(super) end: Ended,
}

/// Where it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ended {
    #[default]
    File,
    /// Before this line.
    Line(Place),
    /// Inside a line after so many characters; the place is one to go on from, not after them.
    Inside { from: Place, cursor: u64 },
}

/// The bounds of a window.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) lines: u64,
    pub(super) bytes: usize,
}

/// The line that is being read.
struct Line {
    start: Place,
    /// How long the window's text was before it, without the `\n` between.
    before: usize,
}

impl Scan<'_> {
    /// Fills a window from character `cursor` of the line that `from` is in. That line's text counts from there; it is
    /// empty where the line is shorter.
    pub(super) fn window(
        &mut self,
        from: Place,
        cursor: u64,
        bounds: Bounds,
        known: &mut Known,
    ) -> io::Result<Window> {
        let coding = self.coding();
        let mut window = Window::default();
        let mut here = from;
        // Only the first line is entered in its middle.
        let mut begin = cursor;
        let mut line: Option<Line> = None;
        let mut piece = String::new();
        loop {
            let (block, last) = self.block(here.offset, READ)?;
            if block.is_empty() {
                return Ok(window);
            }
            let mut at = 0;
            let mut plain = coding == Coding::Utf8;
            while at < block.len() {
                if plain && line.is_none() && begin == 0 {
                    plain = false;
                    if let Some((lines, next)) = window.whole_lines(block, at, bounds) {
                        at = next;
                        here.line += lines;
                        continue;
                    }
                }
                let base = here.offset;
                let end = coding.next_end(block, at);
                let (stop, then) = match end {
                    Some(end) => (end.stop, Then::LineEnd),
                    None if last => (block.len(), Then::FileEnd),
                    None => (block.len(), Then::More),
                };
                let spot = Place { offset: base + at as u64, ..here };
                let current = match &line {
                    Some(line) => line,
                    None if window.lines == bounds.lines => {
                        window.end = Ended::Line(spot);
                        return Ok(window);
                    }
                    None => {
                        let before = window.text.len();
                        if window.lines > 0 {
                            window.text.push('\n');
                        }
                        window.lines += 1;
                        line.insert(Line { start: spot, before })
                    }
                };
                piece.clear();
                let used = coding.decode(&block[at..stop], then, &mut piece);
                let counted = then == Then::More || begin > here.cursor;
                let chars = if counted { piece.chars().count() as u64 } else { 0 };
                let skip = begin.saturating_sub(here.cursor).min(chars);
                window.text.push_str(after_chars(&piece, skip));
                if window.text.len() > bounds.bytes {
                    if window.lines > 1 {
                        window.text.truncate(current.before);
                        window.lines -= 1;
                        window.end = Ended::Line(current.start);
                    } else {
                        let kept = window.text.floor_char_boundary(bounds.bytes);
                        window.text.truncate(kept);
                        let cursor = begin + window.text.chars().count() as u64;
                        window.end = Ended::Inside { from: spot, cursor };
                    }
                    return Ok(window);
                }
                here.cursor += chars;
                match end {
                    Some(end) => {
                        let is_pair = end.next - end.stop > coding.unit();
                        window.endings.crlf |= is_pair;
                        window.endings.lf |= !is_pair;
                        at = end.next;
                        line = None;
                        here.line += 1;
                        here.cursor = 0;
                        begin = 0;
                    }
                    None => {
                        window.endings.open = then == Then::FileEnd;
                        at += used;
                        let spot = Place { offset: base + at as u64, ..here };
                        if used > 0 {
                            known.pass(spot);
                        }
                        break;
                    }
                }
            }
            here.offset += at as u64;
            if last && at >= block.len() {
                return Ok(window);
            }
        }
    }
}

impl Window {
    /// Takes as many whole lines of a block as fit, all at once, where they are valid UTF-8 that ends its lines with
    /// `\n` alone. Says how many, and where the next one begins.
    fn whole_lines(&mut self, block: &[u8], at: usize, bounds: Bounds) -> Option<(u64, usize)> {
        let between = usize::from(self.lines > 0);
        let room = bounds.bytes.checked_sub(self.text.len() + between)?;
        // The end of the last line is not part of the text.
        let part = &block[at..block.len().min(at.saturating_add(room).saturating_add(1))];
        let wanted = usize::try_from(bounds.lines - self.lines).unwrap_or(usize::MAX);
        let (count, end) = memchr_iter(b'\n', part).take(wanted).enumerate().last()?;
        let text =
            std::str::from_utf8(&part[..end]).ok().filter(|text| memchr(b'\r', text.as_bytes()).is_none())?;
        if between > 0 {
            self.text.push('\n');
        }
        self.text.push_str(text);
        let count = count as u64 + 1;
        self.lines += count;
        self.endings.lf = true;
        Some((count, at + end + 1))
    }
}

/// A text without its first characters.
fn after_chars(text: &str, count: u64) -> &str {
    if count == 0 {
        return text;
    }
    text.char_indices().nth(usize::try_from(count).unwrap_or(usize::MAX)).map_or("", |(at, _)| &text[at..])
}
