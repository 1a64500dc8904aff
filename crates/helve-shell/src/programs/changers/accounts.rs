//! Programs that change who may do what on the machine, and what runs there by itself.

use super::super::options::{Grammar, Order};
use super::reading::{Reading, asks_for_help, deeds, first_word, long, mentions};
use super::{Invocation, Meaning, On};
use crate::analysis::{Arg, EffectKind, Input, More};
use crate::programs::Inner;

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    let args = invocation.args;
    let starts =
        |names: &[&str]| args.iter().any(|arg| names.iter().any(|name| arg.prefix().starts_with(name)));
    let verb = first_word(args).map_or("-", |(_, verb)| verb);
    let privileged = match program {
        "useradd" | "userdel" | "usermod" | "adduser" | "deluser" | "groupadd" | "groupdel" | "groupmod"
        | "addgroup" | "delgroup" | "chpasswd" | "chsh" | "chfn" | "vipw" | "vigr" | "gpasswd"
        | "newusers" | "insmod" | "rmmod" | "setenforce" | "semanage" | "apparmor_parser" | "aa-disable"
        | "aa-complain" | "auditctl" | "setcap" | "newuidmap" | "newgidmap" | "efibootmgr" => {
            !mentions(args, &["-h", "-v"])
        }
        "passwd" => !mentions(args, &["-S", "--status"]),
        "chage" => !mentions(args, &["-l", "--list"]),
        "visudo" => !starts(&["-c", "--check"]),
        "iptables" | "ip6tables" | "ebtables" | "arptables" => {
            !args.is_empty() && !args.iter().any(|arg| is_listing(arg.prefix()))
        }
        "iptables-restore" | "ip6tables-restore" => true,
        "nft" => {
            !args.is_empty()
                && !matches!(verb, "list" | "describe" | "monitor")
                && !mentions(args, &["-c", "--check"])
        }
        "ufw" => !matches!(verb, "status" | "version" | "show" | "-"),
        "firewall-cmd" => !args.is_empty() && !starts(&["--list", "--get", "--state", "--query", "--info"]),
        "sysctl" => {
            mentions(args, &["-w", "--write", "-p", "--load", "--system"]) || args.iter().any(assigns)
        }
        "modprobe" => !args.is_empty() && !starts(&["-n", "--dry-run", "--show", "-c", "--resolve", "-D"]),
        "update-alternatives" | "alternatives" => {
            !args.is_empty() && !starts(&["--display", "--list", "--query", "--get-selections"])
        }
        "timedatectl" | "hostnamectl" | "localectl" => verb.starts_with("set") || verb.is_empty(),
        "ip" => args.iter().any(|arg| {
            matches!(
                arg.text(),
                Some("add" | "del" | "delete" | "set" | "flush" | "replace" | "change" | "append")
            )
        }),
        "hwclock" => starts(&["-w", "-s", "--systohc", "--hctosys", "--set"]),
        _ => return persisting(program, invocation, verb),
    };
    Some(deeds((privileged && !asks_for_help(args)).then_some((EffectKind::Privilege, On::Machine))))
}

/// Whether an option of iptables lists rules: `-L`, `-nL`, `-S`.
fn is_listing(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|letters| {
        matches!(letters, "-list" | "-list-rules" | "-version" | "V" | "-help" | "h")
            || (!letters.starts_with('-') && letters.contains(['L', 'S']) && letters.len() <= 4)
    })
}

fn assigns(arg: &Arg) -> bool {
    !arg.prefix().starts_with('-') && (arg.prefix().contains('=') || arg.text().is_none())
}

fn persisting(program: &str, invocation: &Invocation<'_>, verb: &str) -> Option<Meaning> {
    let args = invocation.args;
    let persist =
        |is: bool| deeds((is && !asks_for_help(args)).then_some((EffectKind::Persist, On::Machine)));
    Some(match program {
        "crontab" => {
            let mut meaning =
                persist(!mentions(args, &["-l", "-V", "-h", "-T"]) && !args.is_empty() || args.is_empty());
            if let Input::Text(table) = invocation.input
                && !meaning.deeds.is_empty()
            {
                meaning.runs_lines(table, scheduled);
            }
            if let Some((file, _)) = first_word(args).filter(|_| !mentions(args, &["-u", "-l"])) {
                meaning.deeds.extend(deeds([(EffectKind::Read, On::Arg(file))]).deeds);
            }
            meaning
        }
        "launchctl" => persist(matches!(
            verb,
            "load"
                | "bootstrap"
                | "submit"
                | "enable"
                | "kickstart"
                | "start"
                | "unload"
                | "bootout"
                | "remove"
                | "setenv"
        )),
        "update-rc.d" | "chkconfig" | "insserv" => persist(args.len() > 1 && !mentions(args, &["--list"])),
        "rc-update" => persist(matches!(verb, "add" | "del" | "delete")),
        "systemd-run" => return systemd_run(invocation),
        _ => return None,
    })
}

fn systemd_run(invocation: &Invocation<'_>) -> Option<Meaning> {
    let grammar = Grammar {
        flags: "dGhPqrStV",
        values: "EHMpu",
        long: long![
            "user",
            "system",
            "scope",
            "unit" = Value,
            "property" = Value,
            "description" = Value,
            "slice" = Value,
            "slice-inherit",
            "remain-after-exit",
            "send-sighup",
            "service-type" = Value,
            "uid" = Value,
            "gid" = Value,
            "nice" = Value,
            "working-directory" = Value,
            "same-dir",
            "setenv" = Value,
            "pty",
            "pipe",
            "quiet",
            "collect",
            "shell",
            "wait",
            "on-active" = Value,
            "on-boot" = Value,
            "on-startup" = Value,
            "on-unit-active" = Value,
            "on-unit-inactive" = Value,
            "on-calendar" = Value,
            "on-clock-change",
            "on-timezone-change",
            "path-property" = Value,
            "socket-property" = Value,
            "timer-property" = Value,
            "no-block",
            "no-ask-password",
            "host" = Value,
            "machine" = Value
        ],
        order: Order::First,
        ..Grammar::NONE
    };
    let mut reading = Reading::new(invocation, &grammar);
    if reading.only_informs() {
        return Some(Meaning::default());
    }
    reading.add(EffectKind::Persist, On::Machine);
    let argv: Vec<Arg> = reading.operands().iter().map(|at| invocation.args[*at].clone()).collect();
    if !argv.is_empty() {
        let environment = Vec::new();
        let more = if reading.has_more() { invocation.more } else { More::Nothing };
        let inner =
            Inner::Argv { argv, more, environment, keeps_input: false, directory: None, elsewhere: false };
        reading.meaning.inner.push(inner);
    }
    reading.done()
}

/// The command of a line of a table for `cron`, behind five fields or one such as `@daily`.
fn scheduled(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    let fields = if rest.starts_with('@') { 1 } else { 5 };
    if !rest.starts_with(|first: char| first.is_ascii_digit() || "*@".contains(first)) {
        return None;
    }
    for _ in 0..fields {
        rest = rest.split_once([' ', '\t'])?.1.trim_start();
    }
    Some(rest)
}
