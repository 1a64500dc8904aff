//! A key that nobody can print: it has no text of its own in `Debug`, none in `Display`, cannot be serialized, and its bytes
//! are overwritten when it is dropped.

use std::collections::HashSet;

use zeroize::Zeroizing;

/// A key.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a key over, without the white space around it that a file or a program's output brings along.
    pub fn new(text: String) -> Secret {
        let text = Zeroizing::new(text);
        Secret(Zeroizing::new(text.trim().to_owned()))
    }

    /// The key itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without the key: every word that begins as the key does, because providers tell a key that they do not take in a
    /// shortened form, and every part of it that is long enough to be no chance, forwards and backwards.
    pub fn taken_out_of(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let whole = self.without_parts(&text.replace(self.expose(), "[key]"));
        let Some((start, _)) = self.0.char_indices().nth(SHOWN) else {
            return whole;
        };
        let start = &self.0[..start];
        let mut out = String::with_capacity(whole.len());
        let mut rest = whole.as_str();
        while let Some(at) = rest.find(start) {
            out.push_str(&rest[..at]);
            out.push_str("[key]");
            let word = rest[at..].find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ')'));
            rest = word.map_or("", |end| &rest[at + end..]);
        }
        out.push_str(rest);
        out
    }

    /// A text without long parts of the key.
    fn without_parts(&self, text: &str) -> String {
        let forwards: Vec<char> = self.0.chars().collect();
        let backwards: Vec<char> = forwards.iter().rev().copied().collect();
        let parts: HashSet<&[char]> = forwards.windows(PART).chain(backwards.windows(PART)).collect();
        let chars: Vec<char> = text.chars().collect();
        let mut is_key = vec![false; chars.len()];
        for (at, window) in chars.windows(PART).enumerate() {
            if parts.contains(window) {
                is_key[at..at + PART].fill(true);
            }
        }
        let mut out = String::with_capacity(text.len());
        let mut before = false;
        for (char, is_key) in chars.into_iter().zip(is_key) {
            match is_key {
                true if before => {}
                true => out.push_str("[key]"),
                false => out.push(char),
            }
            before = is_key;
        }
        out
    }
}

/// So many characters of a key that stand together are the key's, not chance.
const PART: usize = 12;

/// So many characters may keys of different owners have in common (`sk-ant-`, `sk-proj-`).
const SHOWN: usize = 9;

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn it_does_not_show() {
        let secret = Secret::new(" sk-proj-abcdefghijkl\n".into());
        assert_eq!(secret.expose(), "sk-proj-abcdefghijkl");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret Some(Secret)");
    }

    #[test]
    fn it_is_taken_out_of_a_text() {
        let secret = Secret::new("sk-proj-abcdefghijkl".into());
        for (text, out) in [
            ("no sk-proj-abcdefghijkl.", "no [key]."),
            ("key: sk-proj-a****jkl. See", "key: [key] See"),
            ("'sk-proj-abc***' and \"sk-proj-abcdefghijkl\"", "'[key]' and \"[key]\""),
            ("sk-proj-x is another", "sk-proj-x is another"),
            ("ä", "ä"),
        ] {
            assert_eq!(secret.taken_out_of(text), out);
        }
        let long = Secret::new("sk-proj-Zx9Qw8Er7Ty6Ui5Op4As3Df2".into());
        for (text, out) in [
            ("tail oj-Zx9Qw8Er7Ty6Ui5Op4As3Df2.", "tail [key]."),
            ("rev 2fD3sA4pO5iU6yT7rE8wQ9xZ-jorp-ks!", "rev [key]!"),
            ("mid Qw8Er7Ty6Ui5 and Op4As3", "mid [key] and Op4As3"),
            ("?k=oj-Zx9Qw8Er7Ty6Ui5Op4As&b=1", "?k=[key]&b=1"),
        ] {
            assert_eq!(long.taken_out_of(text), out);
        }
        assert_eq!(Secret::new("ab".into()).taken_out_of("cabc"), "c[key]c");
        assert_eq!(Secret::new(String::new()).taken_out_of("abc"), "abc");
    }
}
