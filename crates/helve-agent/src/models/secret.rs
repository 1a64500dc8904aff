//! A key that nobody can print: it has no text of its own in `Debug`, none in `Display`, cannot be serialized, and its bytes
//! are overwritten when it is dropped.

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
    /// shortened form.
    pub fn taken_out_of(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let whole = text.replace(self.expose(), "[key]");
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
}

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
        assert_eq!(Secret::new("ab".into()).taken_out_of("cabc"), "c[key]c");
        assert_eq!(Secret::new(String::new()).taken_out_of("abc"), "abc");
    }
}
