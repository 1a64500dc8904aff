//! Takes out what nobody else should read: the secrets that are known, and what looks like one.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// What stands in its place.
const REMOVED: &str = "[REMOVED]";

/// The shapes of tokens and keys. The group `keep` stays, the rest goes.
const SHAPES: &[&str] = &[
    // Private keys, as far as they are there.
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    // JSON web tokens.
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    // Tokens by the beginnings that their makers give them.
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[a-z]-[A-Za-z0-9-]{10,}",
    r"\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{20,}",
    r"\bAIza[0-9A-Za-z_-]{30,}",
    r"\bya29\.[0-9A-Za-z_-]{20,}",
    r"\b(?:npm|hf|dckr_pat)_[A-Za-z0-9_-]{20,}",
    r"\bpypi-[A-Za-z0-9_-]{30,}",
    // What is sent to show who one is.
    r"(?i)(?P<keep>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{12,}",
    // A password in an address.
    r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?P<also>@)",
    r#"(?i)(?P<keep>\bauthorization[\\"']*\s*[:=]\s*[\\"']*[a-z]+\s+)[A-Za-z0-9._~+/=-]{12,}"#,
    r#"(?P<keep>\bcurl\b[^\n|;&]*?\s(?:-u|--user|-U|--proxy-user)[\s=]*[^\s:/]*:)[^\s\\"']+"#,
    // A password as an argument of its own.
    r#"(?i)(?P<keep>\s--[a-z-]*(?:password|passwd|passphrase|secret|api-key|access-key|token)\s+)[^\s\\"'-][^\s\\"']{5,}"#,
    // A value behind a name that says what it is, also inside quoted JSON: in quotes all of it.
    r#"(?i)(?P<keep>\b[a-z0-9_-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|token)(?:[_-][a-z0-9_-]*)?[\\"']*\s*[=:]\s*\\?")[^"\\\n]{6,}"#,
    r#"(?i)(?P<keep>\b[a-z0-9_-]*(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|token)(?:[_-][a-z0-9_-]*)?[\\"']*\s*[=:]\s*[\\"']*)[^\s"'\\,;&\[\]]{6,}"#,
];

static PATTERNS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().filter_map(|shape| Regex::new(shape).ok()).collect());

/// Takes secrets out of texts and values.
pub struct Cleaner<'a> {
    known: &'a dyn Fn(&str) -> String,
}

impl<'a> Cleaner<'a> {
    /// With what takes the secrets out that are known.
    pub fn new(known: &'a dyn Fn(&str) -> String) -> Self {
        Cleaner { known }
    }

    /// A text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut clean = (self.known)(text);
        for pattern in PATTERNS.iter() {
            if pattern.is_match(&clean) {
                let replaced = pattern.replace_all(&clean, |found: &Captures<'_>| {
                    let part = |name| found.name(name).map_or("", |part| part.as_str());
                    format!("{}{REMOVED}{}", part("keep"), part("also"))
                });
                clean = replaced.into_owned();
            }
        }
        clean
    }

    /// Takes secrets out of every text of a value, names of members too.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.value(value)),
            Value::Object(map) => {
                let members = std::mem::take(map);
                for (name, mut value) in members {
                    match &value {
                        Value::String(text) if self.is_told_by(&name, text) => {
                            value = Value::String(REMOVED.to_owned());
                        }
                        _ => self.value(&mut value),
                    }
                    map.insert(self.text(&name), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether the name of a member says that its text is a secret.
    fn is_told_by(&self, name: &str, text: &str) -> bool {
        let Some(pattern) = PATTERNS.last() else { return false };
        let said = format!("{name}={}", "x".repeat(text.trim().len().min(6)));
        pattern.is_match(&said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    fn clean(text: &str) -> String {
        Cleaner::new(&|text| text.replace("hunter2-long", "[REDACTED:PW]")).text(text)
    }

    #[test]
    fn every_shape_is_a_pattern_and_takes_its_kind_out() {
        assert_eq!(PATTERNS.len(), SHAPES.len());
        let long = "aB3".repeat(14);
        for (text, expected) in [
            ("a hunter2-long b", "a [REDACTED:PW] b"),
            (&format!("x ghp_{long} y"), "x [REMOVED] y"),
            (&format!("sk-ant-{long}"), "[REMOVED]"),
            (&format!("AIza{long}"), "[REMOVED]"),
            ("AKIAABCDEFGHIJKLMNOP", "[REMOVED]"),
            ("eyJhbGciOiJI.eyJzdWIiOiIx.sig_nature", "[REMOVED]"),
            ("k -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- l", "k [REMOVED] l"),
            ("-----BEGIN PRIVATE KEY-----\\nMII", "[REMOVED]"),
            ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [REMOVED]"),
            ("https://me:geheim@host/x", "https://me:[REMOVED]@host/x"),
            ("DB_PASSWORD=geheim99 next", "DB_PASSWORD=[REMOVED] next"),
            (r#"{\"api_key\":\"geheim99\"}"#, r#"{\"api_key\":\"[REMOVED]\"}"#),
            (r#"password = "ab,cdef ghijkl"; x"#, r#"password = "[REMOVED]"; x"#),
            (r#"{\"api_key\": \"ge heim99\"}"#, r#"{\"api_key\": \"[REMOVED]\"}"#),
            ("mysql --password Sup3rSecret -e x", "mysql --password [REMOVED] -e x"),
            ("curl -s -u bob:Hunter22 https://x", "curl -s -u bob:[REMOVED] https://x"),
            ("Authorization: token 0123456789abcdef", "Authorization: token [REMOVED]"),
            ("the password is long", "the password is long"),
            (
                "tool --token --verbose; docker run -u 1000:1000 x",
                "tool --token --verbose; docker run -u 1000:1000 x",
            ),
            ("sh tests/run.sh; echo https://host:80/a@b", "sh tests/run.sh; echo https://host:80/a@b"),
            ("max_tokens: 1000000", "max_tokens: 1000000"),
        ] {
            assert_eq!(clean(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_is_cleaned_in_every_place() {
        let cleaner = Cleaner::new(&|text| text.replace("known", "[K]"));
        let mut value =
            json!({"password": "geheim99", "known": ["a known b", 7], "path": "/a", "tokens": 12});
        cleaner.value(&mut value);
        assert_eq!(
            value,
            json!({"password": "[REMOVED]", "[K]": ["a [K] b", 7], "path": "/a", "tokens": 12})
        );
    }

    proptest! {
        #[test]
        fn what_is_clean_stays_as_it_is(text in "(?s).{0,200}") {
            let once = clean(&text);
            prop_assert_eq!(clean(&once), once);
        }
    }
}
