//! What models habitually add to a text that they copy: line numbers in front of lines, backslashes before line
//! ends and quotes, and the visible escapes under which a tool has shown them a character. Tried only where the text as
//! it came is nowhere in the file. Of the new text only goes what went of the old one.

use helve_core::harmless::{escaped, is_harmless};

/// What was taken off a text before it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaning {
    /// Line numbers with their separator in front of every line.
    LineNumbers,
    /// One layer of backslash escapes: `\n`, `\"`, `\\` and the like.
    Escapes,
    /// Escapes that stand for control and invisible characters where a file is shown: `\x1b`, `\u{200b}`.
    Shown,
    /// The line ending behind the last line, which the file does not have.
    LastEnding,
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
    all.extend(as_in_the_file(old, new, false));
    all.extend(as_in_the_file(old, new, true));
    for which in [Escape::Quotes, Escape::LineEnds, Escape::All] {
        if let Some((cleaned, taken)) = unescaped(old, which) {
            // A text that is to stay as it is stays so, whatever habit it shows.
            let new = if new == old { cleaned.clone() } else { without(new, &taken) };
            all.push(Cleaned { what: Cleaning::Escapes, old: cleaned, new });
        }
    }
    all
}

/// The text without a last line ending, for a file that has none; the new text loses its own.
pub(crate) fn without_last_ending(old: &str, new: &str) -> Option<Cleaned> {
    let cut =
        |text: &str| text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text).to_owned());
    let old = cut(old).filter(|old| !old.is_empty())?;
    let new = cut(new).unwrap_or_else(|| new.to_owned());
    Some(Cleaned { what: Cleaning::LastEnding, old, new })
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

/// The text with one layer of escapes taken off, and which letters stood behind those; none if there is nothing to take
/// off, or an escape is not known.
fn unescaped(text: &str, which: Escape) -> Option<(String, Vec<char>)> {
    let wanted: &[char] = match which {
        Escape::All => &['n', 'r', 't', '"', '\'', '\\', '/', '`'],
        Escape::LineEnds => &['n', 'r'],
        Escape::Quotes => &['"', '\''],
    };
    let (out, taken, other) = taken_off(text, wanted);
    let is_unknown = other && which == Escape::All;
    (!taken.is_empty() && !is_unknown).then_some((out, taken))
}

/// The text without escapes of these letters, which of them there were, and whether there are others.
fn taken_off(text: &str, wanted: &[char]) -> (String, Vec<char>, bool) {
    let mut out = String::with_capacity(text.len());
    let (mut taken, mut other) = (Vec::new(), false);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.clone().next() {
            Some(letter) if wanted.contains(&letter) => {
                out.push(plain(letter));
                rest.next();
                if !taken.contains(&letter) {
                    taken.push(letter);
                }
            }
            next => {
                other = true;
                out.push(c);
                // The second of a pair escapes nothing.
                out.extend(next.filter(|next| *next == '\\').and_then(|_| rest.next()));
            }
        }
    }
    (out, taken, other)
}

/// What an escape of this letter stands for.
fn plain(letter: char) -> char {
    match letter {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

/// The new text without the escapes that were taken off the old one. One kind stays as it is where the text has the plain
/// character too: then an escape of it is meant. The pair of backslashes goes only where no other escape stays.
fn without(new: &str, taken: &[char]) -> String {
    let is_meant = |letter: &char| {
        let mut before = None;
        let mut escaped = false;
        new.chars().any(|c| {
            escaped = before == Some('\\') && !escaped;
            before = Some(c);
            c == plain(*letter) && !escaped
        })
    };
    let mut wanted: Vec<char> =
        taken.iter().copied().filter(|letter| *letter == '\\' || !is_meant(letter)).collect();
    if taken_off(new, &wanted).2 {
        wanted.retain(|letter| *letter != '\\');
    }
    taken_off(new, &wanted).0
}

/// The text with the characters that its visible escapes stand for; in the new text only those that the old one has.
/// Lone carriage returns are shown as `\r`, which programs write too, so they count only beside others, and if asked for.
fn as_in_the_file(old: &str, new: &str, returns: bool) -> Option<Cleaned> {
    let mut hidden = Vec::new();
    let old = unshown(old, |c| {
        let counts = returns || c != '\r';
        hidden.extend(counts.then_some(c));
        counts
    });
    let new = unshown(new, |c| hidden.contains(&c));
    let has_others = hidden.iter().any(|c| *c != '\r');
    let is_whole = has_others && hidden.contains(&'\r') == returns;
    is_whole.then_some(Cleaned { what: Cleaning::Shown, old, new })
}

/// Puts the character in the place of each escape that stands for one, if `wanted` says so.
fn unshown(text: &str, mut wanted: impl FnMut(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let digits = |open: &str, close: &str| {
            let inside = from.strip_prefix(open)?;
            let end = inside.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
            let c = u32::from_str_radix(&inside[..end], 16).ok().and_then(char::from_u32)?;
            let whole = open.len() + end + close.len();
            // Only what is written as the tools write it.
            (!is_harmless(c) && from.get(..whole) == Some(escaped(c).as_str())).then_some((c, whole))
        };
        let two = || {
            let c = char::from_u32(u32::from_str_radix(from.strip_prefix("\\x")?.get(..2)?, 16).ok()?)?;
            (!is_harmless(c) && from.get(..4) == Some(escaped(c).as_str())).then_some((c, 4))
        };
        let carriage_return = || from.starts_with("\\r").then_some(('\r', 2));
        match two().or_else(|| digits("\\u{", "}")).or_else(carriage_return) {
            Some((c, whole)) if wanted(c) => {
                out.push(c);
                rest = &from[whole..];
            }
            _ => {
                out.push('\\');
                rest = &from[1..];
            }
        }
    }
    out.push_str(rest);
    out
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
        let both = variants(r#"a\n\"b\""#, r#"c\n\"d\""#).pop().map(|cleaned| (cleaned.old, cleaned.new));
        assert_eq!(both, Some(("a\n\"b\"".into(), "c\n\"d\"".into())));
        assert_eq!(first(r"a\nb", "c\nd\\n"), Some(("a\nb".into(), "c\nd\\n".into())));
        assert_eq!(first(r"\d+", "x"), None);
        assert_eq!(first(r#"\d \"x\""#, "y").unwrap().0, r#"\d "x""#);
    }

    #[test]
    fn the_new_text_loses_only_the_kinds_of_escape_that_the_old_one_lost() {
        let cases = [
            // Only the quotes were escaped: what else the new text escapes is the program's.
            (r#"m = \"a\";"#, r"m = 'x\ny';", r#"m = "a";"#, r"m = 'x\ny';"),
            (r#"m = \"a\";"#, r"m = 'C:\\new \n';", r#"m = "a";"#, r"m = 'C:\\new \n';"),
            (r#"m = \"a\";"#, r#"m = \"b\n\";"#, r#"m = "a";"#, r#"m = "b\n";"#),
            (r#"m = \"a\";"#, r#"m = "\"";"#, r#"m = "a";"#, r#"m = "\"";"#),
            // Only line ends were.
            (r"a\nb", r#"c\nd(\"e\")"#, "a\nb", "c\nd(\\\"e\\\")"),
            (r"a\nb", r"c\\nd", "a\nb", r"c\\nd"),
        ];
        for (old, new, old_after, new_after) in cases {
            let after = (old_after.to_owned(), new_after.to_owned());
            assert_eq!(first(old, new), Some(after), "{old} {new}");
        }
        let all = |old, new| variants(old, new).pop().map(|cleaned| (cleaned.old, cleaned.new)).unwrap();
        assert_eq!(all(r"a\n\\d", r"b\n\\d").1, "b\n\\d");
        assert_eq!(all(r"a\n\\d", r"b\n\d\\").1, "b\n\\d\\\\");
    }

    #[test]
    fn escapes_that_stand_for_characters_become_them() {
        let cleaned = variants(r"zero\u{200b}width \x1b[0m", r"z\u{200b}w \x07 \x1b").remove(0);
        assert_eq!(cleaned.what, Cleaning::Shown);
        assert_eq!(cleaned.old, "zero\u{200b}width \x1b[0m");
        assert_eq!(cleaned.new, "z\u{200b}w \\x07 \x1b");
        let shown: Vec<(String, String)> = variants(r"50%\x1b[K\r100%\r", r"\r\x1b[K\x07")
            .into_iter()
            .filter(|cleaned| cleaned.what == Cleaning::Shown)
            .map(|cleaned| (cleaned.old, cleaned.new))
            .collect();
        let with_letters = ("50%\x1b[K\\r100%\\r".to_owned(), "\\r\x1b[K\\x07".to_owned());
        assert_eq!(shown, [with_letters, ("50%\x1b[K\r100%\r".to_owned(), "\r\x1b[K\\x07".to_owned())]);
        // Nobody shows a letter so, nor in capitals, nor with more digits.
        for text in
            [r"\x41", r"\u{41}", r"\u{200B}", r"\u{0200b}", r"\x1B", r"\u{200b", r"\x1", r"\xé", r"a\r"]
        {
            for returns in [false, true] {
                assert!(as_in_the_file(text, "", returns).is_none(), "{text}");
            }
        }
    }
}
