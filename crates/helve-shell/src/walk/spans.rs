//! Where a text that is read stands in the command that was given.

use crate::Span;
use crate::analysis::Arg;

/// How places of a text map to the command that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The text is this stretch of the command; a line end may follow in the text alone.
    Written(Span),
    /// The text is made out of this stretch; it has no places of its own.
    Whole(Span),
}

impl Origin {
    /// The stretch of the command that a stretch of the text stands for.
    pub(crate) fn map(self, span: Span) -> Span {
        match self {
            Origin::Written(written) => Span {
                start: (written.start + span.start).min(written.end),
                end: (written.start + span.end).min(written.end),
            },
            Origin::Whole(whole) => whole,
        }
    }

    /// The origin of a text that an argument holds: its own place if it is written out in one stretch.
    pub(crate) fn of(text: &str, arg: &Arg, source: &str) -> Self {
        let whole = Origin::Whole(arg.span);
        // `echo` adds a line end that is not written anywhere.
        let text = text.trim_end_matches('\n');
        let Some(written) = source.get(arg.span.range()) else { return whole };
        if text.is_empty() {
            return whole;
        }
        match written.find(text) {
            Some(offset) => {
                let start = arg.span.start + offset;
                Origin::Written(Span { start, end: start + text.len() })
            }
            None => whole,
        }
    }
}
