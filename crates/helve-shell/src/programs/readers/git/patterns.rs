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
/// itself as it is written. That holds as well where a class has no end: nothing matches that.
pub(super) fn of(path: &str, magic: Magic) -> Option<(String, String)> {
    let is_special = |ch: char| {
        !magic.literal && matches!(ch, '*' | '?' | '[' | '\\') || magic.any_case && ch.is_ascii_alphabetic()
    };
    path.contains(is_special).then_some(())?;
    let mut all = String::with_capacity(path.len());
    let mut classes = Classes { text: path.as_bytes(), close: 0 };
    let mut rest = path.chars();
    while let Some(ch) = rest.next() {
        match ch {
            '*' | '?' if !magic.literal => all.push(ch),
            '[' if !magic.literal => {
                let end = classes.end(path.len() - rest.as_str().len())?;
                rest = path.get(end..)?.chars();
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

/// The classes of characters in a pathspec.
struct Classes<'a> {
    text: &'a [u8],
    /// The last `]` that was looked for, so that none is looked for twice.
    close: usize,
}

impl Classes<'_> {
    /// Where a class ends whose bracket is in front of a place; none if it does not.
    fn end(&mut self, mut at: usize) -> Option<usize> {
        if matches!(self.text.get(at)?, b'!' | b'^') {
            at += 1;
        }
        let first = at;
        // Whether a range may start with what is before.
        let mut may_range = false;
        loop {
            let next = self.text.get(at + 1);
            let (size, is_one) = match self.text.get(at)? {
                b']' if at > first => return Some(at + 1),
                b'\\' => (2, true),
                b'-' if may_range && next == Some(&b'\\') => (3, false),
                b'-' if may_range && next.is_some_and(|next| *next != b']') => (2, false),
                b'[' if next == Some(&b':') => match self.end_of_name(at + 2)? {
                    Some(end) => (end - at, false),
                    None => (1, true),
                },
                _ => (1, true),
            };
            at += size;
            may_range = is_one;
        }
    }

    /// Where the name of a class ends, as in `[:alpha:]`, if it is one; none if no bracket follows.
    fn end_of_name(&mut self, from: usize) -> Option<Option<usize>> {
        if self.close < from {
            self.close = from + self.text.get(from..)?.iter().position(|byte| *byte == b']')?;
        }
        let is_name = self.close > from && self.text.get(self.close - 1) == Some(&b':');
        Some(is_name.then_some(self.close + 1))
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
            ("a[!!]x]d", is("a", "?x?d")),
            ("a[]]d", is("a", "?d")),
            ("a[[:b]c:]d", is("a", "?c:?d")),
            ("a[b-[:c:]d]", is("a", "?d?")),
            ("a[b-\\]c]d", is("a", "?d")),
            ("a[bc", None),
            ("a*[bc\\]", None),
            ("a[[:bc", None),
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
