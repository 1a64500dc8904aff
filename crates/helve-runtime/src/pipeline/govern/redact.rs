//! Known secrets leave the stream before its first byte reaches a disk, a model or a terminal.
//!
//! Looked for: each secret as it is, each long line of one that has several, in base64 (both alphabets, at each of the
//! three alignments, also over one line break), in hexadecimal, percent-encoded, as a JSON string, and backwards. State is
//! kept over chunk borders. Encrypted, compressed or otherwise rewritten secrets are not seen.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

/// A form shorter than this would hit ordinary text.
const MIN_FORM: usize = 4;
/// A shorter line of a secret may be ordinary text.
const MIN_LINE: usize = 16;
const BASE64_LINE: usize = 76;

/// The secrets of a policy, compiled once.
#[derive(Debug)]
pub(crate) struct Secrets {
    search: AhoCorasick,
    /// For each pattern what stands in its place.
    marks: Vec<String>,
    longest: usize,
    /// All patterns in their order, to see what may be the beginning of one.
    sorted: Vec<Vec<u8>>,
}

impl Secrets {
    /// None if there is nothing to look for.
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Arc<Secrets>> {
        let mut patterns: Vec<Vec<u8>> = Vec::new();
        let mut known = HashSet::new();
        let mut marks = Vec::new();
        for (name, value) in secrets {
            for form in parts(value).flat_map(|part| forms(part.as_bytes())) {
                if form.len() >= MIN_FORM && known.insert(form.clone()) {
                    patterns.push(form);
                    marks.push(format!("[REDACTED:{name}]"));
                }
            }
        }
        let longest = patterns.iter().map(Vec::len).max()?;
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns).ok()?;
        patterns.sort_unstable();
        Some(Arc::new(Secrets { search, marks, longest, sorted: patterns }))
    }

    /// How much of a text is certain while more may come: what stands behind may be the beginning of a secret.
    fn certain(&self, text: &[u8]) -> usize {
        let first = text.len().saturating_sub(self.longest - 1);
        (first..text.len()).find(|at| self.begins_with(&text[*at..])).unwrap_or(text.len())
    }

    /// Whether a pattern begins with this and is longer.
    fn begins_with(&self, part: &[u8]) -> bool {
        let behind = self.sorted.partition_point(|pattern| pattern.as_slice() <= part);
        self.sorted.get(behind).is_some_and(|pattern| pattern.starts_with(part))
    }

    /// A whole text without secrets.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.search.is_match(text) {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for hit in self.search.find_iter(text) {
            out.push_str(&text[from..hit.start()]);
            out.push_str(&self.marks[hit.pattern().as_usize()]);
            from = hit.end();
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// Whether one is in any string of a value, keys included.
    pub(crate) fn are_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.search.is_match(text),
            Value::Array(items) => items.iter().any(|item| self.are_in(item)),
            Value::Object(members) => {
                members.iter().any(|(key, member)| self.search.is_match(key) || self.are_in(member))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Every string of a value without secrets, keys included.
    pub(crate) fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.redact_value(member));
                if members.keys().any(|key| self.search.is_match(key)) {
                    let clean = std::mem::take(members).into_iter();
                    *members = clean.map(|(key, member)| (self.redact(&key).into_owned(), member)).collect();
                }
            }
            _ => {}
        }
    }
}

/// The secret, and each line of it that is long enough to be one.
fn parts(secret: &str) -> impl Iterator<Item = &str> {
    let lines = secret.lines().filter(move |line| line.len() >= MIN_LINE && line.len() < secret.len());
    std::iter::once(secret).chain(lines)
}

fn forms(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_vec()];
    if let Ok(json) = serde_json::to_string(&String::from_utf8_lossy(secret)) {
        forms.push(json.trim_matches('"').as_bytes().to_vec());
    }
    forms.push(String::from_utf8_lossy(secret).chars().rev().collect::<String>().into_bytes());
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    forms.push(hex.to_uppercase().into_bytes());
    forms.push(hex.into_bytes());
    for (upper, safe) in [(true, &b"-._~"[..]), (false, b"-._~"), (true, b"-._~/")] {
        let percent: String = secret
            .iter()
            .map(|byte| match byte {
                b if b.is_ascii_alphanumeric() || safe.contains(b) => char::from(*b).to_string(),
                b if upper => format!("%{b:02X}"),
                b => format!("%{b:02x}"),
            })
            .collect();
        forms.push(percent.into_bytes());
    }
    for alphabet in [STANDARD, URL_SAFE] {
        for shift in 0..3 {
            let core = base64_core(secret, shift, alphabet);
            // Programs break base64 after 76 letters, wherever that falls.
            if core.len() <= BASE64_LINE {
                forms.extend((1..core.len()).map(|at| [&core[..at], b"\n", &core[at..]].concat()));
            }
            forms.push(core);
        }
    }
    forms
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The letters of base64 that depend on the secret alone when `shift` bytes stand before it in its group of three.
fn base64_core(secret: &[u8], shift: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let (from_bit, to_bit) = (shift * 8, (shift + secret.len()) * 8);
    let bit = |at: usize| -> u8 {
        let byte = secret[(at - from_bit) / 8];
        (byte >> (7 - (at - from_bit) % 8)) & 1
    };
    let first = from_bit.div_ceil(6);
    let last = to_bit / 6;
    (first..last)
        .map(|letter| {
            let index = (0..6).fold(0u8, |sum, i| (sum << 1) | bit(letter * 6 + i));
            alphabet[usize::from(index)]
        })
        .collect()
}

/// Redacts one stream.
pub(super) struct StreamRedactor {
    secrets: Arc<Secrets>,
    held: Vec<u8>,
}

impl StreamRedactor {
    pub(super) fn new(secrets: Arc<Secrets>) -> Self {
        StreamRedactor { secrets, held: Vec::new() }
    }

    /// Takes a chunk and gives what is certainly clean; a possible beginning of a secret is held back.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let certain = self.held.len().saturating_sub(self.secrets.longest - 1);
        self.emit(certain)
    }

    /// The same for who waits for it: nothing is held back but what may really be the beginning of a secret.
    fn push_soon(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let certain = self.secrets.certain(&self.held);
        self.emit(certain)
    }

    /// Gives what was held back.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.emit(self.held.len())
    }

    /// Gives everything before `certain`. A match that begins there ends inside what is held, so it is whole.
    fn emit(&mut self, certain: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(certain);
        let mut from = 0;
        for hit in self.secrets.search.find_iter(&self.held) {
            if hit.start() >= certain {
                break;
            }
            out.extend_from_slice(&self.held[from..hit.start()]);
            out.extend_from_slice(self.secrets.marks[hit.pattern().as_usize()].as_bytes());
            from = hit.end();
        }
        if from < certain {
            out.extend_from_slice(&self.held[from..certain]);
            from = certain;
        }
        self.held.drain(..from);
        out
    }
}

/// Takes known secrets out of a text that comes in pieces. What may be the beginning of a secret is held back until it is
/// clear, and nothing else.
pub struct Redactor {
    stream: Option<StreamRedactor>,
    /// The first bytes of a character whose others are held back.
    open: Vec<u8>,
}

impl Redactor {
    pub(crate) fn new(secrets: Option<&Arc<Secrets>>) -> Self {
        Redactor { stream: secrets.map(|secrets| StreamRedactor::new(Arc::clone(secrets))), open: Vec::new() }
    }

    /// Takes a piece and gives what is certain of the text so far and was not given before.
    pub fn push(&mut self, piece: &str) -> String {
        match &mut self.stream {
            None => piece.to_owned(),
            Some(stream) => {
                let clean = stream.push_soon(piece.as_bytes());
                self.whole(clean)
            }
        }
    }

    /// Gives what was held back.
    pub fn finish(&mut self) -> String {
        let rest = self.stream.as_mut().map(StreamRedactor::finish).unwrap_or_default();
        let mut text = self.whole(rest);
        text.push_str(&String::from_utf8_lossy(&std::mem::take(&mut self.open)));
        text
    }

    /// The whole characters of what came so far.
    fn whole(&mut self, bytes: Vec<u8>) -> String {
        self.open.extend(bytes);
        let mut bytes = std::mem::take(&mut self.open);
        let end = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) => error.valid_up_to(),
        };
        self.open = bytes.split_off(end);
        String::from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    const SECRET: &str = "s3cr3t/Value+1";

    fn secrets() -> Arc<Secrets> {
        Secrets::new([("TOKEN", SECRET)]).unwrap()
    }

    fn base64(bytes: &[u8]) -> String {
        // The core of the text at shift 0, with the last bits padded by zero bytes.
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().div_ceil(3) * 3, 0);
        String::from_utf8(base64_core(&padded, 0, STANDARD)).unwrap()
    }

    #[test]
    fn every_form_is_found() {
        let hex: String = SECRET.bytes().map(|b| format!("{b:02x}")).collect();
        for text in [
            SECRET.to_owned(),
            hex.to_uppercase(),
            hex,
            "s3cr3t%2FValue%2B1".to_owned(),
            base64(format!("x{SECRET}").as_bytes()),
            base64(format!("xx{SECRET}yyy").as_bytes()),
            base64(SECRET.as_bytes()),
            "s3cr3t/Value%2B1".to_owned(),
            SECRET.chars().rev().collect(),
        ] {
            let clean = secrets().redact(&text).into_owned();
            assert!(clean.contains("[REDACTED:TOKEN]"), "{text} gave {clean}");
        }
    }

    #[test]
    fn a_broken_line_of_base64_and_the_lines_of_a_key_are_found() {
        let text = base64(SECRET.as_bytes());
        for at in 1..text.len() - 4 {
            let broken = format!("{}\n{}", &text[..at], &text[at..]);
            assert!(secrets().redact(&broken).contains("[REDACTED"), "{broken}");
        }
        let key =
            Secrets::new([("KEY", "-----BEGIN-----\nMIIEvgIBADANBgkqhkiG9w0B\nquoted \"words\" of 20\n")])
                .unwrap();
        assert_eq!(key.redact("see MIIEvgIBADANBgkqhkiG9w0B"), "see [REDACTED:KEY]");
        assert_eq!(key.redact(r#"quoted \"words\" of 20"#), "[REDACTED:KEY]");
    }

    #[test]
    fn base64_is_base64() {
        assert_eq!(base64(b"Man"), "TWFu");
        assert_eq!(base64(b"light work"), "bGlnaHQgd29yawAA");
    }

    #[test]
    fn ordinary_data_is_left_alone() {
        for text in [
            "3f786850e387550fdab836ed7e6dc881de23001b",
            "550e8400-e29b-41d4-a716-446655440000",
            "s3cr3t/Valu",
        ] {
            assert_eq!(secrets().redact(text), text);
        }
    }

    #[test]
    fn values_are_redacted_in_keys_and_depth() {
        let mut value = json!({"a": [{SECRET: format!("x{SECRET}")}], "n": 1});
        assert!(secrets().are_in(&value));
        secrets().redact_value(&mut value);
        assert_eq!(value, json!({"a": [{"[REDACTED:TOKEN]": "x[REDACTED:TOKEN]"}], "n": 1}));
        assert!(!secrets().are_in(&value));
        for value in [json!(SECRET), json!([[SECRET]]), json!({"a": {SECRET: 1}}), json!({"a": SECRET})] {
            assert!(secrets().are_in(&value), "{value}");
        }
    }

    #[test]
    fn no_secrets_no_search() {
        assert!(Secrets::new(std::iter::empty()).is_none());
        assert!(Secrets::new([("SHORT", "abc")]).is_some_and(|s| s.redact("abc") == "abc"));
    }

    /// Whoever reads along sees every word at once; only what may become a secret waits.
    #[test]
    fn nothing_waits_but_what_may_become_a_secret() {
        let secrets = secrets();
        let mut words = Redactor::new(Some(&secrets));
        for (piece, told) in [
            ("Hello, ", "Hello, "),
            ("wörld. It is s3", "wörld. It is "),
            ("cr3t/Val", ""),
            ("ley. No: s3cr3t/Value+", "s3cr3t/Valley. No: "),
            ("1!", "[REDACTED:TOKEN]!"),
            ("s3cr", ""),
        ] {
            assert_eq!(words.push(piece), told, "{piece}");
        }
        assert_eq!(words.finish(), "s3cr");
        let mut plain = Redactor::new(None);
        assert_eq!((plain.push("s3cr3t/Value+1"), plain.finish()), ("s3cr3t/Value+1".into(), String::new()));
    }

    proptest! {
        #[test]
        fn pieces_of_a_text_are_redacted_as_the_whole(
            parts in prop::collection::vec(
                prop_oneof![Just(SECRET.to_owned()), Just("s3cr".to_owned()), "[a-z0-9/+é€]{0,9}"], 0..6),
            cuts in prop::collection::vec(1usize..7, 0..40),
        ) {
            let text = parts.concat();
            let mut words = Redactor::new(Some(&secrets()));
            let (mut out, mut rest) = (String::new(), text.as_str());
            for cut in cuts {
                let (piece, behind) = rest.split_at(rest.ceil_char_boundary(cut.min(rest.len())));
                out.push_str(&words.push(piece));
                rest = behind;
            }
            out.push_str(&words.push(rest));
            out.push_str(&words.finish());
            prop_assert_eq!(out, secrets().redact(&text).into_owned());
        }

        #[test]
        fn chunk_borders_do_not_matter(
            parts in prop::collection::vec(prop_oneof![Just(SECRET.to_owned()), "[a-z0-9/+]{0,9}"], 0..6),
            cuts in prop::collection::vec(1usize..7, 0..40),
        ) {
            let text = parts.concat();
            let mut stream = StreamRedactor::new(secrets());
            let (mut out, mut at) = (Vec::new(), 0);
            for cut in cuts {
                let end = (at + cut).min(text.len());
                out.extend(stream.push(&text.as_bytes()[at..end]));
                at = end;
            }
            out.extend(stream.push(&text.as_bytes()[at..]));
            out.extend(stream.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), secrets().redact(&text));
        }
    }
}
