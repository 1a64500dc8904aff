//! The edit engine: bytes of a file and edits in, the bytes afterwards out. It knows no bridge and no tool.
//!
//! Each edit's old text is looked for in the file as it was, by a ladder of levels. The first level that finds it decides,
//! and it must find it once, unless all places are wanted:
//!
//! | level | what does not count |
//! |---|---|
//! | exact | nothing |
//! | line endings | `\r\n`, `\n` and a lone `\r` are the same; a byte order mark is no text |
//! | trailing space | white space at the ends of lines |
//! | Unicode | typographic quotes, dashes and spaces, composed characters (NFC), and wide, narrow and joined forms |
//! | indentation | the depth of whole lines, if all are shifted alike; new lines are shifted back |
//!
//! A text that no level finds is tried again without line numbers in front of its lines, without a layer of escapes, and
//! without its last line ending at the end of a file that has none.
//! All edits apply or none does. Only the spans that were found change; inside them, lines that the edit repeats keep
//! the file's bytes too. A miss says what is nearest and how it differs.
//!
//! Everything is linear in the file for each edit, and the memory does not grow with the file beyond the result.
//!
//! | module | does |
//! |---|---|
//! | `lines` | lines with their own endings |
//! | `fold` | what does not count when texts are compared |
//! | `find` | the places of a text at one level |
//! | `indent` | from the text's indentation to the file's |
//! | `splice` | what stands in the place of a match |
//! | `clean` | line numbers and escapes that do not belong to the text |
//! | `near` | what is nearest to a text that was not found |

mod clean;
pub(crate) mod find;
pub(crate) mod fold;
pub(crate) mod indent;
pub(crate) mod lines;
pub(crate) mod near;
mod splice;

use std::ops::Range;

use helve_core::Cancel;

pub use clean::Cleaning;
pub use near::{Near, Region};

use find::{Found, Hit, MAX_HITS, Needle};
use fold::Fold;
use lines::{BOM, body, line_of};
use near::Looks;
use splice::{Change, Endings};

/// How many line numbers of an ambiguous text are told.
const MAX_LINES_TOLD: usize = 10;
/// So many edits that meet another one are told.
const MAX_OVERLAPS: usize = 16;

/// A text to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is there.
    pub old: String,
    /// What shall be there.
    pub new: String,
    /// Every place instead of the only one.
    pub all: bool,
}

/// How much did not count when a text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Exact,
    /// Line endings.
    LineEndings,
    /// And white space at the ends of lines.
    TrailingSpace,
    /// And typography and compatible forms of characters.
    Unicode,
    /// And indentation.
    Indentation,
}

impl Level {
    const LADDER: [Level; 5] =
        [Level::Exact, Level::LineEndings, Level::TrailingSpace, Level::Unicode, Level::Indentation];

    /// The name in details.
    pub fn name(self) -> &'static str {
        match self {
            Level::Exact => "exact",
            Level::LineEndings => "line_endings",
            Level::TrailingSpace => "trailing_space",
            Level::Unicode => "unicode",
            Level::Indentation => "indentation",
        }
    }
}

/// Where and how an edit was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The level that found it.
    pub level: Level,
    /// What was taken off its text first.
    pub cleaned: Option<Cleaning>,
    /// Whether the new text lost the same.
    pub renewed: bool,
    /// The number of the first line of each place, in the file as it was.
    pub lines: Vec<usize>,
}

/// A file after its edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// How each edit was applied, in their order.
    pub applied: Vec<Applied>,
    /// The bytes of the file as it was that were replaced, in ascending order and without overlap.
    pub spans: Vec<Range<usize>>,
}

/// Why an edit cannot be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Miss {
    /// Which edit, counted from 0.
    pub edit: usize,
    /// Why.
    pub reason: Reason,
}

/// What is wrong with an edit.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// Its old text is empty.
    Empty,
    /// Its old text is nowhere.
    Absent {
        /// The nearest texts, the best first.
        near: Vec<Near>,
        /// The part of the file to show.
        region: Option<Region>,
    },
    /// Its old text is at several places.
    Ambiguous {
        /// How many.
        count: usize,
        /// The level that found them.
        level: Level,
        /// The first of their lines.
        lines: Vec<usize>,
    },
    /// All places are wanted and there are too many.
    TooMany {
        /// How many.
        count: usize,
    },
    /// The file would become longer than is allowed.
    TooLong {
        /// How many bytes it may have.
        most: usize,
    },
    /// The only place starts or ends inside a character.
    InsideCharacter {
        /// Its line.
        line: usize,
    },
    /// The call was taken back while it was looked for.
    GivenUp,
    /// Its place overlaps with another edit's.
    Overlap {
        /// The other edit.
        with: usize,
        /// The line where they meet.
        line: usize,
    },
}

/// An edit with its places.
struct Located {
    hits: Vec<Hit>,
    level: Level,
    cleaned: Option<Cleaning>,
    renewed: bool,
    old: String,
    new: String,
}

/// Applies all edits to `file`, or says for each one that cannot be applied why. The result is at most `most` bytes long.
pub fn apply(file: &[u8], edits: &[Edit], most: usize) -> Result<Edited, Vec<Miss>> {
    apply_until(file, edits, most, &Cancel::never())
}

/// [`apply`] that ends early where the call is taken back: nobody waits for it then.
pub(crate) fn apply_until(
    file: &[u8],
    edits: &[Edit],
    most: usize,
    cancel: &Cancel,
) -> Result<Edited, Vec<Miss>> {
    let mut located = Vec::with_capacity(edits.len());
    let (mut misses, mut looks) = (Vec::new(), Looks::default());
    for (edit, wanted) in edits.iter().enumerate() {
        match locate(file, wanted, &mut looks, cancel) {
            Ok(found) => located.push(found),
            Err(Reason::GivenUp) => return Err(vec![Miss { edit, reason: Reason::GivenUp }]),
            Err(reason) => misses.push(Miss { edit, reason }),
        }
    }
    if !misses.is_empty() {
        return Err(misses);
    }
    let mut places: Vec<(usize, &Hit)> = Vec::new();
    for (edit, found) in located.iter().enumerate() {
        places.extend(found.hits.iter().map(|hit| (edit, hit)));
    }
    places.sort_by_key(|(edit, hit)| (hit.span.start, hit.span.end, *edit));
    let misses = overlaps(file, &places);
    if !misses.is_empty() {
        return Err(misses);
    }
    let changes: Vec<Change<'_>> =
        located.iter().map(|found| Change::new(&found.old, &found.new, found.level)).collect();
    let mut bytes = Vec::with_capacity(file.len() + edits.iter().map(|edit| edit.new.len()).sum::<usize>());
    let mut endings = Endings::default();
    let mut kept = 0;
    for (edit, hit) in &places {
        bytes.extend_from_slice(&file[kept..hit.span.start]);
        changes[*edit].write(file, hit, &mut endings, &mut bytes);
        kept = hit.span.end;
        // A short text at very many places may become very long.
        if bytes.len() + (file.len() - kept) > most {
            return Err(vec![Miss { edit: *edit, reason: Reason::TooLong { most } }]);
        }
    }
    bytes.extend_from_slice(&file[kept..]);
    let spans = places.iter().map(|(_, hit)| hit.span.clone()).collect();
    let applied = located
        .iter()
        .map(|found| Applied {
            level: found.level,
            cleaned: found.cleaned,
            renewed: found.renewed,
            lines: found.hits.iter().take(MAX_LINES_TOLD).map(|hit| hit.line).collect(),
        })
        .collect();
    Ok(Edited { bytes, applied, spans })
}

/// One miss for each edit that meets an earlier one.
fn overlaps(file: &[u8], places: &[(usize, &Hit)]) -> Vec<Miss> {
    let mut misses: Vec<Miss> = Vec::new();
    for pair in places.windows(2) {
        let [(first, a), (second, b)] = pair else { continue };
        if b.span.start < a.span.end && misses.len() < MAX_OVERLAPS {
            let line = line_of(file, b.span.start);
            let (with, edit) = (*first.min(second), *first.max(second));
            misses.push(Miss { edit, reason: Reason::Overlap { with, line } });
        }
    }
    misses
}

fn locate(file: &[u8], edit: &Edit, looks: &mut Looks, cancel: &Cancel) -> Result<Located, Reason> {
    let old = edit.old.strip_prefix(BOM).unwrap_or(&edit.old);
    let new = edit.new.strip_prefix(BOM).unwrap_or(&edit.new);
    if old.is_empty() {
        return Err(Reason::Empty);
    }
    let (found, torn) = climb(file, old, edit.all, cancel)?;
    if let Some((level, hits)) = found {
        let (old, new) = (old.to_owned(), new.to_owned());
        return Ok(Located { hits, level, cleaned: None, renewed: false, old, new });
    }
    for cleaned in clean::variants(old, new) {
        if cleaned.old.is_empty() {
            continue;
        }
        if let (Some((level, hits)), _) = climb(file, &cleaned.old, edit.all, cancel)? {
            return Ok(located(hits, level, cleaned, new));
        }
    }
    if let Some((level, hit, cleaned)) = at_open_end(file, old, new) {
        return Ok(located(vec![hit], level, cleaned, new));
    }
    if let Some(line) = torn {
        return Err(Reason::InsideCharacter { line });
    }
    let (near, region) = looks.look(file, old);
    Err(Reason::Absent { near, region })
}

fn located(hits: Vec<Hit>, level: Level, cleaned: clean::Cleaned, given: &str) -> Located {
    let clean::Cleaned { what, old, new } = cleaned;
    Located { hits, level, cleaned: Some(what), renewed: new != given, old, new }
}

/// The place of a text at the end of a file that does not end its last line, as the text does.
fn at_open_end(file: &[u8], old: &str, new: &str) -> Option<(Level, Hit, clean::Cleaned)> {
    if file.ends_with(b"\n") || file.ends_with(b"\r") {
        return None;
    }
    let cleaned = clean::without_last_ending(old, new)?;
    for level in Level::LADDER {
        let hits = at_level(file, &cleaned.old, level).map(|found| found.hits).unwrap_or_default();
        if let Some(hit) = hits.into_iter().next_back().filter(|hit| hit.span.end == file.len()) {
            return Some((level, hit, cleaned));
        }
    }
    None
}

/// The level that finds a text, with its places.
type Climbed = (Option<(Level, Vec<Hit>)>, Option<usize>);

/// The first level that finds the text decides; also the line of a place that no level could take.
fn climb(file: &[u8], old: &str, all: bool, cancel: &Cancel) -> Result<Climbed, Reason> {
    let mut torn = None;
    for level in Level::LADDER {
        if cancel.is_cancelled() {
            return Err(Reason::GivenUp);
        }
        let Some(found) = at_level(file, old, level) else { continue };
        torn = torn.or(found.torn);
        match found.count {
            0 => continue,
            1 if let (false, Some(met)) = (all, found.met) => {
                let lines = found.hits.iter().map(|hit| hit.line).chain([met]).collect();
                return Err(Reason::Ambiguous { count: 2, level, lines });
            }
            1 => return Ok((Some((level, found.hits)), None)),
            count if all && count > MAX_HITS => return Err(Reason::TooMany { count }),
            _ if all => return Ok((Some((level, found.hits)), None)),
            count => {
                let lines = found.hits.iter().take(MAX_LINES_TOLD).map(|hit| hit.line).collect();
                return Err(Reason::Ambiguous { count, level, lines });
            }
        }
    }
    Ok((None, torn))
}

fn at_level(file: &[u8], old: &str, level: Level) -> Option<Found> {
    match level {
        Level::Exact => return find::exact(file, old),
        // Where nobody has a carriage return, the endings are the same already, and no mark can be in the way.
        Level::LineEndings if !old.contains('\n') && !old.contains('\r') && body(file) == 0 => return None,
        Level::Unicode if old.is_ascii() && file.is_ascii() => return None,
        _ => {}
    }
    Some(find::find(file, &Needle::new(old, Fold::from(level))?))
}

/// Tests count how much work a file costs; nobody else does.
#[cfg(not(test))]
pub(crate) fn count_steps(_: usize) {}

#[cfg(test)]
pub(crate) fn count_steps(steps: usize) {
    STEPS.with(|count| count.set(count.get() + steps));
}

#[cfg(test)]
thread_local! {
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
