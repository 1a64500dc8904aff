//! Programs that run a command as somebody else.

use crate::analysis::{Arg, DepartureKind, EffectKind, More, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, Place, read};
use crate::programs::{Inner, Invocation, Meaning, On};

const SUDO: Grammar = Grammar {
    flags: "AbBEeHhiKklNnPSsVv",
    values: "aCcDghpRrTtUu",
    names: &[
        "askpass background bell preserve-env? edit set-home login remove-timestamp reset-timestamp list non-interactive \
         no-update preserve-groups stdin shell validate close-from= login-class= chdir= group= host= prompt= chroot= \
         role= command-timeout= type= other-user= user= auth-type=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

const DOAS: Grammar = Grammar { flags: "LnSs", values: "aCu", order: Order::First, ..Grammar::NONE };

const SU: Grammar = Grammar {
    flags: "lmpfPTh-",
    values: "cCgGsw",
    names: &[
        "login preserve-environment fast pty no-pty command= session-command= group= supp-group= shell= \
         whitelist-environment=",
    ],
    ..Grammar::NONE
};

const RUNUSER: Grammar =
    Grammar { values: "cCgGswu", names: SU.names, flags: SU.flags, order: Order::First, ..Grammar::NONE };

const PKEXEC: Grammar =
    Grammar { names: &["user= disable-internal-agent keep-cwd"], order: Order::First, ..Grammar::NONE };

const SETPRIV: Grammar = Grammar {
    flags: "d",
    names: &[
        "clear-groups dump keep-groups init-groups list-caps no-new-privs reset-env rgid= egid= regid= ruid= euid= \
         reuid= groups= inh-caps= ambient-caps= bounding-set= securebits= selinux-label= apparmor-profile= pdeathsig= \
         landlock-access= landlock-rule= ptracer= seccomp-filter=",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// What such a program does, if it is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    let mut meaning = match invocation.program {
        "sudo" | "sudoedit" => sudo(invocation),
        "doas" => wrapped(invocation, &DOAS, &["s"]),
        "pkexec" => wrapped(invocation, &PKEXEC, &[]),
        "setpriv" => wrapped(invocation, &SETPRIV, &[]),
        "su" => su(invocation, &SU),
        "runuser" => su(invocation, &RUNUSER),
        "capsh" => capsh(invocation),
        _ => return None,
    };
    if !is_harmless(invocation) {
        meaning.deeds.insert(0, crate::programs::Deed { kind: EffectKind::Privilege, on: On::Machine });
    }
    Some(meaning)
}

/// Asking for help, the version, or what one may do gains nothing.
fn is_harmless(invocation: &Invocation<'_>) -> bool {
    match (invocation.program, invocation.args) {
        ("sudo", [only]) if matches!(only.text(), Some("-k" | "-K" | "-l" | "-V")) => true,
        (_, [only]) => matches!(only.text(), Some("--help" | "--version" | "--print")),
        _ => false,
    }
}

fn sudo(invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &SUDO);
    meaning.notes_unknown(&items);
    let mut edits = invocation.program == "sudoedit";
    let mut lists = false;
    let mut shell = false;
    let mut directory = None;
    let mut elsewhere = false;
    let mut first = args.len();
    for item in items {
        match item {
            Item::Flag("e" | "edit", _) => edits = true,
            Item::Flag("l" | "list" | "v" | "validate" | "k" | "K" | "remove-timestamp", _) => lists = true,
            Item::Flag("s" | "shell" | "i" | "login", _) => shell = true,
            Item::Value("D" | "chdir", place) => directory = place.value(args),
            Item::Value("R" | "chroot" | "h" | "host", _) => elsewhere = true,
            Item::Operand(at) => first = first.min(at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                first = first.min(at);
            }
            _ => {}
        }
    }
    if edits {
        (first..args.len()).for_each(|at| meaning.writes(On::Arg(at)));
        return meaning;
    }
    let mut environment = Vec::new();
    while let Some((name, _)) = args.get(first).and_then(|arg| arg.prefix().split_once('=')) {
        environment.push((name.to_owned(), crate::programs::options::tail(&args[first], name.len() + 1)));
        first += 1;
    }
    // `sudo -k COMMAND` runs the command, `sudo -l COMMAND` does not.
    let only_lists =
        lists && args.iter().any(|arg| matches!(arg.text(), Some("-l" | "--list" | "-v" | "--validate")));
    let argv = invocation.from(first).to_vec();
    if only_lists {
        return meaning;
    }
    if argv.is_empty() && shell && invocation.more == More::Nothing {
        note_interactive_shell(&mut meaning, invocation);
    } else if let ([text], true) =
        (argv.as_slice(), shell && argv.iter().any(|arg| arg.prefix().contains(' ')))
    {
        // Some versions hand the text to the shell as it stands.
        meaning.runs_text(text.clone(), "sh");
    } else if !argv.is_empty() || invocation.more != More::Nothing {
        meaning.inner.push(Inner::Argv {
            argv,
            more: invocation.more,
            environment,
            keeps_input: true,
            directory,
            elsewhere,
        });
    }
    meaning
}

/// A shell without a text runs what it is fed with.
fn note_interactive_shell(meaning: &mut Meaning, invocation: &Invocation<'_>) {
    use crate::analysis::Input;
    match invocation.input {
        Input::Text(text) => meaning.runs_text(text.clone(), "sh"),
        Input::File(_) => meaning.hides(OpaqueReason::Script, None),
        Input::Inherited | Input::Pipe(_) => meaning.hides(OpaqueReason::UnknownText, None),
    }
}

fn wrapped(invocation: &Invocation<'_>, grammar: &Grammar, shells: &[&str]) -> Meaning {
    let mut meaning = Meaning::default();
    let items = read(invocation.args, grammar);
    meaning.notes_unknown(&items);
    let mut first = invocation.args.len();
    let mut shell = false;
    for item in items {
        match item {
            Item::Flag(name, _) => shell |= shells.contains(&name),
            Item::Operand(at) => first = first.min(at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                first = first.min(at);
            }
            _ => {}
        }
    }
    meaning.runs(invocation.from(first), invocation.more);
    if shell && first == invocation.args.len() {
        note_interactive_shell(&mut meaning, invocation);
    }
    meaning
}

/// `su [-] [USER] [-c TEXT] [SHELL ARGUMENTS]`, `runuser -u USER COMMAND`.
fn su(invocation: &Invocation<'_>, grammar: &Grammar) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, grammar);
    meaning.notes_unknown(&items);
    let mut text: Option<Place> = None;
    let mut shell = "sh".to_owned();
    let mut operands: Vec<usize> = Vec::new();
    let mut as_command = false;
    for item in items {
        match item {
            Item::Value("c" | "C" | "command" | "session-command", place) => text = Some(place),
            Item::Value("s" | "shell", place) => match place.text(args) {
                Some(path) => shell = path.rsplit('/').next().unwrap_or(path).to_owned(),
                None => meaning.hides(OpaqueReason::UnknownProgram, Some(place.option)),
            },
            Item::Value("u", _) => as_command = true,
            Item::Operand(at) | Item::Maybe(at) if invocation.text(at) != Some("-") => operands.push(at),
            _ => {}
        }
    }
    // Behind the user, `su` hands options to the shell: `su user -- -c TEXT`.
    let handed = (0..args.len()).find(|at| invocation.text(*at) == Some("-c")).map(|at| at + 1);
    match (text.map(|place| place.value(args)), handed.and_then(|at| args.get(at))) {
        (Some(Some(text)), _) => run_text(&mut meaning, text, &shell),
        (None, Some(text)) => run_text(&mut meaning, text.clone(), &shell),
        (Some(None), _) => meaning.hides(OpaqueReason::UnknownText, None),
        (None, None) if as_command => {
            let first = operands.first().copied().unwrap_or(args.len());
            meaning.runs(invocation.from(first), invocation.more);
        }
        (None, None) => match operands.get(1) {
            Some(script) => meaning.runs_script(On::Arg(*script), *script),
            None => note_interactive_shell(&mut meaning, invocation),
        },
    }
    meaning
}

fn run_text(meaning: &mut Meaning, text: Arg, shell: &str) {
    let shell = if shell.is_empty() { "sh" } else { shell };
    meaning.runs_text(text, shell);
}

/// `capsh … -- -c TEXT`: what stands behind `--` goes to bash, behind `==` to itself.
fn capsh(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let Some(end) = (0..invocation.args.len()).find(|at| invocation.text(*at) == Some("--")) else {
        return meaning;
    };
    let mut argv = vec![Arg::known("bash", invocation.args[end].span)];
    argv.extend(invocation.from(end + 1).iter().cloned());
    meaning.runs(&argv, invocation.more);
    meaning
}
