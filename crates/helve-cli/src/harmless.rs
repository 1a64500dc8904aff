//! Text from outside, made safe for a terminal: what would move the cursor, change colours or hide is shown instead
//! of done. The pipeline has done this to results already; arguments, commands and kept outputs have not been through it.

use helve::harmless::{escaped, is_harmless};

pub(crate) use helve::harmless::harmless;

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
            if is_harmless(ch) {
                out.push(ch);
            } else {
                out.push_str(&escaped(ch));
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
            prop_assert!(harmless(&text).chars().all(|ch| matches!(ch, '\n' | '\t') || is_harmless(ch)));
            let line = one_line(&text, most);
            prop_assert!(line.chars().all(is_harmless));
            prop_assert!(line.chars().count() <= most);
            let whole = one_line(&text, usize::MAX);
            prop_assert!(line == whole || line.strip_suffix('…').is_some_and(|head| whole.starts_with(head)));
        }
    }
}
