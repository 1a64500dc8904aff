//! Where a text that is read stands in the command that was given.

use crate::Span;
use crate::analysis::Arg;

/// How places of a text map to the command that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The text is a stretch of the command, from this offset on.
    Shifted(usize),
    /// The text is made out of this stretch; it has no places of its own.
    Whole(Span),
}

impl Origin {
    /// The stretch of the command that a stretch of the text stands for.
    pub(crate) fn map(self, span: Span) -> Span {
        match self {
            Origin::Shifted(offset) => Span { start: span.start + offset, end: span.end + offset },
            Origin::Whole(whole) => whole,
        }
    }

    /// The origin of a text that an argument holds: its own place if it is written out in one stretch.
    pub(crate) fn of(text: &str, arg: &Arg, source: &str) -> Self {
        let whole = Origin::Whole(arg.span);
        let Some(written) = source.get(arg.span.range()) else { return whole };
        if text.is_empty() || written.len() > text.len() + 4096 {
            return whole;
        }
        // A text may also be a part of what the argument's word says, as in a command with more arguments around it.
        match written.find(text) {
            Some(offset) => Origin::Shifted(arg.span.start + offset),
            None => whole,
        }
    }
}
