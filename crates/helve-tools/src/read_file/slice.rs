//! A window of a text that is at hand, by the same rules as a window of a file.

use helve_core::files::{Encoding, Endings, FileStat, Page, PageEnd, PageRequest, PageStart, Shape};

/// The window. Lines end with `\n`; one at the very end begins no further line.
pub(super) fn page(text: &str, path: String, stat: FileStat, request: &PageRequest) -> Page {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let total = if text.is_empty() { 0 } else { body.matches('\n').count() as u64 + 1 };
    let (first, cursor) = match request.start {
        PageStart::Line { line, cursor } => (line.max(1), cursor),
        PageStart::FromEnd { lines } => (total.saturating_sub(lines.max(1) - 1).max(1), 0),
    };
    let mut page = Page {
        path,
        stat,
        shape: Shape::Text(Encoding { name: "UTF-8".to_owned(), bom: false }),
        text: String::new(),
        endings: Endings::default(),
        first_line: Some(first),
        lines: 0,
        end: PageEnd::End,
        total_lines: Some(total),
        id: None,
    };
    if first > total {
        return page;
    }
    let skip = usize::try_from(first - 1).unwrap_or(usize::MAX);
    for (number, line) in (first..).zip(body.split('\n').skip(skip)) {
        if page.lines == request.max_lines.max(1) {
            page.end = PageEnd::Line(number);
            break;
        }
        let line = if number == first { after(line, cursor) } else { line };
        let room = usize::try_from(request.max_bytes.max(4)).unwrap_or(usize::MAX) - page.text.len();
        if number > first && line.len() + 1 > room {
            page.end = PageEnd::Line(number);
            break;
        }
        page.lines += 1;
        if line.len() > room {
            let part = &line[..line.floor_char_boundary(room)];
            page.text.push_str(part);
            page.end = PageEnd::Inside { line: number, cursor: cursor + part.chars().count() as u64 };
            break;
        }
        if number > first {
            page.text.push('\n');
        }
        page.text.push_str(line);
    }
    page
}

/// A line without its first characters.
fn after(line: &str, count: u64) -> &str {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count == 0 {
        return line;
    }
    line.char_indices().nth(count).map_or("", |(at, _)| &line[at..])
}
