//! Pathspecs of git that match more than the path that they are written as.
//!
//! What comes out is a pattern as shells have them, which matches at least the paths that git's does, name by name: `*` of git
//! goes on behind a slash as well, which is not said here.

/// What stands in front of a pathspec about how it matches.
#[derive(Clone, Copy, Default)]
pub(super) struct Magic {
    /// `:(literal)`: nothing in it is a pattern.
    literal: bool,
    /// `:(icase)`: letters are of any case.
    any_case: bool,
}

impl Magic {
    /// What the text behind the colon of a pathspec begins with.
    pub(super) fn of(magic: &str) -> Magic {
        let words =
            magic.strip_prefix('(').and_then(|magic| magic.split_once(')')).map_or("", |(words, _)| words);
        let has = |wanted: &str| words.split(',').any(|word| word.trim() == wanted);
        Magic { literal: has("literal"), any_case: has("icase") }
    }
}

/// What is certain of the paths that match, and the pattern behind that, which may be empty; none if the path stands for
/// itself as it is written.
pub(super) fn of(path: &str, magic: Magic) -> Option<(String, String)> {
    let is_special = |ch: char| {
        !magic.literal && matches!(ch, '*' | '?' | '[' | '\\') || magic.any_case && ch.is_ascii_alphabetic()
    };
    path.contains(is_special).then_some(())?;
    let mut all = String::with_capacity(path.len());
    let mut rest = path.chars();
    while let Some(ch) = rest.next() {
        match ch {
            '*' | '?' if !magic.literal => all.push(ch),
            '[' if !magic.literal => {
                leave_class(&mut rest);
                all.push('?');
            }
            '\\' if !magic.literal => add(&mut all, rest.next().unwrap_or('\\'), magic),
            ch => add(&mut all, ch, magic),
        }
    }
    let pattern = all.find(['*', '?', '[']).map_or(String::new(), |active| all.split_off(active));
    Some((all, pattern))
}

/// Adds a character that stands for itself.
fn add(pattern: &mut String, ch: char, magic: Magic) {
    match ch {
        ch if magic.any_case && ch.is_ascii_alphabetic() => {
            pattern.extend(['[', ch.to_ascii_lowercase(), ch.to_ascii_uppercase(), ']']);
        }
        '*' | '?' | '[' | ']' | '\\' => pattern.push('?'),
        ch => pattern.push(ch),
    }
}

/// Goes to the end of a class of characters, or of the text where it has none.
fn leave_class(rest: &mut std::str::Chars<'_>) {
    let mut ahead = rest.clone();
    let mut is_first = true;
    while let Some(ch) = ahead.next() {
        match ch {
            '!' | '^' if is_first => continue,
            ']' if !is_first => {
                *rest = ahead;
                return;
            }
            '\\' => {
                ahead.next();
            }
            // A class by its name, as in `[[:alpha:]]`.
            '[' if ahead.as_str().starts_with(':') => {
                if let Some((_, behind)) = ahead.as_str().split_once(":]") {
                    ahead = behind.chars();
                }
            }
            _ => {}
        }
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pathspec_is_a_pattern_of_a_shell() {
        let pattern = |magic: &str, path: &str| of(path, Magic::of(magic));
        let is = |before: &str, pattern: &str| Some((before.to_owned(), pattern.to_owned()));
        for (path, found) in [
            ("a/b", None),
            ("a]{b}", None),
            ("a/b*c/d", is("a/b", "*c/d")),
            ("**/a?", is("", "**/a?")),
            ("a[bc]d", is("a", "?d")),
            ("a[!]x]d", is("a", "?d")),
            ("a[\\]x]d", is("a", "?d")),
            ("a[[:alpha:]x]d", is("a", "?d")),
            ("a[bc", is("a", "?bc")),
            ("a\\b/c", is("ab/c", "")),
            ("a\\b/c*", is("ab/c", "*")),
            ("a\\*b", is("a", "?b")),
            ("a\\", is("a", "?")),
        ] {
            assert_eq!(pattern("", path), found, "{path}");
            assert_eq!(pattern("(top)", path), found, "{path}");
            assert_eq!(pattern("(top,literal)", path), None, "{path}");
        }
        assert_eq!(pattern("(icase)", "1/aB"), is("1/", "[aA][bB]"));
        assert_eq!(pattern("(icase,literal)", "a*"), is("", "[aA]?"));
    }
}
