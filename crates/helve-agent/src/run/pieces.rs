//! The words of a model as they come, without the secrets that the policy knows: whoever looks on or reads the events sees no
//! more than talk and journal have. A secret may come in any number of pieces, so what could be the beginning of one is
//! held back until it is clear; nothing else is.

use std::collections::BTreeMap;

use helve::{Redactor, Runtime};

use crate::model::Piece;

/// What streams side by side in one answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Text,
    Thought,
    /// The arguments of a call.
    Args(usize),
}

/// The pieces of one answer.
pub(super) struct Pieces<'a> {
    runtime: &'a Runtime,
    streams: BTreeMap<Stream, Redactor>,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(runtime: &'a Runtime) -> Self {
        Pieces { runtime, streams: BTreeMap::new() }
    }

    /// Takes a piece, and tells what of it is certainly no secret.
    pub(super) fn take(&mut self, piece: Piece, tell: &mut dyn FnMut(Piece)) {
        let (stream, text) = match piece {
            Piece::Text { text } => (Stream::Text, text),
            Piece::Thought { text } => (Stream::Thought, text),
            Piece::Args { index, text } => (Stream::Args(index), text),
            Piece::Call { index, name } => {
                return tell(Piece::Call { index, name: self.runtime.without_secrets(&name) });
            }
            Piece::Again { after, why, usage } => {
                // What came so far does not count; what was held back of it neither.
                self.streams.clear();
                return tell(Piece::Again { after, why: self.runtime.without_secrets(&why), usage });
            }
        };
        let clean = self.streams.entry(stream).or_insert_with(|| self.runtime.redactor()).push(&text);
        tell_of(stream, clean, tell);
    }

    /// The answer is whole, or there will be none: tells what was held back.
    pub(super) fn finish(&mut self, tell: &mut dyn FnMut(Piece)) {
        for (stream, mut redactor) in std::mem::take(&mut self.streams) {
            tell_of(stream, redactor.finish(), tell);
        }
    }
}

fn tell_of(stream: Stream, text: String, tell: &mut dyn FnMut(Piece)) {
    if text.is_empty() {
        return;
    }
    tell(match stream {
        Stream::Text => Piece::Text { text },
        Stream::Thought => Piece::Thought { text },
        Stream::Args(index) => Piece::Args { index, text },
    });
}
