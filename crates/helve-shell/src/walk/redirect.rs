//! Redirections: files that are opened, and the text that a command is fed with. Process substitutions, which are files
//! with numbers.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::Span;
use crate::analysis::{Arg, Departure, DepartureKind, EffectKind, Input, OpaqueReason, Target};
use crate::expand::Text;
use crate::tree::{Descriptor, PieceKind, Redirect, RedirectOperator, RedirectTarget, Script, Word};

use super::places;
use super::{Feed, Flow, Walker};

/// The descriptors that process substitutions get here; the shell uses these as well, from the last one down.
pub(super) const PROCESSES: RangeInclusive<u32> = 10..=63;

/// An effect whose run is not listed yet.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) kind: EffectKind,
    pub(super) target: Target,
    pub(super) span: Span,
}

/// What redirections come to.
pub(super) struct Redirected {
    pub(super) feed: Feed,
    pub(super) effects: Vec<Pending>,
    /// Set if standard output leads elsewhere: to these files.
    pub(super) output: Option<Vec<PathBuf>>,
    /// The word that names the file where its path is not known.
    pub(super) unknown_output: Option<Span>,
    /// Whether it is added to what is there.
    pub(super) appends: bool,
    pub(super) departures: Vec<Departure>,
}

impl Walker<'_> {
    /// Follows redirections in their order.
    pub(super) fn redirects(&mut self, redirects: &[Redirect], feed: &Feed) -> Redirected {
        let mut made = Redirected {
            feed: feed.clone(),
            effects: Vec::new(),
            output: None,
            unknown_output: None,
            appends: false,
            departures: Vec::new(),
        };
        let open = self.open_processes.len();
        for redirect in redirects {
            if self.step(1) {
                self.redirect(redirect, &mut made);
            }
            self.open_processes.truncate(open);
        }
        made
    }

    fn redirect(&mut self, redirect: &Redirect, made: &mut Redirected) {
        use RedirectOperator as Operator;
        let descriptor = match &redirect.descriptor {
            Some(Descriptor::Number(number)) => {
                self.takes_number(*number);
                Some(*number)
            }
            Some(Descriptor::Name(name)) => {
                self.subscripted_name(name);
                self.assign(name, super::Variable::new(super::Value::Unknown));
                // The shell takes any number that is free.
                let open = &self.open_processes;
                self.processes.retain(|number, _| open.contains(number));
                self.outlets.retain(|number| open.contains(number));
                Some(u32::MAX)
            }
            None => None,
        };
        let word = match &redirect.target {
            RedirectTarget::HereDocument { body, .. } => {
                let text = self.expand_quoted(body);
                let span = self.place(body.span);
                self.feed_text(text, span, descriptor, made);
                return;
            }
            RedirectTarget::Word(word) => word,
        };
        let span = self.place(word.span);
        if redirect.operator == Operator::HereString {
            let mut text = self.expand_text(word);
            text.push("\n");
            self.feed_text(text, span, descriptor, made);
            return;
        }
        let mut fields = Vec::new();
        self.expand_fields(word, &mut fields);
        for arg in &fields {
            let duplicates = matches!(redirect.operator, Operator::DuplicateIn | Operator::DuplicateOut);
            if !duplicates || !self.duplicate(redirect.operator, descriptor, word, arg, made) {
                self.redirect_to(redirect.operator, descriptor, arg, made);
            }
        }
    }

    /// A redirection opens a file under a number. Which numbers the process substitutions of the same command have is not
    /// certain, so that it may take the place of any of them.
    fn takes_number(&mut self, number: u32) {
        if PROCESSES.contains(&number) && !self.open_processes.is_empty() {
            self.opaque(OpaqueReason::UnknownText);
        }
        if !self.open_processes.contains(&number) {
            self.processes.remove(&number);
            self.outlets.remove(&number);
        }
    }

    /// `>&word` and `<&word` where the word is a number, `-`, or can be nothing else; says whether it is. Any other word
    /// behind `>&` and `1>&` is a file, also one that shows only when it runs.
    fn duplicate(
        &mut self,
        operator: RedirectOperator,
        descriptor: Option<u32>,
        word: &Word,
        arg: &Arg,
        made: &mut Redirected,
    ) -> bool {
        let out = operator == RedirectOperator::DuplicateOut;
        let from = descriptor.unwrap_or(u32::from(out));
        let number = arg.text().and_then(|text| duplicated(word, text));
        if number.is_none() && (arg.text().is_some() || descriptor.is_none() || (out && from == 1)) {
            return false;
        }
        if from == 0 && !matches!(number, Some("" | "0")) {
            // Of what was opened under the other number, processes alone are followed.
            let opened = number.and_then(|number| self.processes.get(&number.parse().ok()?).cloned());
            let flow = Flow { download: self.connected, ..Flow::default() };
            made.feed = opened.map_or(Feed { input: Input::Pipe(None), flow }, |flow| fed_by(flow, arg.span));
        }
        if out && from == 1 && number != Some("1") {
            made.output = Some(Vec::new());
        }
        self.turned |= matches!(from, 1 | 2) && !matches!(number, Some("" | "1" | "2"));
        true
    }

    fn feed_text(&mut self, text: Text, span: Span, descriptor: Option<u32>, made: &mut Redirected) {
        if matches!(descriptor, None | Some(0)) {
            let download = std::mem::take(&mut self.taint);
            let arg = text.clone().into_arg(span);
            made.feed = Feed {
                input: Input::Text(arg),
                flow: Flow { text: Some(text), download, ..Flow::default() },
            };
        } else if let Some(number) = descriptor {
            let before = self.processes.get(&number).is_some_and(|flow| flow.download);
            let flow = Flow { text: Some(text), download: self.taint || before, ..Flow::default() };
            self.processes.insert(number, flow);
        }
    }

    fn redirect_to(
        &mut self,
        operator: RedirectOperator,
        descriptor: Option<u32>,
        arg: &Arg,
        made: &mut Redirected,
    ) {
        use RedirectOperator as Operator;
        let reads = matches!(operator, Operator::Read | Operator::DuplicateIn | Operator::ReadWrite);
        if let Some(host) = arg.text().and_then(places::network) {
            let target = Target::Host(host);
            made.effects.push(Pending { kind: EffectKind::Connect, target, span: arg.span });
            made.departures.push(Departure { kind: DepartureKind::Network, span: arg.span });
            self.connected = true;
            if reads && matches!(descriptor, None | Some(0)) {
                let flow = Flow { download: true, ..Flow::default() };
                made.feed = Feed { input: Input::File(arg.clone()), flow };
            }
            return;
        }
        if reads {
            self.redirect_in(descriptor, arg, made);
            if operator != Operator::ReadWrite {
                return;
            }
        }
        let standard = match operator {
            Operator::WriteBoth | Operator::AppendBoth => true,
            _ => matches!(descriptor, None | Some(1)),
        };
        let stream = arg.text().is_some_and(places::is_standard_stream);
        if stream && arg.text().is_some_and(|path| self.is_outlet(path)) {
            return;
        }
        // What is opened under the number is opened anew, for writing.
        let targets = if stream { vec![Target::Unknown] } else { self.targets(arg, 0, true) };
        if standard && operator != Operator::ReadWrite {
            let paths = targets.iter().filter_map(|target| match target {
                Target::Path { path, .. } => Some(path.clone()),
                _ => None,
            });
            made.output = Some(paths.collect());
            made.unknown_output = targets.contains(&Target::Unknown).then_some(arg.span);
            made.appends = matches!(operator, Operator::Append | Operator::AppendBoth);
        }
        if arg.text().is_some_and(places::is_harmless_device) {
            return;
        }
        made.departures.push(Departure { kind: DepartureKind::Output, span: arg.span });
        for target in targets {
            made.effects.push(Pending { kind: EffectKind::Write, target, span: arg.span });
        }
    }

    fn redirect_in(&mut self, descriptor: Option<u32>, arg: &Arg, made: &mut Redirected) {
        let standard = matches!(descriptor, None | Some(0));
        self.turned |=
            matches!(descriptor, Some(1 | 2)) && !arg.text().is_some_and(places::is_harmless_device);
        if let Some(flow) = self.process_of(arg) {
            match descriptor {
                Some(number) if !standard => drop(self.processes.insert(number, flow)),
                _ => made.feed = fed_by(flow, arg.span),
            }
            return;
        }
        if arg.text().is_some_and(places::is_standard_stream) {
            return;
        }
        let targets = self.targets(arg, 0, false);
        let download = targets.iter().any(|target| self.is_downloaded(target, arg.span));
        for target in targets {
            made.effects.push(Pending { kind: EffectKind::Read, target, span: arg.span });
        }
        if standard {
            made.feed = Feed { input: Input::File(arg.clone()), flow: Flow { download, ..Flow::default() } };
        }
    }

    /// Adds the effects of redirections, now that their run is listed.
    pub(super) fn redirect_effects(&mut self, effects: Vec<Pending>, run: Option<usize>) {
        for effect in effects {
            self.placed_effect(effect.kind, effect.target, effect.span, run);
        }
    }

    /// Whether writing to a stream only prints, or feeds a process of this command. Opened by its name, any other
    /// stream is the file behind it: `<file >/dev/stdin` writes the file.
    pub(super) fn is_outlet(&self, path: &str) -> bool {
        match places::stream(path) {
            Some(1 | 2) => !self.turned,
            Some(number) => self.outlets.contains(&number) || self.processes.contains_key(&number),
            None => true,
        }
    }

    /// Follows a process substitution and gives the name of its file.
    pub(crate) fn process(&mut self, script: &Script, reads: bool) -> String {
        let flow = Flow { download: self.outgoing, ..Flow::default() };
        let feed = if reads { Feed::inherited() } else { Feed { input: Input::Pipe(None), flow } };
        self.background += 1;
        let flow = self.in_subshell(|walker| walker.script(script, &feed, reads));
        self.background -= 1;
        let number = self.next_process;
        self.next_process = if number > *PROCESSES.start() { number - 1 } else { *PROCESSES.end() };
        self.taint |= flow.download;
        if reads {
            self.outlets.remove(&number);
            self.processes.insert(number, flow);
        } else {
            self.outlets.insert(number);
            self.processes.remove(&number);
        }
        self.open_processes.push(number);
        format!("/dev/fd/{number}")
    }

    /// What a process substitution gives, if the argument is the name of one.
    pub(super) fn process_of(&self, arg: &Arg) -> Option<Flow> {
        let number = arg.text()?.strip_prefix("/dev/fd/")?.parse().ok()?;
        self.processes.get(&number).cloned()
    }
}

/// What a process gives to the standard input of another.
fn fed_by(flow: Flow, span: Span) -> Feed {
    let input = match &flow.text {
        Some(text) => Input::Text(text.clone().into_arg(span)),
        None => Input::Pipe(flow.run),
    };
    Feed { input, flow }
}

/// The number behind `>&` or `<&`, nothing for `-`: all digits, or digits and a `-` that stands in the word itself.
fn duplicated<'t>(word: &Word, text: &'t str) -> Option<&'t str> {
    let moves = || match word.pieces.last().map(|piece| &piece.kind) {
        Some(PieceKind::Text(last)) => last.ends_with('-'),
        _ => false,
    };
    let digits = match text.strip_suffix('-') {
        Some(digits) if digits.is_empty() || moves() => digits,
        _ => text,
    };
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)
}
