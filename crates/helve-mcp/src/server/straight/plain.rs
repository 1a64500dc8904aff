//! Calls as nearly all of them are written: what a call needs, in any order, and nothing else.
//!
//! In comes a line, out comes its call, or nothing, which says nothing: whoever gets that reads the line in full. No name of a
//! member is compared twice, and no text is looked at for an escape that is not there.

use rmcp::model::{NumberOrString, ProgressToken};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Asked, Meta};

/// Arguments that nest deeper than this are read in full, where depth is counted from the line's beginning.
const MOST_NESTED: usize = 100;

/// The call of a line.
pub(super) fn call(line: &[u8]) -> Option<Asked> {
    let mut scan = Scan(line);
    let (mut id, mut params, mut version, mut method) = (None, None, None, None);
    scan.byte(b'{')?;
    loop {
        match scan.name()? {
            b"jsonrpc" if version.is_none() => version = Some(scan.text()?),
            b"id" if id.is_none() => id = Some(scan.number()?),
            b"method" if method.is_none() => method = Some(scan.text()?),
            b"params" if params.is_none() => params = Some(scan.params()?),
            _ => return None,
        }
        if scan.is_last()? {
            break;
        }
    }
    let (tool, args, token) = params?;
    let ends = scan.0.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    let is_call = version == Some(b"2.0".as_slice()) && method == Some(b"tools/call".as_slice());
    (is_call && ends).then_some(Asked { id: NumberOrString::Number(id?), tool, args, token })
}

/// What is left of a line.
struct Scan<'l>(&'l [u8]);

impl<'l> Scan<'l> {
    fn byte(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn space(&mut self) {
        if let [b' ', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    /// A text without any escape.
    fn text(&mut self) -> Option<&'l [u8]> {
        self.byte(b'"')?;
        let end = self.0.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        self.byte(b'"')?;
        Some(text)
    }

    /// The name of a member, up to its value.
    fn name(&mut self) -> Option<&'l [u8]> {
        let name = self.text()?;
        self.byte(b':')?;
        self.space();
        Some(name)
    }

    /// Whether the object ends here; another member comes if it does not.
    fn is_last(&mut self) -> Option<bool> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        match first {
            b'}' => Some(true),
            b',' => {
                self.space();
                Some(false)
            }
            _ => None,
        }
    }

    /// A whole number that is not negative.
    fn number(&mut self) -> Option<i64> {
        let end = self.0.iter().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        match digits {
            [] | [b'0', _, ..] => None,
            digits if digits.len() > 18 => None,
            digits => Some(digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))),
        }
    }

    fn params(&mut self) -> Option<(String, Map<String, Value>, Option<ProgressToken>)> {
        let (mut name, mut args, mut meta) = (None, None, None);
        self.byte(b'{')?;
        loop {
            match self.name()? {
                b"name" if name.is_none() => name = Some(std::str::from_utf8(self.text()?).ok()?.to_owned()),
                b"arguments" if args.is_none() => args = Some(self.arguments()?),
                b"_meta" if meta.is_none() => meta = Some(self.value::<Meta>()?.0),
                _ => return None,
            }
            if self.is_last()? {
                return Some((name?, args.unwrap_or_default(), meta.unwrap_or_default().token));
            }
        }
    }

    fn arguments(&mut self) -> Option<Map<String, Value>> {
        let (arguments, read) = self.value::<Map<String, Value>>()?;
        // What is short has no room for depth.
        let is_flat = read < 2 * MOST_NESTED || arguments.values().all(|value| is_flat(value, MOST_NESTED));
        is_flat.then_some(arguments)
    }

    /// A value of any kind, and how many bytes it takes.
    fn value<T: Deserialize<'l>>(&mut self) -> Option<(T, usize)> {
        let mut values = serde_json::Deserializer::from_slice(self.0).into_iter();
        let value = values.next()?.ok()?;
        let read = values.byte_offset();
        self.0 = self.0.get(read..)?;
        Some((value, read))
    }
}

/// Whether a value nests no deeper than this.
fn is_flat(value: &Value, most: usize) -> bool {
    match (value, most.checked_sub(1)) {
        (Value::Array(items), Some(left)) => items.iter().all(|item| is_flat(item, left)),
        (Value::Object(members), Some(left)) => members.values().all(|member| is_flat(member, left)),
        (Value::Array(_) | Value::Object(_), None) => false,
        _ => true,
    }
}
