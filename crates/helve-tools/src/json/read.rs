//! JSON text, read strictly, with what is wrong told by line, column and a small excerpt.

use std::fmt;

use helve_core::strict_json;
use serde_json::Value;

/// Why a text is not acceptable, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadJson {
    pub(super) reason: String,
    /// Counted from 1.
    pub(super) line: usize,
    /// Characters, counted from 1.
    pub(super) column: usize,
    /// The place with a caret below it.
    excerpt: String,
}

impl fmt::Display for BadJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}:\n{}", self.reason, self.line, self.column, self.excerpt)
    }
}

/// The deepest document that is read.
const MAX_DEPTH: usize = 127;

/// Reads one JSON document.
pub(super) fn read(text: &str) -> Result<Value, BadJson> {
    strict_json::read(text, MAX_DEPTH).map_err(|malformed| {
        let reason = match malformed.reason.as_str() {
            "nested too deeply" => "nested more than 127 levels deep (recursion limit exceeded)",
            reason => reason,
        };
        bad(text, reason, malformed.at)
    })
}

/// Characters that an excerpt shows on either side.
const AROUND: usize = 30;

fn bad(text: &str, reason: &str, at: usize) -> BadJson {
    let at = text.floor_char_boundary(at.min(text.len()));
    let (before, after) = text.split_at(at);
    let line_before = before.rsplit('\n').next().unwrap_or_default();
    let line_after = after.split('\n').next().unwrap_or_default();
    let column = line_before.chars().count();
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let mut excerpt: String = line_before.chars().skip(column.saturating_sub(AROUND)).map(visible).collect();
    excerpt.extend(line_after.chars().take(AROUND).map(visible));
    excerpt.push('\n');
    excerpt.extend(std::iter::repeat_n(' ', column.min(AROUND)));
    excerpt.push('^');
    BadJson {
        reason: reason.to_owned(),
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: column + 1,
        excerpt,
    }
}
