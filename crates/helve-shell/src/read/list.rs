//! Reading a list of commands: separators, subshells, `case`, redirections.
//!
//! Parentheses are counted on a stack of frames, not by recursion, so that any number of them is read in a loop.
//! In comes a cursor at the start of a list, out go segments; the cursor is left behind the list's end.

use super::heredoc::Pending;
use super::position::Keyword;
use super::word::RawWord;
use super::{Lexer, Output};
use crate::command::{
    Entry, Joint, Opaque, OpaqueReason, PartKind, Position, Redirect, Scope, Segment, Span, Word,
};

/// What ends the list that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The end of the characters.
    Input,
    /// The `)` of a substitution.
    Paren,
    /// The `}` of `${ command; }`.
    Brace,
}

/// The state of one shell level: the list itself, or one `( … )` inside it.
pub(super) struct Frame {
    scope: usize,
    start: usize,
    joint: Joint,
    /// A command was seen since the last operator, so that a newline ends something.
    active: bool,
    /// The segment that is being read.
    segment: Option<usize>,
    /// The segment has its name; further words are arguments.
    pub(super) named: bool,
    pub(super) last_keyword: Keyword,
    /// How many `case` are open, and whether a pattern comes next.
    pub(super) cases: usize,
    pattern: bool,
    pub(super) braces: usize,
    /// It began with `((`, so `<<` may be a shift.
    arithmetic: bool,
}

impl Frame {
    fn new(scope: usize, start: usize, arithmetic: bool) -> Self {
        Frame {
            scope,
            start,
            joint: Joint::First,
            active: false,
            segment: None,
            named: false,
            last_keyword: Keyword::None,
            cases: 0,
            pattern: false,
            braces: 0,
            arithmetic,
        }
    }

    fn end_segment(&mut self) {
        self.segment = None;
        self.named = false;
        self.last_keyword = Keyword::None;
    }

    fn separate(&mut self, joint: Joint) {
        self.end_segment();
        self.joint = joint;
        self.active = false;
    }
}

impl Lexer<'_> {
    /// Reads a list up to its end and steps over what ends it.
    pub(super) fn list(
        &mut self,
        out: &mut Output,
        end: End,
        scope: usize,
        substituted: bool,
    ) -> Result<(), Opaque> {
        let mut reader = ListReader {
            lexer: self,
            out,
            end,
            substituted,
            frame: Frame::new(scope, 0, false),
            outer: Vec::new(),
            pending: Vec::new(),
        };
        reader.frame.start = reader.lexer.offset();
        reader.run()
    }

    fn skip_blanks(&mut self) {
        loop {
            self.join_lines();
            match self.peek() {
                Some(' ' | '\t') => self.pos += 1,
                _ => return,
            }
        }
    }
}

pub(super) struct ListReader<'l, 'c, 'o> {
    pub(super) lexer: &'l mut Lexer<'c>,
    pub(super) out: &'o mut Output,
    pub(super) end: End,
    substituted: bool,
    pub(super) frame: Frame,
    /// The frames around the present one, outermost first.
    outer: Vec<Frame>,
    /// Here-documents whose bodies follow the next newline.
    pending: Vec<Pending>,
}

impl ListReader<'_, '_, '_> {
    fn run(&mut self) -> Result<(), Opaque> {
        loop {
            self.lexer.skip_blanks();
            let Some(next) = self.lexer.peek() else {
                return self.at_end_of_input();
            };
            match next {
                '\n' => {
                    self.lexer.pos += 1;
                    // `case WORD` may be followed by newlines before its `in`.
                    if self.frame.active && self.frame.last_keyword != Keyword::Case {
                        self.frame.separate(Joint::Sequence);
                    }
                    self.lexer.here_documents(self.out, &mut self.pending)?;
                }
                '#' => {
                    while self.lexer.peek().is_some_and(|ch| ch != '\n') {
                        self.lexer.pos += 1;
                    }
                }
                ';' => self.semicolon(),
                '&' => self.ampersand()?,
                '|' => self.bar(),
                '(' => self.open(),
                ')' => {
                    if self.close()? {
                        return Ok(());
                    }
                }
                '<' | '>' if self.lexer.peek_at(1) != Some('(') => self.redirect()?,
                _ => {
                    // The segment comes first, so that it stands before those in its substitutions.
                    let is_new = self.frame.segment.is_none();
                    let segment = self.segment(self.lexer.offset());
                    let word = self.lexer.word(self.out, self.frame.scope)?;
                    if self.push(segment, is_new, word)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn at_end_of_input(&mut self) -> Result<(), Opaque> {
        if let Some(pending) = self.pending.first() {
            // A shell only warns and takes the body as empty.
            let opaque = self.lexer.opaque(OpaqueReason::UnterminatedHereDocument, pending.start);
            self.out.unclosed.get_or_insert(opaque);
        }
        let reason = match self.end {
            End::Input if self.outer.is_empty() => return Ok(()),
            End::Input => OpaqueReason::UnterminatedParenthesis,
            End::Paren | End::Brace => OpaqueReason::UnterminatedSubstitution,
        };
        Err(self.lexer.opaque(reason, self.frame.start))
    }

    fn semicolon(&mut self) {
        self.lexer.pos += 1;
        // `;;`, `;&` and `;;&` end a branch of a `case`.
        let doubled = self.lexer.take(';');
        let falls_through = self.frame.cases > 0 && self.lexer.take('&');
        if doubled || falls_through {
            self.frame.pattern = self.frame.cases > 0;
        }
        self.frame.separate(Joint::Sequence);
    }

    fn ampersand(&mut self) -> Result<(), Opaque> {
        let start = self.lexer.offset();
        self.lexer.pos += 1;
        if self.lexer.take('&') {
            self.frame.separate(Joint::And);
        } else if self.lexer.take('>') {
            let operator = if self.lexer.take('>') { Redirect::AppendBoth } else { Redirect::WriteBoth };
            self.target(operator, start)?;
        } else {
            self.frame.separate(Joint::Background);
        }
        Ok(())
    }

    fn bar(&mut self) {
        self.lexer.pos += 1;
        if self.frame.pattern {
            return;
        }
        if self.lexer.take('|') {
            self.frame.separate(Joint::Or);
        } else {
            self.lexer.take('&');
            self.frame.separate(Joint::Pipe);
        }
    }

    fn open(&mut self) {
        let start = self.lexer.offset();
        self.lexer.pos += 1;
        if self.frame.pattern {
            return;
        }
        if self.frame.segment.is_some() {
            self.lexer.skip_blanks();
            if self.lexer.take(')') {
                self.define_function();
                return;
            }
        }
        self.frame.end_segment();
        self.frame.active = true;
        self.out.scopes.push(Scope { parent: self.frame.scope, entry: Entry::Subshell(self.frame.joint) });
        let arithmetic = self.frame.arithmetic || self.lexer.peek() == Some('(');
        let inner = Frame::new(self.out.scopes.len() - 1, start, arithmetic);
        self.outer.push(std::mem::replace(&mut self.frame, inner));
    }

    /// `name()`: the word before the parentheses names a function, not a command.
    fn define_function(&mut self) {
        self.out.defines_functions = true;
        let segment = self.frame.segment.and_then(|index| self.out.segments.get_mut(index));
        if let Some(word) = segment.and_then(|segment| segment.words.last_mut()) {
            word.position = Position::FunctionName;
        }
        self.frame.end_segment();
    }

    /// Steps over a `)`; true if it ends the list.
    fn close(&mut self) -> Result<bool, Opaque> {
        self.lexer.pos += 1;
        self.frame.end_segment();
        if self.frame.pattern {
            self.frame.pattern = false;
            return Ok(false);
        }
        if let Some(outer) = self.outer.pop() {
            self.frame = outer;
            return Ok(false);
        }
        if self.end != End::Paren {
            // A stray `)` is an error to the shell; what follows is read as a command of its own.
            self.frame.separate(Joint::Sequence);
            return Ok(false);
        }
        match self.pending.first() {
            // Some shells look for the body behind the substitution, others take it as empty.
            Some(pending) => Err(self.lexer.opaque(OpaqueReason::AmbiguousHereDocument, pending.start)),
            None => Ok(true),
        }
    }

    fn redirect(&mut self) -> Result<(), Opaque> {
        let start = self.lexer.offset();
        let reads = self.lexer.peek() == Some('<');
        self.lexer.pos += 1;
        let operator = if reads {
            if self.lexer.take('<') {
                if !self.lexer.take('<') {
                    return self.here_document(start);
                }
                Redirect::HereString
            } else if self.lexer.take('>') {
                Redirect::ReadWrite
            } else if self.lexer.take('&') {
                Redirect::DuplicateIn
            } else {
                Redirect::Read
            }
        } else if self.lexer.take('>') {
            Redirect::Append
        } else if self.lexer.take('&') {
            Redirect::DuplicateOut
        } else {
            self.lexer.take('|');
            Redirect::Write
        };
        self.target(operator, start)
    }

    fn target(&mut self, operator: Redirect, start: usize) -> Result<(), Opaque> {
        let segment = self.segment(start);
        self.lexer.skip_blanks();
        if !self.lexer.at_word() {
            return Ok(());
        }
        let word = self.lexer.word(self.out, self.frame.scope)?;
        self.add(segment, word, Position::Redirect(operator));
        Ok(())
    }

    fn here_document(&mut self, start: usize) -> Result<(), Opaque> {
        let strip_tabs = self.lexer.take('-');
        self.lexer.skip_blanks();
        if self.frame.arithmetic || !self.lexer.at_word() {
            return Ok(());
        }
        let segment = self.segment(start);
        let from = self.lexer.pos;
        let word = self.lexer.word(self.out, self.frame.scope)?;
        let quoted = !word
            .parts
            .iter()
            .all(|part| matches!(part.kind, PartKind::Bare | PartKind::Variable | PartKind::Expansion));
        // A delimiter is never expanded: `<<$x` ends at a line that says `$x`.
        let delimiter = if word.known {
            word.text
        } else {
            self.lexer
                .chars
                .get(from..self.lexer.pos)
                .unwrap_or_default()
                .iter()
                .map(|char| char.ch)
                .collect()
        };
        if let Some(segment) = self.out.segments.get_mut(segment) {
            segment.span.end = word.span.end;
        }
        self.pending.push(Pending { segment, delimiter, strip_tabs, quoted, start });
        Ok(())
    }

    /// The segment that is being read, started now if there is none.
    fn segment(&mut self, start: usize) -> usize {
        if let Some(index) = self.frame.segment {
            return index;
        }
        let index = self.out.segments.len();
        self.out.segments.push(Segment {
            words: Vec::new(),
            span: Span { start, end: start },
            joint: self.frame.joint,
            substituted: self.substituted,
            here_documents: Vec::new(),
            scope: self.frame.scope,
        });
        self.frame.segment = Some(index);
        self.frame.active = true;
        index
    }

    fn add(&mut self, segment: usize, word: RawWord, position: Position) {
        let Some(segment) = self.out.segments.get_mut(segment) else { return };
        segment.span.end = segment.span.end.max(word.span.end);
        segment.words.push(word.into_word(position));
    }

    /// Adds a word where it belongs; true if it is the `}` that ends the list.
    fn push(&mut self, segment: usize, is_new: bool, word: RawWord) -> Result<bool, Opaque> {
        let digits = !word.text.is_empty() && word.text.bytes().all(|byte| byte.is_ascii_digit());
        if digits && word.is_bare() && matches!(self.lexer.peek(), Some('<' | '>')) {
            // The number of a descriptor belongs to the redirection that follows.
            return Ok(false);
        }
        if self.frame.pattern {
            if is_new && word.is_bare() && word.text == "esac" {
                self.frame.pattern = false;
            } else {
                self.add(segment, word, Position::Pattern);
                return Ok(false);
            }
        }
        let position = self.position(&word);
        if position == Position::Keyword
            && word.text == "}"
            && self.end == End::Brace
            && self.outer.is_empty()
        {
            match self.frame.braces.checked_sub(1) {
                Some(braces) => self.frame.braces = braces,
                None => {
                    self.out.segments.truncate(if is_new { segment } else { segment + 1 });
                    return Ok(true);
                }
            }
        }
        let opens_array = word.text.ends_with('=') && self.lexer.peek() == Some('(') && word.is_bare();
        let begins_patterns = position == Position::Keyword && word.text == "in";
        self.add(segment, word, position);
        if opens_array {
            self.array(segment)?;
        }
        if begins_patterns {
            self.frame.cases += 1;
            self.frame.pattern = true;
            self.frame.separate(Joint::Sequence);
        }
        Ok(false)
    }

    /// `NAME=( … )`: the elements are words, not a subshell.
    fn array(&mut self, segment: usize) -> Result<(), Opaque> {
        let start = self.lexer.offset();
        self.lexer.pos += 1;
        loop {
            self.lexer.skip_blanks();
            match self.lexer.peek() {
                None => return Err(self.lexer.opaque(OpaqueReason::UnterminatedParenthesis, start)),
                Some(')') => {
                    self.lexer.pos += 1;
                    return Ok(());
                }
                Some('#') => {
                    while self.lexer.peek().is_some_and(|ch| ch != '\n') {
                        self.lexer.pos += 1;
                    }
                }
                Some(_) if self.lexer.at_word() => {
                    let word = self.lexer.word(self.out, self.frame.scope)?;
                    self.add(segment, word, Position::Assignment);
                }
                // A newline between elements, or an operator, which the shell refuses here.
                Some(_) => self.lexer.pos += 1,
            }
        }
    }
}

impl RawWord {
    fn into_word(self, position: Position) -> Word {
        let RawWord { text, known, glob, span, parts } = self;
        Word { text, known, glob, span, position, parts }
    }
}
