//! Codex's envelope: sections that name a file, hunks that start with `@@`.
//!
//! Markers may have white space around them. Between the lines of an added file an empty line counts as one of them, and
//! an empty line in a hunk is an empty context line. Several `@@` lines in a row lead the way from the outside inwards.

use super::{BadPatch, Deed, Ending, Hunk, Kind, Line, Patch, Section, Source, shown, unified};

pub(super) const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// What is between the first line, which begins the patch, and the last, which must end it.
pub(super) fn inside<'l, 'p>(lines: &'l [Source<'p>]) -> Result<&'l [Source<'p>], BadPatch> {
    match lines {
        [_, inner @ .., last] if last.text.trim() == END => Ok(inner),
        _ => Err(BadPatch {
            message: format!("The last line of the patch must be '{END}'"),
            hint: "If the patch was cut off, send it whole, or in several smaller patches.",
        }),
    }
}

pub(super) fn parse<'p>(lines: &[Source<'p>]) -> Result<Patch<'p>, BadPatch> {
    let mut sections = Vec::new();
    let mut rest = lines;
    while let Some((first, after)) = rest.split_first() {
        let marker = first.text.trim();
        rest = after;
        // Patches that stand one behind the other are one.
        if marker.is_empty() || marker == END || marker == BEGIN {
            continue;
        }
        let Some(head) = header(first.text.trim()) else {
            return Err(bad_header(*first));
        };
        if head.path.is_empty() {
            return Err(BadPatch::at(first.number, format_args!("'{marker}' names no file.")));
        }
        let body = after.iter().take_while(|line| !ends_section(line.text)).count();
        let (body, after) = after.split_at(body);
        rest = after;
        let deed = match head.kind {
            Head::Add => added(body)?,
            Head::Delete => deleted(body)?,
            Head::Update => updated(*first, head.path, body)?,
        };
        sections.push(Section { line: first.number, path: head.path.to_owned(), deed });
    }
    if sections.is_empty() {
        return Err(BadPatch::new("No files were modified: the patch has no section."));
    }
    Ok(Patch { sections, notes: Vec::new() })
}

enum Head {
    Add,
    Delete,
    Update,
}

struct Header<'p> {
    kind: Head,
    path: &'p str,
}

fn header(line: &str) -> Option<Header<'_>> {
    let one = |marker: &str, kind| line.strip_prefix(marker).map(|path| Header { kind, path: path.trim() });
    one(ADD, Head::Add).or_else(|| one(DELETE, Head::Delete)).or_else(|| one(UPDATE, Head::Update))
}

/// In front of a hunk's line there is a space, a plus or a minus, so a marker is one only where it stands at the start.
fn ends_section(line: &str) -> bool {
    let line = line.trim_end();
    header(line).is_some() || line == END || line == BEGIN
}

fn bad_header(line: Source<'_>) -> BadPatch {
    let what = format_args!(
        "'{}' is not a valid hunk header. Valid hunk headers: '{ADD} {{path}}', '{DELETE} {{path}}', '{UPDATE} {{path}}'",
        shown(line.text.trim())
    )
    .to_string();
    BadPatch::at(line.number, what)
}

fn without_cr(text: &str) -> &str {
    text.strip_suffix('\r').unwrap_or(text)
}

fn added<'p>(body: &[Source<'p>]) -> Result<Deed<'p>, BadPatch> {
    let mut content = String::new();
    let last = body.iter().rposition(|line| !line.text.trim().is_empty()).map_or(0, |at| at + 1);
    for line in &body[..last] {
        let text = without_cr(line.text);
        match text.strip_prefix('+') {
            Some(text) => content.push_str(text),
            None if text.is_empty() => {}
            None => {
                return Err(BadPatch::at(
                    line.number,
                    format_args!("'{}' must start with '+', like every line of an added file.", shown(text)),
                ));
            }
        }
        content.push('\n');
    }
    Ok(Deed::Add { content, replaces: true })
}

fn deleted<'p>(body: &[Source<'p>]) -> Result<Deed<'p>, BadPatch> {
    match body.iter().find(|line| !line.text.trim().is_empty()) {
        None => Ok(Deed::Delete { hunks: Vec::new() }),
        Some(line) => Err(bad_header(*line)),
    }
}

fn updated<'p>(head: Source<'p>, path: &str, mut body: &[Source<'p>]) -> Result<Deed<'p>, BadPatch> {
    let mut to = None;
    if let [first, rest @ ..] = body
        && let Some(path) = first.text.trim().strip_prefix(MOVE)
    {
        let path = path.trim();
        if path.is_empty() {
            return Err(BadPatch::at(first.number, format_args!("'{MOVE}' names no file.")));
        }
        to = Some(path.to_owned());
        body = rest;
    }
    let mut reader = Hunks::default();
    for line in body {
        reader.take(*line)?;
    }
    let hunks = reader.finish()?;
    if hunks.is_empty() && to.is_none() {
        return Err(BadPatch::at(
            head.number,
            format_args!("Update file hunk for path '{}' is empty", shown(path)),
        ));
    }
    Ok(Deed::Update { to, replaces: true, hunks })
}

#[derive(Default)]
struct Hunks<'p> {
    done: Vec<Hunk<'p>>,
    open: Option<Hunk<'p>>,
    /// Empty lines that are context only if more lines of the hunk follow.
    empty: usize,
}

impl<'p> Hunks<'p> {
    fn take(&mut self, line: Source<'p>) -> Result<(), BadPatch> {
        let text = without_cr(line.text);
        let marker = text.trim_end();
        if marker == "@@" || marker.starts_with("@@ ") {
            self.header(line.number, marker);
            return Ok(());
        }
        if marker == END_OF_FILE {
            self.context();
            return match &mut self.open {
                Some(hunk) if !hunk.lines.is_empty() => {
                    hunk.at_end = true;
                    self.close();
                    Ok(())
                }
                _ => Err(BadPatch::at(line.number, "Update hunk does not contain any lines")),
            };
        }
        let (kind, text) = match text.as_bytes().first() {
            None => {
                self.empty += usize::from(self.open.is_some());
                return Ok(());
            }
            Some(b' ') => (Kind::Keep, &text[1..]),
            Some(b'+') => (Kind::Add, &text[1..]),
            Some(b'-') => (Kind::Remove, &text[1..]),
            Some(_) => {
                return Err(BadPatch::at(
                    line.number,
                    format_args!(
                        "Unexpected line found in update hunk: '{}'. Every line should start with ' ' (context line), \
                         '+' (added line), or '-' (removed line)",
                        shown(text)
                    ),
                ));
            }
        };
        self.context();
        let hunk = self.open.get_or_insert_with(|| Hunk { line: line.number, ..Hunk::default() });
        hunk.lines.push(Line { kind, text, ending: Ending::FileFirst });
        Ok(())
    }

    /// The empty lines were context after all.
    fn context(&mut self) {
        let empty = std::mem::take(&mut self.empty);
        if let Some(hunk) = &mut self.open {
            let line = Line { kind: Kind::Keep, text: "", ending: Ending::FileFirst };
            hunk.lines.extend(std::iter::repeat_n(line, empty));
        }
    }

    fn header(&mut self, number: usize, marker: &'p str) {
        if self.open.as_ref().is_none_or(|hunk| !hunk.lines.is_empty()) {
            self.close();
        }
        let hunk = self.open.get_or_insert_with(|| Hunk { line: number, ..Hunk::default() });
        self.empty = 0;
        if let Some(range) = unified::range(marker) {
            hunk.at = Some(range.before());
            return;
        }
        // One space belongs to the marker, the rest is the line's indentation.
        let text = marker[2..].strip_prefix(' ').unwrap_or_default();
        let text = text.strip_suffix("@@").unwrap_or(text).trim_end();
        if !text.is_empty() {
            hunk.headers.push(text);
        }
    }

    fn close(&mut self) {
        self.empty = 0;
        self.done.extend(self.open.take());
    }

    fn finish(mut self) -> Result<Vec<Hunk<'p>>, BadPatch> {
        self.close();
        match self.done.iter().find(|hunk| hunk.lines.is_empty()) {
            Some(hunk) => Err(BadPatch::at(hunk.line, "Update hunk does not contain any lines")),
            None => Ok(self.done),
        }
    }
}
