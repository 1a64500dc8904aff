//! Reads the text of a command pattern.

use super::super::braces::{Mark, expand};
use super::{CommandPattern, MAX_LENGTH, Slot, Stretch, WordPattern};

pub(super) fn read(text: &str) -> Result<CommandPattern, String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("the pattern is longer than {MAX_LENGTH} bytes; shorten it"));
    }
    let mut marked = split(text)?;
    let rest = marked.last().is_some_and(|word| word.as_slice() == [('*', true)]);
    if rest {
        marked.pop();
    }
    let words = marked.iter().map(|word| read_word(word)).collect::<Result<Vec<_>, _>>()?;
    match words.first() {
        Some(WordPattern::OneOf(choices)) => {
            if choices.iter().any(|stretch| stretch.0.first().is_some_and(|name| name.contains('='))) {
                return Err(format!(
                    "{text:?} starts with a variable; a pattern starts with the name of a program"
                ));
            }
        }
        Some(_) => {}
        None => {
            return Err(format!(
                "the pattern {text:?} names no program; start it with one, such as `git status *`"
            ));
        }
    }
    Ok(CommandPattern { source: text.trim().to_owned(), words, rest })
}

/// The words, by the quoting rules of a shell.
fn split(text: &str) -> Result<Vec<Vec<Mark>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<Mark>> = None;
    let mut chars = text.chars();
    // `<` of a slot is open until its `>`.
    let mut in_slot = false;
    while let Some(ch) = chars.next() {
        match ch {
            ' ' | '\t' if !in_slot => words.extend(word.take()),
            '\'' => loop {
                match chars.next() {
                    Some('\'') => {
                        word.get_or_insert_default();
                        break;
                    }
                    Some(ch) => word.get_or_insert_default().push((ch, false)),
                    None => return Err(format!("a quote in {text:?} is never closed; close it")),
                }
            },
            '"' => loop {
                match chars.next() {
                    Some('"') => {
                        word.get_or_insert_default();
                        break;
                    }
                    Some('\\') => match chars.next() {
                        Some(ch @ ('"' | '\\' | '$' | '`')) => word.get_or_insert_default().push((ch, false)),
                        Some(ch) => word.get_or_insert_default().extend([('\\', false), (ch, false)]),
                        None => return Err(format!("a quote in {text:?} is never closed; close it")),
                    },
                    Some(ch @ ('$' | '`')) => return Err(active(ch)),
                    Some(ch) => word.get_or_insert_default().push((ch, false)),
                    None => return Err(format!("a quote in {text:?} is never closed; close it")),
                }
            },
            '\\' => match chars.next() {
                Some(ch) => word.get_or_insert_default().push((ch, false)),
                None => return Err(format!("{text:?} ends in a backslash; take it out or double it")),
            },
            '>' if !in_slot => return Err(active(ch)),
            '|' | ';' | '&' | '$' | '`' | '(' | ')' | '\n' | '\r' => return Err(active(ch)),
            '~' if word.is_none() => {
                return Err("`~` is put in place by the shell before a program sees it; write the whole path, or quote \
                     a `~` that is meant literally"
                    .into());
            }
            '#' if word.is_none() => return Err(active(ch)),
            ch => {
                in_slot = (in_slot || ch == '<') && ch != '>';
                word.get_or_insert_default().push((ch, true));
            }
        }
    }
    words.extend(word);
    Ok(words)
}

fn active(ch: char) -> String {
    let shown = if ch.is_control() { "a line break".to_owned() } else { format!("`{ch}`") };
    format!(
        "{shown} ends or changes a command; a pattern is one command of plain words: quote what is meant literally"
    )
}

fn read_word(word: &[Mark]) -> Result<WordPattern, String> {
    if word == [('*', true)] {
        return Ok(WordPattern::Slot { before: String::new(), slot: Slot::Any });
    }
    if let Some(at) = word.iter().position(|mark| *mark == ('<', true)) {
        return read_slot(word, at);
    }
    let choices = expand(word)?;
    Ok(WordPattern::OneOf(choices.iter().map(|choice| stretch(choice)).collect()))
}

/// A slot ends its word: `--jobs=<number>`.
fn read_slot(word: &[Mark], at: usize) -> Result<WordPattern, String> {
    let (before, slot) = word.split_at(at);
    let text: String = slot.iter().map(|(ch, _)| *ch).collect();
    let name = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    let known = Slot::ALL.iter().find(|(known, _)| Some(*known) == name);
    let Some((_, slot)) = known else {
        let names: Vec<String> = Slot::ALL.iter().map(|(name, _)| format!("<{name}>")).collect();
        return Err(format!(
            "{text:?} is no slot; the slots are {}, each at the end of its word; quote a `<` that is meant literally",
            names.join(", ")
        ));
    };
    if before.iter().any(|(ch, active)| *active && matches!(ch, '*' | '{')) {
        return Err(format!("only plain text may stand before the slot {text} in its word"));
    }
    Ok(WordPattern::Slot { before: before.iter().map(|(ch, _)| *ch).collect(), slot: *slot })
}

/// Splits at stars.
fn stretch(word: &[Mark]) -> Stretch {
    let pieces = word.split(|mark| *mark == ('*', true));
    Stretch(pieces.map(|piece| piece.iter().map(|(ch, _)| *ch).collect()).collect())
}
