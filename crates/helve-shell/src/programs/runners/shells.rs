//! Shells: `-c TEXT`, a script, or commands from standard input (which is the walker's business).

use crate::analysis::{Arg, DepartureKind, Input, More, OpaqueReason};
use crate::programs::options::{Place, may_hide_option};
use crate::programs::{Inner, Invocation, Meaning, On, is_named};

const SHELLS: &[&str] = &[
    "sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "yash", "posh", "rbash", "csh", "tcsh",
    "ksh93", "oksh", "loksh", "pdksh", "hush",
];

/// What a shell does, if the program is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    is_named(SHELLS, invocation.program).then(|| shell(invocation))
}

/// What the options in front say.
#[derive(Default)]
struct Options {
    /// `-c`: the first operand is text.
    takes_text: bool,
    /// `-s`: commands come from standard input.
    takes_input: bool,
    /// `-n`: nothing is run.
    only_checks: bool,
    /// `--version`, `--help`.
    asks: bool,
    /// Text that an option holds, as for `fish --command=TEXT`.
    text: Option<Place>,
    /// The index of the first operand.
    first: usize,
}

fn shell(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let options = options(invocation, &mut meaning);
    if options.only_checks {
        if let Some(at) = (options.first < args.len()).then_some(options.first) {
            meaning.reads(On::Arg(at));
        }
        return meaning;
    }
    if let Some(place) = options.text {
        match place.value(args) {
            Some(text) => push_text(&mut meaning, invocation.program, text, invocation.from(options.first)),
            None => meaning.hides(OpaqueReason::UnknownText, Some(place.option)),
        }
    } else if options.takes_text {
        match args.get(options.first) {
            Some(text) => {
                push_text(&mut meaning, invocation.program, text.clone(), invocation.from(options.first + 1));
            }
            None if invocation.more != More::Nothing => meaning.hides(OpaqueReason::UnknownText, None),
            None => {}
        }
    } else {
        match invocation.text(options.first) {
            Some("-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") => {
                note_input(&mut meaning, invocation)
            }
            _ if options.takes_input => note_input(&mut meaning, invocation),
            _ if options.first < args.len() => meaning.runs_script(On::Arg(options.first), options.first),
            _ if invocation.more != More::Nothing => meaning.hides(OpaqueReason::Script, None),
            _ if options.asks => {}
            _ => note_input(&mut meaning, invocation),
        }
    }
    meaning
}

/// What a shell is fed with is the walker's business, unless nothing is known about it.
fn note_input(meaning: &mut Meaning, invocation: &Invocation<'_>) {
    if matches!(invocation.input, Input::Inherited) {
        meaning.hides(OpaqueReason::UnknownText, None);
    }
}

fn push_text(meaning: &mut Meaning, shell: &str, text: Arg, parameters: &[Arg]) {
    meaning.inner.push(Inner::Shell {
        text,
        shell: shell.to_owned(),
        parameters: parameters.to_vec(),
        elsewhere: false,
    });
}

fn options(invocation: &Invocation<'_>, meaning: &mut Meaning) -> Options {
    let args = invocation.args;
    let fish = invocation.program == "fish";
    let mut options = Options::default();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let known = arg.prefix();
        if arg.text().is_none() && (known.is_empty() || !known.starts_with(['-', '+'])) {
            if may_hide_option(arg) {
                meaning.departs(DepartureKind::PossibleOption, at);
            }
            break;
        }
        if matches!(known, "-" | "--") {
            at += 1;
            break;
        }
        if let Some(long) = known.strip_prefix("--") {
            at += long_option(&mut options, meaning, long, at);
            continue;
        }
        let Some(letters) = known.strip_prefix(['-', '+']) else { break };
        if arg.text().is_none() {
            meaning.departs(DepartureKind::PossibleOption, at);
        }
        let sets = known.starts_with('-');
        let mut next = at + 1;
        for (offset, letter) in letters.char_indices() {
            match letter {
                'c' if sets && fish => {
                    let attached = offset + 2 < known.len();
                    let (place, used) = if attached { (at, offset + 2) } else { (next, 0) };
                    options.text = Some(Place { option: at, arg: place, skip: used });
                    next += usize::from(!attached);
                    break;
                }
                'c' if sets => options.takes_text = true,
                's' if sets => options.takes_input = true,
                'n' => options.only_checks = sets,
                'C' if fish => {
                    meaning.departs(DepartureKind::Code, at);
                    meaning.hides(OpaqueReason::UnknownText, Some(at));
                    next += usize::from(offset + 2 == known.len());
                    break;
                }
                'o' | 'O' => {
                    match invocation.text(next) {
                        Some("noexec") => options.only_checks = sets,
                        Some(name) if letter == 'o' => reads_otherwise(meaning, name, sets, at),
                        _ => {}
                    }
                    // `-o` alone prints the settings.
                    next += usize::from(next < args.len() && offset + 2 == known.len());
                }
                _ => {
                    if let Some(name) = mode_of(letter).filter(|_| !fish) {
                        reads_otherwise(meaning, name, sets, at);
                    }
                }
            }
        }
        at = next;
    }
    options.first = at.min(args.len());
    options
}

/// The name of the option of a shell that a letter of `set` stands for, of those that change what a text means.
pub(crate) fn mode_of(letter: char) -> Option<&'static str> {
    match letter {
        'a' => Some("allexport"),
        'k' => Some("keyword"),
        'B' => Some("braceexpand"),
        'H' => Some("histexpand"),
        'P' => Some("physical"),
        _ => None,
    }
}

/// Whether the text behind such an option is read in another way than usual.
pub(crate) fn is_unusual_mode(name: &str, on: bool) -> bool {
    match name {
        "posix" | "keyword" | "history" | "histexpand" | "physical" => on,
        "braceexpand" => !on,
        _ => false,
    }
}

/// An option of `set`, given to the shell when it starts.
fn reads_otherwise(meaning: &mut Meaning, name: &str, on: bool, at: usize) {
    if is_unusual_mode(name, on) {
        meaning.hides(OpaqueReason::Redefinition, Some(at));
    } else if name == "allexport" && on {
        meaning.hides(OpaqueReason::Environment, Some(at));
    }
}

/// `--name`; gives how many arguments it takes.
fn long_option(options: &mut Options, meaning: &mut Meaning, long: &str, at: usize) -> usize {
    let (name, value) = match long.split_once('=') {
        Some((name, _)) => (name, Some(name.len() + 3)),
        None => (long, None),
    };
    match name {
        "rcfile" | "init-file" | "init-command" => {
            meaning.departs(DepartureKind::Code, at);
            meaning.hides(OpaqueReason::Script, Some(at));
            if value.is_some() { 1 } else { 2 }
        }
        "command" => {
            options.text = Some(match value {
                Some(skip) => Place { option: at, arg: at, skip },
                None => Place { option: at, arg: at + 1, skip: 0 },
            });
            if value.is_some() { 1 } else { 2 }
        }
        "no-execute" | "noexec" => {
            options.only_checks = true;
            1
        }
        "version" | "help" => {
            options.asks = true;
            1
        }
        "posix" => {
            reads_otherwise(meaning, "posix", true, at);
            1
        }
        "login" | "norc" | "noprofile" | "noediting" | "verbose" | "restricted" | "debugger"
        | "dump-strings" | "dump-po-strings" | "no-rcs" | "no-globalrcs" | "interactive" | "emulate"
        | "no-config" | "private" | "stdin" | "xtrace" => 1,
        _ => {
            meaning.departs(DepartureKind::UnknownOption, at);
            1
        }
    }
}
