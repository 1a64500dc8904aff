//! The forms in which a secret is looked for.
//!
//! In: a value as the owner keeps it. Out: byte strings, each of which tells the value to whoever reads it. Encoders differ in
//! what they leave as it is; each way that is in common use is a form of its own, and most values have most forms in common.

use std::collections::HashSet;

/// A form shorter than this would hit ordinary text.
const MIN_FORM: usize = 4;
/// A shorter line of a secret may be ordinary text.
const MIN_LINE: usize = 16;
/// A shorter form is looked for only as one piece: over line breaks it might be two words.
const MIN_BROKEN: usize = 16;
/// The same for letters of base64, which seldom are words.
const MIN_BROKEN_BASE64: usize = 8;

/// A longer one is not looked for in hexadecimal with something between its bytes: these forms are long themselves.
const MAX_GROUPED: usize = 128;

/// One form.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    /// It is one as well when line breaks stand in it.
    pub(super) may_break: bool,
}

/// All forms of a secret, each once.
pub(super) fn forms(secret: &str) -> Vec<Form> {
    let mut all = Forms::default();
    for part in parts(secret) {
        all.add_part(part);
    }
    all.found
}

#[derive(Default)]
struct Forms {
    found: Vec<Form>,
    known: HashSet<Vec<u8>>,
}

impl Forms {
    fn add(&mut self, bytes: Vec<u8>, min_broken: usize) {
        if bytes.len() >= MIN_FORM && !self.known.contains(&bytes) {
            self.known.insert(bytes.clone());
            self.found.push(Form { may_break: bytes.len() >= min_broken, bytes });
        }
    }

    fn add_part(&mut self, part: &str) {
        let mut add = |text: String| self.add(text.into_bytes(), MIN_BROKEN);
        add(part.to_owned());
        add(part.chars().rev().collect());
        let hex: String = part.bytes().map(|byte| format!("{byte:02x}")).collect();
        for hex in [hex.to_uppercase(), hex] {
            // Of a longer one no print stands in one line.
            if part.len() <= MAX_GROUPED {
                grouped(&hex).for_each(&mut add);
            }
            add(hex);
        }
        add(repr(part));
        jsons(part).into_iter().for_each(&mut add);
        percents(part).for_each(&mut add);
        for alphabet in [STANDARD, URL_SAFE] {
            for shift in 0..3 {
                self.add(base64_core(part.as_bytes(), shift, alphabet), MIN_BROKEN_BASE64);
            }
        }
    }
}

/// What of a value is secret: all of it, the same without what programs trim (white space, a pair of quotes), and each line
/// that is long enough to be one.
fn parts(secret: &str) -> Vec<&str> {
    let trimmed = secret.trim();
    let mut parts = vec![secret, trimmed];
    parts.extend(unquoted(trimmed));
    let lines = trimmed.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE);
    parts.extend(lines.flat_map(|line| std::iter::once(line).chain(unquoted(line))));
    parts.retain(|part| part.len() >= MIN_FORM);
    parts.sort_unstable();
    parts.dedup();
    parts
}

/// What stands between a pair of quotes.
fn unquoted(text: &str) -> Option<&str> {
    let between = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    ['"', '\'', '`'].into_iter().find_map(between).map(str::trim)
}

/// As the inside of a JSON string, and as that of a string in such a string. Encoders differ in which characters besides
/// quotes, backslashes and control characters they escape: none, those of HTML (Go, Ruby), more of them (Gson, .NET), a slash
/// (PHP), all that are not ASCII (Python, PHP, Jackson), and in the case of digits.
fn jsons(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for ascii in [false, true] {
        for escaped in ["", "/", "<>&", "<>&='", "<>&'+`\"", "<>&'\"/"] {
            for upper in [false, true] {
                let once = json(text, ascii, escaped, upper);
                found.push(json(&once, ascii, escaped, upper));
                found.push(once);
            }
        }
    }
    found
}

fn json(text: &str, ascii: bool, escaped: &str, upper: bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let unit = |out: &mut String, unit: u16| {
        out.push_str(&if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
    };
    for letter in text.chars() {
        match letter {
            '/' if escaped.contains('/') => out.push_str("\\/"),
            letter if escaped.contains(letter) => unit(&mut out, letter as u16),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            // What breaks lines in JavaScript is escaped by those who think of HTML.
            letter if letter.is_ascii_control() => unit(&mut out, letter as u16),
            '\u{2028}' | '\u{2029}' if escaped.contains('<') => unit(&mut out, letter as u16),
            letter if ascii && !letter.is_ascii() => {
                letter.encode_utf16(&mut [0; 2]).iter().for_each(|one| unit(&mut out, *one));
            }
            letter => out.push(letter),
        }
    }
    out
}

/// Hexadecimal with something between its bytes, as dumps and prints of bytes have it; and with a blank behind every second
/// byte, the first of which may be the first of a pair or the second.
fn grouped(hex: &str) -> impl Iterator<Item = String> {
    let pairs: Vec<&str> = (0..hex.len() / 2).filter_map(|nth| hex.get(nth * 2..nth * 2 + 2)).collect();
    let mut all: Vec<String> = [" ", ":", "\\x", ", 0x"].map(|between| pairs.join(between)).into();
    for first in [0, 1] {
        let of_two = |(nth, pair): (usize, &&str)| match nth > 0 && nth % 2 == first {
            true => format!(" {pair}"),
            false => (*pair).to_owned(),
        };
        all.push(pairs.iter().enumerate().map(of_two).collect());
    }
    all.into_iter()
}

/// As the inside of a string that Python prints: quotes are escaped only if there are both.
fn repr(text: &str) -> String {
    let escapes_quotes = text.contains('\'') && text.contains('"');
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\'' if escapes_quotes => out.push_str("\\'"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_ascii_control() => out.push_str(&format!("\\x{:02x}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out
}

/// What an encoder leaves as it is besides letters and digits, and what it makes of a space.
const PERCENT: &[(&str, &str)] = &[
    ("-._~", "%20"),
    ("-._~/", "%20"),
    // encodeURIComponent and encodeURI.
    ("-._~!*'()", "%20"),
    ("-._~!*'();/?:@&=+$,#", "%20"),
    // Parts of a path, in Go.
    ("-._~$&+:=@", "%20"),
    // Forms: Python and Go, browsers and Java, PHP, .NET.
    ("-._~", "+"),
    ("-._*", "+"),
    ("-._", "+"),
    ("-._!*()", "+"),
];

fn percents(text: &str) -> impl Iterator<Item = String> {
    PERCENT.iter().flat_map(move |(safe, space)| {
        [true, false].map(|upper| {
            let one = |byte: u8| match byte {
                byte if byte.is_ascii_alphanumeric() || safe.as_bytes().contains(&byte) => {
                    char::from(byte).to_string()
                }
                b' ' => (*space).to_owned(),
                byte if upper => format!("%{byte:02X}"),
                byte => format!("%{byte:02x}"),
            };
            text.bytes().map(one).collect()
        })
    })
}

pub(super) const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The letters of base64 that depend on the secret alone when `shift` bytes stand before it in its group of three.
pub(super) fn base64_core(secret: &[u8], shift: usize, alphabet: &[u8; 64]) -> Vec<u8> {
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
