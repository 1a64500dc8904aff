//! Lists: statements, the pipelines in them, the commands in those.

use super::cursor::is_meta;
use super::keyword::Keyword;
use super::{Parsed, Parser};
use crate::tree::{Joint, Pipeline, Statement};

impl Parser<'_, '_> {
    /// Reads statements up to whatever closes the list, which is left for the caller to judge.
    pub(super) fn statements(&mut self, statements: &mut Vec<Statement>) -> Parsed<()> {
        loop {
            self.newlines()?;
            if self.list_ends(true) {
                return Ok(());
            }
            let statement = self.statement()?;
            statements.push(statement);
            self.blanks();
            match self.peek() {
                b';' if !self.ends_case_branch() => self.bump(),
                b'&' if !(self.is_bash() && self.peek_second() == b'>') => {
                    self.bump();
                    if let Some(last) = statements.last_mut() {
                        last.background = true;
                    }
                }
                b'\n' => self.newline()?,
                _ if self.list_ends(self.keyword_may_follow) => return Ok(()),
                _ => return Err(self.unexpected()),
            }
        }
    }

    /// A list that must hold something.
    pub(super) fn body(&mut self) -> Parsed<Vec<Statement>> {
        let mut statements = Vec::new();
        self.statements(&mut statements)?;
        if statements.is_empty() { Err(self.unexpected()) } else { Ok(statements) }
    }

    /// Whether what comes next ends a list.
    fn list_ends(&mut self, keywords: bool) -> bool {
        match self.peek() {
            0 | b')' => true,
            b';' => self.ends_case_branch(),
            _ => keywords && self.keyword().is_some_and(Keyword::closes),
        }
    }

    /// Whether `;;`, `;&` or `;;&` comes next.
    pub(super) fn ends_case_branch(&mut self) -> bool {
        self.peek() == b';'
            && match self.peek_second() {
                b';' => true,
                b'&' => self.is_bash(),
                _ => false,
            }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let start = self.offset();
        let mut pipelines = vec![(Joint::First, self.pipeline()?)];
        loop {
            self.blanks();
            let joint = if self.take_pair(b'&', b'&') {
                Joint::And
            } else if self.take_pair(b'|', b'|') {
                Joint::Or
            } else {
                return Ok(Statement { pipelines, background: false, span: self.span_from(start) });
            };
            self.newlines()?;
            let pipeline = self.pipeline()?;
            pipelines.push((joint, pipeline));
        }
    }

    fn pipeline(&mut self) -> Parsed<Pipeline> {
        self.blanks();
        let start = self.offset();
        let mut pipeline = Pipeline {
            negated: false,
            timed: false,
            commands: Vec::with_capacity(1),
            span: self.span_from(start),
        };
        let mut prefixed = false;
        let mut named = false;
        loop {
            self.blanks();
            if self.take_keyword(Keyword::Bang) {
                if prefixed && !self.is_bash() {
                    return Err(self.unexpected());
                }
                pipeline.negated = !pipeline.negated;
            } else {
                let first = self.opened == Some(self.pos);
                if !self.take_keyword(Keyword::Time) {
                    break;
                }
                pipeline.timed = true;
                self.time_options();
                self.blanks();
                // As the first word of a substitution bash takes it for a program's name when it looks for the end, and
                // for the keyword when it runs: so what follows has to be both.
                let compound = |keyword: Keyword| keyword.opens() && keyword != Keyword::OpenTest;
                if first && (self.peek() == b'(' || self.keyword().is_some_and(compound)) {
                    return Err(self.unexpected());
                }
                named = first;
            }
            prefixed = true;
        }
        if prefixed && self.is_bash() && (self.bare_prefix_ends() || named && self.peek() == b')') {
            self.keyword_may_follow = false;
            pipeline.span = self.span_from(start);
            return Ok(pipeline);
        }
        loop {
            let mut command = self.command()?;
            self.blanks();
            let piped = self.peek() == b'|' && self.peek_second() != b'|';
            if piped {
                self.bump();
                command.pipes_errors = self.is_bash() && self.take(b'&');
            }
            pipeline.commands.push(command);
            if !piped {
                pipeline.span = self.span_from(start);
                return Ok(pipeline);
            }
            self.newlines()?;
        }
    }

    /// Whether nothing has to follow `time` or `!` here.
    fn bare_prefix_ends(&mut self) -> bool {
        match self.peek() {
            0 | b'\n' => true,
            b';' => !self.ends_case_branch(),
            _ => false,
        }
    }

    /// Takes the `-p` and `--` that belong to the keyword `time`.
    fn time_options(&mut self) {
        for letter in [b'p', b'-'] {
            self.blanks();
            let behind = self.joined(self.joined(self.pos + 1) + 1);
            if self.peek() == b'-' && self.peek_second() == letter && is_meta(self.byte(behind)) {
                self.bump();
                self.take(letter);
            }
        }
    }
}
