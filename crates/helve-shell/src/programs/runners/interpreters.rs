//! Interpreters of other languages, and editors with a language of their own.

use crate::analysis::{Arg, DepartureKind, Input, More, OpaqueReason};
use crate::programs::options::Place;
use crate::programs::{Inner, Invocation, Meaning, On, is_named};

/// How an interpreter takes its code.
struct Language {
    names: &'static [&'static str],
    /// What the code is called in [`Inner::Code`].
    language: &'static str,
    /// Letters whose value is code.
    code: &'static str,
    /// Long options whose value is code.
    code_long: &'static [&'static str],
    /// Letters with a value that is attached or the next argument.
    values: &'static str,
    /// Long options with a value that may be the next argument.
    values_long: &'static [&'static str],
    /// Letters that take the rest of their argument.
    rest: &'static str,
    /// Letters that take the digits behind them.
    digits: &'static str,
    /// Options that load a file or a module before the program.
    loads: &'static [&'static str],
    /// Options with which nothing runs.
    nothing: &'static [&'static str],
    /// Whether a value may be attached to a letter of code.
    attached: bool,
    /// Whether it reads a program from standard input when none is given.
    reads_input: bool,
}

const PLAIN: Language = Language {
    names: &[],
    language: "code",
    code: "e",
    code_long: &[],
    values: "",
    values_long: &[],
    rest: "",
    digits: "",
    loads: &[],
    nothing: &["--version", "--help", "-h"],
    attached: true,
    reads_input: true,
};

const LANGUAGES: &[Language] = &[
    Language {
        names: &["python", "pypy", "ipython", "jython"],
        language: "python",
        code: "c",
        values: "mWXQ",
        values_long: &["check-hash-based-pycs"],
        nothing: &["--version", "--help", "-h", "-V", "-VV"],
        ..PLAIN
    },
    Language {
        names: &["perl"],
        language: "perl",
        code: "eE",
        values: "I",
        rest: "iFdDxVMm",
        digits: "l0C",
        loads: &["M", "m", "I"],
        nothing: &["--version", "--help", "-h", "-v", "-V"],
        ..PLAIN
    },
    Language {
        names: &["ruby", "jruby"],
        language: "ruby",
        code: "e",
        values: "rCIE",
        rest: "iFxKT",
        digits: "0W",
        loads: &["r", "I", "require"],
        nothing: &["--version", "--help", "-h", "-v"],
        ..PLAIN
    },
    Language {
        names: &["node", "nodejs"],
        language: "node",
        code: "ep",
        code_long: &["eval", "print"],
        values: "rC",
        values_long: &[
            "require",
            "import",
            "loader",
            "experimental-loader",
            "conditions",
            "env-file",
            "input-type",
        ],
        loads: &["r", "require", "import", "loader", "experimental-loader"],
        nothing: &["--version", "--help", "-h", "-v"],
        attached: false,
        ..PLAIN
    },
    Language {
        names: &["php"],
        language: "php",
        code: "rBRE",
        values: "cdfFSStz",
        loads: &["d", "c", "z"],
        nothing: &["--version", "--help", "-h", "-v", "-i", "-m", "--ini"],
        ..PLAIN
    },
    Language { names: &["lua", "luajit", "texlua"], language: "lua", values: "lj", loads: &["l"], ..PLAIN },
    Language {
        names: &["Rscript", "R", "rscript"],
        language: "r",
        values: "f",
        code_long: &["expr"],
        values_long: &["file", "args"],
        reads_input: false,
        ..PLAIN
    },
    Language { names: &["osascript"], language: "applescript", values: "l", rest: "s", ..PLAIN },
    Language { names: &["tclsh", "wish", "expect"], language: "tcl", code: "c", values: "fb", ..PLAIN },
    Language {
        names: &["guile"],
        language: "scheme",
        code: "c",
        values: "esLlx",
        loads: &["l", "L"],
        ..PLAIN
    },
    Language {
        names: &["julia"],
        language: "julia",
        code: "eE",
        code_long: &["eval", "print"],
        values: "LptJCH",
        loads: &["L", "J"],
        ..PLAIN
    },
    Language {
        names: &[
            "elixir", "iex", "racket", "scala", "groovy", "clojure", "clj", "ghc", "kotlin", "swift", "raku",
        ],
        code_long: &["eval"],
        values: "rtl",
        loads: &["r", "t", "l"],
        reads_input: false,
        ..PLAIN
    },
];

/// What an interpreter does, if the program is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    match invocation.program {
        "vim" | "vi" | "ex" | "nvim" | "view" | "vimdiff" | "gvim" | "rvim" | "ed" => {
            return Some(vi(invocation));
        }
        "emacs" | "emacsclient" => return Some(emacs(invocation)),
        _ => {}
    }
    // `python3.12` is python.
    let numberless =
        invocation.program.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let name = if numberless.is_empty() { invocation.program } else { numberless };
    let language = LANGUAGES.iter().find(|language| is_named(language.names, name))?;
    Some(interpret(language, invocation))
}

fn interpret(language: &Language, invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let mut found_code = false;
    let mut at = 0;
    let mut nothing = false;
    while let Some(arg) = args.get(at) {
        let known = arg.prefix();
        if arg.text() == Some("--") {
            at += 1;
            break;
        }
        if !known.starts_with('-') || known == "-" {
            break;
        }
        nothing |= arg.text().is_some_and(|text| language.nothing.contains(&text));
        let step = if let Some(long) = known.strip_prefix("--") {
            long_option(language, invocation, &mut meaning, long, at)
        } else {
            cluster(language, invocation, &mut meaning, at)
        };
        found_code |= step.code;
        at = step.next;
        if step.ends {
            return meaning;
        }
    }
    if found_code || nothing {
        // What is left are arguments of the code, or there is none.
        return meaning;
    }
    match args.get(at) {
        Some(script) if !matches!(script.text(), Some("-" | "/dev/stdin" | "/dev/fd/0")) => {
            meaning.runs_script(On::Arg(at), at);
        }
        None if invocation.more != More::Nothing => meaning.hides(OpaqueReason::Script, None),
        _ => match invocation.input {
            Input::Text(text) if language.reads_input => {
                push_code(&mut meaning, language.language, text.clone());
            }
            _ => meaning.hides(OpaqueReason::Code, None),
        },
    }
    meaning
}

fn push_code(meaning: &mut Meaning, language: &'static str, text: Arg) {
    meaning.inner.push(Inner::Code { language, text });
    meaning.hides(OpaqueReason::Code, None);
}

/// What an argument with options was.
struct Step {
    next: usize,
    /// Whether it held code.
    code: bool,
    /// Whether what follows belongs to the code.
    ends: bool,
}

fn note_code(language: &Language, invocation: &Invocation<'_>, meaning: &mut Meaning, place: Place) {
    meaning.departs(DepartureKind::Code, place.option);
    match place.value(invocation.args) {
        Some(text) => push_code(meaning, language.language, text),
        None => meaning.hides(OpaqueReason::UnknownText, Some(place.option)),
    }
}

fn long_option(
    language: &Language,
    invocation: &Invocation<'_>,
    meaning: &mut Meaning,
    long: &str,
    at: usize,
) -> Step {
    let (name, place) = match long.split_once('=') {
        Some((name, _)) => (name, Place { option: at, arg: at, skip: name.len() + 3 }),
        None => (long, Place { option: at, arg: at + 1, skip: 0 }),
    };
    let is_code = language.code_long.contains(&name);
    if is_code {
        note_code(language, invocation, meaning, place);
    }
    if language.loads.contains(&name) {
        meaning.departs(DepartureKind::Code, at);
        meaning.hides(OpaqueReason::Script, Some(at));
    }
    let takes_value = is_code || language.values_long.contains(&name);
    let next = if takes_value && place.skip == 0 { at + 2 } else { at + 1 };
    Step { next, code: is_code, ends: false }
}

/// `-lne CODE`, `-pi.bak`, `-Mstrict`.
fn cluster(language: &Language, invocation: &Invocation<'_>, meaning: &mut Meaning, at: usize) -> Step {
    let known = invocation.args[at].prefix();
    let complete = invocation.args[at].text().is_some();
    let mut step = Step { next: at + 1, code: false, ends: false };
    let mut letters = known.char_indices().skip(1).peekable();
    while let Some((offset, letter)) = letters.next() {
        let behind = offset + letter.len_utf8();
        let attached =
            (behind < known.len() || !complete) && (language.attached || !language.code.contains(letter));
        let place = if attached {
            Place { option: at, arg: at, skip: behind }
        } else {
            Place { option: at, arg: step.next, skip: 0 }
        };
        let load = |meaning: &mut Meaning| {
            let name = letter.to_string();
            if language.loads.contains(&name.as_str()) {
                meaning.departs(DepartureKind::Code, at);
            }
        };
        if language.code.contains(letter) {
            // `node -pe CODE` has one code.
            if !step.code {
                note_code(language, invocation, meaning, place);
                step.code = true;
                step.next += usize::from(!attached);
            }
            // What follows the code of python is its own.
            step.ends |= language.language == "python";
            if attached {
                return step;
            }
        } else if language.values.contains(letter) {
            load(meaning);
            step.next += usize::from(!attached);
            match (language.language, letter) {
                ("python", 'm') => {
                    module(meaning, invocation, place, step.next);
                    step.ends = true;
                }
                ("php", 'f' | 'F') | ("tcl", 'f') | ("scheme", 's') | ("r", 'f') => {
                    meaning.runs_script(place.on(invocation.args), at);
                    step.code = true;
                }
                _ => {}
            }
            return step;
        } else if language.rest.contains(letter) {
            load(meaning);
            if letter == 'i' {
                meaning.departs(DepartureKind::Output, at);
            }
            return step;
        } else if language.digits.contains(letter) {
            while letters.next_if(|(_, next)| next.is_ascii_hexdigit() && next.is_ascii_digit()).is_some() {}
        }
    }
    step
}

/// `python -m MODULE …`.
fn module(meaning: &mut Meaning, invocation: &Invocation<'_>, place: Place, next: usize) {
    let args = invocation.args;
    match place.text(args) {
        Some("json.tool") => {
            let operands: Vec<usize> =
                (next..args.len()).filter(|at| !args[*at].prefix().starts_with('-')).collect();
            operands.iter().take(1).for_each(|at| meaning.reads(On::Arg(*at)));
            if let Some(output) = operands.get(1) {
                meaning.departs(DepartureKind::Output, *output);
                meaning.writes(On::Arg(*output));
            }
        }
        Some("calendar" | "platform" | "site" | "sysconfig" | "this" | "tabnanny" | "tokenize" | "ast") => {}
        // The module is the program of that name.
        Some(name @ ("pip" | "pipx" | "uv")) => {
            let mut argv =
                vec![Arg::known(name, args.get(place.arg).map_or(args[place.option].span, |arg| arg.span))];
            argv.extend(invocation.from(next).iter().cloned());
            meaning.runs(&argv, invocation.more);
        }
        _ => meaning.hides(OpaqueReason::Script, Some(place.option)),
    }
}

/// `vim -c COMMAND`, `+COMMAND`, `-S FILE`: editors can start a shell.
fn vi(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let known = arg.prefix();
        let command = match known {
            "-c" | "--cmd" => Some(Place { option: at, arg: at + 1, skip: 0 }),
            _ if bundled(known).is_some() => bundled(known).map(|skip| match skip == known.len() {
                true => Place { option: at, arg: at + 1, skip: 0 },
                false => Place { option: at, arg: at, skip },
            }),
            _ if known.starts_with('+') => Some(Place { option: at, arg: at, skip: 1 }),
            _ if known.starts_with("-c") => Some(Place { option: at, arg: at, skip: 2 }),
            _ => None,
        };
        if let Some(place) = command {
            editor_command(&mut meaning, args, place);
            at = place.arg.max(at) + 1;
            continue;
        }
        match known {
            "-S" | "-s" | "-u" | "-U" | "-i" | "-W" | "-w" | "-t" | "-T" => {
                // As a flag of `ex` and `ed`, `-s` means silence.
                let silent = known == "-s" && matches!(invocation.program, "ex" | "ed");
                if matches!(known, "-S" | "-s" | "-u" | "-U") && !silent {
                    meaning.departs(DepartureKind::Code, at);
                    meaning.hides(OpaqueReason::Script, Some(at));
                }
                at += usize::from(!silent);
            }
            _ if known.starts_with('-') => {}
            _ => meaning.writes(On::Arg(at)),
        }
        at += 1;
    }
    if matches!(invocation.program, "ed" | "ex") && !matches!(invocation.input, Input::Inherited) {
        meaning.departs(DepartureKind::Code, args.len());
        meaning.hides(OpaqueReason::Code, None);
        if let Input::Text(text) = invocation.input {
            meaning.runs_lines(text, |line| {
                let (before, command) = line.split_once('!')?;
                before.bytes().all(|byte| b"0123456789,$%.;:rwe ".contains(&byte)).then_some(command)
            });
        }
    }
    meaning
}

/// Where the command of `-sc` and `-esc` starts: letters without a value may stand in front of the one for it.
fn bundled(option: &str) -> Option<usize> {
    let letters = option.strip_prefix('-')?;
    let (flags, _) = letters.split_once('c')?;
    let plain = |letter: char| "eEsvnNbRmMyZl".contains(letter);
    (!flags.is_empty() && flags.chars().all(plain)).then_some(flags.len() + 2)
}

fn editor_command(meaning: &mut Meaning, args: &[Arg], place: Place) {
    let known = place.prefix(args);
    let text = known.trim_start_matches([':', ' ']);
    if place.text(args).is_some_and(|text| text.is_empty() || text.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return;
    }
    if matches!(place.text(args), Some("q" | "q!" | "qa" | "qa!" | "wq" | "x" | "w" | "wqa" | "xa")) {
        return;
    }
    meaning.departs(DepartureKind::Code, place.option);
    match text.strip_prefix('!') {
        Some(command) => {
            let skip = place.skip + known.len() - command.len();
            Place { skip, ..place }.value(args).into_iter().for_each(|text| meaning.runs_text(text, "sh"));
        }
        None => meaning.hides(OpaqueReason::Code, Some(place.option)),
    }
}

/// `emacs --eval CODE`, `--batch -l FILE`, `--script FILE`.
fn emacs(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        let known = arg.prefix();
        let name = known.trim_start_matches('-').split('=').next().unwrap_or_default();
        let attached = known.contains('=');
        at += 1;
        if !known.starts_with('-') {
            if !known.starts_with('+') {
                meaning.writes(On::Arg(at - 1));
            }
            continue;
        }
        match name {
            "eval" | "execute" | "e" | "l" | "load" | "script" | "f" | "funcall" | "x" | "L" => {
                meaning.departs(DepartureKind::Code, at - 1);
                meaning.hides(OpaqueReason::Code, Some(at - 1));
                let (value, skip) =
                    if attached { (at - 1, known.find('=').unwrap_or(0) + 1) } else { (at, 0) };
                let place = Place { option: at - 1, arg: value, skip };
                place.value(args).into_iter().for_each(|code| lisp(&mut meaning, &code));
                at += usize::from(!attached);
            }
            _ => {}
        }
    }
    meaning
}

/// What Lisp plainly hands to a shell: the first string behind a function that does so.
fn lisp(meaning: &mut Meaning, code: &Arg) {
    const STARTS: &[&str] = &["shell-command", "start-process-shell-command", "compile"];
    let Some(text) = code.text() else { return };
    for start in STARTS {
        let Some((_, behind)) = text.split_once(start) else { continue };
        let Some((_, string)) = behind.split_once('"') else { continue };
        let mut command = String::new();
        let mut chars = string.chars();
        while let Some(next) = chars.next().filter(|next| *next != '"') {
            command.extend(if next == '\\' { chars.next() } else { Some(next) });
        }
        meaning.runs_text(Arg::known(command, code.span), "sh");
        return;
    }
}
