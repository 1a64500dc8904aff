//! Text from outside, made safe for a terminal: what would move the cursor, change colours or hide is shown instead
//! of done. The pipeline has done this to results already; arguments, commands and kept outputs have not been through it.

use std::fmt::Write as _;

/// The text with everything but line ends and tabs visible.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in text.chars() {
        if matches!(ch, '\n' | '\t') || !is_harmful(ch) {
            out.push(ch);
        } else {
            escape(ch, &mut out);
        }
    }
    out
}

/// The text on one line of at most `most` characters, runs of white space as one space, a cut shown by `…`.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    // Where the text can be cut so that `…` still fits.
    let mut cut = 0;
    for word in text.split_whitespace() {
        let gap = if out.is_empty() { None } else { Some(' ') };
        for ch in gap.into_iter().chain(word.chars()) {
            let before = out.len();
            if is_harmful(ch) {
                escape(ch, &mut out)
            } else {
                out.push(ch)
            }
            count += out[before..].chars().count();
            if count > most {
                out.truncate(cut);
                out.push('…');
                return out;
            }
            if count < most {
                cut = out.len();
            }
        }
    }
    out
}

/// Control characters, and characters that reorder or hide what stands beside them.
fn is_harmful(ch: char) -> bool {
    ch.is_control()
        || matches!(ch, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn escape(ch: char, out: &mut String) {
    let code = u32::from(ch);
    // Writing to a string cannot fail.
    let _ = match ch {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        _ if code < 0x80 => write!(out, "\\x{code:02x}"),
        _ => write!(out, "\\u{{{code:x}}}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(harmless("a\tb\nc\r\u{1b}[2J\u{9b}\u{202e}ü"), "a\tb\nc\\r\\x1b[2J\\u{9b}\\u{202e}ü");
    }

    #[test]
    fn one_line_is_one_line_and_no_longer_than_told() {
        assert_eq!(one_line("  a \n\t b\u{7}c  ", 20), "a b\\x07c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("ab\u{1b}\u{1b}", 6), "ab…");
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_left(text in "(?s)[a-z \u{0}-\u{1f}\u{7f}-\u{a0}\u{2000}-\u{2070}]{0,40}", most in 1usize..50) {
            prop_assert!(harmless(&text).chars().all(|ch| matches!(ch, '\n' | '\t') || !is_harmful(ch)));
            let line = one_line(&text, most);
            prop_assert!(!line.chars().any(is_harmful));
            prop_assert!(line.chars().count() <= most);
            let whole = one_line(&text, usize::MAX);
            prop_assert!(line == whole || line.strip_suffix('…').is_some_and(|head| whole.starts_with(head)));
        }
    }
}
