//! Writing text so that a POSIX shell reads it back unchanged.
//!
//! Three places, three functions: a word of its own, inside double quotes, inside single quotes. All are total over
//! text without NUL, which no shell can carry; refusing that is the caller's task. Not here: any other syntax.

use std::borrow::Cow;

/// Words that mean something to a shell when they stand bare in front of a command.
const KEYWORDS: [&str; 17] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while",
];

/// Text as one word of a command line, in single quotes where it needs them.
///
/// ```
/// assert_eq!(helve_shell::quote("src/main.rs"), "src/main.rs");
/// assert_eq!(helve_shell::quote("it's"), r"'it'\''s'");
/// assert_eq!(helve_shell::quote(""), "''");
/// ```
pub fn quote(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) && !KEYWORDS.contains(&text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", quote_single_inner(text)))
}

/// Text for a place that already stands between two double quotes.
///
/// ```
/// assert_eq!(helve_shell::quote_double("$(id) \"x\""), r#"\$(id) \"x\""#);
/// ```
pub fn quote_double(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '$', '`']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for ch in text.chars() {
        if matches!(ch, '\\' | '"' | '$' | '`') {
            out.push('\\');
        }
        out.push(ch);
    }
    Cow::Owned(out)
}

/// Text for a place that already stands between two single quotes.
///
/// ```
/// assert_eq!(helve_shell::quote_single_inner("it's"), r"it'\''s");
/// ```
pub fn quote_single_inner(text: &str) -> Cow<'_, str> {
    if text.contains('\'') { Cow::Owned(text.replace('\'', r"'\''")) } else { Cow::Borrowed(text) }
}
