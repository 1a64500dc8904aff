//! `env`: variables, then a command; or a text that it splits itself.

use crate::analysis::{Arg, ArgPart, DepartureKind, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, Place, read};
use crate::programs::{Inner, Invocation, Meaning};

const ENV: Grammar = Grammar {
    flags: "i0v",
    values: "uCSaP",
    names: &[
        "ignore-environment null unset= chdir= split-string= block-signal? default-signal? ignore-signal? \
         list-signal-handling debug argv0=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// What `env` does.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    matches!(invocation.program, "env" | "genv").then(|| env(invocation, 0))
}

/// How often `-S` may stand inside the text of another.
const MAX_SPLITS: usize = 4;

fn env(invocation: &Invocation<'_>, depth: usize) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &ENV);
    meaning.notes_unknown(&items);
    let mut directory = None;
    let mut first = args.len();
    for item in items {
        match item {
            Item::Value("S" | "split-string", place) => {
                split_string(&mut meaning, invocation, place, directory, depth);
                return meaning;
            }
            Item::Value("C" | "chdir", place) => {
                directory = place.value(args);
                if let Some(text) = place.text(args) {
                    meaning.reads(crate::programs::On::Path(text.to_owned(), Some(place.option)));
                }
            }
            // BSD: where programs are looked for.
            Item::Value("P", place) => {
                meaning.departs(DepartureKind::Program, place.option);
                meaning.hides(OpaqueReason::Redefinition, Some(place.option));
            }
            Item::Operand(at) => first = first.min(at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                first = first.min(at);
            }
            _ => {}
        }
    }
    if invocation.text(first) == Some("-") {
        first += 1;
    }
    let mut environment = Vec::new();
    while let Some((name, value)) = args.get(first).and_then(assignment) {
        environment.push((name, value));
        first += 1;
    }
    let argv = invocation.from(first).to_vec();
    if !argv.is_empty() || invocation.more != More::Nothing {
        meaning.inner.push(Inner::Argv {
            argv,
            more: invocation.more,
            environment,
            keeps_input: true,
            directory,
            elsewhere: false,
        });
    }
    meaning
}

/// `NAME=value`.
fn assignment(arg: &Arg) -> Option<(String, Arg)> {
    let (name, _) = arg.prefix().split_once('=')?;
    Some((name.to_owned(), crate::programs::options::tail(arg, name.len() + 1)))
}

/// `-S 'NAME=value command arguments'`: the words take the place of the option.
fn split_string(
    meaning: &mut Meaning,
    invocation: &Invocation<'_>,
    place: Place,
    directory: Option<Arg>,
    depth: usize,
) {
    let args = invocation.args;
    let Some(text) = place.text(args).filter(|_| depth < MAX_SPLITS) else {
        meaning.hides(OpaqueReason::UnknownText, Some(place.option));
        meaning.departs(DepartureKind::Code, place.option);
        return;
    };
    let span = args.get(place.arg).map_or(crate::Span { start: 0, end: 0 }, |arg| arg.span);
    let Some(words) = words(text) else {
        meaning.hides(OpaqueReason::UnknownText, Some(place.option));
        meaning.departs(DepartureKind::Code, place.option);
        return;
    };
    let mut all: Vec<Arg> = words.into_iter().map(|parts| Arg { parts, span, splits: false }).collect();
    all.extend(invocation.from(place.arg + 1).iter().cloned());
    let inside = Invocation { args: &all, ..*invocation };
    let mut found = env(&inside, depth + 1);
    for inner in &mut found.inner {
        if let Inner::Argv { directory: place, .. } = inner
            && place.is_none()
        {
            place.clone_from(&directory);
        }
    }
    meaning.inner.append(&mut found.inner);
    // The indices of what was found point into the split text.
    for (kind, _) in found.departures {
        meaning.departs(kind, place.option);
    }
    for (reason, _) in found.opaque {
        meaning.hides(reason, Some(place.option));
    }
}

/// The words of `env -S`: blanks divide, quotes and backslashes as in a shell, `${NAME}` is not known.
fn words(text: &str) -> Option<Vec<Vec<ArgPart>>> {
    let mut words: Vec<Vec<ArgPart>> = Vec::new();
    let mut open = false;
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        let blank = matches!(next, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}');
        match (quote, next) {
            (None, _) if blank => {
                open = false;
                continue;
            }
            (None, '#') if !open => return Some(words),
            _ => {}
        }
        if !open {
            open = true;
            words.push(Vec::new());
        }
        let word = words.last_mut()?;
        match (quote, next) {
            (None, '\'' | '"') => {
                quote = Some(next);
                push(word, "");
            }
            (Some(mark), _) if mark == next => quote = None,
            (Some('\''), '\\') => match chars.next()? {
                escaped @ ('\\' | '\'') => push(word, escaped.encode_utf8(&mut [0; 4])),
                other => {
                    push(word, "\\");
                    push(word, other.encode_utf8(&mut [0; 4]));
                }
            },
            (_, '\\') => match chars.next()? {
                'c' if quote.is_none() => return Some(words),
                '_' if quote.is_none() => open = false,
                '_' => push(word, " "),
                'f' => push(word, "\u{c}"),
                'n' => push(word, "\n"),
                'r' => push(word, "\r"),
                't' => push(word, "\t"),
                'v' => push(word, "\u{b}"),
                other => push(word, other.encode_utf8(&mut [0; 4])),
            },
            (None | Some('"'), '$') => {
                chars.next_if_eq(&'{')?;
                chars.by_ref().find(|next| *next == '}')?;
                word.push(ArgPart::Unknown);
            }
            (_, other) => push(word, other.encode_utf8(&mut [0; 4])),
        }
    }
    quote.is_none().then_some(words)
}

fn push(word: &mut Vec<ArgPart>, text: &str) {
    match word.last_mut() {
        Some(ArgPart::Known(last)) => last.push_str(text),
        _ => word.push(ArgPart::Known(text.to_owned())),
    }
}
