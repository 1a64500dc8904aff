//! What stands in the place of a match afterwards: the file's own bytes for every line that the edit repeats, the new
//! text for the rest.
//!
//! The old and the new text are compared line by line once for an edit. Lines that both have keep the file's bytes,
//! whatever did not count when they were found (endings, trailing space, typography, indentation). A new line takes the
//! ending of what it replaces, else that of its neighbour, else the file's.

use std::ops::Range;

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices};

use super::Level;
use super::find::Hit;
use super::fold::{Fold, cuts};
use super::indent::Shift;
use super::lines::{Line, body, indent, lines, trim_end};

/// Longer texts are replaced as one piece between their common head and tail.
const MAX_COMPARED: usize = 2_000;
/// A longer line is replaced whole.
const MAX_REFINED: usize = 4 << 10;

/// One line of the old or the new text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Token<'a> {
    text: &'a str,
    ended: bool,
}

/// How an edit turns its old text into its new one.
pub(crate) struct Change<'a> {
    level: Level,
    old: Vec<Token<'a>>,
    new: Vec<Token<'a>>,
    /// The ending that the new text itself uses, for a file that has none.
    own_ending: &'static str,
    steps: Vec<DiffOp>,
    /// The new text as it is: it differs from the old one in its line endings alone, so they are what is meant.
    literal: Option<&'a str>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(old: &'a str, new: &'a str, level: Level) -> Change<'a> {
        // A lone `\r` ends a line of the new text only where it does in the old one; else it is a character.
        let lone = lines(old.as_bytes(), 0..old.len()).any(|line| old[line.end..line.next] == *"\r");
        let old_lines = tokens(old, lone);
        let new_lines = tokens(new, lone);
        let literal = (level == Level::Exact && old != new && old_lines == new_lines).then_some(new);
        Change {
            level,
            steps: compare(&old_lines, &new_lines),
            old: old_lines,
            new: new_lines,
            own_ending: if new.contains("\r\n") { "\r\n" } else { "\n" },
            literal,
        }
    }

    /// Appends what stands in the place of `hit`.
    pub(crate) fn write(&self, file: &[u8], hit: &Hit, endings: &mut Endings, out: &mut Vec<u8>) {
        if let Some(text) = self.literal {
            out.extend_from_slice(text.as_bytes());
            return;
        }
        let found: Vec<Line> = lines(file, hit.span.clone()).collect();
        // A text that ends in a line ending has no last line of its own, and a match of it neither.
        let found = &found[..found.len().min(self.old.len())];
        let shift = self.shift(file, found);
        let mut last_ending: Option<Range<usize>> = None;
        for step in &self.steps {
            let (tag, old, new) = step.as_tag_tuple();
            if tag == DiffTag::Equal {
                for line in found.get(old).unwrap_or_default() {
                    out.extend_from_slice(&file[line.start..line.next]);
                    last_ending = some_ending(line).or(last_ending);
                }
                continue;
            }
            let replaced = found.get(old.clone()).unwrap_or_default();
            for (i, token) in self.new[new.clone()].iter().enumerate() {
                let pair = (old.len() == new.len()).then(|| (self.old[old.start + i], replaced.get(i)));
                match (pair, &shift) {
                    (Some((before, Some(line))), shift) => {
                        self.refined(before.text, token.text, line.text(file), shift.as_ref(), out)
                    }
                    (_, Some(shift)) => indented(token.text, shift, out),
                    _ => out.extend_from_slice(token.text.as_bytes()),
                }
                if !token.ended {
                    continue;
                }
                let own = replaced.get(i).and_then(some_ending);
                let own = own.or_else(|| replaced.iter().rev().take(2).find_map(some_ending));
                let next = || found.iter().find_map(some_ending);
                let ending = own.or_else(|| last_ending.clone()).or_else(next);
                match ending.or_else(|| endings.near(file, hit.span.end)) {
                    Some(ending) => out.extend_from_slice(&file[ending]),
                    None => out.extend_from_slice(self.own_ending.as_bytes()),
                }
            }
        }
    }

    fn shift(&self, file: &[u8], found: &[Line]) -> Option<Shift> {
        if self.level != Level::Indentation {
            return None;
        }
        Shift::between(
            self.old.iter().map(|token| token.text.as_bytes()).zip(found.iter().map(|l| l.text(file))),
        )
    }

    /// A changed line: what it shares with the old one at its head and its tail keeps the file's bytes.
    fn refined(&self, old: &str, new: &str, file: &[u8], shift: Option<&Shift>, out: &mut Vec<u8>) {
        let (old_indent, new_indent, file_indent) =
            (indent(old.as_bytes()), indent(new.as_bytes()), indent(file));
        if let Some(shift) = shift {
            if trim_end(new.as_bytes()).is_empty() {
                return;
            }
            out.extend(shift.apply(&new.as_bytes()[..new_indent]));
            let (old, new, file) = (&old[old_indent..], &new[new_indent..], &file[file_indent..]);
            return keep_common(old, new, file, out);
        }
        if self.level < Level::Unicode {
            return out.extend_from_slice(new.as_bytes());
        }
        keep_common(old, new, file, out)
    }
}

fn some_ending(line: &Line) -> Option<Range<usize>> {
    (line.end < line.next).then_some(line.end..line.next)
}

fn indented(text: &str, shift: &Shift, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if trim_end(bytes).is_empty() {
        return;
    }
    let at = indent(bytes);
    out.extend(shift.apply(&bytes[..at]));
    out.extend_from_slice(&bytes[at..]);
}

/// `new`, but with the bytes of `file` where `old`, which `file` was found by, and `new` have the same head and tail.
fn keep_common(old: &str, new: &str, file: &[u8], out: &mut Vec<u8>) {
    let plain = old.as_bytes() == file || old.is_ascii() && file.is_ascii();
    if plain || old.len().max(new.len()).max(file.len()) > MAX_REFINED {
        return out.extend_from_slice(new.as_bytes());
    }
    let head = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let room = old.len().min(new.len()) - head;
    let tail = old.bytes().rev().zip(new.bytes().rev()).take(room).take_while(|(a, b)| a == b).count();
    let (old_cuts, file_cuts) = (cuts(old.as_bytes()), cuts(file));
    let there =
        |folded: usize| file_cuts.binary_search_by_key(&folded, |cut| cut.1).ok().map(|i| file_cuts[i].0);
    let start =
        old_cuts.iter().rev().filter(|cut| cut.0 <= head).find_map(|cut| Some((cut.0, there(cut.1)?)));
    let end =
        old_cuts.iter().filter(|cut| cut.0 >= old.len() - tail).find_map(|cut| Some((cut.0, there(cut.1)?)));
    let (Some(start), Some(end)) = (start, end) else { return out.extend_from_slice(new.as_bytes()) };
    let new_end = new.len() - (old.len() - end.0);
    if start.0 > new_end
        || start.1 > end.1
        || !new.is_char_boundary(start.0)
        || !new.is_char_boundary(new_end)
    {
        return out.extend_from_slice(new.as_bytes());
    }
    out.extend_from_slice(&file[..start.1]);
    out.extend_from_slice(&new.as_bytes()[start.0..new_end]);
    out.extend_from_slice(&file[end.1..]);
}

/// The lines of a text, which with `lone` also a lone `\r` ends.
fn tokens(text: &str, lone: bool) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    if lone {
        for line in lines(text.as_bytes(), 0..text.len()) {
            all.push(Token { text: &text[line.start..line.end], ended: line.end < line.next });
        }
    } else {
        for line in text.split_inclusive('\n') {
            let ended = line.ends_with('\n');
            let line = line.strip_suffix('\n').unwrap_or(line);
            let line = if ended { line.strip_suffix('\r').unwrap_or(line) } else { line };
            all.push(Token { text: line, ended });
        }
    }
    if all.last().is_some_and(|last| last.text.is_empty() && !last.ended) {
        all.pop();
    }
    all
}

/// Which lines stay and which are replaced.
fn compare(old: &[Token<'_>], new: &[Token<'_>]) -> Vec<DiffOp> {
    if old.len().max(new.len()) <= MAX_COMPARED {
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let room = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    let (old_len, new_len) = (old.len() - head - tail, new.len() - head - tail);
    vec![
        DiffOp::Equal { old_index: 0, new_index: 0, len: head },
        DiffOp::Replace { old_index: head, old_len, new_index: head, new_len },
        DiffOp::Equal { old_index: head + old_len, new_index: head + new_len, len: tail },
    ]
}

/// The line endings near a place, found with one pass over the file for places in ascending order.
#[derive(Default)]
pub(crate) struct Endings {
    next: Option<Range<usize>>,
    /// The last ending of the file, once a place behind it was asked for.
    last: Option<Option<Range<usize>>>,
}

impl Endings {
    /// The ending of the line at `at`; else, in the last line, that of the line before it.
    fn near(&mut self, file: &[u8], at: usize) -> Option<Range<usize>> {
        if self.next.as_ref().is_some_and(|next| next.start >= at) {
            return self.next.clone();
        }
        if let Some(last) = &self.last {
            return last.clone();
        }
        self.next = lines(file, at..file.len()).next().as_ref().and_then(some_ending);
        if self.next.is_some() {
            return self.next.clone();
        }
        let last = memchr::memrchr2(b'\n', b'\r', &file[body(file)..at]).map(|last| {
            let last = last + body(file);
            if file[..=last].ends_with(b"\r\n") { last - 1..last + 1 } else { last..last + 1 }
        });
        self.last.insert(last).clone()
    }
}

/// The level at which the lines are compared.
impl From<Level> for Fold {
    fn from(level: Level) -> Fold {
        match level {
            Level::Exact | Level::LineEndings => Fold::Nothing,
            Level::TrailingSpace => Fold::Trailing,
            Level::Unicode => Fold::Unicode,
            Level::Indentation => Fold::Indent,
        }
    }
}
