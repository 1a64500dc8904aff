//! A window of a file as text: its encoding found by its bytes, its lines counted without holding more than the window.
//!
//! In come bytes that can be read at any place and a [`PageRequest`]; out goes a [`Page`]. What lies before the window is
//! passed over by counting line ends, what lies far behind it is not touched. `\n`, `\r\n` and a lone `\r` all end a
//! line and are shown as `\n`; an end after the last line begins no further one. Windows that are asked for one after
//! another, each where the one before ended, hold the whole text once, whatever their sizes.
//!
//! | module | does |
//! |---|---|
//! | `detect` | text or not, and in which encoding |
//! | `coding` | decoding, and line ends among bytes |
//! | `scan` | finding a line by counting, forwards or from the end |
//! | `window` | the text from a place on |
//! | `index` | places that are remembered between calls |
//!
//! Deliberately not here: how a page is shown to a model, and which size it has.

mod coding;
mod detect;
mod index;
mod scan;
#[cfg(test)]
mod tests;
mod window;

use std::io;

use helve_core::files::{ContentId, Endings, FileStat, Page, PageEnd, PageRequest, PageStart, Shape};
use helve_core::{Cancel, ErrorKind, ToolError, harmless};

use crate::source::Source;
use detect::{Found, Text};
use index::Known;
pub(crate) use index::{FileKey, Index};
use scan::{Reached, Scan};
use window::{Bounds, Ended, Window};

/// A window holds at most so many bytes, whatever is asked for.
const MOST_BYTES: u64 = 16 << 20;
/// And at least so many, so that any character fits.
const LEAST_BYTES: u64 = 4;
/// Lines behind a window are counted if they are in so many bytes.
const COUNT_REST: u64 = 8 << 20;

/// A window of a file of which nothing is remembered.
pub(crate) fn page(
    source: &dyn Source,
    path: String,
    stat: FileStat,
    request: &PageRequest,
) -> Result<Page, ToolError> {
    read(source, path, stat, request, &Cancel::never(), &mut Known::default())
}

/// The encoding that text is read in, by all its bytes or those that it begins with; none where that is UTF-8 or UTF-16, or
/// where they are no text.
pub(crate) fn old_encoding(head: &[u8]) -> Option<&'static str> {
    match detect::detect(&head) {
        Ok(Found::Text(Text { coding: found @ coding::Coding::Other(_), .. })) => Some(found.name()),
        _ => None,
    }
}

/// Whether a page shows all of a file.
pub(crate) fn shows_all(page: &Page, request: &PageRequest) -> bool {
    let from_its_start = !matches!(request.start, PageStart::Line { cursor: 1.., .. });
    let is_text = matches!(page.shape, Shape::Text(_));
    is_text && from_its_start && page.first_line == Some(1) && page.end == PageEnd::End
}

impl Index {
    /// A window of a file, with the help of what earlier ones found, and remembering what this one finds.
    pub(crate) fn page(
        &self,
        key: FileKey,
        source: &dyn Source,
        path: String,
        stat: FileStat,
        request: &PageRequest,
        cancel: &Cancel,
    ) -> Result<Page, ToolError> {
        // A small file is read as a whole each time.
        if source.len() <= detect::WHOLE {
            return read(source, path, stat, request, cancel, &mut Known::default());
        }
        let mut known = self.known(&key);
        let page = read(source, path, stat, request, cancel, &mut known)?;
        self.keep(key, known);
        Ok(page)
    }
}

fn read(
    source: &dyn Source,
    path: String,
    stat: FileStat,
    request: &PageRequest,
    cancel: &Cancel,
    known: &mut Known,
) -> Result<Page, ToolError> {
    let wrong = |error: io::Error| {
        if cancel.is_cancelled() {
            return ToolError::new(ErrorKind::Cancelled, "The call was taken back.");
        }
        ToolError::failed(format!("{} could not be read: {error}.", harmless::harmless(&path)))
    };
    // What is small is read once, so that its window and its hash are of the same moment.
    let whole = if source.len() <= detect::WHOLE { Some(whole(source).map_err(wrong)?) } else { None };
    let memory = whole.as_deref();
    let source: &dyn Source = match &memory {
        Some(bytes) => bytes,
        None => source,
    };
    let found = match known.found.take() {
        Some(found) => found,
        None => detect::detect(source).map_err(wrong)?,
    };
    let text = match known.found.insert(found) {
        Found::Text(text) => *text,
        Found::Binary { media_type, head } => {
            let shape = Shape::Binary { media_type: (*media_type).to_owned(), head: head.clone() };
            return Ok(Page {
                path,
                stat,
                shape,
                text: String::new(),
                endings: Endings::default(),
                first_line: None,
                lines: 0,
                end: PageEnd::End,
                total_lines: None,
                id: None,
            });
        }
    };
    let view = view(source, text, request, cancel, known).map_err(wrong)?;
    let is_all = view.first_line == Some(1) && view.is_from_start && view.end == PageEnd::End;
    let id = memory.filter(|_| is_all).map(|bytes| ContentId(format!("b3:{}", blake3::hash(bytes).to_hex())));
    Ok(Page {
        path,
        stat,
        shape: text.shape(),
        endings: view.window.endings,
        text: view.window.text,
        first_line: view.first_line,
        lines: view.window.lines,
        end: view.end,
        total_lines: known.total_lines,
        id,
    })
}

/// A window and where it stands in the file.
struct View {
    window: Window,
    first_line: Option<u64>,
    /// Whether the first line is shown from its first character.
    is_from_start: bool,
    end: PageEnd,
}

fn view(
    source: &dyn Source,
    text: Text,
    request: &PageRequest,
    cancel: &Cancel,
    known: &mut Known,
) -> io::Result<View> {
    let mut scan = Scan::new(source, text, cancel, std::mem::take(&mut known.buffer));
    let view = seen(&mut scan, request, known);
    known.buffer = scan.into_buffer();
    view
}

fn seen(scan: &mut Scan<'_>, request: &PageRequest, known: &mut Known) -> io::Result<View> {
    let bytes = request.max_bytes.clamp(LEAST_BYTES, MOST_BYTES);
    let bounds =
        Bounds { lines: request.max_lines.max(1), bytes: usize::try_from(bytes).unwrap_or(usize::MAX) };
    match request.start {
        PageStart::Line { line, cursor } => {
            let line = line.max(1);
            let mut place = known.before(line, cursor).unwrap_or_else(|| scan.first());
            if place.line < line {
                match scan.forward(place, line, known)? {
                    Reached::Line(start) => place = start,
                    Reached::End => return Ok(beyond(line)),
                }
            }
            let window = scan.window(place, cursor, bounds, known)?;
            numbered(scan, window, line, cursor == 0, known)
        }
        PageStart::FromEnd { lines } => {
            if scan.len - scan.first().offset <= COUNT_REST && known.total_lines.is_none() {
                scan.forward(scan.first(), u64::MAX, known)?;
            }
            let (offset, is_first) = scan.backward(lines)?;
            let number = known.total_lines.map(|total| total.saturating_sub(lines.max(1) - 1).max(1));
            let place = index::Place { line: number.unwrap_or(1), cursor: 0, offset };
            // Places whose line is not known must not be remembered.
            let is_known = is_first || number.is_some();
            let window = if is_known {
                scan.window(place, 0, bounds, known)?
            } else {
                scan.window(place, 0, bounds, &mut Known::default())?
            };
            let first = match window.end {
                _ if is_known => place.line,
                // To go on inside a line its number is needed, whatever that costs. What is behind it was counted already.
                Ended::Inside { .. } => {
                    let number = scan.number(offset, known)?;
                    known.total(number.saturating_add(lines.max(1) - 1));
                    number
                }
                Ended::File => {
                    return Ok(View { window, first_line: None, is_from_start: true, end: PageEnd::End });
                }
                Ended::Line(_) => {
                    return Ok(View { window, first_line: None, is_from_start: true, end: PageEnd::More });
                }
            };
            let shift = first - place.line;
            numbered(scan, shifted(window, shift), first, true, known)
        }
    }
}

/// A window whose places had their lines counted from another one.
fn shifted(mut window: Window, by: u64) -> Window {
    match &mut window.end {
        Ended::Line(place) | Ended::Inside { from: place, .. } => place.line += by,
        Ended::File => {}
    }
    window
}

/// The empty window behind the last line.
fn beyond(line: u64) -> View {
    View { window: Window::default(), first_line: Some(line), is_from_start: true, end: PageEnd::End }
}

/// A window whose first line's number is known, and the lines behind it if those are soon counted.
fn numbered(
    scan: &mut Scan<'_>,
    window: Window,
    first: u64,
    is_from_start: bool,
    known: &mut Known,
) -> io::Result<View> {
    let (end, place) = match window.end {
        Ended::File => {
            known.total(first + window.lines - 1);
            (PageEnd::End, None)
        }
        Ended::Line(place) => (PageEnd::Line(place.line), Some(place)),
        Ended::Inside { from, cursor } => (PageEnd::Inside { line: from.line, cursor }, Some(from)),
    };
    if let Some(place) = place {
        known.end(place);
        if known.total_lines.is_none() && scan.len.saturating_sub(place.offset) <= COUNT_REST {
            scan.forward(place, u64::MAX, known)?;
        }
    }
    Ok(View { window, first_line: Some(first), is_from_start, end })
}

/// Fills `buffer` from `at` as far as the file goes.
fn read_full(source: &dyn Source, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match source.read_at(&mut buffer[count..], at + count as u64) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// All bytes of a small file.
fn whole(source: &dyn Source) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(source.len()).unwrap_or(0)];
    let count = read_full(source, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}
