//! Programs that stop the machine or end processes.

use super::reading::{asks_for_help, deeds, first_word, mentions};
use super::{Invocation, Meaning, On};
use crate::analysis::{Arg, EffectKind};

pub(super) fn understand(program: &str, invocation: &Invocation<'_>) -> Option<Meaning> {
    let args = invocation.args;
    let power = |is: bool| deeds((is && !asks_for_help(args)).then_some((EffectKind::Power, On::Machine)));
    Some(match program {
        "shutdown" => power(!mentions(args, &["-c", "-k", "--show"])),
        "reboot" | "poweroff" | "halt" => power(!mentions(args, &["-w", "--wtmp-only"])),
        "pm-suspend" | "pm-hibernate" | "pm-suspend-hybrid" => power(true),
        "gnome-session-quit" | "xfce4-session-logout" => power(mentions(
            args,
            &["--power-off", "--reboot", "--halt", "--suspend", "--hibernate", "-h", "-r"],
        )),
        "init" | "telinit" => power(matches!(first_word(args), Some((_, "0" | "6" | "")))),
        "kexec" => {
            power(args.iter().any(|arg| matches!(arg.text(), Some("-e" | "--exec" | "-f" | "--force"))))
        }
        "rtcwake" => power(!mentions(args, &["no", "show", "on", "--list-modes", "disable"])),
        "systemctl" => systemctl(args),
        "loginctl" => match first_word(args) {
            Some((_, "poweroff" | "reboot" | "halt" | "suspend" | "hibernate" | "hybrid-sleep" | "")) => {
                power(true)
            }
            Some((_, verb)) if verb.starts_with("kill-") || verb.starts_with("terminate-") => {
                kill_something()
            }
            Some((_, "enable-linger")) => deeds([(EffectKind::Persist, On::Machine)]),
            _ => Meaning::default(),
        },
        "busctl" | "dbus-send" | "gdbus" | "qdbus" => power(bus_stops_machine(args)),
        "kill" => kill(args),
        "killall5" => deeds((!asks_for_help(args)).then_some((EffectKind::Kill, On::Machine))),
        "killall" | "pkill" | "skill" | "xkill" => {
            let lists =
                args.is_empty() || mentions(args, &["-l", "--list", "-V", "-0"]) || asks_for_help(args);
            if lists { Meaning::default() } else { kill_something() }
        }
        "fuser" => {
            let kills = args.iter().any(|arg| {
                let cluster = arg.prefix().strip_prefix('-');
                cluster.is_some_and(|cluster| {
                    cluster == "-kill" || (!cluster.starts_with('-') && cluster.contains('k'))
                })
            });
            if kills { kill_something() } else { Meaning::default() }
        }
        _ => return None,
    })
}

fn kill_something() -> Meaning {
    deeds([(EffectKind::Kill, On::Unknown(None))])
}

fn systemctl(args: &[Arg]) -> Meaning {
    if asks_for_help(args) {
        return Meaning::default();
    }
    let mut words =
        args.iter().filter(|arg| !arg.prefix().starts_with('-')).map(|arg| arg.text().unwrap_or(""));
    let verb = words.next();
    match verb {
        Some(
            "poweroff"
            | "reboot"
            | "halt"
            | "kexec"
            | "soft-reboot"
            | "suspend"
            | "hibernate"
            | "hybrid-sleep"
            | "suspend-then-hibernate"
            | "rescue"
            | "emergency"
            | "exit"
            | "isolate",
        ) => deeds([(EffectKind::Power, On::Machine)]),
        Some("start" | "restart" | "reload-or-restart" | "try-restart")
            if words.any(|unit| {
                matches!(
                    unit.trim_end_matches(".target"),
                    "poweroff" | "reboot" | "halt" | "shutdown" | "kexec" | "suspend"
                )
            }) =>
        {
            deeds([(EffectKind::Power, On::Machine)])
        }
        Some(
            "enable" | "reenable" | "start" | "restart" | "edit" | "link" | "preset" | "set-default"
            | "add-wants" | "add-requires" | "set-property" | "unmask" | "revert" | "reload-or-restart"
            | "try-restart" | "import-environment" | "set-environment",
        ) => deeds([(EffectKind::Persist, On::Machine)]),
        Some("stop" | "kill" | "disable" | "mask" | "reset-failed" | "daemon-reexec") => kill_something(),
        // A verb that is not known may be any of these.
        Some("") => deeds([(EffectKind::Power, On::Machine)]),
        _ => Meaning::default(),
    }
}

fn bus_stops_machine(args: &[Arg]) -> bool {
    let contains = |text: &str| args.iter().any(|arg| arg.prefix().contains(text));
    contains("login1")
        && ["PowerOff", "Reboot", "Halt", "Suspend", "Hibernate", "KExec"].iter().any(|method| {
            args.iter().any(|arg| {
                arg.prefix().rsplit(['.', ' ']).next().is_some_and(|last| last.starts_with(method))
            })
        })
}

fn kill(args: &[Arg]) -> Meaning {
    let mut deeds_found = Vec::new();
    let mut signal_seen = false;
    let mut at = 0;
    while at < args.len() {
        let text = args[at].text();
        match text {
            Some("-l" | "-L" | "--list" | "--table" | "--help" | "--version" | "-V") => {
                return Meaning::default();
            }
            Some("-s" | "-n" | "--signal" | "-q" | "--queue") if !signal_seen => {
                let signal = args.get(at + 1).and_then(Arg::text);
                if signal == Some("0") {
                    return Meaning::default();
                }
                signal_seen = true;
                at += 1;
            }
            Some("--") => signal_seen = true,
            // Signal 0 only asks whether the process is there.
            Some("-0") if !signal_seen => return Meaning::default(),
            Some(option) if option.starts_with('-') && !signal_seen => signal_seen = true,
            Some("-1" | "1") => deeds_found.push((EffectKind::Kill, On::Machine)),
            _ => deeds_found.push((EffectKind::Kill, On::Unknown(Some(at)))),
        }
        at += 1;
    }
    deeds(deeds_found)
}
