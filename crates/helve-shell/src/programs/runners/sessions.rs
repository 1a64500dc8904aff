//! Programs that run a command in a terminal of its own, beside a list, or later.

use super::repeaters::first_operand;
use crate::Span;
use crate::analysis::{Arg, DepartureKind, EffectKind, Input, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, Place, read, read_from};
use crate::programs::{Invocation, Meaning, On};

/// What such a program does, if it is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    Some(match invocation.program {
        "script" => script(invocation),
        "tmux" | "byobu" => tmux(invocation),
        "screen" => screen(invocation),
        "at" | "batch" => at(invocation),
        "fzf" | "sk" => finder(invocation),
        _ => return None,
    })
}

const SCRIPT: Grammar = Grammar {
    flags: "aefkqrdpF",
    values: "cBEImoOTt",
    names: &[
        "append command= return flush force log-in= log-io= log-out= logging-format= output-limit= echo= quiet \
         log-timing= timing?",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// `script -qec TEXT FILE`; on BSD `script FILE COMMAND …`.
fn script(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let grammar = Grammar { order: Order::Mixed, ..SCRIPT };
    let has_text = read(args, &grammar).iter().any(|item| matches!(item, Item::Value("c" | "command", _)));
    let items = read(args, if has_text { &grammar } else { &SCRIPT });
    meaning.notes_unknown(&items);
    let mut operands = Vec::new();
    let mut named = false;
    for item in items {
        match item {
            Item::Value("c" | "command", place) => match place.value(args) {
                Some(text) => meaning.runs_text(text, "sh"),
                None => meaning.hides(OpaqueReason::UnknownText, Some(place.option)),
            },
            Item::Value("B" | "I" | "O" | "T" | "log-in" | "log-io" | "log-out" | "log-timing", place) => {
                named = true;
                meaning.writes_option(args, place);
            }
            Item::Operand(at) | Item::Maybe(at) => operands.push(at),
            _ => {}
        }
    }
    match operands.first() {
        Some(file) if !invocation.text(*file).is_some_and(crate::programs::meaning::is_stream) => {
            meaning.departs(DepartureKind::Output, *file);
            meaning.writes(On::Arg(*file));
        }
        Some(_) => {}
        None if named => {}
        None => meaning.writes(On::Path("typescript".to_owned(), None)),
    }
    if let Some(first) = operands.get(1).filter(|_| !has_text) {
        meaning.runs(invocation.from(*first), invocation.more);
    }
    meaning
}

const TMUX: Grammar = Grammar { flags: "2CDlNuvV", values: "cfLST", order: Order::First, ..Grammar::NONE };
const TMUX_NEW: Grammar =
    Grammar { flags: "AdDEPXkabhvIZ", values: "cenFstxylpf", order: Order::First, ..Grammar::NONE };

const TMUX_SEND: Grammar = Grammar { flags: "FHKlMRX", values: "cNt", order: Order::First, ..Grammar::NONE };

/// Notes what is typed for somebody, a line each: keys follow each other without blanks between them.
fn typed(meaning: &mut Meaning, keys: &[Arg]) {
    for line in keys.split(|key| matches!(key.text(), Some("Enter" | "C-m" | "KPEnter" | "C-j"))).take(16) {
        let Some(span) = line.iter().map(|key| key.span).reduce(Span::to) else { continue };
        let text: Option<String> =
            line.iter().map(|key| key.text().map(|text| if text == "Space" { " " } else { text })).collect();
        text.into_iter().for_each(|text| meaning.runs_text(Arg::known(text, span), "sh"));
    }
}

/// `tmux new -d TEXT`, and the other subcommands that start something or type for somebody.
fn tmux(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &TMUX);
    for item in &items {
        match item {
            Item::Value("f", place) => meaning.departs(DepartureKind::Configuration, place.option),
            Item::Value("c", place) => {
                place.value(args).into_iter().for_each(|text| meaning.runs_text(text, "sh"));
            }
            _ => {}
        }
    }
    let name = first_operand(&items, invocation);
    match invocation.text(name) {
        Some(
            "new" | "new-session" | "neww" | "new-window" | "splitw" | "split-window" | "respawnp"
            | "respawn-pane" | "respawnw" | "respawn-window" | "popup" | "display-popup",
        ) => {
            let items = read_from(args, name + 1, &TMUX_NEW);
            match invocation.from(first_operand(&items, invocation)) {
                [] => meaning.departs(DepartureKind::Change, name),
                [only] => meaning.runs_text(only.clone(), "sh"),
                argv => meaning.runs_detached(argv.to_vec(), invocation.more),
            }
        }
        Some("run" | "run-shell" | "if" | "if-shell" | "pipep" | "pipe-pane") => {
            meaning.departs(DepartureKind::Program, name);
            let text = invocation.from(name + 1).iter().find(|arg| !arg.prefix().starts_with('-'));
            text.into_iter().for_each(|text| meaning.runs_text(text.clone(), "sh"));
        }
        Some("send" | "send-keys") => {
            meaning.departs(DepartureKind::Code, name);
            meaning.hides(OpaqueReason::UnknownText, Some(name));
            let keys = first_operand(&read_from(args, name + 1, &TMUX_SEND), invocation);
            typed(&mut meaning, invocation.from(keys));
        }
        Some("set-hook" | "bind" | "bind-key" | "source" | "source-file") => {
            meaning.departs(DepartureKind::Code, name);
            meaning.hides(OpaqueReason::UnknownText, Some(name));
        }
        None
        | Some(
            "ls" | "list-sessions" | "lsw" | "list-windows" | "lsp" | "list-panes" | "capturep"
            | "capture-pane" | "display" | "display-message" | "has" | "has-session" | "info" | "show"
            | "show-options" | "show-environment" | "attach" | "attach-session",
        ) => {}
        Some(_) => meaning.departs(DepartureKind::Change, name),
    }
    meaning
}

const SCREEN: Grammar = Grammar {
    flags: "aAdDlLmOqrRUvwxifn",
    values: "cehpsStTX",
    order: Order::First,
    single_dash: true,
    names: &["ls list wipe? Logfile="],
    ..Grammar::NONE
};

/// `screen -dm COMMAND …`.
fn screen(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, &SCREEN);
    for item in &items {
        match item {
            Item::Value("c" | "s", place) => meaning.departs(DepartureKind::Configuration, place.option),
            Item::Value("X", place) => {
                meaning.departs(DepartureKind::Code, place.option);
                meaning.hides(OpaqueReason::UnknownText, Some(place.option));
                return meaning;
            }
            _ => {}
        }
    }
    let command = invocation.from(first_operand(&items, invocation));
    if !command.is_empty() {
        meaning.runs_detached(command.to_vec(), invocation.more);
    }
    meaning
}

/// `fzf --preview TEXT`: a shell reads the text for what is chosen from the input; keys may be bound to more.
fn finder(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    for (at, arg) in args.iter().enumerate() {
        let known = arg.prefix();
        let (name, attached) = known.split_once('=').map_or((known, false), |(name, _)| (name, true));
        let place = match attached {
            true => Place { option: at, arg: at, skip: name.len() + 1 },
            false => Place { option: at, arg: at + 1, skip: 0 },
        };
        match name {
            "--preview" => meaning.runs_option_text(args, place),
            "--bind" => meaning.departs(DepartureKind::Code, at),
            _ => {}
        }
    }
    meaning
}

/// `at TIME`: what it reads runs later.
fn at(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let args = invocation.args;
    for (index, arg) in args.iter().enumerate() {
        match arg.text() {
            Some("-l" | "-c" | "-V") => return meaning,
            Some("-d" | "-r") => {
                meaning.departs(DepartureKind::Change, index);
                return meaning;
            }
            _ => {}
        }
    }
    meaning.does(EffectKind::Persist, On::Machine);
    let file = (0..args.len()).find(|index| args[*index].prefix().starts_with("-f"));
    match (file, invocation.input) {
        (Some(index), _) => {
            let attached = args[index].prefix().len() > 2;
            let place = if attached {
                Place { option: index, arg: index, skip: 2 }
            } else {
                Place { option: index, arg: index + 1, skip: 0 }
            };
            meaning.reads(place.on(args));
            meaning.hides(OpaqueReason::Script, Some(index));
        }
        (None, Input::Text(text)) => meaning.runs_text(text.clone(), "sh"),
        (None, _) => meaning.hides(OpaqueReason::UnknownText, None),
    }
    meaning
}
