//! Collecting the pieces of a word.

use crate::Span;
use crate::tree::{Piece, PieceKind};

/// The pieces of a word so far; plain text is joined until another piece follows.
pub(super) struct Pieces {
    list: Vec<Piece>,
    text: String,
    span: Span,
}

impl Pieces {
    pub(super) fn new() -> Self {
        Pieces { list: Vec::new(), text: String::new(), span: Span { start: 0, end: 0 } }
    }

    /// Adds plain text.
    pub(super) fn text(&mut self, text: &str, span: Span) {
        if text.is_empty() {
            return;
        }
        if self.text.is_empty() {
            self.span = span;
        }
        self.span.end = span.end;
        self.text.push_str(text);
    }

    /// Adds any other piece.
    pub(super) fn push(&mut self, kind: PieceKind, span: Span) {
        self.flush();
        self.add(Piece { kind, span });
    }

    fn add(&mut self, piece: Piece) {
        if self.list.is_empty() {
            // Most words are one piece; a vector that grows by itself starts with room for four.
            self.list.reserve_exact(1);
        }
        self.list.push(piece);
    }

    /// Adds the pieces of another word behind these.
    pub(super) fn append(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece.kind {
                PieceKind::Text(text) => self.text(&text, piece.span),
                kind => self.push(kind, piece.span),
            }
        }
    }

    pub(super) fn finish(mut self) -> Vec<Piece> {
        self.flush();
        self.list
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.add(Piece { kind: PieceKind::Text(text), span: self.span });
        }
    }
}
