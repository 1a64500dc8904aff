//! Arithmetic and subscripts. Both are evaluated text: a command substitution in them runs, and so does one in the value
//! of a variable that they name.

use std::collections::HashSet;

use crate::analysis::OpaqueReason;
use crate::tree::Word;
use crate::walk::{Value, Walker};

use super::parameter::is_name;
use super::text::Text;

/// A longer expression is not computed.
const MAX_COMPUTED: usize = 256;

impl Walker<'_> {
    /// `$((…))`: its value if it can be computed.
    pub(crate) fn arithmetic(&mut self, word: &Word) -> Text {
        let text = self.expand_quoted(word);
        match self.evaluate(&text) {
            Some(value) => Text::known(value.to_string()),
            None => Text::unknown(),
        }
    }

    /// An offset or a length in `${x:offset:length}`.
    pub(super) fn number(&mut self, word: &Word) -> Option<i64> {
        let text = self.expand_quoted(word);
        self.evaluate(&text)
    }

    /// The index that a subscript comes to, if that can be told.
    pub(super) fn subscript(&mut self, word: &Word) -> Option<i64> {
        let text = self.expand_quoted(word);
        if text.whole().is_none() {
            self.opaque(OpaqueReason::Arithmetic);
        }
        self.evaluate(&text)
    }

    /// Text that the shell evaluates as arithmetic; commands in it are followed.
    pub(crate) fn evaluate(&mut self, text: &Text) -> Option<i64> {
        let Some(whole) = text.whole() else {
            let holds_subscript = text
                .parts()
                .iter()
                .any(|part| matches!(part, crate::analysis::ArgPart::Known(known) if known.contains('[')));
            if holds_subscript {
                self.opaque(OpaqueReason::Arithmetic);
            }
            return None;
        };
        if whole.len() <= MAX_COMPUTED
            && let Some(value) = Computation::new(self, whole).run()
        {
            return Some(value);
        }
        let whole = whole.to_owned();
        let mut seen = HashSet::new();
        self.evaluated_names(&whole, &mut seen);
        None
    }

    /// Follows the commands in evaluated text and in the values of the variables that it names.
    fn evaluated_names(&mut self, text: &str, seen: &mut HashSet<String>) {
        if !self.step(1 + text.len() / 64) {
            return;
        }
        if text.contains("$(") || text.contains('`') || text.contains("${") {
            self.double_quoted(text);
        }
        let names = text
            .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
            .filter(|name| is_name(name));
        for name in names {
            if seen.len() > 64 || !seen.insert(name.to_owned()) {
                continue;
            }
            let values: Vec<Value> =
                self.environment().variable(name).map(|variable| variable.values.clone()).unwrap_or_default();
            for value in values {
                if let Value::Text(value) = value {
                    match value.whole() {
                        Some(value) => self.evaluated_names(value, seen),
                        None if value.is_certainly_something() => self.opaque(OpaqueReason::Arithmetic),
                        None => {}
                    }
                }
            }
        }
    }

    /// A name given to a builtin that may carry a subscript, as in `printf -v 'a[…]'`.
    pub(crate) fn subscripted_name(&mut self, name: &str) {
        if let Some(start) = name.find('[') {
            let inside = name[start + 1..].to_owned();
            let mut seen = HashSet::new();
            self.evaluated_names(&inside, &mut seen);
        }
    }

    /// The same for a name that may be unknown.
    pub(crate) fn subscripted_text(&mut self, text: &Text) {
        match text.whole() {
            Some(name) => {
                let name = name.to_owned();
                self.subscripted_name(&name);
            }
            None => {
                if text
                    .parts()
                    .iter()
                    .any(|part| matches!(part, crate::analysis::ArgPart::Known(known) if known.contains('[')))
                {
                    self.opaque(OpaqueReason::Arithmetic);
                }
            }
        }
    }
}

/// Computes an expression of numbers, names of variables with known values, and the usual operators.
struct Computation<'c, 'w> {
    walker: &'c Walker<'w>,
    bytes: &'c [u8],
    at: usize,
    depth: usize,
}

impl<'c, 'w> Computation<'c, 'w> {
    fn new(walker: &'c Walker<'w>, text: &'c str) -> Self {
        Computation { walker, bytes: text.as_bytes(), at: 0, depth: 0 }
    }

    fn run(mut self) -> Option<i64> {
        let value = self.sum()?;
        self.blanks();
        (self.at == self.bytes.len()).then_some(value)
    }

    fn blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.bytes.get(self.at).copied()
    }

    fn sum(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > 32 {
            return None;
        }
        let mut value = self.product()?;
        loop {
            match self.peek() {
                Some(b'+') => {
                    self.at += 1;
                    value = value.checked_add(self.product()?)?;
                }
                Some(b'-') => {
                    self.at += 1;
                    value = value.checked_sub(self.product()?)?;
                }
                _ => break,
            }
        }
        self.depth -= 1;
        Some(value)
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.single()?;
        loop {
            match self.peek() {
                Some(b'*') if self.bytes.get(self.at + 1) != Some(&b'*') => {
                    self.at += 1;
                    value = value.checked_mul(self.single()?)?;
                }
                Some(b'/') => {
                    self.at += 1;
                    value = value.checked_div(self.single()?)?;
                }
                Some(b'%') => {
                    self.at += 1;
                    value = value.checked_rem(self.single()?)?;
                }
                _ => return Some(value),
            }
        }
    }

    fn single(&mut self) -> Option<i64> {
        match self.peek()? {
            b'(' => {
                self.at += 1;
                let value = self.sum()?;
                (self.peek()? == b')').then_some(())?;
                self.at += 1;
                Some(value)
            }
            b'-' => {
                self.at += 1;
                self.depth += 1;
                if self.depth > 32 {
                    return None;
                }
                let value = self.single()?.checked_neg();
                self.depth -= 1;
                value
            }
            byte if byte.is_ascii_digit() => {
                let word = self.word();
                match word {
                    [b'0', b'x' | b'X', digits @ ..] => {
                        i64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
                    }
                    [b'0', digits @ ..] if !digits.is_empty() => {
                        i64::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
                    }
                    digits => std::str::from_utf8(digits).ok()?.parse().ok(),
                }
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                let name = std::str::from_utf8(self.word()).ok()?;
                match self.walker.environment().variable(name)?.values.as_slice() {
                    [Value::Text(text)] => text.whole()?.parse().ok(),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn word(&mut self) -> &'c [u8] {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }
}
