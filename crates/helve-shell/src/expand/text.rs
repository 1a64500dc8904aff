//! Text as far as it is known: what variables hold, what substitutions print, what a pipe carries.

use crate::Span;
use crate::analysis::{Arg, ArgPart};

/// The longest text that is followed, in bytes; a longer one counts as unknown.
pub(crate) const MAX_KNOWN: usize = 64 * 1024;

/// Text of which parts may be unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text {
    parts: Vec<ArgPart>,
    /// The size of all parts, kept so that adding one costs nothing for those before it.
    size: usize,
}

impl Text {
    pub(crate) fn known(text: impl Into<String>) -> Self {
        let mut made = Text::default();
        let text = text.into();
        if text.len() > MAX_KNOWN {
            made.push_unknown();
        } else if !text.is_empty() {
            made.size = text.len();
            made.parts.push(ArgPart::Known(text));
        }
        made
    }

    pub(crate) fn unknown() -> Self {
        Text { parts: vec![ArgPart::Unknown], size: 1 }
    }

    /// The parts of an argument. A pattern in it stays one: it stands for whatever matches.
    pub(crate) fn of(arg: &Arg) -> Self {
        let mut made = Text::default();
        arg.parts.iter().for_each(|part| made.push_part(part));
        made
    }

    /// The same for an argument that names a variable or is evaluated. What looks like a pattern of brackets is a
    /// subscript there; any other stands for the names of files.
    pub(crate) fn literally(arg: &Arg) -> Self {
        let mut made = Text::default();
        for part in &arg.parts {
            match part {
                ArgPart::Glob(text) if !text.contains(['*', '?']) => made.push(text),
                other => made.push_part(other),
            }
        }
        made
    }

    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.size + text.len() > MAX_KNOWN {
            *self = Text::unknown();
            return;
        }
        self.size += text.len();
        if let Some(ArgPart::Known(last)) = self.parts.last_mut() {
            last.push_str(text);
        } else {
            self.parts.push(ArgPart::Known(text.to_owned()));
        }
    }

    pub(crate) fn push_unknown(&mut self) {
        if self.parts.last() != Some(&ArgPart::Unknown) {
            self.size += 1;
            self.parts.push(ArgPart::Unknown);
        }
    }

    pub(crate) fn append(&mut self, other: &Text) {
        other.parts.iter().for_each(|part| self.push_part(part));
    }

    pub(crate) fn push_part(&mut self, part: &ArgPart) {
        match part {
            ArgPart::Known(text) => self.push(text),
            ArgPart::Glob(text) if self.size + text.len() <= MAX_KNOWN => {
                self.size += text.len();
                self.parts.push(part.clone());
            }
            ArgPart::Glob(_) | ArgPart::Unknown => self.push_unknown(),
        }
    }

    /// The whole, if all of it is known.
    pub(crate) fn whole(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [ArgPart::Known(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether evaluating it can do no harm as far as it is known: digits, signs and blanks.
    pub(crate) fn is_tame(&self) -> bool {
        self.parts.iter().all(|part| match part {
            ArgPart::Known(text) => {
                text.bytes().all(|byte| byte.is_ascii_digit() || b"+-. \t\n".contains(&byte))
            }
            ArgPart::Glob(_) => false,
            ArgPart::Unknown => true,
        })
    }

    /// Whether file names stand in the place of a part of it.
    pub(crate) fn holds_pattern(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, ArgPart::Glob(_)))
    }

    /// Whether it is certainly empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it certainly holds something.
    pub(crate) fn is_certainly_something(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, ArgPart::Known(text) if !text.is_empty()))
    }

    pub(crate) fn len(&self) -> usize {
        self.size
    }

    pub(crate) fn parts(&self) -> &[ArgPart] {
        &self.parts
    }

    /// Takes the line ends away that a substitution does not keep.
    pub(crate) fn trim_newlines(&mut self) {
        if let Some(ArgPart::Known(last)) = self.parts.last_mut() {
            let kept = last.trim_end_matches('\n').len();
            self.size -= last.len() - kept;
            last.truncate(kept);
            if last.is_empty() {
                self.parts.pop();
            }
        }
    }

    /// One argument that is this text.
    pub(crate) fn into_arg(self, span: Span) -> Arg {
        let mut parts = self.parts;
        if parts.is_empty() {
            parts.push(ArgPart::Known(String::new()));
        }
        Arg { parts, span, splits: false }
    }
}
