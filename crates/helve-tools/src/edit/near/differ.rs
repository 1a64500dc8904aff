//! How two lines differ, in words that say what to change.

use super::super::fold::{Fold, fold};
use super::super::lines::indent;

/// So many characters of a line are shown.
const SHOWN: usize = 120;

/// Whether the lines differ in a way that counts.
pub(super) fn differs(expected: &str, found: &str) -> bool {
    expected.trim_end() != found.trim_end()
}

/// What differs between a line of the text and a line of the file.
pub(super) fn describe(expected: &str, found: &str) -> String {
    let (a, b) = (expected.trim_end(), found.trim_end());
    if a == b {
        return "this line matches; the lines around it differ".to_owned();
    }
    if b.is_empty() {
        return "the file has an empty line or none here".to_owned();
    }
    if a.trim_start() == b.trim_start() {
        return format!("indentation differs (expected {}, found {})", depth(a), depth(b));
    }
    let folded = |text: &str| fold(text.trim().as_bytes(), Fold::Unicode).into_owned();
    if folded(a) == folded(b) {
        return "typographic characters differ".to_owned();
    }
    let backslashes = |text: &str| text.matches('\\').count();
    let without = |text: &str, drop: fn(char) -> bool| text.chars().filter(|c| !drop(*c)).collect::<String>();
    if without(a.trim(), |c| c == '\\') == without(b.trim(), |c| c == '\\') {
        return format!(
            "escaping differs (expected {}, found {})",
            count(backslashes(a), "backslash", "es"),
            backslashes(b)
        );
    }
    let quotes =
        |text: &str| text.trim().replace(['\'', '`', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}'], "\"");
    if quotes(a) == quotes(b) {
        return format!("quotes differ (expected {}, found {})", quote(a), quote(b));
    }
    if without(a, char::is_whitespace) == without(b, char::is_whitespace) {
        return format!("white space inside the line differs from column {}", column(a, b));
    }
    if a.trim().to_lowercase() == b.trim().to_lowercase() {
        return format!("upper and lower case differ from column {}", column(a, b));
    }
    one_character(a, b).unwrap_or_else(|| format!("first difference at column {}", column(a, b)))
}

/// One character more, less, or another.
fn one_character(a: &str, b: &str) -> Option<String> {
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let head = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
    let room = left.len().min(right.len()) - head;
    let tail = left.iter().rev().zip(right.iter().rev()).take(room).take_while(|(x, y)| x == y).count();
    let place = format!("at column {}", head + 1);
    match (&left[head..left.len() - tail], &right[head..right.len() - tail]) {
        ([x], [y]) => Some(format!("one character differs {place} (expected {x:?}, found {y:?})")),
        ([x], []) => Some(format!("the file does not have {x:?} {place}")),
        ([], [y]) => Some(format!("the file has {y:?} {place}")),
        _ => None,
    }
}

/// The first column, counted from 1, in which they differ.
fn column(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count() + 1
}

/// The first quotation mark that one has and the other has not.
fn quote(text: &str) -> char {
    text.chars().find(|c| matches!(c, '"' | '\'' | '`' | '\u{2018}'..='\u{201d}')).unwrap_or('"')
}

fn depth(line: &str) -> String {
    let white = &line.as_bytes()[..indent(line.as_bytes())];
    let tabs = white.iter().filter(|b| **b == b'\t').count();
    match (tabs, white.len() - tabs) {
        (0, 0) => "none".to_owned(),
        (0, spaces) => count(spaces, "space", "s"),
        (tabs, 0) => count(tabs, "tab", "s"),
        (tabs, spaces) => format!("{} and {}", count(tabs, "tab", "s"), count(spaces, "space", "s")),
    }
}

fn count(number: usize, word: &str, plural: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { plural })
}

/// Both lines, cut to the same window around their first difference if they are long.
pub(super) fn cut_both(a: &str, b: &str) -> (String, String) {
    let at = column(a, b).saturating_sub(SHOWN / 2);
    (cut(a, at), cut(b, at))
}

/// At most so many characters of a line, from `from` on, with marks where something is missing.
fn cut(line: &str, from: usize) -> String {
    let total = line.chars().count();
    if total <= SHOWN {
        return line.to_owned();
    }
    let from = from.min(total - SHOWN);
    let part: String = line.chars().skip(from).take(SHOWN).collect();
    let (before, behind) = (if from > 0 { "…" } else { "" }, if from + SHOWN < total { "…" } else { "" });
    format!("{before}{part}{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn every_common_slip_has_its_word() {
        for (expected, found, words) in [
            ("    x", "  x", "indentation differs (expected 4 spaces, found 2 spaces)"),
            ("\tx", "x", "indentation differs (expected 1 tab, found none)"),
            ("a\\\\n", "a\\n", "escaping differs (expected 2 backslashes, found 1)"),
            ("f('a')", "f(\"a\")", "quotes differ (expected ', found \")"),
            ("a  = b", "a = b", "white space inside the line differs from column 3"),
            ("Foo()", "foo()", "upper and lower case differ from column 1"),
            ("retrun x", "retrun y", "one character differs at column 8 (expected 'x', found 'y')"),
            ("color", "colour", "the file has 'u' at column 5"),
            ("colour", "color", "the file does not have 'u' at column 5"),
            ("abc", "axy", "first difference at column 2"),
            ("“a”", "\"a\"", "typographic characters differ"),
        ] {
            assert_eq!(describe(expected, found), words, "{expected:?} {found:?}");
        }
    }
}
