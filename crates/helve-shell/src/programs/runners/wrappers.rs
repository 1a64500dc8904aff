//! Programs that run their operands as they stand.

use crate::analysis::{DepartureKind, EffectKind, OpaqueReason};
use crate::programs::options::{Grammar, Item, Order, Place, read, read_from};
use crate::programs::{Invocation, Meaning, On, is_named};

/// A program that runs its operands.
struct Wrapper {
    names: &'static [&'static str],
    grammar: Grammar,
    /// How many operands stand before the command.
    before: usize,
    /// Options with which there is no command.
    none: &'static [&'static str],
    /// Options whose value is a file to write.
    writes: &'static [&'static str],
    /// Options that load code into the command or change who runs it.
    steers: &'static [(&'static str, DepartureKind)],
}

const PLAIN: Wrapper = Wrapper {
    names: &[],
    grammar: Grammar { order: Order::First, ..Grammar::NONE },
    before: 0,
    none: &[],
    writes: &[],
    steers: &[],
};

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &[
            "nohup",
            "eatmydata",
            "chronic",
            "ifne",
            "torsocks",
            "catchsegv",
            "fakeroot",
            "linux32",
            "linux64",
            "dbus-run-session",
            "i386",
            "x86_64",
            "proxychains",
            "proxychains4",
            "ts-node-dev",
            "winpty",
        ],
        grammar: Grammar {
            flags: "nvqR",
            values: "fils",
            names: &["quiet"],
            order: Order::First,
            ..Grammar::NONE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["nice"],
        grammar: Grammar {
            flags: "-",
            values: "n",
            names: &["adjustment="],
            numbers: true,
            order: Order::First,
            ..Grammar::NONE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["ionice"],
        grammar: Grammar {
            flags: "thV",
            values: "cnpPu",
            names: &["class= classdata= ignore pid= pgid= uid="],
            order: Order::First,
            ..Grammar::NONE
        },
        none: &["p", "P", "u", "pid", "pgid", "uid"],
        ..PLAIN
    },
    Wrapper {
        names: &["time", "gtime"],
        grammar: Grammar {
            flags: "apvqVlh",
            values: "fo",
            names: &["append format= output= portability verbose quiet"],
            order: Order::First,
            ..Grammar::NONE
        },
        writes: &["o", "output"],
        ..PLAIN
    },
    Wrapper {
        // As a program of its own, as POSIX wants it; in a shell it is a builtin.
        names: &["command"],
        grammar: Grammar { flags: "pvV", order: Order::First, ..Grammar::NONE },
        none: &["v", "V"],
        ..PLAIN
    },
    Wrapper {
        names: &["setsid"],
        grammar: Grammar { flags: "cfwhV", names: &["ctty fork wait"], order: Order::First, ..Grammar::NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["stdbuf"],
        grammar: Grammar {
            values: "ioe",
            names: &["input= output= error="],
            order: Order::First,
            ..Grammar::NONE
        },
        ..PLAIN
    },
    Wrapper {
        names: &["timeout", "gtimeout"],
        grammar: Grammar {
            flags: "fpv",
            values: "ks",
            names: &["foreground kill-after= preserve-status signal= verbose"],
            order: Order::First,
            ..Grammar::NONE
        },
        before: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["chrt"],
        grammar: Grammar {
            flags: "abdefimorRvGhV",
            values: "TPDp",
            names: &[
                "batch deadline fifo idle other ext rr reset-on-fork all-tasks max pid= sched-runtime= \
                 sched-period= sched-deadline= verbose",
            ],
            order: Order::First,
            ..Grammar::NONE
        },
        before: 1,
        none: &["p", "pid"],
        ..PLAIN
    },
    Wrapper {
        names: &["taskset"],
        grammar: Grammar {
            flags: "apchV",
            names: &["all-tasks pid cpu-list"],
            order: Order::First,
            ..Grammar::NONE
        },
        before: 1,
        none: &["p", "pid"],
        ..PLAIN
    },
    Wrapper {
        names: &["setarch"],
        grammar: Grammar { flags: "BFILRSTXZ3hvV", order: Order::First, ..Grammar::NONE },
        before: 1,
        ..PLAIN
    },
    Wrapper {
        names: &["unbuffer", "caffeinate", "rlwrap", "xvfb-run"],
        grammar: Grammar { flags: "padisuml", values: "ftwesn", order: Order::First, ..Grammar::NONE },
        ..PLAIN
    },
    Wrapper {
        names: &["prlimit", "numactl", "choom", "cpulimit"],
        grammar: Grammar {
            flags: "iv",
            values: "pnlemNCm",
            names: &[
                "pid= core? cpu? data? nofile? nproc? stack? as? fsize? rss? memlock? output= raw noheadings verbose \
                 cpunodebind= physcpubind= membind= interleave= preferred= localalloc limit= adjust= include-children",
            ],
            order: Order::First,
            ..Grammar::NONE
        },
        none: &["p", "pid"],
        ..PLAIN
    },
    Wrapper {
        names: &["strace"],
        grammar: Grammar {
            flags: "bcCdDfFhiknqrtTvVwxyYzZ",
            values: "aeEIoOpPsSuUX",
            names: &[
                "follow-forks trace= output= attach= env= user= summary summary-only syscall-times absolute-timestamps? \
                 relative-timestamps? seccomp-bpf decode-fds? string-limit= quiet? kill-on-exit tips? stack-traces? \
                 instruction-pointer failed-only successful-only status= signal= inject= fault= daemonize?",
            ],
            order: Order::First,
            ..Grammar::NONE
        },
        writes: &["o", "output"],
        none: &["p", "attach"],
        steers: &[
            ("E", DepartureKind::Environment),
            ("env", DepartureKind::Environment),
            ("u", DepartureKind::Change),
            ("user", DepartureKind::Change),
            ("inject", DepartureKind::Change),
            ("fault", DepartureKind::Change),
        ],
        ..PLAIN
    },
    Wrapper {
        names: &["ltrace"],
        grammar: Grammar {
            flags: "bcCfhiLrStTV",
            values: "aAdDeFlnopsuwx",
            names: &["align= config= demangle indent= library= output= where="],
            order: Order::First,
            ..Grammar::NONE
        },
        writes: &["o", "output"],
        none: &["p"],
        steers: &[("u", DepartureKind::Change), ("F", DepartureKind::Code), ("config", DepartureKind::Code)],
        ..PLAIN
    },
    Wrapper {
        names: &["valgrind"],
        grammar: Grammar {
            flags: "dhqv",
            names: &[
                "tool= leak-check= show-leak-kinds= track-origins= error-exitcode= log-file= xml= xml-file= \
                 trace-children= suppressions= gen-suppressions= num-callers= quiet verbose track-fds= \
                 callgrind-out-file= cachegrind-out-file= massif-out-file= vgdb= read-var-info= undef-value-errors= \
                 child-silent-after-fork= errors-for-leak-kinds= keep-stacktraces= show-reachable= time-stamp=",
            ],
            order: Order::First,
            ..Grammar::NONE
        },
        writes: &["log-file", "xml-file", "callgrind-out-file", "cachegrind-out-file", "massif-out-file"],
        ..PLAIN
    },
    Wrapper {
        names: &["ld.so"],
        grammar: Grammar {
            names: &[
                "library-path= preload= audit= inhibit-rpath= argv0= list verify inhibit-cache list-tunables \
                 list-diagnostics glibc-hwcaps-prepend= glibc-hwcaps-mask=",
            ],
            order: Order::First,
            ..Grammar::NONE
        },
        none: &["list", "verify", "list-tunables", "list-diagnostics"],
        steers: &[
            ("library-path", DepartureKind::Code),
            ("preload", DepartureKind::Code),
            ("audit", DepartureKind::Code),
            ("glibc-hwcaps-prepend", DepartureKind::Code),
        ],
        ..PLAIN
    },
];

/// What a wrapper does, if the program is one.
pub(super) fn understand(invocation: &Invocation<'_>) -> Option<Meaning> {
    match invocation.program {
        "busybox" | "toybox" => return Some(applet(invocation)),
        "gdb" | "lldb" => return Some(debugger(invocation)),
        "perf" => return Some(perf(invocation)),
        _ => {}
    }
    // The loader has the machine's name in its own: ld-linux-x86-64.so.2, ld-musl-aarch64.so.1.
    let loader = invocation.program.starts_with("ld-") && invocation.program.contains(".so");
    let program = if loader { "ld.so" } else { invocation.program };
    let wrapper = WRAPPERS.iter().find(|wrapper| is_named(wrapper.names, program))?;
    Some(wrapped(wrapper, invocation))
}

fn wrapped(wrapper: &Wrapper, invocation: &Invocation<'_>) -> Meaning {
    let args = invocation.args;
    let mut meaning = Meaning::default();
    let items = read(args, &wrapper.grammar);
    meaning.notes_unknown(&items);
    let mut operands = Vec::new();
    let mut has_command = true;
    for item in items {
        match item {
            Item::Flag(name, at) => {
                has_command &= !wrapper.none.contains(&name);
                if matches!(name, "p" | "pid") && wrapper.none.contains(&name) {
                    meaning.departs(DepartureKind::Change, at);
                }
                if let Some((_, kind)) = wrapper.steers.iter().find(|(known, _)| *known == name) {
                    meaning.departs(*kind, at);
                }
            }
            Item::Value(name, place) => {
                has_command &= !wrapper.none.contains(&name);
                if let Some((_, kind)) = wrapper.steers.iter().find(|(known, _)| *known == name) {
                    meaning.departs(*kind, place.option);
                    meaning.hides(OpaqueReason::Environment, Some(place.option));
                }
                if wrapper.none.contains(&name) {
                    // It changes or follows a process that runs already.
                    meaning.departs(DepartureKind::Change, place.option);
                }
                if wrapper.writes.contains(&name) {
                    output(&mut meaning, invocation, place);
                }
            }
            Item::Operand(at) => operands.push(at),
            Item::Open(at) => meaning.departs(DepartureKind::PossibleOption, at),
            Item::Maybe(at) => {
                meaning.departs(DepartureKind::PossibleOption, at);
                operands.push(at);
            }
            _ => {}
        }
    }
    if has_command {
        let first = operands.get(wrapper.before).copied().unwrap_or(args.len());
        let mut first = first;
        // The shell's own `time` may be read as a program's name: what it times may start with assignments.
        let assigns = |at: usize| invocation.text(at).is_some_and(|text| text.contains('='));
        while invocation.program == "time" && assigns(first) {
            first += 1;
        }
        meaning.runs(invocation.from(first), invocation.more);
    }
    meaning
}

/// A file for a trace; behind `|` or `!` stands a command.
fn output(meaning: &mut Meaning, invocation: &Invocation<'_>, place: Place) {
    if place.prefix(invocation.args).starts_with(['|', '!']) {
        meaning.runs_option_text(invocation.args, Place { skip: place.skip + 1, ..place });
    } else {
        meaning.writes_option(invocation.args, place);
    }
}

/// `busybox APPLET …`: the applet is a program of its own.
fn applet(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    match invocation.text(0) {
        Some("--install") => {
            meaning.departs(DepartureKind::Change, 0);
            let directory = invocation.args.iter().rposition(|arg| !arg.prefix().starts_with('-'));
            meaning.writes(directory.map_or(On::Unknown(Some(0)), On::Arg));
        }
        Some(option) if option.starts_with("--") => {}
        _ => meaning.runs(invocation.args, invocation.more),
    }
    meaning
}

/// `gdb --args PROGRAM …`, and the options that hold commands of the debugger, which can start a shell.
fn debugger(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    for (at, arg) in invocation.args.iter().enumerate() {
        let name = arg.prefix().trim_start_matches('-');
        if !arg.prefix().starts_with('-') {
            continue;
        }
        match name.split('=').next().unwrap_or(name) {
            "args" | "" => {
                meaning.runs(invocation.from(at + 1), invocation.more);
                return meaning;
            }
            "ex" | "eval-command" | "x" | "command" | "iex" | "init-eval-command" | "ix" | "init-command"
            | "o" | "one-line" | "s" | "source" | "k" | "O" | "S" => {
                meaning.departs(DepartureKind::Code, at);
                meaning.hides(OpaqueReason::Code, Some(at));
                let place = match name.contains('=') {
                    true => Place { option: at, arg: at, skip: arg.prefix().find('=').unwrap_or(0) + 1 },
                    false => Place { option: at, arg: at + 1, skip: 0 },
                };
                place.value(invocation.args).into_iter().for_each(|text| {
                    meaning.runs_lines(&text, |line| {
                        let line = line.trim_start();
                        ["shell ", "!", "platform shell "].iter().find_map(|start| line.strip_prefix(start))
                    });
                });
            }
            "p" | "pid" | "attach-pid" => meaning.does(EffectKind::Privilege, On::Machine),
            _ => {}
        }
    }
    let asks =
        invocation.args.iter().any(|arg| matches!(arg.text(), Some("--version" | "--help" | "-v" | "-h")));
    if !asks && meaning.opaque.is_empty() {
        // It takes its commands from whoever sits there.
        meaning.hides(OpaqueReason::Code, None);
    }
    meaning
}

const PERF: Grammar = Grammar {
    flags: "agvqdiBARsnSTNbLh",
    values: "eopCtjFcmuGIDrxk",
    names: &[
        "event= output= pid= all-cpus cpu= freq= call-graph= repeat= interval-print= detailed verbose quiet no-buildid \
         timestamp delay= field-separator= per-core per-socket no-aggr metric-only append big-num no-big-num",
    ],
    order: Order::First,
    ..Grammar::NONE
};

/// `perf stat COMMAND`, `perf record COMMAND`, `perf trace COMMAND`; the others print.
fn perf(invocation: &Invocation<'_>) -> Meaning {
    let mut meaning = Meaning::default();
    match invocation.text(0) {
        Some(name @ ("stat" | "record" | "trace")) => {
            let items = read_from(invocation.args, 1, &PERF);
            meaning.notes_unknown(&items);
            let mut first = invocation.args.len();
            let mut named = false;
            for item in items {
                match item {
                    Item::Value("o" | "output", place) => {
                        named = true;
                        meaning.writes_option(invocation.args, place);
                    }
                    Item::Operand(at) | Item::Maybe(at) => first = first.min(at),
                    _ => {}
                }
            }
            if name == "record" && !named {
                meaning.writes(On::Path("perf.data".to_owned(), Some(0)));
            }
            meaning.runs(invocation.from(first), invocation.more);
        }
        None
        | Some("report" | "list" | "annotate" | "version" | "diff" | "evlist" | "--version" | "--help") => {}
        Some(_) => {
            meaning.departs(DepartureKind::Code, 0);
            meaning.hides(OpaqueReason::Script, Some(0));
        }
    }
    meaning
}
