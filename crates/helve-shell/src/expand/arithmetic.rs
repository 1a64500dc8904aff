//! Arithmetic and subscripts. Both are evaluated text: a command substitution in them runs, and so does one in the value
//! of a variable that they name.

use std::collections::HashSet;

use crate::analysis::{ArgPart, OpaqueReason};
use crate::tree::Word;
use crate::walk::{Value, Variable, Walker};

use super::parameter::is_name;
use super::text::Text;

/// A longer expression is not computed.
const MAX_COMPUTED: usize = 256;

impl Walker<'_> {
    /// `$((…))`: its value if it can be computed.
    pub(crate) fn arithmetic(&mut self, word: &Word) -> Text {
        match self.number(word) {
            Some(value) => Text::known(value.to_string()),
            None => Text::unknown(),
        }
    }

    /// The number that evaluated text of the script comes to: an offset in `${x:offset}`, a subscript, `((…))`.
    pub(crate) fn number(&mut self, word: &Word) -> Option<i64> {
        let outer = self.replace_wild(false);
        let text = self.expand_quoted(word);
        let value = self.evaluate(&text);
        // Whatever went in, a number comes out.
        self.replace_wild(outer);
        value
    }

    /// The index that a subscript comes to, if that can be told.
    pub(super) fn subscript(&mut self, word: &Word) -> Option<i64> {
        let outer = self.replace_wild(false);
        let text = self.expand_quoted(word);
        if text.whole().is_none() {
            self.opaque(OpaqueReason::Arithmetic);
        }
        let value = self.evaluate(&text);
        self.replace_wild(outer);
        value
    }

    /// Text that the shell evaluates as arithmetic; commands in it are followed, and what it assigns is a number that
    /// nobody knows. Text that may be anything may hold a subscript with a command in it.
    pub(crate) fn evaluate(&mut self, text: &Text) -> Option<i64> {
        self.note_use();
        if let Some(whole) = text.whole()
            && whole.len() <= MAX_COMPUTED
            && let Some(value) = Computation::new(self, whole).run()
        {
            return Some(value);
        }
        let brackets = known_parts(text).any(|known| known.contains('['));
        if text.whole().is_none() && (self.is_wild() || text.holds_pattern() || brackets) {
            self.opaque(OpaqueReason::Arithmetic);
        }
        let mut seen = HashSet::new();
        for known in known_parts(text) {
            self.evaluated_names(known, &mut seen);
        }
        for known in known_parts(text) {
            for name in assigned_names(known) {
                let outer = self.replace_wild(false);
                self.assign(name, Variable::new(Value::Unknown));
                self.replace_wild(outer);
            }
        }
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
            if self.holds_anything(name) {
                self.opaque(OpaqueReason::Arithmetic);
            }
            self.evaluate_element(name);
            let Some(variable) = self.environment().variable(name).cloned() else { continue };
            if variable.wild {
                self.opaque(OpaqueReason::Arithmetic);
            }
            for value in variable.values {
                let texts = match value {
                    Value::Text(text) => vec![text],
                    Value::List(texts) => texts,
                    Value::Unknown | Value::Unset | Value::Reference(_) => continue,
                };
                for text in texts {
                    if text.whole().is_none() && known_parts(&text).any(|known| known.contains('[')) {
                        self.opaque(OpaqueReason::Arithmetic);
                    }
                    for known in known_parts(&text) {
                        self.evaluated_names(known, seen);
                    }
                }
            }
        }
    }

    /// A name given to a builtin that may carry a subscript, as in `printf -v 'a[…]'`.
    pub(crate) fn subscripted_name(&mut self, name: &str) {
        if let Some((_, inside)) = name.split_once('[') {
            let inside = Text::known(inside.strip_suffix(']').unwrap_or(inside));
            self.evaluate(&inside);
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
                let brackets = known_parts(text).any(|known| known.contains('['));
                if self.is_wild() || text.holds_pattern() || brackets {
                    self.opaque(OpaqueReason::Arithmetic);
                }
            }
        }
    }
}

fn known_parts(text: &Text) -> impl Iterator<Item = &str> {
    text.parts().iter().filter_map(|part| match part {
        ArgPart::Known(known) => Some(known.as_str()),
        ArgPart::Glob(_) | ArgPart::Unknown => None,
    })
}

/// The names that an expression assigns: those before an assignment, and those beside `++` and `--`.
fn assigned_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    if !text.contains('=') && !text.contains("++") && !text.contains("--") {
        return names;
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !(bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
            at += 1;
            continue;
        }
        let start = at;
        while bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            at += 1;
        }
        let name = &text[start..at];
        let before = text[..start].trim_end();
        let after = text[at..].trim_start();
        // What stands in a subscript is not looked through; an array is taken for assigned.
        let assigns = after.starts_with('[')
            || before.ends_with("++")
            || before.ends_with("--")
            || after.starts_with("++")
            || after.starts_with("--")
            || (after.starts_with('=') && !after.starts_with("=="))
            || ["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="]
                .iter()
                .any(|operator| after.starts_with(operator));
        if assigns && is_name(name) && names.len() < MAX_COMPUTED {
            names.push(name);
        }
    }
    names
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
