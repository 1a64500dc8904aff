//! The objects of a PDF, parsed from bytes. An object has a bounded number of parts and a bounded depth.

use super::Budget;

/// How deep arrays and dictionaries may nest.
const DEPTH: usize = 24;
/// How many parts one object may have.
const PARTS: usize = 100_000;

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Object {
    #[default]
    Null,
    Number(f32),
    Name(Vec<u8>),
    Text(Vec<u8>),
    Array(Vec<Object>),
    Dict(Dict),
    /// Another object, by its number.
    Ref(u32),
}

/// Names and values in the order of their names; the first of a name counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dict(Vec<(Vec<u8>, Object)>);

impl Dict {
    fn new(mut entries: Vec<(Vec<u8>, Object)>) -> Dict {
        // Names of the same text stay in the order of the file.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Dict(entries)
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Object> {
        let at = self.0.partition_point(|(key, _)| key.as_slice() < name);
        self.0.get(at).filter(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub(super) fn name(&self, name: &[u8]) -> Option<&[u8]> {
        match self.get(name)? {
            Object::Name(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn number(&self, name: &[u8]) -> Option<f32> {
        self.get(name)?.number()
    }
}

impl Object {
    /// How many values it is made of.
    pub(super) fn parts(&self) -> usize {
        match self {
            Object::Array(items) => 1 + items.iter().map(Object::parts).sum::<usize>(),
            Object::Dict(Dict(entries)) => 1 + entries.iter().map(|(_, value)| value.parts()).sum::<usize>(),
            _ => 1,
        }
    }

    pub(super) fn number(&self) -> Option<f32> {
        match self {
            Object::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// What comes next in a stream of operators.
#[derive(Debug, PartialEq)]
pub(super) enum Token {
    Value(Object),
    Operator(Vec<u8>),
}

/// Reads objects one after another.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    parts: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Reader { bytes, at, parts: PARTS }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Passes over white space and comments.
    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'%' => {
                    let rest = &self.bytes[self.at..];
                    self.at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                }
                byte if is_space(byte) => self.at += 1,
                _ => return,
            }
        }
    }

    /// The object here, paid for; none where there is none.
    pub(super) fn object(&mut self, budget: &mut Budget<'_>) -> Option<Object> {
        match self.token(budget)? {
            Token::Value(value) => Some(value),
            Token::Operator(_) => None,
        }
    }

    /// The next value or operator; none at the end, or where nothing is left to pay with.
    pub(super) fn token(&mut self, budget: &mut Budget<'_>) -> Option<Token> {
        self.parts = PARTS;
        let start = self.at;
        let token = self.next(0);
        budget.parse(self.at - start).then_some(token)?
    }

    fn next(&mut self, depth: usize) -> Option<Token> {
        self.skip_space();
        self.parts = self.parts.checked_sub(1)?;
        let value = match self.peek()? {
            b'/' => {
                self.at += 1;
                Object::Name(self.name())
            }
            b'(' => Object::Text(self.text()),
            b'<' if self.bytes.get(self.at + 1) == Some(&b'<') => Object::Dict(self.dict(depth)?),
            b'<' => Object::Text(self.hex()),
            b'[' => Object::Array(self.array(depth)?),
            b'0'..=b'9' | b'+' | b'-' | b'.' => self.number_or_reference(),
            // A stray end of something is passed over.
            byte @ (b']' | b'>' | b'}' | b'{' | b')') => {
                self.at += 1;
                return Some(Token::Operator(vec![byte]));
            }
            _ => {
                let word = self.word();
                return Some(match word {
                    b"null" | b"true" | b"false" => Token::Value(Object::Null),
                    word => Token::Operator(word.to_vec()),
                });
            }
        };
        Some(Token::Value(value))
    }

    /// Regular characters.
    pub(super) fn word(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|byte| is_space(*byte) || is_delimiter(*byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn name(&mut self) -> Vec<u8> {
        let word = self.word();
        if !word.contains(&b'#') {
            return word.to_vec();
        }
        let mut name = Vec::with_capacity(word.len());
        let mut at = 0;
        while let Some(byte) = word.get(at) {
            let code =
                word.get(at + 1..at + 3).filter(|_| *byte == b'#').and_then(|two| hex_pair(two[0], two[1]));
            name.push(code.unwrap_or(*byte));
            at += if code.is_some() { 3 } else { 1 };
        }
        name
    }

    fn number_or_reference(&mut self) -> Object {
        let word = self.word();
        if word.is_empty() {
            self.at += 1;
            return Object::Null;
        }
        let number = number(word);
        // `12 0 R` stands for an object.
        let after = self.at;
        if let (Some(target), true) = (whole(word), self.peek().is_some_and(is_space)) {
            self.skip_space();
            if whole(self.word()).is_some() {
                self.skip_space();
                if self.peek() == Some(b'R') && self.bytes.get(self.at + 1).is_none_or(|b| !is_regular(*b)) {
                    self.at += 1;
                    return Object::Ref(target);
                }
            }
            self.at = after;
        }
        Object::Number(number)
    }

    fn array(&mut self, depth: usize) -> Option<Vec<Object>> {
        self.at += 1;
        let mut items = Vec::new();
        if depth >= DEPTH {
            return None;
        }
        loop {
            self.skip_space();
            match self.peek() {
                None => return Some(items),
                Some(b']') => {
                    self.at += 1;
                    return Some(items);
                }
                Some(_) => {
                    if let Token::Value(value) = self.next(depth + 1)? {
                        items.push(value);
                    }
                }
            }
        }
    }

    fn dict(&mut self, depth: usize) -> Option<Dict> {
        self.at += 2;
        let mut entries = Vec::new();
        if depth >= DEPTH {
            return None;
        }
        loop {
            self.skip_space();
            match self.peek() {
                None => return Some(Dict::new(entries)),
                Some(b'>') => {
                    self.at += if self.bytes.get(self.at + 1) == Some(&b'>') { 2 } else { 1 };
                    return Some(Dict::new(entries));
                }
                Some(b'/') => {
                    self.at += 1;
                    let name = self.name();
                    self.skip_space();
                    if self.peek() == Some(b'>') && self.bytes.get(self.at + 1) == Some(&b'>') {
                        continue;
                    }
                    if let Token::Value(value) = self.next(depth + 1)? {
                        entries.push((name, value));
                    }
                }
                Some(_) => {
                    self.next(depth + 1)?;
                }
            }
        }
    }

    fn text(&mut self) -> Vec<u8> {
        self.at += 1;
        let (mut text, mut open) = (Vec::new(), 1);
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'(' => open += 1,
                b')' => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                b'\\' => {
                    self.escape(&mut text);
                    continue;
                }
                _ => {}
            }
            text.push(byte);
        }
        text
    }

    fn escape(&mut self, text: &mut Vec<u8>) {
        let Some(byte) = self.peek() else { return };
        self.at += 1;
        match byte {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'b' | b'f' => text.push(b' '),
            b'\n' => {}
            b'\r' => self.at += usize::from(self.peek() == Some(b'\n')),
            b'0'..=b'7' => {
                let mut code = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.peek() else { break };
                    code = code * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                text.push((code & 0xff) as u8);
            }
            byte => text.push(byte),
        }
    }

    fn hex(&mut self) -> Vec<u8> {
        self.at += 1;
        let rest = &self.bytes[self.at..];
        let len = memchr::memchr(b'>', rest).unwrap_or(rest.len());
        self.at += (len + 1).min(rest.len());
        from_hex(&rest[..len])
    }
}

/// The bytes that hexadecimal digits stand for; other characters are passed over.
pub(super) fn from_hex(text: &[u8]) -> Vec<u8> {
    let mut digits = text.iter().filter(|byte| byte.is_ascii_hexdigit());
    let mut bytes = Vec::with_capacity(text.len() / 2);
    while let Some(high) = digits.next() {
        bytes.extend(hex_pair(*high, digits.next().copied().unwrap_or(b'0')));
    }
    bytes
}

fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

/// A number that has digits alone.
fn whole(word: &[u8]) -> Option<u32> {
    std::str::from_utf8(word).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

fn number(word: &[u8]) -> f32 {
    let number: f32 = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    if number.is_finite() { number } else { 0.0 }
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

fn is_regular(byte: u8) -> bool {
    !is_space(byte) && !is_delimiter(byte)
}
