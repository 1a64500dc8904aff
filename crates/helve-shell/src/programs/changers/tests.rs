//! The tables of `tests/cases/changers_*.jsonl`, and that what is said about any argv points into it.

use proptest::prelude::*;

use super::super::cases::{WORKSPACE, check};
use super::super::{Deed, Invocation, On, understand};
use crate::Span;
use crate::analysis::{Arg, ArgPart, Input, More};

#[test]
fn files_and_archives() {
    check("changers_files.jsonl");
}

#[test]
fn disks_power_and_accounts() {
    check("changers_machine.jsonl");
}

#[test]
fn network_packages_and_databases() {
    check("changers_network.jsonl");
}

#[test]
fn commands_of_windows() {
    check("changers_windows.jsonl");
}

#[test]
fn programs_of_similar_names_are_not_known() {
    for program in ["format.sh", "mkfsx", "rebooter", "rm.sh", "shutdownd", "killer", "delete"] {
        let args = [Arg::known("-rf", Span { start: 0, end: 3 })];
        let invocation = Invocation {
            program,
            args: &args,
            input: &Input::Inherited,
            more: More::Nothing,
            outside: false,
            depth: Some(0),
            workspace: std::path::Path::new(WORKSPACE),
        };
        assert_eq!(understand(&invocation), None, "{program}");
    }
}

const PROGRAMS: [&str; 40] = [
    "rm",
    "mv",
    "cp",
    "ln",
    "install",
    "dd",
    "chmod",
    "chattr",
    "split",
    "patch",
    "rename",
    "zip",
    "7z",
    "ar",
    "cpio",
    "mkfs.ext4",
    "sgdisk",
    "parted",
    "diskutil",
    "shutdown",
    "systemctl",
    "kill",
    "crontab",
    "systemd-run",
    "sysctl",
    "curl",
    "wget",
    "rsync",
    "scp",
    "sftp",
    "nc",
    "socat",
    "http",
    "aria2c",
    "dig",
    "apt-get",
    "pip",
    "sqlite3",
    "psql",
    "del",
];

fn arg(word: &str) -> Arg {
    let span = Span { start: 0, end: 0 };
    match word.split_once('$') {
        Some(("", _)) => Arg::unknown(span),
        Some((known, _)) => {
            Arg { parts: vec![ArgPart::Known(known.to_owned()), ArgPart::Unknown], span, splits: false }
        }
        None if word.contains('*') => Arg { parts: vec![ArgPart::Glob(word.to_owned())], span, splits: true },
        None => Arg::known(word, span),
    }
}

/// The first part's text, with a pattern as it is written.
fn start(arg: &Arg) -> &str {
    match arg.parts.first() {
        Some(ArgPart::Known(text) | ArgPart::Glob(text)) => text,
        _ => "",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_points_into_the_argv(
        program in 0..PROGRAMS.len(),
        line in "((--?)?([a-zA-Z0-9@=:/.é,;!%{}<|]|of=|http://|host:|\\$|\\*){0,8} ){0,6}",
        more in 0..3usize,
    ) {
        let args: Vec<Arg> = line.split(' ').map(arg).collect();
        let more = [More::Nothing, More::Paths, More::Anything][more];
        let invocation = Invocation {
            program: PROGRAMS[program],
            args: &args,
            input: &Input::Inherited,
            more,
            outside: false,
            depth: Some(0),
            workspace: std::path::Path::new(WORKSPACE),
        };
        let meaning = understand(&invocation).unwrap_or_default();
        for Deed { on, .. } in &meaning.deeds {
            match on {
                On::Arg(at)
                | On::Host(_, Some(at))
                | On::Path(_, Some(at))
                | On::Matching(_, _, Some(at))
                | On::Unknown(Some(at)) => {
                    prop_assert!(*at < args.len());
                }
                On::Tail(at, skip) => prop_assert!(start(&args[*at]).is_char_boundary(*skip)),
                _ => {}
            }
        }
        for (_, at) in &meaning.departures {
            prop_assert!(*at <= args.len());
        }
    }
}
