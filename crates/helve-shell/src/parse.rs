//! Parsing a script: the text of a command in, the tree of [`crate::tree`] out.
//!
//! ```text
//! text ─ cursor ─ lists (;  &  &&  |) ─ commands (simple, compound) ─ words ─ dollar ($…, backticks) ─ lists …
//! ```
//!
//! One pass from left to right by recursive descent. One place of the shell's grammar needs a look ahead: `((`, which starts
//! arithmetic or two subshells (`parentheses`); it is bounded, so that all is linear in the length of the text. Everything
//! that recurses counts against [`MAX_NESTING`]; the rest are loops.
//!
//! Text inside backticks is unescaped before it is parsed; a table of offsets keeps its spans pointing at the source.
//! A fault inside `$(…)` is a fault of the whole text, as it is for the shells. bash reads the text inside backticks and
//! here-documents only when it runs; such a fault stays with the script inside the backticks, or is noted on the
//! whole text while reading goes on.
//!
//! Not here: expansion, aliases, options that change the grammar (`shopt -s extglob`), and what any command does.

mod ansi;
mod arithmetic;
mod array;
mod compound;
mod condition;
mod cursor;
mod dollar;
mod heredoc;
mod keyword;
mod list;
mod parameter;
mod parentheses;
mod pieces;
mod quotes;
mod redirect;
mod simple;
mod word;

use crate::tree::{Dialect, Fault, FaultReason, Script, Statement, Word};
use crate::{MAX_NESTING, MAX_TEXT, Span};
use cursor::Offsets;
use heredoc::Pending;
use parentheses::Pairings;

/// What a parsing step gives: a result, or the fault at which the whole parse stops.
type Parsed<T> = Result<T, Fault>;

/// Parses a script. Never fails: what cannot be read is a fault of the script, beside the statements before it.
///
/// ```
/// use helve_shell::tree::{CommandKind, Dialect};
///
/// let script = helve_shell::parse("cd src && grep -n 'a b' x.rs > out", Dialect::Bash);
/// assert_eq!(script.fault, None);
/// let (_, grep) = &script.statements[0].pipelines[1];
/// let CommandKind::Simple(simple) = &grep.commands[0].kind else { panic!("grep is a simple command") };
/// assert_eq!(simple.words.len(), 4);
/// ```
pub fn parse(text: &str, dialect: Dialect) -> Script {
    let refused = |reason, start, end| Script {
        statements: Vec::new(),
        fault: Some(Fault { reason, span: Span { start, end } }),
    };
    if text.len() > MAX_TEXT {
        return refused(FaultReason::TooLong, 0, text.len());
    }
    if let Some(at) = text.bytes().position(|byte| byte == 0) {
        return refused(FaultReason::Nul, at, at + 1);
    }
    let mut pairings = Pairings::default();
    Parser::new(text, Offsets::Shifted(0), dialect, 0, &mut pairings).script()
}

/// A cursor over one text, with what the levels of its grammar share.
struct Parser<'a, 's> {
    text: &'a str,
    offsets: Offsets<'a>,
    pos: usize,
    /// The position behind the last byte that belongs to a token.
    done: usize,
    dialect: Dialect,
    depth: usize,
    /// The depth of the list inside the innermost substitution, which its end closes; 0 outside of all.
    inside: usize,
    /// The position of the first token of the innermost substitution.
    opened: Option<usize>,
    /// Whether the command that was just read ends in such a way that a keyword may follow it.
    keyword_may_follow: bool,
    /// Here-documents whose bodies start behind the next newline.
    pending: Vec<Pending>,
    /// The bodies that were read, by the number of their here-document.
    bodies: Vec<Option<Word>>,
    /// The first fault that did not stop the reading.
    noted: Option<Fault>,
    pairings: &'s mut Pairings,
}

impl<'a, 's> Parser<'a, 's> {
    fn new(
        text: &'a str,
        offsets: Offsets<'a>,
        dialect: Dialect,
        depth: usize,
        pairings: &'s mut Pairings,
    ) -> Self {
        Parser {
            text,
            offsets,
            pos: 0,
            done: 0,
            dialect,
            depth,
            inside: 0,
            opened: None,
            keyword_may_follow: false,
            pending: Vec::new(),
            bodies: Vec::new(),
            noted: None,
            pairings,
        }
    }

    /// Parses the whole text.
    fn script(mut self) -> Script {
        let mut statements = Vec::new();
        let stopped = self.whole(&mut statements).err();
        heredoc::fill(&mut statements, &mut self.bodies);
        // What was noted stands before what stopped the reading.
        Script { statements, fault: self.noted.or(stopped) }
    }

    fn whole(&mut self, statements: &mut Vec<Statement>) -> Parsed<()> {
        self.statements(statements)?;
        if self.peek() != 0 {
            return Err(self.unexpected());
        }
        self.here_documents()
    }

    /// A parser for a text inside this one, one level deeper.
    fn inner<'b>(&'b mut self, text: &'b str, offsets: Offsets<'b>, start: usize) -> Parsed<Parser<'b, 'b>> {
        if self.depth >= MAX_NESTING {
            return Err(self.fault(FaultReason::TooDeep, start));
        }
        Ok(Parser::new(text, offsets, self.dialect, self.depth + 1, self.pairings))
    }

    fn is_bash(&self) -> bool {
        self.dialect == Dialect::Bash
    }

    /// Goes one level deeper; `leave` comes back.
    fn enter(&mut self, start: usize) -> Parsed<()> {
        if self.depth >= MAX_NESTING {
            return Err(self.fault(FaultReason::TooDeep, start));
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }
}
