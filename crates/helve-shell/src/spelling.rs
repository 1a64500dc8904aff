//! How paths are spelled inside arguments and inside the string literals of code.
//!
//! Used where no table of `programs` says which arguments are paths. Linear in the length of the text. Unknown parts of an
//! argument stand as [`UNKNOWN`].

/// What stands for a part of an argument that is not known.
pub const UNKNOWN: char = '\u{0}';

/// The paths that an argument may name: those that are absolute or have a `..`.
pub fn paths(text: &str) -> Vec<&str> {
    let mut value = text;
    let mut behind_key = false;
    while let Some(rest) = behind_name(value) {
        value = rest;
        behind_key = true;
    }
    if let Some(path) = file_url(value) {
        vec![path]
    } else if is_url(value) {
        // A URL may hold anything, also `=` and `..`.
        Vec::new()
    } else if behind_key {
        list(value)
    } else if value.starts_with('/') {
        let ends = value.find(":/").unwrap_or(value.len());
        let (first, rest) = value.split_at(ends);
        let mut found = vec![first];
        found.extend(list(rest));
        found
    } else if is_remote(value) {
        Vec::new()
    } else {
        let path = glued(value).unwrap_or(value);
        is_path(path).then_some(path).into_iter().collect()
    }
}

/// What stands behind the names of an argument: `x` of `--file=x`.
pub fn value(text: &str) -> &str {
    let mut value = text;
    while let Some(rest) = behind_name(value) {
        value = rest;
    }
    value
}

/// The paths that an argument may name, also those that lead nowhere else: its value as a whole, and each path of a list.
pub fn named(text: &str) -> impl Iterator<Item = &str> {
    let value = value(text);
    let (whole, listed) = if let Some(path) = file_url(value) {
        (Some(path), Vec::new())
    } else if value.is_empty() || is_url(value) || value.len() == text.len() && is_remote(value) {
        (None, Vec::new())
    } else if value.starts_with('-') {
        (behind_letter(value), behind_letters(value).into_iter().chain(list(value)).collect())
    } else {
        (Some(value), list(value))
    };
    whole.into_iter().chain(listed.into_iter().filter(move |path| Some(*path) != whole))
}

/// The paths of a list such as the value of `PATH`.
pub fn list(text: &str) -> Vec<&str> {
    // `//` behind a colon is the rest of a URL.
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().find(|(at, ch)| {
            *ch == ',' || *ch == ':' && !rest.get(at + 1..).is_some_and(|behind| behind.starts_with("//"))
        });
        let (element, behind) = match end {
            Some((at, _)) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default()),
            None => (rest, ""),
        };
        let element = behind_name(element).unwrap_or(element);
        if is_path(element) && !is_url(element) {
            found.push(element);
        }
        rest = behind;
    }
    found
}

/// The paths in the string literals of a program, and behind the file commands of sed.
pub fn literals(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut earlier = ' ';
    for (at, ch) in text.char_indices() {
        let quoted = matches!(before, '\'' | '"' | '`');
        let behind_command = before == ' ' && matches!(earlier, 'r' | 'R' | 'w' | 'W' | '<' | '>');
        if matches!(ch, '/' | '~' | '.') && (quoted || behind_command) {
            let literal = text.get(at..).unwrap_or_default();
            let literal = literal.get(..literal.floor_char_boundary(MAX_LITERAL)).unwrap_or_default();
            let end =
                literal.find(|ch: char| matches!(ch, '\'' | '"' | '`' | '\n' | ';') || ch == ' ' && !quoted);
            let literal = literal.get(..end.unwrap_or(literal.len())).unwrap_or_default();
            if is_literal_path(literal) {
                found.push(literal);
            }
        }
        earlier = before;
        before = ch;
    }
    found
}

/// The part of a literal that is looked at; enough for any path that a system call takes.
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

fn is_path(text: &str) -> bool {
    text.starts_with('/') || has_parent(text)
}

/// True if it starts at the root or a home directory, or has a component `..`.
pub(crate) fn leads(text: &str) -> bool {
    text.starts_with(['/', '~']) || has_parent(text)
}

/// True if a component is `..`.
pub fn has_parent(text: &str) -> bool {
    text.split('/').any(|component| component == "..")
}

/// What stands behind a leading `NAME=`, `NAME+=`, `--option=` or `@`.
fn behind_name(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('@') {
        return Some(rest);
    }
    let name = text.trim_start_matches('-');
    let end = name.find(|ch: char| !(ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-' | '.')))?;
    let behind = name.get(end..).unwrap_or_default();
    let named = name.starts_with(|ch: char| ch.is_ascii_alphabetic() || ch == '_');
    behind.strip_prefix("+=").or_else(|| behind.strip_prefix('=')).filter(|_| named)
}

/// The value in `-I/usr/include`, `-C..`. A lone `/` is a separator, as in `-d/`.
fn glued(text: &str) -> Option<&str> {
    let mut chars = text.strip_prefix('-')?.chars();
    chars.next().filter(char::is_ascii_alphabetic)?;
    let value = chars.as_str();
    (value.starts_with("..") || value.starts_with('/') && value.len() > 1).then_some(value)
}

/// The value in `-Isrc/include`, where it has the look of a path; an option with two dashes has none behind its name.
fn behind_letter(text: &str) -> Option<&str> {
    let mut chars = text.strip_prefix('-')?.chars();
    chars.next().filter(|letter| *letter != '-')?;
    let value = chars.as_str();
    (value.contains('/') && value != "/" || value.starts_with('.')).then_some(value)
}

/// The value in `-vf/etc/x`: behind two or three letters, unless the first is one that mostly has a relative path behind
/// it, as in `-Ilib/x`.
fn behind_letters(text: &str) -> Option<&str> {
    let letters = text.strip_prefix('-')?;
    let value = letters.trim_start_matches(|ch: char| ch.is_ascii_alphabetic());
    let is_cluster = matches!(letters.len() - value.len(), 2 | 3) && !letters.starts_with(['I', 'L', 'o']);
    let leads = value.starts_with("../") || value.starts_with('/') && value.len() > 1;
    (is_cluster && leads).then_some(value)
}

/// `scheme://…` for any scheme.
fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|ch: char| ch.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// The path of `file:///…`, `file://host/…` or `file:/…`.
pub(crate) fn file_url(text: &str) -> Option<&str> {
    let scheme = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"))?;
    let behind = text.get(scheme.len()..)?;
    match behind.strip_prefix("//") {
        Some(host_and_path) => host_and_path.get(host_and_path.find('/')?..),
        None => behind.starts_with('/').then_some(behind),
    }
}

/// `host:/path` or `user@host:path`: a path on another machine, or an object of a repository.
fn is_remote(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, _)| {
        !host.is_empty()
            && !host.starts_with('.')
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_names_its_value_and_the_paths_of_a_list() {
        for (text, expected) in [
            ("notes", "notes"),
            ("src/x", "src/x"),
            ("/etc/x", "/etc/x"),
            ("--file=x", "x"),
            ("--file", ""),
            ("if=/x", "/x"),
            ("@/x", "/x"),
            ("data=@x", "x"),
            ("-I/usr/include", "/usr/include"),
            ("-Isrc/include", "src/include"),
            ("-f.env", ".env"),
            ("-pe1", ""),
            ("-vf/etc/x", "f/etc/x /etc/x"),
            ("-xvf../x", "vf../x ../x"),
            ("-Ia/b", "a/b"),
            ("-iquote/x", "quote/x"),
            ("--path=src:/x", "src:/x /x"),
            ("-d/", ""),
            ("-", ""),
            ("--", ""),
            ("/a:/b", "/a:/b /a /b"),
            ("--x=a,/b", "a,/b /b"),
            ("-Wl,-T,/x", "l,-T,/x /x"),
            ("https://x/y", ""),
            ("file:///x", "/x"),
            ("host:/x", ""),
            ("", ""),
        ] {
            assert_eq!(named(text).collect::<Vec<_>>().join(" "), expected, "{text}");
        }
    }
}
