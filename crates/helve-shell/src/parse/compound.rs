//! Commands, and the compound ones among them.

use super::array::Leading;
use super::keyword::Keyword;
use super::word::{Context, literal};
use super::{Parsed, Parser};
use crate::tree::{Command, CommandKind, FaultReason, Redirect, Simple, Statement, Word};

impl Parser<'_, '_> {
    /// Reads one command with its redirections.
    pub(super) fn command(&mut self) -> Parsed<Command> {
        self.blanks();
        let start = self.offset();
        match self.keyword() {
            Some(keyword) if keyword.opens() => self.compound(start),
            Some(Keyword::Function) => self.function(start),
            Some(Keyword::Coproc) => self.coproc(start),
            // Behind a `|` it is the name of a program.
            Some(Keyword::Time) => self.simple(start),
            Some(_) => Err(self.unexpected()),
            None if self.peek() == b'(' => self.compound(start),
            None => self.simple(start),
        }
    }

    /// Whether a compound command starts here.
    pub(super) fn at_compound(&mut self) -> bool {
        self.peek() == b'(' || self.keyword().is_some_and(Keyword::opens)
    }

    /// Reads a compound command with its redirections.
    pub(super) fn compound(&mut self, start: usize) -> Parsed<Command> {
        self.enter(start)?;
        let kind = self.compound_kind(start)?;
        self.leave();
        let redirects = self.redirects()?;
        self.keyword_may_follow = redirects.is_empty();
        Ok(self.made(kind, redirects, start))
    }

    pub(super) fn made(&self, kind: CommandKind, redirects: Vec<Redirect>, start: usize) -> Command {
        Command { kind, redirects, pipes_errors: false, span: self.span_from(start) }
    }

    fn compound_kind(&mut self, start: usize) -> Parsed<CommandKind> {
        let Some(keyword) = self.keyword() else { return self.parentheses(start) };
        self.take_keyword(keyword);
        match keyword {
            Keyword::OpenBrace => {
                let statements = self.body()?;
                self.expect(Keyword::CloseBrace, start)?;
                Ok(CommandKind::Group(statements))
            }
            Keyword::If => self.branches(start),
            Keyword::While | Keyword::Until => {
                let condition = self.body()?;
                let body = self.do_done(start)?;
                Ok(CommandKind::Loop { condition, body })
            }
            Keyword::For => self.repeat(start),
            Keyword::Select => self.repeat_over_words(start),
            Keyword::Case => self.case(start),
            Keyword::OpenTest => self.test(start),
            _ => Err(self.unexpected()),
        }
    }

    /// `( … )` or `(( … ))`.
    fn parentheses(&mut self, start: usize) -> Parsed<CommandKind> {
        if self.is_bash()
            && self.peek_second() == b'('
            && let Some(expression) = self.arithmetic_command()?
        {
            return Ok(CommandKind::Arithmetic(expression));
        }
        self.bump();
        let statements = self.body()?;
        self.blanks();
        if !self.take(b')') {
            return Err(self.unclosed(start));
        }
        Ok(CommandKind::Subshell(statements))
    }

    fn branches(&mut self, start: usize) -> Parsed<CommandKind> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let condition = self.body()?;
            self.expect(Keyword::Then, start)?;
            let body = self.body()?;
            branches.push((condition, body));
            if self.take_keyword(Keyword::Elif) {
                continue;
            }
            if self.take_keyword(Keyword::Else) {
                otherwise = self.body()?;
            }
            self.expect(Keyword::Fi, start)?;
            return Ok(CommandKind::If { branches, otherwise });
        }
    }

    fn repeat(&mut self, start: usize) -> Parsed<CommandKind> {
        self.blanks();
        if !(self.is_bash() && self.peek() == b'(' && self.peek_second() == b'(') {
            return self.repeat_over_words(start);
        }
        let Some(header) = self.arithmetic_command()? else { return Err(self.unexpected()) };
        if super::arithmetic::semicolons(&header) != 2 {
            return Err(self.fault(FaultReason::Unexpected, header.span.start));
        }
        self.blanks();
        if self.peek() == b';' && !self.ends_case_branch() {
            self.bump();
        }
        self.newlines()?;
        let body = self.do_done_or_braces(start)?;
        Ok(CommandKind::ArithmeticFor { header, body })
    }

    /// `for NAME in …`, `for NAME;`, `for NAME do`, and the same with `select`.
    fn repeat_over_words(&mut self, start: usize) -> Parsed<CommandKind> {
        self.blanks();
        if !self.at_word() {
            return Err(self.unexpected());
        }
        let name = literal(&self.word(Context::Plain)?);
        self.blanks();
        if self.peek() == b';' && !self.ends_case_branch() {
            self.bump();
            self.newlines()?;
            let body = self.do_done_or_braces(start)?;
            return Ok(CommandKind::For { name, words: None, body });
        }
        let newline = self.peek() == b'\n';
        self.newlines()?;
        if !self.take_keyword(Keyword::In) {
            let body = if newline { self.do_done_or_braces(start)? } else { self.do_done(start)? };
            return Ok(CommandKind::For { name, words: None, body });
        }
        let words = self.words()?;
        match self.peek() {
            b';' if !self.ends_case_branch() => self.bump(),
            b'\n' => {}
            _ => return Err(self.unexpected()),
        }
        self.newlines()?;
        let body = self.do_done_or_braces(start)?;
        Ok(CommandKind::For { name, words: Some(words), body })
    }

    /// Words up to the end of the line or an operator.
    fn words(&mut self) -> Parsed<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.blanks();
            if !self.at_word() {
                return Ok(words);
            }
            words.push(self.word(Context::Plain)?);
        }
    }

    fn do_done_or_braces(&mut self, start: usize) -> Parsed<Vec<Statement>> {
        if self.is_bash() && self.take_keyword(Keyword::OpenBrace) {
            let body = self.body()?;
            self.expect(Keyword::CloseBrace, start)?;
            return Ok(body);
        }
        self.do_done(start)
    }

    fn do_done(&mut self, start: usize) -> Parsed<Vec<Statement>> {
        self.expect(Keyword::Do, start)?;
        let body = self.body()?;
        self.expect(Keyword::Done, start)?;
        Ok(body)
    }

    fn case(&mut self, start: usize) -> Parsed<CommandKind> {
        self.blanks();
        if !self.at_word() {
            return Err(self.unexpected());
        }
        let subject = self.word(Context::Plain)?;
        self.newlines()?;
        self.expect(Keyword::In, start)?;
        let mut branches = Vec::new();
        loop {
            self.newlines()?;
            if self.take_keyword(Keyword::Esac) {
                return Ok(CommandKind::Case { subject, branches });
            }
            let patterns = self.patterns(start)?;
            let mut body = Vec::new();
            self.statements(&mut body)?;
            branches.push((patterns, body));
            if self.ends_case_branch() {
                self.bump();
                self.bump_case_terminator();
            } else {
                self.expect(Keyword::Esac, start)?;
                return Ok(CommandKind::Case { subject, branches });
            }
        }
    }

    /// Behind the first `;` of `;;`, `;&` or `;;&`.
    fn bump_case_terminator(&mut self) {
        self.take(b';');
        if self.is_bash() {
            self.take(b'&');
        }
    }

    /// `(a | b)` or `a | b)`.
    fn patterns(&mut self, start: usize) -> Parsed<Vec<Word>> {
        self.take(b'(');
        let mut patterns = Vec::new();
        loop {
            self.blanks();
            if !self.at_word() {
                return Err(self.unclosed(start));
            }
            patterns.push(self.word(Context::Plain)?);
            self.blanks();
            if self.take(b')') {
                return Ok(patterns);
            }
            if !self.take(b'|') {
                return Err(self.unclosed(start));
            }
        }
    }

    /// `function NAME [()] body`.
    fn function(&mut self, start: usize) -> Parsed<Command> {
        self.take_keyword(Keyword::Function);
        self.blanks();
        if !self.at_word() {
            return Err(self.unexpected());
        }
        let name = literal(&self.word(Context::Plain)?);
        self.blanks();
        if self.peek() == b'(' && self.byte_behind_blanks() == b')' {
            self.bump();
            self.blanks();
            self.bump();
        }
        self.function_body(name, start)
    }

    /// The byte behind the next one and the blanks that follow it.
    fn byte_behind_blanks(&self) -> u8 {
        let mut pos = self.joined(self.pos + 1);
        while matches!(self.byte(pos), b' ' | b'\t') {
            pos = self.joined(pos + 1);
        }
        self.byte(pos)
    }

    /// Behind `NAME ()`.
    pub(super) fn function_body(&mut self, name: String, start: usize) -> Parsed<Command> {
        self.newlines()?;
        let at = self.offset();
        self.enter(start)?;
        let body = if self.at_compound() {
            self.compound(at)?
        } else if self.is_bash() {
            return Err(self.unexpected());
        } else {
            self.command()?
        };
        self.leave();
        Ok(self.made(CommandKind::Function { name, body: Box::new(body) }, Vec::new(), start))
    }

    /// `coproc NAME compound`, `coproc compound` or `coproc simple`.
    fn coproc(&mut self, start: usize) -> Parsed<Command> {
        self.take_keyword(Keyword::Coproc);
        self.blanks();
        let at = self.offset();
        self.enter(start)?;
        let body = if self.at_compound() {
            self.compound(at)?
        } else if self.keyword().is_some_and(|keyword| keyword != Keyword::Time) {
            return Err(self.unexpected());
        } else {
            self.named_coproc(at)?
        };
        self.leave();
        Ok(self.made(CommandKind::Coproc(Box::new(body)), Vec::new(), start))
    }

    /// Behind `coproc`: a name and a compound command, or a simple command. Which one it is shows behind the first word.
    fn named_coproc(&mut self, at: usize) -> Parsed<Command> {
        let mut simple = Simple { assignments: Vec::new(), words: Vec::new() };
        if self.redirect_follows() || !self.at_word() {
            return self.simple_from(simple, at);
        }
        match self.assignment_or_word()? {
            Leading::Assignment(assignment) => simple.assignments.push(assignment),
            Leading::Word(word) => {
                self.blanks();
                if self.at_compound() {
                    let start = self.offset();
                    return self.compound(start);
                }
                simple.words.push(word);
                match self.keyword() {
                    None | Some(Keyword::Time) => {}
                    Some(keyword) if keyword.closes() => {
                        // bash looks for keywords here, and one that closes a list ends the command.
                        self.keyword_may_follow = true;
                        return Ok(self.made(CommandKind::Simple(simple), Vec::new(), at));
                    }
                    Some(_) => return Err(self.unexpected()),
                }
                if self.subscript_follows() {
                    simple.words.push(self.subscripted_word()?);
                }
            }
        }
        self.simple_from(simple, at)
    }

    /// Takes the keyword, or says what is wrong.
    pub(super) fn expect(&mut self, keyword: Keyword, start: usize) -> Parsed<()> {
        self.blanks();
        if self.take_keyword(keyword) { Ok(()) } else { Err(self.unclosed(start)) }
    }

    /// The fault that a compound command which started at `start` is not closed where it should be.
    pub(super) fn unclosed(&mut self, start: usize) -> crate::tree::Fault {
        if self.peek() == 0 { self.fault(FaultReason::UnterminatedCommand, start) } else { self.unexpected() }
    }
}
