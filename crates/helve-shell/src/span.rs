//! A stretch of source text.

use std::ops::Range;

/// A stretch of the source text, in bytes, always on character borders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// The same stretch as a range, ready to slice the source text.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// The smallest stretch that holds both.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}
