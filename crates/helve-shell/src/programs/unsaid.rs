//! What the arguments may be of which no table says what they are: each that is spelled like a path may name a file that
//! the program reads, whatever the program is.
//!
//! A table that knows every argument of its program says so ([`Meaning::whole`]); of such a program only options that the
//! table does not have are left, with what may be their values. Of any other program all is left that its meaning does not
//! speak of: neither a path nor a host of a deed or of what it may read, nor part of a command that it starts.

use std::collections::HashSet;

use super::meaning::is_stream;
use super::{Inner, Invocation, Meaning, On};
use crate::Span;
use crate::analysis::{Arg, ArgPart, DepartureKind, EffectKind};
use crate::spelling;

/// Options whose value is text, however it looks, of programs that have no table for all of their arguments: one with
/// `=` behind it has its value there or in the next argument.
const TEXTS: &[(&[&str], &[&str])] = &[
    (&["openssl"], &["-subj=", "-set_subject=", "-set_issuer="]),
    (&["perl"], &["-F"]),
    (&["docker", "podman", "nerdctl"], &["--build-arg=", "--label="]),
    (&["kubectl", "oc"], &["--raw=", "--from-literal="]),
    (&["man"], &["-k="]),
    (&["cc", "gcc", "g++", "c++", "clang", "clang++"], &["-D", "-D="]),
];

/// The most texts inside others whose stretches are looked at.
const MAX_TEXTS: usize = 16;

/// Which arguments, counted behind the name, a program takes for text, however they look. Asked of programs that no table
/// describes; empty for most.
pub fn text_arguments(program: &str, args: &[Arg]) -> HashSet<usize> {
    let options = TEXTS.iter().filter(|(programs, _)| programs.contains(&program));
    let mut found = HashSet::new();
    for option in options.flat_map(|(_, options)| *options) {
        for (at, arg) in args.iter().enumerate() {
            if arg.prefix().starts_with(option) {
                found.insert(at);
            } else if option.strip_suffix('=').is_some_and(|name| arg.text() == Some(name)) {
                found.insert(at + 1);
            }
        }
    }
    found
}

/// The paths that the arguments may name besides those that the meaning speaks of.
pub(crate) fn unsaid<'a>(
    invocation: &Invocation<'a>,
    meaning: Option<&'a Meaning>,
) -> impl Iterator<Item = On> + use<'a> {
    let args = invocation.args;
    let said = Said::of(invocation, meaning);
    let spelled = move |(at, arg): (usize, &'a Arg)| {
        let text = whole_text(arg);
        let paths = text.into_iter().flat_map(spelling::named).filter(|path| !is_stream(path));
        let pattern = if text.is_none() { pattern(arg, at) } else { None };
        paths.map(move |path| On::Path(path.to_owned(), Some(at))).chain(pattern)
    };
    let left = args.iter().enumerate().filter(move |(at, arg)| !said.speaks_of(*at, arg));
    let perhaps = meaning.into_iter().flat_map(|meaning| meaning.perhaps.iter().cloned());
    perhaps.chain(left.flat_map(spelled))
}

/// The text of an argument that is certain.
fn whole_text(arg: &Arg) -> Option<&str> {
    arg.text().or_else(|| match arg.parts.as_slice() {
        [ArgPart::Known(text)] => Some(text),
        _ => None,
    })
}

/// A pattern, also behind `--option=`.
fn pattern(arg: &Arg, at: usize) -> Option<On> {
    let known = arg.prefix();
    let value = spelling::value(known);
    match known.len() - value.len() {
        _ if value.starts_with('-') => None,
        0 => Some(On::Arg(at)),
        skip => Some(On::Tail(at, skip)),
    }
}

/// Which arguments the meaning of a run speaks of.
struct Said<'a> {
    /// Whether it speaks of all but the options that it does not know, and where these and what is behind them stand.
    whole: bool,
    doubtful: HashSet<usize>,
    /// Those that it does something to, may read, or knows to be no path.
    known: HashSet<usize>,
    /// Those of commands that it starts, as they stand there.
    handed_on: HashSet<(Span, &'a str)>,
    /// Where values stand that become variables of such a command.
    variables: HashSet<usize>,
    /// Where the texts stand that it hands to a shell or an interpreter: a part of an argument, or several.
    texts: Vec<Span>,
}

impl<'a> Said<'a> {
    fn of(invocation: &Invocation<'_>, meaning: Option<&'a Meaning>) -> Self {
        let args = invocation.args;
        let mut said = Said {
            whole: meaning.is_some_and(|meaning| meaning.whole),
            doubtful: HashSet::new(),
            known: text_arguments(invocation.program, args),
            handed_on: HashSet::new(),
            variables: HashSet::new(),
            texts: Vec::new(),
        };
        let Some(meaning) = meaning else { return said };
        for (kind, at) in &meaning.departures {
            // What stands behind an option that nobody knows may be its value.
            if *kind == DepartureKind::UnknownOption {
                said.doubtful.extend([*at, *at + 1]);
            }
        }
        // What is run is read first.
        let done = meaning.deeds.iter().filter(|deed| deed.kind != EffectKind::Execute).map(|deed| &deed.on);
        said.known.extend(done.chain(&meaning.perhaps).filter_map(On::argument));
        said.known.extend(&meaning.texts);
        meaning.inner.iter().for_each(|inner| said.hands_on(inner));
        said
    }

    fn hands_on(&mut self, inner: &'a Inner) {
        match inner {
            Inner::Argv { argv, environment, .. } => {
                self.handed_on.extend(argv.iter().map(key));
                self.variables.extend(environment.iter().map(|(_, value)| value.span.end));
            }
            Inner::Shell { text, parameters, .. } => {
                self.handed_on.extend(parameters.iter().map(key));
                self.text(text);
            }
            Inner::Code { text, .. } => self.text(text),
        }
    }

    fn text(&mut self, text: &'a Arg) {
        self.handed_on.insert(key(text));
        if self.texts.len() < MAX_TEXTS {
            self.texts.push(text.span);
        }
    }

    fn speaks_of(&self, at: usize, arg: &Arg) -> bool {
        let holds = |outer: &Span, inner: &Span| outer.start <= inner.start && inner.end <= outer.end;
        let is_part = |text: &Span| *text != arg.span && holds(text, &arg.span);
        let has_code = |text: &Span| arg.prefix().starts_with('-') && holds(&arg.span, text);
        self.whole && !self.doubtful.contains(&at)
            || self.known.contains(&at)
            || self.handed_on.contains(&key(arg))
            || arg.prefix().contains('=') && self.variables.contains(&arg.span.end)
            || self.texts.iter().any(|text| is_part(text) || has_code(text))
    }
}

/// What tells an argument from others that were read from the same place.
fn key(arg: &Arg) -> (Span, &str) {
    (arg.span, arg.prefix())
}
