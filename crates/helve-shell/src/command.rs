//! The result of reading a command: plain data, made by the reader and read by whoever judges or explains.
//!
//! A [`Command`] is a list of [`Segment`]s in the order in which they start in the text. The commands inside `$(…)`,
//! backticks, process substitutions and unquoted here-documents are segments of the same list, marked `substituted`.
//! Not here: how the text is read, and what any of it means.

use std::ops::Range;

pub(crate) use crate::Span;

/// What a shell command says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The text that was read.
    pub text: String,
    /// The simple commands, in the order in which they start.
    pub segments: Vec<Segment>,
    /// Set when the text could not be read to its end; the segments then cover only what comes before. Behind a
    /// here-document that is never closed they cover what a shell makes of it: all the rest is its body.
    pub opaque: Option<Opaque>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) defines_functions: bool,
}

impl Command {
    /// All words of all segments.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        self.segments.iter().flat_map(|segment| segment.words.iter())
    }
}

/// One simple command: a name with its arguments, assignments and redirections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The words in source order, redirect targets included.
    pub words: Vec<Word>,
    /// From the first to the last byte of the segment, operators of redirections included.
    pub span: Span,
    /// How the segment is joined to the one before it in the same shell.
    pub joint: Joint,
    /// True inside `$(…)`, backticks, `<(…)`, `>(…)` or the body of an unquoted here-document.
    pub substituted: bool,
    /// The here-documents that feed this segment.
    pub here_documents: Vec<HereDocument>,
    pub(crate) scope: usize,
}

impl Segment {
    /// The word that names the command to run; absent for bare assignments, redirections and keywords.
    pub fn name(&self) -> Option<&Word> {
        self.words.iter().find(|word| word.position == Position::Name)
    }

    /// The arguments after the name.
    pub fn arguments(&self) -> impl Iterator<Item = &Word> {
        self.words.iter().filter(|word| word.position == Position::Argument)
    }
}

/// The operator between a segment and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// Nothing comes before.
    First,
    /// `;`, `;;` or a newline.
    Sequence,
    /// `&`.
    Background,
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `|` or `|&`.
    Pipe,
}

/// One word as the shell sees it, with quotes and backslashes removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The text; a part that the shell would expand stands here as it is written.
    pub text: String,
    /// False if the shell would put something else in its place: `$…`, backticks, `<(…)`, `{a,b}`.
    pub known: bool,
    /// True if it holds an unquoted `*`, `?` or `[…]`, which stay in `text` as they are.
    pub glob: bool,
    /// Where it stands in the source.
    pub span: Span,
    /// What it is to the command.
    pub position: Position,
    /// The stretches of which it is made, in order; together they cover `text`.
    pub parts: Vec<Part>,
}

impl Word {
    /// True if the word is written without any quote, backslash or expansion.
    pub fn is_bare(&self) -> bool {
        self.parts.iter().all(|part| part.kind == PartKind::Bare)
    }
}

/// A stretch of a word that is quoted in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// How it is quoted or expanded.
    pub kind: PartKind,
    /// Its range in [`Word::text`].
    pub text: Range<usize>,
    /// Where it stands in the source, quote characters included.
    pub span: Span,
}

/// How a stretch of a word is quoted or expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// No quotes.
    Bare,
    /// A character after a backslash.
    Escaped,
    /// `'…'`.
    Single,
    /// The literal text of `"…"`; expansions inside are parts of their own.
    Double,
    /// `$'…'`.
    AnsiC,
    /// `$NAME` or `${NAME}`.
    Variable,
    /// Any other expansion or substitution.
    Expansion,
}

/// What a word is to its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The command's name.
    Name,
    /// An argument.
    Argument,
    /// The target of a redirection.
    Redirect(Redirect),
    /// `NAME=value` before the name, or an element of `NAME=(…)`.
    Assignment,
    /// A word of the shell's grammar such as `if` or `{`.
    Keyword,
    /// A pattern of a `case`.
    Pattern,
    /// The name of a function that is defined here.
    FunctionName,
}

/// The operator of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirect {
    /// `<`.
    Read,
    /// `>` or `>|`.
    Write,
    /// `>>`.
    Append,
    /// `<>`.
    ReadWrite,
    /// `<&`: the target is a descriptor, `-`, or a file.
    DuplicateIn,
    /// `>&`: the target is a descriptor, `-`, or a file.
    DuplicateOut,
    /// `&>`.
    WriteBoth,
    /// `&>>`.
    AppendBoth,
    /// `<<<`: the target is text, not a file.
    HereString,
}

/// The text between `<<WORD` and the line `WORD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HereDocument {
    /// The line that ends it.
    pub delimiter: String,
    /// The body as it is written.
    pub body: String,
    /// Where the body stands in the source.
    pub span: Span,
    /// True if the delimiter is quoted, so that nothing in the body is expanded.
    pub quoted: bool,
    /// True if the body is expanded and holds a command substitution.
    pub substitutes: bool,
}

/// Why a command could not be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opaque {
    /// The reason.
    pub reason: OpaqueReason,
    /// From where the trouble starts to where reading stopped.
    pub span: Span,
}

/// The reasons for which a command is opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpaqueReason {
    /// A quote is never closed.
    #[error("a quote is never closed; close it, or put a backslash before a quote that is meant literally")]
    UnterminatedQuote,
    /// A `$(`, `${`, `<(` or backtick is never closed.
    #[error("a substitution is never closed; close it with the matching `)`, `}}` or backtick")]
    UnterminatedSubstitution,
    /// A `(` is never closed.
    #[error("a parenthesis is never closed; add the matching `)`")]
    UnterminatedParenthesis,
    /// A here-document has no end line.
    #[error("a here-document is never closed; put its delimiter alone on a line after the body")]
    UnterminatedHereDocument,
    /// Shells differ on where a here-document ends.
    #[error(
        "shells disagree on where the here-document ends; put its delimiter alone on a line, without a backslash, before \
         the substitution around it closes"
    )]
    AmbiguousHereDocument,
    /// A NUL character.
    #[error("it holds a NUL character, which no shell can take; remove it")]
    Nul,
    /// Substitutions are nested too deeply.
    #[error("substitutions are nested more than {} levels deep; split the command", crate::MAX_DEPTH)]
    TooDeep,
    /// The text is too long.
    #[error("it is longer than {} bytes; put the text into a file and run that", crate::MAX_LENGTH)]
    TooLong,
}

/// A shell of its own inside the command: the whole text, `( … )`, or a substitution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The scope in which it starts; the first scope names itself.
    pub(crate) parent: usize,
    pub(crate) entry: Entry,
}

/// When a scope runs, seen from its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A `( … )` runs after what it is joined to.
    Subshell(Joint),
    /// A substitution runs before the segment in which it stands.
    Substitution,
    /// The substitutions of a here-document run before a segment that stands somewhere above.
    HereDocument,
}
