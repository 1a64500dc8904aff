//! What the strings of code stand for, with gaps for what shows only when the code runs.

use super::calls::Code;
use super::tokens::{Family, Quote};
use crate::quote;

/// Stands for a part of a string that only shows when the code runs.
pub(super) const GAP: char = '\u{1}';

/// What a gap is to a shell: a variable of which nothing is known.
pub(super) const UNKNOWN: &str = "${UNKNOWN}";

/// How many bytes of a string are looked at.
const MAX_VALUE: usize = 1 << 16;

impl Code<'_> {
    /// What the characters of a string stand for.
    pub(super) fn decode(&self, quote: Quote, raw: &str, out: &mut String) {
        let mut rest = raw.chars();
        while let Some(ch) = rest.next() {
            if out.len() > MAX_VALUE {
                return push_gap(out);
            }
            let next = rest.clone().next();
            match (ch, quote) {
                ('\\', Quote::Plain | Quote::Words) => match next {
                    Some(quoted @ ('\'' | '"' | '\\')) if self.family != Family::Python => {
                        rest.next();
                        out.push(quoted);
                    }
                    _ => out.push('\\'),
                },
                ('\\', _) => self.unescape(&mut rest, out),
                ('{', Quote::Formatted) if next == Some('{') => {
                    rest.next();
                    out.push('{');
                }
                ('{', Quote::Formatted) => {
                    skip_expression(&mut rest);
                    push_gap(out);
                }
                ('$' | '#', Quote::Template) if next == Some('{') => {
                    rest.next();
                    skip_expression(&mut rest);
                    push_gap(out);
                }
                ('$' | '@', Quote::Escaped) if matches!(self.family, Family::Perl | Family::Php) => {
                    match next {
                        Some('{') => {
                            rest.next();
                            skip_expression(&mut rest);
                            push_gap(out);
                        }
                        Some(next) if next.is_alphanumeric() || next == '_' => {
                            let name = rest.as_str();
                            let end = name
                                .find(|ch: char| !ch.is_alphanumeric() && ch != '_')
                                .unwrap_or(name.len());
                            rest = name[end..].chars();
                            push_gap(out);
                        }
                        _ => out.push(ch),
                    }
                }
                _ => out.push(ch),
            }
        }
    }

    fn unescape(&self, rest: &mut std::str::Chars<'_>, out: &mut String) {
        let Some(ch) = rest.next() else { return out.push('\\') };
        let number = |rest: &mut std::str::Chars<'_>, radix: u32, most: usize| {
            let digits: String = rest.clone().take(most).take_while(|ch| ch.is_digit(radix)).collect();
            *rest = rest.as_str()[digits.len()..].chars();
            u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32)
        };
        let decoded = match ch {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            'a' | 'b' | 'f' | 'v' => Some(' '),
            'e' => Some('\u{1b}'),
            '\n' => None,
            'x' | 'u' | 'U' if rest.as_str().starts_with('{') => {
                rest.next();
                let decoded = number(rest, 16, 6);
                if rest.as_str().starts_with('}') {
                    rest.next();
                }
                decoded
            }
            'x' => number(rest, 16, 2),
            'u' => number(rest, 16, 4),
            'U' => number(rest, 16, 8),
            '0'..='7' => {
                let first = ch.to_digit(8).unwrap_or(0);
                let digits: String = rest.clone().take(2).take_while(|ch| ch.is_digit(8)).collect();
                *rest = rest.as_str()[digits.len()..].chars();
                let value =
                    digits.chars().filter_map(|ch| ch.to_digit(8)).fold(first, |sum, digit| sum * 8 + digit);
                char::from_u32(value)
            }
            other => {
                if self.family == Family::Python && !matches!(other, '\'' | '"' | '\\') {
                    out.push('\\');
                }
                Some(other)
            }
        };
        out.extend(decoded);
    }
}

pub(super) fn push_gap(out: &mut String) {
    if !out.ends_with(GAP) {
        out.push(GAP);
    }
}

fn skip_expression(rest: &mut std::str::Chars<'_>) {
    let mut depth = 1;
    for ch in rest {
        match ch {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// A format string with gaps for what is filled in.
pub(super) fn fill_format(format: &str) -> String {
    let mut out = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(ch) = rest.next() {
        match ch {
            '{' => {
                skip_expression(&mut rest);
                push_gap(&mut out);
            }
            '%' => {
                // Width and flags up to the letter belong to the placeholder.
                if rest.find(|ch| ch.is_alphabetic() || *ch == '%') != Some('%') {
                    push_gap(&mut out);
                } else {
                    out.push('%');
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Whether a value is written out in full.
pub(super) fn is_certain(value: &str) -> bool {
    !value.contains(GAP)
}

/// Words as one line for a shell.
pub(super) fn shell_line(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
    shell_text(&quoted.join(" "))
}

/// Text for a shell: each gap becomes a variable of which nothing is known, outside of single quotes.
pub(super) fn shell_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut single, mut double, mut escaped) = (false, false, false);
    for ch in text.chars() {
        match ch {
            GAP if single => out.extend(["'", UNKNOWN, "'"]),
            GAP => out.push_str(UNKNOWN),
            _ => out.push(ch),
        }
        let was_escaped = std::mem::take(&mut escaped);
        match ch {
            '\\' if !single && !was_escaped => escaped = true,
            '\'' if !double && !was_escaped => single = !single,
            '"' if !single && !was_escaped => double = !double,
            _ => {}
        }
    }
    out
}
