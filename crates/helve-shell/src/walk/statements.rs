//! Lists, pipelines and compound commands, with what each may leave behind.

use std::rc::Rc;

use crate::Span;
use crate::analysis::{Arg, ArgPart, Input, OpaqueReason, RunKind};
use crate::expand::{Mode, Text};
use crate::tree::{Command, CommandKind, Joint, Pipeline, Statement, Word};

use super::environment::{Function, MAX_VALUES, Outcome, Value, Variable};
use super::redirect::Redirected;
use super::spans::Origin;
use super::{Feed, Flow, MAX_LEVELS, MAX_TRAPS, Round, Walker, names};

/// A loop over known words is followed word by word up to so many.
const MAX_ROUNDS: usize = 16;

/// The body of any other loop is followed so many times at most.
const MAX_REPEATS: usize = 6;

impl Walker<'_> {
    /// Follows statements one after the other.
    pub(super) fn statements(&mut self, statements: &[Statement], feed: &Feed, captures: bool) -> Flow {
        let mut whole = Flow { text: captures.then(Text::default), number: true, ..Flow::default() };
        let mut goes_on = true;
        for statement in statements {
            let flow = self.statement(statement, feed, captures);
            whole.early |= !goes_on && !flow.prints_nothing();
            whole.add(&flow);
            whole.paths = flow.paths && statements.len() == 1;
            // What is not of interest, or not known, stays so.
            goes_on &= whole.text.is_none() || self.goes_on(statement);
        }
        whole
    }

    fn statement(&mut self, statement: &Statement, feed: &Feed, captures: bool) -> Flow {
        if !statement.background {
            return self.chain(statement, feed, captures);
        }
        self.background += 1;
        let flow = self.in_subshell(|walker| walker.chain(statement, feed, captures));
        self.background -= 1;
        flow
    }

    /// Pipelines joined by `&&` and `||`: which of them run shows only when they run.
    fn chain(&mut self, statement: &Statement, feed: &Feed, captures: bool) -> Flow {
        if let [(_, only)] = statement.pipelines.as_slice() {
            return self.pipeline(only, feed, captures);
        }
        let mut whole = Flow { text: captures.then(Text::default), number: true, ..Flow::default() };
        let mut mark = self.environment.mark();
        let mut before = Joint::First;
        let mut left_out = Vec::new();
        let mut failure_leaves = false;
        let mut tested = false;
        for (index, (joint, pipeline)) in statement.pipelines.iter().enumerate() {
            if index > 0 {
                if *joint == Joint::Or || before == Joint::Or {
                    self.environment.blur_since(mark);
                    mark = self.environment.mark();
                }
                let last = statement.pipelines.get(index - 1);
                // Behind `a || cd b` it may not have moved at all.
                let moved = *joint == Joint::And && before != Joint::Or;
                if moved && last.is_some_and(|(_, last)| self.only_moves(last)) {
                    let (narrowed, stayed) = self.environment.directory().after_success();
                    if !stayed.is_empty() {
                        // More than a few make the directory unknown anyway.
                        if left_out.len() < 16 {
                            left_out.extend(stayed);
                        }
                        self.environment.change_directory(narrowed);
                    }
                }
                if *joint == Joint::Or {
                    whole.forget_text();
                    failure_leaves |= index == 1
                        && self.leaves(pipeline)
                        && last.is_some_and(|(_, last)| self.only_moves(last));
                }
                self.conditional += 1;
            }
            let uses = self.uses;
            self.guarded += usize::from(tested);
            let excused = usize::from(index + 1 < statement.pipelines.len());
            self.excused += excused;
            let flow = self.pipeline(pipeline, feed, captures);
            self.excused -= excused;
            self.guarded -= usize::from(tested);
            tested |= self.uses > uses;
            if index == 0 {
                mark = self.environment.mark();
            } else {
                self.conditional -= 1;
            }
            if *joint == Joint::And && !flow.prints_nothing() {
                whole.forget_text();
            }
            whole.add(&flow);
            before = *joint;
        }
        self.held = self.place_if_all_held(statement);
        self.environment.blur_since(mark);
        if failure_leaves {
            let (narrowed, _) = self.environment.directory().after_success();
            if narrowed != *self.environment.directory() {
                self.environment.change_directory(narrowed);
            }
        } else if !left_out.is_empty() {
            let widened = self.environment.directory().or_stayed(&left_out);
            self.environment.change_directory(widened);
        }
        whole
    }

    fn pipeline(&mut self, pipeline: &Pipeline, feed: &Feed, captures: bool) -> Flow {
        if let [only] = pipeline.commands.as_slice() {
            self.excused += usize::from(pipeline.negated);
            let flow = self.command(only, feed, captures);
            self.excused -= usize::from(pipeline.negated);
            return flow;
        }
        self.piped += 1;
        let mut feed = feed.clone();
        let mut flow = Flow::default();
        let last = pipeline.commands.len().saturating_sub(1);
        for (index, command) in pipeline.commands.iter().enumerate() {
            let captures = captures || index < last;
            let mark = self.environment.mark();
            let rounds = std::mem::take(&mut self.rounds);
            let errors_end = self.errors_end;
            let early = flow.early;
            flow = self.command(command, &feed, captures);
            flow.early |= early;
            self.errors_end &= errors_end;
            self.rounds = rounds;
            let outcome = self.environment.take_back(mark);
            if index == last {
                // bash can be told to run the last command in the shell itself.
                if !outcome.is_empty() {
                    self.environment.join(outcome);
                }
                break;
            }
            let input = match &flow.text {
                Some(text) => Input::Text(text.clone().into_arg(self.place(command.span))),
                None => Input::Pipe(flow.run),
            };
            feed = Feed { input, flow: flow.clone() };
        }
        self.piped -= 1;
        flow
    }

    /// Follows one command.
    pub(super) fn command(&mut self, command: &Command, feed: &Feed, captures: bool) -> Flow {
        let span = self.place(command.span);
        if self.levels >= MAX_LEVELS {
            self.opaque_at(OpaqueReason::TooComplex, span);
            return Flow::default();
        }
        if !self.step(1) {
            return Flow::default();
        }
        self.levels += 1;
        let outer = std::mem::replace(&mut self.current, span);
        let open = self.open_processes.len();
        let flow = if let CommandKind::Simple(simple) = &command.kind {
            self.simple(simple, &command.redirects, feed, captures)
        } else if matches!(command.kind, CommandKind::Function { .. }) {
            self.define(command);
            Flow::default()
        } else if command.redirects.is_empty() {
            self.compound(command, feed, captures)
        } else {
            self.redirected_compound(command, feed, captures)
        };
        self.open_processes.truncate(open);
        self.current = outer;
        self.levels -= 1;
        flow
    }

    fn redirected_compound(&mut self, command: &Command, feed: &Feed, captures: bool) -> Flow {
        self.taint = false;
        self.wild = false;
        let redirected = self.redirects(&command.redirects, feed);
        let Redirected { feed, effects, output, appends, .. } = redirected;
        self.redirect_effects(effects, None);
        let captures = output.as_ref().map_or(captures, |paths| paths.len() == 1);
        let mut flow = self.compound(command, &feed, captures);
        if let Some(output) = output {
            if flow.download {
                self.downloaded_to(&output);
            }
            for path in &output {
                self.wrote(path, flow.text.as_ref(), appends);
            }
            flow = Flow { run: flow.run, ..Flow::default() };
        }
        flow
    }

    fn define(&mut self, command: &Command) {
        let CommandKind::Function { name, body } = &command.kind else { return };
        if names::is_well_known(name) {
            self.opaque(OpaqueReason::Redefinition);
        }
        if !self.step(1 + (body.span.end - body.span.start) / 64) {
            return;
        }
        let function =
            Function { body: (**body).clone(), origin: self.origin, span: self.place(command.span) };
        self.environment.define_function(name, Some(Rc::new(function)));
        if name == "command_not_found_handle" && self.calls.iter().all(|call| call.name != *name) {
            // It is called when a program is not there, as a trap is.
            let text = Arg::known(format!("{name} {}", super::inner::HOLE), self.current);
            if self.traps.len() < MAX_TRAPS {
                self.traps.push((text.clone(), self.origin));
            }
            let mark = self.environment.mark();
            self.shell_text(&text);
            self.environment.blur_since(mark);
        }
    }

    fn compound(&mut self, command: &Command, feed: &Feed, captures: bool) -> Flow {
        match &command.kind {
            CommandKind::Simple(_) | CommandKind::Function { .. } => Flow::default(),
            CommandKind::Subshell(statements) => {
                self.in_subshell(|walker| walker.statements(statements, feed, captures))
            }
            CommandKind::Group(statements) => self.statements(statements, feed, captures),
            CommandKind::If { branches, otherwise } => self.branches(branches, otherwise, feed),
            CommandKind::Loop { condition, body } => self.repeat(|walker| {
                let uses = walker.uses;
                let mut flow = walker.condition(condition, feed);
                let tested = usize::from(walker.uses > uses);
                walker.guarded += tested;
                let inside = walker.statements(body, feed, false);
                walker.guarded -= tested;
                flow.download |= inside.download;
                flow
            }),
            CommandKind::For { name, words, body } => {
                if self.may_select(command.span) {
                    // The line that was read.
                    let wild = !feed.flow.is_number();
                    self.assign("REPLY", Variable { wild, ..Variable::new(Value::Unknown) });
                }
                self.for_each(name, words.as_deref(), body, feed)
            }
            CommandKind::ArithmeticFor { header, body } => {
                self.arithmetic_statement(header);
                self.repeat(|walker| walker.statements(body, feed, false))
            }
            CommandKind::Case { subject, branches } => self.case(subject, branches, feed),
            CommandKind::Test(words) => {
                self.test(words);
                Flow::default()
            }
            CommandKind::Arithmetic(word) => {
                self.arithmetic_statement(word);
                Flow::default()
            }
            CommandKind::Coproc(inner) => {
                self.names_coproc(command.span, inner);
                self.background += 1;
                self.in_subshell(|walker| walker.command(inner, &Feed::inherited(), false));
                self.background -= 1;
                Flow::default()
            }
        }
    }

    /// `((…))`: the commands in it, and the variables that it sets.
    fn arithmetic_statement(&mut self, word: &Word) {
        self.number(word);
    }

    /// Whether a loop over words may be a `select`, which reads lines.
    fn may_select(&self, span: Span) -> bool {
        match self.origin {
            Origin::Written(_) => {
                self.source.get(self.place(span).range()).is_none_or(|text| text.starts_with('s'))
            }
            Origin::Whole(_) => self.source.contains("select"),
        }
    }

    /// `coproc NAME { …; }` sets an array of that name.
    fn names_coproc(&mut self, span: Span, inner: &Command) {
        if matches!(inner.kind, CommandKind::Simple(_)) {
            return;
        }
        let before = self.place(Span { start: span.start, end: inner.span.start });
        let written = match self.origin {
            Origin::Written(_) => self.source.get(before.range()),
            Origin::Whole(_) => None,
        };
        let Some(written) = written else {
            self.forget_variables();
            return;
        };
        let name = written.trim().strip_prefix("coproc").unwrap_or_default().trim();
        let name = if crate::expand::is_name(name) { name } else { "COPROC" };
        self.assign(name, Variable { array: true, ..Variable::new(Value::Unknown) });
    }

    fn branches(
        &mut self,
        branches: &[(Vec<Statement>, Vec<Statement>)],
        otherwise: &[Statement],
        feed: &Feed,
    ) -> Flow {
        self.conditional += 1;
        let mut outcomes = Vec::with_capacity(branches.len() + 1);
        let mut flow = Flow::default();
        let guarded = self.guarded;
        for (condition, body) in branches {
            let uses = self.uses;
            self.condition(condition, feed);
            self.guarded += usize::from(self.uses > uses);
            let mark = self.environment.mark();
            self.moves_where_held(condition);
            flow.download |= self.statements(body, feed, false).download;
            outcomes.push(self.environment.take_back(mark));
        }
        let mark = self.environment.mark();
        flow.download |= self.statements(otherwise, feed, false).download;
        outcomes.push(self.environment.take_back(mark));
        self.conditional -= 1;
        self.guarded = guarded;
        self.environment.join_all(outcomes);
        flow
    }

    /// Follows what is only tested: a failure in it ends no shell.
    fn condition(&mut self, condition: &[Statement], feed: &Feed) -> Flow {
        self.excused += 1;
        let flow = self.statements(condition, feed, false);
        self.excused -= 1;
        flow
    }

    fn case(&mut self, subject: &Word, branches: &[(Vec<Word>, Vec<Statement>)], feed: &Feed) -> Flow {
        let uses = self.uses;
        self.expand_text(subject);
        let tested = usize::from(self.uses > uses);
        self.guarded += tested;
        self.conditional += 1;
        let mut outcomes = Vec::with_capacity(branches.len());
        let mut flow = Flow::default();
        let mut certain = false;
        for (patterns, body) in branches {
            for pattern in patterns {
                let pattern = self.expand_one(pattern, Mode::Pattern);
                certain |= pattern.parts.as_slice() == [ArgPart::Glob("*".to_owned())];
            }
            let mark = self.environment.mark();
            flow.download |= self.statements(body, feed, false).download;
            outcomes.push(self.environment.take_back(mark));
        }
        self.conditional -= 1;
        self.guarded -= tested;
        if !certain {
            outcomes.push(Outcome::default());
        }
        self.environment.join_all(outcomes);
        flow
    }

    /// Follows the body of a loop until nothing new comes out of it.
    pub(super) fn repeat(&mut self, mut body: impl FnMut(&mut Self) -> Flow) -> Flow {
        self.conditional += 1;
        let mut flow = Flow::default();
        for round in 0..MAX_REPEATS {
            let mark = self.environment.mark();
            let turned = self.turned;
            self.rounds.push(Round { mark, exits: Vec::new() });
            flow = body(self);
            let exits = self.rounds.pop().map(|round| round.exits).unwrap_or_default();
            let outcome = self.environment.take_back(mark);
            let news = self.environment.is_news(&outcome)
                || exits.iter().any(|exit| self.environment.is_news(exit))
                || self.turned != turned;
            let unsettled = self.environment.is_unsettled(&outcome)
                || exits.iter().any(|exit| self.environment.is_unsettled(exit));
            if round > 0 && news {
                self.environment.widen(&outcome);
            }
            self.environment.join(outcome);
            exits.into_iter().for_each(|exit| self.environment.join(exit));
            // Directories and functions are not waited for: they may become more with every round.
            if !news || (round > 1 && !unsettled) {
                break;
            }
            if round + 1 == MAX_REPEATS {
                self.opaque(OpaqueReason::TooComplex);
            }
            self.repeated = true;
        }
        self.conditional -= 1;
        flow
    }

    fn for_each(&mut self, name: &str, words: Option<&[Word]>, body: &[Statement], feed: &Feed) -> Flow {
        let mut fields: Vec<Arg> = Vec::new();
        self.taint = false;
        self.wild = false;
        match words {
            Some(words) => words.iter().for_each(|word| self.expand_fields(word, &mut fields)),
            None => match &self.environment.parameters().rest {
                Some(texts) => fields.extend(texts.iter().map(|text| text.clone().into_arg(self.current))),
                None => fields.push(Arg::unknown(self.current)),
            },
        }
        let download = self.taint;
        // Nobody knows what the names of files are.
        let wild = self.wild || fields.iter().any(holds_pattern);
        let exact = fields.len() <= MAX_ROUNDS
            && fields.iter().all(|field| !field.splits && Text::of(field).whole().is_some());
        if !exact {
            return self.for_any(name, &fields, download, wild, body, feed);
        }
        let mut flow = Flow::default();
        self.conditional += 1;
        self.repeated |= fields.len() > 1;
        for (index, field) in fields.iter().enumerate() {
            let steps = self.steps;
            let mut variable = Variable::new(Value::Text(Text::of(field)));
            variable.download = download;
            self.wild = false;
            self.assign(name, variable);
            self.rounds.push(Round { mark: self.environment.mark(), exits: Vec::new() });
            flow.download |= self.statements(body, feed, false).download;
            if let Some(round) = self.rounds.pop().filter(|round| !round.exits.is_empty()) {
                let mut outcomes = round.exits;
                outcomes.push(self.environment.take_back(round.mark));
                self.environment.join_all(outcomes);
            }
            // Loops inside loops would use up all steps; the rest is then followed for any of the words at once.
            let rest = fields.get(index + 1..).unwrap_or_default();
            let used = steps.saturating_sub(self.steps);
            if used.saturating_mul(rest.len()) > self.steps / 4 {
                flow.download |= self.for_any(name, rest, download, wild, body, feed).download;
                break;
            }
        }
        self.conditional -= 1;
        flow
    }

    /// Follows the body of a loop with a variable that may be any of the words.
    fn for_any(
        &mut self,
        name: &str,
        words: &[Arg],
        download: bool,
        wild: bool,
        body: &[Statement],
        feed: &Feed,
    ) -> Flow {
        // A pattern stays one: what the loop does happens to all that match.
        let values = match !words.iter().any(Arg::splits_unknown) && words.len() <= MAX_VALUES {
            true => words.iter().map(|word| Value::Text(Text::of(word))).collect(),
            false => vec![Value::Unknown],
        };
        self.repeat(|walker| {
            let mut variable = Variable::new(Value::Unknown);
            variable.values.clone_from(&values);
            variable.download = download;
            variable.wild = wild;
            walker.wild = false;
            walker.assign(name, variable);
            walker.statements(body, feed, false)
        })
    }

    /// What a call of a function may mean: whether any of the functions of that name was followed.
    pub(super) fn is_function(&self, name: &str) -> bool {
        self.environment.function(name).is_some_and(|meanings| meanings.iter().any(Option::is_some))
    }
}

/// Whether file names stand in the place of a part of an argument.
pub(super) fn holds_pattern(arg: &Arg) -> bool {
    arg.parts.iter().any(|part| matches!(part, ArgPart::Glob(_)))
}

/// What kind of run a name is, for a name that is no function.
pub(super) fn kind_of(name: &str, dialect: crate::tree::Dialect) -> RunKind {
    if names::is_builtin(name, dialect) { RunKind::Builtin } else { RunKind::Program }
}
