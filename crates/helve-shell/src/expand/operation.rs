//! What `${x#…}`, `${x/…/…}`, `${x:…}` and `${x^}` do with values.

use crate::analysis::ArgPart;
use crate::tree::Replaced;

use super::parameter::Found;
use super::pattern::Pattern;
use super::text::Text;

pub(super) fn each(found: Found, change: impl Fn(&Text) -> Text) -> Found {
    match found {
        Found::One(text) => Found::One(change(&text)),
        Found::Many(texts, joined) => Found::Many(texts.iter().map(change).collect(), joined),
        other => other,
    }
}

pub(super) fn remove(text: &Text, pattern: Option<&Pattern>, longest: bool, front: bool) -> Text {
    let (Some(whole), Some(pattern)) = (text.whole(), pattern) else { return Text::unknown() };
    let characters: Vec<char> = whole.chars().collect();
    let kept = if front {
        pattern.prefix(&characters, longest).map(|length| length.unwrap_or(0)..characters.len())
    } else {
        pattern.suffix(&characters, longest).map(|start| 0..start.unwrap_or(characters.len()))
    };
    match kept {
        Some(range) => Text::known(characters[range].iter().collect::<String>()),
        None => Text::unknown(),
    }
}

pub(super) fn replace(text: &Text, pattern: Option<&Pattern>, which: Replaced, with: &Text) -> Text {
    let (Some(whole), Some(pattern)) = (text.whole(), pattern) else { return Text::unknown() };
    if pattern.is_empty() {
        return text.clone();
    }
    let characters: Vec<char> = whole.chars().collect();
    let mut made = Text::default();
    if which == Replaced::End {
        return match pattern.suffix(&characters, true) {
            Some(Some(start)) => {
                made.push(&characters[..start].iter().collect::<String>());
                made.append(with);
                made
            }
            Some(None) => text.clone(),
            None => Text::unknown(),
        };
    }
    let (mut at, mut kept) = (0, 0);
    let mut work = 0_usize;
    while at < characters.len() {
        work += characters.len() - at;
        if work > 1 << 20 {
            return Text::unknown();
        }
        match pattern.prefix(&characters[at..], true) {
            Some(Some(length)) if length > 0 => {
                made.push(&characters[kept..at].iter().collect::<String>());
                made.append(with);
                at += length;
                kept = at;
                if which != Replaced::All {
                    break;
                }
            }
            Some(_) if which == Replaced::Start => break,
            Some(_) => at += 1,
            None => return Text::unknown(),
        }
    }
    made.push(&characters[kept..].iter().collect::<String>());
    made
}

pub(super) fn substring(
    found: Found,
    offset: Option<i64>,
    length: Option<Option<i64>>,
    positional: bool,
) -> Found {
    let cut = |size: usize| -> Option<std::ops::Range<usize>> {
        let size = i64::try_from(size).ok()?;
        let offset = offset?;
        let start = if offset < 0 { size.checked_add(offset)? } else { offset };
        if !(0..=size).contains(&start) {
            return Some(0..0);
        }
        let end = match length {
            None => size,
            Some(length) => {
                let length = length?;
                if length < 0 {
                    size.checked_add(length)?.max(start)
                } else {
                    start.saturating_add(length).min(size)
                }
            }
        };
        Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    };
    match found {
        Found::One(text) => {
            // The start of a text is known even where its end is not: the slash at the start of the search path.
            if text.whole().is_none() {
                if let (Some(ArgPart::Known(known)), Some(start), Some(Some(length))) =
                    (text.parts().first(), offset, length)
                {
                    let characters: Vec<char> = known.chars().collect();
                    if start >= 0 && length >= 0 && (start + length) as usize <= characters.len() {
                        let kept = &characters[start as usize..(start + length) as usize];
                        return Found::One(Text::known(kept.iter().collect::<String>()));
                    }
                }
                return Found::One(Text::unknown());
            }
            let characters: Vec<char> = text.whole().unwrap_or_default().chars().collect();
            match cut(characters.len()) {
                Some(range) => Found::One(Text::known(characters[range].iter().collect::<String>())),
                None => Found::One(Text::unknown()),
            }
        }
        Found::Many(texts, joined) => {
            // `${@:1}` counts from `$0` on, which is not among the texts.
            let first = i64::from(positional);
            match (offset.and_then(|offset| usize::try_from(offset - first).ok()), length) {
                (Some(start), None) => Found::Many(texts.get(start..).unwrap_or_default().to_vec(), joined),
                (Some(start), Some(Some(length))) if length >= 0 => {
                    let kept = texts.into_iter().skip(start).take(usize::try_from(length).unwrap_or(0));
                    Found::Many(kept.collect(), joined)
                }
                _ => Found::Unknown,
            }
        }
        other => other,
    }
}

pub(super) fn change_case(text: &Text, to: char, all: bool, pattern: Option<&Pattern>) -> Text {
    let Some(whole) = text.whole() else { return Text::unknown() };
    let mut made = String::new();
    for (index, character) in whole.chars().enumerate() {
        let chosen = (all || index == 0) && pattern.is_none_or(|pattern| pattern.matches(&[character]));
        match (chosen, to) {
            (false, _) => made.push(character),
            (true, '^') => made.extend(character.to_uppercase()),
            (true, ',') => made.extend(character.to_lowercase()),
            (true, _) if character.is_uppercase() => made.extend(character.to_lowercase()),
            (true, _) => made.extend(character.to_uppercase()),
        }
    }
    Text::known(made)
}
