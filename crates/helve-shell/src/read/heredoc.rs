//! Reading the bodies of here-documents, which begin on the line after the command.
//!
//! A body is attached to its segment as text. An unquoted body is expanded by the shell, so the commands in its
//! substitutions are read too.

use super::{Lexer, Output};
use crate::command::{Entry, HereDocument, Opaque, OpaqueReason, Scope, Span};

/// A here-document whose body has not been reached.
pub(super) struct Pending {
    pub(super) segment: usize,
    pub(super) delimiter: String,
    pub(super) strip_tabs: bool,
    pub(super) quoted: bool,
    /// Source offset of its `<<`.
    pub(super) start: usize,
}

impl Lexer<'_> {
    /// Reads the bodies of all pending here-documents, the cursor standing at the start of a line.
    pub(super) fn here_documents(
        &mut self,
        out: &mut Output,
        pending: &mut Vec<Pending>,
    ) -> Result<(), Opaque> {
        for document in pending.drain(..) {
            self.here_document(out, document)?;
        }
        Ok(())
    }

    fn here_document(&mut self, out: &mut Output, pending: Pending) -> Result<(), Opaque> {
        let body = self.pos;
        let end = loop {
            if self.pos >= self.chars.len() {
                // A shell only warns, takes the rest as the body and goes on.
                let opaque = self.opaque(OpaqueReason::UnterminatedHereDocument, pending.start);
                out.unclosed.get_or_insert(opaque);
                break self.pos;
            }
            let line = self.pos;
            if self.body_line(&pending)? {
                break line;
            }
        };
        let chars = self.chars.get(body..end).unwrap_or_default();
        let span = Span { start: self.offset_of(body), end: self.offset_of(end) };
        let before = out.segments.len();
        if !pending.quoted {
            let scope = out.segments.get(pending.segment).map_or(0, |segment| segment.scope);
            out.scopes.push(Scope { parent: scope, entry: Entry::HereDocument });
            let depth = self.deeper(span.start)?;
            Lexer::new(chars, span.end, depth).expansions(out, out.scopes.len() - 1)?;
        }
        let substitutes = out.segments.len() > before;
        if let Some(segment) = out.segments.get_mut(pending.segment) {
            segment.here_documents.push(HereDocument {
                delimiter: pending.delimiter,
                body: chars.iter().map(|char| char.ch).collect(),
                span,
                quoted: pending.quoted,
                substitutes,
            });
        }
        Ok(())
    }

    /// Steps over one line of a body, with the lines that a backslash joins to it; true if it is the end line.
    fn body_line(&mut self, pending: &Pending) -> Result<bool, Opaque> {
        let start = self.offset();
        let mut rest = pending.delimiter.chars();
        let mut matches = true;
        let mut joined = false;
        if pending.strip_tabs {
            while self.peek() == Some('\t') {
                self.pos += 1;
            }
        }
        while let Some(ch) = self.peek() {
            self.pos += 1;
            if ch == '\n' {
                break;
            }
            if ch == '\\' && !pending.quoted {
                match self.peek() {
                    Some('\n') => {
                        self.pos += 1;
                        joined = true;
                        continue;
                    }
                    Some(_) => {
                        self.pos += 1;
                        matches = false;
                        continue;
                    }
                    None => {}
                }
            }
            matches = matches && rest.next() == Some(ch);
        }
        let is_end = matches && rest.next().is_none();
        if is_end && joined {
            return Err(self.opaque(OpaqueReason::AmbiguousHereDocument, start));
        }
        Ok(is_end)
    }
}
