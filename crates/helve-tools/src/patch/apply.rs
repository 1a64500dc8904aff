//! Makes the new bytes of a file. What a hunk keeps is copied, byte for byte; only what it adds is written anew.

use helve_core::Cancel;

use super::lines::Lines;
use super::locate::{Miss, Place, Trouble, core, locate};
use super::{Ending, Hunk, Kind};
use crate::edit::fold::Fold;
use crate::edit::indent::Shift;
use crate::edit::lines::indent;

/// A file after its hunks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) bytes: Vec<u8>,
    /// Where each hunk was found.
    pub(super) places: Vec<Place>,
}

/// Applies all hunks to a file, or says what is wrong with each that cannot be.
pub(super) fn apply(file: &[u8], hunks: &[Hunk<'_>], cancel: &Cancel) -> Result<Applied, Vec<Miss>> {
    // The envelope does not say what ends a line, so a lone carriage return may. A diff does: only `\n`.
    let lone_cr = hunks.iter().flat_map(|hunk| &hunk.lines).all(|line| line.ending == Ending::FileFirst);
    let Some(lines) = Lines::new(file, lone_cr) else {
        return Err((0..hunks.len()).map(|hunk| Miss { hunk, trouble: Trouble::TooMuch }).collect());
    };
    let places = locate(&lines, hunks, cancel)?;
    let mut order: Vec<usize> = (0..hunks.len()).collect();
    order.sort_by_key(|at| core(&hunks[*at], &places[*at]));
    let mut out = Out { lines: &lines, bytes: lines.bom().to_vec(), end: End::Closed };
    let mut copied = 0;
    for at in order {
        let (hunk, place) = (&hunks[at], &places[at]);
        let (from, to) = core(hunk, place);
        let fits = out.copy(copied, from).and_then(|()| out.hunk(hunk, place, from..to));
        fits.map_err(|trouble| vec![Miss { hunk: at, trouble }])?;
        copied = to;
    }
    out.copy(copied, lines.len()).map_err(|trouble| vec![Miss { hunk: hunks.len() - 1, trouble }])?;
    Ok(Applied { bytes: out.finish(), places })
}

/// How what was written so far ends.
enum End {
    /// With the ending of a line, or nothing was written.
    Closed,
    /// With a line of the file that has no ending.
    Open,
    /// With an added line whose ending has so many bytes that go if the file has no last ending.
    Added(usize),
    /// With a line that must be the last.
    Last,
}

struct Out<'o, 'f> {
    lines: &'o Lines<'f>,
    bytes: Vec<u8>,
    end: End,
}

impl Out<'_, '_> {
    /// Copies lines of the file.
    fn copy(&mut self, from: usize, to: usize) -> Result<(), Trouble> {
        if from >= to {
            return Ok(());
        }
        self.next_line()?;
        self.bytes.extend_from_slice(self.lines.between(from, to));
        self.end = if self.lines.ending(to - 1).is_empty() { End::Open } else { End::Closed };
        Ok(())
    }

    /// Another line follows.
    fn next_line(&mut self) -> Result<(), Trouble> {
        match self.end {
            End::Closed | End::Added(_) => {}
            End::Open => self.bytes.extend_from_slice(self.lines.first_ending()),
            End::Last => return Err(Trouble::NotTheEnd),
        }
        self.end = End::Closed;
        Ok(())
    }

    fn hunk(&mut self, hunk: &Hunk<'_>, place: &Place, core: std::ops::Range<usize>) -> Result<(), Trouble> {
        let shift = shift(self.lines, hunk, place);
        let says_end = hunk.old().any(|line| line.ending == Ending::Missing);
        let mut at = place.start;
        for line in &hunk.lines {
            match line.kind {
                Kind::Add => {}
                Kind::Keep if core.contains(&at) => {
                    self.copy(at, at + 1)?;
                    at += 1;
                    continue;
                }
                Kind::Keep | Kind::Remove => {
                    at += 1;
                    continue;
                }
            }
            self.next_line()?;
            let text = line.text.as_bytes();
            let depth = indent(text);
            match &shift {
                // A line without text needs no indentation.
                Some(shift) if depth < text.len() => {
                    self.bytes.extend(shift.apply(&text[..depth]));
                    self.bytes.extend_from_slice(&text[depth..]);
                }
                _ => self.bytes.extend_from_slice(text),
            }
            let ending = match line.ending {
                Ending::FileFirst => self.lines.first_ending(),
                Ending::Beside => self.beside(at, place),
                Ending::Lf => b"\n",
                Ending::CrLf => b"\r\n",
                Ending::Missing => {
                    self.end = End::Last;
                    continue;
                }
            };
            self.bytes.extend_from_slice(ending);
            self.end = if says_end { End::Closed } else { End::Added(ending.len()) };
        }
        Ok(())
    }

    /// The ending of the nearest line of the file that has one, those of the hunk first.
    fn beside(&self, at: usize, place: &Place) -> &'static [u8] {
        let before = at.checked_sub(1);
        let behind = Some(at).filter(|line| *line < self.lines.len());
        let inside = |line: &usize| (place.start..place.start + place.old_len).contains(line);
        let near = [before.filter(inside), behind.filter(inside), before, at.checked_sub(2), behind];
        let mut endings = near.into_iter().flatten().map(|line| self.lines.ending(line));
        match endings.find(|ending| !ending.is_empty()) {
            Some(b"\r\n") => b"\r\n",
            _ => b"\n",
        }
    }

    /// A file without a last ending stays so, unless the patch says otherwise.
    fn finish(mut self) -> Vec<u8> {
        let count = self.lines.len();
        if let End::Added(ending) = self.end
            && count > 0
            && self.lines.ending(count - 1).is_empty()
        {
            self.bytes.truncate(self.bytes.len() - ending);
        }
        self.bytes
    }
}

/// How the lines that a hunk adds are indented, where it was found in spite of its indentation.
fn shift(lines: &Lines<'_>, hunk: &Hunk<'_>, place: &Place) -> Option<Shift> {
    if place.level != Fold::Indent {
        return None;
    }
    let old = hunk.old().take(place.old_len).enumerate();
    Shift::between(old.map(|(at, line)| (line.text.as_bytes(), lines.text(place.start + at))))
}
