//! What a script says: the tree that `parse` makes, plain data.
//!
//! ```text
//! Script ─ Statement ─ Pipeline ─ Command ─┬─ Simple ─ Word ─ Piece ─ Script (substitutions)
//!                                          └─ Subshell, If, For, Case, Function … ─ Statement
//! ```
//!
//! Lists are vectors, never chains of boxes, and nesting is bounded by [`MAX_NESTING`](crate::MAX_NESTING), so that walking
//! and dropping a tree can be plain recursion. Every span points into the text that was parsed. Not here: what a word
//! becomes when it is expanded, and what any command does.

use crate::Span;

/// Which shell reads the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// bash, not in its POSIX mode.
    Bash,
    /// A POSIX shell such as dash: no `[[`, `((`, `<(`, `<<<`, `&>`, `|&`, `$'…'`, arrays, brace expansion or `function`.
    Posix,
}

/// A whole text, or the text inside a substitution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The statements in order.
    pub statements: Vec<Statement>,
    /// Set when the text could not be read to its end; the statements then hold what was read before.
    pub fault: Option<Fault>,
}

/// Pipelines joined by `&&` and `||`, up to `;`, `&` or a newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The pipelines, each with how it is joined to the one before.
    pub pipelines: Vec<(Joint, Pipeline)>,
    /// Whether it ends in `&`.
    pub background: bool,
    /// From its first to its last byte, without the terminator.
    pub span: Span,
}

/// How a pipeline is joined to the one before it in its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// It is the first.
    First,
    /// `&&`.
    And,
    /// `||`.
    Or,
}

/// Commands joined by `|`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// Whether an odd number of `!` stands before it.
    pub negated: bool,
    /// Whether the keyword `time` stands before it.
    pub timed: bool,
    /// The commands; never empty, except for a bare `time` or `!`.
    pub commands: Vec<Command>,
    /// From its first to its last byte.
    pub span: Span,
}

/// One command with its redirections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What it is.
    pub kind: CommandKind,
    /// Its redirections in source order. `|&` adds none: see [`Command::pipes_errors`].
    pub redirects: Vec<Redirect>,
    /// Whether `|&` stands behind it.
    pub pipes_errors: bool,
    /// From its first to its last byte, redirections included.
    pub span: Span,
}

/// What a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandKind {
    /// A name with arguments, or assignments alone, or redirections alone.
    Simple(Simple),
    /// `( … )`.
    Subshell(Vec<Statement>),
    /// `{ …; }`.
    Group(Vec<Statement>),
    /// `if …; then …; elif …; else …; fi`.
    If {
        /// Condition and body of the `if` and of each `elif`.
        branches: Vec<(Vec<Statement>, Vec<Statement>)>,
        /// The body of the `else`.
        otherwise: Vec<Statement>,
    },
    /// `while …; do …; done`, or `until`.
    Loop {
        /// What decides.
        condition: Vec<Statement>,
        /// What is repeated.
        body: Vec<Statement>,
    },
    /// `for NAME in …; do …; done`, or `select`.
    For {
        /// The variable.
        name: String,
        /// The words; none where `in` is left out, which means `"$@"`.
        words: Option<Vec<Word>>,
        /// What is repeated.
        body: Vec<Statement>,
    },
    /// `for (( …; …; … )); do …; done`.
    ArithmeticFor {
        /// The text between the parentheses, as one word whose expansions count.
        header: Word,
        /// What is repeated.
        body: Vec<Statement>,
    },
    /// `case WORD in …; esac`.
    Case {
        /// The word that is compared.
        subject: Word,
        /// The patterns of each branch and what it runs.
        branches: Vec<(Vec<Word>, Vec<Statement>)>,
    },
    /// `name() …` or `function name …`.
    Function {
        /// The name.
        name: String,
        /// The body, with the redirections that each call of the function gets.
        body: Box<Command>,
    },
    /// `[[ … ]]`: operators and operands as words.
    Test(Vec<Word>),
    /// `(( … ))`, as one word whose expansions count.
    Arithmetic(Word),
    /// `coproc [NAME] …`.
    Coproc(Box<Command>),
}

/// A simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple {
    /// The assignments before the name.
    pub assignments: Vec<Assignment>,
    /// The name and the arguments. Arguments of `declare`, `export`, `local`, `readonly` and `typeset` that look like
    /// assignments stay words; one with an array in parentheses is an entry of `assignments`.
    pub words: Vec<Word>,
}

/// `NAME=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// The text in `[…]` after the name.
    pub subscript: Option<Word>,
    /// Whether it is `+=`.
    pub append: bool,
    /// What is assigned.
    pub value: AssignedValue,
    /// From the name to the end of the value.
    pub span: Span,
}

/// What an assignment assigns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssignedValue {
    /// One word; it may have no pieces.
    Word(Word),
    /// `( … )`: the elements; a `[subscript]=` stays part of its element's word.
    Array(Vec<Word>),
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The descriptor before the operator.
    pub descriptor: Option<Descriptor>,
    /// The operator.
    pub operator: RedirectOperator,
    /// Where it leads.
    pub target: RedirectTarget,
    /// From the descriptor to the end of the target's word.
    pub span: Span,
}

/// The descriptor before a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descriptor {
    /// `2>`.
    Number(u32),
    /// `{name}>`, `{name[1]}>`.
    Name(String),
}

/// The operator of a redirection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectOperator {
    /// `<`.
    Read,
    /// `>`.
    Write,
    /// `>|`.
    Clobber,
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
    /// `<<` or `<<-`.
    HereDocument,
}

/// Where a redirection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectTarget {
    /// A word.
    Word(Word),
    /// The body of a here-document.
    HereDocument {
        /// The body: one [`PieceKind::Single`] if the delimiter was quoted, else the pieces of a double-quoted text in
        /// which `"` is an ordinary character. Tabs are stripped for `<<-`.
        body: Word,
        /// Whether the delimiter was quoted, so that nothing in the body is expanded.
        quoted: bool,
    },
}

/// A word before expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The pieces in order; empty for an empty here-document or an empty assigned value.
    pub pieces: Vec<Piece>,
    /// Where it stands.
    pub span: Span,
}

/// A stretch of a word that is quoted or expanded in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: PieceKind,
    /// Where it stands, quote characters included.
    pub span: Span,
}

/// How a stretch of a word is quoted or expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PieceKind {
    /// Unquoted text; globs, braces and a leading tilde are still active. Line continuations are removed.
    Text(String),
    /// A character behind a backslash outside quotes; inside `"…"` it is part of the text.
    Escaped(char),
    /// `'…'`, or `$'…'` with its escapes decoded.
    Single(String),
    /// `"…"` or `$"…"`; the text inside is [`PieceKind::Text`] without any active character.
    Double(Vec<Piece>),
    /// `$name`, `${…}`.
    Parameter(Box<Parameter>),
    /// `$(…)`, backticks, `${ …; }`.
    Command(Script),
    /// `$((…))` or `$[…]`: the expression, whose expansions count.
    Arithmetic(Box<Word>),
    /// `<(…)`.
    ProcessIn(Script),
    /// `>(…)`.
    ProcessOut(Script),
}

/// `$name` or `${…}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The name: a variable, a number, or one of `@ * # ? - $ ! 0`.
    pub name: String,
    /// The text in `[…]`.
    pub subscript: Option<Word>,
    /// Whether it is `${!name…}`.
    pub indirect: bool,
    /// What is done with the value.
    pub operation: Operation,
}

/// What `${…}` does with a value. Patterns and operands are words that may hold further expansions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Nothing.
    Value,
    /// `${#x}`.
    Length,
    /// `${x-w}`, `${x:-w}`.
    Default {
        /// Whether an empty value counts as unset.
        colon: bool,
        /// What stands in its place.
        word: Word,
    },
    /// `${x=w}`, `${x:=w}`.
    Assign {
        /// Whether an empty value counts as unset.
        colon: bool,
        /// What stands in its place.
        word: Word,
    },
    /// `${x+w}`, `${x:+w}`.
    Alternative {
        /// Whether an empty value counts as unset.
        colon: bool,
        /// What stands in its place if it is set.
        word: Word,
    },
    /// `${x?w}`, `${x:?w}`.
    Error {
        /// Whether an empty value counts as unset.
        colon: bool,
        /// The message.
        word: Word,
    },
    /// `${x#p}`, `${x##p}`.
    RemovePrefix {
        /// Whether the longest match is removed.
        longest: bool,
        /// The pattern.
        pattern: Word,
    },
    /// `${x%p}`, `${x%%p}`.
    RemoveSuffix {
        /// Whether the longest match is removed.
        longest: bool,
        /// The pattern.
        pattern: Word,
    },
    /// `${x/p/w}`, `${x//p/w}`, `${x/#p/w}`, `${x/%p/w}`.
    Replace {
        /// Which matches are replaced.
        which: Replaced,
        /// The pattern.
        pattern: Word,
        /// What stands in its place.
        with: Word,
    },
    /// `${x:offset}`, `${x:offset:length}`.
    Substring {
        /// Where it starts, an arithmetic expression.
        offset: Word,
        /// How long it is, an arithmetic expression.
        length: Option<Word>,
    },
    /// `${x^}`, `${x^^p}`, `${x,}`, `${x,,}`, `${x~}`, `${x~~}`.
    ChangeCase {
        /// `'^'`, `','` or `'~'`.
        to: char,
        /// Whether all characters change, not only the first.
        all: bool,
        /// Which characters change; no pieces means any.
        pattern: Word,
    },
    /// `${x@Q}` and the like.
    Transform(char),
    /// `${!prefix*}`, `${!prefix@}`, `${!array[@]}`.
    Names,
}

/// Which matches `${x/p/w}` replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The first.
    First,
    /// All.
    All,
    /// One at the start.
    Start,
    /// One at the end.
    End,
}

/// Why a text could not be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The reason.
    pub reason: FaultReason,
    /// From where the trouble starts to where reading stopped.
    pub span: Span,
}

/// The reasons for which a text cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultReason {
    /// A quote is never closed.
    #[error("a quote is never closed; close it, or put a backslash before a quote that is meant literally")]
    UnterminatedQuote,
    /// A `$(`, `${`, `<(` or backtick is never closed.
    #[error("a substitution is never closed; close it with the matching `)`, `}}` or backtick")]
    UnterminatedSubstitution,
    /// A `(`, `{`, `if`, `case`, … is never closed.
    #[error("a compound command is never closed; add the matching `)`, `}}`, `fi`, `done` or `esac`")]
    UnterminatedCommand,
    /// A here-document has no end line.
    #[error("a here-document is never closed; put its delimiter alone on a line after the body")]
    UnterminatedHereDocument,
    /// Shells differ on where a here-document ends.
    #[error(
        "shells disagree on where the here-document ends; put its delimiter alone on a line, without a backslash, before \
         the substitution around it closes"
    )]
    AmbiguousHereDocument,
    /// Something stands where the shell's grammar has no place for it.
    #[error("the shell's grammar does not allow what stands here; check operators and keywords")]
    Unexpected,
    /// A `${…}` or `$((…))` that no shell can expand. It runs what stands before, and perhaps what stands behind.
    #[error("this ${{…}} is not one that the shell knows; check its operator")]
    BadSubstitution,
    /// A NUL character.
    #[error("it holds a NUL character, which no shell can take; remove it")]
    Nul,
    /// Commands and substitutions are nested too deeply.
    #[error("it is nested more than {} levels deep; split the command", crate::MAX_NESTING)]
    TooDeep,
    /// The text is too long.
    #[error("it is longer than {} bytes; put the text into a file and run that", crate::MAX_TEXT)]
    TooLong,
}
