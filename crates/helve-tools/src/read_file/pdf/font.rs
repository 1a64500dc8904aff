//! Fonts: which characters the codes of a text stand for, and how wide they are.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization;

use super::Budget;
use super::file::File;
use super::object::{Dict, Object, Reader, Token};

/// How many characters of a font are told apart by a table of its own.
const ENTRIES: usize = 70_000;

/// Making a font takes as long as parsing so many bytes.
const FONT_COST: usize = 1 << 10;

/// A font.
#[derive(Debug, Default)]
pub(super) struct Font {
    /// Codes have two bytes.
    wide: bool,
    /// The font's own table of characters.
    map: Map,
    /// The encoding of all texts at once, for some Asian fonts.
    legacy: Option<&'static encoding_rs::Encoding>,
    /// The characters of one-byte codes.
    simple: Vec<Option<char>>,
    widths: HashMap<u32, f32>,
    default_width: f32,
}

/// A table from codes to characters.
#[derive(Debug, Default)]
struct Map {
    one_byte: bool,
    characters: HashMap<u32, String>,
    /// From, to, the character of the first; sorted.
    ranges: Vec<(u32, u32, u32)>,
}

/// A part of a text: what it says, how many thousandths of the size it is wide, whether it is a space.
pub(super) struct Glyph {
    pub(super) text: String,
    pub(super) width: f32,
    pub(super) is_space: bool,
}

impl Font {
    /// Reads a font's dictionary.
    pub(super) fn read(file: &File<'_>, dict: &Dict, budget: &mut Budget<'_>) -> Font {
        let mut font = Font { default_width: 500.0, ..Font::default() };
        budget.parse(FONT_COST);
        font.wide = dict.name(b"Subtype") == Some(b"Type0");
        if let Some((_, data)) = dict.get(b"ToUnicode").and_then(|map| file.stream(map, budget)) {
            font.map = Map::read(&data, budget);
        }
        if font.wide {
            font.read_wide(file, dict, budget);
        } else {
            font.simple = simple_encoding(file, dict, budget);
            font.read_widths(file, dict, budget);
        }
        font
    }

    fn read_wide(&mut self, file: &File<'_>, dict: &Dict, budget: &mut Budget<'_>) {
        self.default_width = 1000.0;
        let name = dict.name(b"Encoding").unwrap_or_default();
        let has = |part: &[u8]| memchr::memmem::find(name, part).is_some();
        self.legacy = match () {
            () if has(b"UCS2") || has(b"UTF16") => Some(encoding_rs::UTF_16BE),
            () if has(b"GB") => Some(encoding_rs::GBK),
            () if has(b"RKSJ") => Some(encoding_rs::SHIFT_JIS),
            () if has(b"B5") => Some(encoding_rs::BIG5),
            () if has(b"KSC") => Some(encoding_rs::EUC_KR),
            () if has(b"EUC") => Some(encoding_rs::EUC_JP),
            () => None,
        };
        let below = dict.get(b"DescendantFonts").map(|fonts| file.resolve(fonts, budget));
        let Some(Object::Array(fonts)) = below else { return };
        let Some(font) = fonts.first().and_then(|font| file.resolve_dict(font, budget)) else { return };
        self.default_width = font.number(b"DW").unwrap_or(1000.0);
        let Some(Object::Array(widths)) = font.get(b"W").map(|widths| file.resolve(widths, budget)) else {
            return;
        };
        // `first [w w w]` or `first last w`.
        let mut items = widths.iter();
        while let (Some(first), Some(next)) = (items.next().and_then(Object::number), items.next()) {
            let first = first.max(0.0) as u32;
            match file.resolve(next, budget) {
                Object::Array(each) => {
                    for (code, width) in (first..).zip(&each) {
                        self.set_width(code, width.number());
                    }
                }
                Object::Number(last) => {
                    let width = items.next().and_then(Object::number);
                    for code in (first..=last.clamp(0.0, 65_535.0) as u32).take(ENTRIES) {
                        self.set_width(code, width);
                    }
                }
                _ => return,
            }
            // A range costs more than it is long.
            if !budget.parse(16) || self.widths.len() >= ENTRIES {
                return;
            }
        }
    }

    fn set_width(&mut self, code: u32, width: Option<f32>) {
        if let Some(width) = width.filter(|_| self.widths.len() < ENTRIES) {
            self.widths.insert(code, width);
        }
    }

    fn read_widths(&mut self, file: &File<'_>, dict: &Dict, budget: &mut Budget<'_>) {
        let first = dict.number(b"FirstChar").unwrap_or(0.0).max(0.0) as u32;
        if let Some(Object::Array(widths)) = dict.get(b"Widths").map(|widths| file.resolve(widths, budget)) {
            for (code, width) in (first..256).zip(&widths) {
                self.set_width(code, width.number());
            }
        }
        let descriptor = dict.get(b"FontDescriptor").and_then(|font| file.resolve_dict(font, budget));
        if let Some(width) =
            descriptor.and_then(|font| font.number(b"MissingWidth")).filter(|width| *width > 0.0)
        {
            self.default_width = width;
        }
    }

    /// The characters of a text, one after another: a text may be as long as a stream.
    pub(super) fn glyphs<'f>(&'f self, text: &'f [u8]) -> Box<dyn Iterator<Item = Glyph> + 'f> {
        if self.wide
            && self.map.is_empty()
            && let Some(encoding) = self.legacy
        {
            let decoded = encoding.decode_without_bom_handling(text).0.into_owned();
            let width = self.default_width;
            let mut at = 0;
            return Box::new(std::iter::from_fn(move || {
                let c = decoded[at..].chars().next()?;
                at += c.len_utf8();
                Some(Glyph { text: c.to_string(), width, is_space: c == ' ' })
            }));
        }
        let size = if self.wide && !self.map.one_byte { 2 } else { 1 };
        let codes =
            text.chunks(size).map(|code| code.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)));
        Box::new(codes.map(move |code| Glyph {
            text: self.character(code),
            width: self.widths.get(&code).copied().unwrap_or(self.default_width),
            is_space: size == 1 && code == 32,
        }))
    }

    fn character(&self, code: u32) -> String {
        if let Some(text) = self.map.get(code) {
            return text;
        }
        let simple = self.simple.get(code as usize).copied().flatten();
        simple.map(String::from).unwrap_or_default()
    }
}

impl Map {
    fn is_empty(&self) -> bool {
        self.characters.is_empty() && self.ranges.is_empty()
    }

    fn get(&self, code: u32) -> Option<String> {
        if let Some(text) = self.characters.get(&code) {
            return Some(text.clone());
        }
        let before = self.ranges.partition_point(|(from, ..)| *from <= code);
        let (from, to, first) = self.ranges.get(before.checked_sub(1)?)?;
        if code > *to {
            return None;
        }
        char::from_u32(first.checked_add(code - from)?).map(String::from)
    }

    /// Reads a table as fonts carry it.
    fn read(data: &[u8], budget: &mut Budget<'_>) -> Map {
        let mut map = Map::default();
        let mut reader = Reader::new(data, 0);
        let mut values: Vec<Object> = Vec::new();
        while let Some(token) = reader.token(budget) {
            match token {
                // A table that goes on without an end is none.
                Token::Value(_) if values.len() > ENTRIES => return map,
                Token::Value(value) => values.push(value),
                Token::Operator(name) => {
                    match name.as_slice() {
                        b"endcodespacerange" => {
                            map.one_byte =
                                matches!(values.first(), Some(Object::Text(code)) if code.len() == 1);
                        }
                        b"endbfchar" => map.add_characters(&values),
                        b"endbfrange" => map.add_ranges(&values),
                        _ => {}
                    }
                    values.clear();
                }
            }
        }
        map.ranges.sort_by_key(|(from, ..)| *from);
        map
    }

    fn add(&mut self, code: u32, text: &[u8]) {
        if self.characters.len() < ENTRIES {
            self.characters.insert(code, utf16(text));
        }
    }

    fn add_characters(&mut self, values: &[Object]) {
        for pair in values.chunks_exact(2) {
            if let [Object::Text(code), Object::Text(text)] = pair {
                self.add(code_of(code), text);
            }
        }
    }

    fn add_ranges(&mut self, values: &[Object]) {
        for three in values.chunks_exact(3) {
            match three {
                [Object::Text(from), Object::Text(to), Object::Text(first)] => {
                    let (from, to) = (code_of(from), code_of(to));
                    let mut first = utf16(first).chars().collect::<Vec<_>>().into_iter();
                    if let (Some(c), None) = (first.next(), first.next())
                        && self.ranges.len() < ENTRIES
                    {
                        self.ranges.push((from, to, u32::from(c)));
                    }
                }
                [Object::Text(from), Object::Text(_), Object::Array(texts)] => {
                    for (code, text) in (code_of(from)..).zip(texts) {
                        if let Object::Text(text) = text {
                            self.add(code, text);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn code_of(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |all, byte| all << 8 | u32::from(*byte))
}

fn utf16(bytes: &[u8]) -> String {
    // One code stands for a few characters at the most.
    let units = bytes.chunks_exact(2).take(16).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect()
}

/// The characters of one-byte codes: a base, and what the font says is different.
fn simple_encoding(file: &File<'_>, dict: &Dict, budget: &mut Budget<'_>) -> Vec<Option<char>> {
    let encoding = dict.get(b"Encoding").map(|encoding| file.resolve(encoding, budget)).unwrap_or_default();
    let (base, differences) = match &encoding {
        Object::Name(name) => (name.as_slice(), None),
        Object::Dict(dict) => (dict.name(b"BaseEncoding").unwrap_or_default(), dict.get(b"Differences")),
        _ => (&b""[..], None),
    };
    let table = if base == b"MacRomanEncoding" { encoding_rs::MACINTOSH } else { encoding_rs::WINDOWS_1252 };
    let mut characters: Vec<Option<char>> = (0..=255u8)
        .map(|code| table.decode_without_bom_handling(&[code]).0.chars().next().filter(|c| !c.is_control()))
        .collect();
    if let Some(Object::Array(items)) = differences.map(|items| file.resolve(items, budget)) {
        let mut code = 0usize;
        for item in items {
            match item {
                Object::Number(number) => code = number.max(0.0) as usize,
                Object::Name(name) => {
                    if let Some(character) = characters.get_mut(code) {
                        *character = named(&name);
                    }
                    code = code.saturating_add(1);
                }
                _ => {}
            }
        }
    }
    characters
}

/// The character of a glyph's name.
fn named(name: &[u8]) -> Option<char> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return Some(letter);
    }
    let code = name.strip_prefix("uni").filter(|code| code.len() == 4).or_else(|| name.strip_prefix('u'));
    if let Some(c) = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32) {
        return Some(c);
    }
    if let Ok(at) = NAMES.binary_search_by_key(&name, |(name, _)| name) {
        return Some(NAMES[at].1);
    }
    // `adieresis`: a letter and what is above or below it.
    let (letter, accent) = name.split_at_checked(1)?;
    let (_, mark) = ACCENTS.iter().find(|(name, _)| *name == accent)?;
    let mut composed = letter.chars().chain([*mark]).nfc();
    composed.next()
}

const ACCENTS: [(&str, char); 10] = [
    ("acute", '\u{301}'),
    ("breve", '\u{306}'),
    ("caron", '\u{30c}'),
    ("cedilla", '\u{327}'),
    ("circumflex", '\u{302}'),
    ("dieresis", '\u{308}'),
    ("grave", '\u{300}'),
    ("ogonek", '\u{328}'),
    ("ring", '\u{30a}'),
    ("tilde", '\u{303}'),
];

/// Names of glyphs by the Adobe glyph list, sorted.
const NAMES: [(&str, char); 84] = [
    ("AE", 'Æ'),
    ("Euro", '€'),
    ("OE", 'Œ'),
    ("ae", 'æ'),
    ("ampersand", '&'),
    ("asciicircum", '^'),
    ("asciitilde", '~'),
    ("asterisk", '*'),
    ("at", '@'),
    ("backslash", '\\'),
    ("bar", '|'),
    ("braceleft", '{'),
    ("braceright", '}'),
    ("bracketleft", '['),
    ("bracketright", ']'),
    ("bullet", '•'),
    ("cent", '¢'),
    ("colon", ':'),
    ("comma", ','),
    ("copyright", '©'),
    ("dagger", '†'),
    ("degree", '°'),
    ("divide", '÷'),
    ("dollar", '$'),
    ("dotlessi", 'ı'),
    ("eight", '8'),
    ("ellipsis", '…'),
    ("emdash", '—'),
    ("endash", '–'),
    ("equal", '='),
    ("eth", 'ð'),
    ("exclam", '!'),
    ("ff", 'ﬀ'),
    ("ffi", 'ﬃ'),
    ("ffl", 'ﬄ'),
    ("fi", 'ﬁ'),
    ("five", '5'),
    ("fl", 'ﬂ'),
    ("four", '4'),
    ("germandbls", 'ß'),
    ("grave", '`'),
    ("greater", '>'),
    ("guillemotleft", '«'),
    ("guillemotright", '»'),
    ("hyphen", '-'),
    ("less", '<'),
    ("logicalnot", '¬'),
    ("minus", '−'),
    ("mu", 'µ'),
    ("multiply", '×'),
    ("nbspace", '\u{a0}'),
    ("nine", '9'),
    ("numbersign", '#'),
    ("oe", 'œ'),
    ("one", '1'),
    ("oslash", 'ø'),
    ("paragraph", '¶'),
    ("parenleft", '('),
    ("parenright", ')'),
    ("percent", '%'),
    ("period", '.'),
    ("periodcentered", '·'),
    ("plus", '+'),
    ("plusminus", '±'),
    ("question", '?'),
    ("quotedbl", '"'),
    ("quotedblbase", '„'),
    ("quotedblleft", '“'),
    ("quotedblright", '”'),
    ("quoteleft", '‘'),
    ("quoteright", '’'),
    ("quotesinglbase", '‚'),
    ("quotesingle", '\''),
    ("registered", '®'),
    ("section", '§'),
    ("semicolon", ';'),
    ("seven", '7'),
    ("six", '6'),
    ("slash", '/'),
    ("space", ' '),
    ("sterling", '£'),
    ("three", '3'),
    ("two", '2'),
    ("underscore", '_'),
];

/// Whether a search in the names finds all of them.
#[cfg(test)]
pub(super) fn names_are_sorted() -> bool {
    NAMES.is_sorted_by_key(|(name, _)| *name)
}
