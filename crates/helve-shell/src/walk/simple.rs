//! One simple command: its words expanded, then an alias, a builtin, a function or a program.

use crate::Span;
use crate::analysis::{Arg, ArgPart, EffectKind, Input, More, OpaqueReason, RunKind, Target};
use crate::tree::{PieceKind, Redirect, Simple, Word};

use super::environment::Parameters;
use super::redirect::Redirected;
use super::runs::Start;
use super::statements::{holds_pattern, kind_of};
use super::{Call, Choices, Feed, Flow, MAX_INNER, Walker, modes, names};
use crate::expand::Text;

/// A command with alternatives is followed so many times.
const MAX_TRIES: usize = 8;

/// A function that calls itself is followed in itself so many times.
const MAX_ACTIVE: usize = 2;

impl Walker<'_> {
    /// Follows a simple command, once for each value that its variables may have.
    pub(super) fn simple(
        &mut self,
        simple: &Simple,
        redirects: &[Redirect],
        feed: &Feed,
        captures: bool,
    ) -> Flow {
        let outer = std::mem::replace(&mut self.choices, Choices { open: true, ..Choices::default() });
        let named = |word: &Word| literal_name(word).is_some_and(names::is_downloader);
        let outgoing = feed.flow.download || simple.words.iter().any(named);
        let outer_outgoing = std::mem::replace(&mut self.outgoing, outgoing);
        let mark = self.environment.mark();
        let mut flow = self.simple_once(simple, redirects, feed, captures);
        if !self.choices.taken.is_empty() {
            self.repeated = true;
            let mut outcomes = vec![self.environment.take_back(mark)];
            let mut tries = 1;
            while self.next_choice() && self.step(4) {
                tries += 1;
                if tries > MAX_TRIES {
                    self.choices = Choices::default();
                }
                let other = self.simple_once(simple, redirects, feed, captures);
                outcomes.push(self.environment.take_back(mark));
                flow.or(&other);
                if tries > MAX_TRIES {
                    break;
                }
            }
            self.environment.join_all(outcomes);
        }
        self.choices = outer;
        self.outgoing = outer_outgoing;
        flow
    }

    /// Moves on to the next combination of alternatives; false if all were tried.
    fn next_choice(&mut self) -> bool {
        self.choices.at = 0;
        while let Some((taken, count)) = self.choices.taken.pop() {
            if taken + 1 < count {
                self.choices.taken.push((taken + 1, count));
                return true;
            }
        }
        false
    }

    fn simple_once(&mut self, simple: &Simple, redirects: &[Redirect], feed: &Feed, captures: bool) -> Flow {
        self.taint = false;
        self.wild = false;
        let mut argv: Vec<Arg> = Vec::with_capacity(simple.words.len());
        let mut tainted: Vec<Span> = Vec::new();
        let declares = simple.words.first().and_then(literal_name).is_some_and(names::is_declaration);
        let mut loose: Vec<usize> = Vec::new();
        for word in &simple.words {
            let before = std::mem::take(&mut self.taint);
            let wild = std::mem::take(&mut self.wild);
            let first = argv.len();
            if declares && is_assignment(word) {
                let arg = self.expand_assignment(word);
                argv.push(arg);
            } else {
                self.expand_fields(word, &mut argv);
            }
            if self.taint {
                tainted.push(self.place(word.span));
            }
            if self.wild && modes::splits(word) {
                loose.push(first);
            }
            self.taint |= before;
            self.wild |= wild;
        }
        let size: usize =
            argv.iter().map(|arg| 1 + arg.parts.iter().map(part_size).sum::<usize>() / 16).sum();
        if !self.step(size) {
            return Flow::default();
        }
        if argv.is_empty() {
            for assignment in &simple.assignments {
                self.assignment(assignment);
            }
            let inherited = Feed::inherited();
            let redirected = self.redirects(redirects, &inherited);
            self.redirect_effects(redirected.effects, None);
            // `$(< file)` is what the file holds at that time.
            return match redirected.feed.input {
                Input::Inherited => Flow { text: captures.then(Text::default), ..Flow::default() },
                Input::Text(_) | Input::File(_) | Input::Pipe(_) => {
                    Flow { text: None, ..redirected.feed.flow }
                }
            };
        }
        let environment = self.prefix_assignments(simple, declares, &argv);
        let Redirected { feed, effects, output, unknown_output, appends, departures } =
            self.redirects(redirects, feed);
        self.self_start(simple);
        self.loose_words(&argv, &loose);
        let (taint, wild) = (self.taint, self.wild || argv.iter().any(holds_pattern));
        self.tainted = tainted;
        let alias = simple
            .words
            .first()
            .and_then(literal_name)
            .and_then(|name| self.environment.alias(name))
            .cloned();
        let start = Start {
            argv,
            environment,
            lost: 0,
            feed,
            more: More::Nothing,
            effects,
            departures,
            taint,
            wild,
            captures: output.as_ref().map_or(captures, |paths| paths.len() == 1),
            shell: true,
            functions: true,
        };
        let kept = modes::keeps_assignments(&start.argv).then(|| start.environment.clone());
        let mut flow = match alias {
            Some(meanings) => self.aliased(start, meanings),
            None => self.start(start),
        };
        self.keep_assignments(kept.unwrap_or_default(), wild);
        if let Some(output) = output {
            if flow.download {
                self.downloaded_to(&output);
                unknown_output.into_iter().for_each(|word| self.downloaded_to_unknown(word));
            }
            for path in &output {
                self.wrote(path, flow.text.as_ref(), appends);
            }
            flow = Flow { text: captures.then(Text::default), run: flow.run, ..Flow::default() };
        }
        flow
    }

    /// A name that an alias gives another text. Whether it applies depends on the shell's options, so both are followed.
    fn aliased(&mut self, start: Start, meanings: Vec<Option<Text>>) -> Flow {
        self.opaque(OpaqueReason::Redefinition);
        if self.inner >= MAX_INNER {
            self.opaque(OpaqueReason::TooComplex);
            return self.start(start);
        }
        self.inner += 1;
        for text in meanings.into_iter().flatten() {
            let Some(text) = text.whole() else {
                self.opaque(OpaqueReason::UnknownText);
                continue;
            };
            let mut written = text.to_owned();
            for arg in start.argv.iter().skip(1) {
                written.push(' ');
                match arg.text() {
                    Some(text) => written.push_str(&crate::quote(text)),
                    None => written.push_str(super::inner::HOLE),
                }
            }
            let size = written.len();
            let script = crate::parse(&written, self.dialect);
            let origin = std::mem::replace(&mut self.origin, super::spans::Origin::Whole(self.current));
            if self.step(4 + size / 2) {
                self.script(&script, &start.feed, false);
            }
            self.origin = origin;
        }
        self.inner -= 1;
        self.start(start)
    }

    /// Starts what an argv names, in the shell.
    pub(super) fn start(&mut self, start: Start) -> Flow {
        let Some(name) = start.argv.first().and_then(Arg::text) else {
            return self.program(start, RunKind::Program);
        };
        if name.is_empty() {
            self.redirect_effects(start.effects, None);
            return Flow::default();
        }
        if start.functions && self.is_function(name) {
            let name = name.to_owned();
            return self.call(&name, start);
        }
        if start.shell && !name.contains('/') && kind_of(name, self.dialect) == RunKind::Builtin {
            let name = name.to_owned();
            self.changes_modes(&name, &start.argv[1..]);
            return self.builtin(&name, start);
        }
        self.program(start, RunKind::Program)
    }

    /// Calls a function of the script.
    fn call(&mut self, name: &str, start: Start) -> Flow {
        let meanings = self.environment.function(name).cloned().unwrap_or_default();
        // Whether the function is there at that time is not certain.
        let missing = meanings.iter().any(Option::is_none);
        let mut printed =
            missing.then(|| self.start(Start { functions: false, effects: Vec::new(), ..start.clone() }));
        let run = self.list(&start, RunKind::Function, Some(name.to_owned()));
        self.redirect_effects(start.effects.clone(), run);
        let rest = parameters(&start.argv[1..]);
        let spans: Vec<Span> = meanings.iter().flatten().map(|function| function.span).collect();
        let is_same = |call: &Call| call.name == name && spans.contains(&call.span);
        let active = self.calls.iter().filter(|call| is_same(call)).count();
        // A call with other arguments behind a test ends some day.
        let tested =
            self.calls.iter().any(|call| is_same(call) && (call.ends || self.guarded > call.guarded));
        let other = start.argv.len() > 1
            && (self.environment.parameters().rest != rest
                || start.argv[1..].iter().any(|arg| arg.text().is_none()));
        if let Some(call) = self.calls.iter_mut().find(|call| is_same(call)).filter(|_| !(tested && other)) {
            let piped = self.piped > call.piped;
            if piped && !call.piped_calls.contains(&self.current) {
                call.piped_calls.push(self.current);
            }
            let certain = self.conditional == call.conditional || call.piped_calls.len() > 1;
            let span = call.span;
            if self.background > call.background || (piped && certain) {
                self.effect(EffectKind::ForkBomb, Target::Machine, span, run);
            }
        }
        // A function that calls itself is followed again where it gets other arguments, and then once for all others.
        let tame = rest.iter().flatten().all(Text::is_tame);
        let (rest, wild) = if active > 1 { (None, start.wild || !tame) } else { (rest, start.wild) };
        if active > MAX_ACTIVE || active > 0 && self.environment.parameters().rest == rest {
            return Flow { run, ..Flow::default() };
        }
        if self.inner >= MAX_INNER {
            self.opaque(OpaqueReason::TooComplex);
            return Flow { run, ..Flow::default() };
        }
        if !self.step(4) {
            return Flow { run, ..Flow::default() };
        }
        for function in meanings.into_iter().flatten() {
            let before = self.environment.parameters().clone();
            self.environment.set_parameters(Parameters {
                zero: before.zero.clone(),
                rest: rest.clone(),
                wild,
            });
            for (name, value) in &start.environment {
                let variable = super::Variable::new(super::Value::Text(Text::of(value)));
                self.assign_at(name, variable, value.span);
            }
            let origin = std::mem::replace(&mut self.origin, function.origin);
            let rounds = std::mem::take(&mut self.rounds);
            self.calls.push(Call {
                name: name.to_owned(),
                background: self.background,
                piped: self.piped,
                conditional: self.conditional,
                guarded: self.guarded,
                ends: false,
                piped_calls: Vec::new(),
                span: function.span,
                locals: Vec::new(),
                mark: self.environment.mark(),
                returns: Vec::new(),
            });
            self.inner += 1;
            let body = self.command(&function.body, &start.feed, start.captures);
            self.inner -= 1;
            if let Some(call) = self.calls.pop() {
                if !call.returns.is_empty() {
                    let mut outcomes = call.returns;
                    outcomes.push(self.environment.take_back(call.mark));
                    self.environment.join_all(outcomes);
                }
                for (name, variable) in call.locals.into_iter().rev() {
                    self.environment.restore(&name, variable);
                }
            }
            self.rounds = rounds;
            self.origin = origin;
            self.environment.set_parameters((*before).clone());
            match &mut printed {
                Some(printed) => printed.or(&body),
                None => printed = Some(body),
            }
            self.repeated = true;
        }
        let printed = printed.unwrap_or_default();
        Flow {
            text: printed.text,
            early: printed.early,
            number: printed.number,
            download: printed.download || start.taint,
            run,
            ..Flow::default()
        }
    }

    /// A shell that starts its own script again, beside itself.
    fn self_start(&mut self, simple: &Simple) {
        if self.background + self.piped == 0 {
            return;
        }
        let itself = |word: &Word| {
            let inner = match word.pieces.as_slice() {
                [crate::tree::Piece { kind: PieceKind::Double(inner), .. }] => inner.as_slice(),
                [crate::tree::Piece { kind: PieceKind::Text(directory), .. }, rest @ ..]
                    if directory == "./" =>
                {
                    rest
                }
                pieces => pieces,
            };
            matches!(inner, [crate::tree::Piece { kind: PieceKind::Parameter(parameter), .. }]
                if matches!(parameter.name.as_str(), "0" | "BASH_SOURCE")
                    && parameter.operation == crate::tree::Operation::Value)
        };
        let first = simple.words.first();
        // The same in the batch language of Windows.
        let again = first.is_some_and(|word| itself(word) || literal_name(word) == Some("%0"))
            || (first.and_then(literal_name).is_some_and(names::is_shell)
                && simple.words.get(1).is_some_and(itself));
        if again && simple.words.len() <= 2 {
            self.effect(EffectKind::ForkBomb, Target::Machine, self.current, None);
        }
    }
}

/// The text of a word that is written without quotes and expansions.
pub(super) fn literal_name(word: &Word) -> Option<&str> {
    match word.pieces.as_slice() {
        [crate::tree::Piece { kind: PieceKind::Text(text), .. }] => Some(text),
        _ => None,
    }
}

fn part_size(part: &ArgPart) -> usize {
    match part {
        ArgPart::Known(text) | ArgPart::Glob(text) => text.len(),
        ArgPart::Unknown => 1,
    }
}

/// Whether a word starts like an assignment.
fn is_assignment(word: &Word) -> bool {
    match word.pieces.first() {
        Some(crate::tree::Piece { kind: PieceKind::Text(text), .. }) => {
            text.find('=').is_some_and(|at| crate::expand::is_name(text[..at].trim_end_matches('+')))
        }
        _ => false,
    }
}

/// The positional parameters that arguments become; none if nobody knows how many. A pattern of one directory stands for
/// the names that it matches, one of trees does not.
pub(super) fn parameters(args: &[Arg]) -> Option<Vec<Text>> {
    let is_of_trees = |part: &ArgPart| matches!(part, ArgPart::Glob(pattern) if pattern.contains("**"));
    let many = |arg: &Arg| arg.splits_unknown() || arg.splits && arg.parts.iter().any(is_of_trees);
    args.iter().map(|arg| (!many(arg)).then(|| Text::of(arg))).collect()
}

/// The name of a program without its directory, as far as it is certain.
pub(super) fn base_name(arg: &Arg) -> Option<String> {
    if let Some(text) = arg.text() {
        let base = text.rsplit('/').next().unwrap_or(text);
        return (!base.is_empty()).then(|| base.to_owned());
    }
    match arg.parts.last() {
        Some(ArgPart::Known(text)) if !arg.splits || text.contains('/') => {
            text.rsplit_once('/').map(|(_, base)| base.to_owned()).filter(|base| !base.is_empty())
        }
        _ => None,
    }
}
