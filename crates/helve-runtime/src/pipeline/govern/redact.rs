//! Known secrets leave the stream before its first byte reaches a disk, a model or a terminal.
//!
//! Looked for: each secret as it is, without white space or quotes around it, each long line of one that has several, in
//! base64 (both alphabets, at each of the three alignments), in hexadecimal, percent-encoded, as a JSON string, and backwards
//! ([`forms`]); all also with escape sequences of terminals, control characters and invisible ones in them, and all but
//! short forms over any number of line breaks ([`search`]). State is kept over chunk borders.
//! Encrypted, compressed or otherwise rewritten secrets are not seen.

mod escapes;
mod forms;
mod search;
mod unseen;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use helve_policy::{ConfigError, Policy};
use serde_json::{Number, Value};

use search::{Automaton, Hit, Place};

/// A number in which so many characters are a secret's hides it; one of fewer does if it is all of the number.
const LONG_IN_NUMBER: usize = 8;

/// The secrets of a policy, compiled once.
#[derive(Debug)]
pub(crate) struct Secrets {
    search: Automaton,
    /// For each form what stands in its place.
    marks: Vec<String>,
}

impl Secrets {
    /// None if there is nothing to look for.
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Arc<Secrets>> {
        let mut all = Vec::new();
        let mut known = HashSet::new();
        let mut marks = Vec::new();
        for (name, value) in secrets {
            for form in forms::forms(value) {
                if known.insert(form.bytes.clone()) {
                    all.push(form);
                    marks.push(format!("[REDACTED:{name}]"));
                }
            }
        }
        Some(Arc::new(Secrets { search: Automaton::new(&all)?, marks }))
    }

    /// Those that a policy knows, and those that are given besides.
    pub(crate) fn of(policy: &Policy, given: &[(&str, &str)]) -> Result<Option<Arc<Secrets>>, ConfigError> {
        let secrets = policy.secrets()?;
        // A mark names a file without its directories: where the owner keeps secrets is not for a model.
        let marked = secrets.iter().map(|secret| {
            let name = secret.name.rsplit('/').next().unwrap_or(&secret.name);
            (name, secret.value.as_str())
        });
        Ok(Secrets::new(marked.chain(given.iter().copied())))
    }

    fn mark(&self, hit: &Hit) -> &str {
        self.marks.get(hit.form).map_or("[REDACTED]", String::as_str)
    }

    /// A whole text without secrets.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut place = self.search.begin();
        self.search.feed(&mut place, text.as_bytes());
        if place.hits.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for hit in &place.hits {
            out.push_str(&text[from..hit.start]);
            out.push_str(self.mark(hit));
            from = hit.end;
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// Whether one is in a text behind escapes of JSON. The text need not be JSON, nor whole.
    pub(crate) fn are_behind_escapes(&self, text: &str) -> bool {
        text.contains('\\') && self.search.is_in(&escapes::undone(text))
    }

    /// What stands for a number that tells a secret. Part of a longer number counts only if it is long.
    fn in_number(&self, number: &Number) -> Option<&str> {
        let text = number.to_string();
        let mut place = self.search.begin();
        self.search.feed(&mut place, text.as_bytes());
        let digits = text.strip_suffix(".0").unwrap_or(&text).trim_start_matches('-').len();
        let hit = place.hits.iter().find(|hit| hit.end - hit.start >= digits.min(LONG_IN_NUMBER))?;
        Some(self.mark(hit))
    }

    /// Whether one is in any string or number of a value, keys included.
    pub(crate) fn are_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.search.is_in(text),
            Value::Number(number) => self.in_number(number).is_some(),
            Value::Array(items) => items.iter().any(|item| self.are_in(item)),
            Value::Object(members) => {
                members.iter().any(|(key, member)| self.search.is_in(key) || self.are_in(member))
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Every string of a value without secrets, keys included. A number that tells one becomes a string.
    pub(crate) fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact(text) {
                    *text = clean;
                }
            }
            Value::Number(number) => {
                if let Some(mark) = self.in_number(number) {
                    *value = Value::String(mark.to_owned());
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.redact_value(member));
                if members.keys().any(|key| self.search.is_in(key)) {
                    let clean = std::mem::take(members).into_iter();
                    *members = clean.map(|(key, member)| (self.redact(&key).into_owned(), member)).collect();
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Redacts one stream.
pub(super) struct StreamRedactor {
    secrets: Arc<Secrets>,
    place: Place,
    /// What was read and not given yet: the bytes before the place of the search.
    held: Vec<u8>,
}

impl StreamRedactor {
    pub(super) fn new(secrets: Arc<Secrets>) -> Self {
        StreamRedactor { place: secrets.search.begin(), secrets, held: Vec::new() }
    }

    /// Takes a chunk and gives what is certainly clean; what may be the beginning of a secret is held back.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        self.secrets.search.feed(&mut self.place, bytes);
        self.emit(self.secrets.search.certain(&self.place))
    }

    /// Gives what was held back.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.emit(self.place.at)
    }

    /// Gives everything before `certain`, and a mark for each secret that ends there.
    fn emit(&mut self, certain: usize) -> Vec<u8> {
        let mut from = self.place.at - self.held.len();
        let first = from;
        let mut out = Vec::with_capacity(certain.saturating_sub(from));
        while let Some(hit) = self.place.hits.front().filter(|hit| hit.start < certain).copied() {
            out.extend_from_slice(&self.held[from - first..hit.start.max(from) - first]);
            from = hit.end.min(certain);
            if hit.end > certain {
                // Another secret may overlap it; both are one then. Nothing of it is given either way.
                break;
            }
            out.extend_from_slice(self.secrets.mark(&hit).as_bytes());
            self.place.hits.pop_front();
        }
        if from < certain {
            out.extend_from_slice(&self.held[from - first..certain - first]);
        }
        self.held.drain(..certain.saturating_sub(first));
        out
    }
}

/// The secrets that a policy knows, for whoever shows what comes past the calls of a runtime.
pub struct KnownSecrets(Option<Arc<Secrets>>);

impl KnownSecrets {
    /// Those of a policy.
    pub fn of(policy: &Policy) -> Result<KnownSecrets, ConfigError> {
        Secrets::of(policy, &[]).map(KnownSecrets)
    }

    /// Takes them out of a value, keys included.
    pub fn hide(&self, value: &mut Value) {
        if let Some(secrets) = &self.0 {
            secrets.redact_value(value);
        }
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
                let clean = stream.push(piece.as_bytes());
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
mod tests;
