//! What the words of a script become before a command gets them.
//!
//! In comes a word of the tree and what is known of the variables, out go arguments: text that is certain, patterns, and
//! stretches that nobody can know before the script runs. Commands inside substitutions are followed on the way, by the
//! walker whose methods these are. Sizes are bounded everywhere; what grows beyond its bound is unknown.
//!
//! | file | what it does |
//! |---|---|
//! | `brace` | `{a,b}` and `{1..9}` |
//! | `fields` | splitting, quote removal, active patterns |
//! | `parameter`, `operation` | `$x`, `${x…}` and what is done with their values |
//! | `pattern` | matching shell patterns against known text |
//! | `arithmetic` | `$((…))`, subscripts, and the commands that hide in them |
//! | `text` | text as far as it is known |
//!
//! Not here: file names. A pattern stays a pattern.

mod arithmetic;
mod brace;
mod fields;
mod operation;
mod parameter;
mod pattern;
mod text;

pub(crate) use fields::Mode;
pub(crate) use parameter::is_name;
pub(crate) use text::{MAX_KNOWN, Text};

use crate::Span;
use crate::analysis::{Arg, OpaqueReason};
use crate::tree::{Dialect, Piece, PieceKind, Word};
use crate::walk::Walker;

use brace::{Braces, Made};
use fields::Fields;

impl Walker<'_> {
    /// Expands a word of a command and adds its fields.
    pub(crate) fn expand_fields(&mut self, word: &Word, fields: &mut Vec<Arg>) {
        let span = self.place(word.span);
        if let [Piece { kind: PieceKind::Text(text), .. }] = word.pieces.as_slice() {
            let special = |byte: u8| matches!(byte, b'{' | b'~' | b'*' | b'?' | b'[');
            if !text.bytes().any(special) {
                fields.push(Arg::known(text.as_str(), span));
                return;
            }
        }
        if self.dialect() == Dialect::Bash {
            match brace::expand(word) {
                Braces::None => {}
                Braces::TooMany => {
                    self.opaque_at(OpaqueReason::TooComplex, span);
                    fields.push(Arg::unknown(span));
                    self.follow_commands(&word.pieces);
                    return;
                }
                Braces::Words(words) => {
                    for made in words {
                        if !self.step(4) {
                            break;
                        }
                        self.expand_made(&made, span, fields);
                    }
                    return;
                }
            }
        }
        self.expand_pieces(&word.pieces, span, Mode::Fields, fields);
    }

    /// Expands a word that braces made. It is not written as it is, so that it never looks like an assignment.
    fn expand_made(&mut self, made: &Made, span: Span, done: &mut Vec<Arg>) {
        let mut fields = Fields::new(done, span, Mode::Fields);
        for (at, pieces) in made.iter().enumerate() {
            if at > 0 {
                fields.unknown(false);
            }
            let rest = if at == 0 { self.leading_tilde(pieces, &mut fields) } else { pieces };
            self.pieces(rest, false, &mut fields);
        }
        fields.finish();
    }

    /// Expands a word that stays one: an assigned value, a here-string, a pattern.
    pub(crate) fn expand_one(&mut self, word: &Word, mode: Mode) -> Arg {
        let span = self.place(word.span);
        let mut made = Vec::new();
        self.expand_pieces(&word.pieces, span, mode, &mut made);
        made.pop().unwrap_or_else(|| Arg::known("", span))
    }

    /// The text that a word stands for where patterns mean nothing. A pattern in it is one of a value, and stands for the
    /// names of files.
    pub(crate) fn expand_text(&mut self, word: &Word) -> Text {
        Text::of(&self.expand_one(word, Mode::One))
    }

    /// The text of pieces that stand as if between double quotes: here-documents, arithmetic, subscripts.
    pub(crate) fn expand_quoted(&mut self, word: &Word) -> Text {
        let span = self.place(word.span);
        let mut made = Vec::new();
        let mut fields = Fields::new(&mut made, span, Mode::One);
        self.pieces(&word.pieces, true, &mut fields);
        fields.finish();
        made.pop().map(|arg| Text::of(&arg)).unwrap_or_default()
    }

    /// Expands the pieces of a word.
    fn expand_pieces(&mut self, pieces: &[Piece], span: Span, mode: Mode, done: &mut Vec<Arg>) {
        let mut fields = Fields::new(done, span, mode);
        let rest = match pieces.split_first() {
            _ if mode == Mode::Pattern => pieces,
            Some((Piece { kind: PieceKind::Text(text), .. }, after)) if is_assignment(text) => {
                self.assignment_like(text, after, &mut fields);
                &[]
            }
            _ => self.leading_tilde(pieces, &mut fields),
        };
        self.pieces(rest, false, &mut fields);
        fields.finish();
    }

    /// The `~` that a word may start with; gives what is left of it.
    fn leading_tilde<'p>(&mut self, pieces: &'p [Piece], fields: &mut Fields<'_>) -> &'p [Piece] {
        match pieces.split_first() {
            Some((Piece { kind: PieceKind::Text(text), .. }, after)) if text.starts_with('~') => {
                self.tilde(text, after.is_empty(), fields);
                after
            }
            _ => pieces,
        }
    }

    /// A word that looks like an assignment: its first text, and what follows that.
    fn assignment_like(&mut self, text: &str, pieces: &[Piece], fields: &mut Fields<'_>) {
        let (sign, value) = text.split_at(text.find('=').map_or(0, |at| at + 1));
        fields.plain(sign);
        self.directories(value, true, pieces.is_empty(), fields);
        for (at, piece) in pieces.iter().enumerate() {
            match &piece.kind {
                PieceKind::Text(text) => self.directories(text, false, at + 1 == pieces.len(), fields),
                _ => self.pieces(std::slice::from_ref(piece), false, fields),
            }
        }
    }

    /// Text of a word that looks like an assignment: a `~` is a directory behind its sign and behind each colon. `first` says
    /// that the sign is in front of it, and `last` that nothing is behind it.
    fn directories(&mut self, text: &str, first: bool, last: bool, fields: &mut Fields<'_>) {
        let mut begins = first;
        for part in text.split_inclusive(':') {
            let (directory, colon) = part.strip_suffix(':').map_or((part, ""), |directory| (directory, ":"));
            if begins && part.starts_with('~') {
                self.tilde(directory, last || !colon.is_empty(), fields);
                fields.plain(colon);
            } else {
                fields.plain(part);
            }
            begins = true;
        }
    }

    /// A leading `~`, with the text up to the first slash; quoted text after it would make it an ordinary character.
    fn tilde(&mut self, text: &str, alone: bool, fields: &mut Fields<'_>) {
        let name_end = text.find('/').unwrap_or(text.len());
        if name_end == text.len() && !alone {
            fields.plain(text);
            return;
        }
        let directory = match &text[1..name_end] {
            "" => self.variable_text("HOME"),
            "+" => self.variable_text("PWD"),
            "-" => self.variable_text("OLDPWD"),
            "root" => Text::known("/root"),
            _ => Text::unknown(),
        };
        fields.value(&directory, true, "");
        fields.plain(&text[name_end..]);
    }

    /// Expands pieces one after the other.
    fn pieces(&mut self, pieces: &[Piece], quoted: bool, fields: &mut Fields<'_>) {
        for piece in pieces {
            match &piece.kind {
                PieceKind::Text(text) if quoted => fields.quoted(text),
                PieceKind::Text(text) => fields.plain(text),
                PieceKind::Escaped(character) => fields.quoted(character.encode_utf8(&mut [0; 4])),
                PieceKind::Single(text) => fields.quoted(text),
                PieceKind::Double(inner) => {
                    if !matches!(inner.as_slice(), [Piece { kind: PieceKind::Parameter(_), .. }]) {
                        fields.quoted("");
                    }
                    self.pieces(inner, true, fields);
                }
                PieceKind::Parameter(parameter) => self.parameter(parameter, quoted, fields),
                PieceKind::Command(script) => {
                    let text = self.substitute(script);
                    let separators = self.separators();
                    fields.value(&text, quoted, &separators);
                }
                PieceKind::Arithmetic(word) => {
                    let text = self.arithmetic(word);
                    fields.value(&text, true, "");
                }
                PieceKind::ProcessIn(script) => {
                    let name = self.process(script, true);
                    fields.quoted(&name);
                }
                PieceKind::ProcessOut(script) => {
                    let name = self.process(script, false);
                    fields.quoted(&name);
                }
            }
        }
    }

    /// Follows the commands inside pieces whose text is of no use.
    pub(crate) fn follow_commands(&mut self, pieces: &[Piece]) {
        let mut unused = Vec::new();
        let mut fields = Fields::new(&mut unused, self.whole(), Mode::One);
        self.pieces(pieces, true, &mut fields);
        fields.finish();
    }
}

/// Whether text starts like an assignment: `a=`, `a+=`, `a[0]=`.
fn is_assignment(text: &str) -> bool {
    let Some((text, _)) = text.split_once('=') else { return false };
    let text = text.strip_suffix('+').unwrap_or(text);
    let name = text.strip_suffix(']').and_then(|text| text.split_once('[')).map_or(text, |(name, _)| name);
    is_name(name)
}
