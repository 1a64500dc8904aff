//! Finding the placeholders of a template and how each must be written.
//!
//! The template is read like any command; a placeholder's style follows from the part of the word in which it stands.
//! Whether any style is safe there is decided in `reread`. The filled line is run by `sh`, which is bash on one machine
//! and a smaller shell on the next, so it is read in both dialects, and both must come to the same.

use super::reread::{self, Context};
use super::words::{self, Part, PartKind, Reading, Role, Word};
use super::{Piece, Style, TemplateError, Value};
use crate::Span;
use crate::parse::parse;
use crate::tree::Dialect;

/// Names for the two values that people write by habit.
const HABITS: [(&str, &str); 12] = [
    ("cmd", "{command}"),
    ("cmdline", "{command}"),
    ("script", "{command}"),
    ("dir", "{cwd}"),
    ("directory", "{cwd}"),
    ("folder", "{cwd}"),
    ("path", "{cwd}"),
    ("pwd", "{cwd}"),
    ("workdir", "{cwd}"),
    ("working_dir", "{cwd}"),
    ("workingdir", "{cwd}"),
    ("workspace", "{cwd}"),
];

/// Cuts a template into text and slots.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let pieces = pieces_in(text, Dialect::Bash)?;
    match pieces_in(text, Dialect::Posix) {
        Ok(same) if same == pieces => Ok(pieces),
        _ => Err(TemplateError::OnlyBash),
    }
}

fn pieces_in(text: &str, dialect: Dialect) -> Result<Vec<Piece>, TemplateError> {
    let script = parse(text, dialect);
    if let Some(fault) = script.fault {
        return Err(TemplateError::Unreadable(fault.reason));
    }
    let reading = words::read(text, &script);
    let places = places(&reading);
    let mut quoted = Vec::new();
    let mut pieces = Vec::new();
    let mut kept = 0;
    let mut runs_command = false;
    for (at, braced) in braces(text) {
        let place = find(&places, at);
        let Some((value, raw)) = placeholder(braced) else {
            check_spelling(text, at, braced, place)?;
            continue;
        };
        if escaped(text, at) && !place.is_some_and(|place| place.kind == PartKind::Single) {
            continue;
        }
        let style = if raw { Style::Raw } else { style(&reading, at, braced, value, place)? };
        if let Some(place) = place.filter(|_| !raw) {
            if place.word.role == Role::Test {
                return Err(TemplateError::OnlyBash);
            }
            if !reread::is_safe(place.word, place.context, braced, value, reading.pipes) {
                return Err(read_again(braced));
            }
            quoted.push(at);
        }
        runs_command |= value == Value::Command && !place.is_some_and(|place| place.word.role == Role::File);
        pieces.push(Piece::Text(text.get(kept..at).unwrap_or_default().to_owned()));
        pieces.push(Piece::Slot { value, style });
        kept = at + braced.len();
    }
    pieces.push(Piece::Text(text.get(kept..).unwrap_or_default().to_owned()));
    if reread::stored_and_read_again(&reading, &quoted) {
        return Err(read_again("{command}"));
    }
    match runs_command {
        true if reading.redirects_both => Err(TemplateError::OnlyBash),
        true => Ok(pieces),
        false => Err(TemplateError::NoCommand),
    }
}

/// A part of a word of the template itself, with what decides how a placeholder in it is written.
struct Place<'r> {
    span: Span,
    kind: PartKind,
    word: &'r Word,
    context: Context,
}

/// The parts of all words, in source order.
fn places(reading: &Reading) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    for (word, context) in reading.calls.iter().flat_map(reread::contexts) {
        let place = |part: &Part| Place { span: part.span, kind: part.kind, word, context };
        places.extend(word.parts.iter().map(place));
    }
    places.sort_by_key(|place| place.span.start);
    places
}

/// The part that holds the offset.
fn find<'p, 'r>(places: &'p [Place<'r>], at: usize) -> Option<&'p Place<'r>> {
    let behind = places.partition_point(|place| place.span.start <= at);
    places.get(behind.checked_sub(1)?).filter(|place| place.span.end > at)
}

/// Every `{…}` that holds neither blanks nor further braces, with its offset.
fn braces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('{').filter_map(|(at, _)| {
        let inner = text.get(at + 1..)?;
        let end = inner.find(|ch: char| !(ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-' | ':')))?;
        inner.get(end..)?.starts_with('}').then(|| text.get(at..at + end + 2).map(|braced| (at, braced)))?
    })
}

fn placeholder(braced: &str) -> Option<(Value, bool)> {
    match braced {
        "{command}" => Some((Value::Command, false)),
        "{cwd}" => Some((Value::Cwd, false)),
        "{command:raw}" => Some((Value::Command, true)),
        "{cwd:raw}" => Some((Value::Cwd, true)),
        _ => None,
    }
}

/// True if an odd number of backslashes stands before the offset.
fn escaped(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    (before.len() - before.trim_end_matches('\\').len()) % 2 == 1
}

fn style(
    reading: &Reading,
    at: usize,
    braced: &str,
    value: Value,
    place: Option<&Place<'_>>,
) -> Result<Style, TemplateError> {
    let placeholder = braced.to_owned();
    let Some(place) = place else { return Err(outside_words(reading, at, placeholder)) };
    match place.kind {
        PartKind::Bare | PartKind::Escaped => Ok(bare_style(place, braced, value)),
        PartKind::Double => Ok(Style::InDouble),
        PartKind::Single => Ok(Style::InSingle),
        PartKind::AnsiC => Err(TemplateError::InAnsiQuotes { placeholder }),
        PartKind::Variable => Err(TemplateError::Variable { placeholder }),
        PartKind::Expansion => Err(not_quotable(braced)),
    }
}

fn bare_style(place: &Place<'_>, braced: &str, value: Value) -> Style {
    let Place { word, context, .. } = place;
    let own_argument = word.role == Role::Argument && word.is_all(braced);
    if value == Value::Command && own_argument && !context.behind_c && !context.joined {
        Style::ShellCall
    } else {
        Style::Word
    }
}

/// Outside of all words stand comments, the names of here-documents, and what cannot be quoted.
fn outside_words(reading: &Reading, at: usize, placeholder: String) -> TemplateError {
    if reading.unquotable.iter().any(|span| span.range().contains(&at)) {
        not_quotable(&placeholder)
    } else {
        TemplateError::NotInWord { placeholder }
    }
}

fn read_again(braced: &str) -> TemplateError {
    TemplateError::ReadAgain { placeholder: braced.to_owned(), raw: braced.replace('}', ":raw}") }
}

fn not_quotable(braced: &str) -> TemplateError {
    TemplateError::NotQuotable { placeholder: braced.to_owned(), raw: braced.replace('}', ":raw}") }
}

/// Refuses what was probably meant as a placeholder; other braces belong to the wrapper.
fn check_spelling(
    text: &str,
    at: usize,
    braced: &str,
    place: Option<&Place<'_>>,
) -> Result<(), TemplateError> {
    if escaped(text, at) || !place.is_some_and(|place| place.kind.is_literal()) {
        return Ok(());
    }
    match nearest(braced) {
        Some(nearest) => Err(TemplateError::Misspelt { found: braced.to_owned(), nearest }),
        None => Ok(()),
    }
}

fn nearest(braced: &str) -> Option<&'static str> {
    let inner = braced.trim_matches(['{', '}']).to_ascii_lowercase();
    let (name, suffix) =
        inner.split_once(':').map_or((inner.as_str(), None), |(name, suffix)| (name, Some(suffix)));
    // The longest of the names is eleven letters; more cannot be a slip.
    if name.len() > 16 {
        return None;
    }
    let habit = HABITS.iter().find(|(habit, _)| *habit == name).map(|(_, meant)| *meant);
    let near = |word: &str, most: usize| strsim::damerau_levenshtein(name, word) <= most;
    let meant = habit
        .or_else(|| near("command", 2).then_some("{command}"))
        .or_else(|| near("cwd", 1).then_some("{cwd}"))?;
    Some(match (meant, suffix) {
        (meant, None) => meant,
        ("{command}", Some(_)) => "{command:raw}",
        (_, Some(_)) => "{cwd:raw}",
    })
}
