//! What models habitually add to a text that they copy: line numbers in front of lines, and backslashes before line
//! ends and quotes. Tried only where the text as it came is nowhere in the file.

/// What was taken off a text before it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// Line numbers with their separator in front of every line.
    LineNumbers,
    /// One layer of backslash escapes: `\n`, `\"`, `\\` and the like.
    Escapes,
}

/// An edit's old and new text without the habit.
pub(crate) struct Cleaned {
    pub(crate) what: Cleaning,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// What to try instead of a text that was not found, in order.
pub(crate) fn variants(old: &str, new: &str) -> Vec<Cleaned> {
    let mut all = Vec::new();
    all.extend(without_numbers(old, new, false));
    all.extend(without_numbers(old, new, true));
    for which in [Escape::All, Escape::LineEnds, Escape::Quotes] {
        if let Some(cleaned) = unescaped(old, which) {
            // A text that is to stay as it is stays so, whatever habit it shows.
            let new = match new == old {
                true => cleaned.clone(),
                false => habitual(new, which)
                    .then(|| unescaped(new, which))
                    .flatten()
                    .unwrap_or_else(|| new.to_owned()),
            };
            all.push(Cleaned { what: Cleaning::Escapes, old: cleaned, new });
        }
    }
    all
}

/// A line number, its separator, and what follows.
fn gutter(line: &str) -> Option<(u64, char, &str)> {
    let rest = line.trim_start_matches(' ');
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 9 {
        return None;
    }
    let number = rest[..digits].parse().ok()?;
    let mut after = rest[digits..].chars();
    let separator = after.next()?;
    let rest = after.as_str();
    match separator {
        '\t' | '|' | '→' | '│' => Some((number, separator, rest)),
        ':' => Some((
            number,
            separator,
            rest.strip_prefix([' ', '\t']).or_else(|| rest.is_empty().then_some(rest))?,
        )),
        _ => None,
    }
}

/// With `spaced` a space behind the separator belongs to it.
fn without_numbers(old: &str, new: &str, spaced: bool) -> Option<Cleaned> {
    let mut separator = None;
    let (mut first, mut last) = (0, 0);
    let mut cleaned = String::with_capacity(old.len());
    for line in old.split_inclusive('\n') {
        let blank = line.trim().is_empty();
        match gutter(line) {
            None if blank => cleaned.push_str(line),
            None => return None,
            Some((number, with, rest)) => {
                match separator {
                    None => (separator, first) = (Some(with), number),
                    Some(one) if one == with && number == last + 1 => {}
                    Some(_) => return None,
                }
                last = number;
                let bare = rest.trim_end_matches(['\r', '\n']).is_empty();
                cleaned.push_str(match spaced {
                    true if !bare => rest.strip_prefix(' ')?,
                    _ => rest,
                });
            }
        }
    }
    let separator = separator?;
    // New lines may be counted on, or not be counted at all.
    let reach = first..=last.saturating_add(new.lines().count() as u64);
    let mut renewed = String::with_capacity(new.len());
    for line in new.split_inclusive('\n') {
        match gutter(line) {
            Some((number, with, rest)) if with == separator && reach.contains(&number) => {
                renewed.push_str(if spaced { rest.strip_prefix(' ').unwrap_or(rest) } else { rest });
            }
            _ => renewed.push_str(line),
        }
    }
    Some(Cleaned { what: Cleaning::LineNumbers, old: cleaned, new: renewed })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    All,
    LineEnds,
    Quotes,
}

/// The text with one layer of escapes taken off; none if there is nothing to take off, or an escape is not known.
fn unescaped(text: &str, which: Escape) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escaped = rest.clone().next();
        let plain = match (escaped, which) {
            (Some('n'), Escape::All | Escape::LineEnds) => '\n',
            (Some('r'), Escape::All | Escape::LineEnds) => '\r',
            (Some('t'), Escape::All) => '\t',
            (Some(c @ ('"' | '\'')), Escape::All | Escape::Quotes) => c,
            (Some(c @ ('\\' | '/' | '`')), Escape::All) => c,
            (_, Escape::All) => return None,
            _ => {
                out.push(c);
                continue;
            }
        };
        out.push(plain);
        rest.next();
        changed = true;
    }
    changed.then_some(out)
}

/// Whether the new text looks as if it was escaped like the old one: nothing in it is plain that should be escaped.
fn habitual(new: &str, which: Escape) -> bool {
    let plain_quote = || {
        let bytes = new.as_bytes();
        bytes.iter().enumerate().any(|(i, b)| *b == b'"' && (i == 0 || bytes[i - 1] != b'\\'))
    };
    match which {
        Escape::LineEnds => !new.contains('\n'),
        Escape::Quotes => !plain_quote(),
        Escape::All => !new.contains('\n') && !plain_quote(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn first(old: &str, new: &str) -> Option<(String, String)> {
        variants(old, new).into_iter().next().map(|cleaned| (cleaned.old, cleaned.new))
    }

    #[test]
    fn line_numbers_of_every_shape_are_taken_off() {
        for separator in ["\t", "|", "→", ": "] {
            let old = format!("  9{separator}a\n 10{separator}  b\n");
            let new = format!("  9{separator}A\n 10{separator}  B\nc\n");
            assert_eq!(first(&old, &new), Some(("a\n  b\n".into(), "A\n  B\nc\n".into())), "{separator}");
        }
        let spaced = variants("1| a\n2|\n3| b", "1| c").remove(1);
        assert_eq!((spaced.old.as_str(), spaced.new.as_str()), ("a\n\nb", "c"));
    }

    #[test]
    fn what_only_looks_like_line_numbers_is_left() {
        assert_eq!(first("1|a\n3|b", ""), None);
        assert_eq!(first("1|a\nb", ""), None);
        assert_eq!(first("12 apples", ""), None);
    }

    #[test]
    fn one_layer_of_escapes_is_taken_off_where_the_new_text_has_it_too() {
        assert_eq!(first(r#"a\n\"b\""#, r#"c\n\"d\""#), Some(("a\n\"b\"".into(), "c\n\"d\"".into())));
        assert_eq!(first(r"a\nb", "c\nd\\n"), Some(("a\nb".into(), "c\nd\\n".into())));
        assert_eq!(first(r"\d+", "x"), None);
        assert_eq!(first(r#"\d \"x\""#, "y").unwrap().0, r#"\d "x""#);
    }
}
