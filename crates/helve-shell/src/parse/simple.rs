//! Simple commands: assignments, words, redirections; and `name()`, which starts like one.

use super::array::Leading;
use super::word::{Context, literal};
use super::{Parsed, Parser};
use crate::tree::{Command, CommandKind, Piece, PieceKind, Simple, Word};

/// Builtins whose arguments may assign arrays.
const DECLARING: [&str; 8] = ["alias", "declare", "eval", "export", "let", "local", "readonly", "typeset"];

impl Parser<'_, '_> {
    /// Reads a simple command, or a function definition.
    pub(super) fn simple(&mut self, start: usize) -> Parsed<Command> {
        self.simple_from(Simple { assignments: Vec::new(), words: Vec::new() }, start)
    }

    /// Reads the rest of a simple command whose first words are known.
    pub(super) fn simple_from(&mut self, mut simple: Simple, start: usize) -> Parsed<Command> {
        let mut redirects = Vec::new();
        let mut declares = false;
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                push_first_exact(&mut redirects, redirect);
            } else if self.at_word() {
                let named = !simple.words.is_empty();
                let leading = match named {
                    false => self.assignment_or_word()?,
                    true => self.argument(declares)?,
                };
                match leading {
                    Leading::Assignment(assignment) => push_first_exact(&mut simple.assignments, assignment),
                    // Which element is set shows only when it runs; as an argument it would be one too many.
                    Leading::Word(word) if self.names_descriptor(&word) => return Err(self.unexpected()),
                    Leading::Word(word) => {
                        declares = declares || self.is_bash() && !named && is_declaring(&word);
                        simple.words.push(word);
                    }
                }
            } else {
                break;
            }
        }
        if self.peek() == b'('
            && redirects.is_empty()
            && simple.assignments.is_empty()
            && let [name] = simple.words.as_slice()
        {
            let name = literal(name);
            return self.definition(name, start);
        }
        if redirects.is_empty() && simple.assignments.is_empty() && simple.words.is_empty() {
            return Err(self.unexpected());
        }
        self.keyword_may_follow = false;
        Ok(self.made(CommandKind::Simple(simple), redirects, start))
    }

    fn argument(&mut self, declares: bool) -> Parsed<Leading> {
        if declares && let Some(assignment) = self.array_argument()? {
            return Ok(Leading::Assignment(assignment));
        }
        self.word(Context::Plain).map(Leading::Word)
    }

    /// Behind the name in `name() …`.
    fn definition(&mut self, name: String, start: usize) -> Parsed<Command> {
        self.bump();
        self.blanks();
        if !self.take(b')') || !(self.is_bash() || is_name(&name)) {
            return Err(self.unexpected());
        }
        self.function_body(name, start)
    }
}

/// Most commands have one redirection or assignment at most; a vector that grows by itself starts with room for four.
fn push_first_exact<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}

fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(super::cursor::starts_name)
        && text.bytes().all(super::cursor::continues_name)
}

fn is_declaring(word: &Word) -> bool {
    match word.pieces.as_slice() {
        [Piece { kind: PieceKind::Text(text), .. }] => DECLARING.contains(&text.as_str()),
        _ => DECLARING.contains(&literal(word).as_str()),
    }
}
