//! How paths are spelled: inside a word, as a whole word, and in the string literals of a program.
//!
//! All functions are linear in the length of the text and give paths in the spelling of [`PathWord`](super::PathWord).

use crate::command::{PartKind, Position, Word};

/// A path as it is spelled in a word.
pub(super) struct Spelled {
    pub(super) text: String,
    /// False if it is relative and holds an expansion, so that its `..` may count from anywhere.
    pub(super) anchored: bool,
}

impl Spelled {
    /// The home directory.
    pub(super) fn home() -> Self {
        Spelled::known("~")
    }

    fn known(text: &str) -> Self {
        Spelled { text: text.to_owned(), anchored: true }
    }
}

/// The paths in a word that may name files.
pub(super) fn paths(word: &Word) -> Vec<Spelled> {
    let mut found = Vec::new();
    let assignment = word.position == Position::Assignment;
    if assignment && word.text.starts_with("IFS=") {
        return found;
    }
    let mut from = 0;
    while let Some(length) = key_length(rest(word, from)) {
        from += length;
    }
    let value = rest(word, from);
    let end = word.text.len();
    if let Some(path) = file_url(value) {
        found.push(Spelled::known(&path));
    } else if is_url(value) {
        // A URL may hold anything, also `=` and `..`.
    } else if !word.known && braces(word) {
        let separators = |ch, _: &str| matches!(ch, '{' | ',' | '}');
        found.extend(elements(value, separators).filter_map(|(a, b)| path_in(word, from + a, from + b)));
    } else if assignment || from > 0 {
        // `//` behind a colon is the rest of a URL in a list.
        let separators = |ch, behind: &str| ch == ',' || ch == ':' && !behind.starts_with("//");
        for (a, b) in elements(value, separators) {
            let key = key_length(value.get(a..b).unwrap_or_default()).unwrap_or_default();
            found.extend(path_in(word, from + a + key, from + b));
        }
    } else if value.starts_with(['/', '~']) {
        let separators = |ch, behind: &str| ch == ':' && behind.starts_with(['/', '~']);
        found.extend(elements(value, separators).filter_map(|(a, b)| path_in(word, a, b)));
    } else if !is_remote(value) {
        let glued = glued(value).and_then(|start| path_in(word, start, end));
        found.extend(glued.or_else(|| path_in(word, 0, end)));
    }
    found.extend(defaults(word));
    found
}

/// The path that the whole word is, if it is absolute, under home, or has a `..`.
pub(super) fn whole(word: &Word) -> Option<Spelled> {
    path_in(word, 0, word.text.len())
}

/// The whole word as a relative path; a quoted `~` is a file of that name.
pub(super) fn relative(word: &Word) -> Spelled {
    if word.text.starts_with('~') {
        Spelled::known(&format!("./{}", word.text))
    } else {
        Spelled::known(&word.text)
    }
}

/// The paths in the string literals of a program, and behind the file commands of sed.
pub(super) fn literals(text: &str) -> Vec<Spelled> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut earlier = ' ';
    for (at, ch) in text.char_indices() {
        let quoted = matches!(before, '\'' | '"' | '`');
        let behind_command = before == ' ' && matches!(earlier, 'r' | 'R' | 'w' | 'W' | '<' | '>');
        if matches!(ch, '/' | '~' | '.') && (quoted || behind_command) {
            let literal = text.get(at..).unwrap_or_default();
            let end =
                literal.find(|ch: char| matches!(ch, '\'' | '"' | '`' | '\n' | ';') || ch == ' ' && !quoted);
            let literal = literal.get(..end.unwrap_or(literal.len()).min(MAX_LITERAL)).unwrap_or_default();
            if is_literal_path(literal) {
                found.push(Spelled::known(literal));
            }
        }
        earlier = before;
        before = ch;
    }
    found
}

/// The part of a literal that is kept; enough for any path that a system call takes.
const MAX_LITERAL: usize = 4096;

/// Tells a path from an operator, a regular expression or a lone separator.
fn is_literal_path(literal: &str) -> bool {
    let plain = |ch: char| ch.is_alphanumeric() || matches!(ch, '_' | '.' | '-');
    if let Some(name) = literal.strip_prefix('/') {
        return name.trim_start_matches('/').starts_with(plain);
    }
    if let Some(name) = literal.strip_prefix('~') {
        return name.is_empty() || name.starts_with('/');
    }
    has_parent(literal)
}

fn rest(word: &Word, from: usize) -> &str {
    word.text.get(from..).unwrap_or_default()
}

/// The length of a leading `NAME=`, `NAME+=`, `--option=` or `@`, behind which a value starts.
fn key_length(text: &str) -> Option<usize> {
    if text.starts_with('@') {
        return Some(1);
    }
    let name = text.trim_start_matches('-');
    let end = name.find(|ch: char| !(ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-' | '.')))?;
    let behind = name.get(end..).unwrap_or_default();
    let sign = if behind.starts_with("+=") { 2 } else { usize::from(behind.starts_with('=')) };
    let named = name.starts_with(|ch: char| ch.is_ascii_alphabetic() || ch == '_');
    (sign > 0 && named).then_some(text.len() - name.len() + end + sign)
}

/// `-I/usr/include`, `-C..`: where the value of a one-letter option starts. A lone `/` is a separator, as in `-d/`.
fn glued(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('-')?.chars();
    chars.next().filter(char::is_ascii_alphabetic)?;
    let value = chars.as_str();
    (value.starts_with("..") || value.starts_with('/') && value.len() > 1).then_some(2)
}

/// The ranges between the separators. A separator is judged by itself and by what stands behind it.
fn elements(text: &str, separates: impl Fn(char, &str) -> bool) -> impl Iterator<Item = (usize, usize)> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for (at, ch) in text.char_indices() {
        let behind = at + ch.len_utf8();
        if separates(ch, text.get(behind..).unwrap_or_default()) {
            ranges.push((start, at));
            start = behind;
        }
    }
    ranges.push((start, text.len()));
    ranges.into_iter()
}

fn braces(word: &Word) -> bool {
    word.parts.iter().any(|part| {
        part.kind == PartKind::Bare && word.text.get(part.text.clone()).is_some_and(|text| text.contains('{'))
    })
}

/// The path that a range of the word's text is.
fn path_in(word: &Word, from: usize, to: usize) -> Option<Spelled> {
    let text = word.text.get(from..to)?;
    if text.starts_with('/') {
        return Some(Spelled::known(text));
    }
    let first = word.parts.partition_point(|part| part.text.end <= from);
    let mut parts = word.parts.get(first..)?.iter().take_while(|part| part.text.start < to).peekable();
    let part = parts.peek()?;
    if text.starts_with('~') && part.kind == PartKind::Bare {
        return is_home(text).then(|| Spelled::known(text));
    }
    if part.kind == PartKind::Variable && part.text.start == from {
        let behind = word.text.get(part.text.end..to).unwrap_or_default();
        let name = word.text.get(part.text.clone()).unwrap_or_default().trim_matches(['$', '{', '}']);
        let whole = behind.is_empty() || behind.starts_with('/');
        match name {
            "HOME" if whole => return Some(Spelled::known(&format!("~{behind}"))),
            "OLDPWD" if whole => return Some(Spelled::known(&format!("~-{behind}"))),
            "PWD" if whole && has_parent(behind) => return Some(Spelled::known(&format!(".{behind}"))),
            _ => {}
        }
    }
    let anchored = parts.all(|part| !matches!(part.kind, PartKind::Variable | PartKind::Expansion));
    has_parent(text).then(|| Spelled { text: text.to_owned(), anchored })
}

/// `~`, `~user`, and either with a path behind it; not the `~` of an operator such as `=~"x"`.
fn is_home(text: &str) -> bool {
    let name = text.trim_start_matches('~');
    let end = name.find('/').unwrap_or(name.len());
    text.starts_with('~')
        && text.len() == name.len() + 1
        && name.bytes().take(end).all(|byte| byte.is_ascii_alphanumeric() || b"_.-+".contains(&byte))
}

/// True if a component is `..`.
fn has_parent(text: &str) -> bool {
    text.split('/').any(|component| component == "..")
}

/// `scheme://…` for any scheme.
fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|ch: char| ch.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// The path of `file:///…`, `file://host/…` or `file:/…`, percent signs decoded.
fn file_url(text: &str) -> Option<String> {
    let scheme = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"))?;
    let behind = text.get(scheme.len()..)?;
    let path = match behind.strip_prefix("//") {
        Some(host_and_path) => host_and_path.get(host_and_path.find('/')?..)?,
        None => behind.starts_with('/').then_some(behind)?,
    };
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = (byte == b'%').then(|| path.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

/// `host:/path` or `user@host:path`: a path on another machine, or an object of a repository.
fn is_remote(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, _)| {
        !host.is_empty()
            && !host.starts_with('.')
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte))
    })
}

/// The paths that `${x:-/etc}` and its kin put in place of a variable.
fn defaults(word: &Word) -> Vec<Spelled> {
    let expansions = word.parts.iter().filter(|part| part.kind == PartKind::Expansion);
    let mut found = Vec::new();
    for part in expansions {
        let text = word.text.get(part.text.clone()).unwrap_or_default();
        let Some(inner) = text.strip_prefix("${").and_then(|text| text.strip_suffix('}')) else { continue };
        let value = inner.trim_start_matches(|ch: char| ch.is_ascii_alphanumeric() || ch == '_');
        let value = value.strip_prefix(':').unwrap_or(value);
        let Some(value) = value.strip_prefix(['-', '=', '+']) else { continue };
        let value = value.trim_matches(['"', '\'']);
        if value.starts_with('/') || is_home(value) || has_parent(value) {
            found.push(Spelled::known(value));
        }
    }
    found
}
