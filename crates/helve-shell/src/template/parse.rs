//! Finding the placeholders of a template and how each must be written.
//!
//! The template is read like any command; a placeholder's style follows from the part of the word in which it stands.
//! Whether any style is safe there is decided in `reread`.

use super::reread::{self, Context};
use super::{Piece, Style, TemplateError, Value};
use crate::command::{Command, Joint, Part, PartKind, Position, Redirect, Span, Word};
use crate::read::read;

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
    let command = read(text);
    if let Some(opaque) = command.opaque {
        return Err(TemplateError::Unreadable(opaque.reason));
    }
    let places = places(&command);
    let pipes = command.segments.iter().any(|segment| segment.joint == Joint::Pipe);
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
        let style = if raw { Style::Raw } else { style(&command, at, braced, value, place)? };
        if let Some(place) = place.filter(|_| !raw) {
            if !reread::is_safe(place.word, place.context, braced, value, pipes) {
                return Err(read_again(braced));
            }
            quoted.push(at);
        }
        runs_command |= value == Value::Command && !place.is_some_and(Place::is_file);
        pieces.push(Piece::Text(text.get(kept..at).unwrap_or_default().to_owned()));
        pieces.push(Piece::Slot { value, style });
        kept = at + braced.len();
    }
    pieces.push(Piece::Text(text.get(kept..).unwrap_or_default().to_owned()));
    if reread::stored_and_read_again(&command, &quoted) {
        return Err(read_again("{command}"));
    }
    if runs_command { Ok(pieces) } else { Err(TemplateError::NoCommand) }
}

/// A part of a word of the template itself, with what decides how a placeholder in it is written.
struct Place<'c> {
    span: Span,
    kind: PartKind,
    word: &'c Word,
    context: Context,
}

impl Place<'_> {
    fn is_file(&self) -> bool {
        matches!(self.word.position, Position::Redirect(operator) if operator != Redirect::HereString)
    }
}

/// The parts of all words outside of substitutions, in source order.
fn places(command: &Command) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    for segment in command.segments.iter().filter(|segment| !segment.substituted) {
        for (word, context) in segment.words.iter().zip(reread::contexts(segment)) {
            let place = |part: &Part| Place { span: part.span, kind: part.kind, word, context };
            places.extend(word.parts.iter().map(place));
        }
    }
    places
}

/// The part that holds the offset.
fn find<'p, 'c>(places: &'p [Place<'c>], at: usize) -> Option<&'p Place<'c>> {
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
    command: &Command,
    at: usize,
    braced: &str,
    value: Value,
    place: Option<&Place<'_>>,
) -> Result<Style, TemplateError> {
    let placeholder = braced.to_owned();
    let Some(place) = place else { return Err(outside_words(command, at, placeholder)) };
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
    let is_argument = matches!(place.word.position, Position::Name | Position::Argument);
    let own_word = place.word.text == braced && place.word.parts.len() == 1;
    if value == Value::Command && is_argument && own_word && !place.context.behind_c && !place.context.joined
    {
        Style::ShellCall
    } else {
        Style::Word
    }
}

/// Outside of all words stand comments and here-documents.
fn outside_words(command: &Command, at: usize, placeholder: String) -> TemplateError {
    let in_body = command
        .segments
        .iter()
        .flat_map(|segment| &segment.here_documents)
        .any(|document| document.span.range().contains(&at));
    if in_body { not_quotable(&placeholder) } else { TemplateError::NotInWord { placeholder } }
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
    let kind = place.map(|place| place.kind);
    if escaped(text, at) || matches!(kind, None | Some(PartKind::Variable | PartKind::Expansion)) {
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
