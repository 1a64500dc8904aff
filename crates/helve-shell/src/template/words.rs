//! The words of a template, laid flat.
//!
//! In: the tree of the template. Out: each command with the words that stand in it outside of substitutions, each word
//! with its parts, so that a placeholder's offset leads to how it is quoted and what its word is for. Placeholders
//! inside substitutions, here-documents and arithmetic cannot be quoted, so nothing there becomes a word.

use std::ops::Range;

use crate::Span;
use crate::tree::{
    AssignedValue, Assignment, Command, CommandKind, Operation, Parameter, Piece, PieceKind, Redirect,
    RedirectOperator, RedirectTarget, Script, Statement, Word as TreeWord,
};

/// What a template says, as far as placeholders can stand in it.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) calls: Vec<Call>,
    /// Arithmetic, and the bodies of here-documents.
    pub(super) unquotable: Vec<Span>,
    /// Whether the output of a command goes to another.
    pub(super) pipes: bool,
    /// Whether a function is defined.
    pub(super) defines: bool,
    /// Whether `&>` stands in it, which ends the command in a shell that does not know it.
    pub(super) redirects_both: bool,
}

/// One command.
#[derive(Default)]
pub(super) struct Call {
    /// The name and the arguments.
    pub(super) arguments: Vec<Word>,
    /// All other words.
    pub(super) others: Vec<Word>,
}

/// One word, with quotes and backslashes removed.
pub(super) struct Word {
    /// The text; an expansion stands here as it is written.
    pub(super) text: String,
    pub(super) span: Span,
    pub(super) role: Role,
    /// The stretches of which it is made.
    pub(super) parts: Vec<Part>,
}

/// What a word is to its command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The name or an argument.
    Argument,
    /// It goes into a variable.
    Stored,
    /// It names the file of a redirection.
    File,
    /// It is the text behind `<<<`.
    HereString,
    /// It is compared in a `case`.
    Compared,
    /// It stands in `[[ … ]]`.
    Test,
}

/// A stretch of a word that is quoted in one way.
pub(super) struct Part {
    pub(super) kind: PartKind,
    /// Its range in [`Word::text`].
    pub(super) text: Range<usize>,
    pub(super) span: Span,
}

/// How a stretch of a word is quoted or expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// No quotes.
    Bare,
    /// A character after a backslash.
    Escaped,
    /// `'…'`.
    Single,
    /// The literal text of `"…"`.
    Double,
    /// `$'…'`.
    AnsiC,
    /// `$NAME` or `${NAME}`.
    Variable,
    /// Any other expansion or substitution.
    Expansion,
}

impl PartKind {
    pub(super) fn is_literal(self) -> bool {
        !matches!(self, PartKind::Variable | PartKind::Expansion)
    }
}

impl Word {
    /// Whether it is written without any quote, backslash or expansion.
    pub(super) fn is_bare(&self) -> bool {
        self.parts.iter().all(|part| part.kind == PartKind::Bare)
    }

    /// Whether the shell puts nothing else in its place.
    pub(super) fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| part.kind.is_literal())
    }

    /// Whether it is one stretch of exactly this text.
    pub(super) fn is_all(&self, text: &str) -> bool {
        self.text == text && self.parts.len() == 1
    }
}

/// Lays out the words of a template.
pub(super) fn read(source: &str, script: &Script) -> Reading {
    let mut reader = Reader { source, reading: Reading::default() };
    reader.statements(&script.statements);
    reader.reading
}

struct Reader<'s> {
    source: &'s str,
    reading: Reading,
}

impl Reader<'_> {
    fn statements(&mut self, statements: &[Statement]) {
        for (_, pipeline) in statements.iter().flat_map(|statement| &statement.pipelines) {
            self.reading.pipes |= pipeline.commands.len() > 1;
            for command in &pipeline.commands {
                self.command(command);
            }
        }
    }

    fn command(&mut self, command: &Command) {
        let mut call = Call::default();
        match &command.kind {
            CommandKind::Simple(simple) => {
                for assignment in &simple.assignments {
                    self.assignment(assignment, &mut call);
                }
                call.arguments = self.words(&simple.words, Role::Argument);
            }
            CommandKind::Subshell(body) | CommandKind::Group(body) => self.statements(body),
            CommandKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    self.statements(condition);
                    self.statements(body);
                }
                self.statements(otherwise);
            }
            CommandKind::Loop { condition, body } => {
                self.statements(condition);
                self.statements(body);
            }
            CommandKind::For { name: _, words, body } => {
                call.others = self.words(words.as_deref().unwrap_or_default(), Role::Stored);
                self.statements(body);
            }
            CommandKind::ArithmeticFor { header, body } => {
                self.reading.unquotable.push(header.span);
                self.statements(body);
            }
            CommandKind::Case { subject, branches } => {
                call.others.push(self.word("", subject, Role::Compared));
                for (patterns, body) in branches {
                    call.others.extend(self.words(patterns, Role::Compared));
                    self.statements(body);
                }
            }
            CommandKind::Function { name: _, body } => {
                self.reading.defines = true;
                self.command(body);
            }
            CommandKind::Test(words) => call.others = self.words(words, Role::Test),
            CommandKind::Arithmetic(expression) => self.reading.unquotable.push(expression.span),
            CommandKind::Coproc(body) => self.command(body),
        }
        for redirect in &command.redirects {
            self.redirect(redirect, &mut call);
        }
        self.reading.calls.push(call);
    }

    fn assignment(&mut self, assignment: &Assignment, call: &mut Call) {
        let Assignment { name, subscript, append, value, span: _ } = assignment;
        self.reading.unquotable.extend(subscript.as_ref().map(|subscript| subscript.span));
        match value {
            AssignedValue::Word(word) => {
                let target = format!("{name}{}", if *append { "+=" } else { "=" });
                call.others.push(self.word(&target, word, Role::Stored));
            }
            AssignedValue::Array(elements) => call.others.extend(self.words(elements, Role::Stored)),
        }
    }

    fn redirect(&mut self, redirect: &Redirect, call: &mut Call) {
        let both = matches!(redirect.operator, RedirectOperator::WriteBoth | RedirectOperator::AppendBoth);
        self.reading.redirects_both |= both;
        match &redirect.target {
            RedirectTarget::Word(word) => {
                let is_text = redirect.operator == RedirectOperator::HereString;
                let role = if is_text { Role::HereString } else { Role::File };
                call.others.push(self.word("", word, role));
            }
            RedirectTarget::HereDocument { body, quoted: _ } => self.reading.unquotable.push(body.span),
        }
    }

    fn words(&self, words: &[TreeWord], role: Role) -> Vec<Word> {
        words.iter().map(|word| self.word("", word, role)).collect()
    }

    /// A word, behind text that has no part of its own.
    fn word(&self, before: &str, word: &TreeWord, role: Role) -> Word {
        let mut made = Word { text: before.to_owned(), span: word.span, role, parts: Vec::new() };
        for piece in &word.pieces {
            self.piece(piece, false, &mut made);
        }
        made
    }

    fn piece(&self, piece: &Piece, in_double: bool, word: &mut Word) {
        let written = self.source.get(piece.span.range()).unwrap_or_default();
        let from = word.text.len();
        let kind = match &piece.kind {
            PieceKind::Text(text) => {
                word.text.push_str(text);
                if in_double { PartKind::Double } else { PartKind::Bare }
            }
            PieceKind::Escaped(ch) => {
                word.text.push(*ch);
                PartKind::Escaped
            }
            PieceKind::Single(text) => {
                word.text.push_str(text);
                if written.starts_with('$') { PartKind::AnsiC } else { PartKind::Single }
            }
            PieceKind::Double(inside) if !inside.is_empty() => {
                for piece in inside {
                    self.piece(piece, true, word);
                }
                return;
            }
            PieceKind::Double(_) => PartKind::Double,
            PieceKind::Parameter(parameter) => {
                word.text.push_str(written);
                if is_plain(parameter) { PartKind::Variable } else { PartKind::Expansion }
            }
            PieceKind::Command(_)
            | PieceKind::Arithmetic(_)
            | PieceKind::ProcessIn(_)
            | PieceKind::ProcessOut(_) => {
                word.text.push_str(written);
                PartKind::Expansion
            }
        };
        word.parts.push(Part { kind, text: from..word.text.len(), span: piece.span });
    }
}

/// `$NAME` or `${NAME}`.
fn is_plain(parameter: &Parameter) -> bool {
    parameter.subscript.is_none() && !parameter.indirect && parameter.operation == Operation::Value
}
