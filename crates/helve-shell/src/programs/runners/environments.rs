//! Programs that prepare surroundings for a command and run it there: `direnv exec`, `mise exec`, `nix develop -c`,
//! `conda run`, `rustup run`, `firejail`, `bwrap`, `gosu`, `tini`, `start-stop-daemon`, the processors of qemu.
//!
//! Where a tool has many options, what cannot be one of them is the command: behind `--`, or the first operand.

use super::repeaters::first_operand;
use crate::analysis::{Arg, DepartureKind, EffectKind, OpaqueReason};
use crate::programs::meaning::joined;
use crate::programs::options::{Grammar, Item, Order, Place, read_from};
use crate::programs::{Invocation, Meaning, On};

/// A tool that runs its operands, all or behind a subcommand.
struct Tool {
    names: &'static [&'static str],
    /// The subcommands that run something; without any, the tool always does.
    verbs: &'static [&'static str],
    grammar: Grammar,
    /// How many operands stand before the command.
    before: usize,
}

const PLAIN: Tool = Tool { names: &[], verbs: &[], grammar: FIRST, before: 0 };
const FIRST: Grammar = Grammar { order: Order::First, ..Grammar::NONE };

const TOOLS: &[Tool] = &[
    Tool { names: &["direnv"], verbs: &["exec"], before: 1, ..PLAIN },
    Tool {
        names: &["asdf", "rbenv", "pyenv", "nodenv", "goenv", "jenv", "volta"],
        verbs: &["exec", "run"],
        grammar: Grammar { names: &["node= npm= yarn= pnpm="], ..FIRST },
        ..PLAIN
    },
    Tool {
        names: &["nvm", "fnm"],
        verbs: &["exec"],
        grammar: Grammar { names: &["using= silent"], ..FIRST },
        before: 1,
    },
    Tool {
        names: &["conda", "mamba", "micromamba"],
        verbs: &["run"],
        grammar: Grammar {
            flags: "v",
            values: "npra",
            names: &[
                "name= prefix= root-prefix= cwd= no-capture-output live-stream dev debug-wrapper-scripts attach=",
            ],
            ..FIRST
        },
        ..PLAIN
    },
    Tool {
        names: &["proot"],
        grammar: Grammar {
            flags: "0hVS",
            values: "rbqwvkirR",
            names: &[
                "rootfs= bind= qemu= pwd= cwd= verbose= kernel-release= root-id link2symlink kill-on-exit",
            ],
            ..FIRST
        },
        ..PLAIN
    },
    Tool {
        names: &["rustup"],
        verbs: &["run"],
        grammar: Grammar { names: &["install"], ..FIRST },
        before: 1,
    },
    Tool { names: &["ssh-agent"], grammar: Grammar { flags: "csDdkTu", values: "aEtPO", ..FIRST }, ..PLAIN },
    Tool {
        names: &["machinectl"],
        verbs: &["shell"],
        grammar: Grammar {
            flags: "q",
            values: "EMH",
            names: &["setenv= uid= quiet host= machine="],
            ..FIRST
        },
        before: 1,
    },
    Tool {
        names: &["qemu-user"],
        grammar: Grammar {
            flags: "h",
            values: "gLsEU0rdDpBR",
            names: &["cpu= strace one-insn-per-tb singlestep seed= plugin= perfmap jitdump"],
            single_dash: true,
            ..FIRST
        },
        ..PLAIN
    },
    Tool { names: &["cgexec"], grammar: Grammar { values: "g", names: &["sticky"], ..FIRST }, ..PLAIN },
    Tool { names: &["multitime"], grammar: Grammar { flags: "lqv", values: "bfiInors", ..FIRST }, ..PLAIN },
    Tool {
        names: &["faketime"],
        grammar: Grammar { flags: "fm", values: "p", names: &["exclude-monotonic date-prog="], ..FIRST },
        before: 1,
        ..PLAIN
    },
    Tool {
        names: &["arch"],
        grammar: Grammar {
            names: &["x86_64 i386 arm64 arm64e 32 64"],
            values: "ed",
            single_dash: true,
            ..FIRST
        },
        ..PLAIN
    },
    Tool { names: &["sandbox-exec"], grammar: Grammar { values: "fnpDt", ..FIRST }, ..PLAIN },
    Tool {
        names: &["tini", "tini-static", "catatonit"],
        grammar: Grammar { flags: "svwglPh", values: "pe", ..FIRST },
        ..PLAIN
    },
    Tool {
        names: &["dumb-init"],
        grammar: Grammar { flags: "cv", values: "r", names: &["single-child verbose rewrite="], ..FIRST },
        ..PLAIN
    },
    Tool {
        names: &["watchexec"],
        grammar: Grammar {
            flags: "cn1pqv",
            values: "wWesifdo",
            optional: "",
            names: &[
                "watch= watch-non-recursive= exts= filter= ignore= restart clear? postpone shell= no-vcs-ignore \
                no-project-ignore no-default-ignore no-meta debounce= delay-run= on-busy-update= signal= stop-signal= \
                stop-timeout= notify quiet workdir= env= timings only-emit-events poll? project-origin=",
            ],
            ..FIRST
        },
        ..PLAIN
    },
];

/// What such a program does, if it is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    match invocation.program {
        "mise" | "rtx" => return mise(invocation),
        "nix-shell" => return Some(nix_shell(invocation)),
        "nix" => return nix(invocation),
        "nodemon" => return Some(nodemon(invocation)),
        "coreutils" => return Some(coreutils(invocation)),
        "bwrap" => return Some(bwrap(invocation)),
        "firejail" => return Some(firejail(invocation)),
        "gosu" | "su-exec" | "sg" => return Some(as_somebody(invocation)),
        "start-stop-daemon" => return Some(daemon(invocation)),
        _ => {}
    }
    let program = if is_processor(invocation.program) { "qemu-user" } else { invocation.program };
    let tool = TOOLS.iter().find(|tool| tool.names.contains(&program))?;
    let first = match tool.verbs {
        [] => 0,
        verbs => verbs.contains(&invocation.text(0)?).then_some(1)?,
    };
    let mut meaning = Meaning::default();
    let items = read_from(invocation.args, first, &tool.grammar);
    meaning.notes_unknown(&items);
    let command = first_operand(&items, invocation) + tool.before;
    // `--` may stand behind what comes before the command.
    let command = command + usize::from(tool.before > 0 && invocation.text(command) == Some("--"));
    meaning.runs(invocation.from(command), invocation.more);
    Some(meaning)
}

/// `qemu-x86_64`, `qemu-aarch64-static`: a program that runs one for another processor.
fn is_processor(program: &str) -> bool {
    let Some(name) = program.strip_prefix("qemu-") else { return false };
    let name = name.strip_suffix("-static").unwrap_or(name);
    let families =
        ["x86_64", "i386", "aarch64", "arm", "riscv", "ppc", "s390x", "mips", "sparc", "loongarch", "alpha"];
    families.iter().any(|family| name.starts_with(family))
}

/// `start-stop-daemon --start --exec PROGRAM -- ARGUMENTS …`
fn daemon(invocation: &Invocation<'_>) -> Meaning {
    const DAEMON: Grammar = Grammar {
        flags: "SKTtvqobmCVH",
        values: "xapnudgrsRkNPIcO",
        names: &[
            "start stop status exec= startas= pid= ppid= name= user= chuid= group= signal= retry= chroot= chdir= \
             background no-close make-pidfile remove-pidfile nicelevel= procsched= iosched= umask= output= oknodo \
             quiet test verbose notify-await notify-timeout=",
        ],
        ..FIRST
    };
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read_from(args, 0, &DAEMON);
    meaning.notes_unknown(&items);
    let named = |wanted: [&str; 2]| {
        items.iter().find_map(|item| match item {
            Item::Value(name, place) if wanted.contains(name) => place.value(args),
            _ => None,
        })
    };
    let starts = items.iter().any(|item| matches!(item, Item::Flag("S" | "start", _)));
    if let Some(program) = named(["a", "startas"]).or_else(|| named(["x", "exec"])).filter(|_| starts) {
        let mut argv = vec![program];
        argv.extend(invocation.from(first_operand(&items, invocation)).iter().cloned());
        meaning.runs(&argv, invocation.more);
    }
    meaning
}

/// `mise exec TOOL@VERSION … -- COMMAND …`, `mise x -c TEXT`.
fn mise(invocation: &Invocation<'_>) -> Option<Meaning> {
    matches!(invocation.text(0)?, "exec" | "x").then_some(())?;
    let mut meaning = Meaning::default();
    for at in 1..invocation.args.len() {
        match invocation.text(at) {
            Some("--") => {
                meaning.runs(invocation.from(at + 1), invocation.more);
                break;
            }
            Some("-c" | "--command") => {
                text_at(&mut meaning, invocation, at + 1);
                break;
            }
            _ => {}
        }
    }
    Some(meaning)
}

fn text_at(meaning: &mut Meaning, invocation: &Invocation<'_>, at: usize) {
    match invocation.args.get(at) {
        Some(text) => meaning.runs_text(text.clone(), "sh"),
        None => meaning.hides(OpaqueReason::UnknownText, None),
    }
}

/// `nix-shell --run TEXT`: what the shell file itself runs is not known.
fn nix_shell(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    for at in 0..invocation.args.len() {
        if matches!(invocation.text(at), Some("--run" | "--command")) {
            text_at(&mut meaning, invocation, at + 1);
        }
    }
    meaning.hides(OpaqueReason::Script, None);
    meaning
}

/// `nix develop -c COMMAND …`, `nix shell PACKAGE -c COMMAND …`.
fn nix(invocation: &Invocation<'_>) -> Option<Meaning> {
    matches!(invocation.text(0)?, "develop" | "shell" | "run").then_some(())?;
    let mut meaning = Meaning::default();
    meaning.hides(OpaqueReason::Script, Some(0));
    let command =
        (1..invocation.args.len()).find(|at| matches!(invocation.text(*at), Some("-c" | "--command")));
    if let Some(at) = command {
        meaning.runs(invocation.from(at + 1), invocation.more);
    }
    Some(meaning)
}

/// `nodemon --exec TEXT`; without it, it runs a script.
fn nodemon(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    meaning.hides(OpaqueReason::Script, None);
    for at in 0..invocation.args.len() {
        if matches!(invocation.text(at), Some("--exec" | "-x")) {
            // What stands behind the text is added to it.
            joined(invocation.from(at + 1)).into_iter().for_each(|text| meaning.runs_text(text, "sh"));
            break;
        }
        if invocation.args[at].prefix().starts_with("--exec=") {
            let place = Place { option: at, arg: at, skip: "--exec=".len() };
            place.value(invocation.args).into_iter().for_each(|text| meaning.runs_text(text, "sh"));
        }
    }
    meaning
}

/// `coreutils --coreutils-prog=NAME …`: all of them in one file.
fn coreutils(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let Some(first) = invocation.args.first() else { return meaning };
    let option = ["--coreutils-prog=", "--coreutils-prog-shebang="];
    match option.iter().find(|option| first.prefix().starts_with(**option)) {
        Some(option) => {
            let name = crate::programs::options::tail(first, option.len());
            let argv: Vec<Arg> = std::iter::once(name).chain(invocation.from(1).iter().cloned()).collect();
            meaning.runs(&argv, invocation.more);
        }
        // The one of another author takes the name as it stands.
        None => meaning.runs(invocation.args, invocation.more),
    }
    meaning
}

/// Options of `bwrap` with two values, and with none; all others have one.
const TWO: &[&str] = &[
    "--bind",
    "--bind-try",
    "--dev-bind",
    "--dev-bind-try",
    "--ro-bind",
    "--ro-bind-try",
    "--bind-fd",
    "--ro-bind-fd",
    "--symlink",
    "--setenv",
    "--file",
    "--bind-data",
    "--ro-bind-data",
    "--chmod",
    "--overlay-src-fd",
];
const NONE: &[&str] = &[
    "--share-net",
    "--clearenv",
    "--die-with-parent",
    "--new-session",
    "--as-pid-1",
    "--disable-userns",
    "--assert-userns-disabled",
    "--help",
    "--version",
    "--level-prefix",
];

/// `bwrap OPTIONS COMMAND …`: options of none, one or two values.
fn bwrap(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let mut at = 0;
    while let Some(arg) = invocation.args.get(at) {
        let known = arg.prefix();
        if known == "--" || !known.starts_with("--") {
            at += usize::from(known == "--");
            break;
        }
        at += match known {
            "--overlay" => 4,
            _ if TWO.contains(&known) => 3,
            _ if NONE.contains(&known) || known.starts_with("--unshare-") => 1,
            _ => 2,
        };
    }
    let command = invocation.from(at);
    // Its paths are those that the options bind, which may be ours.
    meaning.runs(command, invocation.more);
    meaning
}

/// `firejail OPTIONS COMMAND …`: its options have their values attached.
fn firejail(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let first = invocation.args.iter().position(|arg| !arg.prefix().starts_with("--"));
    let end = invocation.args.iter().position(|arg| arg.text() == Some("--"));
    let at = match (first, end) {
        (Some(first), Some(end)) if end < first => end + 1,
        (Some(first), _) => first,
        (None, _) => return meaning,
    };
    meaning.runs(invocation.from(at), invocation.more);
    meaning
}

/// `gosu USER COMMAND …`, `sg GROUP COMMAND`: as another user, or with another group.
fn as_somebody(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    let who = usize::from(matches!(invocation.text(0), Some("-")));
    if invocation.args.len() <= who + 1 {
        return meaning;
    }
    meaning.departs(DepartureKind::Change, who);
    meaning.does(EffectKind::Privilege, On::Machine);
    if invocation.program != "sg" {
        meaning.runs(invocation.from(who + 1), invocation.more);
        return meaning;
    }
    let behind = who + 1 + usize::from(invocation.text(who + 1) == Some("-c"));
    text_at(&mut meaning, invocation, behind);
    meaning
}
