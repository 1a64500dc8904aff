//! Paths as unified diffs write them: quoted where they hold odd bytes, with a time behind a tab, with `a/` and `b/` in
//! front.

/// The path behind `--- `, `+++ ` or `rename from `: without a time, unquoted. None if it names no file that text can name.
pub(super) fn written(text: &str) -> Option<String> {
    let text = text.trim_end_matches('\r');
    if text.starts_with('"') {
        return unquoted(text).map(|(path, _)| path);
    }
    let path = text.split('\t').next().unwrap_or(text).trim_end();
    (!path.is_empty()).then(|| path.to_owned())
}

/// A path in double quotes with C's escapes, and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = text.strip_prefix('"')?.as_bytes();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'"' => break,
            b'\\' => {
                let (escape, after) = rest.split_first()?;
                rest = after;
                bytes.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => *escape,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        let octal = |digit: u8| (b'0'..=b'7').contains(&digit).then(|| digit - b'0');
                        (escape - b'0') * 64 + octal(digits[0])? * 8 + octal(digits[1])?
                    }
                    _ => return None,
                });
            }
            byte => bytes.push(*byte),
        }
    }
    Some((String::from_utf8(bytes).ok()?, std::str::from_utf8(rest).ok()?))
}

pub(super) const NOTHING: &str = "/dev/null";

/// Prefixes of the old and the new side that git writes: the usual ones, and those that say what is compared.
const PREFIXES: [(&str, &str); 5] = [("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/")];

/// Old and new path without the prefixes of the two sides. Only a pair of prefixes is one: where both sides are equal, or
/// one has none, directories are really called so.
pub(super) fn without_prefixes(old: &str, new: &str) -> (String, String) {
    for (left, right) in PREFIXES {
        let stripped = match (old, new) {
            (NOTHING, NOTHING) => None,
            (NOTHING, new) => new.strip_prefix(right).map(|new| (NOTHING, new)),
            (old, NOTHING) => old.strip_prefix(left).map(|old| (old, NOTHING)),
            (old, new) => old.strip_prefix(left).zip(new.strip_prefix(right)),
        };
        if let Some((old, new)) = stripped.filter(|(old, new)| !old.is_empty() && !new.is_empty()) {
            return (old.to_owned(), new.to_owned());
        }
        // A side that is not there leaves the other alone, and only the usual prefix is taken from that.
        if old == NOTHING || new == NOTHING {
            break;
        }
    }
    (old.to_owned(), new.to_owned())
}

/// The two paths of a `diff --git` line, if they are the same file or plainly two.
pub(super) fn from_git_line(rest: &str) -> Option<(String, String)> {
    let rest = rest.trim_end();
    if rest.starts_with('"') {
        let (old, rest) = unquoted(rest)?;
        return Some(without_prefixes(&old, &written(rest.trim_start())?));
    }
    // The paths may hold spaces: the same path twice is the likeliest reading, with the space between them in the middle,
    // for the prefixes of both sides are equally long. Else there must be only one space.
    if let (Some(old), Some(new)) = (rest.get(..rest.len() / 2), rest.get(rest.len() / 2..))
        && let Some(new) = new.strip_prefix(' ')
    {
        let (old, new) = without_prefixes(old, new);
        if old == new {
            return Some((old, new));
        }
    }
    let (old, new) = rest.split_once(' ').filter(|(_, new)| !new.contains(' '))?;
    Some(without_prefixes(old, &written(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn names_are_read_as_git_and_diff_write_them() {
        let cases = [
            ("a/x.rs", Some("a/x.rs")),
            ("x y.rs\t2024-01-01 00:00:00", Some("x y.rs")),
            ("x.rs\r", Some("x.rs")),
            (r#""a/\303\244 \"q\"\t.rs""#, Some("a/ä \"q\"\t.rs")),
            (r#""a/\377""#, None),
            (r#""a/\9""#, None),
            (r#""a/\30""#, None),
            (r#""a"#, None),
            ("", None),
        ];
        for (text, path) in cases {
            assert_eq!(written(text).as_deref(), path, "{text}");
        }
    }

    #[test]
    fn only_a_pair_of_prefixes_is_taken_off() {
        let cases = [
            ("a/x", "b/x", "x", "x"),
            ("x", "x", "x", "x"),
            ("a/x", "a/x", "a/x", "a/x"),
            ("a/x", NOTHING, "x", NOTHING),
            (NOTHING, "b/x", NOTHING, "x"),
            (NOTHING, "w/x", NOTHING, "w/x"),
            ("i/x", "w/x", "x", "x"),
            ("a/x", "x", "a/x", "x"),
            ("a/", "b/", "a/", "b/"),
        ];
        for (old, new, old_path, new_path) in cases {
            assert_eq!(without_prefixes(old, new), (old_path.to_owned(), new_path.to_owned()), "{old} {new}");
        }
    }

    #[test]
    fn a_git_line_names_both_files() {
        let pair = |old: &str, new: &str| Some((old.to_owned(), new.to_owned()));
        assert_eq!(from_git_line("a/x b/x"), pair("x", "x"));
        assert_eq!(from_git_line("a/x y b/x y"), pair("x y", "x y"));
        assert_eq!(from_git_line("a/x b/y"), pair("x", "y"));
        assert_eq!(from_git_line("a/x y b/z"), None);
        assert_eq!(from_git_line("x y x y"), pair("x y", "x y"));
        // Linear, however many spaces there are.
        assert!(from_git_line(&format!("{}b", "a ".repeat(1 << 20))).is_none());
        assert_eq!(from_git_line(r#""a/\303\244" "b/\303\244""#), pair("ä", "ä"));
    }
}
