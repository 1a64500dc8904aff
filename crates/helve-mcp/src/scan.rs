//! JSON as nearly all programs write it, read in one go: no space but one behind a colon or a comma.
//!
//! Whoever expects certain members reads them one by one. None says nothing about the JSON: it is written in another way, or is
//! something else, and is to be read in full.

use serde::Deserialize;
use serde_json::{Map, Value};

/// What is left of a text.
pub(crate) struct Scan<'l>(&'l [u8]);

impl<'l> Scan<'l> {
    pub(crate) fn new(text: &'l [u8]) -> Scan<'l> {
        Scan(text)
    }

    /// Whether nothing is left that says anything.
    pub(crate) fn is_over(&self) -> bool {
        self.0.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
    }

    pub(crate) fn byte(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn space(&mut self) {
        if let [b' ', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// A text without any escape, as it stands; where there is none, nothing is passed over.
    pub(crate) fn text(&mut self) -> Option<&'l [u8]> {
        let [b'"', inside @ ..] = self.0 else { return None };
        let end = memchr::memchr2(b'"', b'\\', inside)?;
        let (text, rest) = inside.split_at(end);
        self.0 = rest.strip_prefix(b"\"").filter(|_| text.iter().all(|byte| *byte >= 0x20))?;
        Some(text)
    }

    /// A text.
    pub(crate) fn string(&mut self) -> Option<String> {
        match self.text() {
            Some(text) => std::str::from_utf8(text).ok().map(str::to_owned),
            None => self.value().map(|(text, _)| text),
        }
    }

    /// The name of a member, up to its value.
    pub(crate) fn name(&mut self) -> Option<&'l [u8]> {
        let name = self.text()?;
        self.byte(b':')?;
        self.space();
        Some(name)
    }

    /// Whether an object ends here; another member comes if it does not.
    pub(crate) fn is_last(&mut self) -> Option<bool> {
        self.ends(b'}')
    }

    /// The same for a list.
    pub(crate) fn is_last_item(&mut self) -> Option<bool> {
        self.ends(b']')
    }

    fn ends(&mut self, with: u8) -> Option<bool> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        match *first {
            b',' => {
                self.space();
                Some(false)
            }
            first => (first == with).then_some(true),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn number(&mut self) -> Option<i64> {
        let end = self.0.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        match digits {
            [] | [b'0', _, ..] => None,
            digits if digits.len() > 18 => None,
            digits => Some(digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))),
        }
    }

    /// Yes or no.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        for (word, is) in [(b"true".as_slice(), true), (b"false", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Some(is);
            }
        }
        None
    }

    /// An object of texts, whole numbers and yes or no, in which no name stands twice.
    pub(crate) fn flat(&mut self) -> Option<Map<String, Value>> {
        self.byte(b'{')?;
        if self.byte(b'}').is_some() {
            return Some(Map::new());
        }
        // Many a call has one only, and a map that grows by itself begins with room for several.
        let mut members = Map::with_capacity(1);
        loop {
            let name = std::str::from_utf8(self.name()?).ok()?;
            let value = match self.0.first()? {
                b'"' => Value::String(self.string()?),
                b't' | b'f' => Value::Bool(self.bool()?),
                _ => Value::from(self.number()?),
            };
            if members.insert(name.to_owned(), value).is_some() {
                return None;
            }
            if self.is_last()? {
                return Some(members);
            }
        }
    }

    /// A value of any kind, however it is written, and how many bytes it takes.
    pub(crate) fn value<T: Deserialize<'l>>(&mut self) -> Option<(T, usize)> {
        let mut values = serde_json::Deserializer::from_slice(self.0).into_iter();
        let value = values.next()?.ok()?;
        let read = values.byte_offset();
        self.0 = self.0.get(read..)?;
        Some((value, read))
    }

    /// Goes back to here if what is read next is written in another way.
    pub(crate) fn try_read<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let from = self.0;
        let done = read(self);
        if done.is_none() {
            self.0 = from;
        }
        done
    }
}

/// Whether a text of JSON holds more values than that, without making any of them. What is no JSON counts for something too.
pub fn holds_more_than(most: usize, text: &[u8]) -> bool {
    let (mut rest, mut values) = (text, 1);
    while let Some((first, after)) = rest.split_first() {
        rest = match first {
            b'"' => behind_string(after),
            _ => after,
        };
        values += usize::from(matches!(first, b',' | b'[' | b'{'));
        if values > most {
            return true;
        }
    }
    false
}

/// What follows a string of which the beginning is passed.
fn behind_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let is_end = rest.get(at) == Some(&b'"');
        rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    fn flat(text: &str) -> Option<Map<String, Value>> {
        let mut scan = Scan::new(text.as_bytes());
        scan.flat().filter(|_| scan.is_over())
    }

    #[test]
    fn what_is_usual_is_read() {
        for text in [
            r"{}",
            r#"{"a":"b"}"#,
            r#"{"a": "b\nc", "n": 17, "t": true, "f": false}"#,
            r#"{"long":123456789012345678,"é":"ü"}"#,
        ] {
            let read = flat(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(Value::Object(read), serde_json::from_str::<Value>(text).unwrap());
        }
    }

    #[test]
    fn what_was_tried_in_vain_is_still_there() {
        let mut scan = Scan::new(br#"{"a":[1]}"#);
        assert_eq!(scan.try_read(Scan::flat), None);
        assert_eq!(scan.value::<Value>(), Some((json!({"a": [1]}), 9)));
    }

    #[test]
    fn values_are_counted_without_being_made() {
        for (text, values) in [
            ("1", 1),
            ("[]", 2),
            ("[1,2,3]", 4),
            (r#"{"a":[1,{"b":null}]}"#, 5),
            (r#"["a,b[{","\\\",[","\\"]"#, 4),
            (r#"["no end,,,"#, 2),
        ] {
            let fits = |most| !holds_more_than(most, text.as_bytes());
            assert_eq!((fits(values), fits(values - 1)), (true, false), "{text}");
        }
    }

    /// Mostly the first, else one of the others, however strange.
    fn mostly(usual: &'static str, else_: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
        prop_oneof![12 => Just(usual), 1 => prop::sample::select(else_)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        /// None is always right: whoever gets that reads on in full.
        #[test]
        fn nothing_is_read_as_anything_else(
            members in prop::collection::vec(
                (
                    prop::sample::select(&[r#""a""#, r#""b""#, r#""c""#, r#""d""#, r#""""#, r#""\u0061""#, "a"][..]),
                    mostly(":", &[": ", " :", ":  ", ""]),
                    mostly("\"x\"", &[
                        "0", "01", "1", "-1", "1.5", "1e3", "12345678901234567890", "true", "tru", "falsey", "null", "\"",
                        "\"\\", "\"\u{1}\"", "\"\\x\"", "\"\\ud800\"", "\"\\n\"", "\"\u{e9}\"", "[1]", "{}", "",
                    ]),
                ),
                0..4,
            ),
            between in mostly(",", &[", ", ",  ", ",,", ""]),
            ends in mostly("}", &["} ", "}}", "", ",}"]),
        ) {
            let members: Vec<String> =
                members.into_iter().map(|(name, colon, value)| format!("{name}{colon}{value}")).collect();
            let text = format!("{{{}{ends}", members.join(between));
            if let Some(read) = flat(&text) {
                prop_assert_eq!(read.len(), members.len(), "no name twice: {}", text);
                prop_assert_eq!(Ok(read), serde_json::from_str(&text).map_err(|error| error.to_string()));
            }
        }
    }
}
